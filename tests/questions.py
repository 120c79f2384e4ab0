"""Questions of every kind that take long, to compare what they take with what they are said to take."""

import dataclasses
import warnings
from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import HdpWarning
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.exponential import ExponentialQuery
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.mechanisms.hybrid_weights import CurveQuery, DistanceQuery, LossSelectionQuery
from hdpstats.models.own_description import own_description
from hdpstats.records.geometry import PointColumn, PointSpace
from tests.support import coefficients_of_anybody

LEVELS = [f"level{number}" for number in range(60)]
WIDE = [f"x{number}" for number in range(40)]
SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    k=hdp.Continuous(0, 40, complete=True),
    many=hdp.Categorical(LEVELS, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    w=hdp.Weight(max=3, complete=True),
    time=hdp.Duration(horizon=24, unit="months", complete=True),
    start=hdp.Duration(horizon=24, unit="months", complete=True),
    event=hdp.Binary(complete=True),
    cause=hdp.Categorical(["none", "one", "two", "three"], complete=True),
    **{name: hdp.Continuous(-3, 3, complete=True) for name in WIDE},
)
SQUARES = " + ".join(f"I(x{number}**2) + exp(x{number})" for number in range(10))


def people(rows, seed=0):
    """Return rows of the schema."""
    rng = np.random.default_rng(seed)
    stop = np.ceil(rng.exponential(12, rows)).clip(2, 24)
    return pd.DataFrame(
        {
            "y": rng.integers(0, 2, rows).astype(float),
            "k": rng.integers(0, 20, rows).astype(float),
            "many": rng.choice(LEVELS, rows),
            "g": rng.choice(["a", "b", "c"], rows),
            "w": rng.uniform(0, 3, rows),
            "time": stop,
            "start": np.floor(stop * rng.random(rows) / 2),
            "event": rng.integers(0, 2, rows).astype(float),
            "cause": rng.choice(["none", "one", "two", "three"], rows),
            **{name: rng.normal(size=rows).clip(-3, 3) for name in WIDE},
        }
    )


class Asked(BaseException):
    """Carries what a site would have been asked."""

    def __init__(self, query):
        self.query = query


def asked(task):
    """Return the first query that a task asks a site in this process, which answers none but for numbers of people."""
    answer = hdp.LocalSite.answer

    def refuse(self, query, **options):
        if isinstance(query, CountQuery):
            return answer(self, query, **options)
        raise Asked(query)

    with mock.patch.object(hdp.LocalSite, "answer", refuse), warnings.catch_warnings(), coefficients_of_anybody():
        warnings.simplefilter("ignore", HdpWarning)  # of public rows and of outcomes, which are not looked at here
        try:
            task()
        except Asked as found:
            return found.query
    raise AssertionError("nothing was asked")


def site_of(rows, **terms):
    """Return a site of so many rows, and of several rows for each person where terms name a unit."""
    frame = people(rows)
    if "unit" in terms:
        frame["id"] = [f"p{number // terms['max_rows_per_unit']}" for number in range(rows)]
    relation = {"relation": terms.pop("relation")} if "relation" in terms else {}
    ledger = hdp.Ledger(None, dataset="d", epsilon=100, delta=1e-3, unit=terms.get("unit"), **relation)
    return hdp.LocalSite(frame, schema=SCHEMA, ledger=ledger, **terms)


def curve(terms, width, *, candidates=3, ridge=Fraction(1, 10)):
    """Return a performance curve of terms that make so many columns."""
    return CurveQuery(
        formula=f"y ~ {terms}",
        candidates=((0.1,) * width,) * candidates,
        scale=(1.0,) * width,
        radius=Fraction(8),
        ridge=Fraction(ridge),
        epsilon=Fraction(1, 100),
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
    )


def with_few_proposals(query):
    """Return a query with a large delta, which needs fewer proposals: each of them is as much work as before."""
    few = 100 if query.model.dimension == 1 else 1500
    return dataclasses.replace(query, proposals=few, delta=Fraction(9, 10))


OWN = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    score=lambda eta, y: np.tanh(eta - y),
    lipschitz=1.0,
    smoothness=1.0,
    residual=(-5.0, 5.0),
)

