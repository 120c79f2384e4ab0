"""Tests of linear hypotheses about the coefficients of a result: joint tests of terms, levels of a factor.

`Disagreement` tests whether private people have the coefficients that public rows tell: Cochran's Q of both estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice
from hdpstats.display import Report, Reported, columns, named_values, number, p_equals, p_value
from hdpstats.records.estimate import Estimate, Heterogeneity
from hdpstats.results.contrasts import (
    Constraints,
    WaldTestTerms,
    constraints_of,
    wald_test,
)
from hdpstats.results.facts import design_of, term_blocks
from hdpstats.schema.columns import Binary, Categorical

if TYPE_CHECKING:
    from hdpstats.results.result import Result

ESTIMATES = ("public_only", "private_only", "pooled")
"""The names of the estimates of a result."""


def chosen(result: "Result", which: str | None) -> Estimate:
    """Return one of the estimates of a result by its name; the one that `params` speaks of by default."""
    if which is None:
        return result.estimate
    found: Estimate | None = getattr(result, choice(which, name="estimate", options=ESTIMATES))
    if found is None:
        there = [name for name in ESTIMATES if getattr(result, name) is not None]
        remedy = f"there is {', '.join(there)}" if there else "it has one estimate: leave estimate= out"
        raise ArgumentError(f"this result has no estimate {which!r}; {remedy}", argument="estimate")
    return found


def constraints(estimate: Estimate, r_matrix: object, names: Sequence[str] | None) -> Constraints:
    """Return constraints on the coefficients of an estimate, which ``names`` may call otherwise."""
    return constraints_of(r_matrix, _names(estimate, names))


def tests_of_terms(fit: "Result", estimate: Estimate, *, skip_single: bool) -> WaldTestTerms:
    """Return the joint test of each term's coefficients."""
    identity = np.eye(len(estimate.terms))
    tests = {}
    for block in term_blocks(fit):
        if len(block.places) > 1 or not skip_single:
            L = identity[list(block.places)]
            names = tuple(estimate.terms[place] for place in block.places)
            tests[block.label] = wald_test(estimate, Constraints(L=L, q=np.zeros(len(L)), names=names))
    return WaldTestTerms(tests=tests)


def _names(estimate: Estimate, names: Sequence[str] | None) -> Sequence[str]:
    if names is None:
        return estimate.terms
    listed = [str(name) for name in names]
    if len(set(listed)) != len(estimate.terms):
        raise ArgumentError(f"names must be {len(estimate.terms)} different texts", argument="names")
    return listed


def pairs(fit: "Result", term: str, cause: str | None) -> Constraints:
    """Return the differences between the levels of a factor, a later one minus an earlier one."""
    causes = () if fit.facts.hazard is None else fit.facts.hazard.causes
    wanted = choice(causes[0] if cause is None else cause, name="cause", options=causes) if len(causes) > 1 else None
    factors = {
        block.term: block
        for block in term_blocks(fit)
        if block.cause == wanted and _levels(fit, block.term) is not None
    }
    own = [each for each in factors if term in _variables(fit, each)]
    named = own[0] if term not in factors and len(own) == 1 else term
    block = factors[choice(named, name="term_name", options=list(factors) or ["a factor, which this model has not"])]
    levels, codes = _levels(fit, block.term) or ((), ())
    if len(block.places) != len(codes):
        raise ArgumentError("a multinomial model has a factor in every level: use t_test", argument="term_name")
    rows = np.zeros((len(levels), len(fit.estimate.terms)))
    rows[list(codes), list(block.places)] = 1.0
    both = [(late, early) for early in range(len(levels)) for late in range(early + 1, len(levels))]
    L = np.array([rows[late] - rows[early] for late, early in both])
    names = tuple(f"{levels[late]} - {levels[early]}" for late, early in both)
    return Constraints(L=L, q=np.zeros(len(L)), names=names)


def _variables(fit: "Result", term: str) -> set[str]:
    """Return the columns whose levels a term has: of "C(grade)" that is "grade"."""
    return {level.column for column in design_of(fit).columns if column.term == term for level in column.levels}


def _levels(fit: "Result", term: str) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """Return the levels of a term that is one factor, and those that its columns stand for; None for other terms."""
    if fit.facts.family is not None:
        return None
    own = [column for column in design_of(fit).columns if column.term == term]
    if not own or any(len(column.levels) != 1 or column.expressions for column in own):
        return _binary(fit, term) if len(own) == 1 else None
    declared = fit.schema[own[0].levels[0].column]
    names = declared.levels if isinstance(declared, Categorical) else getattr(declared, "labels", None) or ("0", "1")
    return tuple(names), tuple(column.levels[0].code for column in own)


def _binary(fit: "Result", term: str) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """Return the levels of a binary column that the formula reads as a number."""
    declared = fit.schema.get(term)
    return (declared.labels or ("0", "1"), (1,)) if isinstance(declared, Binary) else None


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
