"""What a site takes for the bounds of one person, family by family: rows of its table keep them, and reach them.

From a query's record and a table of cells to gradients and Hessians, as a site goes: a bound of another family or loss,
a row without its weight or a case weight that is left out would be noticed for every family, and half a bound wherever
rows come to more than half of it (`NEAR`).
"""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import SiteError
from hdpstats.families.parted import PartedRows
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import BY_NAME, LINKS, LogisticLoss
from hdpstats.mechanisms.importance_weights.site import TwoSamples
from hdpstats.mechanisms.perturbation import OutputQuery
from hdpstats.mechanisms.registry import PERSON_LOSSES, person_loss_of, prepare
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.parquet import ParquetTable, files_of
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable

SCHEMA = hdp.Schema(
    b=hdp.Binary(complete=True),
    k=hdp.Continuous(0, 10, complete=True),
    v=hdp.Continuous(0, 9.5, complete=True),
    c=hdp.Categorical(["none", "one", "two", "three"], complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
    z=hdp.Continuous(-1, 1, complete=True),
    time=hdp.Duration(horizon=4, complete=True),
    start=hdp.Duration(horizon=4, complete=True),
    w=hdp.Weight(2, complete=True),
    o=hdp.Offset(-0.5, 0.5, complete=True),
    far=hdp.Offset(-1.3, 1.3, complete=True),
)
STUDY = hdp.Study(schema=SCHEMA)
RADIUS = 1.0
TERMS = {"data": STUDY, "weights": "w", "row_norm": RADIUS}
HAZARD = {"intervals": 3, "offset": "o", **TERMS}
OWN = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    score=lambda eta, y: np.tanh(eta - y),
    lipschitz=1.0,
    smoothness=1.0,
    residual=(-5.0, 5.0),
)
MODELS = {
    "logistic": lambda: hdpf.logit("b ~ x + z", offset="o", **TERMS),
    "logistic, no intercept": lambda: hdpf.logit("b ~ 0 + x + z", **TERMS),
    "poisson": lambda: hdpf.poisson("k ~ x + z", offset="o", **TERMS),
    "squares": lambda: hdpf.linear("v ~ x + z", **TERMS),
    "huber": lambda: hdpf.mestimate("v ~ x + z", loss=hdp.losses.Huber(1.0), **TERMS),
    "quantile": lambda: hdpf.quantile("v ~ x + z", q=0.25, **TERMS),
    "exponential": lambda: hdpf.mestimate("Surv(time, b) ~ x + z", loss=hdp.losses.Exponential(), **TERMS),
    "own": lambda: hdpf.mestimate("v ~ x + z", loss=OWN, **TERMS),
    "multinomial": lambda: hdpf.multinomial("c ~ x + z", **TERMS),
    "logit hazard": lambda: hdpf.hazard("Surv(time, b) ~ x + z", **HAZARD),
    "cloglog hazard": lambda: hdpf.hazard("Surv(time, b) ~ x + z", link="cloglog", **HAZARD),
    "probit hazard": lambda: hdpf.hazard("Surv(time, b) ~ x + z", link="probit", **HAZARD),
    "hazards of causes": lambda: hdpf.hazard("Surv(time, c) ~ x + z", **HAZARD),
}


NEAR = {
    "poisson": (0.9, 0.5),
    "exponential": (0.9, 0.7),
    "multinomial": (0.9, 0.75),
    "logit hazard": (0.75, 0.6),
    "cloglog hazard": (0.75, 0.5),
    "probit hazard": (0.75, 0.1),
    "hazards of causes": (0.4, 0.4),
}
"""Which shares of the bounds of gradients and traces rows come to at least; of others it is .9."""


def people_of_all_kinds():
    """Return people within and beyond the row norm, with every outcome, of the largest case weight."""
    rng, n = np.random.default_rng(4), 1200
    size = rng.choice([0.3, 1.0], n)
    return pd.DataFrame(
        {
            "b": rng.integers(0, 2, n),
            "k": rng.choice([0.0, 10.0, 3.0], n),
            "v": rng.choice([0.0, 9.5, 3.0], n),
            "c": rng.choice(["none", "one", "two", "three"], n),
            "x": size * rng.choice([-1.0, 1.0, 0.3], n),
            "z": size * rng.choice([-1.0, 1.0, 0.0], n),
            "time": rng.choice([0.5, 4.0, 2.0], n),
            "start": 0.0,
            "far": 0.0,
            "w": 2.0,
            "o": rng.choice([-0.5, 0.5], n),
        }
    )


