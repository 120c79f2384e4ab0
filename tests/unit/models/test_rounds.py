"""What fits and plans by clipped scores say of what they rest on, as those by objective perturbation do."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference import sandwich
from hdpstats.mechanisms.clipped_newton import ClippedNewton
from hdpstats.models.model import predict
from hdpstats.models.request import fit_request
from hdpstats.noise import RoundedNormal

SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x1=hdp.Continuous(-3, 3, complete=True),
    x2=hdp.Continuous(-3, 3, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    start=hdp.Duration(6, unit="years", complete=True),
    time=hdp.Duration(6, unit="years", complete=True),
    event=hdp.Binary(complete=True),
)
ROUNDS = {"delta": 1e-6, "mechanism": "clipped_newton"}
NOT_RELEASED = "Correlations of private covariates were not released."
NOT_ESTIMABLE = "Not estimable: g[T.b]. Private people are predicted to tell less than a few persons"


def people(rows, seed, *, rare=0.3):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.multivariate_normal([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], rows), -3, 3)
    eta = X @ [0.5, -0.4] - 0.3
    start = rng.integers(0, 3, rows).astype(float)
    time = np.minimum(start + rng.geometric(expit(eta - 1.2)), 6.0)
    return pd.DataFrame(
        {
            "y": (rng.random(rows) < expit(eta)).astype(int),
            "x1": X[:, 0],
            "x2": X[:, 1],
            "g": rng.choice(["a", "b", "c"], rows, p=[0.8 - rare, rare, 0.2]),
            "start": start,
            "time": time,
            "event": (time < 6).astype(int),
        }
    )


def study_of(*sizes, rare=0.3, public=None):
    private = {f"site {k}": people(rows, k, rare=rare) for k, rows in enumerate(sizes)}
    public = people(400, 99, rare=rare) if public is None else public
    return hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=60, delta=1e-3))


def logit(study, formula="y ~ x1 + x2"):
    return hdpf.logit(formula, study)


def late(study):
    return hdpf.hazard("Surv(start, time, event) ~ x1 + x2", study, intervals=6)


def growths(note):
    """Return by which factor errors would be larger, as a note says it in percent."""
    return {name: 1.0 + float(size) / 100.0 for size, name in re.findall(r"(\d+) % \(([^)]*)\)", note)}


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (lambda: logit(study_of(100, 100)), {}),
        (lambda: logit(study_of(3000)), {"describe": False}),
        (lambda: hdpf.multinomial("g ~ x1 + x2", study_of(1000)), {"describe": False}),
        (lambda: late(study_of(1000)), {}),
    ],
)
def test_how_far_errors_would_go_with_other_correlations_is_said_as_of_objective_perturbation(model, options):
    ours = model().fit(epsilon=1, **ROUNDS, **options)
    others = model().fit(epsilon=1, **options)
    said, expected = growths(ours.pooled.note), growths(others.pooled.note)
    assert NOT_RELEASED in ours.pooled.note
    assert NOT_RELEASED in ours.private_only.note
    assert said.keys() == expected.keys()
    assert [said[name] for name in said] == pytest.approx([expected[name] for name in said], rel=0.15)


@pytest.mark.usefixtures("no_noise")
def test_nothing_is_said_of_other_correlations_where_all_sites_released_theirs():
    alone = logit(study_of(3000)).fit(epsilon=1, **ROUNDS)
    assert "and correlations of the private covariates" in alone.pooled.note
    assert NOT_RELEASED not in alone.pooled.note
    assert NOT_RELEASED in logit(study_of(3000, 100)).fit(epsilon=1, **ROUNDS).pooled.note


@pytest.mark.usefixtures("no_noise")
def test_the_summary_says_what_pooling_takes_from_the_public_fit():
    little, much = (logit(study_of(n)).fit(epsilon=e, **ROUNDS) for n, e in ((200, 1), (20_000, 3)))
    assert "Pooled coefficients have these shares of their information from the public fit: " in little.pooled.note
    assert "Pooled coefficients have" not in little.private_only.note
    assert "Pooled coefficients have" not in much.pooled.note


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("deviations", [0, 3])
@pytest.mark.parametrize("sizes", [(300,), (220, 220)])
def test_a_slope_about_which_people_tell_too_little_is_named_whatever_the_noise(monkeypatch, sizes, deviations):
    monkeypatch.setattr(RoundedNormal, "draw", lambda self: (int(deviations * self.sd / self.grid),) * self.dimension)
    found = logit(study_of(*sizes, rare=0.02), "y ~ x1 + g").fit(epsilon=0.3, describe=False, **ROUNDS)
    for numbers in (found.private_only.params, found.private_only.bse):
        assert numbers.isna().tolist() == [False, False, True, False]
    assert NOT_ESTIMABLE in found.private_only.note
    assert found.pooled.bse.isna().tolist() == [False, False, True, False]
    assert "Not estimable: g[T.b]. Private people and the public fit together" in found.pooled.note
    assert [each.df for each in found.disagreement.by_term] == [1, 1, 0, 1]


@pytest.mark.usefixtures("no_noise")
def test_with_more_people_the_same_slope_is_estimated():
    found = logit(study_of(3000, rare=0.02), "y ~ x1 + g").fit(epsilon=3, describe=False, **ROUNDS)
    assert not found.private_only.bse.isna().any()
    assert "Not estimable" not in found.private_only.note


@pytest.mark.usefixtures("no_noise")
@pytest.mark.filterwarnings("ignore:public rows alone")
def test_a_level_that_public_rows_lack_is_estimated_where_private_people_tell_it():
    public = people(400, 99)
    without = public.assign(g=public["g"].replace("b", "a"))
    few, many = (
        logit(study_of(n, public=without), "y ~ x1 + g").fit(epsilon=e, describe=False, **ROUNDS)
        for n, e in ((60, 0.1), (3000, 3))
    )
    assert few.pooled.bse.isna().tolist() == [False, False, True, False]
    assert "Public rows say nothing of g[T.b]" in few.pooled.note
    assert not many.pooled.bse.isna().any()
    plan = logit(study_of(60, public=without), "y ~ x1 + g").plan(0.1, describe=False, **ROUNDS)
    assert plan.frame["std_error"].isna().tolist() == [False, False, True, False]


def test_a_plan_knows_the_slopes_that_a_fit_will_not_tell():
    model = logit(study_of(300, rare=0.02), "y ~ x1 + g")
    for epsilon, unknown in ((0.3, (2,)), (50, ())):
        asked = fit_request(epsilon, 1e-6, "clipped_newton", describe=False)
        assert predict(model._spec, asked, {"site 0": 300}).unknown == unknown


def test_plans_leave_out_errors_that_are_too_large_to_be_reported(monkeypatch):
    model = logit(study_of(300))
    whole = model.plan(0.3, describe=False, **ROUNDS).frame["std_error"]
    asked = fit_request(0.3, 1e-6, "clipped_newton", describe=False)
    before = predict(model._spec, asked, {"site 0": 300}).errors.against_public
    monkeypatch.setattr(sandwich, "MOST", 0.05)
    for mechanism in ("clipped_newton", "objective"):
        plan = model.plan(0.3, describe=False, delta=1e-6, mechanism=mechanism)
        assert plan.frame["std_error"].isna().tolist() == [False, True, True]
    assert model.plan(0.3, describe=False, **ROUNDS).frame["std_error"][0] == whole[0]
    # Which mechanism is chosen does not depend on what is reported.
    assert predict(model._spec, asked, {"site 0": 300}).errors.against_public == before


@pytest.mark.usefixtures("no_noise", "few_draws")
def test_late_entry_is_said_to_be_taken_as_in_public_rows_and_what_that_covered():
    model = late(study_of(1000, 500))
    said = f"covered about {100 * model._spec.covered_unlike('as public').share:.0f} % of the slopes."
    note = model.fit(epsilon=1, **ROUNDS).pooled.note
    assert (
        "in how long they are followed. In simulations of hazard models (logit) with late entry by clipped scores"
        in note
    )
    assert said in note
    followed = {"delta": 1e-6, "mechanism": ClippedNewton(censoring="administrative")}
    assert "In simulations" not in model.fit(epsilon=1, **followed).pooled.note
    entry_at_0 = hdpf.hazard("Surv(time, event) ~ x1 + x2", study_of(1000), intervals=6)
    assert "In simulations" not in entry_at_0.fit(epsilon=1, describe=False, **ROUNDS).pooled.note
