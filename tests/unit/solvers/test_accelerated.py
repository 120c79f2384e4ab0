"""A public number of steps leads within the radius: for kinks, ill conditions and gradients that are off on purpose."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.records.geometry import LARGEST
from hdpstats.solvers import Penalised, accelerated
from hdpstats.solvers.accelerated import Work, accelerate, farthest, minimise_within, work_of
from hdpstats.solvers.kernels import row_products
from hdpstats.solvers.newton import FARTHEST, SMALL, Solution, approach, refine
from hdpstats.solvers.objective import SmoothObjective
from tests.objectives import linear_objective
from tests.unit.solvers.test_newton_losses import LOSSES, problem

MU = 1.0


class Kinked(SmoothObjective):
    """``mu |theta|^2 / 2`` plus Huber functions of coordinates about given places, and an error of the gradient.

    Coordinates are independent, so the minimiser is that of functions of one variable. ``error`` is the length of what
    is added to every gradient: along it, against it, across it, at random or always the same.
    """

    def __init__(self, slopes: np.ndarray, places: np.ndarray, width: float, *, error: float, way: str) -> None:
        self.slopes, self.places, self.width, self.error, self.way = slopes, places, width, error, way
        self.ridge, self.centre = np.full(len(slopes), MU), np.zeros(len(slopes))
        self.linear, self.asked, self.rng = np.zeros(len(slopes)), 0, np.random.default_rng(3)

    def true_gradient(self, theta: np.ndarray) -> np.ndarray:
        return MU * theta + self.slopes * np.clip(theta - self.places, -self.width, self.width)

    @cached_property
    def minimiser(self) -> np.ndarray:
        low, high = np.full(len(self.slopes), -1e6), np.full(len(self.slopes), 1e6)
        for _ in range(200):
            middle = 0.5 * (low + high)
            rising = self.true_gradient(middle) > 0.0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        return 0.5 * (low + high)

    def gradient(self, theta: np.ndarray, rest: np.ndarray | None = None) -> np.ndarray:
        self.asked += 1
        theta = theta if rest is None else theta + rest
        true, away = self.true_gradient(theta), theta - self.minimiser
        wrong = {
            "along": true,
            "against": -true,
            "towards": -away,
            "from": away,
            "the same": np.ones(len(theta)),
            "at random": self.rng.standard_normal(len(theta)),
            "in turns": (-1.0) ** self.asked * np.ones(len(theta)),
        }[self.way]
        size = float(np.linalg.norm(wrong))
        return true + self.error * wrong / size if size > 0.0 else true

    mass = 1.0

    def gradient_error(self, theta: np.ndarray) -> float:
        return self.error

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        return np.diag(MU + self.slopes * (np.abs(theta - self.places) <= self.width))

    def rough_hessian(self, theta: np.ndarray) -> np.ndarray:
        return self.hessian(theta)

    def effect(self, direction: np.ndarray) -> float:
        return float(np.max(np.abs(direction)))

    def exact_loss_gradient(self, *_: object) -> list:
        raise AssertionError("nothing is refined here")

    exact_sizes = exact_loss_gradient


WAYS = ["along", "against", "towards", "from", "the same", "at random", "in turns"]


def kinked(steepest: float, width: float, *, error: float, way: str) -> tuple[Kinked, Work, np.ndarray]:
    rng = np.random.default_rng(7)
    slopes = np.concatenate([[steepest, steepest / 2.0, 0.0], steepest ** rng.uniform(0.0, 1.0, 5)])
    task = Kinked(slopes, rng.normal(size=8) * 3.0, width, error=error, way=way)
    start = np.full(8, 2.0)
    norm = float(np.linalg.norm(task.true_gradient(start)))
    work = work_of(
        ridge=MU,
        curvature=steepest,
        error=error,
        size=float(np.linalg.norm(start)) + farthest(ridge=MU, excess=norm**2 / 2.0),
        excess=norm**2 / 2.0,
    )
    assert work is not None
    return task, work, start


@pytest.mark.covering(1)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("steepest", [0.1, 3.0, 300.0, 30_000.0])
@pytest.mark.parametrize("width", [1e-4, 0.5, 1e3])
def test_the_last_point_is_within_the_radius(
    monkeypatch: pytest.MonkeyPatch, steepest: float, width: float, way: str
) -> None:
    """No early end: the statement about the number of steps alone."""
    monkeypatch.setattr(Work, "near", -1.0)
    task, work, start = kinked(steepest, width, error=1e-7, way=way)
    found = accelerate(task, start=start, work=work)
    assert task.asked == work.steps + 1
    assert np.linalg.norm(found - task.minimiser) <= work.radius


@pytest.mark.parametrize("steepest", [300.0, 30_000.0])
def test_fewer_steps_or_larger_errors_would_not_do(monkeypatch: pytest.MonkeyPatch, steepest: float) -> None:
    """The controls: a third of the steps; errors a thousand times as large as was said."""
    monkeypatch.setattr(Work, "near", -1.0)
    task, work, start = kinked(steepest, 1e3, error=1e-7, way="the same")
    few = accelerate(task, start=start, work=replace(work, steps=work.steps // 3))
    assert np.linalg.norm(few - task.minimiser) > work.radius
    wrong = Kinked(task.slopes, task.places, task.width, error=1e-4, way="the same")
    far = accelerate(wrong, start=start, work=work)
    assert np.linalg.norm(far - task.minimiser) > work.radius


@pytest.mark.parametrize("q", [0.5, 0.3, 0.1, 0.01, 0.001])
def test_errors_of_gradients_add_no_more_in_a_step_than_is_said(q: float) -> None:
    """``T`` of the module after a step: many states, curvatures and signs of both errors, in units of their part."""
    rng, n, e = np.random.default_rng(5), 50_000, 1.0
    L = MU / q**2
    smooth, c = L - MU, 2.0 * MU * L / (L - MU)
    kappa, worst = (18.0 / (2.0 - q) + q) / (1.0 - q * q), -math.inf
    for size in 10.0 ** np.arange(-3.0, 3.5, 0.5):
        curvature = rng.choice([0.0, 0.01, 0.1, 0.3, 0.8, 1.0], n) * smooth / 1.25
        z, before = size * rng.standard_normal(n), size * q * rng.standard_normal(n) * 10.0 ** rng.uniform(-3.0, 3.0, n)
        a, b = rng.choice([-e, e], n), rng.choice([-e, e], n)
        y = (1.0 - q) / (1.0 + q) * (before - ((MU + curvature) * before + b) / L) + 2.0 * q / (1.0 + q) * z
        after = (1.0 - q) * z + q * y - ((MU + curvature) * y + a) / (q * L)

        def above(point: np.ndarray, other: np.ndarray, curvature: np.ndarray = curvature) -> np.ndarray:
            return curvature * point**2 / 2.0 - (curvature * point) ** 2 / (2.0 * smooth) + c / 2.0 * other**2

        T = above(before, z)
        added = above(y, after) - (1.0 - q) ** 2 * T - 2.0 * q * e * np.sqrt(T / MU)
        worst = max(worst, float(np.max(added)) / (q * e**2 / MU))
    assert 0.3 < worst <= kappa


@pytest.mark.parametrize("kind", ["small", "large", "any", "indefinite", "negative", "zero"])
def test_any_matrix_may_stand_for_the_hessian(kind: str) -> None:
    """It steers the search alone: what ends it is a gradient, or the number of steps."""
    rng = np.random.default_rng(2)
    for way in WAYS:
        task, work, start = kinked(3.0, 0.5, error=1e-7, way=way)

        def hessian(theta: np.ndarray) -> np.ndarray:
            some, one = rng.standard_normal((8, 8)), np.eye(8)
            of_kind = {"small": 1e-9 * one, "large": 1e9 * one, "any": some @ some.T + 1e-3 * one}
            return (of_kind | {"indefinite": some + some.T, "negative": -one, "zero": 0.0 * one})[kind]

        task.hessian = hessian
        with np.errstate(all="ignore"):
            found = minimise_within(task, start=start, work=work)
        assert np.linalg.norm(found - task.minimiser) <= work.radius


@pytest.mark.parametrize("way", WAYS)
def test_an_early_end_is_certified(way: str) -> None:
    task, work, start = kinked(300.0, 0.5, error=1e-7, way=way)
    found = accelerate(task, start=start, work=work)
    assert np.linalg.norm(found - task.minimiser) <= work.radius


def test_points_at_which_predictors_overflow_are_not_tried() -> None:
    """A Newton step of 1e150: rows of 1e50 times such coefficients have products whose sum may be any number."""
    task, work, start = kinked(3.0, 0.5, error=1e-7, way="the same")
    task.hessian = lambda theta: np.eye(8) * 1e-150
    theta, done = approach(task, start=start, near=work.near)
    assert task.asked == 1
    assert not done
    np.testing.assert_array_equal(theta, start)
    X = np.asfortranarray(np.full((600, 3), LARGEST) * np.array([1.0, -1.0, 1.0]))
    assert np.all(np.isfinite(row_products(X, np.full(3, FARTHEST))))


def test_what_doubles_cannot_do_has_no_work() -> None:
    given = {"ridge": 1.0, "size": 10.0, "excess": 50.0}
    assert work_of(curvature=1e3, error=1e-9, **given) is not None
    assert work_of(curvature=1e14, error=1e-9, **given) is None
    assert work_of(curvature=1e3, error=1.0, **given) is None
    assert work_of(curvature=1e3, error=1e-9, radius=1e-9, **given) is None
    assert work_of(curvature=math.inf, error=1e-9, **given) is None
    assert work_of(curvature=1e3, error=math.nan, **given) is None
    assert work_of(curvature=1e3, error=1e-9, ridge=1.0, size=10.0, excess=math.inf) is None


def work_for(task, start: np.ndarray) -> Work:
    """Return the work of a problem from bounds of its rows."""
    sizes = np.linalg.norm(task.rows.X, axis=1)
    slope = float(task.rows.weights @ sizes) * float(task.rows.loss.lipschitz) + float(np.linalg.norm(task.linear))
    ridge = float(task.ridge[0])
    excess = slope**2 / (2.0 * ridge)
    size = float(np.linalg.norm(task.centre)) + farthest(ridge=ridge, excess=excess)
    found = work_of(
        ridge=ridge,
        curvature=float(task.rows.weights @ sizes**2) * float(task.rows.loss.smoothness),
        error=task.gradient_error(np.full(4, size / 2.0)),
        size=size,
        excess=excess,
    )
    assert found is not None
    assert np.array_equal(start, task.centre)
    return found


@pytest.mark.covering(1)
@pytest.mark.parametrize("noise", [0.0, 50.0])
@pytest.mark.parametrize("name", list(LOSSES))
def test_every_loss_reaches_its_radius_when_newton_fails(
    name: str, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newton's method is taken away, and so is the early end; the truth is that of 25 digits."""
    task = problem(name, rows=40, ridge=2.0, noise=noise)
    work = work_for(task, task.centre)
    truth = refine(task, start=task.centre, radius=Fraction(1, 10**25)).theta

    def failing(objective: Penalised, *, start: np.ndarray, budget: object) -> Solution:
        return Solution(theta=start + math.nan, gradient_norm=math.inf, radius=math.inf, rest=0.0 * start)

    monkeypatch.setattr(accelerated, "minimise", failing)
    monkeypatch.setattr(Work, "near", -1.0)
    theta = minimise_within(task, start=task.centre, work=work)
    off = sum((Fraction(a) - b) ** 2 for a, b in zip(theta.tolist(), truth, strict=True))
    assert math.sqrt(off) <= work.radius


