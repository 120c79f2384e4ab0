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
# # Hormonal treatment in a registry
#
# Does hormonal treatment prevent relapses of breast cancer? The German Breast Cancer Study Group asked a trial
# (GBSG, 686 women). The Rotterdam tumour bank is a registry: doctors chose whom to treat, older women with more
# positive nodes. Untreated and treated women are unlike each other, and the plain difference of their risks says
# little.
#
# The trial's rows are public. The registry's rows are private here: we ask them with differential privacy, and look at
# them only at the end, as they are in fact public as well.

# %%
import numpy as np
import pandas as pd
import statsmodels.api as sm

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

rotterdam, gbsg = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
schema = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    hormon=hdp.Binary(complete=True, label="hormonal treatment"),
    event3=hdp.Binary(),
    time=hdp.Duration(2557, unit="days"),
    event=hdp.Binary(),
)
study = hdp.Study(private=rotterdam, public=gbsg, schema=schema, budget=hdp.Budget(epsilon=10))
study

# %% [markdown]
# `event3` is relapse or death within three years; women who were followed for less have no value, and are left out.
#
# ## Plan the whole
#
# Two things are bought: a propensity model, the chance of treatment by covariates, and the weighted comparison. How
# should epsilon be divided? The plan is from public rows alone. It is known that one in nine women of the registry was
# treated, against four in ten of the trial.

# %%
FORMULA = "hormon ~ age + log1p(nodes) + size"
whole = hdp.propensity(FORMULA, data=study)
print(whole.plan_effect("event3 ~ hormon", [1, 2, 4], treated=0.11))

# %% [markdown]
# We take half for each.
#
# ## Who was treated
#
# The model is an ordinary private logistic regression. Of its estimates only that from the registry's women is kept:
# the trial's doctors had another rule.

# %%
ps = hdp.propensity(FORMULA, data=study, epsilon=2)
ps.tidy()[["term", "estimate", "std_error", "conf_low", "conf_high"]].round(2)

# %%
ps.plot_overlap()

# %%
ps.effective_size().round(3)

# %% [markdown]
# A treated woman weighs 1 less her chance of treatment, an untreated one her chance. So those count whose treatment was
# in doubt, in grey. What this leaves is predicted among the trial's women, re-weighted to noisy averages of the
# registry's; it costs nothing.
#
# ## The effect

# %%
w = ps.weights("overlap")
effect = hdp.treatment_effect("event3 ~ hormon", data=study, weighting=w, epsilon=2)
print(effect.summary())

# %%
effect.plot()

# %% [markdown]
# Standard errors count the sampling of outcomes, the estimation of the propensity model, which makes them smaller than
# the true propensity would, and all noise. The noise in the propensity's coefficients leaves some imbalance: the
# summary says how much is to be expected. It can be looked at:

# %%
balance = hdp.describe(study, ["age", "nodes", "size"], weighting=w, epsilon=2)
balance.plot()

# %% [markdown]
# With 339 treated women the noise of such a table is large, and its limits say so.
#
# ## Adjusted survival curves
#
# Three years are a choice. The same weights give both arms' curves, without relapse or death, over seven years: one
# noisy table of weights by year, arm and what happened.

# %%
years = [365.25 * k for k in range(1, 7)] + [2557]
curves = hdpf.survfit("Surv(time, event) ~ hormon", data=study, times=years, weighting=w).fit(epsilon=2)
curves.plot()

# %%
curves.restricted_mean(1826, differences=True).round(3)

# %%
print(curves.logrank_test())

# %% [markdown]
# Here are the hazard ratios of the registry's rows without noise, not weighted and weighted. An ordinary log-rank test
# would say that the treatment does harm.

# %%
open_rows = hdp.Study(public=rotterdam, schema=schema)
known = hdp.propensity(FORMULA, data=open_rows).fit_public().weights()
ratios = [
    hdpf.survfit("Surv(time, event) ~ hormon", open_rows, weighting=each).fit_public().logrank_test().hazard_ratios()
    for each in (None, known)
]
pd.concat(ratios, keys=["not weighted", "weighted"]).round(3)

# %% [markdown]
# Both arms' curves rest on the same propensity model, so that their errors go together; the difference of restricted
# means and the test count that, and the test is not the usual one, whose variance would be wrong for weighted people.
#
# ## Does it differ among women?
#
# A regression of the same weighted women, with few terms, has little noise: a marginal structural model. Its terms are
# the treatment and covariates of the propensity model. Here the odds ratio may change with the logarithm of nodes.

# %%
model = hdpf.logit("event3 ~ hormon * log1p(nodes)", data=study, weighting=w)
print(model.plan(epsilon=2))

# %%
differing = model.fit(epsilon=2)
print(differing.summary())

# %% [markdown]
# Public women are not pooled with private ones here: others treated them. The same model of the registry's rows,
# without noise:

# %%
known_model = hdpf.logit("event3 ~ hormon * log1p(nodes)", data=open_rows, weighting=known)
differing.compare(known_model.fit_public(), label="without noise").frame.round(2)

# %% [markdown]
# ## Beside the trial, and beside the rows
#
# In the trial everybody can compare the arms as they are. And as the registry is public too, here is what its rows
# give without noise.

# %%


def compared(frame: pd.DataFrame, weights: np.ndarray) -> float:
    """Return the difference of two weighted risks."""
    treated = (frame["hormon"] == 1).to_numpy()
    risks = [np.average(frame["event3"][treated == arm], weights=weights[treated == arm]) for arm in (False, True)]
    return risks[1] - risks[0]


trial, rows = gbsg.dropna(subset=["event3"]), rotterdam.dropna(subset=["event3"])
design = np.column_stack(
    [np.ones(len(rotterdam)), rotterdam["age"], np.log1p(rotterdam["nodes"]), rotterdam["size"] == "20-50",
     rotterdam["size"] == ">50"]
).astype(float)  # fmt: skip
chance = sm.Logit(rotterdam["hormon"], design).fit(disp=0).predict(design)
own = np.where(rotterdam["hormon"] == 1, 1 - chance, chance)[rotterdam["event3"].notna()]
private = effect.tidy().set_index("effect").loc["risk difference"]
pd.DataFrame(
    {
        "difference of risks": [
            compared(trial, np.ones(len(trial))),
            compared(rows, np.ones(len(rows))),
            compared(rows, own),
            private["estimate"],
        ]
    },
    index=[
        "trial, as randomised",
        "registry, not adjusted",
        "registry, weighted, no noise",
        "registry, weighted, private",
    ],
).round(3)

# %%
bool(private["conf_low"] < compared(rows, own) < private["conf_high"])

# %% [markdown]
# Without adjustment the treatment seems to do harm, as women at higher risk were treated. Among comparable women it
# helps, as in the trial.
#
# ## For the paper

# %%
print(effect.methods_text())

# %%
print(curves.methods_text())

# %%
print(study.ledger.spent)
