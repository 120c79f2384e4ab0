"""Survival curves by group: the formula of ``survfit``, what is asked, what to expect, and the fit.

Their noise, with its proof, is that of counts of people in public intervals: `hdpstats.mechanisms.description.site`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast, final

from hdpstats._base.errors import ArgumentError, FormulaError, forgets_rows
from hdpstats._base.validation import choice
from hdpstats.describe.adjusting import Adjusting, Outcome, weighted_public_rows
from hdpstats.describe.description import Description, check_described_study, checked_description, refused
from hdpstats.describe.plan import CurvesPlan, plan_curves
from hdpstats.describe.request import released
from hdpstats.formulas.compiler import compile_survival
from hdpstats.formulas.expressions import Categories, Variable, columns_of
from hdpstats.formulas.parser import Term, parse_survival
from hdpstats.mechanisms.description import DescriptionQuery
from hdpstats.mechanisms.description.public_cells import CrossedColumn, FollowUpCells
from hdpstats.mechanisms.description.request import checked_times, ends_of, smallest_share
from hdpstats.mechanisms.description.site import levels_of, prepare
from hdpstats.privacy.budget import epsilons_of, release_delta, requested
from hdpstats.results.adjustment import Adjustment
from hdpstats.results.group_curves import PublicCurves, public_curves
from hdpstats.results.propensity import Weighting, check_of_these_people, checked_weighting, resting_on, with_rows
from hdpstats.results.survival_curves import WITHIN, SurvivalCurves
from hdpstats.schema.columns import Weight
from hdpstats.schema.schema import Schema, declared_column
from hdpstats.sites import Study
from hdpstats.sites.recipes import in_its_recipe
from hdpstats.sites.study import check_private, checked_study, people_of, site_facts_of

CURVES = "the curves"
"""What the releases of curves are called beside those that they rest on."""

NO_INTERCEPT = "each group has a curve of its own (~ 1: one curve of everybody), and there is no intercept to take away"


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CurvesRequest:
    """Survival curves that may be asked for: `plan` says how exact they would be, `fit` spends.

    Attributes
    ----------
    study : Study
        The data.
    formula : str
        ``Surv(time, event) ~ groups``.
    time, event : str
        The columns of the end of follow-up, and of what ended it.
    start : str or None
        The column of its beginning.
    level : int or None
        The one code of the event's column that is an event, where the formula names it.
    grouping : tuple of str
        The columns whose levels are the groups.
    strata : tuple of str
        Those of them that are strata of the test.
    times : tuple of float, int or None
        The ends of the intervals, their number, or None for a number that suits epsilon.
    weights : str or None
        The column of case weights; limits of private people are then too wide, see `survfit`.
    recorded : str
        Where times lie: "within" intervals, or "at_ends" of them.
    weighting : Weighting or None
        How people are weighted by their chance of treatment.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(time=hdp.Duration(2557, unit="days"), event=hdp.Binary(), hormon=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> request = hdpf.survfit("Surv(time, event) ~ hormon", study, times=[365, 1826])
    >>> print(request.plan(epsilon=1, n=5000))  # doctest: +ELLIPSIS
    Predicted standard errors of Surv(time, event) ~ hormon, 5000 private people; nothing is spent
    ...
    """

    study: Study
    formula: str
    time: str
    event: str
    start: str | None
    level: int | None
    grouping: tuple[str, ...]
    strata: tuple[str, ...]
    times: tuple[float, ...] | int | None
    weights: str | None
    recorded: str
    weighting: Weighting | None = None

    @property
    def groups(self) -> int:
        """The number of groups."""
        return math.prod(self._levels)

    @property
    def _levels(self) -> tuple[int, ...]:
        return tuple(levels_of(self.study.schema[name]) for name in self.grouping)

    def plan(self, epsilon: float | Iterable[float], delta: float = 0, *, n: int | None = None) -> CurvesPlan:
        """Return predicted standard errors by epsilon, group and time, and what the test keeps; nothing is spent.

        Parameters
        ----------
        epsilon
            One value or several.
        delta
            What may be spent on normal noise, where that is smaller.
        n
            The number of private people, all at one site; by default that of the study, or the declared one.
        """
        if self.weighting is not None:
            check_of_these_people(self.weighting, self.study, what="a plan of curves")
        people = {"": people_of(self.study, n)}
        if n is None and self.study.sites:
            people = {name: site.records for name, site in self.study.sites.items()}
        slack = release_delta(delta)
        queries = {float(each): self.query(each, slack, people, replicate=1) for each in epsilons_of(epsilon)}
        adjusted = None if self.weighting is None else Adjusting.of(self.study, self.weighting, self._outcome)
        return plan_curves(
            self.study, queries, people, formula=self.formula, recorded=self.recorded, adjusting=adjusted
        )

    @property
    def _outcome(self) -> Outcome:
        causes = 1 if self.level is not None else levels_of(self.study.schema[self.event]) - 1
        return Outcome(time=self.time, event=self.event, causes=causes, level=self.level)

    @in_its_recipe
    def fit(
        self,
        epsilon: float | None = None,
        delta: float = 0,
        *,
        description: Description | None = None,
        replicate: int = 1,
        allow_large_epsilon: bool = False,
    ) -> SurvivalCurves:
        """Ask for the noisy table of events and censorings, and return the curves read from it.

        Proof: `hdpstats.mechanisms.description.site` (cells of follow-up). Several sites each give their own table,
        which are added.

        Parameters
        ----------
        epsilon
            What it costs.
        delta
            What may be spent on normal noise: taken only where that is smaller. The first such release divides an
            account, as `hdpstats.api.describe` says; ``plan(epsilon, delta)`` says what would be set aside.
        description
            A description of the same outcome by the same groups, in place of epsilon: its table is used, and nothing is
            charged. Of one that is ``complete`` in further columns the curves are those of the people who are complete
            in all of these, as a model's fit is, and say so.
        replicate
            2, 3, ... for a further independent draw, which is charged again.
        allow_large_epsilon
            Whether epsilon may be above 50.

        Raises
        ------
        ArgumentError, MechanismError, BudgetError, SiteError
            Before anything is charged.
        """
        study = self.study
        if description is not None:
            return self._described(description, epsilon, replicate)
        if epsilon is None:
            raise ArgumentError("epsilon must be given, or a description whose table is used", argument="epsilon")
        asked = requested(epsilon, delta, replicate, allow_large_epsilon=allow_large_epsilon)
        check_private(study, "fit")
        if self.weighting is not None:
            check_of_these_people(self.weighting, study, what="survfit")
        people = {name: site.records for name, site in study.sites.items()}
        query = self.query(asked.epsilon, asked.delta, people, replicate=asked.replicate)
        adjusting = None if self.weighting is None else Adjusting.of(study, self.weighting, self._outcome)
        answers = released(study, dict.fromkeys(study.sites, query))
        if adjusting is not None:
            answers |= adjusting.read(query, [each for _, each in answers["releases"]], recorded=self.recorded)
            answers["guarantee"] = resting_on(answers["guarantee"], adjusting.weighting, own_name=CURVES)
        return self._curves(cast(FollowUpCells, query.follow_up), **answers)

    def _described(self, description: object, epsilon: object, replicate: int) -> SurvivalCurves:
        """Return the curves of a description's table, or refuse one of something else."""
        if self.weighting is not None:
            raise refused("left out with weighting: no description has the table of weighted people; call fit(epsilon)")
        if epsilon is not None:
            raise ArgumentError(
                "epsilon must be left out with a description, which is used as it is", argument="epsilon"
            )
        if replicate != 1:
            raise ArgumentError(
                "replicate must be left out with a description, which is one draw", argument="replicate"
            )
        given, asked = described_table(self, description)
        return self._curves(
            asked,
            queries=given.queries,
            releases=given.releases,
            missing=given.missing,
            guarantee=given.guarantee,
            complete_in=complete_in(self, given.query),
        )

    def fit_public(self) -> SurvivalCurves:
        """Return the Kaplan-Meier curves of the public rows alone: exact, at no cost.

        With a weighting it must be of the public rows as well, ``hdp.propensity(...).fit_public().weights()``.
        """
        if self.weighting is not None:
            return self._public_weighted(self.weighting)
        people = 0.0 if self.study.public is None else float(self.study.public.rows)
        asked = self._cells(people / self.groups, 1.0)
        return self._curves(asked, queries=(), releases=(), missing=(), guarantee=None)

    def _public_weighted(self, weighting: Weighting) -> SurvivalCurves:
        """Return the curves of public rows weighted by a propensity model of the same rows."""
        if weighting.propensity.guarantee is not None:
            raise ArgumentError(
                "weighting: fit_public needs that of the public rows, hdp.propensity(formula, study).fit_public()"
                ".weights(): public people's treatment does not follow the private model",
                argument="weighting",
            )
        rows = weighted_public_rows(self.study, weighting, self._outcome)
        asked = self._cells(float(rows.weights.sum()) / self.groups, 1.0)
        return SurvivalCurves(
            formula=self.formula,
            schema=self.study.schema,
            asked=asked,
            grouping=self.grouping,
            strata=self.strata,
            weights=None,
            recorded=self.recorded,
            complete_in=(),
            queries=(),
            releases=(),
            missing=(),
            guarantee=None,
            public=PublicCurves.of_weighted(rows.until(asked.ends[-1])),
            adjusted=Adjustment(
                formula=weighting.propensity.formula,
                before=(),
                errors=None,
                imbalance=(),
                effective_share=None,
                public_rows=len(rows.time),
            ),
        )

    def _curves(self, asked: FollowUpCells, complete_in: tuple[str, ...] = (), **found: Any) -> SurvivalCurves:
        study = self.study
        public = None
        if self.weighting is None:
            public = public_curves(asked, self.grouping, self.weights, study.schema, study.public, complete_in)
        if public is None and not found["releases"]:
            raise ArgumentError("fit_public needs public rows with the columns of the formula", argument="public")
        return SurvivalCurves(
            formula=self.formula,
            schema=study.schema,
            asked=asked,
            grouping=self.grouping,
            strata=self.strata,
            weights=self.weights,
            recorded=self.recorded,
            complete_in=complete_in,
            public=public,
            **found,
        )

    def query(
        self, epsilon: Fraction, delta: Fraction, people: Mapping[str, int], *, replicate: int
    ) -> DescriptionQuery:
        """Return what each site is asked, the same of all of them: with normal noise where that is smaller."""
        study, levels = self.study, self._levels
        weight = None if self.weights is None else study.schema[self.weights]
        # noise of m sites adds up: as if one site had the mean number of people
        share = smallest_share(study.public, self.grouping, levels)
        if self.weighting is not None:
            # on a coarse grid: the same intervals on every machine
            share = float(f"{with_rows(self.weighting.propensity, study.public).people.overlap:.1g}")
        group = sum(people.values()) / len(people) * share
        effective = float(epsilon) * 2 / study.relation.persons_changed
        crossed = tuple(
            CrossedColumn(name=name, levels=size) for name, size in zip(self.grouping[1:], levels[1:], strict=True)
        )
        query = DescriptionQuery(
            by=self.grouping[0] if self.grouping else None,
            groups=self.groups,
            crossed=crossed or None,
            weights=self.weights,
            largest_weight=weight.max if isinstance(weight, Weight) else 1.0,
            complete=self.weighting is not None,
            weighting=None if self.weighting is None else self.weighting.record,
            first=None if self.weighting is None or study.unit is None else self.weighting.record.columns,
            follow_up=self._cells(group, effective),
            epsilon=epsilon,
            schema_sha256=study.schema.sha256,
            replicate=replicate,
        )
        if not delta or query.is_weighted:
            return query
        facts, normal = site_facts_of(study, min(people.values())), replace(query, delta=delta)
        return normal if prepare(normal, facts).sds[2] < prepare(query, facts).sds[2] else query

    def _cells(self, people: float, epsilon: float) -> FollowUpCells:
        schema = self.study.schema
        return FollowUpCells(
            time=self.time,
            event=self.event,
            causes=1 if self.level is not None else levels_of(schema[self.event]) - 1,
            ends=ends_of(self.times, schema[self.time], people=people, epsilon=epsilon / (2 if self.start else 1)),
            start=self.start,
            level=self.level,
        )

    def __repr__(self) -> str:
        return f"<survival curves to ask for: {self.formula}>"


def described_table(request: CurvesRequest, given: object) -> tuple[Description, FollowUpCells]:
    """Return a given description and its cells of follow-up, or refuse one that is not of the curves.

    Raises
    ------
    ArgumentError
        With the reason and what to do; nothing was charged.
    """
    description = checked_description(given, call="hdp.describe")
    query, asked = description.query, description.query.follow_up
    own = (request.time, request.event, request.start, request.level)
    same = asked is not None and (asked.time, asked.event, asked.start, asked.level) == own
    if asked is None or not same or query.grouping != request.grouping or query.weights != request.weights:
        raise refused(f"be {_wanted(request)}")
    if request.study.sites:
        check_described_study(request.study, description)
    if description.schema.sha256 != request.study.schema.sha256:
        raise refused("be made with this study's schema")
    if request.times is not None and request.times not in (asked.ends, len(asked.ends)):
        raise ArgumentError("times must be left out, or be those of the description", argument="times")
    return description, asked


def _wanted(request: CurvesRequest) -> str:
    """Return in words what description has the table of these curves."""
    if len(request.grouping) > 1 or request.start or request.level is not None:
        reason = "several groups" if len(request.grouping) > 1 else "late starts" if request.start else "one level"
        return f"left out: no description has the table of {reason}; call fit(epsilon)"
    by = f", by='{request.grouping[0]}'" if request.grouping else ""
    weights = f", weights='{request.weights}'" if request.weights else ""
    outcome = f"Surv({request.time}, {request.event})"
    return f"that of describe(study, [..., '{outcome}']{by}{weights}, times=..., epsilon=...)"


def complete_in(request: CurvesRequest, query: DescriptionQuery) -> tuple[str, ...]:
    """Return further columns in which described people are complete, where some may lack a cell."""
    if not query.complete:
        return ()
    schema, own = request.study.schema, {request.time, request.event, *request.grouping, request.weights}
    return tuple(each.name for each in query.columns if each.name not in own and schema[each.name].leaves_out)


@forgets_rows
def survfit(
    formula: str,
    data: Study,
    *,
    times: int | Sequence[float] | None = None,
    weights: str | None = None,
    recorded: str = "within",
    weighting: Weighting | None = None,
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
        The study. Of people with several rows the first complete one counts, with ``weighting`` the first that is
        complete in the columns of the propensity model; with beginnings of follow-up their rows are joined to one span.
    times
        The ends of the public intervals in which events are counted, or how many even ones up to the horizon; by
        default months, quarters, half years or years (round numbers of a unit that is not known) and the horizon, about
        as many as suit epsilon and the number of people, which is 6 to 28. Few intervals have little noise. Put ends
        where numbers are wanted: people are counted there and nowhere else. When within an interval people are
        censored, or begin, nobody knows: limits allow for it, and are the wider, the more people do in one interval
        and the more hazards change. Intervals should be short beside stays, and no more than about a third of those at
        risk should leave in one.
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
    given = None
    if weighting is not None:
        given = checked_weighting(weighting, study)
        _check_weighted(given, grouping, strata, start=design.start, weights=name)
        study = study.by_person(given.record.columns)
    return CurvesRequest(
        study=study,
        weighting=given,
        formula=formula,
        time=design.stop,
        event=design.event,
        start=design.start,
        level=design.level,
        grouping=grouping,
        strata=strata,
        times=checked_times(times, study.schema[design.stop]),
        weights=name,
        recorded=choice(recorded, name="recorded", options=tuple(WITHIN)),
    )


def _check_weighted(
    weighting: Weighting, grouping: tuple[str, ...], strata: tuple[str, ...], *, start: str | None, weights: str | None
) -> None:
    """Refuse curves of weighted people but those of the two arms, from time 0 on."""
    if grouping != (weighting.treatment,) or strata:
        raise FormulaError(
            f"with weighting the formula must be 'Surv(time, event) ~ {weighting.treatment}', the treatment alone: "
            "covariates belong in the propensity model"
        )
    if start is not None or weights is not None:
        what = "a beginning of follow-up" if start is not None else "weights="
        remedy = "leave one of them out"
        if start is not None:
            remedy = (
                "weighted people are followed from time 0 on; write Surv(time, event), of people with several rows "
                "with the whole follow-up in the first row that is complete in the propensity model's columns"
            )
        raise ArgumentError(f"weighting cannot be combined with {what}: {remedy}", argument="weighting")


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
