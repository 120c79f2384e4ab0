"""People with several rows in regressions: neighbours of any rows, numbers, missingness and order keep constants."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import special

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError, MechanismError, SiteError
from hdpstats.families import base, several_rows
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery
from hdpstats.mechanisms.clipped_newton.site import clipped_scores
from hdpstats.mechanisms.count.site import number_of_people
from hdpstats.mechanisms.registry import person_loss_of, prepare
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.query import unstack
from hdpstats.records.sandwich import SandwichPart
from hdpstats.schema.persons import persons_of
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests import known_noise

SCHEMA = hdp.Schema(
    b=hdp.Binary(),
    k=hdp.Continuous(0, 10),
    v=hdp.Continuous(0, 9.5),
    c=hdp.Categorical(["none", "one", "two", "three"]),
    x=hdp.Continuous(-1, 1),
    z=hdp.Continuous(-1, 1),
    time=hdp.Duration(horizon=4),
    w=hdp.Weight(2),
    o=hdp.Offset(-0.5, 0.5),
)
MODELS = {
    "logistic": lambda **terms: hdpf.logit("b ~ x + z", offset="o", **terms),
    "logistic, no intercept": lambda **terms: hdpf.logit("b ~ 0 + x + z", **terms),
    "poisson": lambda **terms: hdpf.poisson("k ~ x + z", offset="o", **terms),
    "squares": lambda **terms: hdpf.linear("v ~ x + z", **terms),
    "huber": lambda **terms: hdpf.linear("v ~ x + z", loss=hdp.losses.Huber(1.0), **terms),
    "quantile": lambda **terms: hdpf.quantile("v ~ x + z", q=0.25, **terms),
    "multinomial": lambda **terms: hdpf.multinomial("c ~ x + z", **terms),
    "exponential": lambda **terms: hdpf.mestimate("Surv(time, b) ~ x + z", loss=hdp.losses.Exponential(), **terms),
}
OWN = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    score=lambda eta, y: np.tanh(eta - y),
    lipschitz=1.0,
    smoothness=1.0,
    residual=(-5.0, 5.0),
)
MODELS["own"] = lambda **terms: hdpf.mestimate("v ~ x + z", loss=OWN, **terms)
CORRELATIONS = (0.0, 0.3, 1.0)


def study_of(most_rows, **more):
    return hdp.Study(schema=SCHEMA, unit="id", max_rows_per_unit=most_rows, n_max=400, **more)


def loss_of(name, *, most_rows, correlation, relation=Relation.REPLACE_ONE):
    """Return a query of a model and the loss of a person, as a site makes it."""
    model = MODELS[name](data=study_of(most_rows), weights="w", row_norm=1.0, correlation=correlation)
    query = model._spec.ask(epsilon=Fraction(1), records=400, share=Fraction(0), replicate=1)
    facts = SiteFacts(schema=SCHEMA, relation=relation, records=400, unit="id", most_rows=most_rows)
    return query, person_loss_of(query.model, facts)


def visits(seed, people, most):
    """Return people with 1 to 2 ``most`` rows of extreme values, in any order, cells missing, some rows of nobody."""
    rng = np.random.default_rng(seed)
    numbers = rng.choice([1, max(1, most - 1), most, 2 * most], people)
    person = np.repeat(np.arange(people), numbers)
    alike = np.repeat(rng.random(people) < 0.5, numbers)  # whose rows are all the same
    n, size = len(person), np.repeat(rng.choice([0.3, 1.0], people), numbers)

    def cells(values):
        of_person = np.repeat(rng.choice(values, people), numbers)
        return np.where(alike, of_person, rng.choice(values, n))

    frame = pd.DataFrame(
        {
            "id": [f"p{each}" for each in person],
            "b": cells([0.0, 1.0]),
            "k": cells([0.0, 10.0, 3.0]),
            "v": cells([0.0, 9.5, 3.0]),
            "c": cells(["none", "one", "two", "three"]),
            "x": size * cells([-1.0, 1.0, 0.3]),
            "z": size * cells([-1.0, 1.0, 0.0]),
            "time": cells([0.5, 4.0, 2.0]),
            "w": cells([2.0]),
            "o": cells([-0.5, 0.5]),
        }
    )
    for name in ("b", "x", "w"):
        frame.loc[~alike & (rng.random(n) < 0.1), name] = np.nan
    frame.loc[rng.random(n) < 0.02, "id"] = None
    return frame.sample(frac=1.0, random_state=seed)


def read(frame, person_loss):
    return person_loss.people(PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(person_loss.needs))


def hessians(rows, theta):
    """Return the Hessian of each person's loss (people, D, D), made by plain sums."""
    whose = np.arange(len(rows.y)) if rows.person is None else rows.person
    if isinstance(rows, MultinomialRows):
        out = np.zeros((rows.count, len(theta), len(theta)))
        eta = np.column_stack([np.zeros(len(rows.y)), rows.X @ theta.reshape(rows.others, -1).T])
        p = special.softmax(eta, axis=1)[:, 1:]
        for place, (x, chances, weight) in enumerate(zip(rows.X, p, rows.weights, strict=True)):
            out[whose[place]] += weight * np.kron(np.diag(chances) - np.outer(chances, chances), np.outer(x, x))
        return out
    curvatures = rows.weights * rows.loss.curvature(rows.X @ theta + rows.offset, rows.y)
    out = np.zeros((rows.count, len(theta), len(theta)))
    np.add.at(out, whose, curvatures[:, None, None] * rows.X[:, :, None] * rows.X[:, None, :])
    return out


