"""What every query and every release has, and what those have that release coefficients at once."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, final

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import check_size, real
from hdpstats.privacy.budget import PrivacyEvent, Spend
from hdpstats.records import codec
from hdpstats.records import recipe as recipes
from hdpstats.records.codec import LEFT_OUT, Record, to_dict
from hdpstats.records.limits import LARGEST_AMOUNT, MOST_COEFFICIENTS, MOST_WITH_HESSIAN, Ahead, check_ahead
from hdpstats.records.model import AnyModel
from hdpstats.records.sandwich import NoisySandwich, SandwichPart


class Query(Record, ABC):
    """A question to a site: plain public data, in which its cost is written.

    Attributes
    ----------
    kind : str
        Which mechanism answers.
    epsilon, delta : Fraction
        What the answer costs each person; the site charges it before it looks at a row.
    replicate : int
        1, or the number of a further independent answer to the same question (each is charged).
    schema_sha256 : str
        The schema that the asker believes in; a site with another schema refuses.
    public_sha256 : str or None
        The public frame that the geometry came from.
    recipe : int or None
        The recipe that it was made by (`hdpstats.records.recipe`); None, which JSON leaves out, is the first.
    """

    kind: ClassVar[str]
    epsilon: Fraction
    delta: Fraction
    replicate: int
    schema_sha256: str
    public_sha256: str | None
    recipe: int | None

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return codec.dumps(self.to_dict())

    def question(self) -> str:
        """Return the canonical JSON text without the recipe: what is asked, by which a ledger knows the release."""
        return codec.dumps({name: value for name, value in self.to_dict().items() if name != "recipe"})


class MechanismOptions(ABC):  # noqa: B024  (what they share is that `fit` takes them)
    """What a user may choose about a mechanism: an object that ``fit(mechanism=...)`` takes."""

    __slots__ = ()

    @property
    def share(self) -> Fraction | None:
        """The share of epsilon for a noisy Hessian that was asked for; None where none was."""
        return None


AUTO: Final = "auto"
"""What users write for a share that the fit chooses."""


def checked_share(se_share: object) -> Fraction | None:
    """Return a share of epsilon for a noisy Hessian, from 0 to 0.9, as the exact fraction; None for ``"auto"``."""
    if isinstance(se_share, str) and se_share == AUTO:
        return None
    if isinstance(se_share, str):
        raise ArgumentError(f"se_share must be 'auto' or a number from 0 to 0.9, not {se_share!r}", argument="se_share")
    real(se_share, name="se_share", lower=0.0, upper=0.9)
    return Fraction(str(se_share))


@dataclass(frozen=True, kw_only=True, slots=True)
class WithHessianShare(MechanismOptions):
    """Options of a mechanism that may spend a share of epsilon on a noisy Hessian; ``"auto"`` leaves it to the fit."""

    se_share: float | str = AUTO

    def __post_init__(self) -> None:
        """Validate the share."""
        checked_share(self.se_share)

    @property
    def share(self) -> Fraction | None:
        """The share as the exact fraction that was meant; None where the fit chooses it."""
        return checked_share(self.se_share)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargedQuery(Query, ABC):
    """A query that a site answers and charges by itself."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    schema_sha256: str
    public_sha256: str | None
    replicate: int = 1
    recipe: Annotated[int | None, LEFT_OUT] = field(default_factory=recipes.written)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepQuery(ChargedQuery, ABC):
    """One query of a request that takes several, step by step.

    Attributes
    ----------
    ahead : tuple of Spend
        What later queries of the same request cost, an epsilon each: refused now if they could not be charged then.
    """

    ahead: Ahead = ()


def check_pure(query: Query, what: str) -> None:
    """Refuse a query whose cost is no pure epsilon above 0, or whose later questions' costs are none."""
    check_epsilon(query)
    if not (query.epsilon > 0 and query.delta == 0 and query.epsilon.denominator <= 10**30):
        raise MechanismError(f"{what} needs epsilon > 0 of at most 30 digits, and is pure: delta must be 0")
    if isinstance(query, StepQuery):
        check_ahead(query.ahead, pure=True)


