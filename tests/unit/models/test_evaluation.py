"""What an evaluation says, what it costs, and what is refused before it costs anything."""

import dataclasses
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit import observe
from hdpstats.models.evaluation import _groups
from hdpstats.noise import TwoSidedGeometric
from hdpstats.public.follow_up import FollowUp, concordance, kaplan_meier
from hdpstats.records.model import TimeGrid
from hdpstats.schema.spells import spells
from tests.support import CORNERS, seen_of_ledger

SCHEMA = hdp.Schema(
    start=hdp.Duration(100, missing=0),
    time=hdp.Duration(100, unit="weeks", complete=True),
    event=hdp.Binary(complete=True),
    cause=hdp.Categorical(["none", "relapse", "death"], complete=True),
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    g=hdp.Categorical(["a", "b"], complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)
FORMULA = "Surv(time, event) ~ x + g"


def people(number, seed=0):
    rng = np.random.default_rng(seed)
    x, g, o = rng.normal(size=number).clip(-3, 3), rng.choice(["a", "b"], number), rng.uniform(-1, 1, number)
    score = 0.8 * x + 0.4 * (g == "b")
    time = rng.exponential(80 * np.exp(-score))
    censored = rng.uniform(10, 200, number)
    event = (time <= censored).astype(float)
    return pd.DataFrame(
        {
            "who": np.arange(number),
            "start": 0.0,
            "time": np.minimum(time, censored),
            "event": event,
            "cause": np.where(event > 0, rng.choice(["relapse", "death"], number), "none"),
            "y": (rng.random(number) < 1 / (1 + np.exp(-score))).astype(float),
            "x": x,
            "g": g,
            "o": o,
        }
    )


PRIVATE, PUBLIC = people(700), people(300, seed=1)


def study_of(private=PRIVATE, public=PUBLIC, *, epsilon=50, schema=SCHEMA, **terms):
    return hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=epsilon), **terms)


def hazard_of(study, formula=FORMULA, **options):
    return hdpf.hazard(formula, data=study, **({"intervals": 10, "link": "cloglog"} | options))


@pytest.fixture
def quiet(monkeypatch):
    """Noise of 0 in every cell."""
    monkeypatch.setattr(TwoSidedGeometric, "draw", lambda self: 0)
    monkeypatch.setattr(TwoSidedGeometric, "variance", 0.0)


@pytest.fixture
def hazard():
    model = hazard_of(study_of())
    return model, model.fit_public()


def exits(frame, event):
    grid = TimeGrid(tuple(10.0 * k for k in range(1, 11)))
    time = frame["time"].to_numpy()
    found = spells(stop=time, event=event, beyond=time > 100, grid=grid)
    return found.exit.astype(float), found.cause


@pytest.mark.usefixtures("quiet")
def test_without_noise_it_is_what_the_private_rows_say(hazard):
    model, result = hazard
    found = model.evaluate(result, epsilon=1.0, groups=5, times=10)
    time, cause = exits(PRIVATE, PRIVATE["event"].to_numpy())
    score = np.column_stack([PRIVATE["x"], PRIVATE["g"] == "b"]) @ result.params.to_numpy()[-2:]
    group = _groups(score, found.query.cuts)
    rows = FollowUp(time=time, cause=cause, causes=1)
    assert found.concordance == pytest.approx(concordance(rows, group.astype(float)).value)
    last = found.groups[found.groups["time"] == 100.0].set_index("group")
    assert last["observed"].notna().sum() >= 4  # hardly anybody of the highest risk is left at the end
    for number in range(5):
        curves = kaplan_meier(rows.take(group == number))
        if np.isfinite(last.loc[number + 1, "observed"]):
            assert last.loc[number + 1, "observed"] == pytest.approx(curves.incidence[-1, 0])
        assert last.loc[number + 1, "rows"] == (group == number).sum()
    predicted = result.predict_incidence(PUBLIC, times=100.0, ci=False)["incidence"].to_numpy()
    public = np.column_stack([PUBLIC["x"], PUBLIC["g"] == "b"]) @ result.params.to_numpy()[-2:]
    means = [predicted[_groups(public, found.query.cuts) == number].mean() for number in range(5)]
    assert last["predicted"].to_numpy() == pytest.approx(means)
    assert np.diff(last["predicted"]).min() > 0
    assert np.bincount(_groups(public, found.query.cuts)).tolist() == pytest.approx([60] * 5, abs=1)
    assert found.table["count"].sum() == len(PRIVATE)
    assert found.scores["ratio"].iloc[-1] == pytest.approx(1.0, abs=0.1)
    assert (found.scores["brier"] < found.scores["reference"]).all()


