"""The formula of survival curves: what is asked for by ``survfit``."""

from collections.abc import Sequence

from hdpstats._base.errors import FormulaError
from hdpstats._base.validation import choice
from hdpstats.formulas.compiler import compile_survival
from hdpstats.formulas.expressions import Categories, Variable, columns_of
from hdpstats.formulas.parser import Term, parse_survival
from hdpstats.mechanisms.description.site import levels_of
from hdpstats.models.intervals import checked_times
from hdpstats.models.model_spec import checked_study, declared_column
from hdpstats.models.survival_curves import CurvesRequest
from hdpstats.results.survival_curves import HALVES
from hdpstats.schema.schema import Schema
from hdpstats.sites import Study

NO_INTERCEPT = "each group has a curve of its own (~ 1: one curve of everybody), and there is no intercept to take away"


def survfit(
    formula: str,
    data: Study,
    *,
    times: int | Sequence[float] | None = None,
    weights: str | None = None,
    recorded: str = "within",
) -> CurvesRequest:
    """Return a request for survival curves by group: Kaplan-Meier's, or with several causes Aalen and Johansen's.

    Parameters
    ----------
    formula
        ``"Surv(time, event) ~ arm"``, ``"Surv(start, stop, event) ~ arm"`` where follow-up may begin late,
        ``"... ~ 1"`` for one curve, ``"... ~ arm + sex"`` for a curve of each combination of levels. An event that is
        declared as `Categorical` has its levels but the first as competing causes; in ``Surv(time, status == "death")``
        all but one level are censored. ``"... ~ arm + strata(sex)"`` has a curve of each combination as well, and its
        log-rank test compares arms within the levels of sex, as R's ``survdiff``. Rows that lack a cell are left out.
    data
        The study. Of people with several rows the first complete one counts; with beginnings of follow-up their rows
        are joined to one span.
    times
        The ends of the public intervals in which events are counted, or how many even ones up to the horizon; by
        default as many as suit epsilon and the number of people: 6 to 28. Few intervals have little noise. Put ends
        where numbers are wanted: limits are stated there and nowhere else. Who is censored within an interval, or
        begins in it, is exposed for half of it on average, so intervals should be short beside stays, and no more than
        about a third of those at risk should leave in one.
    weights
        A column declared as `Weight`. Errors of public rows take weights as numbers of people (R's ``robust = FALSE``).
        Private ones take each person as having the largest weight: **limits are too wide**, and the log-rank test finds
        less, the more the largest declared weight exceeds those of most people. Declare it no larger than needed.
    recorded
        Where in intervals people are censored, and begin: ``"within"`` them, anywhere; or ``"at_ends"``, where times
        are recorded in whole units that are the ends (whole years with ends at years), or a group's follow-up is closed
        at one of them. Who is censored at an end was then at risk until then, and who begins at it from then on.

    Raises
    ------
    FormulaError, SchemaError, ArgumentError
        Nothing was charged.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(time=hdp.Duration(2557, unit="days"), event=hdp.Binary(), hormon=hdp.Binary())
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> request = survfit("Surv(time, event) ~ hormon", study)
    >>> request
    <survival curves to ask for: Surv(time, event) ~ hormon>
    >>> curves = request.fit(epsilon=1)
    >>> curves.tidy().columns.tolist()
    ['group', 'time', 'estimate', 'std_error', 'conf_low', 'conf_high', 'at_risk', 'events']
    """
    study = checked_study(data)
    parsed = parse_survival(formula, intercept=NO_INTERCEPT)
    design = compile_survival(formula, study.schema)
    for role in parsed.roles:
        if role.role != "strata":
            raise FormulaError(f"survfit has no {role.role}: leave {role.source} out")
    groups = tuple(dict.fromkeys(_group(term, study.schema) for term in parsed.terms))
    strata = tuple(dict.fromkeys(role.name for role in parsed.roles))
    if set(groups) & set(strata):
        raise FormulaError("a column is either a group or a stratum: write arm + strata(sex)")
    grouping = (*groups, *strata)
    name = declared_column(study.schema, weights, kind="weight", argument="weights")
    if name in grouping or {design.stop, design.event, design.start} & set(grouping):
        raise FormulaError("the right side of ~ must name other columns than the outcome and the weights")
    return CurvesRequest(
        study=study,
        formula=formula,
        time=design.stop,
        event=design.event,
        start=design.start,
        level=design.level,
        grouping=grouping,
        strata=strata,
        times=checked_times(times, study.schema[design.stop]),
        weights=name,
        recorded=choice(recorded, name="recorded", options=tuple(HALVES)),
    )


def _group(term: Term, schema: Schema) -> str:
    """Return the column of a term, or refuse what is no group."""
    for factor in term.factors:
        if isinstance(factor, Categories) and factor.reference:
            raise FormulaError(
                f"the first group that others are compared with is the first declared level: write {factor.name} in "
                f"place of {factor.source}, and declare its levels in the order wanted"
            )
    names = [name for factor in term.factors for name in columns_of(factor)]
    plain = all(isinstance(factor, Variable | Categories) for factor in term.factors)
    if not plain or len(names) != 1 or levels_of(schema[names[0]]) == 0:
        raise FormulaError(
            f"survfit draws a curve for each level, and {term.source!r} is no column that the schema declares as "
            "Categorical or Binary; write 'arm', or 'arm + sex' for each combination"
        )
    return names[0]
