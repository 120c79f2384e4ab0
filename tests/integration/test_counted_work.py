"""No minimisation does more than is counted: gradients, Hessians, bounds of errors, and the numbers that loops read."""

from collections import Counter

import numpy as np
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats._base.work import Operations
from hdpstats.families.regression.rows import RegressionRows, linear_work
from hdpstats.losses import HuberLoss, LogisticLoss
from hdpstats.solvers import Penalised, kernels, newton
from hdpstats.solvers import box as lattice
from hdpstats.solvers.accelerated import minimise_within, minimising_work, work_of
from hdpstats.solvers.box import Box, lattice_minimum, lattice_work
from hdpstats.solvers.newton import SMALL, minimise, minimise_work
from hdpstats.solvers.objective import ObjectiveWork, RowBounds
from tests.objectives import changed, linear_objective

COUNTED = ObjectiveWork(
    dimension=1, gradient=Operations(sorts=1.0), hessian=Operations(functions=1.0), error=Operations(draws=1.0)
)
"""Whose counts are those of gradients, of Hessians, of bounds and of Newton's steps."""


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def spy(owner: object, name: str, kind: str) -> None:
        function = getattr(owner, name)

        def noted(*given: object, **options: object) -> object:
            found[kind] += 1
            return function(*given, **options)

        monkeypatch.setattr(owner, name, noted)

    spy(Penalised, "gradient", "sorts")
    spy(Penalised, "hessian", "functions")
    spy(Penalised, "gradient_error", "draws")
    for module in (newton, lattice):
        spy(module, "newton_step", "cubes")
    return found


def objective(rows: int = 50, D: int = 3, *, ridge: float = 1.0) -> Penalised:
    rng = np.random.default_rng(3)
    made = RegressionRows.of(LogisticLoss(), rng.normal(size=(rows, D)), rng.integers(0, 2, rows) * 1.0)
    return made.penalised(ridge=np.full(D, ridge))


def check(done: Counter[str], said: Operations) -> None:
    assert done
    assert {kind: number for kind, number in done.items() if number > getattr(said, kind)} == {}
    assert said.sorts <= 1.5 * done["sorts"] + 40


@pytest.mark.parametrize("ridge", [pytest.param(1e-3, marks=pytest.mark.wide), 1.0])
def test_a_minimisation_makes_no_more_steps_than_are_counted(done: Counter[str], ridge: float) -> None:
    work = work_of(ridge=ridge, curvature=200.0, error=1e-10, size=100.0, excess=60.0)
    assert work is not None
    with rehearsing():
        minimise_within(objective(ridge=ridge), start=np.zeros(3), work=work)
    check(done, minimising_work(COUNTED, work))
    assert done["sorts"] > work.steps


def test_newtons_method_makes_no_more_steps_than_are_counted(done: Counter[str]) -> None:
    with rehearsing():
        minimise(objective(), start=np.full(3, 40.0), budget=SMALL)
    check(done, minimise_work(COUNTED, SMALL))


def test_a_search_for_a_lattice_point_makes_no_more_steps_than_are_counted(done: Counter[str]) -> None:
    box = Box(origin=(0, 0, 0), steps=(2**20,) * 3, grid=2.0**-20)
    with rehearsing():
        lattice_minimum(objective(), box, smoothness=100.0, lacking=1e-2, steps=300)
    check(done, lattice_work(COUNTED, 300))


@pytest.mark.parametrize(("rows", "D"), [(4500, 3), (5000, 40), (9000, 1)])
def test_loops_read_no_more_numbers_than_are_counted(monkeypatch: pytest.MonkeyPatch, rows: int, D: int) -> None:
    read: Counter[str] = Counter()
    compensated = kernels.COMPENSATED
    for name, length, kind, times in (
        ("_products", 3, "products", 1),
        ("_score_sum", 2, "products", 1),
        ("_compensated", 3, "products", compensated),
        ("_logistic_sum", 2, "products", 1 + compensated),
        ("_rounded_products", 2, "passes", 1),
    ):
        loop = getattr(kernels, name)

        def noted(columns, *rest, loop=loop, kind=kind, times=times, length=length):
            read[kind] += times * len(columns) * len(rest[length - 1])
            return loop(columns, *rest)

        monkeypatch.setattr(kernels, name, noted)
    rng = np.random.default_rng(1)
    whole = linear_objective(
        loss=LogisticLoss(),
        X=np.ascontiguousarray(rng.normal(size=(D, rows))).T,
        y=np.zeros(rows),
        weights=np.ones(rows),
        offset=np.zeros(rows),
        bounds=RowBounds(summand=10.0, root=10.0),
        ridge=np.ones(D),
        centre=np.zeros(D),
        linear=np.zeros(D),
    )
    said = linear_work(rows, D, functions=3.0, in_one_loop=True)
    other = changed(whole, loss=HuberLoss(lower=0.0, upper=1.0, c=0.1))
    of_other = linear_work(rows, D, functions=4.0)
    for one, work in (
        (whole.gradient, said.gradient),
        (whole.hessian, said.hessian),
        (other.gradient, of_other.gradient),
    ):
        read.clear()
        one(np.zeros(D))
        assert 0 < read["products"] <= work.products
        assert read["passes"] <= work.passes
    assert said.hessian.squares == rows * D**2