def in_norm(scores, model):
    if model.kind == "multinomial":
        return np.linalg.norm(scores, axis=-1)
    axis = np.abs(scores[..., 0]) if model.geometry.intercept else 0.0
    covariates = np.linalg.norm(scores[..., int(model.geometry.intercept) :], axis=-1)
    return np.maximum(axis, covariates / model.geometry.radius)


def points(query):
    rng, D = np.random.default_rng(1), query.dimension
    return [np.array(query.centre), *(scale * rng.normal(size=D) for scale in (0.3, 1.0, 3.0, 30.0) * 3)]


def most_of(query, person_loss, people):
    """Return the largest shares of the bounds of gradients, lengths, traces and determinants that people come to."""
    shares, ridge = np.zeros(4), Fraction(3, 2)
    for theta in points(query):
        scores, H = people.scores(theta), hessians(people, theta)
        determinants = np.linalg.slogdet(np.eye(len(theta)) + H / float(ridge))[1]
        found = [
            in_norm(scores, query.model).max() / float(person_loss.gradient_bound),
            np.linalg.norm(scores, axis=1).max() / float(person_loss.euclidean_bound),
            np.trace(H, axis1=1, axis2=2).max() / float(person_loss.trace),
            determinants.max() / float(person_loss.jacobian(ridge)),
        ]
        shares = np.maximum(shares, found)
    return shares


@pytest.mark.covering(1)
@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("name", MODELS)
def test_people_of_any_rows_keep_the_bounds_and_come_near_them(name, correlation):
    query, person_loss = loss_of(name, most_rows=4, correlation=correlation)
    shares = most_of(query, person_loss, read(visits(3, 300, 4), person_loss))
    assert np.all(shares <= 1.0)
    assert np.all(shares[:2] > (0.7 if name == "multinomial" else 0.85)), shares


@pytest.mark.wide
def test_half_of_the_total_weight_would_be_noticed(monkeypatch):
    monkeypatch.setattr(base, "total_weight", lambda *asked: several_rows.total_weight(*asked) / 2)
    query, person_loss = loss_of("logistic", most_rows=4, correlation=0.3)
    assert most_of(query, person_loss, read(visits(3, 300, 4), person_loss)).max() > 1.5


@pytest.mark.covering
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("name", ["logistic", "logistic, no intercept", "squares", "huber", "multinomial", "own"])
def test_neighbours_never_cost_more_than_epsilon(name, correlation, relation):
    query, person_loss = loss_of(name, most_rows=4, correlation=correlation, relation=relation)
    people, epsilon, largest = read(visits(5, 120, 4), person_loss), Fraction(1), 0.0
    for ridge in (person_loss.trace * 2, person_loss.trace * 8 / epsilon, person_loss.trace * 100):
        rate = float(person_loss.noise_rate(epsilon, ridge=ridge, cell=Fraction(0), relation=relation))
        for theta in points(query):
            scores, H = people.scores(theta), hessians(people, theta)
            determinants = np.linalg.slogdet(np.eye(len(theta)) + H / float(ridge))[1]
            if relation is Relation.REPLACE_ONE:
                moved = in_norm(scores[:, None] - scores[None], query.model).max(axis=1)
            else:
                moved = in_norm(scores, query.model)
            largest = max(largest, float((rate * moved + determinants).max()))
    assert (0.5 if name == "multinomial" else 0.7) < largest <= 1.0


