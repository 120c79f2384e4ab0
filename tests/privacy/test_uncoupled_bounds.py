"""The claimed privacy of objective perturbation without a coupling, against a search for the worst neighbours.

As `test_objective_bounds`, for every loss whose determinant is charged for: the exact log-ratio of the densities of the
perturbed minimiser is maximised, and each wrong constant must be found.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats.audit import PerturbedObjective, perturbed_objective, worst_neighbours
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.losses import BY_NAME
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import RegressionModel
from hdpstats.records.query import LEAST_SMOOTHING

SCHEMA = hdp.Schema(
    y=hdp.Continuous(0, 10, complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
    time=hdp.Duration(100, complete=True),
    event=hdp.Binary(complete=True),
    w=hdp.Weight(3, complete=True),
)
SLACK = 1e-9
ROW = tuple(np.tanh(np.linspace(-2.0, 2.0, 41)).tolist())
ASKED: dict[str, tuple[str, tuple[float, ...], tuple[tuple[float, ...], ...]]] = {
    "squares": ("y ~ x", (), ()),
    "huber": ("y ~ x", (0.7,), ()),
    "quantile": ("y ~ x", (0.5, 0.5), ()),
    "poisson": ("y ~ x", (10.0,), ()),
    "exponential": ("Surv(time, event) ~ x", (2.0,), ()),
    "own": ("y ~ x", (-2.0, 0.1, 1.0), (ROW, ROW)),
}
HALVES = {
    "squares": Fraction(1, 2),
    "huber": Fraction(35, 1000),
    "quantile": Fraction(1, 4),
    "poisson": Fraction(5),
    "exponential": Fraction(1),
    "own": Fraction(1, 2),
}
"""Half of the steepest score of each."""


def query_of(
    name: str, *, ridge: float, radius: float = 1.0, intercept: bool = True, epsilon: int = 1
) -> ObjectiveQuery:
    formula, parameters, table = ASKED[name]
    public = Geometry(
        location=(0.0,),
        whitening=((1.0,),),
        radius=radius,
        leverage=float(intercept) + 2.0 * radius**2,
        intercept=intercept,
        source=Source.PUBLIC_ROWS,
    )
    model = RegressionModel(
        formula=formula if intercept else formula.replace("~ x", "~ 0 + x"),
        loss=name,
        geometry=public,
        parameters=parameters,
        table=table,
    )
    person_loss = RegressionPersonLoss(model=model, largest_weight=1.0, largest_offset=0.0)
    smooth = float(replace(person_loss, response=_response(model)).loss.smoothness)
    return ObjectiveQuery(
        model=model,
        centre=(0.0,) * public.dimension,
        ridge=Fraction(ridge * smooth * public.leverage),
        epsilon=Fraction(epsilon),
        schema_sha256="",
        public_sha256=None,
    )


def _response(model: RegressionModel) -> object:
    from hdpstats.formulas.outcome import design_of, response_of

    return response_of(design_of(model.formula, model.loss, SCHEMA), model.loss, SCHEMA)


def mechanism_of(query: ObjectiveQuery, **options: object) -> PerturbedObjective:
    return perturbed_objective(query, schema=SCHEMA, **options)


def stated(query: ObjectiveQuery) -> float:
    return float(query.epsilon * (1 - LEAST_SMOOTHING))


def worst(query: ObjectiveQuery, mechanism: PerturbedObjective, *, tries: int = 2048) -> float:
    intercept = query.model.geometry.intercept
    reach = 3.0 * query.model.geometry.radius
    spread = 3.0 if query.model.loss in ("squares", "huber", "quantile") else 30.0
    found = worst_neighbours(
        mechanism, others=1, intercept=intercept, reach=reach, spread=spread, tries=tries, polish=24, rounds=80
    )
    return found.loss


def test_every_loss_without_a_coupling_is_searched() -> None:
    assert ASKED.keys() == HALVES.keys() == {name for name, loss in BY_NAME.items() if not loss.coupled}


@pytest.mark.parametrize("ridge", [2.0, 15.0])
@pytest.mark.parametrize("name", list(ASKED))
def test_no_neighbours_lose_more_than_was_stated(name: str, ridge: float) -> None:
    query = query_of(name, ridge=ridge)
    loss = worst(query, mechanism_of(query))
    assert 0.6 * stated(query) < loss <= stated(query) + SLACK


@pytest.mark.parametrize("name", ["squares", "huber", "poisson"])
def test_nor_where_one_is_added_or_removed(name: str) -> None:
    query = query_of(name, ridge=6.0)
    loss = worst(query, mechanism_of(query, relation="add_or_remove_one"))
    assert 0.5 * stated(query) < loss <= stated(query) + SLACK


def test_in_one_dimension_the_bound_is_nearly_reached() -> None:
    for name in ("huber", "quantile"):
        query = query_of(name, ridge=4.0, intercept=False)
        assert 0.85 * stated(query) < worst(query, mechanism_of(query)) <= stated(query) + SLACK


@pytest.mark.parametrize("name", list(ASKED))
def test_a_rate_a_third_too_large_is_found(name: str) -> None:
    query = query_of(name, ridge=15.0)
    right = mechanism_of(query)
    assert worst(query, replace(right, rate=1.0 / 0.6 * right.rate)) > stated(query)


def test_a_determinant_that_is_not_charged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegressionPersonLoss, "jacobian", lambda person_loss, ridge: Fraction(0))
    query = query_of("huber", ridge=0.8, intercept=False)
    assert worst(query, mechanism_of(query)) > 1.15 * stated(query)


@pytest.mark.parametrize(("name", "wrong"), HALVES.items())
def test_a_score_that_is_bounded_by_half_of_its_size_is_found(
    name: str, wrong: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_of(name, ridge=15.0)
    monkeypatch.setattr(
        BY_NAME[name], "lipschitz", property(lambda each: wrong, lambda each, value: None), raising=False
    )
    from hdpstats.formulas import outcome

    outcome.made.cache_clear()
    try:
        assert worst(query, mechanism_of(query)) > 1.1 * stated(query)
    finally:
        outcome.made.cache_clear()
