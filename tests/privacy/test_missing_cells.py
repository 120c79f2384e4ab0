"""A row with a missing cell contributes nothing, whatever its other cells, to every mechanism; and all is charged.

Two private tables that differ in the other cells of a row with a missing one give the same releases, to the last bit,
under the same noise. Where a mechanism read such a row half-way, they would not. Every mechanism of the registry, with
every family of models, every loss and every link is in `ANALYSES`.
"""

import functools
import itertools
import json
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.regression.bounds import regression_person_loss
from hdpstats.losses import BY_NAME, LINKS
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.count import site as count
from hdpstats.mechanisms.registry import MECHANISMS, family_of, name_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from hdpstats.sites.local import LocalSite
from tests import seeded
from tests.support import coefficients_of_anybody

ROWS, SPOILED = 120, 17
MISSING = {
    "x": [None, np.nan, "much", "2,5"],
    "b": [None, 2, "yes", 0.5],
    "g": [None, "A", "a ", ""],
    "t": [np.nan, "soon", pd.Timestamp("2020-01-01")],
    "s": [None],
    "d": [3, "dead"],
    "c": [None, "Relapse"],
    "w": [None, "heavy"],
    "o": [None, "x"],
    "k": [None, "many"],
}
"""Cells that hold no value of their column."""

OTHERS = [
    {"x": 3.0, "b": 1, "g": "c", "t": 9.0, "s": 0.0, "d": 1, "c": "relapse", "w": 2.0, "o": 1.0, "k": 8},
    {"x": -3.0, "b": 0, "g": "a", "t": 7.0, "s": 2.0, "d": 0, "c": "none", "w": 0.1, "o": -1.0, "k": 0},
]
"""What the other cells of the row hold in one table and in the other."""


def schema_of(*, complete):
    declared = {"complete": complete}
    return hdp.Schema(
        x=hdp.Continuous(-3, 3, **declared),
        b=hdp.Binary(**declared),
        g=hdp.Categorical(["a", "b", "c"], **declared),
        t=hdp.Duration(10, **declared),
        s=hdp.Duration(10, **declared),
        d=hdp.Binary(**declared),
        c=hdp.Categorical(["none", "relapse", "death"], **declared),
        w=hdp.Weight(2, **declared),
        o=hdp.Offset(-1, 1, **declared),
        k=hdp.Continuous(0, 8, **declared),
    )


