"""Queries and releases: exact round trips, refusals, names."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.mechanisms.exponential import ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.perturbation import ObjectiveQuery, ObjectiveRelease, OutputQuery, OutputRelease
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.records.geometry import Geometry, Source, from_box
from hdpstats.records.model import HazardCap, HazardModel, RegressionModel, TimeGrid
from hdpstats.records.query import LedgerEntry

MODEL = RegressionModel(
    formula="y ~ x",
    loss="logistic",
    geometry=from_box([0.1, -1e-7], [1 / 3, 1e9], intercept=True, row_norm=1.1),
    weights="w",
    offset=None,
)
HAZARD = HazardModel(
    formula="Surv(t, d) ~ x",
    link="cloglog",
    grid=TimeGrid(cuts=(0.1, 1 / 3, 7.7)),
    baseline=((0.1, 0.2), (0.3, -1e-300), (1.0, 5e-324)),
    geometry=from_box([0.1, -1e-7], [1 / 3, 1e9], intercept=True, row_norm=1.1),
    cap=HazardCap(
        total=4.1,
        margin=-0.7,
        baseline=((-1.1, 2.2, 1 / 3), (0.0, 1e-9, 1e6)),
        slopes=((0.1, -1e-17), (3.0, 0.0)),
    ),
    weights=None,
    offset="o",
)
QUERY = ObjectiveQuery(
    model=MODEL,
    centre=(0.1, -1e-300, 5e-324),
    ridge=Fraction(0.1),
    epsilon=Fraction(1, 3),
    schema_sha256="a" * 64,
    public_sha256=None,
    hessian_share=Fraction(3, 20),
    replicate=2,
)
OF_HAZARDS = replace(QUERY, model=HAZARD, centre=(0.1, -1.0, 2.0, 3.0, 0.0, -5.0, 1e-9, 7.7))
RELEASE = ObjectiveRelease(
    theta=(0.1, -3.5, 1e-17),
    hessian=(1.0, 2.0, 3.0, 4.0, 5.0, 0.1),
    noise_rate=0.123456789,
    hessian_noise_sd=7.7,
    grid=2.0**-40,
    records=10,
    events=(PrivacyEvent(ran=MechanismName.OBJECTIVE, epsilon=Fraction(1, 3)),),
    entry=LedgerEntry(dataset="d", version=1, number=4, head="f" * 64),
)


OUTPUT = OutputQuery.from_dict(QUERY.to_dict() | {"kind": OutputQuery.kind})
SAMPLING = ExponentialQuery.from_dict(
    QUERY.to_dict()
    | {"kind": ExponentialQuery.kind, "hessian_share": "0", "delta": "1/7"}
    | {"half_widths": [0.1, 1 / 3, 1e-6], "proposals": 17}
)
OUTPUT_RELEASE = OutputRelease.from_dict(
    RELEASE.to_dict() | {"kind": OutputRelease.kind, "noise_rate": 0.0, "noise_sd": 0.3}
)

SAMPLING_RELEASE = ExponentialRelease.from_dict(
    OUTPUT_RELEASE.to_dict() | {"kind": ExponentialRelease.kind, "temperature": 1 / 3}
)


def test_a_query_survives_a_round_trip_exactly():
    for query in (
        QUERY,
        OF_HAZARDS,
        OUTPUT,
        SAMPLING,
        replace(QUERY, public_sha256="b" * 64, model=replace(MODEL, weights=None, offset="o")),
    ):
        assert query_from_json(query.to_json()) == query
        assert query_from_json(query.to_json()).to_json() == query.to_json()


def test_a_release_survives_a_round_trip_exactly():
    for release in (RELEASE, OUTPUT_RELEASE, SAMPLING_RELEASE, replace(RELEASE, hessian=None)):
        back = release_from_json(release.to_json())
        assert back == replace(release, entry=None)
        assert back.sha256 == release.sha256


def test_random_doubles_survive_a_round_trip():
    rng = np.random.default_rng(0)
    for _ in range(200):
        numbers = tuple((rng.standard_normal(3) * 10.0 ** rng.uniform(-300, 11, 3)).tolist())
        assert query_from_json(replace(QUERY, centre=numbers).to_json()).centre == numbers
        assert release_from_json(replace(RELEASE, theta=numbers).to_json()).theta == numbers


def test_the_hash_names_the_numbers_and_not_the_entry():
    assert replace(RELEASE, entry=None).sha256 == RELEASE.sha256
    assert replace(RELEASE, theta=(0.1, -3.5, 2e-17)).sha256 != RELEASE.sha256
    assert replace(RELEASE, records=11).sha256 != RELEASE.sha256


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '{"kind": "other/1"}', "{}", "[1]", '"kind"', "NaN"])
def test_other_texts_are_refused(text):
    with pytest.raises(SiteError, match="query"):
        query_from_json(text)
    with pytest.raises(SiteError, match="release"):
        release_from_json(text)


@pytest.mark.parametrize("name", json.loads(QUERY.to_json()))
def test_a_query_without_a_field_is_refused(name):
    fields = json.loads(QUERY.to_json())
    del fields[name]
    with pytest.raises(SiteError):
        query_from_json(json.dumps(fields))


def test_a_number_beyond_doubles_is_refused_as_any_other_text():
    with pytest.raises(SiteError):
        query_from_json(json.dumps(json.loads(QUERY.to_json()) | {"replicate": 0}).replace('te": 0', 'te": 1e400'))


@pytest.mark.parametrize("name", json.loads(RELEASE.to_json()))
def test_a_release_without_a_field_is_refused(name):
    fields = json.loads(RELEASE.to_json())
    del fields[name]
    with pytest.raises(SiteError):
        release_from_json(json.dumps(fields))


@pytest.mark.parametrize(
    "changes",
    [
        {"centre": (0.0,)},
        {"centre": (0.0, 0.0, float("nan"))},
        {"centre": (0.0, 0.0, 1e13)},
        {"ridge": Fraction(0)},
        {"ridge": Fraction(-1)},
        {"ridge": Fraction(1, 3)},
        {"ridge": Fraction(2.0**-210)},
        {"ridge": Fraction(2**210)},
        {"epsilon": Fraction(0)},
        {"hessian_share": Fraction(91, 100)},
        {"hessian_share": Fraction(-1, 100)},
        {"delta": Fraction(1)},
        {"delta": Fraction(-1, 10)},
        {"delta": Fraction(1, 10**31)},
        {"epsilon": Fraction(10**31, 10**31 + 1)},
        {"hessian_share": Fraction(1, 10**31)},
    ],
    ids=str,
)
def test_a_query_that_contradicts_itself_is_refused(changes):
    with pytest.raises(MechanismError):
        replace(QUERY, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"half_widths": (1.0, 1.0)},
        {"half_widths": (1.0, 1.0, 0.0)},
        {"half_widths": (1.0, float("nan"), 1.0)},
        {"half_widths": (1.0, 1e7, 1.0)},
        {"proposals": 0},
        {"proposals": 10**7},
        {"delta": Fraction(0)},
        {"hessian_share": Fraction(1, 10)},
        {"ridge": Fraction(-1)},
    ],
    ids=str,
)
def test_a_sampling_query_that_contradicts_itself_is_refused(changes):
    with pytest.raises(MechanismError):
        replace(SAMPLING, **changes)


@pytest.mark.parametrize("model", [MODEL, HAZARD], ids=["regression", "hazard"])
@pytest.mark.parametrize("change", [{"weights": ["w"]}, {"offset": 1}], ids=str)
def test_columns_have_names(model, change):
    with pytest.raises(MechanismError, match="names of columns"):
        replace(model, **change)


@pytest.mark.parametrize("query", [QUERY, OF_HAZARDS], ids=["regression", "hazard"])
def test_a_model_without_a_field_is_refused(query):
    whole = json.loads(query.to_json())
    for name in whole["model"]:
        fields = {key: value for key, value in whole["model"].items() if key != name}
        with pytest.raises(SiteError):
            query_from_json(json.dumps(whole | {"model": fields}))
    with pytest.raises(SiteError):
        query_from_json(json.dumps(whole | {"model": whole["model"] | {"kind": "other"}}))


def test_the_dimension_of_a_hazard_model_counts_baseline_and_slopes_of_every_cause():
    assert (HAZARD.causes, HAZARD.block, HAZARD.dimension) == (2, 4, 8)
    assert MODEL.dimension == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"baseline": HAZARD.baseline[:2]},
        {"baseline": ((0.1,), (0.3, 0.0), (1.0, 0.0))},
        {"baseline": ((), (), ())},
        {"baseline": ((1.0, 1e-3), *HAZARD.baseline[1:])},
        {"baseline": ((1.0 + 1e-9, 0.0), *HAZARD.baseline[1:])},
        {"baseline": ((float("nan"), 0.0), *HAZARD.baseline[1:])},
        {"cap": replace(HAZARD.cap, baseline=((0.0,), (0.0,)))},
        {"cap": replace(HAZARD.cap, slopes=((0.0,), (0.0,)))},
        {"geometry": replace(HAZARD.geometry, intercept=False)},
    ],
    ids=str,
)
def test_a_hazard_model_that_contradicts_itself_is_refused(changes):
    with pytest.raises(MechanismError):
        replace(HAZARD, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"total": 0.9},
        {"total": 1e5},
        {"total": float("nan")},
        {"margin": 21.0},
        {"margin": float("nan")},
        {"baseline": ((float("inf"), 0.0, 0.0), (0.0, 0.0, 0.0))},
        {"baseline": ((2e6, 0.0, 0.0), (0.0, 0.0, 0.0))},
        {"slopes": ((0.0, float("nan")), (0.0, 0.0))},
        {"slopes": ((0.0, 0.0),)},
    ],
    ids=str,
)
def test_a_cap_that_contradicts_itself_is_refused(changes):
    with pytest.raises(MechanismError):
        replace(HAZARD.cap, **changes)


def test_a_flat_cap_is_one_level_for_everybody():
    flat = HazardCap(total=4.0, margin=0.0, baseline=((-2.0, -2.0),), slopes=((0.0,),))
    assert flat.is_flat
    assert not replace(flat, baseline=((-2.0, -2.1),)).is_flat
    assert not replace(flat, slopes=((0.1,),)).is_flat


@pytest.mark.parametrize(
    "changes",
    [
        {"location": (0.0,)},
        {"location": (0.0, float("nan"))},
        {"whitening": ((1.0, 0.0),)},
        {"whitening": ((1.0, 0.0), (1.0,))},
        {"whitening": ((1.0, 0.0), (0.0, float("inf")))},
        {"whitening": ((1.0, 0.0), (0.0, 1e16))},
        {"radius": 0.0},
        {"radius": 1e7},
        {"radius": float("nan")},
        {"leverage": 0.0},
        {"leverage": float("nan")},
        {"leverage": 5e-324},
        {"leverage": 1e14},
    ],
    ids=str,
)
def test_a_geometry_that_contradicts_itself_is_refused(changes):
    whole = Geometry(
        location=(0.0, 1.0),
        whitening=((1.0, 0.0), (0.0, 1.0)),
        radius=1.0,
        leverage=3.0,
        intercept=True,
        source=Source.PUBLIC_ROWS,
    )
    assert whole.dimension == 3
    with pytest.raises(MechanismError):
        replace(whole, **changes)
