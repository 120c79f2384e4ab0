"""A study holds a site, public rows and a schema together."""

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.support import FORMULA, PUBLIC_ROWS, RECORDS, SCHEMA, people, study_of

PRIVATE = people(RECORDS)
PUBLIC = people(PUBLIC_ROWS, seed=1)


def test_a_study_shows_public_facts_only():
    study = study_of(PRIVATE, PUBLIC)
    shown = f"private records at 1 site, {PUBLIC_ROWS} public rows, 6 declared columns; replace_one, one row per person"
    assert repr(study) == f"<study: {shown}>"
    assert "at 1 site, which answers queries and shows no row" in study._repr_html_()
    assert str(RECORDS) not in study._repr_html_()
    assert study.relation.value == "replace_one"
    assert study.schema is SCHEMA


def test_a_budget_opens_a_ledger_in_memory():
    study = study_of(PRIVATE, epsilon=2)
    assert study.ledger.budget == hdp.Budget(epsilon=2)
    assert (study.ledger.dataset, study.ledger.version, study.ledger.relation) == ("private", 1, "replace_one")


def test_a_ledger_is_used_as_it_is(tmp_path):
    ledger = hdp.Ledger(tmp_path / "trial.db", dataset="trial", epsilon=3)
    study = hdp.Study(private=PRIVATE, schema=SCHEMA, ledger=ledger)
    assert study.ledger is ledger
    hdpf.logit(FORMULA, data=study).fit(epsilon=1.0, se_share=0)
    assert hdp.Ledger.open_existing(tmp_path / "trial.db").spent.epsilon == 1


def test_a_ledger_of_another_relation_is_refused():
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, relation="add_or_remove_one")
    with pytest.raises(hdp.ArgumentError, match="relation"):
        hdp.Study(private=PRIVATE, schema=SCHEMA, ledger=ledger)


def test_ledger_and_budget_exclude_each_other():
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3)
    with pytest.raises(hdp.ArgumentError, match="both given"):
        hdp.Study(private=PRIVATE, schema=SCHEMA, ledger=ledger, budget=hdp.Budget(epsilon=1))


def test_a_site_brings_its_schema_and_its_ledger():
    site = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(None, dataset="trial", epsilon=3))
    study = hdp.Study(private=site)
    assert study.site is site
    assert study.schema is SCHEMA
    assert study.ledger is site.ledger
    with pytest.raises(hdp.ArgumentError, match="a site brings its own"):
        hdp.Study(private=site, budget=hdp.Budget(epsilon=1))
    with pytest.raises(hdp.ArgumentError, match="schema must equal"):
        hdp.Study(private=site, schema=hdp.Schema(y=hdp.Binary(complete=True)))
    assert hdp.Study(private=site, schema=hdp.Schema(dict(SCHEMA))).site is site


def test_without_private_rows_there_is_a_plan_and_a_public_fit():
    study = hdp.Study(public=PUBLIC, schema=SCHEMA)
    model = hdpf.logit(FORMULA, data=study)
    assert study.site is None
    assert "no private records" in repr(study)
    assert model.fit_public().guarantee is None
    assert model.plan(1.0, n=500).records == 500
    for call in (lambda: model.fit(epsilon=1.0), lambda: model.plan(1.0), lambda: study.ledger):
        with pytest.raises(hdp.ArgumentError):
            call()
    with pytest.raises(hdp.ArgumentError, match="ledger and budget belong to private rows"):
        hdp.Study(public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=1))


def test_a_file_of_private_rows_is_fitted_like_the_frame(tmp_path):
    PRIVATE.to_parquet(tmp_path / "rows.parquet")
    for path in (tmp_path / "rows.parquet", str(tmp_path / "rows.parquet")):
        study = study_of(path)
        read, held = (each.site._table.admit(list(SCHEMA)) for each in (study, study_of(PRIVATE)))
        for name, cells in {**held.numeric, **held.codes}.items():
            pd.testing.assert_series_equal(pd.Series({**read.numeric, **read.codes}[name]), pd.Series(cells))
        assert len(hdpf.logit(FORMULA, data=study).fit(epsilon=1.0, se_share=0).params) == 5


def test_an_equal_copy_of_the_private_frame_is_not_the_same_object():
    with pytest.raises(hdp.ArgumentError, match="not the same object"):
        study_of(PRIVATE, PRIVATE)
    assert study_of(PRIVATE, PUBLIC).public.rows == PUBLIC_ROWS


def test_public_rows_with_missing_values_are_dropped_and_counted_as_glm_does():
    frame = PUBLIC.copy()
    frame.loc[:3, "x"] = None
    result = hdpf.logit(FORMULA, data=study_of(PRIVATE, frame)).fit(epsilon=1.0)
    assert result.facts.public_rows == PUBLIC_ROWS - 4
