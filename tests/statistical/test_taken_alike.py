"""Fits that take public rows as they are, where private covariates differ. Run by ``make validate``.

What they cover is what summaries say of them: of each kind of fit that is measured, and of no other.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.monte_carlo import OF_THE_MODEL, together
from tests.statistical.taken_alike_studies import DESCRIBED, MODELS, PUBLIC, ROWS, covered, made

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "taken-alike.md"
REPEATS = int(os.environ.get("HDPSTATS_SETS", "100"))


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def test_summaries_say_what_is_covered():
    lines = [
        "# Fits that take public rows as they are, where private people differ",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`: {ROWS:,} private and "
        f"{PUBLIC} public people, epsilon 1, objective perturbation, {REPEATS} data sets. Private means are moved by "
        ".6 and -.4 standard deviations, spreads are .6 and 1.3 times the public ones, a level that 40 % of public "
        "people have is had by 10 %. With strata 70 % are in the second one, in place of 30 %; with late entry 53 % "
        "enter after the first or the second of five years, in place of 20 %; a covariate that changes does so after "
        "two years. Coverage of 95 % intervals of slopes.",
        "",
        "These fits do not ask how private people differ: hazard models with strata, late entry or several rows of a "
        f"person, and own losses, never do; others ({'; '.join(DESCRIBED)}) were told not to (`describe=False`). "
        "Of each of these fits it was checked that its summary says what such fits cover: that is the mean of the "
        "slopes. The last column is its Monte-Carlo standard error.",
        "",
        OF_THE_MODEL,
        "",
        row("fit", "x1", "x2", "level", "mean", "error"),
        row(*["---"] * 6),
    ]
    apart = {}
    for name in MODELS:
        found = np.array(together(covered, range(REPEATS), [name] * REPEATS))
        mean, error = found.mean(), found.mean(axis=1).std(ddof=1) / np.sqrt(REPEATS)
        lines.append(row(name, *(f"{share:.2f}" for share in (*found.mean(axis=0), mean, error))))
        said = made(0, name).model._spec.public_side.covered_unlike.share
        if abs(said - mean) > 2.0 * error + 0.005:
            apart[name] = (said, mean)
    PAGE.write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert not apart
