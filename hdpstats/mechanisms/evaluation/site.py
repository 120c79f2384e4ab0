r"""How a fitted model does on private people: a noisy table of risk group and outcome, pure epsilon.

Every private person falls into exactly one cell of a table whose cells are public: a risk group, by public cut points
of the linear predictor under public coefficients, and what happened (`hdpstats.mechanisms.evaluation`). The
release is the number of people in each cell plus independent two-sided geometric noise, exact in integers
(`hdpstats.noise.discrete`). Concordance, Brier scores and calibration are computed from it afterwards.

**One cell per person.** A row is a person: a site whose people have several rows is refused, and so are formulas with
entry times, as a person who enters late is not at risk from the beginning. The map to a cell is total and row by row:
the design clips (`hdpstats.formulas`), the linear predictor is summed in the order of the columns
(`hdpstats.solvers.kernels`: to the last bit a function of the row alone, or a row at a cut point might change group
because of others), and `hdpstats.schema.spells` gives every row without entry time an interval of exit and a cause. A
person with a missing cell is in no cell of the table.

Sensitivity and guarantee are those of counts in `hdpstats.mechanisms.base`.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.work import Operations, sorting
from hdpstats.families.base import declared_bound
from hdpstats.formulas import Design
from hdpstats.formulas.compiler import SurvivalDesign, compile_survival
from hdpstats.mechanisms.base import (
    PreparedCounts,
    binary_design,
    check_columns,
    check_one_row,
    counted,
    noise_of_counts,
)
from hdpstats.mechanisms.evaluation import EvaluationQuery, EvaluationRelease
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.spells import spells_of
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.kernels import product_work, row_products


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedEvaluation(PreparedCounts):
    """An evaluation with its design and its noise fixed."""

    release = EvaluationRelease
    query: EvaluationQuery
    design: Design | SurvivalDesign

    def counting_work(self, rows: int) -> Operations:
        """Return what the predictors, the groups and the outcomes of so many rows take at most."""
        design = self.design if isinstance(self.design, Design) else self.design.covariates
        predictors = design.work(rows) + product_work(rows, len(design.columns), by_columns=False)
        public = len(self.query.cuts) + len(self.query.ends or ())
        looked_up = 4.0 * sorting(rows, public + 2)
        return predictors + Operations(steps=300.0 + 2.0 * public, passes=60.0 * rows, sorts=looked_up)

    def counts(self, table: AdmittedTable) -> IntArray:
        """Return the number of people in each cell, those with a missing cell left out."""
        return counted(cells_of(self.query, self.design, table), table.complete, self.cells)


def prepare(query: EvaluationQuery, site_facts: SiteFacts) -> PreparedEvaluation:
    """Fix the noise of an evaluation, or refuse what the proof does not cover."""
    check_one_row(site_facts, "an evaluation counts people")
    declared_bound(site_facts.schema, query.offset, kind="offset", default=0.0)
    design = (_survival if query.grid else _binary)(query, site_facts.schema)
    return PreparedEvaluation(
        needs=(*design.needs, *(() if query.offset is None else (query.offset,))),
        events=(PrivacyEvent(ran=MechanismName.HISTOGRAM, epsilon=query.epsilon),),
        cells=query.cells,
        noise=noise_of_counts(query.epsilon, site_facts),
        query=query,
        design=design,
    )


def _binary(query: EvaluationQuery, schema: Schema) -> Design:
    return binary_design(query.formula, schema, coefficients=len(query.coefficients), what="an evaluation")


def _survival(query: EvaluationQuery, schema: Schema) -> SurvivalDesign:
    design = compile_survival(query.formula, schema)
    if design.start is not None:
        raise MechanismError("an evaluation is proved for people who enter at time 0: Surv(time, event)")
    causes = len(design.causes(schema))
    if causes != query.causes:
        raise SiteError(f"the query counts {query.causes} causes; this site's schema declares {causes}")
    check_columns(len(design.names), len(query.coefficients))
    return design


def linear_predictor(query: EvaluationQuery, design: Design | SurvivalDesign, table: AdmittedTable) -> FloatArray:
    """Return the linear predictor of each row (n,), a function of that row alone to the last bit."""
    X = design.matrix(table) if isinstance(design, Design) else design.covariates.matrix(table)[:, 1:]
    shift = 0.0 if query.offset is None else table.numeric[query.offset]
    return np.asarray(row_products(X, np.array(query.coefficients)) + shift)


def cells_of(query: EvaluationQuery, design: Design | SurvivalDesign, table: AdmittedTable) -> IntArray:
    """Return the cell of each person (n,) as if complete: a total map, row by row."""
    group = np.searchsorted(np.array(query.cuts), linear_predictor(query, design, table), side="right")
    happened = _outcome(table, design) if isinstance(design, Design) else _exit(query, design, table)
    return np.asarray(group * query.width + happened, dtype=np.int64)


def _outcome(table: AdmittedTable, design: Design) -> IntArray:
    return np.asarray(table.numeric[design.response] == 1.0, dtype=np.int64)


def _exit(query: EvaluationQuery, design: SurvivalDesign, table: AdmittedTable) -> IntArray:
    """Return what happened to each row, as a cell of its group."""
    if query.grid is None:
        raise MechanismError("a survival formula needs intervals")
    found = spells_of(
        table, start=None, stop=design.stop, event=design.event, level=design.level, grid=query.grid, most_rows=1
    )
    ends, bins = np.array(query.ends), len(query.ends)
    by_event = (found.cause - 1) * bins + np.searchsorted(ends, found.exit, side="left")
    by_censoring = query.causes * bins + np.searchsorted(ends, found.exit, side="right")
    return np.asarray(np.where(found.cause > 0, by_event, by_censoring), dtype=np.int64)
