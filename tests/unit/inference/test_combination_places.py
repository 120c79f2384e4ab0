"""Where curvature is evaluated: over points that stand for where the truth may be."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.inference.combination import PLACES, WEAK, InformedPoint, combine_points, likely
from hdpstats.inference.information import PublicInformation
from hdpstats.inference.pooling import SCALE, pool
from hdpstats.inference.sandwich import (
    MOST,
    MOST_OF_LEVEL,
    few_persons,
    not_clearly_small,
    not_estimable,
    public_shares,
    two_values,
)
from hdpstats.records.geometry import from_public, whiten
from tests.unit.inference.several import part, read
from tests.unit.inference.sides import BETA, public_side


def test_points_are_symmetric_and_as_far_as_the_posterior_goes():
    fit, V = public_side().fit, np.diag([0.04, 0.09, 0.01])
    points = likely(V, fit)
    assert points.shape == (PLACES, 3)
    assert points[PLACES // 2 :] == pytest.approx(-points[: PLACES // 2])
    prior, public = np.eye(3) / WEAK**2, np.linalg.inv(fit.error + SCALE**2 * np.eye(3))
    precision = np.linalg.inv(V) + public + prior
    standard = points @ np.linalg.cholesky(precision)
    assert np.trace(standard.T @ standard) / PLACES == pytest.approx(3.0)


def test_a_weak_prior_bounds_points_where_nothing_is_known():
    fit = public_side().fit
    nothing = replace(fit, covariance=1e6 * np.eye(3))
    points = likely(1e6 * np.eye(3), nothing)
    assert np.mean(points**2, axis=0) == pytest.approx(np.full(3, WEAK**2), rel=1e-4)
    assert np.abs(likely(1e-8 * np.eye(3), fit)).max() < 1e-3


def little_known(*, apart=0.0):
    public = public_side()
    public = replace(public, fit=replace(public.fit, covariance=4.0 * np.eye(3)))
    point = part(public, BETA + apart * np.array([1.0, 1.0, -1.0]), records=40, ridge=5.0)
    return InformedPoint(part=point, information=PublicInformation(public=public, records=40)), public.fit


def test_moments_are_the_mean_over_the_points_and_no_estimate_is_shrunk_by_the_prior():
    site, fit = little_known()
    found = combine_points([site], fit)
    assert len(found.places) == PLACES
    assert np.mean(found.places, axis=0) == pytest.approx(found.pooling.point)
    over = np.mean([site.information.at(place).H for place in found.places], axis=0)
    assert np.abs(found.at[0].H - over).max() < 0.02
    alone = site.information.at(found.pooling.point).H
    assert np.all(np.diag(found.at[0].H) < 0.9 * np.diag(alone))
    way = np.mean([site.information.at(at).H for each in found.places for at in site.between(each)], axis=0)
    assert np.abs(found.secants[0] - way).max() < 0.02
    assert found.unshrunk[0] == pytest.approx(site.part.unshrunk(found.secants[0]))


def test_steps_do_not_go_to_and_fro():
    # Much curvature leads to a far point here, at which there is a third of it, and that one back.
    public = public_side()
    point = part(public, BETA + np.array([2.0, 2.0, -2.0]), records=60, ridge=5.0)
    site = InformedPoint(part=point, information=PublicInformation(public=public, records=60))
    found = combine_points([site], public.fit)
    there = np.trace(site.information.at(found.pooling.point).H)
    assert np.trace(found.at[0].H) > 0.7 * there


def test_much_information_leaves_the_curvature_of_the_estimate():
    public = public_side()
    point = part(public, BETA, records=200_000, rate=5.0, ridge=200.0)
    site = InformedPoint(part=point, information=PublicInformation(public=public, records=200_000))
    found = combine_points([site], public.fit)
    alone = site.information.at(found.pooling.point).H
    assert np.abs(found.at[0].H - alone).max() < 0.001 * np.trace(alone)


def test_slopes_of_less_information_than_a_few_persons_are_named():
    public = public_side()
    T = public.geometry.to_raw()
    length = np.linalg.norm(T, axis=1)
    errors = MOST * length * np.array([9.0, 1.01, 0.99])
    assert not_estimable(errors, public, T=T).tolist() == [False, True, False]
    found = read(part(public, BETA, records=10, ridge=400.0, rate=0.02))
    assert np.isnan(found.private_only.values[1:]).all()
    assert not np.isnan(found.private_only.values[0])
    assert "Not estimable: a, b." in found.private_only.note
    assert not np.isnan(found.pooled.values).any()
    assert "Not estimable" not in found.pooled.note
    enough = read(part(public, BETA, records=3000))
    assert not np.isnan(enough.private_only.values).any()


def with_levels(share, *, stretch=1.0, n=500):
    """Return public rows of a continuous column and an indicator of a level, and ``T`` of an outcome's unit."""
    rng = np.random.default_rng(5)
    level = np.arange(n) < round(share * n)
    X = np.column_stack([np.ones(n), rng.standard_normal(n), level.astype(float)])
    geometry = from_public(X, lower=[-4.0, 0.0], upper=[4.0, 1.0], intercept=True, radius=3.0)
    rows = whiten(geometry, X).X
    side = replace(public_side(), geometry=geometry, X=rows, mallows=np.ones(n), weights=np.ones(n), offset=np.zeros(n))
    return side, stretch * geometry.to_raw()


