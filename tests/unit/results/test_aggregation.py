"""Results in groups of groups: levels, weights, variances between, intervals, refusals, tables, plots."""

from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.records.estimate import ErrorDistribution, Estimate
from hdpstats.results import ModelFacts, RowWeights
from tests.support import FORMULA, SCHEMA, people

mpl.use("Agg")
TERMS = ("Intercept", "age")
FACTS = ModelFacts(
    model="Logit", formula="died ~ age", response="died", method="maximum likelihood on public rows", records=None,
    public_rows=100, weights=None, offset=None, loss="logistic", exponentiated="odds ratio",
)  # fmt: skip


def made(values, scale=1.0, *, distribution=None, terms=TERMS, facts=FACTS, correlation=0.4):
    covariance = np.array([[1.0, correlation], [correlation, 0.5]]) * scale**2
    estimate = Estimate(
        label="maximum likelihood", terms=terms, values=np.array(values, dtype=float), sampling=0.6 * covariance,
        privacy=0.4 * covariance, distribution=distribution,
    )  # fmt: skip
    return hdp.Result(
        facts=facts,
        schema=hdp.Schema(age=hdp.Continuous(0, 1, complete=True), died=hdp.Binary(complete=True)),
        estimate=estimate,
    )


def several(k, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    return [made(rng.normal(0, spread, 2), scale) for scale in rng.uniform(0.5, 2, k)]


def in_groups(results, sizes):
    cuts = np.cumsum([0, *sizes])
    return {f"group {g}": results[a:b] for g, (a, b) in enumerate(pairwise(cuts))}


@pytest.mark.parametrize("interval", ["model", "across_sites"])
@pytest.mark.parametrize("sizes", [(2, 3, 4), (4, 5)])
def test_without_effects_of_groups_the_top_is_the_flat_combination(interval, sizes):
    """School to state to federation: what the states hand on is all that the federation needs."""
    results = several(9)
    flat = hdp.aggregate(results, interval=interval)
    nested = hdp.aggregate(in_groups(results, sizes), interval=interval)
    deep = hdp.aggregate({"east": in_groups(results[:6], (2, 4)), "west": {"only": results[6:]}}, interval=interval)
    for each in (nested, deep):
        assert each.params.to_numpy() == pytest.approx(flat.params.to_numpy())
        assert each.cov_params().to_numpy() == pytest.approx(flat.cov_params().to_numpy())
        assert each.conf_int().to_numpy() == pytest.approx(flat.conf_int().to_numpy())


def test_equal_results_are_averaged_and_their_variance_falls_with_their_number():
    found = hdp.aggregate([made([place, 2.0 * place]) for place in range(4)])
    assert found.params.tolist() == pytest.approx([1.5, 3.0])
    assert found.cov_params().to_numpy() == pytest.approx(np.array([[1.0, 0.4], [0.4, 0.5]]) / 4)
    assert found.estimate.cov_privacy.to_numpy() == pytest.approx(0.4 * np.array([[1.0, 0.4], [0.4, 0.5]]) / 4)


@pytest.mark.parametrize("interval", ["model", "across_sites"])
def test_what_weights_of_people_may_do_does_not_average_out(interval):
    A = np.array([[0.3, 0.1], [0.1, 0.09]])
    V = np.array([[1.0, 0.4], [0.4, 0.5]])
    weights = RowWeights(share=0.2, allowance=tuple(np.sqrt(np.diag(A))), covariance=tuple(map(tuple, A.tolist())))
    facts = replace(FACTS, row_weights=weights)
    results = [made([place, 2.0 * place], facts=facts) for place in range(9)]
    found = hdp.aggregate(results, interval=interval)
    if interval == "model":
        assert found.cov_params().to_numpy() == pytest.approx((V - A) / 9 + A)
    else:
        assert found.bse.to_numpy() ** 2 == pytest.approx(7.5 / 9 * np.array([1.0, 4.0]) + np.diag(A))
    assert "does not average out" in " ".join(str(found.summary()).split())
    # Cochran's Q is of what differs: the variances without the allowance.
    assert found.frame.query("level == 0")["scatter"].to_numpy() == pytest.approx(
        60.0 * np.array([1, 4]) / np.diag(V - A)
    )
    # In groups, through files, the same.
    states = {str(g): hdp.Aggregate.from_json(hdp.aggregate(results[g : g + 3]).to_json()) for g in (0, 3, 6)}
    if interval == "model":
        assert hdp.aggregate(states).cov_params().to_numpy() == pytest.approx((V - A) / 9 + A)
    without_covariance = replace(weights, covariance=None).factor  # as in results that were stored before
    assert without_covariance @ without_covariance.T == pytest.approx(np.diag(np.diag(A)))
    half = hdp.aggregate([made([0.0, 0.0], facts=facts), made([0.0, 0.0])]).nodes[0].allowance
    assert (np.diag(half @ half.T) < np.diag(A)).all()  # of a member only, by its weight


def test_groups_that_differ_change_the_top():
    results = several(9, spread=0.1)
    for place, result in enumerate(results):
        result.estimate.values[:] += 10.0 * (place // 3)
    tree = in_groups(results, (3, 3, 3))
    alike, states = hdp.aggregate(tree), hdp.aggregate(tree, between=("paule_mandel", None))
    assert (states.bse > 5 * alike.bse).all()
    assert states.params["age"] == pytest.approx(10.0, abs=1.5)
    schools = hdp.aggregate(tree, between=(None, "dersimonian_laird"))
    frame = schools.frame.query("term == 'age' and members > 0")
    assert frame["tau"].iloc[0] == 0  # of the states
    assert frame["tau"].iloc[1:].tolist() == pytest.approx([frame["tau"].iloc[1]] * 3)  # of the schools of every state
    assert states.at("group 1").values == pytest.approx(alike.at("group 1").values)


def test_variances_between_are_those_of_one_level_by_hand():
    """One term at a time: Q about the weighted mean is its degrees of freedom at the estimate of Paule and Mandel."""
    results = [made([x, -x], scale, correlation=0.0) for x, scale in ((0, 1), (3, 0.5), (7, 1.5), (-4, 0.7))]
    found = hdp.aggregate(results, between="paule_mandel")
    square = float(found.frame.query("level == 0 and term == 'Intercept'")["tau"].iloc[0]) ** 2
    values = np.array([result.params.iloc[0] for result in results])
    weights = 1 / (np.array([result.bse.iloc[0] ** 2 for result in results]) + square)
    mean = (weights * values).sum() / weights.sum()
    assert (weights * (values - mean) ** 2).sum() == pytest.approx(3.0)
    assert found.params.iloc[0] == pytest.approx(mean)
    assert found.bse.iloc[0] == pytest.approx(weights.sum() ** -0.5)


def test_intervals_across_results_are_students_with_one_degree_less_than_results():
    results = [made([x, x]) for x in (0.0, 1.0, 5.0)]
    found = hdp.aggregate(results, interval="across_sites").conf_int()
    expected = stats.ttest_1samp([0.0, 1.0, 5.0], 0.0).confidence_interval(0.95)
    assert found.loc["age"].tolist() == pytest.approx(list(expected), rel=1e-3)
    narrow = hdp.aggregate([made([x, x], 0.01) for x in (0.0, 1.0, 5.0)], interval="across_sites").conf_int()
    assert narrow.to_numpy() == pytest.approx(found.to_numpy())  # the results' own variances do not count


def test_groups_with_effects_are_the_members_of_the_level_above():
    """Three states of three schools: two degrees of freedom, not eight, where states differ."""
    tree = in_groups(several(9), (3, 3, 3))
    found = hdp.aggregate(tree, interval="across_sites", between="paule_mandel")
    ratio = (found.conf_int()[1] - found.params) / found.bse
    assert ratio.tolist() == pytest.approx([stats.t.ppf(0.975, 2)] * 2, rel=1e-3)
    alike = hdp.aggregate(tree, interval="across_sites", between=(None, "paule_mandel"))
    ratio = (alike.conf_int()[1] - alike.params) / alike.bse
    assert ratio.tolist() == pytest.approx([stats.t.ppf(0.975, 8)] * 2, rel=1e-3)


def test_heavy_tails_of_noise_reach_the_top_and_thin_out():
    levels = np.append(np.linspace(0, 0.99, 100), 1 - np.geomspace(0.01, 1e-5, 40)[1:])
    heavy = ErrorDistribution(
        levels=levels, quantiles=np.outer(-np.log1p(-levels), np.sqrt([0.5, 0.25]))
    )  # Laplace errors
    alone = made([0.0, 0.0], distribution=heavy)
    ratio = [hdp.aggregate([alone] * k).conf_int(0.01)[1] / hdp.aggregate([alone] * k).bse for k in (1, 2, 30)]
    assert ratio[0].tolist() == pytest.approx([np.log(100) / np.sqrt(2)] * 2, rel=0.1)
    assert (ratio[0] > ratio[1]).all()
    assert ratio[2].tolist() == pytest.approx([stats.norm.ppf(0.995)] * 2, rel=0.05)


def test_regressions_enter_without_the_public_rows_that_they_share():
    """Would fail if pooled estimates were combined: the public fit would count three times."""
    public = people(60, seed=50)
    private = {name: people(500, seed=place) for place, name in enumerate("ABC")}
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=8))
    fits = {name: hdpf.logit(FORMULA, data=study.at(name)).fit(4.0) for name in study.sites}
    before = {name: ledger.spent.epsilon for name, ledger in study.ledgers.items()}
    found = hdp.aggregate({"private": fits, "public": hdpf.logit(FORMULA, data=study).fit_public()})
    assert found.at("private", "A").values.tolist() == fits["A"].private_only.values.tolist()
    assert (fits["A"].private_only.values != fits["A"].params).any()
    factors = [fit.facts.row_weights.factor for fit in fits.values()]
    covariances = [fit.private_only.sampling + fit.private_only.privacy for fit in fits.values()]
    precisions = [np.linalg.inv(each - of @ of.T) for each, of in zip(covariances, factors, strict=True)]
    own = np.linalg.inv(sum(precisions))
    common = sum(own @ each @ of for each, of in zip(precisions, factors, strict=True))  # it does not average out
    assert found.at("private").sampling + found.at("private").privacy == pytest.approx(own + common @ common.T)
    assert (found.bse < found.at("private").bse).all()
    assert {name: ledger.spent.epsilon for name, ledger in study.ledgers.items()} == before  # for nothing
    assert "4-differential privacy (pure) at most for one person" in str(found)
    again = hdp.aggregate({"private": fits, "public": hdpf.logit(FORMULA, data=study).fit_public()})
    assert again.conf_int().equals(found.conf_int())


