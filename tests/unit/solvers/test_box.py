"""Lattice minimisers in a box: what they lack is certified against every other point; corners, faces, the inside."""

import itertools

import numpy as np
import pytest

from hdpstats.losses import Logistic
from hdpstats.solvers import LinearObjective
from hdpstats.solvers import box as module
from hdpstats.solvers.box import Box, lattice_minimum

GRID = 2.0**-20


def problem(seed: int, *, push: float = 0.0, ridge: float = 0.5, n: int = 40, D: int = 3) -> LinearObjective:
    rng = np.random.default_rng(seed)
    return LinearObjective(
        loss=Logistic(),
        X=rng.standard_normal((n, D)),
        y=rng.integers(0, 2, n).astype(float),
        weights=rng.uniform(0.0, 2.0, n),
        offset=rng.standard_normal(n),
        ridge=np.full(D, ridge),
        centre=rng.standard_normal(D) * 0.3,
        linear=push * rng.standard_normal(D),
    )


def smoothness(objective: LinearObjective) -> float:
    whole = 0.25 * objective.X.T @ (objective.weights[:, None] * objective.X) + np.diag(objective.ridge)
    return float(np.linalg.eigvalsh(whole)[-1])


def box_of(*half_widths: float, centre: tuple[float, ...] = (0.1, -0.2, 0.3)) -> Box:
    return Box(
        origin=tuple(round(value / GRID) for value in centre),
        steps=tuple(int(value / GRID) for value in half_widths),
        grid=GRID,
    )


BOXES = {
    "wide": box_of(20.0, 20.0, 20.0),
    "narrow": box_of(0.05, 0.05, 0.05),
    "uneven": box_of(0.01, 3.0, 0.4),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("push", [0.0, 30.0, 1000.0])
@pytest.mark.parametrize("name", BOXES)
def test_no_point_of_the_box_is_below_the_bound(seed: int, push: float, name: str) -> None:
    objective, box, lacking = problem(seed, push=push), BOXES[name], 0.01
    found = lattice_minimum(objective, box, smoothness=smoothness(objective), lacking=lacking)
    assert all(abs(k) <= most for k, most in zip(found.k, box.steps, strict=True))
    assert all(slope == 0.0 or abs(k) == most for k, slope, most in zip(found.k, found.slopes, box.steps, strict=True))
    lowest = np.array(found.k, dtype=float)
    rng = np.random.default_rng(seed)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=3))) * box.corner
    near = lowest + rng.integers(-3000, 3000, (200, 3))
    inside = rng.uniform(-1.0, 1.0, (300, 3)) * box.corner
    base = objective.value(box.at(lowest))
    for k in np.clip(np.rint(np.concatenate([corners, near, inside])), -box.corner, box.corner):
        t = np.abs(k - lowest) * GRID
        bound = float(np.array(found.slopes) @ t) + 0.25 * float(t @ t) - lacking
        assert objective.value(box.at(k)) - base >= bound - 1e-9 * abs(base)


def test_slopes_are_there_where_the_box_stops_the_way() -> None:
    objective = problem(5, push=1000.0)
    found = lattice_minimum(objective, BOXES["narrow"], smoothness=smoothness(objective), lacking=0.01)
    assert all(abs(k) == most for k, most in zip(found.k, BOXES["narrow"].steps, strict=True))
    gradient = objective.gradient(BOXES["narrow"].at(np.array(found.k, dtype=float)))
    assert np.array(found.slopes) == pytest.approx(np.abs(gradient))
    assert np.array_equal(np.sign(gradient), -np.sign(found.k))


def test_inside_the_box_it_is_the_minimiser() -> None:
    objective = problem(6)
    found = lattice_minimum(objective, BOXES["wide"], smoothness=smoothness(objective), lacking=0.01)
    assert not any(found.slopes)
    assert np.linalg.norm(objective.gradient(BOXES["wide"].at(np.array(found.k, dtype=float)))) < 1e-3


def test_projected_gradients_alone_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = problem(7, push=20.0)
    right = lattice_minimum(objective, BOXES["uneven"], smoothness=smoothness(objective), lacking=0.005)
    monkeypatch.setattr(module, "_free_step", lambda objective, theta, gradient, free: np.full(3, 7.0))
    found = lattice_minimum(objective, BOXES["uneven"], smoothness=smoothness(objective), lacking=0.005)
    apart = np.abs(np.array(found.k) - np.array(right.k)) * GRID
    assert np.max(apart) < 0.2


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows(n: int) -> None:
    objective = problem(8, n=n)
    found = lattice_minimum(objective, BOXES["wide"], smoothness=smoothness(objective), lacking=0.01)
    assert len(found.k) == 3
