"""Standard errors of objective perturbation count the noise that covers the solver's error."""

from dataclasses import replace

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.information import InObjective, OnMinimiser, Smoothed
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.perturbation.site import smoothing_distribution, widest_smoothing
from hdpstats.models.model import predict
from hdpstats.models.points import Objective, ask_objective
from hdpstats.models.private_result import Contribution, Contributions
from hdpstats.models.request import fit_request
from hdpstats.models.site_records import SiteRecords
from hdpstats.noise.distributions import NoiseDistribution
from tests.unit.models.test_points import SCHEMA, frame, hazard, logit, study

LARGE = 1_000_000
COARSE = 2.0**-8
"""A lattice on which smoothing is far larger than all other noise."""


def linear(data):
    return hdpf.linear("b ~ a", data=data)


def asked(epsilon=2.0, **options):
    plain = {"delta": 0, "mechanism": "objective", "se_share": 0.0, "replicate": 1, "allow_large_epsilon": False}
    return fit_request(epsilon=epsilon, **plain | options)


def fitted(model):
    opened = model(study())
    result = opened.fit(epsilon=2.0, mechanism="objective")
    return opened._spec, result


def reread(spec, result, *, grid):
    people = SiteRecords(records=result.release.records, records_sd=0.0, most=result.release.records, request=asked())
    point = Contribution(query=result.query, release=replace(result.release, grid=grid), people=people)
    given = dict.fromkeys(spec.study.sites, point)
    return Objective().read(spec, asked(), Contributions(given=given, missing=(), alone={}))


@pytest.mark.covering(cases=1)
@pytest.mark.usefixtures("any_errors")
@pytest.mark.parametrize("model", [logit, linear, hazard])
def test_a_reported_covariance_has_the_variance_of_the_smoothing(model):
    """Unshrunk, smoothing by ``v`` moves the coefficients by ``H^-1 (H + Lambda) v``."""
    spec, result = fitted(model)
    query, release = result.query, replace(result.release, grid=COARSE)
    side = spec.side(query.model)
    H = side.moments(side.centre, records=release.records).H
    T = spec.to_terms(query.model) @ (np.eye(len(H)) + float(query.ridge) * np.linalg.inv(H))
    expected = np.diag(T @ np.diag(widest_smoothing(release).variance) @ T.T)
    found = np.diag(reread(spec, result, grid=COARSE).private_only.cov_privacy)
    assert np.all((found > 0.5 * expected) & (found < 2.0 * expected))
    assert np.all(found > 100.0 * np.diag(result.private_only.cov_privacy))


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("model", [logit, linear, hazard])
def test_at_an_ordinary_number_of_people_smoothing_is_not_to_be_seen(model):
    spec, result = fitted(model)
    noise = Objective().noise_of(result.query, result.release, spec.person_loss(result.query.model))
    assert isinstance(noise, Smoothed)
    side = spec.side(result.query.model)
    H = side.moments(side.centre, records=result.release.records).H
    assert np.all(np.diag(noise.after.covariance(H)) < 1e-4 * np.diag(noise.inside.covariance(H)))


def test_with_a_million_people_and_no_public_rows_smoothing_is_far_below_sampling_and_is_counted():
    """By exact formula, from the constants of the fit."""
    spec = logit(study(100, public=0))._spec
    query = ask_objective(spec, hdp.mechanisms.ObjectivePerturbation(), asked(1.0), records=LARGE)
    person_loss = spec.person_loss(query.model)
    constants = perturbation.calibrate_objective(query, person_loss, records=LARGE, relation=spec.study.relation)
    H = LARGE * 0.2 * np.eye(person_loss.dimension)  # curvature of the order that rows of unit variance have
    exact = OnMinimiser(
        distribution=smoothing_distribution(constants.noise, constants.grid), ridge=float(query.ridge)
    ).covariance(H)
    length = 2.0 * float(constants.effort.radius) / float(constants.events[1].epsilon)
    assert np.all(np.diag(exact) > (person_loss.dimension + 1) * (length * 0.2 * LARGE) ** 2)
    release = release_of(constants, dimension=person_loss.dimension)
    told = Objective().noise_of(query, release, person_loss)
    inside = InObjective(distribution=told.inside.distribution).covariance(H)
    assert np.all(np.diag(told.covariance(H)) >= np.diag(exact + inside))
    assert np.all(np.diag(exact) < 1e-3 * np.diag(H))  # whose inverse is the covariance that sampling gives


def release_of(constants, *, dimension):
    return perturbation.ObjectiveRelease(
        theta=(0.0,) * dimension,
        hessian=None,
        noise_rate=float(constants.noise_rate),
        hessian_noise_sd=0.0,
        grid=float(constants.grid),
        records=constants.records,
        events=constants.events,
    )


def test_plans_count_it_too():
    spec = logit(hdp.Study(public=frame(100), schema=SCHEMA))._spec
    query = ask_objective(spec, hdp.mechanisms.ObjectivePerturbation(), asked(1.0), records=LARGE)
    constants = perturbation.calibrate_objective(
        query, spec.person_loss(query.model), records=LARGE, relation=spec.study.relation
    )
    T = spec.to_terms(query.model)
    smoothing = T @ np.diag(smoothing_distribution(constants.noise, constants.grid).variance) @ T.T
    predicted = predict(spec, asked(1.0), {"site": LARGE}).errors
    inside = NoiseDistribution(
        norm=spec.person_loss(query.model).norm, dimension=query.dimension, rate=float(constants.noise_rate)
    ).variance
    side = spec.side(query.model)
    inverse = np.linalg.inv(side.moments(side.centre, records=LARGE).H)
    without = np.diag(T @ inverse @ np.diag(inside) @ inverse @ T.T)
    assert np.all(predicted.privacy**2 >= without + np.diag(smoothing))  # unshrunk, it is more than as it was added
