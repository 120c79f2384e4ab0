"""Small questions of every kind that the package answers: what replays and the table of guarantees run.

For each entry of the registry of mechanisms, and each family of models that it takes, there is a case: a query as a fit
asks it, or one without a model. It is put to a small invented site under either relation, with people of one row and of
several. Neighbours differ in the last person, who has cells at the ends of what is declared, in several combinations,
or missing ones.

All data here are invented and public, and fixed: no generator is used.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.caching import remembered
from hdpstats._base.errors import HdpError, MechanismError
from hdpstats._base.no_warnings import silence
from hdpstats.describe import describe, survfit
from hdpstats.ledger import Ledger
from hdpstats.losses import options as losses
from hdpstats.mechanisms import registry
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.exponential import ExponentialQuery
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.mechanisms.hybrid_weights import CurveQuery, DistanceQuery, LossSelectionQuery
from hdpstats.mechanisms.treatment_effect import TreatmentEffectQuery, cells_of_arm
from hdpstats.models import (
    DiscreteHazard,
    Distribution,
    Linear,
    Logit,
    MEstimator,
    Quantile,
    hybrid_weights,
    importance_weights,
)
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import PointColumn, PointSpace
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.records.query import Query, Release
from hdpstats.results.propensity import Propensity, Weighting
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from hdpstats.sites import LocalSite, Site, Study
from hdpstats.sites.site import SiteTerms

PEOPLE: Final = 24
ROWS_OF_A_PERSON: Final = 3
SCHEMA: Final = Schema(
    y=Binary(),
    k=Continuous(0, 40),
    g=Categorical(["a", "b", "c"]),
    x1=Continuous(-3, 3),
    x2=Continuous(-3, 3),
    time=Duration(horizon=24, unit="months"),
    start=Duration(horizon=24, unit="months"),
    event=Binary(),
    cause=Categorical(["none", "one", "two"]),
)
UNIT: Final = "id"

_NAMES: Final = ("y", "k", "g", "x1", "x2", "time", "start", "event", "cause")
_LAST: Final = (
    (1.0, 0.0, "a", 3.0, 3.0, 24.0, 0.0, 0.0, "none"),
    (0.0, 40.0, "b", -3.0, -3.0, 24.0, 0.0, 1.0, "one"),
    (0.0, 0.0, "a", 3.0, 3.0, 1.0, 0.0, 1.0, "two"),
    (1.0, 40.0, "c", -3.0, 3.0, 12.0, 11.0, 1.0, "one"),
    (1.0, 40.0, "c", 3.0, -3.0, 1.0, 0.0, 0.0, "none"),
    (0.0, 20.0, "b", 0.0, 0.0, 2.0, 0.0, 1.0, "two"),
    (None,) * len(_NAMES),
)
"""Cells of the last person, most of them at the ends of what the schema declares."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Under which terms a case is asked: the relation, and whether people have several rows."""

    relation: Relation
    several: bool

    def __str__(self) -> str:
        rows = f"{ROWS_OF_A_PERSON} rows" if self.several else "1 row"
        return f"{self.relation.value}, {rows} a person"


