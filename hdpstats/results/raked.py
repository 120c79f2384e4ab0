"""Public rows raked to a description of the private people, as a population that effects are averaged over.

Post-processing of a release and public rows: the rows get weights, and numbers are moved and stretched, so that the
averages of the model's variables are those described (`hdpstats.public.raking`). What a description does not have stays
as it is in the public rows; its noise is not counted in the intervals of an effect.
"""

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.inference.cohort import cohort_posterior
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.moments import moments_of
from hdpstats.public.raking import PublicVariables, raked_variables, raking_at
from hdpstats.results.blocks import design_of
from hdpstats.results.description import Description
from hdpstats.results.fitted import Fitted
from hdpstats.schema.public import PublicTable


def raked_rows(fit: Fitted, table: PublicTable, description: Description) -> tuple[pd.DataFrame, FloatArray]:
    """Return complete public rows as the described people are, and their weights (n,).

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
    plain = compile_one_sided("~ " + " + ".join(variables), fit.schema)
    public = PublicVariables(table=table.admitted(variables), design=plain)
    on = raked_variables(public, moments, case_weights=np.ones(public.table.rows))
    averages = cohort_posterior(on).mean
    people = raking_at(on, averages).raked(averages, base=on.base[None])
    frame = table.frame()[table.complete(variables)].reset_index(drop=True)
    numbers = dict(zip(plain.names, people.X[0].T, strict=True))
    return frame.assign(**{each.variable: numbers[each.variable] for each in on.means}), people.weights[0]
