"""What was answered is answered again without anything that a new answer needs: from the ledger alone."""

import json
from fractions import Fraction

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.registry import query_from_json
from tests.custodian.people import FORMULA, PRIVATE, PUBLIC, SCHEMA, SURVIVAL

NEED_PUBLIC_ROWS = {"importance_weights/1", "neighbours/1", "selection/1", "distance/1"}


def opened(path):
    ledger = hdp.Ledger(path, dataset="trial", epsilon=1000, delta=1e-3)
    return hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger)


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A site that has answered every kind of query that its models ask, the file of its ledger, and the queries."""
    path = tmp_path_factory.mktemp("site") / "ledger.db"
    site = opened(path)
    study = hdp.Study(private=site, public=PUBLIC)
    logit = hdpf.logit(FORMULA, data=study)
    for options in ({}, {"mechanism": "output"}, {"mechanism": "clipped_newton", "delta": 1e-6}):
        logit.fit(epsilon=1.0, **options)
    hdpf.hazard(SURVIVAL, data=study, intervals=4).fit(epsilon=1.0)
    hdpf.linear("k ~ x + g", data=study).fit(epsilon=1.0)
    hdpf.logit("y ~ x", data=study).fit(epsilon=1.0, delta=1e-6, mechanism="exponential")
    logit.evaluate(logit.fit_public(), epsilon=1.0)
    hdp.importance_weights(study, "~ x + g", epsilon=1.0)
    hdp.hybrid_weights(study, ["x", "k", "g"], epsilon=1.0, distance_share=0.2)
    for select in ("loss", "curve"):
        hdp.hybrid_weights(study, ["x", "y", "g"], epsilon=1.0, select=select, model="y ~ x + g")
    site.ledger.export(path.with_suffix(".json"))
    entries = json.loads(path.with_suffix(".json").read_text())["entries"]
    bodies = [entry["body"] for entry in entries if entry["kind"] == "charge"]
    queries = [json.loads(body)["query"] if isinstance(body, str) else body["query"] for body in bodies]
    return site, path, [query_from_json(json.dumps(query)) for query in queries]


def test_what_was_answered_needs_no_public_rows_again(answered):
    site, path, queries = answered
    spent, started_anew = site.ledger.spent, opened(path)
    for query in queries:
        assert started_anew.answer(query) == site.answer(query)
    assert site.ledger.spent == spent


def test_a_new_answer_needs_them_and_nothing_is_charged_without(answered):
    site, path, queries = answered
    spent, started_anew, refused = site.ledger.spent, opened(path), set()
    for query in queries:
        another = query_from_json(query.to_json().replace('"replicate":1', '"replicate":7'))
        assert another != query
        if another.kind in NEED_PUBLIC_ROWS:
            with pytest.raises(hdp.SiteError, match="hand them over first"):
                started_anew.answer(another)
            refused.add(another.kind)
    assert refused == NEED_PUBLIC_ROWS
    assert site.ledger.spent == spent


def test_an_analyst_who_was_not_charged_does_not_receive_what_another_was_charged_for(answered):
    _, path, queries = answered
    ledger = hdp.Ledger(path.with_name("caps.db"), dataset="trial", epsilon=100, delta=1e-3)
    ledger.grant("ann", epsilon=20)
    ledger.grant("bob", epsilon=Fraction(1, 10**6))
    site = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger)
    query = next(each for each in queries if each.kind.startswith("objective"))
    release = site.answer(query, analyst="ann")
    assert site.answer(query, analyst="ann") == release
    with pytest.raises(hdp.InsufficientBudget):
        site.answer(query, analyst="bob")


def test_the_columns_that_permissions_are_compared_with_are_those_that_are_read(answered):
    site, path, queries = answered
    started_anew = opened(path)
    for query in queries:
        assert started_anew.columns(query) == site.quote(query).columns != ()


def test_a_query_for_another_schema_is_not_looked_up(answered):
    _, path, queries = answered
    other = hdp.LocalSite(
        PRIVATE.drop(columns="secret"),
        schema=hdp.Schema({name: column for name, column in SCHEMA.items() if name != "secret"}),
        ledger=hdp.Ledger(path, dataset="trial", epsilon=1000, delta=1e-3),
    )
    with pytest.raises(hdp.SiteError, match="another schema"):
        other.answer(queries[0])
