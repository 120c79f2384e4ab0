"""Which coefficients belong to which term of a formula, and what the columns of a term stand for."""

from dataclasses import dataclass
from typing import final

from hdpstats.formulas import Design, compile_design
from hdpstats.formulas.compiler import compile_survival
from hdpstats.formulas.response import categorical_design
from hdpstats.losses import ExponentialTimes, multinomial
from hdpstats.results.fitted import Fitted

BASELINE = "baseline"
"""What the coefficients of a baseline hazard are called together."""


def design_of(fit: Fitted) -> Design:
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


def term_blocks(fit: Fitted) -> tuple[TermBlock, ...]:
    """Return the terms of a model in the order of its coefficients."""
    names, hazard = fit.estimate.terms, fit.facts.hazard
    own = own_terms(fit)
    found: dict[tuple[str | None, str], list[int]] = {}
    for place in range(len(names)):
        part, within = divmod(place, len(own))
        cause = hazard.causes[part] if hazard is not None and len(hazard.causes) > 1 else None
        found.setdefault((cause, own[within]), []).append(place)
    return tuple(
        TermBlock(label=term if cause is None else f"{cause}: {term}", term=term, cause=cause, places=tuple(places))
        for (cause, term), places in found.items()
    )


def own_terms(fit: Fitted) -> tuple[str, ...]:
    """Return the term of each coefficient of one cause, or of one level of a categorical outcome."""
    if fit.facts.family is not None:
        return fit.estimate.terms
    columns = design_of(fit).columns
    if fit.facts.hazard is None:
        return tuple(column.term for column in columns)
    return (*(BASELINE for _ in fit.facts.hazard.baseline_names), *(column.term for column in columns[1:]))
