"""The privacy record for an output checker."""

import json
from dataclasses import replace
from fractions import Fraction

from hdpstats import __version__
from hdpstats.privacy.sensitivity import Relation
from hdpstats.results import Result


def test_a_private_fit_says_what_is_guaranteed_and_what_ran(result):
    record = result.disclosure()
    assert record["dp_variant"] == "pure differential privacy"
    assert record["privacy_loss"]["epsilon"] == 1.0
    assert record["privacy_loss"]["exact"] == {"epsilon": "1", "delta": "0"}
    assert record["privacy_loss"]["relation"] == "replace_one"
    assert record["privacy_loss"]["privacy_unit"] == "person"
    assert sum(Fraction(event["epsilon"]) for event in record["accounting"]["events"]) == 1
    assert record["ledger"] == {
        "dataset": "rotterdam",
        "version": 1,
        "number": 2,
        "head": "ab12" * 16,
        "attempt": 1,
        "account": "",
        "charged": None,
    }
    assert record["implementation"]["version"] == __version__
    assert record["bounds"]["schema_sha256"] == result.schema.sha256
    assert record["public_sha256"] == result.query.public_sha256
    assert record["release_sha256"] == result.release.sha256
    assert record["model"]["formula"] == result.facts.formula
    assert any("number of private records" in line for line in record["not_protected"])


def test_the_record_is_json_and_survives_a_round_trip(result, public_result):
    for each in (result, public_result):
        record = each.disclosure()
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert Result.from_json(each.to_json()).disclosure() == record


def test_a_public_fit_says_that_no_private_record_was_used(public_result):
    record = public_result.disclosure()
    assert record["dp_variant"] == "none: no private record was used"
    absent = ("privacy_loss", "accounting", "ledger", "query_sha256", "release_sha256", "public_sha256")
    assert all(record[name] is None for name in absent)
    assert record["not_protected"] == ["the public rows: they are used without noise"]


def test_variant_and_relation_follow_the_guarantee(result):
    other = replace(result.guarantee, delta=Fraction(1, 10**6), relation=Relation.ADD_OR_REMOVE_ONE)
    record = replace(result, released=replace(result.released, guarantee=other)).disclosure()
    assert record["dp_variant"] == "approximate differential privacy"
    assert record["privacy_loss"]["exact"]["delta"] == "1/1000000"
    assert not any("number of private records" in line for line in record["not_protected"])
