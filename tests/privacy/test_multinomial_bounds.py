"""The constants of multinomial models: bounds of one person, and the exact loss of neighbours' densities, searched."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.multinomial import bounds as mechanism
from hdpstats.families.multinomial.bounds import MultinomialPersonLoss
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.losses import multinomial
from hdpstats.losses.multinomial import residuals_of_pairs
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source, whiten
from hdpstats.records.model import MultinomialModel
from hdpstats.solvers import minimise
from hdpstats.solvers.kernels import PIECE, coefficient_parts, compensated_pairs
from hdpstats.solvers.newton import certify
from tests.objectives import multinomial_objective

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-1, 1, complete=True),
    y=hdp.Categorical(["a", "b", "c"], complete=True),
    w=hdp.Weight(2, complete=True),
)
UNIT = 2.0**-53


def model_of(*, others: int = 2, radius: float = 1.0, slopes: int = 1) -> MultinomialModel:
    public = Geometry(
        location=(0.0,) * slopes,
        whitening=tuple(tuple(row) for row in np.eye(slopes).tolist()),
        radius=radius,
        leverage=1.0 + 2.0 * radius**2,
        intercept=True,
        source=Source.PUBLIC_ROWS,
    )
    return MultinomialModel(formula="y ~ x", others=others, geometry=public)


def query_of(*, ridge: float) -> ObjectiveQuery:
    model = model_of()
    return ObjectiveQuery(
        model=model,
        centre=(0.0,) * model.dimension,
        ridge=Fraction(ridge * model.geometry.leverage / 2.0),
        epsilon=Fraction(1),
        schema_sha256="",
        public_sha256=None,
    )


def person_loss_of(model: MultinomialModel, weight: float = 1.0) -> MultinomialPersonLoss:
    return MultinomialPersonLoss(model=model, largest_weight=weight)


@pytest.mark.parametrize("others", [1, 2, 3, 6])
def test_scores_and_traces_keep_their_bounds_and_attain_them(others: int) -> None:
    rng = np.random.default_rng(others)
    eta = np.concatenate([rng.normal(size=(4000, others)) * scale for scale in (0.1, 1.0, 30.0, 800.0)])
    eta = np.concatenate([eta, np.eye(others) * 900.0, np.zeros((1, others)), -900.0 * np.ones((1, others))])
    eta = np.concatenate([eta, np.full((1, others), 50.0)])
    p = multinomial.probabilities(eta)
    traces = np.sum(p * (1.0 - p), axis=1)
    assert np.max(traces) <= float(multinomial.trace_bound(others)) * (1.0 + 1e-12)
    assert np.max(traces) >= (0.999 if others > 1 else 0.99) * float(multinomial.trace_bound(others))
    longest = 0.0
    for y in range(others + 1):
        left = multinomial.residuals(eta, np.full(len(eta), y))
        longest = max(longest, float(np.max(np.linalg.norm(left, axis=1))))
    assert longest <= float(multinomial.steepest(others)) * (1.0 + 4.0 * UNIT)
    assert longest >= 0.9999 * float(multinomial.steepest(others))


def test_probabilities_err_by_no_more_than_is_said() -> None:
    rng = np.random.default_rng(0)
    for others in (1, 3, 8):
        eta = np.concatenate([rng.normal(size=(60, others)) * scale for scale in (1.0, 10.0, 300.0)])
        p = multinomial.probabilities(eta)
        with mpmath.workprec(200):
            for row, found in zip(eta.tolist(), p.tolist(), strict=True):
                exact = multinomial.exact_residuals(mpmath.mp, [mpmath.mpf(value) for value in row], 0)
                error = mpmath.sqrt(sum((mpmath.mpf(f) - e) ** 2 for f, e in zip(found, exact, strict=True)))
                assert float(error) <= (others + 16) * UNIT


def tied_predictors(others: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return predictors (n, M) of rows (1, a, -a), whose leading parts tie in most levels and whose rests decide."""
    rng = np.random.default_rng(others)
    n = 300
    X = np.column_stack([np.ones(n), np.full(n, size), np.full(n, -size)]) * rng.choice([1.0, -1.0], n)[:, None]
    constant = rng.uniform(-0.49, 0.49, others) * np.spacing(2.0 * size)
    slope = 1.0 + rng.choice([0.0, UNIT, -(2.0**-30)], others) * (rng.random(others) < 0.3)
    pairs = [
        compensated_pairs(X, coefficient_parts(np.array([a, b, -1.0])), np.zeros(n))
        for a, b in zip(constant.tolist(), slope.tolist(), strict=True)
    ]
    own, rest = (np.stack(each).T for each in zip(*pairs, strict=True))
    return own, rest


