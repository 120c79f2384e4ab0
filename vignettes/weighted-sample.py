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
# # Publish once, then ask anything
#
# A fit of one model answers one question. Here the custodian sells something else: **weights for public records** that
# make these stand for the private ones. They are charged once, under differential privacy. After that the weighted
# public records are a data set like any other. Every table and model of it is free, by anybody, in any software.
#
# The question is that of a registry and a trial. The German Breast Cancer Study Group published the records of 686
# women of its trial. The Rotterdam tumour bank has women with the same disease, whose records stay in Rotterdam. Trials
# choose their patients. What would the trial have looked like with the women of Rotterdam?
#
# 1. the two groups of women, and how they differ,
# 2. **hybrid weights**: noisy counts of combinations of levels (Wang et al. 2018),
# 3. analyses of the weighted records: here, in statsmodels, in scikit-learn,
# 4. **importance weights**: a noisy density ratio, for continuous columns (Ji and Elkan 2013),
# 5. what a colleague gets, and what the ledger says,
# 6. when not to do this,
# 7. the same in R (the only part that needs it).

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.linear_model import LogisticRegression

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

# %% [markdown]
# ## 1. Two groups of women
#
# The trial took women with positive lymph nodes. The registry has others too, so its custodian first makes the trial's
# criterion the registry's: 1,546 of the 2,982 women have positive nodes. Who belongs to the private data set is the
# custodian's decision, and the number is public.
#
# The number of nodes is cut into classes. The cut points come from the field's custom, not from the records.


# %%
def with_classes(frame):
    """Return a copy of the frame with classes of the number of positive nodes."""
    classes = pd.cut(frame["nodes"], [-1, 0, 3, 9, 100], labels=["0", "1-3", "4-9", "10+"])
    return frame.assign(node_class=classes.cat.remove_unused_categories())


registry = with_classes(hdp.datasets.load_rotterdam())
trial = with_classes(hdp.datasets.load_gbsg())
node_positive = with_classes(registry[registry["nodes"] > 0]).reset_index(drop=True)
print(f"{len(node_positive):,} private women, {len(trial)} public ones")

# %% [markdown]
# Such a table of baseline characteristics is what one would ask of the custodian, or find in a paper. (Both data sets
# are in fact public. This page looks at the private one here, and later to see how well things went, and nowhere else.)

# %%
characteristics = {
    "age, mean": lambda d: d["age"].mean(),
    "grade 3": lambda d: d["grade3"].mean(),
    "tumour > 50 mm": lambda d: (d["size"] == ">50").mean(),
    "4 nodes or more": lambda d: (d["nodes"] > 3).mean(),
    "hormonal treatment": lambda d: d["hormon"].mean(),
    "progesterone receptors, mean": lambda d: d["pgr"].mean(),
    "event within 3 years": lambda d: d["event3"].mean(),
}
women = {"trial (public)": trial, "registry (private)": node_positive}
pd.DataFrame({name: {key: of(d) for key, of in characteristics.items()} for name, d in women.items()}).round(2)

# %% [markdown]
# The great difference is the grade: three in four against one in four. Some of it is biology and some is the
# pathologist. More trial patients had hormonal treatment, because the trial was about it.
#
# ## 2. Hybrid weights
#
# The schema as always: what the custodian declares, without looking.

# %%
schema = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),  # years
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),  # mm
    grade3=hdp.Binary(complete=True),
    nodes=hdp.Continuous(1, 40, complete=True),
    node_class=hdp.Categorical(["1-3", "4-9", "10+"], complete=True),
    hormon=hdp.Binary(complete=True),
    pgr=hdp.Continuous(0, 2500, complete=True),  # fmol/l
    time=hdp.Duration(5 * 365.25, unit="days", complete=True),
    event=hdp.Binary(complete=True),
    event3=hdp.Binary(),
)
ledger = hdp.Ledger("registry.db", dataset="rotterdam", epsilon=3)
study = hdp.Study(private=node_positive, public=trial, schema=schema, ledger=ledger)

