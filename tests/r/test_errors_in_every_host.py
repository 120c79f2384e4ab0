"""Errors are the same classed conditions with the same words in every host, and cost nothing."""

from pathlib import Path

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from r_bridge.functions import in_words_of_r
from tests.r.hosts import HOSTS, run

SETUP = """
library(hdpstats)
schema <- dp_schema(age = dp_continuous(20, 90), nodes = dp_continuous(0, 40, missing = 1), event3 = dp_binary())
opened <- function(private = dp_load_rotterdam(), ...) dp_study(private = private, schema = schema, ...)
study <- opened(public = dp_load_gbsg(), ledger = dp_ledger_open("ledger.db", dataset = "r", epsilon = 1))
listed <- dp_load_rotterdam()
listed$nodes <- as.list(listed$nodes)
table <- dp_load_rotterdam()
table$nodes <- cbind(table$nodes, 1)
lacking <- dp_load_rotterdam()[c("age", "nodes")]
halves <- split(dp_load_rotterdam(), rep(c("Bergen", "Oslo"), c(1000, 1982)))
both <- opened(halves, public = dp_load_gbsg(), budget = dp_budget(1))
"""
"""What a user has when the mistakes below happen."""


def study() -> hdp.Study:
    """Return Python's own study of that kind."""
    columns = {
        "age": hdp.Continuous(20, 90, complete=True),
        "nodes": hdp.Continuous(0, 40, missing=1),
        "event3": hdp.Binary(complete=True),
    }
    return hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=hdp.datasets.load_gbsg(),
        schema=hdp.Schema(columns),
        ledger=hdp.Ledger("ledger.db", dataset="r", epsilon=1),
    )


def both(**changes: object) -> hdp.Study:
    """Return Python's own study of two sites."""
    rows = hdp.datasets.load_rotterdam()
    parts = {
        "private": {"Bergen": rows.iloc[:1000], "Oslo": rows.iloc[1000:]},
        "public": hdp.datasets.load_gbsg(),
        "schema": study().schema,
        "budget": hdp.Budget(epsilon=1),
    }
    return hdp.Study(**(parts | changes))


def twice() -> hdp.Study:
    """Return what Python makes of the same rows at two sites."""
    rows = hdp.datasets.load_rotterdam()
    return both(private={"A": rows, "B": rows})


