"""The work of private minimisations is public: no cell of a row makes one more precise, longer than bounded, or wrong.

The attack: a formula makes one named person's row huge where a cell has a value, and everything else tiny; a
computation that turns to high precision, or takes more steps, for that row tells the cell by its time.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError
from hdpstats.families.base import PersonLoss
from hdpstats.families.hazard.rows import HazardRows
from hdpstats.families.multinomial.bounds import MultinomialPersonLoss
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.mechanisms.exponential import ExponentialQuery
from hdpstats.mechanisms.exponential import site as sampling
from hdpstats.mechanisms.hybrid_weights import CurveQuery
from hdpstats.mechanisms.hybrid_weights import curve_site as curve
from hdpstats.mechanisms.minimiser import certified, effort_of
from hdpstats.mechanisms.perturbation import OutputQuery
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source, leverage_at, mallows_weights
from hdpstats.records.model import MultinomialModel, RegressionModel
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from hdpstats.solvers import Penalised, Rows, Solution, accelerated
from hdpstats.solvers.accelerated import Work, accelerate, minimise_within
from hdpstats.solvers.newton import SMALL, approach, certify, refine
from tests.privacy import test_importance_density as ratio
from tests.privacy.hazard_pairs import Regime, pool, table_of

ROWS = (RegressionRows, MultinomialRows, HazardRows)
COUNTED = {"gradient": [Penalised], "gradient_error": [Penalised], "curvature": ROWS, "exact_loss_gradient": ROWS}
RADIUS = 2.0


class Spied:
    """Counts of what minimisations compute."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked = dict.fromkeys(COUNTED, 0)
        for kind in self.asked:
            for of in COUNTED[kind]:
                patch.setattr(of, kind, self._counted(kind, getattr(of, kind)))

    def _counted(self, kind: str, plain):
        def count(*given: object) -> object:
            self.asked[kind] += 1
            return plain(*given)

        return count

    def check(self, steps: int) -> None:
        """Check that what was computed is within the public bound, and that nothing was refined."""
        assert self.asked["exact_loss_gradient"] == 0
        assert self.asked["gradient"] <= steps + SMALL.gradients + 5
        assert self.asked["curvature"] <= SMALL.hessians
        assert self.asked["gradient_error"] <= SMALL.hessians + 1


SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True), secret=hdp.Continuous(0, 10, complete=True), age=hdp.Continuous(18, 100, complete=True)
)
ATTACK = CurveQuery(
    formula="y ~ I(exp(3*(secret - 5) - 20*(age - 97)**2))",
    candidates=((0.0, 0.0),),
    scale=(1.0, 1.0),
    radius=Fraction(10**6),
    ridge=Fraction(1, 100),
    epsilon=Fraction(1, 10**30),
    schema_sha256=SCHEMA.sha256,
)