# %% [markdown]
# Then the columns in which the weighted women shall agree with the private ones. **The outcome belongs among them.**
# The weights carry over what the private records say about these columns, jointly: also how the outcome depends on
# the covariates. Anything else the weighted records know from the trial alone.
#
# Few columns with few levels are best. Every private woman is counted at the public combination nearest to hers. Where
# every combination occurs among the public rows, "nearest" is "the same", and nothing is lost. This can be checked
# beforehand, on public rows:

# %%
columns = ["grade3", "node_class", "hormon", "event3"]
combinations = trial.dropna(subset=columns).groupby(columns, observed=True).size()
print(f"{len(combinations)} of 2 * 3 * 2 * 2 = 24 combinations occur; the rarest in {combinations.min()} public women")
print("every combination is in the public rows:", len(combinations) == 24)

# %%
sample = hdp.hybrid_weights(study, columns, epsilon=1)
print(sample.summary())

# %% [markdown]
# That is all that is charged. Each of the 24 counts got exact two-sided geometric noise, standard deviation 2.8
# women at epsilon = 1. The noisy counts were projected to numbers that are not negative and add up to 1,546, and each
# was shared equally among the public women of that combination.
#
# 131 women of the trial were censored before three years, and have no `event3`. They are left out, which makes events
# look more frequent among the rest of the trial. As `event3` is among the columns, the weights repair that too.
#
# ### Diagnostics
#
# `effective_size` (Kish) says how many women of equal weight would tell as much about a column that was *not* weighted.
# `overlap` is 1 if nothing had to change. Both are computed from public and released numbers.

# %%
print(f"effective size: {sample.effective_size:.0f} of {len(sample)} women; overlap {sample.overlap:.2f}")
print("most of the trial's information on other columns is given up:", sample.effective_size < 0.6 * len(sample))

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
sample.plot_weights(ax=axes[0])
sample.plot_balance(ax=axes[1])
axes[1].set_xlabel("private (estimated) minus public mean,\nin public standard deviations (95% interval)")
plt.show()

# %% [markdown]
# On the left every woman of a combination has the same weight; a few combinations are rare in the trial and frequent
# in the registry. The right plot is a released table of baseline characteristics: how much the registry differs from
# the trial, with intervals that know of the noise.
#
# ### Means, tables, quantiles
#
# A mean comes with its standard error. It counts two things: that other women might have been in the registry, and the
# noise. The second column is what the first would be without noise.

# %%
sample.mean("grade3")

# %%
checked = pd.DataFrame(
    {
        name: {
            "trial": trial[name].mean(),
            "weighted trial": sample.mean(name).estimate,
            "std error": sample.mean(name).std_error,
            "registry": node_positive[name].mean(),
        }
        for name in ["grade3", "hormon", "event3"]
    }
).T
checked.round(3)

# %%
gaps = checked[["trial", "weighted trial"]].sub(checked["registry"], axis=0).abs()
closer = gaps["weighted trial"] < 0.5 * gaps["trial"]
print("grade and treatment, at most half as far from the registry as the trial:", closer[["grade3", "hormon"]].all())

# %% [markdown]
# `mean` takes any function of the rows, `table` counts levels, alone or crossed:

# %%
sample.table("node_class", "hormon").round(3)

# %% [markdown]
# ## 3. Analyses of the weighted records
#
# ### Here
#
# `sample.fit` takes any model of `hdpstats.formula.api`. Nothing is charged. Its standard errors count sampling and
# noise; nobody else's do.

# %%
formula = "event3 ~ grade3 + node_class + hormon"
logit = sample.fit(hdpf.logit, formula)
print(logit.summary())

# %% [markdown]
# Next to it the fit to the trial alone and to the registry alone, which nobody outside Rotterdam would ever see. (The
# 13 private records without `event3` are left out.)

