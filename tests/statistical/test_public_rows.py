"""Coverage of public only at few rows, of a level that public rows lack, of the median of a count: `make validate`."""

from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from tests.statistical.monte_carlo import OF_THE_MODEL, together
from tests.statistical.public_rows_studies import (
    DISTRIBUTIONS,
    FEW,
    absent_level,
    count_median,
    few_public_rows,
)

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "public-rows.md"
ALONE, LEVELS, MEDIANS = 1000, 60, 300
SHARES, EPSILONS = (0.03, 0.1, 0.4), (0.5, 3.0)


def rate(values: "pd.Series[float]", digits: int = 3) -> str:
    """Return a mean with its Monte-Carlo standard error."""
    known = values.dropna()
    return f"{known.mean():.{digits}f} ({known.std(ddof=1) / max(len(known), 1) ** 0.5:.{digits}f})"


@pytest.fixture(scope="module")
def alone() -> pd.DataFrame:
    return pd.DataFrame(together(few_public_rows, range(ALONE)))


@pytest.fixture(scope="module")
def levels() -> pd.DataFrame:
    jobs = [(*design, seed) for design in product(SHARES, EPSILONS, (True, False)) for seed in range(LEVELS)]
    return pd.DataFrame(together(absent_level, jobs))


@pytest.fixture(scope="module")
def medians() -> pd.DataFrame:
    jobs = [(*design, seed) for design in product(DISTRIBUTIONS, EPSILONS) for seed in range(MEDIANS)]
    return pd.DataFrame(together(count_median, jobs))


def test_the_page(alone: pd.DataFrame, levels: pd.DataFrame, medians: pd.DataFrame) -> None:
    lines = [
        "# What rests on public rows, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Shares of data sets in "
        "which a 95 % interval holds the truth, in brackets their Monte-Carlo standard errors.",
        "",
        OF_THE_MODEL,
        "",
        f"## Public only: {FEW} public rows",
        "",
        f"Patients of gbsg with outcomes by a logistic regression, {ALONE} data sets. Public only is maximum "
        "likelihood, as `glm` has it; a coefficient without a finite estimate is NaN and does not count.",
        "",
        "| term | coverage | without an estimate |",
        "|---|---|---|",
        *(f"| {term} | {rate(found)} | {found.isna().mean():.1%} |" for term, found in alone.items()),
        "",
        "## A level that public rows lack",
        "",
        f"4,000 private rows, a share of them with the level, 300 public rows without it, {LEVELS} data sets. Pooled "
        "estimates; *described* is the description that a fit adds to its query.",
        "",
        "| share | epsilon | described | coverage of the level | of the others | standard error | RMSE | NaN |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (share, epsilon, described), part in levels.groupby(["share", "epsilon", "described"]):
        error = f"{part['std_error'].median():.2f} | {float(np.sqrt((part['error'] ** 2).mean())):.2f}"
        cells = f"{rate(part['level'])} | {rate(part['others'])} | {error} | {part['error'].isna().mean():.0%}"
        lines.append(f"| {share:g} | {epsilon:g} | {'yes' if described else 'no'} | {cells} |")
    lines += [
        "",
        "## The median of a count",
        "",
        f"`hdpf.quantile('y ~ 1')`, 3,000 private and 200 public rows, {MEDIANS} data sets: the median that R's "
        "`quantile(type = 1)` defines.",
        "",
        "| count | epsilon | private only | pooled | width |",
        "|---|---|---|---|---|",
    ]
    for (name, epsilon), part in medians.groupby(["count", "epsilon"]):
        cells = f"{rate(part['private'])} | {rate(part['pooled'])} | {part['width'].mean():.2f}"
        lines.append(f"| {name} | {epsilon:g} | {cells} |")
    PAGE.write_text("\n".join([*lines, ""]), encoding="utf-8")


def test_public_only_covers_at_few_rows(alone: pd.DataFrame) -> None:
    for term, found in alone.items():
        error = float(np.sqrt(0.05 * 0.95 / found.notna().sum()))
        assert 0.93 - 3 * error <= found.mean(), term


def test_a_level_that_public_rows_lack_is_covered_where_it_was_described(levels: pd.DataFrame) -> None:
    known = levels[levels["described"]].groupby(["share", "epsilon"])["level"].mean().dropna()
    assert (known >= 0.93 - 3 * np.sqrt(0.05 * 0.95 / LEVELS)).all()


def test_the_median_of_a_count_is_covered(medians: pd.DataFrame) -> None:
    assert (medians.groupby(["count", "epsilon"])[["private", "pooled"]].mean() >= 0.93).all(axis=None)
