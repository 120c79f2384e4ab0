"""What is predicted of each mechanism, and which one a fit without a named one takes."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.spec import CLEARLY
from hdpstats.mechanisms.clipped_newton.clip import Clipping
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.papers.trials import eight_interval_trial
from hdpstats.public.row_weights import Allowance
from hdpstats.records.several import RoundsQuery, SitesQuery
from tests.support import FORMULA, SCHEMA, people

PUBLIC = people(300, seed=99)


def model_of(sizes, *, public=PUBLIC, formula=FORMULA, **options):
    frames = {name: people(rows, seed) for seed, (name, rows) in enumerate(sizes.items(), start=1)}
    private = next(iter(frames.values())) if len(frames) == 1 else frames
    budget = hdp.Budget(epsilon=50, delta=1e-4)
    return hdpf.logit(formula, data=hdp.Study(private=private, public=public, schema=SCHEMA, budget=budget, **options))


def mean_gain(plan):
    return float(np.mean((plan.frame["std_error"] / plan.frame["public_only"]) ** 2))


def named(plan):
    (name,) = set(plan.frame["mechanism"])
    return name


ONE, THREE = {"A": 3000}, {"A": 3000, "B": 1500, "C": 300}


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize(
    ("epsilon", "sizes", "delta"),
    [
        (0.1, ONE, 0),
        pytest.param(0.1, THREE, 1e-6, marks=pytest.mark.wide),
        (1.0, ONE, 1e-6),
        (1.0, THREE, 0),
        (10.0, ONE, 0),
        pytest.param(10.0, THREE, 1e-6, marks=pytest.mark.wide),
    ],
    ids=["weak", "weak, 3 sites, delta", "1, delta", "1, 3 sites", "strong", "strong, 3 sites, delta"],
)
def test_a_fit_takes_what_its_plan_names_and_that_is_the_better_one(sizes, delta, epsilon):
    model = model_of(sizes)
    rounds = hdp.mechanisms.ClippedNewton(rounds=3 if delta else 1)
    objective, gradient = (
        mean_gain(model.plan(epsilon, delta=delta, mechanism=mechanism)) for mechanism in ("objective", rounds)
    )
    chosen = named(model.plan(epsilon, delta=delta))
    assert chosen == ("clipped_newton" if delta and gradient < CLEARLY * objective else "objective")
    query = model.fit(epsilon, delta=delta).query
    first = query.sites[0][1] if isinstance(query, SitesQuery) else query
    assert isinstance(first, RoundsQuery if chosen == "clipped_newton" else ObjectiveQuery)


@pytest.mark.covering(1)
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [
        ("objective", 0),
        ("output", 0),
        ("output", 1e-6),
        ("clipped_newton", 1e-6),
        (hdp.mechanisms.ClippedNewton(rounds=1), 0),
        ("public_hessian", 0),
        ("public_hessian", 1e-6),
    ],
)
@pytest.mark.parametrize("sizes", [ONE, THREE], ids=["1 site", "3 sites"])
def test_a_plan_is_what_a_fit_reports(sizes, mechanism, delta):
    # Fails where a plan forgets a site's noise, or counts people of one site only. Releases are without noise, which
    # plans and reports count all the same: no chance.
    model = model_of(sizes)
    planned = model.plan(0.5, delta=delta, mechanism=mechanism, describe=False)
    reported = model.fit(0.5, delta=delta, mechanism=mechanism, describe=False)
    private = planned.frame["private_only"].to_numpy()
    assert np.median(reported.private_only.bse.to_numpy() / private) == pytest.approx(1.0, abs=0.06)
    # Fails where a plan leaves out what errors in the ridge's pull add, about 7 % for noise on the minimiser.
    sampling = np.sqrt(np.diag(reported.private_only.sampling))
    assert np.median(sampling / planned.frame["sampling"].to_numpy()) == pytest.approx(1.0, abs=0.06)
    pooled = planned.frame["std_error"].to_numpy()
    assert np.median(reported.bse.to_numpy() / pooled) == pytest.approx(1.0, abs=0.1)
    noise = np.sqrt(np.diag(reported.private_only.privacy))
    assert np.median(noise / planned.frame["privacy"].to_numpy()) == pytest.approx(1.0, abs=0.06)
    assert np.all(planned.frame["reported"])


@pytest.mark.covering(cases=1)
def test_a_plan_counts_what_curvature_of_other_outcomes_misses_as_a_fit_does():
    # Fails where a plan takes the whole distance that was pulled for what is left of it: errors twice as large.
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(1500, 3)).clip(-3, 3), columns=["a", "b", "c"])
    frame["y"] = (0.5 * frame["a"] + rng.normal(size=1500)).clip(-5, 5)
    bounds = {name: hdp.Continuous(-3, 3, complete=True) for name in "abc"}
    schema = hdp.Schema(**bounds, y=hdp.Continuous(-5, 5, complete=True))
    study = hdp.Study(private=frame[500:], public=frame[:500], schema=schema, budget=hdp.Budget(epsilon=1))
    model = hdpf.quantile("y ~ a + b + c", study)
    planned = model.plan(0.1, mechanism="objective", describe=False).frame["private_only"].to_numpy()
    asked = [0.1 + 1e-4 * k for k in range(4)]  # questions of their own, so that each has a draw
    fits = [model.fit(epsilon, mechanism="objective", describe=False) for epsilon in asked]
    reported = [fit.private_only.bse.to_numpy() for fit in fits]
    assert np.median(np.mean(reported, axis=0) / planned) == pytest.approx(1.0, abs=0.15)


def negative_binomial(rows, seed):
    """Return counts that vary more than Poisson ones, and the more the larger they are."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows).clip(-3, 3)
    rate = np.exp(0.8 + 0.4 * x) * rng.gamma(0.8, 1.25, rows)
    return pd.DataFrame({"x": x, "count": rng.poisson(rate).clip(0, 60).astype(float)})


