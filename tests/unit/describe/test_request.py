"""Descriptions of the cohort: what is asked, what is found, what is shown, several sites, plans."""

import json
from fractions import Fraction

import docx
import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.description.request import cuts_between, round_ends
from hdpstats.noise import BoxNoise
from tests import known_noise

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90),
    nodes=hdp.Continuous(0, 40),
    size=hdp.Categorical(["s", "m", "l"]),
    sex=hdp.Binary(labels=("man", "woman"), complete=True),
    arm=hdp.Binary(),
    time=hdp.Duration(10, unit="years"),
    event=hdp.Binary(),
    w=hdp.Weight(max=4, missing=1),
)


def people(n, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.clip(rng.normal(55, 12, n), 20, 90),
            "nodes": np.minimum(rng.poisson(3, n), 40).astype(float),
            "size": rng.choice(["s", "m", "l"], n, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["man", "woman"], n),
            "arm": rng.integers(0, 2, n).astype(float),
            "time": rng.exponential(6, n),
            "event": rng.integers(0, 2, n).astype(float),
            "w": rng.uniform(0, 4, n),
        }
    )
    for name in ("age", "nodes", "size"):
        frame.loc[rng.random(n) < missing, name] = None
    return frame


PRIVATE, PUBLIC = people(2000, 1), people(600, 2)


def study_of(private=PRIVATE, public=PUBLIC, **options):
    options = {"schema": SCHEMA, "budget": hdp.Budget(epsilon=1000, delta=1e-3)} | options
    return hdp.Study(private=private, public=public, **options)


def number(frame, variable, statistic, *, level=None, group=None):
    """Return the row of a number."""
    found = frame[frame["statistic"] == statistic]
    for name, value in (("variable", variable), ("level", level), ("group", group)):
        found = found[found[name].isna() if value is None else found[name] == value]
    (row,) = found.to_dict("records")
    return row


@pytest.fixture
def no_noise(monkeypatch):
    known_noise.off(monkeypatch)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_without_noise_the_numbers_are_those_of_the_cells_that_are_there(no_noise, relation):
    options = {} if relation == "replace_one" else {"relation": relation, "n_max": 5000}
    table = hdp.describe(study_of(**options), ["age", "nodes", "size", "sex"], epsilon=40)
    tidy = table.tidy()
    assert list(tidy) == ["group", "variable", "level", "statistic", "estimate", "std_error", "conf_low", "conf_high"]
    assert number(tidy, None, "n")["estimate"] == pytest.approx(2000)
    assert (number(tidy, None, "n")["std_error"] == 0) == (relation == "replace_one")
    for name in ("age", "nodes"):
        there = PRIVATE[name].dropna().astype(float)
        assert number(tidy, name, "missing")["estimate"] == pytest.approx(PRIVATE[name].isna().mean(), abs=1e-5)
        assert number(tidy, name, "mean")["estimate"] == pytest.approx(there.mean(), rel=1e-4)
        assert number(tidy, name, "sd")["estimate"] == pytest.approx(there.std(ddof=0), rel=1e-3)
        for statistic, p in (("q1", 0.25), ("median", 0.5), ("q3", 0.75)):
            row = number(tidy, name, statistic)
            true = there.quantile(p, interpolation="lower")
            assert row["conf_low"] <= true <= row["conf_high"]
            assert abs(row["estimate"] - true) <= 3
    assert number(tidy, "nodes", "median")["estimate"] == PRIVATE["nodes"].median()
    shares = PRIVATE["size"].value_counts(normalize=True)
    for level in ("s", "m", "l"):
        assert number(tidy, "size", "share", level=level)["estimate"] == pytest.approx(shares[level], abs=1e-5)
    assert number(tidy, "sex", "share", level="woman")["estimate"] == pytest.approx((PRIVATE.sex == "woman").mean())
    assert "missing" not in set(tidy.loc[tidy["variable"] == "sex", "statistic"])


