"""Survival curves adjusted by overlap weights, as shown in ``vignettes/validation``.

Run by ``make validate``. ``HDPSTATS_SETS`` is the largest number of data sets of a setting; what was simulated is kept,
so that a study that was interrupted goes on where it ended.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical import adjusted_curves_studies as studies
from tests.statistical.monte_carlo import OF_THE_MODEL, resumed, share_error

pytestmark = pytest.mark.validate

ROOT = Path(__file__).parents[2] / "vignettes"
PAGE, KEPT = ROOT / "validation" / "adjusted-curves.md", ROOT / "_executed" / "adjusted-curves.jsonl"
SETTINGS = (*((design, 1.0) for design in studies.DESIGNS), (studies.DESIGNS[0], 0.3))
REPEATS, TESTS = 100, 2_000
"""Data sets of a setting, and those in which the log-rank test is made."""

COVERAGE = (0.93, 0.97)
"""Of limits, within two Monte-Carlo standard errors."""

SIZE = (0.04, 0.06)
"""Of the log-rank test at 5 %, within two Monte-Carlo standard errors."""


def _row(*cells):
    return "| " + " | ".join(cells) + " |"


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Adjusted survival curves, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. {studies.PRIVATE:,} "
        f"private people, five confounders; {studies.PUBLIC} public people, who are treated by another rule. Half of "
        "epsilon is for the propensity model. *Sets* are data sets; errors of shares are those of so many.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if "## The log-rank test" in lines:
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def test_adjusted_curves_hold_the_truth(page):
    page += [
        "## Curves",
        "",
        f"Survival, or of two causes the incidence of the first, at {len(studies.TIMES)} ends in both arms: root mean "
        "square over ends (at which most data sets state a curve) of the error over the reported one, the largest mean "
        "error in reported ones, mean planned over reported error, and coverage of 95 % limits. Then the difference of "
        f"restricted means to {studies.REACH:g} years.",
        "",
    ]
    headers = ("design", "epsilon", "sets", "error / reported", "largest mean error", "planned / reported", "coverage")
    page += [_row(*headers, "least", "difference of means: error / reported", "coverage"), _row(*["---"] * 10)]
    off = []
    for design, epsilon in SETTINGS:
        of = resumed(KEPT, f"{design} {epsilon}", REPEATS, studies.one_data_set, design, epsilon)
        count = len(of["error"])
        often = np.isfinite(of["error"]).mean(axis=0) > 0.5  # ends at which most data sets have enough people at risk
        of |= {name: of[name][:, often] for name in ("error", "std error", "planned", "covered")}
        reported = np.sqrt(np.nanmean(of["std error"] ** 2, axis=0))
        ratio = float(np.sqrt(np.nanmean((of["error"] / reported) ** 2)))
        bias = float(np.abs(np.nanmean(of["error"], axis=0) / reported).max())
        planned = float(np.nanmean(of["planned"] / reported))
        stated = np.isfinite(of["error"])
        held = np.where(stated, of["covered"], np.nan)
        of_mean = float(np.sqrt(np.nanmean(of["mean error"] ** 2) / np.nanmean(of["mean std error"] ** 2)))
        known = np.isfinite(of["mean error"])
        shares = (float(np.nanmean(held)), float(np.nanmin(np.nanmean(held, axis=0))), of_mean)
        covered = float(of["mean covered"][known].mean())
        cells = (f"{ratio:.2f}", f"{bias:.2f}", f"{planned:.2f}", f"{shares[0]:.3f}", f"{shares[1]:.3f}")
        page.append(_row(design.name, f"{epsilon:g}", str(count), *cells, f"{of_mean:.2f}", f"{covered:.3f}"))
        margin = 2.0 * float(share_error(COVERAGE[0], count))
        if min(shares[0], covered) < COVERAGE[0] - margin or shares[1] < COVERAGE[0] - 2.0 * margin:
            off.append((design.name, epsilon))
    page.append("")
    assert not off


def test_the_log_rank_test_keeps_its_level_where_treatment_was_not_random(page):
    of = resumed(KEPT, f"{studies.NULL} 1.0", TESTS, studies.one_test, 1.0)
    count = len(of["p"])
    size, unweighted = (float(np.mean(of[name] < 0.05)) for name in ("p", "unweighted p"))
    page += [
        "## The log-rank test",
        "",
        "Treatment changes nothing, and depends on what the hazard depends on; epsilon 1. Shares of data sets in which "
        "the test rejects at 5 %, weighted and not, and in which the interval of the weighted hazard ratio holds 1.",
        "",
        _row("sets", "weighted", "unweighted", "ratio covered"),
        _row(*["---"] * 4),
        _row(str(count), f"{size:.3f}", f"{unweighted:.3f}", f"{float(of['ratio covered'].mean()):.3f}"),
        "",
    ]
    margin = 2.0 * float(share_error(0.05, count))
    assert SIZE[0] - margin <= size <= SIZE[1] + margin
    assert unweighted > 0.5
