"""From a release to estimates: unshrinking, pooling, the distribution of errors, the draws behind it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest

from hdpstats._base.errors import ArgumentError
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.inference import draws
from hdpstats.inference.combination import ReleasedPoint, unshrink
from hdpstats.inference.information import InObjective
from hdpstats.inference.pooling import SCALE
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.perturbation import ObjectiveQuery, ObjectiveRelease
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.perturbation.request import noise_distribution
from hdpstats.models.estimates import ALL_UNCLEAR, NOT_RELEASED, estimates
from hdpstats.noise.distributions import ball_variance, cylinder_variance
from hdpstats.records.estimate import ErrorDistribution, Estimate
from hdpstats.records.geometry import Geometry, from_box, whiten
from hdpstats.records.model import RegressionModel
from hdpstats.records.query import unstack
from tests import chance
from tests.unit.inference.sides import BETA, public_side

TERMS = ("Intercept", "a", "b")


def query_of(geometry: Geometry, *, ridge=200.0, centre=None, share=Fraction(0)):
    return ObjectiveQuery(
        model=RegressionModel(formula="y ~ a + b", loss="logistic", geometry=geometry),
        centre=tuple(np.zeros(geometry.dimension).tolist() if centre is None else centre.tolist()),
        ridge=Fraction(ridge),
        epsilon=Fraction(1),
        schema_sha256="",
        public_sha256=None,
        hessian_share=share,
    )


def release_of(theta, *, rate=0.5, records=3000, hessian=None, sd=0.0):
    return ObjectiveRelease(
        theta=tuple(np.asarray(theta, dtype=float).tolist()),
        hessian=hessian,
        noise_rate=rate,
        hessian_noise_sd=sd,
        grid=2.0**-30,
        records=records,
        events=(),
    )


def part_of(query, release, public=None):
    return ReleasedPoint(
        query=query,
        release=release,
        noise=InObjective(distribution=noise_distribution(query.model.geometry, rate=release.noise_rate)),
        public=public,
        records=release.records,
        curvature=0.1,
    )


def read(query, release, public=None, **options):
    """Return the estimates as a model reads them."""
    return estimates([part_of(query, release, public)], T=query.model.geometry.to_raw(), terms=TERMS, **options)


def estimates_at(public, theta, *, rate=0.5, records=3000, ridge=200.0):
    query = query_of(public.geometry, ridge=ridge, centre=public.centre)
    release = release_of(theta, rate=rate, records=records)
    return read(query, release, public)


def test_unshrinking_undoes_a_ridge_exactly_where_the_loss_is_quadratic():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 4))
    H, truth, centre, ridge = root @ root.T + np.eye(4), rng.standard_normal(4), rng.standard_normal(4), 7.5
    # The minimiser of (t - truth)'H(t - truth) / 2 + ridge |t - centre|^2 / 2.
    shrunk = np.linalg.solve(H + ridge * np.eye(4), H @ truth + ridge * centre)
    assert unshrink(shrunk, centre=centre, ridge=ridge, H=H) == pytest.approx(truth, rel=1e-10)
    assert shrunk != pytest.approx(truth, rel=1e-2)


def test_with_overwhelming_noise_the_public_fit_is_reported():
    public = public_side()
    found = estimates_at(public, public.centre + np.array([30.0, -20.0, 10.0]), rate=1e-6)
    T = public.geometry.to_raw()
    assert found.pooled.values == pytest.approx(T @ public.fit.theta, abs=1e-3)
    # private people may differ from the public ones by as much as is thought possible beforehand
    apart = np.sqrt(np.diag(T @ T.T)) * SCALE
    excess = np.sqrt(found.pooled.bse.to_numpy() ** 2 - found.penalised.bse.to_numpy() ** 2)
    assert np.all((excess > apart) & (excess < 3.0 * apart))


def test_sources_that_differ_leave_the_private_estimate_alone():
    public = public_side()
    sharp = replace(public, fit=replace(public.fit, covariance=0.01 * public.fit.covariance))
    found = estimates_at(sharp, sharp.centre + np.array([3.0, -3.0, 3.0]), rate=1e3, records=10**7, ridge=1.0)
    assert found.pooled.values == pytest.approx(found.private_only.values, abs=1e-3)
    assert np.abs(found.pooled.values - found.penalised.values).max() > 1.0


def test_sources_that_agree_are_pooled_and_sharper_than_either():
    public = public_side()
    found = estimates_at(public, public.centre + 0.001, rate=0.5, records=500)
    pooled, alone = found.pooled.bse.to_numpy(), found.penalised.bse.to_numpy()
    assert np.all(pooled < alone)
    assert np.all(pooled < found.private_only.bse.to_numpy())
    assert found.chosen is found.pooled


def test_without_public_outcomes_there_is_the_private_estimate_only():
    public = replace(public_side(), fit=None)
    found = estimates_at(public, BETA)
    assert (found.penalised, found.pooled) == (None, None)
    assert found.chosen is found.private_only


def test_a_release_has_one_set_of_standard_errors():
    public = public_side()
    one, again = estimates_at(public, BETA), estimates_at(public, BETA)
    other = estimates_at(public, BETA + 1e-9)
    assert np.array_equal(one.pooled.bse, again.pooled.bse)
    assert np.array_equal(one.pooled.distribution.quantiles, again.pooled.distribution.quantiles)
    assert not np.array_equal(one.pooled.bse, other.pooled.bse)
    assert one.pooled.bse.to_numpy() == pytest.approx(other.pooled.bse.to_numpy(), rel=0.2)


def test_sampling_and_privacy_make_up_the_covariance():
    found = estimates_at(public_side(), BETA)
    for each in (found.private_only, found.pooled, found.penalised):
        assert np.array_equal(each.cov_params(), each.cov_sampling + each.cov_privacy)
        assert each.bse.to_numpy() == pytest.approx(np.sqrt(np.diag(each.cov_params())))
        assert np.linalg.eigvalsh(each.cov_sampling.to_numpy())[0] > 0.0
    assert not found.penalised.cov_privacy.to_numpy().any()
    assert np.all(np.diag(found.pooled.cov_privacy) > 0.0)


def test_less_noise_gives_smaller_privacy_errors():
    sizes = [np.diag(estimates_at(public_side(), BETA, rate=rate).private_only.privacy) for rate in (0.1, 0.5, 5.0)]
    assert np.all(sizes[0] > sizes[1])
    assert np.all(sizes[1] > sizes[2])
    assert sizes[0] / sizes[2] == pytest.approx(np.full(3, 2500.0), rel=0.5)


def box_release(n, share_sd, *, seed=3):
    """Return a query and a release with the exact Hessian at the released point, and noise of a stated size."""
    geometry = from_box([-2.0, -2.0], [2.0, 2.0], intercept=True)
    rng = np.random.default_rng(seed)
    rows = whiten(geometry, np.column_stack([np.ones(n), rng.uniform(-2.0, 2.0, (n, 2))]))
    held = RegressionRows(loss=LogisticLoss(), X=rows.X, y=np.zeros(n), weights=rows.weights, offset=np.zeros(n))
    H = 2.0**-20 * held.stacked_hessian(BETA, grid=2.0**-20)
    query = query_of(geometry, ridge=20.0, share=Fraction(3, 20))
    return query, release_of(BETA, records=n, hessian=tuple(H.tolist()), sd=share_sd), unstack(H, 3)


def test_without_public_rows_a_noisy_hessian_gives_standard_errors():
    query, release, H = box_release(20_000, 5.0)
    found = read(query, release)
    estimate = found.chosen
    T = query.model.geometry.to_raw()
    assert estimate.note is None
    assert estimate.values == pytest.approx(T @ (BETA + np.linalg.solve(H, 20.0 * BETA)))
    # Sampling: T H^-1 T' for weights of one; privacy: T H^-1 B H^-1 T'.
    inverse = T @ np.linalg.inv(H)
    noise = np.diag(noise_distribution(query.model.geometry, rate=release.noise_rate).variance)
    assert np.diag(estimate.sampling) == pytest.approx(np.diag(inverse @ T.T), rel=0.2)
    assert np.diag(estimate.privacy) == pytest.approx(np.diag(inverse @ noise @ inverse.T), rel=0.3)
    again = read(query, release).chosen
    assert np.array_equal(again.bse, estimate.bse)


def test_a_larger_case_weight_widens_sampling_errors():
    query, release, _ = box_release(20_000, 5.0)
    one, four = (read(query, release, meat=a).chosen for a in (1.0, 4.0))
    assert np.diag(four.sampling) == pytest.approx(4.0 * np.diag(one.sampling), rel=0.1)


def test_a_drowned_hessian_gives_no_standard_errors_and_says_so():
    query, release, _ = box_release(200, 1e4)
    estimate = read(query, release).chosen
    assert estimate.note == ALL_UNCLEAR
    assert estimate.bse.isna().all()
    assert estimate.pvalues.isna().all()
    assert estimate.conf_int().isna().all().all()
    assert estimate.values == pytest.approx(query.model.geometry.to_raw() @ BETA)


def test_without_a_hessian_there_are_no_standard_errors():
    query, release, _ = box_release(200, 1.0)
    estimate = read(query, replace(release, hessian=None)).chosen
    assert estimate.note == NOT_RELEASED
    assert estimate.bse.isna().all()


GEOMETRIES = {
    "intercept": from_box([-1.0] * 3, [1.0] * 3, intercept=True, row_norm=0.7),
    "none": from_box([-1.0] * 3, [1.0] * 3, intercept=False, row_norm=2.5),
    "intercept only": from_box([], [], intercept=True),
}


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_drawn_perturbations_have_the_mechanism_s_distribution(name):
    # The draws are seeded: these are fixed numbers, and a distribution with another scale is outside the tolerance.
    geometry, rate, count = GEOMETRIES[name], 0.4, 200_000
    found = draws.perturbation(draws.generator("ab" * 32), noise_distribution(geometry, rate=rate), count=count)
    D, R = geometry.dimension, geometry.radius
    variances = cylinder_variance(D, rate, R) if geometry.intercept else np.full(D, ball_variance(D, rate / R))
    assert noise_distribution(geometry, rate=rate).variance == pytest.approx(variances)
    assert found.shape == (count, D)
    covariance = np.cov(found.T).reshape(D, D)
    scale = np.sqrt(np.outer(variances, variances))
    assert np.abs(covariance / scale - np.eye(D)).max() < 0.03
    assert np.abs(covariance / (1.1**2 * scale) - np.eye(D)).max() > 0.03
    sizes = np.linalg.norm(found[:, int(geometry.intercept) :], axis=1) / R
    K = np.maximum(np.abs(found[:, 0]), sizes) if geometry.intercept else sizes
    assert kstest(K, "gamma", args=(D, 0.0, 1.0 / rate)).pvalue > 1e-6
    assert kstest(1.05 * K, "gamma", args=(D, 0.0, 1.0 / rate)).pvalue < 1e-9


def test_drawn_matrices_have_the_stacked_standard_deviation():
    found = draws.symmetric(draws.generator("cd" * 32), 3, sd=2.5, count=100_000)
    assert np.array_equal(found, np.swapaxes(found, 1, 2))
    i, j = np.triu_indices(3)
    stacked = found[:, i, j] * np.where(i == j, 1.0, math.sqrt(2.0))
    assert stacked.std(axis=0) == pytest.approx(np.full(6, 2.5), rel=0.02)
    assert found[:, i, j].std(axis=0) != pytest.approx(np.full(6, 2.5), rel=0.02)
    assert np.abs(np.corrcoef(stacked.T) - np.eye(6)).max() < 0.02


def test_other_draws_have_their_distributions():
    rng = draws.generator("01" * 32)
    covariance = np.array([[2.0, 0.6, 0.0], [0.6, 0.5, 0.0], [0.0, 0.0, 0.0]])
    many = draws.normal(rng, covariance, 200_000)
    assert np.abs(np.cov(many.T) - covariance).max() < 0.03
    each = draws.normals(np.broadcast_to(covariance, (200_000, 3, 3)), rng.standard_normal((200_000, 3)))
    assert np.abs(np.cov(each.T) - covariance).max() < 0.03
    weights = draws.dirichlet(rng, 7, 20_000)
    assert weights.sum(axis=1) == pytest.approx(np.ones(20_000))
    assert weights.var(axis=0) == pytest.approx(np.full(7, 6.0 / 49.0 / 8.0), rel=0.1)


def test_draws_belong_to_a_hash():
    one, two = (draws.generator(text * 32).standard_normal(5) for text in ("ab", "ac"))
    assert np.array_equal(one, draws.generator("ab" * 32).standard_normal(5))
    assert not np.array_equal(one, two)


def test_the_error_distribution_has_the_quantiles_of_its_draws():
    errors = np.random.default_rng(5).standard_normal((50_000, 2)) * [1.0, 10.0]
    distribution = ErrorDistribution.of_draws(errors)
    assert distribution.half_width(0.95) == pytest.approx([1.96, 19.6], rel=0.02)
    for level in (0.5, 0.9, 0.95, 0.99, 0.999):
        exact = -ndtri((1.0 - level) / 2.0) * np.array([1.0, 10.0])
        assert distribution.half_width(level) == pytest.approx(exact, rel=0.05)
        assert distribution.exceedance(distribution.half_width(level)) == pytest.approx(
            [1.0 - level] * 2, rel=1e-6, abs=1e-9
        )
    widths = np.array([distribution.half_width(level) for level in np.linspace(0.001, 0.999, 300)])
    assert np.all(np.diff(widths, axis=0) >= 0.0)
    assert distribution.exceedance(np.zeros(2)) == pytest.approx([1.0, 1.0])
    beyond = distribution.exceedance(np.array([1e9, 1e9]))
    assert np.all((beyond > 0.0) & (beyond < 1e-4))


def made(distribution, values=(0.5, -30.0)):
    return Estimate(
        label="private only",
        terms=("a", "b"),
        values=np.array(values),
        sampling=np.diag([0.5, 50.0]),
        privacy=np.diag([0.5, 50.0]),
        distribution=distribution,
    )


def test_p_values_and_intervals_agree():
    errors = np.random.default_rng(6).standard_t(4, size=(20_000, 2)) * [1.0, 10.0]
    for distribution in (None, ErrorDistribution.of_draws(errors)):
        for size in (0.01, 0.5, 1.5, 2.5, 4.0):
            estimate = made(distribution, values=(size, -10.0 * size))
            p = estimate.pvalues.to_numpy()
            for alpha in (0.01, 0.05, 0.2):
                limits = estimate.conf_int(alpha).to_numpy()
                excludes = (limits[:, 0] > 0.0) | (limits[:, 1] < 0.0)
                clear = np.abs(p - alpha) > 1e-6
                assert np.array_equal(excludes[clear], (p < alpha)[clear])


def test_the_normal_distribution_is_the_default():
    estimate = made(None, values=(1.959963984540054, 0.0))
    assert estimate.bse.to_numpy() == pytest.approx([1.0, 10.0])
    assert estimate.pvalues.to_numpy() == pytest.approx([0.05, 1.0])
    assert estimate.conf_int().loc["a"].to_numpy() == pytest.approx([0.0, 2.0 * 1.959963984540054], abs=1e-12)
    for alpha in (0.0, 1.0, -1.0, math.nan, "x"):
        with pytest.raises(ArgumentError):
            estimate.conf_int(alpha)


@pytest.mark.entropy
def test_calibrated_noise_is_what_inference_assumes():
    """Exact tails of the noise's norm, Gamma(D): 1e-9; noise 1.5 times too small or too large passes with no more."""
    public = public_side()
    query = query_of(public.geometry, centre=public.centre, ridge=200.0)
    constants = perturbation.calibrate_objective(
        query, RegressionPersonLoss(model=query.model, largest_weight=1.0, largest_offset=0.0), records=10
    )
    drawn = np.array([[float(value) for value in constants.perturbation.draw()] for _ in range(400)])
    D, R = query.model.geometry.dimension, float(query.model.geometry.radius)
    sizes = np.maximum(np.abs(drawn[:, 0]), np.linalg.norm(drawn[:, 1:], axis=1) / R)
    assert query.model.geometry.intercept
    assert chance.gamma_sum_fits(float(constants.noise_rate) * sizes.sum(), 400 * D)
    assert max(chance.miss_of_gamma_sum(400 * D, factor) for factor in (1.5, 1 / 1.5)) <= chance.ALARM
    distribution = noise_distribution(query.model.geometry, rate=float(constants.noise_rate))
    assert distribution.variance == pytest.approx(cylinder_variance(D, float(constants.noise_rate), R))
