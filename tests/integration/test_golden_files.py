"""Ledgers and files that earlier versions wrote are read, and what was charged in them is not charged again.

What `tools/golden.py` wrote with a version stays as it is from its release on: a test that fails here says that a
user's file, or a custodian's ledger, would no longer be read.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import OlderRecipe
from hdpstats.describe import Description
from hdpstats.exchange import ReleaseFile, RequestFile, release_file, request_file
from hdpstats.families.row_spec import RowSpec
from hdpstats.ledger import signing, store
from hdpstats.ledger.signing import SignedHead, VerifyingKey, check_export
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.models import regression
from hdpstats.records import recipe
from hdpstats.records.saved import Saved
from hdpstats.schema import dictionary
from hdpstats.sites import messages, recipes
from tests.golden import calls

VERSIONS = sorted(each for each in Path(calls.__file__).parent.iterdir() if (each / "ledger.db").exists())
KINDS = {"balance": hdp.Balance, "survfit": hdp.SurvivalCurves, "effect": hdp.TreatmentEffect}
READ = {
    "logit": hdp.Result,
    "rounds": hdp.Result,
    "describe": Description,
    "survfit": hdp.SurvivalCurves,
    "effect": hdp.TreatmentEffect,
    **dict.fromkeys(calls.CALLS_OF_VISITS, hdp.Result),
    "visits_describe": Description,
    **{name: KINDS.get(name.rpartition("_")[2], hdp.Result) for name in calls.CALLS_OF_WEIGHTED},
    **{name: KINDS.get(name.rpartition("_")[2], hdp.Result) for name in calls.CALLS_OF_WEIGHTED_VISITS},
    "combined_effect": hdp.CombinedEffect,
}
FIRST = next(iter(calls.TERMS))


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def version(request):
    return request.param


@pytest.fixture
def ledger(version, tmp_path):
    """A copy of the ledger, in a file of its own."""
    return Path(shutil.copy(version / "ledger.db", tmp_path / "ledger.db"))


def test_every_version_that_was_released_is_kept():
    assert {path.name for path in VERSIONS} == {"0.1.0"}


@pytest.mark.parametrize("name", READ)
def test_results_are_read_and_written_as_they_were(version, name):
    text = (version / f"{name}.json").read_text(encoding="utf-8")
    assert json.loads(READ[name].from_json(text).to_json()) == json.loads(text)


def test_signatures_hold(version, ledger):
    key = VerifyingKey.read(version / "site.pub")
    for name in ("logit", "rounds"):
        assert hdp.Result.from_json(version / f"{name}.json").verify(key) >= 3
    assert check_export(version / "export.json", head=SignedHead.read(version / "head.json"), key=key)
    account = calls.ledger(ledger, FIRST, create=False)
    assert account.verify(version / "head.json", key=key).head == account.head


def test_a_schema_and_the_files_between_analyst_and_custodian_are_read(version):
    assert hdp.Schema.from_yaml(version / "schema.yaml").sha256 == calls.SCHEMA.sha256
    public = hdp.datasets.load_gbsg()
    read = hdp.read_result(version / "release.json", version / "request.json", public=public, key=version / "site.pub")
    assert calls.releases(read) == calls.releases(hdp.Result.from_json(version / "logit.json"))
    assert ReleaseFile.read(version / "release.json").version == version.name
    RequestFile.read(version / "request.json").check_signature(VerifyingKey.read(version / "analyst.pub"))


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("dataset", calls.TERMS)
def test_the_same_calls_are_answered_from_the_ledger_for_nothing(version, ledger, dataset):
    data = calls.study(calls.site(ledger, dataset))
    before, entries = data.ledger.balance, data.ledger.verify().entries
    for name, call in calls.CALLS.items():
        found = call(data)
        if dataset == FIRST and name in calls.KEPT:
            stored = READ[name].from_json(version / f"{name}.json")
            assert calls.releases(found) == calls.releases(stored), name
    assert (data.ledger.balance, data.ledger.verify().entries) == (before, entries)
    assert before.charged.epsilon > 3


@pytest.mark.parametrize("name", calls.SETS_OF_CALLS)
def test_calls_of_further_ledgers_are_answered_from_the_ledger_for_nothing(version, tmp_path, name):
    open_study, asked = calls.SETS_OF_CALLS[name]
    data = open_study(Path(shutil.copy(version / f"{name}.db", tmp_path / f"{name}.db")), create=False)
    before, entries = data.ledger.balance, data.ledger.verify().entries
    for kept, call in asked.items():
        stored = READ[kept].from_json(version / f"{kept}.json")
        assert calls.releases(call(data)) == calls.releases(stored), kept
    assert (data.ledger.balance, data.ledger.verify().entries) == (before, entries)
    assert before.charged.epsilon > 2.5


@pytest.mark.wide
def test_a_processor_with_fewer_instructions_asks_the_same():
    """Sums in another order have other last digits; no query may hold these."""
    fewer = {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__),
        "NUMBA_CPU_NAME": "generic",
    }
    tests = ["-m", "not wide", "-k", "answered_from_the_ledger", "-p", "no:cacheprovider", __file__]
    again = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests], env=os.environ | fewer, capture_output=True, text=True
    )
    assert again.returncode == 0, again.stdout[-4000:]


def test_queries_of_the_ledger_are_read_and_written_as_they_were(ledger):
    with closing(sqlite3.connect(ledger)) as connection:
        bodies = [json.loads(body) for (body,) in connection.execute("SELECT body FROM entry WHERE kind = 'charge'")]
    assert len(bodies) > 20
    assert all(json.loads(query_from_json(json.dumps(body["query"])).question()) == body["query"] for body in bodies)


@pytest.fixture
def second_recipe(monkeypatch):
    """A later version: its recipe of regressions takes twice the ridge."""
    first = RowSpec.choose_ridge

    def chosen(self, *args, **kwargs):
        found = first(self, *args, **kwargs)
        return found if recipe.in_use() < 2 else replace(found, ridge=2 * found.ridge)

    monkeypatch.setattr(recipe, "CURRENT", 2)
    monkeypatch.setattr(RowSpec, "choose_ridge", chosen)


@pytest.mark.parametrize("dataset", calls.TERMS)
def test_a_call_that_was_charged_under_an_older_recipe_returns_that_release_with_its_date(
    version, ledger, dataset, second_recipe
):
    data = calls.study(calls.site(ledger, dataset))
    before = data.ledger.balance
    with pytest.warns(OlderRecipe, match=r"charged on 20\d\d-\d\d-\d\d under recipe 1 .*asks by recipe 2") as seen:
        found = calls.CALLS["logit"](data)
    assert [each.category for each in seen] == [OlderRecipe]
    assert seen[0].filename == calls.__file__
    assert data.ledger.balance == before
    assert found.query.recipe is None
    assert "Recipe:" in str(found.summary())
    if dataset == FIRST:
        assert calls.releases(found) == calls.releases(hdp.Result.from_json(version / "logit.json"))


def test_what_a_later_recipe_asks_alike_is_found_without_a_word(version, ledger, second_recipe, recwarn):
    data = calls.study(calls.site(ledger, FIRST))
    before = data.ledger.balance
    found = calls.CALLS["describe"](data)
    assert [each for each in recwarn if each.category is OlderRecipe] == []
    assert data.ledger.balance == before
    assert found.query.recipe == 2
    stored = Description.from_json(version / "describe.json")
    assert (found.query.question(), found.releases) == (stored.query.question(), stored.releases)


def test_a_new_call_and_another_draw_are_asked_by_the_latest_recipe(ledger, second_recipe, recwarn):
    data = calls.study(calls.site(ledger, FIRST))
    before = data.ledger.balance.charged.epsilon
    model = hdpf.logit("event3 ~ age + hormon", data)
    again, other = model.fit(epsilon=0.5, replicate=2), model.fit(epsilon=0.25, replicate=2)
    assert [each for each in recwarn if each.category is OlderRecipe] == []
    assert [each.query.recipe for each in (again, other)] == [2, 2]
    assert json.loads(again.to_json())["released"]["query"]["recipe"] == 2
    assert 0.74 < data.ledger.balance.charged.epsilon - before <= 0.76
    assert "Recipe:" not in str(again.summary())
    assert hdp.Result.from_json(again.to_json()).query == again.query
    assert model.fit(epsilon=0.5, replicate=2).release == again.release


def test_a_model_that_was_opened_before_is_opened_anew_under_the_older_recipe(ledger, second_recipe, monkeypatch):
    """What was chosen when a model was opened follows from the recipe too."""
    opened, first = [], regression.open_regression
    monkeypatch.setattr(
        regression,
        "open_regression",
        lambda *args, **named: opened.append(recipe.in_use()) or first(*args, **named),
    )
    data = calls.study(calls.site(ledger, FIRST))
    with pytest.warns(OlderRecipe):
        hdpf.logit("event3 ~ age + hormon", data).fit(epsilon=0.5)
    assert opened[0] == 2
    assert set(opened[1:]) == {1}


def test_with_one_recipe_nothing_is_looked_for(ledger, monkeypatch):
    monkeypatch.setattr(recipes, "_charged_under", None)
    data = calls.study(calls.site(ledger, FIRST))
    assert calls.CALLS["describe"](data).query.recipe is None


def test_a_site_that_had_not_answered_is_asked_as_the_others_were(second_recipe):
    """Two sites, of which one was away when the fit was charged under the first recipe."""
    schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True))
    rows = hdp.datasets.load_rotterdam()
    sites = {
        name: hdp.LocalSite(part, schema=schema, ledger=hdp.Ledger(None, dataset=name, epsilon=5))
        for name, part in (("a", rows.iloc[:1000]), ("b", rows.iloc[1000:]))
    }
    both = hdp.Study(private=sites, public=hdp.datasets.load_gbsg(), quorum=1)
    with recipe.using(1):
        asked = hdpf.logit("hormon ~ age", both).fit(epsilon=1, se_share=0, describe=False)
    fresh = hdp.LocalSite(rows.iloc[1000:], schema=schema, ledger=hdp.Ledger(None, dataset="b", epsilon=5))
    again = hdp.Study(private={"a": sites["a"], "b": fresh}, public=hdp.datasets.load_gbsg(), quorum=1)
    with pytest.warns(OlderRecipe, match="recipe 1"):
        found = hdpf.logit("hormon ~ age", again).fit(epsilon=1, se_share=0, describe=False)
    assert found.query == asked.query
    assert dict(found.release.sites)["a"] == dict(asked.release.sites)["a"]
    assert [float(each.ledger.spent.epsilon) for each in (sites["a"], fresh)] == [1, 1]


def test_a_site_refuses_a_recipe_that_it_does_not_know_before_it_charges(ledger, second_recipe, monkeypatch):
    site = calls.site(ledger, FIRST)
    query = hdpf.logit("event3 ~ nodes", calls.study(site)).fit(epsilon=0.5, describe=False, se_share=0).query
    later = replace(query, replicate=2)
    monkeypatch.setattr(recipe, "CURRENT", 1)
    before = site.ledger.balance
    for call in (site.answer, site.quote, site.work, site.received, site.columns):
        with pytest.raises(hdp.SiteError, match=r"recipe 2.*up to 1.*nothing was charged"):
            call(later)
    with pytest.raises(hdp.SiteError, match="recipe 1"):
        site.answer(replace(later, recipe=1))  # the first is written by leaving it out
    assert site.ledger.balance == before


def test_a_request_file_has_its_recipe(tmp_path, version, ledger, second_recipe, monkeypatch):
    asked = hdp.request("logit", "event3 ~ age + hormon", calls.study(calls.site(ledger, FIRST)), epsilon=0.5)
    asked.write(tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text())["recipe"] == 2
    read = RequestFile.read(tmp_path / "new.json")
    assert (read.recipe, RequestFile.read(version / "request.json").recipe) == (2, None)
    old = {"release": version / "release.json", "request": version / "request.json"}
    found = hdp.read_result(**old, public=hdp.datasets.load_gbsg())
    assert found.query.recipe is None
    monkeypatch.setattr(recipe, "CURRENT", 1)
    with pytest.raises(hdp.SiteError, match="recipe 2"):
        RequestFile.read(tmp_path / "new.json")


def test_the_page_of_versions_names_todays_formats():
    page = (Path(__file__).parents[2] / "docs" / "about" / "versions.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE))
    saved = {kind._what.removeprefix("a ").removeprefix("an "): str(kind._format) for kind in Saved.__subclasses__()}
    found = {
        "ledger": f"`{store.FORMAT}`",
        "signed head": f"`{signing.HEAD}`",
        "signature of a release": f"`{signing.RELEASE}`",
        "request file": f"`{request_file.FORMAT}`",
        "release file": f"`{release_file.FORMAT}`",
        "schema": f"`{dictionary.FORMAT}`, version {dictionary.VERSION}",
        "between a site and an analyst": str(messages.FORMAT),
    } | saved
    assert {name: table.get(name) for name in found} == found
    assert len(saved) >= 5