def hospital(secret: float) -> pd.DataFrame:
    """Return the rows; the only person of 97 has the secret."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"y": rng.integers(0, 2, 80), "secret": rng.uniform(0, 10, 80), "age": rng.integers(20, 90, 80)}
    )
    frame.loc[17, ["secret", "age"]] = (secret, 97.0)
    return frame


def asked_about(secret: float, query: CurveQuery) -> dict[str, int]:
    """Return what a curve computes, or nothing where the query is refused before a row is read."""
    site_facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=80)
    try:
        prepared = curve.prepare(query, site_facts)
    except MechanismError:
        return {}
    table = PrivateTable.from_frame(hospital(secret), SCHEMA).admit(["y", "secret", "age"])
    with pytest.MonkeyPatch.context() as patch:
        spied = Spied(patch)
        prepared.compute(table)
        assert spied.asked["exact_loss_gradient"] == 0, "a curve turned to high precision"
        spied.check(prepared.work_of_fit.steps)
    return spied.asked


@pytest.mark.covering
@pytest.mark.parametrize("radius", [1, 30, 10**3, 10**4, 10**5, 10**6])
@pytest.mark.parametrize("ridge", [Fraction(1, 10**6), Fraction(1, 100)])
@pytest.mark.parametrize("secret", [2.0, 6.0, 9.9])
def test_a_curve_does_not_turn_to_high_precision_for_one_persons_secret(
    radius: int, ridge: Fraction, secret: float
) -> None:
    asked_about(secret, replace(ATTACK, radius=Fraction(radius), ridge=ridge))


def test_curves_that_are_accepted_and_refused_are_both_among_the_attacks() -> None:
    """Refused or not is a public fact: neither secret changes it."""
    seen = {bool(asked_about(2.0, replace(ATTACK, radius=Fraction(radius)))) for radius in (1, 10**6)}
    assert seen == {True, False}


def geometry(slopes: int = 2) -> Geometry:
    return Geometry(
        location=(0.0,) * slopes,
        whitening=tuple(tuple(row) for row in np.eye(slopes).tolist()),
        radius=RADIUS,
        leverage=leverage_at(RADIUS, intercept=True),
        intercept=True,
        source=Source.PUBLIC_ROWS,
    )


def hostile_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows from tiny to absurd, many of them in one direction, and their weights."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2))
    Z[: n // 2] = [1.0, 1.0]
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    Z *= rng.choice([1e-9, RADIUS, math.sqrt(2.0) * RADIUS, 1e6, 1e30], n)[:, None]
    return np.column_stack([np.ones(n), Z]), mallows_weights((Z**2).sum(axis=1), geometry())


PARAMETERS: dict[str, tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]] = {
    "logistic": ((), ()),
    "squares": ((), ()),
    "huber": ((0.1,), ()),
    "quantile": ((0.9, 0.003), ()),
    "poisson": ((1.0,), ()),
    "poisson with a low cap": ((0.3,), ()),
    "exponential": ((2.0,), ()),
    "own": ((-2.0, 1.0, 1.0), ((-1.0, -1.0, 0.5, 1.0), (-1.0, -0.5, -0.5, 1.0))),
    "own, of one sign": ((-2.0, 1.0, 0.0), ((0.2, 0.2, 0.5, 1.0), (0.1, 0.5, 0.5, 1.0))),
}


def regression(name: str, n: int, seed: int) -> tuple[PersonLoss, Rows]:
    parameters, table = PARAMETERS[name]
    loss = name.split(" ")[0].strip(",")
    model = RegressionModel(formula="y ~ a + b", loss=loss, geometry=geometry(), parameters=parameters, table=table)
    person_loss = RegressionPersonLoss(model=model, largest_weight=2.0, largest_offset=3.0)
    X, weights = hostile_rows(n, seed)
    rng = np.random.default_rng(seed)
    y = rng.uniform(0.0, 1.0, n) if loss != "logistic" else rng.integers(0, 2, n).astype(float)
    if loss == "exponential":
        y *= rng.choice([-1.0, 1.0], n)
    case, offset = rng.choice([0.0, 0.5, 2.0], n), rng.uniform(-3.0, 3.0, n)
    return person_loss, RegressionRows(loss=person_loss.loss, X=X, y=y, weights=weights * case, offset=offset)


def multinomial(n: int, seed: int) -> tuple[PersonLoss, Rows]:
    model = MultinomialModel(formula="y ~ a + b", geometry=geometry(), others=3)
    X, weights = hostile_rows(n, seed)
    y = np.random.default_rng(seed).integers(0, 4, n)
    return MultinomialPersonLoss(model=model, largest_weight=1.0), MultinomialRows(others=3, X=X, y=y, weights=weights)


def hazard(link: str, n: int, seed: int, **options: object) -> tuple[PersonLoss, Rows]:
    regime = Regime(link=link, radius=RADIUS, total=2.0, slopes=2, **options)
    people = pool(regime, np.random.default_rng(seed), size=n)
    return regime.person_loss, regime.person_loss.people(table_of(regime, people))


def density_ratio(n: int, seed: int) -> tuple[PersonLoss, Rows]:
    person_loss = ratio.person_loss_of(ratio.asked(ratio.WHITE), records=n)
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"u": rng.choice([-1.0, -1e-9, 0.3, 1.0], n), "v": rng.choice([0.0, 1e-300, 1.0], n)})
    table = PrivateTable.from_frame(frame.assign(g="a"), ratio.SCHEMA).admit(person_loss.needs)
    return person_loss, person_loss.people(table)


CASES = {
    **{name: (lambda n, seed, name=name: regression(name, n, seed)) for name in PARAMETERS},
    "multinomial": multinomial,
    **{
        f"hazard, {link}": (lambda n, seed, link=link: hazard(link, n, seed)) for link in ("logit", "cloglog", "probit")
    },
    "hazard, two causes": lambda n, seed: hazard("logit", n, seed, causes=2),
    "density ratio": density_ratio,
}


def question(person_loss: PersonLoss, *, ridge: int = 3, centre: float = 0.2) -> OutputQuery:
    """Return a query of as many coefficients; what its model is does not count here."""
    one = RegressionModel(formula="y ~ a", loss="logistic", geometry=geometry(max(1, person_loss.dimension - 1)))
    return OutputQuery(
        model=one,
        centre=(centre,) * person_loss.dimension,
        ridge=Fraction(ridge),
        epsilon=Fraction(1),
        delta=Fraction(0),
        schema_sha256="",
        public_sha256=None,
    )


@pytest.mark.covering(cases=8)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1])
def test_the_bounds_of_the_work_hold_for_hostile_people(name: str, seed: int) -> None:
    """Float error, curvature and the height of the start, from declared bounds alone, against the rows."""
    n, rng = 16, np.random.default_rng(seed)
    person_loss, people = CASES[name](n, seed)
    query, D = question(person_loss), person_loss.dimension
    effort = effort_of(query, person_loss, noise=7.0, records=n)
    linear = rng.standard_normal(D)
    linear *= 7.0 / np.linalg.norm(linear)
    centre, ridge = np.array(query.centre), float(query.ridge)
    objective = people.penalised(ridge=np.full(D, ridge), centre=centre, linear=linear)
    near = approach(objective, start=centre, near=effort.work.near)[0]
    truth = np.array([float(value) for value in refine(objective, start=near, radius=Fraction(1, 10**12)).theta])
    size = float(np.linalg.norm(centre)) + math.sqrt(2.0 * effort.work.excess / ridge)
    assert people.count <= effort.count
    assert np.linalg.norm(truth) <= size
    for theta in (truth, centre, *(rng.standard_normal((4, D)) * size / 4.0)):
        if np.linalg.norm(theta) <= size:
            assert objective.gradient_error(theta) <= effort.work.error
        steepest = float(np.linalg.eigvalsh(objective.hessian(theta))[-1])
        assert steepest <= effort.work.smoothness
        far = float(np.linalg.norm(objective.gradient(theta) - objective.gradient(truth)))
        assert far <= effort.work.smoothness * float(np.linalg.norm(theta - truth)) * (1.0 + 1e-9) + 2e-9
    # F(c) - F* is the integral of the slope on the way from the minimiser to the centre, which is convex.
    rises = [float(objective.gradient(truth + t * (centre - truth)) @ (centre - truth)) for t in np.linspace(0, 1, 401)]
    assert float(np.mean(rises[:-1])) <= effort.work.excess


@pytest.mark.parametrize("name", CASES)
def test_errors_of_gradients_do_not_grow_with_the_length_of_coefficients(name: str) -> None:
    """Lengths of as many people as there are: what a sum's error has of them is of the second order."""
    person_loss = CASES[name](4, 1)[0]
    for people in (10**5, 10**7):
        near = person_loss.rounding(1.0, people=people)
        assert person_loss.rounding(math.sqrt(people), people=people) <= 1.01 * near
        # per person no more than some hundred roundings of the longest gradient that there may be
        assert near / people <= 600.0 * 2.0**-53 * 3.0 * person_loss.slope(1)


