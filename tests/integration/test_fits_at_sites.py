"""Fits by one query at several sites: who is charged what, what is asked, how answers are combined, who is absent."""

from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.records.several import SitesQuery, SitesRelease
from tests.support import FORMULA, SCHEMA, people

pytestmark = pytest.mark.usefixtures("few_draws")

PUBLIC = people(300, seed=99)
SIZES = {"A": 3000, "B": 1500, "C": 300}
BUDGET = hdp.Budget(epsilon=20, delta=1e-4)


def study_of(public=PUBLIC, sizes=SIZES, budget=BUDGET, **options):
    frames = {name: people(rows, seed) for seed, (name, rows) in enumerate(sizes.items(), start=1)}
    return hdp.Study(private=frames, public=public, schema=SCHEMA, budget=budget, **options)


def logit(study):
    return hdpf.logit(FORMULA, data=study)


class Down(hdp.Site):
    """A site that stopped working; what it is stays known."""

    def __init__(self, site):
        self.site, self.down = site, True

    schema = property(lambda self: self.site.schema)
    records = property(lambda self: self.site.records)
    terms = property(lambda self: self.site.terms)

    def put_public(self, table):
        self.site.put_public(table)

    def answer(self, query):
        if self.down:
            raise hdp.SiteError("it cannot be reached")
        return self.site.answer(query)


def with_one_down(**options):
    whole = study_of(**options)
    down = Down(whole.sites["B"])
    return hdp.Study(private=dict(whole.sites) | {"B": down}, public=PUBLIC), down


@pytest.fixture(scope="module")
def fitted():
    study = study_of()
    return study, logit(study).fit(epsilon=1, mechanism="objective")


def test_every_site_charges_epsilon_once_and_that_is_the_guarantee(fitted):
    study, result = fitted
    assert {name: ledger.spent.epsilon for name, ledger in study.ledgers.items()} == dict.fromkeys("ABC", 1)
    assert (result.guarantee.epsilon, result.guarantee.delta, result.guarantee.sites) == (1, 0, 3)
    assert "at one of 3 sites only" in str(result)
    assert result.glance()["sites"].tolist() == [3]
    assert "each person is at one only" in result.guarantee.statement()


def test_a_person_is_charged_the_epsilon_of_his_own_site():
    study = study_of()
    result = logit(study).fit(epsilon={"A": 0.5, "B": 1, "C": 2}, mechanism="objective")
    spent = {name: ledger.spent.epsilon for name, ledger in study.ledgers.items()}
    assert spent == {"A": Fraction(1, 2), "B": 1, "C": 2}
    assert result.guarantee.epsilon == 2
    assert result.sites["epsilon"].tolist() == [0.5, 1.0, 2.0]
    for wrong in ({"A": 1}, {"A": 1, "B": 1, "C": 1, "D": 1}):
        with pytest.raises(hdp.ArgumentError, match="epsilon must be a number, or a number for each"):
            logit(study).fit(epsilon=wrong, mechanism="objective")


def test_the_same_fit_again_is_free_at_every_site(fitted):
    study, result = fitted
    again = logit(study).fit(epsilon=1, mechanism="objective")
    assert again.params.equals(result.params)
    assert again.conf_int().equals(result.conf_int())
    assert all(ledger.spent.epsilon == 1 for ledger in study.ledgers.values())


def test_each_site_is_asked_for_its_own_size_and_draws_its_own_noise(fitted):
    _, result = fitted
    assert isinstance(result.query, SitesQuery)
    queries = dict(result.query.sites)
    assert all(isinstance(query, ObjectiveQuery) for query in queries.values())
    assert len({query.ridge for query in queries.values()}) > 1
    assert len({query.model for query in queries.values()}) == 1  # other weights would mean other coefficients
    assert isinstance(result.release, SitesRelease)
    equal = study_of(sizes=dict.fromkeys("AB", 500))
    frame = people(500, 1)
    private = {name: frame.copy() for name in "AB"}
    twins = hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, budget=equal.ledgers["A"].budget)
    one, other = (release.theta for _, release in logit(twins).fit(epsilon=1, mechanism="objective").release.sites)
    assert one != other


