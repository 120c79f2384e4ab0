"""The query of one noisy sum of clipped scores, its release, and the rounds of a fit that is made of several."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.queries.base import ChargedQuery, ChargedRelease, LedgerEntry, Query, Release, charged_fields, events_in
from hdpstats.queries.model import AnyModel, model_from_dict


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GradientQuery(ChargedQuery):
    """Sum the people's scores at given coefficients, each clipped to a length, and add noise.

    A query is one round of a fit. Its epsilon and delta are what the whole fit keeps; the round itself costs
    ``mu_squared`` of that, and the rounds that are still to come cost ``ahead``. Without a delta there is one round,
    which costs epsilon.

    Attributes
    ----------
    model : AnyModel
        Whose scores are summed.
    theta : tuple of float
        Where, in whitened coordinates (D,).
    clip : Fraction
        ``C``: the longest score of a person; a binary64 number.
    mu_squared, ahead : Fraction
        What this round costs, and what the later ones will, in squared Gaussian differential privacy.
    """

    kind: ClassVar[str] = "clipped-gradient/1"
    model: AnyModel
    theta: tuple[float, ...]
    clip: Fraction
    mu_squared: Fraction = Fraction(0)
    ahead: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself, or rounds that together cost more than is offered."""
        if len(self.theta) != self.model.dimension:
            raise MechanismError(f"theta must have {self.model.dimension} numbers, not {len(self.theta)}")
        if not all(abs(value) < 1e12 for value in self.theta):
            raise MechanismError("theta must hold finite numbers")
        if not (Fraction(1, 10**9) <= self.clip <= 10**9 and Fraction(float(self.clip)) == self.clip):
            raise MechanismError("the clip must be a binary64 number in [1e-9, 1e9]")
        if not (self.epsilon > 0 and 0 <= self.delta < 1 and self.ahead >= 0):
            raise MechanismError("the query needs epsilon > 0, 0 <= delta < 1 and ahead >= 0")
        if max(self.epsilon.denominator, self.delta.denominator) > 10**30:
            raise MechanismError("epsilon and delta must be fractions of at most 30 digits")
        if max(self.mu_squared.denominator, self.ahead.denominator) > 10**60:
            raise MechanismError("mu_squared and ahead must be fractions of at most 60 digits")
        if self.delta == 0:
            if self.mu_squared or self.ahead:
                raise MechanismError("without a delta there is one round with pure noise: mu_squared must be 0")
        elif not (self.mu_squared > 0 and delta_of_square(self.epsilon, self.mu_squared + self.ahead) <= self.delta):
            raise MechanismError("the rounds must cost something, and together no more than epsilon and delta allow")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "model": self.model.to_dict(),
            "theta": list(self.theta),
            "clip": str(self.clip),
            "mu_squared": str(self.mu_squared),
            "ahead": str(self.ahead),
        } | ChargedQuery.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "GradientQuery":
        """Read what `to_dict` wrote."""
        return cls(
            model=model_from_dict(fields["model"]),
            theta=tuple(float(value) for value in fields["theta"]),
            clip=rational(fields["clip"], name="clip"),
            mu_squared=rational(fields["mu_squared"], name="mu_squared"),
            ahead=rational(fields["ahead"], name="ahead"),
            **charged_fields(fields),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GradientRelease(ChargedRelease):
    """What a round hands out. Everything but ``total`` is a public constant.

    Attributes
    ----------
    total : tuple of float
        The noisy sum of clipped scores (D,), every number a multiple of ``grid``.
    noise_sd : float
        Standard deviation of the noise in each coordinate.
    grid : float
        The lattice of ``total`` (a power of two).
    records : int
        The number of people: public under replace-one, else declared.
    """

    kind: ClassVar[str] = "clipped-gradient/1"
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

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "total": list(self.total),
            "noise_sd": self.noise_sd,
            "grid": self.grid,
            "records": self.records,
        } | ChargedRelease.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "GradientRelease":
        """Read what `to_dict` wrote."""
        return cls(
            total=tuple(float(value) for value in fields["total"]),
            noise_sd=float(fields["noise_sd"]),
            grid=float(fields["grid"]),
            records=int(fields["records"]),
            events=events_in(fields),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RoundsQuery(Query):
    """The queries of a fit in their order: a record for results. A site answers them one by one, not this."""

    kind: ClassVar[str] = "clipped-gradient-rounds/1"
    rounds: tuple[GradientQuery, ...]

    def __post_init__(self) -> None:
        """Refuse rounds that are not those of one fit."""
        if not self.rounds:
            raise MechanismError("a fit has one round or more")
        shared = {
            (each.model, each.epsilon, each.delta, each.replicate, each.schema_sha256, each.public_sha256)
            for each in self.rounds
        }
        if len(shared) != 1:
            raise MechanismError("the rounds of a fit must agree in everything but theta, clip and their costs")

    @property
    def model(self) -> AnyModel:
        """Whose scores were summed."""
        return self.rounds[0].model

    @property
    def epsilon(self) -> Fraction:  # type: ignore[override]
        """What the fit keeps."""
        return self.rounds[0].epsilon

    @property
    def delta(self) -> Fraction:  # type: ignore[override]
        """What the fit keeps."""
        return self.rounds[0].delta

    @property
    def replicate(self) -> int:  # type: ignore[override]
        """The number of the draw."""
        return self.rounds[0].replicate

    @property
    def schema_sha256(self) -> str:  # type: ignore[override]
        """The schema."""
        return self.rounds[0].schema_sha256

    @property
    def public_sha256(self) -> str | None:  # type: ignore[override]
        """The public frame."""
        return self.rounds[0].public_sha256

    def to_dict(self) -> dict[str, Any]:
        """Return the queries as JSON values."""
        return {"rounds": [each.to_dict() for each in self.rounds]}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "RoundsQuery":
        """Read what `to_dict` wrote."""
        return cls(rounds=tuple(GradientQuery.from_dict(each) for each in fields["rounds"]))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RoundsRelease(Release):
    """The releases of a fit in their order, each with its own place in the ledger; ``entry`` is the last one's."""

    kind: ClassVar[str] = "clipped-gradient-rounds/1"
    rounds: tuple[GradientRelease, ...]
    entry: LedgerEntry | None = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:  # type: ignore[override]
        """What ran, round by round."""
        return tuple(event for each in self.rounds for event in each.events)

    @property
    def records(self) -> int:
        """The number of people: public under replace-one, else declared."""
        return self.rounds[0].records

    def to_dict(self) -> dict[str, Any]:
        """Return the releases as JSON values, with their places."""
        return {
            "rounds": [each.to_dict() for each in self.rounds],
            "entries": [None if each.entry is None else each.entry.to_dict() for each in self.rounds],
        }

    def at(self, entry: LedgerEntry) -> "RoundsRelease":
        """Return the releases with another place of the last one."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "RoundsRelease":
        """Read what `to_dict` wrote."""
        pairs = zip(fields["rounds"], fields["entries"], strict=True)
        return cls(rounds=tuple(_placed(GradientRelease.from_dict(each), entry) for each, entry in pairs))


def _placed(release: GradientRelease, entry: dict[str, Any] | None) -> GradientRelease:
    return release if entry is None else release.at(LedgerEntry.from_dict(entry))