SETTINGS: Final = tuple(
    Setting(relation=relation, several=several) for several in (False, True) for relation in Relation
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One kind of question.

    Attributes
    ----------
    asks : type of Query
        Its query, by which the registry knows the mechanism.
    family : str or None
        The family of the model; None where it has none.
    variant : str
        What tells it from other cases of the same mechanism and family; empty for the ordinary one.
    ask : callable
        Takes a study and asks its site; or returns the query.
    """

    asks: type[Query]
    family: str | None
    variant: str
    ask: Callable[[Study], Query | None]

    @property
    def name(self) -> str:
        """Mechanism, family and variant, in words."""
        parts = (registry.name_of(self.asks), self.family, self.variant)
        return ", ".join(part for part in parts if part)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A case at a site: the query, and the public facts about the site."""

    query: Query
    site_facts: SiteFacts

    def compute(self, frame: pd.DataFrame) -> Release:
        """Return the release of a frame, as the site computes it after it has charged."""
        return computed(self.query, self.site_facts, frame)


class _Heard(BaseException):
    """Carries the query of a fit out of it."""

    def __init__(self, query: Query) -> None:
        super().__init__()
        self.query = query


@final
class _Listener(Site):
    """A site that computes nothing but numbers of people: it says what it was asked."""

    def __init__(self, site: LocalSite) -> None:
        self._site, self.public = site, dict[str, PublicTable]()

    @property
    def schema(self) -> Schema:
        return self._site.schema

    @property
    def records(self) -> int:
        return self._site.records

    @property
    def terms(self) -> SiteTerms:
        return self._site.terms

    def put_public(self, table: PublicTable) -> None:
        self.public[table.sha256] = table
        self._site.put_public(table)

    def received(self, query: Query) -> Release | None:
        return self._site.received(query)

    def answer(self, query: Query) -> Release:
        if isinstance(query, CountQuery):
            return self._site.answer(query)
        raise _Heard(query)


def people(last: tuple[Any, ...] | None, *, several: bool = False) -> pd.DataFrame:
    """Return the invented rows, those of the last person with given cells; without that person where it is None."""
    frame = _ordinary(ROWS_OF_A_PERSON if several else 1)
    others = frame[frame[UNIT] != frame[UNIT].iloc[-1]]
    if last is None:
        return pd.DataFrame(others.reset_index(drop=True))
    rows = pd.DataFrame([last] * (len(frame) - len(others)), columns=list(_NAMES)).assign(
        **{UNIT: frame[UNIT].iloc[-1]}
    )
    cells = {name: [*others[name].tolist(), *rows[name].tolist()] for name in frame.columns}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in cells.items()})


@remembered(256)
def _ordinary(most_rows: int, *, count: int = PEOPLE, name: str = "p") -> pd.DataFrame:
    """Return invented people, spread over what is declared by multiples of irrational numbers."""
    place = np.arange(count * most_rows, dtype=float)

    def spread(step: float) -> Any:
        return (0.37 + step * place) % 1.0

    stop = 2.0 + np.floor(22.0 * spread(0.7548776662466927))
    levels = np.array(["a", "b", "c"], dtype=object), np.array(["none", "one", "two"], dtype=object)
    return pd.DataFrame(
        {
            "y": (spread(0.6180339887498949) < 0.5).astype(float),
            "k": np.floor(20.0 * spread(0.5698402909980532)),
            "g": levels[0][(3.0 * spread(0.4142135623730951)).astype(int)],
            "x1": 4.0 * spread(0.7320508075688772) - 2.0,
            "x2": 4.0 * spread(0.2360679774997898) - 2.0,
            "time": stop,
            "start": np.floor(stop * spread(0.3166247903553998) / 2.0),
            "event": (spread(0.6055512754639891) < 0.6).astype(float),
            "cause": levels[1][(3.0 * spread(0.1231056256176606)).astype(int)],
            UNIT: [f"{name}{int(number) // most_rows}" for number in place],
        }
    )


def pairs(setting: Setting, *, most: int) -> Iterator[tuple[pd.DataFrame, list[pd.DataFrame]]]:
    """Yield data sets, each with neighbours of it, the first ones of all that there are: at most so many pairs."""
    replaced = setting.relation is Relation.REPLACE_ONE
    left = most
    for last in _LAST:
        others: list[tuple[Any, ...] | None] = [other for other in _LAST if other is not last] if replaced else [None]
        chosen = others[: min(left, 3)]
        left -= len(chosen)
        if not chosen:
            return
        yield (
            people(last, several=setting.several),
            [people(other, several=setting.several) for other in chosen],
        )


