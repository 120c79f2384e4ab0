"""The query of one noisy sum of logistic scores of rows of bounded length, its release, and the rounds of a fit."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.queries.base import (
    ChargedQuery,
    ChargedRelease,
    LedgerEntry,
    Query,
    Release,
    charged_fields,
    events_in,
)
from hdpstats.queries.model import RegressionModel


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreQuery(ChargedQuery):
    """Sum the people's logistic scores at given coefficients, their rows cut to a length, and add noise.

    A query is one round of a fit. Its epsilon and delta are what the whole fit keeps; the round itself costs ``cost``
    of that, and the rounds that are still to come cost ``ahead``: in epsilon without a delta, else in squared Gaussian
    differential privacy.

    Attributes
    ----------
    model : RegressionModel
        A logistic regression without weights and offset. Of its geometry location and whitening count: rows are cut,
        not weighted down.
    theta : tuple of float
        Where, in whitened coordinates (D,).
    truncation : float
        Whitened covariates are cut to this size, one by one.
    norm : Fraction
        ``M``: rows that are longer, the intercept's 1 included, are shortened to it; a binary64 number.
    cost, ahead : Fraction
        What this round costs, and what the later ones will.
    """

    kind: ClassVar[str] = "logistic-score/1"
    model: RegressionModel
    theta: tuple[float, ...]
    truncation: float
    norm: Fraction
    cost: Fraction
    ahead: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself, or rounds that together cost more than is offered."""
        model = self.model
        if model.loss != "logistic" or model.weights is not None or model.offset is not None:
            raise MechanismError("scores of rows of bounded length are for logistic losses without weights and offset")
        if len(self.theta) != model.dimension or not all(abs(value) <= 1e6 for value in self.theta):
            raise MechanismError(f"theta must have {model.dimension} numbers of size at most 1e6")
        if not 1e-3 <= self.truncation <= 1e6:
            raise MechanismError("the truncation must be in [1e-3, 1e6]")
        if not (Fraction(1, 1000) <= self.norm <= 10**6 and Fraction(float(self.norm)) == self.norm):
            raise MechanismError("the norm must be a binary64 number in [1e-3, 1e6]")
        if not (self.epsilon > 0 and 0 <= self.delta < 1 and self.cost > 0 and self.ahead >= 0):
            raise MechanismError("the query needs epsilon > 0, 0 <= delta < 1, cost > 0 and ahead >= 0")
        if max(self.epsilon.denominator, self.delta.denominator) > 10**30:
            raise MechanismError("epsilon and delta must be fractions of at most 30 digits")
        if max(self.cost.denominator, self.ahead.denominator) > 10**60:
            raise MechanismError("cost and ahead must be fractions of at most 60 digits")
        whole = self.cost + self.ahead
        if not (whole <= self.epsilon if self.delta == 0 else delta_of_square(self.epsilon, whole) <= self.delta):
            raise MechanismError("the rounds must together cost no more than epsilon and delta allow")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "model": self.model.to_dict(),
            "theta": list(self.theta),
            "truncation": self.truncation,
            "norm": str(self.norm),
            "cost": str(self.cost),
            "ahead": str(self.ahead),
        } | ChargedQuery.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "ScoreQuery":
        """Read what `to_dict` wrote."""
        return cls(
            model=RegressionModel.from_dict(fields["model"]),
            theta=tuple(float(value) for value in fields["theta"]),
            truncation=float(fields["truncation"]),
            norm=rational(fields["norm"], name="norm"),
            cost=rational(fields["cost"], name="cost"),
            ahead=rational(fields["ahead"], name="ahead"),
            **charged_fields(fields),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreRelease(ChargedRelease):
    """What a round hands out. Everything but ``total`` is a public constant.

    Attributes
    ----------
    total : tuple of float
        The noisy sum of scores (D,), every number a multiple of ``grid``: the gradient of the sum of losses.
    noise_sd : float
        Standard deviation of the noise in each coordinate.
    grid : float
        The lattice of ``total`` (a power of two).
    records : int
        The number of people: public under replace-one, else declared.
    """

    kind: ClassVar[str] = "logistic-score/1"
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
    def from_dict(cls, fields: dict[str, Any]) -> "ScoreRelease":
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
class ScoreRoundsQuery(Query):
    """The queries of a fit in their order: a record for results. A site answers them one by one, not this."""

    kind: ClassVar[str] = "logistic-score-rounds/1"
    rounds: tuple[ScoreQuery, ...]

    def __post_init__(self) -> None:
        """Refuse rounds that are not those of one fit."""
        shared = {
            (each.model, each.epsilon, each.delta, each.replicate, each.schema_sha256, each.public_sha256)
            for each in self.rounds
        }
        if len(shared) != 1:
            raise MechanismError("a fit has one round or more, which agree in everything but theta and their costs")

    @property
    def model(self) -> RegressionModel:
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
    def from_dict(cls, fields: dict[str, Any]) -> "ScoreRoundsQuery":
        """Read what `to_dict` wrote."""
        return cls(rounds=tuple(ScoreQuery.from_dict(each) for each in fields["rounds"]))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreRoundsRelease(Release):
    """The releases of a fit in their order, each with its own place in the ledger; ``entry`` is the last one's."""

    kind: ClassVar[str] = "logistic-score-rounds/1"
    rounds: tuple[ScoreRelease, ...]
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

    def at(self, entry: LedgerEntry) -> "ScoreRoundsRelease":
        """Return the releases with another place of the last one."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "ScoreRoundsRelease":
        """Read what `to_dict` wrote."""
        pairs = [
            (ScoreRelease.from_dict(e), entry) for e, entry in zip(fields["rounds"], fields["entries"], strict=True)
        ]
        return cls(rounds=tuple(e if entry is None else e.at(LedgerEntry.from_dict(entry)) for e, entry in pairs))
