"""The R of this process: how it starts, who may use it, and how Ctrl-C stops it."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import hdpstats.api as hdp
import r_bridge
from r_bridge import from_r, guard
from tests import forked

ROOT = Path(__file__).parents[2]


def python(code, *arguments, cwd, **environment):
    """Run code in a Python of its own and return what it prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={"OMP_NUM_THREADS": "1", **environment},
        check=False,
    )
    return said(done)


def forked_python(code, *arguments, cwd, **environment):
    """Do the same in a process that is forked and has not started R, for what no start of Python matters to."""
    strict = f"import warnings\nwarnings.simplefilter('error')\n{code}"
    command = [sys.executable, "-c", strict, *arguments]
    return said(forked.run(command, cwd=cwd, env={"OMP_NUM_THREADS": "1", **environment}))


def said(done):
    """Return what a program that ended well printed last."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WITHOUT = """
import json, os, sys
import hdpstats.api, hdpstats.formula.api
loaded = sorted(name for name in sys.modules if name.split(".")[0] in ("rpy2", "r_bridge"))
messages = []
for hidden in ("R", "rpy2"):
    if hidden == "rpy2":
        os.environ["PATH"] = sys.argv[1]
        sys.modules["rpy2"] = None
    try:
        import r_bridge
    except ImportError as error:
        messages.append(str(error))
print(json.dumps([loaded, messages]))
"""


def test_without_r_or_rpy2_the_package_works_and_the_bridge_says_what_to_install(tmp_path):
    loaded, messages = forked_python(WITHOUT, os.environ["PATH"], cwd=tmp_path, PATH=str(tmp_path))
    assert loaded == []
    assert len(set(messages)) == 2
    for message in messages:
        assert "apt-get install r-base-core r-cran-survival make" in message
        assert "pip install '.[r]'" in message


CLEAN = """
import json, os
import r_bridge
r_bridge.start()
r_bridge.call("function() { assign('x', 1, globalenv()); stats::rnorm(1) }")
e = "\\u00e9"
facts = [r_bridge.from_r(r_bridge.to_r(e)), r_bridge.call("nchar", e), r_bridge.call("exists", "planted")]
import atexit
atexit.register(lambda: print(json.dumps([*facts, sorted(os.listdir("."))])))
"""


@pytest.mark.wide
def test_a_session_neither_reads_nor_writes_anything_in_the_working_directory(tmp_path):
    (tmp_path / ".Rprofile").write_text("planted <- TRUE; stop('a profile was read')")
    found = python(CLEAN, cwd=tmp_path, PATH=os.environ["PATH"], LC_ALL="C")
    assert found == ["é", 1, False, [".Rprofile"]]
    assert sorted(os.listdir(tmp_path)) == [".Rprofile"]


LIBRARIES = """
import json, os, subprocess, sys
import r_bridge
r_bridge.start()
child = subprocess.run([sys.executable, "-c", "import ssl"], capture_output=True, text=True)
print(json.dumps([os.environ.get("LD_LIBRARY_PATH"), child.stderr]))
"""


@pytest.mark.parametrize("before", [{}, {"LD_LIBRARY_PATH": "/opt/nowhere"}])
def test_a_python_started_from_a_session_meets_the_libraries_it_would_have_met(before, tmp_path):
    found = forked_python(LIBRARIES, cwd=tmp_path, PATH=os.environ["PATH"], **before)
    assert found == [before.get("LD_LIBRARY_PATH"), ""]


VARIABLES = "cat(Sys.getenv(c('R_DOC_DIR', 'R_INCLUDE_DIR', 'R_SHARE_DIR', 'R_PAPERSIZE_USER', 'R_HOME')), sep = '\\n')"


def test_r_has_the_variables_that_its_start_script_sets(evaluate):
    plain = subprocess.run(["Rscript", "--vanilla", "-e", VARIABLES], capture_output=True, text=True, check=True)
    assert list(from_r(evaluate(f"capture.output({VARIABLES})"))) == plain.stdout.splitlines()
    assert "" not in plain.stdout.splitlines()


def test_other_threads_are_refused(evaluate):
    raised = []

    def use():
        try:
            r_bridge.to_r(1)
        except hdp.HdpError as error:
            raised.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert raised == ["R must be used on the thread that started it: it is not made for others"]


def test_the_attached_package_is_one_like_any_other(evaluate):
    r_bridge.attach_functions()
    evaluate("library(hdpstats)")
    assert from_r(evaluate("environmentName(environment(hdpstats::dp_logit))")) == "hdpstats"
    assert from_r(evaluate("sum(search() == 'package:hdpstats')")) == 1
    assert from_r(evaluate("exists('.py', as.environment('package:hdpstats'), inherits = FALSE)")) is False
    assert from_r(evaluate("is.function(getS3method('tidy', 'dp_result', envir = asNamespace('generics')))")) is True


def test_endless_recursion_is_an_error_of_r_and_not_the_end_of_the_process(evaluate):
    for code in ("f <- function(x) f(x); f(1)", "f <- function() f(); f()"):
        with pytest.raises(r_bridge.RError) as raised:
            evaluate(code)
        assert "stackOverflowError" in raised.value.classes


INTERRUPTS = """
import json, os, signal, sys, threading
sys.path.insert(0, ROOT)
import r_bridge
from r_bridge.functions import FUNCTIONS
from r_bridge.guard import guarded
from r_bridge.session import helper
from tests.waiting import until

