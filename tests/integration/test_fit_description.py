"""Fits that rest on a description of the cohort: one that was charged before, or declined."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.models.request import fit_request
from hdpstats.models.site_records import planned_records
from hdpstats.records.averages import MomentKind
from hdpstats.results import Result
from tests import known_noise

pytestmark = pytest.mark.usefixtures("few_draws")

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90),
    size=hdp.Categorical(["s", "m", "l"]),
    arm=hdp.Binary(complete=True),
    y=hdp.Binary(complete=True),
    z=hdp.Binary(),
    time=hdp.Duration(10),
    event=hdp.Binary(complete=True),
    w=hdp.Weight(max=4, complete=True),
)
COLUMNS = ["age", "size", "arm"]
FORMULA = "y ~ age + size + arm"
HAZARD = "Surv(time, event) ~ age + size + arm"


def people(n, seed, *, missing=0.2, age=55.0):
    rng = np.random.default_rng(seed)
    frame = hdp.datasets.load_gbsg().sample(n, replace=True, random_state=seed)[[]].reset_index(drop=True)
    frame = frame.assign(
        age=np.clip(rng.normal(age, 10, n), 20, 90),
        size=rng.choice(["s", "m", "l"], n, p=[0.5, 0.3, 0.2]),
        arm=rng.integers(0, 2, n).astype(float),
        time=rng.exponential(6, n),
        event=rng.integers(0, 2, n).astype(float),
        z=rng.integers(0, 2, n).astype(float),
        w=rng.uniform(0.5, 4, n),
    )
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-(frame.age - 55) / 10))).astype(float)
    frame.loc[rng.random(n) < missing, "age"] = np.nan
    return frame


PRIVATE, PUBLIC = people(1500, 1, age=60.0), people(300, 2, missing=0.0)
COMPLETE = int(PRIVATE["age"].notna().sum())


def study_of(private=PRIVATE, public=PUBLIC, **options):
    options = {"budget": hdp.Budget(epsilon=1000)} | options
    return hdp.Study(private=private, public=public, schema=SCHEMA, **options)


def described(study, columns=COLUMNS, **options):
    return hdp.describe(study, columns, **{"complete": True, "quantiles": False, "epsilon": 1} | options)


@pytest.fixture
def no_noise(monkeypatch):
    known_noise.off(monkeypatch)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_description_tells_the_number_of_complete_rows_and_costs_nothing_more(no_noise, relation):
    study = study_of(relation=relation, **({} if relation == "replace_one" else {"n_max": 4000}))
    cohort = described(study)
    before = study.ledger.spent
    result = hdpf.logit(FORMULA, data=study).fit(epsilon=1, description=cohort)
    assert study.ledger.spent.epsilon - before.epsilon == 1
    assert result.guarantee.epsilon == study.ledger.spent.epsilon == 2
    assert result.count is None
    assert result.glance()["nobs"].tolist() == [COMPLETE]
    assert result.site_facts[0].records == COMPLETE
    text = " ".join(str(result.summary()).split())
    assert f"{COMPLETE} +/- " in text
    assert "(noisy; complete rows)" in text
    assert "Guarantee: 2-differential privacy (pure) in all: 1 for the fit, 1 for the description it rests on" in text
    assert "Cohort: described before, at epsilon = 1 (data set 'private', version 1, entry 2)" in text
    assert "Standard errors take public rows as re-weighted" in text


def test_the_same_call_is_the_same_request():
    study = study_of()
    cohort, model = described(study), hdpf.logit(FORMULA, data=study)
    first = model.fit(epsilon=1, description=cohort)
    spent = study.ledger.spent
    again = model.fit(epsilon=1, description=hdp.Description.from_json(cohort.to_json()))
    assert study.ledger.spent == spent
    assert np.array_equal(first.params, again.params)
    assert np.array_equal(first.bse, again.bse)
    assert first.released.description.releases == again.released.description.releases


def test_a_result_keeps_the_description_it_rests_on():
    study = study_of()
    result = hdpf.logit(FORMULA, data=study).fit(epsilon=1, description=described(study))
    back = Result.from_json(result.to_json())
    assert back.released.description == result.released.description
    assert not back.released.description.charged
    assert str(back.summary()) == str(result.summary())
    record = result.disclosure()["description"]
    assert not record["charged_to_this_fit"]
    assert list(record["ledger"]) == ["private"]


def averages(model, cohort):
    sites = planned_records(model._spec, fit_request(1, description=cohort), {"private": len(PRIVATE)})
    (site,) = sites.values()
    return site.cohort


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_without_noise_averages_are_those_of_complete_rows(no_noise, relation):
    study = study_of(relation=relation, **({} if relation == "replace_one" else {"n_max": 4000}))
    whole = PRIVATE.dropna(subset=["age"])
    found = averages(hdpf.logit(FORMULA, data=study), described(study))
    assert (found.people, found.weighted) == (pytest.approx(COMPLETE), False)
    by = {(each.variable, each.what, each.level): each for each in found.moments}
    assert by["age", MomentKind.MEAN, 0].value == pytest.approx(whole.age.mean(), rel=1e-4)
    square = by["age", MomentKind.SQUARE, 0]
    assert square.value == pytest.approx(((whole.age - square.centre) ** 2).mean(), rel=1e-3)
    assert by["arm", MomentKind.SHARE, 1].value == pytest.approx(whole.arm.mean(), abs=1e-5)
    for level, name in enumerate(["s", "m"]):
        assert by["size", MomentKind.SHARE, level].value == pytest.approx((whole["size"] == name).mean(), abs=1e-5)
    assert all(each.noise_sd > 0 for each in found.moments)


def test_shares_at_risk_follow_from_counts_of_follow_up(no_noise):
    study = study_of()
    cohort = described(study, [*COLUMNS, "Surv(time, event)"], times=[1, 2.5, 5, 10])
    found = averages(hdpf.hazard(HAZARD, data=study, intervals=[2.5, 5, 7.5, 10]), cohort)
    whole = PRIVATE.dropna(subset=["age"])
    at_risk = found.of(MomentKind.AT_RISK)
    assert [each.time for each in at_risk] == [2.5, 5, 7.5]
    for each in at_risk[:2]:
        assert each.value == pytest.approx((whole.time > each.time).mean(), abs=2e-3)
    assert at_risk[2].value == pytest.approx((at_risk[1].value + (whole.time > 10).mean()) / 2, abs=2e-3)


def test_with_weights_averages_are_weighted_and_people_are_still_counted(no_noise):
    study = study_of()
    cohort = described(study, weights="w")
    model = hdpf.logit(FORMULA, data=study, weights="w")
    found = averages(model, cohort)
    whole = PRIVATE.dropna(subset=["age"])
    assert found.weighted
    assert found.people == pytest.approx(whole.w.sum(), rel=1e-4)
    mean = next(each for each in found.moments if each.what == MomentKind.MEAN)
    assert mean.value == pytest.approx(np.average(whole.age, weights=whole.w), rel=1e-4)
    result = model.fit(epsilon=1, description=cohort)
    assert result.count.count == COMPLETE
    assert result.guarantee.epsilon == 2


def test_several_sites_each_have_a_description_of_their_own(no_noise):
    parts = {"A": PRIVATE.iloc[:800], "B": PRIVATE.iloc[800:]}
    study = study_of(private=parts)
    cohort, model = described(study), hdpf.logit(FORMULA, data=study)
    result = model.fit(epsilon=1, description=cohort)
    assert [site.records for site in result.site_facts] == [int(part["age"].notna().sum()) for part in parts.values()]
    with pytest.raises(hdp.ArgumentError, match="of the same sites: it is of A, B, the study of A"):
        hdpf.logit(FORMULA, data=study.at("A")).fit(epsilon=1, description=cohort)


def refusals():
    """Return a name, how the description is made, the model, and the reason, for descriptions that do not fit."""
    logit, hazard = (lambda data: hdpf.logit(FORMULA, data=data)), (lambda data: hdpf.hazard(HAZARD, data=data))
    return {
        "a request": (lambda study: hdp.describe(study, COLUMNS), logit, "without epsilon it returns a request"),
        "not complete": (lambda s: described(s, complete=False), logit, "complete=True"),
        "groups": (lambda s: described(s, ["age", "size"], by="arm"), logit, "without groups"),
        "fewer": (lambda s: described(s, ["age", "arm"]), logit, "it lacks size"),
        "more": (lambda s: described(s, [*COLUMNS, "z"]), logit, "complete in z too"),
        "no covariate": (lambda s: described(s, ["age", "size"]), logit, "lacks arm"),
        "weights": (lambda s: described(s, weights="w"), logit, "without weights"),
        "no follow-up": (lambda s: described(s, [*COLUMNS, "time"]), hazard, "count follow-up"),
        "short": (
            lambda s: described(s, [*COLUMNS, "Surv(time, event)"], times=[1, 2]),
            hazard,
            "up to the last interval",
        ),
        "other data": (lambda _: described(study_of()), logit, "same data"),
        "other relation": (
            lambda _: described(study_of(relation="add_or_remove_one", n_max=4000)), logit, "same relation",
        ),
    }  # fmt: skip


@pytest.mark.covering(cases=5)
@pytest.mark.parametrize("what", refusals())
def test_a_description_of_other_people_is_refused_before_a_charge(what, tmp_path):
    make, model, reason = refusals()[what]
    ledger = hdp.Ledger(tmp_path / "own.db", dataset="own", epsilon=100)
    study = study_of(ledger=ledger, budget=None)
    cohort = make(study)
    before = study.ledger.spent
    with pytest.raises(hdp.ArgumentError, match=reason) as refused:
        model(study).fit(epsilon=1, description=cohort)
    assert refused.value.argument == "description"
    assert study.ledger.spent == before


def test_what_is_stated_is_everything_that_a_fit_rests_on_and_a_file_keeps_it():
    study = study_of()
    cohort = described(study, epsilon=2)
    result = hdpf.logit(FORMULA, data=study).fit(epsilon=1, description=cohort)
    words = "3-differential privacy (pure) in all: 1 for the fit, 2 for the description it rests on"
    assert str(result.guarantee) == words
    assert study.ledger.spent.epsilon == 3
    assert "together 3-differentially private" in result.guarantee.statement()
    assert "a factor of at most 20.09" in result.guarantee.statement()
    assert "epsilon = 3 in all: 1 for the fit, 2 for the description it rests on" in result.methods_text()
    assert result.glance()["epsilon"].tolist() == [3]
    record = result.disclosure()
    assert record["privacy_loss"]["exact"] == {"epsilon": "3", "delta": "0"}
    assert [(each["what"], each["epsilon"]) for each in record["privacy_loss"]["parts"]] == [
        ("the fit", "1"), ("the description it rests on", "2"),
    ]  # fmt: skip
    assert sum(Fraction(event["epsilon"]) for event in record["accounting"]["events"]) == 3
    back = Result.from_json(result.to_json())
    assert back.guarantee == result.guarantee
    written = json.loads(result.to_json())
    assert written["released"]["guarantee"].pop("parts")
    written["released"]["guarantee"]["epsilon"] = "1"  # as files were written before: of the fit alone
    assert Result.from_json(json.dumps(written)).guarantee == result.guarantee


def test_the_delta_of_a_gaussian_description_is_stated():
    study = study_of(budget=hdp.Budget(epsilon=1000, delta=0.9))
    columns = ["age", "size", "arm", "y"]
    cohort = described(study, columns, epsilon=0.2, delta=0.3)
    assert cohort.query.delta > 0, "normal noise is the smaller one here"
    result = hdpf.logit(FORMULA, data=study).fit(epsilon=1, description=cohort)
    stated = result.guarantee
    assert (stated.epsilon, stated.delta) == (1 + cohort.guarantee.epsilon, cohort.guarantee.delta)
    assert f", {float(stated.delta):g})-differential privacy in all: 1 for the fit, (" in str(stated)
    assert "approximate differential privacy" in result.methods_text()
    record = result.disclosure()
    assert record["privacy_loss"]["exact"]["delta"] == str(cohort.guarantee.delta)
    assert record["description"]["delta"] == {"private": str(cohort.query.delta)}


def foreign(tmp_path, kind):
    """Return two studies of other people whose data sets have the same name and version."""
    if kind == "budget":
        return study_of(), study_of()
    places = [tmp_path / name for name in ("one.db", "two.db")]
    return [study_of(ledger=hdp.Ledger(each, dataset="trial", epsilon=100), budget=None) for each in places]


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", ["budget", "two files"])
@pytest.mark.parametrize("read_again", [False, True])
def test_people_are_told_apart_by_their_account_not_by_the_name_of_their_data(tmp_path, kind, read_again):
    """Two `budget=` studies call their data "private", two files may both say "trial"."""
    study, other = foreign(tmp_path, kind)
    cohort = described(other, [*COLUMNS, "Surv(time, event)"])
    simple = described(other)
    if read_again:
        cohort, simple = (hdp.Description.from_json(each.to_json()) for each in (cohort, simple))
    uses = (
        lambda: hdpf.logit(FORMULA, data=study).fit(epsilon=1, description=simple),
        lambda: hdpf.logit(FORMULA, data=study).plan(1.0, description=simple),
        lambda: hdpf.survfit("Surv(time, event) ~ 1", study).fit(description=cohort),
        lambda: hdp.hybrid_weights(study, COLUMNS, epsilon=1, description=simple),
        lambda: hdp.importance_weights(study, "~ age + size + arm", epsilon=1, description=simple),
    )
    for use in uses:
        with pytest.raises(hdp.ArgumentError, match="charged to another account than this study's") as refused:
            use()
        assert refused.value.argument == "description"
    assert study.ledger.spent.epsilon == 0
    own = hdpf.logit(FORMULA, data=other).fit(epsilon=1, description=simple)
    assert own.released.description.releases == simple.releases


def test_a_description_that_names_no_account_is_refused():
    study = study_of()
    cohort = described(study)
    ((name, release),) = cohort.releases
    bare = replace(cohort, releases=((name, replace(release, entry=None)),))
    with pytest.raises(hdp.ArgumentError, match="say to which account it was charged"):
        hdpf.logit(FORMULA, data=study).fit(epsilon=1, description=bare)


def test_columns_that_are_declared_complete_need_not_be_described_and_complete_is_not_needed(no_noise):
    study = study_of()
    cohort = described(study, ["arm"], complete=False)
    result = hdpf.logit("y ~ arm", data=study).fit(epsilon=1, description=cohort)
    assert result.facts.records == len(PRIVATE)
    assert result.facts.records_sd is None


def test_a_fit_that_declines_takes_all_rows_for_complete_and_says_so():
    study = study_of()
    result = hdpf.logit(FORMULA, data=study).fit(epsilon=1, describe=False)
    assert (result.count, result.facts.records, result.guarantee.epsilon) == (None, len(PRIVATE), 1)
    text = " ".join(str(result.summary()).split())
    assert "Intervals assume no missing cells and covariates distributed as the public ones (describe=False)." in text
    assert "Of epsilon" not in text
    alone = hdpf.logit(FORMULA, data=study_of(public=None)).fit(epsilon=1, describe=False, se_share=0)
    assert "Intervals assume no missing cells (describe=False)." in " ".join(str(alone.summary()).split())
    with pytest.raises(hdp.ArgumentError, match="declines what description= gives"):
        hdpf.logit(FORMULA, data=study).fit(epsilon=1, describe=False, description=described(study))


def test_a_plan_rests_on_the_description_or_shows_the_share(no_noise):
    study = study_of()
    model, cohort = hdpf.logit(FORMULA, data=study), described(study)
    assert "of epsilon, 1.9% for the number of people who count" in str(model.plan(1.0)).replace("\n", " ")
    given, declined = model.plan(1.0, description=cohort), model.plan(1.0, describe=False)
    assert not any("of epsilon" in str(plan) for plan in (given, declined))
    assert (given.frame["std_error"] > declined.frame["std_error"]).all()
    with pytest.raises(hdp.ArgumentError, match="n must be left out"):
        model.plan(1.0, n=500, description=cohort)
