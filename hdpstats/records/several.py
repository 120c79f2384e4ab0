"""Queries and releases of fits that consist of several: rounds of noisy sums of scores, and sites by their names."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar, Self, final

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.validation import check_size
from hdpstats.privacy.budget import Budget, PrivacyEvent, Spend
from hdpstats.records.codec import AtMost
from hdpstats.records.limits import MOST_AHEAD, MOST_COEFFICIENTS, MOST_SITES, AtMostRounds
from hdpstats.records.model import AnyModel
from hdpstats.records.query import ChargedQuery, ChargedRelease, LedgerEntry, Placed, Query, Release, check_epsilon


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundQuery(ChargedQuery, ABC):
    """Sum the people's scores at given coefficients and add noise: one round of a fit.

    Its epsilon and delta are what the whole fit keeps.

    Attributes
    ----------
    model : AnyModel
        Whose scores are summed.
    theta : tuple of float
        Where, in whitened coordinates (D,).
    ahead : Fraction
        What the later rounds will cost, in the unit of what this one does.
    """

    model: AnyModel
    theta: tuple[float, ...]
    ahead: Fraction = Fraction(0)

    def check(
        self, name: str, length: Fraction, *, least: Fraction, most: int, cost: Fraction, farthest: float
    ) -> None:
        """Refuse a query that contradicts itself, or is too large.

        Parameters
        ----------
        name, length, least, most
            What scores or rows are cut to, in words and as a number, and its smallest and largest value.
        cost
            What the round costs.
        farthest
            The largest size of a coefficient.
        """
        D, remedy = self.model.dimension, "take fewer terms, levels or causes"
        check_size("coefficients", D, MOST_COEFFICIENTS, remedy=remedy)
        if len(self.theta) != D or not all(abs(value) <= farthest for value in self.theta):
            raise MechanismError(f"theta must have {D} numbers of size at most {farthest:g}")
        if not (least <= length <= most and Fraction(float(length)) == length):
            raise MechanismError(f"the {name} must be a binary64 number in [{float(least):g}, {float(most):g}]")
        check_epsilon(self)
        if not (self.epsilon > 0 and 0 <= self.delta < 1 and self.ahead >= 0):
            raise MechanismError("the query needs epsilon > 0, 0 <= delta < 1 and ahead >= 0")
        if max(self.epsilon.denominator, self.delta.denominator) > 10**30:
            raise MechanismError("epsilon and delta must be fractions of at most 30 digits")
        if max(cost.denominator, self.ahead.denominator) > 10**60:
            raise MechanismError("the costs of rounds must be fractions of at most 60 digits")


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundRelease(ChargedRelease, ABC):
    """What a round hands out. Everything but ``total`` is a public constant.

    Attributes
    ----------
    total : tuple of float
        The noisy sum of scores (D,), every number a multiple of ``grid``.
    noise_sd : float
        Standard deviation of the noise in each coordinate.
    grid : float
        The lattice of ``total`` (a power of two).
    records : int
        The number of people: public under replace-one, else declared.
    """

    total: tuple[float, ...]
    noise_sd: float
    grid: float
    records: int

    @property
    def is_gaussian(self) -> bool:
        """Whether the noise is normal; else its density is proportional to ``exp(-rate ||b||)``."""
        return all(event.mu_squared for event in self.events)

    @property
    def noise_rate(self) -> float:
        """The rate of the noise that is not normal: its variance is ``(D + 1) / rate^2``."""
        return math.sqrt(len(self.total) + 1.0) / self.noise_sd


@dataclass(frozen=True, kw_only=True, slots=True)
class SeveralQueries(Query, ABC):
    """The queries of one fit: a record for results. A site answers them one by one, not this."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Query, ...]:
        """The queries, in their order."""

    @property
    def epsilon(self) -> Fraction:  # type: ignore[override]
        """The largest epsilon: what the fit keeps for everybody, as a person is at one site."""
        return max(part.epsilon for part in self.parts)

    @property
    def delta(self) -> Fraction:  # type: ignore[override]
        """The largest delta."""
        return max(part.delta for part in self.parts)

    @property
    def replicate(self) -> int:  # type: ignore[override]
        """The number of the draw."""
        return self.parts[0].replicate

    @property
    def schema_sha256(self) -> str:  # type: ignore[override]
        """The schema."""
        return self.parts[0].schema_sha256

    @property
    def public_sha256(self) -> str | None:  # type: ignore[override]
        """The public frame."""
        return self.parts[0].public_sha256

    @property
    def recipe(self) -> int | None:  # type: ignore[override]
        """The recipe."""
        return self.parts[0].recipe


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RoundsQuery(SeveralQueries):
    """The queries of a fit in rounds, at one site: they agree in epsilon and delta."""

    kind: ClassVar[str] = "rounds/1"
    rounds: Annotated[tuple[RoundQuery, ...], AtMostRounds]

    def __post_init__(self) -> None:
        """Refuse rounds that are not those of one fit."""
        shared = {
            (
                type(one_round),
                one_round.model,
                one_round.epsilon,
                one_round.delta,
                one_round.replicate,
                one_round.schema_sha256,
                one_round.public_sha256,
                one_round.recipe,
            )
            for one_round in self.rounds
        }
        if len(shared) != 1:
            raise MechanismError(
                "a fit has one round or more, which agree in everything but where scores are taken and what it costs"
            )

    @property
    def parts(self) -> tuple[RoundQuery, ...]:
        """The rounds."""
        return self.rounds

    @property
    def model(self) -> AnyModel:
        """Whose scores were summed."""
        return self.rounds[0].model


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RoundsRelease(Release):
    """The releases of a fit in their order, each with its own place in the ledger; ``entry`` is the last one's."""

    kind: ClassVar[str] = "rounds/1"
    rounds: Annotated[tuple[RoundRelease, ...], AtMostRounds]
    entry: Placed = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:  # type: ignore[override]
        """What ran, round by round."""
        return tuple(event for one_round in self.rounds for event in one_round.events)

    @property
    def records(self) -> int:
        """The number of people: public under replace-one, else declared."""
        return self.rounds[0].records

    def at(self, entry: LedgerEntry) -> Self:
        """Return the releases with another place of the last one."""
        return replace(self, entry=entry)


