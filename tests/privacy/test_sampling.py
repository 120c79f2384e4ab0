"""Exponential mechanism: draws against enumeration, its privacy, its envelope, its acceptance, refusals."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import MechanismError
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.formulas import compile_design
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.exponential import ExponentialQuery
from hdpstats.mechanisms.exponential import site as sampling
from hdpstats.mechanisms.exponential.site import ExponentialCalibration, potential
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import RegressionModel
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.solvers import Rows
from hdpstats.solvers.box import Box
from tests import chance
from tests.privacy.hazard_pairs import Regime, pool, table_of
from tests.unit.models.test_points import hazard, logit, study

PLANE = Geometry(
    location=(0.0,), whitening=((1.0,),), radius=1.5, leverage=5.5, intercept=True, source=Source.PUBLIC_ROWS
)


def asked(*, ridge: float = 30.0, epsilon: float = 1.0, half: float = 1.0, proposals: int = 4000) -> ExponentialQuery:
    return ExponentialQuery(
        model=RegressionModel(formula="y ~ x", loss="logistic", geometry=PLANE),
        centre=(0.25, -0.5),
        ridge=Fraction(ridge),
        epsilon=Fraction(epsilon),
        delta=Fraction(1, 10**6),
        schema_sha256="",
        public_sha256=None,
        half_widths=(half, 0.7 * half),
        proposals=proposals,
    )


CONTRAST = RegressionPersonLoss(model=asked().model, largest_weight=1.0, largest_offset=0.0)


def people(*rows: tuple[float, float], copies: int = 1) -> RegressionRows:
    """Return people with a slope of weight 1 each: pairs (z, y)."""
    table = np.array([row for row in rows for _ in range(copies)]).reshape(-1, 2)
    weights = np.minimum(1.0, 1.5 / np.maximum(np.abs(table[:, 0]), 1e-9))
    return RegressionRows(
        loss=LogisticLoss(),
        X=np.column_stack([np.ones(len(table)), table[:, 0]]),
        y=table[:, 1],
        weights=weights,
        offset=np.zeros(len(table)),
    )


HOSTILE = {
    "balanced": people((1.5, 1.0), (-1.5, 0.0), (1.0, 0.0), (-1.0, 1.0), copies=10),
    "one outcome": people((1.0, 1.0), (-1.0, 1.0), copies=20),
    "separated": people((1.5, 1.0), (-1.5, 0.0), copies=20),
    "opposed": people((1.5, 0.0), (-1.5, 1.0), copies=20),
    "far rows": people((30.0, 1.0), (-400.0, 1.0), (0.0, 0.0), (3.0, 1.0), copies=10),
    "no information": people((0.0, 1.0), (0.0, 0.0), copies=20),
}
RECORDS = 40


# ------------------------------------------------------------------------------------------------- the distribution of
# draws


def coarse(query: ExponentialQuery, steps: tuple[int, ...]) -> ExponentialCalibration:
    """Return constants on a lattice of few points, on which the distribution can be enumerated."""
    right = sampling.calibrate(query, CONTRAST, records=RECORDS)
    grid = 2.0**-3
    box = Box(origin=tuple(round(value / grid) for value in query.centre), steps=steps, grid=grid)
    return replace(right, box=box)


def enumerated(
    query: ExponentialQuery, constants: ExponentialCalibration, rows: RegressionRows
) -> dict[tuple[int, int], float]:
    """Return the probabilities of all lattice points, from the losses themselves."""
    places = [(i, j) for i in range(-constants.box.steps[0], constants.box.steps[0] + 1) for j in _range(constants, 1)]
    s, ridge, middle = float(constants.temperature), float(query.ridge), constants.box.at(np.zeros(2))
    exponents = []
    for place in places:
        theta = constants.box.at(np.array(place, dtype=float))
        value = float(rows.losses(theta).sum()) + 0.5 * ridge * float((theta - middle) @ (theta - middle))
        exponents.append(-s * value)
    heights = np.exp(np.array(exponents) - max(exponents))
    return dict(zip(places, (heights / heights.sum()).tolist(), strict=True))


def _range(constants: ExponentialCalibration, axis: int) -> range:
    return range(-constants.box.steps[axis], constants.box.steps[axis] + 1)


@pytest.mark.entropy
@pytest.mark.parametrize(
    ("ridge", "proposals"), [(120, 18), pytest.param(6, 15, marks=pytest.mark.wide)], ids=["inside", "corner"]
)
def test_draws_have_the_distribution(ridge: int, proposals: int) -> None:
    """False alarms, and draws at half the temperature that pass, have a probability of 1e-9 at most.

    Symmetric outcomes: the minimiser is the centre, a lattice point. One outcome far from the centre: a corner. Of
    proposals more than .75 and .8 are kept, so that none is with a probability below 1e-10.
    """
    rows = people((1.5, 1.0), (-1.5, 0.0), (1.5, 0.0), (-1.5, 1.0), copies=10)
    if ridge == 6:
        rows = people((1.0, 1.0), copies=40)
    query = replace(asked(ridge=ridge, epsilon=8.0, proposals=proposals), centre=(0.0, 0.0))
    constants = coarse(replace(query, proposals=10**6), steps=(3, 2))
    distribution = chance.OutcomeDistribution(enumerated(query, constants, rows))
    hotter = replace(constants, temperature=constants.temperature * 2)
    wrong = chance.OutcomeDistribution(enumerated(query, hotter, rows))
    drawn = [_place(sampling.run(query, constants, rows), constants) for _ in range(chance.enough(distribution, wrong))]
    chance.tells(distribution, drawn, wrong)


def _place(release: hdp.Result, constants: ExponentialCalibration) -> tuple[int, int]:
    first, second = (
        round(value / constants.box.grid) - origin
        for value, origin in zip(release.theta, constants.box.origin, strict=True)
    )
    return first, second


# ------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_neighbours_have_distributions_within_epsilon(epsilon: float) -> None:
    largest = largest_loss(epsilon)
    assert 0.7 * epsilon < largest <= epsilon


def test_half_of_the_change_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if a person could change the sum by 2 m instead of 4 m.
    right = sampling.calibrate

    def broken(*args: object, **fields: object) -> ExponentialCalibration:
        found = right(*args, **fields)
        return replace(found, rate=2 * found.rate, temperature=2 * found.temperature)

    monkeypatch.setattr(sampling, "calibrate", broken)
    assert largest_loss(1.0) > 1.3


def largest_loss(epsilon: float) -> float:
    """Return the largest log ratio of distributions of neighbours, at a centre where every score is 1."""
    query = replace(asked(epsilon=epsilon, proposals=10**6), centre=(-30.0, 0.0), half_widths=(0.13, 1.0))
    constants = coarse(query, steps=(1, 8))
    rows = [(1.5, 1.0), (1.5, 0.0), (-1.5, 1.0), (-1.5, 0.0), (0.2, 1.0)]
    shared = [(1.5, 1.0)] * 400  # they draw all mass to one side
    largest = 0.0
    for one in rows:
        for two in rows:
            distributions = [
                np.array(list(_computed(query, constants, people(*shared, each)).values())) for each in (one, two)
            ]
            largest = max(largest, float(np.max(np.log(distributions[0] / distributions[1]))))
    return largest


def _computed(
    query: ExponentialQuery, constants: ExponentialCalibration, rows: RegressionRows
) -> dict[tuple[int, int], float]:
    """Return the probabilities of all lattice points, from the integer potentials."""
    places = [(i, j) for i in _range(constants, 0) for j in _range(constants, 1)]
    at_centre, s = rows.losses(constants.box.at(np.zeros(2))), float(constants.temperature)
    exponents = np.array(
        [
            -float(constants.rate) * potential(constants, rows, at_centre, place)
            - 0.5 * s * float(query.ridge) * float(np.sum((np.array(place) * constants.box.grid) ** 2))
            for place in places
        ]
    )
    heights = np.exp(exponents - exponents.max())
    return dict(zip(places, (heights / heights.sum()).tolist(), strict=True))


class Liars(Rows):
    """People whose losses are anything."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    count = property(lambda self: len(self.values))
    dimension = grid_bits = mass = loss_gradient = curvature = sum_error = effect = None
    exact_loss_gradient = exact_sizes = scores = stacked_hessian = None

    def losses(self, theta: np.ndarray) -> np.ndarray:
        return self.values if theta[0] else np.zeros_like(self.values)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e9])
