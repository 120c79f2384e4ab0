"""Weights of public rows that are calibrated to a description: what they then have, what is refused, what stays."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

SCHEMA = hdp.Schema(
    x=hdp.Continuous(0, 10, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    b=hdp.Binary(complete=True),
    z=hdp.Continuous(-5, 5, complete=True),
)
COLUMNS = ["x", "g", "b"]


def rows(n: int, seed: int, shift: float) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = (4.0 + shift + 2.0 * rng.normal(size=n)).clip(0, 10)
    g = rng.choice(list("abc"), n, p=[0.5 - 0.2 * shift, 0.3, 0.2 + 0.2 * shift])
    b = (rng.random(n) < 0.3 + 0.3 * shift).astype(float)
    return pd.DataFrame({"x": x, "g": g, "b": b, "z": (0.5 * (x - 4) + rng.normal(size=n)).clip(-5, 5)})


PRIVATE, PUBLIC = rows(3000, 0, 1.0), rows(400, 1, 0.0)


@pytest.fixture(scope="module")
def study() -> hdp.Study:
    return hdp.Study(private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=1000))


@pytest.fixture(scope="module")
def cohort(study: hdp.Study) -> hdp.Description:
    return hdp.describe(study, COLUMNS, complete=True, epsilon=20)


WAYS = {
    "importance": lambda study, **more: hdp.importance_weights(study, "~ x + g + b", epsilon=1, **more),
    "hybrid": lambda study, **more: hdp.hybrid_weights(study, COLUMNS, epsilon=1, **more),
}


@pytest.mark.parametrize("way", WAYS)
def test_weighted_rows_have_the_described_averages(way: str, study: hdp.Study, cohort: hdp.Description) -> None:
    before, after = WAYS[way](study), WAYS[way](study, description=cohort)
    assert before.weights.sum() == pytest.approx(after.weights.sum())
    assert after.mean("x").estimate == pytest.approx(PRIVATE["x"].mean(), abs=0.02)
    assert after.mean("b").estimate == pytest.approx(PRIVATE["b"].mean(), abs=0.02)
    assert after.mean(lambda d: d["g"] == "c").estimate == pytest.approx((PRIVATE["g"] == "c").mean(), abs=0.02)
    squares = after.mean(lambda d: (d["x"] - 5) ** 2).estimate
    assert squares == pytest.approx(((PRIVATE["x"] - 5) ** 2).mean(), rel=0.05)
    table = after.balance().set_index("feature")
    assert table.loc["x", "uncalibrated"] == pytest.approx(before.mean("x").estimate)
    assert "uncalibrated" not in before.balance()
    again = hdp.WeightedSample.from_json(after.to_json())
    np.testing.assert_allclose(again.weights, after.weights, rtol=1e-9)
    assert again.mean("x") == after.mean("x")
    assert "calibrated to the described" in str(after.summary())


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("way", WAYS)
def test_a_sample_and_its_fits_state_what_the_description_cost(way: str) -> None:
    study = hdp.Study(private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=9))
    cohort = hdp.describe(study, COLUMNS, complete=True, epsilon=2)
    sample = WAYS[way](study, description=cohort)
    assert study.ledger.spent.epsilon == sample.guarantee.epsilon == 3
    fit = sample.fit(hdpf.logit, "b ~ x")
    words = "3-differential privacy (pure) in all: 1 for the weights, 2 for the description it rests on"
    samples = [sample, hdp.WeightedSample.from_json(sample.to_json())]
    for each in (*samples, fit, hdp.Result.from_json(fit.to_json())):
        assert str(each.guarantee) == words
        assert words in " ".join(str(each.summary()).split())
        record = each.disclosure()
        assert record["privacy_loss"]["epsilon"] == 3
        assert len(record["privacy_loss"]["parts"]) == 2
        assert sum(Fraction(event["epsilon"]) for event in record["accounting"]["events"]) == 3
        assert record["description"]["epsilon"] == {"private": "2"}
    text = fit.methods_text()
    assert "epsilon = 3 in all: 1 for the weights, 2 for the description it rests on" in text
    assert "Weights of public rows were calibrated to noisy averages of x, g, b among the private people" in text


def test_errors_are_those_of_the_averages_where_these_say_it_all(study: hdp.Study, cohort: hdp.Description) -> None:
    after = WAYS["importance"](study, description=cohort)
    own = PRIVATE["x"].std() / len(PRIVATE) ** 0.5
    assert own < after.mean("x").std_error < 1.5 * own
    other = after.mean("z")  # described by none of them: the noise of the weights counts too
    assert other.std_error > 1.2 * PRIVATE["z"].std() / len(PRIVATE) ** 0.5


def test_draws_agree_with_the_covariance(study: hdp.Study, cohort: hdp.Description) -> None:
    distribution = WAYS["importance"](study, description=cohort).distribution
    values = PUBLIC["x"].to_numpy()
    share = distribution.weights / distribution.weights.sum()
    residual = ((values - share @ values) / distribution.weights.sum())[:, None]
    sampling, privacy = distribution.covariance(residual)
    drawn = np.std(distribution.draws(400) @ residual)
    assert drawn == pytest.approx(float(np.sqrt(sampling[0, 0] + privacy[0, 0])), rel=0.25)


def test_an_average_beyond_all_rows_leaves_weights_that_exist(cohort: hdp.Description) -> None:
    near = PUBLIC.assign(x=PUBLIC["x"].clip(0, 4))
    study = hdp.Study(private=PRIVATE, public=near, schema=SCHEMA, budget=hdp.Budget(epsilon=100))
    described = hdp.describe(study, COLUMNS, complete=True, epsilon=20)
    after = WAYS["importance"](study, description=described)
    assert np.isfinite(after.weights).all()
    assert after.mean("x").estimate <= 4.0 < PRIVATE["x"].mean()


@pytest.mark.parametrize("way", WAYS)
def test_a_description_of_other_people_is_refused_before_a_charge(way: str, study: hdp.Study) -> None:
    grouped = hdp.describe(study, ["x", "b"], by="g", epsilon=5)
    other = hdp.Study(private=PRIVATE, public=PUBLIC, schema=hdp.Schema(x=SCHEMA["x"]), budget=hdp.Budget(epsilon=9))
    foreign = hdp.describe(other, ["x"], complete=True, epsilon=5)
    spent = [ledger.spent for ledger in study.ledgers.values()]
    for wrong in (grouped, foreign, "cohort", hdp.describe(study, COLUMNS)):
        with pytest.raises(hdp.ArgumentError, match="description must"):
            WAYS[way](study, description=wrong)
    assert [ledger.spent for ledger in study.ledgers.values()] == spent
