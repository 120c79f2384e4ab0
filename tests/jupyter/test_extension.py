"""%load_ext hdpstats.jupyter in a kernel: what is shown, what is refused, and that nothing is spent."""

import os
import re

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.display import STYLE
from hdpstats.jupyter import Accounts
from tests.jupyter.session import session
from tests.waiting import GENEROUS

SETUP = """
%load_ext hdpstats.jupyter
import hdpstats.api as hdp, pandas as pd
canary = 61.2345678987
rows = pd.DataFrame({"age": [35.0, canary, 52.0, 80.0] * 50, "event3": [0, 1, 1, 0] * 50})
schema = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True), event3=hdp.Binary(complete=True),
    time=hdp.Duration(100, complete=True), event=hdp.Binary(complete=True),
)
ledger = hdp.Ledger(None, dataset="<trial>", epsilon=3, delta=1e-6)
study = hdp.Study(private=rows.assign(time=9.0, event=0), public=hdp.datasets.load_gbsg(), schema=schema, ledger=ledger)
"""


@pytest.fixture(scope="module")
def notebook():
    with session() as made:
        assert made.run(SETUP).error is None
        yield made
        assert (
            made.value("float(ledger.spent.epsilon), float(ledger.spent.delta)") == "(0.0, 0.0)"
        )  # nothing here spends


def refusal(reply):
    """Return the one line that a refused magic writes."""
    assert reply.shown == []
    assert reply.text("stdout") == ""
    text = reply.text("stderr")
    assert text.startswith("UsageError: ")
    assert "Traceback" not in reply.everything
    assert len(text.strip().splitlines()) == 1
    return text


def test_alone_it_is_help(notebook):
    for line in ("%hdp", "%hdp help", "%hdp --help"):
        text = notebook.run(line).text()
        assert "%hdp ledger" in text
        assert "%hdp plan" in text
    assert "--epsilon" in notebook.run("%hdp plan --help").text()


def test_a_ledger_is_shown_with_its_bar(notebook):
    (shown,) = notebook.run("%hdp ledger").shown
    assert "0 of 3 spent" in shown["text/html"]
    assert 'class="hdp-bar"' in shown["text/html"]
    assert "&lt;trial&gt;" in shown["text/html"]
    assert "<trial>" not in shown["text/html"]
    assert shown["text/plain"].startswith("Ledger of dataset '<trial>', version 1, in memory")
    for name in ("ledger", "study"):
        assert notebook.run(f"%hdp ledger {name}").shown == [shown]


def test_a_schema_is_shown(notebook):
    (shown,) = notebook.run("%hdp schema").shown
    assert "20 to 90" in shown["text/html"]
    assert notebook.run("%hdp schema study").shown == [shown]


def test_a_plan_is_shown_and_can_be_kept(notebook):
    reply = notebook.run('%hdp plan "event3 ~ age" --epsilon 0.1 1')
    assert "epsilon = 0.1" in reply.shown[-1]["text/html"]
    again = notebook.run("%hdp plan event3 ~ age --epsilon 0.1 1 --data study --model logit")
    assert again.shown[-1] == reply.shown[-1]
    assert notebook.value('p = %hdp plan "event3 ~ age" --n 1000\np.records, len(p.verdicts)') == "(1000, 4)"


def test_a_plan_with_a_delta(notebook):
    line = '%hdp plan "event3 ~ age" --epsilon 1 --delta 1e-6'
    assert "mechanism clipped_newton" in notebook.run(f"{line} --mechanism clipped_newton").shown[-1]["text/html"]
    assert "mechanism objective" in notebook.run(f"{line} --mechanism objective").shown[-1]["text/html"]


