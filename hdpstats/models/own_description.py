r"""What a fit would ask of its own people, beside their number, and what it knows of a site once it was answered.

One draw of noise for the averages of the variables of which the fit has use (`OwnDescription`; proof:
`hdpstats.mechanisms.description.site`). Everything else here is post-processing of released and public numbers. A
description that a fit is given (`described_sites`) is used as it is, at no further charge, where it is of the same
people as the fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np

from hdpstats.describe.description import check_described_study, checked_description, refused
from hdpstats.describe.tables import NO_SEED
from hdpstats.families.spec import ModelSpec
from hdpstats.mechanisms.description import (
    AtRisk,
    DescribedColumn,
    DescribedPairs,
    DescriptionQuery,
    DescriptionRelease,
    RowsOfPerson,
)
from hdpstats.mechanisms.description.blocks import expected_numbers, numbers_of, public_people
from hdpstats.mechanisms.description.moments import moments_of, people_of
from hdpstats.mechanisms.description.request import averaged_columns, averaged_rows, described_columns, described_pairs
from hdpstats.mechanisms.description.site import prepare
from hdpstats.privacy.budget import Spend
from hdpstats.records.averages import CohortMoments, MomentKind

LEAST_AVERAGES, MOST_AVERAGES = Fraction(1, 50), Fraction(3, 20)
"""Bounds of the part of epsilon that is spent on averages of a fit's own people."""

WANTED_NOISE: Final = 0.25
"""The standard deviation of the noise of an average, in public standard deviations, which that part is to reach."""

MOST_OF_ALL: Final = Fraction(1, 5)
"""What a fit may buy beside its coefficients, of its epsilon: the number of its people, averages, and Hessians."""

MOST_NOISE: Final = 1.5
"""An average with more noise than this, in public standard deviations, says next to nothing: it is neither asked for
nor used."""

MOST_FOR_PAIRS: Final = Fraction(2, 25)
"""The largest part of epsilon that is spent for the sake of correlations."""

WANTED_OF_PAIRS, MOST_NOISE_OF_PAIRS = 0.1, 0.2
"""The standard deviation of the noise of a product that is aimed at, and the largest with which it is asked for.

Both over the root of the number of columns, as that is what the least eigenvalue of their correlations errs by.
"""

MOST_PAIRS: Final = 10_000
"""Pairs of columns that a fit asks for: of more the noise would hide any correlation, and a query has a limit."""

MOST_TIMES: Final = 8
"""Times after which a fit asks for shares of people at risk."""


MARGIN: Final = 4.0
"""How many times the outcome's variance errors take for that of residuals, which may vary more where covariates matter.

Of 21 coefficients of four linear fits to real people the variance that a robust error implies was .4 to 1.6 times that
of the outcome. Where a group of 3 % has twice the standard deviation of all others it is 3.7 times, where it has five
times theirs 15 times.
"""

PARTS, MOST_PARTS = 6.0, 20.0
"""Where nothing tells how much an outcome varies: its declared range, in standard deviations, that is reckoned with.

And the largest that the range of a plan covers; of flchain's concentrations it is 17.
"""

