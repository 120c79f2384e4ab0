"""Amounts of privacy, offered (`Budget`) and spent (`Spend`), in exact arithmetic; what ran, and what it guarantees.

A release with Gaussian noise costs ``mu_squared``, the square of its parameter of Gaussian differential
privacy (`hdpstats.privacy.gaussian`), because that is what adds up; all other releases with epsilon and delta.
Floats are read through their shortest decimal form: 0.1 is 1/10, and ten times 0.1 is exactly 1. What one release is
asked to cost is rounded down to a public grain, and what it is charged is rounded up to it
(`hdpstats.privacy.composition`): a third of 1 is 0.333333333, and three of them fit in 1.

The events of a release name what ran: their meaning never changes; what no name says is a new name. Those of one
release, or of the rounds of one fit, add up: their number and their costs were fixed before the first of them ran.
(For costs that are chosen after seeing releases, see `hdpstats.privacy.composition`.)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Final, final

from hdpstats._base.errors import ArgumentError, BudgetError, MechanismError
from hdpstats._base.typing import LEFT_OUT
from hdpstats._base.validation import exact, integer
from hdpstats.privacy.gaussian import delta_of_square, epsilon_of
from hdpstats.privacy.sensitivity import Relation

EPSILON_GRAIN: Final = Fraction(1, 10**9)
"""The unit of charges without Gaussian noise."""

DELTA_GRAIN: Final = Fraction(1, 10**30)
"""The unit of deltas: far below any delta in use, and 30 digits at most."""

SMALLEST_EPSILON = Fraction(1, 10**6)
LARGEST_SENSIBLE_EPSILON = Fraction(50)


def decimal(value: Fraction) -> str:
    """Write a fraction as a person would: '0.1', '3', '1e-06', or 12 significant digits when it does not end."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"


def rounded_down(value: Fraction, grain: Fraction) -> Fraction:
    """Return the largest multiple of a grain that is no larger."""
    return math.floor(value / grain) * grain


@final
@dataclass(frozen=True, slots=True)
class Spend:
    """An amount of privacy loss, possibly zero, in exact fractions: three sums that are kept apart.

    Attributes
    ----------
    epsilon, delta
        The cost (epsilon in nats) of everything that is not Gaussian. No account affords a delta of 1 or more.
    mu_squared
        The cost of Gaussian noise: the squared parameter of Gaussian differential privacy.
    asked
        The (epsilon, delta) that the Gaussian part was asked to keep, by itself or with other rounds of the same fit;
        ``None`` without one. It is no further cost, and amounts that differ in it only are equal.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)
    asked: "Budget | None" = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Convert to exact fractions and refuse negative amounts; a sum of deltas may be 1 or more."""
        amounts = {name: exact(getattr(self, name), name=name) for name in ("epsilon", "delta", "mu_squared")}
        if not min(amounts.values()) >= 0:
            shown = ", ".join(f"{name} = {value}" for name, value in amounts.items())
            raise ArgumentError(
                f"an amount of privacy needs epsilon >= 0, delta >= 0 and mu_squared >= 0, not {shown}",
                argument="epsilon",
            )
        for name, value in amounts.items():
            object.__setattr__(self, name, value)

    def times(self, count: int) -> "Spend":
        """Return what so many releases of this cost amount to."""
        return replace(self, epsilon=count * self.epsilon, delta=count * self.delta, mu_squared=count * self.mu_squared)

    def __add__(self, other: "Spend") -> "Spend":
        """Composition: epsilons, deltas and squares add (Dwork et al. 2006; Dong, Roth and Su 2022)."""
        asked = [spend.asked for spend in (self, other) if spend.asked is not None]
        widest = (
            Budget(max(budget.epsilon for budget in asked), max(budget.delta for budget in asked)) if asked else None
        )
        return Spend(self.epsilon + other.epsilon, self.delta + other.delta, self.mu_squared + other.mu_squared, widest)

    def __str__(self) -> str:
        gaussian = f", mu = {math.sqrt(self.mu_squared):.6g}" if self.mu_squared else ""
        return f"epsilon = {decimal(self.epsilon)}, delta = {decimal(self.delta)}{gaussian}"