GRIDS = (2.0**-40, 2.0**-40)
REGRESSIONS = [name for name in MODELS if name != "multinomial"]


def cut_matrices(people, theta, part):
    found = people.stacked_sandwich(theta, part, grids=GRIDS)
    return [unstack(np.array(each.astype(float)) * grid, len(theta)) for each, grid in zip(found, GRIDS, strict=True)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("name", REGRESSIONS)
def test_the_summed_hessian_and_score_of_a_person_are_cut_to_a_norm(name, correlation):
    query, person_loss = loss_of(name, most_rows=4, correlation=correlation)
    frame = visits(6, 15, 4)
    alone = [read(rows, person_loss) for _, rows in frame.groupby("id")]
    attained = np.zeros(2)
    for bound, width in ((1e-3, 0.5), (0.05, 0.2), (20.0, 0.5)):
        part = SandwichPart(share=Fraction(1, 2), curvature=bound, scores=2 * bound, width=width)
        for theta in points(query)[:8:3]:
            found = [cut_matrices(each, theta, part) for each in alone]
            for which, most in enumerate((bound, 2 * bound)):
                matrices = np.array([each[which] for each in found])
                assert np.linalg.norm(matrices, axis=(1, 2)).max() <= most * (1 + 1e-9)
                assert np.linalg.eigvalsh(matrices).min() >= -1e-9 * most
                apart = np.linalg.norm(matrices[:, None] - matrices[None], axis=(2, 3)).max()
                assert apart <= np.sqrt(2.0) * most * (1 + 1e-9)
                attained[which] = max(attained[which], np.trace(matrices, axis1=1, axis2=2).max() / most)
            whole = read(frame, person_loss).stacked_sandwich(theta, part, grids=GRIDS)
            each = [people.stacked_sandwich(theta, part, grids=GRIDS) for people in alone]
            for k in range(2):
                assert whole[k].tolist() == sum(np.array(one[k], dtype=object) for one in each).tolist()
    assert attained == pytest.approx(1.0, rel=1e-6)  # of who is cut


def test_a_person_who_is_not_cut_has_the_hessian_and_the_squared_score_of_all_rows():
    _, person_loss = loss_of("logistic", most_rows=4, correlation=0.3)
    people, theta = read(visits(6, 25, 4), person_loss), np.array([0.3, -0.5, 0.2])
    part = SandwichPart(share=Fraction(1, 2), curvature=1e6, scores=1e6)
    H, J = cut_matrices(people, theta, part)
    scores = people.scores(theta)
    assert hessians(people, theta).sum(axis=0) == pytest.approx(H, abs=1e-8)
    assert scores.T @ scores == pytest.approx(J, abs=1e-8)


def clipped_sum(name, *, most_rows, correlation, relation, clip):
    """Return a round of clipped scores as a site prepares it, with the loss of a person."""
    query, _ = loss_of(name, most_rows=most_rows, correlation=correlation)
    theta = 0.3 * np.random.default_rng(2).normal(size=query.dimension)
    asked = ClippedNewtonQuery(
        model=query.model, theta=tuple(theta.tolist()), clip=Fraction(clip), epsilon=Fraction(1), delta=Fraction(0),
        ahead=Fraction(0), schema_sha256=query.schema_sha256, public_sha256=None, replicate=1,
    )  # fmt: skip
    facts = SiteFacts(schema=SCHEMA, relation=relation, records=400, unit="id", most_rows=most_rows)
    prepared = prepare(asked, facts)
    return prepared, prepared.person_loss


def share_moved(prepared, people, relation):
    """Return how far one person moves the integer sum at most, in units of the sensitivity."""
    scores = clipped_scores(prepared.query, people)
    steps = np.rint(scores / float(prepared.calibration.grid)) * float(prepared.calibration.grid)
    if relation is Relation.REPLACE_ONE:
        moved = np.linalg.norm(steps[:, None] - steps[None], axis=2).max()
    else:
        moved = np.linalg.norm(steps, axis=1).max()
    return moved / float(prepared.calibration.sensitivity.value)


RELATION = Relation.REPLACE_ONE
CLIPPED = ["logistic", "poisson", "squares", "multinomial"]


@pytest.mark.covering
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("name", CLIPPED)
def test_a_person_moves_clipped_sums_by_no_more_than_all_rows_together(name, correlation, relation):
    for clip in (0.01, 0.5, 50.0):
        prepared, person_loss = clipped_sum(name, most_rows=4, correlation=correlation, relation=relation, clip=clip)
        share = share_moved(prepared, read(visits(3, 200, 4), person_loss), relation)
        assert share <= 1.0
        if clip == 0.01:  # everybody is cut
            assert share > (0.85 if name == "multinomial" and relation is Relation.REPLACE_ONE else 0.999), share


def test_the_clipped_sum_of_a_table_is_that_of_its_people_whoever_else_is_there():
    prepared, person_loss = clipped_sum(
        "squares", most_rows=3, correlation=0.3, relation=Relation.REPLACE_ONE, clip=0.5
    )
    frame = visits(9, 25, 3)
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(person_loss.needs)
    alone = [
        prepared.sum_of(PrivateTable.from_frame(rows.iloc[::-1], SCHEMA, unit="id").admit(person_loss.needs))
        for _, rows in frame.groupby("id")
    ]
    assert prepared.sum_of(table).tolist() == np.sum(alone, axis=0).tolist()


def test_rows_that_are_no_numbers_count_nothing_and_leave_their_person_s_other_rows():
    prepared, person_loss = clipped_sum(
        "squares", most_rows=3, correlation=0.3, relation=Relation.REPLACE_ONE, clip=0.5
    )
    people = read(visits(9, 25, 3), person_loss)
    strange = people.y.copy()
    strange[0] = np.nan
    found, plain = (clipped_scores(prepared.query, each) for each in (replace(people, y=strange), people))
    assert np.all(np.isfinite(found))
    assert np.array_equal(found[1:], plain[1:])
    numbers = np.bincount(people.person)
    assert np.linalg.norm(found[0] - plain[0]) <= 0.5 / (1 + (numbers[0] - 1) * 0.3) * (1 + 1e-9)


@pytest.mark.wide
@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_half_of_the_total_weight_of_clipped_rows_would_be_noticed(monkeypatch, correlation):
    monkeypatch.setattr(base, "total_weight", lambda *asked: several_rows.total_weight(*asked) / 2)
    prepared, person_loss = clipped_sum(
        "logistic", most_rows=4, correlation=correlation, relation=Relation.REPLACE_ONE, clip=0.01
    )
    assert share_moved(prepared, read(visits(3, 200, 4), person_loss), Relation.REPLACE_ONE) > 1.9


@pytest.mark.wide
def test_rows_that_are_clipped_with_what_they_count_would_be_noticed():
    """As if the weight of a row by its person's number of rows came before the clip: a person would be m clips long."""
    relation = Relation.REPLACE_ONE
    prepared, person_loss = clipped_sum("logistic", most_rows=4, correlation=1.0, relation=relation, clip=0.01)
    people = replace(read(visits(3, 200, 4), person_loss), counts=None)
    assert share_moved(prepared, people, relation) > 3.5


def test_rows_that_count_as_one_person_cost_what_one_row_costs():
    _, several = loss_of("logistic", most_rows=6, correlation=1.0)
    _, one = loss_of("logistic", most_rows=1, correlation="person")
    ridge, more = 8 * one.trace, {"cell": Fraction(0), "relation": Relation.REPLACE_ONE}
    rates = [
        float(each.noise_rate(Fraction(1), ridge=ridge * (1 + Fraction(1, 2**30)), **more)) for each in (several, one)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=1e-12)


def test_rows_that_count_each_are_group_privacy_of_rows():
    _, one = loss_of("squares", most_rows=1, correlation="person")
    for most in (2, 5):
        _, several = loss_of("squares", most_rows=most, correlation="independence")
        for bound in ("gradient_bound", "euclidean_bound", "trace"):
            assert float(getattr(several, bound)) == pytest.approx(most * float(getattr(one, bound)), rel=1e-9)
        ridge = 50 * one.trace
        assert several.jacobian(ridge) <= most * one.jacobian(ridge) * (1 + Fraction(1, 2**30))


def test_a_person_is_read_the_same_wherever_the_rows_stand_and_whoever_else_is_there():
    _, person_loss = loss_of("logistic", most_rows=3, correlation=0.3)
    frame, theta = visits(9, 40, 3), np.array([0.3, -0.5, 0.2])
    for name in ("p0", "p7", "p20"):
        own = frame[frame["id"] == name]
        alone = read(own, person_loss).scores(theta)
        others = pd.concat([frame[frame["id"] != name].iloc[::-1], own.sample(frac=1.0, random_state=2)])
        together = read(others, person_loss).scores(theta)
        assert np.abs(together - alone).sum(axis=1).min() == 0.0


def test_rows_beyond_the_limit_change_nothing_but_their_own_person():
    _, person_loss = loss_of("logistic", most_rows=2, correlation=1.0)
    frame = visits(2, 30, 2)
    more = pd.concat([frame, *[frame[frame["id"] == "p3"]] * 50])
    one, other = read(frame, person_loss), read(more, person_loss)
    assert np.bincount(one.person).max() <= 2
    assert np.bincount(other.person).max() <= 2
    theta = np.array([0.3, -0.5, 0.2])
    known = {tuple(score) for score in one.scores(theta).round(12)}
    assert sum(tuple(score) not in known for score in other.scores(theta).round(12)) <= 1


def test_gradients_of_several_rows_may_change_their_sign():
    frame = pd.DataFrame({name: [1.0] * 2 for name in SCHEMA} | {"c": "one", "b": [0.0, 1.0], "o": 0.0, "id": "a"})
    _, several = loss_of("logistic", most_rows=2, correlation=0.3)
    _, one = loss_of("logistic", most_rows=1, correlation="person")
    here, there = (read(frame, several).scores(np.array([level, 0.0, 0.0]))[0] for level in (-2.0, 2.0))
    assert here @ there < 0.0
    assert (several.fixed_sign, one.fixed_sign) == (False, True)


@pytest.mark.parametrize("relation", list(Relation))
def test_orthogonal_rows_cost_no_more_than_epsilon_where_the_determinant_takes_nearly_all(relation):
    _, two = loss_of("logistic, no intercept", most_rows=2, correlation=1.0, relation=relation)
    frame = pd.DataFrame({name: [1.0] * 4 for name in SCHEMA} | {"c": "one", "w": 2.0, "id": ["a", "a", "b", "b"]})
    frame = frame.assign(x=[1.0, 0.0, -1.0, -1.0], z=[0.0, 1.0, -1.0, -1.0])
    people, ridge = read(frame, two), two.trace * Fraction(4, 5)
    rate = float(two.noise_rate(Fraction(1), ridge=ridge, cell=Fraction(0), relation=relation))
    scores, determinant = (
        people.scores(np.zeros(2)),
        np.linalg.det(np.eye(2) + hessians(people, np.zeros(2))[0] / float(ridge)),
    )
    moved = scores[0] - scores[1] if relation is Relation.REPLACE_ONE else scores[0]
    cost = rate * np.linalg.norm(moved) / float(two.norm.radius) + np.log(determinant)
    assert 0.95 < cost <= 1.0


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_errors_of_sums_count_every_row(name):
    query, several = loss_of(name, most_rows=6, correlation=0.0)
    frame = pd.concat([visits(3, 80, 6).assign(b=1.0, x=1.0, z=1.0, w=2.0, c="two", o=0.5)] * 6)
    people, theta = read(frame, several), 0.5 * np.ones(query.dimension)
    own = people.penalised(ridge=np.zeros(query.dimension)).gradient_error(theta)
    assert 0.2 * several.rounding(float(np.linalg.norm(theta)), people=people.count) < own
    assert own <= 1.01 * several.rounding(float(np.linalg.norm(theta)), people=people.count)


def test_complete_rows_are_used_before_others():
    x, person = np.array([np.nan, 0.5, np.nan, 1.0, np.nan, np.nan]), ["a"] * 4 + ["b"] * 2
    frame = pd.DataFrame({name: [1.0] * 6 for name in SCHEMA} | {"c": "one", "x": x, "id": person})
    for order in (np.arange(6), np.arange(6)[::-1]):
        table = PrivateTable.from_frame(frame.iloc[order], SCHEMA, unit="id").admit(["x"]).used(most_rows=2)
        whose = table.persons == persons_of(frame["id"].iloc[order])[np.argmin(order)]  # "a"
        assert sorted(table.numeric["x"][whose].tolist()) == [0.5, 1.0]
        assert table.complete.sum() == 2
        assert number_of_people(table) == 1


def test_a_hessian_is_rounded_person_by_person():
    _, person_loss = loss_of("logistic", most_rows=4, correlation=0.3)
    people, theta, grid = read(visits(4, 60, 4), person_loss), np.array([0.3, -0.5, 0.2]), 2.0**-3
    (i, j), H = np.triu_indices(3), hessians(people, theta)
    steps = np.rint(H[:, i, j] * np.where(i == j, 1.0, np.sqrt(2.0)) / grid).sum(axis=0)
    assert people.stacked_hessian(theta, grid=grid).tolist() == steps.tolist()


def one_row_each(people=300):
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, people)
    return pd.DataFrame({"id": np.arange(people), "x": x, "b": (rng.random(people) < 0.5 + 0.3 * x).astype(int)})


