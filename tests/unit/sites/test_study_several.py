"""Studies with private records at several sites."""

import pandas as pd
import pytest

import hdpstats.api as hdp
from tests.support import SCHEMA, people

FRAMES = {"Oslo": people(30, 1), "Bergen": people(20, 2)}
BUDGET = hdp.Budget(epsilon=5)


def ledger(dataset="trial", **options):
    return hdp.Ledger(None, dataset=dataset, epsilon=5, **options)


def site(rows, seed, **options):
    return hdp.LocalSite(people(rows, seed), schema=SCHEMA, ledger=ledger(**options))


def test_sites_have_their_names_rows_and_accounts():
    study = hdp.Study(private=FRAMES, schema=SCHEMA, budget=BUDGET)
    assert list(study.sites) == ["Oslo", "Bergen"]
    assert study.records == 50
    assert {name: each.dataset for name, each in study.ledgers.items()} == {"Oslo": "Oslo", "Bergen": "Bergen"}
    assert "private records at 2 sites" in repr(study)
    page = study._repr_html_()
    assert "Oslo, Bergen" in page
    assert "Privacy spent at Bergen" in page


def test_a_list_is_numbered_and_may_mix_sites_and_frames(tmp_path):
    path = tmp_path / "rows.parquet"
    people(7, 3).to_parquet(path)
    study = hdp.Study(private=[site(10, 1), people(5, 2), path], schema=SCHEMA, budget=BUDGET)
    assert {name: each.records for name, each in study.sites.items()} == {"site 1": 10, "site 2": 5, "site 3": 7}


def test_ledgers_may_be_one_for_each():
    accounts = {name: ledger(dataset) for name, dataset in (("Oslo", "a"), ("Bergen", "b"))}
    study = hdp.Study(private=FRAMES, schema=SCHEMA, ledger=accounts)
    assert study.ledgers == accounts
    for wrong in ({"Oslo": accounts["Oslo"]}, accounts | {"Bodo": ledger()}):
        with pytest.raises(hdp.ArgumentError, match="ledger must have a value for each of 'Oslo', 'Bergen'"):
            hdp.Study(private=FRAMES, schema=SCHEMA, ledger=wrong)


def test_two_sites_never_share_an_account_or_rows(tmp_path):
    """One account would hand the release of one site out as that of the other, and count two as one."""
    shared = ledger()
    path = tmp_path / "ledger.db"
    joined = hdp.Ledger(path, dataset="first", epsilon=5)
    same_people = hdp.Ledger(path, dataset="second", epsilon=5, same_people_as="first")
    other_people = hdp.Ledger(path, dataset="third", epsilon=5)
    (tmp_path / "link.db").symlink_to(path)
    linked = hdp.Ledger(tmp_path / "link.db", dataset="first", epsilon=5)
    frame = people(9)
    frame.to_parquet(tmp_path / "rows.parquet")
    alike = [
        {"private": FRAMES, "ledger": shared},
        {"private": FRAMES, "ledger": {"Oslo": joined, "Bergen": same_people}},
        {"private": FRAMES, "ledger": {"Oslo": joined, "Bergen": hdp.Ledger.open_existing(path, dataset="first")}},
        {"private": FRAMES, "ledger": {"Oslo": joined, "Bergen": linked}},
        {"private": {"a": frame, "b": frame}, "budget": BUDGET},
        {"private": [tmp_path / "rows.parquet", str(tmp_path / "rows.parquet")], "budget": BUDGET},
        {"private": [shared_site := site(5, 1), shared_site]},
    ]
    for options in alike:
        with pytest.raises(hdp.ArgumentError, match="every site once"):
            hdp.Study(schema=SCHEMA, **options)
    hdp.Study(private=FRAMES, schema=SCHEMA, ledger={"Oslo": joined, "Bergen": other_people})


def test_sites_protect_alike_and_have_one_schema():
    hidden = hdp.LocalSite(people(5), schema=SCHEMA, ledger=ledger(relation="add_or_remove_one"), n_max=50)
    with pytest.raises(hdp.ArgumentError, match="the same relation and the same unit"):
        hdp.Study(private=[site(5, 1), hidden])
    other = hdp.Schema(y=hdp.Binary(complete=True))
    stranger = hdp.LocalSite(pd.DataFrame({"y": [0, 1]}), schema=other, ledger=ledger())
    with pytest.raises(hdp.ArgumentError, match="schema must equal the site's own"):
        hdp.Study(private=[site(5, 1), stranger])


def test_declared_numbers_may_differ_between_sites():
    declared = {"relation": "add_or_remove_one", "n_max": {"Oslo": 100, "Bergen": 70}}
    study = hdp.Study(private=FRAMES, schema=SCHEMA, budget=BUDGET, **declared)
    assert [each.records for each in study.sites.values()] == [100, 70]
    assert study.records == 170
    with pytest.raises(hdp.ArgumentError, match="n_max must have a value for each"):
        hdp.Study(private=FRAMES, schema=SCHEMA, budget=BUDGET, relation="add_or_remove_one", n_max={"Oslo": 1})


@pytest.mark.parametrize("private", [{}, [], {"": people(3)}, {"x" * 101: people(3)}, {1: people(3)}])
def test_names_that_are_none_are_refused(private):
    with pytest.raises(hdp.ArgumentError, match="site"):
        hdp.Study(private=private, schema=SCHEMA, budget=BUDGET)


def test_a_part_of_a_study_keeps_accounts_and_public_rows():
    frames = FRAMES | {"Bodo": people(8, 3)}
    study = hdp.Study(private=frames, public=people(12, 4), schema=SCHEMA, budget=BUDGET, quorum=3, deadline=9)
    part = study.at("Bodo", "Oslo")
    assert list(part.sites) == ["Oslo", "Bodo"]
    assert part.sites["Bodo"] is study.sites["Bodo"]
    assert (part.public, part.deadline, part.quorum, part.records) == (study.public, 9.0, 2, 38)
    assert list(study.sites) == [*frames]
    for names in ((), ("Bodo", "Bodo"), ("Tromso",)):
        with pytest.raises(hdp.ArgumentError, match="they are 'Oslo', 'Bergen', 'Bodo'"):
            study.at(*names)


def test_what_is_for_one_site_says_how_to_name_one():
    study = hdp.Study(private=FRAMES, schema=SCHEMA, budget=BUDGET)
    for attribute in ("site", "ledger"):
        with pytest.raises(hdp.MechanismError, match=r"study.at\('Oslo'\)"):
            getattr(study, attribute)
    assert study.at("Bergen").ledger.dataset == "Bergen"


def test_the_quorum_is_more_than_half_and_both_options_are_checked():
    def quorum_of(count, **options):
        frames = {str(k): people(3, k) for k in range(count)}
        return hdp.Study(private=frames, schema=SCHEMA, budget=BUDGET, **options).quorum

    assert [quorum_of(count) for count in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert quorum_of(4, quorum=1) == 1
    for options in ({"quorum": 0}, {"quorum": 4}, {"quorum": 1.5}, {"deadline": 0}, {"deadline": "soon"}):
        with pytest.raises(hdp.ArgumentError, match=next(iter(options))):
            quorum_of(3, **options)