def test_no_person_counts_for_more_than_the_bound_whatever_the_floats_are(value: float) -> None:
    constants = sampling.calibrate(asked(), CONTRAST, records=RECORDS)
    for others in (np.zeros(3), np.full(3, 0.25)):
        with_one, without = (
            potential(constants, Liars(np.append(others, last)), np.zeros(4), (5, 0)) for last in (value, 0.0)
        )
        assert abs(with_one - without) <= constants.most


def test_the_exponent_costs_epsilon_and_no_more() -> None:
    for records in (1, 40, 10**6):
        constants = sampling.calibrate(replace(asked(ridge=1e6), proposals=10**5), CONTRAST, records=records)
        assert 4 * constants.most * constants.rate <= 1
        assert 4 * constants.most * constants.rate > 1 - Fraction(1, 10**9)
        # Nobody is clipped but by rounding: the bound is a person's steepest loss times half the diagonal.
        farthest = float(CONTRAST.euclidean_bound) * math.hypot(1.0, 0.7)
        assert 1.0 <= constants.most * float(constants.unit) / farthest < 1.0 + 1e-9
        assert constants.temperature == constants.rate / constants.unit
        # Sums of so many people stay within 62 bits.
        assert constants.most * records < 2**61


# --------------------------------------------------------------------------------------------- envelope and acceptance


