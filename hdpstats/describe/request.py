"""A description of the private cohort: what is asked, what it would find, and what it found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np

from hdpstats._base.errors import ArgumentError, FormulaError, SchemaError, forgets_rows
from hdpstats._base.validation import shown, text, truth
from hdpstats.describe.balance import Balance, BalanceRequest, checked_arms
from hdpstats.describe.description import Description
from hdpstats.describe.plan import DescriptionPlan, plan_description
from hdpstats.describe.tables import public_cohort
from hdpstats.formulas.compiler import compile_survival
from hdpstats.mechanisms.description import DescriptionQuery, DescriptionRelease, RowsOfPerson, costs_of
from hdpstats.mechanisms.description.public_cells import FollowUpCells
from hdpstats.mechanisms.description.request import (
    checked_times,
    described_columns,
    described_pairs,
    ends_of,
    ends_of_numbers,
    number_of_cells,
)
from hdpstats.mechanisms.description.site import levels_of, prepare, size_is_public
from hdpstats.privacy.budget import epsilons_of, over_sites, release_delta, release_epsilon, release_replicate
from hdpstats.records.query import of_kind
from hdpstats.results.propensity import Weighting, checked_weighting
from hdpstats.schema.columns import Binary, Categorical, Weight
from hdpstats.schema.schema import Schema, declared_column
from hdpstats.sites import Study
from hdpstats.sites.asking import ask
from hdpstats.sites.recipes import in_its_recipe
from hdpstats.sites.study import check_private, checked_study, guarantee_of, people_of, site_facts_of


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DescriptionRequest:
    """A description that may be asked for. It spends nothing: `plan` says what it would find, and how exactly.

    Attributes
    ----------
    study : Study
        The data.
    columns : tuple of str
        The columns that are described.
    by : str or None
        The column whose levels are the groups.
    complete, quantiles, correlations : bool
        Whether only complete rows count, and whether quartiles, and correlations, are asked for.
    outcome : tuple of str or None
        The columns of time and event.
    times : tuple of float, int or None
        The ends of the intervals of follow-up, their number, or None for a number that suits epsilon.
    weights : str or None
        The column of case weights.
    delta : Fraction
        What may be spent on normal noise, where that is smaller.
    replicate : int
        The number of the draw.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90))
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> request = hdp.describe(study, ["age"])
    >>> plan = request.plan(epsilon=1, n=5000)
    >>> plan.table.columns.tolist()
    ['epsilon=1']
    """

    study: Study
    columns: tuple[str, ...]
    by: str | None
    complete: bool
    quantiles: bool
    outcome: tuple[str, str] | None
    times: tuple[float, ...] | int | None
    weights: str | None
    delta: Fraction
    replicate: int
    correlations: bool = False

    @property
    def groups(self) -> int:
        """The number of groups."""
        return 1 if self.by is None else levels_of(self.study.schema[self.by])

    def plan(self, epsilon: float | Iterable[float], *, n: int | None = None) -> DescriptionPlan:
        """Return predicted standard errors by epsilon, group, column and statistic; nothing is spent.

        Parameters
        ----------
        epsilon
            One value or several.
        n
            The number of private people, all at one site; by default that of the study, or the declared one.
        """
        records = people_of(self.study, n)
        people = {"": records}
        if n is None and self.study.sites:
            people = {name: site.records for name, site in self.study.sites.items()}
        epsilons = epsilons_of(epsilon)
        queries = {float(amount): self.queries(amount, people) for amount in epsilons}
        return plan_description(self.study, queries, people)

    @in_its_recipe
    def release(self, epsilon: object, *, allow_large_epsilon: bool = False) -> Description:
        """Ask the sites, and return what they describe."""
        study = self.study
        amount = release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
        check_private(study, "describe")
        queries = self.queries(amount, {name: site.records for name, site in study.sites.items()})
        public = public_cohort(next(iter(queries.values())), study.schema, study.public)
        return Description(schema=study.schema, public=public, **released(study, queries))

    def queries(self, epsilon: Fraction, people: Mapping[str, int]) -> dict[str, DescriptionQuery]:
        """Return what each site is asked, the same of all of them."""
        query = self._query(epsilon, people)
        if self.delta and self.weights is None and query.pairs is None and query.columns:
            normal = replace(query, delta=self.delta)
            facts = site_facts_of(self.study, max(people.values()))
            pairs = zip(prepare(query, facts).sds, prepare(normal, facts).sds, strict=True)
            if sum(np.log(smaller / pure) for pure, smaller in pairs if pure) < 0:
                query = normal
        return dict.fromkeys(people, query)

    def _query(self, epsilon: Fraction, people: Mapping[str, int]) -> DescriptionQuery:
        study, schema = self.study, self.study.schema
        fewest = min(people.values()) / self.groups
        numbers = [name for name in self.columns if levels_of(schema[name]) == 0]
        cells = 0
        if self.quantiles and numbers:
            parts = tuple(
                part for part, asked in (("box", True), ("cells", True), ("follow_up", self.outcome)) if asked
            )
            each = float(costs_of(epsilon, Fraction(0), parts)["cells"]) / len(numbers)
            cells = number_of_cells(fewest, each * 2 / study.relation.persons_changed)
        weight = None if self.weights is None else schema[self.weights]
        columns = described_columns(schema, self.columns, study.public, cells=cells)
        pairs = described_pairs(schema, columns, study.public) if self.correlations else None
        query = DescriptionQuery(
            columns=columns,
            pairs=None if pairs is None else replace(pairs, largest=pairs.reach**2),
            by=self.by,
            groups=self.groups,
            complete=self.complete,
            weights=self.weights,
            largest_weight=weight.max if isinstance(weight, Weight) else 1.0,
            follow_up=self._follow_up(float(epsilon), fewest),
            rows=self._rows(),
            epsilon=epsilon,
            schema_sha256=schema.sha256,
            public_sha256=None if study.public is None else study.public.sha256,
            replicate=self.replicate,
        )
        return replace(query, counted=not size_is_public(query, site_facts_of(study, min(people.values()))))

    def _rows(self) -> RowsOfPerson | None:
        """Return that numbers of rows are described: of people who may have several, without weights."""
        most = 1 if self.study.unit is None else self.study.most_rows
        if most == 1 or not self.columns or self.weights is not None:
            return None
        return RowsOfPerson(most=most, ends=ends_of_numbers(most))

    def _follow_up(self, epsilon: float, fewest: float) -> FollowUpCells | None:
        if self.outcome is None:
            return None
        time, event = self.outcome
        effective = epsilon * 2 / self.study.relation.persons_changed
        ends = ends_of(self.times, self.study.schema[time], people=fewest, epsilon=effective)
        return FollowUpCells(time=time, event=event, causes=levels_of(self.study.schema[event]) - 1, ends=ends)

    def __repr__(self) -> str:
        outcome = "" if self.outcome is None else f", Surv({', '.join(self.outcome)})"
        by = "" if self.by is None else f" by {self.by}"
        return f"<description to ask for: {', '.join(self.columns)}{outcome}{by}>"


@forgets_rows
def describe(
    study: Study,
    columns: str | Sequence[str],
    by: str | None = None,
    complete: bool = False,
    quantiles: bool = True,
    times: int | Sequence[float] | None = None,
    epsilon: float | None = None,
    delta: float = 0,
    *,
    weights: str | None = None,
    correlations: bool = False,
    weighting: Weighting | None = None,
    replicate: int = 1,
    allow_large_epsilon: bool = False,
) -> "DescriptionRequest | Description | BalanceRequest | Balance":
    """Describe the private cohort: a paper's first table, with noise, beside that of the public rows.

    By group and column: the number of people, the share of missing cells, shares of levels, mean, standard deviation
    and quartiles, each of the cells that are there. Groups cost nothing, but the noise is the same in people in each of
    them, and hurts small ones more; where it would hide a number, N/A is shown. Proof:
    `hdpstats.mechanisms.description.site`.

    Parameters
    ----------
    study
        The data. Of people with several rows the first one that is complete in the named columns is described, and
        without weights the number of rows: of all people together, and the shares of people who have so many. Several
        sites each describe their own people; shown are the numbers of all sites together, and of each.
    columns
        Names of columns; among them ``"Surv(time, event)"``, or in place of them ``"Surv(time, event) ~ group"``, for
        numbers of events, censorings and people at risk.
    by
        A categorical or binary column whose levels are the groups.
    complete
        Whether only rows count that are complete in all named columns: then the number of people is that of complete
        rows, as fits of these columns have it.
    quantiles
        Whether quartiles are asked for, which take two fifths of epsilon.
    times
        The ends of the intervals of follow-up, or how many even ones up to the horizon; by default months, quarters,
        half years or years, about as many as suit epsilon and the number of people.
    epsilon
        What it costs. None returns a request, whose ``plan(epsilon)`` says what to expect.
    delta
        What may be spent on normal noise: taken only where that is smaller, with many columns. The first release with
        normal noise divides an account that is not divided yet: set aside for such releases, and counted as spent, are
        what this one keeps **and half of what is left besides**; ``plan`` says how much that is. To fix the part
        beforehand open the account with ``hdp.Ledger(gaussian=)``.
    weights
        A column declared as `Weight`: every number is then weighted.
    correlations
        Whether correlations of all pairs of columns are asked for, of people whose cells are all there. They are one
        more number for each pair: the noise of shares and means grows in proportion. Fits that are given the
        description take public rows with these correlations. Noise is never normal then, whatever delta.
    weighting
        What ``hdp.propensity(...).weights("overlap")`` returned: then the balance of the two arms is described,
        standardised differences of means and shares before and after weighting, among people who are complete in the
        columns and in those of the propensity model: of people with several rows, in the first one that the propensity
        model counts. Two fifths of epsilon are for people as they are; there are no
        quartiles, and no Surv().
    replicate
        2, 3, ... for a further independent draw, which is charged again.
    allow_large_epsilon
        Whether epsilon may be above 50.

    Returns
    -------
    DescriptionRequest or Description
        Without epsilon a request, else what was released; with ``weighting`` a `BalanceRequest` or a `Balance`.

    Raises
    ------
    ArgumentError, SchemaError, FormulaError, MechanismError, BudgetError
        Before anything is charged.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), hormon=hdp.Binary())
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> hdp.describe(study, ["age"], by="hormon")
    <description to ask for: age by hormon>
    >>> table1 = hdp.describe(study, ["age"], by="hormon", epsilon=1)
    >>> table1.tidy()["statistic"].tolist()[:4]
    ['n', 'missing', 'mean', 'sd']
    """
    checked = checked_study(study, argument="study")
    names, outcome, group = _parsed(columns, checked)
    if group is not None and by is not None and group != by:
        raise ArgumentError("by must be left out, or be the group of the formula", argument="by")
    if weighting is not None:
        if truth(correlations, name="correlations"):
            raise ArgumentError(
                "correlations must be left out with weighting=: ask for them in a description of their own",
                argument="correlations",
            )
        balance = _balance(checked, names, outcome, by or group, weighting, times, delta, weights, replicate)
        return balance if epsilon is None else balance.release(epsilon, allow_large_epsilon=allow_large_epsilon)
    asked = DescriptionRequest(
        study=checked,
        columns=tuple(name for name in names if name != (by or group)),
        by=_group(by or group, checked),
        complete=truth(complete, name="complete"),
        quantiles=truth(quantiles, name="quantiles"),
        outcome=outcome,
        times=_times(times, outcome, checked.schema),
        weights=declared_column(checked.schema, weights, kind="weight", argument="weights"),
        delta=release_delta(delta),
        replicate=release_replicate(replicate),
        correlations=truth(correlations, name="correlations"),
    )
    _check(asked)
    return asked if epsilon is None else asked.release(epsilon, allow_large_epsilon=allow_large_epsilon)


def _balance(
    study: Study,
    names: tuple[str, ...],
    outcome: object,
    by: str | None,
    weighting: object,
    times: object,
    delta: object,
    weights: object,
    replicate: object,
) -> BalanceRequest:
    """Return the request of a balance table, or refuse what it does not take."""
    given = checked_weighting(weighting, study)
    checked_arms(by, given)
    for name, value in (("times", times), ("weights", weights), ("delta", delta or None)):
        if value is not None:
            raise ArgumentError(f"{name} must be left out with weighting=", argument=name)
    columns = tuple(name for name in names if name != given.treatment)
    if outcome is not None or not columns:
        raise ArgumentError(
            "columns must name columns whose balance is wanted, without Surv() and beside the treatment",
            argument="columns",
        )
    return BalanceRequest(
        study=study.by_person(given.record.columns),
        columns=columns,
        weighting=given,
        replicate=release_replicate(replicate),
    )


def _parsed(columns: object, study: Study) -> tuple[tuple[str, ...], tuple[str, str] | None, str | None]:
    """Return the columns that are described, the survival outcome, and the group of a formula."""
    listed = [columns] if isinstance(columns, str) else columns
    if not isinstance(listed, Sequence):
        raise ArgumentError("columns must be a list of names, or 'Surv(time, event) ~ group'", argument="columns")
    terms = [text(each, name="columns") for each in listed]
    names = [each for each in terms if not each.lstrip().startswith("Surv(")]
    surv = [each for each in terms if each not in names]
    unknown = [name for name in names if name not in study.schema]
    written = [name for name in unknown if "~" in name]
    if written:
        raise ArgumentError(
            f"columns must be a list of names, not the formula {written[0]!r}: describe(study, ['age', 'size'], "
            "by='arm') describes columns by group",
            argument="columns",
        )
    if unknown:
        raise SchemaError(
            f"not declared: {', '.join(map(repr, unknown))}; the schema declares {', '.join(study.schema)}",
            columns=tuple(unknown),
        )
    if not terms or len(surv) > 1 or len(set(names)) < len(names):
        raise ArgumentError(
            "columns must name at least one column, each once, and one Surv() at most", argument="columns"
        )
    if not surv:
        return tuple(names), None, None
    formula = surv[0] if "~" in surv[0] else f"{surv[0]} ~ 1"
    design = compile_survival(formula, study.schema)
    group = formula.partition("~")[2].strip()
    if group != "1" and group not in study.schema:
        raise FormulaError(f"describe takes one group on the right of ~, or 1, not {group!r}")
    if design.level is not None:
        raise FormulaError(f"describe counts events of every cause: write Surv({design.stop}, {design.event})")
    if design.start is not None:
        raise FormulaError("describe counts people who enter at time 0: write Surv(time, event)")
    return tuple(names), (design.stop, design.event), None if group == "1" else group


def _group(name: object, study: Study) -> str | None:
    if name is None:
        return None
    column = study.schema.get(name) if isinstance(name, str) else None
    if not isinstance(column, Categorical | Binary):
        raise SchemaError(
            f"by must name a column that the schema declares as Categorical(...) or Binary(), not {shown(name)}",
            argument="by",
        )
    return str(name)


def _times(times: object, outcome: tuple[str, str] | None, schema: Schema) -> tuple[float, ...] | int | None:
    if outcome is None and times is not None:
        raise ArgumentError("times belongs to a Surv(time, event) term among the columns", argument="times")
    return None if outcome is None else checked_times(times, schema[outcome[0]])


def _check(asked: DescriptionRequest) -> None:
    """Refuse what the query would refuse, with the name of the argument; nothing is charged."""
    twice = {*(asked.outcome or ()), asked.by, asked.weights} & set(asked.columns)
    if twice or asked.by in (*(asked.outcome or ()),) or (asked.weights and asked.weights == asked.by):
        raise ArgumentError(
            "columns must not repeat the outcome of Surv(), the group or the weights, which are read already: "
            + ", ".join(sorted(filter(None, twice)) or [str(asked.by)]),
            argument="columns",
        )
    if asked.correlations:
        _check_correlations(asked)
    if not asked.columns and asked.outcome is None:
        raise ArgumentError("columns must name another column than the group", argument="columns")


def _check_correlations(asked: DescriptionRequest) -> None:
    """Refuse correlations of one column, of groups, and of columns whose cells may be missing."""
    lacking = [name for name in asked.columns if asked.study.schema[name].leaves_out]
    if len(asked.columns) < 2:
        raise ArgumentError("correlations need two columns or more", argument="correlations")
    if asked.by is not None:
        raise ArgumentError("correlations are of all people: describe them without by=", argument="correlations")
    if lacking and not asked.complete:
        raise ArgumentError(
            f"correlations are of complete people, and {', '.join(lacking)} may have missing cells: give complete=True",
            argument="correlations",
        )


def released(study: Study, queries: Mapping[str, DescriptionQuery]) -> dict[str, Any]:
    """Ask the sites, and return queries, releases, missing sites and guarantee, as a description has them."""
    answered = ask(study, queries)
    releases = {name: of_kind(release, DescriptionRelease) for name, release in answered.releases.items()}
    guarantees = [guarantee_of(study, each) for each in releases.values()]
    return {
        "queries": tuple((name, queries[name]) for name in releases),
        "releases": tuple(releases.items()),
        "missing": tuple((each.site, each.reason) for each in answered.missing),
        "guarantee": guarantees[0] if len(study.sites) == 1 else over_sites(guarantees),
    }
