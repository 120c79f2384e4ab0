"""A session of the R kernel: memory, interrupts, questions, history, the ends it can come to, and what it leaves."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import GENEROUS

STUDY = """
study <- dp_study(
  private = dp_load_rotterdam(), public = dp_load_gbsg(), budget = dp_budget(epsilon = 1),
  schema = dp_schema(age = dp_continuous(20, 90), event3 = dp_binary())
)
"""


def test_a_session_remembers(notebook):
    notebook.run("x <- 41")
    done = notebook.run("library(hdpstats); x + 1", user_expressions={"double": "2 * x", "bad": "stop('no')"})
    assert done.shown == [{"text/plain": "[1] 42"}]
    assert done.reply["user_expressions"]["double"]["data"] == {"text/plain": "[1] 82"}
    assert done.reply["user_expressions"]["bad"]["evalue"] == "no"
    assert notebook.run("environmentName(environment(dp_logit))").shown == [{"text/plain": '[1] "hdpstats"'}]


FIT = """
dp_logit(event3 ~ age, data = dp_study(
  private = local({ d <- dp_load_rotterdam(); d[rep(seq_len(nrow(d)), 20), ] }), public = dp_load_gbsg(),
  budget = dp_budget(epsilon = 5), schema = dp_schema(age = dp_continuous(20, 90), event3 = dp_binary())
), epsilon = 1)
"""
ENDLESS = [
    "Sys.sleep(3600)",
    "repeat {}",
    "repeat sort(stats::runif(1e5))",
    "repeat tryCatch(stop('x'), error = function(e) NULL)",
    "repeat dp_schema(age = dp_continuous(20, 90))",  # conversions and Python, without end
    f"repeat {FIT}",
    "readLines(pipe('sleep 3600'))",
]


@pytest.mark.parametrize("code", ENDLESS)
def test_an_interrupt_stops_a_cell_that_would_never_end(notebook, code):
    done = notebook.run(f"cat('started\\n'); {code}", at="started")
    assert done.reply["status"] == "error"
    assert done.reply["ename"] == "interrupt"
    assert notebook.run("6 * 7").shown == [{"text/plain": "[1] 42"}]
    assert "Sys.sleep" in notebook.run("Sys.sleep(0.1); 'Sys.sleep'").shown[0]["text/plain"]


def test_an_interrupt_between_cells_does_nothing(notebook):
    notebook.interrupt()
    assert notebook.run("Sys.sleep(0.2); 1").shown == [{"text/plain": "[1] 1"}]


def test_r_code_can_catch_an_interrupt(notebook):
    done = notebook.run("tryCatch({ cat('started\\n'); repeat {} }, interrupt = function(e) 'seen')", at="started")
    assert done.shown == [{"text/plain": '[1] "seen"'}]


def test_readline_and_readlines_ask_the_user(notebook):
    notebook.answers[:] = ["Ada", "", "one", "two"]
    done = notebook.run(
        "a <- readline('Name? '); b <- readline(); c(a, b, readLines(stdin(), n = 2))", allow_stdin=True
    )
    assert done.shown == [{"text/plain": '[1] "Ada" ""    "one" "two"'}]


def test_readline_is_an_error_where_nobody_can_be_asked(notebook):
    done = notebook.run("x <- readline('Spend? '); cat('went on')")
    assert (done.reply["status"], done.stream("stdout")) == ("error", "")
    assert "takes no input" in done.reply["evalue"]


def test_an_interrupt_of_a_question_is_no_answer(notebook):
    asked = notebook.client.execute("x <- readline('Spend? '); went_on <- TRUE", allow_stdin=True, stop_on_error=False)
    notebook.client.get_stdin_msg(timeout=GENEROUS)
    notebook.interrupt()
    while (reply := notebook.client.get_shell_msg(timeout=GENEROUS))["parent_header"]["msg_id"] != asked:
        pass
    assert reply["content"]["ename"] == "interrupt"
    assert notebook.run("exists('went_on')").shown == [{"text/plain": "[1] FALSE"}]


def test_history_is_in_memory_and_only_of_what_is_stored(notebook):
    notebook.run("1 + 1")
    notebook.run("'not stored'", store_history=False)
    notebook.run("cat('of history')")
    notebook.run("stop('z')", silent=True)
    history = notebook.ask("history", raw=True, output=True, hist_access_type="tail", n=2)["history"]
    [[session, first, _], *_] = history
    assert history == [[session, first, ["1 + 1", "[1] 2"]], [session, first + 1, ["cat('of history')", None]]]
    asked = {"raw": True, "output": False, "hist_access_type": "search"}
    found = notebook.ask("history", **asked, pattern="cat('of h*")["history"]
    assert found == [[session, first + 1, "cat('of history')"]]


@pytest.mark.parametrize("code", [pytest.param("q('yes')", marks=pytest.mark.wide), "quit(save = 'yes', status = 3)"])
def test_quit_answers_the_cell_saves_nothing_and_ends_the_kernel(fresh, code):
    place = Path(fresh.run("cat(tempdir())").stream("stdout"))
    done = fresh.run(f"x <- 1; cat('before'); {code}; cat('after')")
    assert done.reply["status"] == "ok"
    assert done.reply["payload"] == [{"source": "ask_exit", "keepkernel": False}]
    assert done.stream("stdout") == "before"
    fresh.wait_for_the_end()
    assert os.listdir(fresh.folder) == []
    assert not place.exists()


def test_a_session_leaves_nothing_in_its_folder_nor_in_the_temporary_one(fresh):
    place = Path(fresh.run("cat(tempdir())").stream("stdout"))
    fresh.run("x <- 1; plot(x); x; ?mean")
    fresh.run(STUDY + "dp_logit(event3 ~ age, data = study, epsilon = 1)")
    assert list(place.iterdir()) == []
    fresh.client.shutdown()
    fresh.wait_for_the_end()
    assert os.listdir(fresh.folder) == []
    assert not place.exists()


def test_a_shutdown_stops_what_runs(fresh):
    fresh.client.execute("cat('started\\n'); repeat {}")
    while "started" not in fresh.client.get_iopub_msg(timeout=GENEROUS)["content"].get("text", ""):
        pass
    fresh.client.shutdown()
    fresh.wait_for_the_end()


@pytest.mark.wide
def test_neither_a_profile_nor_modules_of_the_folder_are_read(opened, tmp_path):
    (tmp_path / ".Rprofile").write_text("planted <- TRUE; stop('a profile was read')")
    (tmp_path / "json.py").write_text("raise RuntimeError('a module of the folder was imported')")
    kernel = opened(tmp_path, start=contextlib.nullcontext)  # the command itself: no module is imported before
    assert kernel.run("exists('planted')").shown == [{"text/plain": "[1] FALSE"}]


def test_the_kernel_tells_what_it_is(notebook):
    about = notebook.ask("kernel_info")
    assert about["language_info"]["codemirror_mode"] == "r"
    assert about["language_info"]["mimetype"] == "text/x-r-source"
    assert about["supported_features"] == []  # the debugger of ipykernel is for Python, its subshells are threads
    assert "hdpstats" in about["banner"]
    assert notebook.ask("comm_info")["comms"] == {}


def test_without_r_the_kernel_dies_and_says_what_to_install(tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "r_bridge.kernel", "-f", "none.json"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 1
    assert "apt-get install r-base-core r-cran-survival make" in done.stderr.splitlines()[-1]
