"""Pooling with the public fit: the scales' distribution, one coefficient that differs, what a fit would report."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.families.regression.public import likelihood_fit
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.inference import draws
from hdpstats.inference.pooling import (
    DEGREES,
    SCALE,
    Scales,
    disagreement,
    expected_covariance,
    pool,
    pooled_point,
    positive_part,
)
from hdpstats.losses import LogisticLoss
from hdpstats.public.moments import Penalty, PublicFit, coefficient_parts, each_column
from hdpstats.public.row_weights import Allowance
from hdpstats.records.geometry import from_public


def fit_of(covariance, **changes):
    D = len(covariance)
    return PublicFit(theta=np.zeros(D), covariance=covariance, information=np.linalg.inv(covariance), **changes)


def student(x, scale):
    return (1.0 + x**2 / (DEGREES * scale**2)) ** (-(DEGREES + 1.0) / 2.0) / scale


@pytest.mark.parametrize("difference", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("unit", [1.0, 0.5])
def test_one_coefficient_has_the_posterior_of_its_model(difference, unit):
    # The difference's own distribution is Student's at a half-Student scale: integrated on a grid.
    private, public = 0.15**2, 0.1**2
    scales, deltas = np.geomspace(1e-3, 20.0, 400)[:, None], np.linspace(-3.0, 3.0, 4001)[None, :]
    prior = np.sum(student(scales, SCALE * unit) * scales * student(deltas, scales), axis=0)
    weight = prior * np.exp(-0.5 * (difference - deltas[0]) ** 2 / (private + public))
    weight /= weight.sum()
    # Given delta, private coefficients are known from both sources, the public one moved by delta.
    own = public / (private + public)
    means = own * difference + (1.0 - own) * deltas[0]
    mean = float(weight @ means)
    variance = float(weight @ (means - mean) ** 2) + private * own
    found = pool(np.array([difference]), np.array([[private]]), fit_of(np.array([[public]]), unit=unit))
    assert found.point[0] == pytest.approx(mean, abs=0.01)
    assert found.covariance[0, 0] == pytest.approx(variance, rel=0.08)


def test_one_coefficient_that_differs_costs_the_others_little():
    private, public = 0.05**2 * np.eye(8), 0.05**2 * np.eye(8)
    alike, apart = np.zeros(8), np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    whole, found = (pool(each, private, fit_of(public)) for each in (alike, apart))
    assert found.point[0] == pytest.approx(1.0, abs=0.02)
    assert np.diag(found.weight)[1:].max() < 0.85  # 0.5 where the others are known to be alike, 0.97 with one scale
    assert np.sqrt(np.diag(found.covariance)[1:]).max() < 1.3 * np.sqrt(np.diag(whole.covariance)).min()
    assert np.sqrt(np.diag(whole.covariance)).max() < 1.15 * 0.05 / 2.0**0.5


def test_where_all_differ_the_private_estimate_is_kept():
    private, public = 0.05**2 * np.eye(6), 0.05**2 * np.eye(6)
    found = pool(2.0 * np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]), private, fit_of(public))
    assert np.diag(found.weight).min() > 0.98


def test_estimates_do_not_depend_on_coordinates():
    rng = np.random.default_rng(0)
    turn, root = np.linalg.qr(rng.standard_normal((4, 4)))[0], rng.standard_normal((4, 4))
    parts = each_column(rng.standard_normal((4, 4)))
    private, public, u = 0.01 * root @ root.T + 0.01 * np.eye(4), 0.01 * np.eye(4), rng.standard_normal(4)
    found = pool(u, private, fit_of(public, parts=parts))
    turned = fit_of(turn @ public @ turn.T, parts=tuple(turn @ part for part in parts))
    other = pool(turn @ u, turn @ private @ turn.T, turned)
    assert turn.T @ other.point == pytest.approx(found.point, abs=1e-8)
    assert turn.T @ other.covariance @ turn == pytest.approx(found.covariance, abs=1e-8)


def test_directions_of_a_part_have_one_scale():
    rng = np.random.default_rng(1)
    root, u = rng.standard_normal((3, 3)), rng.standard_normal(3)
    private = 0.02 * root @ root.T + 0.01 * np.eye(3)
    found = pool(u, private, fit_of(0.01 * np.eye(3), parts=(np.eye(3)[:, :1], np.eye(3)[:, 1:])))
    squares = np.einsum("bij,bij->bi", found.scales.roots, found.scales.roots)
    assert squares[:, 1] == pytest.approx(squares[:, 2])
    assert np.ptp(squares[:, 0] / squares[:, 1]) > 1.0


def test_parts_are_the_coefficients_of_the_design():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 3)) @ np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.1]]) + 5.0
    geometry = from_public(
        np.column_stack([np.ones(300), X]), lower=[-9.0] * 3, upper=[19.0] * 3, intercept=True, radius=1.0
    )
    changes = geometry.to_raw() @ coefficient_parts(geometry)
    assert changes[1:, 1:] == pytest.approx(np.diag(np.diag(changes[1:, 1:])), abs=1e-9)
    assert np.diag(changes)[1:] * X.std(axis=0) == pytest.approx(np.ones(3), rel=0.1)
    # the predictor of the average row changes with the intercept alone
    assert np.array([1.0, *geometry.location]) @ changes == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-9)
    one, two = coefficient_parts(geometry), coefficient_parts(geometry, levels=2)
    assert np.array_equal(two[4:, 4:8], one)
    assert not two[:4, 4:8].any()
    assert np.array_equal(two[:, 8:], -np.vstack([one, one]))  # the reference


def test_drawn_errors_have_the_covariance_that_is_reported():
    rng = np.random.default_rng(3)
    root = rng.standard_normal((3, 3))
    private = 0.02 * root @ root.T + 0.01 * np.eye(3)
    found = pool(rng.standard_normal(3), private, fit_of(0.02 * np.eye(3)))
    own, count = draws.generator("ab" * 32), 400 * len(found.weights)
    errors = found.errors(draws.normal(own, private, count), found.apart(own, count))
    assert np.cov(errors.T) == pytest.approx(found.covariance, rel=0.05, abs=5e-4)
    truth = found.truth(own, count)
    assert np.cov(truth.T) == pytest.approx(found.covariance, rel=0.05, abs=5e-4)
    assert found.moved.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)


def test_what_is_predicted_is_reported_where_people_are_alike():
    rng = np.random.default_rng(4)
    root = rng.standard_normal((4, 4))
    private, fit = 0.01 * root @ root.T + 0.01 * np.eye(4), fit_of(0.02 * np.eye(4))
    differences = rng.multivariate_normal(np.zeros(4), private + fit.covariance, 60)
    reported = np.mean([np.diag(pool(each, private, fit).covariance) for each in differences], axis=0)
    assert np.diag(expected_covariance(private, fit)) == pytest.approx(reported, rel=0.08)
    # more than where people are known to be alike, less than either source alone
    least = np.linalg.inv(np.linalg.inv(private) + np.linalg.inv(fit.covariance))
    assert np.all(np.diag(expected_covariance(private, fit)) > np.diag(least))


def test_weights_move_estimates_towards_the_public_fit_along_each_direction():
    rng = np.random.default_rng(6)
    root = rng.standard_normal((3, 3))
    scales = Scales(directions=rng.standard_normal((3, 3)), squares=rng.uniform(0.5, 2.0, (40, 3)))
    covariance, toward = root @ root.T, np.mean(scales.roots, axis=0)
    found = scales.towards(covariance)
    assert found @ found.T == pytest.approx(covariance)
    for _ in range(50):  # no other root goes with the differences as far
        turned = found @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
        assert np.trace(found @ toward.T) >= np.trace(turned @ toward.T)
    along = Scales(directions=np.diag([1.0, 2.0]), squares=np.ones((1, 2)))
    assert along.towards(np.diag([4.0, 9.0])) == pytest.approx(np.diag([2.0, 3.0]))
    assert along.towards(np.zeros((2, 2))) == pytest.approx(np.zeros((2, 2)))


def test_errors_of_a_common_cause_have_the_covariance_that_is_added():
    rng = np.random.default_rng(7)
    root = rng.standard_normal((3, 3))
    weighing = 0.03 * np.eye(3)
    private = 0.02 * root @ root.T + 0.01 * np.eye(3) + weighing
    found = pool(rng.standard_normal(3), private, fit_of(0.02 * np.eye(3)))
    own, count = draws.generator("ab" * 32), 800 * len(found.weights)
    apart, along = found.apart_along(own, count)
    L = found.scales.towards(weighing)
    error = draws.normal(own, private - weighing, count) - along @ L.T
    assert np.cov(error.T) == pytest.approx(private, rel=0.05, abs=1e-3)
    rest = np.swapaxes(np.eye(3) - found.weights, 1, 2)
    added = positive_part(np.mean(found.weights @ L @ np.swapaxes(found.scales.roots, 1, 2) @ rest, axis=0))
    assert np.trace(added) > 0.1 * np.trace(found.covariance)
    assert np.cov(found.errors(error, apart).T) == pytest.approx(found.covariance + added, rel=0.05, abs=1e-3)


def test_what_errors_have_in_common_never_makes_a_standard_error_smaller():
    assert positive_part(np.diag([1.0, -1.0])) == pytest.approx(np.diag([2.0, 0.0]))
    one_way = np.array([[0.0, 2.0], [0.0, 0.0]])  # along (1, 1) it adds, along (1, -1) it takes
    assert positive_part(one_way) == pytest.approx(np.ones((2, 2)))


def test_plans_count_what_errors_have_in_common():
    private, fit = 0.02 * np.eye(3), fit_of(0.02 * np.eye(3))
    alone = expected_covariance(private, fit)
    weights = Allowance(share=0.1, covariance=0.01 * np.eye(3))
    assert np.array_equal(expected_covariance(private, fit, weights=weights), alone)
    rng = np.random.default_rng(8)
    root, turn = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    uneven = Allowance(share=0.1, covariance=0.01 * turn @ turn.T, unlike=0.7)
    own = 0.02 * root @ root.T + 0.01 * np.eye(3) + uneven.covariance
    reported = np.zeros((3, 3))
    for each in rng.multivariate_normal(np.zeros(3), own + fit.covariance, 200):
        found = pool(each, own, fit)
        L, rest = uneven.unlike * found.scales.towards(uneven.covariance), np.eye(3) - found.weights
        cross = found.weights @ L @ np.swapaxes(found.scales.roots, 1, 2) @ np.swapaxes(rest, 1, 2)
        reported += positive_part(np.mean(cross, axis=0)) / 200
    more = expected_covariance(own, fit, weights=uneven) - expected_covariance(own, fit)
    assert np.linalg.norm(more - reported) < 0.15 * np.linalg.norm(reported)
    half, whole = (
        np.trace(expected_covariance(private, fit, weights=replace(weights, unlike=unlike)) - alone)
        for unlike in (0.5, 1.0)
    )
    assert half == pytest.approx(0.5 * whole)
    # at most twice the covariance of an error of .1 with a share K and a rest of which all is known
    assert 0.0 < whole < 2.0 * 3 * 0.1 * 0.5 * np.sqrt(np.trace(alone) / 3)


@pytest.mark.wide
@pytest.mark.parametrize("shape", ["round", "long", "turning"])
def test_less_is_predicted_the_more_private_people_say(shape):
    """Fails where eigenvectors that change places or signs move nodes, or one large draw makes most of an integral.

    The private estimate errs from 300 times as much as the public one to a tenth.
    """
    rng = np.random.default_rng(8)
    root = rng.standard_normal((4, 4))
    fit = fit_of(0.02 * np.diag([1.0, 1.1, 1.2, 2.0]))
    wide = root @ root.T
    form = {"round": np.eye(4), "long": wide, "turning": np.diag([1.0, 1.0, 1.0, 1.05]) + 0.01 * wide}[shape]
    scales = 0.02 * np.geomspace(300.0, 0.1, 150) ** 2
    found = np.array([np.sqrt(np.diag(expected_covariance(each * form, fit))) for each in scales])
    assert np.max(found / np.minimum.accumulate(found, axis=0)) < 1.005
    assert np.max(found[:-1] / found[1:]) < 1.1


def test_where_private_people_say_nothing_the_scales_beforehand_are_predicted():
    """The square of a scale is ``4 a^2`` on average, a fifth of it in large ones, which the nodes do not reach."""
    found = np.diag(expected_covariance(1e6 * np.eye(3), fit_of(0.02 * np.eye(3))))
    assert np.all(found > 0.8 * (0.02 + 4.0 * SCALE**2))
    assert np.all(found < 0.02 + 4.0 * SCALE**2)


def test_the_point_alone_is_that_of_pooling():
    rng = np.random.default_rng(6)
    root = rng.standard_normal((3, 3))
    private, fit, u = 0.02 * root @ root.T, fit_of(np.diag([0.1, 0.2, 0.05])), rng.standard_normal(3)
    assert pooled_point(u, private, fit) == pytest.approx(pool(u, private, fit).point, rel=1e-12)


def test_scales_that_were_drawn_before_are_kept():
    rng = np.random.default_rng(5)
    private, fit = 0.02 * np.eye(3), fit_of(0.02 * np.eye(3))
    first = pool(rng.standard_normal(3), private, fit)
    again = pool(first.point, 2.0 * private, fit, scales=first.scales)
    assert np.array_equal(again.scales.squares, first.scales.squares)
    assert np.diag(again.weight).max() < np.diag(first.weight).max()
    assert not np.array_equal(
        pool(first.point, private, replace(fit, theta=np.ones(3))).scales.squares, first.scales.squares
    )


def test_a_private_estimate_is_compared_as_the_prior_shrinks():
    # A prior that keeps half of each slope: a private estimate of twice the public one is no disagreement.
    rng, T = np.random.default_rng(6), np.array([[1.0, -1.0], [0.0, 2.0]])
    inverse = 0.01 * np.eye(2)
    penalty = Penalty.of(inverse, inverse=inverse, precision=50.0 * np.eye(2), centre=np.array([0.0, 1.0]), phi=1.0)
    assert penalty.sampling == pytest.approx(0.005 * np.eye(2))
    fit = replace(fit_of(inverse, penalty=penalty), theta=np.array([0.5, 0.7]))
    private = np.array([1.0, 0.4])
    found = pool(private, 0.01 * np.eye(2), fit)
    errors = 0.1 * rng.standard_normal((4000, 2))
    same = disagreement(private, errors, pooling=found, seeds=("ab" * 32,), T=T)
    assert same.overall.statistic == pytest.approx(0.0, abs=1e-12)
    assert same.overall.pvalue == 1.0
    # half of the private error and the public one: a difference of 0.5 in each is 0.25 after shrinking
    other = disagreement(private + 0.5, errors, pooling=found, seeds=("ab" * 32,), T=T)
    assert other.overall.statistic == pytest.approx(2 * 0.25**2 / (0.0025 + 0.005), rel=1e-4)
    assert other.overall.pvalue == pytest.approx(np.exp(-other.overall.statistic / 2.0), abs=3e-3)
    assert [each.df for each in other.by_term] == [1, 1]
    assert other.by_term[1].statistic == pytest.approx(0.5**2 / (4.0 * 0.0075), rel=1e-4)


def test_where_public_rows_tell_nothing_nothing_is_compared():
    # The second direction is the prior's alone: fit and shrunken estimate are its centre.
    inverse, ridge = np.diag([0.01, 4.0]), np.array([0.0, 0.25])
    penalty = Penalty.of(inverse, inverse=inverse, precision=np.diag(ridge), centre=np.zeros(2), phi=1.0)
    fit, private = fit_of(inverse, penalty=penalty), np.array([0.0, 30.0])
    errors = 0.1 * np.random.default_rng(7).standard_normal((1000, 2))
    found = disagreement(private, errors, pooling=pool(private, 0.01 * np.eye(2), fit), seeds=("ab" * 32,), T=np.eye(2))
    assert found.overall.statistic == pytest.approx(0.0, abs=1e-9)
    assert found.overall.pvalue > 0.99


def test_public_and_private_people_alike_are_seldom_called_different():
    # 60 public people and four slopes: without shrinking alike, 31 in 100 were.
    loss, small = LogisticLoss(), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = np.append(-0.5, 0.4 * rng.standard_normal(4))
        X = np.column_stack([np.ones(60), rng.standard_normal((60, 4))])
        y = (rng.uniform(size=60) < 1.0 / (1.0 + np.exp(-X @ truth))).astype(float)
        rows = RegressionRows.of(loss, X, y, weights=np.ones(60), offset=np.zeros(60))
        fit, exact = likelihood_fit(rows, rows, first=1, parts=np.eye(5)), 1e-12 * np.eye(5)
        found = disagreement(
            truth, np.zeros((1000, 5)), pooling=pool(truth, exact, fit), seeds=("ab" * 32,), T=np.eye(5)
        )
        small.append(found.overall.pvalue < 0.05)
    assert np.mean(small) < 0.12