def people(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    time = rng.uniform(1.0, 12.0, rows)
    return pd.DataFrame(
        {
            "x": rng.normal(size=rows),
            "b": rng.integers(0, 2, rows),
            "g": rng.choice(["a", "b", "c"], rows),
            "t": time,
            "s": time * rng.uniform(0.0, 0.5, rows),
            "d": rng.integers(0, 2, rows),
            "c": rng.choice(["none", "relapse", "death"], rows),
            "w": rng.uniform(0.1, 2.0, rows),
            "o": rng.uniform(-1.0, 1.0, rows),
            "k": rng.poisson(2.0, rows).clip(0, 8),
        }
    )


PUBLIC = people(1, rows=150)


def private(column, cell, others):
    """Return rows of which one lacks a cell of a column, the others of which are as named; with None none does."""
    frame = people(2).astype(object)
    for name, value in others.items():
        frame.at[SPOILED, name] = value
    if column is not None:
        frame.at[SPOILED, column] = cell
    return frame


def study_of(frame, *, complete, unit=None, relation="replace_one", row_order="arbitrary"):
    options = {} if unit is None else {"unit": unit, "max_rows_per_unit": 2, "n_max": 80}
    if relation != "replace_one":
        options["n_max"] = 500
    if unit is not None:
        frame = frame.assign(who=[f"p{row // 2}" for row in range(len(frame))])
    return hdp.Study(
        private=frame,
        public=PUBLIC,
        schema=schema_of(complete=complete),
        budget=hdp.Budget(epsilon=100, delta=0.1),
        relation=relation,
        row_order=row_order,
        **options,
    )


def fit(model, **arguments):
    return lambda study: model(study).fit(**({"epsilon": 1.0} | arguments))


def _placeless(value):
    if isinstance(value, dict):
        return {name: _placeless(each) for name, each in value.items() if name != "entry"}
    return [_placeless(each) for each in value] if isinstance(value, list) else value


def logit(study, formula="b ~ x + g", **columns):
    return hdpf.logit(formula, data=study, **columns)


def hazard(formula, **arguments):
    return lambda study: hdpf.hazard(formula, data=study, **({"intervals": 5} | arguments))


def mestimate(formula, loss):
    return lambda study: hdpf.mestimate(formula, data=study, loss=loss)


def multinomial(study, formula="g ~ x"):
    return hdpf.multinomial(formula, data=study)


def weighted(columns, **options):
    return lambda study: hdp.hybrid_weights(study, columns, epsilon=1.0, **options)


def evaluated(opened):
    def evaluate(study):
        model = opened(study)
        return model.evaluate(model.fit_public(), epsilon=1.0)

    return evaluate


def public_weighting(formula, study):
    """Return weights from public rows alone: those of a private model would count rows without the outcome."""
    return hdp.Propensity.of(hdpf.logit(formula, data=study).fit_public()).weights()


def balance(study):
    return hdp.describe(study, ["g"], weighting=public_weighting("b ~ x + g", study), epsilon=1.0)


def effect_of(formula, outcome):
    def effect(study):
        weighting = public_weighting(formula, study)
        with coefficients_of_anybody():
            return hdp.treatment_effect(f"{outcome} ~ b", study, weighting, epsilon=1.0)

    return effect


def adjusted(study):
    weighting = public_weighting("b ~ x", study)
    with coefficients_of_anybody():
        return hdpf.survfit("Surv(t, d) ~ b", data=study, weighting=weighting).fit(epsilon=1.0)


class Analysis(NamedTuple):
    """What is run on a study, the columns that it reads, and which of `everything` it asks for, among others."""

    run: object
    columns: str
    asks: tuple[str, ...]


OWN = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    score=lambda eta, y: np.tanh(eta - y),
    lipschitz=1.0,
    smoothness=1.0,
    residual=(-5.0, 5.0),
)
SUBSAMPLE = hdp.mechanisms.SubsampleAggregate(blocks=6)
ANALYSES = {
    "objective": Analysis(fit(logit), "xbg", ("objective of regression", "loss logistic")),
    "objective with a Hessian": Analysis(fit(logit, se_share=0.2), "xbg", ()),
    "objective, normal noise": Analysis(fit(logit, delta=1e-3, mechanism="objective"), "xbg", ()),
    "weights and offset": Analysis(fit(functools.partial(logit, weights="w", offset="o")), "xbgwo", ()),
    "output": Analysis(fit(logit, mechanism="output"), "xbg", ("output of regression",)),
    "exponential": Analysis(
        fit(functools.partial(logit, formula="b ~ x"), mechanism="exponential", delta=1e-3),
        "xb",
        ("exponential of regression",),
    ),
    "clipped_newton": Analysis(
        fit(logit, mechanism="clipped_newton", delta=1e-3), "xbg", ("clipped_newton of regression",)
    ),
    "public_hessian": Analysis(fit(logit, mechanism="public_hessian"), "xbg", ("public_hessian of regression",)),
    "histogram": Analysis(fit(functools.partial(logit, formula="b ~ g"), mechanism="histogram"), "bg", ("histogram",)),
    "linear": Analysis(fit(lambda study: hdpf.linear("x ~ k + g", data=study)), "xkg", ("loss squares",)),
    "huber": Analysis(fit(mestimate("x ~ k", hdp.losses.Huber())), "xk", ("loss huber",)),
    "quantile": Analysis(fit(lambda study: hdpf.quantile("x ~ k", data=study, q=0.5)), "xk", ("loss quantile",)),
    "poisson": Analysis(fit(lambda study: hdpf.poisson("k ~ x", data=study)), "xk", ("loss poisson",)),
    "exponential times": Analysis(
        fit(mestimate("Surv(t, d) ~ x", hdp.losses.Exponential())), "tdx", ("loss exponential",)
    ),
    "own": Analysis(fit(mestimate("x ~ k", OWN)), "xk", ("loss own",)),
    "multinomial": Analysis(fit(multinomial), "xg", ("objective of multinomial",)),
    "multinomial, output": Analysis(fit(multinomial, mechanism="output"), "xg", ("output of multinomial",)),
    "multinomial, exponential": Analysis(
        fit(functools.partial(multinomial, formula="g ~ 1"), mechanism="exponential", delta=1e-3),
        "g",
        ("exponential of multinomial",),
    ),
    "multinomial, clipped_newton": Analysis(
        fit(multinomial, mechanism="clipped_newton", delta=1e-3), "xg", ("clipped_newton of multinomial",)
    ),
    "hazard": Analysis(fit(hazard("Surv(t, d) ~ x + g")), "tdxg", ("objective of hazard", "link logit")),
    "hazard, cloglog": Analysis(fit(hazard("Surv(t, d) ~ x", link="cloglog")), "tdx", ("link cloglog",)),
    "hazard, probit": Analysis(fit(hazard("Surv(t, d) ~ x", link="probit")), "tdx", ("link probit",)),
    "hazard, entry": Analysis(fit(hazard("Surv(s, t, d) ~ x")), "stdx", ()),
    "hazard, causes": Analysis(fit(hazard("Surv(t, c) ~ x")), "tcx", ()),
    "hazard, output": Analysis(fit(hazard("Surv(t, d) ~ x"), mechanism="output"), "tdx", ("output of hazard",)),
    "hazard, exponential": Analysis(
        fit(hazard("Surv(t, d) ~ 1", intervals=2, baseline="dummies"), mechanism="exponential", delta=1e-3),
        "td",
        ("exponential of hazard",),
    ),
    "hazard, clipped_newton": Analysis(
        fit(hazard("Surv(t, d) ~ x"), mechanism="clipped_newton", delta=1e-3), "tdx", ("clipped_newton of hazard",)
    ),
    "statistics": Analysis(
        fit(lambda study: hdpf.distribution("x ~ 1", data=study, family="normal")),
        "x",
        ("statistics of distribution", "count"),
    ),
    "subsample": Analysis(
        fit(
            lambda study: hdpf.distribution("k ~ 1", data=study, family="poisson", ranges={"mean": (0.5, 6)}),
            mechanism=SUBSAMPLE,
        ),
        "k",
        ("subsample of distribution",),
    ),
    "description": Analysis(
        lambda study: hdp.describe(study, ["x", "g"], epsilon=1.0, complete=True), "xg", ("description",)
    ),
    "balance": Analysis(balance, "xbg", ("description",)),
    "survival curves": Analysis(fit(lambda study: hdpf.survfit("Surv(t, d) ~ g", data=study)), "tdg", ("description",)),
    "adjusted survival curves": Analysis(adjusted, "tdxb", ("description",)),
    "hybrid weights": Analysis(weighted(["b", "g"]), "bg", ("neighbours",)),
    "hybrid weights by distance": Analysis(
        weighted(["x", "b"], select=True, distance_share=0.1), "xb", ("selection", "distance")
    ),
    "hybrid weights by loss": Analysis(
        weighted(["x", "b"], select="loss", model="b ~ x"), "xb", ("loss_selection of regression",)
    ),
    "hybrid weights by curve": Analysis(
        weighted(["x", "b"], select="curve", model="b ~ x"), "xb", ("curve of regression",)
    ),
    "importance weights": Analysis(
        lambda study: hdp.importance_weights(study, "~ x + g", epsilon=1.0),
        "xg",
        ("importance_weights of density ratio",),
    ),
    "evaluation": Analysis(
        evaluated(functools.partial(logit, formula="b ~ x", offset="o")), "xbo", ("evaluation of regression",)
    ),
    "treatment effect on a number": Analysis(effect_of("b ~ x", "k"), "xbk", ("treatment_effect",)),
    "treatment effect": Analysis(effect_of("b ~ x + g", "d"), "xbgd", ("treatment_effect",)),
    "evaluation of survival": Analysis(evaluated(hazard("Surv(t, d) ~ x + g")), "tdxg", ("evaluation of hazard",)),
}


