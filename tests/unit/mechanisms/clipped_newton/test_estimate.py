"""Errors of fits by clipped scores: two parts, three sources, and the distribution of the noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats.inference.pooling import pool
from hdpstats.inference.sandwich import public_shares
from hdpstats.mechanisms.clipped_newton import ClippedNewtonRelease
from hdpstats.mechanisms.clipped_newton.estimate import ALIKE, estimates
from hdpstats.mechanisms.clipped_newton.matching import Matched, PrivateEstimate
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.gaussian import mu_of
from hdpstats.public.moments import PublicFit

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
T = np.array([[1.0, -0.5], [0.0, 2.0]])
FIT = PublicFit(theta=np.array([0.1, 0.2]), covariance=np.diag([0.04, 0.09]), information=np.diag([25.0, 11.0]))
PRIVATE = PrivateEstimate(
    theta=np.array([0.5, -0.4]),
    response=np.array([[0.02, 0.005], [-0.003, 0.03]]),
    scores=np.array([[45.0, 10.0], [10.0, 38.0]]),
    public=np.array([[15.0, 0.0], [0.0, 2.0]]),
    noise=90.0,
    counting=np.array([[4.0, 2.0], [2.0, 1.0]]),
)

POOLING = pool(PRIVATE.theta, PRIVATE.covariance, FIT)


def found_of(private=PRIVATE, sites=None, weights=(1.0,), shares=(1.0,)):
    return Matched(
        pooled=POOLING.point,
        pooling=POOLING,
        private=private,
        sites=(private,) if sites is None else sites,
        weights=weights,
        shares=shares,
    )


FOUND = found_of()
GAUSSIAN = ClippedNewtonRelease(
    total=(10.0, -3.0),
    noise_sd=9.0,
    grid=2.0**-29,
    records=1000,
    events=(
        PrivacyEvent(ran=MechanismName.GRADIENT, epsilon=EPSILON, delta=DELTA, mu_squared=mu_of(EPSILON, DELTA) ** 2),
    ),
)
PURE = replace(GAUSSIAN, noise_sd=90.0**0.5, events=(PrivacyEvent(ran=MechanismName.GRADIENT_PURE, epsilon=EPSILON),))


def read(found=FOUND, release=GAUSSIAN):
    return estimates(found, FIT, [release], T=T, terms=("a", "b"), note=ALIKE)


def test_values_are_mapped_to_the_design_s_coordinates():
    found = read()
    assert found.private_only.values == pytest.approx(T @ PRIVATE.theta)
    assert found.pooled.values == pytest.approx(T @ FOUND.pooled)
    assert found.penalised.values == pytest.approx(T @ FIT.theta)
    assert found.chosen is found.pooled
    assert [part.label for part in (found.penalised, found.private_only, found.pooled)] == [
        "public, penalised",
        "private only",
        "pooled",
    ]
    assert found.pooled.note == found.private_only.note == ALIKE


def test_the_public_fit_s_shares_are_those_of_the_pooled_estimate():
    assert read().public_shares.tolist() == public_shares(POOLING, T).tolist()
    far = replace(POOLING, weight=np.eye(2))
    assert read(replace(FOUND, pooling=far)).public_shares == pytest.approx([0.0, 0.0])


def test_covariances_are_those_of_errors_drawn_from_their_sources():
    # Fails if the public fit's error, the difference of the sources, the count's noise or a weight were left out.
    rng, draws = np.random.default_rng(0), 400_000
    turn = np.arange(draws) % len(POOLING.weights)
    W = POOLING.weights[turn]
    sampled = rng.multivariate_normal(np.zeros(2), PRIVATE.sampling, draws)
    noised = rng.normal(0.0, np.sqrt(PRIVATE.noise), (draws, 2))
    noised += rng.normal(size=(draws, 1)) * np.array([2.0, 1.0])
    public = rng.multivariate_normal(np.zeros(2), FIT.covariance, draws)
    public += np.einsum("bij,bj->bi", POOLING.scales.roots[turn], rng.normal(size=(draws, 2)))
    found = read()
    private = {"sampling": sampled @ PRIVATE.response.T, "privacy": noised @ PRIVATE.response.T}
    pooled = {
        "sampling": np.einsum("bij,bj->bi", W, private["sampling"] - public) + public + POOLING.moved[turn],
        "privacy": np.einsum("bij,bj->bi", W, private["privacy"]),
    }
    for estimate, errors in ((found.private_only, private), (found.pooled, pooled)):
        for name, error in errors.items():
            assert getattr(estimate, name) == pytest.approx(np.cov((error @ T.T).T), rel=0.03, abs=1e-4)
    drawn = found.pooled.distribution.half_width(0.95)
    errors = np.abs((pooled["sampling"] + pooled["privacy"]) @ T.T)
    assert drawn == pytest.approx(np.quantile(errors, 0.95, axis=0), rel=0.05)


def test_without_noise_nothing_is_due_to_privacy():
    found = read(found_of(replace(PRIVATE, noise=0.0, counting=np.zeros((2, 2)))))
    assert not found.pooled.privacy.any()
    assert not found.private_only.privacy.any()
    assert found.pooled.sampling == pytest.approx(read().pooled.sampling)


def test_normal_noise_has_normal_errors():
    found = read().private_only
    assert found.distribution is None
    assert found.conf_int().to_numpy()[:, 1] - found.values == pytest.approx(1.959964 * found.bse.to_numpy(), rel=1e-6)


def test_pure_noise_has_errors_of_its_own_distribution():
    nothing = np.zeros((2, 2))
    alone = found_of(replace(PRIVATE, scores=nothing, public=nothing, counting=nothing))
    found = read(alone, PURE).private_only
    rng, draws, rate = np.random.default_rng(1), 400_000, PURE.noise_rate
    direction = rng.normal(size=(draws, 2))
    noise = rng.gamma(2.0, 1.0 / rate, draws)[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    errors = np.abs(noise @ (T @ PRIVATE.response).T)
    for level, tolerance in ((0.5, 0.06), (0.95, 0.08), (0.99, 0.12)):
        assert found.distribution.half_width(level) == pytest.approx(np.quantile(errors, level, axis=0), rel=tolerance)
    assert np.all(found.distribution.half_width(0.999) > 3.5 * found.bse.to_numpy())  # 3.29 for a normal distribution
    assert found.privacy == pytest.approx(np.cov((noise @ (T @ PRIVATE.response).T).T), rel=0.03, abs=1e-4)


def test_one_release_has_one_distribution():
    first, again = read(release=PURE).pooled.distribution, read(release=PURE).pooled.distribution
    assert np.array_equal(first.quantiles, again.quantiles)
    other = read(release=replace(PURE, total=(10.0, -3.5))).pooled.distribution
    assert not np.array_equal(first.quantiles, other.quantiles)


# Several sites.

SECOND = replace(PRIVATE, theta=np.array([0.1, 0.6]), noise=40.0, scores=PRIVATE.scores / 2.0)
BOTH = replace(PRIVATE, noise=90.0 + 0.25 * 40.0)
SITES = {"sites": (PRIVATE, SECOND), "weights": (1.0, 0.5), "shares": (0.7, 0.3)}


def several(releases, private=BOTH, **changes):
    return estimates(found_of(private, **(SITES | changes)), FIT, releases, T=T, terms=("a", "b"), note=ALIKE)


def test_each_site_keeps_its_own_estimate_and_share():
    found = several([GAUSSIAN, replace(GAUSSIAN, total=(1.0, 2.0))])
    assert [site.weight for site in found.sites] == [0.7, 0.3]
    for site, source in zip(found.sites, (PRIVATE, SECOND), strict=True):
        assert site.estimate.values == pytest.approx(T @ source.theta)
        assert site.estimate.cov_params().to_numpy() == pytest.approx(T @ source.covariance @ T.T)
    assert found.private_only.cov_params().to_numpy() == pytest.approx(T @ BOTH.covariance @ T.T)
    (alone,) = read().sites
    assert alone.estimate.values == pytest.approx(read().private_only.values)
    assert read().heterogeneity is None


def test_pure_noises_of_several_sites_are_each_drawn():
    # Fails where one noise stands for all, or a weight is left out.
    nothing = np.zeros((2, 2))
    rest = {"scores": nothing, "public": nothing, "counting": nothing}
    second = replace(PURE, total=(1.0, 2.0), noise_sd=40.0**0.5)
    distribution = several([PURE, second], replace(BOTH, **rest)).private_only.distribution
    rng, draws = np.random.default_rng(3), 400_000

    def noise(rate):
        direction = rng.normal(size=(draws, 2))
        return rng.gamma(2.0, 1.0 / rate, draws)[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)

    errors = np.abs((noise(PURE.noise_rate) + 0.5 * noise(second.noise_rate)) @ (T @ PRIVATE.response).T)
    for level, tolerance in ((0.5, 0.06), (0.95, 0.08)):
        assert distribution.half_width(level) == pytest.approx(np.quantile(errors, level, axis=0), rel=tolerance)


def test_averages_of_described_people_err_apart_at_each_site_and_public_people_alike():
    releases = [GAUSSIAN, replace(GAUSSIAN, total=(1.0, 2.0))]
    far = np.linalg.cholesky(PRIVATE.covariance + SECOND.covariance) @ np.array([4.0, 4.0])
    moved = np.random.default_rng(1).normal(size=(40, 2, 2)) * 3.0 * np.linalg.solve(PRIVATE.response, far)

    def overall(first, second):
        response = PRIVATE.response
        sites = (PRIVATE, replace(PRIVATE, theta=PRIVATE.theta + far, response=response))
        drawn = (replace(site, described=each) for site, each in zip(sites, (first, second), strict=True))
        return several(releases, sites=tuple(drawn)).heterogeneity.overall

    apart, alike, none = overall(moved[:, 0], moved[:, 1]), overall(moved[:, 0], moved[:, 0]), overall(None, None)
    assert apart.pvalue > 0.2
    assert apart.statistic < 0.5 * none.statistic  # a site of which averages err more weighs less
    assert alike.pvalue == pytest.approx(none.pvalue, abs=0.02)
    assert alike.statistic == pytest.approx(none.statistic)
    assert none.pvalue < 0.05


@pytest.mark.parametrize("release", [GAUSSIAN, PURE], ids=["normal", "pure"])
def test_sites_that_agree_are_not_called_different_and_others_are(release):
    releases = [release, replace(release, total=(1.0, 2.0), noise_sd=40.0**0.5)]
    far = np.linalg.cholesky(PRIVATE.covariance + SECOND.covariance) @ np.array([6.0, 6.0])
    agreeing = several(releases, sites=(PRIVATE, replace(SECOND, theta=PRIVATE.theta + 0.1 * far)))
    apart = several(releases, sites=(PRIVATE, replace(SECOND, theta=PRIVATE.theta + far)))
    assert agreeing.heterogeneity.overall.pvalue > 0.2
    assert apart.heterogeneity.overall.pvalue < 0.01
    assert apart.heterogeneity.overall.df == 2
    assert len(apart.heterogeneity.by_term) == 2
