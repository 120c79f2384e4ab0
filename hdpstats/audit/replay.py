r"""Record an answer on one data set, replay it on a neighbour: what differs must be inputs of noise alone.

The method of dp-recorder (PETS 2026). While a computation on ``D`` is *recorded*, every draw of noise is kept, with
each number that it is added to, each sum, and everything that the caller sees. Then it is *replayed* on ``D'`` with
the same random bits and the same draws, and every noisy sum is *frozen*: it is the recorded one. So all that follows a
noisy sum, and all that leaves, must be equal to the last bit: names, numbers, shapes, warnings, log lines and their
order. The numbers that noise was added to may differ, by as much as the noise was scaled to.

**What a draw costs** on the two data sets, with ``a`` the vector of what was added to it on ``D`` and ``a'`` on ``D'``:
:math:`\rho K(a - a')` for noise of density proportional to :math:`\exp(-\rho K)`, in its own norm ``K``; for normal
noise :math:`\mu = \|a - a'\| / \sigma`; for a choice by costs the rate times how far any difference of two costs moved.
As sums are frozen the draws compose: the losses add up, and the squares of ``mu`` do. A release whose losses add up to
more than its epsilon is no epsilon-DP release.

**Objective perturbation** adds no noise to a sum; its minimiser ``theta`` has the density
:math:`\nu(b_D(\theta)) \det \nabla^2 F_D(\theta)`. Frozen is ``theta``: on ``D'`` the perturbation becomes
:math:`b_{D'}(\theta)`, whose minimiser is ``theta`` again, and the cost is :math:`\rho K(b_D(\theta) - b_{D'}(\theta))
+ |\log\det \nabla^2 F_D(\theta) - \log\det \nabla^2 F_{D'}(\theta)|`. What the computed minimisers then differ by is
what the solver is off, which the noise added to them covers.

**Sampling** by rejection is exact for every potential; its cost is the rate times how far any difference of two
potentials moved, at the places that were looked at.

A search can refute a claim and cannot prove one. Threads that draw noise of their own are not recorded.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.audit.density import k_norm
from hdpstats.audit.outputs import Observation, observe
from hdpstats.mechanisms import minimiser
from hdpstats.mechanisms.exponential import site as exponential
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.exact import Draw, drawing
from hdpstats.noise.normal import TiltedNormal
from hdpstats.solvers.objective import Rows

_VECTORS: Final = (BallNoise, BoxNoise, CylinderNoise, RoundedNormal)
_SINGLE: Final = (TwoSidedGeometric, TiltedNormal)
_PATCHING: Final = threading.RLock()
_CURRENT: ContextVar["_Recorder | None"] = ContextVar("who records the noise of this thread", default=None)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseInput:
    """What one draw of noise was added to, on both data sets.

    Attributes
    ----------
    noise : str
        The distribution of the draw.
    distance : float
        How far apart the inputs are, in the norm of the noise; for a choice, of differences of two costs.
    loss : float
        The privacy loss (nats) that follows, at most; 0 for normal noise.
    mu : float
        Of normal noise: the distance over the standard deviation; else 0.
    """

    noise: str
    distance: float
    loss: float
    mu: float = 0.0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What a replay on a neighbour showed.

    Attributes
    ----------
    inputs : tuple of NoiseInput
        One for each draw.
    differences : tuple of str
        What leaves, or how noise is drawn, and is not equal: each of them is a leak. It should be empty.
    """

    inputs: tuple[NoiseInput, ...]
    differences: tuple[str, ...]

    @property
    def epsilon(self) -> float:
        """The privacy losses of all draws together; infinite where something else differs."""
        return math.inf if self.differences else math.fsum(each.loss for each in self.inputs)

    @property
    def mu(self) -> float:
        """The mu of all normal draws together; infinite where something else differs."""
        return math.inf if self.differences else math.sqrt(math.fsum(each.mu**2 for each in self.inputs))

    def keeps(self, *, epsilon: float = 0.0, mu: float = 0.0) -> bool:
        """Whether a claim of epsilon, and of mu for normal noise, is not refuted; rounding of doubles refutes none."""
        return self.epsilon <= epsilon * (1.0 + 1e-9) and self.mu <= mu * (1.0 + 1e-9)

    def __str__(self) -> str:
        if self.differences:
            return "differs: " + "; ".join(self.differences)
        normal = f", mu = {self.mu:.6g}" if self.mu else ""
        return f"nothing differs but inputs of noise, which cost epsilon = {self.epsilon:.6g}{normal}"


