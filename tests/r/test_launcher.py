"""``python -m r_bridge run``: an R script in the R inside Python, with an exit status."""

import sys

import pytest

from r_bridge.__main__ import main
from tests import forked


def run(script, *arguments, cwd):
    return forked.run([sys.executable, "-m", "r_bridge", "run", str(script), *arguments], cwd=cwd)


SCRIPT = """
commandArgs(trailingOnly = TRUE)
invisible("not shown")
x <- 41
x + 1
message("a message")
warning("careful")
study <- dp_study(
  private = dp_load_rotterdam(), public = dp_load_gbsg(), budget = dp_budget(epsilon = 1),
  schema = dp_schema(age = dp_continuous(20, 90), event3 = dp_binary())
)
names(coef(dp_logit(event3 ~ age, data = study, epsilon = 1)))
spend <- function() dp_logit(event3 ~ age, data = study, epsilon = 2)
spend()
cat("not reached")
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    place = tmp_path_factory.mktemp("launcher")
    (place / "script.R").write_text(SCRIPT)
    return run("script.R", "one", "--two", cwd=place)


def test_a_script_shows_its_values_and_gets_its_arguments(done):
    assert done.stdout.splitlines() == ['[1] "one"   "--two"', "[1] 42", '[1] "(Intercept)" "age"        ']


def test_messages_warnings_and_the_error_go_to_standard_error(done):
    lines = done.stderr.splitlines()
    assert lines[0] == "a message"
    assert lines[1].endswith("careful")
    assert lines[2].startswith(
        "Error in dp_logit(formula = event3 ~ age, data = study, epsilon = 2): the release would cost"
    )
    assert lines[3] == "Execution halted"
    assert len(lines) == 4


def test_an_error_is_exit_status_1(done):
    assert done.returncode == 1


def test_what_quit_says_is_the_exit_status(tmp_path):
    (tmp_path / "script.R").write_text("quit(status = 3)")
    assert run("script.R", cwd=tmp_path).returncode == 3


def test_a_script_that_cannot_be_read_or_found_is_exit_status_1(tmp_path, capsys):
    (tmp_path / "script.R").write_text("f(")
    assert main(["run", str(tmp_path / "script.R")]) == 1
    assert "unexpected end of input" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "nothing.R")]) == 1
    assert "there is no file" in capsys.readouterr().err
