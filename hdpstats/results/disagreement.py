"""Whether private people have the coefficients that public rows tell: Cochran's Q of both estimates."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import pandas as pd

from hdpstats.display import Report, Reported, columns, named_values, number, p_equals, p_value
from hdpstats.records.estimate import Estimate, Heterogeneity

if TYPE_CHECKING:
    pass

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
    def statistic(self) -> float:
        """Cochran's Q of all coefficients."""
        return self.found.overall.statistic

    @property
    def df(self) -> int:
        """Its degrees of freedom: the number of coefficients."""
        return self.found.overall.df

    @property
    def pvalue(self) -> float:
        """How likely as large a Q is where private and public people have the same coefficients; at least 1 / 4001."""
        return self.found.overall.pvalue

    def tidy(self) -> pd.DataFrame:
        """Return one row per coefficient: term, public, private, statistic (Q), df, p_value."""
        return pd.DataFrame(
            {
                "term": list(self.private.terms),
                "public": self.public.params.to_numpy(),
                "private": self.private.params.to_numpy(),
                "statistic": [each.statistic for each in self.found.by_term],
                "df": [each.df for each in self.found.by_term],
                "p_value": [each.pvalue for each in self.found.by_term],
            }
        )

    def glance(self) -> pd.DataFrame:
        """Return one row, the test of all coefficients: statistic, df, p_value."""
        return pd.DataFrame({"statistic": [self.statistic], "df": [self.df], "p_value": [self.pvalue]})

    @property
    def words(self) -> str:
        """The test of all coefficients, in words."""
        verdict = "they disagree" if self.pvalue < LEVEL else "no disagreement shows"
        overall = f"Cochran's Q {self.statistic:.3g} on {self.df} degrees of freedom, {p_equals(self.pvalue, LEAST)}"
        return f"{overall}: {verdict}"

    @property
    def note(self) -> str | None:
        """Which coefficients disagree and what that means, where they do."""
        if self.pvalue >= LEVEL:
            return None
        tests = sorted(zip(self.found.by_term, self.private.terms, strict=True), key=lambda pair: pair[0].pvalue)
        apart = [f"{term} ({p_equals(each.pvalue, LEAST)})" for each, term in tests if each.pvalue < LEVEL]
        where = f", most in {', '.join(apart[:MOST_NAMED])}" if apart else ""
        return (
            f"Private and public coefficients disagree{where}: private people are not described by the public fit. The "
            "pooled estimate allows for it, coefficient by coefficient; the private-only one does without public "
            "coefficients."
        )

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        pairs = zip(self.public.params, self.private.params, self.found.by_term, strict=True)
        rows = [[number(a), number(b), number(each.statistic, 3), p_value(each.pvalue, LEAST)] for a, b, each in pairs]
        block = columns(["public", "private", "Q", "p-value"], list(self.private.terms), rows)
        return Report(
            title="Public against private coefficients",
            blocks=[named_values([("Test:", self.words)]), block],
            notes=[MEANING, *([self.note] if self.note else [])],
        )

    def __repr__(self) -> str:
        return f"<Public against private coefficients: {self.words}>"
