"""JSON values of records, made and read back from the types of their fields; canonical JSON and its hash.

======================================  =====================================================================
type of a field                         JSON value
======================================  =====================================================================
``bool``, ``int``, ``str``, ``None``    itself
``float``                               a finite number; with `NAN_IS_NULL` also null, which stands for NaN
``Fraction``, an enumeration            a string: ``"1/3"``, the member's value
``tuple``, fixed or of any length       a list
an array                                a list; its shape and its numbers, row by row, where it has more than one axis;
                                        null stands for NaN
a record (a dataclass)                  an object with a key for each field that ``__init__`` takes
a record with a ``kind``                the same, with the kind
a union of records                      the record; its ``kind`` says which one
an abstract class                       as a union of the kinds that were declared for it (`declare_kinds`)
a class with ``to_dict``, ``from_dict`` what these make of it
======================================  =====================================================================

Reading is strict: a key that is missing or that no field has, another type, a number that is not finite, and text that
a record refuses are errors. It takes time and memory in proportion to the text, whatever the text is. Values are
validated where records are made, in ``__post_init__``. What is derived from types is derived once.

**Canonical JSON** (`dumps`, `sha256`) has one spelling per value, so that a hash of it names the value. Floats are
written with their shortest exact decimal form, keys are sorted, NaN and infinities are refused.
"""

import hashlib
import json
import math
import types
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Final, Self, TypeVar, Union, cast, final, get_args, get_origin, get_type_hints

import numpy as np

from hdpstats._base import typing
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import check_size, rational

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def _encode(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no canonical JSON form")


def dumps(value: object) -> str:
    """Return the canonical JSON text of a value made of dicts, lists, numbers, strings and fractions."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_encode)


def loads(text: str) -> Any:
    """Read JSON text; ValueError for NaN and infinities, and for what is nested too deeply."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


MOST_CONTAINERS: Final = 10_000
"""Lists and objects in a text from outside, those within others counted too."""
MOST_ITEMS: Final = 200_000
"""Items of all its lists and objects together."""


def excess(text: str) -> tuple[str, int, int] | None:
    """Return which parts JSON text has too many of, how many, and the limit; None where `bounded` returns it."""
    counted = (
        ("lists and objects", text.count("[") + text.count("{"), MOST_CONTAINERS),
        ("items", text.count(","), MOST_ITEMS),
    )
    return next((each for each in counted if each[1] > each[2]), None)


def bounded(text: str) -> str:
    """Return JSON text from outside that can be read quickly, or raise a ValueError.

    Reading JSON stops all threads of a process, and takes as long as there are lists, objects and numbers, which bytes
    alone do not bound: a megabyte holds 330,000 empty lists. They are counted before anything is read, as characters:
    those within strings count as well. No text is nested deeper than it has lists and objects.

    >>> bounded('{"a": [1, 2]}')
    '{"a": [1, 2]}'
    """
    if excess(text) is not None:
        raise ValueError("JSON with too many lists, objects or items")
    return text


def sha256(value: object) -> str:
    """Return the SHA-256 (64 hex digits) of the canonical JSON of a value."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()


NAN_IS_NULL: Final = "NaN is null"
"""Marks a float that may be NaN: ``Annotated[float, NAN_IS_NULL]``."""

LEFT_OUT: Final = typing.LEFT_OUT
"""Marks a field whose key is left out where it is None, and only then."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AtMost:
    """Marks a tuple that is refused unread where it is longer: ``Annotated[tuple[Spend, ...], AtMost(...)]``."""

    size: int
    what: str


Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


@final
@dataclass(frozen=True, slots=True)
class WrittenBy:
    """Marks a field that functions of its own write and read: ``Annotated[pd.DataFrame, WrittenBy(write, read)]``."""

    write: Write
    read: Read


_T = TypeVar("_T")

MOST_DIMENSIONS = 8
"""Of an array: reading the sizes of more would take longer than the text is long."""
_KINDS: dict[type, Mapping[str, type]] = {}


class Record:
    """A record that is written as JSON values and read back, from the types of its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values: see `hdpstats.records.codec`."""
        return to_dict(self)

    @classmethod
    def from_dict(cls, entries: object) -> Self:
        """Read what `to_dict` wrote, or raise ArgumentError, or what the record's own validation raises."""
        return from_dict(cls, entries)


class _MismatchError(ValueError):
    """A value of another type than its field's; ``path`` leads to it."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected, self.path = expected, ""


def declare_kinds(base: type, kinds: Mapping[str, type]) -> None:
    """Say which records stand for an abstract class in JSON, by their ``kind``."""
    _KINDS[base] = kinds


def to_dict(record: object) -> dict[str, Any]:
    """Return a record as JSON values."""
    kind: Any = type(record)
    return cast(dict[str, Any], _of_class(kind)[0](record))


def from_dict(cls: type[_T], entries: object) -> _T:
    """Read what `to_dict` wrote.

    Raises
    ------
    ArgumentError
        The value is not that of such a record; the message names the field and what it must be, and quotes nothing.
    HdpError
        The record's own validation refuses it.
    """
    try:
        return cast(_T, _of_class(cast(Any, cls))[1](entries))
    except _MismatchError as error:
        where = f"{error.path} of {cls.__name__}" if error.path else cls.__name__
        raise ArgumentError(f"{where} must be {error.expected}", argument=error.path or cls.__name__) from None
    except RecursionError:
        raise ArgumentError(f"{cls.__name__} must not be nested that deeply", argument=cls.__name__) from None


def _itself(value: Any) -> Any:
    return value


@cache
def _of_type(annotation: Any) -> tuple[Write, Read]:
    """Return how values of a type are written and read."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _marked(*inner)
    if origin in (Union, types.UnionType):
        return _union(inner)
    if origin is tuple:
        return (
            _sequence(_of_type(inner[0]))
            if inner[1:] == (...,)
            else _places([_of_type(argument) for argument in inner])
        )
    if origin is np.ndarray:
        return _array(np.dtype(get_args(inner[1])[0]))
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type):
        return _of_class(annotation)
    raise TypeError(f"a record cannot have a field of type {annotation}")


