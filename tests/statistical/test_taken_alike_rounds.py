"""Fits by clipped scores that take public rows as they are, where private covariates differ. Run by ``make validate``.

What they cover is what their summaries say of them.
"""

import os

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical.monte_carlo import share_error, together
from tests.statistical.taken_alike_studies import COVARIATES, NAMES, PUBLIC, ROWS, SLOPES, YEARS, covariates

pytestmark = pytest.mark.validate

REPEATS = int(os.environ.get("HDPSTATS_SETS", "200"))
HAZARDS = {"logit": expit, "cloglog": lambda eta: -np.expm1(-np.exp(eta))}
BUDGET = hdp.Budget(epsilon=50, delta=1e-4)
TIME = hdp.Duration(YEARS, unit="years", complete=True)
TERMS = " + ".join(NAMES)


def late(rng, rows, link, *, private):
    """Return people of whom some enter late: of the private ones more."""
    X = covariates(rng, rows, private=private)
    entry = rng.integers(0, 3, rows) * (rng.random(rows) < (0.8 if private else 0.3))
    when = entry + rng.geometric(HAZARDS[link](X @ SLOPES - 2.0))
    end = np.minimum(np.minimum(when, YEARS), entry + rng.integers(1, 2 * YEARS, rows))
    frame = pd.DataFrame(X, columns=NAMES)
    return frame.assign(start=entry.astype(float), time=end - 0.5, event=(when == end).astype(float))


def visits(rng, rows, *, private):
    """Return people with two rows each."""
    X = covariates(rng, rows, private=private)
    own = X @ SLOPES + 0.7 * rng.standard_normal(rows)
    frame = pd.DataFrame(X, columns=NAMES).assign(who=np.arange(rows))
    twice = [frame.assign(y=np.clip(own + rng.standard_normal(rows), -12, 12)) for _ in range(2)]
    return pd.concat(twice, ignore_index=True).sort_values("who", ignore_index=True)


def model_of(seed, name):
    """Return a model on a data set: a linear one of several rows, or hazards with late entry by a link."""
    rng = np.random.default_rng(seed)
    if name == "linear":
        private, public = (visits(rng, n, private=own) for n, own in ((ROWS, True), (PUBLIC, False)))
        schema = hdp.Schema(COVARIATES | {"y": hdp.Continuous(-12, 12, complete=True)})
        several = {"unit": "who", "max_rows_per_unit": 2, "n_max": ROWS}
        study = hdp.Study(private=private, public=public, schema=schema, budget=BUDGET, **several)
        return hdpf.linear(f"y ~ {TERMS}", study)
    private, public = (late(rng, n, name, private=own) for n, own in ((ROWS, True), (PUBLIC, False)))
    schema = hdp.Schema(COVARIATES | {"start": TIME, "time": TIME, "event": hdp.Binary(complete=True)})
    study = hdp.Study(private=private, public=public, schema=schema, budget=BUDGET)
    formula = f"Surv(start, time, event) ~ {TERMS}"
    return hdpf.hazard(formula, study, intervals=list(range(1, YEARS + 1)), link=name)


def covered(seed, name):
    """Return which slopes the 95 % intervals of one data set cover; nothing was asked about the private people."""
    result = model_of(seed, name).fit(epsilon=1.0, delta=1e-6, mechanism="clipped_newton", describe=False)
    limits = result.conf_int().loc[NAMES].to_numpy()
    return (limits[:, 0] <= SLOPES) & (limits[:, 1] >= SLOPES)


@pytest.mark.parametrize("name", ["linear", "logit", "cloglog"])
def test_summaries_of_clipped_scores_say_what_is_covered(name):
    shares = np.mean(together(covered, range(REPEATS), [name] * REPEATS), axis=0)
    said = model_of(0, name)._spec.covered_unlike("as public").share
    error = float(share_error(shares, REPEATS).mean())
    assert abs(said - shares.mean()) < 3.0 * error + 0.03
