"""The private and public rows of these tests: ordinary people, and planted values to look for."""

import numpy as np
import pandas as pd

import hdpstats.api as hdp

RECORDS = 397
FORMULA = "y ~ x + log1p(k) + g"
SURVIVAL = "Surv(time, event) ~ x + g"
SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    k=hdp.Continuous(0, 40, missing=1),
    g=hdp.Categorical(["a", "b", "c"], other="c", complete=True),
    time=hdp.Duration(horizon=24, unit="months", complete=True),
    event=hdp.Binary(complete=True),
    secret=hdp.Continuous(0, 10, complete=True),
)


def people(rows, seed=0):
    """Return a frame of ordinary rows that obey the schema."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows).clip(-3, 3)
    return pd.DataFrame(
        {
            "y": (rng.random(rows) < 1 / (1 + np.exp(-x))).astype(float),
            "x": x,
            "k": rng.integers(0, 12, rows).astype(float),
            "g": rng.choice(["a", "b", "c"], rows),
            "time": np.ceil(rng.exponential(12, rows)).clip(1, 24),
            "event": rng.integers(0, 2, rows).astype(float),
            "secret": rng.uniform(0, 10, rows),
        }
    )


PRIVATE = people(RECORDS)
PUBLIC = people(149, seed=1)