def work_done(task, work: Work) -> tuple[int, int, int]:
    """Return how many gradients, Hessians and bounds of errors a minimisation computes."""
    asked = dict.fromkeys(("gradient", "curvature", "gradient_error"), 0)

    def counted(of: type, kind: str):
        plain = getattr(of, kind)

        def count(self: object, *given: np.ndarray) -> object:
            asked[kind] += 1
            return plain(self, *given)

        return count

    with pytest.MonkeyPatch.context() as patch:
        for kind in asked:
            of = RegressionRows if kind == "curvature" else Penalised
            patch.setattr(of, kind, counted(of, kind))
        assert np.all(np.isfinite(minimise_within(task, start=task.centre, work=work)))
    return asked["gradient"], asked["curvature"], asked["gradient_error"]


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("name", list(LOSSES))
def test_a_rehearsal_does_all_work_whatever_the_rows_are(name: str) -> None:
    largest = problem(name, rows=40, ridge=2.0, noise=500.0, seed=2)
    work, full = work_for(largest, largest.centre), set()
    for rows, noise, seed in ((1, 0.0, 0), (40, 0.0, 1), (40, 500.0, 2)):
        task = problem(name, rows=rows, ridge=2.0, noise=noise, seed=seed)
        real = work_done(task, work)
        with rehearsing():
            full.add(rehearsed := work_done(task, work)[:2])
        assert all(some <= most for some, most in zip(real, rehearsed, strict=False))
    assert len(full) == 1
    ((gradients, hessians),) = full
    assert hessians == SMALL.hessians
    assert work.steps <= gradients <= work.steps + SMALL.gradients + 4


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("seen", [True, False])
def test_gradients_see_both_parts_of_a_point(seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients of 10^9 and a curvature of 10^5 ridges: without the second part gradients are off by ``u L S``."""
    rng = np.random.default_rng(11)
    X, theta = np.asfortranarray(rng.normal(size=(40, 2))), np.array([1e9, -0.7e9])
    task = linear_objective(
        loss=LOSSES["squares"],
        X=X,
        y=np.zeros(40),
        weights=np.full(40, 1e5),
        offset=-X @ theta,
        ridge=np.full(2, 20.0),
        centre=theta,
        linear=np.full(2, 100.0),
    )
    size, curvature = 1.01 * float(np.linalg.norm(theta)), 1e5 * float(np.linalg.norm(X, 2)) ** 2
    error, excess = (
        task.gradient_error(np.array([size, 0.0])),
        1e5 * float(np.sum((X @ theta + task.rows.offset) ** 2)) + 600.0,
    )
    work = work_of(ridge=20.0, curvature=curvature, error=error, size=size, excess=excess)
    assert work is not None
    if not seen:
        plain = Penalised.gradient
        monkeypatch.setattr(Penalised, "gradient", lambda own, at, rest=None: plain(own, at))
    monkeypatch.setattr(Work, "near", -1.0)
    found = accelerate(task, start=theta, work=work)
    truth = refine(task, start=theta, radius=Fraction(1, 10**15)).theta
    off = sum((Fraction(a) - b) ** 2 for a, b in zip(found.tolist(), truth, strict=True))
    share = math.sqrt(off) / work.radius  # of five designs, three sizes each: at most .008; at least .4 without it
    assert share <= 0.05 if seen else share > 0.1


def test_a_larger_error_is_taken_where_steps_are_limited() -> None:
    given = {"ridge": 1.0, "curvature": 1e6, "error": 1e-9, "size": 1e3, "excess": 1e6}
    free = work_of(**given)
    assert free is not None
    assert work_of(**given, most=free.steps) == free
    few = work_of(**given, most=free.steps // 2)
    assert few is not None
    assert few.steps <= free.steps // 2 <= few.steps + 2
    assert few.error > 10.0 * free.error
    assert few.radius / few.error == pytest.approx(free.radius / free.error, rel=1e-5)
    assert work_of(**given, most=1) is None
