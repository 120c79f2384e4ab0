"""Whatever an analyst writes into a request file: it is refused before a charge, or charged as its dry run says."""

import collections

import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import HdpError
from hdpstats.custodian.answering import Exchange
from hdpstats.custodian.previewing import in_words, looked_at
from hdpstats.privacy.budget import NOTHING, covers
from tests.custodian.asked_by_files import PRICES, QUESTIONS, SIMPLE, STUDY, WEIGHTED, Place
from tests.custodian.mutants import mutants

FIELDS = (
    *("request", "public", "schema", "hdpstats", "signature", "question", "model", "formula", "options", "epsilon"),
    *("delta", "replicate", "column", "argument", "Surv(", "times", "by ", "weights", "quantiles", "correlations"),
    *("complete", "level", "site"),
)
"""Words of which every refusal has one: it says what is wrong."""
SHORT = ("describe", "survfit")
"""Kinds whose answers take no fit."""


def _texts():
    asked = (
        SIMPLE,
        QUESTIONS["curves"],
        SIMPLE,
        QUESTIONS["description"],
        SIMPLE,
        QUESTIONS["logit"],
        QUESTIONS["effect"],
        WEIGHTED["weighted curves"],
    )
    return [hdp.request(kind, what, STUDY, **options).to_json() for kind, what, options in asked]


def _tried(run):
    """Return what a function returns, and what it raises of this package's errors, in words."""
    try:
        return run(), ""
    except HdpError as error:
        return None, str(error)


def _outcome(place, exchange, content):
    """Return what became of one file, having compared what was charged with what its dry run says."""
    place.request.write_bytes(content)
    ledger = exchange.ledger
    before, entries = ledger.balance, len(ledger.history())
    found, unread = _tried(lambda: looked_at(place.known, place.request))
    if unread:
        assert any(word in unread for word in FIELDS), unread
        assert ledger.balance == before
        return "refused"
    words = in_words(place.known, found)
    assert words.replace("\n", "").isprintable()
    if found.request.question.kind not in SHORT or found.request.question.is_weighted:
        return "of a fit"
    if "would be refused" in words:
        assert _tried(lambda: exchange.answer(found.request, analyst="ann"))[1], words
        assert ledger.balance == before
        return "refused"
    cost, ahead = found.cost()
    made = exchange.answer(found.request, analyst="ann")
    assert made.request_sha256 == found.request.sha256
    assert ledger.balance.charged == before.charged + cost + ahead
    assert len(ledger.history()) == entries + (found.met is not None)
    paid = [event.cost for _, release in made.answers for event in release.events]
    assert covers(found.request.question.most, sum(paid, NOTHING))
    return "charged" if found.met is not None else "free"


def _outcomes(place, number, *, seed):
    place.known = place.settings
    exchange = Exchange(place.known, prices=PRICES)
    return collections.Counter(_outcome(place, exchange, content) for content in mutants(_texts(), number, seed=seed))


def _place(tmp_path):
    return Place(tmp_path, ledger={"place": "ledger.db", "dataset": "trial", "epsilon": 10**6, "delta": 0.9})


def test_a_mutant_is_refused_or_charged_as_its_dry_run_says(tmp_path):
    outcomes = _outcomes(_place(tmp_path), 100, seed=2)
    assert min(outcomes[kind] for kind in ("refused", "charged", "free")) > 2


@pytest.mark.wide
def test_no_mutant_of_many_is_charged_otherwise_than_its_dry_run_says(tmp_path):
    outcomes = _outcomes(_place(tmp_path), 6000, seed=2)
    print(dict(outcomes))
    assert min(outcomes[kind] for kind in ("refused", "charged", "free")) > 200