def days(frame):
    return pd.Series([f"2021-03-{1 + row % 28:02d}" for row in range(len(frame))], index=frame.index)


WRONG_FILES = {
    "an outcome coded 1 and 2": ("event", lambda cells: cells + 1, 0.5),
    "levels in upper case": ("size", lambda cells: cells.str.upper(), 0.9),
    "levels with blanks": ("size", lambda cells: cells + " ", 0.9),
    "a decimal comma": ("age", lambda cells: cells.map("{:.1f}".format).str.replace(".", ","), 1.0),
    "text where 0 and 1 are declared": ("event", lambda cells: cells.map({0.0: "F", 1.0: "M"}), 1.0),
    "dates as text": ("time", days, 1.0),
}


@pytest.mark.parametrize("what", WRONG_FILES)
def test_a_file_that_is_coded_otherwise_shows_in_the_share_of_missing_cells(no_noise, what):
    name, recoded, share = WRONG_FILES[what]
    table = hdp.describe(study_of(PRIVATE.assign(**{name: recoded(PRIVATE[name])})), [name], epsilon=1)
    missing = number(table.tidy(), name, "missing")
    assert missing["estimate"] > share - 0.05
    assert missing["conf_low"] > share - 0.1
    assert f"{100 * missing['estimate']:.1f}%" in table.summary().as_text()


def test_an_age_in_months_shows_at_the_upper_bound(no_noise):
    table = hdp.describe(study_of(PRIVATE.assign(age=PRIVATE.age * 12)), ["age"], epsilon=1)
    tidy = table.tidy()
    assert number(tidy, "age", "mean")["estimate"] > 89.5
    assert number(tidy, "age", "median")["conf_high"] == 90


def test_groups_are_described_each_by_itself(no_noise):
    table = hdp.describe(study_of(), ["age", "size"], by="sex", epsilon=1)
    tidy = table.tidy()
    assert table.groups == ("man", "woman")
    for group in table.groups:
        own = PRIVATE[PRIVATE.sex == group]
        assert number(tidy, None, "n", group=group)["estimate"] == pytest.approx(len(own))
        assert number(tidy, "age", "mean", group=group)["estimate"] == pytest.approx(own.age.mean(), rel=1e-4)
    assert hdp.describe(study_of(), ["age", "sex"], by="sex", epsilon=1).query.names == ("age", "sex")


def test_complete_rows_alone(no_noise):
    table = hdp.describe(study_of(), ["age", "nodes", "arm"], complete=True, epsilon=1)
    whole = PRIVATE[["age", "nodes", "arm"]].dropna()
    tidy = table.tidy()
    assert number(tidy, None, "n")["estimate"] == pytest.approx(len(whole))
    assert number(tidy, None, "n")["std_error"] > 0
    assert number(tidy, "nodes", "mean")["estimate"] == pytest.approx(whole.nodes.mean(), rel=1e-3)
    assert "missing" not in set(tidy["statistic"])
    sums = table.sums().set_index(["variable", "feature"])["total"]
    assert 2 * sums.iloc[0] == pytest.approx(len(whole))
    assert sums["nodes", "value"] == pytest.approx((whole.nodes / 40 - 0.5).sum(), abs=0.01)


def test_weighted_numbers(no_noise):
    table = hdp.describe(study_of(), ["nodes", "size"], epsilon=1, weights="w")
    tidy, there = table.tidy(), PRIVATE.dropna(subset="nodes")
    assert number(tidy, None, "n")["estimate"] == pytest.approx(PRIVATE.w.sum(), rel=1e-4)
    mean = np.average(there.nodes, weights=there.w)
    assert number(tidy, "nodes", "mean")["estimate"] == pytest.approx(mean, rel=1e-3)
    effective = PRIVATE.w.sum() ** 2 / (PRIVATE.w**2).sum() * 0.9
    row = number(tidy, "size", "share", level="s")
    assert row["std_error"] > 0.95 * np.sqrt(0.25 / effective)