@pytest.mark.usefixtures("quiet")
def test_the_table_says_what_its_cells_count(hazard):
    model, result = hazard
    table = model.evaluate(result, epsilon=1.0, groups=2, times=3).table
    together = table.groupby(["outcome", "after", "until"])["count"].sum()
    ends = [0, 40, 70, 100]
    assert model.evaluate(result, epsilon=1.0, groups=2, times=3).query.ends == (4, 7, 10)
    event, time = PRIVATE["event"] > 0, PRIVATE["time"]
    for a, b in pairwise(ends):
        assert together["event", a, b] == (event & (time > a) & (time <= b)).sum()
    left = ~event | (time > 100)
    assert together["horizon", 100, 100] == (left & (time > 90)).sum()
    assert together["censored", 0, 40] == (left & (time <= 30)).sum()
    assert together["censored", 40, 70] == (left & (time > 30) & (time <= 60)).sum()


@pytest.mark.usefixtures("quiet")
def test_a_binary_outcome_is_evaluated_by_group():
    model = hdpf.logit("y ~ x + g", data=study_of())
    result = model.fit_public()
    found = model.evaluate(result, epsilon=1.0, groups=4)
    p = result.predict(PRIVATE).to_numpy()
    rows = FollowUp(time=np.where(PRIVATE["y"] > 0, 1.0, 2.0), cause=PRIVATE["y"].to_numpy().astype(int), causes=1)
    group = _groups(np.log(p / (1 - p)), found.query.cuts)
    assert found.concordance == pytest.approx(concordance(rows, group.astype(float)).value)
    assert "time" not in found.scores
    assert "time" not in found.groups
    shares = PRIVATE["y"].groupby(group).mean().to_numpy()
    assert found.groups["observed"].to_numpy() == pytest.approx(shares)
    assert list(found.table.columns) == ["group", "outcome", "count"]
    assert found.table["count"].sum() == len(PRIVATE)


@pytest.mark.usefixtures("quiet")
def test_every_cause_can_be_asked_about_and_is_charged_for_itself():
    study = study_of()
    model = hazard_of(study, "Surv(time, cause) ~ x + g")
    result = model.fit_public()
    relapse = model.evaluate(result, epsilon=1.0, groups=3, times=5)
    death = model.evaluate(result, epsilon=1.0, groups=3, times=5, cause="death")
    assert (relapse.cause, death.cause) == ("relapse", "death")
    assert study.ledger.spent.epsilon == 2
    time, cause = exits(PRIVATE, PRIVATE["cause"].map({"none": 0, "relapse": 1, "death": 2}).to_numpy())
    for found, k in ((relapse, 1), (death, 2)):
        curves = kaplan_meier(FollowUp(time=time, cause=cause, causes=2))
        share = found.groups[found.groups["time"] == 100.0]
        overall = np.average(share["observed"], weights=share["rows"])
        assert overall == pytest.approx(curves.incidence[-1, k - 1], abs=0.02)
        assert set(found.table["outcome"]) == {"relapse", "death", "censored", "horizon"}
    with pytest.raises(hdp.ArgumentError, match="cause"):
        model.evaluate(result, epsilon=1.0, cause="none")