def busy():
    open("begun", "w").close()
    while True:
        pass

def reported_as_something_else():
    try:
        busy()
    except BaseException as error:
        raise ImportError("what was interrupted says so in its own way") from error

FUNCTIONS["busy"] = busy
FUNCTIONS["other"] = reported_as_something_else
FUNCTIONS["back"] = lambda f: f()
r_bridge.attach_functions()
loop = "{ file.create('begun'); repeat {} }"
found = {}
for name, code in {
    "R sleeps": "{ file.create('begun'); Sys.sleep(3600) }",
    "R loops": loop,
    "R works in C": "{ file.create('begun'); repeat sort(stats::runif(1e5)) }",
    "R sees it": f"tryCatch({loop}, interrupt = function(e) 'seen')",
    "Python loops": "hdpstats:::.py('busy')",
    "Python reports another error": "hdpstats:::.py('other')",
    "R sees Python's": "tryCatch(hdpstats:::.py('busy'), interrupt = function(e) 'seen')",
    "R loops for Python": f"hdpstats:::.py('back', list(f = function() {loop}))",
}.items():
    def strike():
        until(lambda: os.path.exists("begun"), "the work that is to be interrupted")
        os.remove("begun")
        os.kill(os.getpid(), signal.SIGINT)
    run = helper(f"function() {code}")
    striker = threading.Thread(target=strike)
    striker.start()
    try:
        outcome = r_bridge.from_r(guarded(run))
    except KeyboardInterrupt:
        outcome = "stopped"
    found[name] = [outcome, r_bridge.call("sum", [1, 2])]
    striker.join()
print(json.dumps(found))
"""


def test_an_interrupt_stops_r_and_python_and_leaves_the_session_usable(tmp_path):
    """Nothing that is interrupted here would end by itself."""
    found = forked_python(INTERRUPTS.replace("ROOT", repr(str(ROOT))), cwd=tmp_path, PATH=os.environ["PATH"])
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        "R sleeps": "stopped",
        "R loops": "stopped",
        "R works in C": "stopped",
        "R sees it": "seen",
        "Python loops": "stopped",
        "Python reports another error": "stopped",
        "R sees Python's": "seen",
        "R loops for Python": "stopped",
    }
    assert {total for _, total in found.values()} == {3}


BETWEEN = """
import os, select, threading
from pathlib import Path
from types import SimpleNamespace
import r_bridge
from rpy2.rinterface_lib import openrlib

def call_of(thread):
    return Path(f"/proc/self/task/{thread}/syscall").read_text().split()

def number_of_select():
    read, write = os.pipe()
    probe = threading.Thread(target=select.select, args=([read], [], []))
    probe.start()
    while (call := call_of(probe.native_id))[1:2] != [hex(read + 1)]:  # its first argument
        pass
    os.write(write, b"x")
    probe.join()
    return call[0]

def late():
    while not begun.exists() or call_of(main)[0] != waiting:
        pass
    openrlib.rlib.R_interrupts_pending = 1  # as after a look at the flag: no signal ends the wait

begun, main, waiting = Path("begun"), threading.get_native_id(), number_of_select()
threading.Thread(target=late, daemon=True).start()
try:
    r_bridge.call("function() { file.create('begun'); Sys.sleep(86400); 'ran out' }")
