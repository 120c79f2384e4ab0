"""Numbers that came from the ledger and were not computed anew say so, with the date of the asker's own charge."""

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.ledger import bookkeeping
from tests.custodian.people import FORMULA, PRIVATE, PUBLIC, SCHEMA

WORDS = "stored release of 2026-03-01, version 1"


@pytest.fixture
def today(monkeypatch):
    """The day of the ledger's clock, as a list of one: what a test writes there."""
    day = ["2026-03-01"]
    monkeypatch.setattr(bookkeeping, "_now", lambda: f"{day[0]}T12:00Z")
    return day


@pytest.fixture
def study(today):
    return hdp.Study(private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=1000, delta=1e-3))


ASKED = {
    "logit": lambda study: hdpf.logit(FORMULA, data=study).fit(epsilon=1.0),
    "rounds": lambda study: hdpf.logit(FORMULA, data=study).fit(epsilon=1.0, delta=1e-6, mechanism="clipped_newton"),
    "evaluation": lambda study: hdpf.logit(FORMULA, data=study).evaluate(
        hdpf.logit(FORMULA, data=study).fit_public(), epsilon=1.0
    ),
    "description": lambda study: hdp.describe(study, ["x", "g"], epsilon=1.0),
    "weights": lambda study: hdp.hybrid_weights(study, ["x", "g"], epsilon=1.0),
    "aggregate": lambda study: hdp.aggregate({"one": ASKED["logit"](study), "two": ASKED["logit"](study_of_others())}),
}


def study_of_others():
    ledger = hdp.Ledger(None, dataset="others", epsilon=9)
    return hdp.Study(private=PRIVATE.iloc[::2], public=PUBLIC, schema=SCHEMA, ledger=ledger)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("what", ASKED)
def test_a_stored_release_says_so_in_every_summary_and_a_new_one_does_not(study, today, what):
    first = ASKED[what](study)
    today[0] = "2026-04-01"
    again = ASKED[what](study)
    assert "stored release" not in first.summary().as_text()
    assert "stored release" not in first._repr_html_()
    assert WORDS in again.summary().as_text()
    assert WORDS in again._repr_html_()
    if what != "evaluation":
        assert WORDS in type(again).from_json(again.to_json()).summary().as_text()


def test_a_corrected_file_is_a_version_of_its_own_and_computed_anew(today, tmp_path):
    def fitted(version, frame):
        ledger = hdp.Ledger(tmp_path / "ledger.db", dataset="trial", version=version, epsilon=9)
        study = hdp.Study(private=frame, public=PUBLIC, schema=SCHEMA, ledger=ledger)
        return hdpf.logit(FORMULA, data=study).fit(epsilon=1.0), ledger

    first, _ = fitted(1, PRIVATE)
    unchanged, _ = fitted(1, PRIVATE.assign(y=0.0))
    corrected, ledger = fitted(2, PRIVATE.assign(y=0.0))
    again, _ = fitted(2, PRIVATE.assign(y=0.0))
    assert unchanged.params.equals(first.params)
    assert WORDS in unchanged.summary().as_text()
    assert not corrected.params.equals(first.params)
    assert "stored release" not in corrected.summary().as_text()
    assert "stored release of 2026-03-01, version 2" in again.summary().as_text()
    assert ledger.spent.epsilon == 2


def test_what_was_computed_for_another_analyst_is_new_to_this_one_and_has_the_date_of_his_own_charge(today):
    ledger = hdp.Ledger(None, dataset="trial", epsilon=9)
    ledger.grant("ann", epsilon=3)
    ledger.grant("bob", epsilon=3)
    site = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger)
    query = hdpf.logit(FORMULA, data=hdp.Study(private=site, public=PUBLIC)).fit(epsilon=1.0).query
    for analyst, day in {"ann": "2026-03-02", "bob": "2026-03-03"}.items():
        today[0] = day
        assert site.answer(query, analyst=analyst).entry.stored is None
    today[0] = "2026-03-04"
    for analyst, day in {"ann": "2026-03-02", "bob": "2026-03-03"}.items():
        for release in (site.answer(query, analyst=analyst), site.received(query, analyst=analyst)):
            assert release.entry.stored == f"{day}T12:00Z"
            assert release.entry.number == 1
    assert site.answer(query).entry.stored == "2026-03-01T12:00Z"


def test_of_several_sites_the_summary_says_which_releases_are_stored(today):
    half = {"A": PRIVATE.iloc[::2], "B": PRIVATE.iloc[1::2]}
    ledgers = {name: hdp.Ledger(None, dataset=name, epsilon=9) for name in half}
    study = hdp.Study(private=half, public=PUBLIC, schema=SCHEMA, ledger=ledgers)
    model = hdpf.logit(FORMULA, data=study)
    query = model.fit(epsilon=1.0, describe=False).query
    ledgers["B"] = hdp.Ledger(None, dataset="B", epsilon=9)
    half_new = hdp.Study(private=half, public=PUBLIC, schema=SCHEMA, ledger=ledgers)
    mixed = hdpf.logit(FORMULA, data=half_new).fit(epsilon=1.0, describe=False)
    assert mixed.query == query
    text = " ".join(mixed.summary().as_text().split())
    assert f"{WORDS} of data set 'A' (1 of 2 releases; 1 new)" in text
    both = " ".join(model.fit(epsilon=1.0, describe=False).summary().as_text().split())
    assert f"{WORDS} of data set 'A'" in both
    assert f"{WORDS} of data set 'B'" in both
