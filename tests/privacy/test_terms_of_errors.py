"""Bounds of floats' errors are no smaller than the terms that their proofs add up, computed anew in rational numbers.

No search finds rows whose errors come to half of such a bound: what is summed by its sizes cancels, and a bound of the
second order in the unit needs predictors of 10^15. So each bound is held against its documented terms, and half of any
term is too little. Where a search does come near, it is made (`test_rounded_predictors_use_up_the_bound`).
"""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import gammaincc

from hdpstats.families.base import PersonLoss
from hdpstats.families.hazard.rows import spell_error
from hdpstats.families.multinomial.rows import several_error
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.families.regression.rows import RegressionRows, row_error
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.losses import LINKS, HuberLoss, LogisticLoss, PoissonLoss, PredictorLoss, SmoothedQuantile
from hdpstats.losses.multinomial import spread_bound
from hdpstats.mechanisms import minimiser
from hdpstats.mechanisms.importance_weights import DensityRatioModel
from hdpstats.mechanisms.importance_weights.site import DensityRatioPersonLoss, TwoSamples
from hdpstats.mechanisms.minimiser import certified, effort_of
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation.site import calibrate_objective
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source, WeightedRows
from hdpstats.records.model import RegressionModel
from hdpstats.solvers.accelerated import work_of
from hdpstats.solvers.kernels import predictor_error
from hdpstats.solvers.newton import certify, minimise
from hdpstats.solvers.objective import SumError
from tests.unit.families.hazard.test_bounds import MODELS, people_of
from tests.unit.families.hazard.test_bounds import SCHEMA as PEOPLE
from tests.unit.solvers.test_newton_losses import LOSSES

U = Fraction(1, 2**53)
FAR = [0.0, 1.0, 1e8, 1e15, 1e22]
MANY = {
    "logistic": LogisticLoss(),
    **LOSSES,
    "narrow huber": HuberLoss(lower=-0.5, upper=0.5, c=1e-9),
    "narrow window": SmoothedQuantile(lower=-0.5, upper=0.5, q=0.5, h=1e-5),
    "large means": PoissonLoss(upper=9.0, cap=1e9),
}


def delta(D: int, size: float) -> Fraction:
    """Return what a compensated predictor is off but for its last rounding: ``1.05 (D + 4) 2^-77 T``, and underflow."""
    return Fraction(105, 100) * (D + 4) * (Fraction(size) + Fraction(1, 2**600)) / 2**77


def cell(summand: float) -> Fraction:
    """Return the step of the finest grid of which numbers of a size are at most 2^50 steps."""
    step = Fraction(1, 2**50)
    while step * 2**50 < Fraction(summand):
        step *= 2
    while step * 2**49 >= Fraction(summand):
        step /= 2
    return step


def root(number: float) -> Fraction:
    return Fraction(math.sqrt(number)) * (1 - U)


@pytest.mark.parametrize("size", FAR)
@pytest.mark.parametrize("D", [1, 4, 1000, 2**20])
def test_a_predictor_errs_by_products_and_additions(D: int, size: float) -> None:
    """And by underflow: no bound is 0."""
    assert delta(D, size) <= Fraction(float(predictor_error(D, size))) <= Fraction(102, 100) * delta(D, size)


@pytest.mark.parametrize("size", FAR)
@pytest.mark.parametrize("name", MANY)
def test_a_row_errs_by_its_predictor_its_own_score_and_two_products(name: str, size: float) -> None:
    loss, D = MANY[name], 6
    k, m, c = Fraction(loss.smoothness), Fraction(loss.lipschitz), Fraction(loss.scaled_curvature)
    least = k * (1 + U) * delta(D, size) + ((1 + 2 * U) * c + (Fraction(loss.ulps) + 3) * m) * U
    assert least <= Fraction(float(row_error(loss, D, sizes=size))) <= Fraction(102, 100) * least


