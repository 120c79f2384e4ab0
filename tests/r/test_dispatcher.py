"""What R gets when it calls Python: values, warnings, printed text, classed conditions; never data in a message."""

import gc
import warnings

import pandas as pd
import pytest

import hdpstats.api as hdp
import r_bridge
from r_bridge import RError, from_r, handles
from r_bridge.functions import FUNCTIONS, answer
from r_bridge.guard import RWarning, guarded

STUDY = """local({
  schema <- .py("schema", list(columns = list(
    age = list(kind = "continuous", lower = 20, upper = 90),
    size = list(kind = "categorical", levels = c("<=20", "20-50", ">50")),
    time = list(kind = "duration", horizon = 2557),
    event = list(kind = "binary"), event3 = list(kind = "binary")
  )))
  .py("study", list(
    private = .py("load_rotterdam"), public = .py("load_gbsg"), schema = schema,
    budget = .py("budget", list(epsilon = 2))
  ))
})"""


@pytest.fixture
def study(evaluate):
    evaluate(f"study <- {STUDY}")


@pytest.fixture
def function(monkeypatch):
    """Register a Python function that R can call as ``probe``."""
    return lambda run: monkeypatch.setitem(FUNCTIONS, "probe", run)


def condition(evaluate, code):
    """Return class, message and fields of the condition that R code raises."""
    caught = f"tryCatch({{ {code}; NULL }}, condition = function(e) c(unclass(e), list(class = class(e))))"
    found = evaluate(caught)
    fields = {key: each for key, each in zip(found.do_slot("names"), found, strict=True) if key != "call"}
    return {key: from_r(each) for key, each in fields.items()}


def test_a_fit_in_r_is_the_release_that_python_would_read(evaluate, study):
    evaluate('fit <- .py("logit", list(formula = event3 ~ age + factor(size), data = study, epsilon = 1))')
    text = from_r(evaluate("fit$json"))
    result = hdp.Result.from_json(text)
    names = ["(Intercept)", "age", "factor(size)20-50", "factor(size)>50"]  # in R; Python's are in the text
    assert from_r(evaluate("fit$coefficients")).to_dict() == dict(zip(names, result.params, strict=True))
    covariance = result.cov_params().set_axis(names, axis=0).set_axis(names, axis=1)
    pd.testing.assert_frame_equal(from_r(evaluate("fit$vcov")), covariance, check_names=False)
    assert from_r(evaluate("fit")).params.index.tolist() == result.params.index.tolist()
    assert from_r(evaluate("class(fit)")).tolist() == ["dp_logit", "dp_result"]
    assert from_r(evaluate("fit$nobs")) == result.facts.records
    assert from_r(evaluate("fit")).to_json() == text


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("logit", "list(formula = event3 ~ age, data = study, epsilon = c(0.5, 1), se_share = 0.1)"),
        ("hazard", "list(formula = Surv(time, event) ~ age, data = study, intervals = 12, df = 3, epsilon = 1)"),
        pytest.param(
            "hazard",
            "list(formula = Surv(time, event) ~ age, data = study, intervals = c(365, 1000, 2557), df = 2)",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_numbers_of_r_are_what_python_expects(evaluate, study, model, options):
    plan = from_r(evaluate(f'.py("{model}_plan", {options})$frame'))
    assert set(plan["term"]) >= {"age"}
    assert (plan["std_error"] > 0).all()


@pytest.mark.parametrize("given", ["c(age = 0.01)", pytest.param("list(age = 0.01)", marks=pytest.mark.wide)])
def test_a_plan_for_standard_errors_takes_them_by_r_s_names(evaluate, study, given):
    text = from_r(evaluate(f'.py("logit_plan", list(formula = event3 ~ age, data = study, std_error = {given}))$text'))
    assert "age: a standard error of 0.01 " in text
    evaluate("wanted <- c(9); names(wanted) <- '(Intercept)'")
    asked = "list(formula = event3 ~ age, data = study, std_error = wanted)"
    assert "(Intercept): a standard error of 9 needs" in from_r(evaluate(f'.py("logit_plan", {asked})$text'))


def test_a_model_and_a_mechanism_take_only_their_own_options(evaluate, study):
    made = '.py("logit", list(formula = event3 ~ age, data = study, epsilon = 1, %s))'
    found = condition(evaluate, made % "epsilonn = 1")
    assert found["class"].tolist()[:2] == ["dp_argument_error", "dp_error"]
    assert found["message"].startswith("dp_logit has no argument 'epsilonn'; it takes formula, data, weights")
    found = condition(evaluate, made % 'mechanism = list(name = "clipped_newton", round = 2)')
    assert found["message"].startswith("mechanism 'clipped_newton' has no argument 'round'; it takes rounds")
    found = condition(evaluate, made % 'mechanism = list(name = "magic")')
    assert found["class"].tolist()[0] == "dp_mechanism_error"


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ("formula = event3 ~ age, data = study, epsilon = 2.5", "dp_insufficient_budget", "left of (epsilon = 2"),
        ("formula = event3 ~ nothere, data = study, epsilon = 1", "dp_formula_error", "nothere"),
        ("formula = event3 ~ log(age - 30), data = study, epsilon = 1", "dp_formula_error", ""),
        ("formula = NULL, data = study, epsilon = 1", "dp_argument_error", "dp_logit needs formula"),
        ("formula = event3 ~ age, data = NULL, epsilon = 1", "dp_argument_error", "dp_logit needs data"),
        (
            "formula = event3 ~ age, data = data.frame(a = 1), epsilon = 1",
            "dp_argument_error",
            "must be a dp_study",
        ),
        ("formula = event3 ~ age, data = study, epsilon = NA", "dp_argument_error", "epsilon"),
        ("formula = event3 ~ age, data = study, epsilon = 'one'", "dp_argument_error", "epsilon"),
    ],
)
def test_errors_of_users_are_classed_conditions_with_the_message_of_python(evaluate, study, arguments, kind, words):
    found = condition(evaluate, f'.py("logit", list({arguments}))')
    assert found["class"].tolist()[0] == kind
    assert found["class"].tolist()[-3:] == ["dp_error", "error", "condition"]
    assert words in found["message"]


