"""At a million people a private-only estimate errs by the noise that it says, about the fit of the same criterion."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference import draws
from hdpstats.models.points import Objective, ask_objective
from hdpstats.models.private_result import Contribution, Contributions
from hdpstats.models.request import fit_request
from hdpstats.models.site_records import SiteRecords
from hdpstats.solvers import minimise
from tests import chance

ALARM = 1e-6
SCHEMA = hdp.Schema(
    a=hdp.Continuous(-4, 4, complete=True),
    b=hdp.Continuous(-4, 4, complete=True),
    g=hdp.Binary(complete=True),
    y=hdp.Binary(complete=True),
)


def frame(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)).clip(-4, 4)
    g = rng.integers(0, 2, n).astype(float)
    p = 1.0 / (1.0 + np.exp(0.5 - X @ [0.7, -0.4] - 0.3 * g))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": g, "y": (rng.random(n) < p).astype(float)})


def distances(n, releases, *, epsilon=1.0):
    """Mahalanobis distances of estimates from the fit without noise, and a sample (100,000,) of what they are to be."""
    study = hdp.Study(private=frame(n, 1), public=frame(2000, 2), schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    spec, request = hdpf.logit("y ~ a + b + g", study)._spec, fit_request(epsilon, 0, "objective", 0, describe=False)
    query = ask_objective(spec, hdp.mechanisms.ObjectivePerturbation(se_share=0), request, records=n)
    prepared = study.site._prepare(query, None)
    person_loss, D = spec.person_loss(query.model), query.dimension
    people = person_loss.people(hdp.Study(public=frame(n, 1), schema=SCHEMA).public.admitted(spec.needs))
    centre = np.array(query.centre)
    objective = people.penalised(ridge=np.full(D, 1e-9 * n), centre=centre, linear=np.zeros(D))
    exact = spec.to_terms(query.model) @ minimise(objective, start=centre).theta
    known = SiteRecords(records=n, records_sd=0.0, most=n, request=request)
    found = []
    for _ in range(releases):
        release = study.site._compute(nullcontext, prepared)
        point = Contribution(query=query, release=release, people=known)
        given = Contributions(given=dict.fromkeys(study.sites, point), missing=(), alone={})
        estimate = Objective().read(spec, request, given).private_only
        apart = estimate.values - exact
        found.append(apart @ np.linalg.solve(estimate.privacy, apart))
    noise = Objective().noise_of(query, release, person_loss)
    sample = draws.perturbation(np.random.default_rng(0), noise.inside.distribution, count=100_000)
    return np.array(found), np.sort(np.sum(sample**2 / noise.inside.distribution.variance, axis=1))


def follows(found, sample):
    return chance.follows(found, lambda x: np.searchsorted(sample, x) / len(sample), alarm=ALARM)


@pytest.mark.validate
def test_estimates_err_by_the_noise_that_they_say():
    """Kolmogorov-Smirnov, a false alarm of 1e-6. The distances are nearly chi-square (4), with the noise's own tails.

    Errors that are 1.6 times as large, or as small, are noticed.
    """
    found, sample = distances(10**6, 100)
    assert follows(found, sample)
    assert not follows(2.5 * found, sample)
    assert not follows(found / 2.5, sample)


def robust_errors(rows):
    """Return the sandwich errors (4,) of R's ``glm`` on README's model, over rows that are counted when alike."""
    cells = rows.value_counts().rename("count").reset_index()
    X = np.column_stack([np.ones(len(cells)), cells["age"], np.log1p(cells["nodes"]), cells["hormon"]])
    counts, y = cells["count"].to_numpy(float), cells["event3"].to_numpy(float)
    fit = sm.GLM(y, X, family=sm.families.Binomial(), freq_weights=counts).fit()
    p = np.asarray(fit.fittedvalues)
    bread, meat = ((X.T * each) @ X for each in (counts * p * (1.0 - p), counts * (y - p) ** 2))
    inverse = np.linalg.inv(bread)
    return np.sqrt(np.diag(inverse @ meat @ inverse))


@pytest.mark.validate
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("n", [300_000, 10**6, 10**7])
def test_errors_of_the_readme_model_are_nearly_those_of_the_ordinary_fit(n, epsilon):
    """Medians over coefficients of private-only errors on Rotterdam's patients, drawn again; what was found is 1.02."""
    patients = hdp.datasets.load_rotterdam()[["age", "nodes", "hormon", "event3"]].dropna()
    rows = patients.iloc[np.random.default_rng(n).integers(0, len(patients), n)].reset_index(drop=True)
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 40), hormon=hdp.Binary(), event3=hdp.Binary()
    )
    study = hdp.Study(
        private=rows, public=hdp.datasets.load_gbsg(), schema=schema, budget=hdp.Budget(epsilon=3 * epsilon)
    )
    model, ordinary = hdpf.logit("event3 ~ age + log1p(nodes) + hormon", data=study), robust_errors(rows)
    found = [model.fit(epsilon=epsilon, replicate=k).private_only.bse.to_numpy() for k in (1, 2, 3)]
    assert np.median([np.median(each / ordinary) for each in found]) <= 1.10