def record_and_replay(call: Callable[[Any], Any], data: Any, neighbour: Any) -> Replay:
    """Run a computation on data, then again on a neighbour with the same noise, and compare.

    Parameters
    ----------
    call
        Takes one of the data sets and returns what leaves. Noise of `hdpstats.noise` is recorded by itself; noise of
        other samplers is added by `add_noise`. It must do the same whenever it is called with the same data and noise:
        dates and numbers of entries have no place in what it returns.
    data, neighbour
        Two neighbouring data sets.

    Raises
    ------
    ArgumentError
        If the recorded computation raises an error: there is nothing to replay.

    Examples
    --------
    >>> from fractions import Fraction
    >>> noise = TwoSidedGeometric(rate=Fraction(1, 2))
    >>> def mean(ages):
    ...     total = sum(min(max(age, 0), 100) for age in ages)  # one person moves it by 100
    ...     return (total + TwoSidedGeometric(rate=Fraction(1, 100)).draw()) / len(ages)
    >>> record_and_replay(mean, [30, 40, 50], [30, 40, 100]).epsilon
    0.5
    >>> def chatty(ages):
    ...     return {"total": sum(ages) + noise.draw(), "adults": sum(age >= 18 for age in ages)}
    >>> print(record_and_replay(chatty, [30, 40], [30, 4]))
    differs: what is returned
    """
    return next(replays(call, data, [neighbour]))


def replays(call: Callable[[Any], Any], data: Any, neighbours: Iterable[Any]) -> Iterator[Replay]:
    """Record a computation on data once, and yield what its replay on each neighbour shows: see `record_and_replay`."""
    draw, first = Draw(), _Recorder()
    seen = _run(call, data, first, draw)
    if seen.exception is not None:
        kind, message, *_ = seen.exception
        raise ArgumentError(f"call must run on data before it is replayed: {kind}: {message}", argument="call")
    for neighbour in neighbours:
        second = _Recorder(before=first)
        again = _run(call, neighbour, second, draw)
        yield Replay(inputs=second.inputs(), differences=(*second.differences(), *_told_apart(seen, again)))


def inputs_of_noise(call: Callable[[Any], Any], data: Any) -> list[list[float]]:
    """Return what each draw of the package's noise is added to, number by number, when a computation runs on data."""
    recorder = _Recorder()
    seen = _run(call, data, recorder, Draw())
    if seen.exception is not None:
        raise ArgumentError(f"call must run on data: {seen.exception[0]}: {seen.exception[1]}", argument="call")
    return [[float(drawn.added[place]) for place in sorted(drawn.added)] for drawn in recorder.draws if drawn.added]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Coins:
    """The coins of sampling by rejection: the j-th shows heads with probability ``exp(-exponents[j])``.

    ``rate`` is the privacy loss per unit of a difference of potentials.
    """

    rate: Fraction
    exponents: tuple[float, ...] = field(compare=False)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnNoise:
    """One draw of the package's noise.

    Attributes
    ----------
    noise : object
        Its distribution, or `Coins`.
    numbers : tuple of int
        What was drawn: of a choice the place of what was chosen, of a coin 1 for heads.
    costs : tuple of int
        Of a choice, the costs of the candidates.
    """

    noise: Any
    numbers: tuple[int, ...]
    costs: tuple[int, ...] = ()


