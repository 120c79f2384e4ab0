"""Fits by Newton steps with a public Hessian through the public API: costs, guarantees, refusals, several sites."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.public_hessian import PublicHessianQuery
from hdpstats.records.several import RoundsQuery, RoundsRelease, SitesQuery
from hdpstats.sites import Site
from tests import chance

SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    g=hdp.Categorical(["a", "b"], complete=True),
    n=hdp.Continuous(0, 10, complete=True),
    w=hdp.Weight(max=2, complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)

pytestmark = pytest.mark.usefixtures("few_draws")
FORMULA = "y ~ x + g"
NEWTON = hdp.mechanisms.PublicHessian


def people(rows, seed):
    rng = np.random.default_rng(seed)
    x, g = np.clip(rng.normal(size=rows), -3, 3), rng.choice(["a", "b"], rows)
    y = (rng.random(rows) < 1 / (1 + np.exp(0.3 - 0.8 * x - 0.5 * (g == "b")))).astype(float)
    extra = {"n": rng.uniform(0, 10, rows), "w": rng.uniform(0, 2, rows), "o": rng.uniform(-1, 1, rows)}
    return pd.DataFrame({"y": y, "x": x, "g": g} | extra)


PUBLIC = people(120, 1)


def site(rows, seed, *, epsilon=10.0, delta=1e-5, relation="replace_one", **options):
    ledger = hdp.Ledger(None, dataset=f"s{seed}", epsilon=epsilon, delta=delta, relation=relation)
    return hdp.LocalSite(people(rows, seed), schema=SCHEMA, ledger=ledger, **options)


def model_of(private, *, public=PUBLIC, formula=FORMULA, **options):
    return hdpf.logit(formula, data=hdp.Study(private=private, public=public, schema=SCHEMA), **options)


@pytest.mark.usefixtures("no_noise")
def test_a_fit_at_one_site_costs_epsilon_and_is_near_the_truth():
    one = site(6000, 2)
    model = model_of(one)
    result = model.fit(3.0, mechanism=NEWTON(rounds=2))
    assert (one.ledger.spent.epsilon, one.ledger.spent.delta) == (3, 0)
    assert (result.guarantee.epsilon, result.guarantee.delta) == (3, 0)
    assert isinstance(result.query, RoundsQuery)
    assert isinstance(result.release, RoundsRelease)
    assert [query.cost for query in result.query.rounds] == [Fraction(3, 2)] * 2
    assert np.all(np.abs(result.params - [-0.3, 0.8, 0.5]) < 5 * result.bse)
    assert np.all(result.bse < 0.2)
    assert np.all(result.bse < result.public_only.bse)
    again = model.fit(3.0, mechanism=NEWTON(rounds=2))
    assert again.params.equals(result.params)
    assert one.ledger.spent.epsilon == 3  # the same question is answered once


def test_with_a_delta_the_rounds_keep_it_together():
    one = site(4000, 3)
    result = model_of(one).fit(1.0, delta=1e-6, mechanism=NEWTON(rounds=3, start="zero"))
    assert (result.guarantee.epsilon, result.guarantee.delta) == (1, Fraction(1, 10**6))
    assert result.query.rounds[0].theta == (0.0,) * 3
    assert all(release.is_gaussian for release in result.release.rounds)


@pytest.mark.entropy
def test_three_sites_charge_epsilon_each_and_nobody_more():
    sites = {name: site(2000, seed) for name, seed in zip("ABC", (4, 5, 6), strict=True)}
    result = model_of(sites).fit(1.0, mechanism=NEWTON(rounds=2))
    assert all(each.ledger.spent.epsilon == 1 for each in sites.values())
    assert result.guarantee.epsilon == 1
    assert isinstance(result.query, SitesQuery)
    assert result.sites["rounds"].tolist() == [2, 2, 2]
    assert result.sites["weight"].tolist() == pytest.approx([1 / 3] * 3)
    assert result.facts.records == 6000
    # Fixed rows, and noise within its reach (1e-9).
    assert chance.errors_fit(result.params - [-0.3, 0.8, 0.5], result.cov_sampling, result.cov_privacy)
    back = hdp.Result.from_json(result.to_json())
    assert back.params.equals(result.params)
    assert back.query == result.query
    assert "3 sites" in str(result.summary())


def test_sites_with_the_same_people_draw_noise_of_their_own():
    result = model_of({"A": site(500, 4), "B": site(500, 4), "C": site(500, 4)}).fit(1.0, mechanism=NEWTON(rounds=1))
    totals = [release.rounds[0].total for _, release in result.release.sites]
    assert len(set(totals)) == 3


def test_sites_may_spend_differently():
    sites = {"A": site(2000, 4), "B": site(2000, 5)}
    result = model_of(sites).fit({"A": 2.0, "B": 0.5}, mechanism=NEWTON(rounds=1))
    assert [float(each.ledger.spent.epsilon) for each in sites.values()] == [2.0, 0.5]
    assert result.guarantee.epsilon == 2
    sds = [release.rounds[0].noise_sd for _, release in result.release.sites]
    assert sds[1] == pytest.approx(4 * sds[0], rel=1e-6)


class Silent(Site):
    """A site that answers so many rounds and then fails."""

    def __init__(self, inner, answers):
        self.inner, self.left = inner, answers

    schema = property(lambda self: self.inner.schema)
    records = property(lambda self: self.inner.records)
    terms = property(lambda self: self.inner.terms)

    def put_public(self, table):
        self.inner.put_public(table)

    def received(self, query):
        return self.inner.received(query)

    def answer(self, query):
        self.left -= 1
        if self.left < 0:
            raise hdp.SiteError("the line is dead")
        return self.inner.answer(query)


def test_a_site_that_stops_answering_is_left_out_of_later_rounds():
    sites = {"A": site(2000, 4), "B": Silent(site(2000, 5), 1), "C": site(2000, 6)}
    result = model_of(sites).fit(2.0, mechanism=NEWTON(rounds=3))
    assert result.sites["rounds"].tolist() == [3, 1, 3]
    assert "line is dead" in result.sites["status"][1]
    assert np.all(np.isfinite(result.bse))


@pytest.mark.parametrize("mechanism", [NEWTON(rounds=1), "objective", hdp.mechanisms.ClippedNewton(rounds=1)])
def test_people_whose_number_was_released_are_guaranteed_what_was_charged(mechanism):
    """A site that sells its number and then falls silent has charged its people, for much if its epsilon is large."""
    hidden = {"relation": "add_or_remove_one", "n_max": 5000, "epsilon": 100.0}
    silent = site(2000, 5, **hidden)
    sites = {"A": site(2000, 4, **hidden), "B": Silent(silent, 1), "C": site(2000, 6, **hidden)}
    result = model_of(sites).fit({"A": 0.5, "B": 50.0, "C": 0.5}, mechanism=mechanism)
    assert silent.ledger.spent.epsilon == 1
    assert (result.guarantee.epsilon, result.guarantee.sites) == (1, 3)
    assert result.sites["rounds"].tolist() == [1, 0, 1]
    assert result.sites["entry"].tolist()[1] == 2
    assert abs(result.sites["records"][1] - 2000) < 60


def test_a_fit_whose_later_rounds_exceed_the_budget_is_refused_before_the_first():
    one = site(1000, 7, epsilon=1.5)
    with pytest.raises(hdp.BudgetError):
        model_of(one).fit(2.0, mechanism=NEWTON(rounds=4))
    assert one.ledger.spent.epsilon == 0


def test_a_protected_number_of_people_is_released_first_and_used():
    one = site(3000, 8, relation="add_or_remove_one", n_max=5000)
    result = model_of(one).fit(1.0, mechanism=NEWTON(rounds=1))
    assert result.guarantee.epsilon == 1
    assert result.facts.records == result.count.count
    assert np.all(np.isfinite(result.bse))


def test_by_default_the_ridge_grows_with_the_noise_and_shrinks():
    model = model_of(site(2000, 12, epsilon=40.0))
    default, weak = (model.fit(0.05, mechanism=NEWTON(rounds=1, ridge=ridge)) for ridge in (None, 1e-3))
    assert np.all(default.cov_privacy.to_numpy().diagonal() < 0.8 * weak.cov_privacy.to_numpy().diagonal())


@pytest.mark.parametrize(
    ("formula", "options", "public", "reason"),
    [
        (FORMULA, {"weights": "w"}, PUBLIC, "without weights"),
        (FORMULA, {"offset": "o"}, PUBLIC, "without weights"),
        (FORMULA, {}, PUBLIC.drop(columns="y"), "with the outcome"),
        (FORMULA, {}, PUBLIC.iloc[:30], "40 complete"),
        (FORMULA, {}, None, "40 complete"),
    ],
)
def test_what_no_proof_covers_is_refused_before_anything_is_charged(formula, options, public, reason):
    one = site(500, 9)
    model = model_of(one, public=public, formula=formula, **options)
    with pytest.raises(hdp.MechanismError, match=reason):
        model.fit(1.0, mechanism=NEWTON())
    assert one.ledger.spent.epsilon == 0


def test_other_models_are_refused():
    one = site(500, 10)
    study = hdp.Study(private=one, public=PUBLIC, schema=SCHEMA)
    with pytest.raises(hdp.MechanismError, match="logistic"):
        hdpf.linear("n ~ x", data=study).fit(1.0, mechanism="public_hessian")
    assert one.ledger.spent.epsilon == 0


def test_options_are_checked_and_the_mechanism_has_a_name():
    for wrong in ({"rounds": 0}, {"rounds": 11}, {"ridge": 0.0}, {"truncation": 0.0}, {"start": "guess"}):
        with pytest.raises(hdp.ArgumentError):
            NEWTON(**wrong)
    result = model_of(site(500, 11)).fit(1.0, mechanism="public_hessian")
    assert isinstance(result.query.rounds[0], PublicHessianQuery)
    assert len(result.query.rounds) == 2
