"""Failures of private computations say one fixed thing, lead to no row and stay charged; rows are read after it."""

import gc
import subprocess
import sys
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.no_warnings import silence
from hdpstats.audit import observe
from hdpstats.mechanisms import minimiser
from hdpstats.schema.table import PrivateTable
from hdpstats.sites.single_draw import REFUSAL, errors_scrubbed
from tests.support import RECORDS, people, seen_of_ledger, study_of

SECRET = 1.2345678987
CANARY = repr(SECRET)


def marked():
    """Return private rows in which one person's value occurs nowhere else in the world."""
    frame = people(RECORDS)
    frame.loc[11, "x"] = SECRET
    return frame


@pytest.fixture
def study():
    return study_of(marked(), epsilon=10)


@pytest.fixture
def model(study):
    return hdpf.logit("y ~ 0 + x", data=study)


def betray(query, calibration, rows):
    """Fail as a numerical library may, quoting a row, with a cause and a context."""
    value = float(rows.X[11, 0]) * 3.0
    warnings.warn(f"bad value {value!r}", RuntimeWarning, stacklevel=1)
    try:
        raise FloatingPointError(f"row 11 holds {value!r}")
    except FloatingPointError as error:
        raise ValueError(f"could not use {value!r}", rows.X) from error


def frames(error):
    """Yield the frames that an error's traceback leads to."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def reached(start, *, stop):
    """Yield every object that ``start`` leads to, without entering ``stop``, modules, types and functions."""
    seen, waiting = {id(each) for each in stop}, list(start)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(
            value, types.ModuleType | types.FunctionType | types.BuiltinFunctionType | type
        ):
            continue
        seen.add(id(value))
        yield value
        if not isinstance(value, types.FrameType):
            waiting.extend(gc.get_referents(value))


def holds_secret(value):
    if isinstance(value, str):
        return CANARY in value
    if isinstance(value, float):
        return value == SECRET
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return bool(np.any(np.isclose(value, SECRET, rtol=1e-12) | np.isclose(value * 3.0, SECRET, rtol=1e-12)))
    return False


def caught_from(call, kind):
    try:
        call()
    except kind as error:
        return error
    return None


def test_a_failure_says_one_fixed_thing(model, study, monkeypatch):
    monkeypatch.setattr(minimiser, "run", betray)
    seen = observe(lambda: model.fit(epsilon=1.0, se_share=0))
    assert seen.exception == ("SiteError", REFUSAL, "None", "None")
    assert (seen.printed, seen.logged, seen.warned, seen.result) == ("", (), (), None)
    assert not any(character.isdigit() for character in REFUSAL)


def test_a_failure_leads_to_no_row(model, study, monkeypatch):
    monkeypatch.setattr(minimiser, "run", betray)
    error = caught_from(lambda: model.fit(epsilon=1.0, se_share=0), hdp.SiteError)
    assert error.args == (REFUSAL,)
    assert error.facts == {}
    assert error.__cause__ is None
    assert error.__context__ is None
    inside = [
        frame
        for frame in frames(error)
        if frame.f_code.co_filename.endswith(("sites/local.py", "sites/single_draw.py"))
    ]
    assert [frame.f_code.co_name for frame in inside] == ["answer", "drawn_once", "errors_scrubbed"]
    for frame in frames(error):
        assert CANARY not in repr(frame.f_locals)
    local = [value for frame in inside for value in frame.f_locals.values()]
    assert not any(holds_secret(value) for value in reached(local, stop=[study.site]))


def test_an_answer_keeps_nothing_of_a_computation_that_failed():
    rows = np.full(RECORDS, SECRET)

    def compute():
        return 1 // int(rows[0] - SECRET)

    error = caught_from(lambda: errors_scrubbed(compute), hdp.SiteError)
    (scrubbing,) = [frame for frame in frames(error) if frame.f_code.co_name == "errors_scrubbed"]
    assert "compute" not in scrubbing.f_locals
    assert not any(value is rows or value is compute for value in reached(scrubbing.f_locals.values(), stop=[]))


def test_the_search_for_rows_finds_them_behind_an_ordinary_error(model, study, monkeypatch):
    """The search of the test above must be able to fail."""
    monkeypatch.setattr(minimiser, "run", betray)
    monkeypatch.setattr("hdpstats.sites.single_draw.errors_scrubbed", lambda compute: compute())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = caught_from(lambda: model.fit(epsilon=1.0, se_share=0), ValueError)
    local = [value for frame in frames(error) for value in frame.f_locals.values()]
    assert any(holds_secret(value) for value in reached(local, stop=[study.site]))
    assert any(holds_secret(value) for value in reached([error], stop=[study.site]))


@pytest.mark.parametrize(
    "kind", [ValueError, MemoryError, SystemExit, RecursionError, GeneratorExit, hdp.HdpError, np.linalg.LinAlgError]
)
def test_whatever_fails_looks_the_same(model, monkeypatch, kind):
    def fail(query, calibration, rows):
        raise kind(CANARY)

    monkeypatch.setattr(minimiser, "run", fail)
    error = caught_from(lambda: model.fit(epsilon=1.0, se_share=0), BaseException)
    assert type(error) is hdp.SiteError
    assert str(error) == REFUSAL
    assert error.__context__ is None


def test_an_interrupt_passes_bare(model, study, monkeypatch):
    def interrupt(query, calibration, rows):
        raise KeyboardInterrupt(CANARY, rows)

    monkeypatch.setattr(minimiser, "run", interrupt)
    error = caught_from(lambda: model.fit(epsilon=1.0, se_share=0), KeyboardInterrupt)
    assert error.args == ()
    assert error.__cause__ is None
    assert error.__context__ is None
    assert study.ledger.spent.epsilon == 1


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, MemoryError])
def test_a_failure_stays_charged_and_the_same_request_completes_without_another_charge(model, study, monkeypatch, kind):
    def fail(query, calibration, rows):
        raise kind(CANARY)

    with monkeypatch.context() as patched:
        patched.setattr(minimiser, "run", fail)
        for _ in range(2):
            with pytest.raises((hdp.SiteError, KeyboardInterrupt)):
                model.fit(epsilon=1.0, se_share=0)
            assert study.ledger.spent.epsilon == 1
            assert study.ledger.history()["released"].tolist() == [False]
    result = model.fit(epsilon=1.0, se_share=0)
    assert study.ledger.spent.epsilon == 1
    assert study.ledger.history()["released"].tolist() == [True]
    assert model.fit(epsilon=1.0, se_share=0).release == result.release


def test_a_failure_is_seen_alike_for_neighbours(monkeypatch):
    monkeypatch.setattr(minimiser, "run", betray)
    seen = []
    for frame in (people(RECORDS), marked()):
        study = study_of(frame, epsilon=10)
        model = hdpf.logit("y ~ 0 + x", data=study)
        seen.append((observe(lambda model=model: model.fit(epsilon=1.0, se_share=0)), seen_of_ledger(study.ledger)))
    assert seen[0] == seen[1]


def test_the_state_of_warnings_and_floating_point_is_restored():
    with silence():
        pass  # the one filter of all computations stays
    before, filters = np.geterr(), list(warnings.filters)
    with pytest.raises(hdp.SiteError):
        errors_scrubbed(lambda: 1 // 0)
    assert errors_scrubbed(lambda: float(np.float64(1.0) / np.float64(0.0))) == np.inf
    assert np.geterr() == before
    assert warnings.filters == filters


@pytest.fixture
def watched(study, monkeypatch):
    """Record, each time that rows are read or used, what the ledger says at that moment."""
    read, ran = [], []
    admit, run = PrivateTable.admit, minimiser.run

    def admit_and_note(table, names, **options):
        read.append((study.ledger.spent.epsilon, tuple(study.ledger.history()["released"])))
        return admit(table, names, **options)

    def run_and_note(query, calibration, rows):
        ran.append(study.ledger.spent.epsilon)
        return run(query, calibration, rows)

    monkeypatch.setattr(PrivateTable, "admit", admit_and_note)
    monkeypatch.setattr(minimiser, "run", run_and_note)
    return read, ran


def test_rows_are_read_after_the_charge(model, watched):
    read, ran = watched
    model.plan([0.5, 1.0])
    assert (read, ran) == ([], [])
    model.fit(epsilon=2.0, se_share=0)
    assert read == [(2, (False,))]
    assert ran == [2]


def test_an_overspend_is_refused_before_rows_are_read(model, study, watched):
    read, ran = watched
    with pytest.raises(hdp.InsufficientBudget):
        model.fit(epsilon=10.5, se_share=0)
    assert (read, ran) == ([], [])
    assert study.ledger.history().empty
    assert study.ledger.spent.epsilon == 0


def test_the_same_call_is_free_and_another_replicate_is_charged(model, study, watched):
    _, ran = watched
    first = model.fit(epsilon=1.0, se_share=0)
    again = [each.fit(epsilon=1.0, se_share=0) for each in (model, hdpf.logit("y ~ 0 + x", data=study))]
    assert [each.release for each in again] == [first.release] * 2
    assert again[0].to_json() == again[1].to_json()  # it says, unlike the first one, that the release was stored
    assert study.ledger.spent.epsilon == 1
    second = model.fit(epsilon=1.0, replicate=2, se_share=0)
    assert second.release.theta != first.release.theta
    assert study.ledger.spent.epsilon == 2
    assert len(ran) == 2


def test_hostile_arguments_do_not_reach_rows(model, watched):
    for arguments in ({"epsilon": float("nan")}, {"epsilon": 1.0, "mechanism": "x"}, {"epsilon": 1.0, "replicate": 0}):
        with pytest.raises(hdp.HdpError):
            model.fit(**arguments)
    assert watched == ([], [])


def test_noise_is_drawn_before_rows_are_used(study, monkeypatch):
    """The time that drawing takes says nothing about rows."""
    order = []
    certified, draw = minimiser.certified, minimiser.BallNoise.draw
    monkeypatch.setattr(minimiser, "certified", lambda *a, **k: (order.append("rows"), certified(*a, **k))[1])
    monkeypatch.setattr(minimiser.BallNoise, "draw", lambda noise: (order.append("noise"), draw(noise))[1])
    hdpf.logit("y ~ 0 + x", data=study).fit(epsilon=1.0, se_share=0)
    assert order == ["noise", "noise", "rows"]


def test_formula_objects_and_sites_show_no_row(study, model):
    shown = [repr(study), repr(study.site), repr(model), study._repr_html_(), repr(study.ledger), str(study.ledger)]
    assert not any(CANARY in text or str(RECORDS) in text for text in shown)


@pytest.fixture
def threads():
    """Return two threads, each as a function that does something in it and returns what that returns."""
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        yield [lambda *call, pool=pool: pool.submit(*call).result() for pool in (first, second)]


def warn():
    warnings.warn(CANARY, RuntimeWarning, stacklevel=1)
    return "no warning"


def test_computations_that_overlap_give_no_warning_and_leave_those_of_others(threads):
    """Filters are the process's: what one thread restores, another may just have set."""
    with silence():
        pass  # now its filter is the first
    (first, second), before = threads, list(warnings.filters)
    one, other = ExitStack(), ExitStack()
    first(one.enter_context, silence())
    with pytest.raises(RuntimeWarning, match=CANARY):
        second(warn)
    second(other.enter_context, silence())
    assert first(warn) == second(warn) == "no warning"
    first(one.close)
    assert second(warn) == "no warning"
    with pytest.raises(RuntimeWarning, match=CANARY):
        first(warn)
    second(other.close)
    for thread in threads:
        with pytest.raises(RuntimeWarning, match=CANARY):
            thread(warn)
    assert [each for each in warnings.filters if each in before] == before


