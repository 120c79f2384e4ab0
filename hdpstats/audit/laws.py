r"""The exact distribution of a sampler: its own code is run for every outcome of the coins that it throws.

A sampler of this package is a function of uniform integers, which `hdpstats.noise.exact.bits` and
`hdpstats.noise.exact.below` return. Here each of them returns an integer that is not yet known, only the interval that
it is in. Where the code compares it with a number, both answers are followed, each with its exact probability: the
number of integers on that side over the number of all. Where the code uses its value, each value is followed. What all
paths return, with the probability of each, is the distribution of the code as it stands, wrong coins included. No
random number is drawn.

**Loops that propose and reject.** When the body of such a loop begins a second time nothing is left of the first. So
paths end there, and the distribution is what they return before that, over the probability of returning before that.

**Precision.** Paths with a probability below a limit are not followed, and are counted as *missing*. A comparison that
64 digits do not decide is decided as if all further digits were zero, which is wrong with a probability of at most
:math:`2^{-64}`. Probabilities are doubles.
"""

import ast
import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final, final

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import exact

_MOST_VALUES: Final = 4096
"""How many values of one integer are followed at most."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Law:
    """The distribution of what a sampler returns.

    Attributes
    ----------
    masses : dict
        From each outcome to its probability.
    missing : float
        The probability of what was not followed.
    """

    masses: dict[Any, float]
    missing: float


class _Ended(BaseException):
    """A path is not followed further: it is too improbable, or its loop begins again."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


class _Paths:
    """The paths that are still to be followed, and the one that is."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.waiting: list[tuple[int, ...]] = [()]
        self.missing = 0.0
        self._script: tuple[int, ...] = ()
        self._taken: list[int] = []
        self.weight = 1.0

    def begin(self) -> None:
        self._script, self._taken, self.weight = self.waiting.pop(), [], 1.0

    def choose(self, chances: Sequence[float]) -> int:
        """Return the place of one of several answers; the others wait."""
        at = len(self._taken)
        if at < len(self._script):
            place = self._script[at]
        else:
            likely = [place for place, chance in enumerate(chances) if self.weight * chance >= self.limit]
            self.missing += self.weight * max(0.0, 1.0 - math.fsum(chances[place] for place in likely))
            if not likely:
                raise _Ended(again=False)
            place, *others = likely
            self.waiting += [(*self._taken, other) for other in others]
        self._taken.append(place)
        self.weight *= chances[place]
        return place


_FOLLOWED: ContextVar[_Paths | None] = ContextVar("whose paths are followed in this thread", default=None)


@final
class Unknown:
    """A uniform integer of an interval, after increasing functions."""

    __slots__ = ("_functions", "_within")

    def __init__(self, within: list[int], functions: tuple[Callable[[Any], Any], ...] = ()) -> None:
        self._within, self._functions = within, functions

    def _at(self, value: Any) -> Any:
        for function in self._functions:
            value = function(value)
        return value

    def _then(self, function: Callable[[Any], Any]) -> "Unknown":
        return Unknown(self._within, (*self._functions, function))

    def _is(self, holds: Callable[[Any], bool]) -> bool:
        """Return whether what holds for small values holds, and narrow the interval."""
        low, high = self._within
        if not holds(self._at(low)):
            return False
        if holds(self._at(high - 1)):
            return True
        one, other = low, high - 1
        while other - one > 1:
            middle = (one + other) // 2
            one, other = (middle, other) if holds(self._at(middle)) else (one, middle)
        share = (other - low) / (high - low)
        first = _paths().choose((share, 1.0 - share)) == 0
        self._within[:] = (low, other) if first else (other, high)
        return first

    def __lt__(self, other: Any) -> bool:
        known = _known(other)
        return self._is(lambda value: value < known)

    def __le__(self, other: Any) -> bool:
        known = _known(other)
        return self._is(lambda value: value <= known)

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __add__(self, other: Any) -> "Unknown":
        known = _known(other)
        return self._then(lambda value: value + known)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Unknown":
        known = _known(other)
        return self._then(lambda value: value - known)

    def __mul__(self, other: Any) -> Any:
        known = _known(other)
        return self._then(lambda value: value * known) if known > 0 else self.known() * known

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        known = _known(other)
        return self._then(lambda value: value // known) if known > 0 else self.known() // known

    def __lshift__(self, other: int) -> "Unknown":
        return self._then(lambda value: value << other)

    def __rshift__(self, other: int) -> "Unknown":
        return self._then(lambda value: value >> other)

    def __or__(self, other: Any) -> Any:
        """Further digits are taken as zero where nothing is known of them."""
        return self if isinstance(other, Unknown) else self.known() | other

    def __ror__(self, other: int) -> int:
        """Take further digits as zero."""
        return other

    def __and__(self, other: Any) -> Any:
        return self.known() & other

    def __mod__(self, other: Any) -> Any:
        return self.known() % other

    def __eq__(self, other: object) -> bool:
        return bool(self.known() == other)

    def __hash__(self) -> int:
        return hash(self.known())

    def __bool__(self) -> bool:
        return bool(self.known())

    def __neg__(self) -> Any:
        return -self.known()

    def __rsub__(self, other: Any) -> Any:
        return other - self.known()

    def __abs__(self) -> Any:
        return abs(self.known())

    def __float__(self) -> float:
        return float(self.known())

    def __int__(self) -> int:
        return int(self.known())

    __index__ = __int__

    def known(self) -> Any:
        """Return the value, after each value of the interval has been given a path."""
        low, high = self._within
        if high - low > 1:
            if high - low > _MOST_VALUES:
                raise ArgumentError(
                    f"run takes the value of a uniform integer of {high - low:.3g} values; take shorter rates",
                    argument="run",
                )
            low += _paths().choose([1.0 / (high - low)] * (high - low))
            self._within[:] = low, low + 1
        return self._at(low)


def _known(value: Any) -> Any:
    return value.known() if isinstance(value, Unknown) else value


def _paths() -> _Paths:
    paths = _FOLLOWED.get()
    if paths is None:
        raise RuntimeError("an integer of a path was used after the path had ended")
    return paths


def _whole(value: Any) -> Any:
    """Return an outcome all of which is known."""
    if isinstance(value, list | tuple):
        return tuple(map(_whole, value))
    return _known(value)


def law(run: Callable[[], Hashable], *, loop: Callable[..., Any] | None = None, limit: float = 1e-16) -> Law:
    """Return the distribution of what a sampler returns.

    Parameters
    ----------
    run
        Draws once, by samplers of `hdpstats.noise`.
    loop
        The function whose first loop proposes and rejects; None without one.
    limit
        Paths with a smaller probability are not followed.

    Raises
    ------
    ArgumentError
        If the sampler takes the value of an integer that has too many.

    Examples
    --------
    >>> from hdpstats.noise.discrete import bernoulli_exp
    >>> coin = law(lambda: bernoulli_exp(1, 2))
    >>> abs(coin.masses[True] - math.exp(-0.5)) < 1e-15
    True
    """
    paths, masses, again = _Paths(limit), dict[Any, float](), 0.0
    where = None if loop is None else _body_of(loop)
    with _unknown_bits():
        token = _FOLLOWED.set(paths)
        try:
            while paths.waiting:
                paths.begin()
                try:
                    with _ends_when_begun_again(where):
                        outcome = _whole(run())
                except _Ended as ended:
                    again += paths.weight if ended.again else 0.0
                    continue
                masses[outcome] = masses.get(outcome, 0.0) + paths.weight
        finally:
            _FOLLOWED.reset(token)
    kept = 1.0 - again
    return Law(masses={outcome: mass / kept for outcome, mass in masses.items()}, missing=paths.missing / kept)


def chosen(masses: Mapping[Any, float]) -> Any:
    """Return an outcome of a known distribution, on the path that is followed: each of them is given one."""
    outcomes = list(masses)
    return outcomes[_paths().choose([masses[outcome] for outcome in outcomes])]


def _body_of(function: Callable[..., Any]) -> tuple[CodeType, int]:
    """Return a function's code, and the line in which the body of its first ``while`` begins."""
    code = inspect.unwrap(function).__code__
    lines, first = inspect.getsourcelines(code)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    return code, first - 1 + min(node.body[0].lineno for node in loops)