@pytest.mark.usefixtures("no_noise")
def test_noise_is_counted_in_every_error(hazard):
    model, result = hazard
    loud, still = (model.evaluate(result, epsilon=epsilon, groups=3, times=3) for epsilon in (0.2, 20.0))
    assert loud.release.noise_variance > 100 * still.release.noise_variance
    assert loud.concordance_error > 1.2 * still.concordance_error
    errors = [found.groups["std_error"].mean() for found in (loud, still)]
    assert errors[0] > 1.2 * errors[1]
    covered = still.calibration()
    assert ((covered["conf_low"] <= covered["observed"]) & (covered["observed"] <= covered["conf_high"])).all()
    narrow = still.calibration(alpha=0.5)
    assert (narrow["conf_high"] - narrow["conf_low"] < covered["conf_high"] - covered["conf_low"]).all()


def test_more_epsilon_and_more_people_give_more_groups_and_times():
    sizes = []
    for private, epsilon in ((people(60), 0.5), (people(60), 20.0), (people(4000), 20.0)):
        model = hazard_of(study_of(private))
        query = model.evaluate(model.fit_public(), epsilon=epsilon).query
        sizes.append((query.groups, len(query.ends)))
    assert sizes[0] == (2, 2)
    assert sizes[0] < sizes[1] < sizes[2] == (10, 10)


# ----------------------------------------------------------------------------------------------------------------- cost


def test_it_is_charged_once_and_states_its_guarantee(hazard):
    model, result = hazard
    ledger = model._spec.study.ledger
    found = model.evaluate(result, epsilon=0.7)
    assert ledger.spent.epsilon == found.guarantee.epsilon == hdp.Budget(0.7).epsilon
    again = model.evaluate(result, epsilon=0.7)
    assert again.release == found.release
    assert again.ledger_entry == found.ledger_entry
    other = model.evaluate(result, epsilon=0.7, replicate=2)
    assert other.release.counts != found.release.counts
    assert ledger.spent.epsilon == 2 * hdp.Budget(0.7).epsilon
    assert list(ledger.history()["mechanism"]) == ["evaluation/1"] * 2


def test_what_it_states_is_everything_that_it_rests_on():
    """0.7 for the table, 1 for the fit and 2 for the description of the same people: 3.7, as the ledger says."""
    study = study_of()
    cohort = hdp.describe(study, ["y", "x", "g", "o"], complete=True, epsilon=2)
    model = hdpf.logit("y ~ x + g", data=study)
    result = model.fit(epsilon=1, description=cohort)
    found = model.evaluate(result, epsilon=0.7)
    words = "3.7-differential privacy (pure) in all: 0.7 for the evaluation, 1 for the fit, 2 for the description"
    assert study.ledger.spent.epsilon == found.guarantee.epsilon == Fraction("3.7")
    assert found.in_sample
    assert str(found.guarantee).startswith(words)
    assert words in " ".join(str(found).split())
    assert "together 3.7-differentially private" in found._repr_html_()
    read = type(result).from_json(result.to_json())
    assert model.evaluate(read, epsilon=0.7).guarantee == found.guarantee


@pytest.mark.parametrize("lacking", ["account", "entry"])
def test_the_fit_of_an_account_that_is_not_known_may_be_of_these_people(lacking):
    """Also where another of its sites is known, which is not this one."""
    study, other = study_of(), study_of(people(800, seed=2))
    both = hdp.Study(private={"a": study.site, "b": other.site}, public=PUBLIC, schema=study.schema)
    result = hdpf.logit("y ~ x + g", data=both).fit(epsilon=4, describe=False)

    def unknown(entry):
        return None if lacking == "entry" else replace(entry, account="")

    (a, release), b = result.release.sites
    sites = replace(result.release, sites=((a, replace(release, entry=unknown(release.entry))), b))
    known = tuple(replace(each, entries=each.entries if each.site == "b" else ()) for each in result.site_facts)
    read = replace(result, released=replace(result.released, release=sites, sites=known))
    found = hdpf.logit("y ~ x + g", data=study).evaluate(read, epsilon=0.7)
    assert str(found.guarantee) == "4.7-differential privacy (pure) in all: 0.7 for the evaluation, 4 for the fit"
    assert found.in_sample


