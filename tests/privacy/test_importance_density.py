"""Density ratios on neighbouring private records: the exact privacy loss of the objective, distances of minimisers.

The perturbed minimiser has a density that can be written down (`hdpstats.audit`); public rows and the ridge are the
same for both neighbours. A search for the worst pair must never exceed epsilon, and must exceed it as soon as a
constant is wrong.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from hdpstats._base.errors import MechanismError
from hdpstats.audit.density import PerturbedObjective, k_norm
from hdpstats.losses.logistic import LogisticLoss
from hdpstats.mechanisms.importance_weights import ColumnBox, DensityRatioModel, ImportanceWeightsQuery
from hdpstats.mechanisms.importance_weights import site as importance
from hdpstats.mechanisms.importance_weights.coding import extent
from hdpstats.mechanisms.minimiser import certified, effort_of
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.privacy.sensitivity import Relation, rank_one_jacobian
from hdpstats.records.geometry import Geometry, Source, mallows_weights
from hdpstats.schema.columns import Categorical, Continuous
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable

SCHEMA = Schema(
    u=Continuous(-1, 1, complete=True), v=Continuous(0, 1, complete=True), g=Categorical(["a", "b", "c"], complete=True)
)
PUBLIC = PublicTable.from_frame(
    pd.DataFrame({"u": [-1.0, 0.5, 1.0, 0.0], "v": [0.0, 1.0, 0.3, 1.0], "g": ["a", "b", "c", "a"]}),
    SCHEMA,
)
RECORDS = 3
UNIT = ColumnBox(location=(0.0, 0.0), scale=(1.0, 1.0), lower=(-1.0, 0.0), upper=(1.0, 1.0), intercept=True)
HALF = replace(UNIT, lower=(-0.5, 0.0), upper=(0.5, 0.5))
WHITE = Geometry(
    location=(0.0, 0.4),
    whitening=((1.0, 0.2), (0.0, 1.5)),
    radius=0.8,
    leverage=2.28,
    intercept=True,
    source=Source.PUBLIC_ROWS,
)
CODINGS = {"box": UNIT, "tight box": HALF, "geometry": WHITE}


def asked(coding=UNIT, *, ridge=1.0, epsilon=1.0, perturbs="objective", columns=("u", "v"), formula=None):
    formula = formula or f"~ {int(coding.intercept)} + u + v"
    return ImportanceWeightsQuery(
        model=DensityRatioModel(formula=formula, columns=columns, coding=coding),
        perturbs=perturbs,
        centre=(0.0,) * coding.dimension,
        ridge=Fraction(ridge),
        epsilon=Fraction(epsilon),
        schema_sha256=SCHEMA.sha256,
        public_sha256=PUBLIC.sha256,
    )


def person_loss_of(query, records=RECORDS):
    site_facts = SiteFacts(
        schema=SCHEMA, relation=Relation.REPLACE_ONE, records=records, public={PUBLIC.sha256: PUBLIC}
    )
    return importance.density_ratio_person_loss(query.model, site_facts, public=PUBLIC)


def weigher(coding):
    """Mallows weights of coded rows (n, D), written down once more."""

    def weigh(X):
        z = X[:, 1:] if coding.intercept else X
        if isinstance(coding, Geometry):
            return mallows_weights(np.sum(z**2, axis=1), coding)
        lower, upper = np.array(coding.lower), np.array(coding.upper)
        with np.errstate(all="ignore"):
            factors = np.where(z > upper, upper / z, np.where(z < lower, lower / z, 1.0))
        return factors.min(axis=1)

    return weigh


def mechanism_of(query, person_loss, records=RECORDS):
    """What the density of the perturbed minimiser is made of."""
    constants = perturbation.calibrate_objective(query, person_loss, records=records)
    mechanism = PerturbedObjective(
        loss=LogisticLoss(),
        ridge=np.full(query.dimension, float(query.ridge)),
        centre=np.zeros(query.dimension),
        rate=float(constants.perturbation.rate),
        norm=person_loss.norm,
        weigh=weigher(query.model.coding),
    )
    return mechanism, float(constants.events[0].epsilon)


def rows_of(coding, cells):
    """Coded rows of cells (n, 2) within the schema."""
    if isinstance(coding, Geometry):
        m, A = coding.arrays()
        return np.column_stack([np.ones(len(cells)), (cells - m) @ A.T])
    return np.column_stack([np.ones(len(cells)), (cells - np.array(coding.location)) / np.array(coding.scale)])


def worst_loss(query, person_loss, *, seed=0):
    """The largest log-ratio of densities found: two private rows, another one that both have, and the point."""
    mechanism, claimed = mechanism_of(query, person_loss)
    coding = query.model.coding
    public = rows_of(coding, np.column_stack([PUBLIC.raw(["u", "v"]).numeric[name] for name in ("u", "v")]))
    counts = np.array([1.0, 2.0] + [RECORDS / len(public)] * len(public))
    y = np.array([1.0, 1.0] + [0.0] * len(public))

    def losses(points):
        cells = np.array([-1.0, 0.0]) + np.array([2.0, 1.0]) * expit(points[:, :6].reshape(-1, 3, 2))
        private = rows_of(coding, cells.reshape(-1, 2)).reshape(-1, 3, 3)
        shared = np.broadcast_to(public, (len(points), *public.shape))
        one, other = (
            mechanism.log_density(
                points[:, 6:],
                np.concatenate([private[:, [first, 2]], shared], axis=1),
                np.broadcast_to(y, (len(points), len(y))),
                np.broadcast_to(counts, (len(points), len(y))),
            )
            for first in (0, 1)
        )
        return one - other

    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 0.0, 1.0, 2.0], (10_000, 3)) * rng.choice([-1.0, 1.0], (10_000, 3))
    points = np.column_stack(
        [rng.choice([-8.0, 0.0, 8.0], (10_000, 6)), signs * rng.choice([0.3, 2.0, 10.0, 30.0], (10_000, 1))]
    )
    found = losses(points)
    best = float(found.max())
    for place in np.argsort(found)[-3:]:
        end = minimize(lambda p: -losses(p[None, :])[0], points[place], method="Nelder-Mead", options={"maxiter": 600})
        best = max(best, -float(end.fun))
    return best, claimed


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("ridge", [0.8, 8.0])
def test_no_pair_of_neighbours_exceeds_epsilon_and_some_come_near(name, ridge):
    query = asked(CODINGS[name], ridge=ridge)
    found, claimed = worst_loss(query, person_loss_of(query))
    assert 0.75 * claimed < found <= claimed * (1 + 1e-9)


@pytest.mark.wide
@pytest.mark.parametrize("name", CODINGS)
def test_a_rate_that_is_a_half_too_large_is_noticed(name, monkeypatch):
    rate = importance.DensityRatioPersonLoss.noise_rate
    monkeypatch.setattr(
        importance.DensityRatioPersonLoss, "noise_rate", lambda *args, **options: rate(*args, **options) * 3 / 2
    )
    query = asked(CODINGS[name], ridge=8.0)
    found, claimed = worst_loss(query, person_loss_of(query))
    assert found > 1.05 * claimed


def test_the_determinant_counts_the_intercept(monkeypatch):
    # Public rows that weigh next to nothing. At the point the row of one neighbour has all its curvature and half of
    # its gradient, that of the other none of its curvature and all of its gradient.
    def loss(mechanism):
        theta = np.array([-30.0, 30.0, 0.0])
        one, other = np.array([[1.0, 1.0, 1.0]]), np.array([[1.0, -1.0, 0.0]])
        densities = [mechanism.log_density(theta, X, np.ones(1), np.ones(1)) for X in (one, other)]
        return float(densities[0] - densities[1])

    query = asked(ridge=0.4625)
    person_loss = person_loss_of(query)
    jacobian = math.log(1 + 3 / (4 * 0.4625))  # 0.964: nearly all of epsilon
    mechanism, claimed = mechanism_of(query, person_loss)
    assert float(person_loss.jacobian(query.ridge)) == pytest.approx(jacobian, rel=1e-9)
    assert mechanism.rate == pytest.approx(claimed - jacobian, rel=1e-6)
    assert jacobian < loss(mechanism) <= claimed

    def without(person_loss, ridge):
        return rank_one_jacobian((person_loss.trace - Fraction(1, 4)) / ridge)

    monkeypatch.setattr(importance.DensityRatioPersonLoss, "jacobian", without)
    mutated, _ = mechanism_of(query, person_loss)
    assert loss(mutated) > 1.05 * claimed


def minimiser(query, private):
    """The exact minimiser of the objective for coded private rows (n, D), from the formula alone."""
    coding = query.model.coding
    public = rows_of(coding, np.column_stack([PUBLIC.raw(["u", "v"]).numeric[name] for name in ("u", "v")]))
    weigh, ridge = weigher(coding), float(query.ridge)
    w, v = weigh(private), weigh(public) * len(private) / len(public)

    def value(b):
        losses = w @ np.logaddexp(0, -private @ b) + v @ np.logaddexp(0, public @ b)
        gradient = -private.T @ (w * expit(-private @ b)) + public.T @ (v * expit(public @ b)) + ridge * b
        return losses + ridge / 2 * b @ b, gradient

    return minimize(value, np.zeros(query.dimension), jac=True, method="BFGS", options={"gtol": 1e-11}).x


def test_public_rows_times_columns_are_bounded_before_they_are_coded(monkeypatch):
    monkeypatch.setattr(importance, "MOST_PUBLIC_NUMBERS", PUBLIC.rows * 3 - 1)
    monkeypatch.setattr(importance, "coded", lambda *_: pytest.fail("they were coded"))
    with pytest.raises(MechanismError, match=f"not {PUBLIC.rows * 3}; take fewer public rows or terms"):
        person_loss_of(asked())


def test_minimisers_of_neighbours_lie_within_the_sensitivity_and_beyond_the_longest_row():
    # Ji and Elkan's remark, the length of the longest row over n lambda, is exceeded; the diameter over it is not.
    schema = Schema(u=Continuous(-1, 1, complete=True), v=Continuous(-1, 1, complete=True))
    public = PublicTable.from_frame(pd.DataFrame({"u": [-1.0] * 5, "v": [0.0] * 5}), schema)
    coding = ColumnBox(location=(0.0,) * 2, scale=(1.0,) * 2, lower=(-1.0,) * 2, upper=(1.0,) * 2, intercept=False)
    query = replace(asked(coding, ridge=3, perturbs="output"), schema_sha256=schema.sha256, public_sha256=public.sha256)
    site_facts = SiteFacts(schema=schema, relation=Relation.REPLACE_ONE, records=1000, public={public.sha256: public})
    person_loss = importance.density_ratio_person_loss(query.model, site_facts, public=public)
    claimed = float(
        perturbation.calibrate_output(query, person_loss, records=1000, relation=Relation.REPLACE_ONE).sensitivity.value
    )
    assert claimed == pytest.approx(math.sqrt(8) / 3, rel=1e-6)
    found = [computed(query, person_loss, u=[1.0] * 999 + [-1.0], v=[0.0] * 999 + [last]) for last in (-1.0, 1.0)]
    realised = float(np.linalg.norm(found[0] - found[1]))
    assert 1.3 * math.sqrt(2) / 3 < realised <= claimed


def computed(query, person_loss, **numbers):
    """The minimiser as the site computes it for private rows."""
    columns = {name: np.array(values) for name, values in numbers.items()}
    table = AdmittedTable(numeric=columns, codes={}, rows=len(next(iter(columns.values()))))
    still = (Fraction(0),) * query.dimension
    effort = effort_of(query, person_loss, noise=0.0, records=person_loss.records)
    assert effort.radius < Fraction(1, 10**7)
    point = certified(query, person_loss.people(table), effort=effort, perturbation=still)
    return np.array([float(value) for value in point])


@pytest.mark.parametrize("name", CODINGS)
def test_the_site_minimises_the_objective_that_is_written_down(name):
    # lambda instead of lambda / 2, weights left out or other shares of the samples would move the minimiser.
    query = asked(CODINGS[name], ridge=0.7)
    cells = np.array([[-1.0, 1.0], [0.4, 0.2], [1.0, 1.0]])
    found = computed(query, person_loss_of(query), u=cells[:, 0], v=cells[:, 1])
    assert found == pytest.approx(minimiser(query, rows_of(query.model.coding, cells)), abs=2e-6)


def test_constants_come_from_the_schema_whatever_levels_occur():
    coding = ColumnBox(location=(0.0,) * 2, scale=(1.0,) * 2, lower=(0.0,) * 2, upper=(1.0,) * 2, intercept=True)
    query = asked(coding, columns=("g[T.b]", "g[T.c]"), formula="~ g")
    person_loss = person_loss_of(query)
    columns = [column for column in person_loss.design.columns if column.name in query.model.columns]
    assert person_loss.extent == extent(coding, columns)
    assert float(person_loss.trace) == pytest.approx(2 / 4)  # one level and the intercept, though nobody may have it
    assert float(person_loss.euclidean_bound) == pytest.approx(math.sqrt(2) / 2)
    assert person_loss.gradient_bound * 2 == pytest.approx(1.0, rel=1e-9)


def test_a_replaced_person_moves_the_gradient_by_at_most_one_in_the_norm_and_by_the_diameter():
    rng = np.random.default_rng(7)
    for coding in CODINGS.values():
        person_loss = person_loss_of(asked(coding))
        cells = np.column_stack([rng.uniform(-1, 1, 300).round(), rng.uniform(0, 1, 300).round()])
        cells[::2] = np.column_stack([rng.uniform(-1, 1, 150), rng.uniform(0, 1, 150)])
        people = person_loss.people(AdmittedTable(numeric={"u": cells[:, 0], "v": cells[:, 1]}, codes={}, rows=300))
        largest = longest = 0.0
        for size in (0.0, 1.0, 30.0, 300.0):
            for _ in range(6):
                scores = people.scores(rng.normal(size=3) * size)[:300]
                apart = scores[:, None] - scores[None, :]
                largest = max(largest, float(np.max(k_norm(apart, person_loss.norm))))
                longest = max(longest, float(np.max(np.linalg.norm(apart, axis=-1))))
        assert 0.9 < largest <= 2 * person_loss.gradient_bound
        assert 0.6 * 2 * float(person_loss.euclidean_bound) < longest <= 2 * float(person_loss.euclidean_bound)