@pytest.mark.parametrize("size", [1e17, 1e21, 1e30])
@pytest.mark.parametrize("others", [*range(1, 8), 19])
def test_where_leading_parts_of_far_predictors_tie_lesser_ones_decide(others: int, size: float) -> None:
    own, rest = tied_predictors(others, size)
    y = np.arange(len(own)) % (others + 1)
    found = residuals_of_pairs(own, rest, y)
    assert not np.isnan(found).any()
    bound = (multinomial.spread_bound(others) + others + 16.0) * UNIT + 5.0 * UNIT**2 * 2.0 * size
    with mpmath.workprec(400):
        for a, b, each, outcome in list(zip(own.tolist(), rest.tolist(), found.tolist(), y.tolist(), strict=True))[:60]:
            predictors = [mpmath.mpf(p) + mpmath.mpf(q) for p, q in zip(a, b, strict=True)]
            exact = multinomial.exact_residuals(mpmath.mp, predictors, outcome)
            away = mpmath.sqrt(sum((mpmath.mpf(f) - e) ** 2 for f, e in zip(each, exact, strict=True)))
            assert float(away) <= bound
    assert np.max(np.abs(found)) <= 1.0


@pytest.mark.parametrize("others", [2, 5])
def test_no_row_moves_a_gradient_by_more_than_its_bound_however_far_predictors_are(others: int) -> None:
    """Sizes near which leading parts of predictors tie, and far beyond any that a table has."""
    rng = np.random.default_rng(others)
    n = 400
    for size in (1e12, 1e21, 1e50):
        X = np.column_stack([np.ones(n), np.full(n, size), np.full(n, -size)])
        weights = 2.0 / (1.0 + 2.0 * size**2) ** 0.5 * rng.uniform(0.5, 1.0, n)
        rows = MultinomialRows(others=others, X=X, y=rng.integers(0, others + 1, n), weights=weights)
        for _ in range(5):
            theta = np.tile([0.0, 1e9, 0.0], others) + rng.uniform(-1e-4, 1e-4, 3 * others)
            theta[0::3] = rng.uniform(-1e4, 1e4, others)
            alone = [replace(rows, X=X[i : i + 1], y=rows.y[i : i + 1], weights=weights[i : i + 1]) for i in range(n)]
            for one in alone[:20]:
                score = np.ldexp(one.loss_gradient(theta).astype(float), -one.grid_bits)
                assert np.linalg.norm(score) <= 1.4143 * one.weights[0] * np.linalg.norm(one.X)


def test_values_are_those_whose_gradient_is_the_score() -> None:
    rng = np.random.default_rng(1)
    eta, y, step = rng.normal(size=(200, 3)) * 3.0, rng.integers(0, 4, 200), 1e-6
    for k in range(3):
        move = step * np.eye(3)[k]
        slope = (multinomial.values(eta + move, y) - multinomial.values(eta - move, y)) / (2.0 * step)
        assert slope == pytest.approx(multinomial.residuals(eta, y)[:, k], abs=1e-8)


