"""``offset(o)``, ``cluster(id)``, ``strata(x)`` and ``Surv(time, status == 2)`` as models read them."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

RNG = np.random.default_rng(3)
N = 400
FRAME = pd.DataFrame(
    {
        "id": np.arange(N),
        "start": 0.0,
        "time": RNG.uniform(0.5, 10, N),
        "status": RNG.choice(["0", "1", "2"], N),
        "y": RNG.integers(0, 2, N).astype(float),
        "x": RNG.uniform(-1, 1, N),
        "g": RNG.choice(["a", "b"], N),
        "o": RNG.uniform(-1, 1, N),
    }
)
SCHEMA = hdp.Schema(
    start=hdp.Duration(10, complete=True),
    time=hdp.Duration(10, complete=True),
    status=hdp.Categorical(["0", "1", "2"], complete=True),
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
    g=hdp.Categorical(["a", "b"], complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)

pytestmark = pytest.mark.usefixtures("few_draws")


def study(**options):
    return hdp.Study(private=FRAME, public=FRAME.copy(), schema=SCHEMA, budget=hdp.Budget(epsilon=10), **options)


def test_one_cause_is_fitted_as_if_the_others_were_censored():
    coded = FRAME.assign(y=(FRAME["status"] == "2").astype(float))
    other = hdp.Study(private=coded, public=coded.copy(), schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    one = hdpf.hazard("Surv(time, status == 2) ~ x", study(), intervals=5)
    same = hdpf.hazard("Surv(time, y) ~ x", other, intervals=5)
    assert one.fit_public().facts.hazard.causes == ("status == 2",)
    np.testing.assert_allclose(one.fit_public().params, same.fit_public().params, rtol=1e-10)
    assert one.fit_public().public_check is not None


@pytest.mark.usefixtures("no_noise")
def test_one_cause_is_fitted_privately_as_if_the_others_were_censored():
    coded = FRAME.assign(y=(FRAME["status"] == "2").astype(float))
    other = hdp.Study(private=coded, public=coded.copy(), schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    one = hdpf.hazard("Surv(time, status == 2) ~ x", study(), intervals=5).fit(epsilon=1)
    same = hdpf.hazard("Surv(time, y) ~ x", other, intervals=5).fit(epsilon=1)
    np.testing.assert_allclose(one.release.theta, same.release.theta, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "formula", "error", "match"),
    [
        (hdpf.logit, "y ~ x + offset(x)", hdp.SchemaError, r"x=Offset\(lower, upper\)"),
        (hdpf.logit, "y ~ x + offset(oo)", hdp.SchemaError, "oo"),
        (hdpf.logit, "y ~ x + cluster(id)", hdp.ArgumentError, 'unit="id"'),
        (hdpf.logit, "y ~ x + strata(g)", hdp.ArgumentError, r"write factor\(x\)"),
        (hdpf.multinomial, "status ~ x + offset(o)", hdp.ArgumentError, "predictor per level"),
        (hdpf.hazard, "Surv(time, y) ~ x + cluster(id)", hdp.ArgumentError, "max_rows_per_unit"),
        (hdpf.distribution, "x ~ offset(o)", hdp.FormulaError, "nothing here has offset columns"),
    ],
)
def test_what_a_model_cannot_read_is_refused_with_what_can(model, formula, error, match):
    options = {"family": "normal"} if model is hdpf.distribution else {}
    data = study()
    with pytest.raises(error, match=match):
        model(formula, data, **options)
    assert data.ledger.history().empty


def test_an_offset_is_given_once():
    with pytest.raises(hdp.ArgumentError, match="given once"):
        hdpf.logit("y ~ x + offset(o)", study(), offset="o")


def test_a_cluster_is_the_unit_of_the_study():
    data = study(unit="id", max_rows_per_unit=2, n_max=N)
    one = hdpf.hazard("Surv(start, time, y) ~ x", data, intervals=5).fit(epsilon=1)
    again = hdpf.hazard("Surv(start, time, y) ~ x + cluster(id)", data, intervals=5).fit(epsilon=1)
    assert again.release == one.release
    assert again.facts.method.endswith("cluster(id) is the study's unit, the person")
    with pytest.raises(hdp.ArgumentError, match="unit, and this one is 'id'"):
        hdpf.hazard("Surv(start, time, y) ~ x + cluster(g)", data, intervals=5)


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("Surv(time, y) ~ offset(x)", "has no offset"),
        ("Surv(time, y) ~ I(g == 'b')", "is no column"),
        ("Surv(time, y) ~ cut(x, c(-Inf, 0, Inf))", "is no column"),
    ],
)
def test_curves_are_for_levels_of_columns(formula, match):
    with pytest.raises(hdp.FormulaError, match=match):
        hdpf.survfit(formula, study())
