"""The public side: moments, the public fit, the choice of radius and ridge, the query."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.families.regression.public import public_rows, whitened_public
from hdpstats.formulas import compile_design
from hdpstats.formulas.outcome import Response
from hdpstats.losses import HuberLoss, LogisticLoss
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.perturbation.request import (
    CHEAP,
    FREE,
    Asked,
    RegressionCost,
    best_geometry,
    noise_distribution,
    recommended,
)
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.row_weights import NEAR, SPARE, UNLIKE, UNSEEN, UnseenPeople, kept, moved, radii
from hdpstats.records.geometry import Source, on_grid
from hdpstats.records.model import RegressionModel
from hdpstats.records.query import LEAST_SMOOTHING
from hdpstats.schema.columns import Binary, Continuous, Offset, Weight
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

SCHEMA = Schema(
    a=Continuous(-4, 4, complete=True),
    b=Continuous(0, 10, complete=True),
    y=Binary(complete=True),
    w=Weight(max=3, complete=True),
    o=Offset(-1, 2, complete=True),
)
DESIGN = compile_design("y ~ a + b", SCHEMA)
LOSS = LogisticLoss()


def frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal(n), rng.uniform(0.0, 12.0, n)
    p = 1.0 / (1.0 + np.exp(-(0.3 + 0.8 * a - 0.1 * b)))
    y = (rng.uniform(size=n) < p).astype(float)
    return pd.DataFrame({"a": a, "b": b, "y": y, "w": rng.uniform(0.5, 3.0, n), "o": rng.uniform(-1.0, 2.0, n)})


def rows_of(data, **names):
    return public_rows(
        PublicTable.from_frame(data, SCHEMA, required=()),
        DESIGN,
        Response(column="y"),
        **({"weights": None, "offset": None} | names),
    )


def side(n=400, **names):
    return whitened_public(rows_of(frame(n), **names), DESIGN, LOSS)


def model_at(geometry):
    return RegressionModel(formula=DESIGN.canonical, loss=LOSS.name, geometry=geometry)


def query_for(
    public,
    *,
    epsilon=Fraction(1),
    largest_weight=1.0,
    relation=Relation.REPLACE_ONE,
    row_norm=None,
    hessian_share=0,
    records=1000,
):
    def cost_at(amount):
        spent = float(amount * (1 - hessian_share - LEAST_SMOOTHING))
        persons = relation.persons_changed
        return RegressionCost(loss=LOSS, epsilon=spent, persons=persons, largest_weight=largest_weight)

    geometry = DESIGN.box(row_norm)
    if public is not None:
        geometry = best_geometry(public, [Asked(records=records, epsilon=epsilon)], cost_at)
        public = public.at_radius(geometry.radius)
    choice = recommended(cost_at(epsilon), public, geometry, records=records)
    return ObjectiveQuery(
        model=model_at(geometry),
        centre=tuple(choice.centre.tolist()),
        ridge=Fraction(choice.ridge),
        epsilon=epsilon,
        schema_sha256="",
        public_sha256=None,
        hessian_share=Fraction(hessian_share),
    )


def cost_of(rate):
    return RegressionCost(loss=LOSS, epsilon=2 * rate, persons=2, largest_weight=1.0)


def calibrate(query, *, records=1000, weight=1.0, relation=Relation.REPLACE_ONE):
    person_loss = RegressionPersonLoss(model=query.model, largest_weight=weight, largest_offset=0.0)
    return perturbation.calibrate_objective(query, person_loss, records=records, relation=relation)


def test_public_rows_are_complete_and_within_the_bounds():
    data = frame(100)
    data.loc[3, "y"], data.loc[4, "a"], data.loc[5, "w"] = np.nan, np.nan, np.nan
    assert len(rows_of(data).X) == 98
    weighted = rows_of(data, weights="w", offset="o")
    assert len(weighted.X) == len(weighted.weights) == len(weighted.offset) == 97
    assert weighted.X[:, 2].max() == 10.0 < data["b"].max()
    assert np.array_equal(rows_of(data).weights, np.ones(98))
    without = rows_of(data.drop(columns="y"))
    assert without.y is None
    assert len(without.X) == 99
    assert whitened_public(without, DESIGN, LOSS).fit is None


def test_moments_are_the_model_s():
    public = side(weights="w", offset="o").at_radius(1.2)
    theta, n, D = np.array([0.1, -0.4, 0.2]), len(public.X), 3
    found = public.moments(theta, records=500)
    H, J = np.zeros((D, D)), np.zeros((D, D))
    for x, a, w, o in zip(public.X, public.weights, public.mallows, public.offset, strict=True):
        p = 1.0 / (1.0 + np.exp(-(x @ theta + o)))
        H += a * w * p * (1.0 - p) * np.outer(x, x) * 500 / n
        J += (a * w) ** 2 * p * (1.0 - p) * np.outer(x, x) * 500 / n
    for computed, plain in ((found.H, H), (found.J, J)):
        level = np.diag([plain[0, 0], *[np.mean(np.diag(plain)[1:])] * 2])
        assert computed == pytest.approx((n * plain + D * level) / (n + D), rel=1e-10)


def test_bootstrap_moments_are_moments_under_other_weights():
    public = side().at_radius(1.2)
    n = len(public.X)
    flat = np.full((1, n), 1.0 / n)
    first = np.zeros((1, n))
    first[0, : n // 2] = 2.0 / n
    stack = public.moments(public.centre, records=10, row_weights=np.concatenate([flat, first]))
    single = public.moments(public.centre, records=10)
    assert stack.H[0] == pytest.approx(single.H)
    assert stack.J[0] == pytest.approx(single.J)
    assert stack.H[1] != pytest.approx(single.H, rel=1e-3)


def test_the_public_fit_is_the_mode_of_its_posterior():
    public = side(5000)
    residual = LOSS.score(public.X @ public.fit.theta, frame(5000)["y"].to_numpy())
    gradient = public.X.T @ residual
    # The score is the prior's pull: small against the information, and towards zero.
    assert np.abs(gradient).max() < 0.02 * np.diag(public.fit.information).min()
    assert public.fit.covariance == pytest.approx(np.linalg.inv(public.fit.information), rel=0.05, abs=1e-4)
    curvature = LOSS.curvature(public.X @ public.fit.theta, np.zeros(5000))
    assert public.fit.information == pytest.approx(public.X.T @ (curvature[:, None] * public.X), rel=1e-9)


def test_the_public_fit_exists_under_separation():
    data = frame(60)
    data["y"] = (data["a"] > 0).astype(float)
    fit = whitened_public(rows_of(data), DESIGN, LOSS).fit
    assert np.all(np.isfinite(fit.theta))
    assert np.linalg.eigvalsh(fit.covariance)[0] > 0.0


def bounded_side(n=400):
    public = side(n)
    return replace(public, unseen=UnseenPeople.of(DESIGN, DESIGN.needs, SCHEMA, public.geometry))


def radius_at(public, sizes, *, rate=0.5):
    sites = [Asked(records=n, epsilon=Fraction(1)) for n in sizes]
    return best_geometry(public, sites, lambda _: cost_of(rate)).radius


def test_the_radius_of_least_predicted_mean_squared_error_is_chosen():
    public = bounded_side()

    def predicted(radius, rate):
        at = public.at_radius(radius)
        pair = at.moments(at.centre, records=1000)
        inverse = np.linalg.inv(pair.H)
        noise = np.diag(noise_distribution(at.geometry, rate=rate).variance)
        return np.trace(inverse @ (pair.J + noise) @ inverse) + np.trace(at.allowance.covariance)

    found = []
    for rate in (0.02, 0.5, 50.0):
        chosen = radius_at(public, [1000], rate=rate)
        around = [predicted(radius, rate) for radius in np.geomspace(0.4, 6.0, 60)]
        assert predicted(chosen, rate) <= 1.01 * SPARE * min(around)
        found.append(chosen)
    assert found == sorted(set(found))


def test_weights_vanish_as_people_and_epsilon_grow():
    public = bounded_side()
    whole = public.unseen.farthest
    radii = [radius_at(public, [10**k]) for k in range(2, 10)]
    assert radii == sorted(radii)
    assert radii[0] < 0.5 * radii[-1] < radii[-1]
    assert whole <= radii[-1] <= 1.2 * whole
    at = public.at_radius(radii[-1]).allowance
    assert at.share == 0.0
    assert not at.covariance.any()


def test_weights_that_are_the_same_for_everybody_move_nothing():
    public = side()
    H = public.with_weights(np.full((1, len(public.X)), 0.3))
    full = public.with_weights(np.ones((1, len(public.X))))
    means = kept(H, full[0], np.arange(1, 3))
    assert means == pytest.approx([0.3])
    N = public.with_weights(np.abs(0.3 - means[:, None]) * np.ones((1, len(public.X))))
    assert moved(H, N, shares=1.0 - means).covariances(1.0) == pytest.approx(0.0, abs=1e-20)


def test_the_allowance_is_what_another_slope_of_those_who_count_less_does():
    public, first = side(4000), 1
    far = public.lengths > np.quantile(public.lengths, 0.9)
    H = public.with_weights((~far).astype(float)[None])
    full = public.with_weights(np.ones((1, len(public.X))))
    means = kept(H, full[0], np.arange(first, 3))
    N = public.with_weights(0.5 * np.abs((~far).astype(float)[None] - means[:, None]))
    M = moved(H, N, shares=1.0 - means).matrices[0]
    rest = public.with_weights(far.astype(float)[None])[0]
    exact = np.linalg.solve(full[0], rest)  # of d, where those who count for nothing have theta + d
    assert pytest.approx(exact, abs=0.12) == M
    assert np.trace(M) == pytest.approx(np.trace(exact), rel=0.35)


def test_people_elsewhere_count_for_more_in_regressions_and_for_less_the_farther_they_are():
    found = bounded_side().unseen
    counted = found.unlike(intercept=True)
    assert counted.shares / found.shares == pytest.approx(UNLIKE)  # nobody is far within these bounds
    borne = []
    for bound in (40, 4000, 400_000):
        schema = Schema(**{name: SCHEMA[name] for name in SCHEMA} | {"a": Continuous(-bound, bound, complete=True)})
        design = compile_design("y ~ a + b", schema)
        unseen = UnseenPeople.of(design, design.needs, schema, side().geometry).unlike(intercept=True)
        borne.append(np.sum(unseen.shares * np.sum(unseen.X[:, 1:] ** 2, axis=1)))
    assert UNLIKE * UNSEEN * NEAR**2 * 2 > borne[0] > borne[1] > borne[2]


def located_side(n=4000):
    """Return public rows of Huber's loss: those of far outlying covariates have outlying outcomes, and no curvature."""
    rng = np.random.default_rng(31)
    a, b = rng.standard_normal(n), rng.uniform(0.0, 10.0, n)
    far = np.abs(a) > 2.0
    y = np.clip(0.1 * a + 0.3 * rng.standard_normal(n) + 5.0 * far, -8.0, 8.0)
    loss = HuberLoss(lower=-8.0, upper=8.0, c=0.5)
    schema = Schema(a=SCHEMA["a"], b=SCHEMA["b"], y=Continuous(-8, 8, complete=True))
    design = compile_design("y ~ a + b", schema)
    table = PublicTable.from_frame(pd.DataFrame({"a": a, "b": b, "y": y}), schema, required=())
    return whitened_public(public_rows(table, design, Response(column="y"), weights=None, offset=None), design, loss)


