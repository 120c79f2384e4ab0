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
# # Survival curves
#
# The first figure of most survival papers is Kaplan and Meier's, by arm, with the number at risk below; the first test
# is the log-rank test. Here both are released under differential privacy, from one noisy table of events and censorings
# in public intervals.
#
# The data are those of two studies in R's package survival: the trial of adjuvant chemotherapy for colon cancer, with
# three arms, and the Rotterdam tumour bank, women with breast cancer who may relapse or die before. They are public,
# which is why they can stand in an example; we treat them as if nobody could see them.
#
# 1. what curves would cost, before anything is spent,
# 2. the curves, the test, medians and restricted means,
# 3. the same without noise, for comparison,
# 4. a model's curve against them,
# 5. competing risks.

# %%
import matplotlib.pyplot as plt
import numpy as np

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

colon = hdp.datasets.load_colon().query("etype == 2").reset_index(drop=True)  # death, not recurrence
colon = colon.rename(columns={"status": "died"})[["time", "died", "rx", "age"]]
colon["rx"].value_counts()

# %% [markdown]
# ## What it would cost
#
# Declared are the arms, the outcome and a horizon. `times` are the ends of the intervals in which deaths are counted.
# Limits are stated there and nowhere else, so the ends are put where numbers are wanted: at years. Few intervals have
# little noise. `plan` reads no private row: without public rows it takes people as spread over what the schema
# declares.

# %%
schema = hdp.Schema(
    time=hdp.Duration(2922, unit="days", complete=True),
    died=hdp.Binary(complete=True),
    rx=hdp.Categorical(["Obs", "Lev", "Lev+5FU"], complete=True),
    age=hdp.Continuous(18, 90, complete=True),
)
study = hdp.Study(private=colon, schema=schema, budget=hdp.Budget(epsilon=5))
years = [365.25 * year for year in (1, 2, 3, 4, 5, 6, 7)]
request = hdpf.survfit("Surv(time, died) ~ rx", study, times=years)
plan = request.plan([0.1, 0.3, 1, 2])
plan

# %% [markdown]
# ## The curves
#
# Three arms of 300 need an epsilon of about 1: then the noise is smaller than what sampling gives. The three arms share
# it, since every patient is in one cell of the table.

# %%
curves = request.fit(epsilon=1)
print(curves)

# %%
axes = curves.plot(labels=["observation", "levamisole", "levamisole + 5-FU"])
plt.show()

# %% [markdown]
# The numbers at risk are noisy, and said to be. Points with bars are at the ends of intervals, at which people were
# counted. Between them the hazard is taken as constant: the line is what `curves.at(times)` gives, medians (dotted) are
# where it is one half, and the band allows for hazards that change as much within an interval as from it to the next.
#
# The table has a row per arm and end, the test a variance that counts the noise beside sampling. The hazard ratios are
# from the same table.

# %%
curves.tidy()

# %%
test = curves.logrank_test()
print(test)
print("the arms differ at 5 %:", test.p_value < 0.05)

# %% [markdown]
# `"Surv(time, died) ~ rx + strata(sex)"` would compare arms within the levels of sex, as R's `survdiff` does. Limits of
# medians are ends of intervals: they hold whatever happens in between, and an end near the median makes them narrow.
# Where times are recorded in whole years, say `recorded="at_ends"`.

# %%
curves.restricted_mean(5 * 365.25, differences=True)

# %%
curves.quantile([0.25, 0.5])

# %% [markdown]
# ## Without noise
#
# The same patients as if they were public: Kaplan-Meier's own estimate, equal to that of R's `survfit`. In a real study
# nobody could do this.

# %%
exact = hdpf.survfit("Surv(time, died) ~ rx", hdp.Study(public=colon.copy(), schema=schema), times=years).fit_public()
found, true = curves.tidy(), exact.tidy()["estimate"]
apart = found["estimate"] - true
print("root mean squared distance:", f"{np.sqrt(np.mean(apart**2)):.3f}")
print("log-rank without noise:", f"p = {exact.logrank_test().p_value:.4f}")
print("within the limits:", f"{true.between(found['conf_low'], found['conf_high']).mean():.0%}")

# %% [markdown]
# ## A model's curve
#
# A hazard model predicts survival for each patient; averaged over patients of an arm it should agree with that arm's
# curve. Here the model is fitted to public rows, the same ones, so that differences are those of the noise and of the
# model.

# %%
model = hdpf.hazard("Surv(time, died) ~ rx + age", hdp.Study(public=colon.copy(), schema=schema), intervals=years)
curves.compare(model.fit_public(), colon).round(3)

# %% [markdown]
# ## Competing risks
#
# Women with breast cancer relapse, or die before they do. An event declared as `Categorical` has its first level for no
# event, and causes besides. The estimate is Aalen and Johansen's.

# %%
women = hdp.datasets.load_rotterdam(harmonised=False)
relapsed, died = women["recur"] == 1, women["death"] == 1
women = women.assign(
    time=women["dtime"].where(~relapsed, women["rtime"]),
    event=np.select([relapsed, died], ["relapse", "death"], "none"),
)
schema = hdp.Schema(
    time=hdp.Duration(5478.75, unit="days", complete=True),  # 15 years
    event=hdp.Categorical(["none", "relapse", "death"], complete=True),
    meno=hdp.Binary(complete=True),  # 1: after menopause
)
study = hdp.Study(private=women, schema=schema, budget=hdp.Budget(epsilon=5))
years = [365.25 * year for year in (1, 2, 3, 5, 7, 10, 13)]
incidence = hdpf.survfit("Surv(time, event) ~ meno", study, times=years).fit(epsilon=1)
incidence.tidy().query("cause == 'death'")

# %%
axes = incidence.plot_incidence(labels=["before menopause", "after menopause"])
plt.show()

# %%
study.ledger
