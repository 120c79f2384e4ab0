"""Lattice minimisers in a box: what they lack is certified against every other point; corners, faces, the inside."""

import itertools

import numpy as np
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats.losses import LogisticLoss
from hdpstats.solvers import Penalised
from hdpstats.solvers import box as module
from hdpstats.solvers.box import Box, LatticeMinimum, lattice_minimum, projected_steps
from tests.objectives import linear_objective, value_of

GRID = 2.0**-20


def problem(seed: int, *, push: float = 0.0, ridge: float = 0.5, n: int = 40, D: int = 3) -> Penalised:
    rng = np.random.default_rng(seed)
    return linear_objective(
        loss=LogisticLoss(),
        X=rng.standard_normal((n, D)),
        y=rng.integers(0, 2, n).astype(float),
        weights=rng.uniform(0.0, 2.0, n),
        offset=rng.standard_normal(n),
        ridge=np.full(D, ridge),
        centre=rng.standard_normal(D) * 0.3,
        linear=push * rng.standard_normal(D),
    )


def smoothness(objective: Penalised) -> float:
    whole = 0.25 * objective.rows.X.T @ (objective.rows.weights[:, None] * objective.rows.X) + np.diag(objective.ridge)
    return float(np.linalg.eigvalsh(whole)[-1])


def box_of(*half_widths: float, centre: tuple[float, ...] = (0.1, -0.2, 0.3)) -> Box:
    return Box(
        origin=tuple(round(value / GRID) for value in centre),
        steps=tuple(int(value / GRID) for value in half_widths),
        grid=GRID,
    )


def steps_of(objective: Penalised, box: Box, lacking: float) -> int:
    """Return the steps that suffice by bounds of the rows."""
    half = float(np.linalg.norm(box.corner)) * GRID
    slope = float(objective.rows.weights @ np.linalg.norm(objective.rows.X, axis=1)) + float(
        np.linalg.norm(objective.linear)
    )
    slope += float(objective.ridge[0]) * (float(np.linalg.norm(objective.centre)) + half + 1.0)
    found = projected_steps(
        ridge=float(objective.ridge[0]),
        smoothness=smoothness(objective),
        error=1e-9,
        excess=slope * 2.0 * half,
        widths=2.0 * half,
        grid=GRID,
        D=len(objective.ridge),
        lacking=lacking,
    )
    assert found is not None
    return found


def lowest_of(objective: Penalised, box: Box, *, lacking: float) -> LatticeMinimum:
    steps = steps_of(objective, box, lacking)
    return lattice_minimum(objective, box, smoothness=smoothness(objective), lacking=lacking, steps=steps)


BOXES = {
    "wide": box_of(20.0, 20.0, 20.0),
    "narrow": box_of(0.05, 0.05, 0.05),
    "uneven": box_of(0.01, 3.0, 0.4),
}


@pytest.mark.covering
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("push", [0.0, 30.0, 1000.0])
@pytest.mark.parametrize("name", BOXES)
def test_no_point_of_the_box_is_below_the_bound(seed: int, push: float, name: str) -> None:
    objective, box, lacking = problem(seed, push=push), BOXES[name], 0.01
    found = lowest_of(objective, box, lacking=lacking)
    assert all(abs(k) <= most for k, most in zip(found.k, box.steps, strict=True))
    assert all(slope == 0.0 or abs(k) == most for k, slope, most in zip(found.k, found.slopes, box.steps, strict=True))
    lowest = np.array(found.k, dtype=float)
    rng = np.random.default_rng(seed)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=3))) * box.corner
    near = lowest + rng.integers(-3000, 3000, (200, 3))
    inside = rng.uniform(-1.0, 1.0, (300, 3)) * box.corner
    base = value_of(objective, box.at(lowest))
    for k in np.clip(np.rint(np.concatenate([corners, near, inside])), -box.corner, box.corner):
        t = np.abs(k - lowest) * GRID
        bound = float(np.array(found.slopes) @ t) + 0.25 * float(t @ t) - lacking
        assert value_of(objective, box.at(k)) - base >= bound - 1e-9 * abs(base)


def test_slopes_are_there_where_the_box_stops_the_way() -> None:
    objective = problem(5, push=1000.0)
    found = lowest_of(objective, BOXES["narrow"], lacking=0.01)
    assert all(abs(k) == most for k, most in zip(found.k, BOXES["narrow"].steps, strict=True))
    gradient = objective.gradient(BOXES["narrow"].at(np.array(found.k, dtype=float)))
    assert np.array(found.slopes) == pytest.approx(np.abs(gradient))
    assert np.array_equal(np.sign(gradient), -np.sign(found.k))


def test_inside_the_box_it_is_the_minimiser() -> None:
    objective = problem(6)
    found = lowest_of(objective, BOXES["wide"], lacking=0.01)
    assert not any(found.slopes)
    assert np.linalg.norm(objective.gradient(BOXES["wide"].at(np.array(found.k, dtype=float)))) < 1e-3


@pytest.mark.parametrize("push", [0.0, 20.0, 1000.0])
@pytest.mark.parametrize("name", BOXES)
def test_accelerated_projected_steps_alone_arrive(name: str, push: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Newton step, in the public number of steps and not in a few of them."""
    objective, box, lacking = problem(7, push=push), BOXES[name], 0.03
    monkeypatch.setattr(module, "_by_newton", lambda *given, **named: None)
    after, plain = [], module._projected
    monkeypatch.setattr(module, "_projected", lambda *given: after.append(1) or plain(*given))
    found = lowest_of(objective, box, lacking=lacking)
    assert after == [1]
    assert module._lack(objective, box, np.array(found.k, dtype=float))[1] <= lacking
    if (name, push) == ("wide", 0.0):
        lattice_minimum(objective, box, smoothness=smoothness(objective), lacking=lacking, steps=3)
        assert len(after) > 2


def test_a_rehearsal_does_all_work_whatever_the_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plain = {name: getattr(Penalised, name) for name in ("gradient", "hessian")}

    def counted(name: str):
        return lambda self, *given: asked.append(name) or plain[name](self, *given)

    def work(objective: Penalised) -> tuple[int, int]:
        asked.clear()
        lattice_minimum(objective, BOXES["uneven"], smoothness=100.0, lacking=0.03, steps=500)
        return asked.count("gradient"), asked.count("hessian")

    for name in plain:
        monkeypatch.setattr(Penalised, name, counted(name))
    full = []
    for seed, push, n in ((1, 0.0, 40), (2, 1000.0, 40), (3, 0.0, 1)):
        objective = problem(seed, push=push, n=n)
        real = work(objective)
        with rehearsing():
            full.append(work(objective))
        assert all(some <= most for some, most in zip(real, full[-1], strict=True))
        assert full[-1][0] > 500
    for kind in zip(*full, strict=True):
        assert max(kind) - min(kind) <= 2


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows(n: int) -> None:
    objective = problem(8, n=n)
    found = lowest_of(objective, BOXES["wide"], lacking=0.01)
    assert len(found.k) == 3
