"""Arguments that R gives by name: checked before they are used, and made what Python's functions expect.

Only their shape is checked here. An argument of the wrong kind is quoted in the message of the
function that gets it; a table or a vector of many values could be somebody's data, and is refused before.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from hdpstats.api import ArgumentError

_TABLES: Final = frozenset({"data", "public", "frame", "newdata", "at", "over"})
"""Arguments that may be tables; the functions that get them never quote them."""

_LISTS: Final = frozenset({"private", "results"})
"""Arguments that may be tables or lists of anything; these are never quoted either."""

_VECTORS: Final = frozenset(
    {
        "columns",
        "features",
        "follow_up",
        "std_error",
        "levels",
        "labels",
        "keys",
        "knots",
        "times",
        "intervals",
        "probabilities",
        "probs",
        "between",
        "names",
        "cert",
        "values",
        "coefficients",
        "shares",
        "strata",
        "terms",
        "badges",
        "events",
        "notes",
    }
)
"""Arguments that may have several values, all of them declared or public, or names of files."""

_NAMED_VECTORS: Final = frozenset({"columns", "ranges", "statements"})
"""Arguments that are lists of such."""

_PER_SITE: Final = frozenset({"n_max", "row_order"})
"""Arguments that may have one value for each site, by its name."""

_R_CLASSES: Final = {
    hdp.Schema: "dp_schema",
    hdp.Study: "dp_study",
    hdp.RemoteSite: "dp_site",
    hdp.Result: "dp_result",
    hdp.Aggregate: "dp_aggregate",
    hdp.WeightedSample: "dp_weighted_sample",
    hdp.Description: "dp_description",
    hdp.DescriptionRequest: "dp_description_request",
    hdp.Weighting: "dp_weights",
    hdp.TreatmentEffect: "dp_treatment_effect",
    hdp.TreatmentEffectRequest: "dp_effect_request",
    hdp.CombinedEffect: "dp_combined_effect",
    hdp.Balance: "dp_weighted_balance",
    hdp.SurvivalCurves: "dp_curves",
}


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in inspect.signature(function).parameters.values() if parameter.kind in kinds]


def check(function: Callable[..., Any], given: Iterable[str], *, name: str, also: Iterable[str] = ()) -> None:
    """Refuse arguments that a function does not have, and the lack of those that it needs.

    ``also`` are further names that ``name`` takes, for the message.

    Raises
    ------
    ArgumentError
        Which ones, and what the function takes.
    """
    parameters = inspect.signature(function).parameters.values()
    passed, names = set(given), argument_names(function)
    open_ended = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [] if open_ended else sorted(passed - set(names))
    if unknown:
        takes = ", ".join([*also, *(name for name in names if name not in also)])
        raise ArgumentError(f"{name} has no argument {unknown[0]!r}; it takes {takes or 'none'}", argument=unknown[0])
    required = [parameter for parameter in parameters if parameter.default is inspect.Parameter.empty]
    absent = [parameter.name for parameter in required if parameter.name in names and parameter.name not in passed]
    if absent:
        raise ArgumentError(f"{name} needs {absent[0]}, which is missing or NULL", argument=absent[0])


def checked_call(function: Callable[..., Any], given: Mapping[str, Any], *, name: str) -> Any:
    """Call a function with arguments by name, after `check`."""
    check(function, given, name=name)
    return function(**given)


def instance(value: object, *kinds: type, argument: str = "x") -> Any:
    """Return a value that is an object of the first of these kinds, or of another of them.

    Raises
    ------
    ArgumentError
        If it is none; the message has the R class of the first kind.
    """
    if not isinstance(value, kinds):
        expected = _R_CLASSES[kinds[0]]
        raise ArgumentError(f"{argument} must be a {expected}, not {type(value).__name__}", argument=argument)
    return value


def method(kinds: tuple[type, ...], argument: str, name: str, /, **given: Any) -> Any:
    """Call a method of the object that an argument holds; R's ``newdata`` is Python's ``frame``.

    In R sites and schemas have these names, and all other objects are ``x``.
    """
    named = argument if argument in ("site", "schema") else "x"
    chosen = instance(given.pop(argument, None), *kinds, argument=named)
    if "newdata" in given:
        given["frame"] = given.pop("newdata")
    return checked_call(getattr(chosen, name), given, name=name)


def single_values(given: Mapping[str, Any], *, vectors: Iterable[str] = ()) -> dict[str, Any]:
    """Return the arguments; a vector of length 1 with a name, as ``quantile`` returns it, becomes its value.

    Parameters
    ----------
    given
        The arguments by name, and lists of named elements, whose elements are treated alike.
    vectors
        Names, beyond those that are known here, of arguments that may have several values.

    Raises
    ------
    ArgumentError
        If another argument is a table or has several values: its name, and nothing of what it holds.
    """
    return {name: _single_value(name, value, vectors) for name, value in given.items()}


def _single_value(name: str, value: Any, vectors: Iterable[str]) -> Any:
    if isinstance(value, dict) and name not in _LISTS:
        return single_values(value, vectors=value if name in _NAMED_VECTORS else vectors)
    if name in _TABLES or name in _LISTS:
        return value
    if isinstance(value, pd.DataFrame):
        raise ArgumentError(f"{name} must not be a table; a column is given by its name", argument=name)
    several = name in _VECTORS or name in vectors or (name in _PER_SITE and _has_names(value))
    if several or not isinstance(value, pd.Series | np.ndarray | list):
        return value
    if len(value) != 1:
        raise ArgumentError(
            f"{name} takes one value, not {len(value)} of them; a column is given by its name", argument=name
        )
    return plain(next(iter(value)))


def plain(value: Any) -> Any:
    """Return a number of numpy's as Python's, which messages quote as it is; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _has_names(value: Any) -> bool:
    return isinstance(value, pd.Series) and not isinstance(value.index, pd.RangeIndex)


