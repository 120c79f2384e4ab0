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
# # Wang and others (2018), reproduced
#
# For readers of *Selecting optimal subset to release under differentially private M-estimators from hybrid datasets*
# (M. Wang, Z. Ji, H.E. Kim, S. Wang, L. Xiong and X. Jiang, IEEE Transactions on Knowledge and Data Engineering 30,
# 2018), the paper behind `hdp.hybrid_weights`. Below:
#
# 1. what the paper proposes,
# 2. its trade-off curve in 2 and in 100 dimensions: confirmed,
# 3. its two hospitals, by a substitute: there private records do not help it,
# 4. three errors in the privacy analysis of its Algorithm 2,
# 5. what this package does instead, and all of it side by side.
#
# Everything in `hdp.simulate` is **not private**: its noise comes from a seed. It is for public and synthetic data.
# Only the fits in sections 3 and 5 are private.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.papers import wang as paper

# %% [markdown]
# ## 1. What the paper proposes
#
# Some patients let their records be public, others do not. Those who do differ from the others: *open-consent bias*.
#
# **Algorithm 1** gives each public record $y_i$ the number $w_i$ of private records whose nearest public record it is,
# outcome included, plus Laplace noise. A weighted fit to the public records then stands for a fit to the private ones.
# The bias is bounded by the mean distance from private records to public ones, $d(D, E)$. The noise grows with the
# number of public records.
#
# **Algorithm 2** looks for the number of public records at which the two balance. It orders them by noisy weights
# (for $\varepsilon_1$), fits with the first $n_1 < n_2 < \dots < n_k$ of them and new noise (for $\varepsilon_2$ in
# all), and computes how far each fit is from the private one, in predicted probabilities of the private records:
#
# $$t_i = \| h_D(\hat\theta_i) - h_D(\hat\theta_D) \|_2 .$$
#
# These are released with noise (for $\varepsilon_3$), and the smallest wins.
#
# The simulation of the paper has covariates from normal distributions. Private ones have variance 1; of public ones the
# first has variance 1/2. Coefficients differ too. These are the paper's own:

# %%
pair = paper.simulated_hospitals(seed=1, beta_private=np.array([0.2, 0.4]), beta_public=np.array([0.5, -0.1]))
best = paper.fit(pair.private)
pd.DataFrame({"private": best, "public": paper.fit(pair.public)}, index=["b1", "b2"]).round(3)

# %% [markdown]
# ## 2. The trade-off
#
# First $d(D, E_{(m)})$, the mean distance of private records to the nearest of the $m$ public ones with the largest
# noisy weights (figure 4 of the paper).

# %%
high = paper.simulated_hospitals(100, private=3_000, public=3_000, seed=1)


def distances(pair, sizes, *, epsilon=0.8, seed=1):
    """Return the mean distance of private records to the first public points in the order of noisy weights."""
    points, _ = paper.distinct_points(pair)
    private = paper.rescaled(pair, pair.private)
    nearest = NearestNeighbors(n_neighbors=1).fit(points).kneighbors(private, return_distance=False)[:, 0]
    noise = np.random.default_rng(seed).laplace(scale=2 / epsilon, size=len(points))
    order = np.argsort(-np.maximum(np.bincount(nearest, minlength=len(points)) + noise, 0))
    return [NearestNeighbors(n_neighbors=1).fit(points[order[:size]]).kneighbors(private)[0].mean() for size in sizes]


figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
falls = []
for panel, each, title, sizes in zip(
    axes, [pair, high], ["p = 2", "p = 100"], [np.arange(100, 10_001, 900), np.arange(100, 3_001, 725)], strict=True
):
    found = distances(each, sizes)
    falls.append(found[-1] < found[0])
    panel.plot(sizes, found, color="#0072B2", marker="o", markersize=4)
    panel.set_title(title, loc="left", fontsize="medium")
    panel.set(xlabel="public records kept", ylim=(0, 1.08 * max(found)))
axes[0].set_ylabel("mean distance to the nearest")
print("the distance falls with the number of public records, in 2 and in 100 dimensions:", all(falls))
plt.show()

