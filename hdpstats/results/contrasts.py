r"""Tests of linear hypotheses about coefficients, in statsmodels' words: z-tests, joint Wald tests, pairs of levels.

For constraints :math:`L \beta = q` with the estimate :math:`b` and its covariance :math:`V`,

.. math:: z_i = \frac{(L b - q)_i}{\sqrt{(L V L')_{ii}}}, \qquad W = (L b - q)' (L V L')^{-1} (L b - q).

A private estimate's error has heavier tails than the normal distribution, and how heavy depends on the contrast. So the
reference distribution of each is that of its own drawn errors: under the hypothesis :math:`L b - q = L e`, and the
p-value of ``W`` is the share of the draws :math:`e_1, \dots, e_B` of the error with
:math:`(L e_i)' (L V L')^{-1} (L e_i) \ge W`, counting the estimate itself (Davison and Hinkley 1997, *Bootstrap Methods
and their Application*, section 4.2): never below :math:`1 / (B + 1)`. A single constraint has the p-value of its
z-test, that of the table of coefficients. A fit to public rows alone has the normal and the chi-squared distribution.
All of it is post-processing and costs no privacy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.display import Report, Reported, columns, named_values, number, p_value
from hdpstats.formulas.coefficients import read_constraints
from hdpstats.records.estimate import Estimate
from hdpstats.results.facts import design_of, term_blocks
from hdpstats.results.labels import labels_of_terms
from hdpstats.schema.columns import Binary, Categorical

if TYPE_CHECKING:
    from hdpstats.results.result import Result

DRAWN = "p-values and intervals are from draws of the error of each contrast, sampling and privacy noise together."
"""What a reader must know of a private estimate's tests."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Constraints:
    """``L beta = q``: a matrix ``L`` (k, p), values ``q`` (k,) and what tables call the rows."""

    L: FloatArray
    q: FloatArray
    names: tuple[str, ...]


def constraints_of(r_matrix: object, names: Sequence[str], *, short: bool = False) -> Constraints:
    """Return constraints that were given as text, texts, a matrix, or a matrix and values.

    ``short`` says that rows of a matrix are called c0, c1 and so on, as statsmodels does for text too.
    """
    if isinstance(r_matrix, str) or (
        isinstance(r_matrix, list | tuple) and r_matrix and all(isinstance(each, str) for each in r_matrix)
    ):
        L, q, texts = read_constraints(r_matrix if isinstance(r_matrix, str) else ", ".join(r_matrix), names)
        return Constraints(L=L, q=q, names=tuple(f"c{k}" for k in range(len(q))) if short else texts)
    matrix, values = r_matrix if isinstance(r_matrix, tuple) and len(r_matrix) == 2 else (r_matrix, 0.0)
    try:
        L = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
        q = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(L),)).copy()
    except (TypeError, ValueError):
        raise _shape(len(names)) from None
    if L.shape[1:] != (len(names),) or not np.isfinite(L).all() or not np.isfinite(q).all() or not L.any(axis=1).all():
        raise _shape(len(names))
    return Constraints(L=L, q=q, names=tuple(f"c{k}" for k in range(len(q))))


