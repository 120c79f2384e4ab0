"""The tests that a result answers: contrasts, joint tests of terms, differences between the levels of a factor.

`Disagreement` tests whether private people have the coefficients that public rows tell: Cochran's Q of both estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice
from hdpstats.display import Report, Reported, columns, named_values, number, p_equals, p_value
from hdpstats.records.estimate import Estimate, Heterogeneity
from hdpstats.results.contrasts import (
    Constraints,
    ContrastResults,
    PairwiseTests,
    WaldTest,
    WaldTestTerms,
    constraints_of,
    pairwise,
    t_test,
    wald_test,
)
from hdpstats.results.facts import Fitted, ModelFacts, design_of, term_blocks
from hdpstats.schema.columns import Binary, Categorical
from hdpstats.schema.schema import Schema

ESTIMATES = ("public_only", "private_only", "pooled")
"""The names of the estimates of a result."""


class HasEstimates(Protocol):
    """A result, as far as tests need it."""

    @property
    def facts(self) -> ModelFacts:
        """What was fitted."""

    @property
    def schema(self) -> Schema:
        """The declared columns."""

    @property
    def estimate(self) -> Estimate:
        """The estimate that `params` speaks of."""

    @property
    def public_only(self) -> Estimate | None:
        """The estimate of public rows."""

    @property
    def private_only(self) -> Estimate | None:
        """The estimate of private rows."""

    @property
    def pooled(self) -> Estimate | None:
        """The estimate of both."""


def chosen(result: HasEstimates, which: str | None) -> Estimate:
    """Return one of the estimates of a result by its name; the one that `params` speaks of by default."""
    if which is None:
        return result.estimate
    found: Estimate | None = getattr(result, choice(which, name="estimate", options=ESTIMATES))
    if found is None:
        there = [name for name in ESTIMATES if getattr(result, name) is not None]
        remedy = f"there is {', '.join(there)}" if there else "it has one estimate: leave estimate= out"
        raise ArgumentError(f"this result has no estimate {which!r}; {remedy}", argument="estimate")
    return found


class Tested:
    """Tests of linear hypotheses about the coefficients: post-processing that costs no privacy.

    ``estimate`` says which estimate is meant: that of `params` by default, or "public_only", "private_only", "pooled".
    P-values and intervals are those of the drawn errors of each contrast (`hdpstats.results.contrasts`).
    """

    __slots__ = ()

    def t_test(
        self: HasEstimates,
        r_matrix: object,
        *,
        estimate: str | None = None,
        names: Sequence[str] | None = None,
    ) -> ContrastResults:
        """Test contrasts of coefficients, each by itself.

        Parameters
        ----------
        r_matrix : str, list of str, array, or tuple of an array and values
            ``"size[T.>50] - size[T.20-50] = 0"``, several constraints separated by commas, or a matrix with a column
            per coefficient, alone (for values of 0) or with the values.
        estimate : str, optional
            Which estimate; see the class.
        names : sequence of str, optional
            What texts call the coefficients, where not as `params` does.

        Returns
        -------
        ContrastResults
            ``effect``, ``sd``, ``statistic``, ``pvalue``, ``conf_int()`` and ``summary_frame()``, as in statsmodels.

        Raises
        ------
        ArgumentError
            If constraints cannot be read, or the result has no such estimate.
        """
        found = chosen(self, estimate)
        return t_test(found, constraints_of(r_matrix, _names(found, names)))

    def wald_test(
        self: HasEstimates,
        r_matrix: object,
        *,
        estimate: str | None = None,
        names: Sequence[str] | None = None,
    ) -> WaldTest:
        """Test constraints jointly; arguments and errors are those of `t_test`.

        ``statistic``, ``pvalue`` and ``df_constraint`` are numbers. A constraint that follows from the others is
        refused.
        """
        found = chosen(self, estimate)
        return wald_test(found, constraints_of(r_matrix, _names(found, names)))

    def wald_test_terms(self: HasEstimates, *, skip_single: bool = False, estimate: str | None = None) -> WaldTestTerms:
        """Test for each term of the formula that all its coefficients are 0: factors and splines as a whole.

        These are tests of type III: each given all other terms, as R's ``car::Anova(type = 3)`` has them. With several
        causes every cause has its own; of a multinomial model a term is tested in all levels together.

        Parameters
        ----------
        skip_single : bool
            Whether to leave out terms of one coefficient.
        estimate : str, optional
            Which estimate; see the class.

        Returns
        -------
        WaldTestTerms
            ``table`` has a row per term: statistic, pvalue, df_constraint.
        """
        found = chosen(self, estimate)
        identity = np.eye(len(found.terms))
        tests = {}
        for block in term_blocks(fitted(self)):
            if len(block.places) > 1 or not skip_single:
                L = identity[list(block.places)]
                names = tuple(found.terms[place] for place in block.places)
                tests[block.label] = wald_test(found, Constraints(L=L, q=np.zeros(len(L)), names=names))
        return WaldTestTerms(tests=tests)

    def t_test_pairwise(
        self: HasEstimates,
        term_name: str,
        *,
        method: str = "hs",
        alpha: float = 0.05,
        cause: str | None = None,
        estimate: str | None = None,
    ) -> PairwiseTests:
        """Compare all levels of a factor with each other, the reference level too.

        Parameters
        ----------
        term_name : str
            A term of the formula that is one categorical or binary column, such as "size" or "C(grade)", or that
            column, "grade", where one term only is its levels. Where it is part of an interaction too, differences are
            those where the other factors of the interaction are 0.
        method : str
            How p-values are adjusted for the number of pairs: a method of statsmodels' ``multipletests``, by default
            that of Holm and Sidak.
        alpha : float
            One minus the level of the intervals, and that of the decisions.
        cause : str, optional
            Which cause of several; the first by default.
        estimate : str, optional
            Which estimate; see the class.

        Returns
        -------
        PairwiseTests
            ``result_frame`` has a row per pair, "20-50 - <=20" and so on.
        """
        found = chosen(self, estimate)
        constraints = _pairs(fitted(self), term_name, cause)
        return pairwise(found, constraints, method=method, alpha=alpha)


def _names(estimate: Estimate, names: Sequence[str] | None) -> Sequence[str]:
    if names is None:
        return estimate.terms
    listed = [str(name) for name in names]
    if len(set(listed)) != len(estimate.terms):
        raise ArgumentError(f"names must be {len(estimate.terms)} different texts", argument="names")
    return listed


def fitted(result: HasEstimates) -> Fitted:
    """Return a result as what it is."""
    if not isinstance(result, Fitted):
        raise TypeError("tests are methods of a fitted model")
    return result


def _pairs(fit: Fitted, term: str, cause: str | None) -> Constraints:
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
    pairs = [(late, early) for early in range(len(levels)) for late in range(early + 1, len(levels))]
    L = np.array([rows[late] - rows[early] for late, early in pairs])
    names = tuple(f"{levels[late]} - {levels[early]}" for late, early in pairs)
    return Constraints(L=L, q=np.zeros(len(L)), names=names)


def _variables(fit: Fitted, term: str) -> set[str]:
    """Return the columns whose levels a term has: of "C(grade)" that is "grade"."""
    return {level.column for column in design_of(fit).columns if column.term == term for level in column.levels}


def _levels(fit: Fitted, term: str) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """Return the levels of a term that is one factor, and those that its columns stand for; None for other terms."""
    if fit.facts.family is not None:
        return None
    own = [column for column in design_of(fit).columns if column.term == term]
    if not own or any(len(column.levels) != 1 or column.expressions for column in own):
        return _binary(fit, term) if len(own) == 1 else None
    declared = fit.schema[own[0].levels[0].column]
    names = declared.levels if isinstance(declared, Categorical) else getattr(declared, "labels", None) or ("0", "1")
    return tuple(names), tuple(column.levels[0].code for column in own)


def _binary(fit: Fitted, term: str) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
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
