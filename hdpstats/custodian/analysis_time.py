"""How long a request's own analysis may take at a site.

Behind a network the analyst's machine fits what was released. With files the site does, to know the next query: what a
request asks (intervals, public rows, terms) decides how long. So that no request keeps a custodian's machine, or the
requests of others, its processor time is limited (``limits: analysis``). The clock stands still while the site answers
a query or looks something up: no charged computation is interrupted, no lock or file of the site is left as it is by
an interrupt, and no time that the site takes shows.

The analysis is ended by an exception between any two of its steps in the main thread. Some code swallows every
exception: a function that a C library calls, as those that compile loops do, or a finaliser. So the exception comes
again after each further second of the processors, until the analysis has returned or failed, and whatever it made of
the exceptions, its time is reported as over. A second is long beside what code does as it is left, so that the next
exception does not meet it there.

No exception comes to the site's own code: none while the site is asked, none between the steps of this module, and
none when the analysis has ended. A site of several is asked on another thread, which no exception reaches: there an
answer that has begun holds the end up, and one that has not begun when the time is over is refused.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeVar, final

from hdpstats._base.errors import SiteError

_LEAST: Final = 0.001
_AGAIN: Final = 1.0
"""Seconds of the processors from one end to the next, where the analysis goes on all the same."""

_Found = TypeVar("_Found")


class _Over(BaseException):
    """The time is over; no code between here and there takes it for an error of its own."""


@final
class AnalysisTime:
    """A number of seconds of this process's processors; only in its main thread, where signals arrive.

    Parameters
    ----------
    seconds
        How many.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._left = seconds, seconds
        self._lock = threading.Lock()
        self._counts = self._over = False
        self._asked = 0

    def run(self, analysis: Callable[[], _Found]) -> _Found:
        """Run an analysis for so long at most, and return what it returns.

        Raises
        ------
        SiteError
            It took longer, whatever it returned or raised. No answer of the site is under way any more, or will be.
        """
        if threading.current_thread() is not threading.main_thread():
            return analysis()
        before = signal.signal(signal.SIGPROF, self._end)
        try:
            try:
                self._counts = True
                signal.setitimer(signal.ITIMER_PROF, self._seconds, _AGAIN)
                found = analysis()
            finally:
                self._counts = False
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            if not self._over:
                raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, signal.SIG_IGN)  # discards one that is on its way
            signal.signal(signal.SIGPROF, before)
        if self._over:
            raise self._too_long()
        return found

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run a block, in which the site is asked, while the time stands still.

        Raises
        ------
        SiteError
            The time was over before.
        """
        with self._lock:
            if self._over:
                raise self._too_long()
            if not self._asked and self._counts:
                self._left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
            self._asked += 1
        try:
            yield
        finally:
            with self._lock:
                self._asked -= 1
                if not self._asked and self._counts:
                    signal.setitimer(signal.ITIMER_PROF, max(self._left, _LEAST), _AGAIN)

    def _end(self, _number: int, frame: FrameType | None) -> None:
        """End the analysis, unless the site is asked; at a step into or out of that, look again a little later."""
        if not self._counts:
            return
        of_site = frame is not None and frame.f_globals is globals()
        if of_site or not self._lock.acquire(blocking=False):  # held by another thread, or by this one further below
            signal.setitimer(signal.ITIMER_PROF, _LEAST, _AGAIN)
            return
        try:
            if self._asked:  # whoever leaves last lets the time go on, which is over then
                signal.setitimer(signal.ITIMER_PROF, 0)
                self._left = 0.0
                return
            self._over = True
        finally:
            self._lock.release()
        raise _Over

    def _too_long(self) -> SiteError:
        return SiteError(
            f"the analysis of this request takes longer than {self._seconds:g} seconds, which the custodian allows "
            "(limits: analysis); ask for a smaller model. What was charged stays charged",
            code="too-long",
            limit=self._seconds,
        )
