"""Private fits estimate what the ordinary fit does, also where the model is not true: weights and caps vanish.

Without noise: private people are real ones who are unlike the public ones and have outcomes of their own, which no
model fits exactly. The weighted criterion that a fit to very many of them would ask for is minimised exactly.
"""

from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.perturbation import hazard_request
from hdpstats.mechanisms.perturbation.request import Asked
from hdpstats.public import moments, row_weights
from hdpstats.public.row_weights import APART, at_radii, contrast_tau, mallows
from hdpstats.schema.public import PublicTable
from hdpstats.solvers import minimise
from tests import known_noise
from tests.statistical.real_outcomes_studies import Setting, without_noise

SCHEMA = hdp.Schema(
    event3=hdp.Binary(complete=True),
    age=hdp.Continuous(20, 90, complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    hormon=hdp.Binary(complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    lt=hdp.Continuous(0, 9, complete=True),
    time=hdp.Duration(2557, unit="days", complete=True),
    event=hdp.Binary(complete=True),
)
MODELS = {
    "linear": lambda study: hdpf.linear("lt ~ age + nodes + hormon + size", data=study),
    "huber": lambda study: hdpf.mestimate("lt ~ age + nodes + hormon + size", data=study, loss=hdp.losses.Huber(0.8)),
    "logit": lambda study: hdpf.logit("event3 ~ age + nodes + hormon + size", data=study),
    "poisson": lambda study: hdpf.poisson("nodes ~ age + hormon + size", data=study),
    "hazard": lambda study: hdpf.hazard(
        "Surv(time, event) ~ age + log1p(nodes) + hormon + size", data=study, intervals=24, link="cloglog"
    ),
}


@pytest.fixture(scope="module")
def patients():
    private, public = hdp.datasets.load_rotterdam().dropna(subset=["event3"]), hdp.datasets.load_gbsg()
    return tuple(frame.assign(lt=np.log(frame["time"])) for frame in (private, public))


def weighted(spec, people, *, records, epsilon):
    """Return the coefficients that minimise the criterion of a fit to so many people, without noise and ridge."""
    model = spec.choose_model([Asked(records=records, epsilon=Fraction(epsilon))], share=Fraction(0))
    table = PublicTable.from_frame(people, SCHEMA, required=()).admitted(spec.needs)
    nothing = np.zeros(model.dimension)
    made = spec.person_loss(model).people(table)
    objective = made.penalised(ridge=np.full(model.dimension, 1e-6), centre=spec.public.centre, linear=nothing)
    found = minimise(objective, start=spec.public.centre).theta
    return model, spec.to_terms(model) @ found + spec.origin


@pytest.fixture(scope="module")
def found(patients):
    """Return a function from a model, a number of people and an epsilon to what was asked and how far it is off."""
    private, public = patients

    def compute(name, *, records, epsilon):
        model = MODELS[name](hdp.Study(public=public, schema=SCHEMA))
        ordinary = MODELS[name](hdp.Study(public=private, schema=SCHEMA)).fit_public().params.to_numpy()
        slopes = slice(-5 if name != "poisson" else -4, None)
        frame = model.plan(epsilon=epsilon, n=records, mechanism="objective").frame
        asked, theta = weighted(model._spec, private, records=records, epsilon=epsilon)
        return asked, (theta - ordinary)[slopes], frame["private_only"].to_numpy()[slopes]

    return compute


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("epsilon", [1, 3])
@pytest.mark.parametrize(("name", "limit"), [("linear", 0.3), ("logit", 0.3), ("poisson", 0.5), ("hazard", 0.6)])
def test_a_large_fit_to_other_people_estimates_what_the_ordinary_fit_does(name, limit, epsilon, found):
    # Of hazards the allowance is a part of the predicted error that is not small.
    _, off, predicted = found(name, records=200_000, epsilon=epsilon)
    assert np.max(np.abs(off) / predicted) < limit


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize(
    ("kind", "data", "public", "limit"),
    [
        ("linear", "flchain", "shifted", 0.3),
        ("linear", "colon", "shifted", 0.3),
        ("Huber", "colon", "random", 0.3),
        ("Huber", "nwtco", "shifted", 0.3),
        ("own loss", "Rotterdam", "gbsg", 0.5),
        ("own loss", "nwtco", "shifted", 0.5),
        ("exponential times", "nwtco", "random", 0.5),
    ],
)
def test_far_people_outlying_outcomes_the_ridge_and_saturation_hardly_move_large_fits(kind, data, public, limit):
    """They did by 3.5, .5, 5.1, .7, 1.4, .8 and 3.8 standard errors, without noise."""
    assert np.max(np.abs(without_noise(Setting(kind, data, public, 300_000, (3.0,))).to_numpy())) < limit


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("records", [10_000, 30_000, 100_000])
@pytest.mark.parametrize(("name", "limit"), [("linear", 0.7), ("poisson", 1.1), ("hazard", 0.7)])
def test_weights_that_have_not_vanished_move_estimates_by_less_than_a_standard_error(name, limit, records, found):
    """Without the contrast of public outcomes the linear model is off by 1.6 standard errors."""
    for epsilon in (1, 3):
        _, off, predicted = found(name, records=records, epsilon=epsilon)
        assert np.max(np.abs(off) / predicted) < limit


def test_what_weights_do_to_a_line_that_bends_is_allowed_for(monkeypatch):
    """Public people of flchain are older, and the slope of far people is .7 of that of others."""
    setting = Setting("linear", "flchain", "shifted", 30_000, (1.0,))
    off = np.abs(without_noise(setting).loc[1.0, ["male", "loglambda"]]).to_numpy()
    assert np.max(off) < 1.2
    monkeypatch.setattr(row_weights, "BENT", 0.0)
    assert np.max(np.abs(without_noise(setting).loc[1.0]["loglambda"])) > 1.4 * off[1]


@pytest.mark.parametrize(("name", "share"), [("hazard", 0.06), ("poisson", 0.02), ("linear", 0.01)])
def test_the_pull_to_the_public_fit_vanishes_with_weights(name, share, patients):
    """Ridges that cost as little noise as can be are .16, .03 and .008 of the curvature, and grow as weights vanish."""
    spec = MODELS[name](hdp.Study(public=patients[1], schema=SCHEMA))._spec
    query = spec.ask(epsilon=Fraction(1), records=200_000, share=Fraction(0), replicate=1)
    at = spec.side(query.model).moments(np.array(query.centre), records=200_000)
    assert float(query.ridge) < share * np.mean(np.diag(at.H))


def test_public_outcomes_tell_how_far_apart_people_are(patients):
    for name in ("linear", "huber", "logit"):
        assert MODELS[name](hdp.Study(public=patients[1], schema=SCHEMA))._spec.public.apart > 1.5 * APART
    covariates = patients[1].drop(columns=["event3", "lt"])
    for name in ("linear", "logit"):
        assert MODELS[name](hdp.Study(public=covariates, schema=SCHEMA))._spec.public.apart == APART


def test_outcomes_that_the_model_draws_hardly_raise_what_is_allowed(patients):
    """The contrast counts its own sampling error: few rows say little, and many rows under the model nothing."""
    rng = np.random.default_rng(30)
    for rows in (60, 600):
        scores, weights = rng.standard_normal((200, rows, 4)), rng.uniform(0.3, 1.0, (200, rows, 1))
        influences = scores / rows - weights * scores / np.sum(weights, axis=1, keepdims=True)
        M = 0.1 * np.eye(4)
        found = np.array([contrast_tau(each, M, unit=1.0) for each in influences])
        assert np.mean(found**2) < 2.0 * APART**2
        moved = np.array([contrast_tau(each + 0.05 / rows, M, unit=1.0) for each in influences])
        assert np.mean(moved) > np.mean(found)
    assert np.median(moved) > 2.0 * APART


@pytest.mark.wide
def test_what_caps_do_to_hazards_vanishes_and_is_within_what_is_allowed(found):
    sizes = [found("hazard", records=records, epsilon=3) for records in (2_000, 200_000, 20_000_000)]
    off = [np.max(np.abs(each)) for _, each, _ in sizes]
    assert off[1] < 0.5 * off[0]
    assert off[2] < 0.7 * off[1]
    caps = [model.cap for model, _, _ in sizes]
    assert [cap.total for cap in caps] == sorted({cap.total for cap in caps})
    assert all(cap.weighs for cap in caps)


@pytest.mark.wide
def test_plans_fall_with_epsilon_and_count_the_allowance(patients):
    model = MODELS["linear"](hdp.Study(public=patients[1], schema=SCHEMA))
    frame = model.plan(epsilon=[0.3, 1, 3, 10, 30], n=3000, mechanism="objective").frame
    for _, part in frame.groupby("term"):
        assert np.all(np.diff(part["std_error"]) < 1e-3 * part["std_error"].to_numpy()[:-1])


@pytest.mark.wide
def test_sites_of_unequal_size_are_asked_about_the_same_coefficients(patients):
    private, public = patients
    sites = {"a": private.iloc[:300], "b": private.iloc[300:]}
    study = hdp.Study(private=sites, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=4))
    for name in ("logit", "hazard"):
        result = MODELS[name](study).fit(epsilon={"a": 0.5, "b": 1.5})
        first, second = (query.model for _, query in result.query.sites)
        assert first == second
        assert result.query.sites[0][1].ridge != result.query.sites[1][1].ridge


def test_the_allowance_is_in_the_errors_and_is_told(patients):
    private, public = patients
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=2))
    result = MODELS["linear"](study).fit(epsilon=1)
    weights, own = result.facts.row_weights, result.private_only
    assert 0.05 < weights.share < 0.5
    assert np.all(np.array(weights.allowance) ** 2 < np.diag(own.privacy))
    assert np.allclose(result.cov_sampling + result.cov_privacy, result.cov_params())
    assert "Row weights:" in str(result.summary())
    assert "of the information; allowance up to" in result.methods_text()
    assert result.disclosure()["model"]["row_weights"]["share"] == weights.share
    again = hdp.Result.from_json(result.to_json()).facts.row_weights
    assert again == weights
    assert np.allclose(again.factor @ again.factor.T, np.array(weights.covariance))
    assert np.allclose(np.diag(weights.covariance), np.array(weights.allowance) ** 2)