def test_follow_up_is_counted_in_public_intervals(no_noise):
    table = hdp.describe(study_of(), "Surv(time, event) ~ sex", times=[2, 5, 10], epsilon=1)
    frame = table.follow_up()
    assert list(frame) == ["group", "after", "until", "events", "censored", "at_risk", "noise_sd", "at_risk_noise_sd"]
    for row in frame.to_dict("records"):
        own = PRIVATE[(PRIVATE.sex == row["group"])]
        inside = own[(own.time > row["after"]) & (own.time <= row["until"])]
        assert row["events"] == pytest.approx((inside.event == 1).sum())
        assert row["censored"] == pytest.approx((inside.event == 0).sum())
        assert row["at_risk"] == pytest.approx((own.time > row["after"]).sum())
    assert "at risk" in str(table.summary())
    assert table.tidy().empty
    with pytest.raises(hdp.ArgumentError, match="Surv"):
        hdp.describe(study_of(), ["age"], epsilon=1).follow_up()


def test_sites_describe_their_own_people_and_the_table_adds_them_up(no_noise):
    parts = {"Oslo": people(900, 5), "Bergen": people(500, 6)}
    table = hdp.describe(study_of(parts), ["age", "size"], by="sex", epsilon=1)
    both = pd.concat(parts.values())
    tidy = table.tidy()
    assert table.sites == ("Oslo", "Bergen")
    assert number(tidy, None, "n", group="man")["estimate"] == pytest.approx((both.sex == "man").sum())
    assert number(tidy, "age", "mean", group="man")["estimate"] == pytest.approx(
        both[both.sex == "man"].age.mean(), rel=1e-4
    )
    oslo = number(table.tidy(site="Oslo"), "age", "mean", group="man")
    assert oslo["estimate"] == pytest.approx(parts["Oslo"].query("sex == 'man'").age.mean(), rel=1e-4)
    assert table.guarantee.epsilon == 1
    assert table.guarantee.sites == 2
    assert "Oslo: man" in str(table.summary())
    count = number(tidy, None, "n", group="man")["std_error"]
    assert count == pytest.approx(np.sqrt(2) * number(table.tidy(site="Oslo"), None, "n", group="man")["std_error"])
    with pytest.raises(hdp.ArgumentError, match="site"):
        table.tidy(site="Rome")


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_of_people_with_several_rows_the_first_complete_one_is_described(no_noise, relation):
    rows = pd.concat([PRIVATE.head(300).assign(id=np.arange(300)), people(300, 9).assign(id=np.arange(300))])
    options = {"unit": "id", "max_rows_per_unit": 2, "n_max": 300, "relation": relation}
    table = hdp.describe(study_of(rows, **options), ["age", "nodes"], by="sex", epsilon=20)
    tidy = table.tidy()
    whole = rows[rows.age.notna() & rows.nodes.notna()].drop_duplicates("id")
    rest = rows[~rows["id"].isin(whole["id"])].drop_duplicates("id")
    described = pd.concat([whole, rest])
    assert len(described) == 300
    for group in ("man", "woman"):
        own = described[described.sex == group]
        assert number(tidy, None, "n", group=group)["estimate"] == pytest.approx(len(own))
        assert number(tidy, "age", "mean", group=group)["estimate"] == pytest.approx(own.age.mean(), rel=1e-4)
    assert "at most 2 rows" in str(table)
    counts = hdp.describe(study_of(rows, **options), "Surv(time, event)", times=[6], epsilon=40).follow_up()
    assert counts["at_risk"].iloc[0] <= 301


def test_the_same_request_is_answered_from_the_ledger():
    study = study_of()
    first, second = (hdp.describe(study, ["age"], by="sex", epsilon=0.5) for _ in range(2))
    assert study.ledger.spent.epsilon == Fraction(1, 2)
    pd.testing.assert_frame_equal(first.tidy(), second.tidy())
    assert "stored release" in str(second.summary())
    other = hdp.describe(study, ["age"], by="sex", epsilon=0.5, replicate=2)
    assert study.ledger.spent.epsilon == 1
    assert not other.tidy()["estimate"].equals(first.tidy()["estimate"])