PRODUCTS = [f"x{i}:x{j}" for i in range(40) for j in range(i)]


def questions(rows, names=None):
    """Yield the name, the site and the query of each question, or of the named ones, for about so many rows."""
    for name, site, query in _questions(rows, names):
        if names is None or name in names:
            yield name, site, query


def _questions(rows, names):
    site = site_of(rows, row_order="arbitrary")
    with_public = hdp.Study(private=site, public=people(1500, 1))
    alone = hdp.Study(private=site)

    def fit(make, **options):
        return lambda: make().fit(epsilon=1.0, describe=False, **options)

    weighting = hdp.Propensity.of(hdpf.logit("y ~ x1 + x2 + g", data=with_public).fit_public()).weights()
    mechanisms = hdp.mechanisms
    one_round = {"mechanism": mechanisms.ClippedNewton(rounds=1)}
    wide = " + ".join(WIDE)
    hazard = "Surv(time, event) ~"
    spline = "ns(x1, df=9) + bs(x2, df=11, degree=5) + poly(x3, 4)"
    local = {
        "logit, objective": fit(lambda: hdpf.logit("y ~ x1 + x2 + g", data=with_public)),
        "logit, output": fit(lambda: hdpf.logit("y ~ x1 + g", data=with_public), mechanism="output"),
        "logit without public rows": fit(lambda: hdpf.logit("y ~ x1 + x2", data=alone, row_norm=2.0), se_share=0),
        "logit of many columns": fit(
            lambda: hdpf.logit(f"y ~ {wide}", data=alone, row_norm=2.0), mechanism="objective", se_share=0
        ),
        "logit of levels": fit(
            lambda: hdpf.logit("y ~ many + x1:g", data=alone, row_norm=2.0), mechanism="objective", se_share=0
        ),
        "multinomial with a Hessian": fit(
            lambda: hdpf.multinomial("cause ~ x1 + x2 + x3", data=with_public), se_share=0.2, mechanism="objective"
        ),
        "logit with a sandwich": fit(
            lambda: hdpf.logit("y ~ x1 + x2 + g + x3 + x4", data=with_public), se_share=0.2, mechanism="objective"
        ),
        "quantile with a sandwich": fit(
            lambda: hdpf.quantile("k ~ x1 + x2 + g", data=with_public, q=0.5),
            mechanism=mechanisms.OutputPerturbation(se_share=0.2),
        ),
        "logit with a delta": fit(
            lambda: hdpf.logit("y ~ x1 + x2", data=with_public), delta=1e-6, mechanism="objective"
        ),
        "logit of splines": fit(lambda: hdpf.logit(f"y ~ {spline}", data=with_public), **one_round),
        "logit of functions": fit(
            lambda: hdpf.logit(f"y ~ {SQUARES}", data=alone, row_norm=2.0), mechanism="objective", se_share=0
        ),
        "logit, weighted": fit(lambda: hdpf.logit("y ~ x1 + g", data=with_public, weights="w")),
        "logit of people weighted by propensity": fit(
            lambda: hdpf.logit("event ~ y", data=with_public, weighting=weighting)
        ),
        "linear": fit(lambda: hdpf.linear("k ~ x1 + g", data=with_public)),
        "huber": fit(lambda: hdpf.mestimate("k ~ x1 + g", with_public, loss=hdp.losses.Huber(2.0))),
        "quantile": fit(lambda: hdpf.quantile("k ~ x1 + g", data=with_public, q=0.5), mechanism="output"),
        "poisson": fit(lambda: hdpf.poisson("k ~ x1 + g", data=with_public)),
        "multinomial": fit(lambda: hdpf.multinomial("cause ~ x1 + g", data=with_public)),
        "multinomial of many levels": fit(lambda: hdpf.multinomial("many ~ 1", data=with_public), **one_round),
        "one round": fit(lambda: hdpf.logit(f"y ~ {wide}", data=with_public), **one_round),
        "one round of many columns": fit(
            lambda: hdpf.logit(f"y ~ {' + '.join(PRODUCTS[:110])}", data=with_public), **one_round
        ),
        "rounds with a delta": fit(
            lambda: hdpf.logit("y ~ x1 + g", data=with_public), delta=1e-6, mechanism="clipped_newton"
        ),
        "cut rows": fit(
            lambda: hdpf.logit("y ~ x1 + g", data=with_public), delta=1e-6, mechanism=mechanisms.PublicHessian(rounds=2)
        ),
        "hazard": fit(lambda: hdpf.hazard(f"{hazard} x1 + g", data=with_public, intervals=12)),
        "hazard of many intervals": fit(
            lambda: hdpf.hazard(f"{hazard} x1 + g", data=with_public, intervals=96), **one_round
        ),
        "hazard of a wide spline": fit(
            lambda: hdpf.hazard(f"{hazard} {spline}", data=with_public, intervals=24), **one_round
        ),
        "hazard, cloglog": fit(lambda: hdpf.hazard(f"{hazard} x1", data=with_public, intervals=12, link="cloglog")),
        "hazard, probit": fit(
            lambda: hdpf.hazard(f"{hazard} x1", data=with_public, intervals=12, link="probit"), **one_round
        ),
        "hazard of causes": fit(
            lambda: hdpf.hazard("Surv(time, cause) ~ x1", data=with_public, intervals=12), mechanism="objective"
        ),
        "hazard of strata": fit(lambda: hdpf.hazard(f"{hazard} x1 + strata(g)", data=with_public, intervals=6)),
        "hazard with entry": fit(lambda: hdpf.hazard("Surv(start, time, event) ~ x1", data=with_public, intervals=12)),
        "description": lambda: hdp.describe(with_public, ["x1", "k", "g", "many"], epsilon=1.0),
        "description of groups": lambda: hdp.describe(with_public, ["x1", "k", "g"], by="many", epsilon=1.0),
        "description of correlations": lambda: hdp.describe(
            with_public, ["x1", "x2", "k", "many"], epsilon=1.0, complete=True, correlations=True
        ),
        "survival curves": lambda: hdpf.survfit("Surv(time, event) ~ many", data=with_public).fit(epsilon=1.0),
        "adjusted survival curves": lambda: hdpf.survfit(
            "Surv(time, event) ~ y", data=with_public, weighting=weighting
        ).fit(epsilon=1.0),
        "sampling": fit(lambda: hdpf.logit("y ~ x1", data=with_public), delta=1e-3, mechanism="exponential"),
        "sampling of one": fit(lambda: hdpf.logit("y ~ 1", data=with_public), delta=1e-3, mechanism="exponential"),
        "sampling of a hazard": fit(
            lambda: hdpf.hazard(f"{hazard} 1", data=with_public, intervals=2, baseline="dummies"),
            delta=1e-3,
            mechanism="exponential",
        ),
        "statistics": lambda: hdpf.distribution("x1 ~ 1", data=with_public, family="normal").fit(1.0),
        "blocks": lambda: hdpf.distribution("x1 ~ 1", data=with_public, family="normal").fit(
            1.0, mechanism="subsample"
        ),
        "nearest points": lambda: hdp.hybrid_weights(with_public, ["x1", "x2", "g"], select=False, epsilon=1.0),
        "hybrid weights": lambda: hdp.hybrid_weights(with_public, ["x1", "x2", "g"], epsilon=1.0),
        "importance weights": lambda: hdp.importance_weights(with_public, "~ x1 + x2 + g", epsilon=1.0),
        "evaluation": lambda: hdpf.logit("y ~ x1 + g", data=with_public).evaluate(
            hdpf.logit("y ~ x1 + g", data=with_public).fit_public(), epsilon=1.0
        ),
        "treatment effect": lambda: hdp.treatment_effect("event ~ y", with_public, weighting, epsilon=1.0),
        "treatment effect on a number": lambda: hdp.treatment_effect("k ~ y", with_public, weighting, epsilon=1.0),
    }
    for name, task in local.items():
        if names is None or name in names:
            query = asked(task)
            yield name, site, with_few_proposals(query) if isinstance(query, ExponentialQuery) else query
    yield (
        "histogram",
        site,
        HistogramQuery(
            axes=(Axis(name="many", levels=60), Axis(name="x1", cuts=tuple(np.linspace(-2, 2, 60).tolist()))),
            epsilon=Fraction(1),
            schema_sha256=SCHEMA.sha256,
            replicate=1,
        ),
    )
    space = PointSpace(columns=tuple(PointColumn(name=f"x{j}", lower=-3.0, upper=3.0) for j in range(3)))
    site.put_public(with_public.public)
    identity = {"schema_sha256": SCHEMA.sha256, "public_sha256": with_public.public.sha256}
    yield "distance", site, DistanceQuery(space=space, support=None, reach=9.0, epsilon=Fraction(1), **identity)
    yield "curve", site, curve("x1 + x2", 3)
    yield "curve of many columns", site, curve("many * (x0 + x1 + x2 + x3 + x4 + x5)", 420)
    yield "curve of levels", site, curve("many + x1:g", 63, candidates=50)
    yield (
        "choice by loss",
        site,
        LossSelectionQuery(
            formula=f"y ~ {wide}",
            candidates=((0.1,) * 41,) * 30,
            reach=4.0,
            epsilon=Fraction(1),
            schema_sha256=SCHEMA.sha256,
            public_sha256=None,
        ),
    )
    several = site_of(rows, unit="id", max_rows_per_unit=4, n_max=rows // 4, relation="add_or_remove_one")
    study = hdp.Study(private=several, public=people(200, 1).assign(id=[f"q{n}" for n in range(200)]))
    long = fit(lambda: hdpf.hazard("Surv(start, time, event) ~ x1 + g", data=study, intervals=12))
    yield "hazard of several rows", several, asked(long)
    visits = fit(lambda: hdpf.logit("y ~ x1 + g", data=study), se_share=0.2)
    query = asked(visits)
    yield "logistic of several rows", several, query
    hessian = dataclasses.replace(query, sandwich=None, hessian_share=Fraction(1, 5))
    yield "Hessian of several rows", several, hessian
    visits = fit(lambda: hdpf.multinomial("g ~ x1 + x2", data=study), mechanism=mechanisms.OutputPerturbation())
    yield "levels of several rows", several, asked(visits)
    visits = fit(lambda: hdpf.mestimate("k ~ x1 + g", data=study, loss=OWN))
    yield "own loss of several rows", several, asked(visits)
    visits = fit(lambda: hdpf.logit("y ~ x1 + g", data=study), mechanism=mechanisms.ClippedNewton(rounds=1))
    yield "clipped scores of several rows", several, asked(visits)
    averages = own_description(hdpf.logit("y ~ x1 + g", data=study, correlation=0.3)._spec)
    yield "averages of several rows", several, averages.query(Fraction(1))
    yield "description of several rows", several, asked(partial(hdp.describe, study, ["x1", "k", "g"], epsilon=1.0))
    first = fit(lambda: hdpf.logit("y ~ x1 + g", data=study), mechanism="objective", se_share=0)
    first = dataclasses.replace(asked(first), sandwich=None, hessian_share=Fraction(0))
    model = dataclasses.replace(first.model, correlation=None, first=True)
    yield "first of several rows", several, dataclasses.replace(first, model=model)
    own = hdp.propensity("y ~ x1 + x2 + g", data=study).fit_public().weights()
    effect = partial(hdp.treatment_effect, "event ~ y", study, own, epsilon=1.0)
    yield "treatment effect of several rows", several, asked(effect)
    yield "balance of several rows", several, asked(partial(hdp.describe, study, ["x1"], weighting=own, epsilon=1.0))
    weighted = fit(lambda: hdpf.logit("event ~ y", data=study, weighting=own))
    yield "logit of weighted people of several rows", several, asked(weighted)
    count = CountQuery(epsilon=Fraction(1), schema_sha256=SCHEMA.sha256, columns=("event", "x1", "y"), apart="event")
    yield "count of people of several rows", several, count
    yield "count", several, CountQuery(epsilon=Fraction(1), schema_sha256=SCHEMA.sha256)
