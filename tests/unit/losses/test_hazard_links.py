"""The capped losses of one interval: derivatives, bounds, consistency, exact scores; what each bound rests on."""

import mpmath
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from hdpstats.losses import LINKS, HazardLink
from hdpstats.losses.hazard_links import STEEPEST, LogitLink

LOSSES = list(LINKS.values())
CAPS = np.log([1e-9, 1e-6, 1e-3, 0.02, 0.3, 1.0, 7.0, 1e3, 1e9])
COUNTED = np.append(CAPS, np.log(1e4 * 2.0**40))  # the largest cap of who is weighed by 2^-40 or more
ETA = np.concatenate([np.linspace(-34.0, 34.0, 1361), np.linspace(-3.0, 3.0, 601)])


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.name)
def loss(request: pytest.FixtureRequest) -> HazardLink:
    found: HazardLink = request.param
    return found


def everywhere(caps: np.ndarray = COUNTED, *, smallest: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return linear predictors and logarithms of caps, none below the smallest, each with each."""
    caps = np.maximum(caps, np.log(smallest)) if smallest else caps
    eta, log_cap = np.meshgrid(ETA, caps)
    return eta.ravel(), log_cap.ravel()


def test_hazards_are_those_of_the_links() -> None:
    eta = np.linspace(-8.0, 3.0, 40)
    assert LINKS["logit"].hazard(eta) == pytest.approx(expit(eta), rel=1e-13)
    assert LINKS["cloglog"].hazard(eta) == pytest.approx(1.0 - np.exp(-np.exp(eta)), rel=1e-9)
    assert LINKS["probit"].hazard(eta) == pytest.approx(norm.cdf(eta), rel=1e-12)


def test_scores_stay_within_the_cap_and_one(loss: HazardLink) -> None:
    eta, log_cap = everywhere()
    survived, event = loss.scores(eta, log_cap)
    assert np.all((survived >= 0.0) & (survived <= np.exp(log_cap)))
    assert np.all((event >= 0.0) & (event <= 1.0))
    # Both bounds are reached: survival at a hazard far above the cap, events at one far below.
    assert np.max(survived / np.exp(log_cap)) > 0.999
    assert np.max(event) > 0.999


@pytest.mark.parametrize("eta", [-1e300, -1e6, -800.0, 800.0, 1e6, 1e300])
def test_scores_saturate_where_exponentials_would_overflow(loss: HazardLink, eta: float) -> None:
    at, log_cap = np.array([eta]), np.array([-2.0])
    for cells in (loss.scores(at, log_cap), (loss.cells(at, log_cap).survived, loss.cells(at, log_cap).event)):
        expected = (0.0, 1.0) if eta < 0 else (np.exp(-2.0), 0.0)
        assert (float(cells[0][0]), float(cells[1][0])) == pytest.approx(expected, abs=1e-12)
    assert loss.cells(at, log_cap).survived_curvature == pytest.approx(0.0, abs=1e-12)
    assert loss.cells(at, log_cap).event_curvature == pytest.approx(0.0, abs=1e-12)


def test_losses_are_convex(loss: HazardLink) -> None:
    eta = np.linspace(-30.0, 30.0, 3001)
    for log_cap in CAPS:
        survived, event = loss.scores(eta, np.full_like(eta, log_cap))
        assert np.all(np.diff(survived) >= -1e-15 * np.exp(log_cap))
        assert np.all(np.diff(event) <= 1e-15)


def test_curvatures_are_the_derivatives_of_scores(loss: HazardLink) -> None:
    eta, log_cap = everywhere(CAPS[1:-1])
    step = 1e-5
    above, below = loss.scores(eta + step, log_cap), loss.scores(eta - step, log_cap)
    cells, cap = loss.cells(eta, log_cap), np.exp(log_cap)
    assert np.allclose(cells.survived_curvature / cap, (above[0] - below[0]) / (2 * step) / cap, atol=2e-9, rtol=1e-6)
    assert np.allclose(cells.event_curvature, -(above[1] - below[1]) / (2 * step), atol=2e-9, rtol=1e-6)
    scores = loss.scores(eta, log_cap)
    assert cells.survived == pytest.approx(scores[0], rel=1e-14)
    assert cells.event == pytest.approx(scores[1], rel=1e-14)


def test_the_logit_losses_are_inverse_hyperbolic_sines() -> None:
    eta, log_cap = everywhere(CAPS[2:7])
    eta, log_cap = eta[np.abs(eta) < 12], log_cap[np.abs(eta) < 12]
    survived, event = LINKS["logit"].scores(eta, log_cap)
    step, h = 1e-5, np.exp(log_cap)

    above, below = LogitLink().capped_values(eta + step, log_cap), LogitLink().capped_values(eta - step, log_cap)
    plain = h * np.arcsinh(np.exp(eta) / h), np.arcsinh(h * np.exp(-eta))
    assert np.allclose(LogitLink().capped_values(eta, log_cap), plain, rtol=1e-13, atol=0.0)
    assert np.allclose(survived, (above[0] - below[0]) / (2 * step), rtol=1e-6, atol=1e-7)
    assert np.allclose(event, -(above[1] - below[1]) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("eta", [-1e300, -1e5, -720.0, 720.0, 1e5])
def test_logit_losses_are_finite_and_right_far_away(eta: float) -> None:
    survived, event = (float(each[0]) for each in LogitLink().capped_values(np.array([eta]), np.array([-2.0])))
    assert survived == pytest.approx(np.exp(-2.0) * (eta + 2.0 + np.log(2.0)) if eta > 0 else 0.0, abs=1e-250)
    assert event == pytest.approx(-2.0 - eta + np.log(2.0) if eta < 0 else 0.0, abs=1e-250)


def test_smoothness_bounds_hold_and_are_not_idle(loss: HazardLink) -> None:
    eta, log_cap = everywhere(smallest=loss.smallest_cap)
    cells = loss.cells(eta, log_cap)
    survived, event = cells.survived_curvature / np.exp(log_cap), cells.event_curvature
    assert np.max(survived) <= float(loss.survived_smoothness)
    assert np.max(event) <= float(loss.event_smoothness)
    # A quarter of each constant would be exceeded; those of the logit link are sharp.
    assert np.max(survived) > 0.25 * float(loss.survived_smoothness)
    assert np.max(event) > 0.25 * float(loss.event_smoothness)
    if loss.coupled:
        assert np.max(survived) > 0.999 * float(loss.survived_smoothness)
        assert np.max(event) > 0.999 * float(loss.event_smoothness)


def test_the_steepest_slope_is_just_above_its_formula() -> None:
    assert 2.0 / (3.0 * np.sqrt(3.0)) < float(STEEPEST) < 2.0 / (3.0 * np.sqrt(3.0)) + 2e-4


def test_where_a_loss_says_it_is_coupled_curvature_is_a_function_of_the_score(loss: HazardLink) -> None:
    eta, log_cap = everywhere()
    cells, h = loss.cells(eta, log_cap), np.exp(log_cap)
    share = cells.survived / h
    coupled = np.allclose(cells.survived_curvature / h, share * (1 - share**2), atol=1e-12) and np.allclose(
        cells.event_curvature, cells.event * (1 - cells.event**2), atol=1e-12
    )
    assert coupled == loss.coupled


def test_the_score_has_mean_zero_at_every_true_hazard_whatever_the_cap(loss: HazardLink) -> None:
    eta = loss.predictor(np.concatenate([np.geomspace(1e-60, 1e-3, 200), np.linspace(2e-3, 0.999, 200)]))
    p = loss.hazard(eta)
    for log_cap in CAPS:
        survived, event = loss.scores(eta, np.full_like(eta, log_cap))
        assert np.allclose((1.0 - p) * survived, p * event, rtol=1e-9, atol=1e-300)
        # A survival term that is cut off alone, as a likelihood's, is biased where the hazard passes the cap.
        cut = np.minimum(p / (1.0 - p), np.exp(log_cap))
        beyond = p > 2.0 * np.exp(log_cap)
        assert not beyond.any() or np.all(((1.0 - p) * cut)[beyond] < 0.9 * p[beyond])


def test_a_low_hazard_has_the_score_of_the_likelihood(loss: HazardLink) -> None:
    eta = loss.predictor(np.geomspace(1e-4, 2.5e-3, 20))
    survived, event = loss.scores(eta, np.zeros_like(eta))
    step = 1e-6

    def log_survival(at: np.ndarray) -> np.ndarray:
        return np.log1p(-loss.hazard(at))

    slope = -(log_survival(eta + step) - log_survival(eta - step)) / (2 * step)
    # The capped losses are the likelihood's up to a factor of the predictor that both terms share.
    odds = loss.hazard(eta) / (1.0 - loss.hazard(eta))
    assert survived / odds == pytest.approx(event)
    if loss.multiplicative:
        assert survived == pytest.approx(slope, rel=5e-3)


def test_computed_scores_are_within_their_ulps_of_exact_ones(loss: HazardLink) -> None:
    rng = np.random.default_rng(1)
    eta = np.concatenate([rng.uniform(-40.0, 40.0, 150), rng.normal(size=150), [-700.0, -200.0, 50.0, 180.0, 700.0]])
    log_cap = np.concatenate([rng.uniform(-20.7, 37.0, len(eta) - 40), rng.normal(size=40)])
    survived, event = loss.scores(eta, log_cap)
    worst = np.zeros(2)
    with mpmath.workprec(300):
        for k in range(len(eta)):
            exact = loss.exact_scores(mpmath.mp, mpmath.mpf(float(eta[k])), mpmath.mpf(float(log_cap[k])))
            cap = mpmath.exp(mpmath.mpf(float(log_cap[k])))
            errors = abs(exact[0] - float(survived[k])) / cap, abs(exact[1] - float(event[k]))
            worst = np.maximum(worst, [float(error) * 2.0**53 for error in errors])
    assert np.all(worst <= [loss.ulps, loss.event_ulps])
    # A score in single precision would be far outside.
    assert max(loss.ulps, loss.event_ulps) < 2.0**20


@pytest.mark.parametrize("eta", [-1e8, -1e3, 1e3, 1e8])
def test_exact_scores_far_away_take_no_time(loss: HazardLink, eta: float) -> None:
    with mpmath.workprec(424):
        survived, event = loss.exact_scores(mpmath.mp, mpmath.mpf(eta), mpmath.mpf(-2))
    assert float(survived) == pytest.approx(0.0 if eta < 0 else np.exp(-2.0), abs=1e-200)
    assert float(event) == pytest.approx(1.0 if eta < 0 else 0.0, abs=1e-200)


def test_scores_are_no_steeper_in_the_predictor_than_is_said(loss: HazardLink) -> None:
    # What the bound on the gradient's float error rests on.
    eta, log_cap = everywhere(smallest=loss.smallest_cap)
    step = 1e-4
    above, below = loss.scores(eta + step, log_cap), loss.scores(eta - step, log_cap)
    assert np.max(np.abs(above[0] - below[0]) / np.exp(log_cap)) / (2 * step) <= loss.survived_smoothness
    assert np.max(np.abs(above[1] - below[1])) / (2 * step) <= loss.event_smoothness


def test_caps_are_the_scale_of_a_hazard_and_stay_in_range(loss: HazardLink) -> None:
    p = np.array([0.05, 0.4, 0.9])
    eta = loss.predictor(p)
    scale = -np.log1p(-p) if loss.cumulative else p / (1.0 - p)
    assert np.exp(loss.caps(eta, 0.7)) == pytest.approx(scale * np.exp(0.7), rel=1e-12)
    far = np.exp(loss.caps(np.array([-600.0, -20.0, 600.0]), -1.0))
    assert np.all(np.isfinite(far) & (far > 0.0))
    if loss.smallest_cap:
        assert far[0] == pytest.approx(loss.smallest_cap)


def test_a_multiplicative_scale_is_the_odds_or_the_cumulative_hazard(loss: HazardLink) -> None:
    # What compiled sums over hazards that are products of factors rest on.
    eta = np.linspace(-20.0, 3.0, 70)
    scale = np.exp(eta)
    expected = -np.expm1(-scale) if loss.cumulative else scale / (1.0 + scale)
    assert np.allclose(loss.hazard(eta), expected, rtol=1e-12) == (loss.multiplicative or loss.cumulative)
    if loss.multiplicative:
        assert not loss.smallest_cap
        assert loss.log_scale(eta) == pytest.approx(eta, rel=1e-14)
        assert np.allclose(loss.cells(eta, 0.0 * eta).survived, scale / np.sqrt(1.0 + scale**2), rtol=1e-12)


def test_an_event_may_be_a_survived_interval_minus_the_predictor(loss: HazardLink) -> None:
    eta = np.linspace(-20.0, 6.0, 53)
    plain = np.allclose(loss.survive(eta).value - loss.event(eta).value, eta, rtol=1e-12, atol=1e-12)
    assert plain == loss.linear_event


def test_the_logarithm_of_a_scale_rises_by_one_or_more(loss: HazardLink) -> None:
    # What the bound on a person's largest loss rests on.
    eta = loss.predictor(np.concatenate([np.geomspace(1e-60, 1e-3, 200), np.linspace(2e-3, 0.999, 200)]))
    assert np.all(np.diff(loss.log_scale(eta)) >= np.diff(eta) * (1.0 - 1e-9))
    scales = np.exp(loss.log_scale(eta))
    assert [loss.at_scale(float(scale)) for scale in scales] == pytest.approx(eta, rel=1e-6)
