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
# # Survival analysis of records that you may not see
#
# For readers who know `coxph` and `survfit`, and who have read *Start here* (what epsilon guarantees, what a ledger
# does). Two analyses:
#
# 1. **Relapse or death after surgery for breast cancer.** Private: the Rotterdam tumour bank, 2,982 women. Public:
#    the trial of the German Breast Cancer Study Group (GBSG), 686 women.
# 2. **Death of residents of Olmsted County, by serum free light chains.** A random tenth of 7,874 people is the
#    public sample, the others are private.
#
# All these data are in fact public. We treat the private parts as if nobody could see them, until a section near the
# end.
#
# The baseline of a Cox model is a step function, and each step is the day of somebody's event. It cannot be released.
# Here time is cut into intervals, and the model is a **discrete-time hazard**: the probability of the event in an
# interval for those who reach it, with a smooth baseline of few coefficients.
#
# The order is that of every analysis: declare, describe, plan, fit, report. Registers lack cells, and these files do
# not. So we take the grade away, by a rule that anybody may know: of every twelfth woman in the Rotterdam file, and of
# every third who is older than 70. From here on those grades are missing.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.duration.api import PHReg, SurvfuncRight

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf


def in_years(frame):
    return frame.assign(time=frame["time"] / 365.25)


rotterdam = in_years(hdp.datasets.load_rotterdam())
gbsg = in_years(hdp.datasets.load_gbsg())

row = np.arange(len(rotterdam))
not_graded = (row % 12 == 0) | ((row % 3 == 0) & (rotterdam["age"] > 70))
rotterdam["grade3"] = rotterdam["grade3"].astype("Int64").mask(not_graded)

# %% [markdown]
# ## Declare: columns, bounds, horizon
#
# The custodian writes the schema without looking at the records. What survival adds is the **duration** and its
# *horizon*: follow-up ends there by declaration, as in a protocol. A woman who is followed for longer is censored at
# the horizon, and a relapse after it does not count. It must not be the longest time in the private records, which is
# the time of one woman. We take five years because of the German trial: 121 of its 686 women were followed for
# longer, and only 36 for more than six years.
#
# The clocks start at different moments: at surgery in Rotterdam, in Germany at randomisation, which comes after it.
# That is a difference to remember in the first months of follow-up.

# %%
schema = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),  # years
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),  # mm; the first level is the reference
    grade3=hdp.Binary(),  # may be missing
    nodes=hdp.Continuous(0, 40, complete=True),  # positive lymph nodes
    hormon=hdp.Binary(complete=True),  # hormonal treatment
    time=hdp.Duration(5, unit="years", complete=True),
    event=hdp.Binary(complete=True),  # relapse or death
)
ledger = hdp.Ledger("survival.db", dataset="rotterdam", epsilon=3)
study = hdp.Study(private=rotterdam, public=gbsg, schema=schema, ledger=ledger)

# %% [markdown]
# `complete=True` says that the column has no missing cell. The grade is not declared so: a woman without one is left
# out, as with `na.omit`, and how many are left out is private.
#
# ## Describe: who the private women are
#
# The first table is released with noise, before any model is. With `complete=True` it is of the women who are complete
# in the columns of the model. `Surv(time, event)` adds how many were followed for how long. What epsilon = 0.3 would
# give costs nothing to know; the table itself is charged:

# %%
columns = ["age", "size", "grade3", "nodes", "hormon", "Surv(time, event)"]
ask = hdp.describe(study, columns, complete=True, quantiles=False)
print(ask.plan(epsilon=0.3))

# %%
cohort = hdp.describe(study, columns, complete=True, quantiles=False, epsilon=0.3)
print(cohort.summary())

