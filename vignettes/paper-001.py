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
# # Chen and Sung, reproduced
#
# For readers of *Differentially private parameter estimation from distributed sources* (W.-N. Chen and J. Sung), the
# paper behind `hdpf.distribution`. Below:
#
# 1. what the paper proposes,
# 2. five corrections, each shown by numbers,
# 3. its claim with the corrections: privacy for free, once there are enough records,
# 4. how many blocks,
# 5. what this package does: blood pressure in a trial, with standard errors and an account,
# 6. several hospitals of different sizes, which the paper leaves open,
# 7. hospitals in regions in a country, which it names as missing,
# 8. intervals that take no hospital's model for granted.
#
# Everything in `hdp.simulate` is **not private**: its noise comes from a seed. Only the fits from section 5 on are
# private.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.papers import chen_sung as paper

# %% [markdown]
# ## 1. What the paper proposes
#
# $M$ parties hold $N$ records each. Nobody sees the records of another party, and what a party publishes is
# differentially private for each of its records. Two ways to estimate a parameter $\theta$ of the common distribution:
#
# * **Subsample and aggregate** (algorithms 1 and 2). A party divides its records into $k$ blocks, estimates $\theta$ in
#   each block, corrects for bias, and publishes the mean of the $k$ estimates plus Laplace noise of scale
#   $\Lambda / (k \varepsilon)$. One record is in one block, so it moves the mean by at most $\Lambda / k$, $\Lambda$
#   being the length of the range of $\theta$. Everybody takes the mean over parties.
# * **Sufficient statistics** (algorithms 3 and 4). For an exponential family a party publishes the mean of the
#   sufficient statistic plus noise; the mean over parties is turned into a maximum likelihood estimate.
#
# Two examples: the rate of an exponential distribution, and the chance of an event.

# %%
rate, event = paper.exponential_times(), paper.events()
times = rate.parties(10, 4_000, seed=1)
pd.DataFrame(
    {
        "mean of blocks": [paper.dsaa(rate, times, eps, blocks=100, seed=1) for eps in (0.3, 1.0, 3.0)],
        "statistics": [paper.dssa(rate, times, eps, seed=1) for eps in (0.3, 1.0, 3.0)],
    },
    index=pd.Index([0.3, 1.0, 3.0], name="epsilon"),
).round(3)

# %% [markdown]
# ## 2. Five corrections
#
# **(i) Estimates of blocks must be projected on the range.** The sensitivity $\Lambda / k$ needs estimates within the
# range; algorithm 1 does not put them there. One record of a million, of a hundred:

# %%
unit = paper.events(0.5, box=(0.0, 1.0))
ordinary = np.full(100, 0.5)
spoiled = np.append(ordinary[:-1], 1e6)
shift = {
    projected: abs(
        paper.csaa(unit, spoiled, 1.0, blocks=10, seed=1, projected=projected)
        - paper.csaa(unit, ordinary, 1.0, blocks=10, seed=1, projected=projected)
    )
    for projected in (False, True)
}
print(f"the mean of 10 blocks moves by {shift[False]:,.0f} as printed, by {shift[True]:.3f} projected")
print("the noise is for 0.1")
print("only the projected mean is private:", shift[True] <= 0.1 < shift[False])

# %% [markdown]
# **(ii) Blocks may depend on nothing in the records.** "Arbitrarily divide" is not enough. Were rows sorted first, a
# changed record would shift all the others:

# %%
values = np.random.default_rng(1).normal(size=100)
changed = np.append(np.delete(values, np.argmin(values)), 5.0)
before, after = (np.sort(rows).reshape(10, 10).mean(axis=1) for rows in (values, changed))
print("blocks that change when rows are sorted:", int(np.sum(before != after)), "of 10")

# %% [markdown]
# **(iii) Vectors.** The paper adds the same Laplace noise to each coordinate, for the Euclidean diameter of the range.
# A block that flips from corner to corner of $[0, 1]^d$ moves every coordinate, and their losses add up:

# %%
dimensions = np.array([1, 2, 4, 9])
realised = (dimensions / 10) / (np.sqrt(dimensions) / 10)
print("claimed 1, realised:", dict(zip(dimensions.tolist(), realised.tolist(), strict=True)))