def _named(mechanism, family):
    return mechanism if family is None else f"{mechanism} of {family}"


def everything():
    """Return each mechanism of each family of models that it fits or reads, each loss and each link of hazards."""
    asked = {_named(each.name, family) for each in MECHANISMS for family in each.models or (None,)}
    return asked | {f"loss {name}" for name in BY_NAME} | {f"link {name}" for name in LINKS}


def asked_by(query):
    """Return which of `everything` a query asks for."""
    model = getattr(query, "model", None)
    parts = {f"{part} {getattr(model, part)}" for part in ("loss", "link") if hasattr(model, part)}
    return {_named(name_of(query), family_of(query))} | parts


def noted(analysis, frame, **terms):
    """Return the questions of an analysis with their options, and their releases, under the same noise each time.

    Questions are calls: the name of a method of the site, its arguments, its options.
    """
    calls, releases = [], []

    def recorded(name):
        method = getattr(LocalSite, name)

        def call(site, *arguments, **options):
            calls.append((name, arguments, options))
            found = method(site, *arguments, **options)
            if name == "answer":
                releases.append(_plain(found))
            return found

        return call

    with seeded.named("missing cells"), pytest.MonkeyPatch.context() as patch:
        for name in ("answer", "put_public"):
            patch.setattr(LocalSite, name, recorded(name))
        analysis(study_of(frame, **terms))
    return calls, releases


def _plain(release):
    return json.dumps(_placeless(json.loads(release.to_json())), sort_keys=True)


def released(analysis, frame, **terms):
    """Return what an analysis releases of private rows, without places in ledgers."""
    return noted(analysis, frame, **terms)[1]


def answers(calls, frame, **terms):
    """Return what a site releases of private rows when it is asked the same, under the same noise each time."""
    site = study_of(frame, **terms).site
    with seeded.named("missing cells"):
        found = [(name, getattr(site, name)(*arguments, **options)) for name, arguments, options in calls]
    return [_plain(release) for name, release in found if name == "answer"]


def test_every_mechanism_loss_and_link_is_in_an_analysis():
    asked = [part for analysis in ANALYSES.values() for part in analysis.asks]
    assert set(asked) == everything()


COMPLETE = (
    "weights and offset",
    "clipped_newton",
    "histogram",
    "hazard, entry",
    "hazard, causes",
    "subsample",
    "hybrid weights by loss",
    "importance weights",
    "evaluation of survival",
)
"""Analyses of complete columns too: each way of reading rows, and each kind of column."""

COMMON = ("weights and offset", "histogram", "evaluation of survival")
SELDOM = (
    "objective with a Hessian",
    "objective, normal noise",
    "multinomial, output",
    "multinomial, exponential",
    "multinomial, clipped_newton",
    "hazard, entry",
    "hazard, causes",
    "hazard, output",
    "hazard, exponential",
    "treatment effect on a number",
)
"""Analyses of which `make test` has each part in another one: the mechanism, the family, the loss or link."""


def analyses():
    """Give the names of analyses, and whether columns are complete."""
    for name in ANALYSES:
        yield pytest.param(name, False, marks=[pytest.mark.wide] * (name in SELDOM))
    for name in COMPLETE:
        yield pytest.param(name, True, marks=[pytest.mark.wide] * (name not in COMMON))


@pytest.mark.parametrize(("name", "complete"), list(analyses()))
def test_the_other_cells_of_a_row_with_a_missing_cell_count_for_nothing(name, complete):
    analysis, columns, asks = ANALYSES[name]
    asked, _ = noted(analysis, private(None, None, OTHERS[0]), complete=complete)
    queries = [arguments[0] for name, arguments, _ in asked if name == "answer"]
    assert complete or set(asks) <= set().union(*map(asked_by, queries))
    whole, spoiled = answers(asked, private(None, None, OTHERS[0]), complete=complete), []
    # Another column and other cells from one table to the next. Of complete columns two do for most analyses: all kinds
    # of columns are among the first two of one, or in the one with weights.
    for place in range(2 if complete and "w" not in columns else max(2, len(columns))):
        column = columns[place % len(columns)]
        cell = MISSING[column][place % len(MISSING[column])]
        spoiled.append(answers(asked, private(column, cell, OTHERS[place % 2]), complete=complete))
    assert all(each == spoiled[0] for each in spoiled)
    assert spoiled[0] != whole, "the row counts where it is complete: the comparison can fail"


WITH_SEVERAL_ROWS = fit(hazard("Surv(s, t, d) ~ x"))


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("cells", [{"x": None, "t": "soon"}, {"s": None, "d": 2}])
def test_a_row_of_a_person_with_several_is_left_out_and_the_others_stay(cells):
    for column, cell in cells.items():
        one, other = (
            released(WITH_SEVERAL_ROWS, private(column, cell, others), complete=False, unit="who") for others in OTHERS
        )
        assert one == other
    gone = private("x", None, OTHERS[0])
    for name in ("t", "d", "s"):
        gone.at[SPOILED, name] = None
    assert released(WITH_SEVERAL_ROWS, gone, complete=False, unit="who") == one
    other_row = private("x", None, OTHERS[0])
    other_row.at[SPOILED - 1, "x"] = 2.5
    assert released(WITH_SEVERAL_ROWS, other_row, complete=False, unit="who") != one


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("name", ["objective", "clipped_newton", "histogram", "hazard"])
def test_a_row_with_a_missing_cell_is_no_row_where_the_number_is_protected(name):
    """Under add_or_remove_one the releases are those of the table without the row."""
    analysis, (column, *_), _ = ANALYSES[name]
    spoiled = private(column, None, OTHERS[0])
    without = spoiled.drop(index=SPOILED).reset_index(drop=True)
    terms = {"complete": False, "relation": "add_or_remove_one"}
    assert released(analysis, spoiled, **terms) == released(analysis, without, **terms)


