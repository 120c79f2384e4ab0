"""Queries written by hand: a site refuses them before anything is charged, or answers; never an error in between."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import HdpError, MechanismError, SiteError
from hdpstats.mechanisms.base import Prepared
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery
from hdpstats.mechanisms.perturbation import ObjectiveQuery, OutputQuery
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import HazardCap, HazardModel, TimeGrid
from hdpstats.records.query import Query
from hdpstats.schema.table import AdmittedTable
from hdpstats.sites import local, single_draw

SCHEMA = hdp.Schema(
    start=hdp.Duration(100, missing=0),
    stop=hdp.Duration(100, complete=True),
    event=hdp.Binary(complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
    far=hdp.Continuous(-1e12, 1e12, complete=True),
    w=hdp.Weight(max=1e12, complete=True),
    o=hdp.Offset(-1e12, 1e12, complete=True),
)
ROWS = pd.DataFrame(
    {
        "id": ["a", "a", "b", "c", "d"],
        "start": [0.0, 40.0, 0.0, 20.0, 0.0],
        "stop": [40.0, 100.0, 0.0, 70.0, 500.0],
        "event": [0, 1, 1, 1, 1],
        "x": [-1.0, 1.0, 0.0, 0.3, -0.3],
        "far": [1e12, -1e12, 0.0, 1e-9, 7.0],
        "w": [0.0, 1e12, 1.0, 1e-9, 1e12],
        "o": [1e12, -1e12, 0.0, 3.0, 700.0],
    }
)
MODEL = HazardModel(
    formula="Surv(start, stop, event) ~ x + far",
    link="logit",
    grid=TimeGrid((25.0, 50.0, 75.0, 100.0)),
    baseline=((1.0,), (-1.0,), (0.0,), (1e-300,)),
    geometry=Geometry(
        location=(0.0, 0.0),
        whitening=((1.0, 0.0), (0.0, 1.0)),
        radius=1.0,
        leverage=3.0,
        intercept=True,
        source=Source.PUBLIC_ROWS,
    ),
    cap=HazardCap(total=4.0, margin=0.0, baseline=((-1.0,) * 4,), slopes=((0.0, 0.0),)),
)
QUERY = ObjectiveQuery(
    model=MODEL,
    centre=(0.0,) * 3,
    ridge=Fraction(2) ** 40,
    epsilon=Fraction(1),
    schema_sha256=SCHEMA.sha256,
    public_sha256=None,
    hessian_share=Fraction(1, 10),
)


def site_of(relation: str = "replace_one") -> hdp.LocalSite:
    ledger = hdp.Ledger(None, dataset="d", epsilon=10**9, delta=0.5, relation=relation, unit="id")
    return hdp.LocalSite(ROWS, schema=SCHEMA, ledger=ledger, unit="id", max_rows_per_unit=3, n_max=5)


def answered(query: Query, monkeypatch: pytest.MonkeyPatch, relation: str = "replace_one") -> bool:
    """Return whether a site answers; fail where something is raised by a private computation."""
    site, entered = site_of(relation), []
    right = single_draw.errors_scrubbed

    def watched(compute: Callable[[], Any]) -> Any:
        entered.append(compute)
        return right(compute)

    monkeypatch.setattr(single_draw, "errors_scrubbed", watched)
    try:
        released = site.answer(query)
    except HdpError:
        assert not entered
        assert site.ledger.spent.epsilon == 0
        return False
    numbers = released.to_dict()
    assert np.all(np.isfinite(numbers.get("theta", numbers.get("total"))))
    return True


@pytest.mark.parametrize("replicate", [0, -1, 10**9 + 1])
def test_a_number_of_the_draw_that_is_none_is_refused_whatever_is_asked_of_the_site(replicate: int) -> None:
    site, query = site_of(), replace(QUERY, replicate=replicate)
    for ask in (site.answer, site.quote, site.columns, lambda each: site.rehearsal(each, rows=5)):
        with pytest.raises(hdp.ArgumentError, match="replicate"):
            ask(query)


CAP, GEOMETRY = MODEL.cap, MODEL.geometry
MODELS = {
    "plain": MODEL,
    "cloglog": replace(MODEL, link="cloglog"),
    "probit": replace(MODEL, link="probit"),
    "probit at the smallest cap": replace(MODEL, link="probit", cap=replace(CAP, margin=-20.0)),
    "weights": replace(MODEL, weights="w"),
    "offsets": replace(MODEL, offset="o"),
    "caps of nothing": replace(MODEL, cap=replace(CAP, baseline=((-1e6,) * 4,))),
    "caps of everything": replace(MODEL, cap=replace(CAP, baseline=((1e6,) * 4,), margin=20.0)),
    "steep caps": replace(MODEL, cap=replace(CAP, slopes=((1e6, -1e6),))),
    "steep caps with offsets": replace(MODEL, offset="o", link="probit", cap=replace(CAP, slopes=((1e6, -1e6),))),
    "largest total": replace(MODEL, cap=replace(CAP, total=1e4, margin=20.0)),
    "small radius": replace(MODEL, geometry=replace(GEOMETRY, radius=1e-6)),
    "small leverage": replace(MODEL, geometry=replace(GEOMETRY, leverage=1e-12)),
    "leverage below one": replace(MODEL, geometry=replace(GEOMETRY, leverage=0.5)),
    "large radius": replace(MODEL, geometry=replace(GEOMETRY, radius=1e6, leverage=1e13)),
    "far whitening": replace(MODEL, geometry=replace(GEOMETRY, whitening=((9e14, 0.0), (0.0, 9e14)))),
    "whitening to nothing": replace(MODEL, geometry=replace(GEOMETRY, whitening=((0.0, 0.0), (0.0, 0.0)))),
    "far location": replace(MODEL, geometry=replace(GEOMETRY, location=(9e14, -9e14))),
    "long rows": replace(MODEL, baseline=((1.0 + 2.0**-40,),) * 4),
    "one short interval": replace(MODEL, grid=TimeGrid((5e-324, 1e-300, 1e-10, 100.0))),
    "intervals beyond the horizon": replace(MODEL, grid=TimeGrid((1e300, 1e301, 1e302, 1e303))),
    "many intervals": replace(
        MODEL,
        grid=TimeGrid(tuple(s / 100.0 for s in range(1, 10_001))),
        baseline=((1.0,),) * 10_000,
        cap=replace(CAP, baseline=((-7.0,) * 10_000,)),
    ),
}


TOO_SMALL_RIDGES = {"weights", "large radius"}
"""Losses whose curvature is 1e13 times that of a ridge of 1."""


@pytest.mark.covering(1)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.wide) if name == "many intervals" else name for name in MODELS]
)
def test_hostile_models_are_answered_whatever_the_rows(
    name: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ridge = MODELS[name], QUERY.ridge
    largest = {"large radius": 2**20, "weights": 2**20}.get(name, 1)
    answers = answered(replace(QUERY, model=model, ridge=ridge * largest), monkeypatch, relation)
    assert answers
    fields = {key: value for key, value in QUERY.to_dict().items() if key != "model"}
    output = OutputQuery.from_dict(fields | {"kind": OutputQuery.kind, "model": model.to_dict(), "delta": "1/1000000"})
    answers = answered(replace(output, centre=(-9e11, 9e11, 1e-300), ridge=Fraction(1)), monkeypatch, relation)
    assert answers == (name not in TOO_SMALL_RIDGES)
    gradient = ClippedNewtonQuery(
        model=model,
        theta=(9e11, -9e11, 1e-300),
        clip=Fraction(1e9),
        epsilon=Fraction(1),
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
    )
    assert answered(gradient, monkeypatch, relation)


@pytest.mark.parametrize(
    "change",
    [
        {"ridge": Fraction(1, 2**199)},
        {"ridge": Fraction(1, 2**199), "delta": Fraction(1, 10**6)},
        {"ridge": Fraction(2) ** 190},
        {"centre": (9e11, -9e11, 0.0)},
        {"epsilon": Fraction(1, 10**30)},
        {"epsilon": Fraction(10**6)},
        {"epsilon": Fraction(10**6), "delta": Fraction(1, 10**30)},
        {"delta": Fraction(1, 10**30)},
        {"delta": 1 - Fraction(1, 10**30)},
        {"hessian_share": Fraction(9, 10)},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [ObjectiveQuery, OutputQuery])
def test_hostile_numbers_are_refused_uncharged_or_answered(
    change: dict[str, Any], kind: type[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(kind.from_dict(replace(QUERY, **change).to_dict() | {"kind": kind.kind}), monkeypatch)  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["epsilon", "delta", "ridge", "hessian_share"])
@pytest.mark.parametrize(
    "text",
    ["1e99999999999", "1e-99999999999", "9" * 5000, "1/0", "nan", "inf", "-inf", "1_0", " 1", "１", "0x1", "", 1],
)
def test_a_fraction_is_never_written_out_and_is_read_or_refused(key: str, text: object) -> None:
    # Python's own Fraction would write out the hundred billion digits of 1e99999999999: no memory would hold them.
    fields = json.loads(QUERY.to_json())
    with pytest.raises(SiteError):
        query_from_json(json.dumps(fields | {key: text}))


@pytest.mark.parametrize("epsilon", [10**400, 10**6 + 1])
def test_an_epsilon_beyond_all_sense_is_refused_by_name(epsilon: int) -> None:
    with pytest.raises(HdpError, match="epsilon"):
        replace(QUERY, epsilon=Fraction(epsilon))


@pytest.mark.parametrize(
    "events",
    [
        (
            PrivacyEvent(ran=MechanismName.OUTPUT, epsilon=Fraction(1)),
            PrivacyEvent(ran=MechanismName.HESSIAN, epsilon=Fraction(1, 10**9)),
        ),
        (PrivacyEvent(ran=MechanismName.GAUSSIAN_OBJECTIVE, epsilon=Fraction(1), delta=Fraction(1, 10**9)),),
        (
            PrivacyEvent(
                ran=MechanismName.GRADIENT, epsilon=Fraction(1), delta=Fraction(1, 10**6), mu_squared=Fraction(1, 20)
            ),
        ),
    ],
    ids=["epsilon", "delta", "mu"],
)
def test_a_mechanism_that_costs_more_than_the_query_offers_does_not_run(
    events: tuple[PrivacyEvent, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dear(Prepared):
        def work(self, rows: int) -> NoReturn:
            raise RuntimeError("it was counted")

        def compute(self, table: AdmittedTable) -> NoReturn:
            raise RuntimeError("it ran")

    monkeypatch.setattr(local, "prepare", lambda query, site_facts: Dear(needs=("x",), events=events))
    site = site_of()
    with pytest.raises(MechanismError, match="more than the query offers"):
        site.answer(QUERY)
    assert (site.ledger.spent.epsilon, site.ledger.spent.delta) == (0, 0)