@pytest.mark.parametrize("weight", [1.0, 2.0])
@pytest.mark.parametrize("radius", [0.3, 2.0])
def test_one_person_keeps_the_bounds_of_the_contrast(radius: float, weight: float) -> None:
    model = model_of(others=3, radius=radius, slopes=2)
    person_loss = person_loss_of(model, weight)
    rng = np.random.default_rng(2)
    raw = np.concatenate([rng.normal(size=(3000, 2)) * radius * scale for scale in (0.5, 1.0, 1.5, 40.0)])
    rows = whiten(model.geometry, np.column_stack([np.ones(len(raw)), raw]))
    people = MultinomialRows(others=3, X=rows.X, y=rng.integers(0, 4, len(raw)), weights=weight * rows.weights)
    longest, heaviest = 0.0, 0.0
    for theta in [np.zeros(9), *(rng.normal(size=9) * scale for scale in (0.3, 5.0, 300.0))]:
        longest = max(longest, float(np.max(np.linalg.norm(people.scores(theta), axis=1))))
        for k in range(40):
            one = replace(people, X=people.X[k : k + 1], y=people.y[k : k + 1], weights=people.weights[k : k + 1])
            zero = np.zeros(9)
            H = one.penalised(ridge=zero, centre=zero, linear=zero).hessian(theta)
            heaviest = max(heaviest, float(np.trace(H)))
            ridge = float(Fraction(3))
            determinant = float(np.linalg.slogdet(np.eye(9) + H / ridge)[1])
            assert determinant <= float(person_loss.jacobian(Fraction(3)))
            assert np.linalg.matrix_rank(H, tol=1e-9) <= person_loss.rank
    assert 0.75 * float(person_loss.gradient_bound) < longest <= float(person_loss.gradient_bound)
    assert heaviest <= float(person_loss.trace)


def loss_of(
    parameters: np.ndarray, *, query: ObjectiveQuery, rate: float, outcomes: tuple[int, int, int], alone: bool
) -> float:
    """Return the log ratio of neighbours' densities: a shared row, one in either data set, and a point."""
    theta, geometry, M = parameters[:4], query.model.geometry, 2
    raw = np.column_stack([np.ones(3), parameters[4:7]])
    rows = whiten(geometry, raw)
    counts = np.array([np.exp(np.clip(parameters[7], -3.0, 9.0)), 1.0, 1.0])

    def log_density(kept: list[int]) -> float:
        X, y = rows.X[kept], np.array(outcomes)[kept]
        whole = multinomial_objective(
            others=M,
            X=X,
            y=y,
            weights=rows.weights[kept] * counts[kept],
            ridge=np.full(4, float(query.ridge)),
            centre=np.zeros(4),
            linear=np.zeros(4),
        )
        left = whole.rows.weights[:, None] * multinomial.residuals(whole.rows.predictor(theta), y)
        noise = (left.T @ X).ravel() + float(query.ridge) * theta
        return float(np.linalg.slogdet(whole.hessian(theta))[1]) - rate * float(np.linalg.norm(noise))

    return log_density([0, 1]) - log_density([0] if alone else [0, 2])


def worst(query: ObjectiveQuery, rate: float, *, alone: bool = False) -> float:
    rng = np.random.default_rng(5)
    best = 0.0
    for outcomes in ((1, 1, 2), (0, 1, 2)):
        starts = rng.normal(size=(100, 8)) * np.array([6.0, 6.0, 6.0, 6.0, 1.5, 1.5, 1.5, 3.0])
        scores = [loss_of(each, query=query, rate=rate, outcomes=outcomes, alone=alone) for each in starts]
        for place in np.argsort(scores)[-1:]:
            found = minimize(
                lambda each: -loss_of(each, query=query, rate=rate, outcomes=outcomes, alone=alone),  # noqa: B023
                starts[place],
                method="Nelder-Mead",
                options={"maxiter": 300, "xatol": 1e-6, "fatol": 1e-9},
            )
            best = max(best, -float(found.fun))
    return best


@pytest.mark.parametrize("ridge", [pytest.param(3.0, marks=pytest.mark.wide), 30.0])
def test_no_neighbours_lose_more_than_was_stated(ridge: float) -> None:
    query = query_of(ridge=ridge)
    rate = float(perturbation.calibrate_objective(query, person_loss_of(query.model), records=1).noise_rate)
    loss = worst(query, rate)
    assert 0.5 < loss <= 0.999


