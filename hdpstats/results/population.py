"""The rows that effects are averaged over: a frame, the public rows of a fit, or what has rows of its own.

A weighted sample has rows of its own, and so has a description, to which public rows are raked (`rows_of`).
"""

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.several_rows import row_weights
from hdpstats.privacy.budget import OWN, Guarantee, Part, over_data_sets
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import Release
from hdpstats.records.several import answers_in
from hdpstats.results.facts import design_of, own_terms, read_rows
from hdpstats.results.sites import charged_releases, known_accounts
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import check_frame

if TYPE_CHECKING:
    from hdpstats.results.result import Result

PUBLIC = "public"


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FittedRows:
    """The public rows of a fit, as long as the result is in memory: a file or a copy of it has none.

    Attributes
    ----------
    table : PublicTable or None
        The rows.
    """

    table: PublicTable | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what a file has of them: nothing."""
        return {}

    @classmethod
    def from_dict(cls, _: dict[str, Any]) -> "FittedRows":
        """Return no rows."""
        return cls()

    def __reduce__(self) -> tuple[Any, ...]:
        return FittedRows, ()


NO_ROWS = FittedRows()


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Population:
    """Rows with weights (n,), and what they are in words.

    ``people`` (n,) says whose each row is, where people have several and this is known.
    ``draws`` are the rows that they may as well be, where the noise of a description leaves that open. Rows that rest
    on private records have the ``guarantee`` of that, and ``rests``: each part of it with the releases it is of.
    """

    frame: pd.DataFrame
    weights: FloatArray
    words: str
    draws: tuple[tuple[pd.DataFrame, FloatArray], ...] = ()
    guarantee: Guarantee | None = None
    rests: tuple[tuple[Part, tuple[Release, ...]], ...] = ()
    people: IntArray | None = None


@singledispatch
def rows_of(over: object, fit: "Result", rows: FittedRows) -> Population | None:  # noqa: ARG001
    """Return the rows that an object has of its own, or None: weighted samples and descriptions, which say so here.

    ``rows`` are the public rows of the fit.
    """
    return None


def population(fit: "Result", rows: FittedRows, over: object, weights: object = None) -> Population:
    """Return the rows that a user means.

    Parameters
    ----------
    fit : Result
        The model.
    rows : FittedRows
        The public rows of the fit.
    over : object
        "public", a frame, a weighted sample, a study, whose public rows are meant, or a description of the private
        people, to which the public rows of the fit are raked.
    weights : object
        A number of at least 0 for each row, or the name of a column of the frame; all alike by default, but for the
        public rows of a fit to people with several rows, which weigh as the model weights them.

    Raises
    ------
    ArgumentError
        If there are no such rows, or the weights are none.
    """
    own = rows_of(over, fit, rows)
    if own is not None:
        if weights is not None:
            raise ArgumentError("weights must be left out: what over= is has its own", argument="weights")
        return own
    frame, words = _frame(rows, over)
    several, table = fit.facts.several_rows, rows.table
    if several is not None and weights is None and isinstance(over, str) and table is not None:
        persons = table.persons
        if persons is not None:
            needs = [name for name in design_of(fit).needs if name in table.names]
            counts = row_weights(persons, table.complete(needs), several.correlation)
            return Population(
                frame=frame,
                weights=counts,
                words=f"{len(frame)} {words} of {len(np.unique(persons))} people, weighted as in the model",
                people=np.asarray(np.unique(persons, return_inverse=True)[1], dtype=np.int64),
            )
    return Population(
        frame=frame,
        weights=_weights(frame, weights),
        words=f"{len(frame)} {words}" + ("" if weights is None else ", weighted"),
    )


def guarantee_over(fit: "Result", estimate: Estimate, rows: Population) -> Guarantee | None:
    """Return what all releases guarantee together that averages over rows rest on: those of a fit, and of the rows.

    Those of a description or of a weighted sample add up with those of the fit where they may be of the same people:
    where they were charged to one account, or an account is not known. What the fit rests on already is counted once.
    None where no private record was used.

    Parameters
    ----------
    fit : Result
        The model.
    estimate : Estimate
        Which of its estimates is averaged: that of public rows alone rests on no release.
    rows : Population
        The rows.

    Raises
    ------
    ArgumentError
        If the fit and the rows have guarantees under different relations or for different units, which do not add up.
    """
    own = None if estimate is fit.public_only else fit.guarantee
    if rows.guarantee is None:
        return own
    if own is None:
        return rows.guarantee
    if own.relation is not rows.guarantee.relation:
        raise _for_others(f"under {rows.guarantee.relation.value}", f"under {own.relation.value}")
    if own.unit != rows.guarantee.unit:
        raise _for_others(f"for one {rows.guarantee.unit}", f"for one {own.unit}")
    fitted = [*fit.released.before, *charged_releases(fit.released)]
    counted = {_charge(each) for whole in fitted for each in answers_in(whole)}
    rests = [
        (part, new)
        for part, releases in rows.rests
        if (new := [each for whole in releases for each in answers_in(whole) if _charge(each) not in counted])
    ]
    if not rests:
        return own
    releases = [each for _, new in rests for each in new]
    parts = tuple(replace(part, releases=()) for part, _ in rests)  # none is of what the fit rests on
    mine, theirs = known_accounts(fitted, fit.site_facts), known_accounts(releases, ())
    together = over_data_sets(
        [(mine, replace(own, parts=own.as_parts(OWN))), (theirs, replace(rows.guarantee, parts=parts))]
    )
    return replace(together, sites=max(own.sites, rows.guarantee.sites, len(mine | theirs)))


def _for_others(theirs: str, own: str) -> ArgumentError:
    """Return the error that rows and a fit protect in ways that do not add up."""
    return ArgumentError(
        f"over: what the averages are taken over was released {theirs}, and the fit {own}, so that no guarantee holds "
        f"for both; average over rows released {own}",
        argument="over",
    )


def _charge(release: Release) -> tuple[object, ...]:
    """Return what only a release that was charged once has: two charges may have given the same numbers.

    Analysts of one account have numbers of their own, and heads that nobody else has. Without a place in a ledger it is
    the object in memory: another one may be of another charge.
    """
    entry = release.entry
    if entry is None:
        return (id(release),)
    return release.sha256, entry.account or entry.dataset, entry.number, entry.head


def standard_deviations(fit: "Result", rows: Population) -> FloatArray:
    """Return for each coefficient the standard deviation (p,) of its column in the rows; 1 for indicators and others.

    Columns that are products of a number and an indicator have the standard deviation of the product.
    """
    placed = read_rows(fit, rows.frame, design_of(fit))
    w = rows.weights[placed.complete]
    if not w.sum() > 0.0:
        raise ArgumentError("over must have a complete row with a weight above 0", argument="over")
    columns, own = design_of(fit).columns, own_terms(fit)
    spread = np.sqrt(np.maximum(w @ placed.X**2 / w.sum() - (w @ placed.X / w.sum()) ** 2, 0.0))
    is_number = [
        bool(column.expressions) and not np.isin(placed.X[:, k], (0.0, 1.0)).all() for k, column in enumerate(columns)
    ]
    factors = np.where(is_number, spread, 1.0)
    if fit.facts.hazard is not None:
        factors = np.concatenate([np.ones(len(fit.facts.hazard.baseline_names)), factors[1:]])
    return np.tile(factors, len(fit.estimate.terms) // len(own))


def _frame(rows: FittedRows, over: object) -> tuple[pd.DataFrame, str]:
    if isinstance(over, pd.DataFrame):
        return check_frame(over, name="over"), "rows of the given frame"
    table = rows.table if isinstance(over, str) and over == PUBLIC else getattr(over, "public", None)
    if isinstance(table, PublicTable):
        return table.frame(), "public rows"
    if isinstance(over, str) and over == PUBLIC:
        raise no_rows()
    raise ArgumentError(
        "over must be 'public', a DataFrame, a weighted sample, a description or a study with public rows, not "
        f"{type(over).__name__}",
        argument="over",
    )


def no_rows() -> ArgumentError:
    """Return the error that a result has no public rows at hand."""
    return ArgumentError(
        "this result has no public rows at hand (it was read from a file, or fitted without any); give over=frame, the "
        "rows to average over",
        argument="over",
    )


def _weights(frame: pd.DataFrame, weights: object) -> FloatArray:
    if weights is None:
        return np.ones(len(frame))
    if isinstance(weights, str):
        if weights not in frame:
            raise ArgumentError(f"weights: the rows have no column {weights!r}", argument="weights")
        weights = frame[weights]
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.shape != (len(frame),) or not np.isfinite(numbers).all() or (numbers < 0.0).any():
        raise ArgumentError(
            f"weights must be {len(frame)} finite numbers of at least 0, one for each row", argument="weights"
        )
    return numbers
