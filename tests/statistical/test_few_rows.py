"""Coverage with few public rows, of rare categories, sparse splines and rare outcomes: `make validate`.

What was computed is kept for the same code (`few_rows_studies.kept_file`): start it again where it was interrupted.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from tests.statistical.few_rows_studies import ROWS, measured, summarised
from tests.statistical.monte_carlo import OF_THE_MODEL

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "few-rows.md"
SETS = 200


def page_of(found: pd.DataFrame) -> str:
    """Return the page with a line for each row of the study."""
    sets = int(found["sets"].max())
    lines = [
        "# Few public rows and rare values, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Default fits, {sets} "
        f"data sets of each row: a share of .95 has a Monte-Carlo standard error of {np.sqrt(0.95 * 0.05 / sets):.3f}, "
        "and the lowest of several coefficients is lower by chance. *Too far*: given that the estimate is farther from "
        "0 than the truth. Coefficients that are not estimable are NaN and do not count. With 200 data sets the study "
        "takes about 20 minutes of one processor.",
        "",
        OF_THE_MODEL,
        "",
        "| row | n | epsilon | coverage | lowest | too far | lowest | NaN | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for place, row in enumerate(ROWS):
        part = found.loc[place]
        numbers = [part["coverage"].mean(), part["coverage"].min(), part["far"].mean(), part["far"].min()]
        cells = " | ".join(f"{each:.3f}" for each in numbers)
        seconds = f"{part['nan'].mean():.1%} | {part['seconds'].mean():.2f}"
        lines.append(f"| {row.name} | {row.private:,} | {row.epsilon:g} | {cells} | {seconds} |")
    lines += [
        "",
        "## By coefficient",
        "",
        "Pooled estimates, as they are reported. *Apart*: how far the public fit is from the truth, on average.",
        "",
        "| row | n | epsilon | coefficient | coverage | too far | truth | bias | apart | RMSE | length |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (place, term), part in found.iterrows():
        row = ROWS[place]
        shares = f"{part['coverage']:.3f} | {part['far']:.3f}"
        numbers = " | ".join(f"{part[name]:.3g}" for name in ("truth", "bias", "apart", "rmse", "length"))
        lines.append(f"| {row.name} | {row.private:,} | {row.epsilon:g} | {term} | {shares} | {numbers} |")
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return summarised(measured(SETS))


def test_the_page(found: pd.DataFrame) -> None:
    PAGE.write_text(page_of(found), encoding="utf-8")


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_intervals_hold_the_truth(found: pd.DataFrame, place: int) -> None:
    row, part = ROWS[place], found.loc[place]
    least = part.loc[[row.watched]] if row.watched else part
    assert (least["coverage"] >= 0.92 - 3 * np.sqrt(0.92 * 0.08 / SETS)).all()
    assert least["coverage"].mean() >= 0.92
    if row.watched:
        assert (least["far"] >= 0.90 - 3 * np.sqrt(0.9 * 0.1 / (SETS / 2))).all()