def test_outlying_outcomes_do_not_hide_what_weights_take():
    """Where curvature vanishes weights take no information, and move the estimate all the same."""
    public = located_side().at_radius(2.0)
    far = public.lengths > 4.0
    assert np.mean(far) > 0.05
    H = public.with_weights(far.astype(float)[None])[0]
    assert public.borne(far.astype(float)[None])[0][1, 1] > 2.0 * H[1, 1]
    kept_of_it, hidden = public.with_weights(np.stack([public.mallows, 0.5 * (1.0 - public.mallows)]))
    told = public.moved_at([public.geometry], kept_of_it[None]).matrices[0]
    assert np.trace(told) > 2.0 * np.trace(np.linalg.solve(kept_of_it, hidden))


def test_sites_of_unequal_size_are_asked_in_one_geometry():
    public = bounded_side()
    sizes = (200, 5000, 100_000)
    together = radius_at(public, sizes)
    assert together == radius_at(public, sizes[::-1])
    assert radius_at(public, sizes[:1]) < together
    assert radius_at(public, sizes[1:2]) < radius_at(public, sizes[1:2] * 10)  # a common error does not average out


def test_radii_are_the_same_numbers_everywhere():
    found = radii(1.1, 7.3)
    assert found[-1] >= 7.3
    assert found[0] <= 0.35 * 1.1
    assert all(each * 2**22 == int(each * 2**22) for each in found)
    assert np.allclose(np.diff(np.log2(found)), 0.125, atol=1e-5)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(10)])