def test_what_cannot_be_combined_is_refused():
    one, other = several(2)
    unknown = replace(one, estimate=replace(one.estimate, sampling=np.full((2, 2), np.nan)))
    linear = made([0, 0], facts=replace(FACTS, model="Linear", loss="squares"))
    for results, words in (
        ([], "without members"),
        ({}, "without members"),
        (one, "several sites"),
        (3, "dictionary"),
        ({"a": one, "b": 3}, r"results\['b'\]"),
        ({"a": {}, "b": one}, r"results\['a'\]"),
        ({1: one}, "names"),
        ([one, made([0, 0], terms=("Intercept", "sex"))], "same terms"),
        ([one, linear], "one model"),
        ([one, unknown], "standard errors"),
    ):
        with pytest.raises(hdp.ArgumentError, match=words):
            hdp.aggregate(results)
    for options, words in (
        ({"between": "reml"}, "between"),
        ({"between": (None, None)}, "1 levels"),
        ({"interval": "bootstrap"}, "interval"),
    ):
        with pytest.raises(hdp.ArgumentError, match=words):
            hdp.aggregate([one, other], **options)
    with pytest.raises(hdp.ArgumentError, match="two members or more"):
        hdp.aggregate([one], between="paule_mandel")
    with pytest.raises(hdp.ArgumentError, match="spread"):
        hdp.aggregate({"a": [one], "b": [other]}, interval="across_sites")
    with pytest.raises(hdp.ArgumentError, match="at must name"):
        hdp.aggregate([one, other]).at("3")