def in_parts(ahead: Fraction, cost: Fraction) -> tuple[Fraction, ...]:
    """Return what later rounds cost, as far as their sum tells it: no round costs less than the one before it.

    So they are at most as many as this round's cost fits into their sum. Charged one by one, parts of that size are
    charged no less than the rounds will be, whatever the floor of the account.
    """
    if ahead == 0:
        return ()
    count = min(max(math.floor(ahead / cost), 1), MOST_AHEAD)
    return (*[cost] * (count - 1), ahead - cost * (count - 1))


def gaussian_ahead(ahead: Fraction, cost: Fraction, asked: Budget) -> tuple[Spend, ...]:
    """Return `in_parts` of a sum of mu_squared, of a fit that was asked to keep some (epsilon, delta)."""
    return tuple(Spend(Fraction(0), mu_squared=part, asked=asked) for part in in_parts(ahead, cost))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SitesQuery(SeveralQueries):
    """What each of several sites was asked, by its name."""

    kind: ClassVar[str] = "sites/1"
    sites: Annotated[tuple[tuple[str, Query], ...], AtMost(size=MOST_SITES, what="sites of a fit")]

    def __post_init__(self) -> None:
        """Refuse queries that are not those of one fit."""
        if not self.sites or len(dict(self.sites)) != len(self.sites):
            raise MechanismError("a fit at several sites names every one of them once")
        if len({(part.replicate, part.schema_sha256, part.public_sha256, part.recipe) for part in self.parts}) != 1:
            raise MechanismError(
                "the queries of a fit agree in the schema, the public rows, the recipe and the number of the draw"
            )

    @property
    def parts(self) -> tuple[Query, ...]:
        """The queries, site by site."""
        return tuple(query for _, query in self.sites)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SitesRelease(Release):
    """What each of several sites handed out, each with its own place in its own ledger; ``entry`` is None."""

    kind: ClassVar[str] = "sites/1"
    sites: Annotated[tuple[tuple[str, Release], ...], AtMost(size=MOST_SITES, what="sites of a fit")]
    entry: Placed = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:  # type: ignore[override]
        """What ran, site by site; nobody is in more than one site, so that they do not add up."""
        return tuple(event for _, query in self.sites for event in query.events)

    def at(self, entry: LedgerEntry) -> "SitesRelease":
        """Refuse: the releases of several sites have no common place."""
        raise SiteError(f"releases of several sites are in ledgers of their own, not at entry {entry.number} of one")


def answers_in(release: Release) -> tuple[Release, ...]:
    """Return the releases that were charged one by one: those of sites, the rounds of a fit, or the release itself."""
    if isinstance(release, SitesRelease):
        return tuple(answer for _, at_site in release.sites for answer in answers_in(at_site))
    return release.rounds if isinstance(release, RoundsRelease) else (release,)


def charged_events(release: Release | None) -> tuple[PrivacyEvent, ...]:
    """Return what a release was charged to its people: its events, as often as its request was charged.

    A request is charged again where a process that computed it ended before; which draw is handed out may then depend
    on each of them (`hdpstats.sites.single_draw`).
    """
    answers = () if release is None else answers_in(release)
    return tuple(
        event
        for answer in answers
        for event in answer.events
        for _ in range(1 if answer.entry is None else answer.entry.attempt)
    )