RANGE_OF_OUTCOME: Final = PARTS**2 / 4.0
"""How far one person can then move the mean square of the outcome, times the number of people, in its variances."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteDescription:
    """What a site was asked about its cohort, and what it answered."""

    query: DescriptionQuery
    release: DescriptionRelease

    @property
    def people(self) -> tuple[float, float] | None:
        """The number of people who count and the standard deviation of its noise; None where it does not tell it.

        With case weights it tells their total, not how many people they are of.
        """
        if self.query.weights is not None or self.query.is_of_fit:
            return None
        return people_of(numbers_of(self.query, [self.release], 0))

    def variance(self, column: str, people: tuple[float, float]) -> tuple[float, float] | None:
        """Return the variance of a described column and the standard deviation of the noise in it; else None."""
        if column not in {each.name for each in self.query.columns} or self.query.rows is not None:
            return None
        moments = moments_of(
            numbers_of(self.query, [self.release], 0),
            variables=(column,),
            people=people if self.query.leading == 0 else None,
            counted=people,
            sha256=self.release.sha256,
        )
        return variance_of(moments)

    def moments(self, spec: ModelSpec, people: tuple[float, float]) -> CohortMoments | None:
        """Return the averages of a model's variables; None where the model has no use for them.

        Without public rows it has none for some of its covariates without the others.
        """
        wanted, rows = averaged_variables(spec), self.query.rows
        of_all_rows = rows is not None and rows.correlation is not None
        if wanted is None or of_all_rows != (spec.several is not None):
            return None
        lacking = set(wanted.variables) - {each.name for each in self.query.columns}
        if lacking and spec.public_side is None:
            return None
        return moments_of(
            numbers_of(self.query, [self.release], 0),
            variables=wanted.variables,
            times=wanted.times,
            people=people if self.query.leading == 0 else None,
            counted=people,
            sha256=self.release.sha256,
        )


def variance_of(moments: CohortMoments) -> tuple[float, float] | None:
    r"""Return the variance of the one variable that averages are of, and the standard deviation of the noise in it.

    That of a number is :math:`E(u - c)^2 - (E u - c)^2`, with noise of the standard deviation
    :math:`\sqrt{\sigma_2^2 + 4 (E u - c)^2 \sigma_1^2}`; that of a share ``p (1 - p)``. None where it is of neither.
    """
    kinds = {each.what: each for each in moments.moments}
    if set(kinds) == {MomentKind.SHARE} and len(moments.moments) == 1:
        share = kinds[MomentKind.SHARE]
        p = min(max(share.value, 0.0), 1.0)
        return p * (1.0 - p), abs(1.0 - 2.0 * p) * share.noise_sd
    if set(kinds) != {MomentKind.MEAN, MomentKind.SQUARE}:
        return None
    mean, square = kinds[MomentKind.MEAN], kinds[MomentKind.SQUARE]
    away = mean.value - square.centre
    return square.value - away**2, math.hypot(square.noise_sd, 2.0 * away * mean.noise_sd)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AveragedVariables:
    """The variables of which a fit has use for averages.

    Attributes
    ----------
    variables : tuple of str
        The columns of covariates.
    time : str or None
        The column of the end of follow-up, of a hazard model.
    times : tuple of float
        After which shares of people at risk are of use: where intervals begin.
    """

    variables: tuple[str, ...]
    time: str | None = None
    times: tuple[float, ...] = ()


def averaged_variables(spec: ModelSpec) -> AveragedVariables | None:
    """Return the variables whose averages tell how private people differ; None where a fit has no use for them.

    Errors of logistic regressions, counts and hazards follow from covariates and follow-up; those of residuals also
    from their size, which public rows tell. For hazards with late entry, strata or several rows of a person nothing is
    asked: shares of people at risk do not tell there how many begin an interval, in which stratum, with which
    covariates. Without public rows those of a regression's covariates tell which noise would hide its Hessian.

    Of covariates of people who are weighted by their chance of treatment the propensity model's description has told:
    with the shares at risk, which are of these people unweighted, that of treated ones is asked for alone, since a
    description has a column.
    """
    told = spec.averaged_times
    known = {*spec.outcome, *spec.extra}
    needs = spec.needs if spec.overlap is None else (spec.overlap.treatment,)
    variables = tuple(sorted({name for name in needs if name not in known}))
    if told is None or not variables:
        return None
    time, times = told
    return AveragedVariables(variables=variables, time=time, times=times)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OwnDescription:
    """What a fit would ask of its own people: the same of every site, but for what it costs.

    Attributes
    ----------
    spec : ModelSpec
        The model.
    wanted : AveragedVariables
        What the fit has use for.
    columns : tuple of DescribedColumn
        The columns of which averages are asked: those in which public rows differ.
    range_of_one : float
        How far one person can move an average, times the number of people, in public standard deviations; the largest.
    after : tuple of float
        The times after which shares of people at risk are asked for; at most `MOST_TIMES`, evenly among those wanted.
    pairs : DescribedPairs or None
        The pairs of columns of which products are asked, that tell correlations.
    rows : RowsOfPerson or None
        How the numbers of rows are asked for of people with several.
    outcome : DescribedColumn or None
        The outcome, whose mean and square are asked where nothing public tells how large residuals are.
    """

    spec: ModelSpec
    wanted: AveragedVariables
    columns: tuple[DescribedColumn, ...]
    range_of_one: float
    after: tuple[float, ...]
    pairs: DescribedPairs | None = None
    rows: RowsOfPerson | None = None
    outcome: DescribedColumn | None = None

    def affordable(self, epsilon: Fraction, *, records: int) -> "OwnDescription":
        r"""Return it without pairs where noise would hide correlations; it follows from public facts.

        The noise of a product has the standard deviation :math:`2 c \sqrt{(k + 1)(k + 2) / 3} / (n s \epsilon)`. Pairs
        are kept where it is at most `MOST_NOISE_OF_PAIRS`, over the root of the number of columns, at the share ``s``
        of `MOST_FOR_PAIRS`.
        """
        if self.pairs is None or self._noise_of_pairs(epsilon, records) <= MOST_NOISE_OF_PAIRS * float(MOST_FOR_PAIRS):
            return self
        return replace(self, pairs=None)

    def _noise_of_pairs(self, epsilon: Fraction, records: int) -> float:
        """Return what the noise of a product would be times the root of the number of columns; 0 without pairs."""
        if self.pairs is None:
            return 0.0
        return math.sqrt(len(self.pairs.columns)) * self._noise(epsilon, records, 2.0 * self.pairs.largest)

    def _noise(self, epsilon: Fraction, records: int, reach: float) -> float:
        """Return the standard deviation of the noise of an average of a range, were all of epsilon spent on it."""
        k, persons = self.query(epsilon).dimension, self.spec.study.relation.persons_changed
        return reach * math.sqrt((k + 1) * (k + 2) / 3.0) * persons / float(2 * max(records, 1) * epsilon)

    def share(self, epsilon: Fraction, *, records: int, most: Fraction = MOST_AVERAGES) -> Fraction:
        r"""Return the part of epsilon that is spent on it; 0 where noise would hide it even at the largest part.

        That is ``most``: `MOST_AVERAGES`, or less where much is spent on the number of people (`MOST_OF_ALL`).

        The noise of an average at a part ``s`` has the standard deviation :math:`r \sqrt{(k + 1)(k + 2) / 3} /
        (n s \epsilon)`, with ``k`` of them and the largest range ``r`` in public standard deviations: the part is what
        makes it `WANTED_NOISE`, between `LEAST_AVERAGES` and `MOST_AVERAGES`. With pairs it is as much as makes the
        noise of products `WANTED_OF_PAIRS`, over that root, where that is more, up to `MOST_FOR_PAIRS`. It follows from
        public facts.
        """
        noise = self._noise(epsilon, records, self.range_of_one)
        if noise > MOST_NOISE * float(most):
            return Fraction(0)
        wanted = Fraction(noise / WANTED_NOISE).limit_denominator(10_000)
        share = min(max(wanted, LEAST_AVERAGES), most)
        if self.pairs is None:
            return share
        of_pairs = self._noise_of_pairs(epsilon, records) / WANTED_OF_PAIRS
        return max(share, min(Fraction(of_pairs).limit_denominator(10_000), MOST_FOR_PAIRS, most))

    def query(self, epsilon: Fraction, *, ahead: Sequence[Spend] = (), replicate: int = 1) -> DescriptionQuery:
        """Return what a site is asked; covariates are in alphabetical order, as other models may ask the same."""
        spec, public = self.spec, self.spec.study.public
        columns = self.columns if self.outcome is None else (*self.columns, self.outcome)
        read = {*(each.name for each in columns), *((self.wanted.time,) if self.after else ()), spec.weighting}
        return DescriptionQuery(
            columns=columns,
            complete=True,
            counted=False,
            weights=spec.weighting,
            largest_weight=spec.largest_weight,
            besides=tuple(sorted(set(spec.needs) - read)),
            at_risk=AtRisk(time=self.wanted.time, after=self.after) if self.after and self.wanted.time else None,
            pairs=self.pairs,
            rows=self.rows,
            epsilon=epsilon,
            schema_sha256=spec.study.schema.sha256,
            public_sha256=None if public is None else public.sha256,
            ahead=tuple(ahead),
            replicate=replicate,
        )

    def expected(self, epsilon: Fraction, *, records: int, people: tuple[float, float]) -> CohortMoments:
        """Return what is expected where private people are distributed as the public ones, with its noise."""
        whole, study = self.query(epsilon), self.spec.study
        sds = np.array(prepare(whole, self.spec.site_facts(records)).sds)
        query = replace(self, outcome=None).query(epsilon)
        stand_ins = public_people(query, study.schema, study.public)
        numbers = expected_numbers(query, stand_ins, records=people[0], sds=[sds], public=False)
        return moments_of(
            numbers,
            variables=self.wanted.variables,
            times=self.wanted.times,
            people=people if query.leading == 0 else None,
            counted=people,
            sha256=NO_SEED,
        )


def own_description(spec: ModelSpec) -> OwnDescription | None:
    """Return what a fit would ask of its own people beside their number; None where that would be of no use.

    Where public rows do not vary along some direction of the design, re-scaled ones would not tell more of it.
    """
    wanted, public, side = averaged_variables(spec), spec.study.public, spec.public_side
    if wanted is None or public is None or side is None or side.undetermined:
        return None
    columns, range_of_one = averaged_columns(spec.study.schema, wanted.variables, public)
    if not columns:
        return None
    last = len(wanted.times) - 1
    steps = {round(last * step / (MOST_TIMES - 1)) for step in range(MOST_TIMES)} if wanted.times else set()
    after = tuple(wanted.times[step] for step in sorted(steps))
    rows = None
    if spec.several is not None:
        told = side.rows_of_people
        if told is None:
            return None
        rows, of_numbers = averaged_rows(spec.several.most_rows, spec.several.correlation, told.numbers)
        heaviest = spec.largest_weight * float(spec.several.total)
        range_of_one = max(range_of_one, of_numbers) * heaviest / max(float(np.mean(told.weights)), 1e-3 * heaviest)
    outcome = _outcome(spec)
    return OwnDescription(
        spec=spec,
        wanted=wanted,
        columns=columns,
        outcome=outcome,
        range_of_one=range_of_one if outcome is None else max(range_of_one, RANGE_OF_OUTCOME),
        after=after,
        pairs=None if rows is not None else described_pairs(spec.study.schema, columns, public, most=MOST_PAIRS),
        rows=rows,
    )


def outcome_description(spec: ModelSpec) -> OwnDescription | None:
    """Return what a fit would ask of its own people's outcomes alone; None where that is of no use."""
    outcome = _outcome(spec)
    if outcome is None:
        return None
    wanted = AveragedVariables(variables=())
    return OwnDescription(
        spec=spec, wanted=wanted, columns=(), outcome=outcome, range_of_one=RANGE_OF_OUTCOME, after=()
    )


