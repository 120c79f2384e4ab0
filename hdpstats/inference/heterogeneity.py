r"""Do the sites agree? Cochran's Q, with the noise that is known counted, and its distribution drawn.

With private-only estimates :math:`u_j` of ``k`` sites, their covariances :math:`V_j` (sampling and noise) and the
inverse-variance mean :math:`u`,

.. math:: Q = \sum_j (u_j - u)' V_j^{-1} (u_j - u)

has, where all sites have the same coefficients and errors are normal and independent, a chi-square distribution with
``(k - 1) D`` degrees of freedom (Cochran 1954). Errors of private estimates are neither: K-norm noise has heavier
tails, and what public rows do not tell of the curvature moves all sites. So p-values are from drawn errors, the
statistic computed for each draw; :math:`I^2 = (Q - df) / Q` is the share of it that chance does not explain (Higgins
and Thompson 2002).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from hdpstats._base.typing import FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CochranQ:
    """A statistic of heterogeneity, its degrees of freedom, and its p-value, at least 1 / 4001: that of the draws."""

    statistic: float
    df: int
    pvalue: float

    @property
    def i2(self) -> float:
        """The share of the statistic beyond what is expected where sites agree, from 0 to 1."""
        return 1.0 - self.df / self.statistic if self.statistic > self.df else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the statistic as JSON values."""
        return {"statistic": self.statistic, "df": self.df, "pvalue": self.pvalue}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "CochranQ":
        """Read what `to_dict` wrote."""
        return cls(statistic=float(fields["statistic"]), df=int(fields["df"]), pvalue=float(fields["pvalue"]))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Heterogeneity:
    """Whether the sites agree in all coefficients, and in each of them by itself (in the order of the terms)."""

    overall: CochranQ
    by_term: tuple[CochranQ, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as JSON values."""
        return {"overall": self.overall.to_dict(), "by_term": [each.to_dict() for each in self.by_term]}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Heterogeneity":
        """Read what `to_dict` wrote."""
        by_term = tuple(CochranQ.from_dict(each) for each in fields["by_term"])
        return cls(overall=CochranQ.from_dict(fields["overall"]), by_term=by_term)


def heterogeneity(
    estimates: FloatArray, variances: Sequence[FloatArray], errors: FloatArray, *, T: FloatArray
) -> Heterogeneity:
    """Return Cochran's Q of several sites.

    Parameters
    ----------
    estimates : (k, D) float64
        Each site's coefficients in whitened coordinates.
    variances : k times (D, D) float64
        Their covariances: from public facts and releases only.
    errors : (k, B, D) float64
        Joint draws of their errors.
    T : (p, D) float64
        From whitened coefficients to those that are tabulated.
    """
    overall = _tested(estimates, np.linalg.inv(np.array(variances)), errors)
    b, drawn = estimates @ T.T, errors @ T.T
    precisions = 1.0 / np.array([np.diag(T @ each @ T.T) for each in variances])
    by_term = tuple(
        _tested(b[:, [t]], precisions[:, [t], None], np.ascontiguousarray(drawn[:, :, [t]])) for t in range(len(T))
    )
    return Heterogeneity(overall=overall, by_term=by_term)


def _tested(estimates: FloatArray, precisions: FloatArray, errors: FloatArray) -> CochranQ:
    """Return Q of (k, D) with precisions (k, D, D), and how often errors (k, B, D) alone give as much."""
    found = float(_statistic(estimates[:, None, :], precisions)[0])
    by_chance = _statistic(errors, precisions)
    k, B, D = errors.shape
    return CochranQ(statistic=found, df=(k - 1) * D, pvalue=float((1 + np.count_nonzero(by_chance >= found)) / (B + 1)))


def _statistic(values: FloatArray, precisions: FloatArray) -> FloatArray:
    """Return Q (B,) of values (k, B, D)."""
    weighted = np.einsum("kde,kbe->kbd", precisions, values)
    mean = np.linalg.solve(precisions.sum(axis=0), weighted.sum(axis=0).T).T
    return np.asarray(np.einsum("kbd,kbd->b", weighted, values - mean))
