"""``python -m r_bridge install`` and plain R: reticulate starts the right Python, and Python uses that R."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from r_bridge import package
from r_bridge.__main__ import main
from tests.waiting import GENEROUS, until


def rscript(code, *, library, cwd, **environment):
    return subprocess.run(
        ["Rscript", "--no-save", "--no-restore", "-e", code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**os.environ, "R_LIBS": str(library), **environment},
        check=False,
    )


def test_the_package_knows_its_python(library):
    assert (library / "hdpstats" / "python.txt").read_text().strip() == sys.executable


@pytest.mark.wide
def test_another_python_that_is_loaded_already_asks_for_a_new_session(library, tmp_path):
    code = (
        "reticulate::py_run_string('import sys; sys.modules[\"r_bridge\"] = None'); "  # as one without the package
        "cat(conditionMessage(tryCatch(hdpstats::dp_load_gbsg(), error = identity)))"
    )
    done = rscript(code, library=library, cwd=tmp_path, RETICULATE_PYTHON=sys.executable)
    assert "restart R" in done.stdout, done.stdout + done.stderr


def test_an_archive_with_vignettes_is_what_is_installed_by_default(tmp_path, monkeypatch, capsys):
    """`tests.r.test_r_package` builds one, and finds the vignettes where it was installed."""
    asked = []

    def build(place, *, vignettes, pages, bugs):
        asked.extend([vignettes, pages, bugs])
        return place / "built.tar.gz"

    def r(*arguments, **_):
        asked.append(arguments)
        return subprocess.CompletedProcess(arguments, 0, "TRUE", "")

    monkeypatch.setattr(package, "build", build)
    monkeypatch.setattr(package, "_r", r)
    assert (
        main(
            [
                "install",
                "--lib",
                str(tmp_path),
                "--pages",
                "https://example.org",
                "--bug-reports",
                "https://example.org/faults",
            ]
        )
        == 0
    )
    assert "without vignettes" not in capsys.readouterr().out
    assert True in asked
    assert {"https://example.org", "https://example.org/faults"} <= set(map(str, asked))
    (installed,) = [each for each in asked if each is not True and "INSTALL" in each]
    assert installed[-2] == f"--library={tmp_path}"
    assert installed[-1].endswith("built.tar.gz")


BUSY = """
library(hdpstats)
invisible(dp_load_gbsg())
reticulate::py_run_string("
import itertools
from pathlib import Path
from r_bridge.functions import FUNCTIONS
def busy():
    for number in itertools.count():
        if number == 1:
            Path('1').touch()
FUNCTIONS['busy'] = busy
FUNCTIONS['back'] = lambda f: f()
")
loop <- function(file) { rounds <- 0; while (TRUE) if ((rounds <- rounds + 1) == 1) file.create(file) }
"""


class Session:
    """An interactive R at the other end of two pipes."""

    def __init__(self, *, library, cwd):
        options = ["--interactive", "--no-readline", "--no-save", "--no-restore", "--quiet", "--no-echo"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen(["R", *options], cwd=cwd, env={**os.environ, "R_LIBS": str(library)}, **pipes)
        self.text, self._said = "", threading.Condition()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self._listener.join()
        with self.process:
            pass

    def _listen(self):
        for line in self.process.stdout:
            with self._said:
                self.text += line
                self._said.notify_all()

    def ask(self, code):
        self.process.stdin.write(f"{code}\n")
        self.process.stdin.flush()

    def wait(self, words):
        """Wait for a line of output that ends so; R repeats what it is asked, but not with a line's end there."""
        with self._said:
            assert self._said.wait_for(lambda: f"{words}\n" in self.text, timeout=GENEROUS), self.text


@pytest.mark.wide
def test_ctrl_c_in_plain_r_stops_r_and_python_and_leaves_the_session_usable(library, tmp_path):
    (tmp_path / "busy.R").write_text(BUSY)
    with Session(library=library, cwd=tmp_path) as session:
        session.ask("source('busy.R')")
        back = "hdpstats:::.py('back', list(f = function() loop('2')))"
        for number, code in enumerate(["loop('0')", "hdpstats:::.py('busy')", back]):
            session.ask(f"{code}; cat('ran out', '\\n')")
            until((tmp_path / str(number)).exists, lambda: session.text)  # written from within a loop without an end
            session.process.send_signal(signal.SIGINT)
            session.ask(f"cat('end{number}\\n')")
            session.wait(f"end{number}")
        session.ask("cat(nrow(dp_load_gbsg()), 'rows\\n'); q()")
        session.wait("686 rows")
        assert session.process.wait(timeout=GENEROUS) == 0
        assert "ran out \n" not in session.text
