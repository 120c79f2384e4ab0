"""An analysis ends when its time is over, and no answer of the site counts or is interrupted."""

import threading
import time

import pytest

import hdpstats.api as hdp
from hdpstats.custodian.analysis_time import AnalysisTime


def work(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        sum(range(1000))


def test_work_beyond_the_time_is_ended():
    with pytest.raises(hdp.SiteError, match="takes longer than"), AnalysisTime(0.05).counted():
        work(60)
    work(0.1)  # afterwards nothing is limited


def test_what_the_site_computes_does_not_count():
    limit = AnalysisTime(0.2)
    with limit.counted():
        with limit.paused():
            work(0.4)
        work(0.01)

    def after_a_pause():
        with limit.paused():
            work(0.01)
        work(60)

    with pytest.raises(hdp.SiteError, match="takes longer than"), limit.counted():
        after_a_pause()
    with limit.paused():  # of no analysis
        work(0.01)


def test_errors_pass():
    with pytest.raises(KeyError), AnalysisTime(60).counted():
        raise KeyError


def test_other_threads_are_not_limited():
    ended = []

    def run():
        with AnalysisTime(0.01).counted():
            work(0.05)
        ended.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended
