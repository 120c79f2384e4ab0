"""What is not listed for an analyst is denied."""

from dataclasses import dataclass, fields, replace
from fractions import Fraction

import pytest

import hdpstats.api as hdp
from hdpstats.custodian.permissions import Permissions
from hdpstats.mechanisms import registry
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.description import DescribedColumn, DescriptionQuery
from hdpstats.mechanisms.evaluation import EvaluationQuery
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.mechanisms.hybrid_weights import CurveQuery, LossSelectionQuery
from hdpstats.mechanisms.registry import FAMILIES, MECHANISMS, Mechanism, family_of
from hdpstats.mechanisms.statistics import StatisticsQuery
from hdpstats.privacy.budget import Spend
from hdpstats.records.model import TimeGrid

COLUMNS = ("x", "y")
COMMON = {"epsilon": Fraction(1), "schema_sha256": "0" * 64}
CURVE = CurveQuery(
    formula="y ~ x", candidates=((0.0, 1.0),), scale=(1.0, 1.0), radius=Fraction(2), ridge=Fraction(1), **COMMON
)
LOSSES = LossSelectionQuery(formula="y ~ x", candidates=((0.0, 1.0), (1.0, 0.0)), reach=1.0, **COMMON)
BINARY = {"formula": "y ~ x", "coefficients": (0.0, 1.0), "offset": None, "cuts": (0.5,), "causes": 1}
EVALUATION = EvaluationQuery(**BINARY, grid=None, ends=(), public_sha256=None, **COMMON)
SURVIVAL = EvaluationQuery(
    **(BINARY | {"formula": "Surv(t, y) ~ x", "coefficients": (1.0,)}),
    grid=TimeGrid(cuts=(6.0, 12.0, 18.0, 24.0)),
    ends=(4,),
    public_sha256=None,
    **COMMON,
)
COUNT = CountQuery(**COMMON)
HISTOGRAM = HistogramQuery(axes=(Axis(name="x", cuts=(0.5,)),), **COMMON)
STATISTICS = StatisticsQuery(column="x", family="normal", **COMMON)
ALL = (CURVE, LOSSES, EVALUATION, SURVIVAL, COUNT, HISTOGRAM, STATISTICS)


def permitted(**entries):
    permissions = Permissions.read(entries, name="ann")
    return {query.kind.partition("/")[0] for query in ALL if permissions.allow(query, COLUMNS)}


def test_every_kind_of_query_says_which_models_it_can_have():
    assert len(FAMILIES) == len(MECHANISMS)
    assert all(type(family) is str for families in FAMILIES.values() for family in families)


def test_fits_that_name_no_model_have_a_family():
    assert [family_of(query) for query in ALL] == [
        "regression",
        "regression",
        "regression",
        "hazard",
        None,
        None,
        "distribution",
    ]


def test_a_query_of_several_families_has_a_model_or_says_which():
    several = [each for each in MECHANISMS if len(each.models) > 1]
    assert len(several) > 4
    for each in several:
        names = {field.name for field in fields(each.query)}
        assert ("model" in names) == (each.family is registry._of_model), each.name


def test_a_query_with_a_grid_is_not_taken_for_a_hazard(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Gridded:
        grid: tuple[float, ...]

    entry = Mechanism(Gridded, (), frozenset({"hazard", "regression"}), None, family=lambda _: "regression")
    monkeypatch.setitem(registry._BY_QUERY, Gridded, entry)
    assert family_of(Gridded(grid=(1.0, 2.0))) == "regression"


def test_who_may_fit_hazards_may_not_fit_or_read_logistic_regressions():
    permissions = Permissions.read({"models": ["hazard"]}, name="ann")
    assert [permissions.allow(query, COLUMNS) for query in ALL] == [False, False, False, True, True, False, False]


def test_mechanisms_that_are_not_listed_are_denied():
    assert permitted(mechanisms=["histogram"]) == {"histogram"}
    assert permitted(mechanisms=["curve", "histogram"], models=["regression"]) == {"curve", "histogram"}
    assert permitted(mechanisms=["curve", "histogram"], models=["hazard"]) == {"histogram"}
    assert permitted(mechanisms="all", models="all") == {query.kind.partition("/")[0] for query in ALL}
    assert "histogram" not in permitted(models="all")


def test_a_description_has_a_permission_of_its_own():
    query = DescriptionQuery(columns=(DescribedColumn(name="x"), DescribedColumn(name="y", levels=2)), **COMMON)

    def allowed(**entries):
        return Permissions.read(entries, name="ann").allow(query, COLUMNS)

    assert allowed(mechanisms=["description"])
    assert allowed(mechanisms=["description", "curve"], models=["regression"])
    assert not allowed(models="all")
    assert not allowed(mechanisms=["histogram", "count"])
    assert not allowed(mechanisms=["description"], columns=["x"])


AHEAD = (Spend(Fraction(1)),)
OF_A_FIT = {
    "description": DescriptionQuery(
        columns=(DescribedColumn(name="x"),), complete=True, besides=("y",), ahead=AHEAD, **COMMON
    ),
    "count": CountQuery(columns=COLUMNS, ahead=AHEAD, **COMMON),
}


@pytest.mark.parametrize("asked", OF_A_FIT)
@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ({"mechanisms": ["objective"], "models": ["regression"]}, True),
        ({"mechanisms": ["objective"], "models": ["regression"], "columns": ["x"]}, False),
        ({"mechanisms": ["importance_weights"], "models": ["density ratio"]}, True),
        ({"mechanisms": "all", "models": ["hazard"]}, True),
        ({"models": ["regression"]}, True),
        ({"mechanisms": ["evaluation", "curve"], "models": "all"}, False),
        ({"mechanisms": ["public_hessian"], "models": ["hazard"]}, False),
        ({"mechanisms": ["histogram"]}, False),
        ({"mechanisms": [], "models": ["regression"]}, False),
    ],
)
def test_who_may_fit_a_model_may_ask_what_its_fit_asks_first(asked, entries, allowed):
    assert Permissions.read(entries, name="ann").allow(OF_A_FIT[asked], COLUMNS) is allowed


@pytest.mark.parametrize("asked", OF_A_FIT)
def test_a_query_that_says_of_no_charge_ahead_is_none_of_a_fit(asked):
    permissions = Permissions.read({"mechanisms": ["objective"], "models": ["regression"]}, name="ann")
    assert not permissions.allow(replace(OF_A_FIT[asked], ahead=()), COLUMNS)


@pytest.mark.parametrize(
    "entries", [{"mechanisms": ["count"]}, {"mechanisms": ["count", "evaluation"], "models": ["regression"]}]
)
def test_a_permission_to_count_is_one_to_count_only(entries):
    permissions = Permissions.read(entries, name="ann")
    assert permissions.allow(COUNT, COLUMNS)
    assert permissions.allow(OF_A_FIT["count"], COLUMNS)
    assert not permissions.allow(OF_A_FIT["description"], COLUMNS)


def test_columns_that_are_not_listed_are_denied():
    assert permitted(mechanisms="all", models="all", columns=["x"]) == set()


@pytest.mark.parametrize(
    ("entries", "remedy"),
    [
        ({}, "mechanisms: all"),
        ({"columns": ["x"]}, "mechanisms: all"),
        ({"mechanisms": ["curve"]}, "models: all"),
        ({"mechanisms": "all"}, "models: all"),
        ({"mechanisms": "everything"}, "must be a list"),
    ],
)
def test_permissions_that_leave_open_what_is_permitted(entries, remedy):
    with pytest.raises(hdp.ArgumentError, match=remedy):
        Permissions.read(entries, name="ann")