def test_weights_without_public_outcomes_have_an_allowance(patients):
    private, public = patients
    alone = hdp.Study(private=private[:200], schema=SCHEMA, budget=hdp.Budget(epsilon=1))
    covariates = hdp.Study(public=public[["age", "nodes", "hormon", "size", "time"]], schema=SCHEMA)

    def allowed(model):
        spec = model._spec
        asked = spec.choose_model([Asked(records=200, epsilon=Fraction(1))], share=Fraction(0))
        found = spec.allowance(asked)
        return None if found is None else (found.share, np.sqrt(np.diag(found.covariance)))

    def logit(row_norm):
        return hdpf.logit("event3 ~ age + hormon", data=alone, row_norm=row_norm)

    def hazard(row_norm):
        return hdpf.hazard("Surv(time, event) ~ age + hormon", data=alone, row_norm=row_norm)

    for all_alike in (MODELS["hazard"](alone), logit(None), logit(2.0)):
        assert allowed(all_alike) is None
    for model in (logit, hazard):
        (few, less), (many, more) = (allowed(model(norm)) for norm in (0.9, 0.4))
        assert 0.0 < few < many < 1.0
        for sd in (less, more):
            assert np.all(sd[-2:] > 0.0)
            assert np.all(sd[-2:] < APART)  # of columns that are at most 1 in size
    share, sd = allowed(MODELS["hazard"](covariates))
    assert 0.02 < share < 0.5
    assert np.all(sd > 0.0)
    assert np.all(sd[-5:] < APART)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("name", MODELS)
