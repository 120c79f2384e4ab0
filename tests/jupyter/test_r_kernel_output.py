"""What a cell of the R kernel shows: streams, values, tables, plots, pages."""

import base64
import re
import struct
import xml.etree.ElementTree as ElementTree

import pytest

import hdpstats.api as hdp
from hdpstats.results.model_matrix import renamed as in_r

STUDY = """
study <- dp_study(
  private = dp_load_rotterdam(), public = dp_load_gbsg(), budget = dp_budget(epsilon = 5),
  schema = dp_schema(
    age = dp_continuous(20, 90), size = dp_categorical(c("<=20", "20-50", ">50")), event3 = dp_binary()
  )
)
fit <- dp_logit(event3 ~ age + size, data = study, epsilon = 1)
another <- dp_study(dp_load_rotterdam(), dp_load_gbsg(), dp_schema(event3 = dp_binary()), budget = dp_budget(1))
hospitals <- dp_study(
  split(dp_load_rotterdam(), rep(c("Oslo", "<Bergen>"), length.out = 2982)), dp_load_gbsg(),
  dp_schema(age = dp_continuous(20, 90), event3 = dp_binary()), budget = dp_budget(epsilon = 5)
)
together <- dp_logit(event3 ~ age, data = hospitals, epsilon = c(Oslo = 1, "<Bergen>" = 2))
groups <- dp_aggregate(together)
"""


@pytest.fixture(scope="module")
def study(notebook):
    assert notebook.run(STUDY).reply["status"] == "ok"
    return notebook


WAIT = "while (!file.exists('go')) Sys.sleep(0.01); invisible(file.remove('go'))"
"""R code that waits until somebody has made a file in the kernel's folder."""


def cells(html):
    """Return the rows of the only table as texts."""
    table = re.search(r"<table.*?</table>", html, re.S)[0].replace("&lt;", "<").replace("&gt;", ">")
    rows = re.findall(r"<tr.*?</tr>", table, re.S)
    return [[text.strip() for text in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)] for row in rows]


def png_size(bundle):
    return struct.unpack(">II", base64.b64decode(bundle["image/png"])[16:24])


def test_output_keeps_its_order(notebook):
    done = notebook.run("for (i in 1:200) cat('line', i, '\\n'); message('aside'); print(1:3); 'value'; cat('last')")
    assert done.kinds == ["stdout", "stderr", "stdout", "display_data", "stdout"]
    assert done.stream("stdout") == "".join(f"line {i} \n" for i in range(1, 201)) + "[1] 1 2 3\nlast"
    assert done.shown == [{"text/plain": '[1] "value"'}]


def test_a_long_cell_shows_its_progress_while_it_runs(notebook):
    """The cell goes on only when its first line has been read."""
    done = notebook.run(f"cat('first\\n'); {WAIT}; cat('second\\n')", at="first", act=(notebook.folder / "go").touch)
    assert done.stream("stdout") == "first\nsecond\n"


def test_programs_that_r_starts_write_to_the_notebook(notebook):
    """The cell ends only when what the program wrote has been read: a thread of `ipykernel` passes it on."""
    done = notebook.run(f"system('echo from a program'); {WAIT}", at="a program", act=(notebook.folder / "go").touch)
    assert "from a program" in done.stream("stdout")


def test_a_form_feed_clears_the_cell(notebook):
    done = notebook.run("cat('old\\fnew')")
    assert [kind for kind, _ in done.messages] == ["clear_output", "stream"]
    assert done.stream("stdout") == "new"


def test_values_are_printed_as_r_prints_them_and_only_visible_ones(notebook):
    done = notebook.run("x <- c(a = 1, b = NA)\nx\ninvisible(x)\nNULL\nfunction(x) { x # as typed\n}")
    assert [each["text/plain"] for each in done.shown] == [" a  b \n 1 NA ", "NULL", "function(x) { x # as typed\n}"]
    assert [kind for kind, _ in done.messages] == ["display_data", "display_data", "execute_result"]
    assert notebook.run("7; invisible(8)").messages[0][0] == "display_data"
    done = notebook.run("setClass('P', representation(x = 'numeric')); new('P', x = 1)")
    assert done.shown[0]["text/plain"] == 'An object of class "P"\nSlot "x":\n[1] 1\n'


TABLES = {
    "data.frame(n = c(1.5, NA), s = c('<b>', NA), row.names = c('r&1', 'r2'))": [
        ["", "n", "s"],
        ["r&amp;1", "1.5", "<b>"],
        ["r2", "NA", "NA"],
    ],
    "tibble::tibble(f = factor('a'), d = as.Date('2020-01-02'), l = list(1:3))": [
        ["f", "d", "l"],
        ["a", "2020-01-02", "1, 2, 3"],
    ],
    "local({ d <- data.frame(i = 1:2); d$m <- matrix(1:4, 2, dimnames = list(NULL, c('p', 'q'))); d })": [
        ["i", "m.p", "m.q"],
        ["1", "1", "3"],
        ["2", "2", "4"],
    ],
    "data.frame(s = survival::Surv(c(1, 2), c(1, 0)))": [["s"], ["1"], ["2+"]],
    "matrix(c(TRUE, NA), 1, dimnames = list('row', c('u', 'v')))": [["", "u", "v"], ["row", "TRUE", "NA"]],
    "table(g = c('a', 'b'), h = c('x', 'x'))": [["", "x"], ["a", "1"], ["b", "1"]],
    "data.frame(a = character())": [["a"]],
    "matrix(1:2, 1)": [["[,1]", "[,2]"], ["1", "2"]],
}