# %%
registry_fit = smf.logit(formula, node_positive.dropna(subset=["event3"])).fit(disp=0)
trial_fit = smf.logit(formula, trial.dropna(subset=["event3"])).fit(disp=0)
pd.DataFrame(
    {
        "trial": trial_fit.params,
        "std err": trial_fit.bse,
        "weighted": logit.params,
        "std err (weighted)": logit.bse,
        "registry": registry_fit.params,
        "std err (registry)": registry_fit.bse,
    },
).loc[logit.params.index].round(3)

# %% [markdown]
# ### In statsmodels and scikit-learn
#
# `sample.frame` is an ordinary data frame with a column `weight`. Everybody gets the same estimates from it.

# %%
frame = sample.frame
glm = smf.glm(formula, frame, family=sm.families.Binomial(), freq_weights=frame["weight"]).fit()
gap = np.max(np.abs(glm.params - logit.params))
print("statsmodels' coefficients are the same to 1e-5:", bool(gap < 1e-5))

# %%
X = pd.get_dummies(frame[["grade3", "node_class", "hormon"]], drop_first=True).astype(float)
scores = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(X, frame["event3"], sample_weight=frame["weight"])
far = np.max(np.abs(scores.predict_proba(X)[:, 1] - logit.predict(frame).to_numpy()))
print("scikit-learn's probabilities are the same to 1e-3:", bool(far < 1e-3))

# %% [markdown]
# **Their standard errors are another matter.** statsmodels takes weights for numbers of women that were really seen.
# It does not know of the noise in them, so its standard errors are too small, and with them p-values and intervals.
# Here it is by a tenth or so; with a smaller epsilon, or rarer combinations, it is by a factor.

# %%
errors = pd.DataFrame({"sample.fit": logit.bse, "statsmodels": glm.bse}).loc[logit.params.index]
ratio = (errors["statsmodels"] / errors["sample.fit"]).mean()
print("statsmodels' standard errors are too small on average:", bool(ratio < 0.99))

# %% [markdown]
# Other software errs on the other side, as `svyglm` does (section 7): it believes that all there is to know comes from
# the women of the trial, few of whom carry much of the weight. But the counts come from 1,546 women. So: estimates from
# any software, **standard errors from `sample.fit`, `mean`, `quantile` and `table` only**.
#
# ## 4. Importance weights
#
# Counts of combinations become thin with many columns, and continuous columns have no combinations. A density ratio
# needs a number per column: `importance_weights` releases the coefficients $\beta$ of a logistic regression of
# "private or public", with noise, and gives a public row with covariates $x$ a weight proportional to
# $\exp(\beta'x)$.
#
# This time the outcome is *not* among the columns, for a reason. The women of the trial were followed alike and
# closely. We take their course of disease as it is, given the covariates, and ask what it means for women with the
# covariates of the registry. That is known as transporting or standardising a trial to a target population (Dahabreh
# et al. 2020), and its one assumption is that, given these covariates, women in Rotterdam fare as women in the trial
# do. No outcome from Rotterdam is used or charged for.

# %%
transported = hdp.importance_weights(study, "~ age + size + grade3 + log1p(nodes) + hormon", epsilon=1)
print(transported.summary())

# %%
axes = transported.plot_balance()

# %% [markdown]
# Quantiles of the age and of the number of nodes, estimated for the registry:

# %%
pd.concat(
    {name: transported.quantile(name, [0.25, 0.5, 0.75]).set_index("q") for name in ["age", "nodes"]}, axis=0
).round(2)

# %% [markdown]
# For columns such as these the intervals are too short. A ratio that is log-linear in age can shift a distribution, but
# not change its width, and the women of the registry differ more in age. The summary says how often intervals have held
# the truth. Where a continuous column matters much, use classes, or give the formula a quadratic term.
#
# ### Survival
#
# A hazard model of the weighted trial:

# %%
survival_formula = "Surv(time, event) ~ size + grade3 + log1p(nodes) + hormon"
hazard = transported.fit(hdpf.hazard, survival_formula, intervals=20, link="cloglog", df=4)
hazard.hazard_ratios().round(2)

# %% [markdown]
# The survival of the trial, and the same trial with the women of the registry:

# %%
unweighted = hdpf.hazard(survival_formula, data=study, intervals=20, link="cloglog", df=4).fit_public()


def mean_survival(result, rows, weights):
    """Return the mean of a model's survival curves over weighted rows."""
    curves = result.predict_survival(rows, ci=False)
    shares = weights / weights.sum()
    return (curves["survival"] * shares[curves["row"]]).groupby(curves["time"]).sum()


rows, weights = transported.rows, transported.weights.to_numpy()
lines = {
    "the trial": (mean_survival(unweighted, rows, np.ones(len(rows))), "#767676"),
    "the trial, with the registry's covariates": (mean_survival(hazard, rows, weights), "#0072B2"),
}
figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for label, (curve, colour) in lines.items():
    axis.step(np.r_[0, curve.index / 365.25], np.r_[1, curve], where="post", color=colour, label=label)
axis.set(xlabel="years", ylabel="alive without relapse", xlim=(0, 5.05), ylim=(0, 1.02))
axis.legend(frameon=False, loc="lower left")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# ## 5. What a colleague gets
#
# `to_csv` writes the weighted records. `to_json` writes everything: records, weights, the distribution of their errors,
# the guarantee. With it a colleague without any access, in another year, gets the same estimates *and* the right
# standard errors.

# %%
before = ledger.spent.epsilon
sample.to_csv("weighted-trial.csv")
sample.to_json("weighted-trial.json")
copy = hdp.WeightedSample.from_json("weighted-trial.json")
again = copy.fit(hdpf.logit, "event3 ~ hormon + grade3")
print("the colleague's copy gives the same mean:", copy.mean("event3") == sample.mean("event3"))
print("charged:", ledger.spent.epsilon - before)
again.odds_ratios().round(2)

# %% [markdown]
# For the person who checks outputs, and for the ethics board:

# %%
record = sample.disclosure()
print(*record, sep=", ")
print("\nNot protected:", *record["not_protected"], sep="\n- ")
print("\n" + sample.guarantee.statement())

# %%
print(ledger)
print(ledger.verify())

# %% [markdown]
# ## 6. When not to do this
#
# **Columns that were not weighted.** Tumour size was not among the columns of the hybrid weights, nor receptors among
# those of the others. The weighted records know of them what the trial knows. The estimates look like any other:

# %%
large = sample.mean(lambda d: d["size"] == ">50")
truth = (node_positive["size"] == ">50").mean()
print(
    f"tumours over 50 mm: estimated {large.estimate:.3f} (std error {large.std_error:.3f}), in the registry {truth:.3f}"
)
print("more than two standard errors off:", bool(abs(large.estimate - truth) > 2 * large.std_error))

receptors = transported.mean("pgr")
print(
    f"progesterone receptors: trial {trial['pgr'].mean():.0f}, weighted {receptors.estimate:.0f}, "
    f"registry {node_positive['pgr'].mean():.0f}"
)
print("weighting moved them away from the registry:", bool(receptors.estimate < trial["pgr"].mean()))

# %% [markdown]
# In the trial tumours of grade 3 have few receptors. So weights that ask for more of grade 3 ask for fewer receptors.
# In the registry it is not so.
#
# **Private people unlike any public one.** Take all 2,982 women of the registry, node-negative ones included. The
# trial has none of these. Every one of them is counted at a woman who has positive nodes. The package cannot see how
# many there are, but it says what public rows lack, and `distance_share=` is for the mean distance of private people
# from the public combinations. (These are the same women as before, so it is charged to the same account.)