@cache
def _of_class(cls: type) -> tuple[Write, Read]:
    if hasattr(cls, "to_dict") and not issubclass(cls, Record):
        kind = getattr(cls, "kind", None)
        return (_itself_with(kind), _own(cls, kind))
    if issubclass(cls, StrEnum):
        return str, _choice({member.value: member for member in cls})
    if ABC in cls.__bases__:
        return to_dict, lambda value: _by_kind(_KINDS.get(cls, {}), value)
    return _record(cls)


def _exactly(kind: type, expected: str) -> tuple[Write, Read]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _MismatchError(expected)
        return value

    return _itself, read


def _number(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and abs(value) <= 2**53:
        return float(value)
    raise _MismatchError("a finite number")


def _fraction(value: Any) -> Fraction:
    try:
        return rational(value, name="it")
    except ArgumentError:
        raise _MismatchError("a fraction such as '1/10'") from None


_PLAIN: Final[dict[Any, tuple[Write, Read]]] = {
    float: (_itself, _number),
    Fraction: (str, _fraction),
    str: _exactly(str, "a string"),
    int: _exactly(int, "a whole number"),
    bool: _exactly(bool, "true or false"),
    type(None): _exactly(type(None), "null"),
}


def _choice(members: Mapping[str, Any]) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in members:
            raise _MismatchError("one of " + ", ".join(map(repr, members)))
        return members[value]

    return read


def _marked(annotation: Any, mark: object) -> tuple[Write, Read]:
    if isinstance(mark, WrittenBy):
        return mark.write, lambda value: _made(mark.read, [value], {})
    write, read = _of_type(annotation)
    if mark == NAN_IS_NULL:
        return (
            lambda value: None if math.isnan(value) else value,
            lambda value: math.nan if value is None else read(value),
        )
    if isinstance(mark, AtMost):

        def bounded(value: Any) -> Any:
            check_size(mark.what, len(_listed(value)), mark.size, remedy="give fewer")
            return read(value)

        return write, bounded
    return write, read


def _null_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _MismatchError("a list")
    return value


def _sequence(part: tuple[Write, Read]) -> tuple[Write, Read]:
    write, read = part
    if write is _itself:
        return list, lambda value: tuple([read(item) for item in _listed(value)])
    return lambda value: [write(item) for item in value], lambda value: tuple([read(item) for item in _listed(value)])


def _places(parts: list[tuple[Write, Read]]) -> tuple[Write, Read]:
    def read(value: Any) -> tuple[Any, ...]:
        if len(_listed(value)) != len(parts):
            raise _MismatchError(f"a list of {len(parts)}")
        return tuple(read_or_write(one) for (_, read_or_write), one in zip(parts, value, strict=True))

    return lambda value: [write(one) for (write, _), one in zip(parts, value, strict=True)], read


def _array(dtype: "np.dtype[Any]") -> tuple[Write, Read]:
    real = dtype.kind == "f"

    def write(value: Any) -> Any:
        numbers = value.ravel().tolist()
        written = [_null_for_nan(number) for number in numbers] if real else numbers
        return written if value.ndim == 1 else {"shape": list(value.shape), "numbers": written}

    one = (lambda value: math.nan if value is None else _number(value)) if real else _PLAIN[int][1]

    def read(value: Any) -> Any:
        flat = {"shape": [len(value)], "numbers": value} if isinstance(value, list) else value
        if not isinstance(flat, dict) or flat.keys() != {"shape", "numbers"}:
            raise _MismatchError("an array: a list, or a shape and numbers")
        numbers, shape = [one(number) for number in _listed(flat["numbers"])], _listed(flat["shape"])
        is_shape = len(shape) <= MOST_DIMENSIONS and all(type(size) is int and 0 <= size <= 2**40 for size in shape)
        if not is_shape or math.prod(shape) != len(numbers):
            raise _MismatchError("an array with as many numbers as its shape says")
        try:
            return np.array(numbers, dtype=dtype).reshape(shape)
        except (ValueError, OverflowError):
            raise _MismatchError("an array of numbers") from None

    return write, read


def _union(inner: tuple[Any, ...]) -> tuple[Write, Read]:
    rest = [argument for argument in inner if argument is not type(None)]
    if len(rest) == 1:
        write, read = _of_type(rest[0])
    else:
        kinds = {option.kind: option for option in rest}
        write, read = to_dict, lambda value: _by_kind(kinds, value)
    if len(rest) == len(inner):
        return write, read
    return lambda value: None if value is None else write(value), lambda value: None if value is None else read(value)


def _by_kind(kinds: Mapping[str, type], value: Any) -> Any:
    if not kinds:
        raise _MismatchError("read after its kinds were declared: import hdpstats.mechanisms.registry first")
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise _MismatchError("an object of a kind that is known here")
    return _of_class(kinds[kind])[1](value)


def _itself_with(kind: str | None) -> Write:
    return lambda value: value.to_dict() if kind is None else {"kind": kind} | value.to_dict()


def _own(cls: Any, kind: str | None) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, dict) or value.get("kind", kind) != kind:
            raise _MismatchError("an object of its kind")
        return _made(cls.from_dict, [{key: item for key, item in value.items() if kind is None or key != "kind"}], {})

    return read