def test_what_public_outcomes_tell_of_weights_is_computed_once(name, patients, monkeypatch):
    asked = []

    def counted(*args, **named):
        asked.append(name)
        return contrast_tau(*args, **named)

    for module in (moments, hazard_request):
        monkeypatch.setattr(module, "contrast_tau", counted)
    MODELS[name](hdp.Study(public=patients[1], schema=SCHEMA)).plan([0.5, 1.0], n=3000, describe=False)
    assert asked == [name]


def test_moments_of_levels_in_all_geometries_are_those_in_each(patients):
    study = hdp.Study(public=patients[1], schema=SCHEMA)
    public = hdpf.multinomial("size ~ age + nodes + hormon", data=study)._spec.public
    geometries = at_radii(public.geometry, middle=1.0, farthest=8.0)
    weights, together = mallows(public.lengths, geometries), public.at_radii(geometries, records=70)
    for place, geometry in enumerate(geometries):
        each = public.at_radius(geometry.radius).moments(public.centre, records=70)
        assert np.allclose(together.H[place], each.H, rtol=1e-9, atol=1e-9)
        assert np.allclose(together.J[place], each.J, rtol=1e-9, atol=1e-9)
        assert np.allclose(70 * public.with_weights(weights[[place]])[0], each.H, rtol=1e-9, atol=1e-9)


WITH_RIDGES = {
    "multinomial": lambda study: hdpf.multinomial("size ~ age + nodes", data=study),
    "output": lambda study: hdpf.linear("lt ~ age + nodes + hormon", data=study),
}


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize(("name", "limit"), [("multinomial", 1.0), ("output", 4.0)])
def test_the_pull_of_a_ridge_is_taken_out_with_curvature_of_described_people(name, limit, patients, monkeypatch):
    """Public people have more nodes: with their curvature as it is estimates are off by 16 and 32 standard errors."""
    known_noise.off(monkeypatch)
    everybody = patients[0]
    rng = np.random.default_rng(30)
    odds = np.exp((everybody["nodes"] - everybody["nodes"].mean()) / everybody["nodes"].std()).to_numpy()
    taken = rng.choice(len(everybody), 400, replace=False, p=odds / odds.sum())
    public, private = everybody.iloc[taken], everybody.drop(index=everybody.index[taken])
    ordinary = WITH_RIDGES[name](hdp.Study(public=private, schema=SCHEMA)).fit_public().params
    drawn = private.iloc[np.arange(30 * len(private)) % len(private)].reset_index(drop=True)
    study = hdp.Study(private=drawn, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
    options = {} if name == "multinomial" else {"mechanism": "output"}
    own = WITH_RIDGES[name](study).fit(epsilon=1, **options).private_only
    assert np.max(np.abs((own.params - ordinary) / own.bse)) < limit
