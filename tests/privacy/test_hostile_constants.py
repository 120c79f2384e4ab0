"""Constants that a search over neighbours does not tell from slightly wrong ones: distributions that fix them."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.families.hazard.bounds import HazardPersonLoss, hazard_person_loss
from hdpstats.families.regression.bounds import RegressionPersonLoss, regression_person_loss
from hdpstats.mechanisms.perturbation import ObjectiveQuery, OutputQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.perturbation.site import normal_sd
from hdpstats.noise.exact import sqrt_up
from hdpstats.privacy.gaussian import delta_of, fixed_sign_multiplier, objective_delta, objective_multiplier
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import HazardCap, HazardModel, RegressionModel, TimeGrid
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Weight
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable

SCHEMA = Schema(
    start=Duration(4.0, missing=0),
    stop=Duration(4.0, complete=True),
    event=Binary(complete=True),
    cause=Categorical(["none", "a", "b"], other="none", complete=True),
    y=Binary(complete=True),
    x=Continuous(-100, 100, complete=True),
    w=Weight(max=3, complete=True),
)
GEOMETRY = Geometry(
    location=(0.0,), whitening=((1.0,),), radius=2.0, leverage=9.0, intercept=True, source=Source.PUBLIC_ROWS
)


def site_facts(relation: Relation = Relation.REPLACE_ONE, *, unit: str | None = None) -> SiteFacts:
    return SiteFacts(schema=SCHEMA, relation=relation, records=10, unit=unit, most_rows=1 if unit is None else 5)


def hazard(
    *, outcome: str = "Surv(start, stop, event)", causes: int = 1, weights: str | None = None, link: str = "logit"
) -> HazardModel:
    return HazardModel(
        formula=f"{outcome} ~ x",
        link=link,
        grid=TimeGrid((1.0, 2.0, 3.0, 4.0)),
        baseline=((1.0,),) * 4,
        geometry=GEOMETRY,
        cap=HazardCap(total=2.0, margin=0.0, baseline=((math.log(0.5),) * 4,) * causes, slopes=((0.0,),) * causes),
        weights=weights,
    )


def person_losses(weights: str | None) -> dict[str, HazardPersonLoss | RegressionPersonLoss]:
    regression = RegressionModel(formula="y ~ x", loss="logistic", geometry=GEOMETRY, weights=weights)
    return {
        "logit": hazard_person_loss(hazard(weights=weights), site_facts()),
        "cloglog": hazard_person_loss(hazard(weights=weights, link="cloglog"), site_facts()),
        "regression": regression_person_loss(regression, SCHEMA),
    }


@pytest.mark.parametrize("name", person_losses(None))
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("ridge", [Fraction(30), Fraction(120), Fraction(1000)])
def test_an_objective_of_thrice_the_size_has_thrice_the_noise(name: str, relation: Relation, ridge: Fraction) -> None:
    # Weights of up to 3 and three times the ridge: the same minimisers, so the same privacy at three times the noise.
    plain, weighted = person_losses(None)[name], person_losses("w")[name]
    fields = {"cell": Fraction(0), "relation": relation}
    one = plain.noise_rate(Fraction(2), ridge=ridge, **fields)
    three = weighted.noise_rate(Fraction(2), ridge=3 * ridge, **fields)
    assert float(3 * three) == pytest.approx(float(one), rel=1e-9)
    jacobians = plain.jacobian(ridge), weighted.jacobian(3 * ridge)
    assert float(jacobians[1]) == pytest.approx(float(jacobians[0]), rel=1e-9)


@pytest.mark.parametrize("name", person_losses(None))
@pytest.mark.parametrize("relation", Relation)
def test_the_cell_of_the_noise_is_charged(name: str, relation: Relation) -> None:
    person_loss, epsilon = person_losses(None)[name], Fraction(1)
    persons = 2 if relation is Relation.REPLACE_ONE else 1
    width = persons * person_loss.gradient_bound
    cell = width / 4
    rate = person_loss.noise_rate(epsilon, ridge=Fraction(10**7), cell=cell, relation=relation)
    assert rate * (width + cell) <= epsilon
    assert rate * (width + cell) > epsilon * Fraction(9, 10)


@pytest.mark.parametrize("name", person_losses(None))
def test_normal_noise_counts_the_persons_and_the_space_of_their_gradients(name: str) -> None:
    person_loss, epsilon, delta, ridge = person_losses(None)[name], Fraction(1), Fraction(1, 10**6), Fraction(1000)
    jacobian, reach, D = person_loss.jacobian(ridge), person_loss.euclidean_bound, person_loss.dimension
    rank = min(1 if name == "regression" else 2, D)
    fields = {"ridge": ridge, "epsilon": epsilon, "delta": delta}
    replaced = 2 * reach / objective_multiplier(epsilon, delta, jacobian, min(2 * rank, D))
    added = reach / (
        fixed_sign_multiplier(epsilon, delta, jacobian)
        if name == "regression"
        else objective_multiplier(epsilon, delta, jacobian, rank)
    )
    assert (
        replaced
        <= normal_sd(person_loss, relation=Relation.REPLACE_ONE, **fields)
        <= replaced * (1 + Fraction(1, 10**9))
    )
    assert (
        added
        <= normal_sd(person_loss, relation=Relation.ADD_OR_REMOVE_ONE, **fields)
        <= added * (1 + Fraction(1, 10**9))
    )


def test_the_space_of_two_persons_is_larger_than_that_of_one() -> None:
    # Four coefficients, so that the dimension does not cut the rank.
    geometry = replace(GEOMETRY, location=(0.0,) * 3, whitening=tuple(tuple(row) for row in np.eye(3).tolist()))
    model = RegressionModel(formula="y ~ x + start + stop", loss="logistic", geometry=geometry)
    person_loss = regression_person_loss(model, SCHEMA)
    fields = {"ridge": Fraction(1000), "epsilon": Fraction(1), "delta": Fraction(1, 10**6)}
    jacobian = person_loss.jacobian(Fraction(1000))
    two = 2 * person_loss.euclidean_bound / objective_multiplier(Fraction(1), Fraction(1, 10**6), jacobian, 2)
    one = 2 * person_loss.euclidean_bound / objective_multiplier(Fraction(1), Fraction(1, 10**6), jacobian, 1)
    assert one < Fraction(99, 100) * two <= normal_sd(person_loss, relation=Relation.REPLACE_ONE, **fields)


def test_rows_of_one_person_with_opposite_covariates_add_up() -> None:
    # Survived at x = 2 and then an event at x = -2: both scores pull the slope the same way.
    frame = pd.DataFrame(
        {"id": ["a"] * 2, "start": [0.0, 3.0], "stop": [3.0, 4.0], "event": [0, 1], "x": [2.0, -2.0], "w": [1.0, 1.0]}
    ).assign(cause="none", y=0)
    person_loss = hazard_person_loss(hazard(), site_facts(unit="id"))
    fixed = hazard_person_loss(hazard(), site_facts())
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(person_loss.needs)
    people = person_loss.people(table)
    longest = max(
        float(np.linalg.norm(people.scores(np.array([alpha, slope])), axis=1).max())
        for alpha in np.linspace(-30.0, 30.0, 61)
        for slope in np.linspace(0.0, 30.0, 31)
    )
    assert float(fixed.gradient_bound) < longest <= float(person_loss.gradient_bound)


def test_a_query_for_another_number_of_causes_is_refused() -> None:
    with pytest.raises(SiteError, match="causes"):
        hazard_person_loss(hazard(outcome="Surv(start, stop, cause)", causes=1), site_facts())
    with pytest.raises(SiteError, match="causes"):
        hazard_person_loss(hazard(causes=2), site_facts())
    assert hazard_person_loss(hazard(outcome="Surv(start, stop, cause)", causes=2), site_facts()).rank == 4


def test_people_with_several_rows_need_entry_times() -> None:
    with pytest.raises(SiteError, match="start"):
        hazard_person_loss(hazard(outcome="Surv(stop, event)"), site_facts(unit="id"))


def test_ten_thousand_caps_that_rounding_swallows_stay_within_the_bound() -> None:
    # Each cap after the first is less than half a unit in the last place of the sum, so the sum never grows in floats.
    q, row, total = 10_000, 1.0 + 2.0**-40, 8192.0
    schema = Schema(
        stop=Duration(float(q), complete=True), event=Binary(complete=True), x=Continuous(-1, 1, complete=True)
    )
    model = HazardModel(
        formula="Surv(stop, event) ~ x",
        link="logit",
        grid=TimeGrid(tuple(float(s) for s in range(1, q + 1))),
        baseline=(*((row,),) * (q - 1), (-row,)),
        geometry=replace(GEOMETRY, radius=1e-6),
        cap=HazardCap(
            total=total,
            margin=0.0,
            baseline=((math.log(total) - 1e-14, *(math.log(0.4999 * 2.0**-39),) * (q - 1)),),
            slopes=((0.0,),),
        ),
    )
    person_loss = hazard_person_loss(model, SiteFacts(schema=schema, relation=Relation.REPLACE_ONE, records=1))
    frame = pd.DataFrame({"stop": [float(q)], "event": [1], "x": [1e-6]})
    people = person_loss.people(PrivateTable.from_frame(frame, schema).admit(person_loss.needs))
    assert people.spells.last.tolist() == [q]
    log_caps = people.spells.log_caps(slice(0, 1), slice(0, q), 0)[0]
    with mpmath.workprec(200):
        caps = sum((mpmath.exp(mpmath.mpf(float(each))) for each in log_caps[:-1]), mpmath.mpf(0))
        # The supremum of the person's gradient, where every loss is saturated: the event pulls the same way.
        longest = mpmath.hypot((caps + 1) * row, mpmath.mpf(1e-6) * (caps - 1))
        assert longest > (total + 1) * (1 + mpmath.mpf(2) ** -39)
        assert longest <= mpmath.mpf(person_loss.gradient_bound.numerator) / person_loss.gradient_bound.denominator


def point(
    kind: type[ObjectiveQuery] | type[OutputQuery],
    *,
    epsilon: Fraction,
    delta: Fraction,
    smoothing_share: Fraction | None = None,
) -> Any:
    model = RegressionModel(formula="y ~ x", loss="logistic", geometry=GEOMETRY)
    return kind(
        model=model,
        centre=(0.0, 0.0),
        ridge=Fraction(100),
        epsilon=epsilon,
        delta=delta,
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
        smoothing_share=smoothing_share,
    )


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6)])
def test_output_noise_covers_the_solver_on_both_sides(delta: Fraction) -> None:
    query = point(OutputQuery, epsilon=Fraction(1), delta=delta)
    person_loss = regression_person_loss(query.model, SCHEMA)
    constants = perturbation.calibrate_output(query, person_loss, records=10**8, relation=Relation.REPLACE_ONE)
    solved, lattice = 2 * constants.effort.radius, constants.grid * sqrt_up(Fraction(person_loss.dimension))
    assert solved > 0
    assert constants.sensitivity.value == 2 * person_loss.euclidean_bound / query.ridge + solved + lattice
    with pytest.raises(MechanismError, match="use a larger ridge"):
        perturbation.calibrate_output(query, person_loss, records=10**18, relation=Relation.REPLACE_ONE)


@pytest.mark.parametrize(
    ("epsilon", "share"), [(1, None), (40, None), (900, None), (1, Fraction(1, 10)), (9, Fraction(1, 10))]
)
@pytest.mark.parametrize("relation", Relation)
def test_smoothing_s_factor_on_delta_is_charged(epsilon: int, share: Fraction | None, relation: Relation) -> None:
    # Around an exact minimiser that keeps delta, smoothing by e on both sides keeps exp(e / 2) delta.
    query = point(ObjectiveQuery, epsilon=Fraction(epsilon), delta=Fraction(1, 10**6), smoothing_share=share)
    person_loss = regression_person_loss(query.model, SCHEMA)
    constants = perturbation.calibrate_objective(query, person_loss, records=100, relation=relation)
    event, smoothing = constants.events
    persons, jacobian = relation.persons_changed, person_loss.jacobian(query.ridge)
    multiplier = persons * person_loss.euclidean_bound / constants.perturbation.sd
    kept = (
        delta_of(event.epsilon - jacobian, multiplier)
        if persons == 1
        else objective_delta(event.epsilon, jacobian=jacobian, multiplier=multiplier, rank=2)
    )
    assert float(kept) * math.exp(float(smoothing.epsilon) / 2.0) <= float(query.delta)


def test_an_epsilon_of_which_no_delta_is_left_is_refused() -> None:
    query = point(ObjectiveQuery, epsilon=Fraction(1000), delta=Fraction(1, 10**6))
    with pytest.raises(MechanismError, match="delta"):
        perturbation.calibrate_objective(query, regression_person_loss(query.model, SCHEMA), records=100)
