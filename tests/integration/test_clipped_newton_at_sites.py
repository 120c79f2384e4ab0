"""Fits by rounds at several sites: who is charged and asked what, and what becomes of sites that stop answering."""

from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.papers.trials import eight_interval_trial
from hdpstats.privacy.gaussian import mu_of
from hdpstats.records.several import RoundsQuery, RoundsRelease, SitesQuery, SitesRelease
from tests import chance
from tests.support import FORMULA, SCHEMA, people

pytestmark = pytest.mark.usefixtures("few_draws")

mpl.use("agg")

PUBLIC = people(300, seed=99)
SIZES = {"A": 3000, "B": 1500, "C": 300}
BUDGET = hdp.Budget(epsilon=20, delta=1e-4)
DELTA = Fraction(1, 10**6)
ROUNDS = {"mechanism": "clipped_newton", "delta": 1e-6, "describe": False}


def study_of(sizes=SIZES, **options):
    frames = {name: people(rows, seed) for seed, (name, rows) in enumerate(sizes.items(), start=1)}
    return hdp.Study(private=frames, public=PUBLIC, schema=SCHEMA, budget=BUDGET, **options)


def logit(study):
    return hdpf.logit(FORMULA, data=study)


def allowed(result):
    """Return the variances of what clipping may do, which all sites share."""
    return np.array(result.facts.row_weights.allowance) ** 2


class Failing(hdp.Site):
    """A site that answers so many queries and no more; what it is stays known."""

    def __init__(self, site, *, answers):
        self.site, self.left = site, answers

    schema = property(lambda self: self.site.schema)
    records = property(lambda self: self.site.records)
    terms = property(lambda self: self.site.terms)

    def put_public(self, table):
        self.site.put_public(table)

    def answer(self, query):
        if not self.left:
            raise hdp.SiteError("it cannot be reached")
        self.left -= 1
        return self.site.answer(query)


def failing_after(answers):
    """Return a study whose site B answers so many queries."""
    whole = study_of()
    failing = Failing(whole.sites["B"], answers=answers)
    return hdp.Study(private=dict(whole.sites) | {"B": failing}, public=PUBLIC), failing


@pytest.fixture(scope="module")
def fitted():
    study = study_of()
    return study, logit(study).fit(epsilon=1, **ROUNDS)


def test_every_site_charges_its_rounds_once_and_a_person_is_charged_at_one_site(fitted):
    # Fails for k epsilon, for an epsilon divided among sites, and for a round that is charged at the wrong site.
    study, result = fitted
    whole = mu_of(Fraction(1), DELTA) ** 2
    for ledger in study.ledgers.values():
        charged = ledger.balance.charged
        assert (1 - Fraction(1, 10**9)) * whole < charged.mu_squared <= whole
        assert charged.epsilon == 0
        assert len(ledger.history()) == 3
    assert (result.guarantee.epsilon, result.guarantee.delta, result.guarantee.sites) == (1, DELTA, 3)
    assert "each person is at one only" in result.guarantee.statement()


def test_the_guarantee_is_that_of_the_site_that_spends_most():
    study = study_of()
    result = logit(study).fit(epsilon={"A": 0.5, "B": 1, "C": 2}, **ROUNDS)
    for name, epsilon in {"A": Fraction(1, 2), "B": Fraction(1), "C": Fraction(2)}.items():
        whole = mu_of(epsilon, DELTA) ** 2
        assert (1 - Fraction(1, 10**9)) * whole < study.ledgers[name].balance.charged.mu_squared <= whole
    assert (result.guarantee.epsilon, result.guarantee.delta) == (2, DELTA)


@pytest.mark.entropy
def test_rounds_are_asked_at_one_place_and_noise_is_each_site_s_own(fitted):
    _, result = fitted
    assert isinstance(result.query, SitesQuery)
    assert isinstance(result.release, SitesRelease)
    for round_ in range(3):
        asked = [query.rounds[round_] for _, query in result.query.sites]
        assert len({(query.theta, query.clip) for query in asked}) == 1
    assert len({query.rounds[k].theta for _, query in result.query.sites for k in range(3)}) == 3
    # The same rows at two sites: what differs is noise, of sqrt(2) standard deviations.
    frame = people(500, 1)
    twins = hdp.Study(
        private={name: frame.copy() for name in "AB"}, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(20, 1e-4)
    )
    one, other = (release for _, release in logit(twins).fit(epsilon=1, **ROUNDS).release.sites)
    apart = np.array(
        [
            (np.array(a.total) - np.array(b.total)) / (2.0**0.5 * a.noise_sd)
            for a, b in zip(one.rounds, other.rounds, strict=True)
        ]
    )
    # Exact chi-square tails, 15 degrees of freedom: 1e-9. The same noise at both sites would give 0, each time.
    assert chance.square_sum_fits(apart, 1.0)
    assert not chance.square_sum_fits(np.zeros(15), 1.0)


@pytest.mark.wide
def test_weights_follow_people_and_spending(fitted):
    _, result = fitted
    weight = result.sites.set_index("site")["weight"]
    assert weight.sum() == pytest.approx(1.0)
    assert weight["A"] > weight["B"] > weight["C"] > 0
    frugal = logit(study_of()).fit(epsilon={"A": 0.05, "B": 1, "C": 1}, **ROUNDS)
    assert frugal.sites["weight"].iloc[0] < 0.2
    assert result.sites["rounds"].tolist() == [3, 3, 3]


