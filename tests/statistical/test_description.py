"""Errors and coverage of descriptions of the cohort, against what theory says: run by `make validate`, slow."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical import description_studies as studies

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "description.md"
ERRORS = {
    (500, 1.0): {"shares": 0.030, "means": 0.15, "missing": 0.026},
    (3000, 0.5): {"shares": 0.0100, "means": 0.050, "missing": 0.0087},
}
"""What the mechanism is expected to err by, with the sizes and epsilons: three numbers, five factors, a public size.

A mean errs by as much of the range as a share does, of which the standard deviation is a fifth.
"""

COVERED = ((500, 0.5), (500, 5 / 3), (3000, 0.5), (3000, 5 / 3))
"""Sizes of both groups together, and epsilons, three fifths of which are for the sums: 0.3 and 1."""

QUARTILES = {(500, 0.15): (0.12, 0.14, 0.13), (3000, 0.05): (0.06, 0.08, 0.08), (3000, 0.15): (0.02, 0.03, 0.04)}
"""Expected errors of the quartiles of age, in interquartile ranges, by size and the epsilon of a column."""

KINDS = ("shares", "means", "standard deviations", "missing", "quartiles")


@pytest.fixture(scope="module")
def measured():
    """Run the studies, and write the page."""
    found = {
        "errors": {key: studies.errors(*key) for key in ERRORS},
        "coverage": {key: studies.coverage(*key) for key in COVERED},
        "planned": {key: studies.planned(*key) for key in COVERED},
        "quartiles": {key: studies.quartiles(*key) for key in QUARTILES},
    }
    PAGE.write_text(page_of(found), encoding="utf-8")
    return found


def page_of(found):
    today = datetime.now(UTC).date()
    lines = [
        "# Descriptions of the cohort, measured",
        "",
        f"hdpstats {hdp.__version__}, {today}, written by `make validate` through the public API. {studies.REPEATS}",
        "data sets for each line; the Monte-Carlo error of a coverage of one number is .013.",
        "",
        "## Errors of the noise",
        "",
        "Three columns of numbers (standard deviation a fifth of the range), five factors of 3, 3, 2, 2 and 2 levels,",
        "5 % of cells missing, a public number of people, no quartiles. Root mean squared error against the sample's",
        "own numbers, in brackets what is expected.",
        "",
        "| people | epsilon | shares | means, in SD | missing |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (n, epsilon), values in found["errors"].items():
        cells = [f"{values[kind]:.4f} ({ERRORS[n, epsilon][kind]:g})" for kind in ("shares", "means", "missing")]
        lines.append(f"| {n} | {epsilon:g} | {' | '.join(cells)} |")
    lines += [
        "",
        "## Coverage of 95 % intervals",
        "",
        "The same columns in two groups of private sizes, with quartiles; public rows of another",
        "distribution. Share of",
        "the intervals that hold the population's number, of those that are not N/A, and in brackets the",
        "share of these.",
        "Where that is small, what is left was chosen by its noise. The last column is the largest relative difference",
        f"of the median reported standard error from the planned one, over {studies.PLANS} data sets with",
        "public rows of the",
        "private distribution, of all numbers but quartiles that are N/A in less than a tenth of them.",
        "",
        f"| people | epsilon | {' | '.join(KINDS)} | plan |",
        "| --- " * (len(KINDS) + 3) + "|",
    ]
    for (n, epsilon), values in found["coverage"].items():
        cells = [f"{held:.3f} ({known:.2f})" for held, known in (values[kind] for kind in KINDS)]
        lines.append(f"| {n} | {epsilon:.3g} | {' | '.join(cells)} | {found['planned'][n, epsilon]:.2f} |")
    lines += [
        "",
        "## Quartiles",
        "",
        "Patients of Rotterdam drawn with replacement, cells from the patients of GBSG, whose numbers of nodes are",
        "others. Root mean squared error in interquartile ranges, coverage of the population's quantile (type 1);",
        "epsilon is that of one column's cells. The number of nodes is tied: half of the patients have none or one.",
        "",
        "| column | people | epsilon | quartile 1 | median | quartile 3 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (n, epsilon), values in found["quartiles"].items():
        for name in ("age", "nodes"):
            cells = [
                "N/A" if (name, kind) not in values else f"{values[name, kind][0]:.2f}, {values[name, kind][1]:.3f}"
                for kind in studies.QUARTILES
            ]
            lines.append(f"| {name} | {n} | {epsilon:g} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("key", ERRORS)
def test_errors_are_what_the_noise_should_give(measured, key):
    for kind, expected in ERRORS[key].items():
        assert measured["errors"][key][kind] <= 1.1 * expected


@pytest.mark.parametrize("key", COVERED)
def test_intervals_cover(measured, key):
    """Those of standard deviations and quartiles may be conservative; numbers that are mostly N/A are not judged."""
    found = {kind: held for kind, (held, known) in measured["coverage"][key].items() if known > 0.5}
    assert min(found.values()) >= 0.92
    assert max(found.get(kind, 0.0) for kind in ("shares", "means", "missing")) <= 0.985
    assert found.get("quartiles", 1.0) >= 0.94


@pytest.mark.parametrize("key", QUARTILES)
def test_quartiles_cover_and_err_little(measured, key):
    found = measured["quartiles"][key]
    assert min(coverage for _, coverage, _ in found.values()) >= 0.94
    errors = [found["age", kind][0] for kind in studies.QUARTILES]
    assert (np.array(errors) <= np.array(QUARTILES[key]) + 0.03).all()


def test_plans_are_within_a_tenth(measured):
    assert np.nanmax(list(measured["planned"].values())) <= 0.1
