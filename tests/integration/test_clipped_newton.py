"""Fits by clipped scores: which mechanism is chosen, what is refused, what replays, what a result says."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.spec import CLEARLY
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery
from hdpstats.papers.trials import eight_interval_trial
from hdpstats.privacy.gaussian import mu_of
from hdpstats.records.several import RoundsQuery, RoundsRelease
from hdpstats.sites import local

pytestmark = pytest.mark.usefixtures("few_draws")

TRIAL = eight_interval_trial(3200, seed=5)
PUBLIC, PRIVATE = TRIAL.frame.iloc[:200], TRIAL.frame.iloc[200:]
DELTA = 1e-6


def study_of(public=PUBLIC, private=PRIVATE, *, epsilon=50.0, delta=1e-4, schema=TRIAL.schema, **options):
    budget = hdp.Budget(epsilon=epsilon, delta=delta)
    return hdp.Study(private=private, public=public, schema=schema, budget=budget, **options)


def hazard(study, formula=TRIAL.formula, **options):
    return hdpf.hazard(formula, study, **({"intervals": 8, "baseline": "dummies"} | options))


def logit_study(covariates, *, rows=400, public=300):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (rows + public, covariates))
    y = (rng.uniform(size=rows + public) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(int)
    frame = pd.DataFrame({f"x{j}": X[:, j] for j in range(covariates)} | {"y": y})
    schema = hdp.Schema(
        {f"x{j}": hdp.Continuous(-1, 1, complete=True) for j in range(covariates)} | {"y": hdp.Binary(complete=True)}
    )
    study = study_of(frame.iloc[rows:], frame.iloc[:rows], schema=schema)
    return hdpf.logit("y ~ " + " + ".join(f"x{j}" for j in range(covariates)), data=study)


def kind(result):
    return type(result.query).__name__


def test_hazards_with_a_delta_are_fitted_by_clipped_scores():
    model = hazard(study_of())
    assert kind(model.fit(2.0, delta=DELTA, describe=False)) == "RoundsQuery"
    assert kind(model.fit(2.0)) == "ObjectiveQuery"
    assert kind(model.fit(2.0, delta=DELTA, mechanism="objective")) == "ObjectiveQuery"
    assert kind(model.fit(2.0, delta=DELTA, se_share=0.1)) == "ObjectiveQuery"


@pytest.mark.wide
def test_hazards_with_too_few_public_people_are_not():
    assert kind(hazard(study_of(PUBLIC.iloc[:167])).fit(2.0, delta=DELTA, describe=False)) == "ObjectiveQuery"
    assert (
        kind(hazard(study_of(PUBLIC.iloc[:168])).fit(2.0, delta=DELTA, describe=False)) == "RoundsQuery"
    )  # 12 times 14


@pytest.mark.wide
@pytest.mark.parametrize(("covariates", "epsilon", "chosen"), [(5, 1.0, "ObjectiveQuery"), (23, 0.5, "RoundsQuery")])
def test_a_regression_takes_rounds_where_their_errors_are_clearly_smaller(covariates, epsilon, chosen):
    # Normal noise has the variance 1 / mu^2 in each direction, pure noise (D + 1) / epsilon^2: the first is the smaller
    # one where there are many coefficients.
    model = logit_study(covariates, rows=3000)
    assert kind(model.fit(epsilon, delta=DELTA, describe=False)) == chosen
    names = {"ObjectiveQuery": "objective", "RoundsQuery": "clipped_newton"}
    assert set(model.plan(epsilon, delta=DELTA, describe=False).frame["mechanism"]) == {names[chosen]}
    errors = {name: model.plan(epsilon, delta=DELTA, mechanism=name, describe=False).frame for name in names.values()}
    gains = {name: np.mean((each["std_error"] / each["public_only"]) ** 2) for name, each in errors.items()}
    assert (gains["clipped_newton"] < CLEARLY * gains["objective"]) == (chosen == "RoundsQuery")
    assert kind(model.fit(epsilon)) == "ObjectiveQuery"


GBSG = hdp.datasets.load_gbsg()


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize(
    ("records", "epsilons", "chosen", "fit"),
    [
        (200_000, (1.0,), "objective", lambda study: hdpf.linear("years ~ age + nodes + hormon", data=study)),
        (3_000, (1.0,), "objective", lambda study: hdpf.linear("years ~ age + nodes + hormon", data=study)),
        (500, (1.0,), "clipped_newton", lambda study: hdpf.linear("years ~ age + nodes + hormon", data=study)),
        pytest.param(
            200_000,
            (1.0, 3.0),
            "objective",
            lambda study: hdpf.hazard(
                "Surv(time, event) ~ age + log1p(nodes) + hormon + size", data=study, intervals=24, link="cloglog"
            ),
            marks=pytest.mark.wide,
        ),
    ],
)
def test_the_ordinary_fit_is_kept_where_noise_does_not_double_its_errors(records, epsilons, chosen, fit):
    """Fails where predicted errors alone are compared: clipped scores have smaller ones, of another estimate."""
    study = hdp.Study(
        public=GBSG.assign(years=np.log(GBSG["time"] / 365.25)),
        schema=hdp.Schema(
            age=hdp.Continuous(20, 90, complete=True),
            nodes=hdp.Continuous(0, 40, complete=True),
            hormon=hdp.Binary(complete=True),
            size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
            years=hdp.Continuous(-6, 3, complete=True),
            time=hdp.Duration(2557, unit="days", complete=True),
            event=hdp.Binary(complete=True),
        ),
    )
    model = fit(study)
    assert set(model.plan(epsilons, delta=DELTA, n=records).frame["mechanism"]) == {chosen}
    if chosen == "objective" and len(epsilons) > 1:
        least = {
            name: model.plan(epsilons, delta=DELTA, n=records, mechanism=name).frame["std_error"].mean()
            for name in ("objective", "clipped_newton")
        }
        assert least["clipped_newton"] < least["objective"]


def test_a_result_has_the_guarantee_of_epsilon_and_delta_and_says_what_ran():
    study = study_of()
    result = hazard(study).fit(2.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    assert (result.guarantee.epsilon, result.guarantee.delta) == (2, Fraction(1, 10**6))
    events = result.release.events
    assert len(events) == 3
    whole = mu_of(Fraction(2), Fraction(1, 10**6)) ** 2
    assert (1 - Fraction(1, 10**9)) * whole < sum(event.mu_squared for event in events) <= whole
    assert study.ledger.balance.charged.mu_squared == sum(event.mu_squared for event in events)
    assert study.ledger.balance.charged.epsilon == 0
    text = str(result.summary())
    assert "noisy Newton in 3 rounds" in text
    assert text.count("noisy gradient sum") == 3
    assert all(f"entry {each.entry.number}," in " ".join(text.split()) for each in result.release.rounds)
    assert "in how long they are followed" in " ".join(text.split())
    assert result.release.entry == result.release.rounds[-1].entry
    assert result.facts.records == 3000
    assert result.facts.public_rows == 200


@pytest.mark.usefixtures("no_noise")
def test_estimates_come_near_the_truth():
    result = hazard(study_of()).fit(4.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    truth = np.concatenate([TRIAL.alpha, TRIAL.beta])
    for estimate in (result.pooled, result.private_only):
        errors = (estimate.params.to_numpy() - truth) / estimate.bse.to_numpy()
        assert np.mean(errors**2) < 2.0
        assert np.linalg.norm(estimate.params.to_numpy()[8:] - TRIAL.beta) < 0.35 * np.linalg.norm(TRIAL.beta)
    assert result.public_only.params.to_numpy() != pytest.approx(result.pooled.params.to_numpy(), abs=1e-3)
    assert np.all(result.bse < result.public_only.bse)


def test_the_same_call_again_is_free_and_another_replicate_is_not():
    study = study_of()
    model = hazard(study)
    first = model.fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    spent = study.ledger.balance.charged
    again = hazard(study).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    assert again.params.equals(first.params)
    assert again.release == first.release
    assert study.ledger.balance.charged == spent
    other = model.fit(1.0, delta=DELTA, replicate=2, describe=False)
    assert study.ledger.balance.charged.mu_squared == 2 * spent.mu_squared
    assert not other.params.equals(first.params)


def test_a_result_survives_json():
    result = hazard(study_of()).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    back = hdp.Result.from_json(result.to_json())
    assert isinstance(back.query, RoundsQuery)
    assert isinstance(back.release, RoundsRelease)
    assert (back.query, back.release) == (result.query, result.release)
    assert back.params.equals(result.params)
    assert str(back.summary()) == str(result.summary())


def short_study():
    """Return a study whose account suffices for the first rounds of a fit at (1, 1e-6), but not the last."""
    part = hdp.Budget(epsilon=0.7, delta=1e-6)
    ledger = hdp.Ledger(None, dataset="trial", epsilon=5, delta=1e-5, gaussian=part)
    return hdp.Study(private=PRIVATE, public=PUBLIC, schema=TRIAL.schema, ledger=ledger)


def test_a_budget_for_the_first_rounds_alone_is_refused_before_anything_is_charged():
    study = short_study()
    with pytest.raises(hdp.InsufficientBudget, match="Nothing was charged"):
        hazard(study).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    assert study.ledger.history().empty
    assert hazard(study).fit(
        0.7, delta=DELTA, mechanism="clipped_newton", describe=False
    ).guarantee.epsilon == Fraction(7, 10)


def test_without_that_check_the_first_rounds_would_be_lost(monkeypatch):
    right = local.prepare
    monkeypatch.setattr(local, "prepare", lambda query, site_facts: replace(right(query, site_facts), ahead=()))
    study = short_study()
    with pytest.raises(hdp.InsufficientBudget):
        hazard(study).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    assert len(study.ledger.history()) == 2


def test_a_fit_that_was_interrupted_goes_on_where_it_was(monkeypatch):
    study, answered = study_of(), []
    right = hdp.LocalSite.answer

    def failing(self, query):
        if len(answered) == 1:
            raise hdp.SiteError("cut off")
        answered.append(query)
        return right(self, query)

    monkeypatch.setattr(hdp.LocalSite, "answer", failing)
    with pytest.raises(hdp.SiteError):
        hazard(study).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    once = study.ledger.balance.charged.mu_squared
    monkeypatch.setattr(hdp.LocalSite, "answer", right)
    result = hazard(study).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    assert result.query.rounds[0] == answered[0]
    assert study.ledger.balance.charged.mu_squared == sum(event.mu_squared for event in result.release.events)
    assert once == result.release.events[0].mu_squared


def test_the_first_question_depends_on_public_facts_alone():
    def first(private):
        result = hazard(study_of(private=private)).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
        return result.query.rounds[0], result.query.rounds[0].clip

    other = PRIVATE.assign(x1=5.0, event=1, time=1)
    assert first(PRIVATE) == first(other)


@pytest.mark.usefixtures("no_noise")
def test_it_is_fitted_where_the_number_of_people_is_protected():
    study = study_of(relation="add_or_remove_one", n_max=5000)
    result = hazard(study).fit(2.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    assert (result.guarantee.epsilon, result.guarantee.delta) == (2, Fraction(1, 10**6))
    assert result.count.count == 3000
    assert result.facts.records == result.count.count
    assert {each.epsilon for each in result.query.rounds} == {2 - sum(event.epsilon for event in result.count.events)}
    truth = np.concatenate([TRIAL.alpha, TRIAL.beta])
    assert np.mean(((result.params.to_numpy() - truth) / result.bse.to_numpy()) ** 2) < 2.0


def test_one_round_without_a_delta_is_pure():
    result = hazard(study_of()).fit(2.0, mechanism=hdp.mechanisms.ClippedNewton(rounds=1), describe=False)
    assert result.guarantee.delta == 0
    assert len(result.release.rounds) == 1
    assert result.estimate.distribution is not None


def test_how_people_are_followed_may_be_declared():
    model = hazard(study_of())
    declared = model.fit(
        1.0, delta=DELTA, mechanism=hdp.mechanisms.ClippedNewton(censoring="administrative"), describe=False
    )
    assert "followed to the horizon" in " ".join(str(declared.summary()).split())
    with pytest.raises(hdp.ArgumentError, match="censoring"):
        hdp.mechanisms.ClippedNewton(censoring="never")


WEIGHTED = hdp.Schema(
    {
        **dict(TRIAL.schema.items()),
        "o": hdp.Offset(-4, 4, complete=True),
        "cause": hdp.Categorical(["a", "b", "c"], complete=True),
    }
)
EXTRA = {"o": 0.0, "cause": "a"}
LONG = {"private": PRIVATE.assign(start=0.0, id=range(3000)), "unit": "id", "max_rows_per_unit": 3, "n_max": 4000}
WITH_START = hdp.Schema({**dict(TRIAL.schema.items()), "start": hdp.Duration(8, missing=0)})
REFUSED = {
    "no delta": ({}, {"delta": 0}, "needs a delta"),
    "no public rows": ({"public": None}, {}, "public rows with the outcome"),
    "no public outcome": ({"public": PUBLIC.drop(columns="event")}, {}, "public rows with the outcome"),
    "few public people": ({"public": PUBLIC.iloc[:100]}, {}, "12 complete public people per coefficient, here 168"),
    "large offsets": (
        {"schema": WEIGHTED, "public": PUBLIC.assign(**EXTRA), "private": PRIVATE.assign(**EXTRA), "offset": "o"},
        {},
        "offsets of this size",
    ),
    "causes": (
        {
            "schema": WEIGHTED,
            "public": PUBLIC.assign(o=0.0, cause=["a", "b", "c", "a"] * 50),
            "private": PRIVATE.assign(**EXTRA),
            "formula": "Surv(time, cause) ~ x1",
        },
        {},
        "one kind of event",
    ),
    "long form": (
        {"schema": WITH_START, "public": PUBLIC.assign(start=0.0), "formula": "Surv(start, time, event) ~ x1"} | LONG,
        {},
        "one row per person",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:public rows alone")
def test_what_no_proof_covers_is_refused_with_what_does_work(name):
    options, fit, reason = REFUSED[name]
    options = dict(options)
    columns = {key: options.pop(key) for key in ("formula", "offset") if key in options}
    study = study_of(**options)
    model = hazard(study, columns.pop("formula", TRIAL.formula), **columns)
    with pytest.raises(hdp.MechanismError, match=reason) as caught:
        model.fit(1.0, **({"delta": DELTA, "mechanism": "clipped_newton"} | fit))
    assert caught.value.available == ("objective",)
    assert study.ledger.history().empty


def test_a_site_does_not_answer_a_whole_fit_at_once():
    study = study_of()
    result = hazard(study).fit(1.0, delta=DELTA, mechanism="clipped_newton", describe=False)
    spent = study.ledger.balance.charged
    with pytest.raises(hdp.SiteError, match="does not answer"):
        study.site.answer(result.query)
    assert study.ledger.balance.charged == spent
    assert isinstance(result.query.rounds[0], ClippedNewtonQuery)


@pytest.mark.usefixtures("no_noise")
def test_late_entrants_are_fitted():
    rng = np.random.default_rng(2)
    late = TRIAL.frame.assign(start=np.where(rng.uniform(size=3200) < 0.3, 1.0, 0.0))
    late = late[late["time"] > late["start"]]
    study = study_of(late.iloc[:400], late.iloc[400:], schema=WITH_START)
    result = hazard(study, "Surv(start, time, event) ~ x1 + x2 + x3 + x4 + x5 + x6").fit(
        4.0, delta=DELTA, mechanism="clipped_newton", describe=False
    )
    assert kind(result) == "RoundsQuery"
    truth = np.concatenate([TRIAL.alpha, TRIAL.beta])
    assert np.mean(((result.params.to_numpy() - truth) / result.bse.to_numpy()) ** 2) < 2.0