def _outcome(spec: ModelSpec) -> DescribedColumn | None:
    """Return the outcome, where nothing public tells how large residuals are and it tells something of that."""
    if not spec.describes_outcome:
        return None
    return described_columns(spec.study.schema, spec.outcome, None, cells=0)[0]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ResidualSd:
    """The standard deviation of residuals that errors take where nothing public tells it, in the outcome's unit.

    Attributes
    ----------
    value, largest : float
        It, and half the declared range, the largest there is.
    described : bool
        Whether outcomes were described.
    """

    value: float
    largest: float
    described: bool

    @property
    def unknown(self) -> bool:
        """Whether it is the largest there is."""
        return self.value >= self.largest


def residual_sd(
    spec: ModelSpec, description: SiteDescription | None, people: tuple[float, float], *, awaited: bool
) -> ResidualSd | None:
    """Return what errors at a site take for the standard deviation of residuals; None where public rows tell it.

    Residuals about an intercept and slopes vary no more than the outcome, on average. Its variance is taken two
    standard deviations of its noise larger than it was released, and `MARGIN` times as large, as errors that rest on it
    alone take residuals to vary alike at all covariates. It is never more than the declared range allows.

    Parameters
    ----------
    spec
        The model.
    description, people
        What was described at the site, and how many people count, with the standard deviation of the noise.
    awaited
        Whether outcomes are to be described yet: then a range of `PARTS` standard deviations is reckoned with.
    """
    largest = spec.largest_sd
    if largest is None:
        return None
    told = description.variance(spec.outcome[0], people) if description is not None and spec.describes_outcome else None
    value, described = largest, told is not None
    if told is not None:
        value = math.sqrt(MARGIN * (max(told[0], 0.0) + 2.0 * told[1]))
    elif awaited and spec.describes_outcome:
        value = math.sqrt(MARGIN) * 2.0 * largest / PARTS
    return ResidualSd(value=min(value, largest), largest=largest, described=described)