@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize("relation", Relation)
def test_with_a_public_fit_the_determinant_is_free(epsilon, weight, relation):
    public = side(weights="w" if weight > 1 else None)
    query = query_for(public, epsilon=epsilon, largest_weight=weight, relation=relation)
    persons = 2 if relation is Relation.REPLACE_ONE else 1
    beta = weight * query.model.geometry.leverage / 4.0
    assert query.model.geometry.source is Source.PUBLIC_ROWS
    assert float(query.ridge) >= persons * FREE * beta / float(epsilon * (1 - LEAST_SMOOTHING)) * (1.0 - 1e-12)
    assert query.centre == tuple(on_grid(public.fit.theta).tolist())
    constants = calibrate(query, weight=weight, relation=relation)
    assert constants.sensitivity.value == pytest.approx(persons * weight)
    spent = float(constants.noise_rate * constants.sensitivity.value)
    assert spent == pytest.approx(0.999 * float(epsilon), rel=1e-6)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(10)])
def test_without_a_public_fit_the_ridge_is_half_of_that(epsilon):
    share = float(epsilon * (1 - LEAST_SMOOTHING))
    for public in (None, replace(side(), fit=None)):
        query = query_for(public, epsilon=epsilon)
        assert float(query.ridge) == pytest.approx(2.0 * CHEAP * query.model.geometry.leverage / 4.0 / share)
        assert not any(query.centre)
        constants = calibrate(query)
        rate = float(2 * constants.noise_rate) / share
        assert 0.85 < rate < 1.0


def test_the_box_is_used_without_public_rows():
    query = query_for(None, row_norm=1.1)
    assert query.model.geometry.source is Source.SCHEMA_BOX
    assert query.model.geometry.radius == 1.1
    assert query_for(None).model.geometry.radius == pytest.approx(np.sqrt(2.0))


def test_a_hessian_s_share_is_left_out_of_the_noise():
    whole, part = query_for(None), query_for(None, hessian_share=Fraction(1, 4))
    assert float(part.ridge / whole.ridge) == pytest.approx(0.999 / 0.749, rel=1e-9)
    constants = calibrate(part, records=10)
    assert constants.events[0].epsilon == Fraction(749, 1000)
