"""Waiting in tests: for a condition, never for a time. The one place where tests sleep.

A wait ends as soon as its condition holds. Its end is generous, so that no load makes it fail: it is reached only where
the condition never comes.
"""

import time

GENEROUS = 120.0
"""Seconds after which what a test waits for is taken never to come."""

LONG = 600.0
"""Seconds of a deadline that no test reaches: longer than any wait."""


def until(condition, what, *, seconds=GENEROUS, pause=0.01):
    """Return the first value of ``condition()`` that is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"it never came: {what() if callable(what) else what}"
        time.sleep(pause)
    return found