def draws_in(call: Callable[[Any], Any], data: Any, *, repeats: int = 1) -> list[tuple[DrawnNoise, ...]]:
    """Run a computation on data, and return what it drew, draw by draw; the coins of sampling by rejection are one.

    Every draw is made so many times, from the same sampler: the computation goes on with the first.

    Raises
    ------
    ArgumentError
        If it raises an error.
    """
    recorder = _Recorder(repeats=repeats)
    seen = _run(call, data, recorder, Draw())
    if seen.exception is not None:
        raise ArgumentError(f"call must run on data: {seen.exception[0]}: {seen.exception[1]}", argument="call")
    drawn = [
        tuple(
            DrawnNoise(noise=each.distribution, numbers=numbers, costs=each.costs)
            for numbers in (each.numbers, *each.repeated)
        )
        for each in recorder.draws
        if not _is_proposal(each.distribution)
    ]
    if recorder.coins:
        coins = Coins(rate=recorder.potentials[0][0], exponents=tuple(recorder.exponents))
        thrown = zip(*([int(first), *map(int, more)] for first, more in recorder.coins), strict=True)
        drawn.append(tuple(DrawnNoise(noise=coins, numbers=numbers) for numbers in thrown))
    return drawn


def add_noise(value: npt.ArrayLike, draw: Callable[[], npt.ArrayLike], *, rate: float, name: str = "noise") -> Any:
    """Return a statistic plus a draw of any sampler, so that `record_and_replay` can follow it.

    Parameters
    ----------
    value
        The statistic, a number or an array.
    draw
        Returns a number or an array of its shape: independent numbers of a density proportional to
        ``exp(-rate |z|)``.
    rate
        The privacy loss per unit of the L1 distance: of Laplace noise, one over its scale.
    name
        What the noise is called in a `Replay`.
    """
    rate, recorder = real(rate, name="rate", lower=0.0, open_lower=True), _CURRENT.get()
    if recorder is None:
        return np.asarray(value) + np.asarray(draw())
    return recorder.added_by_hand(np.asarray(value, dtype=float), draw, rate, name)


def _run(call: Callable[[Any], Any], data: Any, recorder: "_Recorder", draw: Draw) -> Observation:
    with _PATCHING, _patched():
        token = _CURRENT.set(recorder)
        try:
            with drawing(draw):
                return observe(lambda: call(data), numbers=True)
        finally:
            _CURRENT.reset(token)


def _told_apart(seen: Observation, again: Observation) -> list[str]:
    names = {
        "result": "what is returned",
        "exception": "the error that is raised",
        "warned": "warnings",
        "printed": "what is printed",
        "logged": "log lines",
    }
    return [words for name, words in names.items() if getattr(seen, name) != getattr(again, name)]


@dataclass(slots=True)
class _Drawn:
    """One draw: its distribution, its numbers, and what was added to each of them."""

    distribution: Any
    numbers: tuple[int, ...]
    added: dict[int, Any] = field(default_factory=dict)
    kept: dict[int, Any] = field(default_factory=dict)
    costs: tuple[int, ...] = ()
    repeated: tuple[tuple[int, ...], ...] = ()


class _Noise(int):
    """A number of a draw, which tells its recorder what it is added to. Used otherwise it is a plain integer."""

    recorder: "_Recorder"
    place: tuple[int, int]

    def __add__(self, other: Any) -> Any:
        return self.recorder.added(self, other, int(self))

    __radd__ = __add__

    def __rsub__(self, other: Any) -> Any:
        return self.recorder.added(self, other, -int(self))

    def __sub__(self, other: Any) -> Any:
        return self.recorder.added(self, -other, int(self))