def test_a_survival_formula_is_planned_as_a_hazard_model(notebook):
    line = '%hdp plan "Surv(time, event) ~ age" --epsilon 1 --intervals 4 --link cloglog'
    assert "baseline[1]" in notebook.run(line).shown[-1]["text/html"]
    line = '%hdp plan "Surv(time, event) ~ age" --epsilon 1 --intervals 25 50 100'
    assert "baseline[1]" in notebook.run(line).shown[-1]["text/html"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%hdp spend", "%hdp has no 'spend'; it has ledger, schema, plan"),
        ("%hdp ledger one two", "unrecognized arguments: two"),
        ("%hdp ledger nothing", "there is no object 'nothing'; name one of ledger"),
        ("%hdp ledger rows", "'rows' has no ledger"),
        ("%hdp schema ledger", "'ledger' has no schema"),
        ("%hdp plan", "required: FORMULA"),
        ('%hdp plan "event3 ~ age', "no closing quotation"),
        ("%hdp plan event3~age --epsilon much", "invalid float value: 'much'"),
        ("%hdp plan event3~age --epsilon -1", "epsilon"),
        ("%hdp plan event3~height", "height"),
        ("%hdp plan event3~age --data rows", "'rows' has no study"),
        ("%hdp plan event3~age --link logit", "hazard models only"),
        ("%hdp plan event3~age --model cox", "invalid choice: 'cox'"),
        ("%hdp plan event3~age --replicate 2", "--replicate"),
        ("%hdp plan event3~age --delta 1e-6 --mechanism newton", "mechanism"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(notebook, line, words):
    assert words in refusal(notebook.run(line))


def test_several_candidates_are_named_and_none_is_chosen(notebook):
    notebook.run(
        'other = hdp.Ledger(None, dataset="other", epsilon=1); _hidden = hdp.Ledger(None, dataset="h", epsilon=1)'
    )
    try:
        text = refusal(notebook.run("%hdp ledger"))
        assert "ledger, other" in text
        assert "_hidden" not in text
        assert "of 1 spent" in notebook.run("%hdp ledger other").shown[-1]["text/html"]
    finally:
        notebook.run("del other, _hidden")


HOSPITALS = """
halves = {"<Oslo>": rows.iloc[:120], "Bergen": rows.iloc[120:]}
accounts = {name: hdp.Ledger(None, dataset=name, epsilon=3) for name in halves}
bergen = accounts["Bergen"]
hospitals = hdp.Study(private=halves, public=hdp.datasets.load_gbsg(), ledger=accounts,
                      schema=hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event3=hdp.Binary(complete=True)))
one = hospitals.at("Bergen")
"""


def test_a_study_of_several_sites_shows_every_account_and_is_planned():
    with session() as made:
        assert made.run(SETUP.partition("schema =")[0]).error is None
        assert made.run(HOSPITALS).error is None
        (shown,) = made.run("%hdp ledger").shown
        assert "Privacy spent at &lt;Oslo&gt;" in shown["text/html"]
        assert "Privacy spent at Bergen" in shown["text/html"]
        assert "<Oslo>" not in shown["text/html"]
        assert "<Oslo>: Ledger of dataset '<Oslo>', version 1" in shown["text/plain"]
        assert made.run("%hdp ledger hospitals").shown == [shown]
        (alone,) = made.run("%hdp ledger one").shown
        assert made.run("%hdp ledger bergen").shown == [alone]
        assert "Ledger of dataset &#x27;Bergen&#x27;" in alone["text/html"]
        plan = made.run('%hdp plan "event3 ~ age" --epsilon 0.5 1 --data hospitals')
        assert "200 private records" in plan.shown[-1]["text/html"]
        assert "several objects have a study: hospitals, one" in refusal(made.run('%hdp plan "event3 ~ age"'))
        made.run("another = hdp.Ledger(None, dataset='another', epsilon=1)")
        assert "several objects have a ledger: hospitals, another" in refusal(made.run("%hdp ledger"))
        for name in ("hospitals", "one", "hospitals.sites", "%hdp ledger hospitals", "%hdp schema hospitals"):
            reply = made.run(name)
            assert reply.error is None
            assert "61.23" not in reply.everything
        code = "[float(each.spent.epsilon) for each in hospitals.ledgers.values()]"
        assert made.value(code) == "[0.0, 0.0]"
        made.run("import hdpstats.formula.api as hdpf")
        fit = made.run("hdpf.logit('event3 ~ age', data=hospitals).fit(epsilon={'<Oslo>': 1, 'Bergen': 0.5})")
        assert fit.error is None
        assert (
            '<th style="text-align: left">&lt;Oslo&gt;</th><td style="text-align: left">answered</td>'
            in fit.shown[-1]["text/html"]
        )
        assert made.value(code) == "[1.0, 0.5]"
        after = made.run("%hdp ledger hospitals").shown[-1]["text/html"]
        assert "1 of 3 spent" in after
        assert "0.5 of 3 spent" in after
        assert "Bergen: 1 charge<" in after


def test_without_any_candidate_the_remedy_is_named():
    with session() as empty:
        empty.run("%load_ext hdpstats.jupyter")
        for line, remedy in (("ledger", "hdp.Ledger("), ("schema", "hdp.Schema("), ("plan y~x", "hdp.Study(")):
            text = refusal(empty.run(f"%hdp {line}"))
            assert "there is no" in text
            assert remedy in text


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%hdp ", {"help", "ledger", "plan", "schema"}),
        ("%hdp le", {"ledger"}),
        ("%hdp ledger ", {"ledger"}),
        ("%hdp schema s", {"schema"}),
        ("%hdp plan y~x --data ", {"study"}),
        ("%hdp plan y~x --ep", {"--epsilon"}),
        ("%hdp plan y~x --link c", {"cloglog"}),
    ],
)
def test_words_are_completed(notebook, line, found):
    notebook.client.complete(line, len(line))
    while True:
        content = notebook.client.get_shell_msg(timeout=GENEROUS)["content"]
        if "matches" in content:
            break
    assert found <= set(content["matches"])
    assert all(match.startswith(line.rpartition(" ")[2]) for match in content["matches"])