def test_with_a_fit_of_several_sites_it_is_for_those_who_are_at_one_of_them_only():
    """Who is at both sites was charged 8 for the fit: 4 at each."""
    study, other = study_of(), study_of(people(800, seed=2))
    both = hdp.Study(private={"a": study.site, "b": other.site}, public=PUBLIC, schema=study.schema)
    result = hdpf.logit("y ~ x + g", data=both).fit(epsilon=4, describe=False)
    found = hdpf.logit("y ~ x + g", data=study).evaluate(result, epsilon=0.7)
    assert study.ledger.spent.epsilon == found.guarantee.epsilon == Fraction("4.7")
    assert result.guarantee.sites == found.guarantee.sites == 2
    assert "Records are at 2 sites, and each person is at one only." in found.guarantee.statement()


@pytest.mark.parametrize("terms", [{}, {"relation": "add_or_remove_one", "n_max": 900}], ids=["replace", "add"])
def test_the_fit_of_other_people_has_a_guarantee_of_its_own(terms):
    other, own = hdpf.logit("y ~ x + g", data=study_of(people(800, seed=2), **terms)), study_of()
    result = other.fit(epsilon=4)
    found = hdpf.logit("y ~ x + g", data=own).evaluate(result, epsilon=0.7)
    assert str(found.guarantee) == "0.7-differential privacy (pure)"
    assert not found.in_sample
    text = " ".join(str(found).split())
    relation = terms.get("relation", "replace_one")
    assert f"other people, who are guaranteed 4-differential privacy (pure) ({relation}) by that fit" in text


def test_under_add_or_remove_noise_is_half_and_no_number_is_read(monkeypatch):
    variances = []
    for terms in ({}, {"relation": "add_or_remove_one", "n_max": 5000}):
        model = hazard_of(study_of(**terms))
        found = model.evaluate(model.fit_public(), epsilon=0.1, groups=4, times=4)
        variances.append(found.release.noise_variance)
        assert found.guarantee.relation.value == terms.get("relation", "replace_one")
    assert variances[0] / variances[1] == pytest.approx(4.0, rel=0.02)
    queries = set()
    for rows in (PRIVATE.iloc[:10], PRIVATE, people(3000)):
        model = hazard_of(study_of(rows, relation="add_or_remove_one", n_max=5000))
        queries.add(model.evaluate(model.fit_public(), epsilon=1.0).query.to_json())
    assert len(queries) == 1


@pytest.mark.covering(1)
@pytest.mark.parametrize("corner", ["nan", "1e308", "None", "evil", "one", "unknown level"])
@pytest.mark.parametrize("terms", [{}, {"relation": "add_or_remove_one", "n_max": 900}], ids=["replace", "add"])
def test_no_person_shows_but_in_the_noisy_counts(corner, terms):
    def look(frame):
        study = study_of(frame, **terms)
        model = hazard_of(study)
        # So little noise that it decides nowhere whether a group stands clear of it.
        found = model.evaluate(model.fit_public(), epsilon=20.0, groups=3, times=3)
        return {
            "query": found.query.to_json(),
            "release": [found.release.noise_variance, len(found.release.counts), str(found.release.events)],
            "tables": [found.groups.astype({"rows": float}), found.table.astype({"count": float}), found.scores],
            "guarantee": found.guarantee.statement(),
            "ledger": seen_of_ledger(study.ledger),
        }

    changed = PRIVATE.astype(object)
    if terms:
        changed = pd.concat([changed, changed.iloc[[0]]], ignore_index=True)
    for name in changed.columns:
        cells = np.empty(len(changed), dtype=object)
        cells[:] = changed[name].tolist()
        cells[-1] = CORNERS[corner]
        changed[name] = pd.Series(cells, index=changed.index, dtype=object)
    expected = observe(partial(look, PRIVATE))
    assert expected.exception is None
    assert observe(partial(look, changed)) == expected


