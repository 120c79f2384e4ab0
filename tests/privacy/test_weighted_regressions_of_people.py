"""How far a whole person with several rows moves a weighted regression, whose outcome is the person's mean.

From a query's record and a table of cells to gradients and Hessians, as a site goes; neighbours have any rows of one
person, of any number, for any rows of another. Versions with wrong constants are found.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.families.regression.bounds import regression_person_loss
from hdpstats.formulas import compile_design
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.count import site as count
from hdpstats.mechanisms.registry import person_loss_of
from hdpstats.privacy.sensitivity import CylinderNorm, Relation, coupled_loss
from hdpstats.records.model import RegressionModel
from hdpstats.schema.table import PrivateTable
from tests.privacy.test_treatment_effect_of_people import (
    MOST,
    ROWS,
    SCHEMA,
    USUAL,
    WHOLE,
    facts_of,
    persons,
    together,
)
from tests.support import CORNERS

BOX = compile_design("y ~ a + x", SCHEMA).box()
MODELS = {
    "logistic": RegressionModel(formula="y ~ a + x", loss="logistic", geometry=BOX),
    "squares": RegressionModel(formula="k ~ a + x", loss="squares", geometry=BOX),
}
THETAS = np.array([[0.0, 0.0, 0.0], [0.3, -1.0, 2.0], [-40.0, 3.0, 1.0], [40.0, 0.0, -5.0], [5.0, -30.0, 30.0]])
CASES = list(itertools.product(MODELS, (USUAL, WHOLE)))


def model_of(name, weighting=USUAL):
    return replace(MODELS[name], weighting=weighting, averaged=MOST)


def people_of(loss, frame):
    return loss.people(PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(loss.needs))


def scores_of_each(loss, theta):
    """Return the score of every person, each read alone (people, D)."""
    return np.array([people_of(loss, together([rows])).scores(theta).sum(axis=0) for rows in persons()])


def lengths(loss, scores):
    radius = loss.model.geometry.radius
    assert loss.norm == CylinderNorm(radius=Fraction(radius))
    return np.maximum(np.abs(scores[:, 0]), np.linalg.norm(scores[:, 1:], axis=1) / radius)


@pytest.mark.parametrize(("name", "weighting"), CASES)
def test_no_whole_person_moves_the_gradient_farther_than_claimed(name, weighting):
    loss = person_loss_of(model_of(name, weighting), facts_of())
    bound, largest = float(loss.gradient_bound), 0.0
    for theta in THETAS:
        scores = np.unique(np.round(scores_of_each(loss, theta), 12), axis=0)
        assert float(np.max(lengths(loss, scores))) <= bound * (1 + 1e-12)
        largest = max(largest, *(float(np.max(lengths(loss, scores - each))) for each in scores))
    assert largest <= 2 * bound
    assert largest > (1.2 if weighting is USUAL else 1.9) * bound * (0.5 if name == "squares" else 1.0)


def test_wrong_constants_are_found():
    """A sum over rows in place of the mean exceeds the claim, and half of the claim is exceeded by the mean."""
    loss = person_loss_of(model_of("logistic", WHOLE), facts_of())
    bound = float(loss.gradient_bound)
    plain = replace(MODELS["logistic"], correlation=0.0)
    every = regression_person_loss(plain, SCHEMA, most_rows=MOST)
    summed, means = (
        max(float(np.max(lengths(each, scores_of_each(each, theta)))) for theta in THETAS) for each in (every, loss)
    )
    assert summed > 2 * bound
    assert means > bound / 2


@pytest.mark.parametrize(("name", "weighting"), CASES)
def test_a_person_bends_the_objective_as_one_row_does(name, weighting):
    loss = person_loss_of(model_of(name, weighting), facts_of())
    assert loss.rank == 1
    for rows in persons()[::5]:
        people = people_of(loss, together([rows]))
        assert people.count == 1
        for theta in THETAS[:3]:
            H = people.curvature(theta)
            assert np.trace(H) <= float(loss.trace) * (1 + 1e-9)
            assert np.linalg.matrix_rank(H, tol=1e-12) <= 1


@pytest.mark.parametrize("name", MODELS)
def test_constants_are_those_of_one_row(name):
    weighted, plain = person_loss_of(model_of(name), facts_of()), regression_person_loss(MODELS[name], SCHEMA)
    for each in ("gradient_bound", "euclidean_bound", "trace", "rank", "norm", "half"):
        assert getattr(weighted, each) == getattr(plain, each)


def test_a_mean_of_outcomes_has_a_score_of_no_fixed_sign():
    """Normal noise under add-or-remove would take a sign for granted that the outcome fixes."""
    loss = person_loss_of(model_of("logistic"), facts_of())
    frame = together([pd.DataFrame([ROWS[0], ROWS[1]]).astype(object).assign(id="p")])
    here, there = (people_of(loss, frame).scores(np.array([level, 0.0, 0.0]))[0, 0] for level in (-2.0, 2.0))
    assert here < 0 < there
    assert not loss.fixed_sign
    assert regression_person_loss(MODELS["logistic"], SCHEMA).fixed_sign


@pytest.mark.parametrize("relation", list(Relation))
def test_the_coupling_of_the_logistic_loss_holds_for_means(relation):
    """The log density ratio of a person with any mean outcome is at most that of the proof, and near it at 0 and 1."""
    y, p = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 1001), indexing="ij")
    for noise, ratio in ((1.0, 0.05), (1.0, 0.5), (3.0, 2.0)):
        r = ratio  # `trace` over the ridge, which is 4 r p (1 - p) at most
        half = noise / relation.persons_changed
        other = half if relation is Relation.REPLACE_ONE else 0.0  # of the record that takes the person's place
        found = other + half * np.abs(p - y) + np.log1p(4.0 * r * p * (1.0 - p))
        claim = coupled_loss(noise, r, relation=relation)
        assert found.max() <= claim * (1 + 1e-9)
        assert found[[0, -1]].max() == pytest.approx(found.max(), rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_sums_over_people_whatever_their_order(name):
    loss, some = person_loss_of(model_of(name), facts_of()), persons()[:40]
    frame = together(some)
    apart = frame.iloc[np.argsort(frame.groupby("id").cumcount(), kind="stable")]
    for theta in THETAS:
        expected = scores_of_each(loss, theta)[:40].sum(axis=0)
        for rows in (frame, apart):
            assert people_of(loss, rows).scores(theta).sum(axis=0) == pytest.approx(expected, abs=1e-9)


def test_the_outcome_is_a_mean_and_all_else_that_of_the_first_complete_row():
    loss = person_loss_of(model_of("logistic"), facts_of())
    frame = pd.DataFrame(
        {"id": "p", "a": [None, 1, 0], "x": [1.0, 0.5, 3.0], "y": [1, None, 0], "k": 5.0, "s": 0, "t": 1, "d": 0}
    )
    people = people_of(loss, frame)
    assert people.y.tolist() == [0.5]
    assert people.weights[0] == pytest.approx(1 / (1 + np.exp(-0.3 + 0.8 * 0.5)))
    _, a, x = loss.read.matrix(PrivateTable.from_frame(frame.iloc[[1]], SCHEMA, unit="id").admit(("a", "x", "y")))[0]
    assert (a, x) == (1.0, 0.5)
    assert not people_of(loss, frame.assign(y=None)).weights.any()
    assert not people_of(loss, frame.assign(x=None)).weights.any()


@pytest.mark.covering(1)
@pytest.mark.parametrize("cell", CORNERS)
def test_one_strange_cell_changes_nobody_else_and_raises_nothing(cell):
    loss, theta = person_loss_of(model_of("logistic"), facts_of()), THETAS[1]
    others = together(persons()[:6])
    before = people_of(loss, others).scores(theta).sum(axis=0)
    for column in ("a", "x", "y"):
        frame = pd.concat([pd.DataFrame([ROWS[0], ROWS[1]]).assign(id="new"), others], ignore_index=True).astype(object)
        cells = np.empty(len(frame), dtype=object)
        cells[:] = frame[column].tolist()
        cells[0] = CORNERS[cell]
        frame[column] = pd.Series(cells, dtype=object)
        moved = people_of(loss, frame).scores(theta).sum(axis=0) - before
        assert lengths(loss, moved[None])[0] <= float(loss.gradient_bound) * (1 + 1e-9)


def test_a_query_must_average_as_the_site_does():
    for changed, terms in (({"averaged": 2}, {}), ({}, {"unit": None, "most_rows": 1}), ({"averaged": None}, {})):
        with pytest.raises(SiteError, match=r"averages|one each|how rows of a person count"):
            person_loss_of(replace(model_of("logistic"), **changed), facts_of(**terms))
    for changed in ({"averaged": 0}, {"weighting": None}, {"first": True}):
        with pytest.raises(MechanismError, match=r"averaged|first"):
            replace(model_of("logistic"), **changed)
    quantile = replace(model_of("squares"), loss="quantile", parameters=(0.5, 1.0))
    with pytest.raises(MechanismError, match=r"no proof covers a mean|parameters"):
        person_loss_of(quantile, facts_of())


COUNTING = CountQuery(epsilon=Fraction(1), schema_sha256=SCHEMA.sha256, columns=("a", "x", "y"), apart="y")


def counted(frame, query=COUNTING):
    prepared = count.prepare(query, facts_of(Relation.ADD_OR_REMOVE_ONE))
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(prepared.needs)
    return count.number_of_people(table, apart=query.apart)


def test_those_are_counted_who_weigh_something_and_no_person_counts_twice():
    loss = person_loss_of(model_of("logistic"), facts_of())
    people = persons()
    each = [counted(together([rows])) for rows in people]
    assert set(each) == {0, 1}
    assert each == [int(people_of(loss, together([rows])).weights.any()) for rows in people]
    assert counted(together(people)) == sum(each)
    one_row = replace(COUNTING, apart=None)
    assert counted(together(people), one_row) < sum(each)
    with pytest.raises(MechanismError, match="apart"):
        replace(COUNTING, apart="k")