# %% [markdown]
# In two dimensions it falls fast and then hardly. In 100 it hardly falls at all: everything is far from everything.
#
# Next the error $t$ of the fit by the number of public records (figures 5 and 6). Three curves: Algorithm 2, which
# divides $\varepsilon_2$ by the number $k$ of sizes that it tries; the same, had every size been given all of
# $\varepsilon_2$, as if only one had been tried; and without noise. The paper has $(\varepsilon_1, \varepsilon_2,
# \varepsilon_3) = (0.8, 0.2, 1)\,\varepsilon$ and counts $2\varepsilon$ in all.

# %%
LOOKS = {
    "printed": ("Algorithm 2", "#D55E00"),
    "unsplit": (r"all of $\varepsilon_2$ for every size", "#E69F00"),
    "without_noise": ("without noise", "#009E73"),
}


def curves(pair, sizes, epsilon, repeats):
    """Return the mean curve of some runs of Algorithm 2, and the runs."""
    runs = [paper.tradeoff(pair, sizes, epsilon=epsilon, seed=seed) for seed in range(repeats)]
    return sum(run.curve for run in runs) / repeats, runs


def draw(panel, curve, public, title):
    """Draw the three curves and the error of the public records alone."""
    for name, (label, colour) in LOOKS.items():
        panel.plot(curve["size"], curve[name], color=colour, linewidth=1.6, label=label)
    panel.axhline(public, color="#767676", linewidth=1, linestyle="--", label="public records alone")
    panel.set_title(title, loc="left", fontsize="medium")
    panel.set(xlabel="public records kept", ylim=(0, None))


sizes = np.arange(10, 2_961, 50)
low = {epsilon: curves(pair, sizes, epsilon, repeats=3) for epsilon in (0.5, 1, 3)}

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
for panel, (epsilon, (curve, runs)) in zip(axes, low.items(), strict=True):
    draw(panel, curve, runs[0].public_only, rf"p = 2, $\varepsilon$ = {epsilon}")
axes[0].set_ylabel("prediction error t")
axes[2].legend(frameon=False, fontsize="small", loc="upper right")
plt.show()

# %%
one = low[1][0].set_index("size")
lowest = one.rolling(5, center=True, min_periods=1).mean()
print(f"{len(sizes)} sizes; lowest at epsilon = 1:")
print(pd.DataFrame({"at": lowest.idxmin(), "t": lowest.min()}).round(2))
bends = all(
    curve["unsplit"].iloc[0] > 1.5 * curve["unsplit"].min() < curve["unsplit"].iloc[-1] / 1.5
    for curve in (low[0.5][0], low[1][0])
)
print("U-shaped where epsilon is small, with all of epsilon_2 for every size:", bool(bends))
print(
    "without noise more records are better:", bool(one["without_noise"].iloc[-1] < 0.1 * one["without_noise"].iloc[0])
)

# %% [markdown]
# The paper's U is there: few records are a bias, many are noise. Trying 60 sizes hides it, as every fit then has 60
# times the noise that it would have alone. The bottom moves to the right, where more records share it.

# %%
far = curves(high, np.array([100, 300, 600, 1_000, 1_500, 2_200, 3_000]), 3, repeats=2)
figure, axis = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
draw(axis, far[0], far[1][0].public_only, r"p = 100, $\varepsilon$ = 3")
axis.set_ylabel("prediction error t")
axis.legend(frameon=False, fontsize="small")
plt.show()
without = far[0]["without_noise"].min() / far[1][0].public_only
print("p = 100: even without noise, more than half of the error of the public records is left:", bool(without > 0.5))

# %% [markdown]
# In 100 dimensions (with 3,000 records each instead of 10,000, to be quick) hybrid weights do little even without
# noise, because the nearest public record is nowhere near. What noise leaves of that is less. The paper's figure 6
# says the same, if one reads its axis.
#
# ## 3. Two hospitals
#
# The paper's two hospitals, in Sheffield and Edinburgh, are not public. Node-positive women of two breast cancer
# studies stand for them, with nine covariates of 0 and 1, as many as the paper has, and relapse or death within three
# years as the outcome. First one study is public and the other private, then the other way round (figures 7 and 8).