NOTHING = Spend(Fraction(0))


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """A total that a custodian offers: ``epsilon`` > 0 (nats) and 0 <= ``delta`` < 1, exact fractions.

    >>> Budget(epsilon=3.0)
    Budget(epsilon=Fraction(3, 1), delta=Fraction(0, 1))
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Convert to exact fractions and refuse amounts that are no budget."""
        epsilon, delta = exact(self.epsilon, name="epsilon"), exact(self.delta, name="delta")
        if not epsilon > 0:
            raise ArgumentError(
                f"epsilon must be above 0, not {decimal(epsilon)}; a budget that allows nothing is no budget",
                argument="epsilon",
            )
        if not 0 <= delta < 1:
            raise ArgumentError(f"delta must be in [0, 1), not {decimal(delta)}", argument="delta")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def __str__(self) -> str:
        return f"epsilon = {decimal(self.epsilon)}, delta = {decimal(self.delta)}"


def covers(most: Budget, spent: Spend) -> bool:
    """Whether a total, fixed beforehand, covers sums of costs that were fixed beforehand as well, exactly.

    Events of epsilons and deltas that sum to (e, d), composed with sqrt(m)-GDP, are (E, D)-DP where (e, d) leave
    (E - e, D - d) and that is implied by sqrt(m) (see `as_pair`).

    >>> covers(Budget(1), Spend(1)), covers(Budget(1), Spend(1, 1e-9))
    (True, False)
    """
    epsilon, delta = most.epsilon - spent.epsilon, most.delta - spent.delta
    if epsilon < 0 or delta < 0:
        return False
    return spent.mu_squared == 0 or (epsilon > 0 and delta_of_square(epsilon, spent.mu_squared) <= delta)


def release_epsilon(value: object, *, allow_large_epsilon: bool = False) -> Fraction:
    """Return the epsilon of one release, on the grain: in [1e-6, 50], or any larger finite number when allowed.

    Above 50 the odds of any statement about a person may change by a factor e^50: there is no protection
    left, and the number is more likely a mistake than intended.
    """
    epsilon = exact(value, name="epsilon")
    if not epsilon >= SMALLEST_EPSILON:
        raise ArgumentError(
            f"epsilon must be at least 1e-6, not {decimal(epsilon)}: below it the noise hides any data",
            argument="epsilon",
        )
    if epsilon > LARGEST_SENSIBLE_EPSILON and not allow_large_epsilon:
        raise BudgetError(
            f"epsilon = {decimal(epsilon)} for one release is above 50, which protects nobody; "
            "ask for less, or say allow_large_epsilon=True",
            argument="epsilon",
        )
    if epsilon > 10**6:
        raise ArgumentError(f"epsilon must be at most 1e6, not {decimal(epsilon)}", argument="epsilon")
    return rounded_down(epsilon, EPSILON_GRAIN)


def epsilons_of(epsilon: float | Iterable[float]) -> list[Fraction]:
    """Check the values that `plan` is asked for."""
    values = list(epsilon) if isinstance(epsilon, Iterable) else [epsilon]
    if not values:
        raise ArgumentError("epsilon must name at least one value to plan for", argument="epsilon")
    return [release_epsilon(value, allow_large_epsilon=True) for value in values]


def release_delta(value: object) -> Fraction:
    """Return the delta of one release, on the grain: in [0, 1).

    >>> release_delta(1e-6)
    Fraction(1, 1000000)
    """
    delta = exact(value, name="delta")
    if not 0 <= delta < 1:
        raise ArgumentError(f"delta must be in [0, 1), not {value!r}", argument="delta")
    if 0 < delta < DELTA_GRAIN:
        raise ArgumentError(f"delta must be 0 or at least 1e-30, not {decimal(delta)}", argument="delta")
    return rounded_down(delta, DELTA_GRAIN)


