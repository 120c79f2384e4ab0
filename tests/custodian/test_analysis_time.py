"""An analysis ends when its time is over, and no answer of the site counts or is interrupted."""

import signal
import threading

import pytest

import hdpstats.api as hdp
from hdpstats.custodian.analysis_time import AnalysisTime
from tests.custodian.asked_by_files import SIMPLE, Place

LONG = 3600.0


def endless():
    while True:
        sum(range(1000))


def over():
    """Let the time be over now."""
    signal.raise_signal(signal.SIGPROF)


def test_work_beyond_the_time_is_ended():
    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(hdp.SiteError, match="takes longer than"), AnalysisTime(0.05).counted():
        endless()
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_no_answer_of_the_site_is_interrupted_or_counted():
    limit, answered = AnalysisTime(LONG), []

    def analysis():
        with limit.paused():
            assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
            over()
            answered.append(True)
        over()

    with pytest.raises(hdp.SiteError, match="takes longer than"), limit.counted():
        analysis()
    assert answered
    with limit.paused():  # of no analysis
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_errors_pass():
    with pytest.raises(KeyError), AnalysisTime(LONG).counted():
        raise KeyError


def test_other_threads_are_not_limited():
    found, before = [], signal.getsignal(signal.SIGPROF)

    def run():
        with AnalysisTime(LONG).counted():
            found.append(signal.getsignal(signal.SIGPROF))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [before]


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
