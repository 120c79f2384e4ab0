"""The rows that effects are averaged over: a frame, the public rows of a fit, or a weighted public sample.

`RakedRows` are public rows raked to a description of the private people. That is post-processing of a release and
public rows: the rows get weights, and numbers are moved and stretched, so that the averages of the model's variables
are those described (`hdpstats.raking.variables`). What a description does not have stays as it is in the public rows. Its
noise leaves the averages open: rows raked to draws from what is known of them say how far an effect may be off on that
account.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.describe.description import Description
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.formulas.lexer import quoted
from hdpstats.inference import draws
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.moments import moments_of
from hdpstats.raking.posterior import cohort_posterior
from hdpstats.raking.variables import Averages, PublicVariables, raked_variables, raking_at
from hdpstats.results.facts import design_of, own_terms, read_rows
from hdpstats.results.weighted_sample import WeightedSample
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

    ``draws`` are the rows that they may as well be, where the noise of a description leaves that open.
    """

    frame: pd.DataFrame
    weights: FloatArray
    words: str
    draws: tuple[tuple[pd.DataFrame, FloatArray], ...] = ()


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
        A number of at least 0 for each row, or the name of a column of the frame; all alike by default.

    Raises
    ------
    ArgumentError
        If there are no such rows, or the weights are none.
    """
    if isinstance(over, WeightedSample | Description) and weights is not None:
        raise ArgumentError("weights must be left out: what over= is has its own", argument="weights")
    if isinstance(over, Description):
        if rows.table is None:
            raise _no_rows()
        raked = raked_rows(fit, rows.table, over)
        words = f"{len(raked.frame)} public rows raked to a description"
        return Population(frame=raked.frame, weights=raked.weights, words=words, draws=raked.draws)
    if isinstance(over, WeightedSample):
        return Population(
            frame=over.rows,
            weights=np.maximum(over.weights.to_numpy(), 0.0),
            words=f"{len(over.rows)} rows of a weighted sample",
        )
    frame, words = _frame(rows, over)
    return Population(
        frame=frame,
        weights=_weights(frame, weights),
        words=f"{len(frame)} {words}" + ("" if weights is None else ", weighted"),
    )


def standard_deviations(fit: "Result", rows: Population) -> FloatArray:
    """Return for each coefficient the standard deviation (p,) of its column in the rows; 1 for indicators and others.

    Columns that are products of a number and an indicator have the standard deviation of the product.
    """
    found = read_rows(fit, rows.frame, design_of(fit))
    w = rows.weights[found.complete]
    if not w.sum() > 0.0:
        raise ArgumentError("over must have a complete row with a weight above 0", argument="over")
    columns, own = design_of(fit).columns, own_terms(fit)
    spread = np.sqrt(np.maximum(w @ found.X**2 / w.sum() - (w @ found.X / w.sum()) ** 2, 0.0))
    is_number = [
        bool(column.expressions) and not np.isin(found.X[:, k], (0.0, 1.0)).all() for k, column in enumerate(columns)
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
        raise _no_rows()
    raise ArgumentError(
        "over must be 'public', a DataFrame, a weighted sample, a description or a study with public rows, not "
        f"{type(over).__name__}",
        argument="over",
    )


def _no_rows() -> ArgumentError:
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
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape != (len(frame),) or not np.isfinite(found).all() or (found < 0.0).any():
        raise ArgumentError(
            f"weights must be {len(frame)} finite numbers of at least 0, one for each row", argument="weights"
        )
    return found


DRAWS: Final = 40
"""Draws of the averages for the error that the noise of a description makes: enough for a standard error."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RakedRows:
    """Public rows as the described people are.

    Attributes
    ----------
    frame : DataFrame
        The complete rows, numbers moved to the described averages.
    weights : (n,) float64
        Their weights.
    draws : tuple of (DataFrame, (n,) float64)
        The same for draws of the averages.
    """

    frame: pd.DataFrame
    weights: FloatArray
    draws: tuple[tuple[pd.DataFrame, FloatArray], ...]


def raked_rows(fit: "Result", table: PublicTable, description: Description) -> RakedRows:
    """Return complete public rows as the described people are.

    Raises
    ------
    ArgumentError
        If the description is of groups or of another schema, or has none of the model's variables.
    """
    query = description.query
    if query.groups > 1 or description.schema.sha256 != fit.schema.sha256:
        raise ArgumentError(
            "over must be a description without by=, of a study with the schema of the fit", argument="over"
        )
    design = design_of(fit)
    read = [name for name in design.needs if name != design.response]
    times = () if fit.facts.hazard is None else (fit.facts.hazard.stop, fit.facts.hazard.start)
    variables = [name for name in read if name not in times]
    described = {column.name for column in query.columns}
    if not described & set(variables):
        raise ArgumentError(
            f"over: the description has none of the model's variables, {', '.join(variables)}", argument="over"
        )
    releases = [release for _, release in description.releases]
    moments = moments_of(numbers_of(query, releases, 0), variables=variables, sha256=releases[0].sha256)
    plain = compile_one_sided("~ " + " + ".join(map(quoted, variables)), fit.schema)
    public = PublicVariables(table=table.admitted(variables), design=plain)
    on = raked_variables(public, moments, case_weights=np.ones(public.table.rows))
    posterior = cohort_posterior(on)
    raking = raking_at(on, posterior.mean)
    frame = table.frame()[table.complete(variables)].reset_index(drop=True)

    def rows(averages: Averages, count: int) -> list[tuple[pd.DataFrame, FloatArray]]:
        people = raking.raked(averages, base=np.tile(on.base, (count, 1)))
        return [
            (
                frame.assign(**{each.variable: X[:, plain.names.index(quoted(each.variable))] for each in on.means}),
                weights,
            )
            for X, weights in zip(people.X, people.weights, strict=True)
        ]

    ((own, weights),) = rows(posterior.mean, 1)
    rng = draws.generator(*(each.sha256 for each in releases))
    return RakedRows(frame=own, weights=weights, draws=tuple(rows(posterior.draw(rng, DRAWS), DRAWS)))