# %% [markdown]
# The package draws noise with density $\propto \exp(-\varepsilon \max_j |z_j| k / \Lambda_j)$ instead: exactly
# $\varepsilon$ in any dimension, with variance $(d+1)(d+2)/3$ where honest Laplace noise has $2 d^2$.
#
# **(iv) Statistics need no blocks.** The mean of means of blocks is the mean. A record moves it by $\Lambda_T / N$, not
# by $\Lambda_T / k$ (algorithm 3):

# %%
own = event.parties(1, 1_000, seed=1)[0]
spread = {k: np.std([paper.cssa(event, own, 1.0, seed=s, blocks=k) for s in range(2_000)]) for k in (63, None)}
ratio = (spread[63] / spread[None]) ** 2
print(f"variance of the noise of algorithm 3, 63 blocks of 1,000 records: {ratio:.0f} times what is needed")
print("within 15 percent of (1000 / 63)^2:", bool(abs(ratio / (1000 / 63) ** 2 - 1) < 0.15))

# %% [markdown]
# **(v) The errors.** Laplace noise of scale $s$ has variance $2 s^2$, not $\sqrt 2 s$; the derivative of the maximum
# likelihood estimate is one over the variance of the statistic, not at most it; and the square of a bias of order
# $(k / N)^{3/2}$ is $k^3 / N^3$. With that, per record and party,
#
# $$ MN \cdot \mathrm{MSE} = \frac1I + \frac{2 N \Lambda^2}{k^2 \varepsilon^2} + \frac{C M k^3}{N^2}
#   \qquad\text{and}\qquad \frac1I + \frac{2 \Lambda_T^2}{N \varepsilon^2 I^2} $$
#
# for blocks and for statistics of a canonical parameter. Where the printed formula says that privacy costs next to
# nothing, it may cost ten times the sampling error. The log-odds of an event, $M = 20$ parties of $N = 1{,}000$:

# %%
M, N = 20, 1_000
information = 0.4 * 0.6


def log_odds(p):
    return np.log(p / (1 - p))


def error_of_statistics(epsilon, records=N, parties=M, repeats=400):
    """Return the mean squared error of log-odds from statistics, times M N I, by simulation."""
    found = paper.repeat_dssa(event, parties=parties, records=records, epsilon=epsilon, repeats=repeats, seed=3)
    return float(np.mean((log_odds(found) - log_odds(0.4)) ** 2) * parties * records * information)


rows = []
for epsilon in (0.03, 0.1, 0.3, 1.0):
    terms = {"parties": M, "records": N, "epsilon": epsilon, "width": 1.0, "information": information}
    rows.append(
        {
            "epsilon": epsilon,
            "measured": error_of_statistics(epsilon),
            "corrected": paper.mse_statistics(**terms) * M * N * information,
            "printed": paper.mse_statistics_printed(**terms) * M * N * information,
        }
    )
errors = pd.DataFrame(rows).set_index("epsilon")
close = np.abs(errors["measured"] / errors["corrected"] - 1) < 0.3
print("the corrected formula fits at every epsilon:", bool(close.all()))
most = errors.loc[0.03]
print("printed, less than a fifth of the error at epsilon = 0.03:", bool(5 * most["printed"] < most["measured"]))
errors.round(2)

# %% [markdown]
# ## 3. Privacy for free, once there are enough records
#
# An estimate is *efficient* where $\mathrm{MSE} \cdot M N I \to 1$: as good as maximum likelihood from all records. The
# claim of the paper holds with other exponents. For statistics it needs $\varepsilon \gg N^{-1/2}$ (printed:
# $\varepsilon \gg 1/N$). For blocks it needs $\varepsilon \gg N^{-1/6} M^{1/3}$ (printed with both signs turned round),
# so that at a fixed $\varepsilon$ the number of parties must stay below $\sqrt N$.

# %%
sizes = np.array([250, 1_000, 4_000, 16_000, 64_000])
parties, epsilon, width = 5, 1.0, 1.5


def repeats(records):
    """Return how often to simulate: less often where that takes long."""
    return 400 if records <= 4_000 else 150


