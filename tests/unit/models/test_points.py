"""Fits by output perturbation and with normal noise: what is asked, charged, said and estimated; hazards and logit."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.perturbation import ObjectiveQuery, OutputQuery, OutputRelease
from hdpstats.privacy.budget import MechanismName
from tests.support import CORNERS, people, replaced
from tests.support import SCHEMA as CELLS

pytestmark = pytest.mark.usefixtures("few_draws")

SCHEMA = hdp.Schema(
    a=hdp.Continuous(-4, 4, complete=True),
    b=hdp.Continuous(-4, 4, complete=True),
    y=hdp.Binary(complete=True),
    time=hdp.Duration(5, unit="years", complete=True),
    dead=hdp.Binary(complete=True),
)
BETA = np.array([0.7, -0.4])


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)).clip(-4, 4)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - X @ BETA))).astype(float)
    time = rng.exponential(6.0 * np.exp(-X @ BETA))
    end = np.minimum(time, rng.uniform(0.0, 8.0, n))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "time": end, "dead": (time <= end).astype(float)})


def study(n=3000, *, public=300, delta=0.5, **options):
    return hdp.Study(
        private=frame(n),
        public=frame(public, seed=1) if public else None,
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=100, delta=delta),
        **options,
    )


def logit(data):
    return hdpf.logit("y ~ a + b", data=data)


def hazard(data):
    return hdpf.hazard("Surv(time, dead) ~ a + b", data=data, intervals=5)


@pytest.mark.parametrize("model", [logit, hazard])
@pytest.mark.parametrize("public", [300, 0])
def test_output_perturbation_is_fitted(model, public):
    data = study(public=public)
    result = model(data).fit(epsilon=2.0, mechanism="output", se_share=0)
    assert isinstance(result.query, OutputQuery)
    assert isinstance(result.release, OutputRelease)
    assert [event.ran for event in result.release.events] == [MechanismName.OUTPUT]
    assert result.facts.method.startswith("output perturbation, ")
    assert (result.guarantee.epsilon, result.guarantee.delta) == (2, 0)
    assert data.ledger.spent.epsilon == 2
    assert np.all(np.isfinite(result.params))
    assert result.bse.isna().all() == (public == 0)
    # The same call again is the same release.
    assert (
        model(data).fit(epsilon=2.0, mechanism=hdp.mechanisms.OutputPerturbation(), se_share=0).release
        == result.release
    )
    assert data.ledger.spent.epsilon == 2


@pytest.mark.usefixtures("no_noise")
def test_estimates_are_near_the_truth_and_say_how_near():
    result = logit(study(20_000)).fit(epsilon=2.0, mechanism="output")
    z = (result.params[["a", "b"]] - BETA) / result.bse[["a", "b"]]
    assert np.all(np.abs(z) < 5.0)
    assert np.all(result.bse < 0.15)
    assert result.private_only is not None
    assert np.all(np.diag(result.private_only.cov_privacy) > 0.0)


@pytest.mark.usefixtures("no_noise")
def test_a_noisy_hessian_gives_standard_errors_without_public_rows():
    options = hdp.mechanisms.OutputPerturbation(se_share=0.3)
    result = logit(study(20_000, public=0)).fit(epsilon=5.0, mechanism=options)
    assert [event.ran for event in result.release.events] == [MechanismName.OUTPUT, MechanismName.HESSIAN]
    assert result.guarantee.epsilon == 5
    z = (result.params[["a", "b"]] - BETA) / result.bse[["a", "b"]]
    assert np.all(np.abs(z) < 5.0)


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("mechanism", ["output", "objective"])
def test_a_delta_is_spent_where_normal_noise_is_smaller(mechanism):
    data = study()
    tight = logit(data).fit(epsilon=1.0, delta=1e-6, mechanism=mechanism)
    assert (tight.guarantee.delta, tight.query.delta, tight.release.noise_sd) == (0, 0, 0)
    loose = logit(data).fit(epsilon=1.0, delta=0.1, mechanism=mechanism)
    assert loose.guarantee.delta == loose.query.delta == Fraction(1, 10)
    assert loose.release.noise_sd > 0 == loose.release.noise_rate
    ran = MechanismName.GAUSSIAN_OUTPUT if mechanism == "output" else MechanismName.GAUSSIAN_OBJECTIVE
    assert loose.release.events[0].ran is ran
    assert "with normal noise" in loose.facts.method
    assert np.all(loose.bse.notna())
    assert "0.1" in loose.guarantee.statement()


@pytest.mark.wide
def test_normal_noise_is_taken_for_hazards_too():
    result = hazard(study()).fit(epsilon=1.0, delta=0.1, mechanism="output")
    assert result.query.delta == Fraction(1, 10)
    other = hazard(study()).fit(epsilon=1.0, delta=0.2, mechanism="objective")
    assert isinstance(other.query, ObjectiveQuery)
    assert other.guarantee.delta in (0, Fraction(1, 5))


@pytest.mark.parametrize("mechanism", ["output", "objective"])
def test_where_people_are_protected_by_number_the_count_is_released_first(mechanism):
    data = study(relation="add_or_remove_one", n_max=4000)
    result = logit(data).fit(epsilon=1.0, delta=0.1, mechanism=mechanism)
    assert result.count is not None
    assert result.guarantee.epsilon == 1
    assert result.guarantee.delta == Fraction(1, 10)


def test_se_share_belongs_to_the_object_for_output():
    with pytest.raises(hdp.ArgumentError, match="se_share"):
        logit(study()).fit(epsilon=1.0, mechanism="output", se_share=0.2)


@pytest.mark.covering(1)
@pytest.mark.parametrize("mechanism", ["output", "exponential", "objective"])
@pytest.mark.parametrize("cell", ["nan", "1e308", "text", "evil", "beyond float", "None", "5e-324"])
def test_hostile_cells_show_nothing(mechanism, cell):
    private = replaced(people(80), ["x", "y"], CORNERS.get(cell, "ZZZ"))
    budget = hdp.Budget(epsilon=10, delta=0.9)
    data = hdp.Study(private=private, public=people(60, seed=1), schema=CELLS, budget=budget)
    result = hdpf.logit("y ~ x", data=data).fit(epsilon=1.0, delta=0.4, mechanism=mechanism)
    assert np.all(np.isfinite(result.params))
    assert np.all(np.isfinite(result.bse))


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize(
    ("mechanism", "delta"), [("output", 0), ("output", 0.1), ("exponential", 0.1), ("objective", 0.1)]
)
def test_results_are_written_and_read(mechanism, delta):
    result = logit(study(500)).fit(epsilon=1.0, delta=delta, mechanism=mechanism)
    back = hdp.Result.from_json(result.to_json())
    assert back.query == result.query
    assert back.params.equals(result.params)
    assert str(back.summary()) == str(result.summary())
    assert str(result.disclosure())
