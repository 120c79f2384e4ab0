# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Two hospitals in a notebook
# Every object that several sites have, for `test_lab.py` to look at.

# %%
# %load_ext hdpstats.jupyter
import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

women, public = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
schema = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True), event3=hdp.Binary(complete=True)
)
budget = {"Oslo": hdp.Budget(epsilon=4), "Bergen": hdp.Budget(epsilon=2)}
study = hdp.Study(
    private={"Oslo": women.iloc[::2], "Bergen": women.iloc[1::2]}, public=public, schema=schema, budget=budget
)
study

# %%
fit = hdpf.logit("event3 ~ age + hormon", data=study).fit(epsilon={"Oslo": 2, "Bergen": 1})
fit

# %%
fit.sites

# %%
fit.plot_sites("age")
# %%
one_by_one = {
    name: hdpf.logit("event3 ~ age + hormon", data=study.at(name)).fit(epsilon=1, replicate=2) for name in study.sites
}
groups = hdp.aggregate({"East": {"Oslo": one_by_one["Oslo"]}, "West": {"Bergen": one_by_one["Bergen"]}})
groups

# %%
groups.plot("hormon")

# %%
# %hdp ledger

# %%
# %hdp plan "event3 ~ age" --data study