@pytest.mark.parametrize("name", ["logistic", "squares"])
def test_the_curvature_of_the_work_is_attained(name: str) -> None:
    """Everybody at one far place with the largest weight: a smoothness that is any less would not be one."""
    n, person_loss = 400, regression(name, 2, 1)[0]
    X = np.column_stack([np.ones(n), np.full(n, 1e3 * RADIUS), np.zeros(n)])
    weights = 2.0 * mallows_weights((X[:, 1:] ** 2).sum(axis=1), geometry())
    people = RegressionRows(loss=person_loss.loss, X=X, y=np.ones(n), weights=weights, offset=np.zeros(n))
    work = effort_of(question(person_loss), person_loss, noise=7.0, records=n).work
    objective = people.penalised(ridge=np.full(3, 3.0), centre=np.zeros(3), linear=np.zeros(3))
    steepest = float(np.linalg.eigvalsh(objective.hessian(np.zeros(3)))[-1]) - 3.0
    assert 0.999 * (work.smoothness - 3.0) <= 1.25 * steepest <= work.smoothness - 3.0


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("seed", "ridge"), [(2, Fraction(3)), (4, Fraction(500))])
def test_accepted_points_have_errors_no_larger_than_what_is_left_for_them(
    name: str, seed: int, ridge: Fraction
) -> None:
    """A point is accepted by its gradient and public constants alone; here is what its own error is, from the rows."""
    person_loss, people = CASES[name](30, seed)
    query, D = replace(question(person_loss, centre=0.0), ridge=ridge), person_loss.dimension
    effort, linear = effort_of(query, person_loss, noise=9.0, records=30), np.full(D, 9.0 / math.sqrt(D) * 0.999)
    centre, work = np.array(query.centre), effort.work
    objective = people.penalised(ridge=np.full(D, float(ridge)), centre=centre, linear=linear)
    points, accepted = [], 0
    with pytest.MonkeyPatch.context() as patch:
        plain = type(objective).gradient
        patch.setattr(type(objective), "gradient", lambda own, at, rest=None: points.append(at) or plain(own, at, rest))
        points += [approach(objective, start=centre, near=work.near)[0]]
        points += [accelerate(objective, start=points[-1], work=work)]
    points = points[-9:]
    points += [points[-1] * far for far in (1.0 + 2.0**-40, 1e3, 1e30, 1e100 / np.linalg.norm(points[-1]))]
    for theta in points:
        length = float(np.linalg.norm(objective.gradient(theta)))
        if length <= work.near:
            accepted += 1
            left = work.ridge * work.radius - accelerated.UP * work.near
            assert objective.gradient_error(theta) <= left
            assert certify(objective, theta).radius <= work.radius
    assert 2 <= accepted <= len(points) - 3