def test_questions_and_weights_depend_on_public_facts_alone():
    """Neighbouring tables at one site, and quite other ones: the same questions, whatever the rows are."""
    asked = []
    for frame in (people(300, 3), people(300, 4), people(300, 3).assign(y=np.nan, x=1e300)):
        study = study_of()
        private = {name: site for name, site in study.sites.items() if name != "C"} | {"C": frame}
        mixed = hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, budget=BUDGET)
        asked.append(logit(mixed).fit(epsilon=1, mechanism="objective").query.to_json())
    assert len(set(asked)) == 1


def test_a_site_counts_by_what_it_tells(fitted):
    _, result = fitted
    weight = result.sites.set_index("site")["weight"]
    assert weight.sum() == pytest.approx(1.0)
    assert weight["A"] > weight["B"] > weight["C"] > 0
    own = {site.site: site.estimate for site in result.site_facts}
    assert result.private_only.bse["x"] < min(estimate.bse["x"] for estimate in own.values())
    frugal = logit(study_of()).fit(epsilon={"A": 0.01, "B": 1, "C": 1}, mechanism="objective")
    assert frugal.sites["weight"].iloc[0] < 0.05


@pytest.mark.wide
@pytest.mark.usefixtures("no_noise")
def test_more_sites_tell_more_and_the_truth_is_within_reach():
    alone, together = (
        logit(study_of(sizes=dict.fromkeys(names, 2000))).fit(epsilon=2, mechanism="objective")
        for names in (["A"], list("ABCDEFGH"))
    )
    ratio = together.private_only.bse["x"] / alone.private_only.bse["x"]
    assert 0.25 < ratio < 0.5  # 1 / sqrt(8) = 0.35
    assert abs(together.params["x"] - 1.0) < 6 * together.bse["x"]


@pytest.mark.parametrize("mechanism", ["objective", "output", pytest.param("exponential", marks=pytest.mark.wide)])
def test_every_mechanism_of_one_question_is_for_several_sites(mechanism):
    study = study_of(sizes={"A": 900, "B": 700})
    result = hdpf.logit("y ~ x", data=study).fit(epsilon=2, delta=1e-6, mechanism=mechanism)
    assert result.guarantee.epsilon <= 2
    assert "at 2 sites, combined by inverse variance" in result.facts.method
    assert np.isfinite(result.bse).all()


def test_without_public_rows_each_site_may_sell_its_curvature():
    study = study_of(public=None, sizes={"A": 20_000, "B": 10_000})
    with_share = hdpf.logit("y ~ x", data=study).fit(epsilon=4, se_share=0.2)
    assert np.isfinite(with_share.bse).all()
    silent = hdpf.logit("y ~ x", data=study).fit(epsilon=4, mechanism="objective", se_share=0)
    assert np.isnan(silent.bse).all()
    assert np.isfinite(silent.params).all()
    assert silent.heterogeneity is None
    assert silent.sites["weight"].sum() == pytest.approx(1.0)


@pytest.mark.entropy
def test_numbers_that_are_protected_are_asked_for_at_every_site():
    study = study_of(relation="add_or_remove_one", n_max={"A": 9000, "B": 9000, "C": 9000})
    result = logit(study).fit(epsilon=2, mechanism="objective")
    assert {ledger.spent.epsilon for ledger in study.ledgers.values()} == {2}
    counts = [release.count for _, release in result.count.sites]
    assert result.sites["records"].tolist() == counts
    assert result.facts.records == sum(counts)
    assert abs(sum(counts) - 4800) < 3 * 16 * 35  # three Laplace variables, each beyond 16 with exp(-16 sqrt(2)): 5e-10
    assert "(noisy)" in str(result)


def test_a_site_that_is_down_is_named_and_the_rest_is_valid():
    study, down = with_one_down()
    result = logit(study).fit(epsilon=1, mechanism="objective")
    assert result.sites["status"].tolist() == [
        "answered",
        "did not answer round 1: it cannot be reached",
        "answered",
    ]
    assert result.sites["weight"].tolist()[1] == 0
    assert result.facts.records == 3300
    assert result.guarantee.sites == 2
    for text in (str(result), result._repr_html_()):
        assert "did not answer" in text
    assert "B did not. The estimate is valid without." in " ".join(str(result).split())
    part = logit(study.at("A", "C")).fit(epsilon=1, mechanism="objective")
    assert part.params.equals(result.params)
    down.down = False
    whole = logit(study).fit(epsilon=1, mechanism="objective")
    assert whole.facts.records == 4800
    assert (whole.sites["status"] == "answered").all()
    assert all(ledger.spent.epsilon == 1 for ledger in study.ledgers.values())