ONE = hdp.Schema(x=hdp.Continuous(-1, 1, complete=True), b=hdp.Binary(complete=True))


def test_with_one_row_of_a_person_it_is_the_fit_of_rows_bit_for_bit(monkeypatch):
    frame, found = one_row_each(), []
    for terms in ({}, {"unit": "id", "max_rows_per_unit": 1, "n_max": 300}):
        known_noise.off(monkeypatch)
        study = hdp.Study(private=frame, schema=ONE, budget=hdp.Budget(epsilon=2), **terms)
        fit = hdpf.logit("b ~ x", study).fit(epsilon=1, se_share=0)
        found.append((fit.release.theta, fit.release.noise_rate, fit.release.grid))
    assert found[0] == found[1]


def test_with_one_row_of_a_person_clipped_scores_are_those_of_rows_bit_for_bit(monkeypatch):
    frame, found = one_row_each(), []
    for terms in ({}, {"unit": "id", "max_rows_per_unit": 1, "n_max": 300}):
        known_noise.off(monkeypatch)
        study = hdp.Study(
            private=frame, public=one_row_each(120), schema=ONE, budget=hdp.Budget(epsilon=2, delta=1e-5), **terms
        )
        fit = hdpf.logit("b ~ x", study).fit(epsilon=1, delta=1e-6, mechanism="clipped_newton", describe=False)
        found.append([(each.total, each.noise_sd, each.grid) for each in fit.release.rounds])
    assert found[0] == found[1]


