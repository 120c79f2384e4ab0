"""Determinants that a hostile query makes huge, or caps that it makes tiny: their bounds must stay bounds."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hdpstats.families.hazard.bounds import HazardPersonLoss, hazard_person_loss
from hdpstats.losses import LINKS
from hdpstats.privacy.hazard_sensitivity import flat_determinant
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import from_box
from hdpstats.records.model import HazardCap, HazardModel, TimeGrid
from hdpstats.schema.columns import Binary, Continuous, Duration, Offset
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable

SHAPES = {
    "one interval": np.array([[1.0]]),
    "two equal intervals": np.array([[1.0], [1.0]]),
    "curved": np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]),
}


def exact_determinant(A: np.ndarray, *, radius: float, survived: float, event: float, ridge: float) -> float:
    """Return ``max_t log det(I + H / ridge)`` in 400 digits."""
    with mpmath.workdps(400):
        X = [[mpmath.mpf(float(value)) for value in row] + [mpmath.mpf(radius)] for row in A]
        total, largest = mpmath.eye(len(X[0])), mpmath.mpf(0)
        for row in X:
            outer = mpmath.matrix([[a * b / mpmath.mpf(ridge) for a in row] for b in row])
            largest = max(largest, mpmath.log(mpmath.det(total + max(survived, event) * outer)))
            total = total + mpmath.mpf(survived) * outer
        return float(max(largest, mpmath.log(mpmath.det(total))))


@pytest.mark.covering
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0.7, 1.0, 3.0, 1e4])
@pytest.mark.parametrize("ridge", [1e3, 1.0, 1e-5, 1e-10, 1e-14, 1e-18, 1e-20, 1e-30, 1e-50])
def test_the_flat_determinant_is_a_bound_for_every_ridge(shape: str, radius: float, ridge: float) -> None:
    # A determinant by elimination loses its small factors beside large ones, down to a logarithm of minus infinity.
    fields = {"radius": radius, "survived": 0.1925, "event": 0.385, "ridge": ridge}
    found, exact = flat_determinant(SHAPES[shape], **fields), exact_determinant(SHAPES[shape], **fields)
    assert found >= exact
    if ridge >= 1e-5 and radius < 1e4:
        assert found <= exact * (1.0 + 1e-6) + 1e-9


def test_a_determinant_beyond_doubles_is_bounded_by_nothing_finite() -> None:
    assert math.isinf(flat_determinant(SHAPES["curved"], radius=1e6, survived=1e300, event=1.0, ridge=1e-60))


SCHEMA = Schema(
    stop=Duration(4.0, complete=True),
    event=Binary(complete=True),
    x=Continuous(-1, 1, complete=True),
    o=Offset(-5, 5, complete=True),
)


def person_loss_of(
    *, link: str = "logit", level: float = -2.0, margin: float = 0.0, offset: bool = False
) -> HazardPersonLoss:
    model = HazardModel(
        formula="Surv(stop, event) ~ x",
        link=link,
        grid=TimeGrid((1.0, 2.0, 3.0, 4.0)),
        baseline=((1.0,),) * 4,
        geometry=from_box([-1.0], [1.0], intercept=True),
        cap=HazardCap(total=100.0, margin=margin, baseline=((level,) * 4,), slopes=((0.0,),)),
        offset="o" if offset else None,
    )
    return hazard_person_loss(model, SiteFacts(schema=SCHEMA, relation=Relation.ADD_OR_REMOVE_ONE, records=1))


def worst_determinant(person_loss: HazardPersonLoss, *, offset: float, ridge: float) -> float:
    """Return the largest ``log det(I + H / ridge)`` found over coefficients of one person who survives."""
    table = AdmittedTable(
        numeric={name: np.array([value]) for name, value in {"stop": 4.0, "event": 0.0, "x": 1.0, "o": offset}.items()},
        codes={},
        rows=1,
        beyond={"stop": np.zeros(1, dtype=np.bool_)},
    )
    people, D = person_loss.people(table), person_loss.dimension
    problem = people.penalised(ridge=np.full(D, ridge), centre=np.zeros(D), linear=np.zeros(D))
    places = [np.array([alpha, 0.0]) for alpha in np.linspace(-40.0, 40.0, 401)]
    return max(float(np.linalg.slogdet(problem.hessian(theta) / ridge)[1]) for theta in places)


@pytest.mark.parametrize("offset", [0.0, 3.0, -3.0])
def test_offsets_are_counted_where_caps_are_flat(offset: float) -> None:
    person_loss = person_loss_of(offset=True)
    assert worst_determinant(person_loss, offset=offset, ridge=1.0) <= float(person_loss.jacobian(Fraction(1)))


def test_without_offsets_a_flat_cap_has_a_smaller_determinant() -> None:
    person_loss = person_loss_of()
    found = worst_determinant(person_loss, offset=0.0, ridge=1.0)
    assert found <= float(person_loss.jacobian(Fraction(1))) < float(person_loss_of(offset=True).jacobian(Fraction(1)))


def test_a_cap_that_is_raised_to_the_smallest_one_is_counted_as_raised() -> None:
    # The probit constants need caps of 1e-9 or more: a lower level is raised after the margin, not before.
    person_loss, ridge, seen = person_loss_of(link="probit", level=-30.0, margin=-20.0), 1e-12, []
    flat = LINKS["probit"].smallest_cap * float(LINKS["probit"].survived_smoothness)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "hdpstats.families.hazard.bounds.flat_determinant", lambda A, **fields: seen.append(fields) or 1.0
        )
        person_loss.jacobian(Fraction(ridge))
    assert seen[0]["survived"] >= flat
