"""A construction that fails leaves no private row behind: not in frames, not in causes, not in messages."""

import gc
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import forgets_rows
from hdpstats.models import Distribution, Linear, Logit
from hdpstats.schema.table import PrivateTable

SECRET = "PLANTED-CELL-7391"
NUMBER = 739174.25
SCHEMA = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event=hdp.Binary(complete=True))
BUDGET = hdp.Budget(epsilon=1)
DEPTH = 7


def rows(**columns):
    return pd.DataFrame({"age": [35.0, NUMBER], "event": [0, 1], "who": [SECRET, "b"]} | columns)


def ledger(**terms):
    return hdp.Ledger(None, **{"dataset": "d", "epsilon": 1} | terms)


def parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1" + SECRET.encode() * 50 + b"PAR1")
    return path


def public_of_texts():
    return pd.DataFrame({"age": ["x", "y"], "event": [0, 1]})


STUDIES = {
    "no schema": lambda _: {"private": rows()},
    "a schema that is none": lambda _: {"private": rows(), "schema": rows(), "budget": BUDGET},
    "a missing column": lambda _: {"private": rows()[["event", "who"]], "schema": SCHEMA, "budget": BUDGET},
    "a column twice": lambda _: {"private": rows()[["age", "age", "event"]], "schema": SCHEMA, "budget": BUDGET},
    "no ledger": lambda _: {"private": rows(), "schema": SCHEMA},
    "a ledger that is none": lambda _: {"private": rows(), "schema": SCHEMA, "ledger": rows()},
    "both accounts": lambda _: {"private": rows(), "schema": SCHEMA, "ledger": ledger(), "budget": BUDGET},
    "another relation": lambda _: {"private": rows(), "schema": SCHEMA, "ledger": ledger(), "relation": "other"},
    "a wrong unit": lambda _: {
        "private": rows(), "schema": SCHEMA, "ledger": ledger(), "unit": "who", "max_rows_per_unit": 1, "n_max": 9,
    },
    "no column of the unit": lambda _: {
        "private": rows(), "schema": SCHEMA, "budget": BUDGET, "unit": "id", "max_rows_per_unit": 1, "n_max": 9,
    },
    "a unit that is a column": lambda _: {"private": rows(), "schema": SCHEMA, "budget": BUDGET, "unit": rows()["who"]},
    "rows for an amount": lambda _: {"private": rows(), "schema": SCHEMA, "budget": BUDGET, "deadline": rows()["who"]},
    "a list of cells for a unit": lambda _: {
        "private": rows(), "schema": SCHEMA, "budget": BUDGET, "unit": rows()["who"].tolist(),
    },
    "an unreadable file": lambda folder: {"private": parquet(folder), "schema": SCHEMA, "budget": BUDGET},
    "a text of rows": lambda _: {"private": f"age,who\n1,{SECRET}\n" * 500, "schema": SCHEMA, "budget": BUDGET},
    "an array": lambda _: {"private": rows().to_numpy(), "schema": SCHEMA, "budget": BUDGET},
    "a column": lambda _: {"private": rows()["who"], "schema": SCHEMA, "budget": BUDGET},
    "columns": lambda _: {"private": rows().to_dict("list"), "schema": SCHEMA, "budget": BUDGET},
    "rows by number": lambda _: {"private": rows().to_dict("index"), "schema": SCHEMA, "budget": BUDGET},
    "rows by cell": lambda _: {
        "private": {NUMBER: rows(), "b": rows()}, "schema": SCHEMA, "budget": BUDGET,
    },
    "bad public rows, after the sites were made": lambda _: {
        "private": rows(), "public": rows()["who"], "schema": SCHEMA, "budget": BUDGET,
    },
    "a bad quorum, after the sites were made": lambda _: {
        "private": rows(), "schema": SCHEMA, "budget": BUDGET, "quorum": 5,
    },
    "one site of several": lambda _: {
        "private": {"A": rows(), "B": rows()[["who"]]}, "schema": SCHEMA, "budget": BUDGET,
    },
    "an unknown argument": lambda _: {"private": rows(), "schema": SCHEMA, "budget": BUDGET, "colour": "red"},
}  # fmt: skip

