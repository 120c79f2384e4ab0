"""Every size of a query has a public limit: what is larger is refused with the number, the limit and a remedy."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms import score_sums
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery
from hdpstats.mechanisms.evaluation import EvaluationQuery
from hdpstats.mechanisms.exponential import ExponentialQuery
from hdpstats.mechanisms.exponential import site as sampling
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.mechanisms.hybrid_weights import CurveQuery, LossSelectionQuery, NeighboursQuery, SelectionQuery
from hdpstats.mechanisms.hybrid_weights.site import landscape_of
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.public_hessian import PublicHessianQuery
from hdpstats.mechanisms.subsample import SubsampleQuery
from hdpstats.noise.knorm import LARGEST_DIMENSION
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records import limits
from hdpstats.records.geometry import PointColumn, PointSpace, from_box
from hdpstats.records.model import HazardCap, HazardModel, RegressionModel, TimeGrid
from hdpstats.schema.public import PublicTable
from hdpstats.schema.site_facts import SiteFacts

COMMON: dict[str, Any] = {"epsilon": Fraction(1), "schema_sha256": "0" * 64, "public_sha256": None}
NAMED: dict[str, Any] = COMMON | {"public_sha256": "1" * 64}
SPACE = PointSpace(columns=(PointColumn(name="x", lower=0.0, upper=1.0),))


def regression(coefficients: int) -> RegressionModel:
    d = coefficients - 1
    return RegressionModel(formula="y ~ x", loss="logistic", geometry=from_box([0.0] * d, [1.0] * d, intercept=True))


def hazard(intervals: int = 2, features: int = 1, causes: int = 1) -> HazardModel:
    return HazardModel(
        formula="Surv(stop, event) ~ x",
        link="logit",
        grid=TimeGrid(tuple(float(s) for s in range(1, intervals + 1))),
        baseline=((0.0,) * features,) * intervals,
        geometry=from_box([0.0], [1.0], intercept=True),
        cap=HazardCap(total=1.0, margin=0.0, baseline=((0.0,) * intervals,) * causes, slopes=((0.0,),) * causes),
    )


def objective(coefficients: int, hessian_share: Fraction = Fraction(0)) -> ObjectiveQuery:
    return ObjectiveQuery(
        model=regression(coefficients),
        centre=(0.0,) * coefficients,
        ridge=Fraction(1),
        hessian_share=hessian_share,
        **COMMON,
    )


def draws(proposals: int) -> ExponentialQuery:
    return ExponentialQuery(
        model=regression(2),
        centre=(0.0, 0.0),
        ridge=Fraction(1),
        half_widths=(1.0, 1.0),
        proposals=proposals,
        **COMMON | {"delta": Fraction(1, 10**6)},
    )


def gradient(coefficients: int) -> ClippedNewtonQuery:
    return ClippedNewtonQuery(model=regression(coefficients), theta=(0.0,) * coefficients, clip=Fraction(1), **COMMON)


def score(coefficients: int) -> PublicHessianQuery:
    return PublicHessianQuery(
        model=regression(coefficients),
        theta=(0.0,) * coefficients,
        truncation=1.0,
        norm=Fraction(2),
        cost=Fraction(1),
        **COMMON,
    )


def histogram(cells: int) -> HistogramQuery:
    return HistogramQuery(axes=(Axis(name="x", cuts=tuple(map(float, range(cells - 1)))),), **COMMON)


def candidates(number: int) -> tuple[tuple[float, ...], ...]:
    return tuple((float(place),) for place in range(number))


def curve(number: int) -> CurveQuery:
    return CurveQuery(
        formula="y ~ 0 + x",
        candidates=candidates(number),
        scale=(1.0,),
        radius=Fraction(1),
        ridge=Fraction(1),
        **COMMON,
    )


def choice_by_loss(number: int) -> LossSelectionQuery:
    return LossSelectionQuery(formula="y ~ 0 + x", candidates=candidates(number), reach=1.0, **COMMON)


def choice_by_distance(number: int) -> SelectionQuery:
    every = tuple(range(number))
    return SelectionQuery(
        space=SPACE,
        order=every,
        sizes=tuple(place + 1 for place in every),
        reach=1.0,
        penalties=(0.0,) * number,
        **NAMED,
    )


def neighbours(points: int) -> NeighboursQuery:
    return NeighboursQuery(space=SPACE, support=tuple(range(points)), **NAMED)


def space(coordinates: int) -> PointSpace:
    halves = (coordinates // 2, coordinates - coordinates // 2)
    return PointSpace(columns=tuple(PointColumn(name=f"g{place}", levels=each) for place, each in enumerate(halves)))


def parts(blocks: int) -> SubsampleQuery:
    return SubsampleQuery(column="x", family="normal", box=((0.0, 1.0), (0.1, 1.0)), blocks=blocks, **COMMON)


def evaluation(causes: int) -> EvaluationQuery:
    return EvaluationQuery(
        formula="Surv(stop, event) ~ x",
        coefficients=(1.0,),
        offset=None,
        cuts=(0.0,),
        grid=TimeGrid((1.0, 2.0)),
        ends=(2,),
        causes=causes,
        **COMMON,
    )


@pytest.mark.parametrize(
    ("made", "most"),
    [
        (histogram, limits.MOST_CELLS),
        (lambda size: objective(size, Fraction(1, 10)), limits.MOST_WITH_HESSIAN),
        (draws, limits.MOST_PROPOSALS),
        (curve, limits.MOST_CANDIDATES),
        (choice_by_loss, limits.MOST_CANDIDATES),
        (choice_by_distance, limits.MOST_CANDIDATES),
        (neighbours, limits.MOST_POINTS),
        (parts, limits.MOST_BLOCKS),
        (evaluation, limits.MOST_CAUSES),
        (lambda size: hazard(causes=size), limits.MOST_CAUSES),
        (lambda size: hazard(intervals=1000, features=size) if size > 1 else hazard(), limits.MOST_FEATURES // 1000),
    ],
    ids=[
        "cells", "Hessian", "proposals", "curve", "choice by loss", "choice by distance", "points", "blocks",
        "causes of an evaluation", "causes of a hazard", "baseline features",
    ],
)  # fmt: skip
def test_what_is_as_large_as_may_be_is_made_and_what_is_larger_is_refused(
    made: Callable[[int], object], most: int
) -> None:
    made(most)
    with pytest.raises(MechanismError, match=r"at most \d+ .*, not \d+; \w+"):
        made(most + 1)


@pytest.mark.parametrize("made", [objective, gradient, score, space])
def test_a_size_that_takes_long_to_write_is_refused_by_its_number(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[int], object]
) -> None:
    for module in ("records.query", "records.several"):
        monkeypatch.setattr(f"hdpstats.{module}.MOST_COEFFICIENTS", 12)
    monkeypatch.setattr("hdpstats.records.geometry.MOST_COORDINATES", 12)
    made(12)
    with pytest.raises(MechanismError, match=r"at most 12 (coefficients|coordinates of a point), not 13; (take|name)"):
        made(13)


SCHEMA = hdp.Schema(x=hdp.Continuous(0, 1, complete=True), y=hdp.Binary(complete=True))


def site(records: int, public: PublicTable | None = None) -> SiteFacts:
    kept = {} if public is None else {public.sha256: public}
    return SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=records, public=kept)


def test_proposals_times_people_are_bounded_before_a_row_is_read() -> None:
    query = draws(limits.MOST_PROPOSALS)
    with pytest.raises(
        MechanismError, match=r"at most 10000000000 people times proposals, not 10001000000; make fewer"
    ):
        sampling.prepare(query, None, site(10_001))  # type: ignore[arg-type]  # the loss is not reached


def test_points_of_a_public_table_are_bounded_also_where_no_query_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    public = PublicTable.from_frame(pd.DataFrame({"x": np.linspace(0, 1, 30), "y": 0.0}), SCHEMA)
    for name, unit in (("MOST_POINTS", "public points"), ("MOST_NUMBERS", "cells of public rows")):
        with monkeypatch.context() as patch:
            patch.setattr(f"hdpstats.mechanisms.hybrid_weights.site.{name}", 29)
            with pytest.raises(MechanismError, match=f"at most 29 {unit}, not 30; "):
                landscape_of(SPACE, None, public.sha256, site(5, public))
    assert len(landscape_of(SPACE, None, public.sha256, site(5, public)).points) == 30


def test_levels_of_points_are_bounded_before_they_become_indicators(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = hdp.Schema(g=hdp.Categorical(["a", "b", "c"], complete=True))
    public = PublicTable.from_frame(pd.DataFrame({"g": ["a", "b", "c", "a"]}), schema)
    facts = replace(site(5, public), schema=schema)
    space = PointSpace(columns=(PointColumn(name="g", levels=3),))
    monkeypatch.setattr("hdpstats.mechanisms.hybrid_weights.site.MOST_NUMBERS", 8)
    monkeypatch.setattr("hdpstats.mechanisms.hybrid_weights.site.embed", lambda *_, **__: pytest.fail("they did"))
    with pytest.raises(MechanismError, match="at most 8 numbers in public points, not 9; "):
        landscape_of(space, None, public.sha256, facts)


def test_no_release_is_longer_than_the_bytes_that_are_stated() -> None:
    numbers = {
        "histogram": limits.MOST_CELLS,
        "Hessian": limits.MOST_WITH_HESSIAN * (limits.MOST_WITH_HESSIAN + 1) // 2 + limits.MOST_WITH_HESSIAN,
        "coefficients": limits.MOST_COEFFICIENTS,
        "points": limits.MOST_POINTS,
        "evaluation": 10 * (limits.MOST_CAUSES * 12 + 13),
        "curve": limits.MOST_CANDIDATES,
    }
    digits = len(str(-(2**20) * 10**12 * 50)) + 1  # epsilon 1e-12, fifty scales of noise, and a comma
    assert digits <= 40
    assert max(numbers.values()) <= limits.MOST_POINTS


def test_a_changed_query_is_checked_too() -> None:
    with pytest.raises(MechanismError, match="at most 100 candidates"):
        replace(curve(3), candidates=candidates(101))


def test_limits_stay_within_what_proofs_and_samplers_cover() -> None:
    assert limits.MOST_COEFFICIENTS <= score_sums.MOST
    assert limits.MOST_WITH_HESSIAN * (limits.MOST_WITH_HESSIAN + 1) // 2 <= LARGEST_DIMENSION
