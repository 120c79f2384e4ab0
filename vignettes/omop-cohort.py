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
# # A cohort of an OMOP database
#
# Many hospitals keep their records in the OMOP common data model: the same tables and codes everywhere. This page
# takes a cohort from such a database by one SQL query, which the custodian writes into the settings of the site, and
# answers an analyst's question about it. No file of the cohort is ever made.
#
# The question: among people with a new diagnosis of type 2 diabetes, how do deaths within five years go with age, sex,
# a previous heart attack, and metformin in the first three months?
#
# The hospital's database is invented, with the true hazard ratios written in it, so that the answer can be judged. So
# are the public records of a trial in the same data model: the same query makes both cohorts.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np

import hdpstats.api as hdp

hospital = Path(tempfile.mkdtemp())  # nobody else may write there


def run(command: str) -> str:
    """Run a command of hdpstats as in a terminal, and return what it prints."""
    words = [sys.executable, "-m", "hdpstats.cli", *command.split()]
    done = subprocess.run(words, cwd=hospital, capture_output=True, text=True)
    return done.stdout + (done.stderr if done.returncode else "")


# %% [markdown]
# ## The database
#
# Five tables of the data model by plain SQL: `person`, `observation_period`, `condition_occurrence`, `drug_exposure`,
# `death`. Codes are OMOP's standard concepts: 201826 is type 2 diabetes, 4329847 a heart attack, 1503297 metformin,
# 8507 male, 8532 female. The hospital has 5,000 people; the trial published its 900.

# %%
TABLES = """
    -- u(i, k): a number between 0 and 1 for person i, the same at every run
    CREATE MACRO u(i, k) AS (hash(i * 1000 + k) % 1000003 + 0.5) / 1000003;

    CREATE TABLE latent AS
    SELECT i AS person_id, u(i, 1) < 0.55 AS male, 40 + 45 * sqrt(u(i, 2)) * u(i, 3) + 5 * u(i, 4) AS age,
           DATE '2008-01-01' + CAST(2500 * u(i, 5) AS INTEGER) AS diagnosed,
           u(i, 6) < 0.12 AS infarct, u(i, 7) < 0.6 AS metformin
    FROM range($first, $first + $people) AS t(i);

    CREATE TABLE person AS
    SELECT person_id, CASE WHEN male THEN 8507 ELSE 8532 END AS gender_concept_id,
           CAST(year(diagnosed) - floor(age) AS INTEGER) AS year_of_birth
    FROM latent;

    CREATE TABLE condition_occurrence AS
    SELECT person_id, 201826 AS condition_concept_id, diagnosed AS condition_start_date FROM latent
    UNION ALL SELECT person_id, 201826, diagnosed + 400 FROM latent WHERE u(person_id, 8) < 0.5
    UNION ALL SELECT person_id, 4329847, diagnosed - 1 - CAST(2000 * u(person_id, 9) AS INTEGER)
    FROM latent WHERE infarct;

    CREATE TABLE drug_exposure AS
    SELECT person_id, 1503297 AS drug_concept_id,
           diagnosed + CAST(90 * u(person_id, 10) AS INTEGER) AS drug_exposure_start_date
    FROM latent WHERE metformin;

    -- hazard ratios: 2.0 in ten years of age, 1.3 of men, 1.8 after a heart attack, 0.8 on metformin
    CREATE TABLE lives AS
    SELECT person_id, diagnosed, diagnosed + 365 + CAST(3300 * u(person_id, 11) AS INTEGER) AS censored,
           diagnosed + 91 + CAST(least(-ln(u(person_id, 12)) * 9000 / (pow(2.0, (age - 60) / 10)
               * CASE WHEN male THEN 1.3 ELSE 1 END * CASE WHEN infarct THEN 1.8 ELSE 1 END
               * CASE WHEN metformin THEN 0.8 ELSE 1 END), 20000) AS INTEGER) AS died
    FROM latent;

    CREATE TABLE observation_period AS
    SELECT person_id, diagnosed - 1500 AS observation_period_start_date,
           least(died, censored) AS observation_period_end_date
    FROM lives;

    CREATE TABLE death AS SELECT person_id, died AS death_date FROM lives WHERE died <= censored;
    DROP TABLE latent; DROP TABLE lives;
"""
for place, first, people in ((hospital / "cdm.duckdb", 0, 5_000), (hospital / "trial.duckdb", 50_000, 900)):
    with duckdb.connect(place) as cdm:
        cdm.execute(TABLES.replace("$first", str(first)).replace("$people", str(people)))
        tables = cdm.execute("SELECT table_name, estimated_size AS rows FROM duckdb_tables() ORDER BY 1").df()
        if people == 5_000:
            print(tables.to_string(index=False))
(hospital / "cdm.duckdb").chmod(0o600)  # a database that other users of the machine may read is not served

# %% [markdown]
# ## The data dictionary
#
# What each column of the cohort may hold is declared before anybody looks, here from the protocol. The follow-up is
# five years; whoever dies later counts as alive at its end.

# %%
schema = hdp.Schema(
    age=hdp.Continuous(40, 90, complete=True, label="age at diagnosis, years"),
    male=hdp.Binary(complete=True),
    infarct=hdp.Binary(complete=True, label="heart attack before"),
    metformin=hdp.Binary(complete=True, label="metformin within 90 days"),
    days=hdp.Duration(1826, unit="days", complete=True),
    died=hdp.Binary(complete=True),
)
schema.to_yaml(hospital / "dictionary.yaml")