def test_it_holds_nothing_per_person(hazard):
    model, result = hazard
    found = model.evaluate(result, epsilon=1.0)

    def lengths(value):
        if isinstance(value, pd.DataFrame | np.ndarray | list | tuple):
            yield len(value)
        if isinstance(value, list | tuple):
            for item in value:
                yield from lengths(item)
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from lengths(getattr(value, field.name))

    assert max(lengths(found)) < len(PRIVATE) / 2


# ------------------------------------------------------------------------------------------------------------- refusals


def refused(study, call, error, match=None):
    before = study.ledger.verify()
    with pytest.raises(error, match=match):
        call()
    assert study.ledger.verify() == before


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"formula": "Surv(time, event) ~ x"}, "of this model"),
        ({"link": "logit"}, "of this model"),
        ({"intervals": 12}, "of this model"),
        ({"baseline": "dummies"}, "of this model"),
        ({"offset": "o"}, "of this model"),
    ],
    ids=str,
)
def test_a_result_of_another_model_is_refused_uncharged(hazard, options, match):
    model, _ = hazard
    study = model._spec.study
    other = hazard_of(study, **options).fit_public()
    refused(study, lambda: model.evaluate(other, epsilon=1.0), hdp.ArgumentError, match)


def test_a_result_of_another_schema_or_kind_is_refused_uncharged(hazard):
    model, result = hazard
    study = model._spec.study
    logit = hdpf.logit("y ~ x + g", data=study)
    schema = hdp.Schema({**SCHEMA, "x": hdp.Continuous(-4, 4, complete=True)})
    foreign = hazard_of(hdp.Study(public=PUBLIC, schema=schema)).fit_public()
    refused(study, lambda: model.evaluate(foreign, epsilon=1.0), hdp.ArgumentError, "this study's schema")
    refused(study, lambda: model.evaluate(logit.fit_public(), epsilon=1.0), hdp.ArgumentError, "of this model")
    refused(study, lambda: logit.evaluate(result, epsilon=1.0), hdp.ArgumentError, "of this model")
    refused(study, lambda: model.evaluate("result", epsilon=1.0), hdp.ArgumentError, "hdp.Result")
    missing = replace(result, estimate=replace(result.estimate, values=result.estimate.values * np.nan))
    refused(study, lambda: model.evaluate(missing, epsilon=1.0), hdp.ArgumentError, "do not tell")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epsilon": 0}, hdp.ArgumentError),
        ({"epsilon": 51}, hdp.BudgetError),
        ({"groups": 1}, hdp.ArgumentError),
        ({"groups": 11}, hdp.ArgumentError),
        ({"times": 0}, hdp.ArgumentError),
        ({"times": 13}, hdp.ArgumentError),
        ({"replicate": 0}, hdp.ArgumentError),
        ({"epsilon": 50, "allow_large_epsilon": True, "replicate": 2}, hdp.InsufficientBudget),
    ],
    ids=str,
)
def test_arguments_are_checked_before_anything_is_charged(options, error):
    study = study_of(epsilon=49)
    model = hazard_of(study)
    result = model.fit_public()
    refused(study, lambda: model.evaluate(result, **({"epsilon": 1.0} | options)), error)


def test_public_people_are_needed_to_cut_groups(hazard):
    _, result = hazard
    for public, match in (
        (None, "needs public rows"),
        (PUBLIC.iloc[:15], "20 complete"),
        (PUBLIC.drop(columns="x"), "public"),
    ):
        study = study_of(public=public)
        refused(study, partial(hazard_of(study).evaluate, result, epsilon=1.0), hdp.ArgumentError, match)
    alike = study_of(public=PUBLIC.assign(x=0.5, g="a"))
    refused(alike, partial(hazard_of(alike).evaluate, result, epsilon=1.0), hdp.ArgumentError, "different risk")
    nobody = hdp.Study(public=PUBLIC, schema=SCHEMA)
    with pytest.raises(hdp.ArgumentError, match="needs private records"):
        hazard_of(nobody).evaluate(result, epsilon=1.0)


def test_outcomes_of_public_people_are_not_needed(hazard):
    _, result = hazard
    study = study_of(public=PUBLIC.drop(columns=["time", "event"]))
    assert hazard_of(study).evaluate(result, epsilon=1.0).query.groups > 2


