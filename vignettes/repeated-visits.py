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
# # Repeated visits
#
# Patients of a clinic come again and again, and each visit is a row. Rows of one patient are correlated, and the
# patient, not the visit, must be protected. Here are the visits of 312 patients with primary biliary cholangitis
# (Mayo Clinic; Murtaugh et al. 1994, *Hepatology* 20, 126-134), 1 to 16 of each. At every visit somebody noted
# whether the liver was enlarged. How does that go with bilirubin, time and treatment?
#
# The data are public. We treat two thirds of the patients as private, and look at all of them at the end.

# %%
import numpy as np
import pandas as pd
import statsmodels.api as sm

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

visits = hdp.datasets.load_pbcseq()
visits = visits.assign(years=visits["day"] / 365.25)
is_public = visits["id"] % 3 == 0
visits.groupby("id").size().describe().round(1)

# %% [markdown]
# ## Declare who is protected
#
# `unit=` names the patient. `max_rows_per_unit=` is the most visits of a patient that a model uses; of more, a hash of
# the patient's name and of cells chooses: at random, whatever the order of the table. `n_max=` is the publicly known
# number of patients.

# %%
schema = hdp.Schema(
    hepato=hdp.Binary(),
    years=hdp.Continuous(0, 15, complete=True),
    bili=hdp.Continuous(0.1, 40, complete=True),
    trt=hdp.Binary(complete=True),
)
study = hdp.Study(
    private=visits[~is_public],
    public=visits[is_public],
    schema=schema,
    unit="id",
    max_rows_per_unit=8,
    n_max=210,
    budget=hdp.Budget(epsilon=8),
)
study

# %% [markdown]
# ## The average patient, or the average visit
#
# Those who died early came less often. So the *average patient* is iller than the patient at the *average visit*, and
# a coefficient may differ between them. Which one do you want to know? `correlation=` says it: each of a
# patient's n complete visits counts 1 / (1 + (n - 1) r).
#
# - `"person"`, the default, is r = 1: every patient counts the same;
# - `"independence"` is r = 0: every visit counts the same, as in `geeglm(corstr = "independence")`;
# - a number from 0 to 1 is between.
#
# Nothing chooses r for you: it is part of the question. But the price differs. One patient weighs up to W visits, and
# the noise is in proportion to W: 1 for the average patient, 8 for the average visit. A plan shows both.

# %%
FORMULA = "hepato ~ years + log(bili) + trt"
model = hdpf.logit(FORMULA, data=study)
print(model.plan(epsilon=[1, 4]))

# %% [markdown]
# ## Fit
#
# The fit spends 4. Two thirds of 312 patients are few: with thousands an epsilon of 1 does.

# %%
patient = model.fit(epsilon=4)
print(patient.summary())

# %% [markdown]
# Standard errors are over patients. How visits of a patient hang together is taken from the public patients: their
# residuals, summed patient by patient, and corrected for few patients. How many visits the private patients have, and
# which covariates, the fit asks with a small part of epsilon: the summary names the noisy numbers of people and of
# rows, and public patients are weighted and moved to be like them. Without 40 public people a fit spends a
# part of epsilon on a noisy Hessian in their place (`se_share=`), and its errors hold for any correlation.

# %%
visit = hdpf.logit(FORMULA, data=study, correlation="independence").fit(epsilon=4)
pd.DataFrame({"average patient": patient.params, "average visit": visit.params}).round(2)

# %% [markdown]
# ## What everybody knows
#
# On public rows alone the fit costs nothing, and equals what other software computes: generalised estimating equations
# with an independence working correlation and robust errors. Here are all patients.

# %%
whole = hdp.Study(public=visits, schema=schema, unit="id", max_rows_per_unit=16, n_max=312)
by_patient = hdpf.logit(FORMULA, data=whole).fit_public()
by_visit = hdpf.logit(FORMULA, data=whole, correlation="independence").fit_public()
pd.concat(
    {"average patient": by_patient.tidy(), "average visit": by_visit.tidy()},
    names=["of"],
).reset_index("of")[["of", "term", "estimate", "std_error"]].round(2)

# %%
rows = visits.dropna(subset=["hepato"]).assign(log_bili=lambda frame: np.log(frame["bili"]))
gee = sm.GEE.from_formula(
    "hepato ~ years + log_bili + trt",
    groups="id",
    data=rows,
    family=sm.families.Binomial(),
    cov_struct=sm.cov_struct.Independence(),
).fit()
bool(abs(gee.bse.to_numpy() - by_visit.bse.to_numpy()).max() < 1e-8)

# %% [markdown]
# With few patients robust errors are too small. `small_sample=True` corrects them (CR2), as R's `clubSandwich` does.

# %%
few = hdp.Study(public=visits[visits["id"] <= 45], schema=schema, unit="id", max_rows_per_unit=16, n_max=45)
of_few = hdpf.logit(FORMULA, data=few)
pd.DataFrame({"CR0": of_few.fit_public().bse, "CR2": of_few.fit_public(small_sample=True).bse}).round(3)

# %% [markdown]
# ## For the paper

# %%
print(patient.methods_text().split("References")[0])

# %%
patient.plot_coefficients()