@pytest.mark.covering(cases=1)
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("fit", "rounds"), [(hdpf.poisson, 1), (hdpf.poisson, 3), (hdpf.linear, 1)])
def test_a_plan_is_what_a_fit_reports_where_outcomes_are_unlike_their_model(fit, rounds):
    # Clipped scores then lead to other coefficients than those of the ordinary fit, and errors are reported there.
    study = hdp.Study(
        private=negative_binomial(6000, 1),
        public=negative_binomial(1500, 2),
        schema=hdp.Schema(x=hdp.Continuous(-3, 3, complete=True), count=hdp.Continuous(0, 60, complete=True)),
        budget=hdp.Budget(epsilon=50, delta=1e-4),
    )
    model = fit("count ~ x", study)
    options = {"mechanism": hdp.mechanisms.ClippedNewton(rounds=rounds), "delta": 1e-6 if rounds > 1 else 0}
    options["describe"] = False
    planned = model.plan(1.0, **options).frame["std_error"]
    reported = model.fit(1.0, **options).bse.to_numpy()
    assert np.exp(np.mean(np.log(planned / reported))) == pytest.approx(1.0, abs=0.1)


@pytest.mark.wide
def test_a_draw_at_a_temperature_is_planned_from_its_own_constants():
    model = model_of({"A": 1000})
    planned = model.plan(1.0, delta=1e-4, mechanism="exponential")
    reported = model.fit(1.0, delta=1e-4, mechanism="exponential")
    noise = np.sqrt(np.diag(reported.private_only.privacy))
    assert np.median(noise / planned.frame["privacy"].to_numpy()) == pytest.approx(1.0, abs=0.15)
    assert named(planned) == "exponential"


@pytest.mark.wide
def test_rows_at_several_sites_are_planned_to_be_worth_less_than_at_one():
    whole, apart = (model_of(sizes) for sizes in ({"A": 4000}, dict.fromkeys("ABCD", 1000)))
    for options in ({"mechanism": "objective"}, {"mechanism": "clipped_newton", "delta": 1e-6}):
        one, four = (model.plan(1.0, **options).frame for model in (whole, apart))
        assert np.median(four["privacy"] / one["privacy"]) == pytest.approx(2.0, rel=0.2)
        assert np.median(four["sampling"] / one["sampling"]) == pytest.approx(1.0, rel=0.1)


@pytest.mark.wide
def test_a_small_site_never_makes_a_plan_worse():
    for options in ({"mechanism": "objective"}, {"mechanism": "clipped_newton", "delta": 1e-6}):
        alone = mean_gain(model_of(ONE).plan(0.5, **options))
        with_small = mean_gain(model_of(ONE | {"B": 10}).plan(0.5, **options))
        assert 0.97 * alone < with_small < 1.001 * alone


def test_a_plan_depends_on_no_private_row():
    others = {name: people(rows, seed + 50).assign(y=1.0, x=3.0) for seed, (name, rows) in enumerate(THREE.items())}
    budget = hdp.Budget(epsilon=50, delta=1e-4)
    other = hdpf.logit(FORMULA, data=hdp.Study(private=others, public=PUBLIC, schema=SCHEMA, budget=budget))
    for options in ({}, {"delta": 1e-6}, {"delta": 1e-6, "mechanism": "clipped_newton"}):
        pd.testing.assert_frame_equal(other.plan(1.0, **options).frame, model_of(THREE).plan(1.0, **options).frame)


