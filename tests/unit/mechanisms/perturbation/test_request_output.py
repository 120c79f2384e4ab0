"""The ridge of output perturbation and the choice between pure and normal noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.perturbation.request import choose_output, with_normal_noise
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.sensitivity import Relation
from tests.unit.mechanisms.perturbation.test_request import query_for, side

DELTA = Fraction(1, 10**6)
LOOSE = Fraction(1, 10)
REPLACE = Relation.REPLACE_ONE


def person_loss_of(query):
    return RegressionPersonLoss(model=query.model, largest_weight=1.0, largest_offset=0.0)


def chosen(public, *, epsilon=Fraction(1), records=2000, delta=Fraction(0), share=Fraction(0)):
    query = query_for(public, epsilon=epsilon, records=records, hessian_share=share)
    return choose_output(query, person_loss_of(query), public, records=records, delta=delta, relation=REPLACE)


def test_the_question_is_that_of_objective_perturbation_but_for_the_ridge():
    public = side()
    query = query_for(public, records=2000)
    found = chosen(public)
    assert (found.model, found.centre, found.epsilon) == (query.model, query.centre, query.epsilon)
    assert found.ridge != query.ridge
    assert chosen(public, share=Fraction(1, 5)).hessian_share == Fraction(1, 5)


@pytest.mark.parametrize("known", ["fit", "covariates only", "nothing"])
@pytest.mark.parametrize("epsilon", [Fraction(4), Fraction(20)])
def test_the_ridge_minimises_the_predicted_error(known, epsilon):
    public = {"fit": side(), "covariates only": replace(side(), fit=None), "nothing": None}[known]
    found = chosen(public, epsilon=epsilon)
    person_loss, D = person_loss_of(found), found.model.dimension
    if public is None:
        h, v, missed = np.full(D, 2000.0 * float(person_loss.trace) / (2.0 * D)), np.ones(D), 1.0
    else:
        h = np.diag(public.moments(public.centre, records=2000).H)
        v, missed = (np.ones(D), 0.3) if public.fit is None else (np.diag(public.fit.covariance) + 0.2**2, 0.5)

    def error(ridge):
        constants = perturbation.calibrate_output(
            replace(found, ridge=Fraction(ridge)), person_loss, records=2000, relation=REPLACE
        )
        variance = (D + 1.0) / float(constants.noise_rate) ** 2
        unshrunk = variance * (1.0 + ridge / h) ** 2
        return np.mean(unshrunk + (missed * ridge / (ridge + h)) ** 2 * v)

    around = [error(float(found.ridge) * factor) for factor in (0.5, 0.9, 1.0, 1.1, 2.0)]
    assert around[2] == pytest.approx(min(around), rel=2e-3)
    assert around[0] > around[2] < around[4]


def test_more_noise_asks_for_a_larger_ridge():
    public = side()
    ridges = [chosen(public, epsilon=epsilon).ridge for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10))]
    assert ridges == sorted(ridges, reverse=True)


def test_the_ridge_has_few_digits_so_that_two_machines_ask_the_same():
    ridge = chosen(side()).ridge
    assert ridge.numerator.bit_length() - (ridge.numerator & -ridge.numerator).bit_length() <= 20


def test_a_delta_is_used_where_normal_noise_is_smaller():
    public = side()
    # Three coefficients: pure noise has (D + 1) / epsilon^2, normal noise 1 / mu^2.
    assert chosen(public, delta=DELTA).delta == 0
    loose = chosen(public, delta=LOOSE)
    assert loose.delta == LOOSE
    person_loss = person_loss_of(loose)
    pure, normal = (
        perturbation.noise_variance(person_loss, epsilon=Fraction(1), delta=delta, relation=REPLACE)
        for delta in (Fraction(0), LOOSE)
    )
    assert normal < pure


def pure_variance(query, person_loss):
    rate = perturbation.calibrate_objective(query, person_loss, records=2000).noise_rate
    return float(
        np.mean(NoiseDistribution(norm=person_loss.norm, dimension=person_loss.dimension, rate=float(rate)).variance)
    )


@pytest.mark.parametrize("public", [True, False])
def test_normal_noise_in_the_objective_is_taken_where_it_is_smaller(public):
    query = query_for(side() if public else None, records=2000)
    person_loss = person_loss_of(query)
    variance = pure_variance(query, person_loss)
    assert with_normal_noise(query, person_loss, variance=variance, delta=DELTA, relation=REPLACE) == query
    found = with_normal_noise(query, person_loss, variance=variance, delta=LOOSE, relation=REPLACE)
    assert found.delta == LOOSE
    assert found.ridge >= query.ridge
    assert replace(found, ridge=query.ridge, delta=Fraction(0)) == query
    sd = float(perturbation.calibrate_objective(found, person_loss, records=2000).perturbation.sd)
    assert sd**2 < variance
    # The ridge leaves most of the noise of a free determinant.
    free = perturbation.calibrate_objective(
        replace(found, ridge=found.ridge * 2**20), person_loss, records=2000
    ).perturbation.sd
    assert sd <= float(free) / 0.97 * (1.0 + 1e-6)
