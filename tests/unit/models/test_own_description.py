"""Fits that describe their own people: what is asked, at which part of epsilon, in which order of charges."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.description import DescriptionQuery
from hdpstats.mechanisms.perturbation import ObjectivePerturbation, ObjectiveQuery
from hdpstats.models.own_description import (
    LEAST_AVERAGES,
    MARGIN,
    MOST_AVERAGES,
    MOST_FOR_PAIRS,
    MOST_NOISE_OF_PAIRS,
    ResidualSd,
    SiteDescription,
    outcome_description,
    own_description,
    residual_sd,
    variance_of,
)
from hdpstats.models.points import Objective
from hdpstats.models.request import fit_request
from hdpstats.models.site_records import planned_records, taken_sd
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind
from hdpstats.results import Result
from hdpstats.results.sites import charged_releases
from hdpstats.sites.local import LocalSite
from tests import known_noise
from tests.integration.test_fit_description import COMPLETE, FORMULA, HAZARD, PRIVATE, PUBLIC, SCHEMA, study_of

pytestmark = pytest.mark.usefixtures("few_draws")

ADDED = {"relation": "add_or_remove_one", "n_max": 4000}


@pytest.fixture
def no_noise(monkeypatch):
    known_noise.off(monkeypatch)


def logit(study, formula=FORMULA, **columns):
    return hdpf.logit(formula, data=study, **columns)


def hazard(study, intervals=6):
    return hdpf.hazard(HAZARD, data=study, intervals=intervals)


def own(model):
    return own_description(model._spec)


@pytest.mark.wide
def test_a_fit_with_more_pairs_than_a_query_has_asks_for_none():
    """Two categories of 150 levels have 22,201 pairs: a description of them is no query, and the fit needs none."""
    rng, levels = np.random.default_rng(1), [f"l{k}" for k in range(150)]
    rows = pd.DataFrame({"f": levels * 20, "g": rng.permutation(levels * 20), "y": rng.integers(0, 2, 3000)})
    schema = hdp.Schema(
        f=hdp.Categorical(levels, complete=True), g=hdp.Categorical(levels, complete=True), y=hdp.Binary(complete=True)
    )
    study = hdp.Study(public=rows, schema=schema)
    described = own(hdpf.logit("y ~ f + g", data=study))
    assert described is not None
    assert described.pairs is None
    assert described.affordable(Fraction(1), records=20_000).query(Fraction(1), ahead=()).dimension == 298


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("terms", [{}, ADDED])
@pytest.mark.parametrize(("mechanism", "delta"), [("objective", 0), ("objective", 1e-6), ("clipped_newton", 1e-6)])
def test_number_averages_and_fit_cost_epsilon_together(terms, mechanism, delta):
    study = study_of(**terms, budget=hdp.Budget(epsilon=10, delta=1e-5))
    options = {"delta": delta, "mechanism": mechanism}
    result = logit(study).fit(epsilon=1, **options)
    assert [each.kind for each in charged_releases(result.released)][:2] == ["count/1", "description/1"]
    known = result.released.description
    assert known.charged
    ((_, query),) = known.queries
    assert query.epsilon + result.count.events[0].epsilon + result.query.epsilon == 1
    assert 1 - Fraction(1, 10**6) < result.guarantee.epsilon <= 1
    assert result.guarantee.delta <= Fraction(delta).limit_denominator(10**9)
    shares = f"Of epsilon: {float(result.count.events[0].epsilon):.1%} for"
    text = " ".join(str(result.summary()).split())
    assert shares in text
    assert f"{float(query.epsilon):.1%} for averages of the private people" in text
    before = study.ledger.spent
    again = logit(study).fit(epsilon=1, **options)
    assert study.ledger.spent == before
    assert again.released.description.releases == known.releases
    assert np.array_equal(again.bse, result.bse)
    assert Result.from_json(result.to_json()).released.description == known


def test_where_columns_are_complete_no_number_is_asked_for(no_noise):
    result = logit(study_of(), "y ~ arm").fit(epsilon=1)
    ((_, query),) = result.released.description.queries
    assert result.count is None
    assert not query.counted
    assert query.dimension == 1
    assert query.epsilon + result.query.epsilon == 1


def test_the_query_rests_on_public_facts_only_and_not_on_the_order_of_terms():
    query = own(logit(study_of())).query(Fraction(1, 10))
    other = study_of(private=PRIVATE.iloc[:700].assign(age=30.0))
    assert own(logit(other)).query(Fraction(1, 10)) == query
    assert own(logit(study_of(), "y ~ arm:size + log(age) + bs(age, df=4)")).query(Fraction(1, 10)) == query
    assert own(logit(study_of(public=PUBLIC.assign(age=PUBLIC.age + 1)))).query(Fraction(1, 10)) != query
    assert [each.name for each in query.columns] == ["age", "arm", "size"]
    assert query.besides == ("y",)
    age = query.columns[0]
    mean, sd = PUBLIC.age.mean(), PUBLIC.age.std(ddof=0)
    assert age.lower == pytest.approx(max(20, mean - 2.5 * sd), abs=0.3)
    assert age.upper == pytest.approx(min(90, mean + 2.5 * sd), abs=0.3)
    assert own(hazard(study_of())).query(Fraction(1, 10)).at_risk.after == tuple(
        hazard(study_of())._spec.grid.cuts[:-1]
    )
    assert len(own(hazard(study_of(), 40)).after) == 8


def test_averages_are_those_of_complete_people(no_noise):
    whole = PRIVATE.dropna(subset=["age"])
    for model in (logit(study_of()), hazard(study_of())):
        result = model.fit(epsilon=3)
        assert result.facts.records == COMPLETE
        ((_, release),), ((_, query),) = result.released.description.releases, result.released.description.queries
        asked = own(model)
        found = asked_moments(model, query, release)
        by = {(each.variable, each.what, each.level): each for each in found.moments if each.time == 0}
        age = by["age", MomentKind.MEAN, 0]
        assert age.value == pytest.approx(whole.age.clip(age.lower, age.upper).mean(), rel=1e-4)
        assert by["arm", MomentKind.SHARE, 1].value == pytest.approx(whole.arm.mean(), abs=1e-5)
        for each in found.of(MomentKind.AT_RISK):
            assert each.value == pytest.approx((whole.time > each.time).mean(), abs=1e-5)
        assert len(found.of(MomentKind.AT_RISK)) == len(asked.wanted.times)


def asked_moments(model, query, release):
    return SiteDescription(query=query, release=release).moments(model._spec, (float(COMPLETE), 0.0))


@pytest.mark.parametrize(
    ("records", "epsilon", "share"),
    [(10**6, 1, LEAST_AVERAGES), (1500, 1, None), (600, Fraction(1, 2), MOST_AVERAGES), (100, Fraction(1, 10), 0)],
)
def test_the_share_grows_with_the_noise_until_it_would_drown(records, epsilon, share):
    asked = own(logit(study_of()))
    found = asked.share(Fraction(epsilon), records=records)
    assert 0 <= found <= MOST_AVERAGES
    if share is not None:
        assert found == share
    else:
        noise = asked.expected(found * epsilon, records=records, people=(records, 0.0)).of(MomentKind.SQUARE)[0]
        sd = PUBLIC.age.var(ddof=0)
        assert noise.noise_sd / sd == pytest.approx(0.25, rel=0.1)
    half = own(logit(study_of(**ADDED))).share(Fraction(epsilon), records=records)
    assert half <= found or found == 0


BOUGHT = {
    "logit": logit,
    "linear": lambda study: hdpf.linear("age ~ arm + size", data=study),
    "median": lambda study: hdpf.quantile("age ~ arm + size", data=study),
    "multinomial": lambda study: hdpf.multinomial("size ~ age + arm", data=study),
    "hazard": hazard,
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("terms", [{}, ADDED], ids=["replace", "add or remove"])
@pytest.mark.parametrize("family", BOUGHT)
def test_what_a_fit_buys_beside_its_coefficients_is_at_most_a_fifth_of_epsilon(family, terms):
    """Number of people, averages and own Hessians; at 300 people number and averages alone would come to a quarter."""
    spec, mechanism = BOUGHT[family](study_of(**terms))._spec, Objective()
    largest = {}
    for epsilon, records in itertools.product((0.3, 1.0, 3.0), (150, 300, 450, 20_000, 10**6)):
        request = fit_request(epsilon)
        (site,) = planned_records(spec, request, {"private": records}, averages=True, expected=False).values()
        spent = site.for_count + site.for_averages
        if records >= 20_000 and epsilon in (0.3, 3.0) and spec.releases_sandwich:
            part = mechanism.ask(spec, ObjectivePerturbation(), site).sandwich
            spent += site.request.epsilon * (0 if part is None else part.share)
        assert spent <= request.epsilon / 5
        largest[epsilon, records] = spent / request.epsilon
    assert max(largest.values()) > Fraction(1, 6 if not terms else 8)


def test_products_are_asked_for_where_noise_leaves_correlations_visible():
    asked = own(logit(study_of()))
    assert [(each.name, each.level) for each in asked.pairs.columns] == [
        ("age", None),
        ("arm", 1),
        ("size", 0),
        ("size", 1),
    ]
    assert asked.pairs.places == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3))
    for records, epsilon, kept in ((4000, 3, True), (400, 1, False)):
        found = asked.affordable(Fraction(epsilon), records=records)
        assert (found.pairs is not None) == kept
        share = found.share(Fraction(epsilon), records=records)
        known = found.expected(share * epsilon, records=records, people=(float(records), 0.0)).products
        assert len(known) == 5 * kept
        assert all(each.noise_sd <= MOST_NOISE_OF_PAIRS / 2.0 for each in known)
        assert share <= MOST_FOR_PAIRS or not kept


def test_a_fit_asks_for_products_and_keeps_them_with_its_result(no_noise):
    result = logit(study_of()).fit(epsilon=5)
    (((_, query),), ((_, release),)) = result.released.description.queries, result.released.description.releases
    assert query.pairs is not None
    assert query.dimension == len(release.sums) == query.first_pair + 5
    age_and_arm = asked_moments(logit(study_of()), query, release).products[0]
    whole = PRIVATE.dropna(subset=["age"])
    first = age_and_arm.first.of(whole.age.to_numpy(), reach=age_and_arm.reach)
    second = age_and_arm.second.of(whole.arm.to_numpy(), reach=age_and_arm.reach)
    assert age_and_arm.value == pytest.approx(np.mean(age_and_arm.of(first, second)), abs=1e-4)
    assert "correlations of the private covariates" in " ".join(str(result.summary()).split())
    assert Result.from_json(result.to_json()).released.description == result.released.description


def test_without_products_the_summary_says_how_far_errors_would_go():
    text = " ".join(str(logit(study_of()).fit(epsilon=0.5).summary()).split())
    assert "Correlations of private covariates were not released." in text
    assert "standard errors would be larger by up to" in text


NO_AVERAGES = {
    "declined": lambda: logit(study_of()).fit(epsilon=1, describe=False),
    "a Hessian is asked for": lambda: logit(study_of()).fit(epsilon=1, se_share=0.2),
    "no public rows": lambda: logit(study_of(public=None)).fit(epsilon=1, se_share=0),
    "drowned": lambda: logit(study_of()).fit(epsilon=0.01),
    "no covariates": lambda: logit(study_of(), "y ~ 1").fit(epsilon=1),
}


@pytest.mark.parametrize("why", NO_AVERAGES)
def test_averages_are_not_charged_for_where_they_are_of_no_use(why):
    result = NO_AVERAGES[why]()
    assert result.released.description is None
    assert "averages" not in str(result.summary())
    assert (result.count is None) == (why in ("declined", "no covariates"))


def test_what_exceeds_the_budget_is_refused_before_the_first_charge():
    study = study_of(budget=hdp.Budget(epsilon=0.99))
    with pytest.raises(hdp.InsufficientBudget):
        logit(study).fit(epsilon=1)
    assert study.ledger.spent.epsilon == 0
    with pytest.raises(hdp.MechanismError):
        hdpf.logit(FORMULA, data=study).fit(epsilon=0.5, mechanism="statistics")
    assert study.ledger.spent.epsilon == 0


def test_after_an_interruption_what_was_charged_stands_and_nothing_is_charged_twice(monkeypatch):
    study, right = study_of(), LocalSite.answer

    def answer(site, query, **options):
        if isinstance(query, ObjectiveQuery):
            raise KeyboardInterrupt
        return right(site, query, **options)

    monkeypatch.setattr(LocalSite, "answer", answer)
    with pytest.raises(KeyboardInterrupt):
        logit(study).fit(epsilon=1)
    charged = study.ledger.spent.epsilon
    assert 0 < charged < Fraction(1, 5)
    kept = study.ledger.history()
    monkeypatch.setattr(LocalSite, "answer", right)
    result = logit(study).fit(epsilon=1)
    assert study.ledger.spent.epsilon == 1
    assert study.ledger.history().iloc[: len(kept)].equals(kept)
    stored = [each.entry.stored is not None for each in charged_releases(result.released)]
    assert stored == [True, True, False]


def test_several_sites_describe_their_own_people_at_their_own_epsilon(no_noise):
    parts = {"A": PRIVATE.iloc[:900], "B": PRIVATE.iloc[900:]}
    study = study_of(private=parts)
    result = logit(study).fit(epsilon={"A": 1, "B": 2})
    known = result.released.description
    assert [name for name, _ in known.queries] == ["A", "B"]
    assert {name: ledger.spent.epsilon for name, ledger in study.ledgers.items()} == {"A": 1, "B": 2}
    assert result.guarantee.epsilon == 2
    assert all(len(site.entries) == 3 for site in result.site_facts)
    ages = [part["age"].notna().sum() for part in parts.values()]
    assert [site.records for site in result.site_facts] == ages
    assert "Of epsilon: " in " ".join(str(result.summary()).split())


def test_small_sites_take_part_without_averages():
    study = study_of(private={"A": PRIVATE.iloc[:1000], "B": PRIVATE.iloc[1000:1040], "C": PRIVATE.iloc[1040:1080]})
    result = logit(study).fit(epsilon=1)
    assert [name for name, _ in result.released.description.queries] == ["A"]
    assert [site.missing for site in result.site_facts] == [None, None, None]


def test_a_site_that_gives_its_number_and_no_averages_is_left_out_and_its_people_are_charged(monkeypatch):
    parts = {"A": PRIVATE.iloc[:500], "B": PRIVATE.iloc[500:1000], "C": PRIVATE.iloc[1000:]}
    study, right = study_of(private=parts), LocalSite.answer

    def answer(site, query, **options):
        if isinstance(query, DescriptionQuery) and site is study.sites["C"]:
            raise hdp.SiteError("gone")
        return right(site, query, **options)

    monkeypatch.setattr(LocalSite, "answer", answer)
    result = logit(study).fit(epsilon=1)
    gone = result.site_facts[2]
    assert (gone.missing, gone.rounds, len(gone.entries)) == ("gone", 0, 1)
    assert study.ledgers["C"].spent.epsilon == result.count.sites[0][1].events[0].epsilon
    assert [name for name, _ in result.released.description.releases] == ["A", "B"]


def test_case_weights_weigh_the_averages(no_noise):
    result = logit(study_of(), weights="w").fit(epsilon=1)
    ((_, query),) = result.released.description.queries
    assert (query.weights, query.largest_weight, query.leading) == ("w", 4.0, 2)
    assert query.besides == ("y",)


def test_people_with_several_rows_keep_the_note():
    frame = PRIVATE.assign(id=np.arange(len(PRIVATE)))
    public = PUBLIC.assign(id=np.arange(len(PUBLIC)))
    schema = hdp.Schema({name: SCHEMA[name] for name in SCHEMA} | {"start": hdp.Duration(10)})
    study = hdp.Study(
        private=frame.assign(start=0.0), public=public.assign(start=0.0), schema=schema, unit="id",
        max_rows_per_unit=3, n_max=1500, budget=hdp.Budget(epsilon=10),
    )  # fmt: skip
    model = hdpf.hazard("Surv(start, time, event) ~ age", data=study, intervals=6)
    assert own_description(model._spec) is None
    assert own_description(replace(hazard(study_of())._spec)) is not None


def test_a_plan_shows_the_shares_and_spends_nothing():
    study = study_of()
    text = str(logit(study).plan([0.01, 1.0]))
    assert "epsilon = 1:" in text
    assert "for averages of their covariates" in text.partition("epsilon = 1:")[2]
    assert "for averages" not in text.partition("epsilon = 1:")[0]
    assert study.ledger.spent.epsilon == 0


OUTCOMES = hdp.Schema(
    x=hdp.Continuous(-1, 1, complete=True),
    y=hdp.Continuous(0, 50, complete=True),
    b=hdp.Binary(complete=True),
    w=hdp.Weight(2, complete=True),
)


def with_outcomes(n: int = 30_000, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    y = 20 + x + rng.normal(0, 2, n)
    return pd.DataFrame({"x": x, "y": y, "b": rng.integers(0, 2, n).astype(float), "w": rng.uniform(0.5, 2, n)})


def linear(private, formula="y ~ x", *, weights=None, **options):
    options = {"budget": hdp.Budget(epsilon=1000)} | options
    return hdpf.linear(formula, hdp.Study(private=private, schema=OUTCOMES, **options), weights=weights)


def robust(rows):
    X = np.column_stack([np.ones(len(rows)), rows.x])
    bread = np.linalg.inv(X.T @ X)
    residual = rows.y - X @ (bread @ (X.T @ rows.y))
    return np.sqrt(np.diag(bread @ (X.T @ (X * residual.to_numpy()[:, None] ** 2)) @ bread))


def taken_of(result):
    """Return what errors of the one site took for the standard deviation of residuals, from its release."""
    ((_, query),), ((_, release),) = result.released.description.queries, result.released.description.releases
    variance, noise = SiteDescription(query=query, release=release).variance("y", (float(result.facts.records), 0.0))
    return variance, np.sqrt(MARGIN * (variance + 2.0 * noise))


def test_least_squares_without_public_rows_describe_their_outcomes_and_errors_follow_them(no_noise):
    rows = with_outcomes()
    model = linear(rows)
    result = model.fit(epsilon=2)
    ((_, query),), ((_, release),) = result.released.description.queries, result.released.description.releases
    assert [each.name for each in query.columns] == ["y"]
    assert (query.columns[0].lower, query.columns[0].upper, query.columns[0].centre) == (0.0, 50.0, 0.5)
    assert query.besides == ("x",)
    assert query.public_sha256 is None
    assert query.epsilon + result.query.epsilon == 2
    known = SiteDescription(query=query, release=release)
    assert known.variance("x", (30_000.0, 0.0)) is None
    assert known.moments(model._spec, (30_000.0, 0.0)) is None
    variance, taken = taken_of(result)
    assert variance == pytest.approx(rows.y.var(ddof=0), rel=1e-3)
    assert (
        f"to have a standard deviation of {taken:.3g} at all covariates, 2 times that of the outcome"
        in result.estimate.note
    )
    assert result.estimate.sampling.diagonal() ** 0.5 / robust(rows) == pytest.approx(taken / 2.0, rel=0.05)
    assert linear(rows).fit(epsilon=2, describe=False).bse["x"] > 3.0 * result.bse["x"]
    assert "Standard errors rest on noisy averages of y among the private people" in result.methods_text()
    assert "raked" not in result.methods_text()


def test_with_public_covariates_alone_the_outcome_is_asked_for_beside_them(no_noise):
    rows, public = with_outcomes(5_000), with_outcomes(300, 9)[["x"]]
    model = linear(rows, public=public)
    result = model.fit(epsilon=0.5)
    ((_, query),), ((_, release),) = result.released.description.queries, result.released.description.releases
    assert [each.name for each in query.columns] == ["x", "y"]
    assert query.besides == ()
    known = SiteDescription(query=query, release=release)
    variance, taken = taken_of(result)
    assert variance == pytest.approx(rows.y.var(ddof=0), rel=1e-3)
    assert {each.variable for each in known.moments(model._spec, (5_000.0, 0.0)).moments} == {"x"}
    assert f"to have a standard deviation of {taken:.3g} at all covariates" in result.estimate.note
    assert result.estimate.sampling.diagonal() ** 0.5 / robust(rows) == pytest.approx(taken / 2.0, rel=0.1)
    assert "for averages of their covariates and outcome" in str(model.plan(epsilon=[0.5]))


@pytest.mark.parametrize(("formula", "options"), [("y ~ x", {"se_share": 0.1}), ("y ~ 1", {})])
def test_where_covariates_are_not_asked_for_the_outcome_is_asked_for_alone(no_noise, formula, options):
    result = linear(with_outcomes(2_000), formula, public=with_outcomes(300, 9)[["x"]]).fit(epsilon=0.5, **options)
    ((_, query),) = result.released.description.queries
    assert [each.name for each in query.columns] == ["y"]
    assert "2 times that of the outcome as described" in result.estimate.note


def test_of_many_people_released_squared_scores_tell_what_public_covariates_do_not(no_noise):
    rows, public = with_outcomes(300_000), with_outcomes(300, 9)[["x"]]
    result = linear(rows, public=public).fit(epsilon=20)
    assert result.query.sandwich is not None
    _, taken = taken_of(result)
    assert f"only from a standard deviation of about {np.sqrt(0.1) * taken:.3g} on" in result.estimate.note
    assert result.estimate.sampling.diagonal() ** 0.5 == pytest.approx(robust(rows), rel=0.2)


def test_errors_hold_where_the_outcome_of_a_small_group_varies_twice_as_much(no_noise):
    rows = with_outcomes()
    rows["x"] = np.where(np.arange(len(rows)) % 33 == 0, 1.0, -1.0)
    rows["y"] = 20 + rows.x + np.where(rows.x > 0, 2.0, 1.0) * (rows.y - rows.y.mean())
    result = linear(rows).fit(epsilon=5)
    assert (result.estimate.sampling.diagonal() ** 0.5 > robust(rows)).all()


def test_a_plan_reckons_with_a_range_of_six_deviations_and_a_fit_that_describes_nothing_with_the_largest(no_noise):
    model = linear(with_outcomes())
    plan = model.plan(epsilon=[2.0])
    assert "predictions take a standard deviation of 16.7" in str(plan)  # 2 * 50 / 6
    assert "at most 1.5 times as large" in str(plan)
    assert "for averages of their outcome" in str(plan)
    spec = model._spec
    (known,) = planned_records(spec, fit_request(2.0), {"site": 30_000}).values()
    assert taken_sd(spec, known) == ResidualSd(value=pytest.approx(2 * 50 / 6), largest=25.0, described=False)
    for none in (fit_request(2.0, describe=False), fit_request(2.0, se_share=0), fit_request(0.01)):
        (known,) = planned_records(spec, none, {"site": 300}).values()
        assert known.averages is None
        assert taken_sd(spec, known).unknown


def test_a_given_description_of_the_outcome_costs_a_fit_nothing_and_its_plan_is_right():
    rows = with_outcomes()
    rows["x"] = np.where(np.arange(len(rows)) % 10 == 0, 1.0, -1.0)
    study = hdp.Study(private=rows, schema=OUTCOMES, budget=hdp.Budget(epsilon=100))
    description = hdp.describe(study, ["x", "y"], epsilon=5, complete=True)
    model = hdpf.linear("y ~ x", study)
    plan = model.plan(epsilon=[2.0], description=description)
    spent = study.ledger.spent.epsilon
    result = model.fit(epsilon=2, description=description)
    assert study.ledger.spent.epsilon - spent <= 2
    assert "that of the outcome as described" in result.estimate.note
    assert "that of the outcome as described" in str(plan)
    assert plan.frame["std_error"].to_numpy() == pytest.approx(result.bse.to_numpy(), rel=0.1)


def test_each_site_has_its_own_spread_and_at_most_the_largest(no_noise):
    wider = with_outcomes(10_000, 5).assign(y=lambda rows: 20 + 3 * (rows.y - 20))
    result = linear({"a": with_outcomes(20_000, 4), "b": wider, "few": with_outcomes(60, 6)}).fit(epsilon=1)
    described = result.released.description
    queries, releases = dict(described.queries), dict(described.releases)
    people = {"a": 20_000.0, "b": 10_000.0, "few": 60.0}
    spec = linear(with_outcomes())._spec
    taken = {}
    for name, number in people.items():
        known = SiteDescription(query=queries[name], release=releases[name]) if name in queries else None
        taken[name] = residual_sd(spec, known, (number, 0.0), awaited=False)
    assert taken["b"].value > 2.0 * taken["a"].value
    assert taken["few"].value == 25.0
    errors = {each.site: each.estimate.sampling.diagonal() ** 0.5 for each in result.site_facts}
    assert errors["b"] / errors["a"] == pytest.approx(np.sqrt(2.0) * taken["b"].value / taken["a"].value, rel=0.2)
    assert "standard deviation within the outcome's declared range, 25." in result.estimate.note


def test_variances_of_shares_and_of_noise_below_0():
    def moment(what, value, noise_sd, **rest):
        return CohortMoment(variable="y", what=what, value=value, noise_sd=noise_sd, **rest)

    def of(*moments):
        return variance_of(CohortMoments(people=9.0, people_sd=0.0, moments=moments, release_sha256="0" * 64))

    assert of(moment(MomentKind.SHARE, 0.2, 0.1, level=1)) == pytest.approx((0.16, 0.06))
    assert of(moment(MomentKind.SHARE, -0.2, 0.1, level=1)) == pytest.approx((0.0, 0.1))
    mean, square = moment(MomentKind.MEAN, 7.0, 0.1), moment(MomentKind.SQUARE, 5.0, 0.3, centre=5.0)
    assert of(mean, square) == pytest.approx((1.0, 0.5))
    assert of(mean) is None


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ 0 + x", {}),
        ("y ~ x", {"public": with_outcomes(300, 9)}),
        ("y ~ x", {"unit": "id", "max_rows_per_unit": 2, "n_max": 250}),
    ],
)
def test_nothing_is_asked_of_outcomes_where_residuals_may_vary_more_or_public_rows_tell(formula, options):
    model = linear(with_outcomes(500).assign(id=lambda d: d.index // 2), formula, **options)
    assert outcome_description(model._spec) is None
