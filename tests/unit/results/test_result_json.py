"""Results go to JSON and back without losing a bit, and hold no rows."""

import json
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hdpstats._base.errors import ArgumentError
from hdpstats.records.estimate import ErrorDistribution, Estimate
from hdpstats.results import Result
from tests.examples import examples

ESTIMATES = ("estimate", "public_only", "private_only", "pooled")
NUMBERS = st.floats(allow_infinity=False)


def bits(array):
    """The bits of an array, every NaN alike."""
    return np.where(np.isnan(array), np.nan, array).tobytes()


def assert_same_estimate(one, other):
    if one is None:
        assert other is None
        return
    assert (one.label, one.terms, one.note) == (other.label, other.terms, other.note)
    for name in ("values", "sampling", "privacy"):
        assert bits(getattr(one, name)) == bits(getattr(other, name))
        assert getattr(one, name).shape == getattr(other, name).shape
    assert (one.distribution is None) == (other.distribution is None)
    if one.distribution is not None:
        assert bits(one.distribution.levels) == bits(other.distribution.levels)
        assert bits(one.distribution.quantiles) == bits(other.distribution.quantiles)
        assert one.distribution.quantiles.shape == other.distribution.quantiles.shape


@pytest.mark.parametrize("kind", ["result", "public_result", "silent_result"])
def test_everything_comes_back(kind, request, tmp_path):
    one = request.getfixturevalue(kind)
    path = tmp_path / "result.json"
    text = one.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    for other in (Result.from_json(text), Result.from_json(path), Result.from_json(str(path))):
        for name in ("facts", "schema", "query", "release", "guarantee"):
            assert getattr(one, name) == getattr(other, name)
        assert list(one.schema) == list(other.schema)
        for name in ESTIMATES:
            assert_same_estimate(getattr(one, name), getattr(other, name))
        assert other.to_json() == text
        assert str(other) == str(one)


def test_the_text_is_strict_json(silent_result):
    def refuse(constant):
        raise AssertionError(constant)

    document = json.loads(silent_result.to_json(), parse_constant=refuse)
    assert document["format"] == 7
    assert document["estimate"]["values"][3] is None


@examples(200)
@given(values=arrays(np.float64, 3, elements=NUMBERS), square=arrays(np.float64, (3, 3), elements=NUMBERS))
def test_any_number_comes_back(values, square):
    distribution = ErrorDistribution(levels=np.array([0.0, 0.5]), quantiles=square[:2])
    one = Estimate(
        label="x", terms=("a", "b", "c"), values=values, sampling=square, privacy=square.T, distribution=distribution
    )
    text = json.dumps(one.to_dict(), allow_nan=False)
    assert_same_estimate(one, Estimate.from_dict(json.loads(text)))


@pytest.mark.parametrize("number", [1, 6])
def test_another_format_is_refused(result, number):
    """Results of format 6 that were fitted to weighted rows do not state what the weights' description cost."""
    text = result.to_json().replace('"format":7', f'"format":{number}', 1)
    with pytest.raises(ArgumentError, match=rf"format 7, not {number}; .*make it anew"):
        Result.from_json(text)


def broken(document, change):
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("facts"),
        lambda d: d.pop("format"),
        lambda d: d["facts"].pop("model"),
        lambda d: d["facts"].update(model=3),
        lambda d: d["facts"].update(records="many"),
        lambda d: d.update(schema=None),
        lambda d: d.update(estimate=None),
        lambda d: d[d["estimate"]]["values"].pop(),
        lambda d: d[d["estimate"]].update(sampling=[1.0]),
        lambda d: d[d["estimate"]].update(values=["a"] * 5),
        lambda d: d["released"]["query"].update(kind="another"),
        lambda d: d["released"]["release"].update(theta=None),
        lambda d: d["released"]["release"]["entry"].pop("head"),
        lambda d: d["released"]["guarantee"].update(epsilon="much"),
        lambda d: d["released"]["guarantee"].update(relation="none"),
        lambda d: d["released"].update(guarantee=None),
        lambda d: d["facts"].update(loss="hinge"),
    ],
)
def test_broken_text_is_an_argument_error(result, change):
    document = json.loads(result.to_json())
    Result.from_json(json.dumps(document))
    change(document)
    with pytest.raises(ArgumentError):
        Result.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["{", "{}", '{"format": NaN}', " {not json}"])
def test_other_text_is_an_argument_error(text):
    with pytest.raises(ArgumentError, match="not a result"):
        Result.from_json(text)


def test_an_absent_file_is_an_argument_error(tmp_path):
    with pytest.raises(ArgumentError, match="no file"):
        Result.from_json(tmp_path / "absent.json")


def lengths(thing, seen=None):
    """Yield the length of every axis of everything that a thing holds."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | bytes | int | float | None):
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray | pd.Series | pd.DataFrame):
        yield from thing.shape
    elif isinstance(thing, dict | list | tuple | set | frozenset):
        yield len(thing)
        for part in [*thing, *(thing.values() if isinstance(thing, dict) else [])]:
            yield from lengths(part, seen)
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from lengths(getattr(thing, field.name), seen)
    else:
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        for part in [*(getattr(thing, name, None) for name in slots), getattr(thing, "__dict__", None)]:
            yield from lengths(part, seen)


def test_a_result_holds_nothing_with_one_entry_per_private_record(result):
    for thing in (result, json.loads(result.to_json()), result.disclosure()):
        found = set(lengths(thing))
        assert len(found) > 2
        assert max(found) < result.facts.records / 10


@pytest.mark.parametrize("place", ["note", "distribution"])
def test_the_walk_finds_rows_where_there_are_some(result, place):
    rows = np.zeros(result.facts.records)
    distribution = ErrorDistribution(levels=rows, quantiles=np.zeros((len(rows), 5)))
    hidden = replace(result.estimate, **{place: {"deep": [(rows,)]} if place == "note" else distribution})
    assert result.facts.records in set(lengths(replace(result, estimate=hidden)))
