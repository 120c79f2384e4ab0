"""Regressions of people with several rows, as shown in ``vignettes/validation``. Run by ``make validate``."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.monte_carlo import OF_THE_MODEL, share_error
from tests.statistical.several_rows_studies import BY_ROWS, COVERED, FILE, FORMULA, PAIRED, PLANS, computed

pytestmark = pytest.mark.validate

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "vignettes" / "validation" / "several-rows.md"
SETS, SECTIONS = 400, 2


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
        f"{PLANS} data sets. With a correlation of 0.6 100 data sets. *By rows* is the RMSE, on the first "
        f"{BY_ROWS.sets} of the same data sets, of a fit that protects rows: a row has the weight "
        "w(n) = 1/(1 + (n - 1) r), and epsilon is divided by the most that a person's rows weigh together, which gives "
        "a person the same guarantee.",
        "",
        _row("correlation", "epsilon", "r", "RMSE", "by rows", "without noise", "coverage", "planned / reported"),
        _row(*["---"] * 8),
    ]
    wrong = []
    ((_, by_rows),) = computed([BY_ROWS], SETS, FILE)
    others = {
        pair: np.sqrt(np.mean(_array(own, "off") ** 2, axis=0)) for pair, own in by_rows.groupby(["epsilon", "r"])
    }
    for scene, found in computed(PAIRED, SETS, FILE):
        for (epsilon, r), own in found.groupby(["epsilon", "r"]):
            off, plain = (np.sqrt(np.mean(_array(own, name) ** 2, axis=0)) for name in ("off", "plain"))
            covered, told = _array(own, "covered").mean(axis=0), own[own["planned"].notna()]
            ratio = (_array(told, "planned") / _array(told, "bse")).mean(axis=0)
            other = others[epsilon, r] if scene.within == BY_ROWS.within else None
            cells = [
                f"{scene.within:g}",
                f"{epsilon:g}",
                f"{r:g}",
                _numbers(off),
                "" if other is None else _numbers(other),
            ]
            page.append(_row(*cells, _numbers(plain), _numbers(covered), _numbers(ratio, 2)))
            if np.abs(np.mean(ratio) - 1.0) > 0.1:
                wrong.append((scene.name, epsilon, r, "plan", ratio))
            if other is None:
                continue
            apart = np.hypot(other / np.sqrt(2 * BY_ROWS.sets), off / np.sqrt(2 * len(own)))
            if (off.mean() - other.mean()) > 2.0 * np.sqrt(np.mean(apart**2)):  # errors of coefficients may go together
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
