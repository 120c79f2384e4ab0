"""Covariates that correlate otherwise than public ones, as in ``vignettes/validation``. Run by ``make validate``.

``HDPSTATS_SETS`` is the number of data sets of a setting, `REPEATS` by default: what was simulated is kept, so that a
further run with more goes on.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.correlations_studies import HOW, PUBLIC, Setting, simulate
from tests.statistical.monte_carlo import OF_THE_MODEL, share_error

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "correlations.md"
REPEATS = int(os.environ.get("HDPSTATS_SETS", "400"))
SMALL, LARGE = {"rows": 6000, "epsilon": 1.0}, {"rows": 30_000, "epsilon": 3.0}
NINE = {"rows": 20_000, "epsilon": 3.0, "covariates": 8}
DIFFER = {
    "two covariates": (Setting(**SMALL, covariates=2, private=0.75), 0.91),
    "two covariates, more people": (Setting(**LARGE, covariates=2, private=0.75), 0.91),
    "eight covariates, two correlate": (Setting(**NINE, private=0.8), 0.90),
    "eight covariates, all correlate": (Setting(**NINE, private=0.8, all_pairs=True), 0.90),
}
"""Settings with the coverage that each of the first two slopes must have."""
FAMILIES = {
    "counts": Setting(**SMALL, covariates=2, private=0.75, model="counts"),
    "linear": Setting(**SMALL, covariates=2, private=0.75, model="linear"),
    "Huber": Setting(**SMALL, covariates=2, private=0.75, model="Huber"),
    "median": Setting(**SMALL, covariates=2, private=0.75, model="median"),
    "multinomial": Setting(**SMALL, covariates=2, private=0.75, model="multinomial"),
    "hazard": Setting(**SMALL, covariates=2, private=0.75, model="hazard"),
    "hazard, clipped scores": Setting(**SMALL, covariates=2, private=0.75, model="hazard", mechanism="clipped scores"),
    "logistic, three sites": Setting(rows=18_000, epsilon=1.0, covariates=2, private=0.75, sites=3),
}
ALIKE = {
    "two covariates, none correlate": (Setting(**SMALL, covariates=2, private=0.0), 1.08),
    "two covariates, .75 in both": (Setting(**SMALL, covariates=2, private=0.75, public=0.75), 1.08),
    "two covariates, none correlate, more people": (Setting(**LARGE, covariates=2, private=0.0), 1.04),
    "eight covariates, none correlate": (Setting(**NINE, private=0.0), 1.04),
}
"""Settings with how much larger errors and lengths may be than without products."""
LEAST_OF_FAMILIES = 0.90
SECTIONS = 3


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def people_of(setting):
    return f"{setting.rows:,}, {setting.epsilon:g}"


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Covariates that correlate otherwise than public ones, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`: {REPEATS} data sets of "
        f"each setting, Monte-Carlo standard error of a coverage about {share_error(0.95, REPEATS):.3f}. {PUBLIC} "
        "public rows, normal covariates of variance 1 in private and public people; private ones correlate .75 or .8, "
        "public ones do not unless it is said. *Without*: fits that ask for means and squares, not products "
        "of covariates. *With*: fits as they are by default "
        "([decision 0082](../decisions/0082-correlations-of-private-people.md)). Each fit is a whole one by the public "
        "interface. `HDPSTATS_SETS` sets the number of data sets; what was simulated is kept.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def coverage(found):
    """Return the coverage of each slope in words, those beyond the second by mean and least."""
    share = found["covered"].mean(axis=0)
    first = " ".join(f"{each:.3f}" for each in share[:2])
    rest = share[2:]
    return first + (f"; others {rest.mean():.3f} ({rest.min():.3f})" if len(rest) else "")


def too_low(found, least):
    share = found["covered"].mean(axis=0)
    return bool((share < least - 2.0 * share_error(least, len(found["covered"]))).any())


def test_intervals_cover_where_private_covariates_correlate(page):
    page += ["## Logistic regression", "", row("covariates", "people, epsilon", *HOW), row(*["---"] * 4)]
    low = []
    for name, (setting, least) in DIFFER.items():
        found = simulate(setting, range(REPEATS))
        page.append(row(name, people_of(setting), *(coverage(found[how]) for how in HOW)))
        low += [name] if too_low(found["with"], least) else []
    page.append("")
    assert not low


def test_intervals_of_other_models_cover_too(page):
    page += ["## Other models, mechanisms and sites", "", row("model", "people, epsilon", *HOW), row(*["---"] * 4)]
    low = []
    for name, setting in FAMILIES.items():
        found = simulate(setting, range(REPEATS))
        page.append(row(name, people_of(setting), *(coverage(found[how]) for how in HOW)))
        low += [name] if too_low(found["with"], LEAST_OF_FAMILIES) else []
    page.append("")
    assert not low


def test_little_is_lost_where_people_are_alike(page):
    head = ("covariates", "people, epsilon", "error, with over without", "length", "coverage with")
    page += ["## What it costs where people are alike", "", row(*head), row(*["---"] * 5)]
    lost = []
    for name, (setting, most) in ALIKE.items():
        found = simulate(setting, range(REPEATS))
        error = np.sqrt(np.mean(found["with"]["error"] ** 2) / np.mean(found["without"]["error"] ** 2))
        lengths = [np.median(found[how]["length"], axis=0) for how in HOW]
        length = float(np.mean(lengths[1] / lengths[0]))
        page.append(row(name, people_of(setting), f"{error:.3f}", f"{length:.3f}", coverage(found["with"])))
        allowed = most + 2.0 / np.sqrt(len(found["with"]["error"]))
        lost += [name] if error > allowed or length > most + 0.01 else []
    page.append("")
    assert not lost