def test_it_is_kept_as_json_to_the_last_bit():
    table = hdp.describe(study_of(), ["age", "size", "Surv(time, event)"], by="sex", times=3, epsilon=0.5)
    back = hdp.Description.from_json(table.to_json())
    pd.testing.assert_frame_equal(back.tidy(), table.tidy())
    pd.testing.assert_frame_equal(back.follow_up(), table.follow_up())
    pd.testing.assert_frame_equal(back.balance(), table.balance())
    assert str(back) == str(table)
    with pytest.raises(hdp.ArgumentError, match="description"):
        hdp.Description.from_json("{}")


def test_the_disclosure_says_what_ran():
    table = hdp.describe(study_of(), ["age"], by="sex", epsilon=0.5)
    record = table.disclosure()
    assert record["privacy_loss"]["epsilon"] == 0.5
    assert record["accounting"]["mechanism"] == "description/1"
    assert [event["epsilon"] for event in record["accounting"]["events"]] == ["3/10", "1/5"]
    assert record["description"] == {"columns": ["age"], "by": "sex", "complete": False, "follow_up": None}
    assert json.loads(json.dumps(record)) == record


def test_public_rows_stand_beside_private_ones(no_noise):
    table = hdp.describe(study_of(), ["age", "nodes", "size"], by="sex", epsilon=1)
    public = table.public.frame
    own = PUBLIC[PUBLIC.sex == "man"]
    assert number(public, "age", "mean", group="man")["estimate"] == pytest.approx(own.age.mean(), rel=1e-4)
    there = own.nodes.dropna()
    assert number(public, "nodes", "q3", group="man")["estimate"] == there.quantile(0.75, interpolation="lower")
    balance = table.balance()
    row = balance[(balance.group == "man") & (balance.variable == "age")].iloc[0]
    mine = PRIVATE[PRIVATE.sex == "man"].age
    unit = np.sqrt((mine.std() ** 2 + own.age.std() ** 2) / 2)
    assert row["difference"] == pytest.approx((mine.mean() - own.age.mean()) / unit, abs=0.002)
    assert row["conf_low"] < row["difference"] < row["conf_high"]
    between = table.balance(between="groups")
    assert set(between["group"]) == {"woman"}
    assert str(table.summary()).count("SMD") == 3
    alone = hdp.describe(study_of(public=None), ["age"], epsilon=1)
    assert alone.public is None
    with pytest.raises(hdp.ArgumentError, match="between"):
        alone.balance()


def test_groups_that_are_too_small_for_the_noise_are_not_available(no_noise):
    frame = PRIVATE.assign(size=["l"] * 3 + ["s"] * (len(PRIVATE) - 3))
    table = hdp.describe(study_of(frame), ["age"], by="size", epsilon=0.2)
    tidy = table.tidy()
    assert number(tidy, "age", "mean", group="m")["estimate"] is not None
    small = tidy[(tidy["group"] == "l") & (tidy["statistic"] != "n")]
    assert small[["estimate", "std_error", "conf_low", "conf_high"]].isna().all(axis=None)
    assert "N/A" in str(table.summary())
    assert number(tidy, None, "n", group="l")["std_error"] > 0


def test_tables_are_written_as_text_html_latex_and_word(tmp_path):
    table = hdp.describe(study_of(), ["age", "size", "Surv(time, event)"], by="sex", times=3, epsilon=5)
    text = str(table.summary())
    assert "age, mean (SD)" in text
    assert "sex = man" in text
    assert "<table" in table.summary().as_html()
    assert "tabular" in table.summary().as_latex()
    assert "hdp-page" in table._repr_html_()
    path = tmp_path / "table1.docx"
    table.to_docx(path)
    document = docx.Document(str(path))
    cells = [cell.text for part in document.tables for row in part.rows for cell in row.cells]
    assert "age, mean (SD)" in cells
    assert any("±" in cell for cell in cells)


