"""Public rows as the described people are, as a data frame.

The rows get weights, and numbers are moved and stretched, so that the averages of a model's variables are those
described (`hdpstats.raking.raking`). What a description does not have stays as it is in the public rows. Its noise
leaves the averages open: rows raked to draws from what is known of them say how far an effect that is averaged over
the rows may be off on that account. It is post-processing of a release and of public rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.formulas.lexer import quoted
from hdpstats.inference import draws
from hdpstats.raking.posterior import cohort_posterior
from hdpstats.raking.raking import Averages, PublicVariables, raked_variables, raking_at
from hdpstats.records.averages import CohortMoments
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

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


def raked_rows(
    table: PublicTable, schema: Schema, known: CohortMoments, *, variables: Sequence[str], releases: Sequence[str]
) -> RakedRows:
    """Return public rows, complete in the variables, as the described people are.

    ``releases`` are the hashes of what the averages were read from: draws follow from them.
    """
    plain = compile_one_sided("~ " + " + ".join(map(quoted, variables)), schema)
    public = PublicVariables(table=table.admitted(variables), design=plain)
    on = raked_variables(public, known, case_weights=np.ones(public.table.rows))
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
    rng = draws.generator(*releases)
    return RakedRows(frame=own, weights=weights, draws=tuple(rows(posterior.draw(rng, DRAWS), DRAWS)))
