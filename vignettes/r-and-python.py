# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # One release, two languages
#
# Some work in Python, some in R, and they ask the same records. This notebook is Python with cells in R (`%%R`), in
# one process: one study, one ledger, one release, read on both sides. Then both sides check it against what R's own
# `coxph`, `glm` and `survfit` say where looking is free.
#
# The example is the National Wilms Tumor Study, 4,028 children with a tumour of the kidney. Its third trial is
# **public** here: it was published long ago. Its fourth, of 2,171 children, is treated as **private**. (Both are in
# fact public.) The question: how much does an unfavourable histology raise the hazard of a relapse, by stage and age?

# %%
# %load_ext hdpstats.jupyter

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
import r_bridge
from r_bridge import reference

children = hdp.datasets.load_nwtco()
children = pd.DataFrame(
    {
        "trial": children["study"],
        "unfavourable": (children["histol"] == 2).astype(int),  # by the central laboratory
        "stage": pd.Categorical(children["stage"].astype(str), list("1234")),
        "age": children["age"] / 12,  # years
        "time": children["edrel"] / 365.25,  # years to relapse or last follow-up
        "relapse": children["rel"],
    }
)
third = children[children["trial"] == 3].drop(columns="trial").reset_index(drop=True)
fourth = children[children["trial"] == 4].drop(columns="trial").reset_index(drop=True)
third.head()

# %% [markdown]
# ## Declare
#
# Follow-up ends at four years: in the third trial 274 of 282 relapses came before. Bounds, levels and horizon come from
# the protocol or from public records, never from the private ones.

# %%
schema = hdp.Schema(
    unfavourable=hdp.Binary(complete=True),
    stage=hdp.Categorical(["1", "2", "3", "4"], complete=True),
    age=hdp.Continuous(0, 16, complete=True),
    time=hdp.Duration(4, unit="years", complete=True),
    relapse=hdp.Binary(complete=True),
)
ledger = hdp.Ledger("wilms.db", dataset="wilms-4", epsilon=3)
study = hdp.Study(private=fourth, public=third, schema=schema, ledger=ledger)
study

# %% [markdown]
# Pages like this follow the theme of your notebook, light or dark. `%hdp` shows them by name, and plans; it never
# spends. Standard errors of log hazard ratios at each epsilon:

# %%
formula = "Surv(time, relapse) ~ unfavourable + stage + age"
# %hdp plan "{formula}" --epsilon 0.5 1 2 --link cloglog --intervals 16

# %% [markdown]
# The public trial is nearly as large as the private one. Its own standard errors are about its own children. Those of a
# fit allow for coefficients of the fourth trial that are not those of the third, and with epsilon = 2 they are about as
# large. What is gained is that they are about the children in question. If both trials disagree they will be larger.
#
# ## Ask, in Python

# %%
model = hdpf.hazard(formula, data=study, intervals=16, link="cloglog")
result = model.fit(epsilon=2)
result

# %% [markdown]
# Open *Estimates side by side*. The two trials treated children differently, and so hazards by stage may differ:
# the row *Private vs public* is a test. A coefficient whose public and private estimates are further apart than their
# errors is left to the private trial, and its standard error grows.
#
# A small part of epsilon went into averages of the covariates and numbers at risk, by which the public children are
# re-weighted and re-scaled for the standard errors.
#
# ## Read, in R
#
# `-i` hands objects to R. A result arrives as an S3 object with the methods of `glm`; nothing is charged.

# %% magic_args="-i result" language="R"
# print(result)
# cat("\n")
# print(confint(result, level = 0.9))

# %% language="R"
# par(mar = c(4.5, 4.5, 2, 1))
# plot(result, exponentiate = TRUE, xlab = "hazard ratio (95% interval)")

# %% [markdown]
# And back with `-o`. The numbers are the same to the last bit, whichever side computes them:

# %% magic_args="-i result,third -o in_r,back" language="R"
# in_r <- list(
#   coef = coef(result), vcov = as.vector(vcov(result)), confint = as.vector(confint(result)),
#   p = dp_tidy(result)$p.value,
#   survival = dp_predict_survival(result, third[1:5, ], times = 1:4)$survival
# )
# back <- result

# %%
in_python = {
    "coef": result.params,
    "vcov": result.cov_params().to_numpy().ravel(order="F"),
    "confint": result.conf_int().to_numpy().ravel(order="F"),
    "p": result.pvalues,
    "survival": result.predict_survival(third.head(), times=[1, 2, 3, 4])["survival"],
}
same = {name: np.array_equal(in_r[name], value) for name, value in in_python.items()}
print(same)
assert all(same.values())
assert back.to_json() == result.to_json()

# %% [markdown]
# ## Write here, read there
#
# Colleagues rarely share a process. They share files. Python writes the release, R reads it:

# %%
text = result.to_json("from-python.json")

# %% language="R"
# theirs <- dp_read_result("from-python.json")
# cat("a", class(theirs)[1], "with", length(coef(theirs)), "coefficients,", theirs$guarantee, "\n")
# dp_write_result(theirs, "from-r.json")

# %%
returned = hdp.Result.from_json("from-r.json")
same = returned.params.equals(result.params) and returned.release == result.release
print("from Python to R and back, equal to the last bit:", same)
assert same
assert returned.cov_params().equals(result.cov_params())

# %% [markdown]
# ## Ask, in R
#
# The study crosses as a handle. The rows stay where they are, and the ledger is one and the same, so R's question is
# charged to the account that Python opened. First the question that was charged already: it costs nothing and
# returns the stored release.

# %%
before = ledger.spent.epsilon

