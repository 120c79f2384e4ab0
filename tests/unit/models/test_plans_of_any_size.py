"""Arithmetic adds next to nothing to errors at any number of people, and more people or epsilon never predict more.

Everything is computed from public rows and declarations: nothing is drawn and no private row is read.
"""

import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import HdpWarning
from hdpstats.inference.information import Smoothed
from hdpstats.inference.sandwich import PredictedCovariance, averaged
from hdpstats.mechanisms.perturbation import ObjectivePerturbation
from hdpstats.models.model import predict
from hdpstats.models.points import _planned_noise, ask_objective
from hdpstats.models.request import fit_request
from hdpstats.models.site_records import SiteRecords

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    hormon=hdp.Binary(complete=True),
    event=hdp.Binary(complete=True),
    score=hdp.Continuous(0, 100, complete=True),
    count=hdp.Continuous(0, 40, complete=True),
    level=hdp.Categorical(["a", "b", "c"], complete=True),
    time=hdp.Duration(3650, complete=True),
)
"""As in the tables of trials; ranges are as wide as one would declare them, public rows far within."""


def frame(n=150):
    rng = np.random.default_rng(29)
    age, nodes, hormon = rng.uniform(30, 80, n), rng.geometric(0.25, n).clip(0, 40) - 1.0, rng.integers(0, 2, n)
    eta = -0.5 + 0.02 * (age - 55) + 0.08 * nodes - 0.3 * hormon
    return pd.DataFrame(
        {
            "age": age,
            "nodes": nodes,
            "hormon": hormon.astype(float),
            "event": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
            "score": (40.0 + 0.3 * (age - 55) + nodes + rng.normal(0.0, 10.0, n)).clip(0, 100),
            "count": rng.poisson(np.exp(0.5 + 0.05 * nodes)).clip(0, 40).astype(float),
            "level": rng.choice(["a", "b", "c"], n),
            "time": np.ceil(rng.exponential(2500.0 * np.exp(-0.4 * eta)).clip(1, 5000)),
        }
    )


RIGHT = " ~ age + nodes + hormon"
MODELS = {
    "logit": lambda study: hdpf.logit("event" + RIGHT, study),
    "linear": lambda study: hdpf.linear("score" + RIGHT, study),
    "huber": lambda study: hdpf.mestimate("score" + RIGHT, study, loss=hdp.losses.Huber()),
    "quantile": lambda study: hdpf.quantile("score" + RIGHT, study),
    "poisson": lambda study: hdpf.poisson("count" + RIGHT, study),
    "multinomial": lambda study: hdpf.multinomial("level" + RIGHT, study),
    "hazard, logit": lambda study: hdpf.hazard("Surv(time, event)" + RIGHT, study, intervals=12),
    "hazard, cloglog": lambda study: hdpf.hazard("Surv(time, event)" + RIGHT, study, intervals=12, link="cloglog"),
}
PEOPLE = (10**5, 10**6, 3 * 10**6, 10**7, 10**8)
SITES = (1, 5)
EPSILONS = (0.5, 1.0, 3.0)


@cache
def spec_of(name, public):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HdpWarning)  # a score may be a count
        return MODELS[name](hdp.Study(public=frame() if public else None, schema=SCHEMA))._spec


def asked(epsilon, **options):
    return fit_request(epsilon, 0, "objective", 0, **options)


def variances(spec, query, *, records, smoothed=True):
    """The variances of a site's unshrunk coefficients, in two parts, where curvature is as expected."""
    site = SiteRecords(records=records, records_sd=0.0, most=records, request=asked(float(query.epsilon)))
    noise, _ = _planned_noise(spec, query, site)
    assert isinstance(noise, Smoothed)
    at = spec.expected_moments(query, records=records)
    inverse = np.linalg.inv(at.H)
    privacy = (noise if smoothed else noise.inside).covariance(at.H)
    return PredictedCovariance(sampling=inverse @ at.J @ inverse, privacy=inverse @ privacy @ inverse)


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_arithmetic_adds_no_more_than_two_percent(name, public):
    """Against the query that would be asked if sums were exact: with the first ridge and the least share.

    Fails where the ridge and the share are fixed, and where the error of a sum grows with more than the number of
    people.
    """
    spec, larger = spec_of(name, public), {}
    for whole in PEOPLE:
        for sites in SITES:
            records = whole // sites
            for epsilon in EPSILONS:
                query = ask_objective(spec, ObjectivePerturbation(se_share=0), asked(epsilon), records=records)
                first = spec.ask(epsilon=Fraction(epsilon), records=records, share=Fraction(0), replicate=1)
                T = spec.to_terms(query.model)
                found, exact = (
                    np.einsum("ij,jk,ik->i", T, averaged([each] * sites).covariance, T)
                    for each in (
                        variances(spec, query, records=records),
                        variances(spec, first, records=records, smoothed=False),
                    )
                )
                more = float(np.sqrt(np.max(found / exact)))
                if more > 1.02:
                    larger[whole, sites, epsilon] = more
    assert not larger