@pytest.mark.parametrize("others", [1, 2, 5, 19])
def test_probabilities_change_by_the_spread_of_differences(others: int) -> None:
    """``2 W(M / e)``, the entropy and the logarithm of the largest share where the others are equal, is attained."""
    with mpmath.workprec(100):
        least = 2 * mpmath.lambertw(mpmath.mpf(others) / mpmath.e).real
        above = 2 * mpmath.log1p(mpmath.mpf(others) / mpmath.e)
    assert least <= above
    assert abs(spread_bound(others) / float(above) - 1.0) <= 2.0**-50


@pytest.mark.parametrize("size", FAR)
@pytest.mark.parametrize("others", [1, 2, 5, 19, 400])
def test_a_row_of_several_predictors_errs_by_their_shares_and_two_products(others: int, size: float) -> None:
    """Probabilities by half of predictors' errors and by ``(2 B + M + 16) u``, products by 3 u of 1.5."""
    least = delta(3, size) / 2 + (Fraction(spread_bound(others)) + others + 16 + Fraction(9, 2)) * U
    assert least <= Fraction(float(several_error(others, 3, sizes=size))) <= Fraction(120, 100) * least


@pytest.mark.parametrize("size", FAR)
@pytest.mark.parametrize("intervals", [1, 8, 9, 40, 500])
@pytest.mark.parametrize("link", LINKS)
def test_a_spell_errs_by_its_cells_and_their_sums(link: str, intervals: int, size: float) -> None:
    """Each term is in ``q - 1`` additions, or in 7 of its group, those of groups and that of an event; 5 products."""
    loss, block, total = LINKS[link], 4, 3.0
    added = min(Fraction(intervals - 1), Fraction(intervals, 8) + 9) + 5
    off, own, event = delta(block + 8, size), Fraction(loss.ulps), Fraction(loss.event_ulps)
    least = Fraction(total) * (loss.survived_smoothness * off + (own + added) * U)
    least += loss.event_smoothness * off + (event + added) * U
    found = Fraction(float(spell_error(loss, block, total=total, intervals=intervals, sizes=size)))
    assert least * (1 - Fraction(1, 2**40)) <= found <= Fraction(102, 100) * least


def test_a_gradient_errs_by_the_conversion_of_the_sum_and_by_what_is_added_to_it() -> None:
    """Three roundings of the sum; five of ridge and perturbation, for which eight are counted."""
    assert Fraction(SumError(summands=0.0, steepest=1.0).beside(0.0)) >= 3 * U / (1 - 3 * U)
    assert Fraction(SumError(summands=0.0, steepest=0.0).beside(1.0)) >= 8 * U
    assert SumError(summands=1.0, steepest=0.0).beside(0.0) >= 1.0


@pytest.mark.parametrize("size", [0.0, 1e3, 1e16])
@pytest.mark.parametrize("most_rows", [1, 60])
@pytest.mark.parametrize("name", MODELS)
def test_a_sum_errs_by_each_person_s_rows_and_each_row_s_rounding(name: str, most_rows: int, size: float) -> None:
    """Every row is rounded to the grid by itself, and a person may have many."""
    person_loss, _ = people_of(name)
    person_loss, people = replace(person_loss, most_rows=most_rows), 50
    geometry, D = person_loss.model.geometry, person_loss.dimension
    longest, sizes = Fraction(geometry.length), geometry.leverage / geometry.length * size
    if name.startswith("hazard"):
        cap, total = person_loss.model.cap, Fraction(person_loss.total)
        slopes = max(math.hypot(*row, 0.0) for row in cap.slopes)
        level = max(abs(value) for row in cap.baseline for value in row) + abs(cap.margin) + 1.0
        sizes = geometry.leverage / geometry.length * (size + slopes) + level
        error = spell_error(
            person_loss.loss, person_loss.model.block, total=person_loss.total,
            intervals=person_loss.model.grid.intervals, sizes=sizes,
        )  # fmt: skip
        steepest, summand = longest * (total + 1), person_loss._row_bounds.summand
    elif name == "multinomial":
        error = several_error(person_loss.model.others, geometry.dimension, sizes=sizes)
        steepest, summand = Fraction(3, 2) * longest, geometry.length
    else:
        error = row_error(person_loss.loss, D, sizes=sizes)
        steepest, summand = Fraction(person_loss.loss.lipschitz) * longest, float(steepest_of(person_loss))
    each = longest * Fraction(float(error)) + 4 * U * steepest
    cells = people * most_rows * root(D) * cell(summand) / 2
    found = Fraction(person_loss.rounding(size, people=people))
    least = people * each + cells
    assert (1 - Fraction(1, 2**40)) * least <= found <= Fraction(102, 100) * least
    assert most_rows == 1 or size > 1e3 or cells > Fraction(2, 3) * least, "so half of the cells would be too few"


