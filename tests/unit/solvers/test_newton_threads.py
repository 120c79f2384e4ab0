"""Refinements in threads have numbers of their own; no module touches the global precision of mpmath."""

import ast
import json
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hdpstats
from hdpstats._base.precision import MOST_DIGITS
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.solvers.newton import refine
from tests.unit.solvers.test_newton_losses import problem

MOST_GRADIENTS = 300
GENEROUS = 120.0


def test_a_refinement_beside_others_of_less_precision_is_as_exact_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before every gradient another thread starts a refinement of its own and stays in the midst of it.

    With a global precision the gradient is then computed with the digits of the other one: its certificate is false, or
    it never ends.
    """
    mine, other = problem("exponential", rows=8, ridge=1.0, noise=2.0), problem("squares", rows=4, ridge=1.0, noise=0.0)
    start, wanted = np.full(4, 0.5), Fraction(1, 10**45)
    alone = refine(mine, start=start, radius=Fraction(1, 10**80)).theta
    plain = RegressionRows.exact_loss_gradient
    inside, finished, others = threading.Event(), threading.Event(), []

    def beside() -> None:
        refine(other, start=np.zeros(4), radius=Fraction(1, 10**9))

    def spied(rows: RegressionRows, *given: object) -> list:
        if rows is other.rows:
            inside.set()
            finished.wait(GENEROUS)
            return plain(rows, *given)
        if len(others) == MOST_GRADIENTS:
            raise AssertionError("the refinement goes round")
        others.append(threading.Thread(target=beside))
        others[-1].start()
        assert inside.wait(GENEROUS)
        inside.clear()
        return plain(rows, *given)

    monkeypatch.setattr(RegressionRows, "exact_loss_gradient", spied)
    try:
        found = refine(mine, start=start, radius=wanted)
    finally:
        finished.set()
        for thread in others:
            thread.join(GENEROUS)
    assert len(others) > 3
    assert found.radius <= wanted
    assert sum((a - b) ** 2 for a, b in zip(found.theta, alone, strict=True)) <= (wanted + Fraction(1, 10**80)) ** 2


CONSTANTS = ("ln2_fixed", "ln10_fixed", "pi_fixed", "e_fixed", "phi_fixed", "ln_sqrt2pi_fixed", "sqrtpi_fixed")
DIGITS_KEPT = f"""
import json, sys
from mpmath.libmp import libelefun
def kept():
    return [getattr(libelefun, name).__closure__[0].cell_contents.memo_prec for name in {CONSTANTS}]
"""


@pytest.mark.wide
def test_a_ledger_and_all_that_it_computes_read_constants_that_are_not_written_any_more() -> None:
    """mpmath writes a constant and its digits in two steps; who reads between them computes another delta."""
    work = """
import hdpstats.ledger
at_once = kept()
from fractions import Fraction as F
from hdpstats.privacy import gaussian, sensitivity
for epsilon, mu in ((1, F(1, 4)), (59, 1), (11990, 200), (2, F(1, 30)), (1, F(1, 10**6))):
    gaussian.delta_of(F(epsilon), F(mu))
gaussian.mu_of(F(1), F(1, 10**300))
gaussian.objective_delta(F(1), jacobian=F(1, 10), multiplier=F(1, 5), rank=gaussian.LARGEST_RANK)
sensitivity.sensitivity_at(F(3), norm=F(3), relation=sensitivity.Relation.REPLACE_ONE)
print(json.dumps([at_once, kept(), "hdpstats.solvers.newton" in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", DIGITS_KEPT + work], check=True, stdout=subprocess.PIPE, text=True)
    at_once, afterwards, solver = json.loads(done.stdout)
    assert not solver
    digits = dict(zip(CONSTANTS, at_once, strict=True))
    assert min(digits["ln2_fixed"], digits["pi_fixed"]) >= MOST_DIGITS
    assert afterwards == at_once


def test_every_context_comes_from_the_module_that_computes_the_constants() -> None:
    """Else a module could compute before they are kept."""
    package = Path(hdpstats.__file__).parent
    made = [path.relative_to(package).as_posix() for path in package.rglob("*.py") if "MPContext()" in path.read_text()]
    assert made == ["_base/precision.py"]


def test_no_module_imports_mpmath_as_a_whole() -> None:
    """What is imported from it: contexts, numbers of a context, and integers of `mpmath.libmp`."""
    allowed = {"mpmath": {"MPContext", "mpf"}, "mpmath.libmp": {"ln2_fixed", "pi_fixed"}}
    for path in sorted(Path(hdpstats.__file__).parent.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "mpmath" in text else ():
            if isinstance(node, ast.Import):
                assert not any(name.name.split(".")[0] == "mpmath" for name in node.names), path
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "mpmath":
                assert {name.name for name in node.names} <= allowed[node.module], path