# %% [markdown]
# By our rule 350 women lack a grade. Those who have one are not like the women of the German trial: there are more
# tumours of grade 3, less hormonal treatment and fewer positive nodes among them. A standard error that
# took all this from the German rows would be wrong. So plan and fit are given the table. They re-weight and re-scale
# the public women until shares, means, spreads and numbers at risk are those of the table, as far as its noise allows
# ([how](explanation/raked-rows.md)). Counts of follow-up may be negative, since noise was added; they are not set to 0,
# since that would bias their sums.
#
# ## Choose on public rows, where looking is free
#
# Intervals, link and baseline have to be settled before a private record is touched. `fit_public()` is ordinary
# maximum likelihood on the public rows, R's `glm` on person-period data. It costs nothing; look as often as you like.
#
# - **Intervals** are a number of equal lengths up to the horizon, or your own cut points, such as a schedule of
#   visits. A time on a cut point belongs to the interval that ends there.
# - **Link.** With `"cloglog"` the coefficients are log hazard ratios: those of a proportional hazards model whose
#   times were grouped into the intervals (Prentice and Gloeckler 1978). With `"logit"` they are log odds ratios of
#   the event in an interval.
# - **Baseline.** `"log_spline"`, the default, is a natural cubic spline in the logarithm of time with `df`
#   coefficients (4), `"spline"` one in time (3), `"dummies"` has one coefficient per interval.
#
# Ratios in the German trial, with Cox's beside them (odds ratios in the two columns of the logit link):

# %%
formula = "Surv(time, event) ~ age + size + grade3 + log1p(nodes) + hormon"
covariates = ["age", "size[T.20-50]", "size[T.>50]", "grade3", "log1p(nodes)", "hormon"]
visits = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5]

candidates = {
    "5 years": {"intervals": 5},
    "20 quarters": {"intervals": 20},
    "60 months": {"intervals": 60},
    "14 visits": {"intervals": visits},
    "in time": {"intervals": 20, "baseline": "spline"},
    "dummies": {"intervals": 20, "baseline": "dummies"},
    "logit 5": {"intervals": 5, "link": "logit"},
    "logit 20": {"intervals": 20, "link": "logit"},
}
fits = {
    name: hdpf.hazard(formula, data=study, **{"link": "cloglog", **options}).fit_public()
    for name, options in candidates.items()
}
exog = pd.get_dummies(gbsg[["age", "size", "grade3", "hormon"]], drop_first=True, prefix_sep="[T.").astype(float)
exog = exog.rename(columns=lambda name: f"{name}]" if "[" in name else name)
exog = exog.assign(**{"log1p(nodes)": np.log1p(gbsg["nodes"])})[covariates]
cox = PHReg(gbsg["time"].clip(upper=5), exog, status=gbsg["event"] * (gbsg["time"] <= 5), ties="efron").fit()

ratios = np.exp(pd.DataFrame({"Cox": cox.params} | {name: fit.params[covariates] for name, fit in fits.items()}))
ratios.round(2)

# %% [markdown]
# Even yearly intervals lose little. With cloglog the number of intervals decides how finely you see time, not what
# the ratios mean; quarters will do. Odds ratios lie further from 1, more so when intervals are long.
#
# The ratios hardly depend on the baseline. Curves do. Splines in time and in its logarithm (lines with 95% bands),
# over the hazards of single quarters (dots):

# %%
woman = pd.DataFrame({"age": [53], "size": ["20-50"], "grade3": [0], "nodes": [3], "hormon": [0]})
free = fits["dummies"].baseline_hazard(at=woman)

figure, axes = plt.subplots(1, 2, figsize=(10, 3.9), sharey=True, layout="constrained")
titles = {"in time": "in time, df=3", "20 quarters": "in log time, the default"}
for (name, title), panel in zip(titles.items(), axes, strict=True):
    panel.errorbar(
        (free["start"] + free["stop"]) / 2, free["hazard"], fmt="o", markersize=4, linewidth=1, color="#0072B2",
        yerr=[free["hazard"] - free["conf_low"], free["conf_high"] - free["hazard"]], label="dummies",
    )  # fmt: skip
    fits[name].plot_hazard(ax=panel, at=woman)
    panel.set_title(f"spline {title}", loc="left", fontsize="medium")
    panel.set(xlabel="years since randomisation", ylabel="", ylim=(0, 0.1))
axes[0].set_ylabel("probability of relapse or death\nin a quarter, if it is reached")
heading = figure.suptitle("GBSG alone: 53 years, tumour of 20-50 mm, 3 nodes, no hormonal treatment", fontsize="medium")

