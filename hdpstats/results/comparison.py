"""A result beside a reference: estimates and standard errors term by term, from any software.

Terms are matched by name; what does not mean the same in both models is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.display import EscapedSummary, grid, notes, number, page, pairs, summary, table
from hdpstats.losses import LINKS
from hdpstats.records.estimate import Estimate
from hdpstats.results import plots
from hdpstats.results.facts import HazardFacts, ModelFacts
from hdpstats.results.fitted import Fitted
from hdpstats.results.summary import plain
from hdpstats.results.tables import covariates
from hdpstats.results.term_names import match

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE: Final = "A result and its reference"
_BASELINE_SHOWN: Final = 12
_SHOWN: Final = {
    "estimate": "coef",
    "std_error": "std err",
    "reference_estimate": "ref coef",
    "reference_std_error": "ref std err",
    "difference": "difference",
    "relative_error": "rel. error",
    "difference_in_se": "diff/ref se",
    "difference_in_both": "diff/both",
}
_NEEDS: Final = ("term", "estimate", "std_error")
_KINDS: Final = {"cox": "Cox model", "hazard": "discrete hazard by glm", "glm": "glm"}


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Comparison:
    r"""Coefficients of a result and of a reference, term by term.

    Attributes
    ----------
    frame : DataFrame
        A row per term that both have: term, estimate, std_error, conf_low, conf_high (95 %), the same four of the
        reference (reference_estimate, ..., normal limits), difference (the result minus the reference),
        relative_error (its size over the reference's), difference_in_se (over the reference's standard error) and
        difference_in_both (over :math:`\sqrt{\mathrm{se}^2 + \mathrm{se}_{ref}^2}`: a z value where the two come from
        different people).
    result_only, reference_only : tuple of str
        The terms that one side lacks, in the names of that side.
    label : str
        What the reference is called.
    formula : str or None
        Its formula, where it has one.
    note : str or None
        Why some terms were not compared, or what the scales are.

    Examples
    --------
    `Result.compare` makes one.

    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), hormon=hdp.Binary(), event3=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> result = hdpf.logit("event3 ~ age + hormon", data=study).fit_public()
    >>> in_r = pd.DataFrame(
    ...     {"term": ["(Intercept)", "age"], "estimate": [-0.1, -0.003], "std_error": [0.5, 0.01]}
    ... )
    >>> found = result.compare(in_r)
    >>> found.frame["term"].tolist(), found.result_only, found.reference_only
    (['Intercept', 'age'], ('hormon',), ())
    """

    frame: pd.DataFrame
    result_only: tuple[str, ...]
    reference_only: tuple[str, ...]
    label: str
    formula: str | None
    note: str | None
    _facts: ModelFacts = field(repr=False)
    _estimates: tuple[Estimate, Estimate] = field(repr=False)
    _places: tuple[int, ...] = field(repr=False)

    @property
    def relative_error(self) -> float:
        r"""The relative error of the vector, :math:`\|a - b\| / \|b\|`, over the terms with two finite numbers."""
        both = self.frame[["estimate", "reference_estimate"]].to_numpy(dtype=np.float64)
        a, b = both[np.isfinite(both).all(axis=1)].T
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.linalg.norm(a - b) / np.linalg.norm(b))

    def summary(self) -> EscapedSummary:
        """Return the table in statsmodels' shape; ``print`` shows its text."""
        terms, rows = self._cells()
        body = table(rows, headers=list(_SHOWN.values()), stubs=terms)
        meaning = (
            "diff/ref se: the difference in standard errors of the reference; diff/both: in those of the two together, "
            "a z value where they come from different people."
        )
        return summary(_TITLE, [pairs(self._head()), body], [meaning, *self._remarks()])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return terms and numbers to show, without a baseline that would fill pages."""
        slopes = self._slopes()
        shown = self.frame if self._is_short() else self.frame[[place in slopes for place in self._places]]
        return shown["term"].tolist(), [[number(value) for value in row] for row in shown[list(_SHOWN)].to_numpy()]

    def _slopes(self) -> set[int]:
        return set(covariates(self._facts, self._estimates[0]))

    def _is_short(self) -> bool:
        slopes = self._slopes().intersection(self._places)
        return not slopes or len(self._places) - len(slopes) <= _BASELINE_SHOWN

    def _head(self) -> list[tuple[str, str]]:
        return [
            ("Result:", f"{self._facts.model}, {self._facts.method}"),
            ("Formula:", self._facts.formula),
            ("Reference:", self.label if self.formula is None else f"{self.label}, {self.formula}"),
            ("Relative error:", f"{number(self.relative_error)} (norm of the difference over norm of the reference)"),
        ]

    def _remarks(self) -> list[str]:
        sides = (("result", self.result_only), ("reference", self.reference_only))
        more = [] if self._is_short() else ["The terms of the baseline are in the comparison's frame."]
        alone = [f"In the {side} alone: {', '.join(terms)}." for side, terms in sides if terms]
        return [*more, *alone, *([] if self.note is None else [self.note])]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw both estimates with 95 % intervals: the result's own, and the reference's by the normal distribution.

        The intercept and the baseline of a hazard are left out, unless there is nothing else.

        Raises
        ------
        HdpError
            If matplotlib is not installed.
        """
        slopes = self._slopes()
        places = [place for place in self._places if place in slopes] or list(self._places)
        return plots.plot_coefficients(self._estimates, places, label="coefficient", exponentiate=False, ax=ax)

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<comparison with {self.label}: {len(self.frame)} terms, relative error {self.relative_error:.3g}>"

    def _repr_html_(self) -> str:
        rows = [
            [term, f"{own}\N{NO-BREAK SPACE}({se})", f"{other}\N{NO-BREAK SPACE}({other_se})", difference, error, in_se]
            for term, (own, se, other, other_se, difference, error, in_se, _) in zip(*self._cells(), strict=True)
        ]
        cells = grid(["", "result", "reference", *list(_SHOWN.values())[4:7]], rows, aligns="lr")
        meaning = "Coefficients (standard errors). diff/ref se: the difference in standard errors of the reference."
        badges = [f"relative error {self.relative_error:.2g}", f"{len(self.frame)} terms"]
        return page(_TITLE, plain(self._head()), cells, notes([meaning, *self._remarks()]), badges=badges)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Reference:
    """The other side: names, numbers, and what is known about the model."""

    terms: list[str]
    numbers: FloatArray
    errors: FloatArray
    label: str
    formula: str | None
    model: str | None
    link: str | None
    cuts: tuple[float, ...] | None