def per_site(value: Any, sites: Collection[str], *, name: str, requirement: str) -> Any:
    """Return ``c(Oslo = 1, Bergen = 0.5)`` as the numbers of these sites by name; anything else as it is.

    At one site a vector of length 1 is a number, whatever its name is: ``c(epsilon = 1)`` is what R makes of a total.
    ``requirement`` is what the argument must be or have, before the names of the sites.

    Raises
    ------
    ArgumentError
        If the names are other ones; the message has those of the sites, and nothing of what was given.
    """
    if not isinstance(value, pd.Series | np.ndarray | list):
        return value
    if len(value) == 1 and len(sites) <= 1:
        return plain(next(iter(value)))
    names = list(value.index) if isinstance(value, pd.Series) and _has_names(value) else []
    if len(names) != len(value) or len(names) != len(sites) or set(names) != set(sites):
        of_sites = f"{requirement} {', '.join(map(repr, sites))}" if sites else "be one number"
        raise ArgumentError(f"{name} must {of_sites}", argument=name)
    return dict(zip(names, map(plain, value), strict=True))


def by_name(value: Any) -> Any:
    """Return ``c(age = 0.01)`` and ``list(age = 0.01)`` as numbers by name; anything else as it is."""
    return dict(zip(value.index, value.tolist(), strict=True)) if _has_names(value) else value


def whole(value: Any) -> Any:
    """Return R's 24 as Python's 24; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def elements(value: Any) -> list[Any]:
    """Return the elements of an R vector of any length, or of a list; None for NA."""
    if isinstance(value, pd.Series):
        return [None if pd.isna(cell) else cell for cell in value.tolist()]
    return [plain(item) for item in value] if isinstance(value, list | tuple) else [value]


def column_names(columns: Any, most: int) -> list[str]:
    """Return names of columns; what cannot be names, such as the values of a column, is refused and not quoted."""
    names = elements(columns)
    if len(names) > most or not all(isinstance(name, str) for name in names):
        raise ArgumentError("columns must be names of the schema's columns, each once", argument="columns")
    return names


def _intervals(cuts: Any) -> Any:
    return elements(cuts) if isinstance(cuts, pd.Series | list) else whole(cuts)


def _ranges(given: Any) -> dict[str, tuple[float, float]]:
    """Return the ranges of ``list(rate = c(0.1, 10))``; what is none is refused and not quoted."""
    pairs = {name: elements(pair) for name, pair in given.items()} if isinstance(given, dict) else {}
    numbers = [isinstance(bound, int | float) for pair in pairs.values() for bound in pair]
    if not pairs or not all(numbers) or {len(pair) for pair in pairs.values()} != {2}:
        raise ArgumentError("ranges must name pairs of numbers: list(rate = c(0.1, 10))", argument="ranges")
    return {name: (low, high) for name, (low, high) in pairs.items()}


def _loss(given: Any) -> Any:
    """Return the loss of "huber", or of ``list(name = "huber", c = 4)``."""
    options = dict(given) if isinstance(given, dict) else {"name": given}
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in _LOSSES:
        raise ArgumentError(f"loss must be one of {', '.join(_LOSSES)}, or a list with that name", argument="loss")
    return checked_call(_LOSSES[name], options, name=f"loss {name!r}")


def _mechanism(given: Any) -> Any:
    """Return the mechanism of ``list(name = "clipped_newton", rounds = 2)``; a name stays one."""
    if not isinstance(given, dict):
        return given
    options = dict(given)
    name = options.pop("name", None)
    if name not in hdp.mechanisms.BY_NAME:
        names = ", ".join(hdp.mechanisms.BY_NAME)
        raise hdp.MechanismError(f"mechanism must be a list with name = one of {names}, not {name!r}")
    return checked_call(hdp.mechanisms.BY_NAME[name], converted(options), name=f"mechanism {name!r}")


def _counted_from_one(frame: object) -> object:
    """Return a frame whose rows, where they have no names of their own, are numbered as R numbers them."""
    if isinstance(frame, pd.DataFrame) and isinstance(frame.index, pd.RangeIndex):
        return frame.set_axis(pd.RangeIndex(1, len(frame) + 1), axis=0)
    return frame


_LOSSES: Final[dict[str, Callable[..., Any]]] = {
    loss.title.lower(): loss for loss in hdp.losses.OPTIONS if loss is not hdp.losses.Loss
}
_COUNTS: Final = (
    *("replicate", "n", "df", "n_max", "max_rows_per_unit", "version", "rounds", "bins", "blocks", "quorum", "seed"),
)
_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_COUNTS, whole),
    **dict.fromkeys(("knots", "times", "probabilities", "names", "cert"), elements),
    "intervals": _intervals,
    "loss": _loss,
    "mechanism": _mechanism,
    "newdata": _counted_from_one,
    "ranges": _ranges,
}
"""What becomes of an argument by its name: R has no whole numbers by default, and no single values beside vectors."""


def converted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of R in the types that Python's functions expect."""
    return {name: _CONVERSIONS[name](value) if name in _CONVERSIONS else value for name, value in given.items()}


def choice(value: object, name: str, options: Sequence[str]) -> str:
    """Return one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ArgumentError(f"{name} must be one of {', '.join(options)}, not {value!r}", argument=name)
    return value