def test_who_saves_and_restores_the_filters_beside_a_computation_changes_nothing_for_it_or_for_others(threads):
    (first, second), one, other, last = threads, ExitStack(), ExitStack(), ExitStack()
    first(one.enter_context, silence())
    second(other.enter_context, warnings.catch_warnings())
    assert first(warn) == "no warning"
    first(one.close)
    first(last.enter_context, silence())
    second(other.close)
    assert first(warn) == "no warning"
    first(last.close)
    with pytest.raises(RuntimeWarning, match=CANARY):
        first(warn)


FIRST = """
import threading, warnings
from hdpstats._base.no_warnings import silence

def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

saved = warnings.catch_warnings()
in_a_thread(saved.__enter__)
with silence():
    in_a_thread(lambda: saved.__exit__(None, None, None))
    warnings.warn("a cell")
"""


def test_who_saved_the_filters_before_the_first_computation_changes_nothing_for_it():
    found = subprocess.run([sys.executable, "-c", FIRST], check=True, timeout=600, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("", "")


def test_a_computation_gives_no_warning_whatever_filters_there_are_and_adds_one_filter_once():
    for _ in range(3):
        warnings.simplefilter("always")
        warnings.simplefilter("error")
        with silence():
            assert warn() == "no warning"
            with warnings.catch_warnings():
                assert warn() == "no warning"
        with pytest.raises(RuntimeWarning, match=CANARY):
            warn()
    assert len(warnings.filters) == len({str(each) for each in warnings.filters})
    with silence():
        action, text, category, _, _ = warnings.filters[0]
    warnings.filterwarnings(action, text.pattern, category)  # as libraries copy filters to their workers
    with pytest.raises(RuntimeWarning, match=CANARY):
        warn()