def test_differences_are_drawn():
    table = hdp.describe(study_of(), ["age", "size"], by="sex", epsilon=5)
    axes = table.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["age", "size = s", "size = m", "size = l"]
    assert "private less public" in axes.get_xlabel()
    assert "sex = man" in table.plot(between="groups").get_xlabel()


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("options", [{}, {"by": "sex"}, {"complete": True}, {"weights": "w"}])
def test_a_plan_predicts_what_is_reported(monkeypatch, options):
    """Private people are distributed as the public ones: on average over draws within 10 %."""
    known_noise.counts(monkeypatch, 7)
    rng = np.random.default_rng(8)
    monkeypatch.setattr(BoxNoise, "draw", lambda self: tuple(int(z) for z in known_noise.drawn(self, rng)))
    columns = ["age", "nodes", "size"]
    study = study_of(people(3000, 11), people(3000, 12))
    plan = hdp.describe(study, columns, **options).plan([0.5])
    found = [hdp.describe(study, columns, epsilon=0.5, replicate=k, **options).tidy() for k in range(1, 9)]
    reported = np.mean([frame["std_error"].to_numpy(dtype=float) for frame in found], axis=0)
    predicted = plan.frame["std_error"].to_numpy(dtype=float)
    known = np.isfinite(reported) & (predicted > 0)
    quartile = plan.frame["statistic"].isin(["q1", "median", "q3"]).to_numpy()
    ratio = reported[known] / predicted[known]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    assert np.abs(ratio[~quartile[known]] - 1).max() < 0.15


def test_a_plan_says_what_is_suppressed_and_spends_nothing():
    study = study_of()
    plan = hdp.describe(study, ["age", "nodes"], by="size").plan([0.01, 20])
    assert study.ledger.spent.epsilon == 0
    assert "everything of s" in plan.verdicts[0.01]
    assert plan.verdicts[20.0].startswith("no number is suppressed")
    assert plan.frame[plan.frame["epsilon"] == 0.01]["suppressed"].any()
    assert "N/A" in str(plan)
    assert list(plan.table) == ["epsilon=0.01", "epsilon=20"]
    schema_only = hdp.describe(hdp.Study(schema=SCHEMA), ["age", "size"]).plan(1, n=1000)
    assert "spread evenly" in schema_only.assumption
    assert number(schema_only.frame, "age", "mean")["std_error"] > 0


def test_normal_noise_is_taken_where_it_is_smaller():
    study = study_of()
    columns = ["age", "nodes", "size", "arm"]
    assert hdp.describe(study, columns, epsilon=1, delta=1e-6).query.delta == 0
    schema = hdp.Schema({f"x{k}": hdp.Continuous(0, 1) for k in range(30)})
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({f"x{k}": rng.random(500) for k in range(30)})
    wide = hdp.Study(private=frame, schema=schema, budget=hdp.Budget(epsilon=10, delta=1e-3))
    table = hdp.describe(wide, list(frame), epsilon=1, delta=1e-5)
    pure = hdp.describe(wide, list(frame), epsilon=1)
    assert table.guarantee.delta == Fraction(1, 10**5)
    assert table.guarantee.epsilon <= 1
    assert dict(table.releases)["private"].sums_sd < dict(pure.releases)["private"].sums_sd
    assert hdp.describe(study, columns, epsilon=1, delta=1e-6, weights="w").query.delta == 0


