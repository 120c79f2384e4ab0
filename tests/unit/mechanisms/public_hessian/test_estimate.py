"""Standard errors of Newton steps with a public Hessian, against closed forms with many public people."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import expit

from hdpstats.mechanisms.public_hessian import PublicHessianRelease
from hdpstats.mechanisms.public_hessian.estimate import Path, _mean_curvature, estimates
from hdpstats.mechanisms.public_hessian.request import Newton, PublicPeople, advance, costs_of, place_of, standardised
from hdpstats.mechanisms.score_sums import SiteRounds
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.gaussian import mu_of
from hdpstats.records.model import RegressionModel

RNG = np.random.default_rng(2)
N0, SITES = 4000, {"A": 20_000, "B": 5_000}
X = np.column_stack([np.ones(N0), np.clip(RNG.normal(size=(N0, 2)), -2, 2)])
TRUTH = np.array([-0.5, 0.8, 0.0])
PUBLIC = PublicPeople(X=X, y=(RNG.uniform(size=N0) < expit(X @ TRUTH)).astype(float))
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)


def walked(*, noise_sd, rounds=1, delta=Fraction(0), records_sd=0.0, seed=3):
    """Return a state and the path of a fit whose sites are multiples of the public people."""
    sites = {
        name: SiteRounds(
            records=records,
            records_sd=records_sd,
            epsilon=EPSILON,
            delta=delta,
            costs=costs_of(EPSILON, delta, rounds=rounds),
        )
        for name, records in SITES.items()
    }
    state = Newton(
        model=RegressionModel(formula="y ~ a + b", loss="logistic", geometry=standardised(X, intercept=True)),
        public=PUBLIC,
        truncation=2.0,
        norm=Fraction(3),
        ridge=1.0,
        rounds=rounds,
        from_public=True,
        sites=sites,
        schema_sha256="a" * 64,
        public_sha256=None,
        replicate=1,
    )
    rng, asked, answered = np.random.default_rng(seed), [], []
    ran = (
        PrivacyEvent(ran=MechanismName.SCORE, epsilon=EPSILON, delta=delta, mu_squared=mu_of(EPSILON, delta) ** 2)
        if delta
        else PrivacyEvent(ran=MechanismName.SCORE_PURE, epsilon=EPSILON)
    )
    while isinstance(following := advance(state, asked, answered), dict):
        totals = {
            name: SITES[name] / N0 * PUBLIC.gradient(place_of(following)) + noise_sd * rng.standard_normal(3)
            for name in following
        }
        asked.append(following)
        answered.append(
            {
                name: PublicHessianRelease(
                    total=tuple(total.tolist()), noise_sd=noise_sd, grid=2.0**-20, records=SITES[name], events=(ran,)
                )
                for name, total in totals.items()
            }
        )
    return state, Path(asked=asked, answered=answered, end=following)


def found(state, path):
    return estimates(state, path, penalised=None, T=np.eye(3), terms=("Intercept", "a", "b"))


def whole_information(theta, people):
    return people / N0 * PUBLIC.hessian(theta)


@pytest.mark.parametrize("delta", [Fraction(0), DELTA])
def test_after_one_step_the_parts_are_those_of_a_one_step_estimate(delta):
    state, path = walked(noise_sd=60.0, delta=delta)
    made = found(state, path)
    inverse = np.linalg.inv(whole_information(path.end, N0 + sum(SITES.values())))
    assert np.sqrt(np.diag(made.pooled.sampling)) == pytest.approx(np.sqrt(np.diag(inverse)), rel=0.1)
    privacy = 2 * 60.0**2 * inverse @ inverse  # two sites
    assert np.sqrt(np.diag(made.pooled.privacy)) == pytest.approx(np.sqrt(np.diag(privacy)), rel=0.1)
    assert made.pooled.values == pytest.approx(path.end)
    assert made.chosen is made.pooled


def test_private_people_alone_and_each_site_alone_have_wider_errors():
    state, path = walked(noise_sd=60.0)
    made = found(state, path)
    for people, sites, estimate in (
        (25_000, 2, made.private_only),
        (20_000, 1, made.sites[0].estimate),
        (5_000, 1, made.sites[1].estimate),
    ):
        inverse = np.linalg.inv(whole_information(path.end, people))
        expected = np.sqrt(np.diag(inverse + sites * 60.0**2 * inverse @ inverse))
        assert estimate.bse.to_numpy() == pytest.approx(expected, rel=0.12)
    assert [each.weight for each in made.sites] == pytest.approx([0.8, 0.2])


def test_noise_of_early_rounds_is_forgotten_where_the_public_hessian_is_right():
    state, path = walked(noise_sd=60.0, rounds=3)
    one, three = found(*walked(noise_sd=60.0)), found(state, path)
    assert np.diag(three.pooled.privacy) == pytest.approx(np.diag(one.pooled.privacy), rel=0.2)


def test_few_public_people_add_the_error_of_their_hessian_and_of_the_start():
    few = PublicPeople(X=X[:60], y=PUBLIC.y[:60])
    state, path = walked(noise_sd=1.0)
    small = replace(state, public=few)
    one = found(small, path)
    # With sixty public people the start errs by much more than 25,000 private people do; one step forgets most of it.
    assert np.all(one.pooled.bse > 1.2 * found(state, path).pooled.bse)


def test_the_ridge_s_pull_is_counted_as_an_error():
    state, path = walked(noise_sd=1.0)
    strong = replace(state, ridge=4000.0)
    made = found(strong, path).pooled
    # Coefficients that were pulled to half of the truth err by as much as they are: the truth is taken as unshrunk.
    curvature = whole_information(path.end, N0 + sum(SITES.values()))
    truth = path.end + np.linalg.solve(curvature, 4000.0 * path.end)
    bias = np.linalg.solve(curvature + 4000.0 * np.eye(3), 4000.0 * truth)
    assert made.bse.to_numpy() == pytest.approx(np.abs(bias), rel=0.25, abs=0.03)


def test_a_noisy_number_of_people_widens_errors():
    exact, noisy = (found(*walked(noise_sd=1.0, records_sd=sd)) for sd in (0.0, 5000.0))
    assert np.all(noisy.pooled.bse >= 0.999 * exact.pooled.bse)
    assert noisy.pooled.bse.sum() > exact.pooled.bse.sum()


@pytest.mark.wide
def test_draws_belong_to_the_releases():
    state, path = walked(noise_sd=60.0)
    again, other = found(state, path), found(*walked(noise_sd=60.0, seed=4))
    assert found(state, path).pooled.bse.tolist() == again.pooled.bse.tolist()
    assert other.pooled.bse.tolist() != again.pooled.bse.tolist()
    assert "cut at 2 standard deviations" in again.pooled.note


def test_the_mean_curvature_between_predictors():
    one, other = np.array([0.0, 1.0, -2.0, 0.3]), np.array([0.0, 1.0 + 1e-9, 3.0, -0.3])
    mean = _mean_curvature(one, other)
    t = np.linspace(0, 1, 20_001)[:, None]
    p = expit(one + t * (other - one))
    assert mean == pytest.approx((p * (1 - p)).mean(axis=0), abs=1e-5)
