"""The query of a density ratio: what it says is what is read back, and contradictions are refused."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.mechanisms.importance_weights import ColumnBox, DensityRatioModel, ImportanceWeightsQuery
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.records.geometry import Geometry, Source

BOX = ColumnBox(location=(0.25, 50.0), scale=(1.0, 20.0), lower=(-0.25, -1.25), upper=(0.75, 1.25), intercept=True)
GEOMETRY = Geometry(
    location=(0.25, 50.0),
    whitening=((2.0, 0.0), (0.1, 0.05)),
    radius=1.5,
    leverage=5.5,
    intercept=True,
    source=Source.PUBLIC_ROWS,
)
QUERY = ImportanceWeightsQuery(
    model=DensityRatioModel(formula="~ 1 + hormon + age", columns=("hormon", "age"), coding=BOX),
    perturbs="objective",
    centre=(0.0, 0.0, 0.0),
    ridge=Fraction(30),
    epsilon=Fraction(1, 3),
    schema_sha256="ab" * 32,
    public_sha256="cd" * 32,
    replicate=2,
)


@pytest.mark.parametrize("coding", [BOX, GEOMETRY], ids=["box", "geometry"])
def test_a_query_is_read_back_exactly(coding):
    query = replace(QUERY, model=replace(QUERY.model, coding=coding), perturbs="output", delta=Fraction(1, 10**6))
    assert query_from_json(query.to_json()) == query


@pytest.mark.parametrize(
    "changes",
    [
        {"perturbs": "input"},
        {"public_sha256": None},
        {"hessian_share": Fraction(1, 10)},
        {"centre": (0.0, 0.0)},
        {"ridge": Fraction(1, 3)},
        {"epsilon": Fraction(0)},
    ],
)
def test_queries_that_contradict_themselves_are_refused(changes):
    with pytest.raises(MechanismError):
        replace(QUERY, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"location": (0.25,)},
        {"location": (float("nan"), 0.0)},
        {"scale": (0.0, 1.0)},
        {"scale": (float("inf"), 1.0)},
        {"lower": (0.1, -1.0)},
        {"upper": (-0.1, 1.0)},
        {"lower": (0.0, -1.0), "upper": (0.0, 1.0)},
        {"upper": (float("inf"), 1.0)},
    ],
)
def test_boxes_that_are_none_are_refused(changes):
    with pytest.raises(MechanismError):
        replace(BOX, **changes)


def test_models_of_other_columns_than_their_coding_are_refused():
    for columns in ((), ("age",), ("age", "age")):
        with pytest.raises(MechanismError):
            replace(QUERY.model, columns=columns)


@pytest.mark.parametrize("text", ["kind", "columns", "perturbs"])
def test_texts_that_are_no_query_are_refused(text):
    fields = json.loads(QUERY.to_json())
    if text == "perturbs":
        del fields["perturbs"]
    elif text == "kind":
        fields["model"]["kind"] = "regression"
    else:
        fields["model"]["columns"] = 3
    with pytest.raises(SiteError):
        query_from_json(json.dumps(fields))
