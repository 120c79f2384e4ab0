"""Records are read strictly: hostile text is refused by an error of the package, and needs no more than its size."""

import json
from abc import ABC
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError, HdpError, MechanismError, SiteError
from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.records.codec import LEFT_OUT, NAN_IS_NULL, AtMost, Record, from_dict, to_dict
from hdpstats.records.geometry import Source
from hdpstats.records.saved import frame_from_dict


@dataclass(frozen=True, kw_only=True, slots=True)
class One(Record):
    kind: ClassVar[str] = "one"
    number: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Two(Record):
    kind: ClassVar[str] = "two"
    count: int

    def __post_init__(self) -> None:
        """Compute with what any whole number may break."""
        float(self.count)


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole(Record):
    name: str
    share: Fraction
    source: Source
    part: One | Two
    pair: tuple[int, str]
    rows: tuple[tuple[float, ...], ...]
    matrix: FloatArray
    missing: Annotated[float, NAN_IS_NULL]
    few: Annotated[tuple[int, ...], AtMost(size=2, what="few")]
    place: Annotated[int | None, LEFT_OUT] = None
    given: bool | None = None


WHOLE = Whole(
    name="é",
    share=Fraction(-1, 3),
    source=Source.SCHEMA_BOX,
    part=Two(count=3),
    pair=(1, "a"),
    rows=((0.1, 5e-324), ()),
    matrix=np.array([[1.0, np.nan], [-0.0, 1 / 3]]),
    missing=float("nan"),
    few=(1, 2),
)


def text(record):
    return json.dumps(to_dict(record), allow_nan=False)


def test_a_record_comes_back_to_the_last_bit():
    again = Whole.from_dict(json.loads(text(WHOLE)))
    assert text(again) == text(WHOLE)
    assert again.matrix.tobytes() == WHOLE.matrix.tobytes()
    assert (again.part, again.rows, again.source) == (WHOLE.part, WHOLE.rows, WHOLE.source)
    assert again.missing != again.missing
    assert "place" not in to_dict(WHOLE)


@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 3), (2, 0), (3,)])
def test_arrays_keep_their_shape(shape):
    assert (
        Whole.from_dict(
            WHOLE.to_dict() | {"matrix": {"shape": list(shape), "numbers": [0.5] * int(np.prod(shape))}}
        ).matrix.shape
        == shape
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 3),
        ("name", None),
        ("share", 0.5),
        ("share", "1/0"),
        ("share", "1e999999999"),
        ("share", "9" * 5000),
        ("source", "elsewhere"),
        ("source", []),
        ("part", {"kind": "three"}),
        ("part", {"kind": ["one"]}),
        ("part", {"kind": "one", "count": 3}),
        ("part", {"kind": "two", "count": True}),
        ("part", {"kind": "two", "count": 3.0}),
        ("part", {"kind": "two", "count": 10**400}),
        ("part", {"kind": "one", "number": float("inf")}),
        ("part", {"number": 1.0}),
        ("pair", [1]),
        ("pair", [1, "a", 2]),
        ("pair", "1a"),
        ("rows", [[0.1], 3]),
        ("rows", {"0": [0.1]}),
        ("matrix", {"shape": [2**40, 2**40], "numbers": [0.0]}),
        ("matrix", {"shape": [0, 10**30], "numbers": []}),
        ("matrix", {"shape": [-1], "numbers": []}),
        ("matrix", {"shape": [0] * 100, "numbers": []}),
        ("matrix", {"shape": [1] * 20_000, "numbers": [0.0]}),
        ("matrix", {"shape": [1], "numbers": ["1"]}),
        ("matrix", [[1.0]]),
        ("missing", float("nan")),
        ("given", 0),
        ("other", 1),
    ],
)
def test_what_is_of_another_type_is_refused_by_the_name_of_its_field(name, value):
    with pytest.raises(ArgumentError, match=f"{name}|an object with"):
        Whole.from_dict(WHOLE.to_dict() | {name: value})


@pytest.mark.parametrize("name", [name for name in to_dict(WHOLE) if name != "place"])
def test_a_missing_key_is_refused(name):
    with pytest.raises(ArgumentError):
        Whole.from_dict({key: value for key, value in WHOLE.to_dict().items() if key != name})


def test_a_list_beyond_its_limit_is_refused_unread():
    with pytest.raises(MechanismError, match="at most 2 few"):
        Whole.from_dict(WHOLE.to_dict() | {"few": ["never read"] * 3})


@pytest.mark.parametrize("kind", ["rounds/1", "sites/1"])
def test_a_fit_of_too_many_queries_or_releases_is_refused_unread(kind):
    name, size = ("sites", 1001) if kind == "sites/1" else ("rounds", 65)
    text = json.dumps({"kind": kind, name: ["never read"] * size})
    for read in (query_from_json, release_from_json):
        with pytest.raises(MechanismError, match=f"at most {size - 1} {name} of a fit"):
            read(text)


class Undeclared(Record, ABC):
    """A class whose kinds nobody declared."""


def test_a_class_without_declared_kinds_says_what_to_import():
    with pytest.raises(ArgumentError, match=r"import hdpstats\.mechanisms\.registry first"):
        Undeclared.from_dict({"kind": "one"})


FRAME = {"rows": 2, "columns": {"x": {"type": "numbers", "cells": [0.5, None]}}}


@pytest.mark.parametrize(
    "column",
    [
        {"type": "numbers", "cells": [0.5, "1.5"]},
        {"type": "numbers", "cells": [0.5, True]},
        {"type": "numbers", "cells": [0.5]},
        {"type": "numbers", "cells": [0.5, None], "other": 1},
        {"type": "numbers", "cells": {"0": 0.5, "1": 1.5}},
        {"type": "whole numbers", "cells": [1, 1.5]},
        {"type": "whole numbers", "cells": [1, None]},
        {"type": "texts", "cells": ["a", 1]},
        {"type": "levels", "levels": ["a", "b"], "cells": [0, 0.0]},
        {"type": "levels", "levels": ["a", "b"], "cells": [0, 2]},
        {"type": "levels", "levels": ["a", 1.0], "cells": [0, 1]},
        {"type": "texts", "levels": ["a"], "cells": ["a", "a"]},
        {"cells": ["a", "a"]},
        "ab",
    ],
)
def test_a_frame_is_read_as_strictly_as_records(column):
    assert frame_from_dict(FRAME)["x"].isna().tolist() == [False, True]
    with pytest.raises((ValueError, TypeError, KeyError)):
        frame_from_dict({"rows": 2, "columns": {"x": column}})
    with pytest.raises(ValueError, match="nothing else"):
        frame_from_dict(FRAME | {"other": 1})


def test_no_text_raises_anything_but_an_error_of_the_package():
    deep = '{"kind":"sites/1","sites":[["a",' * 400 + "1" + "]]}" * 400
    count = json.loads(CountQuery(epsilon=Fraction(1), schema_sha256="a" * 64).to_json())
    texts = ["[" * 100_000, '{"a":' * 100_000, deep, json.dumps(count | {"replicate": [[]] * 10})]
    texts += [json.dumps(count | {name: value}) for name in count for value in (None, [], {}, -1, 1e308, "", True)]
    for each in texts:
        for read in (query_from_json, release_from_json):
            try:
                read(each)
            except HdpError:
                continue
    with pytest.raises(SiteError):
        query_from_json(deep)
    with pytest.raises(ArgumentError, match="of a kind that is known"):
        from_dict(Whole, WHOLE.to_dict() | {"part": {"kind": "sites/1"}})
