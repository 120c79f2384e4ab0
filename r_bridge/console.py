"""R's console in a notebook: what R writes goes to the streams of the front end, what R reads comes from its user.

R calls the console for each token that it writes. The streams of `ipykernel`, which are `sys.stdout` and `sys.stderr`
in a kernel, collect that and send it a few times a second.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import final

import rpy2.rinterface as ri
from rpy2.rinterface_lib import callbacks, openrlib

from r_bridge import guard
from r_bridge.vectors import to_r_strings


@final
class Streams:
    """What R writes, on Python's streams, in its order: they are flushed only where R changes from one to the other."""

    def __init__(self) -> None:
        self._last = "stdout"

    def write(self, stream: str, text: str) -> None:
        """Write to "stdout" or "stderr", after what was written to the other."""
        if stream != self._last:
            self.flush()
            self._last = stream
        getattr(sys, stream).write(text)

    def flush(self) -> None:
        """Send what was written."""
        getattr(sys, self._last).flush()


@final
class Console:
    r"""What R writes and reads.

    Parameters
    ----------
    ask
        Asks the user of the front end a question and returns the answer; raises NotImplementedError where the
        front end takes no questions.
    clear
        Clears what a cell has shown: what R's ``cat("\f")``, a form feed, does to a console.

    Attributes
    ----------
    silent
        Whether nothing is written at present.
    """

    def __init__(self, ask: Callable[[str], str], clear: Callable[[], None]) -> None:
        self.silent = False
        self._ask, self._clear, self._streams = ask, clear, Streams()

    def connect(self) -> None:
        """Let R write and read here."""
        callbacks.consolewrite_print = partial(self.write, "stdout")
        callbacks.consolewrite_warnerror = partial(self.write, "stderr")
        callbacks.showmessage = lambda text: self.write("stderr", f"{text}\n")
        callbacks.consoleread = self._read

    def write(self, stream: str, text: str) -> None:
        """Write to "stdout" or "stderr", after what was written to the other."""
        if self.silent:
            return
        *before, text = text.split("\f")
        if before:
            self.flush()
            self._clear()
        if text:
            self._streams.write(stream, text)

    def flush(self) -> None:
        """Send what was written, before something else is shown."""
        self._streams.flush()

    def answer(self, prompt: str) -> str:
        """Ask the user; R's interrupts interrupt the wait.

        Raises
        ------
        KeyboardInterrupt
            If the user interrupts instead of answering.
        NotImplementedError
            If the front end takes no questions.
        """
        self.flush()
        with guard.in_python():
            return self._ask(prompt)

    def answer_for_r(self, prompt: ri.StrSexpVector) -> object:
        """Return the answer as R wants it: NULL for an interrupt, NA where the front end takes no questions."""
        try:
            answer: object = to_r_strings([self.answer(prompt[0])])
        except KeyboardInterrupt:
            answer = ri.NULL
        except Exception:
            answer = to_r_strings([None])
        return answer

    def _read(self, prompt: str) -> str:
        """Return a line for ``readLines(stdin())``, ``scan()`` or ``browser()``; "" is the end of the input."""
        try:
            return self.answer(prompt) or " "
        except KeyboardInterrupt:
            openrlib.rlib.R_interrupts_pending = 1
        except (NotImplementedError, EOFError):
            pass
        return ""