@contextmanager
def _ends_when_begun_again(where: tuple[CodeType, int] | None) -> Iterator[None]:
    """End a path where the body of a loop begins a second time."""
    if where is None:
        yield
        return
    (code, line), count = where, 0

    def lines(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "line" and frame.f_lineno == line:
            count += 1
            if count > 1:
                raise _Ended(again=True)
        return lines

    def calls(frame: FrameType, _event: str, _argument: Any) -> Any:
        return lines if frame.f_code is code else None

    before = sys.gettrace()
    sys.settrace(calls)  # an error in it ends tracing, so each path begins with it anew
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _unknown_bits() -> Iterator[None]:
    """Let bits be unknown while paths are followed, wherever the package has them by their own function."""

    def bits(count: int) -> Any:
        return 0 if count == 0 else Unknown([0, 1 << count])

    def below(bound: Any) -> Any:
        known = _known(bound)
        return 0 if known == 1 else Unknown([0, known])

    with ExitStack() as stack:
        replace(stack, exact.bits, bits)
        if _BELOW.get():
            replace(stack, exact.below, below)
        yield


_BELOW: ContextVar[bool] = ContextVar("whether integers below a bound are unknown, and not made of bits", default=True)


def law_of_below(bound: int) -> Law:
    """Return the distribution of `hdpstats.noise.exact.below`, from its bits."""
    token = _BELOW.set(False)
    try:
        return law(lambda: exact.below(bound), loop=exact.below)
    finally:
        _BELOW.reset(token)


def replace(stack: ExitStack, original: Any, other: Any) -> None:
    """Replace a function in every module of the package that has it, until the stack is left."""
    for name, module in list(sys.modules.items()):
        if module is not None and name.startswith("hdpstats.") and not name.startswith("hdpstats.audit"):
            for attribute in [each for each, value in vars(module).items() if value is original]:
                setattr(module, attribute, other)
                stack.callback(setattr, module, attribute, original)