def _record(cls: Any) -> tuple[Write, Read]:
    hints = get_type_hints(cls, include_extras=True)
    parts = {field.name: _of_type(hints[field.name]) for field in fields(cls) if field.init}
    optional = {name for name in parts if LEFT_OUT in getattr(hints[name], "__metadata__", ())}
    kind = None if "kind" in parts else getattr(cls, "kind", None)
    tag = {} if kind is None else {"kind": kind}
    allowed, needed = parts.keys() | tag.keys(), (parts.keys() - optional) | tag.keys()

    def write(record: Any) -> dict[str, Any]:
        written = dict(tag)
        for name, (part, _) in parts.items():
            value = getattr(record, name)
            if value is not None or name not in optional:
                written[name] = part(value)
        return written

    def read(value: Any) -> Any:
        if not isinstance(value, dict) or not needed <= value.keys() <= allowed or value.get("kind", kind) != kind:
            raise _MismatchError("an object with " + ", ".join(sorted(allowed)))
        arguments = {}
        for name, (_, part) in parts.items():
            if name in value:
                try:
                    arguments[name] = part(value[name])
                except _MismatchError as error:
                    error.path = f"{name}.{error.path}" if error.path else name
                    raise
            elif name in optional:
                arguments[name] = None
        return _made(cls, [], arguments)

    return write, read


def _made(make: Callable[..., Any], parts: list[Any], named: dict[str, Any]) -> Any:
    """Make a record; what its validation could not even compare or compute with is no value of it."""
    try:
        return make(*parts, **named)
    except HdpError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
        raise _MismatchError("what it stands for") from None
