import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.schema.synthetic import INVENTED_NOTE, is_invented

PUBLIC = hdp.datasets.load_gbsg()
PUBLIC.loc[::7, "age"] = np.nan
SCHEMA = hdp.Schema(
    age=hdp.Continuous(30, 70),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    hormon=hdp.Binary(),
    time=hdp.Duration(2557),
    event=hdp.Binary(),
    event3=hdp.Binary(),
    other=hdp.Continuous(0, 1),
)


@pytest.fixture(scope="module")
def rows():
    return SCHEMA.synthetic(4000, public=PUBLIC, seed=1)


def test_columns_have_their_public_values_shares_and_missing_cells(rows):
    assert list(rows) == list(SCHEMA)
    assert rows["age"].isna().mean() == pytest.approx(PUBLIC["age"].isna().mean(), abs=0.03)
    assert set(rows["age"].dropna()) <= set(PUBLIC["age"].dropna())
    shares = PUBLIC["size"].value_counts(normalize=True)
    np.testing.assert_allclose(rows["size"].value_counts(normalize=True)[shares.index], shares, atol=0.04)
    assert rows["other"].between(0, 1).all()
    assert rows["other"].mean() == pytest.approx(0.5, abs=0.03)


def test_events_belong_to_their_times_and_nothing_else_is_associated(rows):
    pairs = set(zip(PUBLIC["time"], PUBLIC["event"], PUBLIC["event3"].fillna(-1), strict=True))
    assert set(zip(rows["time"], rows["event"], rows["event3"].fillna(-1), strict=True)) <= pairs
    table = pd.crosstab(rows["size"], rows["event"], normalize="index")
    assert np.ptp(table[1.0]) < 0.12
    assert abs(rows["age"].corr(rows["time"])) < 0.06


def test_the_same_seed_gives_the_same_rows_and_another_one_others(rows):
    pd.testing.assert_frame_equal(rows, SCHEMA.synthetic(4000, public=PUBLIC, seed=1))
    assert not rows["time"].equals(SCHEMA.synthetic(4000, public=PUBLIC, seed=2)["time"])


def test_without_public_rows_the_schema_alone_says_what_a_row_holds():
    schema = hdp.Schema(
        sex=hdp.Binary(labels=("female", "male")),
        entry=hdp.Duration(100),
        exit=hdp.Duration(100),
        cause=hdp.Categorical(["none", "relapse", "death"]),
        x=hdp.Continuous(-1, 1),
    )
    rows = schema.synthetic(600)
    assert (rows["entry"] <= rows["exit"]).all()
    assert set(rows["sex"]) == {"female", "male"}
    assert set(rows["cause"]) == {"none", "relapse", "death"}
    assert not rows.isna().any().any()


def test_rows_of_a_person_follow_each_other_and_end_in_one_event_at_most():
    schema = hdp.Schema(
        start=hdp.Duration(900),
        stop=hdp.Duration(900),
        cause=hdp.Categorical(["none", "death"]),
        x=hdp.Continuous(0, 1),
    )
    options = {"unit": "patient", "max_rows_per_unit": 4, "follow_up": ("start", "stop", "cause")}
    rows = schema.synthetic(2000, **options)
    of_person = rows.groupby("patient", sort=False)
    assert set(of_person.size()) == {1, 2, 3, 4}
    assert (of_person["start"].first() == 0).all()
    before = of_person["stop"].shift()
    assert (rows["start"][before.notna()] == before.dropna()).all()
    assert (rows["start"] <= rows["stop"]).all()
    last = of_person.cumcount(ascending=False) == 0
    assert set(rows["cause"][~last]) == {"none"}
    assert set(rows["cause"][last]) == {"none", "death"}


def test_rows_of_a_person_are_those_of_one_public_person():
    visits = hdp.datasets.load_pbcseq()
    schema = hdp.Schema(
        day=hdp.Duration(6000), futime=hdp.Duration(6000), spiders=hdp.Binary(), age=hdp.Continuous(20, 90)
    )
    rows = schema.synthetic(300, public=visits, unit="id", max_rows_per_unit=5)
    for _, person in rows.groupby("id", sort=False):
        assert person["futime"].nunique() == 1
        assert person["day"].is_monotonic_increasing


def test_what_cannot_be_invented_is_refused():
    for options, message in (
        ({"max_rows_per_unit": 3}, "needs unit"),
        ({"follow_up": ("time", "none")}, "declared columns"),
        ({"follow_up": "time"}, "declared columns"),
        ({"seed": -1}, "seed"),
        ({"n": 0}, "n must"),
    ):
        with pytest.raises(hdp.ArgumentError, match=message):
            SCHEMA.synthetic(**{"n": 5, **options})


def test_a_fit_of_invented_rows_says_so_and_charges_no_account_of_a_data_set(rows):
    assert is_invented(rows)
    assert is_invented(rows.assign(age=1.0))
    assert not is_invented(PUBLIC)
    study = hdp.Study(private=rows, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=2))
    fit = hdpf.logit("event ~ hormon", data=study).fit(epsilon=1)
    assert fit.rests_on_invented_rows
    assert " ".join(INVENTED_NOTE.split()) in " ".join(str(fit.summary()).split())
    assert hdp.Result.from_json(fit.to_json()).rests_on_invented_rows
    ledger = hdp.Ledger(None, dataset="rotterdam", epsilon=2)
    with pytest.raises(hdp.ArgumentError, match=r"charged to the account of data set 'rotterdam'.*budget=") as caught:
        hdp.Study(private=rows, schema=SCHEMA, ledger=ledger)
    assert caught.value.facts["argument"] == "ledger"
    assert not len(ledger.history())


def test_invented_public_rows_are_not_combined_with_private_ones(rows):
    private = hdp.datasets.load_rotterdam()
    with pytest.raises(hdp.ArgumentError, match="public rows are invented"):
        hdp.Study(private=private, public=rows, schema=SCHEMA, budget=hdp.Budget(epsilon=2))
    hdp.Study(private=rows, public=SCHEMA.synthetic(50, seed=4), schema=SCHEMA, budget=hdp.Budget(epsilon=2))
    hdp.Study(public=rows, schema=SCHEMA)
