"""Errors in the R kernel: the class of the condition, its message, the calls, and nothing of the data."""

import pytest

STUDY = """
private <- dp_load_rotterdam()
private$mark <- 31337.25
private$note <- "confidential words"
study <- dp_study(
  private = private, public = dp_load_gbsg(), budget = dp_budget(epsilon = 1),
  schema = dp_schema(age = dp_continuous(20, 90), event3 = dp_binary())
)
"""
SECRETS = ("31337", "confidential words")


@pytest.fixture(scope="module")
def study(notebook):
    assert notebook.run(STUDY).reply["status"] == "ok"
    return notebook


REFUSED = {
    "dp_logit(event3 ~ age, data = study, epsilon = 2)": ("dp_insufficient_budget", "the release would cost"),
    "dp_logit(event3 ~ age +, data = study, epsilon = 1)": ("parse_error", "unexpected ','"),
    "dp_logit('event3 ~ age +', data = study, epsilon = 1)": ("dp_formula_error", "end of the formula"),
    "dp_logit(event3 ~ shoes, data = study, epsilon = 1)": ("dp_formula_error", "shoes"),
    "dp_logit(event3 ~ age, data = NULL, epsilon = 1)": ("dp_argument_error", "data"),
    "dp_logit(event3 ~ age, data = study, epsilon = NULL)": ("dp_argument_error", "epsilon must be given"),
    "private$parts <- lapply(private$mark, c); dp_study(private, budget = dp_budget(1), schema = study)": (
        "dp_argument_error",
        "parts",
    ),
    "dp_logit(event3 ~ age, data = study, epsilon = 0.5, colour = 'red')": ("dp_argument_error", "colour"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_an_error_has_the_class_of_its_condition_and_the_message_of_python(study, code):
    done = study.run(code)
    name, words = REFUSED[code]
    (error,) = done.contents("error")
    assert done.reply["status"] == "error"
    assert error == {key: done.reply[key] for key in ("ename", "evalue", "traceback")}
    assert error["ename"] == name
    assert words in error["evalue"]
    assert error["evalue"] in error["traceback"][0]
    assert not any(secret in done.text for secret in SECRETS)


def test_conditions_of_r_keep_their_class(notebook):
    done = notebook.run("stop(errorCondition('no', class = c('special', 'less_special')))")
    assert (done.reply["ename"], done.reply["evalue"]) == ("special", "no")
    assert notebook.run("stop('plain')").reply["ename"] == "simpleError"
    assert (
        notebook.run("tryCatch(stop('plain'), error = function(e) 'caught')").shown[0]["text/plain"] == '[1] "caught"'
    )


def test_the_traceback_has_the_calls_of_the_user(notebook):
    done = notebook.run("g <- function(y) h(y + 1)\nh <- function(z) stop('deep')\ng(2)")
    assert done.reply["traceback"] == ["Error in h(y + 1): deep", "Traceback:", "1. g(2)", "2. h(y + 1)"]
    assert notebook.run("stop('top')").reply["traceback"] == ["Error: top"]
    assert notebook.run("x <- )").reply["traceback"][0].startswith("Error: <text>:1:6: unexpected ')'")


@pytest.mark.parametrize(
    "code",
    [
        "do.call(log, list(private$note[1]))",
        "do.call(function(mark, note) stop('no'), private[1, c('mark', 'note')])",
        "do.call('dp_logit', list(event3 ~ age, private, 1))",
        "Map(function(a, b) a + b, private$mark[1:2], private$note[1:2])",
        "do.call(warning, list('careful')); (function(x) stop('no'))(private)",
        "eval(bquote(log(.(private$note[1]))))",
        "eval(bquote(as.integer(.(private$note[1])))); stop('after a warning')",
    ],
)
def test_no_data_get_into_a_traceback_or_a_warning_through_calls(study, code):
    done = study.run(code)
    assert done.reply["status"] == "error"
    assert not any(secret in done.text for secret in SECRETS)


def test_inspection_and_completion_show_no_values(study):
    study.run("number <- private$mark[1]; text <- private$note[1]; both <- private[c('mark', 'note')]")
    for name in ("private", "number", "text", "both", "study", "private$mark"):
        reply = study.ask("inspect", name)
        assert reply["found"]
        assert not any(secret in repr(reply) for secret in SECRETS)
    about = study.ask("inspect", "both")["data"]["text/plain"]
    assert about == "both: data.frame, 2982 x 2\n  mark: numeric\n  note: character"
    assert not any(secret in repr(study.ask("complete", "private$")) for secret in SECRETS)


def test_an_error_of_printing_is_an_error_of_the_cell(notebook):
    done = notebook.run("print.odd <- function(x, ...) stop('cannot be shown'); structure(1, class = 'odd')")
    assert (done.reply["ename"], done.reply["evalue"]) == ("simpleError", "cannot be shown")


def test_a_device_that_cannot_be_opened_is_an_error_of_the_cell_and_no_more(notebook):
    done = notebook.run("options(repr.plot.width = 1e9); plot(1)")
    assert done.reply["status"] == "error"
    assert notebook.run("options(repr.plot.width = NULL); 2").shown == [{"text/plain": "[1] 2"}]


def test_endless_recursion_is_an_error_and_leaves_the_session_usable(notebook):
    assert notebook.run("f <- function(x) f(x); f(1)").reply["ename"].endswith("StackOverflowError")
    assert notebook.run("1 + 1").shown == [{"text/plain": "[1] 2"}]


def test_silent_cells_say_nothing_but_reply(notebook):
    done = notebook.run("cat('x'); message('y'); plot(1); stop('no')", silent=True)
    assert done.messages == []
    assert (done.reply["status"], done.reply["evalue"]) == ("error", "no")
    assert notebook.run("cat('heard')").stream("stdout") == "heard"
