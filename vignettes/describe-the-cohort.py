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
# # Describe the cohort
#
# The first table of a paper says who the patients were: how many, how old, how many cells are missing. Here its
# numbers are released under differential privacy, from records that nobody sees.
#
# The data are those of the trial of adjuvant chemotherapy for colon cancer in R's package survival: 929 patients in
# three arms, with missing cells of their own. They are public, which is why they can stand in an example. We treat
# 729 of them as if nobody could see them, and 200 as if they had been published.
#
# 1. the file and its check, by the custodian who holds it,
# 2. what a table would cost, before anything is spent,
# 3. the table,
# 4. the balance of the arms,
# 5. how many patients are complete.

# %%
import matplotlib.pyplot as plt

import hdpstats.api as hdp

colon = hdp.datasets.load_colon().query("etype == 2")  # death, not recurrence
colon = colon.assign(extent=colon["extent"].astype(int), differ=colon["differ"].astype("Int64"))
published = colon["id"] % 5 == 1
private = colon[~published].head(729)
public = colon[published].reset_index(drop=True)
colon[["rx", "age", "nodes", "differ", "extent"]].head()

# %% [markdown]
# ## 1. The file and its check
#
# The schema says what each column may hold. It comes from the protocol, not from the records. Two columns have missing
# cells; of the others the protocol knows that they have none, and `complete=True` says so. That matters: a column that
# may have missing cells is described by one more number, and all numbers share the noise.

# %%
schema = hdp.Schema(
    rx=hdp.Categorical(["Obs", "Lev", "Lev+5FU"], complete=True),
    age=hdp.Continuous(18, 90, complete=True),
    sex=hdp.Binary(complete=True),
    obstruct=hdp.Binary(complete=True),
    adhere=hdp.Binary(complete=True),
    extent=hdp.Categorical(["1", "2", "3", "4"], complete=True),
    differ=hdp.Categorical(["1", "2", "3"]),
    nodes=hdp.Continuous(0, 20),
    time=hdp.Duration(3000, unit="days"),
    status=hdp.Binary(),
)

# %% [markdown]
# Before the file is used, the custodian compares it with the schema. The result is for the custodian only: its numbers
# are exact.

# %%
print(hdp.check(private, schema))

# %% [markdown]
# A file that is coded otherwise would be found here. The same file with arms in lower case and the event coded 1 and 2:

# %%
wrong = private.assign(rx=private["rx"].astype(str).str.lower(), status=private["status"] + 1)
print(hdp.check(wrong[["rx", "status"]], hdp.Schema(rx=schema["rx"], status=schema["status"])))

# %% [markdown]
# ## 2. What it would cost
#
# A study holds the private records behind an account. `describe` without an epsilon is a request, which spends nothing.

# %%
study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=3))
columns = ["age", "sex", "obstruct", "adhere", "extent", "differ", "nodes"]
request = hdp.describe(study, columns, by="rx")
plan = request.plan([0.2, 0.5, 2])
for epsilon, words in plan.verdicts.items():
    print(f"epsilon = {epsilon:g}: {words}")

# %% [markdown]
# The groups cost nothing: a patient is in one of them only. But the noise is the same number of patients in each, so it
# hurts small groups more. For the whole cohort a smaller epsilon is enough.

# %%
print(hdp.describe(study, columns).plan([0.2, 0.5]))

# %% [markdown]
# ## 3. The table
#
# With an epsilon it is released, and charged.

# %%
table1 = hdp.describe(study, columns, by="rx", epsilon=2)
print(table1.summary())

# %% [markdown]
# After ± stands half the width of the 95 % interval, in which sampling and privacy noise are counted. A number that
# would be hidden by its noise is N/A. The same numbers for other software:

# %%
table1.tidy().query("variable == 'nodes'")

# %% [markdown]
# The same request again is answered from the ledger, for nothing.

# %%
again = hdp.describe(study, columns, by="rx", epsilon=2)
print("the same numbers:", again.tidy().equals(table1.tidy()), "- spent:", float(study.ledger.spent.epsilon))

# %% [markdown]
# `table1.summary().as_latex()` and `as_html()` give the table for a document, `table1.to_docx("table1.docx")` a Word
# file, and `table1.disclosure()` the record for an output checker.
#
# ## 4. The balance of the arms
#
# In a randomised trial the arms should differ by chance only. Standardised differences from the first arm, with
# intervals that count the noise:

# %%
axes = table1.plot(between="groups")
plt.show()

# %% [markdown]
# Every point may be off by chance, and by noise: the intervals say so. The published patients differ from the private
# ones by chance too:

# %%
table1.balance().query("variable == 'age'")

# %% [markdown]
# ## 5. How many are complete
#
# A regression leaves out who lacks a cell of the model. With `complete=True` only the patients count who have all named
# cells, outcome included: their number and their moments are what a fit of these columns needs to know.

# %%
complete = hdp.describe(study, ["age", "nodes", "differ", "status"], complete=True, quantiles=False, epsilon=0.5)
n = complete.tidy().query("statistic == 'n'").iloc[0]
print(f"complete: {n['estimate']:.0f}, 95 % interval {n['conf_low']:.0f} to {n['conf_high']:.0f}, of {len(private)}")
print("left:", float(study.ledger.remaining.epsilon))
