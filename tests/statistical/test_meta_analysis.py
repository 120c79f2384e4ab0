"""Accuracy and coverage of estimates that several sites' releases are combined to. Run by ``make validate``."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from tests.statistical.meta_analysis_studies import Sites, equal, simulate
from tests.statistical.monte_carlo import OF_THE_MODEL

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "meta-analysis.md"
REPEATS = 60
UNEQUAL = Sites(sizes=(400, 800, 1600, 3200, 4000), epsilons=(1.0, 2.0, 0.5, 1.0, 0.3))
TINY = equal(3_000, 10)
SETTINGS = {
    "1 site of 10,000": (equal(10_000, 1), 0.085),
    "3 sites, 10,000 in all": (equal(10_000, 3), 0.10),
    "10 sites, 10,000 in all": (equal(10_000, 10), 0.14),
    "10 sites, 10,000 in all, epsilon 5": (equal(10_000, 10, epsilon=5.0), 0.075),
    "10 sites, 3,000 in all": (TINY, 0.36),
    "5 sites of 400 to 4,000, epsilon 0.3 to 2": (UNEQUAL, 0.14),
}
COLUMNS = ["private", "pooled", "unweighted", "best site", "covered private", "covered pooled", "covered sites"]


@pytest.fixture(scope="module")
def rows() -> list[str]:
    """Return the lines of the page's table, which is written once all of them are there."""
    lines: list[str] = []
    yield lines
    if len(lines) == len(SETTINGS):
        head = [
            "# Several sites, one release each: accuracy and coverage, measured",
            "",
            f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Logistic "
            "regression with ten correlated covariates and 200 public rows, as in [logistic](logistic.md); epsilon 1 "
            "where nothing else is said. Every site releases one point by objective perturbation; points are combined "
            f"by inverse variance and pooled with the public fit. Means over {REPEATS} simulated data sets: relative "
            "errors of the coefficients (private: of all sites without the public fit; unweighted: the plain mean of "
            "the sites; best site: the one that happens to be nearest), and shares of coefficients within their 95 % "
            "intervals. Heterogeneous: how often Cochran's Q says at 5 % that sites differ, which they do not. Where "
            "10 sites have 300 people each the public fit has as much weight as all of them; it is shrunk towards "
            "zero, and covers 0.94 alone.",
            "",
            OF_THE_MODEL,
            "",
            "| sites | " + " | ".join([*COLUMNS, "heterogeneous"]) + " |",
            "|---|" + "---|" * (len(COLUMNS) + 1),
        ]
        PAGE.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")


def _line(label: str, table: pd.DataFrame) -> str:
    cells = [f"{table[name].mean():.3f}" for name in COLUMNS]
    share = table["heterogeneous"].mean()
    return "| " + " | ".join([label, *cells, "" if np.isnan(share) else f"{share:.2f}"]) + " |"


@pytest.mark.parametrize("label", SETTINGS)
def test_combinations_cover_and_are_as_precise_as_stated(label: str, rows: list[str]) -> None:
    sites, largest = SETTINGS[label]
    table = simulate(sites, repeats=REPEATS)
    rows.append(_line(label, table))
    assert table["pooled"].mean() < largest
    assert 0.93 <= table["covered private"].mean() <= 0.985
    # With 300 people a site the public fit has as much weight as all sites; it is shrunk, and covers 0.94 alone.
    assert (0.90 if sites is TINY else 0.93) <= table["covered pooled"].mean() <= 0.985
    if len(sites.sizes) > 1:
        assert table["private"].mean() < table["best site"].mean()
        assert table["heterogeneous"].mean() <= 0.17  # 5 % in 60: more than 10 of them have a probability of 0.0003
        assert table["heterogeneous terms"].mean() <= 0.10
    if len(set(sites.epsilons)) > 1:
        assert table["private"].mean() < 0.8 * table["unweighted"].mean()


def test_sites_that_differ_are_told_apart() -> None:
    table = simulate(equal(10_000, 5, epsilon=5.0, apart=0.8), repeats=20)
    assert table["heterogeneous"].mean() > 0.8