@pytest.mark.parametrize("code", TABLES)
def test_tables_are_html_and_text(notebook, code):
    (shown,) = notebook.run(code).shown
    assert cells(shown["text/html"]) == TABLES[code]
    assert notebook.run(f"print({code})").stream("stdout") == shown["text/plain"] + "\n"


def test_long_tables_are_cut_and_say_so(notebook):
    (shown,) = notebook.run("as.data.frame(matrix(1:30000, 1000))").shown
    assert (len(cells(shown["text/html"])), len(cells(shown["text/html"])[0])) == (61, 20)
    assert "<p>60 of 1,000 rows, 20 of 30 columns</p>" in shown["text/html"]
    assert "omitted 940 rows" in shown["text/plain"]


def test_a_result_is_a_table_and_the_same_as_in_python(study):
    (shown,) = study.run("fit").shown
    assert shown["text/plain"].startswith("Logit, 1-differential privacy (pure)\n\nCall:\n")
    written = study.run("cat(fit$json)").stream("stdout")
    assert in_r(hdp.Result.from_json(written))._repr_html_() == shown["text/html"]
    assert "(Intercept)" in shown["text/html"]


def test_a_weighted_sample_is_the_page_of_python(study):
    (shown,) = study.run("(sample <- dp_hybrid_weights(another, 'event3', epsilon = 0.5))").shown
    assert shown["text/plain"].startswith("weighted public sample, 0.5-differential privacy (pure)\n")
    written = study.run("cat(sample$json)").stream("stdout")
    assert hdp.WeightedSample.from_json(written)._repr_html_() == shown["text/html"]


def test_several_sites_are_the_pages_of_python(study):
    (shown,) = study.run("together").shown
    assert "Sites: <Bergen>, Oslo" in shown["text/plain"]
    result = hdp.Result.from_json(study.run("cat(together$json)").stream("stdout"))
    assert in_r(result)._repr_html_() == shown["text/html"]
    (shown,) = study.run("groups").shown
    assert hdp.aggregate(in_r(result))._repr_html_() == shown["text/html"]
    assert "<Bergen>" not in shown["text/html"]
    (table,) = study.run("dp_sites(together)").shown
    assert [row[0] for row in cells(table["text/html"])[1:]] == ["<Bergen>", "Oslo"]
    (ledgers,) = study.run("dp_ledger(hospitals)").shown
    assert ledgers["text/html"].count("hdp-meter") >= 2
    for name in ("&lt;Bergen&gt;", "Oslo"):
        assert f"Ledger of dataset &#x27;{name}&#x27;" in ledgers["text/html"]
    (plot,) = study.run("plot(together, which = 'sites')").shown
    assert "image/png" in plot


@pytest.mark.parametrize("code", ["study", "dp_ledger(study)", "dp_plan(event3 ~ age, study)", "dp_tidy(fit)"])
def test_what_belongs_to_a_study_is_html_and_text(study, code):
    (shown,) = study.run(code).shown
    assert set(shown) == {"text/plain", "text/html"}
    assert "<table" in shown["text/html"]


def test_a_ledger_says_what_is_left_and_a_plan_the_errors_of_each_epsilon(study):
    (ledger,) = study.run("dp_ledger(study)").shown
    assert "1 of 5 spent" in ledger["text/html"]
    assert "objective/1</td>" in ledger["text/html"]
    (plan,) = study.run("dp_plan(event3 ~ age, study, epsilon = c(0.5, 2))").shown
    head, *rows = cells(plan["text/html"])
    assert (head, [row[0] for row in rows]) == (
        ["", "public only", "epsilon = 0.5", "epsilon = 2"],
        ["(Intercept)", "age"],
    )
    assert all(float(row[3]) < float(row[2]) < float(row[1]) for row in rows)


def test_a_heading_stands_over_its_cells(notebook):
    (shown,) = notebook.run("data.frame(term = 'a', estimate = 1)").shown
    heads = re.findall(r'<th style="text-align: (\w+)">(\w+)</th>', shown["text/html"])
    assert heads == [("left", "term"), ("right", "estimate")]


def test_a_plot_is_png_and_svg_of_the_size_that_options_ask_for(notebook):
    done = notebook.run("options(repr.plot.width = 4, repr.plot.height = 3, repr.plot.res = 100); plot(1:3)")
    (shown,) = done.shown
    assert png_size(shown) == (400, 300)
    assert (done.messages[0][1]["metadata"]["image/png"]) == {"width": 384, "height": 288}
    drawing = ElementTree.fromstring(shown["image/svg+xml"])
    assert (drawing.get("width"), drawing.get("height")) == ("288pt", "216pt")
    notebook.run("options(repr.plot.width = NULL, repr.plot.height = NULL, repr.plot.res = NULL)")