class _Recorder:
    """Records the draws of one run, each of them so often; with one ``before`` it replays its draws and sums."""

    def __init__(self, before: "_Recorder | None" = None, *, repeats: int = 1) -> None:
        self.before = before
        self._more = range(repeats - 1)
        self.draws: list[_Drawn] = []
        self.others: list[tuple[FloatArray, Any, float, str]] = []
        self.points: list[tuple[minimiser.Perturbation | None, Rows, FloatArray, FloatArray, Any]] = []
        self.potentials: list[tuple[Fraction, int]] = []
        self.lowest: list[Any] = []
        self.coins: list[tuple[bool, tuple[bool, ...]]] = []
        self.exponents: list[float] = []
        self.pending: minimiser.Perturbation | None = None
        self.leaks: list[str] = []
        self.of_points: list[NoiseInput] = []
        self._lent: list[Any] = []
        self._within = False

    # Draws of the package's own distributions.

    def drawn(self, distribution: Any, sample: Callable[[], Sequence[int]]) -> tuple[_Noise, ...]:
        """Return the numbers of a draw, each of which tells what it is added to."""
        known = self._known(distribution)
        numbers = tuple(map(int, sample())) if known is None else known.numbers
        repeated = tuple(tuple(map(int, sample())) for _ in self._more)
        self.draws.append(_Drawn(distribution, numbers, repeated=repeated))
        noises = []
        for coordinate, number in enumerate(numbers):
            noise = _Noise(number)
            noise.recorder, noise.place = self, (len(self.draws) - 1, coordinate)
            noises.append(noise)
        return tuple(noises)

    def chosen(self, distribution: PermuteAndFlip, costs: Sequence[int], sample: Callable[[], int]) -> int:
        """Return the choice of a draw that was recorded, or make it."""
        known = self._known(distribution)
        place = sample() if known is None else known.numbers[0]
        repeated = tuple((sample(),) for _ in self._more)
        self.draws.append(_Drawn(distribution, (place,), costs=tuple(map(int, costs)), repeated=repeated))
        return place

    def _known(self, distribution: Any) -> _Drawn | None:
        if self.before is None:
            return None
        place = len(self.draws)
        if place < len(self.before.draws) and self.before.draws[place].distribution == distribution:
            return self.before.draws[place]
        self._leak("the distribution of a draw of noise, or how many there are")
        return None

    def added(self, noise: _Noise, other: Any, number: int) -> Any:
        """Note what a number is added to, and return the sum: in a replay the recorded one."""
        draw, coordinate = noise.place
        own = self.draws[draw]
        if coordinate in own.added:
            self._leak("a draw of noise that is used twice")
            return number + other
        own.added[coordinate] = other
        own.kept[coordinate] = number + other
        if self.before is not None and draw < len(self.before.draws):
            return self.before.draws[draw].kept.get(coordinate, number + other)
        return number + other

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Say whether a sampler is not called by another one."""
        outer, self._within = self._within, True
        try:
            yield not outer
        finally:
            self._within = outer

    # Draws of other samplers.

    def added_by_hand(self, value: FloatArray, draw: Callable[[], npt.ArrayLike], rate: float, name: str) -> Any:
        place, number = len(self.others), draw()
        if isinstance(number, float | np.ndarray) and any(number is lent for lent in self._lent):
            self._leak("a draw of noise that is used twice")
        self._lent.append(number)
        total: Any = value + np.asarray(number)
        if self.before is not None:
            if place < len(self.before.others) and self.before.others[place][0].shape == value.shape:
                total = self.before.others[place][1]
            else:
                self._leak("the shape of what noise is added to, or how often")
        self.others.append((value, total, rate, name))
        return total

    # Minimisers and samplers whose outputs are frozen.

    def certified(self, run: Callable[..., Any], query: Any, people: Rows, effort: Any, perturbation: Any) -> Any:
        """Run a minimisation; in a replay of a perturbed one, with the perturbation that leads to the same point."""
        place, inside, centre = len(self.points), self.pending, np.array(query.centre)
        self.pending = None
        ridge = np.full(len(centre), float(query.ridge))
        if inside is None or self.before is None:
            theta = run(query, people, effort=effort, perturbation=perturbation)
            self.points.append((inside, people, centre, ridge, theta))
            return theta
        _, before, _, _, point = self.before.points[place]
        theta = np.array([float(value) for value in point])
        self.of_points.append(cost_at(inside, before, people, ridge, theta))
        exact = [
            Fraction(-float(r)) * (t - Fraction(float(c))) - Fraction(float(g))
            for r, t, c, g in zip(ridge, point, centre, _slope(people, theta), strict=True)
        ]
        self.points.append((inside, people, centre, ridge, point))
        return run(query, people, effort=effort, perturbation=exact)

    def lowest_of(self, run: Callable[[], Any]) -> Any:
        if self.before is None:
            self.lowest.append(run())
            return self.lowest[-1]
        self.lowest.append(self.before.lowest[len(self.lowest)])
        return self.lowest[-1]

    def coin(self, run: Callable[[], bool], exponent: float) -> bool:
        place = len(self.coins)
        self.exponents.append(exponent)
        shown = run() if self.before is None else self.before.coins[place][0]
        self.coins.append((shown, tuple(run() for _ in self._more)))
        return shown

    # What was found.

    def _leak(self, what: str) -> None:
        if what not in self.leaks:
            self.leaks.append(what)

    def differences(self) -> list[str]:
        """Return what is wrong with how noise is drawn, in the record or in the replay."""
        before = self._recorded()
        if len(self.draws) != len(before.draws):
            self._leak("the distribution of a draw of noise, or how many there are")
        if len(self.others) != len(before.others):
            self._leak("the shape of what noise is added to, or how often")
        if any(one.added.keys() != two.added.keys() for one, two in zip(before.draws, self.draws, strict=False)):
            self._leak("which numbers have noise")
        return [*dict.fromkeys([*before.leaks, *self.leaks])]

    def inputs(self) -> tuple[NoiseInput, ...]:
        """Return what all draws were added to."""
        before = self._recorded()
        found = [
            _of_draw(one, two)
            for one, two in zip(before.draws, self.draws, strict=False)
            if (one.added or one.costs) and one.distribution == two.distribution and not _is_proposal(one.distribution)
        ]
        for (value, _, rate, name), (other, _, _, _) in zip(before.others, self.others, strict=False):
            distance = float(np.sum(np.abs(value - other))) if value.shape == other.shape else math.inf
            found.append(NoiseInput(noise=name, distance=distance, loss=rate * distance))
        found += self.of_points
        pairs = list(zip(before.potentials, self.potentials, strict=False))
        if pairs:
            moved = [other - one for (_, one), (_, other) in pairs]
            distance = float(max(moved) - min(moved))
            rate = float(pairs[0][0][0])
            found.append(NoiseInput(noise="sampling by potentials", distance=distance, loss=rate * distance))
        return tuple(found)

    def _recorded(self) -> "_Recorder":
        return self if self.before is None else self.before


def _is_proposal(distribution: Any) -> bool:
    """Return whether a draw proposes a place, which is then kept or not: sampling by potentials counts it."""
    return isinstance(distribution, TiltedNormal)


def _slope(people: Rows, theta: FloatArray) -> FloatArray:
    """Return the gradient (D,) of the people's losses."""
    return np.asarray(np.ldexp(people.loss_gradient(theta).astype(np.float64), -people.grid_bits))


