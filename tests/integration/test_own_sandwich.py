"""Standard errors by private people's own Hessians and squared scores: when they are, and that they are right."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.perturbation import ObjectivePerturbation
from tests import known_noise

BOUNDED = {"x": hdp.Continuous(-3, 3, complete=True), "g": hdp.Binary(complete=True)}
SCHEMA = hdp.Schema(y=hdp.Continuous(-10, 10, complete=True), w=hdp.Weight(max=2, complete=True), **BOUNDED)
RIGHT = "y ~ x + g"


def people(n, *, seed, steep=0.0):
    """Return people whose residuals spread more the larger a covariate is, by ``steep``."""
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-2, 2, n), (rng.random(n) < 0.4) * 1.0
    residual = rng.normal(size=n) * np.exp(steep * (np.abs(x) - 1.0))
    return pd.DataFrame({"x": x, "g": g, "y": 0.5 * x - g + residual, "w": 1.0 + g})


def study(n, *, steep=0.0, public=400, sites=1, **options):
    frames = {f"site{k}": people(n, seed=k, steep=steep) for k in range(sites)}
    private = frames["site0"] if sites == 1 else frames
    return hdp.Study(
        private=private, public=people(public, seed=99), schema=SCHEMA, budget=hdp.Budget(epsilon=1000), **options
    )


def asked(result):
    return result.query.sandwich


def sandwich_errors(frame, score, curvature):
    """Return standard errors of a fit to these people that hold whether or not the model is true."""
    X = np.column_stack([np.ones(len(frame)), frame["x"], frame["g"]])
    beta = np.linalg.lstsq(X, frame["y"], rcond=None)[0]
    r = X @ beta - frame["y"].to_numpy()
    inverse = np.linalg.inv(X.T @ (curvature(r)[:, None] * X))
    return np.sqrt(np.diag(inverse @ (X.T @ ((score(r) ** 2)[:, None] * X)) @ inverse))


LOSSES = {
    "squares": (lambda data: hdpf.linear(RIGHT, data), lambda r: r, np.ones_like),
    "huber": (
        lambda data: hdpf.mestimate(RIGHT, data, loss=hdp.losses.Huber(1.0)),
        lambda r: np.clip(r, -1, 1),
        lambda r: (np.abs(r) <= 1) * 1.0,
    ),
}


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("name", LOSSES)
def test_standard_errors_follow_private_people_whose_residuals_vary_otherwise(name, monkeypatch):
    known_noise.off(monkeypatch)
    make, score, curvature = LOSSES[name]
    data = study(100_000, steep=0.8)
    model = make(data)
    bought, without = model.fit(3.0), model.fit(3.0, se_share=0)
    assert asked(bought) is not None
    assert asked(without) is None
    right = sandwich_errors(people(100_000, seed=0, steep=0.8), score, curvature)
    of = [np.sqrt(np.diag(each.private_only.sampling)) / right for each in (bought, without)]
    assert np.all(np.abs(of[0] - 1.0) < 0.12), of[0]
    assert np.max(np.abs(of[1] - 1.0)) > 0.25, "public people alone do not tell it"


@pytest.mark.wide
def test_a_median_s_errors_follow_the_density_of_private_outcomes(monkeypatch):
    known_noise.off(monkeypatch)
    data = study(100_000, steep=0.8)
    model = hdpf.quantile(RIGHT, data)
    bought, without = model.fit(3.0), model.fit(3.0, se_share=0)
    x = people(100_000, seed=0)["x"].to_numpy()
    g = people(100_000, seed=0)["g"].to_numpy()
    X = np.column_stack([np.ones(len(x)), x, g])
    density = 1.0 / np.sqrt(2.0 * np.pi) / np.exp(0.8 * (np.abs(x) - 1.0))
    inverse = np.linalg.inv(X.T @ (density[:, None] * X))
    right = np.sqrt(np.diag(inverse @ (0.25 * X.T @ X) @ inverse))
    of = [np.sqrt(np.diag(each.private_only.sampling)) / right for each in (bought, without)]
    assert np.all(np.abs(of[0] - 1.0) < 0.12), of[0]
    assert np.max(np.abs(of[1] - 1.0)) > 0.15


def test_few_people_or_little_epsilon_buy_nothing_and_describe_false_declines():
    assert asked(hdpf.linear(RIGHT, study(3000)).fit(1.0)) is None
    large = study(30_000)
    assert asked(hdpf.linear(RIGHT, large).fit(0.1)) is None
    assert asked(hdpf.linear(RIGHT, large).fit(4.0, describe=False)) is None
    assert asked(hdpf.linear(RIGHT, large).fit(4.0)) is not None


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("n", [3000, 100_000])
def test_a_plan_says_what_a_fit_buys(n, epsilon):
    data = study(n)
    model = hdpf.linear(RIGHT, data)
    frame = model.plan(epsilon).frame
    result = model.fit(epsilon)
    share = 0.0 if asked(result) is None else float(asked(result).share)
    assert frame["se_share"].unique().tolist() == [share]
    assert ("their own Hessians" in str(model.plan(epsilon))) == (share > 0)
    assert ("standard errors (se_share = " in str(result.summary())) == (share > 0)
    assert ("the private people's own Hessians and squared scores (part of this loss" in result.methods_text()) == (
        share > 0
    )
    assert float(data.ledger.spent.epsilon) == pytest.approx(epsilon)


def test_a_plan_of_least_squares_with_public_rows_and_a_share_is_not_that_of_the_declared_range():
    data = study(20_000)
    model = hdpf.linear(RIGHT, data)
    plain, bought = (model.plan(4.0, se_share=share).frame["std_error"].to_numpy() for share in (0, 0.2))
    assert np.all(bought < 1.3 * plain)
    assert asked(model.fit(4.0, se_share=0.2)).share == Fraction(1, 5)


def test_a_share_is_taken_by_output_perturbation_too():
    data = study(30_000)
    result = hdpf.linear(RIGHT, data).fit(4.0, mechanism=hdp.mechanisms.OutputPerturbation(se_share=0.1))
    assert asked(result).share == Fraction(1, 10)
    assert result.release.sandwich is not None


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_weights_and_both_relations(relation, monkeypatch):
    known_noise.off(monkeypatch)
    frame = people(60_000, seed=0, steep=0.8)
    options = {"relation": relation, "n_max": 100_000} if relation == "add_or_remove_one" else {}
    data = hdp.Study(
        private=frame, public=people(400, seed=99), schema=SCHEMA, budget=hdp.Budget(epsilon=1000), **options
    )
    result = hdpf.linear(RIGHT, data, weights="w").fit(6.0)
    assert asked(result) is not None
    X, w = np.column_stack([np.ones(len(frame)), frame["x"], frame["g"]]), frame["w"].to_numpy()
    beta = np.linalg.solve(X.T @ (w[:, None] * X), X.T @ (w * frame["y"]))
    r = frame["y"].to_numpy() - X @ beta
    inverse = np.linalg.inv(X.T @ (w[:, None] * X))
    right = np.sqrt(np.diag(inverse @ (X.T @ (((w * r) ** 2)[:, None] * X)) @ inverse))
    assert np.all(np.abs(np.sqrt(np.diag(result.private_only.sampling)) / right - 1.0) < 0.12)


def test_sites_buy_each_their_own_and_share_one_geometry(monkeypatch):
    known_noise.off(monkeypatch)
    data = study(60_000, steep=0.8, sites=2)
    result = hdpf.linear(RIGHT, data).fit(4.0)
    queries = dict(result.query.sites)
    assert all(each.sandwich is not None for each in queries.values())
    assert len({each.model.geometry for each in queries.values()}) == 1
    right = sandwich_errors(people(60_000, seed=0, steep=0.8), lambda r: r, np.ones_like) / np.sqrt(2.0)
    assert np.all(np.abs(np.sqrt(np.diag(result.private_only.sampling)) / right - 1.0) < 0.12)


@pytest.mark.wide
def test_a_small_site_buys_nothing_beside_a_large_one():
    frames = {"large": people(60_000, seed=0), "small": people(900, seed=1)}
    data = hdp.Study(private=frames, public=people(400, seed=99), schema=SCHEMA, budget=hdp.Budget(epsilon=100))
    result = hdpf.linear(RIGHT, data).fit(4.0)
    queries = dict(result.query.sites)
    assert queries["large"].sandwich is not None
    assert queries["small"].sandwich is None
    assert np.isfinite(result.bse).all()


def test_the_same_fit_asks_the_same_question_and_results_are_read_back():
    data = study(60_000)
    first, second = (hdpf.linear(RIGHT, data).fit(3.0) for _ in range(2))
    assert first.release == second.release
    assert float(data.ledger.spent.epsilon) == 3.0
    read = hdp.Result.from_json(first.to_json())
    assert read.release == first.release
    assert np.array_equal(read.bse, first.bse)


def test_options_of_a_mechanism_say_no_share_as_before():
    assert ObjectivePerturbation().share is None
    assert asked(hdpf.linear(RIGHT, study(60_000)).fit(3.0, mechanism=ObjectivePerturbation(se_share=0))) is None