# %% [markdown]
# Few relapses in the first months, most in the second year, then fewer. The spline in time is too stiff for the
# steep beginning, that in the logarithm of time follows it, and twenty coefficients follow chance. We take the
# default. (`knots=` places knots elsewhere, as shares of the intervals: with unequal cut points they count intervals,
# not years.)
#
# ## What a cap is, and why it is public
#
# A woman adds a term to the likelihood for every interval that she lives through. Without a limit she could pull at
# the coefficients in each of them, so the noise would have to grow with the number of intervals. In the first paper
# on this model (Nguyen and Hui 2017) it does, and with many intervals nothing but noise remains.
#
# But however finely time is cut, a woman has one thing to say: when she relapsed. So here the loss of an interval
# saturates where the hazard is well above the one expected, and where the hazards at which it saturates add up to more
# than a limit, the **cap**, up to the end of the study, she counts less. Neither biases a correct model: the saturating
# loss has the true coefficients as its target whatever the cap, and her weight is decided by her covariates alone. What
# both may do to a model that is not exactly true is in the errors, and vanishes with many women
# ([how](explanation/row-weights.md)).
#
# "Expected" means by the public fit. The cap is part of the question, known to everybody, and printed in the summary.
# Had it been tuned on the private records, it would itself tell something about them, outside of what epsilon counts.
#
# What a small cap costs is late follow-up of women at high risk. What a large one costs is noise. `plan` weighs this
# on public rows and the description, at no charge. Standard errors of log hazard ratios at epsilon = 1:

# %%
choices = {
    "20 quarters": {},
    "df=6": {"df": 6},
    "dummies": {"baseline": "dummies"},
    "60 months": {"intervals": 60},
    "cap=2": {"cap": 2},
    "cap=4": {"cap": 4},
}
planned = {
    name: hdpf.hazard(formula, data=study, link="cloglog", **{"intervals": 20, **options})
    .plan(1, description=cohort)
    .table
    for name, options in choices.items()
}
public_only = {"public only": planned["20 quarters"]["public only"]}
pd.DataFrame(public_only | {name: table["epsilon=1"] for name, table in planned.items()}).loc[covariates].round(3)

# %% [markdown]
# More intervals cost next to nothing; dummies and a larger cap do cost. Without `cap=` the cap of least predicted
# error is taken. So: quarters, the default baseline, cloglog. Now the choice of epsilon:

# %%
model = hdpf.hazard(formula, data=study, intervals=20, link="cloglog")
print(model.plan(epsilon=[0.1, 0.5, 1, 3], description=cohort))

# %% [markdown]
# At 0.1 the pooled standard errors are *larger* than those of the public rows alone. The latter are about German women,
# and pooled errors allow for private coefficients that are not the German ones. That of `hormon` is about as large as
# the public one even at 1, as few women in Rotterdam had that treatment.
#
# ## Fit
#
# Looking at public rows was free. This line spends, the number of complete women being known from the description:

# %%
result = model.fit(epsilon=1, description=cohort)
print(result.summary())

# %% [markdown]
# The noise differs from reader to reader, so the text quotes no estimate. Read the tables as in *Start here*:
# standard errors include privacy noise, and the first table is the estimate pooled from public and private women. New
# are the lines on link, intervals, baseline and cap, and the block *Checked on*, to which we shall come. The number of
# private records is that of complete women, from the description, which the line *Cohort* names.
#
# *Private only* has much larger errors, in the baseline most of all: the private rows alone hardly tell how the hazard
# changes over time. Pooled, the German women help with that; *Private vs public* tests whether the two disagree.

# %%
result.hazard_ratios().assign(GBSG_alone=np.exp(fits["20 quarters"].params)).round(2)

# %% [markdown]
# A ratio belongs to one unit of its covariate. For 12 nodes against 3 raise that of `log1p(nodes)` to the power
# log(13/4) = 1.18. Nobody was randomised to hormonal treatment in Rotterdam; its ratio is an association.
#
# ## Survival curves whose bands know of the noise
#
# Three women. The first has no positive node. No woman in the German trial was like that, so what we learn about her
# comes from Rotterdam, and from the assumption that log(1 + nodes) acts linearly.