ARGUMENT, FORMULA, SCHEMA = "dp_argument_error dp_error", "dp_formula_error dp_error", "dp_schema_error dp_error"
MISTAKES = {
    "overspent ledger": (
        "dp_logit(event3 ~ age, study, 2)",
        "dp_insufficient_budget dp_budget_error dp_error",
        lambda: hdpf.logit("event3 ~ age", data=study()).fit(epsilon=2),
    ),
    "other total": (
        "dp_ledger_open('ledger.db', dataset = 'r', epsilon = 3)",
        "dp_ledger_error dp_error",
        lambda: hdp.Ledger("ledger.db", dataset="r", epsilon=3),
    ),
    "bad formula": (
        "dp_logit('event3 ~ +* age', study, 1)",
        FORMULA,
        lambda: hdpf.logit("event3 ~ +* age", data=study()),
    ),
    "code in a formula": (
        "dp_logit(event3 ~ system('id'), study, 1)",
        FORMULA,
        lambda: hdpf.logit('event3 ~ system("id")', data=study()),
    ),
    "column that nobody declared": (
        "dp_logit(event3 ~ size, study, 1)",
        FORMULA,
        lambda: hdpf.logit("event3 ~ size", data=study()),
    ),
    "column that is missing": (
        "opened(lacking, budget = dp_budget(1))",
        SCHEMA,
        lambda: hdp.Study(
            private=hdp.datasets.load_rotterdam()[["age", "nodes"]],
            schema=study().schema,
            budget=hdp.Budget(epsilon=1, delta=0),
        ),
    ),
    "column that new rows lack": (
        "predict(dp_fit_public(event3 ~ age + nodes, study), data.frame(age = 50))",
        SCHEMA,
        lambda: hdpf.logit("event3 ~ age + nodes", data=study()).fit_public().predict(pd.DataFrame({"age": [50]})),
    ),
    "negative epsilon": (
        "dp_logit(event3 ~ age, study, -1)",
        ARGUMENT,
        lambda: hdpf.logit("event3 ~ age", data=study()).fit(epsilon=-1),
    ),
    "no account": (
        "opened()",
        ARGUMENT,
        lambda: hdp.Study(private=hdp.datasets.load_rotterdam(), schema=study().schema),
    ),
    "list column, no schema": (
        "dp_study(private = listed, budget = dp_budget(1))",
        ARGUMENT,
        "column 'nodes' is a list, which a table here cannot hold: make it a vector, or drop it",
    ),
    "NULL for data": ("dp_logit(event3 ~ age, NULL, 1)", ARGUMENT, "logit needs data, which is missing or NULL"),
    "NULL for a formula": ("dp_logit(NULL, study, 1)", ARGUMENT, "logit needs formula, which is missing or NULL"),
    "NULL for a bound": (
        "dp_continuous(NULL, 3)",
        ARGUMENT,
        "a continuous column needs lower, which is missing or NULL",
    ),
    "list column": (
        "opened(listed, budget = dp_budget(1))",
        ARGUMENT,
        "column 'nodes' is a list, which a table here cannot hold: make it a vector, or drop it",
    ),
    "matrix column": (
        "opened(table, budget = dp_budget(1))",
        ARGUMENT,
        "column 'nodes' is a matrix, which a table here cannot hold: give its columns names of their own, or drop it",
    ),
    "unknown argument": (
        "dp_logit(event3 ~ age, study, 1, epsilonn = 1)",
        ARGUMENT,
        "logit has no argument 'epsilonn'; it takes formula, data, weights, offset, row_norm, correlation, weighting, "
        "epsilon, delta, mechanism, se_share, replicate, allow_large_epsilon, description, describe",
    ),
    "what is no result": ("dp_tidy(3)", ARGUMENT, "x must be a dp_result, not float"),
    "what is no ledger": ("dp_ledger(3)", ARGUMENT, "ledger must be a dp_ledger or a dp_study"),
    "unknown argument of a study": (
        "opened(lacking, budget = dp_budget(1), rows = 3)",
        ARGUMENT,
        "study has no argument 'rows'; it takes private, public, schema, ledger, budget, relation, unit, "
        "max_rows_per_unit, n_max, row_order, deadline, quorum, engine",
    ),
    "overspent ledgers of sites": (
        "dp_logit(event3 ~ age, both, c(Oslo = 3, Bergen = 2))",
        "dp_insufficient_budget dp_budget_error dp_error",
        lambda: hdpf.logit("event3 ~ age", data=both()).fit(epsilon={"Oslo": 3, "Bergen": 2}),
    ),
    "epsilon of other sites": (
        "dp_logit(event3 ~ age, both, c(Oslo = 0.5, Berlin = 0.5))",
        ARGUMENT,
        lambda: hdpf.logit("event3 ~ age", data=both()).fit(epsilon={"Oslo": 0.5, "Berlin": 0.5}),
    ),
    "epsilon of some sites": (
        "dp_logit(event3 ~ age, both, list(Oslo = 0.5))",
        ARGUMENT,
        lambda: hdpf.logit("event3 ~ age", data=both()).fit(epsilon={"Oslo": 0.5}),
    ),
    "the same rows at two sites": (
        "opened(list(A = listed <- halves$Oslo, B = listed), budget = dp_budget(1))",
        ARGUMENT,
        twice,
    ),
    "budgets of other sites": (
        "opened(halves, budget = list(Oslo = dp_budget(1)))",
        ARGUMENT,
        lambda: both(budget={"Oslo": hdp.Budget(epsilon=1)}),
    ),
    "numbers of people at other sites": (
        "opened(halves, budget = dp_budget(1), relation = 'add_or_remove_one', n_max = c(Oslo = 5000, Berlin = 9000))",
        ARGUMENT,
        lambda: both(relation="add_or_remove_one", n_max={"Oslo": 5000, "Berlin": 9000}),
    ),
    "more answers than sites": (
        "opened(halves, budget = dp_budget(1), quorum = 3)",
        ARGUMENT,
        lambda: both(quorum=3),
    ),
    "a site that is none": ("dp_at(both, 'Berlin')", ARGUMENT, lambda: both().at("Berlin")),
    "what is for one site": (
        "dp_hybrid_weights(both, 'age', 1)",
        "dp_mechanism_error dp_error",
        lambda: hdp.hybrid_weights(both(), ["age"], epsilon=1),
    ),
    "a distribution of numbers above 0": (
        "dp_distribution(nodes ~ 1, both, 1, family = 'gamma')",
        ARGUMENT,
        lambda: hdpf.distribution("nodes ~ 1", data=both(), family="gamma"),
    ),
    "ranges that no distribution tells": (
        "dp_distribution(nodes ~ 1, both, 1, family = 'exponential')",
        ARGUMENT,
        lambda: hdpf.distribution("nodes ~ 1", data=both(), family="exponential"),
    ),
    "groups that are none": (
        "dp_aggregate(list(North = list()))",
        ARGUMENT,
        lambda: hdp.aggregate({"North": []}),
    ),
}
"""Mistake: R code, the classes of the condition, and Python's own error or, where only R can err so, its words."""


