"""Coverage of drawn curves at ends of intervals and between them, hazards rising, falling and crossing: slow."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import hdpstats.api as hdp
from tests.statistical import curves_studies as studies
from tests.statistical.monte_carlo import OF_THE_MODEL

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "drawn-curves.md"
DESIGNS = ((300, 1.0, 6), (1000, 0.3, 6), (1000, 1.0, 16), (5000, 1.0, 28))
"""People, epsilon, and the number of intervals that is taken by default."""
FEWER = ((1000, 0.3, 4), (5000, 1.0, 4), (5000, 1.0, 8))
"""The same with fewer intervals, of which people leave more than half in the last ones."""
MODELS = (
    (4000, 1.0, 24, "rising"),
    (4000, 1.0, 24, "falling"),
    (4000, 1.0, 24, "rising, then falling"),
    (4000, 1.0, 24, "crossing"),
    (1000, 1.0, 12, "crossing"),
)
"""People, epsilon, intervals and hazards of models."""
CHANCE, TWO_OF_FITS = 0.023, 0.03
"""Two Monte-Carlo errors of a coverage, of tables and of fits."""


@pytest.fixture(scope="module")
def measured():
    """Run the study, and write the page."""
    found = {
        (*key, shape, causes): studies.drawn(*key[:1], shape, *key[1:], causes)
        for designs, causes in ((DESIGNS, 1), (DESIGNS, 2), (FEWER, 1))
        for key in designs
        for shape in studies.DRAWN
    }
    found |= {key: studies.modelled(key[0], key[3], *key[1:3]) for key in MODELS}
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

When in an interval people left, no table says. Limits count what that may change: they are the wider, the more
people leave in one interval and the more hazards change. With more intervals they are narrower.

{fewer}

## Curves of models

{fits} fits for each line through the public API, with the default baseline and {public} public people. Odds of the
event in an interval depend on three covariates as in the model; in an interval events are spread as the named hazards
have them. Hazards that cross are those of two strata, one rising and one falling. Coverage is the mean over four
people whose curves are predicted, and the least over people and times.

{of_the_model}

{models}
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


def models(found):
    lines = list(table({}, (), 1).splitlines())
    for key in MODELS:
        ends, between = (found[key][part] for part in ("ends", "between"))
        numbers = [*ends[:2], *between[:2], ends[2], between[2]]
        cells = [*map(str, (key[0], f"{key[1]:g}", key[2], key[3])), *(f"{number:.3f}" for number in numbers)]
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
        fits=studies.FITS,
        public=studies.PUBLIC,
        of_the_model=OF_THE_MODEL,
        models=models(found),
    )


@pytest.mark.parametrize(("designs", "causes"), [(DESIGNS, 1), (DESIGNS, 2), (FEWER, 1)])
def test_bands_hold_the_true_curve_at_ends_of_intervals_and_between(measured, designs, causes):
    for key in designs:
        for shape in studies.DRAWN:
            found = measured[*key, shape, causes]
            assert found["ends"][0] >= 0.93
            assert found["ends"][1] >= 0.93 - CHANCE
            assert found["between"][0] >= 0.93
            assert found["between"][1] >= 0.90 - CHANCE


def test_bands_of_models_hold_the_true_curves_at_ends_of_intervals_and_between(measured):
    for key in MODELS:
        assert measured[key]["ends"][0] >= 0.93
        assert measured[key]["between"][0] >= 0.93
        assert measured[key]["ends"][1] >= 0.93 - TWO_OF_FITS
        assert measured[key]["between"][1] >= 0.90 - TWO_OF_FITS


def test_bands_are_not_much_wider_between_ends_where_hazards_are_constant(measured):
    for key in DESIGNS:
        found = measured[*key, "flat", 1]
        assert found["between"][2] <= 1.1 * found["ends"][2]
