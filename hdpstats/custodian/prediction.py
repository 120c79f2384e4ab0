r"""How long a private computation takes at most, told by public facts and by its speed on invented rows.

The service runs the computation on invented rows of the declared shape, every loop at its full length
(`hdpstats.sites.LocalSite.rehearsal`), and takes the time. Nothing is charged, no private row is read, and the time
depends on the query, the schema, the terms and the machine only.

With ``N`` declared rows, ``n`` rows are invented: all ``N`` where that is quick and they fit in memory. Else the time
``t(n)`` is carried on to ``N`` as

.. math:: t(N) = m \, t(n) \, (N / n)^b, \qquad b = \min\{\max\{1, \log_4 (t(n) / t(n / 4))\}, 2\},

with a margin ``m`` = 1.5 for what grows faster beyond ``n``, such as rows that no longer fit in the processor's cache.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, final

from hdpstats._base import canonical
from hdpstats._base.validation import rational
from hdpstats.custodian.clock import Clock
from hdpstats.queries import Query

MOST_SHAPES = 256
"""Predictions that are kept for one analyst: the latest used ones."""

MOST_CELLS = 2_000_000
"""Cells that are invented at most for one rehearsal."""

FIRST = 1024
"""Rows of a first rehearsal, which also compiles what is compiled."""

PATIENCE = 5.0
"""Seconds that one rehearsal of several may take: beyond it fewer rows are invented than are declared."""

BRIEF = 1.0
"""Seconds below which a rehearsal is run twice, and the shorter time counts: the longer one met other work."""

MARGIN = 1.5
"""By how much a time that was carried on to more rows is multiplied."""

IDLE: Final = frozenset({"replicate", "ahead"})
"""Entries of a query that no computation depends on."""

AMOUNTS: Final = frozenset({"epsilon", "delta", "mu_squared", "cost"})
"""Entries whose order of magnitude decides the work (the ridge, the size of the noise), and whose digits do not."""

PLACES: Final = frozenset({"theta", "coefficients", "candidates"})
"""Entries where a loss is evaluated: their number decides the work."""


def shape_of(query: Query) -> str:
    """Return a name of everything in a query that decides how much work it is.

    Every entry counts, but for `IDLE` ones; of `AMOUNTS` the power of two, of `PLACES` the number.
    """
    return canonical.sha256([query.kind, _outline(query.to_dict())])


def _outline(value: Any, name: str = "") -> Any:
    if name in AMOUNTS and isinstance(value, str):
        amount = rational(value, name=name)
        return amount.numerator.bit_length() - amount.denominator.bit_length()
    if name in PLACES:
        return _number(value)
    if isinstance(value, dict):
        return {key: _outline(entry, key) for key, entry in value.items() if key not in IDLE}
    if isinstance(value, list):
        return [_outline(entry) for entry in value]
    return value


def _number(value: Any) -> Any:
    return [len(value), _number(value[0]) if value else 0] if isinstance(value, list) else 0


def carried_on(times: tuple[float, float], rows: int, *, to: int) -> float:
    """Return the time of ``to`` rows from those of a quarter of ``rows`` and of ``rows``; see the module.

    >>> carried_on((1.0, 4.0), 1000, to=2000), carried_on((1.0, 16.0), 1000, to=2000)
    (12.0, 96.0)
    """
    quarter, whole = times
    power = min(max(math.log(max(whole, 1e-9) / max(quarter, 1e-9), 4), 1.0), 2.0)
    return float(MARGIN * whole * (to / rows) ** power)


def predict(rehearsal: Callable[[int], Callable[[], None]], rows: int, *, each: int, most: int, clock: Clock) -> float:
    """Return how many seconds a computation on so many rows takes.

    Parameters
    ----------
    rehearsal
        Invents so many rows, and returns the computation on them.
    rows
        The declared number of rows.
    each
        The rows of one person: people are invented whole.
    most
        The largest number of rows that may be invented.
    clock
        What tells the time.
    """

    def whole_people(number: int) -> int:
        return max(min(number, rows, most) // each * each, each)

    def timed(run: Callable[[], None]) -> float:
        begun = clock.now()
        run()
        return clock.now() - begun

    def shortest(number: int) -> float:
        run = rehearsal(number)
        first = timed(run)
        return first if first > BRIEF else min(first, timed(run))

    first = whole_people(FIRST)
    rehearsal(first)()  # compiles, and fills what is remembered
    brief = shortest(first)
    invented = whole_people(int(first * max(PATIENCE / max(brief, 1e-9), 1.0)))
    time = brief if invented == first else max(brief, shortest(invented))
    if invented == rows:
        return time
    fewer = whole_people(max(invented // 4, 1))
    quarter = time / 4.0 if fewer >= invented else shortest(fewer)
    return carried_on((quarter, time), invented, to=rows)


@final
class Predictions:
    """Seconds by shape of query, each analyst's apart, so that nobody's questions push out another's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, OrderedDict[str, float]] = {}

    def of(self, analyst: str, query: Query, find: Callable[[], float]) -> float:
        """Return the seconds of a query, found anew where they are not known."""
        shape = shape_of(query)
        with self._lock:
            known = self._known.setdefault(analyst, OrderedDict())
            if shape in known:
                known.move_to_end(shape)
                return known[shape]
        seconds = find()
        with self._lock:
            known[shape] = seconds
            while len(known) > MOST_SHAPES:
                known.popitem(last=False)
        return seconds
