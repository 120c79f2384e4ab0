"""Effects and regressions of people with several rows, and combined effects of sites: ``vignettes/validation``.

Run by ``make validate``. ``HDPSTATS_SETS`` is the largest number of data sets of a setting; what was simulated is kept,
so that a study that was interrupted goes on where it ended.
"""

from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.effects_of_people_studies import (
    FEW,
    MOST,
    PEOPLE,
    PUBLIC,
    REGRESSIONS,
    SEPARATE,
    SITES,
    VISITS,
    one_average,
    one_combination,
    one_data_set,
    one_regression,
    reported_effects,
)
from tests.statistical.monte_carlo import OF_THE_MODEL, ratios, resumed, share_error

pytestmark = pytest.mark.validate

ROOT = Path(__file__).parents[2] / "vignettes"
PAGE, KEPT = ROOT / "validation" / "effects-of-people-and-sites.md", ROOT / "_executed" / "effects-of-people.jsonl"
SETS, REGRESSED, COMBINED, DIFFER = 200, 200, 200, 50
"""Data sets of people with several rows, of their regressions, of sites that agree, and of sites that differ."""

EPSILONS = (1.0, 0.3)
AT_SITES = (2.0, 0.6)

COVERAGE = (0.93, 0.97)
"""Of intervals, within two and a half Monte-Carlo standard errors."""

REPORTED = (0.92, 1.11)
"""The reported error over the root mean squared one: about those with which normal errors have such coverage."""

NUMBERS, APART, AVERAGES = (2, 3, 5, 9), (0.0, 0.05, 0.1), 400
"""Sites, standard deviations between them, and data sets, where limits at an estimated one are measured."""

STUDENT = "Student's limits"
"""What tells apart what was kept before limits at an estimated variance between sites were Student's."""

SIZE = 0.05
"""Of Cochran's Q."""


def _row(*cells):
    return "| " + " | ".join(cells) + " |"


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Effects of people with several rows, and of several sites, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Half of epsilon is for "
        f"the propensity model. {PUBLIC} public people, who are treated by another rule. *Sets* are data sets; in "
        "brackets stands the simulation error.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if len(lines) > 8:
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def _measured(of):
    """Return the number of sets, root mean squared and mean error, reported error, and coverage."""
    errors, count = of["error"], len(of["error"])
    rmse, reported = float(np.sqrt(np.mean(errors**2))), float(np.sqrt(np.mean(of["std error"] ** 2)))
    return count, rmse, float(errors.mean()), reported, float(of["covered"].mean())


def _cells(count, rmse, mean, reported, covered):
    unsure = f"{mean:.4f} ({rmse / np.sqrt(count):.4f})"
    return (str(count), f"{rmse:.4f}", unsure, f"{reported:.4f}", f"{covered:.3f} ({share_error(0.95, count):.3f})")


def _margin(count):
    return 2.5 * float(share_error(COVERAGE[0], count))


def test_intervals_of_effects_of_people_hold_the_truth(page):
    page += [
        "## People with several rows",
        "",
        f"{PEOPLE:,} people with 1 to {MOST} rows, whose outcomes go together. Errors are of the difference of the "
        "weighted means of people's means, or shares of rows; coverage is of 95 % intervals.",
        "",
        _row("people", "epsilon", "sets", "RMSE", "mean error", "reported", "coverage"),
        _row(*["---"] * 7),
    ]
    off = []
    for visits, epsilon in product(VISITS, EPSILONS):
        found = _measured(resumed(KEPT, f"{visits} {epsilon}", SETS, one_data_set, visits, epsilon))
        page.append(_row(visits.name, f"{epsilon:g}", *_cells(*found)))
        count, rmse, mean, reported, covered = found
        far = abs(mean) > 0.15 * reported + 2.5 * rmse / np.sqrt(count)
        wide = visits.told and covered > COVERAGE[1] + _margin(count)
        if far or wide or covered < COVERAGE[0] - _margin(count):
            off.append((visits.name, epsilon))
    page += ["", "Where public rows do not say whose they are, limits are those of single outcomes: wide enough.", ""]
    assert not off