def asked(case: Case, setting: Setting) -> Asked:
    """Put a case to an invented site.

    Raises
    ------
    HdpError
        The package does not offer it under these terms.
    """
    unit: dict[str, Any] = {"unit": UNIT, "max_rows_per_unit": ROWS_OF_A_PERSON} if setting.several else {}
    declared = setting.several or setting.relation is Relation.ADD_OR_REMOVE_ONE
    terms = unit | ({"n_max": PEOPLE} if declared else {})
    ledger = Ledger(None, dataset="invented", epsilon=100, delta=1e-3, relation=setting.relation, unit=unit.get("unit"))
    frame = _ordinary(ROWS_OF_A_PERSON if setting.several else 1)
    listener = _Listener(LocalSite(frame, schema=SCHEMA, ledger=ledger, row_order="arbitrary", **terms))
    study = Study(private=listener, public=_ordinary(1, count=60, name="q"))
    with silence():
        try:
            query = case.ask(study)
        except _Heard as heard:
            query = heard.query
        if not isinstance(query, case.asks):
            raise MechanismError(f"{case.name} is answered by another mechanism here")
        site_facts = SiteFacts(
            schema=SCHEMA,
            relation=setting.relation,
            records=listener.records,
            unit=unit.get("unit"),
            most_rows=ROWS_OF_A_PERSON if setting.several else 1,
            public=listener.public,
            row_order="arbitrary",
        )
        if isinstance(query, ExponentialQuery):  # a larger delta needs fewer proposals, each of them as it was
            query = replace(query, proposals=100 if query.model.dimension == 1 else 1500, delta=Fraction(9, 10))
        registry.prepare(query, site_facts)
    return Asked(query=query, site_facts=site_facts)


def offered(case: Case, setting: Setting) -> Asked | None:
    """Put a case to an invented site; None where the package refuses it there."""
    try:
        return asked(case, setting)
    except HdpError:
        return None


def computed(query: Query, site_facts: SiteFacts, frame: pd.DataFrame) -> Release:
    """Return the release of a query from a frame, as a site computes it."""
    prepared = registry.prepare(query, site_facts)
    table = PrivateTable.from_frame(frame, site_facts.schema, unit=site_facts.unit)
    return prepared.compute(table.admit(prepared.needs, key=prepared.key))


def _fit(model: Callable[[Study], Any], mechanism: Any, **options: Any) -> Callable[[Study], None]:
    def ask(study: Study) -> None:
        model(study).fit(epsilon=1.0, mechanism=mechanism, describe=False, **options)

    return ask


def _logit(study: Study) -> Any:
    return Logit.from_formula("y ~ x1 + g", study)


def _first_rows(study: Study) -> Any:
    return Logit.of_first_rows("y ~ x1", study)


def _weighting(study: Study) -> Weighting:
    """Return weights at invented coefficients: those of the last person's first two kinds of cells are nearly 1."""
    public = Propensity.of(Logit.of_first_rows("y ~ x1", study).fit_public()).weights()
    record = OverlapWeights(formula="y ~ x1", columns=("y", "x1"), coefficients=(0.1, -1.0))
    return replace(public, record=record, stands_in=True)


def _weighted(study: Study) -> Any:
    """Return a model of weighted people; where they have several rows its outcome is a person's mean."""
    return Logit.from_formula("event ~ y", study, weighting=_weighting(study))


def _weighted_linear(study: Study) -> Any:
    return Linear.from_formula("k ~ y", study, weighting=_weighting(study))


def _linear(study: Study) -> Any:
    return Linear.from_formula("k ~ x1 + g", study)


def _huber(study: Study) -> Any:
    return MEstimator.from_formula("k ~ x1", study, loss=losses.Huber(2.0))


def _poisson(study: Study) -> Any:
    return MEstimator.from_formula("k ~ x1", study, loss=losses.Poisson())


def _quantile(study: Study) -> Any:
    return Quantile.from_formula("k ~ x1", study, q=0.5)


def _multinomial(study: Study) -> Any:
    return MEstimator.from_formula("g ~ x1", study, loss=losses.Multinomial())


def _survival(study: Study) -> str:
    return "Surv(time, event)" if study.unit is None else "Surv(start, time, event)"


