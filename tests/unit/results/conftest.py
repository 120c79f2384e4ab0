"""Results made by hand: fixed numbers, no fit, no noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats.mechanisms.perturbation import ObjectiveQuery, ObjectiveRelease
from hdpstats.privacy.budget import Guarantee, MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.estimate import ErrorDistribution, Estimate
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import RegressionModel, TimeGrid
from hdpstats.records.query import LedgerEntry
from hdpstats.results import HazardFacts, ModelFacts, Released, Result
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.schema import Schema

FORMULA = "event3 ~ age + size + log1p(nodes)"
TERMS = ("Intercept", "age", "size[T.20-50]", "size[T.>50]", "log1p(nodes)")
RECORDS = 2982


def make_schema():
    return Schema(
        nodes=Continuous(0, 40, complete=True),  # not in alphabetical order
        age=Continuous(20, 90, complete=True),
        size=Categorical(["<=20", "20-50", ">50"], complete=True),
        event3=Binary(complete=True),
        o=Offset(-2, 2, complete=True),
    )


def make_estimate(label, values, sampling_sd, privacy_sd, *, distribution=False, note=None):
    ends = np.outer([0.0, 1.0, 2.0, 4.0], np.array(sampling_sd) + np.array(privacy_sd))
    return Estimate(
        label=label,
        terms=TERMS,
        values=np.array(values),
        sampling=np.diag(np.square(sampling_sd)),
        privacy=np.diag(np.square(privacy_sd)),
        distribution=ErrorDistribution(levels=np.array([0.0, 0.6, 0.95, 0.999]), quantiles=ends)
        if distribution
        else None,
        note=note,
    )


def make_hazard_schema():
    return Schema(
        age=Continuous(20, 90, complete=True),
        size=Categorical(["<=20", "20-50", ">50"], complete=True),
        hormon=Binary(complete=True),
        time=Duration(10, unit="years", complete=True),
        entry=Duration(10, unit="years", missing=0),
        event=Binary(complete=True),
        cause=Categorical(["none", "relapse", "death"], complete=True),
        w=Weight(max=5, complete=True),
        o=Offset(-2, 2, complete=True),
    )


def make_hazard(link="cloglog", causes=("event",), *, noise=0.0, **changes):
    """Return a hazard model of known numbers: 4 intervals that end at 1, 2.5, 4 and 10 years, e = 2, p = 3."""
    event = "event" if len(causes) == 1 else "cause"
    own = ("baseline[1]", "baseline[2]", "age", "size[T.20-50]", "size[T.>50]")
    values = np.array([[-2.5, 1.0, 0.02, 0.3, 0.7], [-3.5, 2.0, 0.01, -0.2, 0.1]])[: len(causes)].ravel()
    factor = np.random.default_rng(7).normal(size=(values.size, values.size)) * 0.1
    scale = np.tile([1.0, 1.0, 0.02, 1.0, 1.0], len(causes))
    sampling = np.outer(scale, scale) * (factor @ factor.T)
    hazard = HazardFacts(
        link=link,
        grid=TimeGrid((1.0, 2.5, 4.0, 10.0)),
        unit_of_time="years",
        start=None,
        stop="time",
        event=event,
        causes=causes,
        baseline=((1.0, 0.1), (1.0, 0.4), (1.0, 0.3), (1.0, -0.6)),
        baseline_names=own[:2],
        cap=None,
    )
    facts = ModelFacts(
        model="DiscreteHazard",
        formula=f"Surv(time, {event}) ~ age + size",
        response=f"Surv(time, {event})",
        method="maximum likelihood on public rows",
        records=None,
        public_rows=686,
        weights=None,
        offset=changes.pop("offset", None),
        loss=None,
        exponentiated={"logit": "odds ratio", "cloglog": "hazard ratio", "probit": "exponential"}[link],
        hazard=replace(hazard, **changes),
    )
    terms = own if len(causes) == 1 else tuple(f"{cause}: {name}" for cause in causes for name in own)
    estimate = Estimate(
        label="maximum likelihood", terms=terms, values=values, sampling=sampling, privacy=noise * sampling
    )
    return Result(
        facts=facts,
        schema=make_hazard_schema(),
        estimate=estimate,
    )


def make_query(schema):
    geometry = Geometry(
        location=(54.5, 0.4, 0.1, 1.2),
        whitening=tuple(tuple(row) for row in np.diag([0.1, 2.0, 3.0, 1.1]).tolist()),
        radius=3.0,
        leverage=19.0,
        intercept=True,
        source=Source.PUBLIC_ROWS,
    )
    return ObjectiveQuery(
        model=RegressionModel(formula=FORMULA, loss="logistic", geometry=geometry),
        centre=(0.0,) * 5,
        ridge=Fraction(19, 4),
        epsilon=Fraction(1),
        schema_sha256=schema.sha256,
        public_sha256="ab" * 32,
        hessian_share=Fraction(3, 20),
    )


def make_release():
    return ObjectiveRelease(
        theta=(-0.5, 0.1, 0.2, 0.3, 0.75),
        hessian=None,
        noise_rate=0.1,
        hessian_noise_sd=0.0,
        grid=2.0**-30,
        records=RECORDS,
        events=(
            PrivacyEvent(ran=MechanismName.OBJECTIVE, epsilon=Fraction(849999, 1000000)),
            PrivacyEvent(ran=MechanismName.SMOOTHING, epsilon=Fraction(1, 1000000)),
            PrivacyEvent(ran=MechanismName.HESSIAN, epsilon=Fraction(3, 20)),
        ),
        entry=LedgerEntry(dataset="rotterdam", version=1, number=2, head="ab12" * 16),
    )


@pytest.fixture
def result():
    """A private fit with the help of public rows."""
    schema = make_schema()
    public = make_estimate("public only", [-1.9, -0.004, 0.35, 0.61, 0.82], [0.5, 0.008, 0.2, 0.3, 0.1], [0.0] * 5)
    private = make_estimate(
        "private only",
        [-1.65, 0.011, 0.42, 0.77, 0.74],
        [0.21, 0.0035, 0.09, 0.13, 0.05],
        [0.1, 0.003, 0.11, 0.14, 0.05],
        distribution=True,
    )
    pooled = make_estimate(
        "pooled",
        [-1.7, 0.009, 0.41, 0.74, 0.76],
        [0.2, 0.0032, 0.08, 0.12, 0.045],
        [0.08, 0.0025, 0.09, 0.1, 0.04],
        distribution=True,
    )
    return Result(
        facts=ModelFacts(
            model="Logit",
            formula=FORMULA,
            response="event3",
            method="objective perturbation, whitened by public rows",
            records=RECORDS,
            public_rows=686,
            weights=None,
            offset=None,
            loss="logistic",
            exponentiated="odds ratio",
        ),
        schema=schema,
        estimate=pooled,
        public_only=public,
        private_only=private,
        pooled=pooled,
        released=Released(
            query=make_query(schema),
            release=make_release(),
            guarantee=Guarantee(epsilon=Fraction(1), delta=Fraction(0), relation=Relation.REPLACE_ONE, unit="person"),
        ),
    )


@pytest.fixture
def public_result():
    """A fit to public rows alone, with an offset."""
    schema = make_schema()
    return Result(
        facts=ModelFacts(
            model="Logit",
            formula=FORMULA,
            response="event3",
            method="maximum likelihood on public rows",
            records=None,
            public_rows=686,
            weights=None,
            offset="o",
            loss="logistic",
            exponentiated="odds ratio",
        ),
        schema=schema,
        estimate=make_estimate(
            "maximum likelihood", [-1.9, -0.004, 0.35, 0.61, 0.82], [0.5, 0.008, 0.2, 0.3, 0.1], [0.0] * 5
        ),
    )


@pytest.fixture
def silent_result(result):
    """A private fit without standard errors and with a coefficient that is not identified."""
    unknown = np.full((5, 5), np.nan)
    estimate = Estimate(
        label="released",
        terms=TERMS,
        values=np.array([-1.7, 0.009, 0.41, np.nan, 0.76]),
        sampling=unknown,
        privacy=unknown,
        note="Standard errors were not asked for: fit again with hessian_share above 0, or <with> public rows.",
    )
    return Result(
        facts=result.facts,
        schema=result.schema,
        estimate=estimate,
        released=result.released,
    )


@pytest.fixture
def hazard():
    """How to make a hazard result by hand."""
    return make_hazard
