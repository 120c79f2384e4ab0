"""Moments of all people at once are those of each person, averaged: for every kind of public side."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

N = 90
SCHEMA = hdp.Schema(
    x=hdp.Continuous(-4, 4, complete=True),
    g=hdp.Binary(complete=True),
    w=hdp.Weight(max=2, complete=True),
    k=hdp.Categorical(["a", "b", "c"], complete=True),
    entry=hdp.Duration(5, complete=True),
    time=hdp.Duration(5, complete=True),
    cause=hdp.Categorical(["none", "relapse", "death"], complete=True),
    y=hdp.Continuous(-9, 9, complete=True),
)


def frame():
    rng = np.random.default_rng(0)
    entry = rng.uniform(0.0, 1.0, N)
    return pd.DataFrame(
        {
            "x": rng.standard_normal(N).clip(-4, 4),
            "g": (rng.uniform(size=N) < 0.4).astype(float),
            "w": rng.uniform(0.2, 2.0, N),
            "k": rng.choice(["a", "b", "c"], N),
            "entry": entry,
            "time": entry + rng.exponential(2.0, N).clip(0.1, 4.0),
            "cause": rng.choice(["none", "relapse", "death"], N),
            "y": rng.standard_normal(N),
        }
    )


STUDY = hdp.Study(public=frame(), schema=SCHEMA)
MODELS = {
    "logit": lambda: hdpf.logit("g ~ x", data=STUDY, weights="w"),
    "squares": lambda: hdpf.linear("y ~ x + g", data=STUDY),
    "multinomial": lambda: hdpf.multinomial("k ~ x + g", data=STUDY, weights="w"),
    "hazard": lambda: hdpf.hazard("Surv(entry, time, cause) ~ x + g", data=STUDY, intervals=4, weights="w"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("at", ["public fit", "elsewhere"])
def test_sums_over_people_are_the_sums_of_their_moments(name, at):
    side = MODELS[name]()._spec.public
    theta = side.centre if at == "public fit" else side.centre + 0.3
    whole = side.moments(theta, records=1000)
    each = side.moments(theta, records=1000, row_weights=np.full((1, side.people), 1.0 / side.people))
    for found, expected in ((whole.H, each.H[0]), (whole.J, each.J[0])):
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 * np.abs(expected).max())
        assert np.array_equal(found, found.T)
