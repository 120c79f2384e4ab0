"""Make a comparison: read the reference, match the terms, and leave out what does not mean the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.records.estimate import Estimate
from hdpstats.results.comparison import Comparison
from hdpstats.results.facts import HazardFacts
from hdpstats.results.survival import Fitted
from hdpstats.results.tables import covariates
from hdpstats.results.term_names import match

_NEEDS: Final = ("term", "estimate", "std_error")
_KINDS: Final = {"cox": "Cox model", "hazard": "discrete hazard by glm", "glm": "glm"}
_COX: Final = {
    "cloglog": "its coefficients are log hazard ratios of continuous time, as those of the cloglog link are (Prentice "
    "and Gloeckler 1978)",
    "logit": "its coefficients are log hazard ratios; those of the logit link are log odds ratios, nearly the same "
    "where the hazards of intervals are small",
    "probit": "its coefficients are log hazard ratios, and those of the probit link are on another scale",
}


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
        return f"the partial likelihood of a Cox model leaves the baseline hazard out; {_COX[hazard.link]}"
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


def _some(terms: list[str], most: int = 8) -> str:
    return ", ".join([*terms[:most], *(["..."] if len(terms) > most else [])])