def test_a_model_without_covariates_has_no_risk_groups():
    study = study_of()
    model = hazard_of(study, "Surv(time, event) ~ 1")
    refused(study, partial(model.evaluate, model.fit_public(), epsilon=1.0), hdp.ArgumentError, "needs a covariate")


def test_entry_times_and_several_rows_are_refused_uncharged():
    late = study_of()
    model = hazard_of(late, "Surv(start, time, event) ~ x + g")
    refused(late, partial(model.evaluate, model.fit_public(), epsilon=1.0), hdp.ArgumentError, "no one risk group")
    long = study_of(unit="who", max_rows_per_unit=2, n_max=700)
    model = hazard_of(long, "Surv(start, time, event) ~ x + g")
    refused(long, partial(model.evaluate, model.fit_public(), epsilon=1.0), hdp.ArgumentError, "no one risk group")


def test_groups_that_tie_are_one_group(hazard):
    study = study_of(public=PUBLIC.assign(x=np.where(np.arange(len(PUBLIC)) % 2, 1.0, -1.0), g="a"))
    found = hazard_of(study).evaluate(hazard[1], epsilon=5.0, groups=8)
    assert found.query.groups == 2


# ---------------------------------------------------------------------------------------------------------------- shown


@pytest.mark.usefixtures("no_noise")
def test_the_text_says_what_matters(hazard):
    model, result = hazard
    found = model.evaluate(result, epsilon=2.0, groups=4, times=4)
    text = str(found)
    assert max(map(len, text.splitlines())) <= 78
    for words in (
        "evaluated on private records",
        "between 4 risk groups",
        "on average up to 100 weeks",
        "risk group 4",
    ):
        assert words in text
    assert "2-differential privacy (pure)" in text
    assert "took part in the fit" not in text
    assert "took part in the fit" in " ".join(str(model.evaluate(model.fit(epsilon=2.0), epsilon=2.0)).split())
    assert repr(found).startswith("<evaluation of DiscreteHazard: concordance 0.")
    html = replace(found, facts=replace(found.facts, formula="<b>")).summary().as_html()
    assert "<b>" not in html
    assert "What this guarantees" in found._repr_html_()


def test_what_drowns_is_said_to(hazard, monkeypatch):
    monkeypatch.setattr(TwoSidedGeometric, "draw", lambda self: 0)  # a draw of large noise may look like people
    model, result = hazard
    found = model.evaluate(result, epsilon=0.001, groups=3, times=3)
    assert found.scores["brier"].isna().all()
    assert found.groups["observed"].isna().all()
    assert "not clear of the noise" in str(found)
    assert "Risk groups without all their numbers (N/A): 1, 2, 3." in " ".join(str(found).split())
    assert "are not twice their noise by the last time" in " ".join(str(found).split())
    assert str(found).count("N/A") == 3 * 4 + 1
    assert "nan" not in str(found).split()
    assert "larger epsilon would show them" in " ".join(str(found).split())


def test_what_drowns_of_a_binary_outcome_has_no_time(hazard, monkeypatch):
    monkeypatch.setattr(TwoSidedGeometric, "draw", lambda self: 0)
    logit = hdpf.logit("y ~ x + g", data=hazard[0]._spec.study)
    text = " ".join(str(logit.evaluate(logit.fit_public(), epsilon=0.001, groups=3)).split())
    assert "are not twice their noise. Fewer groups=" in text
    assert "at risk" not in text
    assert text.count("N/A") == 3 * 4 + 1


def test_calibration_is_drawn(hazard):
    model, result = hazard
    axes = model.evaluate(result, epsilon=5.0).plot_calibration()
    assert axes.get_xlabel() == "predicted incidence"
    assert "private rows" in axes.get_ylabel()
    assert axes.get_legend() is not None
    logit = hdpf.logit("y ~ x + g", data=model._spec.study)
    assert logit.evaluate(logit.fit_public(), epsilon=5.0).plot_calibration().get_legend() is None
    pyplot.close("all")