def test_nor_where_one_is_added_or_removed() -> None:
    query = query_of(ridge=10.0)
    relation = Relation.ADD_OR_REMOVE_ONE
    rate = float(
        perturbation.calibrate_objective(query, person_loss_of(query.model), records=1, relation=relation).noise_rate
    )
    assert 0.6 < worst(query, rate, alone=True) <= 0.999


@pytest.mark.wide
def test_a_score_of_half_its_length_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism, "steepest", lambda others: multinomial.steepest(others) / 2)
    query = query_of(ridge=30.0)
    rate = float(perturbation.calibrate_objective(query, person_loss_of(query.model), records=1).noise_rate)
    assert worst(query, rate) > 1.0


@pytest.mark.wide
def test_a_determinant_that_is_not_charged_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultinomialPersonLoss, "jacobian", lambda person_loss, ridge: Fraction(0))
    query = query_of(ridge=0.4)
    relation = Relation.ADD_OR_REMOVE_ONE
    rate = float(
        perturbation.calibrate_objective(query, person_loss_of(query.model), records=1, relation=relation).noise_rate
    )
    assert worst(query, rate, alone=True) > 1.0


def test_the_certificate_of_the_solver_holds_in_exact_arithmetic() -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    linear = rng.normal(size=6) * 5.0
    task = multinomial_objective(
        others=2,
        X=X,
        y=rng.integers(0, 3, 300),
        weights=rng.uniform(0.1, 1.0, 300),
        ridge=np.full(6, 2.0),
        centre=rng.normal(size=6),
        linear=linear,
    )
    solution = minimise(task, start=np.zeros(6))
    for theta in (solution.theta, solution.theta + 1e-3, rng.normal(size=6) * 100.0):
        with mpmath.workprec(200):
            sums = task.rows.exact_loss_gradient(mpmath.mp, [mpmath.mpf(value) for value in theta.tolist()])
            exact = [
                s + mpmath.mpf(r) * (mpmath.mpf(t) - mpmath.mpf(c)) + mpmath.mpf(b)
                for s, r, t, c, b in zip(sums, task.ridge, theta, task.centre, linear, strict=True)
            ]
            away = mpmath.sqrt(
                sum((mpmath.mpf(float(g)) - e) ** 2 for g, e in zip(task.gradient(theta), exact, strict=True))
            )
            assert float(away) <= task.gradient_error(theta)
    assert certify(task, solution.theta).radius < 1e-9


def study(private: object, public: object = None) -> hdp.Study:
    return hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=1e7, delta=0.1))


def rows(n: int, seed: int) -> object:
    import pandas as pd

    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    eta = np.column_stack([np.zeros(n), 0.3 + x, -0.5 + 0.5 * x])
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    y = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    return pd.DataFrame({"x": x, "y": np.array(list("abc"))[y], "w": rng.choice([0.5, 2.0], n)})


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("options", [{}, {"weights": "w"}])
def test_without_noise_a_fit_is_that_of_maximum_likelihood(options: dict[str, str]) -> None:
    loss = hdp.losses.Multinomial()
    result = hdpf.mestimate("y ~ x", study(rows(3000, 0), rows(200, 1)), loss=loss, **options).fit(
        1e6, allow_large_epsilon=True
    )
    theirs = hdpf.mestimate("y ~ x", hdp.Study(public=rows(3000, 0), schema=SCHEMA), loss=loss, **options).fit_public()
    assert list(result.params.index) == ["b:Intercept", "b:x", "c:Intercept", "c:x"]
    assert ((result.private_only.params - theirs.params).abs() < 0.3 * theirs.bse).all()
    again = hdp.Result.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert query_from_json(result.query.to_json()) == result.query
    p = result.predict(rows(4, 2))
    assert list(p.columns) == ["a", "b", "c"]
    assert p.sum(axis=1).to_numpy() == pytest.approx(np.ones(4))
    limits = again.predict(rows(4, 2), ci=True)
    assert (limits["conf_low"] < limits["predicted"]).all()
    assert len(result.odds_ratios()) == 4