def check_epsilon(query: Query) -> None:
    """Refuse an epsilon that no account affords."""
    if query.epsilon > LARGEST_AMOUNT:
        raise MechanismError(f"epsilon must be at most {LARGEST_AMOUNT}, as much as an account may have; ask for less")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Signature(Record):
    """A site's signature of a release and its place in the ledger (`hdpstats.ledger.signing`).

    Attributes
    ----------
    key : str
        What the key is called.
    request, query : str
        The identity of the request in the ledger, and the SHA-256 of the query.
    value : str
        The signature, in hexadecimal digits.
    """

    key: str
    request: str
    query: str
    value: str


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry(Record):
    """Where a release stands in the custodian's ledger: data set, version, entry number, head of the chain.

    To an analyst of a site, number and head are of his own part of the ledger (`hdpstats.ledger.analysts`).

    Attributes
    ----------
    dataset, version : str, int
        The data.
    number, head : int, str
        The number of the charge, and the head of the chain of entries up to the release.
    attempt : int
        How often the request was charged: more than once where a process that computed it ended before.
    account : str
        The identity of the ledger's account: who has releases of one account has releases of the same people. Empty
        where it is not known.
    charged : Spend or None
        What each of its charges was: what the release costs, rounded up to the grain of charges and at least the
        account's floor (`hdpstats.privacy.composition`).
    stored : str or None
        Where the ledger had the release already and nothing was computed: when it was charged (to an
        analyst: to him), in UTC to the minute. None where the release was computed for this answer. Releases that
        differ in it alone are equal.
    signature : Signature or None
        The site's signature, where it holds a key.
    """

    dataset: str
    version: int
    number: int
    head: str
    attempt: int = 1
    account: str = ""
    charged: Spend | None = None
    stored: Annotated[str | None, LEFT_OUT] = field(default=None, compare=False)
    signature: Annotated[Signature | None, LEFT_OUT] = field(default=None, compare=False)

    def with_signature(self, signature: Signature) -> "LedgerEntry":
        """Return the same place with a signature."""
        return replace(self, signature=signature)


Placed = Annotated[LedgerEntry | None, LEFT_OUT]
"""Where the ledger keeps a release; nothing in JSON where that is not known."""