def steepest_of(person_loss: RegressionPersonLoss) -> Fraction:
    return Fraction(person_loss.loss.lipschitz) * Fraction(person_loss.model.geometry.length)


def samples(public: int) -> tuple[DensityRatioPersonLoss, TwoSamples]:
    """Return the loss of a density ratio and people of both samples who are as large as its coding allows."""
    slopes, people, rng = 2, 400, np.random.default_rng(6)
    geometry = Geometry(location=(0.0,) * slopes, whitening=tuple(map(tuple, np.eye(slopes).tolist())), radius=2.0,
                        leverage=5.0, intercept=True, source=Source.PUBLIC_ROWS)  # fmt: skip
    model = DensityRatioModel(formula="~ a + b", columns=("a", "b"), coding=geometry)
    z = rng.standard_normal((people + public, slopes))
    X = np.column_stack([np.ones(len(z)), 2.0 * z / np.linalg.norm(z, axis=1, keepdims=True)])
    person_loss = DensityRatioPersonLoss(
        model=model, design=compile_one_sided("~ a + b", PEOPLE),
        public=WeightedRows(X=X[people:], weights=np.ones(public)), records=people,
    )  # fmt: skip
    share = people / public
    both = [(X[:people], np.ones(people), 1.0), (X[people:], np.full(public, share), 0.0)]
    rows = [RegressionRows.of(LogisticLoss(), x, np.full(len(x), y), weights=w) for x, w, y in both]
    return person_loss, TwoSamples(private=rows[0], public=rows[1])


@pytest.mark.parametrize("public", [7, 400, 3000])
def test_a_density_ratio_has_the_bounds_of_both_samples(public: int) -> None:
    """Those of the people at hand, each sample's sum converted by itself, come near what is public, and no nearer."""
    person_loss, both = samples(public)
    nearest = 0.0
    for size in (0.0, 1.0, 1e9, 1e16):
        theta = np.array([size, 0.0, 0.0])
        own = both.sum_error(theta).beside(0.0)
        known = person_loss.rounding(size, people=400)
        assert own <= 1.01 * known
        nearest = max(nearest, own / known)
    assert nearest > 0.95
    assert person_loss.counted(400) == both.count == 400 + public
    one = np.zeros((400 + public, 3))
    one[:] = 1.0, 2.0, 0.0
    same = [replace(each, X=one[: len(each.X)]) for each in (both.private, both.public)]
    steepest = float(np.linalg.eigvalsh(TwoSamples(private=same[0], public=same[1]).curvature(np.zeros(3)))[-1])
    assert 0.99 < steepest / person_loss.curvature(400) <= 1.0
    slope = np.linalg.norm(np.ldexp(both.loss_gradient(np.zeros(3)).astype(float), -both.grid_bits))
    assert slope <= person_loss.slope(400)


def test_cells_of_public_rows_count_as_those_of_private_ones_do() -> None:
    """Each of them is rounded to a grid of summands that weigh more, the fewer they are."""
    person_loss, _ = samples(24)
    length = math.sqrt(person_loss.extent.leverage)
    one = Fraction(float(row_error(LogisticLoss(), 3, sizes=0.0))) + 4 * U
    cells = root(3) / 2 * (400 * cell(length) + 24 * cell(400.0 / 24.0 * length))
    least = 800 * Fraction(length) * (1 - U) * one + cells
    assert Fraction(person_loss.rounding(0.0, people=400)) >= least


