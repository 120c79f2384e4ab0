"""Processes that tests fork are like those that a command starts, but for what they have imported."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests import forked
from tests.waiting import GENEROUS

FACTS = """
import json, os, sys
print(json.dumps([sys.argv, os.getcwd(), os.environ.get("MARK"), os.environ.get("HOME"), sys.stdin.read(), __name__]))
print("aside", file=sys.stderr)
sys.exit(3)
"""


def facts(start, folder):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {"MARK": "here", "PATH": os.environ["PATH"]}
    with start([sys.executable, "-c", FACTS, "one", "two"], text=True, cwd=folder, env=environment, **pipes) as process:
        printed, errors = process.communicate("asked", timeout=GENEROUS)
    return json.loads(printed), errors, process.returncode


def test_arguments_folder_environment_streams_and_status_are_those_of_a_command(tmp_path):
    assert facts(forked.Popen, tmp_path) == facts(subprocess.Popen, tmp_path)


def test_a_module_runs_as_the_main_one():
    assert "usage: hdpstats" in forked.run([sys.executable, "-m", "hdpstats.cli", "--help"]).stdout


def test_it_can_be_signalled_and_waited_for_in_a_session_of_its_own():
    code = "import os, sys; print(os.getsid(0) == os.getpid(), flush=True); sys.stdin.read()"
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with forked.Popen([sys.executable, "-c", code], start_new_session=True, text=True, **pipes) as process:
        assert process.stdout.readline() == "True\n"
        assert process.poll() is None
        os.killpg(os.getpgid(process.pid), signal.SIGTERM)
        assert process.wait(GENEROUS) == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_its_noise_is_the_operating_systems_and_no_two_share_it():
    code = "from hdpstats.noise.exact import bits; print(bits(256))"
    assert len({forked.run([sys.executable, "-c", code]).stdout for _ in range(3)}) == 3


@pytest.mark.parametrize(
    ("code", "status", "printed"),
    [
        ("sys.exit(3)", 3, "called\n"),
        ("sys.exit('words')", 1, "called\n"),
        ("raise KeyboardInterrupt", -2, "called\n"),
        ("threading.Thread(target=print, args=('thread',)).start()", 0, "thread\ncalled\n"),
        (
            "kept = type('Kept', (), {'__del__': lambda self, write=os.write: write(1, b'gone\\n')})()",
            0,
            "called\ngone\n",
        ),
    ],
)
def test_it_ends_as_python_does(code, status, printed):
    first = "import atexit, os, sys, threading\natexit.register(lambda: print('called', flush=True))\n"
    ended = forked.run([sys.executable, "-c", first + code])
    assert (ended.returncode, ended.stdout) == (status, printed)
    assert ("words" in ended.stderr) == ("words" in code)


def test_its_end_closes_no_file_but_its_own():
    code = (
        "import atexit, os\n"
        "held = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]\n"
        "atexit.register(lambda: [os.fstat(each) for each in held])\n"
        "raise SystemExit(5)"
    )
    ended = forked.run([sys.executable, "-c", code])
    assert (ended.returncode, ended.stderr) == (5, "")


def test_processes_start_after_one_whose_starter_has_ended():
    orphan = (
        "import os, sys; from tests import forked; forked.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])"
    )
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with forked.Popen([sys.executable, "-c", orphan], **pipes) as process:
        process.wait(GENEROUS)
        process.communicate(timeout=GENEROUS)
    assert forked.run([sys.executable, "-c", "print(1)"]).stdout == "1\n"