def compare(fit: Fitted, reference: "Fitted | pd.DataFrame", *, cause: str | None, label: str | None) -> Comparison:
    """Return a result beside a reference; see `hdpstats.results.Result.compare`."""
    other = _of_result(reference) if isinstance(reference, Fitted) else _of_frame(reference)
    terms, own = _own_terms(fit, cause, other)
    paired = {own[ours]: theirs for ours, theirs in match([terms[place] for place in own], other.terms).items()}
    note, kept = _comparable(fit, other, paired)
    if not kept:
        raise ArgumentError(
            f"reference has no term in common with the result, whose terms are {_some(terms)}; it has "
            f"{_some(other.terms)}",
            argument="reference",
        )
    name = label or other.label
    aligned = np.full((2, len(terms)), np.nan)
    aligned[:, list(kept)] = np.array([other.numbers, other.errors])[:, list(kept.values())]
    beside = Estimate(
        label="reference" if name == fit.estimate.label else name,
        terms=fit.estimate.terms,
        values=aligned[0],
        sampling=np.diag(aligned[1] ** 2),
        privacy=np.zeros((len(terms), len(terms))),
    )
    places = list(kept)
    return Comparison(
        frame=_frame(fit.estimate, beside, places, [terms[place] for place in places]),
        result_only=tuple(terms[place] for place in own if place not in kept),
        reference_only=tuple(term for place, term in enumerate(other.terms) if place not in kept.values()),
        label=name,
        formula=other.formula,
        note=note,
        _facts=fit.facts,
        _estimates=(fit.estimate, beside),
        _places=tuple(places),
    )


def _frame(ours: Estimate, other: Estimate, places: list[int], terms: list[str]) -> pd.DataFrame:
    sides = {"": _side(ours, places), "reference_": _side(other, places)}
    (a, se), (b, reference_se) = (side[["estimate", "std_error"]].to_numpy().T for side in sides.values())
    columns = {f"{prefix}{name}": side[name].to_numpy() for prefix, side in sides.items() for name in side}
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = {
            "difference": a - b,
            "relative_error": np.abs(a - b) / np.abs(b),
            "difference_in_se": (a - b) / reference_se,
            "difference_in_both": (a - b) / np.sqrt(se**2 + reference_se**2),
        }
    return pd.DataFrame({"term": terms} | columns | differences)


def _side(estimate: Estimate, places: list[int]) -> pd.DataFrame:
    limits = estimate.conf_int(0.05)
    table = {"estimate": estimate.params, "std_error": estimate.bse, "conf_low": limits[0], "conf_high": limits[1]}
    return pd.DataFrame(table).iloc[places]