# %%
patients = pd.DataFrame(
    {"age": [45, 55, 65], "size": ["<=20", "20-50", ">50"], "grade3": [0, 1, 1], "nodes": [0, 3, 12], "hormon": 0},
    index=["45 y, up to 20 mm, no node", "55 y, 20-50 mm, grade 3, 3 nodes", "65 y, over 50 mm, grade 3, 12 nodes"],
)
result.predict_survival(patients, times=[1, 3, 5], ci=True).round(3)

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
fits["20 quarters"].plot_survival(patients, ax=axes[0])
result.plot_survival(patients, ax=axes[1])
axes[0].set_title("GBSG alone: 686 public women", loc="left", fontsize="medium")
axes[1].set_title("with Rotterdam: 2,982 private women, epsilon = 1", loc="left", fontsize="medium")
axes[0].legend(loc="lower left", frameon=False, fontsize="small")
axes[1].get_legend().remove()
axes[0].set(xlabel="years since randomisation", ylabel="alive without relapse")
labels = axes[1].set(xlabel="years since surgery", ylabel="")

# %% [markdown]
# The bands are pointwise 95% limits on the scale of log(-log S). On the right they include sampling error *and* privacy
# noise, and should still be the narrower ones.
#
# The hazard of the second woman, and medians (`inf`: the curve, or its limit, stays above one half up to the
# horizon):

# %%
axis = result.plot_hazard(at=patients.iloc[[1]])
axis.set(xlabel="years since surgery", ylabel="probability of relapse or death\nin a quarter, if it is reached")
axis.set_title(f"{patients.index[1]}; epsilon = 1", loc="left", fontsize="medium")
result.predict_median(patients)

# %% [markdown]
# `baseline_hazard` gives the same as a table. Name a person: without `at=` every covariate is 0, and nobody has age
# 0.

# %%
result.baseline_hazard(at=patients.iloc[[1]]).iloc[3::4].round(3)

# %% [markdown]
# ## Next to Kaplan and Meier
#
# The product-limit curves of the German women by number of nodes, and the mean of the model's curves over the same
# women:

# %%
groups = pd.cut(gbsg["nodes"], [0, 3, 9, 60], labels=["1-3 nodes", "4-9 nodes", "10 nodes or more"])
curves = result.predict_survival(gbsg, ci=False)
means = curves.groupby([groups.loc[curves["row"]].to_numpy(), "time"], observed=True)["survival"].mean()

figure, panel = plt.subplots(figsize=(7, 4.4), layout="constrained")
for colour, group in zip(["#0072B2", "#E69F00", "#D55E00"], groups.cat.categories, strict=True):
    women = gbsg[groups == group]
    km = SurvfuncRight(women["time"], women["event"])
    power = np.exp(1.96 * km.surv_prob_se / (km.surv_prob * np.log(km.surv_prob)))
    panel.step([0, *km.surv_times], [1, *km.surv_prob], where="post", color=colour, linewidth=1.2)
    limits = km.surv_prob**power, km.surv_prob ** (1 / power)
    panel.fill_between(km.surv_times, *limits, step="post", color=colour, alpha=0.15, linewidth=0)
    panel.plot(means[group], "o", color=colour, markersize=3.5, label=f"{group} ({len(women)} women)")
panel.plot([], [], color="#767676", linewidth=1.2, label="lines: Kaplan-Meier with 95% limits")
panel.plot([], [], "o", color="#767676", markersize=3.5, label="dots: model at epsilon = 1, mean of the same women")
panel.set(xlim=(0, 5.05), ylim=(0, 1.02), xlabel="years since randomisation", ylabel="alive without relapse")
panel.set_title("686 public women", loc="left", fontsize="medium")
panel.legend(frameon=False, loc="lower left", fontsize="small")
panel.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# There is no such curve of the Rotterdam women on this page. Each step of a Kaplan-Meier curve is the day on which
# somebody relapsed or died, and its height gives the number at risk: whoever knows the day of a woman's relapse can see
# whether she is among them. The model's curve is a function of a few noisy coefficients, with a constant hazard in
# every quarter whether anything happened in it or not. Without a model `hdpf.survfit` releases curves with noise at a
# few public times, with numbers at risk and a log-rank test: see [survival-curves](survival-curves.py).
#
# ## Does the model fit?
#
# On public rows this question is free. `result.public_check` holds what the summary prints under *Checked on*:
# Harrell's concordance, Brier scores weighted for censoring (Graf and others 1999) beside those of one curve for
# everybody, and calibration in fifths of predicted risk. The public women took part in the fit, which flatters the
# figures a little.
#
# On private rows it is a question about private rows, and is charged. `evaluate` releases a noisy table of how
# many women there are by risk group and by what became of them, and computes the rest from that table. It charges for
# each woman once, so a small epsilon goes far.