# %% [markdown]
# ## The cohort is a query
#
# It stands in the settings, where the analyst never comes. One row a person; the first diagnosis is day 0; each column
# is a number, since dates are neither numbers nor texts and would be missing cells. Types come from the dictionary:
# nothing is inferred from what the cells hold. `ORDER BY person_id` makes the rows the same at every start: the site
# keeps a hash of them, and refuses to answer from other rows under the same account.
#
# Follow-up starts at day 90, so that who lived to get metformin has no head start: people who died or left before
# are not in the cohort.

# %%
COHORT = """
    WITH first AS (
      SELECT person_id, min(condition_start_date) AS day0
      FROM condition_occurrence WHERE condition_concept_id = 201826 GROUP BY person_id
    )
    SELECT year(day0) - year_of_birth AS age,
           gender_concept_id = 8507 AS male,
           EXISTS (FROM condition_occurrence c WHERE c.person_id = first.person_id
                   AND condition_concept_id = 4329847 AND condition_start_date < day0) AS infarct,
           EXISTS (FROM drug_exposure d WHERE d.person_id = first.person_id AND drug_concept_id = 1503297
                   AND drug_exposure_start_date BETWEEN day0 AND day0 + 90) AS metformin,
           least(date_diff('day', day0, observation_period_end_date) - 90, 1826) AS days,
           coalesce(death_date <= day0 + 90 + 1826, false) AS died
    FROM first
    JOIN person USING (person_id)
    JOIN observation_period o ON o.person_id = first.person_id
         AND day0 BETWEEN observation_period_start_date AND observation_period_end_date
    LEFT JOIN death ON death.person_id = first.person_id
    WHERE day0 - observation_period_start_date >= 365      -- a year of history: the diagnosis is new
      AND observation_period_end_date > day0 + 90
    ORDER BY first.person_id
"""
(hospital / "site.yaml").write_text(f"""\
format: hdpstats site
version: 1
rows:
  url: duckdb:///cdm.duckdb      # or postgresql://cdm@server/omop, with password_variable: CDM_PASSWORD
  sql: |{COHORT}
schema: dictionary.yaml
ledger: {{place: ledger.db, dataset: diabetes}}
timing: {{longest: 3600}}         # seconds: answers leave when they were predicted to, also from a busy machine
requests: {{unsigned: admitted}}  # or analysts' keys: see the page on asking by files
analysts:
  ann: {{mechanisms: all, models: all, epsilon: 3}}
""")
(hospital / "site.yaml").chmod(0o600)
print(run("ledger open ledger.db --dataset diabetes --epsilon 3"))
print(run("site check site.yaml --rows"))

# %% [markdown]
# The check is for the custodian's screen alone. It says what the rows hold that the dictionary does not expect. A query
# that fails, a column that is missing or a connection that is refused is an error here, not towards an analyst.
#
# ## The analyst asks
#
# Ann has the dictionary, the trial's records and no other row. She writes her request; the custodian answers it.

# %%
with duckdb.connect(hospital / "trial.duckdb", read_only=True) as trial:
    public = trial.execute(COHORT).df()
offline = hdp.Study(public=public, schema=schema)
formula = "Surv(days, died) ~ age + male + infarct + metformin"
hdp.request("hazard", formula, offline, epsilon=2, intervals=10, path=hospital / "request.json")
print(run("site answer site.yaml request.json --analyst ann --dry-run"))

# %%
print(run("site answer site.yaml request.json --analyst ann --out release.json"))
fit = hdp.read_result(hospital / "release.json", hospital / "request.json")
fit.summary()

# %% [markdown]
# ## Beside the truth
#
# Hazard ratios (of ten years for age), with the values that the database was made with.
#
# In 70 answers about this cohort and 80 about others drawn like it, intervals held the coefficients of 400,000 such
# people in 93 to 100 % of them. The four coefficients of the baseline are those of one curve, and nearly collinear: one
# draw of noise moves all four, up to three standard errors in one answer of 70. Read the curve of the hazard, or
# `fit.predict_survival`, and not these coefficients one by one.

# %%
import matplotlib.pyplot as plt

truth = {"age": 2.0, "male": 1.3, "infarct": 1.8, "metformin": 0.8}
terms = {name: next(term for term in fit.params.index if term.startswith(name)) for name in truth}
scale = {name: 10.0 if name == "age" else 1.0 for name in truth}
interval = fit.conf_int()
table = [
    (name, *np.exp(scale[name] * np.array([fit.params[term], *interval.loc[term]])), truth[name])
    for name, term in terms.items()
]
figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
for place, (_, estimate, low, high, true) in enumerate(reversed(table)):
    axes.plot([low, high], [place, place], color="C0")
    axes.plot(estimate, place, "o", color="C0", label="released, 95 % interval" if place == 0 else None)
    axes.plot(true, place, "|", color="C3", markersize=16, markeredgewidth=2, label="truth" if place == 0 else None)
axes.set(
    xscale="log",
    ylim=(-0.7, 3.5),
    yticks=range(4),
    yticklabels=[name for name, *_ in reversed(table)],
    xlabel="hazard ratio",
)
axes.set_xticks([0.6, 0.8, 1, 1.3, 1.8, 2.5], ["0.6", "0.8", "1", "1.3", "1.8", "2.5"])
axes.minorticks_off()
axes.axvline(1, color="0.7", linewidth=1)
axes.legend(loc="lower right", frameon=False, fontsize="small")
plt.show()

# %% [markdown]
# ## What stays
#
# The ledger has the charge, and the hash of the rows is kept beside the settings. When the database has grown, the
# cohort of the next extraction is version 2 of the data set (`ledger: {..., version: 2}`): it has releases of its own
# in the same account, and what was spent stays spent.

# %%
print(run("ledger show ledger.db"))