def release_replicate(value: object) -> int:
    """Return the number of an independent draw: 1 is the first."""
    return integer(value, name="replicate", lower=1, upper=10**9)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What a call may spend on each person, as `requested` reads it; ``replicate`` numbers independent draws."""

    epsilon: Fraction
    delta: Fraction
    replicate: int


def requested(
    epsilon: object, delta: object = 0, replicate: object = 1, *, allow_large_epsilon: bool = False
) -> Requested:
    """Return the arguments of a call that spends, checked and on the grain.

    >>> requested(1, 1e-6)
    Requested(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000), replicate=1)
    """
    return Requested(
        epsilon=release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon),
        delta=release_delta(delta),
        replicate=release_replicate(replicate),
    )


class MechanismName(StrEnum):
    """The mechanisms whose proofs the package holds, by name.

    Ledgers and saved results have these texts: they never change, as releases could not be read any more.
    """

    OBJECTIVE = "objective perturbation (K-norm noise, coupled analysis)"
    OBJECTIVE_DETERMINANT = "objective perturbation (K-norm noise, determinant paid for)"
    GAUSSIAN_OBJECTIVE = "objective perturbation (Gaussian noise)"
    OUTPUT = "output perturbation (L2 K-norm noise on the certified minimiser)"
    GAUSSIAN_OUTPUT = "output perturbation (Gaussian noise on the certified minimiser)"
    SMOOTHING = "lattice noise on the solution (covers solver error and floating point)"
    HESSIAN = "L2 K-norm noise on the weighted Hessian at the released coefficients"
    CURVATURE = "L2 K-norm noise on Hessians of people, each cut to a norm, at the released coefficients"
    SQUARES = "L2 K-norm noise on squared scores of people, each cut to a norm, at the released coefficients"
    GRADIENT = "noisy gradient sum (Gaussian)"
    GRADIENT_PURE = "noisy gradient sum (L2 K-norm noise)"
    SCORE = "noisy sum of logistic scores of rows cut to a length (Gaussian)"
    SCORE_PURE = "noisy sum of logistic scores of rows cut to a length (L2 K-norm noise)"
    SAMPLING = "exponential mechanism by rejection (certified acceptance)"
    COUNT = "two-sided geometric noise on the number of records"
    HISTOGRAM = "two-sided geometric noise on the cells of a histogram"
    WEIGHTED_CELLS = "two-sided geometric noise on the weight of people in public cells"
    SELECTION = "permute-and-flip choice among public candidates"
    CURVE = "two-sided geometric noise on a performance curve"
    STATISTICS = "box noise on sums of clipped sufficient statistics"
    SUBSAMPLE = "box noise on projected estimates from blocks of people"
    DISTANCE = "two-sided geometric noise on a sum of clipped distances"
    DESCRIPTION = "box noise on sums of centred features of groups"
    GAUSSIAN_DESCRIPTION = "Gaussian noise on sums of centred features of groups"
    GAUSSIAN_HISTOGRAM = "Gaussian noise on the cells of a histogram"

    @property
    def words(self) -> str:
        """The mechanism as it is shown.

        >>> MechanismName.OBJECTIVE_DETERMINANT.words
        'objective perturbation (K-norm noise, determinant counted in epsilon)'
        """
        return self.value.replace("determinant paid for", "determinant counted in epsilon")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyEvent:
    """One mechanism that ran on the private rows, with the (epsilon, delta) that its proof gives it.

    An event with ``mu_squared`` above 0 is sqrt(mu_squared)-Gaussian differentially private, and that is what it
    costs. Its epsilon and delta are then what it was asked to keep: a pair that its mu implies, or the pair of the
    whole fit of which it is one round. They are not added to those of other events.

    Raises
    ------
    MechanismError
        If the mu of a Gaussian event does not imply its epsilon and delta.
    """

    ran: MechanismName
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse a Gaussian event that claims more than its mu implies."""
        if self.mu_squared and not (
            self.epsilon > 0 and delta_of_square(self.epsilon, self.mu_squared) <= self.delta < 1
        ):
            raise MechanismError(
                f"Gaussian noise of mu = {math.sqrt(self.mu_squared):.6g} does not imply (epsilon, delta) = "
                f"({float(self.epsilon):g}, {float(self.delta):g})",
                ran=self.ran.value,
            )

    @property
    def cost(self) -> Spend:
        """What the event costs: mu_squared if it is Gaussian, else epsilon and delta."""
        if self.mu_squared == 0:
            return Spend(self.epsilon, self.delta)
        return Spend(Fraction(0), mu_squared=self.mu_squared, asked=Budget(self.epsilon, self.delta))

    @property
    def amount(self) -> str:
        """What the event costs, in words: 'mu = 0.236704', 'epsilon = 0.85', 'epsilon = 1, delta = 1e-06'."""
        if self.mu_squared:
            return f"mu = {math.sqrt(self.mu_squared):.6g}"
        return f"epsilon = {decimal(self.epsilon)}" + (f", delta = {decimal(self.delta)}" if self.delta else "")

    def __str__(self) -> str:
        return f"{self.ran.words}, {self.amount}"