@pytest.mark.parametrize(
    ("columns", "options", "argument"),
    [
        (["nobody"], {}, "not declared"),
        ([], {}, "columns"),
        (5, {}, "columns"),
        (["age", "age"], {}, "columns"),
        (["sex"], {"by": "sex"}, "columns"),
        (["age"], {"by": "nodes"}, "by"),
        (["age"], {"by": 3}, "by"),
        (["age"], {"times": [1, 2]}, "times"),
        (["age", "event", "Surv(time, event)"], {}, "columns"),
        ("Surv(time, event) ~ age + sex", {}, "one group"),
        ("Surv(time, event)", {"times": [5, 2]}, "times"),
        ("Surv(time, event)", {"times": [5, 20]}, "horizon"),
        ("Surv(time, event) ~ sex", {"by": "arm"}, "by"),
        (["age"], {"weights": "age"}, "weights"),
        (["age"], {"complete": 1}, "complete"),
        (["age"], {"epsilon": -1}, "epsilon"),
        (["age"], {"replicate": 0}, "replicate"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_charged(columns, options, argument):
    study = study_of()
    with pytest.raises(hdp.HdpError, match=argument):
        hdp.describe(study, columns, **({"epsilon": 1} | options))
    assert study.ledger.spent.epsilon == 0


def test_times_by_themselves_are_round_and_suit_epsilon():
    study = study_of()
    ends = [hdp.describe(study, "Surv(time, event)", epsilon=e).query.follow_up.ends for e in (0.1, 1, 5)]
    assert ends[0] == (2, 4, 6, 8, 10)
    assert ends[2] == tuple(np.arange(0.5, 10.5, 0.5))
    assert len(ends[0]) <= len(ends[1]) <= len(ends[2])


@pytest.mark.parametrize(
    ("horizon", "unit", "number", "first", "last", "count"),
    [
        (2557, "days", 6, 365.25, 2191.5, 7),
        (2557, "days", 12, 365.25 / 2, 2374.125, 14),
        (1826, "day", 25, 365.25 / 4, 1734.9375, 20),
        (36, "months", 28, 1, 35, 36),
        (5, "years", 28, 0.25, 4.75, 20),
        (9.5, "years", 8, 1, 9, 10),
        (40, "days", 25, 2, 38, 20),
        (45, None, 8, 5, 40, 9),
        (45, "visits", 8, 5, 40, 9),
        (0.5, "years", 6, 1 / 12, 5 / 12, 6),
    ],
)
def test_round_times_end_at_the_horizon(horizon, unit, number, first, last, count):
    ends = round_ends(horizon, unit, number)
    assert ends[[0, -2, -1]] == pytest.approx([first, last, horizon], rel=1e-12)
    assert len(ends) == count
    assert (np.diff(ends) > 0).all()


def test_the_first_table_has_labels_and_is_written_to_files(no_noise, tmp_path):
    schema = SCHEMA.with_labels(age="Age (years)", size="Tumour size", sex="Sex")
    study = study_of(schema=schema)
    described = hdp.describe(study, ["age", "size", "sex"], epsilon=5)
    table = described.first_table({"s": "small", "sex": "Sex at birth"})
    assert table.headers == ("private", "public", "SMD")
    by_name = dict(zip(table.names, table.cells, strict=True))
    assert [name.strip() for name in table.names if "missing" not in name] == [
        "n", "Age (years), mean (SD)", "median [q1, q3]", "Tumour size", "small", "m", "l", "Sex at birth = woman",
    ]  # fmt: skip
    differences = described.balance().set_index(["variable", "level"])["difference"]
    assert by_name["Age (years), mean (SD)"][2] == f"{differences['age'].iloc[0]:+.2f}"
    for name, level in (("small", "s"), ("m", "m")):
        assert by_name[f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{name}"][2] == f"{differences['size', level]:+.2f}"
    table.to_docx(tmp_path / "table1.docx")
    cells = [
        cell.text
        for part in docx.Document(str(tmp_path / "table1.docx")).tables
        for row in part.rows
        for cell in row.cells
    ]
    assert "Age (years), mean (SD)" in cells
    table.to_csv(tmp_path / "table1.csv")
    read = pd.read_csv(tmp_path / "table1.csv", index_col=0, dtype=str, keep_default_na=False)
    assert read.index.tolist() == table.names
    assert read.to_numpy().tolist() == table.cells
    for text in (
        str(table),
        table.summary().as_html(),
        table.summary().as_latex(),
        table._repr_html_(),
        str(described),
    ):
        assert "Age (years), mean (SD)" in text
    assert "half the width of the 90% interval" in str(described.first_table(conf_level=0.9))
    assert [text.get_text() for text in described.plot().get_yticklabels()][:2] == ["Age (years)", "Tumour size = s"]
    by = hdp.describe(study, ["age"], by="sex", epsilon=5)
    assert by.first_table().headers[0] == f"Sex = {by.groups[0]}"
    with pytest.raises(hdp.ArgumentError, match="labels: there is no 'weight'"):
        described.first_table({"weight": "Weight"})


def test_a_label_that_is_changed_later_is_no_new_question():
    study = hdp.Study(private=PRIVATE, schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    first = hdp.describe(study, ["age"], epsilon=1)
    fit = hdpf.logit("sex ~ age", data=study).fit(epsilon=1)
    spent, ledger = study.ledger.spent, study.ledger
    again = hdp.Study(private=PRIVATE, schema=SCHEMA.with_labels(age="Age (years)"), ledger=ledger)
    described, fitted = hdp.describe(again, ["age"], epsilon=1), hdpf.logit("sex ~ age", data=again).fit(epsilon=1)
    assert ledger.spent == spent
    assert described.sums().equals(first.sums())
    assert fitted.params.equals(fit.params)
    assert fitted.query.to_json() == fit.query.to_json()
    assert "Age (years), mean (SD)" in described.first_table().names
    assert "Age (years)" in fitted._repr_html_()
    assert "Age (years)" not in fit._repr_html_()
    assert "Age (years)" not in ledger.history().to_csv()


@pytest.mark.parametrize("whole", [False, True])
def test_cells_lie_half_at_public_quantiles_and_half_even(whole):
    values = np.repeat(np.arange(0, 12), 20).astype(float) + (0 if whole else 0.25)
    cuts = cuts_between(0.0, 40.0, values, 12, whole=whole)
    assert 6 <= len(cuts) <= 11
    assert list(cuts) == sorted(set(cuts))
    assert sum(cut < 12 for cut in cuts) >= 6
    assert max(cuts) > 30
    if whole:
        assert all(cut % 1 == 0.5 for cut in cuts)
    assert cuts_between(0.0, 10.0, np.zeros(0), 5, whole=False) == (2.0, 4.0, 6.0, 8.0)


def test_a_plan_says_what_normal_noise_would_set_aside_of_the_account():
    """The charge does what was planned: half of what is left besides is set aside, and counts as spent."""
    columns = [f"x{k}" for k in range(20)]
    schema = hdp.Schema(**{name: hdp.Continuous(0, 1, complete=True) for name in columns})
    rows = pd.DataFrame(np.random.default_rng(0).random((300, 20)), columns=columns)
    study = hdp.Study(private=rows, schema=schema, budget=hdp.Budget(epsilon=10, delta=1e-2))
    request = hdp.describe(study, columns, quantiles=False, delta=1e-3)
    plan = request.plan(epsilon=1)
    assert plan.normal == {1.0: True}
    before, text = study.ledger.remaining, " ".join(str(plan).split())
    request.release(1)
    part = study.ledger.balance.gaussian
    assert part.epsilon > 5
    assert f"the account sets aside {part} of the {before} that are left, which then count as spent" in text
    assert study.ledger.spent.epsilon == part.epsilon
    assert request.plan(epsilon=1).aside == {}, "it is divided already"
    assert hdp.describe(study, columns, quantiles=False).plan(epsilon=1).aside == {}


def test_a_formula_in_the_place_of_columns_says_what_to_write():
    schema = hdp.Schema(age=hdp.Continuous(20, 90), hormon=hdp.Binary())
    study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    with pytest.raises(hdp.ArgumentError, match=r"not the formula '~ age \| hormon': describe\(study, \['age'"):
        hdp.describe(study, "~ age | hormon")
