"""Families at several sites: weights by public facts, one inversion, noise that averages out, epsilon once."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.statistics import out_of_units
from hdpstats.mechanisms.subsample.site import optimal_blocks
from hdpstats.noise import BoxNoise
from tests import known_noise

pytestmark = pytest.mark.usefixtures("few_draws")

SCHEMA = hdp.Schema(
    stay=hdp.Continuous(0, 20, complete=True),
    visits=hdp.Continuous(0, 25, complete=True),
    sbp=hdp.Continuous(60, 220, complete=True),
)
RATES = {"rate": (0.05, 2)}


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"stay": rng.exponential(2, n), "visits": rng.poisson(3, n), "sbp": rng.normal(130, 15, n)}
    return pd.DataFrame(columns)


def study_of(sizes, **options):
    private = {f"site {place}": people(n, seed=place) for place, n in enumerate(sizes)}
    declared = {"row_order": "arbitrary"} | options
    return hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=100), **declared)


def blocks(**options):
    return hdp.mechanisms.SubsampleAggregate(**options)


def visits(study):
    return hdpf.distribution("visits ~ 1", data=study, family="poisson")


def released(result, box):
    return np.array([out_of_units(each.units, box, count=each.records) for _, each in result.release.sites])


@pytest.mark.parametrize("sites", [2, 5])
def test_equal_sites_are_the_unweighted_mean_of_the_paper(sites):
    study = study_of([400] * sites)
    result = visits(study).fit(0.5)
    means = released(result, [(0.0, 25.0)])
    assert result.params["mean"] == pytest.approx(means.mean(), rel=1e-9)
    assert result.sites["weight"].tolist() == pytest.approx([1 / sites] * sites)
    aggregated = visits(study).fit(0.5, mechanism=blocks(blocks=16))
    each = [out_of_units(release.units, [(0.0, 25.0)], count=16)[0] for _, release in aggregated.release.sites]
    assert aggregated.params["mean"] == pytest.approx(np.clip(np.mean(each), 0, 25), rel=1e-9)


@pytest.mark.parametrize("sites", [2, 5])
def test_noise_of_sites_averages_out_and_sampling_is_that_of_all_people(sites):
    """Would fail where the square root of the number of sites is forgotten, or epsilon is divided among sites."""
    result = visits(study_of([400] * sites)).fit(0.5)
    assert result.cov_privacy.iloc[0, 0] == pytest.approx(2 * (25 / (400 * 0.5)) ** 2 / sites)
    assert result.cov_sampling.iloc[0, 0] == pytest.approx(result.params["mean"] / (400 * sites))
    half = (result.conf_int()[1] - result.params).iloc[0]
    rng = np.random.default_rng(0)
    distribution = rng.laplace(0, 25 / 200, (200_000, sites)).mean(axis=1)
    distribution += rng.normal(0, np.sqrt(result.cov_sampling.iloc[0, 0]), 200_000)
    assert half == pytest.approx(np.quantile(np.abs(distribution), 0.95), rel=0.03)


@pytest.mark.parametrize("mechanism", ["statistics", blocks()])
def test_every_ledger_is_charged_its_own_epsilon_once(mechanism):
    study = study_of([300, 500, 700])
    asked = {"site 0": 0.5, "site 1": 1.0, "site 2": 2.0}
    result = visits(study).fit(asked, mechanism=mechanism)
    assert {name: float(ledger.spent.epsilon) for name, ledger in study.ledgers.items()} == asked
    assert result.guarantee.epsilon == 2
    assert (result.guarantee.delta, result.guarantee.sites) == (0, 3)
    assert {name: query.epsilon for name, query in result.query.sites} == asked
    again = visits(study).fit(asked, mechanism=mechanism)
    assert (again.release, again.params.tolist()) == (result.release, result.params.tolist())
    assert {name: float(ledger.spent.epsilon) for name, ledger in study.ledgers.items()} == asked


def test_weights_are_one_over_the_variance_of_sampling_and_known_noise():
    """By hand, of a small, a frugal and a large site."""
    study, asked = study_of([200, 2000, 2000]), {"site 0": 1.0, "site 1": 0.02, "site 2": 1.0}
    result = visits(study).fit(asked)
    n, epsilon = np.array([200, 2000, 2000]), np.array(list(asked.values()))
    precision = 1 / (result.params["mean"] / n + 2 * (25 / (n * epsilon)) ** 2)
    assert result.sites["weight"].to_numpy() == pytest.approx(precision / precision.sum(), rel=1e-3)
    assert result.bse["mean"] == pytest.approx(np.sqrt(1 / precision.sum()), rel=1e-3)


def test_weights_follow_declared_numbers_of_people_whatever_the_rows():
    """Would fail for weights by the private number of rows, which replacing a person's name can change."""

    def named(n, seed):
        return people(n, seed=seed).assign(id=[f"p{place}" for place in range(n)])

    weights = []
    for rows in ((500, 500), (900, 20)):
        private = {"A": named(rows[0], 0), "B": named(rows[1], 1)}
        study = hdp.Study(
            private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=100), unit="id", max_rows_per_unit=1,
            n_max={"A": 500, "B": 500},
        )  # fmt: skip
        result = visits(study).fit(5.0, mechanism=hdp.mechanisms.SubsampleAggregate(blocks=5))
        assert result.facts.records == 1000
        weights.append(result.sites["weight"].tolist())
    assert weights == [pytest.approx([0.5, 0.5])] * 2