OTHERS = {
    "site: a missing column": lambda: hdp.LocalSite(rows()[["who"]], schema=SCHEMA, ledger=ledger()),
    "site: a schema that is none": lambda: hdp.LocalSite(rows(), schema=None, ledger=ledger()),
    "site: a ledger that is none": lambda: hdp.LocalSite(rows(), schema=SCHEMA, ledger=None),
    "site: another unit": lambda: hdp.LocalSite(rows(), schema=SCHEMA, ledger=ledger(unit="who")),
    "site: no table": lambda: hdp.LocalSite(rows().to_numpy(), schema=SCHEMA, ledger=ledger()),
    "table: a missing column": lambda: PrivateTable.from_frame(rows()[["who"]], SCHEMA),
    "table: no column of the unit": lambda: PrivateTable.from_frame(rows(), SCHEMA, unit="id"),
    "arrays: bounds for another number of columns": lambda: Logit(
        rows()["event"], rows()[["age"]], exog_bounds=[(0, 1), (0, 1)], budget=BUDGET
    ),
    "arrays: rows for bounds": lambda: Logit(
        rows()["event"], rows()[["age"]], exog_bounds=rows()[["who", "age", "event"]], budget=BUDGET
    ),
    "arrays: cells for bounds": lambda: Linear(
        rows()["age"], rows()[["event"]], exog_bounds=[(0, 1)], endog_bounds=rows()["who"].tolist() * 2, budget=BUDGET
    ),
    "arrays: of different lengths": lambda: Logit(
        np.array([NUMBER]), rows()[["age"]], exog_bounds=[(20, 90)], budget=BUDGET
    ),
    "arrays: no account": lambda: Logit(rows()["event"], rows()[["age"]], exog_bounds=[(20, 90)]),
    "arrays: a family that is none": lambda: Distribution(
        rows()["age"].to_numpy(), family="beta", endog_bounds=(20, 90), budget=BUDGET
    ),
}


GIVEN_ROWS = {
    "distribution": lambda: hdpf.distribution("age ~ 1", rows(), family="normal"),
    "hazard": lambda: hdpf.hazard("Surv(age, event) ~ 1", rows(), intervals=4),
    "hazard, by its class": lambda: hdp.DiscreteHazard.from_formula("Surv(age, event) ~ 1", rows(), intervals=4),
    "hazard, by its class, in another order": lambda: hdp.DiscreteHazard.from_formula(rows(), study(), intervals=4),
    "linear": lambda: hdpf.linear("age ~ event", rows()),
    "logit": lambda: hdpf.logit("event ~ age", rows()),
    "mestimate": lambda: hdpf.mestimate("event ~ age", rows(), loss=hdp.losses.Logistic()),
    "multinomial": lambda: hdpf.multinomial("event ~ age", rows()),
    "poisson": lambda: hdpf.poisson("event ~ age", rows()),
    "quantile": lambda: hdpf.quantile("age ~ event", rows()),
    "survfit": lambda: hdpf.survfit("Surv(age, event) ~ 1", rows()),
    "rows for weights": lambda: hdpf.logit("event ~ age", study(), weights=rows()["who"]),
    "rows for groups": lambda: hdp.describe(study(), ["age"], by=rows()["who"], epsilon=1),
    "describe": lambda: hdp.describe(rows(), ["age"], epsilon=1),
    "hybrid weights": lambda: hdp.hybrid_weights(rows(), ["age"], epsilon=1),
    "importance weights": lambda: hdp.importance_weights(rows(), "~ age", epsilon=1),
    "check": lambda: hdp.check(rows(), None),
    "person_period": lambda: hdp.person_period(rows(), time="age", event="other", intervals=[30.0]),
}
"""Functions that take a study, or rows and their schema, and are given rows and no schema."""


def study():
    return hdp.Study(public=rows()[["age", "event"]], schema=SCHEMA)


def failure(build):
    """Return the error of a construction, and keep no row in a frame of this file."""
    try:
        build()
    except BaseException as error:
        return error
    raise AssertionError("nothing failed")


def chain(error):
    """Yield an error and all that led to it."""
    waiting, seen = [error], set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__]


def frames(error):
    """Yield the frames of an error and of all that led to it, but for those of this file."""
    for each in chain(error):
        step = each.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename != __file__:
                yield step.tb_frame
            step = step.tb_next


OPAQUE = (types.ModuleType, types.FunctionType, types.CodeType, types.BuiltinFunctionType, type, types.FrameType)


