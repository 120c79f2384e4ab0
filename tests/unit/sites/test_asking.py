"""A round at several sites: parallel, with a deadline and a quorum; who fails is named and harms nobody else."""

import itertools
import threading
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import pytest

import hdpstats.api as hdp
from hdpstats.mechanisms.count import CountQuery, CountRelease
from hdpstats.sites import asking
from hdpstats.sites.asking import Missing, ask
from tests.support import SCHEMA, people
from tests.waiting import GENEROUS

DEADLINE = 600.0
"""Seconds, on a clock of the test's own where a site hangs."""

HIDDEN = {"relation": "add_or_remove_one", "n_max": 100}


class Elsewhere(hdp.Site):
    """A site that stands elsewhere: it waits for an event, fails, or answers as a real one does."""

    def __init__(self, name, wait=None, error=None):
        ledger = hdp.Ledger(None, dataset=name, epsilon=10, relation="add_or_remove_one")
        self.own = hdp.LocalSite(people(50), schema=SCHEMA, ledger=ledger, n_max=100)
        self.wait, self.error, self.threads = wait, error, []

    schema = property(lambda self: self.own.schema)
    records = property(lambda self: self.own.records)
    terms = property(lambda self: self.own.terms)

    def put_public(self, table):
        self.own.put_public(table)

    def answer(self, query):
        self.threads.append(threading.current_thread())
        if self.wait is not None:
            self.wait()
        if self.error is not None:
            raise self.error
        return self.own.answer(query)

    def ended(self):
        """Wait until all that it was asked has ended."""
        for thread in self.threads:
            thread.join()


def asked(study, epsilon=1):
    query = CountQuery(epsilon=Fraction(epsilon), schema_sha256=SCHEMA.sha256)
    return ask(study, dict.fromkeys(study.sites, query))


@pytest.fixture
def deadline_passes(monkeypatch):
    """Let the deadline of a round pass when so many outcomes have arrived."""

    def after(outcomes):
        begun = itertools.repeat(1000.0, 1 + outcomes)
        instants = itertools.chain(begun, itertools.repeat(1000.0 + DEADLINE))
        monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: next(instants)))

    return after


def test_sites_are_asked_at_the_same_time_and_answers_keep_the_order_of_the_study():
    """No site answers before all are asked, and they answer in another order than that of the study."""
    all_asked, done = threading.Barrier(3), {name: threading.Event() for name in "CAB"}

    def wait(name, before):
        all_asked.wait(GENEROUS)
        assert before is None or done[before].wait(GENEROUS)
        done[name].set()

    before = {"B": None, "A": "B", "C": "A"}
    sites = {name: Elsewhere(name, partial(wait, name, before[name])) for name in done}
    answered = asked(hdp.Study(private=sites))
    assert list(answered.releases) == ["C", "A", "B"]
    assert all(isinstance(each, CountRelease) for each in answered.releases.values())
    assert answered.missing == ()
    assert len({site.threads[0] for site in sites.values()}) == 3


def test_sites_in_this_process_answer_on_the_calling_thread_and_draw_their_own_noise():
    frames = {name: people(60, seed) for seed, name in enumerate("ABCDEF")}
    budget = hdp.Budget(epsilon=10)
    study = hdp.Study(private=frames, schema=SCHEMA, budget=budget, relation="add_or_remove_one", n_max=10**6)
    counts = [release.count for release in asked(study, "1/100").releases.values()]
    assert len(set(counts)) > 1  # equal noise at six sites of 60 people: (1/200)^5 / 6, 5e-13


def test_a_site_that_hangs_is_left_out_after_the_deadline_and_a_refusal_has_its_reason(deadline_passes):
    refused = hdp.SiteError("the site refused")
    end = threading.Event()  # B hangs until the round is over
    sites = {
        "A": Elsewhere("A"),
        "B": Elsewhere("B", partial(end.wait, GENEROUS)),
        "C": Elsewhere("C", error=refused),
        "D": Elsewhere("D"),
    }
    deadline_passes(3)
    answered = asked(hdp.Study(private=sites, deadline=DEADLINE, quorum=2))
    end.set()
    sites["B"].ended()
    assert list(answered.releases) == ["A", "D"]
    assert answered.missing == (
        Missing(site="B", round=1, reason=f"no answer within {DEADLINE:g} seconds; what it charged stays charged"),
        Missing(site="C", round=1, reason="the site refused"),
    )


def test_fewer_answers_than_the_quorum_are_an_error_that_names_everybody_and_loses_nothing(deadline_passes):
    end = threading.Event()
    sites = {
        "A": Elsewhere("A"),
        "B": Elsewhere("B", error=hdp.SiteError("down")),
        "C": Elsewhere("C", partial(end.wait, GENEROUS)),
    }
    study = hdp.Study(private=sites, deadline=DEADLINE)
    assert study.quorum == 2
    deadline_passes(2)
    with pytest.raises(hdp.SiteError, match=r"1 of 3 sites answered, and the study needs 2 \(B: down; C: no answer"):
        asked(study)
    first = sites["A"].own.ledger.spent.epsilon
    sites["B"].error = None
    deadline_passes(2)
    assert list(asked(study).releases) == ["A", "B"]
    end.set()
    sites["C"].ended()
    assert sites["A"].own.ledger.spent.epsilon == first == 1


def test_what_all_ledgers_refuse_is_a_refused_budget():
    frames = {"A": people(20, 1), "B": people(20, 2)}
    study = hdp.Study(private=frames, schema=SCHEMA, budget=hdp.Budget(epsilon=1), **HIDDEN)
    with pytest.raises(hdp.InsufficientBudget, match="0 of 2 sites answered"):
        asked(study, 3)
    assert all(ledger.spent.epsilon == 0 for ledger in study.ledgers.values())


def test_one_site_raises_what_it_raises():
    study = hdp.Study(private={"A": Elsewhere("A", error=hdp.SiteError("as it is"))})
    with pytest.raises(hdp.SiteError, match=r"^as it is$"):
        asked(study)


def test_a_defect_is_not_taken_for_a_site_that_is_away():
    sites = {"A": Elsewhere("A"), "B": Elsewhere("B", error=ZeroDivisionError("a defect")), "C": Elsewhere("C")}
    with pytest.raises(ZeroDivisionError):
        asked(hdp.Study(private=sites))


def test_one_account_under_two_names_is_noticed_whatever_was_asked():
    """Also where answers are small numbers, of which two sites may give the same."""
    first, second = Elsewhere("A"), Elsewhere("B")
    second.own = first.own
    with pytest.raises(hdp.SiteError, match="'A' and 'B' charge the same account of the same ledger"):
        asked(hdp.Study(private={"A": first, "B": second}))


def test_sites_without_a_query_are_left_alone():
    sites = {name: Elsewhere(name) for name in "ABC"}
    query = CountQuery(epsilon=Fraction(1), schema_sha256=SCHEMA.sha256)
    assert list(ask(hdp.Study(private=sites, quorum=1), {"B": query}).releases) == ["B"]
    assert [len(site.threads) for site in sites.values()] == [0, 1, 0]