def in_norm(scores, model):
    """Return the norms of scores: for one predictor that of a cylinder, or without an intercept of a ball; else L2."""
    if model.kind != "regression":
        return np.linalg.norm(scores, axis=-1)
    axis = np.abs(scores[..., 0]) if model.geometry.intercept else 0.0
    return np.maximum(axis, np.linalg.norm(scores[..., int(model.geometry.intercept) :], axis=-1) / RADIUS)


def hessian_of(rows, theta):
    """Return the Hessian (D, D) of a sum of losses."""
    (i, j), grid = np.triu_indices(len(theta)), 2.0**-40
    whole = np.zeros((len(theta), len(theta)))
    whole[i, j] = rows.stacked_hessian(theta, grid=grid).astype(np.float64) * grid / np.where(i == j, 1.0, np.sqrt(2.0))
    return whole + np.triu(whole, 1).T


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_a_site_s_table_keep_the_bounds_of_their_family_and_come_near_them(name):
    query = MODELS[name]()._spec.ask(epsilon=Fraction(1), records=1200, share=Fraction(0), replicate=1)
    person_loss = person_loss_of(query.model, SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=1200))
    D, rng, frame = person_loss.dimension, np.random.default_rng(1), people_of_all_kinds()

    def rows_of(some):
        return person_loss.people(PrivateTable.from_frame(some, SCHEMA).admit(person_loss.needs))

    points = [np.array(query.centre), *(scale * rng.normal(size=D) for scale in (0.0, 0.3, 1.0, 3.0, 30.0) * 4)]
    people = rows_of(frame)
    scores = np.stack([people.scores(theta) for theta in points])
    of_gradient, of_trace = NEAR.get(name, (0.9, 0.9))
    reached = float(in_norm(scores, query.model).max()) / float(person_loss.gradient_bound)
    assert of_gradient < reached <= 1.0
    reached = float(np.linalg.norm(scores, axis=2).max()) / float(person_loss.euclidean_bound)
    assert of_gradient < reached <= 1.0
    turning = bool(np.any(np.einsum("kij,ij->ki", scores, scores[0]) < -1e-9))
    assert not (turning and person_loss.fixed_sign)
    assert turning or person_loss.fixed_sign or query.model.kind != "regression"

    heaviest, ridge = 0.0, Fraction(1, 2)
    for place in range(16):
        one = rows_of(frame.iloc[[place]].reset_index(drop=True))
        for theta in points[:8]:
            H = hessian_of(one, theta)
            heaviest = max(heaviest, float(np.trace(H)))
            assert np.linalg.matrix_rank(H, tol=1e-6) <= person_loss.rank
            determinant = np.linalg.slogdet(np.eye(D) + H / float(ridge))[1]
            assert determinant <= float(person_loss.jacobian(ridge))
    assert of_trace < heaviest / float(person_loss.trace) <= 1.0


def test_every_loss_family_and_link_is_here():
    models = [
        make()._spec.ask(epsilon=Fraction(1), records=1200, share=Fraction(0), replicate=1).model
        for make in MODELS.values()
    ]
    assert {model.kind for model in models} == PERSON_LOSSES.keys()
    assert {model.loss for model in models if model.kind == "regression"} == set(BY_NAME)
    assert {model.link for model in models if model.kind == "hazard"} == set(LINKS)


IN_PARTS = ["logistic", "poisson", "squares", "logit hazard"]


