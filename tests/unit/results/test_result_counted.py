"""A result whose number of private records was released: tables, JSON and the privacy record include that release."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.mechanisms.count import CountRelease
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.query import LedgerEntry
from hdpstats.results import Result

NUMBER = 1013


@pytest.fixture
def counted(result):
    """The result of the other tests under add_or_remove_one."""
    count = CountRelease(
        count=NUMBER,
        noise_sd=70.7095,
        most=5000,
        events=(PrivacyEvent(ran=MechanismName.COUNT, epsilon=Fraction(1, 50)),),
        entry=LedgerEntry(dataset="rotterdam", version=1, number=2, head="cd34" * 16),
    )
    release = replace(result.release, entry=replace(result.release.entry, number=4))
    guarantee = replace(result.guarantee, relation=Relation.ADD_OR_REMOVE_ONE, epsilon=Fraction(51, 50))
    facts = replace(result.facts, records=NUMBER)
    released = replace(result.released, release=release, guarantee=guarantee, count=count)
    return replace(result, facts=facts, released=released)


def test_the_summary_tells_number_cost_and_both_entries(counted):
    text = str(counted)
    assert f"{NUMBER} +/- 70.71 (noisy)" in text
    assert "epsilon = 0.02: two-sided geometric noise on the number of" in text
    assert text.index("epsilon = 0.02") < text.index("epsilon = 0.849999")
    assert text.index("entry 2, head cd34") < text.index("entry 4, head ab12")
    assert text.count("Ledger entry:") == 1
    assert max(map(len, text.splitlines())) <= 78
    assert counted.glance()["nobs"].tolist() == [NUMBER]
    assert counted.glance()["epsilon"].tolist() == [1.02]


def test_a_public_number_is_not_called_noisy(result):
    assert "noisy" not in str(result)
    assert result.disclosure()["number_of_records"] is None


def test_a_number_that_drowns_is_called_so(counted):
    assert "is small against its noise" not in str(counted)
    small = replace(counted, released=replace(counted.released, count=replace(counted.count, count=300)))
    assert "is small against its noise" in " ".join(str(small).split())


def test_it_comes_back_from_json(counted):
    text = counted.to_json()
    other = Result.from_json(text)
    assert (other.count, other.count.entry) == (counted.count, counted.count.entry)
    assert other.to_json() == text
    assert str(other) == str(counted)
    document = json.loads(text)
    document["released"]["count"] = document["released"]["release"]
    with pytest.raises(ArgumentError, match="not a result"):
        Result.from_json(json.dumps(document))


def test_the_privacy_record_adds_it_up(counted):
    record = counted.disclosure()
    events = record["accounting"]["events"]
    assert events[0]["ran"] == MechanismName.COUNT.value
    assert sum(Fraction(event["epsilon"]) for event in events) == counted.guarantee.epsilon
    assert record["number_of_records"] == {
        "release_sha256": counted.count.sha256,
        "noise_sd": 70.7095,
        "ledger": counted.count.entry.to_dict(),
    }
    assert not any("number of private records" in line for line in record["not_protected"])