@pytest.mark.wide
def test_too_few_public_people_leave_objective_perturbation():
    few = model_of(THREE, public=PUBLIC.iloc[:59])  # 5 coefficients, 12 each
    assert named(few.plan(0.1, delta=1e-6)) == "objective"
    with pytest.raises(hdp.MechanismError, match="12 complete public people per coefficient"):
        few.plan(0.1, delta=1e-6, mechanism="clipped_newton")
    assert named(model_of(THREE, public=None).plan(0.1, delta=1e-6)) == "objective"


def test_a_number_of_people_is_of_one_site():
    one, three = (model_of(sizes).plan(1.0, n=4800, mechanism="objective") for sizes in (ONE, THREE))
    assert one.records == three.records == 4800
    pd.testing.assert_frame_equal(one.frame, three.frame)
    assert model_of(THREE).plan(1.0).records == 4800


def test_a_histogram_is_planned_from_public_rows():
    model = model_of(ONE, formula="y ~ g", public=people(1000, seed=98))
    planned = model.plan(1.0, mechanism="histogram").frame["std_error"].to_numpy()
    reported = model.fit(1.0, mechanism="histogram").bse.to_numpy()
    assert np.median(reported / planned) == pytest.approx(1.0, abs=0.15)
    with pytest.raises(hdp.MechanismError, match="predicted from public rows with all of its columns"):
        model_of(ONE, formula="y ~ g", public=None).plan(1.0, mechanism="histogram")


def test_what_cannot_be_predicted_says_so():
    with pytest.raises(hdp.MechanismError, match="needs a delta"):
        model_of(ONE).plan(1.0, mechanism="clipped_newton")


@pytest.mark.wide
def test_hazards_take_rounds_with_a_delta():
    trial = eight_interval_trial(3200, seed=5)
    public, private = trial.frame.iloc[:200], trial.frame.iloc[200:]
    budget = hdp.Budget(epsilon=20, delta=1e-4)

    def hazard(private):
        study = hdp.Study(private=private, public=public, schema=trial.schema, budget=budget)
        return hdpf.hazard(trial.formula, study, intervals=8, baseline="dummies")

    one, several = hazard(private), hazard({"A": private.iloc[:2000], "B": private.iloc[2000:]})
    assert named(one.plan(1.0, delta=1e-6)) == "clipped_newton"
    assert named(one.plan(1.0)) == named(several.plan(1.0)) == "objective"
    assert named(several.plan(1.0, delta=1e-6)) == "clipped_newton"


def test_the_noise_of_a_protected_number_is_planned_for(monkeypatch):
    monkeypatch.setattr(Clipping, "allowance", lambda self, *_: Allowance(share=0.0, covariance=np.zeros((5, 5))))
    rounds = hdp.mechanisms.ClippedNewton(clip_quantile=0.95)
    open_, protected = (
        model_of(ONE, **options).plan(1.0, delta=1e-6, mechanism=rounds, n=3000).frame
        for options in ({}, {"relation": "add_or_remove_one", "n_max": 5000})
    )
    # Half the sensitivity, 49/50 of epsilon, and the noise of the number.
    ratio = np.median(protected["privacy"] / open_["privacy"])
    assert 0.5 < ratio < 0.6


@pytest.mark.wide
def test_sites_may_be_planned_to_spend_differently():
    model = model_of(THREE)
    frugal, same = {"A": 0.2, "B": 1.0, "C": 1.0}, dict.fromkeys("ABC", 1.0)
    for options in ({"mechanism": "objective"}, {"mechanism": "clipped_newton", "delta": 1e-6}):
        one = model.plan(1.0, **options)
        pd.testing.assert_frame_equal(model.plan(same, **options).frame, one.frame)
        assert mean_gain(model.plan(frugal, **options)) > 1.1 * mean_gain(one)
    query = model.fit(frugal, delta=1e-6).query.sites[0][1]
    kind = {"objective": ObjectiveQuery, "clipped_newton": RoundsQuery}[named(model.plan(frugal, delta=1e-6))]
    assert isinstance(query, kind)
    for wrong, n in (({"A": 1.0}, None), (same, 4000)):
        with pytest.raises(hdp.ArgumentError, match="epsilon must be a number"):
            model.plan(wrong, n=n)
