"""Arithmetic adds next to nothing to errors at any number of people, and more people or epsilon never predict more.

Everything is computed from public rows and declarations: nothing is drawn and no private row is read.
"""

import math
import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import HdpWarning
from hdpstats.mechanisms.perturbation import ObjectivePerturbation, request
from hdpstats.mechanisms.perturbation.site import perturbation_of
from hdpstats.mechanisms.perturbation.smoothing import variance_of
from hdpstats.models.model import predict
from hdpstats.models.plan import HESSIAN, Plan
from hdpstats.models.points import Objective, ask_objective
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
    "huber": lambda study: hdpf.mestimate("score" + RIGHT, study, loss=hdp.losses.Huber(15.0)),
    "quantile": lambda study: hdpf.quantile("score" + RIGHT, study),
    "poisson": lambda study: hdpf.poisson("count" + RIGHT, study),
    "multinomial": lambda study: hdpf.multinomial("level" + RIGHT, study),
    "hazard, logit": lambda study: hdpf.hazard("Surv(time, event)" + RIGHT, study, intervals=12),
    "hazard, cloglog": lambda study: hdpf.hazard(
        "Surv(time, event)" + RIGHT, study, intervals=12, link="cloglog", cap=2.0
    ),
}
PEOPLE = (10**5, 10**6, 10**7, 10**8)
SITES = (1, 5)
EPSILONS = (0.5, 3.0)


@cache
def spec_of(name, public):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HdpWarning)  # a score may be a count
        return MODELS[name](hdp.Study(public=frame() if public else None, schema=SCHEMA))._spec


def asked(epsilon, **options):
    return fit_request(epsilon, 0, "objective", 0, **options)


def more_than_exact(spec, *, records, epsilon):
    """The private-only standard error at a site over that of the query that would be asked if sums were exact.

    That has the first ridge and the least share, and nothing to smooth. The largest ratio among coefficients, where
    curvature is as expected; sites of the same size have it in common with their average.
    """
    query = ask_objective(spec, ObjectivePerturbation(se_share=0), asked(epsilon), records=records)
    first = spec.ask(epsilon=Fraction(epsilon), records=records, share=Fraction(0), replicate=1)
    site = SiteRecords(records=records, records_sd=0.0, most=records, request=asked(epsilon))
    _, noise = Objective().expected(spec, query, site)
    person_loss = spec.person_loss(first.model)
    inside = perturbation_of(first, person_loss, relation=spec.study.relation)
    at, T = spec.expected_moments(query, records=records), spec.to_terms(query.model)
    back = T @ np.linalg.inv(at.H)
    found, exact = (
        np.einsum("ij,jk,ik->i", back, at.J + each, back)
        for each in (noise.covariance(at.H), np.diag(variance_of(inside, person_loss)))
    )
    return float(np.sqrt(np.max(found / exact)))


EVERY = pytest.mark.parametrize("public", [True, False])
NAMES = [pytest.param(name, marks=pytest.mark.wide) if name.startswith("hazard") else name for name in MODELS]


