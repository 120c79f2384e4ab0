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
# # A cancer trial, repeated in a hospital's file
#
# The German Breast Cancer Study Group (GBSG) asked whether hormonal treatment helps women with positive lymph nodes
# (Schumacher et al. 1994, *J Clin Oncol* 12, 2086-2093). The file is public: 686 women, 299 relapses or deaths, 246
# treated (Sauerbrei and Royston 1999, *J R Stat Soc A* 162, 71-94). A hospital has women of its own: those of
# Rotterdam with positive nodes, 1,546, in whom Royston and Altman (2013, *BMC Med Res Methodol* 13, 33) fitted the
# model that they validated in the trial.
#
# Here the trial's tables and figures are repeated in the hospital's file, which nobody sees. It is public too, which is
# why it can stand in an example. In R: [cancer-trial-in-r](cancer-trial-in-r.R).

# %%
import json
import tempfile
from pathlib import Path

import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

columns = ["age", "meno", "size", "grade3", "nodes", "pgr", "er", "hormon", "time", "event"]
trial = hdp.datasets.load_gbsg()[columns]
trial["time"] /= 365.25  # days to years
print(f"{len(trial)} women, {trial['event'].sum()} relapses or deaths, {trial['hormon'].sum()} treated")

# %% [markdown]
# ## 1. The hospital: file, schema, check, ledger
#
# The hospital exports its rows. The schema follows from the trial's rows and the protocol, not from its file: follow-up
# ends at five years. `check` is for the hospital's eyes only.

# %%
hospital = Path(tempfile.mkdtemp())
women = hdp.datasets.load_rotterdam().query("nodes > 0")[columns]
women.assign(time=women["time"] / 365.25).to_csv(hospital / "women.csv", index=False)

schema = hdp.Schema.from_public(
    trial,  # what is not named below is declared as the trial's rows are: er
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),  # mm
    nodes=hdp.Continuous(1, 40, complete=True),
    pgr=hdp.Continuous(0, 2000, complete=True),  # fmol/l
    time=hdp.Duration(5, unit="years", complete=True),
    **{name: hdp.Binary(complete=True) for name in ("meno", "grade3", "hormon", "event")},
)
rows = pd.read_csv(hospital / "women.csv", dtype=str, keep_default_na=False)
print(hdp.check(rows, schema))

# %%
ledger = hdp.Ledger(hospital / "ledger.db", dataset="rotterdam", epsilon=5, create=True)
study = hdp.Study(private=rows, public=trial, schema=schema, ledger=ledger)
covariates = "hormon + age + meno + size + grade3 + log1p(nodes) + log1p(pgr)"
model = hdpf.hazard(f"Surv(time, event) ~ {covariates}", data=study, link="cloglog")
print(model.plan([0.5, 1, 2, 3]))

# %% [markdown]
# For both files together little is gained. What a release buys is the hospital's own answer.
#
# ## 2. Table 1
#
# Patients by treatment, the trial's exact numbers beside the hospital's noisy ones. In the hospital doctors chose whom
# to treat: older women. So the ratio of treatment below is an association, adjusted for what is in the table.

# %%
table1 = hdp.describe(study, ["age", "meno", "size", "grade3", "nodes", "pgr"], by="hormon", epsilon=1)
print(table1.summary())

# %% [markdown]
# ## 3. Kaplan-Meier curves by treatment

# %%
curves = hdpf.survfit("Surv(time, event) ~ hormon", study, times=[0.5, 1, 1.5, 2, 3, 4, 5]).fit(epsilon=1)
curves.plot(labels=["no hormonal treatment", "hormonal treatment"])
print(curves.logrank_test())

# %% [markdown]
# ## 4. Hazard ratios, and a forest plot
#
# One fit, with the trial's rows beside the hospital's: *public only* is the trial, *private only* the hospital. The
# layout is that of a paper: reference levels, ratios with intervals, numbers of women and events below.

# %%
result = model.fit(epsilon=3)
labels = {"hormon": "hormonal treatment", "age": "age, per year", "meno": "after menopause", "grade3": "grade 3"}
labels |= {"size": "tumour size, mm", "log1p(nodes)": "log(1 + nodes)", "log1p(pgr)": "log(1 + progesterone)"}
within_five_years = trial.query("time <= 5")["event"].sum()
fits = {"Trial": model.fit_public(), "Hospital and trial": result}
print(hdp.regression_table(fits, labels=labels, events={"Trial": within_five_years}))

# %%
shown = {**labels, "size[T.20-50]": "tumour 20-50 mm", "size[T.>50]": "tumour over 50 mm"}
del shown["size"], shown["age"]
result.plot_coefficients(exponentiate=True, labels=shown, terms=list(shown), estimates=True)

# %% [markdown]
# ## 5. What leaves the hospital
#
# The text for the paper, the record for whoever checks outputs, and what was spent.

# %%
print(result.methods_text())
(hospital / "disclosure.json").write_text(json.dumps(result.disclosure(), indent=2))
print(result.guarantee.statement())
print(ledger)