def holds_rows(value):
    """Whether a table, a column or a planted cell can be reached from a value."""
    level, seen = [value], set()
    for _ in range(DEPTH):
        following = []
        for each in level:
            if isinstance(each, pd.DataFrame | pd.Series | PrivateTable):
                return True
            if isinstance(each, str | np.ndarray | float) and (SECRET in str(each) or str(NUMBER) in str(each)):
                return True
            if id(each) not in seen and not isinstance(each, OPAQUE):
                seen.add(id(each))
                following += gc.get_referents(each)
        level = following
    return False


def check(error):
    for each in chain(error):
        assert SECRET not in str(each)
        assert str(NUMBER) not in str(each)
        assert not any(holds_rows(fact) for fact in each.args)
    found = [
        (frame.f_code.co_qualname, name)
        for frame in frames(error)
        for name, value in frame.f_locals.items()
        if holds_rows(value)
    ]
    assert found == []


@pytest.mark.parametrize("case", STUDIES)
def test_a_study_that_cannot_be_made_leaves_no_row(case, tmp_path):
    error = failure(lambda: hdp.Study(**STUDIES[case](tmp_path)))
    assert isinstance(error, hdp.HdpError | TypeError)
    check(error)


@pytest.mark.parametrize("case", OTHERS)
def test_a_site_a_table_or_a_model_that_cannot_be_made_leaves_no_row(case):
    error = failure(OTHERS[case])
    assert isinstance(error, hdp.HdpError)
    check(error)


@pytest.mark.parametrize("case", GIVEN_ROWS)
def test_a_function_that_is_given_rows_by_mistake_leaves_none(case):
    error = failure(GIVEN_ROWS[case])
    assert isinstance(error, hdp.HdpError)
    check(error)


def test_the_search_finds_what_is_there():
    """Without it the tests above could pass on anything."""
    namespace = {"hdp": hdp}
    exec("def keeps(frame):\n    held = [{'x': frame}]\n    raise hdp.ArgumentError('refused')", namespace)
    with pytest.raises(AssertionError):
        check(failure(lambda: namespace["keeps"](rows())))
    check(failure(lambda: forgets_rows(namespace["keeps"])(rows())))


def test_an_error_that_nobody_foresaw_tells_its_type_and_place_only(monkeypatch):
    def fails(cells):
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"cannot copy {cells.iloc[0]}: {SECRET}") from error

    monkeypatch.setattr("hdpstats.schema.schema._copy", fails)
    error = failure(lambda: hdp.Study(private=rows(), schema=SCHEMA, budget=BUDGET))
    assert type(error) is hdp.HdpError
    assert "ValueError" in str(error)
    check(error)


def test_an_interrupt_while_rows_are_copied_leaves_none(monkeypatch):
    def interrupted(frame, *arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("hdpstats.schema.table.select", interrupted)
    error = failure(lambda: hdp.Study(private=rows(), schema=SCHEMA, budget=BUDGET))
    assert isinstance(error, KeyboardInterrupt)
    check(error)


def test_what_the_caller_was_dealing_with_stays_as_it_is():
    def work():
        kept = "a variable of the caller's"
        raise LookupError(kept)

    def fails_while_dealing_with_that():
        try:
            work()
        except LookupError:
            hdp.Study(private=rows(), schema=None, budget=BUDGET)

    before = failure(fails_while_dealing_with_that).__context__
    assert isinstance(before, LookupError)
    assert before.__traceback__.tb_next.tb_frame.f_locals == {"kept": "a variable of the caller's"}


@pytest.mark.parametrize("kind", [hdp.Study, hdp.LocalSite, PrivateTable])
def test_what_is_not_complete_can_be_shown(kind):
    assert "not complete" in repr(kind.__new__(kind))


def test_errors_that_users_need_keep_their_words():
    frame = pd.DataFrame({"visits": np.arange(60) % 5.0, "age": np.linspace(20.0, 90.0, 60)})
    study = hdp.Study(public=frame, schema=hdp.Schema(visits=hdp.Continuous(0, 5), age=hdp.Continuous(20, 90)))
    with pytest.raises(TypeError, match="banana"):
        hdp.DiscreteHazard.from_formula("Surv(age, visits) ~ 1", study, banana=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="visits"):
            hdpf.quantile("visits ~ age", study)
