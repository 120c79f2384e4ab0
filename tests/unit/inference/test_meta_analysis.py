"""Combinations of estimates: weights, variances between sites, intervals from their spread; published numbers."""

import numpy as np
import pytest
from scipy import stats

from hdpstats.inference import draws
from hdpstats.inference.combination import shares
from hdpstats.inference.meta_analysis import (
    BETWEEN,
    SiteSummary,
    between_variances,
    combined,
    from_spread,
    part_of,
    scatter,
    spread_variance,
    student,
)
from hdpstats.records.estimate import ErrorDistribution, Estimate

TRIALS = [  # 13 trials of the vaccine against tuberculosis: cases and others, vaccinated and not (Colditz et al. 1994)
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761),
    (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232), (17, 1699, 65, 1600),
    (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825),
]  # fmt: skip


def log_risk_ratios():
    a, b, c, d = np.array(TRIALS, dtype=float).T
    values = np.log(a / (a + b)) - np.log(c / (c + d))
    return values[:, None], (1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))[:, None]


def part(values, covariance, errors=None):
    values, covariance = np.asarray(values, dtype=float), np.asarray(covariance, dtype=float)
    return SiteSummary(values=values, sampling=0.75 * covariance, privacy=0.25 * covariance, errors=errors)


def covariances(k, p, seed=0):
    roots = np.random.default_rng(seed).normal(size=(k, p, p + 2))
    return roots @ np.swapaxes(roots, 1, 2)


def test_weights_are_those_of_generalised_least_squares():
    """By hand: stack the estimates, and regress them on the common parameters."""
    V, values = covariances(3, 2), np.random.default_rng(1).normal(size=(3, 2))
    design, whole = np.tile(np.eye(2), (3, 1)), np.zeros((6, 6))
    for place, each in enumerate(V):
        whole[2 * place : 2 * place + 2, 2 * place : 2 * place + 2] = np.linalg.inv(each)
    covariance = np.linalg.inv(design.T @ whole @ design)
    found = combined([part(x, each) for x, each in zip(values, V, strict=True)], weights=shares(V))
    assert found.values == pytest.approx(covariance @ design.T @ whole @ values.ravel())
    assert found.covariance == pytest.approx(covariance)
    assert found.privacy == pytest.approx(covariance / 4)
    assert shares(V).sum(axis=0) == pytest.approx(np.eye(2))


@pytest.mark.parametrize("k", [1, 2, 20])
def test_equal_sites_have_equal_weights_and_their_variance_falls_with_their_number(k):
    V = np.tile(covariances(1, 3)[0], (k, 1, 1))
    assert shares(V) == pytest.approx(np.tile(np.eye(3) / k, (k, 1, 1)), abs=1e-12)
    found = combined([part(np.zeros(3), each) for each in V], weights=shares(V))
    assert found.covariance == pytest.approx(V[0] / k)  # the square root of k in standard errors


def test_a_combination_of_combinations_is_that_of_all():
    V, values = covariances(5, 2), np.random.default_rng(2).normal(size=(5, 2))
    parts = [part(x, each) for x, each in zip(values, V, strict=True)]
    flat = combined(parts, weights=shares(V))
    groups = [combined(parts[:2], weights=shares(V[:2])), combined(parts[2:], weights=shares(V[2:]))]
    nested = combined(groups, weights=shares(np.array([each.covariance for each in groups])))
    assert nested.values == pytest.approx(flat.values)
    assert nested.covariance == pytest.approx(flat.covariance)


def test_heterogeneity_of_published_trials_is_what_other_software_finds():
    """R's metafor on the same table (Viechtbauer, R code for Borenstein et al. 2009), with "DL", and with "PM"."""
    values, variances = log_risk_ratios()
    assert scatter(values, variances)[0] == pytest.approx(152.2330, abs=1e-4)
    laird = between_variances([values], [variances], method="dersimonian_laird")[0]
    assert laird == pytest.approx(0.3088, abs=1e-4)
    assert between_variances([values], [variances], method="paule_mandel")[0] == pytest.approx(0.3181, abs=1e-4)
    weights = 1 / (variances + laird)
    assert (weights * values).sum() / weights.sum() == pytest.approx(-0.7141, abs=1e-4)
    assert np.sqrt(1 / weights.sum()) == pytest.approx(0.1787, abs=1e-4)


def test_the_interval_from_the_spread_of_published_trials_is_what_other_software_finds():
    """The same with test = "knha": standard error 0.1807, from -1.1078 to -0.3204."""
    values, variances = log_risk_ratios()
    weights = 1 / (variances + 0.3088)
    error = np.sqrt(spread_variance(values, weights))
    assert error[0] == pytest.approx(0.1807, abs=1e-4)
    mean, half = (weights * values).sum() / weights.sum(), student(error, degrees=12).half_width(0.95)[0]
    assert [mean - half, mean + half] == pytest.approx([-1.1078, -0.3204], abs=1e-4)