def linear_loss(*, centre: float, ridge: float, dimension: int = 3) -> tuple[ObjectiveQuery, PersonLoss]:
    slopes = dimension - 1
    geometry = Geometry(location=(0.0,) * slopes, whitening=tuple(map(tuple, np.eye(slopes).tolist())), radius=1.0,
                        leverage=2.0, intercept=True, source=Source.SCHEMA_BOX)  # fmt: skip
    model = RegressionModel(formula="y ~ a + b", loss="logistic", geometry=geometry)
    query = ObjectiveQuery(model=model, centre=(centre, *(0.0,) * slopes), ridge=Fraction(ridge), epsilon=Fraction(1),
                           schema_sha256="", public_sha256=None)  # fmt: skip
    return query, RegressionPersonLoss(model=model, largest_weight=1.0, largest_offset=0.0)


@pytest.mark.parametrize(
    ("centre", "ridge", "noise"), [(0.0, 2.0, 1e6), (1e9, 1e6, 1.0), (1e3, 1e9, 1e15), (0.0, 1e6, 1e-3)]
)
def test_the_work_is_for_ridge_centre_and_noise_on_top_of_the_losses(centre: float, ridge: float, noise: float) -> None:
    """Eight roundings of their sizes at the longest coefficients that the minimiser may have."""
    query, person_loss = linear_loss(centre=centre, ridge=ridge)
    work = effort_of(query, person_loss, noise=noise, records=1).work
    size = Fraction(centre) + root(2.0 * work.excess / ridge)
    own = Fraction(person_loss.rounding(float(size) * (1.0 - 2.0**-50), people=1))
    least = own + 8 * U * (Fraction(ridge) * (size + Fraction(centre)) + Fraction(noise))
    assert Fraction(work.error) >= least
    by_slope = (person_loss.slope(1) + noise) ** 2 / (2.0 * ridge)
    by_loss = person_loss.largest_loss(np.array(query.centre)) + noise**2 / (2.0 * ridge)
    assert work.excess >= min(by_slope, by_loss)