def test_one_release_does_not_count_twice():
    study = hdp.Study(private=people(100), schema=SCHEMA, budget=hdp.Budget(epsilon=4))
    fit = hdpf.distribution("y ~ 1", data=study, family="bernoulli").fit(1.0)
    again = hdpf.distribution("y ~ 1", data=study, family="bernoulli").fit(1.0)
    for twice in ([fit, again], [fit, fit], {"state": hdp.aggregate([fit]), "school": again}):
        with pytest.raises(hdp.ArgumentError, match="twice"):
            hdp.aggregate(twice)


def test_a_site_does_not_count_alone_and_among_others():
    study = hdp.Study(private=[people(100, 1), people(100, 2)], schema=SCHEMA, budget=hdp.Budget(epsilon=4))
    both = hdpf.distribution("y ~ 1", data=study, family="bernoulli").fit(1.0)
    one = hdpf.distribution("y ~ 1", data=study.at("site 1"), family="bernoulli").fit(1.0)
    for twice in ([both, one], {"a": [one], "b": [hdp.Result.from_json(both.to_json())]}):
        with pytest.raises(hdp.ArgumentError, match="twice"):
            hdp.aggregate(twice)


def test_sites_of_one_result_are_members():
    private = {name: people(300, seed=place) for place, name in enumerate("ABC")}
    study = hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=4))
    fit = hdpf.distribution("y ~ 1", data=study, family="bernoulli").fit(1.0)
    found = hdp.aggregate(fit, interval="across_sites", name="together")
    assert [node.path for node in found.nodes] == [("together",), *(("together", name) for name in "ABC")]
    means = np.array([site.estimate.values[0] for site in fit.site_facts])
    weights = 1 / np.array([site.estimate.bse.iloc[0] ** 2 for site in fit.site_facts])
    assert found.params.iloc[0] == pytest.approx((weights * means).sum() / weights.sum())
    square = (weights * (means - found.params.iloc[0]) ** 2).sum() / weights.sum() / 2
    assert found.bse.iloc[0] == pytest.approx(np.sqrt(square))
    alone = hdpf.distribution("y ~ 1", data=study.at("A"), family="bernoulli").fit(1.0)
    with pytest.raises(hdp.ArgumentError, match="several sites"):
        hdp.aggregate(alone)