def test_a_site_rejoins_for_its_own_epsilon_whatever_the_noisy_numbers_were():
    """Fails where weights follow from released numbers of those who answered: then all sites are asked anew."""
    models = []
    for rows in (300, 20_000):
        sizes, protected = {"A": rows, "B": rows, "C": rows}, dict.fromkeys("ABC", 20_000)
        study, down = with_one_down(sizes=sizes, relation="add_or_remove_one", n_max=protected)
        for down.down, charged in ((True, {"A": 1, "B": 0, "C": 1}), (False, dict.fromkeys("ABC", 1))):
            result = logit(study).fit(epsilon=1, mechanism="objective", describe=False)
            models += [query.model for _, query in result.query.sites]
            spent = {name: ledger.spent.epsilon for name, ledger in study.ledgers.items() if name != "B"}
            spent["B"] = down.site.ledger.spent.epsilon
            assert spent == charged
    assert len(models) == 10
    assert len(set(models)) == 1


def test_one_site_behind_two_addresses_is_not_counted_as_two():
    whole = study_of()
    twin = Down(whole.sites["A"])
    twin.down = False
    study = hdp.Study(private=dict(whole.sites) | {"B": twin}, public=PUBLIC)
    with pytest.raises(hdp.SiteError, match="'A' and 'B' charge the same account of the same ledger"):
        logit(study).fit(epsilon=1, mechanism="objective")
    assert logit(study.at("A", "C")).fit(epsilon=1, mechanism="objective").facts.records == 3300
    assert {name: ledger.spent.epsilon for name, ledger in whole.ledgers.items()} == {"A": 1, "B": 0, "C": 1}


def test_a_result_survives_json_and_tells_an_output_checker_all(fitted):
    _, result = fitted
    again = hdp.Result.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert again.sites.equals(result.sites)
    assert again.heterogeneity == result.heterogeneity
    assert str(again) == str(result)
    record = result.disclosure()
    assert [each["site"] for each in record["sites"]] == ["A", "B", "C"]
    assert record["ledger"]["B"]["dataset"] == "B"
    assert record["accounting"]["composition"].startswith("every person is at one site")


@pytest.mark.entropy
def test_agreement_of_sites_is_tested():
    frames = {name: people(4000, seed) for seed, name in enumerate("ABC", start=1)}
    frames["C"] = frames["C"].assign(y=1 - frames["C"]["y"])
    study = hdp.Study(private=frames, public=PUBLIC, schema=SCHEMA, budget=BUDGET)
    assert logit(study).fit(epsilon=2, mechanism="objective").heterogeneity.overall.pvalue < 0.01
    # The rows of A and B are fixed and agree (about 2 with 5 degrees of freedom; C: 2200). That noise adds 100
    # needs a coordinate ten of its standard errors away, noise being a small part of each: far below 1e-9.
    agreeing = logit(study.at("A", "B")).fit(epsilon=2, mechanism="objective").heterogeneity.overall
    assert agreeing.statistic < 100
    assert agreeing.df == 5


def test_a_forest_plot_has_a_row_per_site(fitted):
    from matplotlib import pyplot

    _, result = fitted
    axes = result.plot_sites("x", exponentiate=True)
    labels = [label.get_text().strip() for label in axes.get_yticklabels()]
    assert labels == ["pooled", "private only", "public only", "A", "B", "C"]
    with pytest.raises(hdp.ArgumentError, match="term must be one of"):
        result.plot_sites("nobody")
    with pytest.raises(hdp.ArgumentError, match="several sites"):
        logit(study_of(sizes={"A": 200})).fit(epsilon=1, mechanism="objective").plot_sites("x")
    pyplot.close("all")


@pytest.mark.parametrize(
    "use",
    [
        lambda study: hdp.hybrid_weights(study, ["x", "y"], epsilon=1),
        lambda study: hdp.importance_weights(study, "y ~ x", epsilon=1),
        lambda study: logit(study).fit(epsilon=1, mechanism="histogram"),
        lambda study: logit(study).evaluate(logit(study).fit_public(), epsilon=1),
    ],
    ids=["hybrid weights", "importance weights", "histogram", "evaluate"],
)
def test_what_is_for_one_site_says_so_before_anything_is_charged(use):
    study = study_of(sizes={"A": 60, "B": 50})
    with pytest.raises(hdp.MechanismError, match="at one site"):
        use(study)
    assert all(ledger.spent.epsilon == 0 for ledger in study.ledgers.values())