def _own_terms(fit: Fitted, cause: str | None, other: _Reference) -> tuple[list[str], list[int]]:
    """Return the result's terms, one cause's without its prefix, and the places of those that are compared."""
    terms, causes = list(fit.estimate.terms), () if fit.facts.hazard is None else fit.facts.hazard.causes
    if cause is not None and cause not in causes:
        raise ArgumentError(
            f"cause must be one of {', '.join(causes)}" if causes else "cause is for hazard models", argument="cause"
        )
    if len(causes) < 2 or (cause is None and match(terms, other.terms)):
        return terms, list(range(len(terms)))
    if cause is None:
        raise ArgumentError(
            f"cause must say which of {', '.join(causes)} the reference is a model of", argument="cause"
        )
    prefix = f"{cause}: "
    places = [place for place, term in enumerate(terms) if term.startswith(prefix)]
    return [term.removeprefix(prefix) for term in terms], places


def _comparable(fit: Fitted, other: _Reference, paired: Mapping[int, int]) -> tuple[str | None, dict[int, int]]:
    """Return which pairs mean the same, and a note about the others; a baseline does only on the same time axis."""
    hazard = fit.facts.hazard
    if hazard is None:
        return None, dict(paired)
    slopes = set(covariates(fit.facts, fit.estimate))
    reason = _other_axis(hazard, other, any(place not in slopes for place in paired))
    if reason is None:
        return None, dict(paired)
    return f"Covariates only are compared: {reason}.", {ours: paired[ours] for ours in paired if ours in slopes}


def _other_axis(hazard: HazardFacts, other: _Reference, has_baseline: bool) -> str | None:
    """Return why the two baselines do not mean the same, or None."""
    if other.model == "cox":
        return (
            "the partial likelihood of a Cox model leaves the baseline hazard out; its coefficients are log hazard "
            f"ratios of continuous time; {LINKS[hazard.link].hazard_ratios}"
        )
    if other.link is not None and other.link != hazard.link:
        return f"the links are {hazard.link} here and {other.link} there, and the scales of coefficients differ"
    if other.cuts is not None and other.cuts != hazard.grid.cuts:
        return "the reference's baseline is on other intervals"
    return None if has_baseline else "the reference has no baseline hazard, or one of another form"


def _of_result(fit: Fitted) -> _Reference:
    hazard = fit.facts.hazard
    return _Reference(
        terms=list(fit.estimate.terms),
        numbers=fit.estimate.values,
        errors=np.asarray(fit.estimate.bse, dtype=np.float64),
        label=f"{fit.facts.model}, {fit.estimate.label}",
        formula=fit.facts.formula,
        model=None,
        link=None if hazard is None else hazard.link,
        cuts=None if hazard is None else hazard.grid.cuts,
    )


def _of_frame(frame: object) -> _Reference:
    """Return what a tidy data frame says, broom's ``std.error`` included; refuse another object."""
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(
            f"reference must be a Result or a data frame with the columns {', '.join(_NEEDS)}, not "
            f"{type(frame).__name__}",
            argument="reference",
        )
    named = frame.rename(columns={"std.error": "std_error"})
    missing = [name for name in _NEEDS if list(named.columns).count(name) != 1]
    if missing:
        raise ArgumentError(f"reference must have one column {missing[0]!r}; a row per term", argument="reference")
    if not all(isinstance(term, str) for term in named["term"]) or not named["term"].is_unique:
        raise ArgumentError("reference must name every term once, by a text", argument="reference")
    attrs: Mapping[Any, Any] = frame.attrs
    model, cuts = attrs.get("model"), attrs.get("cuts")
    return _Reference(
        terms=named["term"].tolist(),
        numbers=_numbers(named, "estimate"),
        errors=_numbers(named, "std_error"),
        label=_KINDS.get(str(model), "reference"),
        formula=None if attrs.get("formula") is None else str(attrs["formula"]),
        model=model,
        link=attrs.get("link") if model == "hazard" else None,
        cuts=None if cuts is None else tuple(cuts),
    )


def _numbers(frame: pd.DataFrame, name: str) -> FloatArray:
    try:
        return np.asarray(pd.to_numeric(frame[name]), dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"reference must have numbers in the column {name!r}", argument="reference") from None


def _some(terms: Sequence[str], most: int = 8) -> str:
    return ", ".join([*terms[:most], *(["..."] if len(terms) > most else [])])