def _hazard(study: Study) -> Any:
    return DiscreteHazard.from_formula(f"{_survival(study)} ~ x1", study, intervals=6)


def _one_coefficient(study: Study) -> Any:
    return Logit.from_formula("y ~ 1", study)


def _three_levels(study: Study) -> Any:
    return MEstimator.from_formula("g ~ 1", study, loss=losses.Multinomial())


def _two_intervals(study: Study) -> Any:
    return DiscreteHazard.from_formula(f"{_survival(study)} ~ 1", study, intervals=2, baseline="dummies")


def _many(study: Study) -> Any:
    """Return a model of so many coefficients that normal noise is the smaller one."""
    terms = " + ".join(f"bs({name}, df=8)" for name in ("x1", "x2", "k"))
    return Logit.from_formula(f"y ~ {terms}", study)


def _normal(study: Study) -> Any:
    return Distribution.from_formula("x1 ~ 1", study, family="normal")


def _statistics(study: Study) -> None:
    _normal(study).fit(1.0)


def _subsample(study: Study) -> None:
    _normal(study).fit(1.0, mechanism="subsample")


def _evaluation(model: Callable[[Study], Any]) -> Callable[[Study], None]:
    def ask(study: Study) -> None:
        made = model(study)
        made.evaluate(made.fit_public(), epsilon=1.0)

    return ask


def _histogram(_study: Study) -> Query:
    axes = (Axis(name="g", levels=3), Axis(name="x1", cuts=(-1.0, 0.0, 1.0)))
    return HistogramQuery(axes=axes, epsilon=Fraction(1), schema_sha256=SCHEMA.sha256, replicate=1)


def _space() -> PointSpace:
    return PointSpace(columns=tuple(PointColumn(name=name, lower=-3.0, upper=3.0) for name in ("x1", "x2")))


def _identity(study: Study) -> dict[str, Any]:
    public = study.public
    if public is None or study.site is None:
        raise MechanismError("this needs public rows")
    study.site.put_public(public)
    return {"schema_sha256": SCHEMA.sha256, "public_sha256": public.sha256}


def _distance(study: Study) -> Query:
    return DistanceQuery(space=_space(), support=None, reach=0.25, epsilon=Fraction(1), **_identity(study))


def _curve(_study: Study) -> Query:
    return CurveQuery(
        formula="y ~ x1 + x2",
        candidates=((0.1,) * 3, (1.0, -1.0, 1.0)),
        scale=(1.0,) * 3,
        radius=Fraction(4),
        ridge=Fraction(1, 10),
        epsilon=Fraction(1),
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
    )


def _choice_by_loss(_study: Study) -> Query:
    return LossSelectionQuery(
        formula="y ~ x1 + x2",
        candidates=((0.1,) * 3, (9.0, -9.0, 9.0), (-9.0, 9.0, -9.0)),
        reach=4.0,
        epsilon=Fraction(1),
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
    )


def _count(_study: Study) -> Query:
    return CountQuery(epsilon=Fraction(1), schema_sha256=SCHEMA.sha256)


def _described(**options: Any) -> Callable[[Study], None]:
    def ask(study: Study) -> None:
        describe(study, ["x1", "k", "g"], epsilon=1.0, **options)

    return ask


def _curves(study: Study) -> None:
    survfit(f"{_survival(study)} ~ g", study).fit(epsilon=1.0)


def _importance(study: Study) -> None:
    importance_weights(study, "~ x1 + x2", epsilon=1.0)


def _effect(outcome: str, lower: float, upper: float, *, binary: bool) -> Callable[[Study], Query]:
    def ask(study: Study) -> Query:
        most = None if study.unit is None else study.most_rows
        return TreatmentEffectQuery(
            weighting=OverlapWeights(formula="y ~ x1", columns=("y", "x1"), coefficients=(0.1, 1.0)),
            outcome=outcome,
            lower=lower,
            upper=upper,
            cells=cells_of_arm(binary=binary, most_rows=most),
            most_rows=most,
            epsilon=Fraction(1),
            schema_sha256=SCHEMA.sha256,
            public_sha256=None,
        )

    return ask


