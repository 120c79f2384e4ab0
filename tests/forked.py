"""Python processes for tests, forked from one that has imported the package, which takes two seconds each time.

`Popen` is used as `subprocess.Popen` is, with ``[sys.executable, "-c", code, ...]`` or ``[..., "-m", module, ...]``.
What it starts is a process of its own: own memory, environment, folder, streams, session and signals, and an end of
its own. It differs from one that was started by its command in what has been imported and what compiled code has been
loaded, in that the system takes its memory back as a whole, and in who waits for it: the server below, which hands on
how it ended. A command with other options of Python
is started as usual. The operating system's entropy is read by these processes, as by all others.
"""

import array
import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
IMPORTED = (
    "hdpstats.api",
    "hdpstats.formula.api",
    "hdpstats.cli",
    "hdpstats.jupyter",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "sqlalchemy.dialects.sqlite",
    "matplotlib.pyplot",
    "scipy.stats",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "fastapi",
    "hdpstats.custodian",
)
"""What the server imports, apart from what tests need on their own."""

ADDRESS = "HDPSTATS_TESTS_SERVER"
"""The variable of the environment that says where the server listens."""

SINGLE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""What keeps the server a process of one thread, as a process that forks should be."""

STATUS = struct.Struct("i")
HEAD = struct.Struct("I")


class _Server:
    """The server, started when it is first used, or for all processes that run tests; they find it by its address."""

    def __init__(self):
        self._lock, self._process, self._lifeline, self._owner = threading.Lock(), None, None, None

    def fork(self, order, descriptors):
        """Return the number of a new process, and a pipe at whose end its status arrives."""
        self.start()
        ended, written = os.pipe()
        message = json.dumps(order).encode()
        try:
            with socket.socket(socket.AF_UNIX) as channel:
                channel.connect(os.environ[ADDRESS])
                socket.send_fds(channel, [HEAD.pack(len(message))], [*descriptors, written])
                channel.sendall(message)
                (number,) = STATUS.unpack(channel.recv(STATUS.size, socket.MSG_WAITALL))
        finally:
            os.close(written)
        return number, ended

    def start(self, *, wait=True):
        """Start the server where there is none yet, and wait until it is ready."""
        with self._lock:
            if ADDRESS not in os.environ:
                self._start()
                if wait and not self._lifeline.recv(1):
                    raise RuntimeError(f"the server ended with {self._process.wait()} before it was ready")

    def _start(self):
        folder = tempfile.mkdtemp(prefix="hdpstats-tests-")
        address = os.path.join(folder, "server")
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | SINGLE
        here, there = socket.socketpair()
        with there, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen(64)
            passed = [listening.fileno(), there.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-c", "import tests.forked; tests.forked.serve()", *map(str, passed)],
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                env=environment,
                cwd=ROOT,
            )
        self._lifeline, self._owner = here, os.getpid()
        os.environ[ADDRESS] = address
        atexit.register(self._stop, folder)

    def _stop(self, folder):
        if self._owner == os.getpid():
            self._lifeline.close()
            self._process.wait()
            shutil.rmtree(folder)


_SERVER = _Server()
_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)


class Popen(subprocess.Popen):
    """`subprocess.Popen` whose process is forked from the server."""

    _ended = None

    def _execute_child(self, *arguments, **named):
        given = _SIGNATURE.bind(self, *arguments, **named).arguments
        command = list(map(str, given["args"]))
        plain = not (given["preexec_fn"] or given["pass_fds"] or given["shell"] or given["executable"])
        if not (plain and command[0] == sys.executable and command[1] in ("-c", "-m", "-P")):
            super()._execute_child(*arguments, **named)
            return
        streams = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        order = {
            "command": command[1:],
            "folder": os.path.abspath(given["cwd"] or "."),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "session": given["start_new_session"],
        }
        self.pid, self._ended = _SERVER.fork(
            order, [number if each == -1 else each for number, each in enumerate(streams)]
        )
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in inspect.getfullargspec(self._close_pipe_fds).args[1:]))

    def _try_wait(self, wait_flags):
        if self._ended is None:
            return super()._try_wait(wait_flags)
        with selectors.DefaultSelector() as selector:
            selector.register(self._ended, selectors.EVENT_READ)
            if not selector.select(0 if wait_flags & os.WNOHANG else None):
                return 0, 0
        told = os.read(self._ended, STATUS.size)
        os.close(self._ended)
        self._ended = None
        return self.pid, STATUS.unpack(told)[0] if told else signal.SIGKILL

    def _internal_poll(self, _deadstate=None, **_):
        if self.returncode is None and self._ended is None:
            return super()._internal_poll(_deadstate)
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                if self.returncode is None:
                    number, status = self._try_wait(os.WNOHANG)
                    if number == self.pid:
                        self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run(command, *, given=None, text=True, timeout=120, **options):
    """Return how a command ended and what it wrote, as `subprocess.run` does."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Popen(command, text=text, **pipes, **options) as process:
        try:
            printed, errors = process.communicate(given, timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)


def share():
    """Let all processes that are started from here have one server, which gets ready while they do."""
    _SERVER.start(wait=False)


def everywhere():
    """Let all of this process's `subprocess` fork: for a notebook that runs commands of the package."""
    subprocess.Popen = Popen


@contextlib.contextmanager
def kernels():
    """Let Jupyter fork the kernels that it starts."""
    _SERVER.start()
    launcher = importlib.import_module("jupyter_client.launcher")
    before, launcher.Popen = launcher.Popen, Popen
    try:
        yield
    finally:
        launcher.Popen = before


