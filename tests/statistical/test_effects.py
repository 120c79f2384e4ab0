"""Treatment effects by overlap weights, as shown in ``vignettes/validation``.

Run by ``make validate``. ``HDPSTATS_SETS`` is the largest number of data sets of a setting; what was simulated is kept,
so that a study that was interrupted goes on where it ended.
"""

from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.effects_studies import (
    DESIGNS,
    PRIVATE,
    PUBLIC,
    REGRESSIONS,
    names_of,
    one_data_set,
    one_regression,
)
from tests.statistical.monte_carlo import OF_THE_MODEL, resumed, share_error
from tests.statistical.weighted_hazards_studies import HAZARDS, one_hazards

pytestmark = pytest.mark.validate

ROOT = Path(__file__).parents[2] / "vignettes"
PAGE, KEPT = ROOT / "validation" / "treatment-effects.md", ROOT / "_executed" / "effects.jsonl"
KEPT_REGRESSIONS = ROOT / "_executed" / "weighted-regressions.jsonl"
KEPT_HAZARDS = ROOT / "_executed" / "weighted-hazards.jsonl"
PAIRED, REPEATS, REGRESSED, FOLLOWED = 400, 400, 400, 200
"""Data sets of the first two designs, of each other one, of each weighted regression and each weighted hazard model."""

WORSE = {1.0: 1.2, 0.3: 2.6}
"""Largest root mean squared error over that without noise, by epsilon, within two Monte-Carlo standard errors: of the
first two designs, in which a third of people are treated."""

COVERAGE = (0.93, 0.97)
"""Of intervals, within two Monte-Carlo standard errors."""


def _row(*cells):
    return "| " + " | ".join(cells) + " |"


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Treatment effects by overlap weights, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. {PRIVATE:,} private "
        f"people, five confounders; {PUBLIC} public people, who are treated by another rule. Half of epsilon is for "
        "the propensity model. *Sets* are data sets; *without noise* is ordinary software on the same private rows.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if len(lines) > 8:
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def test_errors_are_as_small_as_reported_and_intervals_hold_the_truth(page):
    headers = ("design", "epsilon", "sets", "RMSE", "mean error", "by privacy", "reported", "planned", "without noise")
    page += [
        "Errors are of the difference of the weighted means; coverage is of 95 % intervals: of the difference, the "
        "ratio, the means (average of both) and the propensity's coefficients (average of the six). *By privacy* is "
        "the mean error less that of ordinary software on the same rows, with its simulation error.",
        "",
    ]
    page += [_row(*headers, "difference", "ratio", "means", "propensity"), _row(*["---"] * 13)]
    off, counts = [], []
    for design, epsilon in product(DESIGNS, WORSE):
        first = design in DESIGNS[:2]
        of = resumed(KEPT, f"{design} {epsilon}", PAIRED if first else REPEATS, one_data_set, design, epsilon)
        count = len(of["error"])
        counts.append(count)
        rmse, free = (float(np.sqrt(np.mean(of[name] ** 2))) for name in ("error", "without noise"))
        mean, reported = float(of["error"].mean()), float(np.sqrt(np.mean(of["std error"] ** 2)))
        covered = [float(of[f"{name}covered"].mean()) for name in ("", "ratio ", "means ", "propensity ")]
        apart = of["error"] - of["without noise"]
        moved, unsure = float(apart.mean()), float(apart.std() / np.sqrt(count))
        numbers = (reported, float(np.nanmean(of["planned"])), free)
        shares = (f"{each:.3f}" for each in covered)
        means = (f"{rmse:.4f}", f"{mean:.4f}", f"{moved:.4f} ({unsure:.4f})")
        page.append(
            _row(design.name, f"{epsilon:g}", str(count), *means, *(f"{each:.4f}" for each in numbers), *shares)
        )
        slack = 2.0 / np.sqrt(2.0 * count)
        far = abs(mean) > 0.1 * reported + 2.0 * rmse / np.sqrt(count) or abs(moved) > 0.1 * reported + 2.0 * unsure
        lowest, highest = COVERAGE
        margin = 2.0 * float(share_error(lowest, count))
        too_large = first and rmse > WORSE[epsilon] * free * (1.0 + slack)
        if too_large or far or min(covered) < lowest - margin or covered[0] > highest + margin:
            off.append((design.name, epsilon))
    page += _unsure(min(counts))
    assert not off