def cost_at(inside: minimiser.Perturbation, one: Rows, other: Rows, ridge: FloatArray, theta: FloatArray) -> NoiseInput:
    """Return what noise in an objective costs at a point (D,): by the norm of the noise, and by the determinant."""
    moved = _slope(other, theta) - _slope(one, theta)
    norm = inside.sensitivity.norm
    distance = float(k_norm(moved, norm))
    if inside.rate == 0:
        length = float(np.linalg.norm(moved))
        return NoiseInput(
            noise="normal noise in the objective", distance=length, loss=0.0, mu=length / float(inside.sd)
        )
    logdets = [float(np.linalg.slogdet(each.curvature(theta) + np.diag(ridge))[1]) for each in (one, other)]
    loss = float(inside.rate) * distance + abs(logdets[0] - logdets[1])
    return NoiseInput(noise=f"noise in the objective, {norm.kind} norm", distance=distance, loss=loss)


def _of_draw(one: _Drawn, other: _Drawn) -> NoiseInput:
    """Return what a draw was added to, in the norm of its noise."""
    noise = one.distribution
    if isinstance(noise, PermuteAndFlip):
        moved = [b - a for a, b in zip(one.costs, other.costs, strict=True)]
        distance = float(max(moved) - min(moved))
        return NoiseInput(noise="permute-and-flip", distance=distance, loss=float(noise.rate) * distance)
    places = sorted(one.added.keys() & other.added.keys())
    apart = np.array([float(one.added[place] - other.added[place]) for place in places])
    if isinstance(noise, RoundedNormal):
        distance = float(np.linalg.norm(apart)) * float(noise.grid)
        return NoiseInput(noise="normal noise", distance=distance, loss=0.0, mu=distance / float(noise.sd))
    name, distance = measured(noise, apart)
    return NoiseInput(noise=name, distance=distance, loss=float(noise.rate) * distance)