# %%
studies = {
    "gbsg public": paper.breast_cancer_hospitals("gbsg"),
    "rotterdam public": paper.breast_cancer_hospitals("rotterdam"),
}
figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), sharex="row", sharey="row", layout="constrained")
hindsight, rows = [], {}
for line, (name, study) in zip(axes, studies.items(), strict=True):
    points = len(paper.distinct_points(study)[0])
    for panel, epsilon in zip(line, (1, 3, 10), strict=True):
        curve, runs = curves(study, np.arange(10, points + 1, 10), epsilon, repeats=2)
        draw(panel, curve, runs[0].public_only, rf"{name}, $\varepsilon$ = {epsilon}")
        hindsight.append(curve["printed"].min() > runs[0].public_only)
        rows[name, 2 * epsilon] = {
            "public records": runs[0].public_only,
            "Algorithm 2, best size": curve["printed"].min(),
        }
    line[0].set_ylabel("prediction error t")
axes[0, 2].legend(frameon=False, fontsize="small")
print("Algorithm 2 is never better than the public records alone, not even in hindsight:", all(hindsight))
plt.show()

# %% [markdown]
# With private records behind noise one does *worse* here than with the public ones alone, at every size and every
# epsilon. The paper's figures 7 and 8 have a red curve and a blue line that tell of the same for small epsilon. The
# reason is that 500 to 1,500 records are spread over some 200 combinations, that $\varepsilon_2$ is a fifth of the
# budget and is divided by 20 sizes; and that the two studies do not differ much in their coefficients to begin with.
#
# Same data, same claimed totals, with this package. `hybrid_weights` counts once and shares the weight of a combination
# among its women. `hdpf.logit` does not go by way of weights: all of epsilon is spent on the one model.


# %%
def private_errors(pair, epsilon):
    """Return the prediction errors of two private weighted samples."""
    private, public = pair.frames()
    study = hdp.Study(private=private, public=public, schema=pair.schema(), budget=hdp.Budget(epsilon=2 * epsilon))
    sample = hdp.hybrid_weights(study, [*pair.names, "y"], epsilon=epsilon)
    model = hdpf.logit("y ~ " + " + ".join(pair.names), data=study).fit(epsilon=epsilon)
    found = {
        "hybrid_weights": paper.fit(pair.public, sample.weights.to_numpy()),
        "logit": model.params.to_numpy(),
    }
    best = paper.fit(pair.private)
    return {name: paper.prediction_error(pair.private, theta, best) for name, theta in found.items()}


for name, epsilon in rows:
    rows[name, epsilon] |= private_errors(studies[name], epsilon)
hospitals = pd.DataFrame(rows).T.rename_axis(index=["", "total epsilon"])
print(
    "at a total of 6 and 20 the fit of the model is nearest:",
    bool((hospitals.idxmin(axis=1).drop(2, level=1) == "logit").all()),
)
hospitals.round(2)

# %% [markdown]
# Weights answer any question; a fit answers one, and better. Who knows the question should ask it.
#
# ## 4. Three errors in Algorithm 2
#
# **The sensitivity of $t$ is not 1.** The paper argues that replacing one private record changes one component of
# $h_D(\hat\theta_i) - h_D(\hat\theta_D)$. But the private fit $\hat\theta_D$ changes with the record, and with it every
# component. A counterexample with an intercept and one covariate: in one data set all records agree, and their
# probabilities go to 0 and 1; in its neighbour one record contradicts, and all stay near one half. The candidate is
# $\theta_i = 0$.

# %%
counts = [101, 301, 1_001, 3_001, 10_001]
examples = np.array([paper.curve_counterexample(n) for n in counts])
moved = examples[:, 0] - examples[:, 1]
pd.DataFrame({"t": examples[:, 0], "t of the neighbour": examples[:, 1], "difference": moved}, index=counts).round(2)

# %%
print(
    "one record moves t by more than 15 among 1,001 and by more than 45 among 10,001:",
    bool(moved[2] > 15 and moved[4] > 45),
)

# %% [markdown]
# The difference is about $\sqrt n / 2$. With Laplace noise of scale $1/\varepsilon_3$ the privacy loss of one such
# number is $\varepsilon_3 \sqrt n / 2$ instead of $\varepsilon_3$.
#
# **Releasing $k$ of them costs $k$ times as much.** All $k$ noisy performances are published, or compared, each with
# noise for $\varepsilon_3$. Even if the sensitivity were 1:

# %%
print(f"claimed: {0.8 + 0.2 + 1:g} epsilon; with {len(sizes)} sizes: {0.8 + 0.2 + len(sizes):g} epsilon")

