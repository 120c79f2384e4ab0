"""How long a request's own analysis may take at a site.

Behind a network the analyst's machine fits what was released. With files the site does, to know the next query: what a
request asks (intervals, public rows, terms) decides how long. So that no request keeps a custodian's machine, or the
requests of others, its processor time is limited (``limits: analysis``). The clock stands still while the site answers
a query: no charged computation is interrupted, and no time that it takes shows.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, final

from hdpstats._base.errors import SiteError

_LEAST: Final = 0.001


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
        self._seconds, self._counts = seconds, False

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Run a block for so long at most.

        Raises
        ------
        SiteError
            It took longer.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGPROF, self._end)
        over = False
        try:
            signal.setitimer(signal.ITIMER_PROF, self._seconds)
            self._counts = True
            yield
        except _Over:
            over = True
        finally:
            self._counts = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        if over:
            raise SiteError(
                f"the analysis of this request takes longer than {self._seconds:g} seconds, which the custodian allows "
                "(limits: analysis); ask for a smaller model. What was charged stays charged",
                code="too-long",
                limit=self._seconds,
            )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run a block while the time stands still."""
        if not self._counts:
            yield
            return
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        self._counts = False
        try:
            yield
        finally:
            self._counts = True
            signal.setitimer(signal.ITIMER_PROF, max(left, _LEAST))

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if self._counts:
            raise _Over
