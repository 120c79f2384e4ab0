"""Several sites' blocks and statistics against the corrected errors, coverage, and intervals across sites.

``make validate``. Fits go through studies of several sites, each with its own ledger and exact noise; the rest of the
grid through `hdpstats.papers.chen_sung`, whose distribution is the same.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.meta_analysis import between_variances, spread_variance, student
from hdpstats.mechanisms.subsample.site import optimal_blocks
from hdpstats.papers import chen_sung as paper
from hdpstats.results.plots import COLOURS, GREY

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "distributed.md"
N = 1000
EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0)
PARTIES = (5, 20)
THROUGH_SITES = {(5, 0.03): 150, (5, 0.3): 150, (5, 3.0): 150, (20, 0.1): 50, (20, 1.0): 50}
"""The cells that are fitted at sites, and how often."""
WIDE = 0.1
"""Below this epsilon rates from blocks reach the ends of their range, on which a fit projects and no formula counts."""
SIMULATED = 4000
SECTIONS = 7
SCHEMA = hdp.Schema(x=hdp.Continuous(0, 30, complete=True), b=hdp.Binary(complete=True))
RATE, COIN = paper.exponential_times(), paper.events()
INFORMATION = {"rate": 1.0, "odds": 0.24}
LOWER_ORDER = 0.1
"""Part of 1 / I that terms of the order of k / N, which the formulas leave out, may add."""


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Sites that answer on their own, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`.",
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def log_odds(p):
    p = np.clip(p, 0.01, 0.99)
    return np.log(p / (1 - p))


def blocks_of(parties, epsilon):
    """Return the number of blocks with the least predicted error."""
    terms = {"epsilon": epsilon, "widths": np.array([1.5]), "spreads": np.array([1.0])}
    return optimal_blocks(N, **terms, parties=parties)


def at_sites(parties, epsilon, repeats, *, seed):
    """Return rates from blocks and log-odds from statistics of fits at several sites."""
    rng, found = np.random.default_rng(seed), []
    options = hdp.mechanisms.SubsampleAggregate(blocks=blocks_of(parties, epsilon))
    for _ in range(repeats):
        private = {
            f"site {j}": pd.DataFrame({"x": RATE.draw(rng, (N,)), "b": COIN.draw(rng, (N,))}) for j in range(parties)
        }
        study = hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=10), row_order="arbitrary")
        rate = hdpf.distribution("x ~ 1", data=study, family="exponential", ranges={"rate": RATE.box})
        chance = hdpf.distribution("b ~ 1", data=study, family="bernoulli", ranges={"probability": COIN.box})
        found.append(
            (rate.fit(epsilon, mechanism=options).params.iloc[0], log_odds(chance.fit(epsilon).params.iloc[0]))
        )
    return np.array(found)


HEAD = ["| sites | epsilon | through | MSE x M N I | its Monte-Carlo error | predicted |", "| --- " * 6 + "|"]


def line_of(parties, epsilon, through, squares, predicted, information):
    """Return a line of the table, and whether the error is as predicted."""
    scale, error = parties * N * information, squares.std() / np.sqrt(len(squares))
    numbers = f"{squares.mean() * scale:.3f} | {error * scale:.3f} | {predicted * scale:.3f}"
    fits = abs(squares.mean() - predicted) <= 4 * error + LOWER_ORDER / scale
    return f"| {parties} | {epsilon:g} | {through} | {numbers} |", fits


def test_several_sites_meet_the_corrected_errors(page):
    """Would fail for M epsilon, for sqrt(M), for noise of k blocks, and for the same noise at two sites."""
    met, printed = {"rate": [], "odds": []}, []
    lines = {"rate": [], "odds": []}
    for parties in PARTIES:
        for epsilon in EPSILONS:
            terms = {"parties": parties, "records": N, "epsilon": epsilon}
            k, many = blocks_of(parties, epsilon), {"repeats": SIMULATED, "seed": 1}
            predicted = {
                "rate": paper.mse_blocks(**terms, blocks=k, width=1.5, information=1.0),
                "odds": paper.mse_statistics(**terms, width=1.0, information=0.24),
            }
            found = {
                "simulation": {
                    "rate": paper.repeat_dsaa(RATE, **terms, blocks=k, **many),
                    "odds": log_odds(paper.repeat_dssa(COIN, **terms, **many)),
                }
            }
            if (parties, epsilon) in THROUGH_SITES:
                real = at_sites(parties, epsilon, THROUGH_SITES[parties, epsilon], seed=round(1000 * epsilon))
                found["sites"] = {"rate": real[:, 0], "odds": real[:, 1]}
            for through, estimates in found.items():
                for which, truth in (("rate", 1.0), ("odds", log_odds(0.4))):
                    if (which, through) == ("rate", "sites") and epsilon < WIDE:
                        continue
                    squares = (estimates[which] - truth) ** 2
                    line, fits = line_of(parties, epsilon, through, squares, predicted[which], INFORMATION[which])
                    lines[which].append(line)
                    met[which].append(fits)
                squares = (estimates["odds"] - log_odds(0.4)) ** 2
                wrong = paper.mse_statistics_printed(**terms, width=1.0, information=0.24)
                printed.append(line_of(parties, epsilon, through, squares, wrong, 0.24)[1])
    titles = {
        "rate": "Subsample and aggregate: the rate of an exponential distribution, range 0.5 to 2, 1,000 people a site",
        "odds": "Sufficient statistics: the log-odds of a binary column, 1,000 people a site",
    }
    for which, title in titles.items():
        page += [f"## {title}", "", *HEAD, *lines[which], ""]
    assert all(met["rate"])
    assert all(met["odds"])
    assert not all(printed)


def test_efficiency_is_reached_as_sites_grow(page):
    """MSE x M N I goes to 1 for statistics, and slowly for blocks."""
    sizes = np.array([250, 1_000, 4_000, 16_000])
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes, parties, last = figure.add_subplot(), 5, {}
    series = [("statistics", 0.1, "o"), ("statistics", 1.0, "s"), ("blocks", 1.0, "^"), ("blocks", 3.0, "D")]
    for (kind, epsilon, marker), colour in zip(series, COLOURS, strict=False):
        measured, predicted = [], []
        for n in sizes.tolist():
            terms = {"parties": parties, "records": n, "epsilon": epsilon}
            if kind == "statistics":
                found = log_odds(paper.repeat_dssa(COIN, **terms, repeats=1500, seed=n)) - log_odds(0.4)
                said, information = paper.mse_statistics(**terms, width=1.0, information=0.24), 0.24
            else:
                k = min(round(paper.best_blocks(**terms, width=1.5)), n // 25)
                found = paper.repeat_dsaa(RATE, **terms, blocks=k, repeats=600, seed=n) - 1.0
                said, information = paper.mse_blocks(**terms, blocks=k, width=1.5, information=1.0), 1.0
            measured.append(np.mean(found**2) * parties * n * information)
            predicted.append(said * parties * n * information)
        label = rf"{kind}, $\varepsilon$ = {epsilon:g}"
        axes.plot(sizes, measured, marker, color=colour, label=label)
        axes.plot(sizes, predicted, color=colour, linewidth=1)
        last[kind, epsilon] = measured
    axes.axhline(1.0, color=GREY, linestyle="--", linewidth=1)
    axes.set(
        xscale="log", yscale="log", xlabel="people of a site, N", ylabel=r"MSE $\times$ $M N I$", ylim=(0.75, None)
    )
    axes.set_title("Simulated (points) and predicted (lines), 5 sites", loc="left", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(PAGE.with_suffix(".png"), dpi=100, metadata={"Software": None})
    page += ["## Efficiency: MSE x M N I goes to 1", "", "![points on lines that fall to 1](distributed.png)", ""]
    assert last["statistics", 1.0][-1] == pytest.approx(1.0, abs=0.15)
    assert all(found[-1] < found[0] for key, found in last.items() if key != ("statistics", 1.0))


SIZES = {"A": 150, "B": 500, "C": 1000, "D": 4000}
EPSILONS = {"A": 2.0, "B": 0.1, "C": 1.0, "D": 0.5}


def test_sites_of_different_sizes_and_epsilons_are_weighted_well(page):
    """By inverse variance, against the unweighted mean of the paper and a mean by numbers of people."""
    schema, rng = hdp.Schema(visits=hdp.Continuous(0, 25, complete=True)), np.random.default_rng(3)
    found = {"ours": [], "aggregate": [], "by people": [], "unweighted": [], "said": []}
    for _ in range(200):
        private = {name: pd.DataFrame({"visits": rng.poisson(3.0, n) * 1.0}) for name, n in SIZES.items()}
        study = hdp.Study(private=private, schema=schema, budget=hdp.Budget(epsilon=10))
        fit = hdpf.distribution("visits ~ 1", data=study, family="poisson").fit(EPSILONS)
        means = np.array([site.estimate.values[0] for site in fit.site_facts])
        n = np.array(list(SIZES.values()))
        found["ours"].append(fit.params.iloc[0] - 3.0)
        found["aggregate"].append(hdp.aggregate(fit).params.iloc[0] - 3.0)
        found["by people"].append((n * means).sum() / n.sum() - 3.0)
        found["unweighted"].append(means.mean() - 3.0)
        found["said"].append(fit.bse.iloc[0])
    error = {name: float(np.sqrt(np.mean(np.square(values)))) for name, values in found.items()}
    page += ["## Sites of different sizes and epsilons: the mean of counts from statistics, 200 data sets", ""]
    page += [f"People: {SIZES}; epsilon: {EPSILONS}.", "", "| combined | root mean squared error |", "| --- | --- |"]
    names = {
        "ours": "at once, by inverse variance (`fit`)",
        "aggregate": "afterwards, by inverse variance (`aggregate`)",
        "by people": "by numbers of people",
        "unweighted": "unweighted",
    }
    page += [f"| {label} | {error[name]:.4f} |" for name, label in names.items()]
    page += [f"| standard error that is reported | {error['said']:.4f} |", ""]
    assert error["ours"] == pytest.approx(error["said"], rel=0.15)
    assert max(error["ours"], error["aggregate"]) < min(error["by people"], error["unweighted"])


def test_intervals_cover_the_truth_with_one_three_and_ten_sites(page):
    """Through the public API, sites of different sizes, both mechanisms."""
    schema = hdp.Schema(sbp=hdp.Continuous(40, 240, complete=True), died=hdp.Binary(complete=True))
    truths = {"normal": ("sbp", {"sd": (5, 40)}, [130.0, 15.0]), "bernoulli": ("died", None, [0.4])}
    mechanisms = {
        "statistics": hdp.mechanisms.SufficientStatistics(),
        "subsample": hdp.mechanisms.SubsampleAggregate(),
    }
    page += ["## Coverage of 95 % intervals, sites of 300 to 2,000 people, epsilon 0.5, 120 data sets", ""]
    page += ["| sites | mechanism | family | covered |", "| --- " * 4 + "|"]
    rng, shares = np.random.default_rng(2), []
    for count in (1, 3, 10):
        covered = {(mechanism, name): [] for mechanism in mechanisms for name in truths}
        for _ in range(120):
            private = {
                f"site {j}": pd.DataFrame({"sbp": rng.normal(130, 15, n), "died": rng.random(n) < 0.4})
                for j, n in enumerate(np.geomspace(300, 2000, count).astype(int) if count > 1 else [1000])
            }
            study = hdp.Study(private=private, schema=schema, budget=hdp.Budget(epsilon=10), row_order="arbitrary")
            for name, (column, ranges, truth) in truths.items():
                model = hdpf.distribution(f"{column} ~ 1", data=study, family=name, ranges=ranges)
                for mechanism, options in mechanisms.items():
                    limits = model.fit(0.5, mechanism=options).conf_int()
                    covered[mechanism, name].append((limits[0] <= truth) & (truth <= limits[1]))
        for (mechanism, name), found in covered.items():
            shares.append(float(np.mean(found)))
            page.append(f"| {count} | {mechanism} | {name} | {shares[-1]:.3f} |")
    page.append("")
    assert all(0.89 <= share <= 0.995 for share in shares)
    assert 0.93 <= np.mean(shares) <= 0.985


def test_intervals_across_sites_need_no_model_of_a_site(page):
    """Counts with three times the variance that their family says: its intervals cover too little, others do not."""
    schema, rng = hdp.Schema(visits=hdp.Continuous(0, 40, complete=True)), np.random.default_rng(4)
    covered = {(count, kind): [] for count in (4, 10) for kind in ("fit", "model", "across_sites")}
    for count in (4, 10):
        for _ in range(150):
            private = {
                f"site {j}": pd.DataFrame({"visits": rng.negative_binomial(1.5, 1 / 3, n) * 1.0})
                for j, n in enumerate(np.geomspace(400, 2000, count).astype(int))
            }
            study = hdp.Study(private=private, schema=schema, budget=hdp.Budget(epsilon=10))
            fit = hdpf.distribution("visits ~ 1", data=study, family="poisson").fit(4.0)
            intervals = {"fit": fit.conf_int()}
            for kind in ("model", "across_sites"):
                intervals[kind] = hdp.aggregate(fit, interval=kind).conf_int()
            for kind, limits in intervals.items():
                covered[count, kind].append(bool(limits.iloc[0, 0] <= 3.0 <= limits.iloc[0, 1]))
    page += ["## Counts of three times the variance of their family: 95 % intervals, epsilon 4, 150 data sets", ""]
    page += ["| sites | intervals | covered |", "| --- " * 3 + "|"]
    shares = {key: float(np.mean(found)) for key, found in covered.items()}
    page += [f"| {count} | {kind} | {share:.3f} |" for (count, kind), share in shares.items()]
    page.append("")
    assert all(share < 0.85 for (_, kind), share in shares.items() if kind != "across_sites")
    assert all(0.90 <= share <= 0.995 for (_, kind), share in shares.items() if kind == "across_sites")


def test_intervals_across_sites_that_differ_cover_their_mean(page):
    """Normal estimates of sites that differ, tau as large as a standard error; 4,000 draws."""
    page += [
        "## Sites that differ (tau = 1), standard errors from 0.5 to 2: 95 % intervals of their mean, 4,000 draws",
        "",
        "| sites | variance between | normal distribution | Student's distribution, across sites |",
        "| --- " * 4 + "|",
    ]
    rng, students, normals = np.random.default_rng(5), {}, {}
    for count in (3, 5, 10, 30):
        variances = (np.geomspace(0.5, 2.0, count) ** 2)[:, None]
        for method in ("dersimonian_laird", "paule_mandel"):
            hits = np.zeros(2)
            for values in rng.normal(0.0, np.sqrt(variances + 1.0), (4000, count, 1)):
                weights = 1.0 / (variances + between_variances([values], [variances], method=method))
                mean = float((weights * values).sum() / weights.sum())
                spread = np.sqrt(spread_variance(values, weights))
                half = 1.96 / np.sqrt(weights.sum()), float(student(spread, degrees=count - 1).half_width(0.95)[0])
                hits += np.abs(mean) <= np.array(half)
            normal, across = hits / 4000
            students[count, method], normals[count, method] = across, normal
            page.append(f"| {count} | {method} | {normal:.3f} | {across:.3f} |")
    page.append("")
    assert all(0.93 <= share <= 0.97 for (count, _), share in students.items() if count >= 10)
    assert all(share >= 0.90 for share in students.values())
    assert all(share > normals[key] for key, share in students.items())