def test_the_frame_has_a_row_per_group_and_term_with_weights_that_add_up():
    found = hdp.aggregate(
        {"a<b>": several(3), "c": several(2, seed=1), "d": several(1, seed=2)[0]}, name="all & sundry"
    )
    frame = found.frame
    assert frame["level"].tolist() == [each for each in (0, 1, 2, 2, 2, 1, 2, 2, 1) for _ in TERMS]
    assert frame["path"].iloc[4] == "all & sundry / a<b> / 1"
    age = frame[frame["term"] == "age"].set_index("path")
    assert age["members"].tolist() == [3, 3, 0, 0, 0, 2, 0, 0, 0]
    for parent in ("all & sundry", "all & sundry / a<b>", "all & sundry / c"):
        below = age[[path.rpartition(" / ")[0] == parent for path in age.index]]
        assert below["weight"].sum() == pytest.approx(1.0)
    assert age["weight"].isna().tolist() == [True] + [False] * 8
    assert age.loc["all & sundry", "conf_low"] == pytest.approx(found.conf_int().loc["age", 0])
    assert age["scatter"].notna().tolist() == (age["members"] > 0).tolist()


def test_tables_and_plots_show_every_level_and_break_nothing():
    found = hdp.aggregate({"a<b>": several(3), "c": several(2, seed=1)}, between="paule_mandel")
    text = str(found.summary())
    assert "differ, variance by Paule and Mandel" in text
    assert "    2" in text
    html = found._repr_html_()
    assert "a&lt;b&gt;" in html
    assert "a<b>" not in html
    assert repr(found) == "<aggregate of 5 results in 3 groups: Logit>"
    axes = found.plot()
    assert [label.get_text().strip() for label in axes.get_yticklabels()] == [
        "all",
        "a<b>",
        "1",
        "2",
        "3",
        "c",
        "1",
        "2",
    ]
    assert len(axes.patches) == 3  # diamonds
    assert "age" in axes.get_xlabel()
    ratios = found.plot("Intercept", exponentiate=True)
    assert ratios.get_xscale() == "log"
    assert "odds ratio" in ratios.get_xlabel()
    with pytest.raises(hdp.ArgumentError, match="term"):
        found.plot("sex")
    mpl.pyplot.close("all")


