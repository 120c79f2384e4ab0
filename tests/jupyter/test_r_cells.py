"""%%R cells in a Python kernel: values both ways, output in order, errors, plots, interrupts."""

import base64
import struct
from itertools import groupby

import pytest

from tests.jupyter.session import session
from tests.waiting import GENEROUS

SETUP = """
%load_ext hdpstats.jupyter
import sys
import pandas as pd
import hdpstats.api as hdp, hdpstats.formula.api as hdpf
before = [m for m in sys.modules if m.startswith(("rpy2", "r_bridge"))]
schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event3=hdp.Binary(complete=True))
ledger = hdp.Ledger(None, dataset="trial", epsilon=3)
study = hdp.Study(
    private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema, ledger=ledger
)
frame = pd.DataFrame({
    "whole": pd.array([1, None, 3], dtype="Int64"),
    "truth": pd.array([True, False, None], dtype="boolean"),
    "text": pd.array(["a", None, "ü"], dtype="str"),
    "kind": pd.Categorical(["u", None, "v"], categories=["v", "u"]),
    "number": [1.5, None, -0.25],
})
canary = pd.DataFrame({"secret": [61.2345678987, 17.17171717]})
"""


@pytest.fixture(scope="module")
def notebook():
    with session() as made:
        assert made.run(SETUP).error is None
        assert made.value("before") == "[]"  # R does not start before the first cell
        assert made.run("%%R\n1").error is None
        yield made


def test_frames_keep_their_missing_values_both_ways(notebook):
    code = "%%R -i frame -o back\nstr(frame)\nback <- frame\nstopifnot(sapply(frame, function(x) sum(is.na(x))) == 1L)"
    text = notebook.run(code).text()
    for line in (
        "$ whole : int  1 NA 3",
        "$ truth : logi  TRUE FALSE NA",
        '$ kind  : Factor w/ 2 levels "v","u": 2 NA 1',
    ):
        assert line in text
    notebook.run("pd.testing.assert_frame_equal(back, frame)")
    assert notebook.value("back.equals(frame)") == "True"


def test_names_are_kept(notebook):
    notebook.run("%%R -o named,scalar\nnamed <- c(a = 1, b = 2); scalar <- 3L")
    assert notebook.value("named.to_dict(), scalar") == "({'a': 1.0, 'b': 2.0}, 3)"


def test_objects_can_be_renamed_and_reached_by_attribute(notebook):
    notebook.run("class Box: pass\nbox = Box(); box.inner = 4.5")
    notebook.run("%%R -i mine=box.inner -i frame,canary -o twice=two\ntwo <- 2 * mine")
    assert notebook.value("twice") == "9.0"


def test_a_study_a_ledger_and_a_result_are_the_same_on_both_sides(notebook):
    code = (
        "%%R -i study,ledger,schema -o fit\n"
        "stopifnot(inherits(study, 'dp_study'), inherits(ledger, 'dp_ledger'), inherits(schema, 'dp_schema'))\n"
        "fit <- dp_logit(event3 ~ age, data = study, epsilon = 1)"
    )
    assert notebook.run(code).error is None
    assert notebook.value("type(fit).__name__, float(ledger.spent.epsilon)") == "('Result', 1.0)"
    again = "mine = hdpf.logit('event3 ~ age', data=study).fit(epsilon=1); mine.release == fit.release"
    assert notebook.value(again) == "True"
    text = notebook.run("%%R -i mine\ncat(class(mine)); cat('\\n', sprintf('%.12f', coef(mine)[['age']]))").text()
    assert text.splitlines()[0] == "dp_logit dp_result"
    assert notebook.value("f'{mine.params[\"age\"]:.12f}'").strip("'") == text.splitlines()[1].strip()
    assert notebook.value("float(ledger.spent.epsilon)") == "1.0"
    notebook.run("%%R -o kept=ledger,held=study\n1")
    assert notebook.value("kept is ledger, held is study") == "(True, True)"


def test_a_weighted_sample_is_the_same_on_both_sides(notebook):
    own = (
        "own = hdp.Study(private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,"
        " budget=hdp.Budget(epsilon=2))\nweighted = hdp.hybrid_weights(own, ['event3'], epsilon=1)"
    )
    assert notebook.run(own).error is None
    code = (
        "%%R -i own,weighted -o total,again\n"
        "total <- sum(weights(weighted))\nagain <- dp_hybrid_weights(own, 'event3', 1)"
    )
    assert notebook.run(code).error is None
    same = "[each.sha256 for each in again.releases] == [each.sha256 for each in weighted.releases]"
    assert notebook.value(f"{same}, float(own.ledger.spent.epsilon)") == "(True, 1.0)"
    assert notebook.value("bool(abs(total - weighted.weights.sum()) < 1e-9)") == "True"


