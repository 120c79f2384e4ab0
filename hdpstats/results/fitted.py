"""A fitted model, and the public rows that a user gives it: checked, and turned into the design of the model.

`TermBlock` says which coefficients belong to which term of a formula, and what the columns of a term stand for.
"""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.formulas import Design, compile_design
from hdpstats.formulas.compiler import compile_survival
from hdpstats.formulas.outcome import categorical_design
from hdpstats.losses import ExponentialTimes, multinomial
from hdpstats.records.estimate import Estimate
from hdpstats.results.facts import ModelFacts
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema, check_frame
from hdpstats.schema.spells import stratum_of


class _HasEstimate(Protocol):
    @property
    def estimate(self) -> Estimate: ...


class HasCoefficients:
    """What has an `estimate`, and shows its coefficients in statsmodels' words."""

    __slots__ = ()

    @property
    def params(self: _HasEstimate) -> "pd.Series[float]":
        """The coefficients by term."""
        return self.estimate.params

    @property
    def bse(self: _HasEstimate) -> "pd.Series[float]":
        """Standard errors of the coefficients: sampling and privacy noise together."""
        return self.estimate.bse

    @property
    def tvalues(self: _HasEstimate) -> "pd.Series[float]":
        """Coefficients over standard errors."""
        return self.estimate.tvalues

    @property
    def pvalues(self: _HasEstimate) -> "pd.Series[float]":
        """Two-sided p-values for a zero coefficient."""
        return self.estimate.pvalues

    @property
    def cov_sampling(self: _HasEstimate) -> pd.DataFrame:
        """Covariance of the coefficients due to sampling (p, p)."""
        return self.estimate.cov_sampling

    @property
    def cov_privacy(self: _HasEstimate) -> pd.DataFrame:
        """Covariance of the coefficients due to privacy noise (p, p); zero for a public fit."""
        return self.estimate.cov_privacy

    def cov_params(self: _HasEstimate) -> pd.DataFrame:
        """Return the covariance of the coefficients (p, p): ``cov_sampling + cov_privacy``."""
        return self.estimate.cov_params()

    def conf_int(self: _HasEstimate, alpha: float = 0.05) -> pd.DataFrame:
        """Return confidence limits of level ``1 - alpha``, columns 0 and 1; ``alpha`` in [0.001, 0.999]."""
        return self.estimate.conf_int(alpha)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Fitted(HasCoefficients, ABC):
    """What was fitted, to which columns, with which coefficients: the parts of a result that predictions need."""

    facts: ModelFacts
    schema: Schema
    estimate: Estimate


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DesignRows:
    """The design of public rows.

    Attributes
    ----------
    X : (m, p) float64
        The design of the m complete rows, clipped to nothing.
    offset : (m,) float64
        Their offsets, 0 without one.
    complete : (n,) bool
        Which rows those are.
    index : Index
        The labels of all n rows.
    stratum : (m,) int64 or None
        The stratum of each complete row, where strata have baselines of their own.
    """

    X: FloatArray
    offset: FloatArray
    complete: BoolArray
    index: pd.Index
    stratum: IntArray | None = None

    def spread(self, values: FloatArray) -> FloatArray:
        """Return values (m, ...) of the complete rows as one per row (n, ...), NaN in the others."""
        spread = np.full((len(self.complete), *values.shape[1:]), np.nan)
        spread[self.complete] = values
        return spread


def read_rows(
    fit: Fitted, frame: pd.DataFrame, design: Design, *, strata: Sequence[tuple[str, int]] = ()
) -> DesignRows:
    """Check public rows, with errors that name what is wrong, and return their design; the outcome is not needed."""
    offset = fit.facts.offset
    plain = check_frame(frame, name="frame")
    needs = [*dict.fromkeys([*design.needs[1:], *(name for name, _ in strata), *([] if offset is None else [offset])])]
    read = plain.loc[:, [label in needs for label in plain.columns]]
    rows = PublicTable.from_frame(read, fit.schema, required=needs)
    table = rows.raw(needs)
    X = design.evaluate_unclipped(table)
    return DesignRows(
        X=X,
        offset=table.numeric[offset] if offset is not None else np.zeros(len(X)),
        complete=rows.complete(needs),
        index=plain.index,
        stratum=stratum_of(table, strata) if strata else None,
    )


def check_identified(estimate: Estimate) -> None:
    """Refuse to predict with a coefficient that the fit's rows did not identify."""
    missing = [term for term, value in zip(estimate.terms, estimate.values, strict=True) if np.isnan(value)]
    if missing:
        raise ArgumentError(
            f"the rows of this fit do not tell {', '.join(missing)}, so that nothing follows for rows in which they "
            "count; leave those terms out of the formula, or fit with private records",
            argument="frame",
        )


BASELINE = "baseline"
"""What the coefficients of a baseline hazard are called together."""


def design_of(fit: Fitted) -> Design:
    """Return the design of a model's formula; that of a survival formula has an intercept that its model may not."""
    facts = fit.facts
    if facts.hazard is not None or facts.loss == ExponentialTimes.name:
        return compile_survival(facts.formula, fit.schema).covariates
    if facts.loss == multinomial.NAME:
        return categorical_design(facts.formula, fit.schema)
    return compile_design(facts.formula, fit.schema)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TermBlock:
    """The coefficients of one term: of one cause where risks compete, of all levels of a categorical outcome.

    Attributes
    ----------
    label : str
        "size"; with several causes "relapse: size".
    term : str
        The term as the formula has it.
    cause : str or None
        The cause, where there are several.
    places : tuple of int
        Where its coefficients are among those of the estimate.
    """

    label: str
    term: str
    cause: str | None
    places: tuple[int, ...]


def term_blocks(fit: Fitted) -> tuple[TermBlock, ...]:
    """Return the terms of a model in the order of its coefficients."""
    names, hazard = fit.estimate.terms, fit.facts.hazard
    own = own_terms(fit)
    found: dict[tuple[str | None, str], list[int]] = {}
    for place in range(len(names)):
        part, within = divmod(place, len(own))
        cause = hazard.causes[part] if hazard is not None and len(hazard.causes) > 1 else None
        found.setdefault((cause, own[within]), []).append(place)
    return tuple(
        TermBlock(label=term if cause is None else f"{cause}: {term}", term=term, cause=cause, places=tuple(places))
        for (cause, term), places in found.items()
    )


def own_terms(fit: Fitted) -> tuple[str, ...]:
    """Return the term of each coefficient of one cause, or of one level of a categorical outcome."""
    if fit.facts.family is not None:
        return fit.estimate.terms
    columns = design_of(fit).columns
    if fit.facts.hazard is None:
        return tuple(column.term for column in columns)
    return (*(BASELINE for _ in fit.facts.hazard.baseline_names), *(column.term for column in columns[1:]))