def described_sites(spec: ModelSpec, given: object) -> Mapping[str, SiteDescription]:
    """Return what a given description says of each site, or refuse one that is not of the people of the fit.

    Raises
    ------
    ArgumentError
        With the reason and what to do; nothing was charged.
    """
    description = checked_description(given, call="hdp.describe(study, columns, complete=True, epsilon=...)")
    check_described_study(spec.study, description)
    _check_people(spec, description.query)
    _check_averages(spec, description.query)
    queries = dict(description.queries)
    return {name: SiteDescription(query=queries[name], release=release) for name, release in description.releases}


def _check_people(spec: ModelSpec, query: DescriptionQuery) -> None:
    """Refuse a description of other rows than those that count in the fit."""
    schema, needs = spec.study.schema, set(spec.needs)
    call = f"hdp.describe(study, {_columns(spec)}, complete=True, epsilon=...)"
    if query.by is not None:
        raise refused(f"be without groups, by={query.by!r}: {call}")
    if not query.columns:
        raise refused(f"be of columns beside Surv(), which tell the number of people: {call}")
    weights = spec.weighting
    if query.weights != weights:
        own = "without weights" if weights is None else f"with weights={weights!r}"
        raise refused(f"count people as the model does, {own}")
    model, described = ({name for name in names if schema[name].leaves_out} for names in (needs, query.names))
    if not query.complete and (model or described & needs):
        raise refused(f"be of complete rows, as fits leave out rows with missing cells: {call}")
    if query.complete and model != described:
        lacks, more = sorted(model - described), sorted(described - model)
        what = [f"it lacks {', '.join(lacks)}"] if lacks else []
        what += [f"its rows are complete in {', '.join(more)} too, which the model does not read"] if more else []
        raise refused(f"be of the rows that are complete in the model's columns: {' and '.join(what)}; {call}")