def _unsure(fewest):
    """Return what the simulation error of so many data sets is, as lines of a page."""
    unsure = f"{float(share_error(0.95, fewest)):.3f} of a coverage and {1.0 / np.sqrt(2.0 * fewest):.0%} of an RMSE"
    return ["", f"The simulation error of {fewest} data sets is {unsure}.", ""]


def test_weighted_regressions_err_as_they_report(page):
    """Marginal structural models: every coefficient, against those of the weighted population."""
    page += [
        "## Weighted regressions",
        "",
        "`hdpf.logit`, `linear` and `poisson` with `weighting=`: a row per coefficient, those of the weighted "
        "population being true. *Planned* is over the reported error.",
        "",
        _row("people and model", "formula", "epsilon", "sets", "coefficient", "true", "mean error", "RMSE", "reported",
             "planned", "coverage"),
        _row(*["---"] * 11),
    ]  # fmt: skip
    off, counts = [], []
    for regression, epsilon in product(REGRESSIONS, WORSE):
        key = f"{regression} {epsilon}"
        of = resumed(KEPT_REGRESSIONS, key, REGRESSED, one_regression, regression, epsilon)
        count = len(of["error"])
        counts.append(count)
        rmse, reported = (np.sqrt(np.mean(of[name] ** 2, axis=0)) for name in ("error", "std error"))
        mean, covered = of["error"].mean(axis=0), of["covered"].mean(axis=0)
        planned = np.nanmean(of["planned"], axis=0) / reported
        for k, name in enumerate(names_of(regression)):
            numbers = (f"{each[k]:.3f}" for each in (regression.truth, mean, rmse, reported, planned, covered))
            head = (f"{regression.name}, {regression.model}", f"`{regression.formula}`") if not k else ("", "")
            page.append(_row(*head, f"{epsilon:g}", str(count), name, *numbers))
        far = np.abs(mean) > 0.3 * reported + 2.0 * rmse / np.sqrt(count)
        low = covered < COVERAGE[0] - 2.5 * share_error(COVERAGE[0], count)
        if far.any() or low.any():
            off.append((regression.name, epsilon))
    page += _unsure(min(counts))
    assert not off


def test_weighted_hazard_models_err_as_they_report(page):
    """Marginal structural hazard models: slopes and curves, against the expected fit of the weighted population."""
    page += [
        "## Weighted hazard models",
        "",
        "`hdpf.hazard` with `weighting=`, the complementary log-log link, ten intervals and three coefficients of the "
        "baseline: a row per slope. Censoring depends on nothing, a person's hazards are proportional, and those of "
        "weighted people nearly so; true are the coefficients of the weighted fit to all that is expected of a "
        "population in both arms. *Curves* is the average coverage of survival in both arms at the ends of intervals, "
        "where `x0` is 0. *Planned* is over the reported error, both for the middle data set.",
        "",
        _row("people", "terms", "epsilon", "sets", "slope", "true", "mean error", "RMSE", "reported", "planned",
             "coverage", "curves"),
        _row(*["---"] * 12),
    ]  # fmt: skip
    off, counts = [], []
    for hazards in HAZARDS:
        for epsilon in hazards.epsilons:
            of = resumed(KEPT_HAZARDS, f"{hazards} {epsilon}", FOLLOWED, one_hazards, hazards, epsilon)
            count, terms = len(of["error"]), hazards.terms
            counts.append(count)
            rmse, reported = (np.sqrt(np.mean(of[name] ** 2, axis=0)) for name in ("error", "std error"))
            mean, covered, curves = of["error"].mean(axis=0), of["covered"].mean(axis=0), float(of["curve"].mean())
            planned = np.nanmedian(of["planned"], axis=0) / np.median(of["std error"], axis=0)
            for k, name in enumerate(terms):
                numbers = (f"{each[k]:.3f}" for each in (hazards.truth[-len(terms) :], mean, rmse, reported, planned))
                head = (hazards.name, f"`{' + '.join(terms)}`") if not k else ("", "")
                last = (f"{covered[k]:.3f}", f"{curves:.3f}" if not k else "")
                page.append(_row(*head, f"{epsilon:g}", str(count), name, *numbers, *last))
            far = np.abs(mean) > 0.3 * reported + 2.5 * rmse / np.sqrt(count)
            low = covered < COVERAGE[0] - 2.5 * share_error(COVERAGE[0], count)
            unplanned = np.abs(planned - 1.0) > 0.1
            if far.any() or low.any() or curves < COVERAGE[0] - 0.02 or unplanned.any():
                off.append((hazards.name, epsilon))
    page += _unsure(min(counts))
    assert not off