def test_with_equal_weights_the_interval_from_the_spread_is_the_one_sample_t_interval():
    values = log_risk_ratios()[0]
    square = spread_variance(values, np.full((13, 1), 0.3))
    half = student(np.sqrt(square), degrees=12).half_width(0.95)[0]
    limits = stats.ttest_1samp(values[:, 0], 0.0).confidence_interval(0.95)
    assert [values.mean() - half, values.mean() + half] == pytest.approx(list(limits), rel=1e-3)


@pytest.mark.parametrize("method", BETWEEN)
def test_groups_that_share_a_variance_add_up_what_they_tell(method):
    """Shifting a whole group changes nothing; a pooled estimate lies between those of the groups."""
    rng = np.random.default_rng(3)
    variances = [rng.uniform(0.5, 2, (k, 2)) for k in (4, 7)]
    values = [rng.normal(0, scale, each.shape) for scale, each in zip((2.0, 4.0), variances, strict=True)]
    both = between_variances(values, variances, method=method)
    shifted = between_variances([values[0] + 100, values[1]], variances, method=method)
    assert shifted == pytest.approx(both)
    alone = [between_variances([v], [s], method=method) for v, s in zip(values, variances, strict=True)]
    assert (np.minimum(*alone) <= both).all()
    assert (both <= np.maximum(*alone)).all()
    assert between_variances([np.zeros((3, 1))], [np.ones((3, 1))], method=method) == 0


@pytest.mark.parametrize("method", BETWEEN)
def test_the_variance_between_sites_is_found_on_average(method):
    rng = np.random.default_rng(4)
    variances = rng.uniform(0.2, 3, (30, 1))
    drawn = rng.normal(0, np.sqrt(variances + 1.5), (400, 30, 1))
    found = [between_variances([values], [variances], method=method)[0] for values in drawn]
    assert np.mean(found) == pytest.approx(1.5, abs=4 * np.std(found) / 20)


@pytest.mark.parametrize("k", [3, 5, 12])
def test_intervals_from_the_spread_cover_whatever_the_factor_of_the_variances(k):
    """Would fail for the normal distribution, for k degrees of freedom, and for weights that s^2 leaves out."""
    rng = np.random.default_rng(k)
    variances = np.linspace(0.2, 5, k)[:, None]
    weights = 1 / (7 * variances)  # variances are known up to a factor only
    values = rng.normal(0, np.sqrt(variances), (4000, k, 1))
    means = np.einsum("bkp,kp->b", values, weights) / weights.sum()
    half = stats.t.ppf(0.975, k - 1) * np.sqrt([spread_variance(each, weights)[0] for each in values])
    assert np.mean(np.abs(means) <= half) == pytest.approx(0.95, abs=0.012)


def test_the_distribution_from_the_spread_is_students():
    found = from_spread(
        part([1.0, 2.0], np.diag([1.0, 4.0])), np.array([9.0, 1.0]), label="x", terms=("a", "b"), degrees=3
    )
    assert found.bse.to_numpy() == pytest.approx([3.0, 1.0])
    assert (found.conf_int(0.05)[1] - found.params).to_numpy() == pytest.approx(
        stats.t.ppf(0.975, 3) * found.bse, rel=1e-3
    )
    assert found.pvalues["b"] == pytest.approx(2 * stats.t.sf(2.0, 3), rel=1e-2)
    assert found.cov_privacy.to_numpy() == pytest.approx(np.diag([9.0, 1.0]) / 4)


def test_errors_are_drawn_with_the_quantiles_and_the_correlations_of_an_estimate():
    rng = np.random.default_rng(5)
    heavy = rng.laplace(size=(200_000, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    estimate = Estimate(
        label="x", terms=("a", "b"), values=np.zeros(2), sampling=0.0 * np.eye(2), privacy=np.cov(heavy.T),
        distribution=ErrorDistribution.of_draws(heavy),
    )  # fmt: skip
    errors = part_of(estimate, draws.generator("ab")).errors
    for level in (0.5, 0.9, 0.99):
        assert np.quantile(np.abs(errors), level, axis=0) == pytest.approx(
            estimate.distribution.half_width(level), rel=0.08
        )
    assert np.corrcoef(errors.T)[0, 1] == pytest.approx(np.corrcoef(heavy.T)[0, 1], abs=0.04)


def test_sites_that_differ_carry_their_difference_into_the_distribution():
    rng = draws.generator("cd")
    apart = part([0.0], [[1.0]], errors=draws.normal(rng, np.eye(1), 20_000)).apart(np.array([3.0]), rng)
    assert apart.covariance == pytest.approx(np.array([[4.0]]))
    assert apart.errors.std() == pytest.approx(2.0, rel=0.03)
