"""Counts and numbers whose covariates differ, as shown in ``vignettes/validation``. Run by ``make validate``."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import hdpstats.api as hdp
from tests.statistical.monte_carlo import OF_THE_MODEL
from tests.statistical.shifted_losses_studies import HOW, MECHANISMS, MODELS, PRIVATE, PUBLIC, simulate

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "shifted-losses.md"
REPEATS, EPSILONS, SECTIONS = 60, (1.0, 3.0), 2
LEAST_MEAN, LEAST = 0.93, 0.83
ERROR = (0.05 * 0.95 / REPEATS) ** 0.5


def _row(*cells):
    return "| " + " | ".join(cells) + " |"


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Counts and numbers whose private covariates differ from the public ones, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. {PRIVATE:,} private "
        f"and {PUBLIC} public rows, four covariates: private means are moved by 0.6 and -0.4 standard deviations, "
        "spreads are 0.6 and 1.3 times the public ones, a level that 40 % of public people have is had by 10 %. Counts "
        "are Poisson; residuals of numbers have rare large ones and one spread in both. Coverage of 95 % intervals, "
        f"mean over coefficients and lowest in brackets ({REPEATS} data sets, Monte-Carlo standard error of one "
        f"coverage {ERROR:.3f}). *Without*: `fit(describe=False)`. *With*: the fit asks for averages of its covariates "
        "from its own epsilon. *Oracle*: the same with the curvature and the scores' covariance of the private rows "
        "themselves, which nothing released tells.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_intervals_cover_where_covariates_differ(page, mechanism):
    models = MODELS if mechanism == "objective" else ("Poisson", "linear")
    shown = HOW if mechanism == "objective" else HOW[:2]
    page += [
        f"## {mechanism.capitalize()}",
        "",
        _row("model", "epsilon", "estimate", *shown),
        _row(*["---"] * (3 + len(shown))),
    ]
    low = []
    for model in models:
        for epsilon in EPSILONS:
            found = simulate(model, mechanism, epsilon, repeats=REPEATS)
            for name in ("private_only", "pooled"):
                cells = [f"{found[how, name].mean():.3f} ({found[how, name].min():.2f})" for how in shown]
                page.append(_row(model, f"{epsilon:g}", name, *cells))
                told = found["with", name]
                if told.mean() < LEAST_MEAN - ERROR or told.min() < LEAST:
                    low.append((model, epsilon, name))
    page.append("")
    assert not low
