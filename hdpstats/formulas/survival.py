"""Formulas of survival models: ``Surv(time, event) ~ …`` and ``Surv(start, stop, event) ~ …`` with a schema."""

from dataclasses import dataclass
from typing import final

from hdpstats.formulas.compiler import compile_terms, declared
from hdpstats.formulas.design import Design
from hdpstats.formulas.expressions import columns_of
from hdpstats.formulas.parser import ParsedFormula, parse_survival, survival_outcome
from hdpstats.formulas.refusals import refusal
from hdpstats.schema.columns import Binary, Categorical, Duration
from hdpstats.schema.schema import Schema


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalDesign:
    """What a survival model reads: times, event and covariates; made by `compile_survival`.

    Attributes
    ----------
    covariates : Design
        The columns of the right side. The intercept is the first; it decides the coding of categories, as in R,
        and the baseline hazard takes its place in the model. Its outcome is the event.
    start : str or None
        The column of the time at which a row comes under observation; None where everybody does so at 0.
    stop : str
        The column of the time at which observation of a row ends.
    event : str
        The column that says whether, or by which cause, it ended with the event.
    """

    covariates: Design
    start: str | None
    stop: str
    event: str

    @property
    def formula(self) -> str:
        """The formula as given."""
        return self.covariates.formula

    @property
    def canonical(self) -> str:
        """The formula with every term written out and canonical spacing: two spellings of one model agree."""
        return self.covariates.canonical

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the schema that the model reads: times, event, covariates."""
        start = () if self.start is None else (self.start,)
        return (*start, self.stop, *self.covariates.needs)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the covariates' columns, without the intercept."""
        return self.covariates.names[1:]


def compile_survival(formula: ParsedFormula | str, schema: Schema) -> SurvivalDesign:
    """Return what a survival formula asks for, with levels and bounds from the schema.

    Parameters
    ----------
    formula : ParsedFormula or str
        ``Surv(time, event) ~ terms``, or ``Surv(start, stop, event) ~ terms`` with one row per person and spell.
    schema : Schema
        The declared columns. Times are `Duration` columns. The event is a `Binary` column, or a `Categorical` one
        whose first level means no event and whose other levels are competing causes.

    Raises
    ------
    FormulaError
        For the reasons of `compile_design`; if times or event are declared as something else; if the formula takes
        the intercept away; if a duration stands on the right side, where time would explain itself.

    Examples
    --------
    >>> from hdpstats.schema.columns import Continuous
    >>> schema = Schema(time=Duration(2557), event=Binary(), age=Continuous(20, 90), size=Categorical(["s", "m", "l"]))
    >>> design = compile_survival("Surv(time, event) ~ age + size", schema)
    >>> design.names, design.needs
    (('age', 'size[T.m]', 'size[T.l]'), ('time', 'event', 'age', 'size'))
    """
    parsed = formula if isinstance(formula, ParsedFormula) else parse_survival(formula)
    *times, event = survival_outcome(parsed.left).columns
    for name in times:
        if not isinstance(declared(name, schema), Duration):
            reason = f"a {schema[name].kind} column cannot be a time of follow-up"
            raise refusal(name, reason, f"declare it as {name}=Duration(horizon)")
    if not isinstance(declared(event, schema), Binary | Categorical):
        reason = f"a {schema[event].kind} column cannot be the event"
        raise refusal(event, reason, "declare it as Binary, or as Categorical with the level of no event first")
    _check_no_duration_explains(parsed, schema)
    return SurvivalDesign(
        covariates=compile_terms(parsed, schema),
        start=times[0] if len(times) == 2 else None,
        stop=times[-1],
        event=event,
    )


def _check_no_duration_explains(parsed: ParsedFormula, schema: Schema) -> None:
    for term in parsed.terms:
        for factor in term.factors:
            for name in columns_of(factor):
                if isinstance(declared(name, schema), Duration):
                    reason = f"{name} is a time of follow-up, and time would explain itself"
                    remedy = "leave it out; declare a time that is known when follow-up begins as Continuous"
                    raise refusal(factor.source, reason, remedy)
