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
# # Start here
#
# For readers who know `glm` and have never met differential privacy. You will declare a schema, describe the
# records that you may not see, plan a budget, fit a logistic regression, read the table, write the report, and look at
# what the ledger says.
#
# The question: which women with breast cancer relapse or die within three years (`event3`)? The model is
# `event3 ~ age + size + grade3 + log1p(nodes) + hormon`: age in years, tumour size in three classes (mm),
# whether the grade is 3, number of positive lymph nodes, hormonal treatment.
#
# - The **private** records are the Rotterdam tumour bank, 2,982 women.
# - The **public** records are the trial of the German Breast Cancer Study Group, 686 women. Anybody may
#   download them.
#
# Both are in fact public, which is why they can stand in an example. We treat Rotterdam as if nobody could see
# it.

# %%
import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

rotterdam = hdp.datasets.load_rotterdam()
gbsg = hdp.datasets.load_gbsg()
formula = "event3 ~ age + size + grade3 + log1p(nodes) + hormon"

# %% [markdown]
# ## Who is protected, and against what
#
# Each woman in the private records is protected against everybody who sees the published numbers: readers,
# insurers, relatives, and people who already know the records of all the other women. An ordinary table of
# coefficients does not give this. Whoever knows all records but one can often work out the last one from exact
# coefficients.
#
# The fit adds random noise to the calculation. The noise is large enough that the published numbers would have
# been almost as likely had any one woman's record been replaced by any other. **Epsilon** says how nearly: no
# outcome is more than $e^\varepsilon$ times as likely with one record as with another.
#
# As odds: somebody knows every other record, and holds two possible records of one woman to be equally likely,
# "relapsed" and "did not", say. The odds are 1 to 1. This is the most that they can be after reading the
# results, whatever the results:

# %%
epsilons = np.array([0.1, 0.5, 1.0, 3.0])
odds = np.exp(epsilons)
pd.DataFrame({"epsilon": epsilons, "odds at most, to 1": odds, "probability at most": odds / (1 + odds)}).round(2)

# %% [markdown]
# Several releases from the same records add up: two of epsilon = 1 together guarantee epsilon = 2. So there must
# be a total, and somebody must count. That is the ledger, below. We shall allow a total of 3, the last row: it
# bounds the worst case over everything that is ever released.
#
# The guarantee is about what a woman's own record adds. It does not hide what is true of patients in general. If
# the results show that more positive nodes mean more relapses, a reader learns something about every woman with
# many nodes, in the data or not.
#
# ## The schema
#
# The custodian of the data writes it, from the protocol and the code book, without looking at the records. It
# fixes what `glm` reads off the data: bounds, levels, the reference level. Reading them off private rows would
# publish them. The oldest woman's age, for example, is one woman's age.

# %%
schema = hdp.Schema(
    age=hdp.Continuous(20, 90),  # years
    size=hdp.Categorical(["<=20", "20-50", ">50"]),  # mm; the first level is the reference
    grade3=hdp.Binary(),
    nodes=hdp.Continuous(0, 40),
    hormon=hdp.Binary(),
    event3=hdp.Binary(),
)
schema.to_yaml("schema.yaml")  # the custodian's data dictionary; Schema.from_yaml reads it back
schema

# %% [markdown]
# The last column says what becomes of missing cells. A record with a missing cell in a column of the model is left
# out of it, as in `glm`: among private and among public records. A value outside the bounds moves to the nearest
# bound. This happens to each record alone and without a word. A warning "32 values are missing" would tell something
# about the records, so there is none. (`complete=True` would declare that a column has no missing cell. Nobody has
# declared that here.)
#
# This matters here. `event3` is missing where a woman was lost to follow-up before three years. How many records are
# complete is then private, and has to be asked for, below. Because Rotterdam is in fact public we can say that
# 32 records are left out, 1.1%. Among the public women 131 of 686 are, which makes events look more frequent among the
# rest. A hazard model uses the time that all these women were observed; it is the right tool for such data, and the
# subject of *survival.py*.
#
# ## The ledger and the study
#
# The custodian also sets a total for the data set, once. Here it is epsilon = 3, kept in a file. A line says that the
# account is new: a ledger that should have been there, and was not found, would begin again from zero. Where the file
# exists it is opened, with what was spent and released before; with another total that is an error.

# %%
ledger = hdp.Ledger("start-here.db", dataset="rotterdam", epsilon=3)
study = hdp.Study(private=rotterdam, public=gbsg, schema=schema, ledger=ledger)
model = hdpf.logit(formula, data=study)
study