# %%
print(f"concordance on public rows: {result.public_check.concordance[0].value:.3f}")
evaluation = model.evaluate(result, epsilon=0.5, groups=5, times=3)
print(evaluation.summary())

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained")
result.plot_calibration(ax=axes[0])
evaluation.plot_calibration(ax=axes[1])
for panel, title in zip(axes, ["686 public women: free", "2,982 private women: epsilon = 0.5"], strict=True):
    panel.set_title(title, loc="left", fontsize="medium")
    panel.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability of relapse or death")
axes[0].set_ylabel("observed (Kaplan-Meier), 95% intervals")
label = axes[1].set_ylabel("observed, 95% intervals with noise")

# %% [markdown]
# The risk groups are cut where fifths of the German women are, so those of Rotterdam do not have equal numbers. The
# predictions of a group are those of the German women in it. In the lowest group they have one to three nodes and
# many women in Rotterdam have none; a gap there need not be the model's fault.
#
# ## Report
#
# A paragraph for the methods section, with references, and the guarantee in words. It is of everything that the fit
# rests on: the description is a release of its own, and a part of what is stated. `result.disclosure()` is the record
# for a machine or an output checker.

# %%
print(result.methods_text())

# %%
print(result.guarantee.statement())

# %% [markdown]
# ## The second analysis: a random tenth is public
#
# Free light chains in blood rise with a failing kidney and with disorders of plasma cells. Do they predict death? The
# public people are a random tenth, drawn with a seed. So we know without asking that covariates are distributed alike,
# and that no cell is missing. `describe=False` says so, and all of epsilon goes into the coefficients. (Without it a
# fit describes its own people with a small part of epsilon.) A sample of this kind is the best public data there is,
# but it takes people who agree to be in it: nothing protects them.

# %%
flchain = hdp.datasets.load_flchain()
circulatory = (flchain["chapter"] == "Circulatory").map({True: "circulatory", False: "other"})
flchain = flchain.assign(
    time=flchain["futime"] / 365.25,
    flc=flchain["kappa"] + flchain["lambda_"],  # mg/dl
    cause=circulatory.where(flchain["death"] == 1, "none"),
)
is_public = np.random.default_rng(2012).random(len(flchain)) < 0.1

olmsted_ledger = hdp.Ledger("olmsted.db", dataset="flchain", epsilon=4, delta=1e-6)
olmsted = hdp.Study(
    private=flchain[~is_public],
    public=flchain[is_public],
    schema=hdp.Schema(
        age=hdp.Continuous(50, 105, complete=True),
        sex=hdp.Categorical(["F", "M"], complete=True),
        flc=hdp.Continuous(0.5, 20, complete=True),
        time=hdp.Duration(12, unit="years", complete=True),
        death=hdp.Binary(complete=True),
        cause=hdp.Categorical(["none", "circulatory", "other"], complete=True),  # the first level: no event
    ),
    ledger=olmsted_ledger,
)
death = hdpf.hazard("Surv(time, death) ~ age + sex + log(flc)", data=olmsted, intervals=24, link="cloglog")
pure = death.fit(epsilon=1, describe=False)
pure.hazard_ratios().assign(public_alone=np.exp(pure.public_only.params)).round(3)

# %% [markdown]
# ### Competing risks
#
# Declare the event `Categorical`, its first level meaning "none", and every other level gets its own hazard. For one
# cause, somebody who dies of another has survived that interval and is censored at its end. All causes are fitted in
# one release under one cap: a person dies once. But there are twice as many coefficients to hide, and fewer deaths
# for each.

# %%
causes = hdpf.hazard("Surv(time, cause) ~ age + sex + log(flc)", data=olmsted, intervals=24, link="cloglog")
competing = causes.fit(epsilon=1, describe=False)
competing.hazard_ratios().round(3)