def test_facts_of_an_error_are_fields_of_the_condition(evaluate, study):
    found = condition(evaluate, '.py("logit", list(formula = event3 ~ age, data = study, epsilon = 2.5))')
    assert found["requested"].to_dict() == {"epsilon": 2.5, "delta": 0.0}
    assert found["remaining"].to_dict() == {"epsilon": 2.0, "delta": 0.0}


def test_an_unknown_function_says_that_the_two_packages_differ(evaluate):
    assert "install the R package that came with it" in condition(evaluate, '.py("nope")')["message"]


def test_an_error_inside_shows_its_type_and_place_and_no_cell(evaluate, function):
    def fail(frame):
        return float(frame["name"].iloc[0])

    function(fail)
    found = condition(evaluate, '.py("probe", list(frame = data.frame(name = "Jane Doe")))')
    assert found["class"].tolist() == ["dp_internal_error", "dp_error", "error", "condition"]
    assert found["message"].startswith("an internal error of type ValueError (test_dispatcher.py, line")
    assert "Jane" not in str(found)


def test_the_call_of_a_condition_shows_no_data(evaluate):
    code = 'f <- function(private) .py("nope", call = match.call())'
    shown = f"{{ {code}; tryCatch(do.call(f, list(private = data.frame(x = 424242))), error = function(e) %s) }}"
    assert "424242" not in from_r(evaluate(shown % "paste(deparse(conditionCall(e)), collapse = '')"))
    assert "424242" not in from_r(evaluate(shown % "paste(capture.output(print(e)), collapse = '')"))


def test_system_exit_is_an_error_and_not_the_end(evaluate, function):
    function(lambda: exit(3))
    assert condition(evaluate, '.py("probe")')["class"].tolist()[0] == "dp_internal_error"


def test_warnings_and_printed_text_reach_r(evaluate, function):
    def talk():
        print("hello from Python")
        warnings.warn("careful", UserWarning, stacklevel=1)
        warnings.warn("careful", UserWarning, stacklevel=1)
        return 7

    function(talk)
    evaluate("said <- function(w) { words <<- c(words, conditionMessage(w)); invokeRestart('muffleWarning') }")
    code = 'withCallingHandlers(.py("probe"), dp_warning = said)'
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        text = evaluate(f"{{ words <- character(); text <- capture.output(value <- {code}); c(text, words, value) }}")
    assert from_r(text).tolist() == ["hello from Python", "careful", "7"]


def test_notes_are_in_the_words_of_r(evaluate, function, tmp_path, capsys):
    public = pd.DataFrame({"sex": [1, 2] * 50})

    def talk():
        hdp.Ledger(tmp_path / "new.db", dataset="r", epsilon=1)
        hdp.Schema.from_public(public)

    function(talk)
    evaluate('.py("probe")')
    said = capsys.readouterr().err
    assert "create = FALSE opens only accounts that exist" in said
    assert "it is dp_binary(labels = c('2', '1'))" in said
    hdp.Ledger(tmp_path / "other.db", dataset="python", epsilon=1)
    assert "create=False opens only accounts that exist" in capsys.readouterr().err


def test_warnings_before_an_error_reach_r(evaluate, function):
    def fail():
        print("hello from Python")
        warnings.warn("careful", UserWarning, stacklevel=1)
        raise hdp.ArgumentError("n must be larger", argument="n")

    function(fail)
    evaluate("said <- function(w) { words <<- c(words, conditionMessage(w)); invokeRestart('muffleWarning') }")
    code = 'withCallingHandlers(tryCatch(.py("probe"), error = conditionMessage), dp_warning = said)'
    text = evaluate(f"{{ words <- character(); text <- capture.output(value <- {code}); c(text, words, value) }}")
    assert from_r(text).tolist() == ["hello from Python", "careful", "n must be larger"]


