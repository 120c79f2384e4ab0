"""Accuracy and coverage of logistic regression, as stated in ``vignettes/validation``. Run by ``make validate``."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from tests.statistical.designs import DESIGNS
from tests.statistical.monte_carlo import OF_THE_MODEL
from tests.statistical.studies import (
    COVERAGE_EPSILONS,
    Setting,
    Shift,
    simulate,
    simulate_design,
    simulate_shift,
    summarise,
)

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "logistic.md"
REPEATS = 120
SECTIONS = 14
LARGEST_ERROR = {0.1: 0.34, 0.5: 0.11, 1.0: 0.08, 3.0: 0.067, 10.0: 0.065}
LARGEST_ERROR_ALONE = {0.1: 0.68, 0.5: 0.25, 1.0: 0.155, 3.0: 0.08, 10.0: 0.068}
COVERAGE_SETTINGS = (Setting(1_000, 50), Setting(1_000, 200), Setting(10_000, 200))


def _text(summary: pd.DataFrame) -> list[str]:
    return [f"{row.value:.3f} ({row.error:.3f})" for row in summary.itertuples()]


def _row(label: str, cells: list[str]) -> str:
    return "| " + " | ".join([label, *cells]) + " |"


@pytest.fixture(scope="module")
def page() -> list[str]:
    lines: list[str] = [
        "# Accuracy and coverage of `logit`, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Ten correlated "
        "Gaussian covariates (AR 0.5) in the unit ball, random true slopes, linear predictor with standard deviation "
        "1.5; every number is over simulated data sets through the public API, in brackets its Monte-Carlo standard "
        "error.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("setting", "limits", "title"),
    [
        (Setting(10_000, 200), LARGEST_ERROR, "with 200 public rows"),
        (Setting(10_000, 200, use_public=False), LARGEST_ERROR_ALONE, "without public rows (row_norm = 1)"),
    ],
)
def test_median_relative_error_is_within_its_limit(page, setting, limits, title):
    table = simulate(setting, repeats=REPEATS, first_seed=1)
    summary = summarise(table, "error", lambda values: float(np.median(values)))
    page += [
        f"## Relative error of `params`, {setting.records} private records, {title}",
        "",
        f"Median of |b - b*| / |b*| over {REPEATS} data sets.",
        "",
        _row("epsilon", [f"{epsilon:g}" for epsilon in limits]),
        _row("---", ["---"] * len(limits)),
        _row("error", _text(summary)),
        _row("limit", [f"{limit:g}" for limit in limits.values()]),
        "",
    ]
    for epsilon, limit in limits.items():
        assert summary.value[epsilon] <= limit, f"epsilon={epsilon}"


@pytest.mark.parametrize("setting", COVERAGE_SETTINGS)
def test_coverage_of_95_percent_intervals(page, setting):
    repeats = (4 if setting.records == 1_000 else 2) * REPEATS
    table = simulate(setting, repeats=repeats, first_seed=10_001, epsilons=COVERAGE_EPSILONS)
    private = summarise(table, "covered_private", lambda values: float(np.mean(values)))
    pooled = summarise(table, "covered_pooled", lambda values: float(np.mean(values)))
    page += [
        f"## Coverage of 95 % intervals, {setting.records} private and {setting.public} public records",
        "",
        f"Share of the 11 coefficients covered, mean over {repeats} data sets.",
        "",
        _row("epsilon", [f"{epsilon:g}" for epsilon in COVERAGE_EPSILONS]),
        _row("---", ["---"] * len(COVERAGE_EPSILONS)),
        _row("private_only", _text(private)),
        _row("pooled", _text(pooled)),
        "",
    ]
    for epsilon in COVERAGE_EPSILONS:
        assert 0.93 <= private.value[epsilon] <= 0.985, f"epsilon={epsilon}"
        assert pooled.value[epsilon] >= 0.93, f"epsilon={epsilon}"


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_coverage_in_less_kind_designs(page, design):
    table = simulate_design(design, repeats=REPEATS)
    page += [
        f"## Coverage, {design.name}: {design.records} private and {design.public} public records",
        "",
        f"Mean over {REPEATS} data sets; Monte-Carlo standard errors below 0.015.",
        "",
        _row("epsilon", [f"{epsilon:g}" for epsilon in COVERAGE_EPSILONS]),
        _row("---", ["---"] * len(COVERAGE_EPSILONS)),
        *(_row(name, [f"{value:.3f}" for value in table[name]]) for name in table.columns),
        "",
    ]
    assert table.to_numpy().min() >= 0.91


@pytest.mark.parametrize(
    ("shift", "lowest"),
    [
        (Shift("rotterdam", 1.0, 0.0), 0.86),
        (Shift("gbsg", 1.0, 0.0), 0.65),
        (Shift("gbsg", 3.0, 0.0), 0.65),
        (Shift("gbsg", 3.0, 0.3), 0.84),
    ],
)
def test_coverage_when_public_covariates_differ(page, shift, lowest):
    """Where public rows resemble the private ones badly, intervals fall short unless a noisy Hessian is released."""
    table = simulate_shift(shift, repeats=REPEATS)
    like = "from the same patients" if shift.public == "rotterdam" else "from gbsg (hormon: 36 % against 11 %)"
    share = f", se_share = {shift.se_share:g}" if shift.se_share else ""
    page += [
        f"## Coverage at epsilon = {shift.epsilon:g}{share}, Rotterdam's covariates, public rows {like}",
        "",
        f"2,982 private and 555 public records, the same coefficients in both, {REPEATS} data sets; Monte-Carlo "
        "standard errors below 0.04.",
        "",
        _row("", list(table.columns)),
        _row("---", ["---"] * table.shape[1]),
        *(_row(name, [f"{value:.3f}" for value in row]) for name, row in table.iterrows()),
        "",
    ]
    assert table.to_numpy().min() >= lowest
    assert table.to_numpy().mean() >= 0.9
