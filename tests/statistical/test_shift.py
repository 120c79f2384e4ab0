"""Fits to private people whose covariates differ from the public ones, as shown in ``vignettes/validation``.

Run by ``make validate``.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.shift_studies import correlated, patients, simulate, survivors

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "shifted-covariates.md"
REPEATS, SECTIONS = 40, 4
HORMON = -1


def _row(*cells):
    return "| " + " | ".join(cells) + " |"


def _covered(fits):
    return np.mean([fit.covered for fit in fits], axis=0)


def _error(fits):
    return np.sqrt(np.mean([fit.error**2 for fit in fits], axis=0))


def _compared(page, design, epsilons, *, mechanism="objective", name="objective", **options):
    """Add a row for each epsilon and estimate, with and without averages; return coverage with averages."""
    found = {}
    for epsilon in epsilons:
        told, untold = (
            simulate(design, repeats=REPEATS, epsilon=epsilon, describe=each, mechanism=mechanism, **options)
            for each in (True, False)
        )
        for estimate, fits in told.items():
            with_averages, without = _covered(fits), _covered(untold[estimate])
            found[epsilon, estimate] = with_averages
            cells = [f"{each.mean():.3f} ({each.min():.3f})" for each in (without, with_averages)]
            ratio = np.median(_error(fits) / _error(untold[estimate]))
            cells += [" ".join(f"{share:.2f}" for share in with_averages), f"{ratio:.2f}"]
            page.append(_row(name, f"{epsilon:g}", estimate, *cells))
    return found


HEAD = (
    _row("mechanism", "epsilon", "estimate", "without", "with", "with, each coefficient", "error, with / without"),
    _row(*["---"] * 7),
)


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Private covariates that differ from the public ones, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. {REPEATS} data sets; a "
        f"Monte-Carlo standard error of a coverage of 0.95 is {np.sqrt(0.95 * 0.05 / REPEATS):.3f}. *Without*: "
        "`fit(describe=False)`. *With*: the fit asks for averages of its covariates from its own epsilon. Coverage of "
        "95 % intervals, mean over coefficients (lowest in brackets), and of each coefficient; the last column is the "
        "median over coefficients of the ratio of root mean squared errors.",
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def test_patients_of_another_study(page):
    page += [
        "## Rotterdam's patients, public rows of gbsg",
        "",
        "2,982 private and 555 public rows; a hormone had 11 % of the former and 36 % of the latter, and half of the "
        "former have no positive node, which no public patient has. The same coefficients in both.",
        "",
        *HEAD,
    ]
    found = _compared(page, patients, (0.5, 1.0, 3.0))
    page.append("")
    for covered in found.values():
        assert covered.mean() >= 0.91
        assert covered.min() >= 0.75


def test_coefficients_that_differ_too(page):
    page += [
        "## The same, and coefficients of public people differ",
        "",
        "By normal numbers of standard deviation 0.3 per standard deviation of the covariate.",
        "",
        *HEAD,
    ]
    found = _compared(page, patients, (0.5, 1.0, 3.0), differ=0.3)
    page.append("")
    for covered in found.values():
        assert covered.mean() >= 0.9
        assert covered.min() >= 0.7


def test_means_and_spreads_that_are_moved(page):
    page += [
        "## Ten correlated covariates",
        "",
        "AR(0.5), 10,000 private and 200 public rows. Private means are moved by 0.6, -0.4 or 0 standard deviations, "
        "standard deviations multiplied by 0.6 or 1.4.",
        "",
        *HEAD,
    ]
    found = _compared(page, correlated, (0.5, 1.0, 3.0))
    page.append("")
    for covered in found.values():
        assert covered.mean() >= 0.89
        assert covered.min() >= 0.6


def test_hazards(page):
    page += [
        "## Hazards: covariates and follow-up",
        "",
        "Six yearly intervals; Rotterdam's covariates and follow-up private, gbsg's (686 people) public, the same "
        "hazards. *Gradient*: one round of clipped scores without a delta.",
        "",
        *HEAD,
    ]
    found = _compared(page, survivors, (1.0, 3.0))
    one_round = hdp.mechanisms.ClippedNewton(rounds=1)
    found |= {
        (*key, "gradient"): covered
        for key, covered in _compared(page, survivors, (1.0, 3.0), mechanism=one_round, name="gradient").items()
    }
    page.append("")
    for covered in found.values():
        assert covered.mean() >= 0.86
        assert covered.min() >= 0.6
