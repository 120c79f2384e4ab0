"""How many public rows a model needs, and whether those at hand are few for it.

**Too few.** A public geometry, and the curvature over public rows, are of as many directions as there are coefficients.
With fewer than `PER_COEFFICIENT` rows for each, or fewer than `FEWEST_ROWS` in all, they are not used: the schema's box
gives the geometry, and standard errors need a noisy Hessian.

**Few.** Above that number public rows are used, and what they leave open is in the intervals: curvature is drawn by the
Bayesian bootstrap of the rows, and the public fit is pooled with its error over all spreads of its prior
(`hdpstats.public.moments.PublicFit.error`). A plan and a summary say where rows are `few` for their model: fewer than
`ROWS` rows or `EVENTS` events (people with the rarer of two outcomes) for each coefficient, or fewer than `CELL` rows
with a value of a covariate. Rules of thumb for regressions ask for five to ten events (Vittinghoff and McCulloch 2007).

All of this follows from schema, formula and public rows.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.schema.columns import Binary, Categorical
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

FEWEST_ROWS: Final = 40
"""Public rows that any model needs."""

PER_COEFFICIENT: Final = 4
"""Public rows that a model needs for each coefficient."""

ROWS, EVENTS, CELL = 15, 5, 5
"""With fewer rows or events for a coefficient, or rows with a value of a covariate, public rows are called few."""


def least_rows(coefficients: int) -> int:
    """Return how many complete public rows a model of so many coefficients needs.

    >>> least_rows(4), least_rows(9), least_rows(20)
    (40, 40, 80)
    """
    return max(FEWEST_ROWS, PER_COEFFICIENT * coefficients)


def too_few(rows: int, *, least: int) -> str | None:
    """Return in words that public rows are not used, as they are too few for a model; None where they are enough.

    >>> too_few(39, least=40)
    'The 39 complete public rows are fewer than the 40 that this model needs, and not used.'
    >>> too_few(40, least=40)
    """
    if rows >= least:
        return None
    if rows == 0:
        return f"No public row is complete: this model needs {least}, and uses none."
    have = "complete public row is" if rows == 1 else "complete public rows are"
    return f"The {rows} {have} fewer than the {least} that this model needs, and not used."


def check_some_vary(X: FloatArray, terms: Sequence[str]) -> None:
    """Refuse public rows (n, p) of a design of which no column varies: they tell neither curvature nor a geometry.

    Raises
    ------
    ArgumentError
        If there are columns beside the intercept, and each has one value.
    """
    slopes = [term for term in terms if term != "Intercept"]
    if slopes and not np.ptp(X, axis=0).any():
        raise ArgumentError(
            f"no covariate of the formula varies among the complete public rows: {', '.join(slopes)}; leave those "
            "terms out, or give the study public rows in which they vary, or none",
            argument="formula",
        )


def few(rows: int, events: int | None, cells: Sequence[tuple[str, int]], *, coefficients: int) -> str | None:
    """Return in words that public rows are few for a model; None where they are not.

    Parameters
    ----------
    rows
        The number of complete public rows.
    events
        How many have the rarer of two outcomes; None where the outcome is another one, or not public.
    cells
        Values of covariates that few rows have, in words, with the numbers of these.
    coefficients
        How many coefficients there are.

    >>> few(100, 27, [], coefficients=9)
    'Public rows are few for 9 coefficients (100 rows, 27 events): what they leave open is in the intervals.'
    >>> few(600, 200, [], coefficients=9)
    """
    counts = [f"{rows} rows"] if rows < ROWS * coefficients else []
    if events is not None and events < EVENTS * coefficients:
        counts = [f"{rows} rows", f"{events} events"]
    counts += [f"{count} with {value}" for value, count in cells if count < CELL]
    if not counts:
        return None
    many = f"{coefficients} coefficient{'' if coefficients == 1 else 's'}"
    return f"Public rows are few for {many} ({', '.join(counts)}): what they leave open is in the intervals."


def rare_values(table: PublicTable, schema: Schema, covariates: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield values of 0/1 and categorical columns that some, and fewer than `CELL`, public rows have.

    Of values that no row has, people are invented (`hdpstats.public.invented`).
    """
    rows = table.admitted(covariates)
    for name in covariates:
        column = schema[name]
        if isinstance(column, Categorical):
            counts = np.bincount(rows.codes[name], minlength=len(column.levels)).tolist()
            values = [f"{name}={level}" for level in column.levels]
        elif isinstance(column, Binary):
            ones = int(np.sum(rows.numeric[name] == 1.0))
            counts, values = [rows.rows - ones, ones], [f"{name}=0", f"{name}=1"]
        else:
            continue
        yield from ((value, count) for value, count in zip(values, counts, strict=True) if 0 < count < CELL)


def rarer(table: PublicTable, schema: Schema, outcome: str) -> int | None:
    """Return how many public rows have the rarer value of a 0/1 outcome; None of another one, or where not public."""
    if outcome not in table.names or not isinstance(schema[outcome], Binary):
        return None
    values = table.admitted([outcome]).numeric[outcome]
    ones = int(np.sum(values == 1.0))
    return min(ones, len(values) - ones)