except KeyboardInterrupt:
    print('"stopped"')
"""


def test_an_interrupt_that_r_has_not_seen_before_it_waits_ends_the_wait(tmp_path):
    assert forked_python(BETWEEN, cwd=tmp_path, PATH=os.environ["PATH"]) == "stopped"


PASSAGE = """
import json, os, signal, sys
sys.path.insert(0, ROOT)
import r_bridge
from r_bridge import functions, guard
from r_bridge.session import helper
from rpy2.rinterface_lib import openrlib

def strike_at(number):
    passed = 0
    def trace(frame, event, _argument):
        nonlocal passed
        if frame.f_code.co_filename not in (guard.__file__, functions.__file__) or frame.f_code.co_name == "clear_flag":
            return None  # a lock is held there, and an error of this function would come where no signal's can
        if event == "line" and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            passed += 1
            if passed == number:
                os.kill(os.getpid(), signal.SIGINT)
        return trace
    sys.settrace(trace)
    try:
        outcome = str(r_bridge.from_r(guard.guarded(run)))
    except KeyboardInterrupt:
        outcome = "stopped"
    except r_bridge.RError as error:
        outcome = str(error)
    finally:
        sys.settrace(None)
    return passed >= number, outcome

sys.unraisablehook = lambda lost: None  # what is lost in R's callbacks is told by R
r_bridge.attach_functions()
functions.FUNCTIONS["nothing"] = lambda: None
functions.FUNCTIONS["wrong"] = lambda: 1 / 0
found = []
for call in ("nothing", "wrong"):
    code = f"try(hdpstats:::.py('{call}'), silent = TRUE)"
    run = helper(f"function() {{ {code}; 'lost' }}")
    number, more = 1, True
    while more:
        more, outcome = strike_at(number)
        found += [(call, number, outcome, openrlib.rlib.R_interrupts_pending)] if more else []
        assert r_bridge.call("sum", [1, 2]) == 3
        number += 1
print(json.dumps(found))
"""


def test_an_interrupt_at_any_line_of_the_way_between_r_and_python_stops_r(tmp_path):
    found = forked_python(PASSAGE.replace("ROOT", repr(str(ROOT))), cwd=tmp_path, PATH=os.environ["PATH"])
    assert len(found) > 120
    assert [each for each in found if each[2:] != ["stopped", 0]] == []


@pytest.fixture
def watcher(monkeypatch):
    """What watches R's flag where R started Python; the flag is one of the test's."""
    flag = SimpleNamespace(rlib=SimpleNamespace(R_interrupts_pending=0))
    found = guard._Watcher()
    monkeypatch.setattr(guard, "openrlib", flag)
    monkeypatch.setattr(guard, "_watcher", lambda: found)
    return found


def strike():
    """Interrupt as R and the watching thread do, in one go."""
    guard.openrlib.rlib.R_interrupts_pending = 1
    guard.on_signal_in_r_session(signal.SIGINT, None)


def reported_as_something_else():
    with guard._watching(True):
        try:
            strike()
        except KeyboardInterrupt as error:
            raise ImportError("what was interrupted says so in its own way") from error


def test_an_interrupt_that_python_reports_as_another_error_is_one_and_only_of_its_call(watcher):
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            reported_as_something_else()
        with guard._watching(True):
            pass


def test_an_interrupt_at_the_end_of_a_call_leaves_no_thread(watcher, monkeypatch):
    real = guard._Watcher.watch

    def late(self, python_runs):
        if not python_runs:
            monkeypatch.setattr(guard._Watcher, "watch", real)
            strike()
        real(self, python_runs)

    monkeypatch.setattr(guard._Watcher, "watch", late)
    with guard._watching(True):
        assert watcher.watches
    assert not watcher.watches
    assert guard.openrlib.rlib.R_interrupts_pending  # it is left to R
    guard.openrlib.rlib.R_interrupts_pending = 0
    with pytest.raises(KeyboardInterrupt):
        reported_as_something_else()


def test_a_call_within_a_call_leaves_interrupts_as_they_were(watcher):
    with guard._watching(True), guard._watching(True), guard._watching(False):
        assert not watcher.watches
    assert not watcher.changes
    with pytest.raises(KeyboardInterrupt):
        reported_as_something_else()
