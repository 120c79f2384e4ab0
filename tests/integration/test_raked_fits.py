"""Every mechanism that releases coefficients or clipped scores uses what a description tells of private covariates."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests import known_noise

COMPLETE = {"complete": True}
SCHEMA = hdp.Schema(
    x=hdp.Continuous(-5, 5, **COMPLETE),
    arm=hdp.Binary(**COMPLETE),
    y=hdp.Binary(**COMPLETE),
    k=hdp.Continuous(0, 15, **COMPLETE),
    z=hdp.Continuous(-6, 8, **COMPLETE),
    time=hdp.Duration(3, **COMPLETE),
    event=hdp.Binary(**COMPLETE),
)
MODELS = {
    "logit": ("y ~ x + arm", ["x", "arm"], {}),
    "poisson": ("k ~ x + arm", ["x", "arm"], {}),
    "linear": ("z ~ x + arm", ["x", "arm"], {}),
    "quantile": ("z ~ x + arm", ["x", "arm"], {}),
    "hazard": ("Surv(time, event) ~ x + arm", ["x", "arm", "Surv(time, event)"], {"intervals": [1, 2, 3]}),
}


def people(rows, seed, *, like_private):
    rng = np.random.default_rng(seed)
    x = rng.normal(0.7, 0.6, rows) if like_private else rng.normal(0.0, 1.0, rows)
    arm = (rng.random(rows) < (0.08 if like_private else 0.5)).astype(float)
    time = rng.exponential(3.0 * np.exp(-0.4 * x - 0.3 * arm))
    censored = rng.uniform(0.5, 3.5 if like_private else 12.0, rows)
    return pd.DataFrame(
        {
            "x": x,
            "arm": arm,
            "y": (rng.random(rows) < 1 / (1 + np.exp(-0.5 * x - 0.4 * arm))).astype(float),
            "k": rng.poisson(np.exp(0.2 + 0.4 * x + 0.2 * arm)).clip(0, 15).astype(float),
            "z": (1.0 + 0.5 * x + 0.4 * arm + rng.normal(0.0, 1.0, rows)).clip(-6, 8),
            "time": np.minimum(time, censored),
            "event": (time <= censored).astype(float),
        }
    )


PUBLIC = people(600, 2, like_private=False)


def errors(monkeypatch, private, *, model, mechanism):
    """Return the standard errors of x and arm from fits without noise, not told and told of the cohort."""
    known_noise.off(monkeypatch)
    formula, columns, options = MODELS[model]
    study = hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=1000))
    times = {"times": [1, 2, 3]} if model == "hazard" else {}
    cohort = hdp.describe(study, columns, complete=True, quantiles=False, epsilon=20, **times)
    fitted = getattr(hdpf, model)(formula, data=study, **options)
    found = [
        fitted.fit(epsilon=1, mechanism=mechanism, **known) for known in ({"describe": False}, {"description": cohort})
    ]
    return [each.private_only.bse.iloc[-2:].to_numpy() for each in found]


ONE_ROUND = hdp.mechanisms.ClippedNewton(rounds=1)


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        *((model, "objective") for model in ("logit", "hazard", "poisson", "linear", "quantile")),
        *((model, ONE_ROUND) for model in ("logit", "hazard", "poisson", "linear")),
    ],
)
def test_a_rare_treatment_has_a_larger_standard_error(monkeypatch, model, mechanism):
    private = people(4000, 1, like_private=True)
    untold, told = errors(monkeypatch, private, model=model, mechanism=mechanism)
    assert told[1] > 1.3 * untold[1]


@pytest.mark.parametrize("mechanism", ["output", hdp.mechanisms.ClippedNewton(rounds=1)])
def test_people_like_the_public_ones_change_little(monkeypatch, mechanism):
    untold, told = errors(monkeypatch, people(4000, 3, like_private=False), model="logit", mechanism=mechanism)
    assert np.all(np.abs(np.log(told / untold)) < 0.12)


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize(
    ("model", "mechanism", "sites"),
    [
        ("logit", "objective", 1),
        ("logit", ONE_ROUND, 1),
        ("logit", ONE_ROUND, 2),
        ("poisson", "objective", 1),
        ("hazard", "objective", 1),
    ],
)
def test_a_plan_that_is_told_predicts_what_is_then_reported(monkeypatch, model, mechanism, sites):
    known_noise.off(monkeypatch)
    private = people(4000, 1, like_private=True)
    private = private if sites == 1 else {"a": private[:2500], "b": private[2500:]}
    study = hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=1000))
    formula, columns, options = MODELS[model]
    times = {"times": [1, 2, 3]} if model == "hazard" else {}
    cohort = hdp.describe(study, columns, complete=True, quantiles=False, epsilon=20, **times)
    fitted = getattr(hdpf, model)(formula, data=study, **options)
    told, blind = (
        fitted.plan(epsilon=[1], mechanism=mechanism, **known).frame["private_only"].iloc[-1]
        for known in ({"description": cohort}, {})
    )
    reported = fitted.fit(epsilon=1, mechanism=mechanism, description=cohort).private_only.bse.iloc[-1]
    assert abs(np.log(told / reported)) < 0.1
    assert blind < 0.7 * reported


def counts(rows, seed, *, mean):
    rng = np.random.default_rng(seed)
    nodes = np.minimum(rng.geometric(1.0 / mean, rows), 50).astype(float)
    age, arm = np.clip(rng.normal(55.0, 10.0, rows), 20, 90), rng.integers(0, 2, rows).astype(float)
    y = rng.random(rows) < 1 / (1 + np.exp(1.5 - 0.05 * nodes - 0.02 * (age - 55.0) - 0.4 * arm))
    return pd.DataFrame({"nodes": nodes, "age": age, "arm": arm, "y": y.astype(float)})


@pytest.fixture
def noiseless(monkeypatch):
    known_noise.off(monkeypatch)


@pytest.mark.covering(cases=2)
@pytest.mark.usefixtures("noiseless")
@pytest.mark.filterwarnings("ignore:public rows alone")
@pytest.mark.parametrize(
    ("formula", "others", "mechanism"),
    [
        ("y ~ bs(nodes, knots=[12.5, 25, 37.5]) + age", ["Intercept", "age"], hdp.mechanisms.ClippedNewton(rounds=1)),
        ("y ~ bs(nodes, knots=[12.5, 25, 37.5]) + age", ["age"], "objective"),
        ("y ~ bs(nodes, df=5, knots=[16.67, 33.33]) + arm", ["arm"], "objective"),
    ],
)
def test_columns_that_raked_rows_leave_do_not_cost_the_others_their_standard_errors(formula, others, mechanism):
    schema = hdp.Schema(
        nodes=hdp.Continuous(0, 50, **COMPLETE),
        age=hdp.Continuous(20, 90, **COMPLETE),
        arm=hdp.Binary(**COMPLETE),
        y=hdp.Binary(**COMPLETE),
    )
    private, public = counts(3000, 1, mean=3.0), counts(600, 2, mean=5.0)
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=1000))
    names = [name for name in ("nodes", "age", "arm") if name in formula]
    cohort = hdp.describe(study, names, complete=True, quantiles=False, epsilon=20)
    fitted = hdpf.logit(formula, data=study)
    alone, described, told = (
        fitted.fit(epsilon=1, mechanism=mechanism, **known).private_only
        for known in ({"describe": False}, {}, {"description": cohort})
    )
    for found in (described, told):
        ratio = found.bse[others] / alone.bse[others]
        assert ratio.between(1 / 1.5, 1.5).all(), ratio