def _shape(p: int) -> ArgumentError:
    return ArgumentError(
        f"constraints must be a text such as 'a - b = 0', or a matrix of finite numbers with a column for each of the "
        f"{p} coefficients and no row of zeros, alone or in a tuple with the values",
        argument="r_matrix",
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ContrastResults(Reported):
    """Contrasts of coefficients, each tested by itself.

    Attributes
    ----------
    estimate : Estimate
        The contrasts ``L beta`` with their covariance and the distribution of their errors.
    null : (k,) float64
        What the hypotheses say that they are.
    names : tuple of str
        What `summary_frame` calls them.
    labels : mapping of str to str
        What a page calls those of single coefficients whose columns have labels in the schema.
    """

    estimate: Estimate
    null: FloatArray
    names: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def effect(self) -> FloatArray:
        """The estimated contrasts (k,)."""
        return np.asarray(self.estimate.params)

    @property
    def sd(self) -> FloatArray:
        """Their standard errors (k,)."""
        return np.asarray(self.estimate.bse)

    @property
    def statistic(self) -> FloatArray:
        """Their distances from the hypotheses, in standard errors (k,)."""
        return np.asarray(self._distance.tvalues)

    @property
    def tvalue(self) -> FloatArray:
        """The same, as statsmodels calls it."""
        return self.statistic

    @property
    def pvalue(self) -> FloatArray:
        """Two-sided p-values (k,)."""
        return np.asarray(self._distance.pvalues)

    @property
    def _distance(self) -> Estimate:
        return self.estimate.moved(-self.null)

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return confidence limits (k, 2) of the contrasts; ``alpha`` in [0.001, 0.999]."""
        return self.estimate.conf_int(alpha).to_numpy()

    def summary_frame(self, xname: Sequence[str] | None = None, alpha: float = 0.05) -> pd.DataFrame:
        """Return a row per contrast, in statsmodels' words; ``xname`` names them."""
        names = list(self.names if xname is None else xname)
        low, high = self.conf_int(alpha).T
        columns = (self.effect, self.sd, self.statistic, self.pvalue, low, high)
        headers = ("coef", "std err", "z", "P>|z|", "Conf. Int. Low", "Conf. Int. Upp.")
        return pd.DataFrame(dict(zip(headers, columns, strict=True)), index=pd.Index(names))

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per contrast, in broom's words.

        Columns contrast, null_value, estimate, std_error, statistic, p_value, conf_low, conf_high; ``conf_level`` in
        [0.001, 0.999].
        """
        level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        low, high = self.conf_int(1.0 - level).T
        return pd.DataFrame(
            {
                "contrast": list(self.names),
                "null_value": self.null,
                "estimate": self.effect,
                "std_error": self.sd,
                "statistic": self.statistic,
                "p_value": self.pvalue,
                "conf_low": low,
                "conf_high": high,
            }
        )

    def _report(self, alpha: float = 0.05) -> Report:
        level = real(alpha, name="alpha", lower=0.001, upper=0.999)
        frame, floor = self.summary_frame(alpha=level), self.estimate.p_floor
        rows = [
            [number(b), number(se, 3), number(z, 3), p_value(p, floor), number(low, 3), number(high, 3)]
            for b, se, z, p, low, high in frame.to_numpy()
        ]
        headers = ["coef", "std err", "z", "P>|z|", f"[{level / 2:.6g}", f"{1 - level / 2:.6g}]"]
        notes = [] if self.estimate.distribution is None else [DRAWN]
        shown = [self.labels.get(name, name) for name in self.names]
        block = columns(headers, list(frame.index), rows, labels=shown)
        return Report(title="Tests of contrasts", blocks=[block], notes=notes)

    def __repr__(self) -> str:
        return f"<contrasts: {', '.join(self.names)}>"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class WaldTest(Reported):
    """A joint test of linear hypotheses: ``statistic``, ``pvalue``, ``df_constraint``, and the least p-value there is.

    ``p_floor`` is 0 where the distribution is known and not drawn.
    """

    statistic: float
    pvalue: float
    df_constraint: int
    p_floor: float

    @property
    def df_denom(self) -> int:
        """The degrees of freedom, as statsmodels calls them in a chi-squared test."""
        return self.df_constraint

    def tidy(self) -> pd.DataFrame:
        """Return one row, in broom's words: statistic, df, p_value."""
        return pd.DataFrame({"statistic": [self.statistic], "df": [self.df_constraint], "p_value": [self.pvalue]})

    def glance(self) -> pd.DataFrame:
        """Return the row of `tidy`."""
        return self.tidy()

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        rows = [
            ("Statistic:", f"{number(self.statistic, 3)} on {self.df_constraint} degrees of freedom"),
            ("p-value:", self.pvalue_text),
        ]
        return Report(title="Joint Wald test", blocks=[named_values(rows)], notes=[DRAWN] if self.p_floor else [])

    def __str__(self) -> str:
        sign = "" if self.pvalue_text.startswith("<") else "="
        return f"<Wald test: statistic={self.statistic:.6g}, p-value{sign}{self.pvalue_text}, df={self.df_constraint}>"

    __repr__ = __str__

    @property
    def pvalue_text(self) -> str:
        """The p-value as tables show it: ``<0.00025`` at its floor."""
        return p_value(self.pvalue, self.p_floor)


def t_test(
    estimate: Estimate, constraints: Constraints, *, labels: Mapping[str, str] = MappingProxyType({})
) -> ContrastResults:
    """Return tests of each constraint by itself; ``labels`` are those of coefficients."""
    made = estimate.linear(constraints.L, constraints.names)
    return ContrastResults(estimate=made, null=constraints.q, names=constraints.names, labels=labels)


def wald_test(estimate: Estimate, constraints: Constraints) -> WaldTest:
    """Return the joint test of constraints; NaN where a coefficient, or its error, is not known.

    The p-value of one constraint alone is that of its z-test, to the last digit: a hypothesis has one p-value.

    Raises
    ------
    ArgumentError
        If a constraint follows from the others.
    """
    L, q = constraints.L, constraints.q
    scaled = L / np.linalg.norm(L, axis=1, keepdims=True)
    if np.linalg.matrix_rank(scaled) < len(L):
        raise ArgumentError(
            f"constraints: {len(L)} were given, and some follow from the others; leave those out", argument="r_matrix"
        )
    made = estimate.linear(L, constraints.names)
    V, distance = made.sampling + made.privacy, made.params.to_numpy() - q
    floor = made.p_floor
    if np.isnan(V).any() or np.isnan(distance).any():
        return WaldTest(statistic=np.nan, pvalue=np.nan, df_constraint=len(q), p_floor=floor)
    scale = np.sqrt(np.diag(V))
    inverse = np.linalg.pinv(V / np.outer(scale, scale), hermitian=True) / np.outer(scale, scale)
    statistic = float(distance @ inverse @ distance)
    if len(q) == 1:
        return WaldTest(
            statistic=statistic, pvalue=float(made.moved(-q).pvalues.iloc[0]), df_constraint=1, p_floor=floor
        )
    if made.distribution is None:
        return WaldTest(statistic=statistic, pvalue=float(chdtrc(len(q), statistic)), df_constraint=len(q), p_floor=0.0)
    errors = made.distribution.joint().exact
    by_chance = np.einsum("bi,ij,bj->b", errors, inverse, errors)
    share = (1 + int(np.count_nonzero(by_chance >= statistic))) / (len(errors) + 1)
    return WaldTest(statistic=statistic, pvalue=share, df_constraint=len(q), p_floor=floor)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class WaldTestTerms(Reported):
    """Joint tests that all coefficients of a term are 0, a term each: ``tests`` by its name.

    ``labels`` are what a page calls the terms that have one, by the schema.
    """

    tests: dict[str, WaldTest]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> pd.DataFrame:
        """A row per term: statistic, pvalue, df_constraint."""
        return pd.DataFrame(
            {
                "statistic": [each.statistic for each in self.tests.values()],
                "pvalue": [each.pvalue for each in self.tests.values()],
                "df_constraint": [each.df_constraint for each in self.tests.values()],
            },
            index=pd.Index(list(self.tests), name="term"),
        )

    def tidy(self) -> pd.DataFrame:
        """Return a row per term, in broom's words: term, statistic, df, p_value."""
        names = {"pvalue": "p_value", "df_constraint": "df"}
        return self.table.reset_index().rename(columns=names)[["term", "statistic", "df", "p_value"]]

    def summary_frame(self) -> pd.DataFrame:
        """Return the table under statsmodels' headers."""
        return self.table.set_axis(["chi2", "P>chi2", "df constraint"], axis=1)

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        rows = [[number(each.statistic, 3), each.pvalue_text, str(each.df_constraint)] for each in self.tests.values()]
        shown = [self.labels.get(name, name) for name in self.tests]
        block = columns(["statistic", "p-value", "df"], list(self.tests), rows, labels=shown)
        drawn = any(each.p_floor for each in self.tests.values())
        return Report(title="Joint Wald tests of terms", blocks=[block], notes=[DRAWN] if drawn else [])

    def __repr__(self) -> str:
        return f"<Wald tests of {', '.join(self.tests)}>"


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class PairwiseTests(Reported):
    """Differences between all levels of a factor, with p-values adjusted for their number.

    Attributes
    ----------
    contrasts : ContrastResults
        The differences, each by itself.
    method : str
        How p-values were adjusted: a name of statsmodels' ``multipletests``.
    alpha : float
        One minus the level of the intervals, and that of the decisions.
    adjusted : (k,) float64
        The adjusted p-values.
    reject : (k,) bool
        Which differences are significant at ``alpha``.
    label : str
        What readers call the factor, by the schema; empty where it has no label.
    """

    contrasts: ContrastResults
    method: str
    alpha: float
    adjusted: FloatArray
    reject: NDArray[np.bool_]
    label: str = ""

    @property
    def result_frame(self) -> pd.DataFrame:
        """A row per pair: `ContrastResults.summary_frame` with the adjusted p-value and the decision."""
        frame = self.contrasts.summary_frame(alpha=self.alpha)
        return frame.assign(**{f"pvalue-{self.method}": self.adjusted, f"reject-{self.method}": self.reject})

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per pair, in broom's words: the columns of `ContrastResults.tidy`, and adj_p_value."""
        return self.contrasts.tidy(conf_level).assign(adj_p_value=self.adjusted)

    def _report(self, alpha: float = 0.05) -> Report:
        level = real(alpha, name="alpha", lower=0.001, upper=0.999)
        floor = self.contrasts.estimate.p_floor
        rows = [
            [
                number(row["estimate"]),
                *(number(row[name], 3) for name in ("std_error", "statistic")),
                p_value(row["adj_p_value"], floor),
                *(number(row[name], 3) for name in ("conf_low", "conf_high")),
            ]
            for row in self.tidy(1.0 - level).to_dict("records")
        ]
        headers = ["coef", "std err", "z", "adj. P>|z|", f"[{level / 2:.6g}", f"{1 - level / 2:.6g}]"]
        drawn = [] if self.contrasts.estimate.distribution is None else [DRAWN]
        return Report(
            title="Differences between levels" + (f" of {self.label}" if self.label else ""),
            blocks=[columns(headers, list(self.contrasts.names), rows)],
            notes=[f"p-values are adjusted for {len(rows)} pairs ({self.method}); intervals are not.", *drawn],
        )

    def __repr__(self) -> str:
        return f"<differences between levels: {', '.join(self.contrasts.names)}>"


def pairwise(
    estimate: Estimate, constraints: Constraints, *, method: str, alpha: float, label: str = ""
) -> PairwiseTests:
    """Return differences between levels with adjusted p-values; ``label`` is that of the factor."""
    from statsmodels.stats.multitest import multipletests

    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    contrasts = t_test(estimate, constraints)
    raw: Any = contrasts.pvalue
    adjusted, reject = np.full(len(raw), np.nan), np.zeros(len(raw), dtype=np.bool_)
    known = ~np.isnan(raw)
    if known.any():
        try:
            with np.errstate(divide="ignore"):  # a p-value of 1 has the logarithm of 0 in Holm and Sidak's method
                decided, corrected, *_ = multipletests(raw[known], alpha=level, method=method)
        except ValueError:
            raise ArgumentError(
                f"method must be one of statsmodels' multipletests, such as 'hs' or 'holm', not {method!r}",
                argument="method",
            ) from None
        adjusted[known], reject[known] = corrected, decided
    return PairwiseTests(contrasts=contrasts, method=method, alpha=level, adjusted=adjusted, reject=reject, label=label)


def constraints(estimate: Estimate, r_matrix: object, names: Sequence[str] | None) -> Constraints:
    """Return constraints on the coefficients of an estimate, which ``names`` may call otherwise."""
    return constraints_of(r_matrix, _names(estimate, names))


def _names(estimate: Estimate, names: Sequence[str] | None) -> Sequence[str]:
    if names is None:
        return estimate.terms
    listed = [str(name) for name in names]
    if len(set(listed)) != len(estimate.terms):
        raise ArgumentError(f"names must be {len(estimate.terms)} different texts", argument="names")
    return listed


def tests_of_terms(fit: "Result", estimate: Estimate, *, skip_single: bool) -> WaldTestTerms:
    """Return the joint test of each term's coefficients."""
    identity = np.eye(len(estimate.terms))
    tests = {}
    for block in term_blocks(fit):
        if len(block.places) > 1 or not skip_single:
            L = identity[list(block.places)]
            names = tuple(estimate.terms[place] for place in block.places)
            tests[block.label] = wald_test(estimate, Constraints(L=L, q=np.zeros(len(L)), names=names))
    return WaldTestTerms(tests=tests, labels=labels_of_terms(tests, fit.schema))


def pairs(fit: "Result", term: str, cause: str | None) -> Constraints:
    """Return the differences between the levels of a factor, a later one minus an earlier one."""
    causes = () if fit.facts.hazard is None else fit.facts.hazard.causes
    wanted = choice(causes[0] if cause is None else cause, name="cause", options=causes) if len(causes) > 1 else None
    factors = {
        block.term: block
        for block in term_blocks(fit)
        if block.cause == wanted and levels_of_term(fit, block.term) is not None
    }
    own = [each for each in factors if term in _variables(fit, each)]
    named = own[0] if term not in factors and len(own) == 1 else term
    block = factors[choice(named, name="term_name", options=list(factors) or ["a factor, which this model has not"])]
    levels, codes = levels_of_term(fit, block.term) or ((), ())
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


def levels_of_term(fit: "Result", term: str) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
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
