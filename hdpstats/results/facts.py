"""What is publicly known about a fitted model, and about a weighted public sample."""

from dataclasses import dataclass, replace
from typing import Annotated, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.losses import LINKS, MEANS
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.records.estimate import Estimate
from hdpstats.records.model import TimeGrid


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

    def of_stratum(self, place: int) -> "HazardFacts":
        """Return the time axis of one stratum: its rows of the baseline, with the features of all strata."""
        q = self.grid.intervals
        return replace(self, baseline=self.baseline[place * q : (place + 1) * q], strata=None)


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
