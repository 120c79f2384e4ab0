"""One round of scores of cut rows: constants derived a second time, cutting, noise as announced, what is refused."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import expit

from hdpstats._base.errors import MechanismError
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.mechanisms.public_hessian import PublicHessianQuery
from hdpstats.mechanisms.public_hessian import site as score
from hdpstats.mechanisms.registry import prepare
from hdpstats.noise.knorm import BallNoise
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.gaussian import mu_of
from hdpstats.privacy.sensitivity import Relation, diameter, length
from hdpstats.records.geometry import from_box
from hdpstats.records.model import RegressionModel
from hdpstats.schema.columns import Binary, Continuous
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable
from tests import chance

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SCHEMA = Schema(y=Binary(complete=True), x=Continuous(-4, 4, complete=True), w=Continuous(0, 1, complete=True))
MODEL = RegressionModel(
    formula="y ~ x", loss="logistic", geometry=from_box([-1.0], [1.0], intercept=True, row_norm=1e3)
)


def make_query(**changes):
    query = PublicHessianQuery(
        model=MODEL,
        theta=(0.3, -0.4),
        truncation=2.0,
        norm=Fraction(2.25),
        epsilon=EPSILON,
        cost=EPSILON / 2,
        ahead=EPSILON / 2,
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
    )
    return replace(query, **changes)


def site_facts(relation=Relation.REPLACE_ONE):
    return SiteFacts(schema=SCHEMA, relation=relation, records=60)


def table(n=60):
    rng = np.random.default_rng(1)
    x = rng.uniform(-4, 4, n)
    y = (rng.uniform(size=n) < expit(x)).astype(float)
    return AdmittedTable(numeric={"x": x, "y": y}, codes={}, rows=n)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_constants_are_those_of_the_docstring(relation):
    found = score.calibrate(make_query(), relation=relation)
    r = 2.25 * 0.5  # the norm of theta is 1/2
    factor = diameter(Fraction(r)) if relation is Relation.REPLACE_ONE else length(Fraction(r))
    assert found.grid == Fraction(2, 2**30)
    assert float(found.sensitivity.value) == pytest.approx(2.25 * float(factor), rel=1e-8)
    assert found.sensitivity.value > Fraction(2.25) * factor  # floats and rounding are counted
    assert isinstance(found.noise, BallNoise)
    assert found.event.ran is MechanismName.SCORE_PURE
    assert found.event.cost.epsilon == EPSILON / 2
    assert 1 - Fraction(1, 10**9) <= found.noise.rate * (found.sensitivity.value / found.grid) / (EPSILON / 2) <= 1
    assert found.noise_sd == pytest.approx(math.sqrt(3) * float(found.sensitivity.value) / 0.5, rel=1e-9)


@pytest.mark.parametrize("relation", list(Relation))
def test_floats_and_rounding_are_counted_for_every_person_that_neighbours_differ_in(relation):
    # Fails where rows a little longer than the norm, errors of floats or halves of a grid step are not counted.
    found = score.calibrate(make_query(), relation=relation)
    persons, D = (2, 2) if relation is Relation.REPLACE_ONE else (1, 2)
    norm = Fraction(2.25) * (1 + Fraction(1, 2**40))
    r = norm / 2  # theta is (0.3, -0.4) in binary64, a little longer or shorter than 1/2
    sensitivity = norm * (diameter(r) if relation is Relation.REPLACE_ONE else length(r))
    of_floats = norm * ((D + 2) * r / 2**54 + Fraction(1, 2**49)) + found.grid * Fraction(math.sqrt(D)) / 2
    assert abs(found.sensitivity.value - sensitivity - persons * of_floats) < Fraction(1, 2**44)
    assert Fraction(1, 2**44) < Fraction(1, 2**40) < of_floats


def test_at_zero_half_of_the_printed_noise_is_enough():
    found = score.calibrate(make_query(theta=(0.0, 0.0)), relation=Relation.REPLACE_ONE)
    assert float(found.sensitivity.value) == pytest.approx(2.25, rel=1e-8)


def test_with_a_delta_noise_is_normal_and_rounds_compose_in_mu():
    whole = mu_of(EPSILON, DELTA) ** 2
    query = make_query(delta=DELTA, cost=whole / 4, ahead=3 * whole / 4)
    found = score.calibrate(query, relation=Relation.REPLACE_ONE)
    assert isinstance(found.noise, RoundedNormal)
    assert (found.event.ran, found.event.mu_squared) == (MechanismName.SCORE, whole / 4)
    assert found.noise_sd == pytest.approx(2 * float(found.sensitivity.value) / float(mu_of(EPSILON, DELTA)), rel=1e-9)
    ahead = prepare(query, site_facts()).ahead
    assert [(each.epsilon, each.mu_squared) for each in ahead] == [(0, whole / 4)] * 3


def test_later_rounds_without_a_delta_are_announced_as_epsilon():
    prepared = prepare(make_query(), site_facts())
    assert [(each.epsilon, each.mu_squared) for each in prepared.ahead] == [(EPSILON / 2, 0)]
    assert set(prepared.needs) == {"x", "y"}


def test_rows_are_cut_column_by_column_and_then_as_a_whole():
    X = np.array([[1.0, 0.5, -0.5], [1.0, 9.0, -9.0], [1.0, 0.0, 3.0], [1.0, np.nan, 0.0]])
    found = score.cut_rows(X, truncation=2.0, norm=2.5, intercept=True)
    assert found[0].tolist() == [1.0, 0.5, -0.5]
    assert found[1] == pytest.approx(np.array([1.0, 2.0, -2.0]) * 2.5 / 3.0)
    assert found[2].tolist() == [1.0, 0.0, 2.0]
    assert found[3].tolist() == [0.0, 0.0, 0.0]
    without = score.cut_rows(np.array([[3.0, -5.0]]), truncation=2.0, norm=9.0, intercept=False)
    assert without.tolist() == [[2.0, -2.0]]


@pytest.mark.entropy
def test_a_round_is_the_gradient_of_the_losses_of_cut_rows_plus_noise_of_the_announced_size():
    query, rows = make_query(norm=Fraction(1.5)), table()
    prepared = prepare(query, site_facts())
    z = np.clip(rows.numeric["x"], -2.0, 2.0)
    X = np.column_stack([np.ones(60), z])
    X *= np.minimum(1.0, 1.5 / np.linalg.norm(X, axis=1))[:, None]
    exact = X.T @ (expit(X @ np.array(query.theta)) - rows.numeric["y"])
    releases = [prepared.compute(rows) for _ in range(400)]
    assert (releases[0].records, releases[0].events) == (60, prepared.events)
    drawn = np.array([each.total for each in releases])
    assert np.all(drawn / releases[0].grid == np.rint(drawn / releases[0].grid))
    errors = (drawn - exact) / releases[0].noise_sd
    # Noise of density exp(-rate ||b||) in two dimensions with the standard deviation 1 has rate sqrt(3); rate ||b|| is
    # Gamma(2, 1), exactly. A false alarm of the three checks, and noise 1.6 times too small or too large that passes,
    # have 1e-9 at most.
    alarm = chance.ALARM / 3
    assert chance.gamma_sum_fits(math.sqrt(3) * np.linalg.norm(errors, axis=1).sum(), 2 * 400, alarm=alarm)
    assert max(chance.miss_of_gamma_sum(2 * 400, factor, alarm=alarm) for factor in (1.6, 1 / 1.6)) <= chance.ALARM
    for column in errors.T:  # half of them on either side; a sum that is wrong by a standard deviation has 81 %
        assert chance.share_fits(int(np.sum(column > 0)), 400, 0.5, alarm=alarm)
    assert chance.miss_of_share(0.5, 0.81, 400, alarm=alarm) <= chance.ALARM


@pytest.mark.parametrize("delta", [False, True])
def test_noise_is_drawn_before_a_score_is_computed(monkeypatch, delta):
    done, scores = [], RegressionRows.scores
    for distribution in (BallNoise, RoundedNormal):
        monkeypatch.setattr(distribution, "draw", lambda self: done.append("noise") or (0,) * self.dimension)
    monkeypatch.setattr(RegressionRows, "scores", lambda self, at: done.append("scores") or scores(self, at))
    costs = {"delta": DELTA, "cost": mu_of(EPSILON, DELTA) ** 2, "ahead": Fraction(0)} if delta else {}
    prepare(make_query(**costs), site_facts()).compute(table())
    assert done == ["noise", "scores"]


@pytest.mark.parametrize(
    "changes",
    [
        {"cost": EPSILON, "ahead": Fraction(1, 10**6)},
        {"cost": Fraction(0)},
        {"theta": (0.1,)},
        {"theta": (math.nan, 0.0)},
        {"norm": Fraction(1, 3)},
        {"truncation": 0.0},
        {"delta": DELTA},  # half of epsilon is far more than mu^2 may be
        {"model": replace(MODEL, loss="huber")},
        {"model": replace(MODEL, weights="w")},
        {"model": replace(MODEL, offset="w")},
    ],
)
def test_what_the_proof_does_not_cover_is_no_query(changes):
    with pytest.raises(MechanismError):
        make_query(**changes)


def test_the_rounds_may_cost_all_that_is_offered():
    assert make_query(cost=EPSILON, ahead=Fraction(0)).cost == EPSILON


@pytest.mark.wide
def test_more_coefficients_than_the_margin_covers_are_refused():
    geometry = from_box([-1.0] * 2000, [1.0] * 2000, intercept=True, row_norm=1e3)
    with pytest.raises(MechanismError, match="2000"):
        make_query(model=replace(MODEL, geometry=geometry), theta=(0.0,) * 2001)