class Release(Record, ABC):
    """An answer that left a site: noisy numbers, the events that made them, the ledger entry; nothing else.

    The JSON text of a release is what the ledger stores; the entry says where, and is not a part of it.
    """

    kind: ClassVar[str]
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None

    @abstractmethod
    def at(self, entry: LedgerEntry) -> Self:
        """Return the release with its place in the ledger."""

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return codec.dumps(self.to_dict())

    @property
    def sha256(self) -> str:
        """The SHA-256 of the release: the seed of everything that is later drawn from it."""
        return codec.sha256(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values, without its entry; as a part of another record it keeps its entry."""
        return {name: value for name, value in to_dict(self).items() if name != "entry"}


_R = TypeVar("_R", bound=Release)


def of_kind(release: Release, kind: type[_R]) -> _R:
    """Return a release of the kind that answers a query, or raise MechanismError where it is another one."""
    if not isinstance(release, kind):
        raise MechanismError("the site answered with a release of another kind")
    return release


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargedRelease(Release, ABC):
    """The answer to a `ChargedQuery`.

    Attributes
    ----------
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    events: tuple[PrivacyEvent, ...]
    entry: Placed = None

    def at(self, entry: LedgerEntry) -> Self:
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRelease(ChargedRelease, ABC):
    """Noisy numbers of people; some may be below 0. Everything but ``counts`` is a public constant.

    Attributes
    ----------
    counts : tuple of int
        One for each cell of a table, or for each public point, in the order of the query.
    noise_variance : float
        The variance of the noise in each.
    """

    counts: tuple[int, ...]
    noise_variance: float


_Q = TypeVar("_Q", bound="PointQuery")


LEAST_SMOOTHING, MOST_SMOOTHING = Fraction(1, 1000), Fraction(1, 10)
"""Bounds of the share of epsilon that covers the solver and floating point."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MinimiserQuery(ChargedQuery, ABC):
    """Release a point near the minimiser of a penalised sum of losses, whatever the losses are of.

    It has at most 2000 coefficients, 150 with a noisy Hessian (`hdpstats.records.limits`).

    Attributes
    ----------
    centre : tuple of float
        Where the ridge pulls to, in whitened coordinates (D,).
    ridge : Fraction
        The ridge ``lambda`` (sum scale), the same in every whitened direction.
    delta : Fraction
        Above 0 where the noise has no pure guarantee.
    hessian_share : Fraction
        The share of epsilon that is spent on a noisy Hessian for standard errors; with 0 there is none.
    smoothing_share : Fraction or None
        The share of epsilon that covers the solver and floating point where the computed minimiser is smoothed, above
        `LEAST_SMOOTHING` and at most `MOST_SMOOTHING`; None, which JSON leaves out, is `LEAST_SMOOTHING`.
    sandwich : SandwichPart or None
        What is asked of private Hessians and squared scores at the released coefficients, of regressions of one linear
        predictor; None, which JSON leaves out, where nothing is.
    """

    centre: tuple[float, ...]
    ridge: Fraction
    hessian_share: Fraction = Fraction(0)
    smoothing_share: Annotated[Fraction | None, LEFT_OUT] = None
    sandwich: Annotated[SandwichPart | None, LEFT_OUT] = None

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coefficients."""

    @property
    def smooths(self) -> bool:
        """Whether noise entered the objective, so that the computed minimiser is smoothed."""
        return False

    @property
    def for_smoothing(self) -> Fraction:
        """The share of epsilon that covers the solver and floating point."""
        return LEAST_SMOOTHING if self.smoothing_share is None else self.smoothing_share

    @property
    def for_errors(self) -> Fraction:
        """The share of epsilon that is spent on what standard errors rest on."""
        return self.hessian_share + (Fraction(0) if self.sandwich is None else self.sandwich.share)

    @property
    def for_objective(self) -> Fraction:
        """The share of epsilon that is left for noise in the objective."""
        return 1 - self.for_errors - self.for_smoothing

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself, or is too large."""
        check_size("coefficients", self.dimension, MOST_COEFFICIENTS, remedy="take fewer terms, levels or causes")
        if self.for_errors:
            remedy = "take fewer terms, or standard errors from public rows: hessian_share=0"
            check_size("coefficients with a noisy Hessian", self.dimension, MOST_WITH_HESSIAN, remedy=remedy)
        if len(self.centre) != self.dimension:
            raise MechanismError(f"the centre must have {self.dimension} numbers, not {len(self.centre)}")
        if not all(abs(value) < 1e12 for value in self.centre):
            raise MechanismError("the centre must hold finite numbers")
        if not (self.ridge > 0 and 0 < self.epsilon <= 10**6 and 0 <= self.hessian_share <= Fraction(9, 10)):
            raise MechanismError("the query needs ridge > 0, 0 < epsilon <= 1e6 and a Hessian's share from 0 to 0.9")
        if not 0 <= self.delta < 1:
            raise MechanismError("the query needs a delta in [0, 1)")
        if not self.for_errors <= Fraction(9, 10):
            raise MechanismError("the shares of a Hessian and of a sandwich must be at most 0.9 together")
        if self.smoothing_share is not None:
            self._check_smoothing(self.smoothing_share)
        if max(amount.denominator for amount in (self.epsilon, self.delta, self.hessian_share)) > 10**30:
            raise MechanismError("epsilon, delta and the Hessian's share must be fractions of at most 30 digits")
        if not Fraction(1, 10**60) <= self.ridge <= 10**60:
            raise MechanismError("the ridge must be in [1e-60, 1e60]: beyond, the solver's certificates overflow")
        if Fraction(float(self.ridge)) != self.ridge:
            raise MechanismError("the ridge must be a binary64 number, so that every site solves the same problem")

    def _check_smoothing(self, share: Fraction) -> None:
        """Refuse a share that is out of bounds, leaves nothing for the objective, or that nothing is smoothed with."""
        if not self.smooths:
            raise MechanismError("only objective perturbation smooths its minimiser: leave smoothing_share out")
        if not LEAST_SMOOTHING < share <= MOST_SMOOTHING or share.denominator > 10**30:
            raise MechanismError(
                "smoothing_share must be above 1/1000, which is written by leaving it out, and at most 1/10: a "
                "fraction of at most 30 digits"
            )
        if not self.for_objective > 0:
            raise MechanismError("hessian_share and smoothing_share leave no epsilon for the coefficients")


@dataclass(frozen=True, kw_only=True, slots=True)
class PointQuery(MinimiserQuery, ABC):
    """Release coefficients of a model, near the minimiser of a penalised sum of losses.

    Attributes
    ----------
    model : AnyModel
        What is fitted.
    """

    model: AnyModel

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.model.dimension

    def asked_as(self, kind: type[_Q], **changes: object) -> _Q:
        """Return a query of another kind about the same minimiser, with changes."""
        same = {declared.name: getattr(self, declared.name) for declared in fields(PointQuery)}
        return kind(**(same | changes))


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRelease(ChargedRelease, ABC):
    """Released coefficients. Everything but ``theta`` and ``hessian`` is a public constant.

    Attributes
    ----------
    theta : tuple of float
        The coefficients in whitened coordinates (D,), every number a multiple of ``grid``.
    hessian : tuple of float or None
        The noisy weighted Hessian at ``theta``, stacked by columns of its upper triangle, or None.
    noise_rate : float
        Rate of K-norm noise, density proportional to ``exp(-rate K(b))``; 0 for other noise.
    noise_sd : float
        Standard deviation of normal noise in each coordinate; 0 for other noise.
    hessian_noise_sd : float
        Standard deviation of each coordinate of the stacked Hessian's noise (0 without a Hessian).
    grid : float
        The lattice of ``theta`` (a power of two).
    records : int
        The number of people: public under replace-one, else declared.
    sandwich : NoisySandwich or None
        Noisy sums of Hessians and squared scores at ``theta``, where they were asked for.
    """

    theta: tuple[float, ...]
    hessian: tuple[float, ...] | None
    noise_rate: float
    noise_sd: float = 0.0
    hessian_noise_sd: float
    grid: float
    records: int
    sandwich: Annotated[NoisySandwich | None, LEFT_OUT] = None


def stack(matrix: FloatArray) -> FloatArray:
    """Return a symmetric matrix (D, D) as a Hessian is stacked: lengths of vectors are those of matrices."""
    i, j = np.triu_indices(len(matrix))
    return np.asarray(matrix[i, j] * np.where(i == j, 1.0, math.sqrt(2.0)))


def unstack(stacked: FloatArray, dimension: int) -> FloatArray:
    """Return the symmetric matrix (D, D) of a stacked Hessian."""
    i, j = np.triu_indices(dimension)
    matrix = np.zeros((dimension, dimension))
    matrix[i, j] = stacked / np.where(i == j, 1.0, math.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T
