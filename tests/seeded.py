"""Seeded noise for tests: every test draws the same noise each time, in whatever order tests run.

The package reads entropy in one place, `hdpstats.noise.exact.system_bytes`. While tests run,
`tests/plugin.py` puts a `Source` in that place. Nothing in the package knows of it, and no setting leads to it.

A source has one stream of bytes for each test, for each fixture that several tests share, and for each file that is
collected: SHAKE-256 of the seed, of that name and of a counter. Whoever knows the seed knows the bytes; nobody else
can tell them from random ones. A thread has a stream of its own, derived from the stream of the thread that started it
and from how many were started before it, so threads share no bytes, and none depends on what another one draws or
on when it runs. A child process made by Python's fork reads the operating system's entropy, as all other processes do,
unless it is told to `begin`: a notebook is, and an R whose tests say what releases look like.
"""

import contextlib
import functools
import hashlib
import os
import threading
import weakref

from hdpstats.noise import exact

BLOCK = 4096
PROCESS = [os.getpid()]
"""The number of this process: asking the system for it at every bit would take a fifth of the time of a draw."""

os.register_at_fork(after_in_child=lambda: PROCESS.__setitem__(0, os.getpid()))


class Stream:
    """The bytes that belong to one key, and keys of further streams."""

    def __init__(self, key):
        self._key = key
        self._blocks = self._place = self._children = 0
        self._ready = b""

    def read(self, count):
        """Return the next bytes."""
        start = self._place
        self._place = end = start + count
        if end <= len(self._ready):
            return self._ready[start:end]
        self._ready = self._ready[start:]
        while count > len(self._ready):
            block = hashlib.shake_256(self._key + b"block" + self._blocks.to_bytes(8, "big")).digest(BLOCK)
            self._ready, self._blocks = self._ready + block, self._blocks + 1
        self._place = count
        return self._ready[:count]

    def child(self):
        """Return the next stream that is derived from this one; its bytes are none of this one's."""
        self._children += 1
        return Stream(hashlib.sha256(self._key + b"child" + self._children.to_bytes(8, "big")).digest())


class Source:
    """What stands in the place of the operating system's entropy while tests run.

    Parameters
    ----------
    seed
        Any text. Another seed gives other noise to all tests.
    """

    def __init__(self, seed):
        self.seed = seed
        self._process = PROCESS[0]
        self._tester = threading.get_ident()
        self._own = threading.local()
        self._born = weakref.WeakKeyDictionary()
        self._foreign = 0
        self._lock = threading.Lock()
        self._stack = [self._stream("outside of tests")]

    def _stream(self, name):
        return Stream(hashlib.sha256(f"{self.seed}\0{name}".encode("utf-8", "surrogatepass")).digest())

    def __call__(self, count):
        """Return bytes for the thread that asks."""
        if PROCESS[0] != self._process:
            return os.urandom(count)
        stream = self._stack[-1] if threading.get_ident() == self._tester else self.current()
        return stream.read(count)

    def current(self):
        """Return the stream of the thread that asks."""
        if threading.get_ident() == self._tester:
            return self._stack[-1]
        found = getattr(self._own, "stream", None)
        if found is None:
            found = self._born.get(threading.current_thread())
            if found is None:  # a thread that Python did not start
                with self._lock:
                    self._foreign += 1
                    found = self._stream(f"foreign thread {self._foreign}")
            self._own.stream = found
        return found

    @contextlib.contextmanager
    def named(self, name):
        """Let the thread that runs tests draw from the stream of a name, from its beginning."""
        if threading.get_ident() != self._tester:
            yield
            return
        self._stack.append(self._stream(name))
        try:
            yield
        finally:
            self._stack.pop()

    @contextlib.contextmanager
    def installed(self, module):
        """Put the source in the place of ``module.system_bytes``, and derive the streams of threads."""
        self.replaced, start = module.system_bytes, threading.Thread.start

        def starting(thread):
            if PROCESS[0] == self._process:
                self._born[thread] = self.current().child()
            start(thread)

        module.system_bytes, threading.Thread.start = self, starting
        try:
            yield self
        finally:
            module.system_bytes, threading.Thread.start = self.replaced, start


INSTALLED = []
"""The source that is in force; none with the operating system's entropy."""

_UNDOING = contextlib.ExitStack()


def begin(seed):
    """Let this process draw the noise of a seed until its `end`."""
    source = Source(seed)
    _UNDOING.enter_context(source.installed(exact))
    INSTALLED.append(source)
    _UNDOING.callback(INSTALLED.remove, source)


def end():
    """Let this process read the operating system's entropy again."""
    _UNDOING.close()


def beginning():
    """Return Python code for another process, which draws from the seed in force here, if there is one."""
    return f"from tests import seeded; seeded.begin({INSTALLED[-1].seed!r})" if INSTALLED else "pass"


def named(name):
    """Return a context in which noise is that of a name, not of the test that happens to ask first."""
    return INSTALLED[-1].named(name) if INSTALLED else contextlib.nullcontext()


def remembered(function):
    """Cache what a function of a test module returns, with noise that does not depend on which test asks first."""

    @functools.cache
    @functools.wraps(function)
    def cached(*arguments, **options):
        with named(f"{function.__module__}.{function.__qualname__}{arguments!r}{options!r}"):
            return function(*arguments, **options)

    return cached
