"""From arrays, as statsmodels takes them, to a formula and a study."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import shown, truth
from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Budget
from hdpstats.schema.columns import Binary, Column, Continuous
from hdpstats.schema.schema import Schema
from hdpstats.sites import Study

Covariates = npt.ArrayLike | pd.DataFrame
Bounds = Sequence[tuple[float, float]] | npt.NDArray[Any]

OUTCOME = "y"


def column_names(exog: object, *, count: int) -> list[str]:
    """Return the names of the covariates: a frame's labels, else x1, x2, ..."""
    if isinstance(exog, pd.DataFrame):
        names = [str(name) for name in exog.columns]
    else:
        shape = np.shape(np.asarray(exog, dtype=object))
        names = [f"x{j + 1}" for j in range(shape[1] if len(shape) == 2 else 1)]
    if len(names) != count:
        raise ArgumentError(
            f"exog_bounds must have one pair per column of exog: {len(names)} columns, {count} pairs",
            argument="exog_bounds",
        )
    if len(set(names)) != len(names) or OUTCOME in names:
        raise ArgumentError(f"exog must have distinct column names, none of them {OUTCOME!r}", argument="exog")
    return names


def pairs_of(bounds: object) -> list[tuple[object, object]]:
    """Return the pairs (lower, upper) in a list, a tuple or an array of shape (p, 2)."""
    try:
        return [(lower, upper) for lower, upper in bounds]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"exog_bounds must hold a pair (lower, upper) for every column of exog, not {shown(bounds)}",
            argument="exog_bounds",
        ) from None


def schema_of(
    names: Sequence[str], bounds: Sequence[tuple[object, object]], outcome: Column, *, complete: bool
) -> Schema:
    """Return the schema of bounded covariates and an outcome."""
    columns: dict[str, Column] = {}
    for name, (lower, upper) in zip(names, bounds, strict=True):
        try:
            columns[name] = Continuous(lower, upper, complete=complete)
        except HdpError as error:
            raise ArgumentError(
                f"exog_bounds of {name}: {error}; leave a constant column out, intercept=True adds one",
                argument="exog_bounds",
            ) from None
    return Schema({**columns, OUTCOME: outcome})


def outcome_of(bounds: object, *, complete: bool) -> Column:
    """Return the declaration of an outcome: within bounds, or binary where there are none."""
    if bounds is None:
        return Binary(complete=complete)
    try:
        return Continuous(*bounds, complete=complete)  # type: ignore[misc]
    except (HdpError, TypeError, ValueError) as error:
        reason = f": {error}" if isinstance(error, HdpError) else ""
        raise ArgumentError(
            f"endog_bounds must be a pair (lower, upper), declared and not computed, not {shown(bounds)}{reason}",
            argument="endog_bounds",
        ) from None


class ArrayOptions(TypedDict, total=False):
    """The arguments that all constructors from arrays take.

    ``public_endog``, ``public_exog``: public rows; the outcome may be left out. ``intercept``: whether the model has a
    constant, by default it has. ``complete``: whether it is known, from elsewhere than the private arrays, that they
    have no missing cell; then no part of epsilon is spent on the number of complete rows. ``ledger``, ``budget``: the
    account; one of the two.
    """

    public_endog: npt.ArrayLike | None
    public_exog: Covariates | None
    intercept: bool
    complete: bool
    ledger: Ledger | None
    budget: Budget | None


def from_arrays(
    endog: Any, exog: Any, *, endog_bounds: object, exog_bounds: object, **options: Unpack[ArrayOptions]
) -> tuple[str, Study]:
    """Return the formula and the study of a model that was given as arrays."""
    complete = truth(options.get("complete", False), name="complete")
    for name in options.keys() - ArrayOptions.__annotations__.keys():
        known = ", ".join(ArrayOptions.__annotations__)
        raise ArgumentError(f"there is no argument {name}; arrays go with {known}", argument=name)
    bounds = pairs_of(exog_bounds)
    names = column_names(exog, count=len(bounds))
    public_endog, public_exog = options.get("public_endog"), options.get("public_exog")
    if public_exog is None and public_endog is not None:
        raise ArgumentError(
            "public_exog must be given with public_endog: outcomes alone say nothing", argument="public_exog"
        )
    study = Study(
        private=frame_of(endog, exog, names),
        public=None if public_exog is None else frame_of(public_endog, public_exog, names, which="public_"),
        schema=schema_of(names, bounds, outcome_of(endog_bounds, complete=complete), complete=complete),
        ledger=options.get("ledger"),
        budget=options.get("budget"),
    )
    return formula_of(names, intercept=options.get("intercept", True)), study


def _cells(values: Any) -> "np.ndarray[Any, np.dtype[Any]]":
    """Return an array as it is and anything else as objects: numpy would find a type that fits the oddest cell."""
    return values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)


def frame_of(endog: Any, exog: Any, names: Sequence[str], *, which: str = "") -> pd.DataFrame:
    """Return covariates and, where given, the outcome as a frame; only shapes can be refused."""
    cells = exog.to_numpy(dtype=object) if isinstance(exog, pd.DataFrame) else _cells(exog)
    cells = cells.reshape(len(cells), -1) if cells.ndim < 2 else cells
    outcome = None if endog is None else _cells(endog)
    if cells.ndim != 2 or cells.shape[1] != len(names):
        raise ArgumentError(f"{which}exog must be a table of {len(names)} columns", argument=f"{which}exog")
    if outcome is not None and outcome.shape != (len(cells),):
        raise ArgumentError(
            f"{which}endog must have one value per row of {which}exog: {len(cells)} rows", argument=f"{which}endog"
        )
    frame = pd.DataFrame(dict(zip(names, cells.T, strict=True)))
    return frame if outcome is None else frame.assign(**{OUTCOME: outcome})


def formula_of(names: Sequence[str], *, intercept: bool) -> str:
    """Return the formula of all covariates."""
    terms = [name if name.isidentifier() else f"`{name}`" for name in names]
    return f"{OUTCOME} ~ {' + '.join(terms if intercept else ['0', *terms]) or '1'}"