@pytest.mark.parametrize("stretch", [1.0, 7.0])
def test_a_rare_level_is_estimable_if_it_tells_what_one_person_with_it_does(stretch):
    public, T = with_levels(0.02, stretch=stretch)
    assert two_values(public, T=T) == pytest.approx([np.nan, np.nan, 1.0 / stretch], nan_ok=True)
    length = np.linalg.norm(T, axis=1)
    assert MOST * length[2] > 2.0 * MOST_OF_LEVEL * stretch  # the limit of average persons is that of 0.14 with it
    for rule, below in ((not_estimable, 1.0), (not_clearly_small, 0.3)):
        for factor, named in ((1.01, True), (0.99, False)):
            errors = factor * np.array([9.0, below * MOST * length[1], MOST_OF_LEVEL * stretch])
            assert rule(errors, public, T=T).tolist() == [False, named, named]
    common, T = with_levels(0.4)
    length = np.linalg.norm(T, axis=1)
    assert not_estimable(0.99 * MOST * length, common, T=T).tolist() == [False] * 3
    assert not_estimable(1.01 * MOST * length, common, T=T).tolist() == [False, True, True]


def test_coefficients_without_private_estimate_are_not_compared():
    found = read(part(public_side(), BETA, records=10, ridge=400.0, rate=0.02))
    assert np.isnan(found.private_only.values).tolist() == [False, True, True]
    assert found.disagreement.overall.df == 1
    own, *others = found.disagreement.by_term
    assert own.statistic == pytest.approx(found.disagreement.overall.statistic)
    assert own.pvalue == pytest.approx(found.disagreement.overall.pvalue)
    assert np.isnan([each.pvalue for each in others]).all()
    assert read(part(public_side(), BETA, records=3000)).disagreement.overall.df == 3


@pytest.mark.parametrize(("records", "named"), [(60, True), (400, False)])
def test_whether_a_slope_is_named_does_not_depend_on_noise(records, named):
    public = public_side()
    near, far = (
        read(part(public, BETA + shift * np.array([1.0, 1.0, -1.0]), records=records, ridge=20.0, rate=0.3))
        for shift in (0.0, 3.0)
    )
    for each in (near, far):
        assert np.isnan(each.private_only.bse).tolist() == [False, named, named]
        assert not np.isnan(each.pooled.bse).any()
    assert named or np.all(far.private_only.bse > 10.0 * near.private_only.bse)


def test_slopes_whose_errors_are_clearly_small_are_kept_where_public_coefficients_are_far():
    public, here = public_side(), BETA - 7.0 * np.eye(3)[0]
    rare = replace(public, fit=replace(public.fit, theta=here, covariance=0.01 * np.eye(3)))
    released = part(rare, BETA, records=3000, ridge=1.0, rate=1.0)
    expected = PublicInformation(public=rare, records=3000)
    alone, _ = few_persons([InformedPoint(part=released, information=expected)], rare, T=rare.geometry.to_raw())
    assert alone.tolist() == [False, True, True]
    found = read(released).private_only
    assert np.all(found.bse < 0.1)
    assert "Not estimable" not in found.note


def test_the_summary_says_what_pooling_takes_from_the_public_fit():
    little = read(part(public_side(), BETA + 0.2, records=100, ridge=10.0))
    assert little.public_shares.shape == (3,)
    assert np.all((little.public_shares > 0.1) & (little.public_shares < 1.0))
    order = [little.pooled.terms[j] for j in np.argsort(-little.public_shares)]
    shares = sorted((f"{share:.0%}" for share in little.public_shares), key=lambda text: -int(text[:-1]))
    named = ", ".join(f"{term} {share}" for term, share in zip(order, shares, strict=True))
    assert (
        little.share_words
        == f"Pooled coefficients have these shares of their information from the public fit: {named}."
    )
    much = read(part(public_side(), BETA + 0.2, records=100_000, rate=5.0))
    assert much.public_shares.max() < 0.1
    assert much.share_words is None
    assert read(part(None, BETA)).share_words is None


def test_a_share_of_the_public_fit_is_one():
    fit = replace(public_side().fit, covariance=np.diag([0.1, 0.2, 0.3]), parts=())
    difference = np.array([0.5, -0.4, 0.3])
    alone = pool(fit.theta + difference, np.diag([0.4, 0.04, 1.0]), fit)
    assert public_shares(alone, np.eye(3)) == pytest.approx(1.0 - np.diag(alone.weight))
    V = np.array([[100.1, 10.0, 0.0], [10.0, 1.1, 0.0], [0.0, 0.0, 1.0]])
    other = np.array([[25.1, 5.0, 0.0], [5.0, 1.1, 0.0], [0.0, 0.0, 1.0]])
    together = pool(fit.theta + difference, V, replace(fit, covariance=other, unit=0.01))
    diagonal = np.diag(np.eye(3) - together.weight)
    assert diagonal.max() > 1.2  # it is no share
    assert diagonal.min() < -0.1
    shares = public_shares(together, np.eye(3))
    assert np.all((shares > 0.0) & (shares < 1.0))
    scaled = np.diag([100.0, 0.01, -3.0])
    assert public_shares(together, scaled) == pytest.approx(shares)
    mixed = np.array([[1.0, 0.0, 0.0], [5.0, 2.0, -1.0], [0.3, 0.0, 1.0]])  # the first coefficient, others recoded
    assert public_shares(together, mixed)[0] == pytest.approx(shares[0])


def test_a_coefficient_that_is_not_reported_has_no_share_in_words():
    found = read(part(public_side(), BETA + 0.2, records=100, ridge=10.0))
    without = found.without(np.array([False, True, False]), words="Left out: {names}.")
    assert f"{found.pooled.terms[1]} " in found.share_words
    assert f"{found.pooled.terms[1]} " not in without.share_words
