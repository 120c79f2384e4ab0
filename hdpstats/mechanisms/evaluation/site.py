r"""How a fitted model does on private people: a noisy table of risk group and outcome, pure epsilon.

Every private person falls into exactly one cell of a table whose cells are public: a risk group, by public cut points
of the linear predictor under public coefficients, and what happened (`hdpstats.mechanisms.evaluation.query`). The
release is the number of people in each cell plus independent two-sided geometric noise, exact in integers
(`hdpstats.noise.geometric`). Concordance, Brier scores and calibration are computed from it afterwards.

**One cell per person.** A row is a person: a site whose people have several rows is refused, and so are formulas with
entry times, as a person who enters late is not at risk from the beginning. The map to a cell is total and row by row:
the design clips and fills (`hdpstats.formulas`), the linear predictor is summed in the order of the columns
(`hdpstats.solvers.kernels`: to the last bit a function of the row alone, or a row at a cut point might change group
because of others), and `hdpstats.schema.spells` gives every row without entry time an interval of exit and a cause.

**Sensitivity.** In the L1 norm: adding or removing a person changes one cell by 1, replacing a person takes 1 from one
cell and adds 1 to another: 1 and 2.

**Guarantee.** With rate :math:`\rho` the probabilities of a table under neighbours differ by at most
:math:`\exp(\rho \|c - c'\|_1)`, so :math:`\rho = \epsilon / 2` (replace-one) or :math:`\epsilon` (add-or-remove-one)
is epsilon-DP, and no smaller noise of this kind is (Ghosh, Roughgarden and Sundararajan 2012).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas import Design, compile_design
from hdpstats.formulas.compiler import SurvivalDesign, compile_survival
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.evaluation.query import EvaluationQuery, EvaluationRelease
from hdpstats.mechanisms.person_loss.base import declared_bound, sensitivity_factor
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema
from hdpstats.schema.spells import spells_of
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.kernels import row_products


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedEvaluation(Prepared):
    """An evaluation with its design and its noise fixed."""

    query: EvaluationQuery
    design: Design | SurvivalDesign
    noise: TwoSidedGeometric

    def compute(self, table: AdmittedTable) -> EvaluationRelease:
        """Draw the noise, count, add and release."""
        noise = self.noise.draws(self.query.cells)
        counts = np.bincount(cells_of(self.query, self.design, table), minlength=self.query.cells)
        return EvaluationRelease(
            counts=tuple(int(count) + z for count, z in zip(counts.tolist(), noise, strict=True)),
            noise_variance=self.noise.variance,
            events=self.events,
        )


def prepare(query: EvaluationQuery, site_facts: SiteFacts) -> PreparedEvaluation:
    """Fix the noise of an evaluation, or refuse what the proof does not cover."""
    if site_facts.unit is not None:
        raise SiteError("this site's people have several rows each; an evaluation counts people with one row")
    declared_bound(site_facts.schema, query.offset, kind="offset", default=0.0)
    design = _binary(query, site_facts.schema) if query.grid is None else _survival(query, site_facts.schema)
    rate = query.epsilon / sensitivity_factor(site_facts.relation)
    return PreparedEvaluation(
        needs=(*design.needs, *(() if query.offset is None else (query.offset,))),
        events=(PrivacyEvent(ran=MechanismName.HISTOGRAM, epsilon=query.epsilon),),
        query=query,
        design=design,
        noise=TwoSidedGeometric(rate=Fraction(rate)),
    )


def _binary(query: EvaluationQuery, schema: Schema) -> Design:
    design = compile_design(query.formula, schema)
    if schema[design.response].kind != "binary":
        raise MechanismError(f"an evaluation needs a binary outcome; {design.response!r} is none in this site's schema")
    _check_length(query, len(design.columns))
    return design


def _survival(query: EvaluationQuery, schema: Schema) -> SurvivalDesign:
    design = compile_survival(query.formula, schema)
    if design.start is not None:
        raise MechanismError("an evaluation is proved for people who enter at time 0: Surv(time, event)")
    event = schema[design.event]
    causes = len(event.levels) - 1 if isinstance(event, Categorical) else 1
    if causes != query.causes:
        raise SiteError(f"the query counts {query.causes} causes; this site's schema declares {causes}")
    _check_length(query, len(design.names))
    return design


def _check_length(query: EvaluationQuery, columns: int) -> None:
    if len(query.coefficients) != columns:
        raise SiteError(f"the formula has {columns} columns, and the query {len(query.coefficients)} coefficients")


def linear_predictor(query: EvaluationQuery, design: Design | SurvivalDesign, table: AdmittedTable) -> FloatArray:
    """Return the linear predictor of each row (n,), a function of that row alone to the last bit."""
    X = design.matrix(table) if isinstance(design, Design) else design.covariates.matrix(table)[:, 1:]
    shift = 0.0 if query.offset is None else table.numeric[query.offset]
    return np.asarray(row_products(X, np.array(query.coefficients)) + shift)


def cells_of(query: EvaluationQuery, design: Design | SurvivalDesign, table: AdmittedTable) -> IntArray:
    """Return the cell of each person (n,): a total map, row by row."""
    group = np.searchsorted(np.array(query.cuts), linear_predictor(query, design, table), side="right")
    happened = _outcome(table, design) if isinstance(design, Design) else _exit(query, design, table)
    return np.asarray(group * query.width + happened, dtype=np.int64)


def _outcome(table: AdmittedTable, design: Design) -> IntArray:
    return np.asarray(table.numeric[design.response] == 1.0, dtype=np.int64)


def _exit(query: EvaluationQuery, design: SurvivalDesign, table: AdmittedTable) -> IntArray:
    """Return what happened to each row, as a cell of its group."""
    if query.grid is None:
        raise MechanismError("a survival formula needs intervals")
    found = spells_of(table, start=None, stop=design.stop, event=design.event, grid=query.grid, most_rows=1)
    ends, bins = np.array(query.ends), len(query.ends)
    by_event = (found.cause - 1) * bins + np.searchsorted(ends, found.exit, side="left")
    by_censoring = query.causes * bins + np.searchsorted(ends, found.exit, side="right")
    return np.asarray(np.where(found.cause > 0, by_event, by_censoring), dtype=np.int64)