REFUSED = {
    "exponential": {"delta": 1e-6},
    "public_hessian": {"delta": 1e-6},
    "histogram": {},
}


@pytest.mark.parametrize("mechanism", REFUSED)
def test_mechanisms_without_a_proof_refuse_and_charge_nothing(mechanism):
    frame = pd.concat([one_row_each()] * 2)
    study = hdp.Study(
        private=frame, public=one_row_each(120), schema=ONE, unit="id", max_rows_per_unit=2, n_max=300,
        budget=hdp.Budget(epsilon=2, delta=1e-5),
    )  # fmt: skip
    for call in (hdpf.logit("b ~ x", study).fit, hdpf.logit("b ~ x", study).plan):
        with pytest.raises(MechanismError, match=f"{mechanism} has no proof.*several rows.*'objective', 'output' or"):
            call(epsilon=1, mechanism=mechanism, **REFUSED[mechanism])
    assert study.ledger.spent.epsilon == 0


def test_sites_and_queries_agree_on_how_rows_count():
    query, _ = loss_of("logistic", most_rows=4, correlation=0.3)
    facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=400, unit="id", most_rows=4)
    prepare(query, facts)
    with pytest.raises(SiteError, match="must say how rows"):
        prepare(replace(query, model=replace(query.model, correlation=None)), facts)
    with pytest.raises(SiteError, match="uses one row"):
        prepare(query, replace(facts, unit=None, most_rows=1))
    with pytest.raises(MechanismError, match="0 to 1"):
        replace(query.model, correlation=1.5)


def test_sites_that_use_different_numbers_of_rows_are_refused():
    frame = pd.concat([one_row_each()] * 3)
    sites = {
        name: hdp.LocalSite(
            frame, schema=ONE, ledger=hdp.Ledger(None, dataset=name, epsilon=1, unit="id"), unit="id",
            max_rows_per_unit=most, n_max=300,
        )
        for name, most in (("A", 2), ("B", 3))
    }  # fmt: skip
    with pytest.raises(ArgumentError, match="up to 2, 3"):
        hdpf.logit("b ~ x", hdp.Study(private=sites))


@pytest.mark.parametrize("wrong", ["exchangeable", -0.1, 1.1, float("nan"), None])
def test_correlations_that_are_none_are_refused(wrong):
    with pytest.raises(ArgumentError, match="correlation"):
        hdpf.logit("b ~ x", study_of(4), correlation=wrong)


def test_a_correlation_needs_people_with_several_rows():
    with pytest.raises(ArgumentError, match="unit="):
        hdpf.logit("b ~ x", hdp.Study(schema=SCHEMA), correlation="independence")