def test_an_error_of_r_in_a_callback_keeps_its_class_in_python_and_on_the_way_back(evaluate, function):
    seen = []

    def use(f):
        try:
            return f()
        except RError as error:
            seen.append(error)
            raise

    function(use)
    evaluate("mine <- structure(list(message = 'no fit', call = NULL), class = c('my_error', 'error', 'condition'))")
    found = condition(evaluate, '.py("probe", list(f = function() stop(mine)))')
    assert seen[0].classes == ("my_error", "error", "condition")
    assert str(seen[0]) == "no fit"
    assert found["class"].tolist() == ["my_error", "error", "condition"]
    assert found["message"] == "no fit"


def test_an_error_of_hdpstats_survives_python_in_r_in_python(evaluate, study, function):
    seen = []

    def use(f):
        try:
            return f()
        except hdp.InsufficientBudget as error:
            seen.append(error)
            raise

    function(use)
    inner = 'function() .py("logit", list(formula = event3 ~ age, data = study, epsilon = 2.5))'
    found = condition(evaluate, f'.py("probe", list(f = {inner}))')
    assert len(seen) == 1
    assert found["class"].tolist()[0] == "dp_insufficient_budget"


def test_r_from_python_raises_warns_and_returns():
    assert r_bridge.call("paste", "a", "b", sep="-") == "a-b"
    assert r_bridge.call("function(x) x + 1", pd.Series([1.0, None])).tolist()[0] == 2.0
    with pytest.raises(RError, match="non-numeric argument"):
        r_bridge.call("log", "a")
    with pytest.raises(RError, match="unexpected end of input"):
        r_bridge.call("function(")
    with pytest.warns(RWarning, match="NaNs produced"):
        r_bridge.call("log", -1.0)


@pytest.mark.parametrize("action", ["error", "ignore"])
@pytest.mark.parametrize("kind", [RuntimeWarning, UserWarning])
def test_warnings_arrive_in_r_whatever_python_s_filters_make_of_them(evaluate, function, action, kind):
    function(lambda: warnings.warn("this coefficient is NaN", kind, stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        found = condition(evaluate, '.py("probe")')
    assert found["class"].tolist() == ["dp_warning", "warning", "condition"]
    assert found["message"] == "this coefficient is NA"


def test_python_lets_go_of_what_r_has_thrown_away(evaluate, study):
    name = from_r(evaluate("study$id"))
    assert isinstance(handles.kept(name), hdp.Study)
    evaluate("{ copy <- study; rm(study); invisible(gc()) }")
    evaluate('.py("versions")')
    assert isinstance(handles.kept(name), hdp.Study)
    gc.collect()
    evaluate("{ rm(copy); invisible(gc()); invisible(gc()) }")
    evaluate('.py("versions")')
    with pytest.raises(hdp.ArgumentError, match="session that has ended"):
        handles.kept(name)


def test_a_handle_of_another_session_is_refused_and_a_result_is_not(evaluate, study, tmp_path):
    evaluate('fit <- .py("logit_public", list(formula = event3 ~ age, data = study))')
    evaluate(
        f"{{ saveRDS(list(study, fit), '{tmp_path}/x'); back <- readRDS('{tmp_path}/x'); back[[1]]$id <- '0123' }}"
    )
    assert from_r(evaluate('.py("tidy", list(result = back[[2]]))$term')).tolist() == ["(Intercept)", "age"]
    found = condition(evaluate, '.py("ledger_show", list(ledger = back[[1]]))')
    assert "make it again" in found["message"]


def test_the_reply_is_always_a_reply(evaluate):
    reply = answer(r_bridge.to_r("versions"), r_bridge.to_r([1, 2]))
    assert from_r(reply)["status"] == "error"
    assert from_r(reply)["message"] == "arguments must all have names"
    guarded(evaluate("function(x) stopifnot(is.list(x))"), reply)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('.py("column", list(kind = "categorical", levels = c(1, 2, 3)))$levels', "c('1', '2', '3')"),
        ('.py("column", list(kind = "binary"))$complete', "FALSE"),
        ('.py("budget", list(epsilon = 0.1))$epsilon', "0.1"),
        ('colnames(.py("confint", list(result = fit, level = 0.9)))', "c('5 %', '95 %')"),
        ('names(.py("ledger_show", list(ledger = study))$spent)', "c('epsilon', 'delta')"),
        ('.py("ledger_verify", list(ledger = study))', None),
        ('nrow(.py("predict", list(result = fit, newdata = data.frame(age = c(50, NA)), ci = TRUE)))', "2L"),
        ('is.na(.py("predict", list(result = fit, newdata = data.frame(age = c(50, NA)))))[[2]]', "TRUE"),
        ('nrow(.py("ledger_show", list(ledger = study))$history)', "0L"),
    ],
)
def test_functions_that_r_calls(evaluate, study, code, expected):
    evaluate('fit <- .py("logit_public", list(formula = event3 ~ age, data = study))')
    found = evaluate(code)
    assert expected is None or bool(evaluate("identical")(found, evaluate(expected))[0])
