"""``strata(x)``: a baseline of its own in every stratum, with the same covariates' coefficients."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.registry import person_loss_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.model import TimeGrid
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.spells import in_strata, person_period, spells_of
from hdpstats.schema.table import AdmittedTable, PrivateTable

SCHEMA = hdp.Schema(
    time=hdp.Duration(4, complete=True),
    event=hdp.Binary(complete=True),
    x=hdp.Continuous(-2, 2, complete=True),
    g=hdp.Categorical(["a", "b"], complete=True),
    h=hdp.Binary(complete=True),
)


def people(n, seed):
    """Return people whose hazards fall in stratum a and rise in stratum b."""
    rng = np.random.default_rng(seed)
    g, x = rng.choice(["a", "b"], n), rng.normal(size=n).clip(-2, 2)
    time, event = np.full(n, 4.0), np.zeros(n)
    for s in range(4):
        level = np.where(g == "a", -1.0 - 0.5 * s, -2.5 + 0.6 * s)
        happens = (event == 0) & (time == 4.0) & (rng.random(n) < 1 / (1 + np.exp(-level - 0.8 * x)))
        time, event = np.where(happens, s + 0.5, time), np.where(happens, 1.0, event)
    return pd.DataFrame({"time": time, "event": event, "x": x, "g": g, "h": rng.integers(0, 2, n).astype(float)})


PRIVATE, PUBLIC = people(3000, 1), people(500, 2)
FORMULA = "Surv(time, event) ~ x + strata(g)"


def model(private=PRIVATE, public=PUBLIC, formula=FORMULA, **options):
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=100, delta=0.01))
    return hdpf.hazard(formula, study, **({"intervals": 4, "baseline": "dummies"} | options))


def by_glm(frame):
    rows = person_period(frame, time="time", event="event", intervals=[1.0, 2.0, 3.0, 4.0])
    cells = pd.get_dummies(rows["g"] + rows["interval"].astype(str)).astype(float)
    return sm.GLM(rows["event"], cells.assign(x=rows["x"]), family=sm.families.Binomial()).fit()


def test_public_rows_alone_are_fitted_with_a_baseline_by_stratum():
    result, expected = model().fit_public(), by_glm(PUBLIC)
    names = [f"g[{level}]:interval[{s}]" for level in "ab" for s in range(1, 5)]
    assert list(result.params.index) == [*names, "x"]
    np.testing.assert_allclose(result.params, expected.params, rtol=1e-6)
    np.testing.assert_allclose(result.bse, expected.bse, rtol=1e-4)


def test_the_spline_of_every_stratum_has_coefficients_of_its_own():
    result = model(baseline="spline", df=2).fit_public()
    assert list(result.params.index) == [*(f"g[{level}]:baseline[{k}]" for level in "ab" for k in (1, 2)), "x"]
    two = model(formula="Surv(time, event) ~ x + strata(g) + strata(h)", baseline="spline", df=2)
    assert two.fit_public().params.index[2] == "g[a]:h[1]:baseline[1]"


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("public", [PUBLIC, None], ids=["public rows", "the schema's box"])
def test_private_people_are_fitted_with_a_baseline_by_stratum(public):
    result, expected = model(public=public).fit(epsilon=50, se_share=0), by_glm(PRIVATE)
    own = result.params if public is None else result.private_only.params
    np.testing.assert_allclose(own, expected.params, atol=0.2)
    assert own["g[b]:interval[4]"] - own["g[a]:interval[4]"] > 1.5


def test_noise_does_not_hide_that_hazards_fall_in_one_stratum_and_rise_in_the_other():
    result = model().fit(epsilon=5)
    found = result.params
    assert found["g[a]:interval[1]"] > found["g[a]:interval[4]"]
    assert found["g[b]:interval[1]"] < found["g[b]:interval[4]"]
    assert result.facts.hazard.strata == ("g",)
    assert hdp.Result.from_json(result.to_json()).facts == result.facts


def test_predictions_have_the_baseline_of_each_row():
    result = model().fit_public()
    frame = pd.DataFrame({"x": [0.5, 0.5, np.nan, -1.0], "g": ["a", "b", "a", "b"]})
    table = result.predict_hazard(frame, ci=True)
    eta = result.params.to_numpy()[:8].reshape(2, 4)[[0, 1, 0, 1]] + result.params["x"] * frame["x"].to_numpy()[:, None]
    np.testing.assert_allclose(table["hazard"], (1 / (1 + np.exp(-eta))).ravel())
    assert (table["conf_low"] < table["hazard"])[~table["hazard"].isna()].all()
    survival = result.predict_survival(frame, times=[4.0])["survival"]
    np.testing.assert_allclose(survival, np.prod(1 - 1 / (1 + np.exp(-eta)), axis=1))
    with pytest.raises(hdp.SchemaError, match="g"):
        result.predict_hazard(frame.drop(columns="g"))
    for asked in (result.baseline_hazard, result.plot_survival):
        with pytest.raises(hdp.ArgumentError, match="baseline of its own"):
            asked()


@pytest.mark.wide
def test_another_order_and_another_scale_are_the_same_model():
    opened = model()
    first = opened.fit(epsilon=1)
    study = opened._spec.study
    again = hdpf.hazard(
        "Surv(time, event) ~ strata(g) + scale(x, mean=1, sd=2)", study, intervals=4, baseline="dummies"
    ).fit(epsilon=1)
    assert study.ledger.spent.epsilon == 1
    np.testing.assert_allclose(again.params.iloc[:8], first.params.iloc[:8] + first.params["x"], rtol=1e-9)
    hdpf.hazard("Surv(time, event) ~ x", study, intervals=4, baseline="dummies").fit(epsilon=1)
    assert study.ledger.spent.epsilon == 2


def test_the_map_to_strata_is_total_and_row_by_row():
    table = AdmittedTable(
        numeric={"time": np.array([0.5, 4.0, 2.0]), "event": np.array([1.0, 0, 0]), "h": np.array([0.0, 1.0, 1.0])},
        codes={"g": np.array([0, 1, 0])},
        beyond={"time": np.zeros(3, dtype=bool)},
        rows=3,
    )
    grid = TimeGrid((1.0, 2.0, 3.0, 4.0))
    plain = spells_of(table, start=None, stop="time", event="event", grid=grid, most_rows=1)
    found = in_strata(plain, table, [("g", 2), ("h", 2)], intervals=4)
    assert (found.entry - plain.entry).tolist() == [0, 12, 4]
    assert (found.exit - plain.exit).tolist() == [0, 12, 4]
    assert found.cause.tolist() == plain.cause.tolist()


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE])
def test_no_person_in_any_stratum_passes_the_bound_of_a_gradient(relation):
    query = model().fit(epsilon=1).query
    facts = SiteFacts(schema=SCHEMA, relation=relation, records=40, unit=None, most_rows=1)
    person = person_loss_of(query.model, facts)
    assert set(person.needs) == {"time", "event", "x", "g"}
    rng = np.random.default_rng(4)
    extreme = people(200, 3).assign(x=rng.choice([-2.0, 2.0], 200))
    rows = person.people(PrivateTable.from_frame(extreme, SCHEMA).admit(person.needs))
    bound = float(person.gradient_bound)
    longest = 0.0
    for size in (0.0, 1.0, 5.0, 30.0):
        theta = size * rng.normal(size=person.dimension)
        longest = max(longest, float(np.linalg.norm(rows.scores(theta), axis=1).max()))
    assert 0.2 * bound < longest <= bound


@pytest.mark.parametrize(
    ("formula", "options", "error", "match"),
    [
        ("Surv(time, event) ~ x + strata(x)", {}, hdp.FormulaError, "as a Categorical column"),
        ("Surv(time, event) ~ x + strata(event)", {}, hdp.FormulaError, "its own stratum"),
        ("Surv(time, event) ~ x + strata(g)", {"intervals": 80}, hdp.ArgumentError, "use the spline"),
    ],
)
def test_refusals(formula, options, error, match):
    with pytest.raises(error, match=match):
        model(formula=formula, **options)


def test_what_is_not_proved_or_not_defined_for_strata_is_refused_before_a_charge():
    opened = model()
    with pytest.raises(hdp.MechanismError, match="not for strata"):
        opened.fit(epsilon=1, delta=1e-3, mechanism="clipped_newton")
    assert opened._spec.study.ledger.history().empty
    public = opened.fit_public()
    with pytest.raises(hdp.ArgumentError, match="strata"):
        opened.evaluate(public, epsilon=1)
    assert opened._spec.study.ledger.history().empty


@pytest.mark.parametrize("describe", [True, False])
def test_a_fit_that_asks_for_no_averages_says_that_it_takes_follow_up_for_alike(describe):
    note = str(model().fit(1.0, mechanism="objective", describe=describe).private_only.note)
    assert "covariates and follow-up (who enters and leaves when, with which covariates and in which stratum)" in note
