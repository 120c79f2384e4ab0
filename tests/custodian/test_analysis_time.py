"""An analysis ends when its time is over, and no answer of the site counts or is interrupted."""

import contextlib
import ctypes
import itertools
import signal
import sys
import threading

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import analysis_time
from hdpstats.custodian.analysis_time import AnalysisTime
from tests.custodian.asked_by_files import SIMPLE, Place

LONG = 3600.0


def endless():
    while True:
        sum(range(1000))


def over():
    """Let the time be over now."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.raise_signal(signal.SIGPROF)


def test_work_beyond_the_time_is_ended():
    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(hdp.SiteError, match="takes longer than"):
        AnalysisTime(0.05).run(endless)
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def working():
    """Work for about half a minute, many times as long as any time that is over here."""
    for _ in range(2_000_000):
        sum(range(1000))


def test_code_that_swallows_the_end_is_ended_again(monkeypatch):
    monkeypatch.setattr(analysis_time, "_AGAIN", 0.1)
    swallowed = []

    def analysis():
        for _ in range(3):
            try:
                working()
            except BaseException as end:
                swallowed.append(end)
        working()
        return "never ended"

    with pytest.raises(hdp.SiteError, match="takes longer than"):
        AnalysisTime(0.02).run(analysis)
    assert swallowed


def test_an_end_within_a_function_that_c_calls_comes_again(monkeypatch):
    monkeypatch.setattr(analysis_time, "_AGAIN", 0.1)
    swallowed = []
    monkeypatch.setattr(sys, "unraisablehook", swallowed.append)
    called = ctypes.CFUNCTYPE(None)(working)

    def analysis():
        called()
        working()
        return "never ended"

    with pytest.raises(hdp.SiteError, match="takes longer than"):
        AnalysisTime(0.02).run(analysis)
    assert swallowed


@pytest.mark.parametrize("made", ["result", "error", "stopped"])
def test_the_time_is_over_whatever_the_analysis_makes_of_the_end(made):
    class Stopped(BaseException):
        pass

    limit = AnalysisTime(LONG)

    def analysis():
        with contextlib.suppress(BaseException):
            over()
        if made == "result":
            return made
        raise ValueError if made == "error" else Stopped

    with pytest.raises(hdp.SiteError, match="takes longer than") as caught:
        limit.run(analysis)
    assert caught.value.facts["code"] == "too-long"
    with pytest.raises(hdp.SiteError, match="takes longer than"), limit.paused():
        pytest.fail("the site is asked after the end")


def test_who_interrupts_the_process_is_heard_after_the_end_too():
    def analysis():
        with contextlib.suppress(BaseException):
            over()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AnalysisTime(LONG).run(analysis)


def test_no_answer_of_the_site_is_interrupted_or_counted():
    limit, answered = AnalysisTime(LONG), []

    def analysis():
        with limit.paused():
            assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
            over()
            over()
            answered.append(True)
        working()  # the time was over as the site was asked

    with pytest.raises(hdp.SiteError, match="takes longer than"):
        limit.run(analysis)
    assert answered
    with AnalysisTime(LONG).paused():  # of no analysis
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_errors_and_results_pass():
    with pytest.raises(KeyError):
        AnalysisTime(LONG).run({}.popitem)
    assert AnalysisTime(LONG).run(lambda: 3) == 3


def test_other_threads_are_not_limited():
    found, before = [], signal.getsignal(signal.SIGPROF)

    def run():
        AnalysisTime(LONG).run(lambda: found.append(signal.getsignal(signal.SIGPROF)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [before]


OWN = analysis_time.__file__


def over_at(step, files=(OWN, contextlib.__file__)):
    """Return a trace function that lets the time be over at one step of the limit's own code, by number.

    Without a number it is over at each of them.
    """
    steps, before = itertools.count(), signal.getsignal(signal.SIGPROF)

    def trace(frame, event, _):
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        handler = signal.getsignal(signal.SIGPROF)
        begun = handler not in (before, signal.SIG_IGN)  # no signal comes earlier, or after the end
        if event == "opcode" and begun and (step is None or next(steps) == step):
            signal.setitimer(signal.ITIMER_PROF, 0)
            handler(signal.SIGPROF, frame)  # as the interpreter calls it between two steps
        return trace

    return trace


def outcomes_at_every_step():
    """Yield how analyses end whose time is over at the first step, at the second, and so on.

    A generator has its own stack of exceptions that are being handled. Python leaves one there where a step between
    its begin and its end raises; in the test itself it would be the context of errors of later tests.
    """
    before, traced = signal.getsignal(signal.SIGPROF), sys.gettrace()
    for step in range(10_000):
        limit, held, trace = AnalysisTime(LONG), threading.Lock(), over_at(step)

        def analysis(limit=limit, held=held):
            with limit.paused():
                held.acquire()
                sum(range(10))
                held.release()
            return True

        sys.settrace(trace)
        try:
            ended = limit.run(analysis)
        except hdp.SiteError as error:
            ended = error.facts["code"]
        finally:
            reached = sys.gettrace() is not trace  # an exception of a trace function ends tracing
            sys.settrace(traced)
        assert not held.locked()
        assert not limit._lock.locked()
        assert signal.getsignal(signal.SIGPROF) == before
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
        yield ended
        if not reached and step > 300:
            break


def test_at_whichever_step_the_time_ends_nothing_of_the_site_is_left_held():
    ended = list(outcomes_at_every_step())
    assert set(ended) == {True, "too-long"}
    assert ended[-1] is True
    assert sys.exception() is None


@pytest.mark.parametrize("swallows", [False, True])
def test_no_step_of_the_limit_itself_is_interrupted(swallows):
    """Signals at all of its steps: also where the analysis has swallowed an end, and goes on."""
    limit, traced = AnalysisTime(LONG), sys.gettrace()

    def analysis():
        if swallows:
            with contextlib.suppress(BaseException):
                over()
        with contextlib.suppress(hdp.SiteError), limit.paused():
            return "answered"

    sys.settrace(over_at(None, files=(OWN,)))
    try:
        ended = limit.run(analysis)
    except hdp.SiteError as error:
        ended = error.facts["code"]
    finally:
        sys.settrace(traced)
    assert ended == ("too-long" if swallows else "answered")
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_an_answer_on_another_thread_is_waited_for_or_refused():
    limit, began, go_on, outcomes = AnalysisTime(LONG), threading.Event(), threading.Event(), []

    def asked(wait):
        try:
            with limit.paused():
                began.set()
                wait()
                outcomes.append("answered")
        except hdp.SiteError as error:
            outcomes.append(error.facts["code"])

    threads = []

    def analysis():
        threads.append(threading.Thread(target=asked, args=(go_on.wait,)))
        threads[0].start()
        began.wait()
        over()  # an answer has begun: nothing ends
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
        go_on.set()
        threads[0].join()
        working()

    with pytest.raises(hdp.SiteError, match="takes longer than"):
        limit.run(analysis)
    asked(lambda: None)  # which begins after the end
    assert outcomes == ["answered", "too-long"]


def test_a_time_that_ends_as_the_site_is_asked_is_a_refusal_and_charges_nothing(tmp_path, monkeypatch):
    place = Place(tmp_path)
    place.ask(*SIMPLE)
    paused = AnalysisTime.paused

    def at_the_end(limit):
        over()
        return paused(limit)

    monkeypatch.setattr(AnalysisTime, "paused", at_the_end)
    with pytest.raises(hdp.SiteError, match="takes longer than") as caught:
        place.answer()
    assert caught.value.facts["code"] == "too-long"
    assert place.spent == 0