def test_media_types_can_be_chosen(notebook):
    (shown,) = notebook.run("options(jupyter.plot_mimetypes = 'image/png'); plot(1:3)").shown
    assert set(shown) == {"text/plain", "image/png"}
    notebook.run("options(jupyter.plot_mimetypes = NULL)")


def test_each_page_is_shown_once_when_it_is_complete(notebook):
    pages = notebook.run("plot(1:3)\nlines(3:1)\nfor (i in 1:2) hist(c(1, 2, i))\n'between'\nbarplot(1:3)").shown
    assert [("image/png" in each) for each in pages] == [True, True, False, True, True]
    assert len({each["image/png"] for each in pages if "image/png" in each}) == 4
    assert len(notebook.run("par(mfrow = c(1, 2)); plot(1); plot(2)").shown) == 1
    assert len(notebook.run("plot(1)").shown) == 1
    assert notebook.run("old <- par(mar = c(1, 1, 1, 1)); n <- layout(matrix(1:2, 1))").shown == []


def test_a_page_of_grid_graphics_is_shown(notebook):
    (shown,) = notebook.run("grid::grid.newpage(); grid::grid.text('π')").shown
    assert "image/svg+xml" in shown
    (shown,) = notebook.run("lattice::xyplot(1:3 ~ 1:3)").shown
    assert "image/png" in shown


def test_a_plot_is_shown_even_when_the_cell_fails_and_not_again_later(notebook):
    done = notebook.run("plot(1:3); stop('after it')")
    assert [kind for kind, _ in done.messages] == ["display_data", "error"]
    assert notebook.run("1").shown == [{"text/plain": "[1] 1"}]


def test_devices_of_the_user_are_left_alone(notebook):
    done = notebook.run("png('own.png'); plot(1:3); invisible(dev.off()); plot(1:2)")
    assert len(done.shown) == 1
    assert (notebook.folder / "own.png").stat().st_size > 1000
    (notebook.folder / "own.png").unlink()


def test_help_is_a_page_also_for_the_functions_of_the_package(notebook):
    for code, title in {"?mean": "Arithmetic Mean", "help(dp_hazard)": "private"}.items():
        done = notebook.run(code)
        (page,) = done.reply["payload"]
        assert page["source"] == "page"
        assert title in page["data"]["text/plain"]
        assert done.shown == []
    assert "No documentation for ‘no_such_topic’" in notebook.run("?no_such_topic").shown[0]["text/plain"]


def test_other_packages_say_what_a_notebook_shows_of_their_objects(notebook):
    method = (
        "registerS3method('repr_html', 'badge', function(obj, ...) paste0('<b>', obj, '</b>'), asNamespace('repr'))"
    )
    (shown,) = notebook.run(f"{method}; structure('new', class = 'badge')").shown
    assert shown["text/html"] == "<b>new</b>"
    assert "new" in shown["text/plain"]
    failing = "registerS3method('repr_html', 'badge', function(obj, ...) stop('no'), asNamespace('repr'))"
    assert "text/html" not in notebook.run(f"{failing}; structure('new', class = 'badge')").shown[0]


def test_view_shows_a_table_in_the_notebook(notebook):
    (shown,) = notebook.run("View(data.frame(a = 1:2))").shown
    assert cells(shown["text/html"]) == [["a"], ["1"], ["2"]]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("dp_logit(event3 ~ age, ", "dp_logit(formula, data, epsilon"),
        ('summary(dp_logit(event3 ~ age, "a (b", # (\n  nobody_knows', "dp_logit(formula, data, epsilon"),
        ("x <- stats::quantile(c(1, 2), probs = ", "stats::quantile(x"),
        ("mean(1)", ""),
        ("f <- function(x) { ", ""),
    ],
)
def test_inside_a_call_the_arguments_of_its_function_are_shown(notebook, code, words):
    reply = notebook.ask("inspect", code, len(code))
    assert reply["found"] is bool(words)
    assert words in reply["data"].get("text/plain", "")


def test_warnings_come_after_the_cell_as_r_writes_them(notebook):
    done = notebook.run("f <- function() warning('first'); f(); x <- as.integer('a'); print('then')")
    assert done.stream("stderr") == "Warning messages:\n1: In f(): first\n2: NAs introduced by coercion\n"
    assert done.messages[-1][1]["name"] == "stderr"
    assert "first" in notebook.run("warnings()").shown[0]["text/plain"]
    assert notebook.run("suppressWarnings(as.integer('a'))").stream("stderr") == ""
    done = notebook.run("options(warn = 2); as.integer('a')")
    assert done.reply["evalue"] == "(converted from warning) NAs introduced by coercion"
    done = notebook.run("options(warn = 1); warning('now'); 1")
    assert (done.kinds[0], done.stream("stderr")) == ("stderr", "Warning: now\n")
    assert notebook.run("options(warn = -1); warning('never'); options(warn = 0)").messages == []