def exponents(query: ExponentialQuery, rows: RegressionRows, *, tries: int = 300) -> np.ndarray:
    """Return the exponents of proposals, as `run` computes them."""
    constants = sampling.calibrate(query, CONTRAST, records=RECORDS)
    lowest = sampling._lowest(query, constants, rows)
    proposals = sampling._proposals(query, constants, lowest)
    at_centre = rows.losses(constants.box.at(np.zeros(2)))
    base = potential(constants, rows, at_centre, lowest.k)
    found = []
    for _ in range(tries):
        place = tuple(k + j for k, j in zip(lowest.k, proposals.draw(), strict=True))
        assert all(abs(k) <= most for k, most in zip(place, constants.box.steps, strict=True))
        rise = potential(constants, rows, at_centre, place) - base
        found.append(float(constants.rate * rise + proposals.excess(lowest.k, place)))
    return np.array(found)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("epsilon", "ridge", "half"), [(1.0, 30.0, 1.0), (50.0, 4.0, 3.0), (0.1, 30.0, 0.2)])
def test_proposals_are_kept_as_often_as_stated(name: str, epsilon: float, ridge: float, half: float) -> None:
    query = asked(epsilon=epsilon, ridge=ridge, half=half, proposals=20_000)
    found = exponents(query, HOSTILE[name])
    assert np.all(found >= 0.0)
    constants = sampling.calibrate(query, CONTRAST, records=RECORDS)
    assert np.mean(np.exp(-found)) >= constants.acceptance
    # Far more often than is sure.
    assert np.mean(np.exp(-found)) >= 0.05


@pytest.mark.wide
def test_an_envelope_that_is_too_steep_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Were the curvature of the objective taken to be twice as large as it is, exponents would fall below zero.
    query = asked(epsilon=50.0, ridge=30.0, half=3.0, proposals=20_000)
    right = sampling._proposals

    def steeper(*args: object) -> sampling.Proposals:
        found = right(*args)
        distributions = tuple(
            replace(distribution, curvature=2 * distribution.curvature) for distribution in found.distributions
        )
        return replace(found, distributions=distributions)

    monkeypatch.setattr(sampling, "_proposals", steeper)
    assert np.min(exponents(query, HOSTILE["no information"])) < 0.0