def measured(noise: Any, apart: FloatArray) -> tuple[str, float]:
    """Return what lattice noise is called, and the size of an integer vector (D,) in its norm."""
    if isinstance(noise, BoxNoise):
        return "box noise", float(np.max(np.abs(apart)))
    if isinstance(noise, CylinderNoise):
        axis, rest = abs(apart[0]) * float(noise.grid_axis), float(np.linalg.norm(apart[1:]))
        return "cylinder noise", float(max(axis, rest * float(noise.grid_ball / noise.radius)))
    if isinstance(noise, BallNoise):
        return "ball noise", float(np.linalg.norm(apart))
    return "two-sided geometric noise", float(np.sum(np.abs(apart)))


# The one place where noise is drawn is `hdpstats.noise`: its samplers are replaced while somebody records.


@contextmanager
def _patched() -> Iterator[None]:
    """Let samplers, minimisations and sampling by rejection tell who records in this thread, if anybody does."""
    with ExitStack() as stack:
        for vectors in _VECTORS:
            _replace(stack, vectors, "draw", _vector)
        for numbers in _SINGLE:
            _replace(stack, numbers, "draw", _number)
        _replace(stack, TwoSidedGeometric, "draws", _several)
        _replace(stack, PermuteAndFlip, "draw", _choice)
        _replace(stack, minimiser.Perturbation, "draw", _perturbation)
        _replace(stack, minimiser, "certified", _certified)
        _replace(stack, exponential, "_lowest", _lowest)
        _replace(stack, exponential, "potential", _potential)
        _replace(stack, exponential, "bernoulli_exp", _coin)
        yield


def _replace(stack: ExitStack, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    def replaced(*arguments: Any, **options: Any) -> Any:
        recorder = _CURRENT.get()
        return (
            original(*arguments, **options) if recorder is None else wrapper(recorder, original, *arguments, **options)
        )

    setattr(owner, name, replaced)
    stack.callback(setattr, owner, name, original)


def _vector(recorder: _Recorder, original: Callable[..., Any], self: Any) -> Any:
    with recorder.alone() as outermost:
        return recorder.drawn(self, partial(original, self)) if outermost else original(self)


def _number(recorder: _Recorder, original: Callable[..., Any], self: Any) -> Any:
    with recorder.alone() as outermost:
        return recorder.drawn(self, lambda: (original(self),))[0] if outermost else original(self)


def _several(recorder: _Recorder, original: Callable[..., Any], self: Any, count: int) -> Any:
    with recorder.alone() as outermost:
        if not outermost:
            return original(self, count)
        return list(recorder.drawn(self, partial(original, self, count)))


def _choice(recorder: _Recorder, original: Callable[..., Any], self: Any, costs: Sequence[int]) -> int:
    with recorder.alone():
        return recorder.chosen(self, costs, partial(original, self, costs))


def _perturbation(recorder: _Recorder, original: Callable[..., Any], self: Any) -> Any:
    recorder.pending = self
    return original(self)


def _certified(
    recorder: _Recorder, original: Callable[..., Any], query: Any, people: Rows, *, effort: Any, perturbation: Any
) -> Any:
    return recorder.certified(original, query, people, effort, perturbation)


def _lowest(recorder: _Recorder, original: Callable[..., Any], *arguments: Any) -> Any:
    return recorder.lowest_of(partial(original, *arguments))


def _potential(recorder: _Recorder, original: Callable[..., int], calibration: Any, *arguments: Any) -> int:
    found = original(calibration, *arguments)
    recorder.potentials.append((calibration.rate, found))
    return found


def _coin(recorder: _Recorder, original: Callable[..., bool], numerator: int, denominator: int) -> bool:
    return recorder.coin(partial(original, numerator, denominator), float(Fraction(numerator, denominator)))
