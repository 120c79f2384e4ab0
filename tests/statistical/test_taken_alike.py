"""Models that take public rows as they are, where private covariates differ. Run by ``make validate``.

What they cover is what summaries say of them.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.monte_carlo import OF_THE_MODEL, share_error, together
from tests.statistical.taken_alike_studies import MODELS, PUBLIC, ROWS, covered, made

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "taken-alike.md"
REPEATS = int(os.environ.get("HDPSTATS_SETS", "200"))


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def test_summaries_say_what_is_covered():
    lines = [
        "# Models that take public rows as they are, where private people differ",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`: {ROWS:,} private and "
        f"{PUBLIC} public people, epsilon 1, {REPEATS} data sets. Private means are moved by .6 and -.4 standard "
        "deviations, spreads are .6 and 1.3 times the public ones, a level that 40 % of public people have is had by "
        "10 %. Coverage of 95 % intervals of slopes. These models do not ask how private people differ: the last "
        "column is what their summaries say.",
        "",
        OF_THE_MODEL,
        "",
        row("model", "x1", "x2", "level", "mean", "in summaries"),
        row(*["---"] * 6),
    ]
    apart = []
    for name in MODELS:
        shares = np.mean(together(covered, range(REPEATS), [name] * REPEATS), axis=0)
        said = made(0, name).model._spec.public_side.covered_unlike
        lines.append(row(name, *(f"{share:.2f}" for share in shares), f"{shares.mean():.2f}", f"{said:.2f}"))
        error = float(share_error(shares, REPEATS).mean())
        apart += [name] if said > shares.mean() + 3.0 * error + 0.02 else []
    PAGE.write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert not apart