def _pair(epsilon: Fraction, delta: Fraction) -> str:
    """Write the parameters of a guarantee: '1', '(1, 1e-06)'."""
    return decimal(epsilon) if delta == 0 else f"({decimal(epsilon)}, {decimal(delta)})"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Some of the releases that a result rests on, with what they guarantee by themselves.

    Attributes
    ----------
    what : str
        Which they are, for readers: "the fit", "the description it rests on".
    epsilon, delta : Fraction
        Their guarantee.
    releases : tuple of str
        The places in ledgers (`LedgerEntry.head`) of releases that other results may rest on too, in order: what has
        the same ones is one charge. Empty where no other result does, or a place is not known: the same numbers may be
        those of two charges.
    """

    what: str
    epsilon: Fraction
    delta: Fraction
    releases: tuple[str, ...] = ()

    @property
    def amount(self) -> str:
        """Its parameters in words: 'epsilon = 2', 'epsilon = 2, delta = 1e-06'."""
        return f"epsilon = {decimal(self.epsilon)}" + (f", delta = {decimal(self.delta)}" if self.delta else "")

    def __str__(self) -> str:
        return f"{_pair(self.epsilon, self.delta)} for {self.what}"


OWN: Final = "the fit"
"""What the releases of a guarantee without parts are called where others have parts."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for one ``unit`` under a ``relation``.

    For neighbouring data sets D, D' and every set A of outputs, ``P[M(D) in A] <= e^epsilon P[M(D') in A] +
    delta``. With ``delta = 0`` the guarantee is pure.

    Attributes
    ----------
    epsilon, delta
        The parameters of the guarantee.
    relation
        Which data sets are neighbours.
    unit
        The word for one of those protected, such as "person".
    most_rows
        The largest number of rows of one of them that a release uses. All of them are protected together.
    all_rows
        True where a column names those protected and one row of each is used: the others are protected with it. None,
        which JSON leaves out, where ``most_rows`` says it, or every row is somebody else's.
    sites
        How many sites took part. The guarantee is for those who are at one of them only.
    parts
        What epsilon and delta are the sums of, where a result also rests on releases that were charged before, such as
        a description; None where it does not.
    """

    epsilon: Fraction
    delta: Fraction
    relation: Relation
    unit: str
    most_rows: int = 1
    sites: int = 1
    parts: Annotated[tuple[Part, ...] | None, LEFT_OUT] = None
    all_rows: Annotated[bool | None, LEFT_OUT] = None

    def as_parts(self, what: str, releases: tuple[str, ...] = ()) -> tuple[Part, ...]:
        """Return its parts; of a guarantee without parts the only one, called ``what``."""
        return self.parts or (Part(what=what, epsilon=self.epsilon, delta=self.delta, releases=releases),)

    def resting_on(self, *before: Part, own: str = OWN) -> "Guarantee":
        """Return the guarantee together with that of releases that were charged before: epsilons and deltas add up.

        Basic composition (Dwork et al. 2006) holds also where it was decided after seeing the first releases what the
        later ones cost (Rogers, Roth, Ullman and Vadhan 2016). The squared mu of Gaussian parts are not added up
        across parts, as that holds for costs that are fixed beforehand (`hdpstats.privacy.composition`).

        >>> fit = Guarantee(epsilon=Fraction(1), delta=Fraction(0), relation=Relation.REPLACE_ONE, unit="person")
        >>> before = Part(what="the description it rests on", epsilon=Fraction(2), delta=Fraction(0))
        >>> print(fit.resting_on(before))
        3-differential privacy (pure) in all: 1 for the fit, 2 for the description it rests on
        """
        parts = (*self.as_parts(own), *before)
        whole = _sum(parts)
        return replace(self, epsilon=whole.epsilon, delta=whole.delta, parts=parts)

    @property
    def listed(self) -> str:
        """Its parts in words: '1 for the fit, 2 for the description it rests on'; empty without parts."""
        return ", ".join(map(str, self.parts or ()))

    @property
    def protected(self) -> str:
        """Who is protected, for tables: 'one person', or 'one person (at most 5 rows)'."""
        rows = f" ({self._rows_used})" if self.is_of_all_rows else ""
        return f"one {self.unit}{rows}" + (f", at one of {self.sites} sites only" if self.sites > 1 else "")

    @property
    def neighbours(self) -> str:
        """Which data sets are neighbours, in plain words."""
        return self.relation.between(self.unit, of_all_rows=self.is_of_all_rows)

    @property
    def is_of_all_rows(self) -> bool:
        """Whether somebody may have several rows, which are protected together: a column says whose a row is."""
        return self.most_rows > 1 or bool(self.all_rows)

    def with_rows_of(self, others: Sequence["Guarantee"]) -> "Guarantee":
        """Return the guarantee for as many rows of somebody as the largest of it and others protects."""
        most = max(each.most_rows for each in (self, *others))
        named = any(each.is_of_all_rows for each in (self, *others))
        return replace(self, most_rows=most, all_rows=True if named and most == 1 else None)

    @property
    def _rows_used(self) -> str:
        return "all rows, of which one is used" if self.most_rows == 1 else f"at most {self.most_rows} rows"

    @property
    def pair(self) -> str:
        """Its epsilon and delta: '1', '(1, 1e-06)'."""
        return _pair(self.epsilon, self.delta)

    @property
    def words(self) -> str:
        """Its epsilon and delta in words, without its parts."""
        return f"{self.pair}-differential privacy{'' if self.delta else ' (pure)'}"

    def __str__(self) -> str:
        return f"{self.words} in all: {self.listed}" if self.parts else self.words

    def statement(self) -> str:
        """Return the guarantee in plain words, as an ethics board or a methods section can use it.

        >>> g = Guarantee(epsilon=Fraction(1), delta=Fraction(0), relation=Relation.REPLACE_ONE, unit="person")
        >>> g.statement().startswith("This release is 1-differentially private")
        True
        """
        factor = math.exp(min(float(self.epsilon), 700.0))
        kind = f"{_pair(self.epsilon, self.delta)}-differentially private{'' if self.delta else ' (pure, delta = 0)'}"
        what = (
            f"All releases behind this result are together {kind}: {self.listed}"
            if self.parts
            else (f"This release is {kind}")
        )
        rest = "" if self.delta == 0 else f", plus an additional probability of at most {decimal(self.delta)}"
        rows = f", with {self._rows_used}" if self.is_of_all_rows else ""
        where = "" if self.sites == 1 else f"Records are at {self.sites} sites, and each {self.unit} is at one only. "
        return (
            f"{what}. The protected unit is one {self.unit}{rows}: {self.neighbours}. {where}"
            f"Between neighbours the probability of any outcome differs by a factor of at most {factor:.4g}{rest}. "
            "The guarantee holds for every adversary, whatever else is known about the other records; "
            "it adds up with other releases from the same records, which the ledger counts."
        )


def total(events: Iterable[PrivacyEvent]) -> Spend:
    """Return what events cost: the sums of epsilons and deltas, and of mu_squared of the Gaussian ones.

    Sequential composition: Dwork, Kenthapadi, McSherry, Mironov and Naor (2006); Dong, Roth and Su (2022).
    """
    return sum((event.cost for event in events), NOTHING)


def as_pair(spend: Spend) -> Spend:
    """Return an amount as an (epsilon, delta) without Gaussian part: the guarantee when nothing else is released.

    Events of epsilons and deltas that sum to (e, d), composed with sqrt(mu_squared)-GDP, are
    (e + epsilon(delta_g), d + delta_g)-DP for every delta_g: each of the former multiplies the odds by at most its own
    factor, up to its delta. Here delta_g is the delta that the Gaussian part was asked to keep, and its epsilon the
    one it was asked to keep if the sum of its squares implies that, else the least that they do imply.
    """
    if spend.asked is None:
        return spend
    asked = spend.asked
    kept = delta_of_square(asked.epsilon, spend.mu_squared) <= asked.delta
    epsilon = asked.epsilon if kept else epsilon_of(asked.delta, spend.mu_squared)
    return Spend(spend.epsilon + epsilon, spend.delta + asked.delta)


def guarantee(
    events: Iterable[PrivacyEvent],
    *,
    relation: Relation,
    unit: str = "person",
    most_rows: int = 1,
    of_all_rows: bool = False,
) -> Guarantee:
    """Return the guarantee of everything that ran inside one fit.

    Parameters
    ----------
    events
        What ran.
    relation, unit, most_rows
        Who is protected: the neighbouring relation, the word for one of those protected, and the largest number of
        rows that one of them may have.
    of_all_rows
        Whether a column says whose a row is, also where one row of each is used.
    """
    pair = as_pair(total(events))
    return Guarantee(
        epsilon=pair.epsilon,
        delta=pair.delta,
        relation=relation,
        unit=unit,
        most_rows=most_rows,
        all_rows=True if of_all_rows and most_rows == 1 else None,
    )


def over_data_sets(guarantees: Sequence[tuple[frozenset[str], Guarantee]]) -> Guarantee:
    """Return what results under one relation keep together for everybody whose records are in one data set.

    Guarantees of results with a data set in common add up (sequential composition), each release counted once although
    several of the results rest on it; those of different data sets, by the argument of `over_sites`, do not. So it is
    the largest sum over data sets. A result whose data set is not known may be of anybody: it is counted in each of the
    sums. Each of the parts is the largest one over data sets as well.

    Parameters
    ----------
    guarantees
        The data sets of each result, by the identities of their accounts, and the guarantee for each of them; none
        where one of them is not known.
    """
    together: dict[str, dict[object, Part]] = {}
    everybody = frozenset({""}).union(*(accounts for accounts, _ in guarantees))
    for accounts, guarantee in guarantees:
        for account in accounts or everybody:
            for part in guarantee.as_parts(OWN):
                together.setdefault(account, {})[part.releases or object()] = part
    sums = [
        {what: _sum([part for part in parts.values() if part.what == what]) for what in _names(parts.values())}
        for parts in together.values()
    ]
    largest = [
        Part(what=what, epsilon=max(part.epsilon for part in named), delta=max(part.delta for part in named))
        for what in dict.fromkeys(what for sum_of in sums for what in sum_of)
        if (named := [sum_of[what] for sum_of in sums if what in sum_of])
    ]
    whole = [_sum(list(parts.values())) for parts in together.values()]
    return replace(
        guarantees[0][1].with_rows_of([guarantee for _, guarantee in guarantees]),
        epsilon=max(part.epsilon for part in whole),
        delta=max(part.delta for part in whole),
        parts=tuple(largest) if any(guarantee.parts for _, guarantee in guarantees) else None,
    )


def _names(parts: Iterable[Part]) -> list[str]:
    return list(dict.fromkeys(part.what for part in parts))


def _sum(parts: Sequence[Part]) -> Part:
    epsilon, delta = (sum((getattr(part, name) for part in parts), Fraction(0)) for name in ("epsilon", "delta"))
    return Part(what=parts[0].what, epsilon=epsilon, delta=delta)


def over_sites(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee of a fit at several sites for every person, of whom each is at one site only.

    A person's record is read by one site. Given all that was public when a site was asked, what the other sites then
    say has the same distribution whether or not that record is another, as none of them holds it: their densities
    cancel from the likelihood ratio of the whole transcript. What is left is the composition of that one site's
    releases, whatever the number of sites and of rounds. So the largest epsilon and the largest delta over sites hold
    for everybody.

    For a person at two sites the guarantees of both add up.
    """
    first = guarantees[0]
    return replace(
        first.with_rows_of(guarantees),
        epsilon=max(guarantee.epsilon for guarantee in guarantees),
        delta=max(guarantee.delta for guarantee in guarantees),
        sites=len(guarantees),
    )