@pytest.mark.usefixtures("no_noise")
def test_several_sites_are_worth_less_than_one_of_all_people_and_more_than_each():
    # The square root of k forgotten in the noise would make the four sites as good as the one.
    sizes, rounds = (
        dict.fromkeys("ABCD", 1500),
        ROUNDS | {"mechanism": hdp.mechanisms.ClippedNewton(clip_quantile=0.95)},
    )
    apart = logit(study_of(sizes)).fit(epsilon=0.3, **rounds)
    whole = logit(study_of({"A": 6000})).fit(epsilon=0.3, **rounds)
    noise = np.divide(*(np.diag(each.private_only.privacy) - allowed(each) for each in (apart, whole)))
    assert np.median(noise) == pytest.approx(4.0, rel=0.05)
    own = [site.estimate for site in apart.site_facts]
    assert apart.private_only.bse["x"] < 0.7 * min(estimate.bse["x"] for estimate in own)


def test_the_same_fit_again_is_free_at_every_site(fitted):
    study, result = fitted
    spent = {name: ledger.balance.charged for name, ledger in study.ledgers.items()}
    again = logit(study).fit(epsilon=1, **ROUNDS)
    assert again.params.equals(result.params)
    assert {name: ledger.balance.charged for name, ledger in study.ledgers.items()} == spent


def test_a_site_that_stops_keeps_what_it_told_and_is_not_asked_again(fitted):
    full = fitted[1].sites.set_index("site")["weight"]
    study, failing = failing_after(1)
    result = logit(study).fit(epsilon=1, **ROUNDS)
    table = result.sites.set_index("site")
    assert table["rounds"].to_dict() == {"A": 3, "B": 1, "C": 3}
    assert table["status"]["B"] == "did not answer round 2: it cannot be reached"
    assert 0 < table["weight"]["B"] < 0.5 * full["B"]  # it spent a tenth of what it would have
    queries, releases = dict(result.query.sites), dict(result.release.sites)
    assert [len(queries[name].rounds) for name in "ABC"] == [3, 1, 3]
    assert len(releases["B"].events) == 1
    charged = failing.site.ledger.balance.charged.mu_squared
    assert charged == releases["B"].events[0].mu_squared
    assert np.all(np.isfinite(result.bse))
    # Once it is back the same call asks for the rest, and for what was answered again, which is free.
    failing.left = 10
    whole = logit(study).fit(epsilon=1, **ROUNDS)
    assert whole.sites["rounds"].tolist() == [3, 3, 3]
    assert whole.query.sites[1][1].rounds[0] == queries["B"].rounds[0]


def test_a_site_that_never_answers_has_no_part():
    study, _ = failing_after(0)
    result = logit(study).fit(epsilon=1, **ROUNDS)
    table = result.sites.set_index("site")
    assert table["rounds"].to_dict() == {"A": 3, "B": 0, "C": 3}
    assert table["weight"]["B"] == 0.0
    assert [name for name, _ in result.query.sites] == ["A", "C"]
    assert result.facts.records == 3300


def test_one_site_has_plain_rounds_as_its_record():
    study = study_of({"A": 2000})
    result = logit(study).fit(epsilon=1, **ROUNDS)
    assert isinstance(result.query, RoundsQuery)
    assert isinstance(result.release, RoundsRelease)
    assert result.release.entry == result.release.rounds[-1].entry
    assert result.heterogeneity is None


@pytest.mark.usefixtures("no_noise")
def test_protected_numbers_are_asked_for_at_every_site():
    study = study_of(relation="add_or_remove_one", n_max=5000)
    result = logit(study).fit(epsilon=1, **ROUNDS)
    assert (result.guarantee.epsilon, result.guarantee.delta) == (1, DELTA)
    for _, query in result.query.sites:
        assert query.epsilon == Fraction(49, 50)
    assert result.sites.set_index("site")["records"].to_dict() == SIZES
    truth = [0.0, 1.0, 0.0, 0.0, 0.0]
    assert np.mean(((result.params.to_numpy() - truth) / result.bse.to_numpy()) ** 2) < 2.0


def test_a_result_survives_json_and_is_drawn(fitted):
    _, result = fitted
    back = hdp.Result.from_json(result.to_json())
    assert (back.query, back.release) == (result.query, result.release)
    assert back.sites.equals(result.sites)
    assert str(back.summary()) == str(result.summary())
    words = " ".join(str(result.summary()).split())
    assert "noisy Newton in 3 rounds at 3 sites, weighted by people and noise" in words
    assert result.heterogeneity.overall.df == 10
    result.plot_sites("x")


@pytest.mark.usefixtures("no_noise")
def test_estimates_of_sites_that_differ_are_called_different():
    frames = {name: people(6000, seed) for seed, name in enumerate("AB", start=1)}
    frames["B"]["y"] = 1.0 - frames["B"]["y"]
    study = hdp.Study(private=frames, public=PUBLIC, schema=SCHEMA, budget=BUDGET)
    assert logit(study).fit(epsilon=2, **ROUNDS).heterogeneity.overall.pvalue < 0.01


@pytest.mark.wide
@pytest.mark.usefixtures("no_noise")
def test_hazards_are_fitted_at_several_sites():
    trial = eight_interval_trial(6200, seed=5)
    public, private = trial.frame.iloc[:200], trial.frame.iloc[200:]
    study = hdp.Study(
        private={"A": private.iloc[:4000], "B": private.iloc[4000:]},
        public=public,
        schema=trial.schema,
        budget=hdp.Budget(epsilon=20, delta=1e-4),
    )
    model = hdpf.hazard(trial.formula, study, intervals=8, baseline="dummies")
    truth = np.concatenate([trial.alpha, trial.beta])
    for options in ({"delta": 1e-6}, {"mechanism": hdp.mechanisms.ClippedNewton(rounds=1)}):
        result = model.fit(2.0, **options)
        assert isinstance(result.query.sites[0][1], RoundsQuery)
        assert result.guarantee.epsilon == 2
        assert np.mean(((result.params.to_numpy() - truth) / result.bse.to_numpy()) ** 2) < 3.0
