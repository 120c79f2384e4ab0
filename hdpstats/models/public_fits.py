"""A logistic model on public rows that are weighted again and again: for purchases that ask which weights suit it."""

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.formulas import compile_design
from hdpstats.losses.logistic import Logistic
from hdpstats.public.likelihood import maximum_likelihood
from hdpstats.schema.public import PublicTable

SMALLEST_EXCESS, LARGEST_EXCESS = 1e-6, 2.0
"""How much more loss than under the best candidate counts at most."""

LARGEST_COEFFICIENT, STEP = 1e6, 2.0**-20
"""Coefficients are rounded, so that the last bits of a linear algebra library do not make another question of one."""

LEAST, MOST = Fraction(1, 10**6), Fraction(10**6)

LENGTH = 0.95
"""Part of the public rows that a performance curve leaves as long as they are."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicFits:
    """A logistic model on the public rows, to be fitted with many weights.

    Attributes
    ----------
    formula : str
        Its canonical spelling.
    X, y : (c, D), (c,) float64
        The rows that are complete in its columns too.
    complete : (n,) bool
        Which of the rows that are complete in the weighted columns these are.
    terms : tuple of str
        The columns of ``X``.
    """

    formula: str
    X: FloatArray
    y: FloatArray
    complete: BoolArray
    terms: tuple[str, ...]

    @classmethod
    def of(cls, table: PublicTable, model: str, *, columns: tuple[str, ...]) -> "PublicFits":
        """Read the formula of a model of rows that are complete in the weighted columns."""
        design = compile_design(model, table.schema)
        both = table.complete((*columns, *design.needs))
        rows = table.admitted((*columns, *design.needs))
        return cls(
            formula=design.canonical,
            X=design.matrix(rows),
            y=rows.numeric[design.response],
            complete=both[table.complete(columns)],
            terms=design.names,
        )

    def coefficients(self, weights: FloatArray) -> FloatArray:
        """Return the fit (D,) with weights (n,); 0 for columns that the weighted rows do not identify."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            estimate = maximum_likelihood(
                self.X,
                self.y,
                weights=np.maximum(weights[self.complete], 0.0),
                offset=np.zeros(len(self.y)),
                loss=Logistic(),
                terms=self.terms,
            )
        values = np.where(np.isfinite(estimate.values), estimate.values, 0.0)
        return np.asarray(np.rint(np.clip(values, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT) / STEP) * STEP)

    def scale(self) -> tuple[FloatArray, Fraction]:
        """Return the root mean square of each column (D,), 1 where it is 0, and the length of nearly all rows."""
        squares = np.mean(self.X**2, axis=0)
        scale = np.array([float(f"{value:.6g}") for value in np.sqrt(np.where(squares > 1e-12, squares, 1.0))])
        length = float(np.quantile(np.linalg.norm(self.X / scale, axis=1), LENGTH))
        return scale, min(max(Fraction(f"{length:.6g}"), LEAST), MOST)

    def excess(self, coefficients: FloatArray) -> float:
        """Return the largest excess of a loss over the best candidate's (K, D) in a public row: what may count."""
        eta = self.X @ coefficients.T
        losses = np.logaddexp(0.0, eta) - self.y[:, None] * eta
        most = float(np.max(losses - losses.min(axis=1, keepdims=True), initial=0.0))
        return float(f"{min(max(most, SMALLEST_EXCESS), LARGEST_EXCESS):.6g}")