@pytest.mark.covering(1)
@EVERY
@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_adds_no_more_than_two_percent(name, public):
    """Fails where the ridge and the share are fixed, or a sum's error grows faster than the number of people."""
    spec = spec_of(name, public)
    found = {
        (people, sites, epsilon): more_than_exact(spec, records=people // sites, epsilon=epsilon)
        for people in PEOPLE
        for sites in SITES
        for epsilon in EPSILONS
    }
    assert not {cell: more for cell, more in found.items() if more > 1.02}


def private_only(spec, *, records, epsilon):
    """The private-only variances at a site where curvature is as expected."""
    query = ask_objective(spec, ObjectivePerturbation(se_share=0), asked(epsilon), records=records)
    site = SiteRecords(records=records, records_sd=0.0, most=records, request=asked(epsilon))
    _, noise = Objective().expected(spec, query, site)
    at = spec.expected_moments(query, records=records)
    back = spec.to_terms(query.model) @ np.linalg.inv(at.H)
    return np.einsum("ij,jk,ik->i", back, at.J + noise.covariance(at.H), back)


@pytest.mark.covering(cases=3)
@EVERY
@pytest.mark.parametrize("name", NAMES)
def test_small_steps_to_more_people_or_more_epsilon_never_predict_more(name, public):
    """In steps of a tenth: a jump in what a query asks for does not hide behind the gain of a larger step."""
    spec, found = spec_of(name, public), {}
    for place in range(8):
        few, low = round(10.0 ** (3.0 + 4.9 * place / 7)), round(10.0 ** (-1.0 + 2.6 * place / 7), 3)
        for one, other in (((few, 1.0), (few * 11 // 10, 1.0)), ((10**7, low), (10**7, 1.1 * low))):
            before, after = (private_only(spec, records=n, epsilon=epsilon) for n, epsilon in (one, other))
            found[one, other] = float(np.sqrt(np.max(after / before)))
    assert not {pair: more for pair, more in found.items() if more > 1.03}


def errors_of(found):
    """The private-only and the reported predicted errors."""
    own = np.hypot(found.errors.sampling, found.errors.privacy)
    return np.concatenate([own, found.errors.reported if found.reported else np.full(len(own), np.nan)])


def bought(found):
    known = found.sites.values()
    counted, averaged = (any(getattr(site, part) for site in known) for part in ("for_count", "for_averages"))
    return type(found.mechanism), bool(found.mechanism.share), counted, averaged


def most_larger(spec, cells, *, sites):
    """How much larger an error is than one before it in a row of cells (people, epsilon), while a fit buys the same.

    The largest ratio to the least error since a fit came to buy something else, and in how many cells it did. A larger
    share for a noisy Hessian is a purchase: it buys standard errors where private people spread little.
    """
    most, least, kind, share, switched = 1.0, np.nan, None, 0, 0
    for people, epsilon in cells:
        found = predict(
            spec, fit_request(epsilon, 0, "auto", "auto"), {f"site {k}": people // sites for k in range(sites)}
        )
        errors, now = errors_of(found), bought(found)
        if now == kind and (found.mechanism.share or 0) <= share:
            most = max(most, float(np.nanmax(errors / least)))
            least = np.fmin(least, errors)
        else:
            switched += kind is not None
            least, kind = errors, now
        share = found.mechanism.share or 0
    return most, switched


def in_steps(first, last, *, each, close):
    """Numbers from one to another by a factor each, and after every third of them one that is close."""
    count = math.ceil(math.log(last / first) / math.log(each))
    found = np.geomspace(first, last, count + 1)
    return sorted([*found, *(close * found[:-1:3])])


@pytest.mark.parametrize(
    ("name", "public", "sites"),
    [
        pytest.param("logit", True, 1, marks=pytest.mark.wide),
        pytest.param("logit", True, 5, marks=pytest.mark.wide),
        pytest.param("logit", False, 1, marks=pytest.mark.wide),
        pytest.param("linear", True, 1, marks=pytest.mark.wide),
        pytest.param("linear", False, 1, marks=pytest.mark.wide),
        pytest.param("poisson", True, 1, marks=pytest.mark.wide),
        pytest.param("multinomial", True, 1, marks=pytest.mark.wide),
    ],
)
def test_no_plan_predicts_more_for_more_while_it_buys_the_same(name, public, sites):
    """Whatever private people say: fails where the integral of pooling is no smooth function of covariances."""
    spec = spec_of(name, public)
    people = [round(each) for each in in_steps(1e3, 1e8, each=3.2, close=1.04)]
    epsilons = [float(f"{each:.4g}") for each in in_steps(0.1, 10.0, each=2.2, close=1.04)]
    rows = [[(each, 1.0) for each in people], *([(each, epsilon) for epsilon in epsilons] for each in (10**4, 10**6))]
    found = [most_larger(spec, row, sites=sites) for row in rows]
    assert max(most for most, _ in found) <= 1.03
    assert max(switched for _, switched in found) <= 2  # so that nearly all are compared


@pytest.mark.wide
def test_a_plan_names_where_more_epsilon_gives_larger_errors(monkeypatch):
    """With few candidates for the share of the determinant one more step of epsilon takes another, and costs more."""
    monkeypatch.setattr(request, "SHARES", (0.05, 0.3, 0.7))
    model = hdpf.quantile("score" + RIGHT, hdp.Study(public=frame(), schema=SCHEMA))
    plan = model.plan([0.127, 0.142], n=3000)
    (only,) = plan.switches
    wide = plan.frame.pivot_table(index="term", columns="epsilon", values="std_error")
    rise = (wide[0.142] / wide[0.127]).max()
    assert rise > 1.03
    assert only.startswith("between epsilon = 0.127 and 0.142 errors of Intercept, age, nodes, hormon rise by up to ")
    assert only in str(plan)
    assert only in plan._repr_html_()
    assert not model.plan([0.142, 0.143], n=3000).switches


def test_a_plan_says_that_a_larger_share_makes_an_error_rise():
    frame = pd.DataFrame(
        {
            "epsilon": [1.0, 1.1],
            "term": ["age", "age"],
            "se_share": [0.1, 0.4],
            "std_error": [1.0, 1.05],
            "private_only": [1.0, 1.05],
        }
    )
    bought = dict.fromkeys([1.0, 1.1], ("coefficients by mechanism objective", HESSIAN))
    (only,) = Plan(frame=frame, records=10, declared=True, assumption="", bought=bought).switches
    assert "errors of age rise by up to 5%: a larger share of epsilon, 40.0% for 10.0%, buys the noisy Hessian" in only
    (other,) = Plan(frame=frame.assign(se_share=0.1), records=10, declared=True, assumption="", bought=bought).switches
    assert "a larger share" not in other


def test_a_plan_names_where_a_fit_comes_to_buy_something_else():
    study = hdp.Study(public=frame(400), schema=SCHEMA)
    plan = hdpf.linear("score" + RIGHT, study).plan([0.05, 0.1, 1.0, 2.0], n=1000)
    (only,) = plan.switches
    assert only.startswith("between epsilon = 0.1 and 1 ")
    assert only.endswith("averages of their covariates from there on")
    assert only in str(plan)
    assert only in plan._repr_html_()
    alone = hdpf.logit("event" + RIGHT, hdp.Study(schema=SCHEMA)).plan([0.3, 30.0], n=1000)
    assert alone.switches[0].endswith("the noisy Hessian that standard errors need from there on")
    assert not plan.table.empty
    assert not hdpf.linear("score" + RIGHT, study).plan([1.0, 2.0], n=1000).switches


@pytest.mark.wide
def test_what_is_wanted_at_a_million_is_found_at_a_small_epsilon():
    """Fails where noise that covers the solver outweighs all else: more epsilon was recommended, and made it worse."""
    model = hdpf.logit("event" + RIGHT, hdp.Study(public=frame(), schema=SCHEMA))
    plain = model.plan([0.1, 1.0, 3.0], n=10**6).frame.pivot_table(index="term", columns="epsilon", values="std_error")
    wanted = 1.02 * float(plain[3.0]["age"])
    (only,) = model.plan(std_error={"age": wanted}, n=10**6).wanted
    assert only.epsilon is not None
    assert only.epsilon <= 1.0