@pytest.mark.parametrize("interval", ["model", "across_sites"])
def test_a_state_can_send_its_aggregate_and_no_more(tmp_path, interval):
    """The federation reads what states wrote; with one model that is what all schools at once would give."""
    schools = several(7)
    for name, own in {"north": schools[:3], "south": schools[3:]}.items():
        hdp.aggregate(own, name=name, interval=interval).to_json(tmp_path / f"{name}.json")
    states = {name: hdp.Aggregate.from_json(tmp_path / f"{name}.json") for name in ("north", "south")}
    again = hdp.aggregate(schools[:3], name="north", interval=interval)
    assert states["north"].to_json() == again.to_json()
    assert states["north"].frame.equals(again.frame)
    federation = hdp.aggregate(states)
    if interval == "model":
        flat = hdp.aggregate(schools)
        assert federation.params.to_numpy() == pytest.approx(flat.params.to_numpy())
        assert federation.cov_params().to_numpy() == pytest.approx(flat.cov_params().to_numpy())
    assert federation.at("south").values == pytest.approx(states["south"].estimate.values)
    with pytest.raises(hdp.ArgumentError, match="dictionary"):
        hdp.aggregate(federation)
    for text in ("{}", "{}x", states["north"].to_json().replace('"format":5', '"format":9'), schools[0].to_json()):
        with pytest.raises(hdp.ArgumentError, match="not an aggregate"):
            hdp.Aggregate.from_json(text)
    before = states["north"].to_json().replace('"format":5', '"format":4', 1)
    with pytest.raises(
        hdp.ArgumentError, match=r"format 5, not 4; .*make it anew"
    ):  # whom descriptions were charged to
        hdp.Aggregate.from_json(before)


@pytest.mark.wide
@pytest.mark.usefixtures("no_noise")
def test_hazard_models_are_combined_and_shown_by_their_covariates():
    schema = hdp.Schema(
        x=hdp.Continuous(-2, 2, complete=True), time=hdp.Duration(10, complete=True), event=hdp.Binary(complete=True)
    )

    def patients(n, seed):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=n).clip(-2, 2)
        time = rng.exponential(8 * np.exp(-0.5 * x))
        return pd.DataFrame({"x": x, "time": time.clip(0.01, 10), "event": time < 10})

    private = {name: patients(800, seed) for seed, name in enumerate("AB")}
    study = hdp.Study(private=private, public=patients(200, 9), schema=schema, budget=hdp.Budget(epsilon=8))
    options = {"intervals": 5, "baseline": "dummies"}
    fits = [hdpf.hazard("Surv(time, event) ~ x", data=study.at(name), **options).fit(4.0) for name in "AB"]
    found = hdp.aggregate(fits)
    assert "x" in found.plot().get_xlabel()
    assert abs(found.params["x"] - 0.5) < 8 * found.bse["x"]
    mpl.pyplot.close("all")
    finer = hdpf.hazard("Surv(time, event) ~ x", data=study.at("A"), baseline="dummies", intervals=(0.5, 2, 3, 4, 10))
    with pytest.raises(hdp.ArgumentError, match="one model"):
        hdp.aggregate([fits[1], finer.fit(4.0)])


def test_a_table_of_many_terms_says_where_the_others_are():
    terms = tuple("abcdefg")
    wide = [
        replace(
            made([0, 0]),
            estimate=Estimate(
                label="x", terms=terms, values=np.arange(7.0) + k, sampling=np.eye(7), privacy=0 * np.eye(7)
            ),
        )
        for k in range(2)
    ]
    text = str(hdp.aggregate(wide).summary())
    assert "aggregate's frame" in text
    assert isinstance(hdp.aggregate(wide).frame, pd.DataFrame)