def test_public_fits_are_those_of_mnlogit() -> None:
    import statsmodels.api as sm

    frame = rows(500, 3)
    mine = hdpf.mestimate("y ~ x", hdp.Study(public=frame, schema=SCHEMA), loss=hdp.losses.Multinomial()).fit_public()
    codes = frame["y"].map({"a": 0, "b": 1, "c": 2})
    theirs = sm.MNLogit(codes, sm.add_constant(frame[["x"]])).fit(disp=0, maxiter=200)
    np.testing.assert_allclose(mine.params.to_numpy(), theirs.params.to_numpy().T.ravel(), rtol=1e-8)
    np.testing.assert_allclose(mine.bse.to_numpy(), theirs.bse.to_numpy().T.ravel(), rtol=1e-7)


def test_it_is_planned_and_fitted_without_public_rows_and_with_a_noisy_hessian() -> None:
    loss = hdp.losses.Multinomial()
    model = hdpf.mestimate("y ~ x", study(rows(4000, 0)), loss=loss, row_norm=1.0)
    assert not model.plan([1.0], se_share=0).frame["reported"].any()
    assert model.fit(1.0, se_share=0).bse.isna().all()
    assert np.isfinite(model.fit(20.0, se_share=0.3).bse).all()


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("mechanism", ["clipped_newton", "output"])
def test_other_mechanisms_fit_it_too(mechanism: str) -> None:
    loss = hdp.losses.Multinomial()
    model = hdpf.mestimate("y ~ x", study(rows(3000, 0), rows(200, 1)), loss=loss)
    result = model.fit(2.0, delta=1e-5, mechanism=mechanism)
    theirs = hdpf.mestimate("y ~ x", hdp.Study(public=rows(3000, 0), schema=SCHEMA), loss=loss).fit_public()
    assert ((result.private_only.params - theirs.params).abs() < 5.0 * result.private_only.bse).all()
    assert result.bse.max() < 3.0 * theirs.bse.max()
    assert hdp.Result.from_json(result.to_json()).to_json() == result.to_json()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda data: hdpf.mestimate("x ~ w", data, loss=hdp.losses.Multinomial()), "categorical outcome"),
        (lambda data: hdpf.mestimate("y ~ x", data, loss=hdp.losses.Multinomial(), offset="o"), "offset must be left"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_charged(make: object, match: str) -> None:
    data = study(rows(100, 0), rows(100, 1))
    with pytest.raises(hdp.HdpError, match=match):
        make(data)
    assert data.ledger.spent.epsilon == 0


@pytest.mark.parametrize("n", [511, 512, 2 * PIECE + 3])
def test_sums_do_not_depend_on_how_rows_are_kept_or_where_they_stand(n: int) -> None:
    rng = np.random.default_rng(n)
    X, y, weights = rng.standard_normal((n, 3)), rng.integers(0, 3, n), rng.uniform(0.0, 1.0, n)
    by_rows = MultinomialRows(others=2, X=X, y=y, weights=weights)
    kept, order = np.asfortranarray(X), rng.permutation(n)
    moved = replace(by_rows, X=np.asfortranarray(X[order]), y=y[order], weights=weights[order])
    theta = rng.standard_normal(6)
    scores = MultinomialRows(others=2, X=kept, y=y, weights=weights).scores(theta)
    pairs = [compensated_pairs(X, coefficient_parts(part), np.zeros(n)) for part in (theta[:3], theta[3:])]
    left = weights[:, None] * residuals_of_pairs(*(np.stack(each).T for each in zip(*pairs, strict=True)), y)
    summands = np.concatenate([X.T * column for column in np.ldexp(left, by_rows.grid_bits).T])
    exact = [sum(int(value) for value in row) for row in np.rint(summands)]
    alone = MultinomialRows(others=2, X=X[-1:], y=y[-1:], weights=weights[-1:]).scores(theta)
    np.testing.assert_array_equal(scores[-1:], alone)
    for each in (by_rows, replace(by_rows, X=kept), moved):
        np.testing.assert_array_equal(each.loss_gradient(theta), exact)
    np.testing.assert_allclose(
        replace(by_rows, X=kept).curvature(theta), by_rows.curvature(theta), rtol=1e-12, atol=1e-9
    )