@pytest.mark.wide
def test_means_are_inverted_once_and_not_site_by_site(monkeypatch):
    """Noise is as large as the mean of a site: the mean of the sites' rates is something else.

    It is one standard deviation at every site, up and down in turn: no chance.
    """
    signs = itertools.cycle((1, -1))
    monkeypatch.setattr(
        BoxNoise, "draw", lambda distribution: (next(signs) * round(known_noise.variance(distribution)[0] ** 0.5),)
    )
    result = hdpf.distribution("stay ~ 1", data=study_of([50] * 40), family="exponential", ranges=RATES).fit(0.5)
    assert result.params["rate"] == pytest.approx(1 / released(result, [(0.0, 20.0)]).mean(), rel=1e-9)
    apart = np.mean([site.estimate.params["rate"] for site in result.site_facts])
    assert apart != pytest.approx(result.params["rate"], rel=1e-3)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("column", "family", "ranges"), [("sbp", "normal", {"sd": (5, 40)}), ("stay", "exponential", RATES)]
)
@pytest.mark.parametrize("mechanism", ["statistics", blocks()])
def test_fits_at_sites_of_different_sizes_are_within_their_errors(column, family, ranges, mechanism):
    truth = {"normal": [130.0, 15.0], "exponential": [0.5]}[family]
    study = study_of([300, 1000, 4000], public=people(100, seed=9))
    result = hdpf.distribution(f"{column} ~ 1", data=study, family=family, ranges=ranges).fit(2.0, mechanism=mechanism)
    assert (np.abs(result.params - truth) < 6 * result.bse).all()
    assert result.facts.records == 5300
    assert result.public_only is not None
    smallest = min(result.site_facts, key=lambda site: site.records)
    assert (result.bse < smallest.estimate.bse).all()
    assert 0 < result.heterogeneity.overall.pvalue <= 1


def test_a_site_alone_has_the_estimate_that_is_shown_for_it():
    study = study_of([300, 1000])
    model = hdpf.distribution("sbp ~ 1", data=study, family="normal", ranges={"sd": (5, 40)})
    shown = model.fit(1.0).site_facts[1].estimate
    alone = hdpf.distribution("sbp ~ 1", data=study.at("site 1"), family="normal", ranges={"sd": (5, 40)}).fit(1.0)
    assert alone.conf_int().equals(shown.conf_int())
    assert study.ledgers["site 1"].spent.epsilon == 1