def _hybrid(*, select: bool) -> Callable[[Study], None]:
    def ask(study: Study) -> None:
        hybrid_weights(study, ["x1", "x2", "g"], epsilon=1.0, select=select)

    return ask


_MODELS: Final[Mapping[str, Callable[[Study], Any]]] = {
    "regression": _logit,
    "multinomial": _multinomial,
    "hazard": _hazard,
}


def _made() -> Iterator[tuple[str, str | None, str, Callable[[Study], Query | None]]]:
    """Yield the kind of query, family, variant and question of each case."""
    objective, output = registry.ObjectivePerturbation, registry.OutputPerturbation
    for family, model in _MODELS.items():
        yield "objective", family, "", _fit(model, objective(), se_share=0)
        yield "output", family, "", _fit(model, output(), se_share=0)
        yield "clipped_newton", family, "", _fit(model, registry.ClippedNewton(rounds=1))
    yield "objective", "regression", "with standard errors", _fit(_logit, objective(), se_share=0.3)
    yield "objective", "multinomial", "with the Hessian", _fit(_multinomial, objective(), se_share=0.2)
    yield "objective", "regression", "normal noise", _fit(_many, objective(), se_share=0, delta=1e-3)
    yield "objective", "regression", "first rows of people", _fit(_first_rows, objective(), se_share=0)
    yield "objective", "regression", "weighted people", _fit(_weighted, objective(), se_share=0)
    yield "objective", "regression", "weighted people, linear", _fit(_weighted_linear, objective(), se_share=0)
    yield "objective", "regression", "linear", _fit(_linear, objective(), se_share=0)
    yield "objective", "regression", "Huber", _fit(_huber, objective(), se_share=0)
    yield "objective", "regression", "Poisson", _fit(_poisson, objective(), se_share=0)
    yield "output", "regression", "quantile", _fit(_quantile, output(), se_share=0)
    yield "output", "regression", "normal noise", _fit(_many, output(), se_share=0, delta=1e-3)
    yield "clipped_newton", "regression", "normal noise", _fit(_logit, registry.ClippedNewton(rounds=1), delta=1e-6)
    yield "public_hessian", "regression", "", _fit(_logit, registry.PublicHessian(rounds=1))
    yield "public_hessian", "regression", "normal noise", _fit(_logit, registry.PublicHessian(rounds=1), delta=1e-6)
    for family, model in (("regression", _one_coefficient), ("multinomial", _three_levels), ("hazard", _two_intervals)):
        yield "exponential", family, "", _fit(model, registry.ExponentialMechanism(), delta=1e-3)
    yield "statistics", "distribution", "", _statistics
    yield "subsample", "distribution", "", _subsample
    yield "evaluation", "regression", "", _evaluation(_logit)
    yield "evaluation", "hazard", "", _evaluation(_hazard)
    yield "histogram", None, "", _histogram
    yield "count", None, "", _count
    yield "description", None, "", _described()
    yield "description", None, "by group", _described(by="g")
    yield "description", None, "normal noise", _described(by="g", delta=0.5)
    yield "description", None, "survival curves", _curves
    yield "importance_weights", "density ratio", "", _importance
    yield "treatment_effect", None, "", _effect("event", 0.0, 1.0, binary=True)
    yield "treatment_effect", None, "of a number", _effect("k", 0.0, 40.0, binary=False)
    yield "neighbours", None, "", _hybrid(select=False)
    yield "selection", None, "", _hybrid(select=True)
    yield "loss_selection", "regression", "", _choice_by_loss
    yield "distance", None, "", _distance
    yield "curve", "regression", "", _curve


_QUERIES: Final = {each.name: each.query for each in registry.MECHANISMS}

CASES: Final = tuple(
    Case(asks=_QUERIES[kind], family=family, variant=variant, ask=ask) for kind, family, variant, ask in _made()
)
"""All cases: one or more for each entry of the registry, and each family that it takes."""