# %% magic_args="-i study -o again" language="R"
# again <- dp_hazard(
#   Surv(time, relapse) ~ unfavourable + stage + age,
#   data = study, epsilon = 2, intervals = 16, link = "cloglog"
# )

# %%
stored = again.params.equals(result.params)
print("the stored release:", stored, "| charged:", ledger.spent.epsilon - before)
assert stored
assert ledger.spent.epsilon == before

# %% [markdown]
# Then a new one: how much higher is the hazard after an unfavourable histology when stage and age are left out?

# %% magic_args="-o crude" language="R"
# crude <- dp_hazard(
#   Surv(time, relapse) ~ unfavourable,
#   data = study, epsilon = 1, intervals = 16, link = "cloglog"
# )
# exp(c(ratio = coef(crude)[["unfavourable"]], confint(crude)["unfavourable", ]))

# %%
pd.DataFrame(
    {
        "adjusted for stage and age (epsilon = 2)": result.hazard_ratios().loc["unfavourable"],
        "alone (epsilon = 1)": crude.hazard_ratios().loc["unfavourable"],
    }
).T.round(2)

# %% [markdown]
# (The two ratios have their noise to themselves; a difference smaller than their intervals says nothing.)
#
# That was the last of it. The next question is refused. An R error of the class of a Python error is raised as that:

# %%
try:
    r_bridge.call("dp_hazard", formula, data=study, epsilon=0.5)
except hdp.InsufficientBudget as refusal:
    print(refusal)

# %%
# %hdp ledger study

# %% [markdown]
# ## Check, where looking is free
#
# The same model, fitted to the third trial alone, is ordinary maximum likelihood. So R must find the same numbers.
# `r_bridge.reference` fits in R and returns data frames; `compare` puts a result next to one. First the `glm` of a row
# per child and interval, baseline included:

# %%
free = model.fit_public()
glm = reference.hazard_glm(formula, third, intervals=16, horizon=4, link="cloglog")
by_glm = free.compare(glm)
rows, error = glm.attrs["person_periods"], by_glm.relative_error
print(f"glm on {rows:,} rows: {len(by_glm.frame)} coefficients, relative error {error:.1e}")
assert error < 1e-6

# %% [markdown]
# Cox's model of the same four years knows no intervals, so it should be close, not equal:

# %%
seen = third["time"] <= 4
four_years = third.assign(relapse=third["relapse"] * seen, time=third["time"].clip(upper=4))
by_cox = free.compare(reference.cox(formula, four_years))
assert by_cox.frame["difference_in_se"].abs().max() < 0.25
by_cox

# %% [markdown]
# The same with R's own functions, as an independent check:

# %% magic_args="-i four_years,free" language="R"
# library(survival)
# cox <- coxph(Surv(time, relapse) ~ unfavourable + stage + age, data = four_years)
# ours <- coef(free)[c("unfavourable", "stage2", "stage3", "stage4", "age")]
# stopifnot(max(abs(ours - coef(cox)) / sqrt(diag(vcov(cox)))) < 0.25)
# round(rbind(coxph = coef(cox), hdpstats = ours), 3)

# %% [markdown]
# ## Curves beside Kaplan and Meier's
#
# Left the third trial, which anybody may see: R's `survfit` by histology, and the model's curves averaged over the same
# children. Right what the release says of two children, with bands that know of the noise. There is no Kaplan-Meier
# curve of the fourth trial here: each of its steps is the day on which a child relapsed.

# %%
observed = reference.kaplan_meier("Surv(time, relapse) ~ unfavourable", four_years)
curves = free.predict_survival(third, ci=False)
histology = third["unfavourable"].loc[curves["row"]].to_numpy()
means = curves.groupby([histology, "time"])["survival"].mean()
two = pd.DataFrame({"unfavourable": [0, 1], "stage": "2", "age": 3})
two.index = ["favourable histology", "unfavourable"]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
for code, colour in enumerate(["#000000", "#0072B2"]):
    steps = observed[observed["strata"] == f"unfavourable={code}"]
    left.step([0, *steps["time"]], [1, *steps["survival"]], where="post", color=colour)
    limits = {"y1": steps["conf_low"], "y2": steps["conf_high"], "step": "post"}
    left.fill_between(steps["time"], **limits, color=colour, alpha=0.15, linewidth=0)
    left.plot(means[code], "o", color=colour, markersize=3.5)
left.set(xlim=(0, 4.05), ylim=(0, 1.02), xlabel="years", ylabel="alive without relapse")
left.set_title("third trial: survfit, model (dots)", loc="left", fontsize="medium")
result.plot_survival(two, ax=right)
right.set(xlabel="years", ylabel="")
right.set_title("a child of 3 years, stage 2; epsilon = 2", loc="left", fontsize="medium")
right.legend(frameon=False, loc="lower left")
for panel in (left, right):
    panel.spines[["top", "right"]].set_visible(False)

# %%
years = [1, 2, 3, 4]
overall = reference.kaplan_meier("Surv(time, relapse) ~ 1", four_years, times=years)
model_mean = curves.groupby("time")["survival"].mean().loc[years]
both = pd.DataFrame({"survfit": overall["survival"].to_numpy(), "model's mean": model_mean})
assert (both["survfit"] - both["model's mean"]).abs().max() < 0.02
both.round(3)

# %% [markdown]
# ## What it cost, and whom
#
# Epsilon = 3 in all, as agreed at the beginning; who asks from here on gets the releases charged before. Passing
# objects between the languages, reading, drawing and comparing cost nothing. The private rows were in this process all
# the time, as they are in any notebook: nothing here protects them from the person at the keyboard. It protects the
# children from everybody who sees the page.