# %% [markdown]
# ## Describe the private women
#
# A paper begins with a table of who was studied, and so do we. `describe` releases one with noise, beside that of the
# public women. With `complete=True` it is of the records that are complete in the columns of the model, which is what
# a fit needs to know. Quartiles are not needed for that; without them the other numbers have less noise. Here is what
# epsilon = 0.2 would give, for nothing, and then the table itself:

# %%
columns = ["age", "size", "grade3", "nodes", "hormon", "event3"]
ask = hdp.describe(study, columns, complete=True, quantiles=False)
print(ask.plan(epsilon=0.2))

# %%
cohort = hdp.describe(study, columns, complete=True, quantiles=False, epsilon=0.2)
print(cohort.summary())

# %%
axes = cohort.plot()

# %% [markdown]
# The women are not alike. All German women had positive nodes, about half of those in Rotterdam had none; hormonal
# treatment and grade 3 differ even more. Differences beyond the shaded band, 0.1 standard deviations, are usually taken
# for imbalance, and here most are many times that. Any standard error that takes the spread of the covariates from the
# public women would be wrong. So we hand the table to the plan and to the fit.
#
# ## Plan before you spend
#
# `plan` predicts the standard errors at each epsilon. It uses the public rows, the schema and the description, reads
# no private record and costs nothing.

# %%
model.plan(epsilon=[0.1, 0.5, 1, 3], description=cohort)

# %% [markdown]
# Rows are coefficients on the log-odds scale; age is per year. The first column is what the public rows give
# alone, about German women; the others are of the estimate that a fit reports. At 0.1 they are larger: noise hides
# whether private coefficients are those of the public rows, and the standard error allows for that. Read along a row
# and ask which epsilon makes the standard error small enough for your question. The same over a fine grid:

# %%
figure = model.plan(epsilon=np.geomspace(0.05, 10, 25).round(3).tolist(), description=cohort).plot()
for panel in figure.axes:
    panel.axvline(1, color="#767676", linewidth=0.8, zorder=0)  # the choice made below

# %% [markdown]
# Below about 0.3 the private records hardly help, for `hormon` below about 1, as few women in Rotterdam had that
# treatment. Above about 2 the curves are flat: more epsilon would weaken
# the protection and add next to nothing, because sampling error is what remains. Between the two, choose the
# smallest epsilon whose standard errors answer the question, and leave some of the total for later questions.
# We take 1.
#
# ## Fit
#
# `fit` spends, as `describe` did. The charge is written to the ledger before a private record is read. The number of
# complete records and what the description says of the covariates come from `cohort`, at no further charge. Without
# `description=` a fit describes its own records in small, with a part of its epsilon that `plan` and the summary show.

# %%
result = model.fit(epsilon=1, description=cohort)
print(result.summary())

# %% [markdown]
# The noise comes from the operating system's source of randomness and cannot be seeded: whoever could repeat
# the noise could subtract it. So the numbers on this page differ from reader to reader, and the text quotes
# none of them.
#
# ## Read the table
#
# - **coef, std err, z, P, interval** are read as in `glm`, with one change: the standard error counts two
#   things, sampling (which other women might have been in the study) and privacy noise. Do not add anything for
#   privacy; it is in there.
# - The **p-values and intervals** come from 4,000 simulated errors, because the noise has heavier tails than
#   the normal distribution. Where none of the 4,000 is as large as the estimate the table has `<0.00025`.
# - The **second table** shows three estimates side by side. *Public only* is what `glm` says of the German women.
#   *Private only* uses the Rotterdam women, with noise; women whose covariates are unusual among the public rows
#   count less, which limits what one record can do. *Pooled* combines the two as a random-effects meta-analysis
#   combines two studies, coefficient by coefficient: one in which they disagree by more than their errors is left to
#   the private rows. The first table is the pooled one.
#   *Private vs public* tests whether they disagree. If you expect the German women to be quite unlike those in
#   Rotterdam, report *private only*.
# - The **noise share** says how much of each variance is due to privacy noise. Variances add up, standard
#   errors do not. Per coefficient:

# %%
sampling, privacy = np.diag(result.cov_sampling), np.diag(result.cov_privacy)
pd.DataFrame(
    {
        "std err": result.bse,
        "of sampling alone": np.sqrt(sampling),
        "of privacy alone": np.sqrt(privacy),
        "noise share": privacy / (sampling + privacy),
    }
).round(4)