def test_one_site_by_name_is_one_site():
    frame = people(400)
    one = hdp.Study(private={"only": frame}, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
    result = visits(one).fit(1.0)
    assert result.release.records == 400
    assert result.heterogeneity is None
    assert result.cov_sampling.iloc[0, 0] == pytest.approx(result.params["mean"] / 400)


def test_more_sites_take_fewer_blocks_as_their_bias_stays():
    alone = visits(study_of([4000])).fit(1.0, mechanism=blocks()).query
    several = visits(study_of([4000, 4000, 8000])).fit(1.0, mechanism=blocks()).query
    terms = {"epsilon": 1.0, "widths": np.array([25.0]), "spreads": np.sqrt([12.5])}
    assert alone.blocks == optimal_blocks(4000, **terms)
    assert [query.blocks for _, query in several.sites] == [
        optimal_blocks(n, **terms, parties=16_000 / n) for n in (4000, 4000, 8000)
    ]


def test_the_number_of_blocks_of_several_sites_has_the_least_predicted_error():
    n, M, width = 10**5, 20, 2.0
    best = optimal_blocks(n, epsilon=0.5, widths=np.array([width]), spreads=np.array([1.0]), parties=M)
    k = np.arange(1, n // 25)
    error = 2 * (width / (k * 0.5)) ** 2 / M + (k / n) ** 3
    assert abs(best - k[np.argmin(error)]) <= 1


def test_a_site_without_budget_is_named_and_the_others_are_fitted():
    private = {name: people(400, seed=place) for place, name in enumerate("ABC")}
    budgets = {"A": hdp.Budget(epsilon=1), "B": hdp.Budget(epsilon=0.1), "C": hdp.Budget(epsilon=1)}
    study = hdp.Study(private=private, schema=SCHEMA, budget=budgets)
    result = visits(study).fit(1.0)
    assert result.sites.set_index("site").loc["B", "status"].startswith("did not answer")
    assert result.facts.records == 800
    assert result.cov_privacy.iloc[0, 0] == pytest.approx(2 * (25 / 400) ** 2 / 2)
    assert study.ledgers["B"].spent.epsilon == 0


def test_what_cannot_be_is_refused_before_any_ledger_is_charged():
    study = study_of([300, 40])
    with pytest.raises(hdp.MechanismError, match="at most 40"):
        visits(study).fit(1.0, mechanism=blocks(blocks=100))
    mixed = study_of([300, 40], row_order={"site 0": "arbitrary", "site 1": "undeclared"})
    with pytest.raises(hdp.MechanismError, match="row_order='arbitrary'"):
        visits(mixed).fit(1.0, mechanism="subsample")
    assert {ledger.spent.epsilon for ledger in mixed.ledgers.values()} == {Fraction(0)}
    assert visits(mixed.at("site 0")).fit(1.0, mechanism="subsample").query.by == "rows"
    with pytest.raises(hdp.ArgumentError, match="row_order must have a value for each of 'site 0', 'site 1'"):
        study_of([300, 40], row_order={"site 0": "arbitrary"})
    with pytest.raises(hdp.ArgumentError, match="site 1"):
        visits(study).fit({"site 0": 1.0})
    assert {ledger.spent.epsilon for ledger in study.ledgers.values()} == {Fraction(0)}


def test_a_plan_counts_every_site_with_its_own_noise():
    study = study_of([200, 2000], public=people(2000, seed=5))
    row = visits(study).plan(0.5).frame.iloc[0]
    mean = people(2000, seed=5)["visits"].mean()
    precision = [1 / (mean / n + 2 * (25 / (n * 0.5)) ** 2) for n in (200, 2000)]
    assert row["std_error"] == pytest.approx(np.sqrt(1 / sum(precision)), rel=1e-6)
    found = visits(study).fit(0.5)
    assert found.bse["mean"] == pytest.approx(row["std_error"], rel=0.05)
    assert visits(study).plan(0.5, n=2200).frame.iloc[0]["std_error"] < row["std_error"]


def test_results_of_several_sites_are_read_back():
    result = visits(study_of([200, 300])).fit(1.0)
    assert hdp.Result.from_json(result.to_json()).to_json() == result.to_json()
    assert "at one of 2 sites only" in str(result.summary())