def test_every_visible_value_is_printed(notebook):
    assert notebook.run("%%R\n1\nx <- 2\nx\ninvisible(3)\n(4)").text() == "[1] 1\n[1] 2\n[1] 4\n"


def test_output_is_in_order(notebook):
    reply = notebook.run("%%R\ncat('a\\n'); message('b'); print('c'); warning('d'); cat('e\\n')")
    told = "".join(text for _, text in reply.streams)
    assert told == 'a\nb\n[1] "c"\nWarning: d\ne\n'
    assert [name for name, _ in groupby(name for name, _ in reply.streams)] == ["stdout", "stderr"] * 2 + ["stdout"]


def test_output_is_sent_where_the_stream_changes_not_word_by_word(notebook):
    notebook.run("from r_bridge.console import Streams as S\nsent, send = [], S.flush")
    notebook.run("S.flush = lambda self: (sent.append(self._last), send(self))[1]")
    many = notebook.run("%%R\nfor (i in 1:500) cat('line', i, 'of', 500, '\\n'); message('aside'); cat('last')")
    assert many.text().count("\n") == 500
    assert notebook.value("S.flush = send\nsent") == "['stdout', 'stderr', 'stdout']"


def test_a_line_has_a_value(notebook):
    assert notebook.value("value = %R x <- -3; x - 1\nvalue") == "-4.0"
    assert notebook.value('%R "a;  b"') == "'a;  b'"
    local = "def local():\n    inner = 7\n    found = %R -i inner inner * 2\n    return found\nlocal()"
    assert notebook.value(local) == "14.0"
    assert notebook.run("%R -n 5").shown == []
    assert notebook.run("%R invisible(5)").shown == []


def size(image):
    return struct.unpack(">II", base64.b64decode(image)[16:24])


def test_plots_are_shown_page_by_page_after_the_text(notebook):
    reply = notebook.run("%%R\ncat('first\\n'); plot(1:3); plot(3:1); cat('second\\n')")
    kinds = [kind for kind, _ in reply.messages if kind != "stream"]
    assert [kind for kind, _ in reply.messages][-2:] == kinds == ["display_data", "display_data"]
    assert reply.text() == "first\nsecond\n"
    assert [size(data["image/png"]) for data in reply.shown] == [(1344, 864)] * 2
    assert reply.messages[-1][1]["metadata"] == {"image/png": {"width": 672, "height": 432}}
    assert notebook.run("%%R\n1").shown == []


@pytest.mark.parametrize(
    ("options", "pixels"),
    [
        ("-w 300 -h 200", (300, 200)),
        ("-w 4 -h 3 -u in -r 50", (200, 150)),
        ("-w 2 -h 1 -u in", (144, 72)),
        ("-r 72", (480, 480)),
    ],
)
def test_the_size_of_plots(notebook, options, pixels):
    (data,) = notebook.run(f"%%R {options} -p 8 -b white\nplot(1)").shown
    assert size(data["image/png"]) == pixels


def test_plots_as_svg(notebook):
    first, second = notebook.run("%%R --graphics-device svg -w 4 -h 3\nplot(1); plot(2)").shown
    assert 'viewBox="0 0 288 216"' in first["image/svg+xml"]
    assert "<svg" in second["image/svg+xml"]


def test_a_plot_before_an_error_is_shown_and_its_device_closed(notebook):
    reply = notebook.run("%%R\nplot(1)\nstop('no')")
    assert len(reply.shown) == 1
    assert reply.error[:2] == ("RError", "no")
    assert notebook.value("%R is.null(grDevices::dev.list())") == "True"


def test_an_error_of_r_has_its_classes_and_no_traceback_of_ours(notebook):
    code = "%%R\nstop(structure(list(message = 'mine', call = NULL), class = c('special', 'error', 'condition')))"
    name, message, shown = notebook.run(code).error
    assert (name, message, shown) == ("RError", "mine", "RError: mine")
    assert notebook.value("sys.last_value.classes") == "('special', 'error', 'condition')"


def test_an_error_of_hdpstats_arrives_as_itself(notebook):
    name, message, _ = notebook.run("%%R -i study\ndp_logit(event3 ~ age, data = study, epsilon = 100)").error
    assert name == "BudgetError"
    name, message, _ = notebook.run("%%R -i study\ndp_logit(event3 ~ age, data = study, epsilon = 9)").error
    assert name == "InsufficientBudget"
    assert "Nothing was charged" in message
    assert notebook.run("%%R -i study\ndp_logit(event3 ~ height, data = study, epsilon = 1)").error[0] == "FormulaError"