def test_the_acceptance_is_sure_and_covers_delta() -> None:
    for epsilon, delta, ridge in [(1.0, 1e-6, 30.0), (0.01, 1e-12, 100.0), (20.0, 0.01, 5.0)]:
        query = replace(asked(epsilon=epsilon, ridge=ridge), delta=Fraction(delta))
        kept = sampling.acceptance_of(2, condition=(Fraction(ridge) + RECORDS * CONTRAST.trace) / Fraction(ridge))
        least = math.ceil(sampling.least_proposals(Fraction(epsilon), Fraction(delta)) / kept)
        q = 1.0 + RECORDS * float(CONTRAST.trace) / ridge
        assert kept == pytest.approx(math.exp(-0.25) * (1 - 2**-9) ** 2 / q, rel=1e-6)
        sampling.calibrate(replace(query, proposals=least), CONTRAST, records=RECORDS)
        with pytest.raises(MechanismError, match="do not suffice"):
            sampling.calibrate(replace(query, proposals=least - 2), CONTRAST, records=RECORDS)
        with mpmath.workprec(200):
            missed = (1 + mpmath.exp(epsilon)) * (1 - mpmath.mpf(kept)) ** least
            assert missed <= delta


def test_sums_are_within_their_bound_of_integrals() -> None:
    # The lattice argument, for the coarsest lattice that is used: sums with q times the curvature.
    constants = sampling.calibrate(asked(ridge=2.0, half=3.0, epsilon=50.0, proposals=10**6), CONTRAST, records=RECORDS)
    curvature = float(constants.temperature) * 2.0 * constants.box.grid**2 / 2.0
    q = float(constants.smoothness) / 2.0
    steepest = float(constants.temperature) * constants.box.grid * (RECORDS * float(CONTRAST.euclidean_bound) + 40.0)
    for slope, ends in [(0.0, (0, 10**6)), (0.0, (10**5, 10**5)), (steepest, (0, 10**6)), (0.1 * steepest, (0, 10**5))]:
        j = np.concatenate([-np.arange(1, ends[0] + 1), np.arange(0, ends[1] + 1)]).astype(float)
        sums = [np.sum(np.exp(-slope * np.abs(j) - curvature * factor * j * j)) for factor in (1.0, q)]
        assert sums[1] / sums[0] >= (1.0 - 2.0**-9) / math.sqrt(q)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_hazard_models_are_sampled_with_the_logit_link(link: str) -> None:
    regime = Regime(link=link, radius=1.5, total=2.0, ridge=8.0)
    query = ExponentialQuery.from_dict(
        regime.query.to_dict()
        | {
            "kind": ExponentialQuery.kind,
            "delta": "1/1000",
            "ridge": "64",
            "half_widths": [0.8, 0.8],
            "proposals": 5000,
        }
    )
    if link != "logit":
        with pytest.raises(MechanismError, match="logit"):
            sampling.calibrate(query, regime.person_loss, records=30)
        return
    rng = np.random.default_rng(4)
    rows = regime.person_loss.people(table_of(regime, pool(regime, rng, size=30)))
    constants = sampling.calibrate(query, regime.person_loss, records=30)
    lowest = sampling._lowest(query, constants, rows)
    proposals = sampling._proposals(query, constants, lowest)
    at_centre = rows.losses(constants.box.at(np.zeros(2)))
    base = potential(constants, rows, at_centre, lowest.k)
    for _ in range(200):
        place = tuple(k + j for k, j in zip(lowest.k, proposals.draw(), strict=True))
        rise = potential(constants, rows, at_centre, place) - base
        assert constants.rate * rise + proposals.excess(lowest.k, place) >= 0
    theta = np.array(sampling.run(replace(query, proposals=400), constants, rows).theta)
    assert np.all(np.abs(theta) <= 0.8 + 1e-6)


# ------------------------------------------------------------------------------------------------ releases and refusals


def test_where_nothing_is_kept_the_centre_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    query = asked(proposals=4000)
    constants = sampling.calibrate(query, CONTRAST, records=RECORDS)
    coins = []
    monkeypatch.setattr(sampling, "bernoulli_exp", lambda *exponent: bool(coins.append(exponent)))
    release = sampling.run(replace(query, proposals=7), constants, HOSTILE["separated"])
    assert release.theta == pytest.approx(query.centre, abs=constants.box.grid)
    # All proposals are made, also where the first is kept.
    assert len(coins) == 7
    monkeypatch.setattr(sampling, "bernoulli_exp", lambda *exponent: not coins.append(exponent))
    other = sampling.run(replace(query, proposals=7), constants, HOSTILE["separated"])
    assert other.theta != release.theta
    assert len(coins) == 14


