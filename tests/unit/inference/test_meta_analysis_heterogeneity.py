"""Cochran's Q: by hand, against the chi-square distribution, with heavy tails and with errors that sites share."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from hdpstats.inference.meta_analysis import heterogeneity
from hdpstats.records.estimate import CochranQ
from tests.unit.inference.several import part, read
from tests.unit.inference.sides import BETA, public_side

VARIANCES = [np.diag([1.0, 4.0]), np.diag([2.0, 1.0]), np.diag([2.0, 4.0])]


def normal_errors(rng, count=20_000):
    return np.array([rng.standard_normal((count, 2)) * np.sqrt(np.diag(V)) for V in VARIANCES])


def test_the_statistic_by_hand():
    b = np.array([[0.0, 3.0], [2.0, 0.0], [2.0, 0.0]])
    found = heterogeneity(b, VARIANCES, normal_errors(np.random.default_rng(1)), T=np.eye(2))
    # First term: weights 1, 1/2, 1/2 about 1: 1 + 1/2 + 1/2. Second: weights 1/4, 1, 1/4 about 1/2: 25/16 + 1/4 + 1/16.
    assert [each.statistic for each in found.by_term] == pytest.approx([2.0, 1.875])
    assert [each.df for each in found.by_term] == [2, 2]
    assert found.overall.statistic == pytest.approx(3.875)
    assert found.overall.df == 4


def test_with_normal_errors_p_values_are_those_of_chi_square():
    rng = np.random.default_rng(2)
    for size in (0.5, 1.0, 2.0):
        b = size * np.array([[0.0, 3.0], [2.0, 0.0], [2.0, 0.0]])
        found = heterogeneity(b, VARIANCES, normal_errors(rng, 100_000), T=np.eye(2))
        for each in (found.overall, *found.by_term):
            assert each.pvalue == pytest.approx(chi2.sf(each.statistic, each.df), rel=0.1, abs=0.003)


def test_the_overall_statistic_is_the_same_in_all_coordinates():
    rng = np.random.default_rng(3)
    b, errors, T = rng.standard_normal((3, 2)), normal_errors(rng, 500), np.array([[1.0, -2.0], [0.0, 3.0]])
    there = [T @ V @ T.T for V in VARIANCES]
    one, two = (heterogeneity(b, VARIANCES, errors, T=T), heterogeneity(b @ T.T, there, errors @ T.T, T=np.eye(2)))
    assert one.overall.statistic == pytest.approx(two.overall.statistic)
    assert [each.statistic for each in one.by_term] == pytest.approx([each.statistic for each in two.by_term])
    assert one.overall.pvalue == two.overall.pvalue


def test_errors_that_all_sites_share_are_no_heterogeneity():
    rng = np.random.default_rng(4)
    b, own, common = rng.standard_normal((3, 2)), normal_errors(rng, 2000), 10.0 * rng.standard_normal((1, 2000, 2))
    one, two = (heterogeneity(b, VARIANCES, errors, T=np.eye(2)) for errors in (own, own + common))
    assert one.overall.pvalue == pytest.approx(two.overall.pvalue, abs=1e-9)


def test_heavy_tails_make_a_large_statistic_less_surprising():
    rng = np.random.default_rng(5)
    b = np.array([[5.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    tails = rng.standard_t(3, size=(3, 20_000, 2)) * np.sqrt([np.diag(V) / 3.0 for V in VARIANCES])[:, None, :]
    heavy, light = (heterogeneity(b, VARIANCES, e, T=np.eye(2)).overall for e in (tails, normal_errors(rng)))
    assert heavy.statistic == light.statistic
    assert heavy.pvalue > 2.0 * light.pvalue


def test_p_values_are_never_zero_and_i2_is_a_share():
    b = 1e3 * np.array([[0.0, 3.0], [2.0, 0.0], [2.0, 0.0]])
    found = heterogeneity(b, VARIANCES, normal_errors(np.random.default_rng(6), 999), T=np.eye(2))
    assert found.overall.pvalue == 1e-3
    assert 0.99 < found.overall.i2 < 1.0
    assert CochranQ(statistic=8.0, df=4, pvalue=0.1).i2 == 0.5
    assert CochranQ(statistic=3.0, df=4, pvalue=0.6).i2 == 0.0
    assert CochranQ(statistic=0.0, df=4, pvalue=1.0).i2 == 0.0


@pytest.mark.wide
def test_p_values_of_sites_that_agree_are_uniform():
    # Releases drawn from the very distribution that inference takes: curvature as on the public rows, K-norm noise.
    public, rng = public_side(), np.random.default_rng(7)
    sites = [part(public, BETA, rate=rate, records=n) for rate, n in ((0.05, 500), (0.2, 1000), (0.1, 2000))]
    found = [read(*(_released(site, rng) for site in sites)).heterogeneity for _ in range(24)]
    assert kstest([each.overall.pvalue for each in found], "uniform").pvalue > 1e-3
    assert kstest([each.by_term[1].pvalue for each in found], "uniform").pvalue > 1e-3


def test_sites_that_differ_are_told():
    public = public_side()
    agree = read(*[part(public, BETA, rate=5.0)] * 3).heterogeneity
    differ = read(
        *(part(public, BETA + np.array([0.0, shift, 0.0]), rate=5.0) for shift in (-0.5, 0.0, 0.5))
    ).heterogeneity
    assert agree.overall.pvalue == 1.0
    assert differ.overall.pvalue < 0.001
    assert differ.overall.i2 > 0.5


def _released(site, rng):
    """Return the site's part with coefficients drawn around BETA as the sandwich has it."""
    at, ridge = site.public.moments(BETA, records=site.records), site.ridge * np.eye(3)
    score = rng.multivariate_normal(np.zeros(3), at.J)
    noise = site.noise.draw(rng, at.H[None])[0]
    theta = BETA - np.linalg.solve(at.H + ridge, score + noise + site.ridge * (BETA - site.centre))
    return part(site.public, theta, rate=site.noise.distribution.rate, records=site.records, ridge=site.ridge)