def test_code_that_cannot_be_read_is_an_error_of_r_at_its_line(notebook):
    name, message, _ = notebook.run("%%R\nx <- 1\ny <- (2").error
    assert name == "RError"
    assert "<text>:" in message


@pytest.mark.parametrize("wrong", ["stop('no')", "warning('careful')", "log(-1)", "d$secret[[5]]"])
def test_no_cell_of_data_is_in_a_message(notebook, wrong):
    define = f"%%R -i canary\nf <- function(d) {{ {wrong}; invisible() }}\n"
    code = f"{define}do.call(f, list(canary)); do.call('f', list(canary))"
    reply = notebook.run(code)
    assert reply.error or "Warning" in reply.text("stderr")
    assert "61.23" not in reply.everything
    assert "17.17" not in reply.everything


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-i nothing", "-i nothing: Python has no object 'nothing'"),
        ("-i frame.nothing", "-i frame.nothing: a DataFrame has no attribute 'nothing'"),
        ("-i sys", "-i sys: R has no equivalent for a Python module"),
        ("-o nothing", "-o nothing: R has no object 'nothing'"),
        ("-o globalenv", ""),
        ("-i frame,", "names with commas and no blanks"),
        ("-u miles", "invalid choice: 'miles'"),
        ("-q", "unrecognized arguments: -q"),
    ],
)
def test_wrong_options_are_said_in_a_line(notebook, line, words):
    reply = notebook.run(f"%%R {line}\ninvisible(1)")
    if line == "-o globalenv":
        assert notebook.value("callable(globalenv)") == "True"
        return
    assert words in reply.text("stderr")
    assert reply.text("stderr").startswith("UsageError: ")
    assert len(reply.text("stderr").strip().splitlines()) == 1


def test_nothing_runs_where_an_input_is_wrong(notebook):
    notebook.run("%%R -i nothing\nran <- TRUE")
    assert notebook.value("%R exists('ran')") == "False"


def test_options_are_explained(notebook):
    assert "--graphics-device" in notebook.run("%R --help").text()


def interrupter(notebook):
    """Return what interrupts the kernel once a cell says that it has started; what runs then has no end of its own."""
    sent = []

    def interrupt(reply):
        if not sent and "started" in reply.text():
            notebook.manager.interrupt_kernel()
            sent.append(True)

    return interrupt


@pytest.mark.parametrize(
    "code",
    ["%%R\ncat('started\\n')\nwhile (TRUE) {}", f"%%R\ncat('started\\n')\nSys.sleep({2 * GENEROUS})"],
    ids=["loop", "sleep"],
)
def test_an_interrupt_stops_r_and_leaves_it_usable(notebook, code):
    reply = notebook.run(code, after=interrupter(notebook))
    assert reply.error[0] == "KeyboardInterrupt"
    assert notebook.value("%R 1 + 1") == "2.0"


def test_an_interrupt_stops_python_that_r_called(notebook):
    wait = f"lambda: [time.sleep(0.1) for _ in range({20 * GENEROUS:.0f})] and 1"
    notebook.run(f"import r_bridge.functions as f, time\nf.FUNCTIONS['wait'] = {wait}")
    reply = notebook.run("%%R\ncat('started\\n')\nhdpstats:::.py('wait')", after=interrupter(notebook))
    assert reply.error[0] == "KeyboardInterrupt"
    assert notebook.value("%R 1 + 1") == "2.0"


def test_the_functions_are_those_of_the_library(notebook):
    assert notebook.run("%%R\nlibrary(hdpstats)\nstopifnot(identical(dp_logit, hdpstats::dp_logit))").messages == []


def test_r_cannot_end_the_kernel(notebook):
    for code in ("quit()", "q('no')"):
        assert "R cannot quit here" in notebook.run(f"%%R\n{code}").error[1]
    assert notebook.value("1 + 1") == "2"


def test_view_prints_the_table_that_it_would_open_in_a_window(notebook):
    assert "  a\n1 7\n2 8" in notebook.run("%%R\nView(data.frame(a = 7:8))").text()


def test_a_help_page_of_the_attached_functions_is_text(notebook):
    text = notebook.run("%%R\n?dp_hazard").text()
    assert "dp_hazard" in text
    assert "No documentation" not in text
    assert "Usage:" in text


def test_a_help_page_is_text(notebook):
    text = notebook.run("%%R\n?quantile").text()
    assert "Sample Quantiles" in text
    assert "\b" not in text


def test_warnings_can_be_made_errors_or_silent(notebook):
    name, message, _ = notebook.run("%%R\noptions(warn = 2); as.integer('a')").error
    assert (name, message) == ("RError", "(converted from warning) NAs introduced by coercion")
    assert notebook.run("%%R\noptions(warn = -1); invisible(as.integer('a')); options(warn = 0)").messages == []
