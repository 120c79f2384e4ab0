"""Public rows raked to a description of the private people, as a population that effects are averaged over.

Post-processing of a release and public rows: the rows get weights, and numbers are moved and stretched, so that the
averages of the model's variables are those described (`hdpstats.public.raking`). What a description does not have stays
as it is in the public rows. Its noise leaves the averages open: rows raked to draws from what is known of them
(`hdpstats.inference.cohort`) say how far an effect may be off on that account.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.formulas.lexer import quoted
from hdpstats.inference import draws
from hdpstats.inference.cohort import cohort_posterior
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.moments import moments_of
from hdpstats.public.raking import Averages, PublicVariables, raked_variables, raking_at
from hdpstats.results.blocks import design_of
from hdpstats.results.description import Description
from hdpstats.results.fitted import Fitted
from hdpstats.schema.public import PublicTable

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


def raked_rows(fit: Fitted, table: PublicTable, description: Description) -> RakedRows:
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