def test_a_release_is_a_lattice_point_of_the_box() -> None:
    query = asked(proposals=300)
    constants = sampling.calibrate(replace(query, proposals=4000), CONTRAST, records=RECORDS)
    release = sampling.run(query, constants, HOSTILE["one outcome"])
    assert (release.events[0].ran, release.events[0].epsilon) == (MechanismName.SAMPLING, query.epsilon)
    assert release.events[0].delta == query.delta
    assert release.temperature == float(constants.temperature)
    for value, middle, half in zip(release.theta, query.centre, query.half_widths, strict=True):
        assert (Fraction(value) / Fraction(release.grid)).denominator == 1
        assert abs(value - middle) <= half + release.grid
    assert sampling.run(query, constants, HOSTILE["one outcome"]).theta != release.theta


@pytest.mark.parametrize(
    "change", [{"relation": Relation.ADD_OR_REMOVE_ONE}, {"unit": "id", "most_rows": 3}], ids=["relation", "unit"]
)
def test_sites_where_the_number_of_people_is_protected_refuse(change: dict[str, object]) -> None:
    schema = hdp.Schema(x=hdp.Continuous(-1, 1, complete=True), y=hdp.Binary(complete=True))
    site_facts = SiteFacts(schema=schema, relation=Relation.REPLACE_ONE, records=RECORDS)
    person_loss = replace(CONTRAST, design=compile_design("y ~ x", schema))
    assert sampling.prepare(asked(), person_loss, site_facts).events
    with pytest.raises(MechanismError, match="number of people is public"):
        sampling.prepare(asked(), person_loss, replace(site_facts, **change))


def test_what_floats_cannot_compute_is_refused() -> None:
    with pytest.raises(MechanismError, match="finer arithmetic"):
        sampling.calibrate(replace(asked(), centre=(1e11, 0.0)), CONTRAST, records=RECORDS)


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        (lambda: study(), {}, "delta above 0"),
        (lambda: study(public=0), {"delta": 1e-6}, "public rows"),
        (lambda: study(relation="add_or_remove_one", n_max=5000), {"delta": 1e-6}, "number of people"),
    ],
    ids=["no delta", "no public rows", "protected number"],
)
def test_fits_that_are_not_covered_are_refused_uncharged(data: object, options: dict[str, float], match: str) -> None:
    made = data()
    with pytest.raises(hdp.MechanismError, match=match):
        logit(made).fit(epsilon=1.0, mechanism="exponential", **options)
    assert made.ledger.spent.epsilon == 0


def test_many_coefficients_would_rarely_be_accepted() -> None:
    made = study(400, public=300)
    with pytest.raises(hdp.MechanismError, match="rarely be accepted"):
        hdpf.hazard("Surv(time, dead) ~ a + b", data=made, intervals=40, baseline="dummies").fit(
            epsilon=1.0, delta=1e-6, mechanism="exponential"
        )
    assert made.ledger.spent.epsilon == 0


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("model", [logit, pytest.param(hazard, marks=pytest.mark.wide)])
@pytest.mark.usefixtures("any_errors")
def test_a_fit_by_sampling(model: object) -> None:
    """Releases are the lowest points themselves: no chance. The distribution of draws around them is tested above."""
    made = study(250)
    result = model(made).fit(epsilon=5.0, delta=1e-3, mechanism="exponential")
    assert result.facts.method == "exponential sampling, whitened by public rows"
    assert (result.guarantee.epsilon, result.guarantee.delta) == (5, Fraction(1, 1000))
    assert made.ledger.spent.delta == Fraction(1, 1000)
    assert np.all(result.bse > 0)
    assert np.all(np.diag(result.private_only.cov_privacy) > 0)
    z = (result.params[["a", "b"]] - [0.7, -0.4]) / result.bse[["a", "b"]]
    assert np.all(np.abs(z) < 5.5)