def serve():
    """Import everything, then fork as asked until nobody asks any more; runs in a process of its own."""
    listening, lifeline = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, meant for the tests
    before, imported = set(sys.modules), []
    atexit.register(_keep, imported)  # first, to be called after what the imported modules do at exit
    for name in IMPORTED:
        importlib.import_module(name)
    load_compiled_code()
    imported += [name for name in sys.modules if name not in before and name.partition(".")[0] != "hdpstats"]
    gc.collect()
    gc.freeze()
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waited_for = {}
    lifeline.send(b"r")
    with selectors.DefaultSelector() as selector:
        for each in (listening, lifeline, woken):
            selector.register(each, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                os.read(woken, 4096)
                _report(waited_for)
            if lifeline in ready:
                return
            if listening in ready:
                channel, _ = listening.accept()
                message, descriptors = _received(channel)
                number = os.fork()
                if number == 0:
                    signal.set_wakeup_fd(-1)
                    break  # leaves the loop, never to come back
                waited_for[number] = descriptors[-1]
                channel.close()
                for each in descriptors[:-1]:
                    os.close(each)
    order = json.loads(message)
    if order["session"]:
        os.setsid()
    channel.sendall(STATUS.pack(os.getpid()))  # from here, so that the session is there when the number is known
    for each in (listening, lifeline, channel):
        each.close()  # now: later their numbers may be those of other files
    _become(order, descriptors[:-1])
    _run_to_the_end(order["command"])


def _keep(names):
    """Let a process end without taking apart these modules, which takes most of its time; the package's own it does."""
    kept = [sys.modules.pop(name) for name in names if name in sys.modules]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def load_compiled_code():
    """Load and import what processes otherwise would at their first fit: fit to public rows, without noise."""
    hdp, hdpf = (importlib.import_module(name) for name in ("hdpstats.api", "hdpstats.formula.api"))
    importlib.import_module("hdpstats.mechanisms.loading").load()
    columns = {"age": hdp.Continuous(20, 90), "event": hdp.Binary(), "time": hdp.Duration(2557)}
    study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=hdp.Schema(columns))
    with mock.patch("numba.get_num_threads", return_value=1):  # which starts threads
        str(hdpf.logit("event ~ age", data=study).fit_public().summary())
        str(hdpf.hazard("Surv(time, event) ~ age", data=study, intervals=12).fit_public().summary())


def _report(waited_for):
    """Hand on how processes ended."""
    while waited_for:
        number, status = os.waitpid(-1, os.WNOHANG)
        if number == 0:
            return
        if number in waited_for:
            written = waited_for.pop(number)
            with contextlib.suppress(BrokenPipeError):  # of a process that ended before the one it had started
                os.write(written, STATUS.pack(status))
            os.close(written)


def _received(channel):
    size = array.array("i").itemsize
    head, ancillary, _, _ = channel.recvmsg(HEAD.size, socket.CMSG_LEN(4 * size))
    descriptors = array.array("i")
    for _, _, content in ancillary:
        descriptors.frombytes(content[: len(content) - len(content) % size])
    (length,) = HEAD.unpack(head)
    return channel.recv(length, socket.MSG_WAITALL), list(descriptors)


def _become(order, streams):
    """Make this process the one that was ordered."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    copies = [os.dup(each) for each in streams]
    for place, each in enumerate(copies):
        os.dup2(each, place)
    os.closerange(3, 1024)
    os.chdir(order["folder"])
    paths = order["environment"].get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(order["environment"])
    if "JPY_PARENT_PID" in os.environ:
        os.environ["JPY_PARENT_PID"] = str(os.getppid())
    if "MPLBACKEND" in os.environ:
        sys.modules["matplotlib"].rcParams["backend"] = os.environ["MPLBACKEND"]
    through = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = _stream(0, "rb")
    sys.stdout = sys.__stdout__ = _stream(1, "wb", write_through=through)
    sys.stderr = sys.__stderr__ = _stream(2, "wb", errors="backslashreplace", line_buffering=True)
    installed = [each for each in sys.path if each not in ("", str(ROOT), *paths)]
    sys.path[:] = ["", *filter(None, paths), *installed, str(ROOT)]  # last, as an editable installation has it


def _stream(number, mode, **options):
    return io.TextIOWrapper(os.fdopen(number, mode, closefd=False), encoding="utf-8", **options)


def _run_to_the_end(command):
    """Run as Python does, and end as it does but for memory: to take it apart copies most of what the server has.

    An end by an error or a signal is Python's own, which does.
    """
    status = 0
    try:
        _run(command)
    except SystemExit as asked:
        if not isinstance(asked.code, int | None):
            raise
        status = (asked.code or 0) & 0xFF
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(status)


def _run(command):
    """Run code or a module as Python's command line does; how this returns or raises is how the process ends."""
    if command[0] == "-P":
        sys.path.remove("")
        command = command[1:]
    kind, what, *arguments = command
    if kind == "-m":
        sys.argv = [what, *arguments]
        if "" in sys.path:
            sys.path[0] = os.getcwd()
        sys.modules.pop(what, None)
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *arguments]
        main = sys.modules["__main__"]
        vars(main).clear()
        vars(main).update(__name__="__main__", __builtins__=__builtins__, __doc__=None, __spec__=None)
        exec(compile(what, "<string>", "exec"), vars(main))
