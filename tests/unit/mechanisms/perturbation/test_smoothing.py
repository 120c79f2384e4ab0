"""The ridge and the share of epsilon for smoothing that a query asks for."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.mechanisms.perturbation import ObjectiveQuery, OutputQuery
from hdpstats.mechanisms.perturbation.site import calibrate_objective, perturbation_of
from hdpstats.mechanisms.perturbation.smoothing import SHARES, ExpectedPeople, rounded_up, with_smoothing
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.gaussian import objective_delta
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.moments import Moments
from hdpstats.records.geometry import from_box
from hdpstats.records.model import RegressionModel

REPLACE = Relation.REPLACE_ONE
GEOMETRY = from_box([-1.0] * 2, [1.0] * 2, intercept=True)
FAR = 10**10
"""People of whom sums of doubles are far less exact than of any real data set."""


def first(**changes) -> ObjectiveQuery:
    fields = {
        "model": RegressionModel(formula="y ~ x", loss="logistic", geometry=GEOMETRY),
        "centre": (0.1, -0.2, 0.3),
        "ridge": Fraction(2.5 * GEOMETRY.leverage),
        "epsilon": Fraction(1),
        "schema_sha256": "",
        "public_sha256": None,
    }
    return ObjectiveQuery(**fields | changes)


def loss_of(query) -> RegressionPersonLoss:
    return RegressionPersonLoss(model=query.model, largest_weight=1.0, largest_offset=0.0)


def expected(records, *, missed=0.3, apart=1.0, moved=0.0) -> ExpectedPeople:
    H = records * (1.0 + moved) * np.array([[0.2, 0.02, 0.0], [0.02, 0.05, 0.01], [0.0, 0.01, 0.03]])
    return ExpectedPeople(moments=Moments(H=H, J=1.1 * H), missed=missed, apart=apart)


def settled(query, records, **options) -> ObjectiveQuery:
    return with_smoothing(query, loss_of(query), expected(records, **options), records=records, relation=REPLACE)


def error_of(query, records, *, missed=0.3, apart=1.0) -> float:
    """The mean error of eigenvectors that the rule speaks of, from the constants of a site."""
    try:
        constants = calibrate_objective(query, loss_of(query), records=records, relation=REPLACE)
    except MechanismError:
        return np.inf
    free = perturbation_of(first(), loss_of(query), relation=REPLACE)
    h, U = np.linalg.eigh(expected(records).moments.H)
    ridge, D = float(query.ridge), len(h)

    def inside(each):
        variance = NoiseDistribution(norm=loss_of(query).norm, dimension=D, rate=float(each.rate)).variance
        return np.diag(U.T @ np.diag(variance) @ U) / h**2

    length = float(constants.grid / constants.noise.rate)
    smoothing = (D + 1) * length**2 * ((h + ridge) / h) ** 2
    bias = (missed * apart * ridge / (ridge + h)) ** 2
    return float(np.mean((inside(constants.perturbation) + smoothing + bias) / (1.1 / h + inside(free))))


def test_the_least_error_is_chosen():
    """Among ridges of a factor of two and all shares none is clearly better: the grid is coarse, the minimum flat."""
    chosen = settled(first(), FAR)
    assert chosen.ridge > 16 * first().ridge
    assert chosen.smoothing_share is not None
    least = error_of(chosen, FAR)
    for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
        for share in SHARES:
            other = replace(
                chosen,
                ridge=rounded_up(chosen.ridge * Fraction(factor)),
                smoothing_share=None if share == SHARES[0] else share,
            )
            assert error_of(other, FAR) > least * (1.0 - 0.02)
    assert error_of(replace(first(), ridge=chosen.ridge), FAR) > least


def test_at_an_ordinary_number_of_people_the_first_ridge_and_the_least_share_are_taken():
    chosen = settled(first(), 10_000)
    assert chosen.smoothing_share is None
    assert first().ridge <= chosen.ridge <= first().ridge * (1 + Fraction(1, 2**18))


def test_machines_whose_floats_differ_ask_the_same_question():
    chosen = settled(first(), FAR)
    other = replace(first(), ridge=Fraction(float(first().ridge) * (1.0 + 2.0**-52)))
    assert settled(other, FAR, moved=1e-13) == chosen
    assert query_from_json(chosen.to_json()) == chosen


def test_what_is_not_unshrunk_is_pulled_less():
    assert settled(first(), FAR, missed=1.0).ridge < settled(first(), FAR, missed=0.1).ridge
    assert settled(first(), FAR, apart=10.0).ridge < settled(first(), FAR, apart=0.1).ridge


@pytest.mark.parametrize("share", [Fraction(9, 10), Fraction(1, 2)])
def test_a_hessian_keeps_its_part(share):
    chosen = settled(first(hessian_share=share, epsilon=Fraction(10)), FAR)
    constants = calibrate_objective(chosen, loss_of(chosen), records=FAR)
    assert chosen.for_smoothing <= (1 - share) / 2
    assert constants.events[2].epsilon == 10 * share


def test_a_delta_is_not_used_up():
    chosen = settled(first(delta=Fraction(1, 10**6), epsilon=Fraction(40), ridge=Fraction(1000)), FAR)
    assert chosen.epsilon * chosen.for_smoothing <= Fraction(1, 2)
    constants = calibrate_objective(chosen, loss_of(chosen), records=FAR)
    assert constants.events[0].ran is MechanismName.GAUSSIAN_OBJECTIVE


@pytest.mark.parametrize("share", [None, Fraction(1, 20), Fraction(1, 10)])
def test_the_noise_in_the_objective_keeps_a_delta_that_smoothing_multiplies(share):
    """Smoothing of ``e`` makes ``exp(e / 2)`` of a delta: the whole is what the query offers, and not much less."""
    query = first(delta=Fraction(1, 10**6), epsilon=Fraction(4), ridge=Fraction(1000), smoothing_share=share)
    one, smoothing = loss_of(query), float(query.epsilon * query.for_smoothing)
    delta = objective_delta(
        query.epsilon * query.for_objective,
        jacobian=one.jacobian(query.ridge),
        multiplier=2 * one.euclidean_bound / perturbation_of(query, one, relation=REPLACE).sd,
        rank=min(one.dimension, 2 * one.rank),
    )
    whole = float(delta / query.delta) * np.exp(smoothing / 2.0)
    assert 0.99 * np.exp(smoothing / 2.0) * (1.0 - smoothing) < whole <= 1.0


def test_a_share_that_takes_all_of_a_delta_is_refused():
    query = first(delta=Fraction(1, 10**6), epsilon=Fraction(20), ridge=Fraction(1000), smoothing_share=Fraction(1, 10))
    with pytest.raises(MechanismError, match="smoothing_share takes all of delta"):
        perturbation_of(query, loss_of(query), relation=REPLACE)


def test_where_no_ridge_is_enough_the_site_refuses():
    chosen = settled(first(), 10**30)
    assert (chosen.ridge, chosen.smoothing_share) == (rounded_up(first().ridge), None)
    with pytest.raises(MechanismError, match="larger ridge"):
        calibrate_objective(chosen, loss_of(chosen), records=10**30)


@pytest.mark.parametrize(
    "share", [Fraction(1, 1000), Fraction(0), Fraction(-1, 50), Fraction(1, 2000), Fraction(101, 1000), Fraction(1)]
)
def test_a_share_is_within_its_bounds_and_has_one_spelling(share):
    with pytest.raises(MechanismError, match="smoothing_share must be above 1/1000"):
        first(smoothing_share=share)


def test_a_share_leaves_something_and_something_is_smoothed():
    with pytest.raises(MechanismError, match="leave no epsilon"):
        first(smoothing_share=Fraction(1, 10), hessian_share=Fraction(9, 10))
    with pytest.raises(MechanismError, match="leave smoothing_share out"):
        first().asked_as(OutputQuery, smoothing_share=Fraction(1, 50))
    with pytest.raises(MechanismError, match="at most 30 digits"):
        first(smoothing_share=Fraction(10**30, 50 * 10**30 + 1))
