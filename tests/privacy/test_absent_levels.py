"""A level that public rows lack: what a query says of it, what one person with it can change, and what is reported."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit.density import k_norm
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.schema.public import PublicTable

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-3, 3, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    y=hdp.Binary(complete=True),
)

TIMES = hdp.Schema(
    x=hdp.Continuous(-3, 3, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    time=hdp.Duration(5, complete=True),
    event=hdp.Binary(complete=True),
)
LEVELS = hdp.Schema(
    x=hdp.Continuous(-3, 3, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    k=hdp.Categorical(["one", "two"], complete=True),
)


def rows(n: int, seed: int, levels: str) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n).clip(-3, 3), "g": rng.choice(list(levels), n)})
    eta = 0.5 * frame["x"] + 0.8 * (frame["g"] == "c")
    return frame.assign(y=(rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float))


def model(private: pd.DataFrame, public: pd.DataFrame) -> hdp.Logit:
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=200))
    return hdpf.logit("y ~ x + g", data=study)


def fit(private: pd.DataFrame, epsilon: float, **more: object) -> hdp.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return model(private, rows(300, 1, "ab")).fit(epsilon, **more)


def test_one_person_with_the_level_moves_the_score_and_the_curvature_by_no_more_than_is_claimed() -> None:
    private, public = rows(400, 0, "abc"), rows(300, 1, "ab")
    spec = model(private, public)._spec
    query = spec.ask(epsilon=Fraction(1), records=400, share=Fraction(0), replicate=1)
    person_loss = spec.person_loss(query.model)
    claimed = 1.0  # of a logistic score with a weight of at most 1, in the norm of the noise
    worst = leverage = 0.0
    frame = pd.DataFrame(
        [(x, g, y) for x in (-3.0, 0.0, 3.0) for g in "abc" for y in (0.0, 1.0)], columns=["x", "g", "y"]
    )
    table = PublicTable.from_frame(frame, SCHEMA).admitted(["x", "g", "y"])
    people = person_loss.people(table)
    for theta in np.random.default_rng(2).normal(0.0, 30.0, (50, len(query.centre))):
        eta = people.X @ theta
        scores = (people.weights * people.loss.score(eta, people.y))[:, None] * people.X
        worst = max(worst, *(k_norm(each, person_loss.norm) for each in scores))
    leverage = float(np.max(people.weights * np.sum(people.X**2, axis=1)))
    # Both bounds hold, and the row with the level comes near them: a weight of 1, or a larger radius, would break them.
    assert 0.9 * claimed < worst <= claimed * (1 + 1e-12)
    assert 0.5 * query.model.geometry.leverage < leverage <= query.model.geometry.leverage * (1 + 1e-12)
    unweighted = max(k_norm(each, person_loss.norm) for each in people.X)
    assert unweighted > 1.2 * claimed
    constants = perturbation.calibrate_objective(query, person_loss, records=400)
    assert float(constants.noise_rate) * 2 * claimed <= 1.0


def test_the_query_does_not_depend_on_who_has_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    private = rows(400, 0, "ab")
    one = private.copy()
    one.loc[7, "g"] = "c"
    public = rows(300, 1, "ab")
    asked = {
        model(each, public)._spec.ask(epsilon=Fraction(1), records=400, share=Fraction(0), replicate=1).to_json()
        for each in (private, one)
    }
    assert len(asked) == 1


def test_private_people_determine_the_level() -> None:
    private = rows(4000, 3, "aaabbbc")
    truth = hdpf.logit("y ~ x + g", data=hdp.Study(public=private, schema=SCHEMA)).fit_public()
    result = fit(private, 20.0)
    assert np.isnan(result.public_only.params["g[T.c]"])
    assert result.facts.public_rows == 300
    for estimate in (result.private_only, result.pooled):
        assert abs(estimate.params["g[T.c]"] - truth.params["g[T.c]"]) < 6 * estimate.bse["g[T.c]"] < 3.0
    assert result.penalised.bse["g[T.c]"] > 10.0


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_private_people_determine_the_level_in_a_hazard(link: str) -> None:
    def followed(n: int, seed: int, levels: str) -> pd.DataFrame:
        frame = rows(n, seed, levels)
        rate = 0.15 * np.exp(0.4 * frame["x"] + 0.8 * (frame["g"] == "c"))
        time = np.random.default_rng(seed).exponential(1 / rate)
        return frame.drop(columns="y").assign(time=time.clip(0, 5), event=(time < 5).astype(float))

    def of(**data: pd.DataFrame) -> hdp.DiscreteHazard:
        study = hdp.Study(schema=TIMES, **data, **({"budget": hdp.Budget(epsilon=100)} if "private" in data else {}))
        return hdpf.hazard("Surv(time, event) ~ x + g", study, intervals=5, df=2, link=link)

    private = followed(4000, 3, "aaabbbc")
    truth = of(public=private).fit_public().params["g[T.c]"]
    with pytest.warns(RuntimeWarning, match=r"NaN: g\[T.c\]"):
        result = of(private=private, public=followed(300, 1, "ab")).fit(20.0)
    assert result.facts.public_rows == 300
    for estimate in (result.private_only, result.pooled):
        assert abs(estimate.params["g[T.c]"] - truth) < 6 * estimate.bse["g[T.c]"] < 3.0


def test_private_people_determine_the_level_of_a_multinomial_model() -> None:
    private, public = (
        rows(n, seed, levels).drop(columns="y") for n, seed, levels in ((4000, 3, "aabbc"), (300, 1, "ab"))
    )
    for frame in (private, public):
        frame["k"] = np.where(np.random.default_rng(len(frame)).random(len(frame)) < 0.4, "one", "two")
    study = hdp.Study(private=private, public=public, schema=LEVELS, budget=hdp.Budget(epsilon=100))
    with pytest.warns(RuntimeWarning, match=r"NaN: two:g\[T.c\]"):
        result = hdpf.multinomial("k ~ x + g", study).fit(20.0)
    truth = hdpf.multinomial("k ~ x + g", hdp.Study(public=private, schema=LEVELS)).fit_public()
    away = abs(result.private_only.params - truth.params)["two:g[T.c]"]
    assert away < 6 * result.private_only.bse["two:g[T.c]"] < 6.0


def test_a_level_that_noise_hides_is_missing_by_public_facts() -> None:
    private = rows(400, 0, "abc")
    with pytest.warns(RuntimeWarning, match=r"NaN: g\[T.c\]"):
        plan = model(private, rows(300, 1, "ab")).plan([0.05, 20.0]).frame.set_index(["epsilon", "term"])
    assert np.isnan(plan.loc[(0.05, "g[T.c]"), "std_error"])
    assert np.isfinite(plan.loc[(20.0, "g[T.c]"), "std_error"])
    for seed in (1, 2):
        result = fit(private, 0.05, replicate=seed)
        assert result.params.isna().tolist() == [False, False, False, True]
        assert result.conf_int().loc["g[T.c]"].isna().all()
        assert "Public rows say nothing of g[T.c]" in " ".join(str(result.summary()).split())
        assert np.isnan(hdp.Result.from_json(result.to_json()).params["g[T.c]"])
