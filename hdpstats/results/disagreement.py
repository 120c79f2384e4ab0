"""Whether private people have the coefficients that public rows tell: Cochran's Q of both estimates."""

from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from hdpstats._base.typing import BoolArray
from hdpstats.display import Report, Reported, columns, named_values, number, p_equals, p_value
from hdpstats.records.estimate import CochranQ, Estimate, Heterogeneity

LEAST = 1.0 / 4001.0
"""The least p-value that drawn errors tell."""

LEVEL = 0.05
"""A p-value below it is called a disagreement."""

MOST_NAMED = 3
"""Coefficients that a note names."""

MEANING = (
    "Q sums up squared differences between the private-only estimate and the public fit that pooling takes, in units "
    "of their errors; the former is shrunk as the latter's prior shrinks. Its p-value is from drawn errors, sampling "
    "and privacy noise together."
)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Disagreement(Reported):
    """A test of equal private and public coefficients, of all together and of each by itself.

    A coefficient that the private-only estimate does not have (NaN) is not compared. Where it has none, and in a stored
    result of an earlier version whose test counts such coefficients, the test is not available: NaN.

    Attributes
    ----------
    found : Heterogeneity
        Cochran's Q with degrees of freedom and p-values.
    public, private : Estimate
        What is compared: the public fit that pooling takes, and the private-only estimate.
    """

    found: Heterogeneity
    public: Estimate
    private: Estimate

    @property
    def compared(self) -> BoolArray:
        """Which coefficients (p,) are compared: those that the private-only estimate has."""
        return np.isfinite(self.private.values)

    @property
    def available(self) -> bool:
        """Whether there is a test of all coefficients that are compared."""
        compared = self.compared
        return bool(compared.all() or 0 < self.found.overall.df <= compared.sum())

    @property
    def statistic(self) -> float:
        """Cochran's Q of all coefficients that are compared."""
        return self.found.overall.statistic if self.available else np.nan

    @property
    def df(self) -> int:
        """Its degrees of freedom: the number of coefficients that are compared; 0 where there is no test."""
        return self.found.overall.df if self.available else 0

    @property
    def pvalue(self) -> float:
        """How likely as large a Q is where private and public people have the same coefficients; at least 1 / 4001."""
        return self.found.overall.pvalue if self.available else np.nan

    @property
    def by_term(self) -> tuple[CochranQ, ...]:
        """The test of each coefficient by itself, in the order of the terms; NaN of one that is not compared."""
        nothing = CochranQ(statistic=np.nan, df=0, pvalue=np.nan)
        pairs = zip(self.found.by_term, self.compared, strict=True)
        return tuple(each if is_compared else nothing for each, is_compared in pairs)

    def tidy(self) -> pd.DataFrame:
        """Return one row per coefficient: term, public, private, statistic (Q), df, p_value."""
        return pd.DataFrame(
            {
                "term": list(self.private.terms),
                "public": self.public.params.to_numpy(),
                "private": self.private.params.to_numpy(),
                "statistic": [each.statistic for each in self.by_term],
                "df": [each.df for each in self.by_term],
                "p_value": [each.pvalue for each in self.by_term],
            }
        )

    def glance(self) -> pd.DataFrame:
        """Return one row, the test of all coefficients: statistic, df, p_value."""
        return pd.DataFrame({"statistic": [self.statistic], "df": [self.df], "p_value": [self.pvalue]})

    @property
    def words(self) -> str:
        """The test of all coefficients that are compared, in words."""
        if not self.available:
            return f"not available: the private-only estimate has no {self._left_out}"
        verdict = "they disagree" if self.pvalue < LEVEL else "no disagreement shows"
        degrees = "1 degree" if self.df == 1 else f"{self.df} degrees"
        overall = f"Cochran's Q {self.statistic:.3g} on {degrees} of freedom, {p_equals(self.pvalue, LEAST)}"
        left = f"; not compared: {self._left_out}" if self._left_out else ""
        return f"{overall}: {verdict}{left}"

    @property
    def _left_out(self) -> str:
        """The terms that are not compared, at most `MOST_NAMED` by name; empty where all are."""
        names = [term for term, is_compared in zip(self.private.terms, self.compared, strict=True) if not is_compared]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        return f"{', '.join(names[:MOST_NAMED])}{more}"

    @property
    def note(self) -> str | None:
        """Which coefficients disagree and what that means, where they do."""
        if not self.pvalue < LEVEL:
            return None
        pairs = [pair for pair in zip(self.by_term, self.private.terms, strict=True) if pair[0].pvalue < LEVEL]
        tests = sorted(pairs, key=lambda pair: pair[0].pvalue)
        apart = [f"{term} ({p_equals(each.pvalue, LEAST)})" for each, term in tests]
        where = f", most in {', '.join(apart[:MOST_NAMED])}" if apart else ""
        return (
            f"Private and public coefficients disagree{where}: private people are not described by the public fit. The "
            "pooled estimate allows for it, coefficient by coefficient; the private-only one does without public "
            "coefficients."
        )

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        pairs = zip(self.public.params, self.private.params, self.by_term, strict=True)
        rows = [[number(a), number(b), number(each.statistic, 3), p_value(each.pvalue, LEAST)] for a, b, each in pairs]
        block = columns(["public", "private", "Q", "p-value"], list(self.private.terms), rows)
        return Report(
            title="Public against private coefficients",
            blocks=[named_values([("Test:", self.words)]), block],
            notes=[MEANING, *([self.note] if self.note else [])],
        )

    def __repr__(self) -> str:
        return f"<Public against private coefficients: {self.words}>"