# %%
people = pd.DataFrame(
    {"age": [65, 65, 80, 80], "sex": "F", "flc": [2, 6, 2, 6]},
    index=["65 y, 2 mg/dl", "65 y, 6 mg/dl", "80 y, 2 mg/dl", "80 y, 6 mg/dl"],
)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
pure.plot_survival(people, ax=axes[0])
axes[0].legend(loc="lower left", frameon=False, fontsize="small", title="women, free light chains")
axes[0].set(xlabel="years since the blood sample", ylabel="alive")
axes[0].set_title("all causes", loc="left", fontsize="medium")

incidence = competing.predict_incidence(people.iloc[[3]], times=np.linspace(0, 12, 400)).set_index("cause")
for cause, colour in {"circulatory": "#CC79A7", "other": "#E69F00"}.items():
    part = incidence.loc[cause]
    axes[1].plot(part["time"], part["incidence"], color=colour, linewidth=1.8, label=cause)
    axes[1].fill_between(part["time"], part["conf_low"], part["conf_high"], color=colour, alpha=0.15, linewidth=0)
axes[1].legend(loc="upper left", frameon=False, fontsize="small", title="cause of death")
axes[1].set(xlim=(0, 12), ylim=(0, 1.02), xlabel="years since the blood sample", ylabel="cumulative incidence of death")
axes[1].set_title(f"{people.index[3]}: competing causes", loc="left", fontsize="medium")
axes[1].spines[["top", "right"]].set_visible(False)

# %% [markdown]
# ### A small delta: noise in several rounds
#
# With `delta > 0` the bound may fail with that probability; take far less than one over the number of people. It allows
# normal noise and another mechanism: the sum of the private people's scores, each cut at a public length, is compared
# with the sum that public people lead one to expect, in a few noisy Newton steps. Nobody's follow-up ends early here.
# In return the estimates, not only their standard errors, assume private people who are like the public ones in
# covariates and in how long they are followed (re-weighted to a description, where there is one). In Olmsted County
# they are.

# %%
approximate = death.fit(epsilon=1, delta=1e-6, mechanism="clipped_newton", describe=False)
print(approximate.guarantee)
print(approximate.facts.method)

# %% [markdown]
# ## What the private records say without noise
#
# Only because these records are public in fact can we compute what maximum likelihood says about them. In a real
# study nobody can. Compare it with the *private only* estimates, in units of their standard errors:

# %%
opened = hdp.Study(public=flchain[~is_public], schema=olmsted.schema)
answer = hdpf.hazard(pure.facts.formula, data=opened, intervals=24, link="cloglog").fit_public()
key = pd.DataFrame({"no privacy": answer.params, "std err": answer.bse})
for name, fit in {"objective": pure, "clipped Newton": approximate}.items():
    key[name] = fit.private_only.params
    key[f"{name} std err"] = fit.private_only.bse
key.loc[["age", "sex[T.M]", "log(flc)"]].round(3)

# %% [markdown]
# In Olmsted County the public people are like the private ones and the model holds well enough. In Rotterdam it holds
# less well: effects fade with time since surgery. The columns below are fits without privacy to all complete Rotterdam
# women over five and over two years, and the private one:


# %%
def without_privacy(years):
    follow_up = hdp.Schema({**schema, "time": hdp.Duration(years, unit="years", complete=True)})
    women = hdp.Study(public=rotterdam, schema=follow_up)
    return hdpf.hazard(formula, data=women, intervals=4 * years, link="cloglog").fit_public().params


pd.DataFrame(
    {
        "no privacy, 5 years": without_privacy(5),
        "no privacy, 2 years": without_privacy(2),
        "private only": result.private_only.params,
        "std err": result.private_only.bse,
    }
).loc[covariates].round(3)

# %% [markdown]
# Where hazards are not proportional a ratio is an average over follow-up, in Cox's model as here. The cap ends the
# follow-up of women at high risk early, so the private average leans towards the first years.
#
# ## Covariates that change: several rows per person
#
# `Surv(start, stop, event)` takes late entry and covariates that change. A person then has several rows, and what
# must be protected is the person: the study names the column (`unit=`), how many rows of a person may count, and how
# many persons there are at most, as a declaration. How many rows a woman has is protected, too.
#
# An example: death as it depends on whether the tumour has come back. The German trial does not tell relapses from
# deaths, so there are no public rows. Then the cap is flat and the scale is the schema's, noise is larger, and
# standard errors need epsilon of their own (`se_share`). So the question is small, and more than half of
# epsilon is spent on its standard error.

