"""What is said of errors that rest on public rows as they are."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.models.estimates import assumed

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-3, 3, complete=True),
    time=hdp.Duration(5, unit="years", complete=True),
    event=hdp.Binary(complete=True),
    s=hdp.Categorical(["a", "b"], complete=True),
)
LOGISTIC = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(0.0, eta) - y * eta,
    score=lambda eta, y: 1.0 / (1.0 + np.exp(-eta)) - y,
    lipschitz=1.0,
    smoothness=0.25,
    predictor=(-8.0, 8.0),
)


def public(n=200):
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, n)
    time = np.minimum(rng.exponential(2 * np.exp(-0.5 * x)) + 0.01, 5.0)
    return pd.DataFrame({"x": x, "time": time, "event": (time < 5).astype(int), "s": np.where(x > 0, "a", "b")})


@pytest.mark.parametrize(
    ("model", "measured"),
    [
        (lambda data: hdpf.mestimate("event ~ x", data, loss=LOGISTIC), True),
        (lambda data: hdpf.mestimate("Surv(time, event) ~ x", data, loss=hdp.losses.Exponential()), False),
        (lambda data: hdpf.hazard("Surv(time, event) ~ x + strata(s)", data, intervals=[1, 2, 3, 5]), True),
        (lambda data: hdpf.hazard("Surv(time, event) ~ x", data, intervals=[1, 2, 3, 5]), False),
        (lambda data: hdpf.logit("event ~ x", data), False),
    ],
)
def test_of_models_that_take_public_rows_as_they_are_it_is_said_what_was_covered(model, measured):
    side = model(hdp.Study(public=public(), schema=SCHEMA))._spec.public_side
    said = assumed(side)
    assert said.startswith("Standard errors take private covariates")
    assert ("95 % intervals of such models covered" in said) == measured
    if measured:
        assert said.endswith(f"covered about {100 * side.covered_unlike:.0f}% of the slopes.")
    assert assumed(None) == ""