@pytest.mark.parametrize("relation", list(Relation))
def test_a_person_moves_scores_and_curvature_by_no_more_than_is_claimed_whichever_cells_are_missing(relation):
    """Neighbours that differ in missingness: the set of contributions holds 0, and no claim is exceeded."""
    study = study_of(people(2), complete=False)
    model = hdpf.logit("b ~ x + g", data=study)
    query = model._spec.ask(epsilon=Fraction(1), records=ROWS, share=Fraction(0), replicate=1)
    person_loss = regression_person_loss(query.model, study.schema)
    theta = np.array([0.3, -2.0, 1.0, 0.5])
    corners = [*OTHERS, {"x": 0.0, "b": 1, "g": "b"}]
    tables = [private(column, cell, others) for others in corners for column, cell in CASES]
    own = [_contribution(person_loss, study.schema, frame, theta) for frame in tables]
    missing = [
        score for (score, _), (column, _) in zip(own, itertools.cycle(CASES), strict=False) if column is not None
    ]
    assert not np.any(missing)
    reach, trace = float(person_loss.gradient_bound), float(person_loss.trace)
    gone = (np.zeros(len(theta)), 0.0)
    pairs = itertools.combinations(own, 2) if relation is Relation.REPLACE_ONE else ((each, gone) for each in own)
    widest = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    for (one, trace_of_one), (other, trace_of_other) in pairs:
        apart = np.abs(one - other)
        assert max(apart[0], float(np.linalg.norm(apart[1:])) / query.model.geometry.radius) <= widest * reach
        assert abs(trace_of_one - trace_of_other) <= trace


CASES = [(None, None), ("x", None), ("b", 2), ("g", "A")]


def _contribution(person_loss, schema, frame, theta):
    """Return the score (D,) of the person of the row, and the trace of the Hessian."""
    alone = frame.iloc[[SPOILED]].reset_index(drop=True)
    found = person_loss.people(PrivateTable.from_frame(alone, schema).admit(person_loss.needs))
    i, j = np.triu_indices(len(theta))
    stacked = found.stacked_hessian(theta, grid=2.0**-40) * 2.0**-40
    return found.scores(theta)[0], float(stacked[i == j].sum())


@pytest.mark.parametrize("complete", [False, True])
def test_a_number_of_complete_rows_is_charged_for_where_it_is_private_and_never_told_else(complete):
    schema = schema_of(complete=complete)
    query = CountQuery(epsilon=Fraction(1), schema_sha256=schema.sha256, columns=("b", "x"))
    facts = SiteFacts(schema=schema, relation=Relation.REPLACE_ONE, records=ROWS)
    if complete:
        with pytest.raises(hdp.MechanismError, match="declares the columns complete"):
            count.prepare(query, facts)
        return
    prepared = count.prepare(query, facts)
    [event] = prepared.events
    assert event.epsilon == query.epsilon == prepared.noise.rate
    assert set(prepared.needs) == {"b", "x"}
    numbers = {
        count.number_of_people(PrivateTable.from_frame(private(column, cell, others), schema).admit(prepared.needs))
        for others in OTHERS
        for column, cell in [(None, None), ("x", None), ("b", "yes"), ("g", None)]
    }
    assert numbers == {ROWS, ROWS - 1}


def test_a_person_of_several_rows_counts_once_with_one_complete_row():
    schema = schema_of(complete=False)
    frame = people(2, rows=6).astype(object).assign(who=["a", "a", "b", "b", None, "c"])
    frame.loc[[0, 2, 3], "x"] = None
    table = PrivateTable.from_frame(frame, schema, unit="who").admit(["x"])
    assert count.number_of_people(table) == 2
    frame.loc[[2, 5], "x"] = 0.5, None
    assert count.number_of_people(PrivateTable.from_frame(frame, schema, unit="who").admit(["x"])) == 2


@pytest.mark.parametrize("change", [("x", "x"), ("x", "b"), ("y",)])
def test_a_count_names_declared_columns_once_and_in_order(change):
    schema = schema_of(complete=False)
    facts = SiteFacts(schema=schema, relation=Relation.REPLACE_ONE, records=ROWS)
    with pytest.raises(hdp.HdpError):
        count.prepare(CountQuery(epsilon=Fraction(1), schema_sha256=schema.sha256, columns=change), facts)