# %%
everybody = hdp.Study(
    private=registry,
    public=trial,
    schema=hdp.Schema(
        node_class=hdp.Categorical(["0", "1-3", "4-9", "10+"], complete=True),
        grade3=hdp.Binary(complete=True),
        hormon=hdp.Binary(complete=True),
        event3=hdp.Binary(),
    ),
    ledger=ledger,
)
unlike = hdp.hybrid_weights(everybody, columns, epsilon=0.5, distance_share=0.2)
print(*unlike.facts.notes, sep="\n")

# %% [markdown]
# A category that differs is a distance of 1. So about half of the women stand in the wrong place. A mean over these
# weights describes nobody:

# %%
few = unlike.mean(lambda d: d["node_class"] == "1-3").estimate
truth = (registry["node_class"] == "1-3").mean()
print(f"women with 1 to 3 nodes, by the weights: {few:.2f}; in the registry: {truth:.2f}")
print("more than twice too many:", bool(few > 2 * truth))

# %% [markdown]
# **Small overlap, small effective size.** The estimates then rest on few public women. For weighted columns that does
# no harm; for all else it does.
#
# **One model, decided beforehand.** Then fit that model, as in *Start here* and *Survival*. All of epsilon goes to its
# coefficients, and public rows need not resemble the private ones. Weights are for the case that questions will come up
# later.
#
# **No public rows at all.** For a few columns there is `fit(mechanism="histogram")`, which puts the weights on a grid.

# %%
print(f"spent: {float(ledger.spent.epsilon):g} of {float(ledger.budget.epsilon):g}")

# %% [markdown]
# ## 7. The same in R
#
# A cell with `%%R` hands the frame over; a CSV file from `sample.to_csv(path)` would do as well. `survey::svyglm` is
# the usual tool for weighted records. Rows of weight 0, which noise may make, are left out: R warns of them.

# %%
# %load_ext hdpstats.jupyter

# %% magic_args="-i frame -o svy" language="R"
# suppressPackageStartupMessages(library(survey))
# design <- svydesign(ids = ~1, weights = ~weight, data = subset(frame, weight > 0))
# fit <- svyglm(event3 ~ grade3 + node_class + hormon, design = design, family = quasibinomial)
# svy <- data.frame(coef = unname(coef(fit)), se = unname(SE(fit)))

# %%
same = np.max(np.abs(svy["coef"].to_numpy() - logit.params.to_numpy()))
print("svyglm's coefficients are the same to 1e-5:", bool(same < 1e-5))
errors["svyglm"] = svy["se"].to_numpy()
errors.round(3)

# %% [markdown]
# And `coxph` beside the hazard model. (`r_bridge.reference.cox` is R's `survival`, called from Python.)

# %%
from r_bridge import reference

weighted = transported.frame
at_five_years = weighted.assign(
    event=np.where(weighted["time"] > 5 * 365.25, 0, weighted["event"]), time=weighted["time"].clip(upper=5 * 365.25)
)
cox = reference.cox(survival_formula, at_five_years, weights="weight", robust=False)
robust = reference.cox(survival_formula, at_five_years, weights="weight", robust=True)
terms = [term for term in hazard.params.index if not term.startswith("baseline")]  # in the formula's order, as R's are
compared = pd.DataFrame(
    {
        "hazard": hazard.params[terms].to_numpy(),
        "coxph": cox["estimate"].to_numpy(),
        "std err": hazard.bse[terms].to_numpy(),
        "coxph, weights as counts": cox["std_error"].to_numpy(),
        "coxph, robust": robust["std_error"].to_numpy(),
    },
    index=terms,
)
compared.round(3)

# %%
furthest = (compared["hazard"] - compared["coxph"]).abs().div(compared["std err"]).max()
print("within half a standard error of coxph:", bool(furthest < 0.5))
print("counts make coxph's errors too small:", bool((compared["coxph, weights as counts"] < compared["std err"]).all()))

# %% [markdown]
# Here `robust=TRUE` is right, near enough: the information about survival does come from the women of the trial, and
# the noise in these few coefficients hardly matters. Without it R takes the weights for 1,546 women who were
# followed.