COSTLY = ("quantile", "exponential")
"""Of which the exact minimiser takes a second or two."""


@pytest.mark.covering(cases=6)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.wide) if name in COSTLY else name for name in CASES]
)
def test_without_newton_the_public_steps_reach_the_radius(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    person_loss, people = CASES[name](12, 2)
    query, D = question(person_loss), person_loss.dimension
    effort = effort_of(query, person_loss, noise=0.0, records=12)
    centre = np.array(query.centre)
    objective = people.penalised(ridge=np.full(D, float(query.ridge)), centre=centre, linear=np.zeros(D))
    near = approach(objective, start=centre, near=effort.work.near)[0]
    truth = refine(objective, start=near, radius=Fraction(1, 10**20)).theta

    def failing(problem: object, *, start: np.ndarray, budget: object) -> Solution:
        return Solution(theta=start + math.nan, gradient_norm=math.inf, radius=math.inf, rest=0.0 * start)

    monkeypatch.setattr(accelerated, "minimise", failing)
    monkeypatch.setattr(Work, "near", -1.0)
    theta = minimise_within(objective, start=centre, work=effort.work)
    off = sum((Fraction(a) - b) ** 2 for a, b in zip(theta.tolist(), truth, strict=True))
    assert math.sqrt(off) <= effort.work.radius


@pytest.mark.covering(cases=8)
@pytest.mark.parametrize("name", CASES)
def test_neighbours_take_work_within_the_public_bound(name: str) -> None:
    """With and without the person who stands last; ridges from strong to as weak as is accepted.

    Steps grow with the root of curvature over ridge: at a curvature as large as that of a narrow window of quantiles
    a ridge 64 times larger is as hard as the weakest one is for others.
    """
    weakest = Fraction(1, 2**4) if name == "quantile" else Fraction(1, 2**10)
    for ridge, n in ((3, 30), (3, 29), (weakest, 29)):
        person_loss, people = CASES[name](n, 3)
        query = replace(question(person_loss), ridge=Fraction(ridge))
        effort = effort_of(query, person_loss, noise=0.0, records=30)
        with pytest.MonkeyPatch.context() as patch:
            spied = Spied(patch)
            certified(query, people, effort=effort, perturbation=(Fraction(0),) * person_loss.dimension)
            spied.check(effort.work.steps)


@pytest.mark.parametrize("ridge", [Fraction(1, 2**180), Fraction(1, 2**40)])
def test_a_ridge_at_which_floats_cannot_do_is_refused_with_a_remedy(ridge: Fraction) -> None:
    person_loss, _ = regression("logistic", 30, 0)
    with pytest.raises(MechanismError, match="use a larger ridge, public rows or a smaller row_norm"):
        effort_of(replace(question(person_loss), ridge=ridge), person_loss, noise=0.0, records=30)
    with pytest.raises(MechanismError, match=r"may take .* steps"):
        effort_of(replace(question(person_loss), ridge=Fraction(1, 2**16)), person_loss, noise=0.0, records=10**4)


def test_sampling_neighbours_take_work_within_the_public_bound() -> None:
    query = ExponentialQuery(
        model=RegressionModel(formula="y ~ a + b", loss="logistic", geometry=geometry()),
        centre=(0.0,) * 3,
        ridge=Fraction(20),
        epsilon=Fraction(1),
        delta=Fraction(1, 100),
        half_widths=(0.3, 0.3, 0.3),
        proposals=200,
        schema_sha256="",
        public_sha256=None,
    )
    for seed in range(4):
        person_loss, people = regression("logistic", 30, seed)
        calibration = sampling.calibrate(query, person_loss, records=30)
        with pytest.MonkeyPatch.context() as patch:
            spied = Spied(patch)
            sampling.run(query, calibration, people)
            assert spied.asked["exact_loss_gradient"] == 0
            assert spied.asked["gradient"] <= calibration.steps + SMALL.gradients + 70
            assert spied.asked["curvature"] <= SMALL.hessians + 20