# %%
raw = hdp.datasets.load_rotterdam(harmonised=False)
returned = raw["recur"] == 1
until_relapse = pd.DataFrame(
    {"pid": raw["pid"], "start": 0, "stop": raw["rtime"].where(returned, raw["dtime"]), "relapsed": 0}
).assign(death=raw["death"].where(~returned, 0))
after_relapse = raw[returned].assign(start=raw["rtime"], stop=raw["dtime"], relapsed=1)
long = pd.concat([until_relapse, after_relapse])[["pid", "start", "stop", "relapsed", "death"]]

changing = hdp.Study(
    private=long.assign(start=long["start"] / 365.25, stop=long["stop"] / 365.25),
    schema=hdp.Schema(
        start=hdp.Duration(10, unit="years", complete=True),
        stop=hdp.Duration(10, unit="years", complete=True),
        relapsed=hdp.Binary(complete=True),
        death=hdp.Binary(complete=True),
    ),
    unit="pid",
    max_rows_per_unit=2,
    n_max=3000,
    ledger=hdp.Ledger("rotterdam-long.db", dataset="rotterdam-long", unit="pid", epsilon=1),
)
after = hdpf.hazard(
    "Surv(start, stop, death) ~ relapsed", data=changing, intervals=40, baseline="spline", df=2, link="cloglog", cap=2
).fit(epsilon=1)
print(after.guarantee.statement())
after.hazard_ratios().round(1)

# %% [markdown]
# (Where limits are `nan`, the noisy curvature came out too noisy to be trusted; the estimate stands.) Three cautions
# that have nothing to do with privacy:
#
# - A relapse is a stage of the disease, not something that was assigned. The ratio describes; it does not say what it
#   would do to prevent relapses, and no survival curve belongs to it.
# - An interval belongs to the first row that reaches into it, so a relapse and a death in one interval count as a
#   death without relapse. Intervals must be short against the time between the two.
# - A covariate must be known at the start of its row. What is measured later belongs into a later row.
#
# And one that has: this is a second account for the same women, because an account counts either rows or persons.
# What both analyses together can tell about a woman is the sum of the two totals. That sum is the custodian's to
# watch; the package cannot know that two files speak of the same people.
#
# ## What the ledgers say

# %%
print(ledger)
print(olmsted_ledger)
print(olmsted_ledger.verify())

# %%
olmsted_ledger.history()

# %% [markdown]
# A column `mu` is how normal noise is counted: its squares add up, which costs less than adding epsilons. The first
# such release divides an account for good into a part for it and a part for the rest.
#
# ## Limits
#
# - **Few people times epsilon.** Noise does not shrink with the number of records, information grows with it. The
#   plan says so before anything is spent. For 300 women:

# %%
for epsilon, verdict in model.plan(epsilon=[1, 3], n=300).verdicts.items():
    print(f"epsilon = {epsilon:g}: {verdict}")

# %% [markdown]
# - **Censoring that tells something.** As in any survival analysis, people who leave must be like those who stay,
#   given the covariates. Privacy neither mends nor worsens this, but you cannot look at who left.
# - **Public people unlike the private ones.** Standard errors and plans take covariates and follow-up from public rows
#   that were re-weighted and re-scaled to the description; with `mechanism="clipped_newton"` the estimates do, too.
#   Correlations between covariates stay those of the public rows. With late entry, strata or several rows per person
#   public rows are taken as they are, and where they differ intervals can be too short; `se_share` spends a part of
#   epsilon on not having to assume it. The cap is always that of the public fit.
# - **Hazards that are not proportional.** The private ratio is an average that leans to early follow-up. Ask about a
#   shorter horizon, where it is not an average of unlike things.
# - **Curves far out.** The baseline late in follow-up rests on few people, public ones mostly. Bands say so, but only
#   for a spline that fits.
# - **Missing values.** A person whose time, event or covariates lack a cell is left out, as with `na.omit`. That is
#   right where cells are missing completely at random or depending on covariates of the model, and biased where they
#   are missing because of the outcome.
# - **What a curve says about everybody.** A survival curve by stage tells every patient of that stage something about
#   herself, in the data or not. Differential privacy does not hide what is true of patients in general.
