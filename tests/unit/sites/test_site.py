"""SiteTerms: which relation, whose rows, how many people; and that hidden numbers stay hidden."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.privacy.sensitivity import Relation
from hdpstats.sites.site import MOST_PEOPLE, MOST_ROWS_OF_A_PERSON, SiteTerms

SCHEMA = hdp.Schema(
    start=hdp.Duration(100, missing=0),
    stop=hdp.Duration(100, complete=True),
    event=hdp.Binary(complete=True),
    x=hdp.Continuous(0, 1, complete=True),
)
LONG = {"unit": "patient", "max_rows_per_unit": 12, "n_max": 5000}
HIDDEN = {"relation": "add_or_remove_one", "n_max": 700}


def long_form(people, *, seed=0):
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(people), 2)
    return pd.DataFrame(
        {
            "patient": patient,
            "start": np.tile([0.0, 40.0], people),
            "stop": np.tile([40.0, 90.0], people),
            "event": rng.integers(0, 2, 2 * people),
            "x": rng.random(2 * people),
        }
    )


def study_of(private, public=None, **options):
    return hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=1), **options)


def site_of(private, *, relation="replace_one", **options):
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, relation=relation, unit=options.get("unit"))
    return hdp.LocalSite(private, schema=SCHEMA, ledger=ledger, **options)


def terms(**declared):
    named = {"relation": "replace_one", "unit": None, "max_rows_per_unit": None, "n_max": None}
    return SiteTerms.declared(**{**named, **declared})


@pytest.mark.parametrize(
    ("declared", "expected", "words"),
    [
        ({}, (Relation.REPLACE_ONE, None, 1, None), "replace_one, one row per person"),
        (LONG, (Relation.REPLACE_ONE, "patient", 12, 5000), "replace_one, at most 12 rows per 'patient', n_max 5000"),
        (
            HIDDEN,
            (Relation.ADD_OR_REMOVE_ONE, None, 1, 700),
            "add_or_remove_one, one row per person, n_max 700",
        ),
        (
            HIDDEN | LONG,
            (Relation.ADD_OR_REMOVE_ONE, "patient", 12, 5000),
            "add_or_remove_one, at most 12 rows per 'patient', n_max 5000",
        ),
    ],
)
def test_terms_are_what_was_declared(declared, expected, words):
    found = terms(**declared)
    assert dataclasses.astuple(found) == (*expected, "undeclared")
    assert str(found) == words


@pytest.mark.parametrize(
    ("declared", "argument"),
    [
        ({"unit": "patient"}, "max_rows_per_unit"),
        ({"unit": "patient", "n_max": 5000}, "max_rows_per_unit"),
        ({"unit": "patient", "max_rows_per_unit": 12}, "n_max"),
        ({"max_rows_per_unit": 12}, "max_rows_per_unit"),
        ({"n_max": 5000}, "n_max"),
        ({"relation": "add_or_remove_one"}, "n_max"),
        ({"relation": "add_or_remove_one", "unit": "patient", "max_rows_per_unit": 1}, "n_max"),
        ({"relation": "add_or_remove_one", "max_rows_per_unit": 1, "n_max": 9}, "max_rows_per_unit"),
        ({"relation": "neighbours"}, "relation"),
        *(({**LONG, "max_rows_per_unit": most}, "max_rows_per_unit") for most in (0, 1.5, True, "12", 1e300)),
        ({**LONG, "max_rows_per_unit": MOST_ROWS_OF_A_PERSON + 1}, "max_rows_per_unit"),
        *(({**LONG, "n_max": most}, "n_max") for most in (0, -1, 0.5, False, "many", MOST_PEOPLE + 1)),
        *(({**LONG, "unit": unit}, "unit") for unit in ("", 1, b"id", ["patient"], "x" * 101)),
    ],
)
def test_terms_that_do_not_hold_together_are_refused_by_name(declared, argument):
    frame = long_form(3)
    for make in (lambda: terms(**declared), lambda: study_of(frame, **declared)):
        with pytest.raises(hdp.ArgumentError, match=argument) as caught:
            make()
        assert caught.value.argument == argument


def test_a_site_with_a_unit_reads_no_number_of_people():
    sites = [site_of(long_form(people), **LONG) for people in (0, 3, 40)]
    assert {site.records for site in sites} == {5000}
    assert {repr(site) for site in sites} == {
        "<local site: data set 'trial', 4 declared columns; replace_one, at most 12 rows per 'patient', n_max 5000>"
    }
    assert {(site.relation, site.unit, site.most_rows) for site in sites} == {(Relation.REPLACE_ONE, "patient", 12)}


def test_a_site_that_hides_the_number_reads_none():
    sites = [site_of(long_form(people), **HIDDEN) for people in (0, 3, 400)]
    assert {site.records for site in sites} == {700}
    assert {site.relation for site in sites} == {Relation.ADD_OR_REMOVE_ONE}
    assert len({repr(site) for site in sites}) == 1
    assert [len(site._table.admit(["x"]).numeric["x"]) for site in sites] == [0, 6, 800]


def test_a_site_of_one_row_per_person_has_the_public_number_of_rows():
    site = site_of(long_form(3))
    assert (site.records, site.relation, site.unit, site.most_rows) == (6, Relation.REPLACE_ONE, None, 1)
    assert site._table.admit([]).persons is None


def test_a_study_hands_unit_and_relation_on():
    study = study_of(long_form(3), long_form(2, seed=1), **(HIDDEN | LONG))
    assert study.site.terms == terms(**(HIDDEN | LONG))
    assert (study.ledger.relation, study.ledger.unit) == ("add_or_remove_one", "patient")
    assert (study.relation, study.unit, study.most_rows) == (Relation.ADD_OR_REMOVE_ONE, "patient", 12)
    assert study.records == study.site.records == 5000
    assert study.site._table.admit([]).persons.tolist() == [0, 0, 1, 1, 2, 2]
    assert study.public.raw(["x"]).persons.tolist() == [0, 0, 1, 1]
    shown = "add_or_remove_one, at most 12 rows per 'patient', n_max 5000"
    assert repr(study) == f"<study: private records at 1 site, 4 public rows, 4 declared columns; {shown}>"
    assert "at most 12 rows per &#x27;patient&#x27;" in study._repr_html_()


def test_public_rows_without_the_unit_are_a_person_each():
    public = long_form(2).drop(columns="patient")
    assert study_of(long_form(3), public, **LONG).public.raw(["x"]).persons is None
    planned = hdp.Study(public=public, schema=SCHEMA, **LONG)
    assert (planned.site, planned.unit, planned.records) == (None, "patient", 5000)
    assert hdp.Study(public=public, schema=SCHEMA).records is None


def test_a_ledger_counts_under_its_own_relation():
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, relation="add_or_remove_one")
    study = hdp.Study(private=long_form(3), schema=SCHEMA, ledger=ledger, **HIDDEN)
    assert study.relation is study.site.relation is Relation.ADD_OR_REMOVE_ONE
    other = hdp.Ledger(None, dataset="trial", epsilon=3)
    with pytest.raises(hdp.ArgumentError, match="relation must be the ledger's own, 'replace_one'"):
        hdp.Study(private=long_form(3), schema=SCHEMA, ledger=other, **HIDDEN)
    with pytest.raises(hdp.ArgumentError, match="n_max must be given"):
        site_of(long_form(3), relation="add_or_remove_one")


def test_a_site_brings_its_terms():
    site = site_of(long_form(3), **(HIDDEN | LONG))
    for options in ({}, {"relation": "add_or_remove_one"}):
        study = hdp.Study(private=site, public=long_form(2), **options)
        assert (study.relation, study.unit, study.most_rows, study.records) == (site.relation, "patient", 12, 5000)
        assert study.public.raw([]).persons.tolist() == [0, 0, 1, 1]
    for option, value in LONG.items():
        with pytest.raises(hdp.ArgumentError, match="a site brings its own"):
            hdp.Study(private=site, **{option: value})
    with pytest.raises(hdp.ArgumentError, match="relation must be the site's own, 'replace_one'"):
        hdp.Study(private=site_of(long_form(3)), relation="add_or_remove_one")
    with pytest.raises(hdp.ArgumentError, match="relation"):
        hdp.Study(private=site, relation="neighbours")


@pytest.mark.parametrize("as_text", [False, True])
def test_a_file_names_people_as_the_frame_does(tmp_path, as_text):
    frame = long_form(4).iloc[::-1]
    frame["patient"] = [f"p{patient}" for patient in frame["patient"]] if as_text else frame["patient"]
    frame.to_parquet(tmp_path / "rows.parquet")
    read = study_of(tmp_path / "rows.parquet", **LONG).site._table.admit(SCHEMA)
    held = study_of(frame, **LONG).site._table.admit(SCHEMA)
    assert read.persons.tolist() == held.persons.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {name: cells.tolist() for name, cells in read.beyond.items()} == {
        name: cells.tolist() for name, cells in held.beyond.items()
    }


def test_absent_and_repeated_units_are_named_before_anything_is_charged():
    frame = long_form(3)
    with pytest.raises(hdp.SchemaError, match="private rows lack the column 'person' that names the person"):
        study_of(frame, **(LONG | {"unit": "person"}))
    with pytest.raises(hdp.SchemaError, match="several columns are called 'patient'"):
        study_of(pd.concat([frame, frame[["patient"]]], axis=1), **LONG)
