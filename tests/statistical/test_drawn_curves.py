"""Coverage of drawn curves at ends of intervals and between them, hazards rising, falling and crossing: slow."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import hdpstats.api as hdp
from tests.statistical import curves_studies as studies

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "drawn-curves.md"
DESIGNS = ((300, 1.0, 6), (1000, 0.3, 6), (1000, 1.0, 16), (5000, 1.0, 28))
"""People, epsilon, and the number of intervals that is taken by default."""
FEWER = ((1000, 0.3, 4), (5000, 1.0, 4))
"""The same with fewer intervals, of which people leave more than half in the last ones."""
CHANCE = 0.015
"""Two Monte-Carlo errors of a coverage."""


@pytest.fixture(scope="module")
def measured():
    """Run the study, and write the page."""
    found = {
        (*key, shape, causes): studies.drawn(*key[:1], shape, *key[1:], causes)
        for key in (*DESIGNS, *FEWER)
        for shape in studies.DRAWN
        for causes in (1, 2)
    }
    PAGE.write_text(page_of(found), encoding="utf-8")
    return found


HEAD = """\
# Drawn curves, measured

hdpstats {version}, {today}, written by `make validate`. {sets} data sets for
each line: people with the hazards named, in a horizon of 6, censored between 2 and 8, counted in even intervals
with the noise of the mechanism under `replace_one`. Hazards are flat (exponential), rising (Weibull 2), falling
(Weibull 0.4), rising and then falling (log-logistic 3), or so that a third fail in the first sixtieth of the horizon.
Hazards of two groups of which one rises and one falls cross. *Coverage*: how often the drawn 95 % band holds the
true curve at a time, mean over times and the least of them, at the ends of intervals and at parts of each
interval ({parts}) that have passed. *Half-width*: of the band, mean.

## Survival, with the number of intervals that is taken by default

{survival}

## Incidence of one of two causes

{incidence}

## Survival with fewer intervals than by default

Where more than a third of those at risk leave in an interval with a hazard that changes, the actuarial estimate at
its end is off by .01 to .02, which is much beside the error of 5,000 people: take more intervals.

{fewer}
"""
COLUMNS = ("ends, mean", "least", "between, mean", "least", "half-width, ends", "between")


def table(found, designs, causes):
    head = ["people", "epsilon", "intervals", "hazards", *COLUMNS]
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    for key in designs:
        for shape in studies.DRAWN:
            ends, between = (found[*key, shape, causes][part] for part in ("ends", "between"))
            numbers = [*ends[:2], *between[:2], ends[2], between[2]]
            cells = [*map(str, (key[0], f"{key[1]:g}", key[2], shape)), *(f"{number:.3f}" for number in numbers)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page_of(found):
    return HEAD.format(
        version=hdp.__version__,
        today=datetime.now(UTC).date(),
        sets=studies.DRAWINGS,
        parts=", ".join(f"{part:g}" for part in studies.PARTS),
        survival=table(found, DESIGNS, 1),
        incidence=table(found, DESIGNS, 2),
        fewer=table(found, FEWER, 1),
    )


@pytest.mark.parametrize("causes", [1, 2])
def test_bands_hold_the_true_curve_at_ends_of_intervals_and_between(measured, causes):
    for key in DESIGNS:
        for shape in studies.DRAWN:
            found = measured[*key, shape, causes]
            assert found["ends"][0] >= 0.93
            assert found["ends"][1] >= 0.93 - CHANCE
            assert found["between"][0] >= 0.93
            assert found["between"][1] >= 0.90 - CHANCE


def test_bands_are_not_much_wider_between_ends_where_hazards_are_constant(measured):
    for key in DESIGNS:
        found = measured[*key, "flat", 1]
        assert found["between"][2] <= 1.1 * found["ends"][2]