def of_blocks(records):
    """Return the mean squared error of the averaged rates of blocks, times M N I, and the predicted one."""
    best = paper.best_blocks(parties=parties, records=records, epsilon=epsilon, width=width)
    terms = {"parties": parties, "records": records, "epsilon": epsilon, "blocks": int(min(best, records // 25))}
    found = paper.repeat_dsaa(rate, **terms, repeats=repeats(records), seed=records)
    predicted = paper.mse_blocks(**terms, width=width, information=1.0)
    return float(np.mean((found - 1.0) ** 2)) * parties * records, predicted * parties * records


def of_statistics(records, epsilon):
    """Return the same for the log-odds of an event."""
    terms = {"parties": parties, "records": records, "epsilon": epsilon, "width": 1.0, "information": information}
    found = error_of_statistics(epsilon, records=records, parties=parties, repeats=repeats(records))
    return found, paper.mse_statistics(**terms) * parties * records * information


SERIES = {
    r"statistics, $\varepsilon = 0.1$": ("#0072B2", "o", [of_statistics(n, 0.1) for n in sizes.tolist()]),
    r"statistics, $\varepsilon = 1$": ("#009E73", "s", [of_statistics(n, 1.0) for n in sizes.tolist()]),
    r"blocks, $\varepsilon = 1$": ("#D55E00", "^", [of_blocks(n) for n in sizes.tolist()]),
}
figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for label, (colour, marker, found) in SERIES.items():
    measured_, predicted = np.array(found).T
    axis.plot(sizes, measured_, marker, color=colour, label=label)
    axis.plot(sizes, predicted, color=colour, linewidth=1)
axis.axhline(1.0, color="0.5", linestyle="--", linewidth=1)
axis.annotate("efficient", (sizes[0], 1.0), xytext=(0, -12), textcoords="offset points", color="0.35", fontsize="small")
axis.set(xscale="log", yscale="log", xlabel="records of a party, N", ylabel=r"MSE $\times$ $M N I$", ylim=(0.75, None))
axis.set_title("Simulated (points) and predicted (lines), 5 parties", loc="left", fontsize="medium")
axis.legend(frameon=False, fontsize="small")
with_most = [found[-1][0] for _, _, found in SERIES.values()]
fits = [abs(seen / said - 1) < 0.3 for _, _, found in SERIES.values() for seen, said in found]
print("every point within 30 percent of its line:", all(fits))
efficient = all(abs(each - 1) < 0.15 for each in with_most[:2])
print("statistics of 64,000 records a party within 15 percent of 1:", efficient)
print(f"blocks of 64,000 records a party: {with_most[2]:.1f}")
plt.show()

# %% [markdown]
# Statistics are efficient as soon as $N \varepsilon^2$ is large. Blocks come down as $N^{-1/5}$, which is slow: a
# public window in place of the whole range (section 5) helps, and statistics help more.

# %% [markdown]
# ## 4. How many blocks
#
# More blocks mean less noise and more bias. The least error is at $k^* = (4 \Lambda^2 N^3 / (3 C M
# \varepsilon^2))^{1/5}$; blocks should keep 25 records, below which the expansion says nothing. Ten parties of 4,000
# records, $\varepsilon = 2$:

# %%
counts = [10, 20, 40, 80, 160, 640]
table = []
for k in counts:
    terms = {"parties": 10, "records": 4_000, "epsilon": 2.0, "blocks": k}
    found = np.mean((paper.repeat_dsaa(rate, **terms, repeats=300, seed=5) - 1.0) ** 2) * 4e4
    limits = terms | {"width": 1.5, "information": 1.0}
    corrected, printed = paper.mse_blocks(**limits) * 4e4, paper.mse_blocks_printed(**limits) * 4e4
    table.append(
        {"k": k, "records of a block": 4_000 // k, "measured": found, "corrected": corrected, "printed": printed}
    )
table = pd.DataFrame(table).set_index("k")
best = paper.best_blocks(parties=10, records=4_000, epsilon=2.0, width=1.5)
seen = table["measured"]
print(f"k* = {best:.0f}")
print("blocks of 6 records are worse than blocks of 25:", bool(seen[640] > seen[160]))
table.round(2)

# %% [markdown]
# ## 5. In this package
#
# A trial of 3,000 patients with their systolic blood pressure on entry; 100 more were published. The custodian declares
# the bounds of a reading, to which every private one is clipped: no record moves the statistics by more than their
# range.

# %%
draw = np.random.default_rng(2018)
trial = pd.DataFrame({"sbp": draw.normal(134, 17, 3_000)})
trial.loc[0, "sbp"] = 1e6  # somebody's typing error
published = pd.DataFrame({"sbp": draw.normal(134, 17, 100)})
schema = hdp.Schema(sbp=hdp.Continuous(60, 240, complete=True))
declared = {"private": trial, "public": published, "schema": schema}
study = hdp.Study(**declared, budget=hdp.Budget(epsilon=2.0), row_order="arbitrary")
pressure = hdpf.distribution("sbp ~ 1", data=study, family="normal", ranges={"sd": (5, 50)})
statistics = pressure.fit(epsilon=1.0)
print(statistics.summary())

# %% [markdown]
# Standard errors hold sampling (the information of the normal distribution at the estimate) and noise (its exact
# distribution). The record of a million counts as 240.
#
# Blocks of rows need a declaration that nobody sorted the rows. The custodian makes it with the account, as nobody else
# knows: `row_order="arbitrary"`. Their range is a window around the published estimate, which is public. They need more
# noise all the same: use them where there is no bounded sufficient statistic.

# %%
aggregated = pressure.fit(epsilon=1.0, mechanism="subsample")
print(aggregated.facts.method)
print("windows:", [tuple(round(edge, 1) for edge in window) for window in aggregated.query.box])
tables = {"statistics": statistics.tidy(), "blocks": aggregated.tidy(), "published": pressure.fit_public().tidy()}
pd.concat(tables).round(2)

# %%
for fit in (statistics, aggregated):
    print("within 8 standard errors of the truth:", bool((abs(fit.params - [134, 17]) < 8 * fit.bse).all()))
noise = [np.diag(fit.cov_privacy) for fit in (statistics, aggregated)]
print("statistics have the smaller noise in the mean:", bool(noise[0][0] < noise[1][0]))
print("spent:", float(study.ledger.spent.epsilon), "of 2, one epsilon per fit whatever the number of blocks")

# %% [markdown]
# Without the declaration the site refuses, whoever asks, and nothing is charged:

# %%
undeclared = hdp.Study(**declared, budget=hdp.Budget(epsilon=2.0))
try:
    hdpf.distribution("sbp ~ 1", data=undeclared, family="normal", ranges={"sd": (5, 50)}).fit(
        epsilon=1.0, mechanism="subsample"
    )
except hdp.MechanismError as error:
    print(error)

# %% [markdown]
# ## 6. Several hospitals of different sizes
#
# In the paper every party has the same number of records. Hospitals do not, nor do they all afford the same
# $\varepsilon$. Four of them hold blood pressures; each keeps its own account and adds its own noise. One call asks all
# of them:

# %%
sizes = {"Aberdeen": 250, "Bergen": 600, "Cork": 1_500, "Delft": 5_000}
prices = {"Aberdeen": 2.0, "Bergen": 1.0, "Cork": 0.1, "Delft": 0.5}
hospitals = {name: pd.DataFrame({"sbp": draw.normal(134, 17, n)}) for name, n in sizes.items()}
together = hdp.Study(private=hospitals, schema=schema, budget=hdp.Budget(epsilon=3.0))
pressure = hdpf.distribution("sbp ~ 1", data=together, family="normal", ranges={"sd": (5, 50)})
fit = pressure.fit(epsilon=prices)
print(fit.summary())

# %% [markdown]
# A hospital of $n_j$ people that spent $\varepsilon_j$ releases means with the variance $\Sigma_T / n_j + N_j$: what
# people differ by, and the noise, which is known. Both are public, so the weights are; they are neither equal nor in
# proportion to the people. Cork has many people and hardly any say:

# %%
shares = fit.sites.set_index("site")[["records", "epsilon", "weight"]]
print("Cork is second in size and last, or last but one, in weight:", bool(shares["weight"].rank()["Cork"] <= 2))
print("one person's guarantee:", float(fit.guarantee.epsilon), "(the largest over sites, not the sum)")
charged = {name: float(ledger.spent.epsilon) for name, ledger in together.ledgers.items()}
print("each account is charged its own:", charged == prices)
shares.round(3)

# %% [markdown]
# The weighted *means of statistics* are turned into parameters once. Estimates of every hospital would each have been
# biased by their own noise; a mean of them keeps that bias, however many there are. With hospitals of one size and one
# $\varepsilon$ the weights are equal: the paper's estimate.

# %%
equal = hdp.Study(
    private={name: people.head(250) for name, people in hospitals.items()},
    schema=schema,
    budget=hdp.Budget(epsilon=1.0),
)
alike = hdpf.distribution("sbp ~ 1", data=equal, family="normal", ranges={"sd": (5, 50)}).fit(1.0)
print("equal hospitals, equal weights:", np.allclose(alike.sites["weight"], 0.25))
axes = fit.plot_sites("mean")
plt.show()

# %% [markdown]
# ## 7. Levels
#
# *"For example, schools provide data to state government and state governments provide either data or calculated
# information to federal government"*: what the authors miss is post-processing here. `hdp.aggregate` takes results in
# groups of groups and gives an estimate for every group. A level hands on an estimate and its covariance; nobody above
# needs to see, or to trust, what is below.
#
# Nine clinics in three regions. People of the regions differ, by two millimetres of mercury or so:

# %%
regions = {}
for region, centre in {"North": 131.0, "South": 133.5, "West": 136.0}.items():
    regions[region] = {}
    for clinic, n in {"one": 500, "two": 1_200, "three": 2_500}.items():
        people = pd.DataFrame({"sbp": draw.normal(centre + draw.normal(0, 0.5), 17, n)})
        own = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1.0))
        model = hdpf.distribution("sbp ~ 1", data=own, family="normal", ranges={"sd": (5, 50)})
        regions[region][clinic] = model.fit(1.0)
common = hdp.aggregate(regions, name="country")
flat = hdp.aggregate([clinic for region in regions.values() for clinic in region.values()])
print("level by level or all at once, the same:", np.allclose(common.params, flat.params))
print("and the same covariance:", np.allclose(common.cov_params(), flat.cov_params()))

# %% [markdown]
# The country need not see the clinics. A region sends its aggregate as a file, and that is a member like a result:

# %%
files = {region: hdp.aggregate(clinics, name=region).to_json() for region, clinics in regions.items()}
received = hdp.aggregate({region: hdp.Aggregate.from_json(text) for region, text in files.items()})
print("from the regions' files, the same:", np.allclose(received.params, flat.params))

# %% [markdown]
# Where regions have means of their own, that is not the right model: nine clinics are then not nine draws of one thing,
# but three regions are draws of a country. `between` says at which levels members differ, and by which estimate of
# their variance (Paule and Mandel; DerSimonian and Laird):

# %%
differ = hdp.aggregate(regions, between=("paule_mandel", None), name="country")
print(differ.summary())
print("a country of regions is less certain:", bool(differ.bse["mean"] > common.bse["mean"]))
axes = differ.plot("mean")
axes.set_title("Systolic blood pressure, mm Hg; regions differ", loc="left", fontsize="medium")
plt.show()

# %% [markdown]
# Any results with the same terms can be aggregated, regressions and hazard models too; each may be of several sites.
# Those that used public rows enter without them, or the public rows would count once per result.

# %% [markdown]
# ## 8. Intervals that take no model for granted
#
# All standard errors above rest on the family: were pressures not normal, they would be wrong. Results of several sites
# tell more. How far they are apart contains everything that makes them err, sampling and noise and what the family gets
# wrong. With $M$ results, $(\hat\theta - \theta) / s$ follows Student's distribution with $M - 1$ degrees of freedom,
# $s$ being computed from their spread (Hartung and Knapp; Sidik and Jonkman).
#
# Counts of visits with three times the variance of a Poisson distribution, at eight sites, twenty-four times:

# %%
visits = hdp.Schema(visits=hdp.Continuous(0, 60, complete=True))


def intervals():
    """Return 95 % intervals of the mean from the results of eight sites: by the model, and across sites."""
    results = []
    for n in np.geomspace(500, 3_000, 8).astype(int):
        people = pd.DataFrame({"visits": draw.negative_binomial(1.5, 1 / 3, n)})
        own = hdp.Study(private=people, schema=visits, budget=hdp.Budget(epsilon=4.0))
        results.append(hdpf.distribution("visits ~ 1", data=own, family="poisson").fit(4.0))
    return {kind: hdp.aggregate(results, interval=kind).conf_int() for kind in ("model", "across_sites")}


found = pd.DataFrame(
    {kind: limits[0].item() < 3.0 < limits[1].item() for kind, limits in intervals().items()} for _ in range(24)
)
print("intervals that hold the true mean, of 24:", found.sum().to_dict())
print("across sites more often:", bool(found["across_sites"].sum() > found["model"].sum()))

# %% [markdown]
# The sites of one fit are members as well. Of the four hospitals of section 6:

# %%
own = {"from the model": fit, "across sites": hdp.aggregate(fit, interval="across_sites")}
pd.concat({kind: found.conf_int() for kind, found in own.items()}).rename(columns={0: "from", 1: "to"}).round(2)

# %% [markdown]
# Coverage over more data sets, with sites that differ too, is in `vignettes/validation/distributed.md`. With three or
# four sites Student's distribution is wide: nothing is for free.