def told(mistakes: dict[str, str]) -> str:
    """Return R code that makes each mistake and prints a line: its name, the classes, the message and the call."""
    lines = [
        SETUP,
        "told <- function(name, code) {",
        "  e <- tryCatch({ code; stop('no error') }, error = identity)",
        "  call <- substr(paste(deparse(conditionCall(e)), collapse = ' '), 1, 200)",
        "  message <- gsub('\\n', '\\\\n', conditionMessage(e), fixed = TRUE)",
        "  cat('told', name, paste(class(e), collapse = ' '), message, call, sep = '\\t')",
        "  cat('\\n')",
        "}",
        *[f"told({name!r}, {code})" for name, code in mistakes.items()],
        "cat('spent', dp_ledger(study)$spent[['epsilon']], nrow(as.data.frame(dp_ledger(study))), '\\n')",
        "cat('charges at sites', nrow(as.data.frame(dp_ledger(both))), '\\n')",
    ]
    return "\n".join(lines)


def words(expected: object, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the message of Python's own error."""
    if isinstance(expected, str):
        return expected
    monkeypatch.chdir(folder)
    with pytest.raises(hdp.HdpError) as caught:
        expected()
    return str(caught.value)


@pytest.mark.parametrize(
    "host", [host if host == "Rscript" else pytest.param(host, marks=pytest.mark.wide) for host in HOSTS]
)
def test_a_mistake_is_a_classed_condition_with_pythons_message_in_words_of_r(
    host, library, plain_r, tmp_path, monkeypatch
):
    code = told({name: code for name, (code, _, _) in MISTAKES.items()})
    if host == "Rscript":
        done = plain_r.run(code, folder=tmp_path)
    else:
        done = run(host, code, folder=tmp_path, library=library)
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    found = {name: rest for _, name, *rest in (line.split("\t") for line in printed.splitlines() if "\t" in line)}
    for name, (_, classes, expected) in MISTAKES.items():
        kinds, message, call = found[name]
        assert kinds == f"{classes} error condition", name
        assert message.replace("\\n", "\n") == in_words_of_r(words(expected, tmp_path, monkeypatch)), name
        assert call.startswith(("dp_", "opened(", "predict")), name
    assert "spent 0 0 \n" in printed
    assert "charges at sites 0 \n" in printed


CALLBACK = """
library(hdpstats)
invisible(dp_available())
reticulate::py_run_string("
import hdpstats.api as hdp
from r_bridge import RError
from r_bridge.functions import FUNCTIONS
def probe(f):
    try:
        f()
    except RError as error:
        return f'{error.classes}|{error}'
    except hdp.SchemaError as error:
        raise hdp.BudgetError(f'seen in Python: {error}')
FUNCTIONS['probe'] = probe
")
mine <- structure(list(message = "no fit", call = NULL), class = c("mine", "error", "condition"))
cat(hdpstats:::.py("probe", list(f = function() stop(mine))), "\\n")
e <- tryCatch(hdpstats:::.py("probe", list(f = function() dp_continuous(2, 1))), error = identity)
cat(class(e), "|", conditionMessage(e), "\\n")
"""


def test_an_error_of_r_in_a_callback_is_a_python_exception_in_plain_r_too(plain_r, tmp_path):
    done = plain_r.run(CALLBACK, folder=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    first, second = done.stdout.decode().splitlines()
    assert first == "('mine', 'error', 'condition')|no fit "
    assert second.startswith("dp_budget_error dp_error error condition | seen in Python: lower must be below upper")