def _check_averages(spec: ModelSpec, query: DescriptionQuery) -> None:
    """Refuse a description that lacks averages which the fit has use for."""
    wanted = averaged_variables(spec)
    if wanted is None or spec.public_side is None or spec.several is not None:
        return
    call = f"hdp.describe(study, {_columns(spec)}, complete=True, epsilon=...)"
    lacking = [name for name in wanted.variables if name not in {each.name for each in query.columns}]
    if lacking:
        raise refused(f"be of the model's covariates, and lacks {', '.join(lacking)}: {call}")
    followed = query.follow_up
    if wanted.time is not None and (followed is None or (followed.time, followed.start) != (wanted.time, None)):
        raise refused(f"count follow-up, which hazards rest on: {call}")
    if wanted.times and followed is not None and followed.ends[-1] < wanted.times[-1]:
        raise refused(
            f"count follow-up up to the last interval, which begins at {wanted.times[-1]:g}, not only to "
            f"{followed.ends[-1]:g}: give describe other times="
        )


def _columns(spec: ModelSpec) -> list[str]:
    """Return the columns to describe for a model, as `describe` takes them."""
    followed = spec.follow_up
    names = [name for name in dict.fromkeys(spec.needs) if name not in (*followed, spec.weighting)]
    return [*names, f"Surv({', '.join(followed)})"] if followed else names
