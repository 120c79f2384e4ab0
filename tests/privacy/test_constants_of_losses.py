"""Every constant of every loss, searched: never exceeded, and attained, so that a larger or smaller one would fail."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats._base.errors import MechanismError
from hdpstats.losses import (
    BY_NAME,
    MEAN_LINKS,
    MEANS,
    BoundedSquares,
    ExponentialTimes,
    HuberLoss,
    LogisticLoss,
    PoissonLoss,
    PredictorLoss,
    SmoothedQuantile,
    Tabulated,
    multinomial,
    options,
)

UNIT = 2.0**-53
RANGE = np.linspace(-0.5, 0.5, 41)
COUNTS = np.linspace(0.0, 12.0, 25)
TIMES = np.concatenate([np.linspace(0.0, 1.0, 21), -np.linspace(0.0, 1.0, 21)])


def steps(rows: int = 5) -> Tabulated:
    """Return a table with a kink in every row, tilted rows and another slope in each."""
    eta = np.linspace(-2.0, 2.0, 33)
    table = tuple(tuple(np.clip((1.0 + 0.3 * k) * (eta - 0.2 * k), -1.0 - 0.1 * k, 1.0).tolist()) for k in range(rows))
    return Tabulated.made((-2.0, 0.125, 0.0), table, lower=-0.5, upper=0.5)


LOSSES: list[tuple[PredictorLoss, np.ndarray, np.ndarray]] = [
    (LogisticLoss(), np.linspace(-40.0, 40.0, 4001), np.array([0.0, 1.0])),
    (BoundedSquares(lower=-0.5, upper=0.5), np.linspace(-2.0, 2.0, 4001), RANGE),
    (BoundedSquares(lower=-0.25, upper=1.0), np.linspace(-2.0, 2.0, 4001), np.linspace(-0.25, 1.0, 41)),
    (HuberLoss(lower=-0.5, upper=0.5, c=0.07), np.linspace(-2.0, 2.0, 4001), RANGE),
    (SmoothedQuantile(lower=-0.5, upper=0.5, q=0.5, h=0.05), np.linspace(-2.0, 2.0, 4001), RANGE),
    (SmoothedQuantile(lower=-0.5, upper=0.5, q=0.9, h=0.02), np.linspace(-2.0, 2.0, 4001), RANGE),
    (PoissonLoss(upper=12.0, cap=12.0), np.linspace(-20.0, 6.0, 40001), COUNTS),
    (PoissonLoss(upper=12.0, cap=30.0), np.linspace(-20.0, 6.0, 40001), COUNTS),
    (PoissonLoss(upper=12.0, cap=2.0), np.linspace(-20.0, 6.0, 40001), COUNTS),
    (ExponentialTimes(h=2.0), np.linspace(-20.0, 20.0, 40001), TIMES),
    (ExponentialTimes(h=0.3), np.linspace(-20.0, 20.0, 40001), TIMES),
    (ExponentialTimes(h=64.0), np.linspace(-20.0, 20.0, 40001), TIMES),
    (steps(), np.linspace(-4.0, 4.0, 4001), RANGE),
]
IDS = [f"{loss.name}-{k}" for k, (loss, _, _) in enumerate(LOSSES)]
everywhere = pytest.mark.parametrize(("loss", "eta", "y"), LOSSES, ids=IDS)


def test_every_loss_is_searched_and_named_and_has_its_mean_and_link() -> None:
    assert {type(loss) for loss, _, _ in LOSSES} == set(BY_NAME.values())
    assert {each.loss for each in options.OPTIONS} == {*BY_NAME, multinomial.NAME}
    assert {*options.__all__} == {"LossOption", *(each.title for each in options.OPTIONS)}
    assert MEAN_LINKS.keys() == MEANS.keys()


@everywhere
def test_the_steepest_score_is_the_constant(loss: PredictorLoss, eta: np.ndarray, y: np.ndarray) -> None:
    steep = np.max(np.abs(loss.score(eta[:, None], y[None, :])))
    assert steep <= float(loss.lipschitz) * (1.0 + 4.0 * UNIT)
    assert steep >= 0.995 * float(loss.lipschitz)


@everywhere
def test_no_two_scores_of_a_record_change_faster_than_the_constant(
    loss: PredictorLoss, eta: np.ndarray, y: np.ndarray
) -> None:
    scores = loss.score(eta[:, None], y[None, :])
    rises = np.diff(scores, axis=0) / np.diff(eta)[:, None]
    rounding = 8.0 * loss.ulps * UNIT * float(loss.lipschitz) / float(np.min(np.diff(eta)))
    assert np.min(rises) >= -rounding, "a score that falls is no convex loss's"
    assert np.max(rises) <= float(loss.smoothness) + rounding
    assert np.max(rises) >= 0.6 * float(loss.smoothness)


@everywhere
def test_no_curvature_exceeds_the_constant(loss: PredictorLoss, eta: np.ndarray, y: np.ndarray) -> None:
    curvature = loss.curvature(eta[:, None], y[None, :])
    assert np.min(curvature) >= 0.0
    assert np.max(curvature) <= float(loss.smoothness) * (1.0 + 1e-12)
    loosest = 0.6 if isinstance(loss, ExponentialTimes) else 0.99
    assert np.max(curvature) >= loosest * float(loss.smoothness)


@everywhere
def test_no_relative_change_of_a_predictor_changes_a_score_by_more_than_the_constant(
    loss: PredictorLoss, eta: np.ndarray, y: np.ndarray
) -> None:
    """By secants of the score between ``eta`` and ``eta (1 + t)``, kinks included, and by curvatures."""
    dense, t = np.concatenate([eta, 0.01 * eta, np.linspace(-3.0, 3.0, 2001)]), 2.0**-20
    rises = np.abs(loss.score(dense[:, None] * (1.0 + t), y) - loss.score(dense[:, None], y)) / t
    curved = np.abs(dense[:, None]) * loss.curvature(dense[:, None], y[None, :])
    constant = loss.scaled_curvature
    assert np.max(rises) <= constant * (1.0 + 2.0 * t) + 4.0 * loss.ulps * UNIT * float(loss.lipschitz) / t
    assert np.max(curved) <= constant * (1.0 + 1e-12)
    sharpness = 0.5 if isinstance(loss, ExponentialTimes | Tabulated) else 0.98
    assert np.max(curved) >= sharpness * constant


@everywhere
def test_values_scores_and_curvatures_are_derivatives_of_each_other(
    loss: PredictorLoss, eta: np.ndarray, y: np.ndarray
) -> None:
    at, step = np.linspace(max(eta[0], -6.0), min(eta[-1], 3.0), 301)[:, None] + 1e-3 / 3.0, 1e-6
    slope = (loss.value(at + step, y) - loss.value(at - step, y)) / (2.0 * step)
    slope_of_score = (loss.score(at + step, y) - loss.score(at - step, y)) / (2.0 * step)
    size = float(loss.lipschitz)
    assert np.max(np.abs(slope - loss.score(at, y))) <= 1e-7 * size + step * float(loss.smoothness)
    off = np.abs(slope_of_score - loss.curvature(at, y)) > 1e-5 * (1.0 + float(loss.smoothness))
    assert off.mean() < 0.01, "but for kinks"


@everywhere
def test_scores_err_by_no_more_than_is_said(loss: PredictorLoss, eta: np.ndarray, y: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    some = np.concatenate([rng.choice(eta, 60), rng.uniform(-1.0, 1.0, 60), [eta[0], eta[-1], 700.0, -700.0]])
    outcomes = rng.choice(y, len(some))
    scores = loss.score(some, outcomes)
    with mpmath.workprec(200):
        exact = [
            loss.exact_score(mpmath.mp, mpmath.mpf(e), v) for e, v in zip(some.tolist(), outcomes.tolist(), strict=True)
        ]
        errors = [abs(mpmath.mpf(float(s)) - x) for s, x in zip(scores, exact, strict=True)]
    assert float(max(errors)) <= loss.ulps * UNIT * float(loss.lipschitz)


@everywhere
def test_scores_of_rows_do_not_depend_on_other_rows(loss: PredictorLoss, eta: np.ndarray, y: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    some, outcomes = rng.choice(eta, 257), rng.choice(y, 257)
    alone = np.array([float(loss.score(some[k : k + 1], outcomes[k : k + 1])[0]) for k in range(257)])
    assert np.array_equal(loss.score(some, outcomes), alone)


@given(
    eta=st.floats(-30.0, 30.0),
    other=st.floats(-30.0, 30.0),
    share=st.floats(0.0, 1.0),
    which=st.integers(0, len(LOSSES) - 1),
    place=st.integers(0, 10**6),
)
def test_losses_are_convex(eta: float, other: float, share: float, which: int, place: int) -> None:
    loss, _, y = LOSSES[which]
    outcome = np.array([y[place % len(y)]])
    ends = [float(loss.value(np.array([value]), outcome)[0]) for value in (eta, other)]
    between = float(loss.value(np.array([(1.0 - share) * eta + share * other]), outcome)[0])
    room = 1e-9 * (1.0 + max(abs(end) for end in ends))
    assert between <= (1.0 - share) * ends[0] + share * ends[1] + room


@given(eta=st.floats(-30.0, 30.0), which=st.integers(0, len(LOSSES) - 1), place=st.integers(0, 10**6))
def test_scores_are_subgradients(eta: float, which: int, place: int) -> None:
    loss, grid, y = LOSSES[which]
    outcome = np.array([y[place % len(y)]])
    value, score = (float(part(np.array([eta]), outcome)[0]) for part in (loss.value, loss.score))
    away = np.linspace(grid[0], grid[-1], 41)
    values = loss.value(away, np.full(41, outcome[0]))
    assert np.all(values >= value + score * (away - eta) - 1e-8 * (1.0 + np.abs(values) + abs(value)))


@everywhere
def test_what_saturation_leaves_of_the_likelihood_s_score(loss: PredictorLoss, eta: np.ndarray, y: np.ndarray) -> None:
    saturates = isinstance(loss, ExponentialTimes)
    near = eta[np.abs(eta) < 3.0][::10]
    assert np.all(loss.kept(near) < 1.0) == saturates
    if saturates:
        for outcome in y:
            whole = np.abs(outcome) * np.exp(near) - np.signbit(outcome)
            assert loss.kept(near) * whole == pytest.approx(loss.score(near, np.full(len(near), outcome)), abs=1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.7, 3.0, 20.0])
def test_exponential_scores_have_mean_zero_at_the_true_rate_whatever_the_cap(rate: float) -> None:
    # P(T > t) = exp(-rate t), follow-up to 1: exact integrals of the score over t.
    for h in (0.1, 1.0, 50.0):
        loss, eta = ExponentialTimes(h=h), np.log(rate)
        t = np.linspace(0.0, 1.0, 200_001)
        scores = loss.score(np.full(len(t), eta), -t)
        density = rate * np.exp(-rate * t)
        mean = np.trapezoid(scores * density, t) + float(loss.score(np.array([eta]), np.array([1.0]))[0]) * np.exp(
            -rate
        )
        square = np.trapezoid(scores**2 * density, t)
        square += float(loss.score(np.array([eta]), np.array([1.0]))[0]) ** 2 * np.exp(-rate)
        curved = np.trapezoid(loss.curvature(np.full(len(t), eta), -t) * density, t)
        curved += float(loss.curvature(np.array([eta]), np.array([1.0]))[0]) * np.exp(-rate)
        assert mean == pytest.approx(0.0, abs=1e-7)
        assert square <= curved * (1.0 + 1e-7)
        expected = loss.typical(np.array([eta]))
        assert (float(expected[0][0]), float(expected[1][0])) == pytest.approx((curved, square), rel=1e-6)


def test_the_smoothed_quantile_is_that_of_the_outcome_with_uniform_noise() -> None:
    rng = np.random.default_rng(0)
    y, h, q = rng.normal(0.0, 0.1, 400_000).clip(-0.5, 0.5), 0.05, 0.8
    loss = SmoothedQuantile(lower=-0.5, upper=0.5, q=q, h=h)
    found = np.quantile(y + rng.uniform(-h, h, len(y)), q)
    assert float(loss.score(np.full(len(y), found), y).mean()) == pytest.approx(0.0, abs=2e-3)
    true, z = np.quantile(y, q), 0.8416
    assert found - true == pytest.approx(h**2 * z / (6.0 * 0.1), rel=0.25)


def test_bounded_squares_are_consistent_up_to_the_ends_of_the_range() -> None:
    loss = BoundedSquares(lower=-0.5, upper=0.5)
    y = np.array([-0.5, 0.5])
    for share in (0.0, 0.2, 1.0):
        mean, at = float((1.0 - share) * y[0] + share * y[1]), np.full(2, (1.0 - share) * y[0] + share * y[1])
        score = loss.score(at, y)
        assert (1.0 - share) * score[0] + share * score[1] == pytest.approx(0.0, abs=1e-15)
        variance = (1.0 - share) * score[0] ** 2 + share * score[1] ** 2
        assert float(loss.typical(np.array([mean]))[1][0]) == pytest.approx(variance, abs=1e-15)
        assert variance <= loss.meat + 1e-15


def test_a_table_s_constants_are_exact_and_binding() -> None:
    table = ((-3.0, -0.1, 0.2), (-1.0, -1.0, 7.0))
    loss = Tabulated.made((0.0, 0.5, 0.0), table, lower=0.0, upper=1.0)
    assert loss.lipschitz == 7
    assert loss.smoothness == 16
    assert loss.score(np.array([-9.0, 0.0, 0.25, 9.0]), np.zeros(4)).tolist() == [-3.0, -3.0, -1.55, 0.2]
    assert float(loss.score(np.array([9.0]), np.array([0.5]))[0]) == pytest.approx(3.6)


@pytest.mark.parametrize(
    ("table", "parameters", "match"),
    [
        (((0.0, 1.0, 0.9), (0.0, 1.0, 2.0)), (0.0, 1.0, 0.0), "falls"),
        (((1.0, 1.0), (2.0, 2.0)), (0.0, 1.0, 0.0), "constant"),
        (((0.0, 1.0),), (0.0, 1.0, 0.0), "2 rows"),
        (((0.0, 1.0), (0.0, 1.0, 2.0)), (0.0, 1.0, 0.0), "2 rows"),
        (((0.0, 1e10), (0.0, 1.0)), (0.0, 1.0, 0.0), "finite numbers"),
        (((0.0, float("nan")), (0.0, 1.0)), (0.0, 1.0, 0.0), "finite numbers"),
        (((0.0, 1.0), (0.0, 1.0)), (0.0, 0.0, 0.0), "step"),
        (((0.0, 1.0), (0.0, 1.0)), (0.0, 1.0, 0.5), "tilt"),
    ],
)
def test_tables_that_are_none_are_refused(table: object, parameters: tuple[float, ...], match: str) -> None:
    with pytest.raises(MechanismError, match=match):
        Tabulated.made(parameters, table, lower=0.0, upper=1.0)


def test_a_tilted_table_is_a_loss_of_residuals() -> None:
    places = np.linspace(-1.0, 1.0, 21)
    row = tuple(np.clip(places, -0.3, 0.3).tolist())
    loss = Tabulated.made((-1.0, 0.1, 1.0), (row, row), lower=0.0, upper=5.0)
    rng = np.random.default_rng(0)
    eta, y = rng.uniform(-1.0, 6.0, 500), rng.uniform(0.0, 5.0, 500)
    assert loss.score(eta, y) == pytest.approx(np.clip(eta - y, -0.3, 0.3), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("huber", (0.0,)),
        ("quantile", (1.5, 0.1)),
        ("quantile", (0.5, 0.0)),
        ("quantile", (0.5, 0.9e-5)),
        ("poisson", (-1.0,)),
        ("exponential", (0.0,)),
    ],
)
def test_numbers_that_no_proof_covers_are_refused(name: str, parameters: tuple[float, ...]) -> None:
    with pytest.raises(MechanismError):
        BY_NAME[name].made(parameters, (), lower=0.0, upper=1.0)
    with pytest.raises(MechanismError, match="lower bound of 0"):
        BY_NAME["poisson"].made((1.0,), (), lower=-1.0, upper=1.0)


def test_a_wrong_constant_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, eta, y = LOSSES[3]
    monkeypatch.setattr(type(loss), "smoothness", Fraction(1, 2))
    with pytest.raises(AssertionError):
        test_no_curvature_exceeds_the_constant(loss, eta, y)
    with pytest.raises(AssertionError):
        test_no_two_scores_of_a_record_change_faster_than_the_constant(loss, eta, y)