@pytest.mark.parametrize("name", IN_PARTS)
def test_partitions_have_the_error_bounds_of_one_table(name, tmp_path):
    """A certificate that left out what sums over partitions are off would name too small a radius."""
    query = MODELS[name]()._spec.ask(epsilon=Fraction(1), records=1200, share=Fraction(0), replicate=1)
    person_loss = person_loss_of(query.model, SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=1200))
    frame = people_of_all_kinds().sort_values(["x", "z"], key=np.abs)  # people of one file are unlike those of others
    for number, (first, last) in enumerate([(0, 7), (7, 700), (700, 1200)]):
        frame.iloc[first:last].to_parquet(tmp_path / f"{number}.parquet")
    parts = ParquetTable.open(files_of(tmp_path, name="private"), SCHEMA)
    tables = [PrivateTable.from_frame(frame, SCHEMA), parts]
    whole, summed = (person_loss.people_of(table.admit(person_loss.needs)) for table in tables)
    assert type(summed) is PartedRows
    check_errors(whole, summed)


def check_errors(whole, summed):
    """Check that one sum of losses has the gradient of another, and error bounds that are hardly larger."""
    theta = np.random.default_rng(2).normal(size=whole.dimension)
    terms = {"ridge": np.full(len(theta), 0.5), "centre": theta + 1.0, "linear": 3.0 * theta}
    one, other = whole.penalised(**terms), summed.penalised(**terms)
    assert all(type(number) is int for number in summed.loss_gradient(theta).tolist())
    errors = [each.gradient_error(theta) for each in (one, other)]
    assert np.linalg.norm(other.gradient(theta) - one.gradient(theta)) <= sum(errors)
    assert 0.5 < errors[1] / errors[0] < 1.01
    assert 0.9 <= summed.exact_sizes(2.0) / whole.exact_sizes(2.0) < 2.1
    assert summed.effect(theta) == whole.effect(theta)


def test_two_samples_have_the_error_bounds_of_one():
    """Each is summed on a grid of its own, as people of one may weigh far more: integers are added on the finer one."""
    rng, n = np.random.default_rng(6), 400
    X, y = np.column_stack([np.ones(n), rng.normal(size=(n, 2))]), np.repeat([1.0, 0.0], n // 2)
    for weight in (50.0, 0.02):
        weights = np.where(y == 1.0, 1.0, weight)
        whole = RegressionRows.of(LogisticLoss(), X, y, weights=weights)
        private, public = (
            RegressionRows.of(LogisticLoss(), X[some], y[some], weights=weights[some]) for some in (y == 1.0, y == 0.0)
        )
        check_errors(whole, TwoSamples(private=private, public=public))


@pytest.mark.parametrize("name", [name for name in MODELS if "hazard" not in name])
def test_a_site_refuses_models_of_one_row_where_people_have_several(name):
    """Whatever a client asks: the bounds are those of one row, and a person would count several times."""
    query = MODELS[name]()._spec.ask(epsilon=Fraction(1), records=1200, share=Fraction(0), replicate=1)
    facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=300, unit="id", most_rows=4)
    for asked in (query, query.asked_as(OutputQuery)):
        with pytest.raises(SiteError, match="people have several rows each"):
            prepare(asked, facts)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_all_rows_of_a_person_share_one_sum_of_caps(link):
    """Each row of a person would fill the sum of caps by itself: with all rows together nobody exceeds the bound."""
    data = hdp.Study(schema=SCHEMA, unit="id", max_rows_per_unit=4, n_max=300)
    model = hdpf.hazard(
        "Surv(start, time, b) ~ x + z", data=data, link=link, intervals=4, offset="far", row_norm=RADIUS
    )
    query = model._spec.ask(epsilon=Fraction(1), records=300, share=Fraction(0), replicate=1)
    facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=300, unit="id", most_rows=4)
    person_loss = person_loss_of(query.model, facts)
    rows = people_of_all_kinds()[:400].assign(id=np.repeat(np.arange(100), 4), start=[0.0, 1.0, 2.0, 3.0] * 100, b=0)
    rows = rows.assign(time=rows["start"] + 1.0, x=1.0, z=0.0, far=1.3)
    people = person_loss.people(PrivateTable.from_frame(rows, SCHEMA, unit="id").admit(person_loss.needs))
    theta, A = np.zeros(person_loss.dimension), np.array(query.model.baseline)
    theta[: A.shape[1]] = np.linalg.lstsq(A, np.full(len(A), 60.0), rcond=None)[0]
    reached = np.linalg.norm(people.scores(theta), axis=1) / float(person_loss.gradient_bound)
    assert np.all((reached > 0.1) & (reached <= 1.0))