# %% [markdown]
# What a `glm` of the public rows would have given is `fit_public`. It is ordinary maximum likelihood; it costs
# nothing. The last column is what the private records added: the new standard error in percent of the old.

# %%
public = model.fit_public()
pd.DataFrame(
    {
        "glm on public rows": public.params,
        "std err": public.bse,
        "pooled": result.params,
        "pooled std err": result.bse,
        "percent": 100 * result.bse / public.bse,
    }
).round(3)

# %%
axes = result.plot_coefficients()

# %% [markdown]
# At epsilon = 1 the intervals of the private and the pooled estimates should be clearly shorter than the public ones,
# except that of `hormon`, and lie in the same region (that of `age` looks short because it is per year). At a small
# epsilon they are longer, as the plan says. `hormon` is negative in most runs and `log1p(nodes)` clearly positive in
# nearly every one. Nobody was randomised to hormonal treatment in Rotterdam, so its coefficient is an association.
#
# **How far to trust the standard errors.** They need the spread of the covariates among the private women. The public
# rows were re-weighted and re-scaled to the described shares, means and standard deviations, and what noise leaves
# unknown of these is in the intervals. What is still taken from the public rows are the correlations between
# covariates. How often intervals of nominally 95% contain the truth in simulations with the covariates of these two
# studies is [measured](validation/shifted-covariates.md). `describe=False` takes the covariates to be distributed as in
# the public rows. Here that would be wrong, for `hormon` most of all: 11% of the women in Rotterdam had hormonal
# treatment, and 36% of the German ones, so Rotterdam tells less about `hormon` than the German rows suggest, and the
# interval would be too short.
#
# ## Odds ratios and predictions

# %%
result.odds_ratios().round(2)

# %% [markdown]
# An odds ratio belongs to one unit of its covariate: one year of age, one unit of log(1 + nodes). Two example
# patients, with the probability of relapse or death within three years. The interval is that of the mean, as
# `predict.glm` gives it; it is wide or narrow by the errors of the coefficients, privacy noise included.

# %%
patients = pd.DataFrame(
    {"age": [45, 65], "size": ["<=20", "20-50"], "grade3": [0, 1], "nodes": [0, 6], "hormon": [0, 1]},
    index=["45 y, small tumour, no node", "65 y, grade 3, 6 nodes, treated"],
)
result.predict(patients, ci=True).round(2)

# %% [markdown]
# Residuals, fitted values, the deviance and AIC do not exist here. They are computed from the private rows and
# were not released.

# %%
try:
    result.aic
except AttributeError as explanation:
    print(explanation)

# %% [markdown]
# ## Report
#
# The guarantee in words, for an ethics board:

# %%
print(result.guarantee.statement())

# %% [markdown]
# A paragraph for the methods section, filled in from the result:

# %%
facts, entry = result.facts, result.ledger_entry
print(
    f"We fitted a logistic regression ({facts.formula}) to {facts.records:,} private records of the Rotterdam tumour "
    f"bank and {facts.public_rows} complete public records of the GBSG trial, with hdpstats {hdp.__version__} "
    f"({facts.method}). All releases together satisfy {result.guarantee}; neighbouring data sets differ in one "
    f"person's record, and the number of all records is public. Records with missing cells were left out; the "
    f"number of the others, and the distribution of their covariates, were released with noise beforehand. "
    f"Bounds and levels were declared before the analysis (schema SHA-256 {schema.sha256[:12]}). "
    f"Private and public estimates were pooled as in a random-effects meta-analysis. "
    f"Standard errors, p-values and intervals include sampling error and privacy noise, "
    f"and take the correlations of covariates from the public records. The release is entry {entry.number} of the "
    f"custodian's ledger of {entry.dataset!r} (total epsilon = {float(ledger.budget.epsilon):g}, "
    f"head {entry.head[:12]})."
)

# %% [markdown]
# `result.disclosure()` is the same for a machine, or for the person who checks outputs before they leave: the
# loss, the mechanisms that ran, the ledger entry, hashes of schema, query and public rows, and what is not
# protected. `result.to_json(path)` keeps the whole result.

# %%
record = result.disclosure()
print(*record, sep=", ")
print("\nNot protected:", *record["not_protected"], sep="\n- ")

# %% [markdown]
# ## What the ledger says
#
# One row per charge, public facts only. Entry 1 opened the account.

# %%
ledger.history()