def test_no_row_is_shown(notebook):
    for name in ("study", "ledger", "schema", "study.site"):
        reply = notebook.run(name)
        assert reply.error is None
        assert "61.23" not in reply.everything
    for line in ("%hdp ledger", "%hdp schema", '%hdp plan "event3 ~ age"'):
        assert "61.23" not in notebook.run(line).everything


def test_the_extension_can_go_and_come_back(notebook):
    notebook.run("%unload_ext hdpstats.jupyter")
    assert "not found" in notebook.run("%hdp").text("stderr")
    assert "not found" in notebook.run("%%R\n1").text("stderr")
    notebook.run("%load_ext hdpstats.jupyter")
    assert "%hdp ledger" in notebook.run("%hdp").text()
    notebook.run("%reload_ext hdpstats.jupyter")
    assert "%hdp ledger" in notebook.run("%hdp").text()


CLOCK = "import tqdm.std\ninstant = [0.0]\ntqdm.std.time = lambda: instant[0]\n"
"""A clock for the bars of `tqdm` that moves only where a cell moves it."""


def test_a_long_computation_has_a_bar_and_a_short_one_has_none(notebook):
    assert notebook.run(CLOCK).error is None
    loop = "from hdpstats._base.progress import progress\nfor _ in progress(range(6), label='draws'): "
    (bar,) = notebook.run(f"{loop}instant[0] += 0.3").shown
    assert "application/vnd.jupyter.widget-view+json" in bar
    assert "draws" in bar["text/plain"]
    assert notebook.run(f"{loop}pass").messages == []


def test_without_widgets_the_bar_is_text():
    with session() as plain:
        code = "import sys; sys.modules['ipywidgets'] = None\nfrom hdpstats._base.progress import progress\n"
        reply = plain.run(f"{CLOCK}{code}for _ in progress(range(6), label='draws'): instant[0] += 0.3")
        assert reply.shown == []
        assert "draws:" in reply.text("stderr")
        assert "Warning" not in reply.text("stderr")


@pytest.mark.parametrize("lacking", ["R", pytest.param("rpy2", marks=pytest.mark.wide)])
def test_without_r_the_extension_works_and_a_cell_says_what_to_install(lacking):
    environment = {key: value for key, value in os.environ.items() if key != "R_HOME"}
    if lacking == "R":
        environment["PATH"] = "/nowhere"
    with session(env=environment) as bare:
        if lacking == "rpy2":
            bare.run("import sys; sys.modules['rpy2'] = None")
        assert bare.run("%load_ext hdpstats.jupyter").messages == []
        assert "%hdp ledger" in bare.run("%hdp").text()
        name, message, _ = bare.run("%%R\n1 + 1").error
        assert name == "ImportError"
        assert "apt-get install r-base-core" in message
        assert "'.[r-cells]'" in message


def shapes(page):
    """Return the elements of a page with their classes, without its texts and its stylesheet."""
    return re.findall(r"<(\w+)(?: class=\"([^\"]*)\")?", page.replace(STYLE, ""))


def test_the_shape_of_pages(snapshot):
    schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event3=hdp.Binary(complete=True))
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, delta=1e-6, gaussian=hdp.Budget(1, 5e-7))
    public = hdp.datasets.load_gbsg()
    study = hdp.Study(private=public.copy(), public=public, schema=schema, ledger=ledger)
    plan = hdpf.logit("event3 ~ age", data=study).plan([0.5, 1])
    sites = hdp.Study(private=[public.copy(), public.copy()], public=public, schema=schema, budget=hdp.Budget(3))
    shown = (schema, ledger, study, plan, sites, Accounts.of(sites))
    before = [each._repr_html_() for each in shown]
    assert [each._repr_html_() for each in shown] == before
    assert [shapes(page) for page in before] == snapshot


def test_a_bar_shows_what_was_spent_and_what_is_set_aside():
    ledger = hdp.Ledger(None, dataset="trial", epsilon=4, delta=1e-6, gaussian=hdp.Budget(1, 5e-7))
    public = hdp.datasets.load_gbsg()
    schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event3=hdp.Binary(complete=True))
    study = hdp.Study(private=public.copy(), public=public, schema=schema, ledger=ledger)
    result = hdpf.logit("event3 ~ age", data=study).fit(epsilon=1, describe=False)
    page = ledger._repr_html_()
    assert '<span class="hdp-filled" style="width: 25%"></span>' in page
    assert '<span class="hdp-reserved" style="width: 25%"></span>' in page
    assert "1 of 4 spent" in page
    assert "event3 ~ 1 + age" in page
    assert "1 charge<" in page
    assert "1 of 4 spent" in study._repr_html_()
    assert r"\begin{tabular}" in result._repr_latex_()
