"""Regressions of people with several rows, as shown in ``vignettes/validation``. Run by ``make validate``."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.monte_carlo import OF_THE_MODEL, share_error
from tests.statistical.several_rows_studies import COVERED, FILE, FORMULA, PAIRED, PLANS, computed

pytestmark = pytest.mark.validate

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "vignettes" / "validation" / "several-rows.md"
SETS, SECTIONS = 400, 2

PROTOTYPE = {
    0.5: {0.0: (0.093, 0.074, 0.130, 0.085), 0.25: (0.051, 0.067, 0.094, 0.070), 0.6: (0.058, 0.049, 0.090, 0.045),
          1.0: (0.046, 0.040, 0.063, 0.044)},
    1.0: {0.0: (0.052, 0.061, 0.073, 0.049), 0.25: (0.044, 0.034, 0.047, 0.037), 0.6: (0.046, 0.034, 0.052, 0.034),
          1.0: (0.051, 0.032, 0.061, 0.033)},
    3.0: {0.0: (0.045, 0.036, 0.049, 0.030), 0.25: (0.037, 0.027, 0.048, 0.035), 0.6: (0.043, 0.023, 0.052, 0.030),
          1.0: (0.041, 0.024, 0.056, 0.030)},
}  # fmt: skip
"""Root mean squared errors that were measured on 25 data sets before this was built, by epsilon and ``r``, with a
correlation of .2: their own Monte-Carlo errors are about 14 %."""
SETS_OF_PROTOTYPE = 25


def _row(*cells):
    return "| " + " | ".join(cells) + " |"


def _numbers(values, digits=3):
    return " ".join(f"{value:.{digits}f}" for value in values)


@pytest.fixture(scope="module")
def page():
    lines = [
        "# People with several rows, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Logistic regressions "
        f"`{FORMULA}` by objective perturbation, private-only estimates; means over {SETS} data sets where nothing "
        "else is said, the same for all fits of a setting. A person has 1 to m rows; x and t are of the person, z of "
        "the row; outcomes of a person are correlated by a Gaussian copula. Numbers are of the intercept and the "
        "coefficients of x, t and z.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def _array(frame, name):
    return np.array(frame[name].tolist())


def test_small_weights_save_errors_and_plans_say_so(page):
    page += [
        "## Errors by r",
        "",
        "3,000 private people, 120 public ones like them, m = 6. Root mean squared errors (RMSE) with noise and "
        "without; *planned* is the standard error that a plan predicts over the one that a fit reports, on "
        f"{PLANS} data sets. With a correlation of 0.6 100 data sets.",
        "",
        _row("correlation", "epsilon", "r", "RMSE", "without noise", "coverage", "planned / reported"),
        _row(*["---"] * 7),
    ]
    wrong = []
    for scene, found in computed(PAIRED, SETS, FILE):
        for (epsilon, r), own in found.groupby(["epsilon", "r"]):
            off, plain = (np.sqrt(np.mean(_array(own, name) ** 2, axis=0)) for name in ("off", "plain"))
            covered, told = _array(own, "covered").mean(axis=0), own[own["planned"].notna()]
            ratio = (_array(told, "planned") / _array(told, "bse")).mean(axis=0)
            cells = [f"{scene.within:g}", f"{epsilon:g}", f"{r:g}", _numbers(off), _numbers(plain)]
            page.append(_row(*cells, _numbers(covered), _numbers(ratio, 2)))
            if np.abs(np.mean(ratio) - 1.0) > 0.1:
                wrong.append((scene.name, epsilon, r, "plan", ratio))
            known = np.array(PROTOTYPE[epsilon].get(r, off)) if scene.within == 0.2 else off
            apart = np.hypot(known / np.sqrt(2 * SETS_OF_PROTOTYPE), off / np.sqrt(2 * len(own)))
            if (off.mean() - known.mean()) > 2.0 * np.sqrt(np.mean(apart**2)):  # errors of coefficients may go together
                wrong.append((scene.name, epsilon, r, "RMSE", off))
    page.append("")
    assert not wrong


def test_intervals_cover(page):
    page += [
        "## Coverage of 95 % intervals",
        "",
        "2,000 private people, who have more rows than the public ones; x depends on how many. Of each setting two of "
        "the six pairs of epsilon and r, so that any two levels of all factors meet.",
        "",
        _row("m", "public people", "correlation", "epsilon", "r", "coverage", "mean"),
        _row(*["---"] * 7),
    ]
    wrong = []
    for scene, found in computed(COVERED, SETS, FILE):
        for (epsilon, r), own in found.groupby(["epsilon", "r"]):
            covered = _array(own, "covered").mean(axis=0)
            cells = [str(scene.most), str(scene.public), f"{scene.within:g}", f"{epsilon:g}", f"{r:g}"]
            page.append(_row(*cells, _numbers(covered), f"{covered.mean():.3f}"))
            apart = 2.0 * share_error(0.95, len(own))
            if covered.min() < 0.93 - apart or covered.max() > 0.97 + apart:
                wrong.append((scene.name, epsilon, r, covered))
    assert not wrong