# %% [markdown]
# The same request again is free: the ledger returns the stored release, with the same noise. Free fresh draws
# would let anybody average the noise away. For the same reason this page costs nothing when you run it a second
# time in the same folder.

# %%
before = ledger.spent
again = model.fit(epsilon=1, description=cohort)
print("same numbers:", again.params.equals(result.params), "| charged:", ledger.spent.epsilon - before.epsilon)

# %% [markdown]
# The summary of such a result says where its numbers are from.

# %%
print(*[line for line in again.summary().as_text().splitlines() if "stored release" in line])

# %% [markdown]
# So is the same model written otherwise: another order of terms, another reference level, another centring or unit. The
# question is about the space that the columns span; the stored release answers it through a linear map, and so exactly.

# %%
other = 'event3 ~ hormon + I(2 * log1p(nodes)) + grade3 + relevel(size, ref="20-50") + scale(age, mean=50, sd=10)'
otherwise = hdpf.logit(other, data=study).fit(epsilon=1, description=cohort)
print(otherwise.conf_int().round(2).to_string())
print("ten years of age:", np.isclose(otherwise.params.iloc[-1], 10 * result.params["age"]), end=" | ")
print("charged:", ledger.spent.epsilon - before.epsilon)

# %% [markdown]
# A second draw has to be asked for, `fit(epsilon=1, replicate=2)`, and is charged. One fit with epsilon = 2 is better
# than two with epsilon = 1.
#
# ## When the file is corrected
#
# Say that twenty tumours were graded again. A stored release knows nothing of that: the ledger knows a data set by its
# name and version, not by its cells, and would return the numbers from the old file. So a corrected file is a new
# **version** of the data set. It is computed anew, and charged to the same account, because the women are the same.
# The old description is not of this file, and would be refused; this fit describes its own records.

# %%
corrected = rotterdam.copy()
corrected.loc[:19, "grade3"] = 1
second = hdp.Ledger("start-here.db", dataset="rotterdam", version=2, epsilon=3)
model_2 = hdpf.logit(formula, data=hdp.Study(private=corrected, public=gbsg, schema=schema, ledger=second))
result_2 = model_2.fit(epsilon=0.8)
print("version", result_2.ledger_entry.version, "| same numbers:", result_2.params.equals(result.params))
print(*[line for line in result_2.summary().as_text().splitlines() if "Of epsilon" in line])
print(second)

# %% [markdown]
# A request beyond what is left is refused before any private record is read.

# %%
try:
    model.fit(epsilon=2.5)
except hdp.InsufficientBudget as refusal:
    print(refusal)

# %% [markdown]
# The entries are a chain of hashes. `verify` recomputes all of it. Given the head of an entry, which
# `disclosure()` notes, it also shows that nothing up to that entry was cut off or rewritten.

# %%
print(ledger.verify(entry.head))

# %% [markdown]
# ## Without public rows
#
# Then the schema's bounds give the scale, and the noise is larger. Standard errors are no longer free: they
# need the curvature of the likelihood, which is private. So a part of epsilon is spent on a noisy copy of it, chosen
# from public facts (`se_share="auto"`); the summary shows it. `row_norm` is a declared bound on the length
# of a row whose covariates are scaled to [-1, 1]; women with longer rows count less. A smaller bound means less
# noise and a little less information.
#
# The curvature of 7 coefficients has 28 numbers to hide. With 2,982 women and the epsilon that is left, that is
# too many: such a fit is refused before it is charged, with what would help. `se_share=0` would ask for its
# coefficients alone. We ask a smaller question.

# %%
alone = hdp.Study(private=rotterdam, schema=schema, ledger=ledger)
small = hdpf.logit("event3 ~ grade3 + log1p(nodes)", data=alone, row_norm=1.0)
print(small.fit(epsilon=1))
print(ledger.remaining)

# %% [markdown]
# The total is spent. No further release from this data set can be charged to this account, by anybody. What
# was charged stays free.
#
# ## What is not protected
#
# - **The public rows.** They are used without noise. No private person may be among them.
# - **The number of private records**, the **schema**, the formula, epsilon, and that a fit was made.
# - **What is true of patients in general**, as said above.
# - **Against the analyst at this keyboard.** The private rows are in this Python process, as they are in this
#   example, and anybody who can run code in it can read them, or measure how long a fit takes. Here the package
#   protects against mistakes, and against everybody who sees only the releases. Against the analyst the rows
#   belong in another process, under the custodian's control.
# - **A schema written after a look at the data**, and a second ledger opened for the same people. The package
#   cannot notice either; the custodian can.
