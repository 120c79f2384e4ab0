"""What is publicly known about a fitted model, and about a weighted public sample.

A fitted model reads public rows that a user gives: they are checked, and turned into the design of the model.
`TermBlock` says which coefficients belong to which term of a formula, and what the columns of a term stand for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.validation import choice
from hdpstats.formulas import Design, compile_design
from hdpstats.formulas.compiler import compile_survival
from hdpstats.formulas.outcome import categorical_design, log_time
from hdpstats.losses import LINKS, MEANS, ExponentialTimes, multinomial
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.records.estimate import Estimate
from hdpstats.records.model import TimeGrid
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import check_frame
from hdpstats.schema.spells import stratum_of

if TYPE_CHECKING:
    from hdpstats.results.result import Result

MOST_FOLLOWED: Final = 20_000.0
"""People of a stratum for whose curves a spline in the logarithm of time needs no more than four coefficients."""
FEW_FOLLOWED: Final = 1000.0
"""The same with two or three coefficients."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardFacts(Record):
    r"""Public facts about a discrete-time hazard model.

    The hazard of cause ``k`` in interval ``s`` is :math:`p_{ks} = g^{-1}(A_s'\alpha_k + x'\beta_k)`. The terms of an
    estimate are, for each cause, ``baseline_names`` and then the covariates; with several causes each name is prefixed
    by the cause and a colon.

    Attributes
    ----------
    link : str
        ``g``: a name of `hdpstats.losses.LINKS`.
    grid : TimeGrid
        The q intervals.
    unit_of_time : str or None
        The unit of the durations, for tables and axes.
    start : str or None
        The column with entry times; None where everybody enters at 0.
    stop, event : str
        The columns with the end of follow-up and with what happened then.
    causes : tuple of str
        The kinds of event; one where risks do not compete.
    baseline : tuple of tuples of float, (q, e)
        ``A``: the features of each interval in the coordinates of the coefficients.
    baseline_names : tuple of str
        The names of the e features.
    cap : str or None
        How one person's part in a private fit is limited, a sentence for the summary.
    typical : tuple of float or None
        The covariates' values (columns of the design without its intercept) at which curves are drawn when nobody says
        otherwise, such as the means of public rows; None stands for zeros.
    strata : tuple of str or None
        The columns of ``strata(x)``, with a baseline each: ``baseline`` is then (G q, G e), stratum by stratum.

    Raises
    ------
    ArgumentError
        If the baseline has another shape than (intervals, names), or no cause is named.
    """

    link: str
    grid: TimeGrid
    unit_of_time: str | None
    start: str | None
    stop: str
    event: str
    causes: tuple[str, ...]
    baseline: tuple[tuple[float, ...], ...]
    baseline_names: tuple[str, ...]
    cap: str | None
    typical: tuple[float, ...] | None = None
    strata: Annotated[tuple[str, ...] | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse a baseline without a row per interval and a column per name."""
        choice(self.link, name="link", options=LINKS)
        width = len(self.baseline_names)
        copies = 1 if self.strata is None else len(self.baseline) // self.grid.intervals
        if (
            len(self.baseline) != copies * self.grid.intervals
            or not copies
            or any(len(row) != width for row in self.baseline)
        ):
            raise ArgumentError("baseline must have a row per interval and a column per name", argument="baseline")
        if not self.causes:
            raise ArgumentError("causes must name one or more kinds of event", argument="causes")

    @property
    def features(self) -> FloatArray:
        """``A``, shape (q, e); refused where strata have baselines of their own."""
        if self.strata is not None:
            raise ArgumentError(
                f"every stratum of {', '.join(self.strata)} has a baseline of its own: ask predict_hazard or "
                "predict_survival, with a frame that says the stratum",
                argument="strata",
            )
        return np.array(self.baseline, dtype=np.float64).reshape(self.grid.intervals, len(self.baseline_names))

    def missed_courses(self, people: float) -> str | None:
        """Return in words which hazards limits of curves do not allow for, with so many people; None for none.

        A baseline with a coefficient per interval follows every hazard. What four coefficients of a spline in the
        logarithm of time miss of rising, falling and bent ones is about half a standard error with 20,000 people, and
        each further one leaves half of it.
        """
        copies = len(self.baseline) // self.grid.intervals
        size = len(self.baseline_names) // copies
        A = np.array(self.baseline, dtype=np.float64)[: self.grid.intervals, :size]
        if size >= self.grid.intervals:
            return None
        line = log_time(self.grid)
        if np.abs(A @ np.linalg.lstsq(A, line, rcond=None)[0] - line).max() > 1e-6:
            return (
                "Limits of curves take it that the baseline follows the hazard. A spline in time misses one that is "
                "steep at the beginning: baseline='log_spline' follows it."
            )
        enough = {more: MOST_FOLLOWED * 3.0 ** (more - 4) if more >= 4 else FEW_FOLLOWED for more in range(2, 11)}
        if size not in enough or people / copies <= enough[size]:
            return None
        needed = next((more for more, most in enough.items() if people / copies <= most), 10)
        return (
            f"Limits of curves take it that {size} coefficients of the baseline follow the hazard. With {people:.0f} "
            f"people what they miss is not small beside the limits: take df={needed}."
        )

    def of_stratum(self, place: int) -> "HazardFacts":
        """Return the time axis of one stratum: its rows of the baseline, with the features of all strata."""
        q = self.grid.intervals
        return replace(self, baseline=self.baseline[place * q : (place + 1) * q], strata=None)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RowWeights(Record):
    """What weights that bound one person's part do to an estimate.

    Attributes
    ----------
    share : float
        The share of the information on slopes that they take away: among public rows, raked to what was described.
    allowance : tuple of float
        For each coefficient of the private estimate, the standard deviation of what they may do to it. It is a part of
        ``cov_privacy``.
    covariance : tuple of tuples of float or None
        The covariance of the same, whose diagonal has the squares; None in results that were stored without it.
    clipped : bool or None
        True where it is people's scores that are clipped; None where rows are weighted.
    """

    share: float
    allowance: tuple[float, ...]
    covariance: Annotated[tuple[tuple[float, ...], ...] | None, LEFT_OUT] = None
    clipped: Annotated[bool | None, LEFT_OUT] = None

    @classmethod
    def of(cls, share: float, covariance: FloatArray, *, clipped: bool | None = None) -> "RowWeights":
        """Return them from a share and the covariance of an allowance (p, p)."""
        return cls(
            share=share,
            allowance=tuple(np.sqrt(np.diag(covariance)).tolist()),
            covariance=tuple(tuple(row) for row in covariance.tolist()),
            clipped=clipped,
        )

    @property
    def factor(self) -> FloatArray:
        """``L`` (p, p) with the covariance ``L L'``: standard deviations times the symmetric root of correlations.

        So estimates of one model whose weights may do more or less err by the same standard normal draw. Without a
        covariance the coefficients are taken to be uncorrelated.
        """
        sd = np.array(self.allowance)
        if self.covariance is None:
            return np.diag(sd)
        scale = np.where(sd > 0.0, sd, 1.0)
        values, vectors = np.linalg.eigh(np.array(self.covariance) / np.outer(scale, scale))
        return np.asarray(sd[:, None] * (vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RowsOfPeople(Record):
    """How the rows of people with several rows count.

    Attributes
    ----------
    unit : str
        The column that names the person.
    most_rows : int
        The most rows of a person that are used.
    correlation : float
        ``r``: each of a person's n complete rows counts ``1 / (1 + (n - 1) r)``.
    estimand : str
        Whose coefficients are estimated, in words.
    total : float
        ``W``: the largest sum of the weights of a person's rows.
    public_people : int or None
        The number of people whom the public rows are of, where they say so.
    rows, rows_sd : float or None
        The number of rows that count, of private people, and the standard deviation of the noise in it; None where the
        fit did not ask for it.
    """

    unit: str
    most_rows: int
    correlation: float
    estimand: str
    total: float
    public_people: int | None = None
    rows: Annotated[float | None, LEFT_OUT] = None
    rows_sd: Annotated[float | None, LEFT_OUT] = None

    @property
    def words(self) -> str:
        """How rows count, in a sentence without its end."""
        if self.correlation == 1.0:
            each = "each of n rows counts 1 / n"
        elif self.correlation == 0.0:
            each = "each row counts 1"
        else:
            each = f"each of n rows counts 1 / (1 + {self.correlation:g} (n - 1))"
        return f"{self.estimand}: {each}; a person's rows, {self.most_rows} at most, count up to {self.total:.3g} (W)"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts(Record):
    """Public facts about a model and its fit.

    Attributes
    ----------
    model : str
        The model's name: "Logit".
    formula : str
        The formula.
    response : str
        The outcome: its column, or "Surv(time, event)".
    method : str
        How it was fitted, in words.
    records : int or None
        The number of private records: public under ``replace_one`` (with several rows per person: as declared), noisy
        under ``add_or_remove_one``; None where none was used.
    public_rows : int or None
        The number of complete public rows used; None where none was.
    weights, offset : str or None
        The columns with case weights and offsets.
    loss : str or None
        The loss that was minimised, a name of `hdpstats.losses.MEANS`: gives predictions their mean. None for a
        hazard model, whose link does.
    exponentiated : str
        What the exponential of a coefficient is: "odds ratio", "hazard ratio", or "exponential" where it has no name.
    hazard : HazardFacts or None
        The time axis of a hazard model.
    family : str or None
        The family of distributions whose parameters were estimated, where there are no covariates.
    records_sd : float or None
        The standard deviation of the noise in ``records`` of a fit to weighted rows, or where a description that was
        charged before tells them; None where they are public, and in other fits, whose result has it in ``count``.
    complete_rows : bool or None
        Whether such a noisy number leaves out rows that lack a column; None where ``records_sd`` is.
    row_weights : RowWeights or None
        What weights of people take away, and the allowance for it; None where nobody is weighted by public rows.
    several_rows : RowsOfPeople or None
        How the rows of a person count, where people have several; None where each row is a person, and for hazards.
    propensity : str or None
        The formula of the propensity model by which people are weighted; None where they are not.
    first_row : str or None
        The column that names the person, where of people with several rows the first complete one counts.
    averaged : int or None
        Where besides the outcome is the person's mean: over how many rows at most.

    Raises
    ------
    ArgumentError
        If not exactly one of loss, hazard and family is given.
    """

    model: str
    formula: str
    response: str
    method: str
    records: int | None
    public_rows: int | None
    weights: str | None
    offset: str | None
    loss: str | None
    exponentiated: str
    hazard: HazardFacts | None = None
    family: str | None = None
    records_sd: Annotated[float | None, LEFT_OUT] = None
    complete_rows: Annotated[bool | None, LEFT_OUT] = None
    row_weights: Annotated[RowWeights | None, LEFT_OUT] = None
    several_rows: Annotated[RowsOfPeople | None, LEFT_OUT] = None
    propensity: Annotated[str | None, LEFT_OUT] = None
    first_row: Annotated[str | None, LEFT_OUT] = None
    averaged: Annotated[int | None, LEFT_OUT] = None

    @property
    def averaged_words(self) -> str:
        """What the outcome is of people with several rows, in words; empty where it is that of a row."""
        if self.averaged is None:
            return ""
        return f"outcome the person's mean over {self.averaged} row{'s' if self.averaged > 1 else ''} at most"

    @property
    def by_person(self) -> bool:
        """Whether people have several rows, of which all count or the first complete one."""
        return self.several_rows is not None or self.first_row is not None

    def __post_init__(self) -> None:
        """Refuse what gives predictions no mean, or two."""
        if sum(given is not None for given in (self.loss, self.hazard, self.family)) != 1:
            raise ArgumentError(
                "a model has a loss, the facts of hazards, or a family of distributions", argument="loss"
            )
        if self.loss is not None:
            choice(self.loss, name="loss", options=MEANS)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampleFacts(Record):
    """Public facts about the weights of public rows.

    Attributes
    ----------
    method : str
        How the weights were made, in words.
    columns : tuple of str
        The columns in which the weighted rows stand for the private ones; other columns follow only as far as they
        depend on these alike in both.
    formula : str or None
        The formula of a density ratio; None for counts of nearest neighbours.
    records : int or None
        The number of private records: public under ``replace_one``, noisy or declared otherwise.
    public_rows : int
        The number of weighted public rows.
    notes : tuple of str
        What a reader must know: columns left out, intervals that are too short, and why.
    records_sd : float or None
        The standard deviation of the noise in ``records``; None where it is public.
    complete_rows : bool or None
        Whether such a noisy number leaves out rows that lack a column; None where ``records_sd`` is.
    """

    method: str
    columns: tuple[str, ...]
    formula: str | None
    records: int | None
    public_rows: int
    notes: tuple[str, ...] = ()
    records_sd: Annotated[float | None, LEFT_OUT] = None
    complete_rows: Annotated[bool | None, LEFT_OUT] = None


def covariates(facts: ModelFacts, estimate: Estimate) -> list[int]:
    """Return the places of the terms that are no baseline of a hazard model; all of them for other models."""
    return [place for place, is_baseline in enumerate(_baseline(facts, estimate)) if not is_baseline]


def readable_order(facts: ModelFacts, estimate: Estimate) -> list[int]:
    """Return the places of all terms, the covariates of every cause before the baselines."""
    return sorted(range(len(estimate.terms)), key=_baseline(facts, estimate).__getitem__)


def _baseline(facts: ModelFacts, estimate: Estimate) -> list[bool]:
    """Return which terms are of a baseline: the first of each cause."""
    if facts.hazard is None:
        return [False] * len(estimate.terms)
    own = len(estimate.terms) // len(facts.hazard.causes)
    return [place % own < len(facts.hazard.baseline_names) for place in range(len(estimate.terms))]


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
    fit: "Result", frame: pd.DataFrame, design: Design, *, strata: Sequence[tuple[str, int]] = ()
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


def design_of(fit: "Result") -> Design:
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


def term_blocks(fit: "Result") -> tuple[TermBlock, ...]:
    """Return the terms of a model in the order of its coefficients."""
    names, hazard = fit.estimate.terms, fit.facts.hazard
    own = own_terms(fit)
    columns_of: dict[tuple[str | None, str], list[int]] = {}
    for place in range(len(names)):
        part, within = divmod(place, len(own))
        cause = hazard.causes[part] if hazard is not None and len(hazard.causes) > 1 else None
        columns_of.setdefault((cause, own[within]), []).append(place)
    return tuple(
        TermBlock(label=term if cause is None else f"{cause}: {term}", term=term, cause=cause, places=tuple(places))
        for (cause, term), places in columns_of.items()
    )


def own_terms(fit: "Result") -> tuple[str, ...]:
    """Return the term of each coefficient of one cause, or of one level of a categorical outcome."""
    if fit.facts.family is not None:
        return fit.estimate.terms
    columns = design_of(fit).columns
    if fit.facts.hazard is None:
        return tuple(column.term for column in columns)
    return (*(BASELINE for _ in fit.facts.hazard.baseline_names), *(column.term for column in columns[1:]))


ESTIMATES = ("public_only", "private_only", "pooled")
"""The names of the estimates of a result."""


def chosen(result: "Result", which: str | None) -> Estimate:
    """Return one of the estimates of a result by its name; the one that `params` speaks of by default."""
    if which is None:
        return result.estimate
    estimate: Estimate | None = getattr(result, choice(which, name="estimate", options=ESTIMATES))
    if estimate is None:
        there = [name for name in ESTIMATES if getattr(result, name) is not None]
        remedy = f"there is {', '.join(there)}" if there else "it has one estimate: leave estimate= out"
        raise ArgumentError(f"this result has no estimate {which!r}; {remedy}", argument="estimate")
    return estimate