# %% [markdown]
# **The sizes come from the private records.** Which of them to try is read off figure 4, whose distances are computed
# from private records without noise.
#
# Each of these can be mended. $t$ with a ridge has a bounded sensitivity; choosing needs no release of the whole
# curve. But there is no need for a curve at all.
#
# ## 5. What this package does
#
# The order of public records is chosen from public records alone: each next one is the farthest from those before
# (k-centre). Sizes are powers of two. A tenth of epsilon chooses one of them privately, by permute-and-flip: the sum
# of distances of private records, each cut at a public limit, plus what the noise will cost, which is public. As the
# sets are nested, distances can only fall from one to the next, which halves the sensitivity. The rest of epsilon
# asks for **one** histogram with exact two-sided geometric noise. The counts are projected to weights that are not
# negative and add up to the number of records; the paper sets negative ones to zero, which pulls everything towards
# the public records.
#
# All at a claimed total of epsilon = 2, in the simulation of section 1. Median over some runs of the distance of
# coefficients from the private fit, which the public records miss by:

# %%
RUNS = 5
private, public = pair.frames()
free = hdp.Study(private=private, public=public, schema=pair.schema(), budget=hdp.Budget(epsilon=200))


def away(theta):
    """Return the Euclidean distance of coefficients from the private fit."""
    return float(np.linalg.norm(np.asarray(theta) - best))


def weighted_fit(replicate, **options):
    """Return the fit to weights released for epsilon = 2."""
    sample = hdp.hybrid_weights(free, ["x1", "x2", "y"], epsilon=2, replicate=replicate, **options)
    return paper.fit(pair.public, sample.weights.to_numpy())


model = hdpf.logit("y ~ 0 + x1 + x2", data=free)
grid = hdp.mechanisms.PerturbedHistogram(bins=20)  # classes per column
runs = low[1][1]
found = {
    "public records alone": [away(paper.fit(pair.public))],
    "Algorithm 2, as it chooses": [away(run.coefficients[list(sizes).index(run.chosen)]) for run in runs],
    "Algorithm 2, best size in hindsight": [min(map(away, run.coefficients)) for run in runs],
    "Lei's histogram: private records alone": [
        away(model.fit(2, mechanism=grid, replicate=1 + run).params) for run in range(RUNS)
    ],
    "hybrid_weights, all public points": [away(weighted_fit(1 + run, select=False)) for run in range(RUNS)],
    "hybrid_weights, select=True": [away(weighted_fit(1 + run, select=True)) for run in range(RUNS)],
    "logit: this model and no other": [away(model.fit(2, replicate=1 + run).params) for run in range(RUNS)],
}
price = [0, "61 or more", "61 or more, and a look at the data", 2, 2, 2, 2]
medians = [np.median(values) for values in found.values()]
table = pd.DataFrame({"median distance": medians, "true epsilon": price}, index=list(found))
distance = table["median distance"]
ours = distance["hybrid_weights, select=True"]
print("at most half of Algorithm 2 in hindsight:", bool(ours <= 0.5 * distance["Algorithm 2, best size in hindsight"]))
print("at most a tenth of the public records' error:", bool(ours <= 0.1 * distance["public records alone"]))
table.round(3)

# %%
figure, axis = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
places = np.arange(len(found))
for place, values in zip(places, found.values(), strict=True):
    axis.plot(values, np.full(len(values), place), "o", color="#0072B2", alpha=0.35, markersize=5, markeredgewidth=0)
axis.plot(distance, places, "|", color="#000000", markersize=14, markeredgewidth=1.6)
axis.set(yticks=places, yticklabels=list(found), ylim=(len(found) - 0.5, -0.5), xscale="log")
axis.set_xlabel("distance from the private coefficients (log scale); bars: medians")
axis.xaxis.set_major_formatter("{x:g}")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# Reading it:
#
# - A histogram of the private records alone does well in three columns, as the paper says. Somebody must choose its
#   classes, without looking. In many columns it is refused.
# - `select=True` helps where points are many and close together. With combinations of levels leave it out.
# - The direct fit of the model needs no public record near a private one.
# - Public records that are distributed like the private ones do not need any of this.
#
# *Publish once, then ask anything* (`weighted-sample.py`) shows hybrid weights at work, with standard errors.
