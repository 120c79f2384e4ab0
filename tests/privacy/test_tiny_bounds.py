"""Noisy Hessians whose bounds are extremely small or large: refused where doubles do not hold the steps of the grid."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.formulas.outcome import Response
from hdpstats.losses import Tabulated, own
from hdpstats.losses.own import Loss
from hdpstats.mechanisms import minimiser
from hdpstats.mechanisms.minimiser import LARGEST_BOUND, LEAST_BOUND, calibrate_hessian, calibrate_semidefinite
from hdpstats.mechanisms.perturbation import ObjectiveQuery, OutputQuery
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import RegressionModel

SCHEMA = hdp.Schema(x=hdp.Continuous(-1, 1, complete=True), y=hdp.Continuous(0, 1, complete=True))
GEOMETRY = Geometry(
    location=(0.0,), whitening=((1.0,),), radius=1.0, leverage=2.0, intercept=True, source=Source.SCHEMA_BOX
)
TINY = 2.0**-1020
REPLACED = Relation.REPLACE_ONE


def model_of(table, step=2e8):
    return RegressionModel(
        formula="y ~ x", loss="own", parameters=(-step / 2, step, 0.0), table=table, geometry=GEOMETRY
    )


def person_loss_of(model, weight=1.0):
    response = Response(column="y", lower=0.0, upper=1.0)
    return RegressionPersonLoss(model=model, largest_weight=weight, largest_offset=0.0, response=response)


def moved(person_loss, *, n, several):
    """By how many steps of the grid a person moves the Hessian, who brings a row orthogonal to the one there was."""
    calibration = calibrate_hessian(person_loss, epsilon=Fraction(1), relation=REPLACED)
    X = np.asfortranarray(np.column_stack([np.ones(n), np.where(np.arange(n) % 3, 1.0, -1.0)]))
    other = X.copy(order="F")
    other[0, 1] = -X[0, 1]

    def hessian(rows):
        people = RegressionRows(
            loss=person_loss.loss,
            X=rows,
            y=np.ones(n),
            weights=np.full(n, person_loss.largest_weight),
            offset=np.zeros(n),
            bounds=person_loss._bounds,
            person=np.arange(n) if several else None,
        )
        return people.stacked_hessian(np.zeros(2), grid=float(calibration.grid))

    with np.errstate(all="ignore"):
        steps = np.array((hessian(X) - hessian(other)).tolist(), dtype=np.float64)
    return float(np.linalg.norm(steps)), float(calibration.sensitivity.value / calibration.grid)


@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("bound", [LEAST_BOUND, LARGEST_BOUND])
def test_at_the_ends_of_the_range_a_person_moves_the_hessian_by_its_sensitivity(n, several, bound):
    rise = 2.0**-60 if bound < 1 else 1.0
    model = model_of(((-rise, rise), (-rise, rise)), step=2.0)
    unit = person_loss_of(model).trace
    person_loss = person_loss_of(model, float(bound / unit) * (1.0 + (2.0**-30 if bound < 1 else -(2.0**-30))))
    assert abs(float(person_loss.trace / bound) - 1.0) < 1e-6
    steps, most = moved(person_loss, n=n, several=several)
    assert 0.999 * most < steps <= most


def test_without_the_refusal_a_person_moves_it_far_beyond(monkeypatch):
    monkeypatch.setattr(own, "SMALLEST", 0.0)
    monkeypatch.setattr(minimiser, "LEAST_BOUND", Fraction(0))
    steps, most = moved(person_loss_of(model_of(((1.0, 1.0), (0.0, TINY)))), n=5000, several=False)
    assert steps > 2.0**20 * most


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("bound", [LEAST_BOUND / 2, LARGEST_BOUND * 2, Fraction(1, 2**1047)])
def test_no_grid_is_made_for_a_bound_outside_of_the_range(bound, relation):
    with pytest.raises(MechanismError, match="1e-60 to 1e60"):
        calibrate_semidefinite(3, bound=bound, epsilon=Fraction(1), relation=relation)
    assert calibrate_semidefinite(3, bound=LEAST_BOUND, epsilon=Fraction(1), relation=relation).grid == 2**-224
    assert calibrate_semidefinite(3, bound=LARGEST_BOUND, epsilon=Fraction(1), relation=relation).grid == 2**176


@pytest.mark.parametrize("kind", [ObjectiveQuery, OutputQuery])
@pytest.mark.parametrize("accepted", [False, True], ids=["by the loss", "by the mechanism"])
def test_a_site_refuses_a_loss_with_tiny_slopes_and_charges_nothing(kind, accepted, monkeypatch):
    if accepted:
        monkeypatch.setattr(own, "SMALLEST", 0.0)
    frame = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 60), "y": np.ones(60)})
    ledger = hdp.Ledger(None, dataset="d", epsilon=10)
    site = hdp.LocalSite(frame, schema=SCHEMA, ledger=ledger)
    asked = kind(
        model=model_of(((1.0, 1.0), (0.0, TINY * (2.0 if accepted else 4.0)))),  # losses that were made are kept
        centre=(0.0, 0.0),
        ridge=Fraction(1),
        epsilon=Fraction(1),
        hessian_share=Fraction(1, 2),
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
    )
    with pytest.raises(MechanismError, match="1e-60 to 1e60" if accepted else "largest slope"):
        site.answer(asked)
    assert ledger.spent.epsilon == 0


def test_own_losses_say_which_constants_they_may_have():
    for table in (((0.0, TINY), (0.0, TINY)), ((1.0, 1.0), (0.0, 1e-31))):
        with pytest.raises(MechanismError, match="largest slope"):
            Tabulated.made((0.0, 1.0, 0.0), table, lower=0.0, upper=1.0)
    for name in ("lipschitz", "smoothness"):
        with pytest.raises(ArgumentError, match=name):
            Loss(
                value=lambda eta, _: 1e-40 * eta * eta,
                score=lambda eta, _: 2e-40 * eta,
                residual=(-1.0, 1.0),
                **{"lipschitz": 1.0, "smoothness": 1.0, name: 2e-40},
            )