def test_weighted_regressions_of_people_err_as_they_report(page):
    page += [
        "## Weighted regressions of people with several rows",
        "",
        f"`hdpf.logit`, `linear` and `poisson` with `weighting=`, `outcome ~ treatment`, of {PEOPLE:,} people with 1 "
        f"to {MOST} rows, whose outcomes go together, a tenth of them missing. Errors are of the treatment's "
        "coefficient, against that of the same equation of means of 400,000 people weighted by their true chance of "
        f"treatment; coverage is of 95 % intervals. *Sets* are those of {REGRESSED} in which the fit does not say that "
        "the coefficient is not estimable. *Ratio* is the reported error over the RMSE.",
        "",
        _row("model", "true", "epsilon", "sets", "RMSE", "mean error", "reported", "coverage", "ratio"),
        _row(*["---"] * 9),
    ]
    off = []
    for regression, epsilon in product(REGRESSIONS, EPSILONS):
        of = resumed(KEPT, f"{regression} {epsilon}", REGRESSED, one_regression, regression, epsilon)
        known = np.isfinite(of["error"])
        of = {name: each[known] for name, each in of.items()}
        count, rmse, mean, reported, covered = found = _measured(of)
        ratio, unsure = map(float, ratios(of["std error"], of["error"]))
        head = (regression.model, f"{regression.truth:.3f}", f"{epsilon:g}")
        page.append(_row(*head, *_cells(*found), f"{ratio:.2f} ({unsure:.2f})"))
        within = _within(covered, COVERAGE, *(float(share_error(each, count)) for each in COVERAGE))
        as_reported = _within(ratio, REPORTED, unsure, unsure)
        if not (within and as_reported) or abs(mean) > 0.15 * reported + 2.0 * rmse / np.sqrt(count):
            off.append((regression.model, epsilon))
    page += ["", "Errors of logarithms have long tails: a few large ones move an RMSE, and the ratio with it.", ""]
    assert not off


def _within(value, limits, below, above):
    """Whether a value is within limits, but for two Monte-Carlo standard errors."""
    return limits[0] - 2.0 * below <= value <= limits[1] + 2.0 * above


def test_combined_effects_hold_the_truth_and_q_finds_no_more_than_chance(page):
    numbers = ", ".join(f"{count:,}" for _, count, _ in SITES)
    page += [
        "## Sites that treat by different rules",
        "",
        f"Sites of {numbers} people, each with a propensity model of its own and epsilon at each site; nine of them, "
        "three of each, where differences differ, with a standard deviation of 0.05. Errors of a ratio are of its "
        "logarithm. *Q below 0.05*: how often the sites' p-value is. *tau*: the mean standard deviation found.",
        "",
        _row("sites", "epsilon", "sets", "RMSE", "mean error", "reported", "coverage", "Q below 0.05", "tau"),
        _row(*["---"] * 9),
    ]
    off = []
    for sites, epsilon in product(SEPARATE, AT_SITES):
        alike = sites.apart == 0.0
        key = f"{sites} {epsilon}" if sites.between is None else f"{sites} {epsilon} {STUDENT}"
        of = resumed(KEPT, key, COMBINED if alike else DIFFER, one_combination, sites, epsilon)
        found = _measured(of)
        count, rmse, mean, reported, covered = found
        differ = float(of["differ"].mean())
        unsure = f"{differ:.3f} ({share_error(SIZE, count):.3f})" if alike else f"{differ:.3f}"
        page.append(_row(sites.name, f"{epsilon:g}", *_cells(*found), unsure, f"{of['tau'].mean():.3f}"))
        far = abs(mean) > 0.25 * reported + 2.5 * rmse / np.sqrt(count)
        too_often = alike and differ > SIZE + 2.5 * float(share_error(SIZE, count))
        if far or too_often or covered < COVERAGE[0] - _margin(count):
            off.append((sites.name, epsilon))
    page += [""]
    assert not off


def test_limits_of_an_average_of_sites_that_differ_hold_it(page):
    numbers = ", ".join(f"{count:,}" for count in FEW)
    page += [
        "## A variance between sites",
        "",
        f"Sites of {numbers} people in turn, epsilon 10 at each. Their own differences have a standard deviation "
        "(*apart*), and errors are drawn as the sites report them. *Width* is the median one of limits.",
        "",
        _row("between", "sites", "apart", "sets", "RMSE", "mean error", "reported", "coverage", "width", "tau"),
        _row(*["---"] * 10),
    ]
    reported_effects()  # which processes that are forked have, then
    off = []
    for between, sites, apart in (*product(("paule_mandel",), NUMBERS, APART), ("dersimonian_laird", 3, 0.1)):
        key = f"{between} {sites} {apart} {STUDENT}"
        of = resumed(KEPT, key, AVERAGES, one_average, sites, apart, between)
        found = _measured(of)
        width, tau = float(np.median(of["width"])), float(of["tau"].mean())
        page.append(_row(between, str(sites), f"{apart:g}", *_cells(*found), f"{width:.3f}", f"{tau:.3f}"))
        if found[-1] < COVERAGE[0] - 2.0 * float(share_error(COVERAGE[0], found[0])):
            off.append((between, sites, apart))
    page += [
        "",
        "Limits of two sites are 12.7 standard errors to each side, those of three 4.3: they hold the mean, and say "
        "little.",
        "",
    ]
    assert not off