def test_the_work_holds_for_no_longer_noise_and_no_more_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is longer than any that occurs is left to numbers in growing precision."""
    query, person_loss = linear_loss(centre=0.0, ridge=4.0)
    effort = effort_of(query, person_loss, noise=1.0, records=20)
    rng, asked = np.random.default_rng(0), []
    X = np.column_stack([np.ones(20), rng.uniform(-0.5, 0.5, (20, 2))])
    people = RegressionRows.of(LogisticLoss(), X, rng.integers(0, 2, 20).astype(float))
    monkeypatch.setattr(
        minimiser, "minimise_within", lambda objective, start, work: asked.append(work) or np.zeros(len(start))
    )
    for length, count, used in ((1.0, 20, 1), (1.0 + 2.0**-40, 20, 0), (1.0, 19, 0)):
        asked.clear()
        noise = [Fraction(0), Fraction(length), Fraction(0)]
        certified(query, people, effort=replace(effort, count=count), perturbation=noise)
        assert len(asked) == used


@pytest.mark.parametrize("slopes", [1, 4, 30])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6)])
def test_noise_is_longer_than_the_work_holds_for_with_a_chance_below_two_to_the_minus_60(
    slopes: int, delta: Fraction
) -> None:
    query, person_loss = linear_loss(centre=0.0, ridge=40.0, dimension=slopes + 1)
    calibration = calibrate_objective(
        replace(query, delta=delta), person_loss, records=10, relation=Relation.REPLACE_ONE
    )
    noise, D = calibration.perturbation, slopes + 1
    if delta:
        chance = gammaincc(D / 2.0, (noise.size / float(noise.sd)) ** 2 / 2.0)
    else:
        chance = gammaincc(D, noise.size * float(noise.rate) / noise.sensitivity.norm.longest)
    assert chance < 2.0**-60
    assert calibration.effort.noise == noise.size


GIVEN = {"ridge": 2.0, "curvature": 30.0, "error": 1e-30, "size": 50.0, "excess": 7.0}


def test_steps_err_by_their_rounding_on_top_of_gradients() -> None:
    """``4 u^2 L S`` for steps, and at least ``4 u mu S``, of which the rounding of the result is a part."""
    work = work_of(**GIVEN)
    assert work is not None
    steps = 4 * U * (Fraction(2) + U * Fraction(work.smoothness)) * 50
    assert Fraction(work.error) >= Fraction(1e-30) + steps


@pytest.mark.parametrize(("gradients", "steps"), [(1.5, 0.0), (0.0, 1.5), (0.75, 0.75)])
def test_errors_that_grow_with_the_distance_by_more_than_the_proof_covers_are_refused(
    gradients: float, steps: float
) -> None:
    """``3 e / (mu S) + 80 u L / mu`` is at most 2^-14; of either term half would pass."""
    eta = 2.0**-14
    error = gradients * eta * 2.0 * 50.0 / 3.0
    curvature = steps * eta * 2.0 * 2.0**53 / 80.0 / 1.25
    assert work_of(**GIVEN | {"error": max(error, 1e-30), "curvature": curvature}) is None
    assert work_of(**GIVEN | {"error": max(error / 4.0, 1e-30), "curvature": curvature / 4.0}) is not None


def test_a_certificate_counts_the_whole_error_of_the_gradient() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(50), rng.normal(size=(50, 2))])
    rows = RegressionRows.of(LogisticLoss(), X, rng.integers(0, 2, 50).astype(float))
    task = rows.penalised(ridge=np.array([2.0, 3.0, 5.0]), linear=np.ones(3))
    theta = minimise(task, start=np.zeros(3)).theta
    found, error = certify(task, theta), task.gradient_error(theta)
    length = float(np.linalg.norm(task.gradient(theta)))
    assert length < 0.5 * error, "at the minimum the rest is the smaller part"
    assert found.gradient_norm >= length + error
    assert found.radius >= found.gradient_norm / 2.0


def worst_row(loss: PredictorLoss, y: float, eta: float) -> float:
    """Return the largest error of a row's score over its bound, where the predictor is at or near a number."""
    rng, largest = np.random.default_rng(2), 0.0
    with mpmath.workprec(200):
        for _ in range(80):
            x = np.array([1.0, *rng.uniform(-0.01, 0.01, 2)])
            theta = np.array([0.0, *rng.uniform(-0.01, 0.01, 2)])
            theta[0] = eta - x @ theta
            rest = theta * rng.uniform(-1.0, 1.0, 3) * float(U)
            one = RegressionRows.of(loss, x[None], np.array([y]))
            found = np.ldexp(one.loss_gradient(theta, rest).astype(float), -one.grid_bits)
            at = [mpmath.mpf(a) + mpmath.mpf(b) for a, b in zip(theta.tolist(), rest.tolist(), strict=True)]
            exact = one.exact_loss_gradient(mpmath.mp, at)
            away = mpmath.norm([mpmath.mpf(a) - b for a, b in zip(found.tolist(), exact, strict=True)])
            largest = max(largest, float(away) / one.sum_error(theta).beside(0.0))
    return largest


@pytest.mark.parametrize(
    ("loss", "y", "eta", "least"),
    [
        (HuberLoss(lower=-0.5, upper=0.5, c=1e-9), 0.5, 0.5 + 3e-10, 0.95),
        (SmoothedQuantile(lower=-0.5, upper=0.5, q=0.5, h=1e-5), 0.5, 0.5 + 3e-6, 0.95),
        (PoissonLoss(upper=9.0, cap=1e9), 3.0, math.log(1e9) - 1e-3, 0.4),
    ],
    ids=["huber", "quantile", "poisson"],
)
def test_rounded_predictors_use_up_the_bound(loss: PredictorLoss, y: float, eta: float, least: float) -> None:
    """Where a score is steep at large predictors, what their last rounding does to it is most of its bound, or much."""
    assert least < worst_row(loss, y, eta) <= 1.0
