r"""The exact distributions of the noise mechanisms, on neighbouring inputs, beside what is claimed for them.

**Samplers.** The code of each sampler is run for all outcomes of its coins (`hdpstats.audit.laws`), in one or two
dimensions, at rates of few digits. The distribution that it has is compared with the one that is claimed, and its
largest log-ratio between inputs that one person moves apart with the claimed epsilon; for normal noise it is the delta
at an epsilon of 1. Samplers that other samplers call are run so too, and stand in them by the distribution found.

**The exponential mechanism** is run as it is at a site, on small invented neighbours, at a grid of points: what is
enumerated are its coins. Log-ratios of a point's probabilities may lie in an interval of the length that is claimed.

**Noise in an objective** has a density in closed form, noise times determinant: its log-ratio is searched for the
neighbours and the point where it is largest (`hdpstats.audit.density`); for normal noise, in one dimension, the density
is integrated.

**Planted coins.** In each module that a sampler is made of each coin is wrong once: it shows heads in a sixteenth of
the cases in which it should show tails, a uniform number is never among the largest sixteenth, a sign is never
negative. All those that are thrown must show.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, cast, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.audit import laws
from hdpstats.audit.cases import CASES, SETTINGS, Asked, Case, asked, pairs
from hdpstats.audit.density import perturbed_objective, worst_neighbours
from hdpstats.audit.laws import Law, law
from hdpstats.mechanisms import registry
from hdpstats.mechanisms.exponential import site as exponential
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.models import Logit
from hdpstats.noise import (
    BallNoise,
    BoxNoise,
    CylinderNoise,
    PermuteAndFlip,
    RoundedNormal,
    TwoSidedGeometric,
    discrete,
    exact,
    knorm,
    normal,
)
from hdpstats.noise.normal import TiltedNormal
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.schema.table import PrivateTable
from hdpstats.sites import Study


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """How improbable a path must be not to be followed, an outcome not to be compared, and what is not told apart."""

    path: float
    outcome: float
    apart: float


FULL: Final = Precision(path=1e-13, outcome=1e-6, apart=1e-6)
"""What is not followed changes logarithms of probabilities by far less than what is told apart."""
QUICK: Final = Precision(path=1e-9, outcome=1e-3, apart=1e-3)
"""For wrong coins, which are wrong by a sixteenth, and for tests."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExactLaw:
    """What the exact distribution of a noise mechanism shows.

    Attributes
    ----------
    name : str
        The mechanism; of a coin it starts with ``coin:``.
    dimension : int
        Of the numbers that are drawn.
    found, claimed : float
        The largest log-ratio of probabilities on neighbouring inputs, and epsilon; of normal noise delta at an epsilon
        of 1. NaN of a coin.
    deviation : float
        The largest difference of a logarithm of a probability from the formula; NaN where the formula is a density.
    planted : dict of str to bool
        For each wrong coin that was planted, whether it was caught.
    apart : float
        The difference of logarithms of probabilities from which on two are told apart.
    is_delta : bool
        Whether deltas are compared.
    """

    name: str
    dimension: int
    found: float
    claimed: float
    deviation: float
    planted: dict[str, bool]
    apart: float
    is_delta: bool = False

    @property
    def holds(self) -> bool:
        """Whether the distribution is the one that is claimed, and its ratio not above the claim."""
        return not self.deviation > self.apart and not self.found > self.claimed * (1.0 + self.apart)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Subject:
    """A sampler that is looked at: what draws, its loop, what may come, and log-probabilities but for a constant."""

    name: str
    dimension: int
    draw: Callable[[], Any]
    loop: Callable[..., Any] | None
    outcomes: Sequence[Any]
    claimed: Callable[[Any], float]
    ratio: Callable[[Mapping[Any, float], Precision], tuple[float, float]] | None = None
    is_delta: bool = False


# The samplers.

_MODULES: Final = (discrete, knorm, normal, exponential)
_GIVEN: Final = ("bernoulli_exp_one", "bernoulli_exp", "geometric", "discrete_laplace")
"""Samplers that others call many times: their own distributions stand for them there."""
_LOOPS: Final = {"geometric": discrete.geometric, "discrete_laplace": discrete.discrete_laplace}
_COINS: Final = (
    "below",
    "bits",
    "bernoulli",
    "bernoulli_exp",
    "bernoulli_exp_one",
    "bernoulli_exp_real",
    "bernoulli_exp_roots",
    "_half_coin",
)
_SIZE: Final = BoxNoise._size


@contextmanager
def _given(precision: Precision) -> Iterator[None]:
    """Let samplers that are called by others stand there by their distributions, found from their own code."""
    found: dict[Any, Mapping[Any, float]] = {}

    def stands(function: Callable[..., Any], loop: Callable[..., Any] | None) -> Callable[..., Any]:
        def drawn(*arguments: Any) -> Any:
            known = tuple(int(each) if isinstance(each, laws.Unknown) else each for each in arguments)
            if (function, known) not in found:
                found[function, known] = law(lambda: function(*known), loop=loop, limit=precision.path / 100).masses
            return laws.chosen(found[function, known])

        return drawn

    with ExitStack() as stack:
        for name in _GIVEN:
            for module in _MODULES:
                if hasattr(module, name):
                    _set(stack, module, name, stands(getattr(module, name), _LOOPS.get(name)))
        _set(stack, BoxNoise, "_size", stands(_SIZE, _SIZE))
        _set(stack, knorm, "_halved", knorm._halve)
        _set(stack, knorm, "RATE_BITS", 3)  # any rates of proposals give the exact distribution; short ones enumerate
        _set(stack, normal, "_Uniform", _node)
        yield


def _set(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


_POINTS, _SHARES = np.polynomial.legendre.leggauss(12)
_CELLS: Final = 4
"""Where the rounding of normal noise of standard deviation 2 changes: at multiples of a quarter of a unit."""
_NODES: Final = {
    (cell + (float(point) + 1.0) / 2.0) / _CELLS: float(share) / 2.0 / _CELLS
    for cell in range(_CELLS)
    for point, share in zip(_POINTS, _SHARES, strict=True)
}


def _node() -> Any:
    """Return a number of [0, 1) at a node of Gauss-Legendre quadrature, for integrals over it."""
    uniform = object.__new__(_UNIFORM)
    uniform.digits, uniform.known = int(laws.chosen(_NODES) * 2.0**64), 64
    return uniform


_UNIFORM: Final = normal._Uniform


def _norm_ratio(size: Callable[[tuple[int, ...]], float], shifts: Sequence[tuple[int, ...]]) -> Any:
    """Return what compares outputs of inputs that lie such steps apart: the largest log-ratio, and what is claimed."""

    def ratio(masses: Mapping[Any, float], precision: Precision) -> tuple[float, float]:
        likely = {z: math.log(mass) for z, mass in masses.items() if mass >= precision.outcome}
        found = max(
            abs(at - likely[moved])
            for z, at in likely.items()
            for shift in shifts
            if (moved := tuple(a + b for a, b in zip(z, shift, strict=True))) in likely
        )
        return found, max(map(size, shifts))

    return ratio


_LINE: Final = [(z,) for z in range(-80, 81)]
_FAR: Final = [(a, b) for a in range(-60, 61) for b in range(-60, 61)]
_PLANE: Final = [(a, b) for a in range(-2, 3) for b in range(-2, 3)]


def _lattice(name: str, noise: Any, loop: Callable[..., Any] | None, size: Callable[[Any], float]) -> _Subject:
    """Return lattice noise, of which ``size`` is the rate times the norm."""
    dimension = getattr(noise, "dimension", 1)
    shifts: Sequence[tuple[int, ...]] = _PLANE if dimension == 2 else [(step,) for step in range(4)]
    return _Subject(
        name=name,
        dimension=dimension,
        draw=(lambda: (noise.draw(),)) if dimension == 1 and isinstance(noise, TwoSidedGeometric) else noise.draw,
        loop=loop,
        outcomes=_FAR if dimension == 2 else _LINE,
        claimed=lambda z: -size(z),
        ratio=_norm_ratio(size, shifts),
    )


_BALL: Final = BallNoise(dimension=2, rate=Fraction(2))
_BOX: Final = BoxNoise(dimension=2, rate=Fraction(3, 2))
_CYLINDER: Final = CylinderNoise(
    dimension=2, rate=Fraction(2), radius=Fraction(2), grid_axis=Fraction(1), grid_ball=Fraction(1)
)
_SINGLE: Final = TwoSidedGeometric(rate=Fraction(2, 3))
_NORMAL: Final = RoundedNormal(dimension=1, sd=Fraction(2), grid=Fraction(1))
_TILTED: Final = TiltedNormal(lower=-6, upper=9, slope=Fraction(1, 3), curvature=Fraction(1, 8))
_CHOICE: Final = PermuteAndFlip(rate=Fraction(1, 2))
_COSTS: Final = ((0, 2, 3), (1, 1, 3), (0, 0, 0), (1, 0, 1), (0, 1, 1))
_LARGEST_MOVE: Final = 2


def _normal_claim(z: tuple[int, ...]) -> float:
    from scipy.stats import norm

    sides = sorted(abs((z[0] + half) / 2.0) for half in (-0.5, 0.5))
    inside = z[0] == 0
    mass = 1.0 - 2.0 * norm.sf(sides[0]) if inside else norm.sf(sides[0]) - norm.sf(sides[1])
    return math.log(mass)


def _normal_delta(masses: Mapping[Any, float], _precision: Precision) -> tuple[float, float]:
    """Return delta at an epsilon of 1 where the query moves by two steps, one standard deviation: found and claimed."""
    moved = {z: masses.get((z[0] - 2,), 0.0) for z in masses}
    found = math.fsum(max(0.0, mass - math.e * moved[z]) for z, mass in masses.items())
    return found, float(delta_of_square(Fraction(1), Fraction(1)))


def _coin(name: str, throw: Callable[[], bool], probability: float) -> _Subject:
    chances = {True: math.log(probability), False: math.log1p(-probability)}
    return _Subject(
        name=f"coin: {name}",
        dimension=1,
        draw=throw,
        loop=None,
        outcomes=(True, False),
        claimed=lambda outcome: chances[bool(outcome)],
    )


def _subjects() -> Iterator[_Subject]:
    """Yield what is enumerated."""
    terms = ((Fraction(1, 2), 13), (Fraction(-1, 3), 5))
    x, size = math.sqrt(13) / 2 - math.sqrt(5) / 3, math.sqrt(13) / 2 + math.sqrt(5) / 3
    yield _coin("3 of 7", lambda: discrete.bernoulli(3, 7), 3.0 / 7.0)
    yield _coin("exp(-1)", lambda: discrete.bernoulli_exp_one(), math.exp(-1.0))
    yield _coin("exp(-5/3)", lambda: discrete.bernoulli_exp(5, 3), math.exp(-5.0 / 3.0))
    yield _coin("exp(-1/2)", lambda: normal._half_coin(), math.exp(-0.5))
    yield _coin("exponent of roots", lambda: discrete.bernoulli_exp_roots(x, size, terms), math.exp(-x))
    yield _lattice("two-sided geometric", _SINGLE, None, lambda z: 2.0 / 3.0 * abs(z[0]))
    yield _lattice("ball", _BALL, knorm._draw, lambda z: 2.0 * math.hypot(*z))
    yield _lattice("box", _BOX, None, lambda z: 1.5 * max(map(abs, z)))
    yield _lattice("cylinder", _CYLINDER, CylinderNoise.draw, lambda z: 2.0 * max(abs(z[0]), abs(z[1]) / 2.0))
    yield _Subject(
        name="rounded normal",
        dimension=1,
        draw=_NORMAL.draw,
        loop=normal._half_normal,
        outcomes=_LINE[66:-66],
        claimed=_normal_claim,
        ratio=_normal_delta,
        is_delta=True,
    )
    yield _Subject(
        name="coin: tilted normal, the proposal of the exponential mechanism",
        dimension=1,
        draw=_TILTED.draw,
        loop=TiltedNormal.draw,
        outcomes=range(_TILTED.lower, _TILTED.upper + 1),
        claimed=lambda k: -abs(k) / 3.0 - k * k / 8.0,
    )


def _enumerated(subject: _Subject, precision: Precision) -> ExactLaw:
    """Return what all outcomes of a sampler's coins show."""
    with _given(precision):
        found = law(subject.draw, loop=subject.loop, limit=precision.path)
    ratio = (math.nan, math.nan) if subject.ratio is None else subject.ratio(found.masses, precision)
    return ExactLaw(
        name=subject.name,
        dimension=subject.dimension,
        found=ratio[0],
        claimed=ratio[1],
        deviation=_deviation(found, subject, precision),
        planted={},
        apart=precision.apart,
        is_delta=subject.is_delta,
    )


def _deviation(found: Law, subject: _Subject, precision: Precision) -> float:
    """Return the largest difference of log-probabilities, of which the claimed ones lack a constant."""
    claimed = {outcome: subject.claimed(outcome) for outcome in subject.outcomes}
    whole = math.log(math.fsum(map(math.exp, claimed.values())))
    if any(mass >= precision.outcome and outcome not in claimed for outcome, mass in found.masses.items()):
        return math.inf
    return max(
        abs(math.log(found.masses.get(outcome, 1e-300)) - at + whole)
        for outcome, at in claimed.items()
        if at - whole >= math.log(precision.outcome)
    )


def _chosen_by_cost(precision: Precision) -> ExactLaw:
    """Return what all outcomes of permute-and-flip show, over costs of which any difference moves by 2 at most."""
    found: dict[tuple[int, ...], Mapping[Any, float]] = {}
    deviation = 0.0
    with _given(precision):
        for costs in _COSTS:
            masses = law(partial(_CHOICE.draw, costs), limit=precision.path).masses
            found[costs] = {place: masses.get(place, 1e-300) for place in range(len(costs))}
            away = [abs(math.log(found[costs][place] / chance)) for place, chance in enumerate(_by_noisy_costs(costs))]
            deviation = max(deviation, *away)
    ratios = [
        abs(math.log(found[one][place] / found[other][place]))
        for one in _COSTS
        for other in _COSTS
        for place in found[one]
        if _apart(one, other) <= _LARGEST_MOVE
    ]
    return ExactLaw(
        name="permute-and-flip",
        dimension=1,
        found=max(ratios),
        claimed=float(_CHOICE.rate) * _LARGEST_MOVE,
        deviation=deviation,
        planted={},
        apart=precision.apart,
    )


def _apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    moved = [b - a for a, b in zip(one, other, strict=True)]
    return max(moved) - min(moved)


def _by_noisy_costs(costs: tuple[int, ...]) -> list[float]:
    r"""Return with which probabilities each cost is the least after exponential noise is subtracted.

    :math:`P(i) = a_i \int_0^1 \prod_{j \ne i} (1 - a_j t) dt` with ``a = exp(-rate gap)``: a polynomial in ``t``.
    """
    accepted = [math.exp(-float(_CHOICE.rate) * (cost - min(costs))) for cost in costs]
    chances = []
    for place, own in enumerate(accepted):
        product = np.polynomial.Polynomial([1.0])
        for other, share in enumerate(accepted):
            if other != place:
                product = product * np.polynomial.Polynomial([1.0, -share])
        chances.append(own * float(product.integ()(1.0)))
    return chances


# The exponential mechanism.


def _rows(question: Asked, prepared: Any, frame: Any) -> Any:
    table = PrivateTable.from_frame(frame, question.site_facts.schema, unit=question.site_facts.unit)
    return prepared.person_loss.people_of(table.admit(prepared.needs, key=prepared.key))


def _sampled(precision: Precision, *, name: str, places: int, most: int) -> ExactLaw:
    """Return what the coins of the exponential mechanism show at a grid of points, between neighbours."""
    question = of_case(name)
    prepared: Any = registry.prepare(question.query, question.site_facts)
    once, calibration = replace(prepared.query, proposals=1), prepared.calibration
    axes = [
        [round(share * steps) for share in np.linspace(-0.9, 0.9, places) if abs(share) > 1e-9]
        for steps in calibration.box.steps
    ]
    grid = [tuple(int(k) for k in place) for place in np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes))]
    found, deviation, largest = {}, 0.0, 0.0
    for data, others in pairs(SETTINGS[0], most=most):
        logs = []
        for frame in (data, *others):
            key = frame.to_json()
            if key not in found:
                found[key] = _at_places(once, calibration, _rows(question, prepared, frame), grid, precision)
            logs.append(found[key][0])
            deviation = max(deviation, found[key][1])
        largest = max(largest, *(float(np.ptp(logs[0] - other)) for other in logs[1:]))
    return ExactLaw(
        name="exponential mechanism",
        dimension=len(axes),
        found=largest,
        claimed=float(question.query.epsilon),
        deviation=deviation,
        planted={},
        apart=precision.apart,
    )


def _at_places(
    query: Any, calibration: Any, people: Any, grid: list[tuple[int, ...]], precision: Precision
) -> tuple[FloatArray, float]:
    """Return log-probabilities of places but for a constant, and how far they are from the formula."""
    lowest = exponential._lowest(query, calibration, people)
    step = exact.exact(calibration.box.grid)
    names = {
        tuple(exact.lift([o + k for o, k in zip(calibration.box.origin, place, strict=True)], step).tolist()): place
        for place in grid
    }
    heights: dict[tuple[int, ...], float] = {}

    def jumps(proposals: Any) -> tuple[int, ...]:
        if not heights:
            for place in grid:
                away = [abs(p - k) for p, k in zip(place, lowest.k, strict=True)]
                curvature = float(proposals.curvature)
                slopes = [float(each.slope) for each in proposals.distributions]
                heights[place] = -math.fsum(a * j + curvature * j * j for a, j in zip(slopes, away, strict=True))
        even = 1.0 / len(grid)
        place = laws.chosen(dict.fromkeys(grid, even))
        return tuple(p - k for p, k in zip(place, lowest.k, strict=True))

    with _given(precision), ExitStack() as stack:
        _set(stack, exponential.Proposals, "draw", jumps)
        _set(stack, exponential, "_lowest", lambda *_: lowest)
        masses = law(lambda: exponential.run(query, calibration, people).theta, limit=0.0).masses
    kept = {names[theta]: mass for theta, mass in masses.items() if theta in names}
    logs = np.array([math.log(kept[place]) if place in kept else -math.inf for place in grid])
    logs = logs + np.array([heights[place] for place in grid])
    at_centre = people.losses(calibration.box.at(np.zeros(len(calibration.box.origin))))
    claimed = np.array([_exponent(calibration, query, people, at_centre, place) for place in grid])
    apart = logs - claimed
    return logs, float(np.max(np.abs(apart - np.median(apart))))


def _exponent(calibration: Any, query: Any, people: Any, at_centre: FloatArray, place: tuple[int, ...]) -> float:
    """Return the logarithm of the claimed probability of a place, but for a constant."""
    here = people.losses(calibration.box.at(np.array(place, dtype=float)))
    units = np.clip(np.rint((here - at_centre) / float(calibration.unit)), -calibration.most, calibration.most)
    square = sum(k * k for k in place) * exact.exact(calibration.box.grid) ** 2
    return -float(calibration.rate * int(np.nansum(units)) + calibration.temperature * query.ridge * square / 2)


# Noise in an objective.


def _in_objective(question: Asked) -> ExactLaw:
    """Return the largest log-ratio of densities of perturbed objectives, and of two that are wrong."""
    query = cast(ObjectiveQuery, question.query)
    right = perturbed_objective(query)
    spared = right.ridge.copy()
    spared[0] = 1e-9
    wrong = {
        "a third of the noise": replace(right, rate=3 * right.rate),
        "an intercept without a penalty": replace(right, ridge=spared),
    }
    epsilon = float(query.epsilon)

    def largest(mechanism: Any) -> float:
        return max(
            worst_neighbours(mechanism, others=others, reach=reach, tries=1024, polish=16).loss
            for others in (0, 1)
            for reach in (4.0, 40.0)
        )

    return ExactLaw(
        name="noise in an objective",
        dimension=len(right.ridge),
        found=largest(right),
        claimed=epsilon,
        deviation=math.nan,
        apart=FULL.apart,
        planted={name: largest(mechanism) > epsilon for name, mechanism in wrong.items()},
    )


def _in_normal_objective(question: Asked, *, most: int) -> ExactLaw:
    """Return the largest delta of a perturbed objective with normal noise and one coefficient, and of a tenth of it."""
    prepared: Any = registry.prepare(question.query, question.site_facts)
    inside, ridge, centre = prepared.calibration.perturbation, float(prepared.query.ridge), prepared.query.centre[0]

    def largest(sd: float) -> float:
        found = 0.0
        for data, others in pairs(SETTINGS[0], most=most):
            people = [_rows(question, prepared, frame) for frame in (data, *others)]
            reach = (len(data) + 9.0 * sd) / ridge
            thetas = centre + reach * np.linspace(-1.0, 1.0, 3001) ** 3  # finer in the middle, where densities are
            densities = [_normal_density(each, thetas, ridge=ridge, centre=centre, sd=sd) for each in people]
            first, *rest = densities
            above = [
                np.maximum(0.0, p - math.exp(inside.event.epsilon) * q)
                for o in rest
                for p, q in ((first, o), (o, first))
            ]
            found = max(found, *(float(np.trapezoid(each, thetas)) for each in above))
        return found

    return ExactLaw(
        name="normal noise in an objective",
        dimension=1,
        found=largest(float(inside.sd)),
        claimed=float(inside.event.delta),
        deviation=math.nan,
        apart=FULL.apart,
        planted={"a tenth of the noise": largest(float(inside.sd) / 10.0) > float(inside.event.delta)},
        is_delta=True,
    )


def _normal_density(people: Any, thetas: FloatArray, *, ridge: float, centre: float, sd: float) -> FloatArray:
    """Return the density of the minimiser at points: that of the noise that leads there, times the curvature."""
    slopes = [float(np.ldexp(people.loss_gradient(np.array([t])).astype(float), -people.grid_bits)[0]) for t in thetas]
    curvatures = np.array([float(people.curvature(np.array([t]))[0, 0]) for t in thetas]) + ridge
    noise = (np.array(slopes) + ridge * (thetas - centre)) / sd
    return np.asarray(np.exp(-(noise**2) / 2.0) / math.sqrt(2.0 * math.pi) / sd * curvatures)


def of_case(name: str) -> Asked:
    """Return a case as it is asked where a person is replaced."""
    (case,) = (case for case in CASES if case.name == name)
    return asked(case, SETTINGS[0])


def of_fit(formula: str, *, mechanism: Any, epsilon: float = 1.0, delta: float = 0.0) -> Asked:
    """Return a logistic regression of the invented people as a fit asks it where a person is replaced."""
    samples = isinstance(mechanism, registry.ExponentialMechanism)
    options = {"delta": delta} if samples else {"se_share": 0}
    kind = {each.name: each.query for each in registry.MECHANISMS}["exponential" if samples else "objective"]

    def ask(study: Study) -> None:
        Logit.from_formula(formula, study).fit(epsilon=epsilon, mechanism=mechanism, describe=False, **options)

    question = asked(Case(asks=kind, family="regression", variant=formula, ask=ask), SETTINGS[0])
    if samples or not delta:
        return question
    # A fit of one coefficient would take the smaller, pure noise.
    return replace(question, query=replace(cast(ObjectiveQuery, question.query), delta=Fraction(delta)))


# All of them.


def exact_laws(*, plant: bool = True, names: tuple[str, ...] = (), precision: Precision = FULL) -> Iterator[ExactLaw]:
    """Yield what the exact distribution of each noise mechanism shows.

    Parameters
    ----------
    plant
        Whether wrong coins are planted too.
    names
        Which mechanisms; empty for all.
    precision
        Of samplers whose coins are enumerated.
    """
    objective = registry.ObjectivePerturbation()
    looked: list[tuple[str, Callable[[Precision], ExactLaw]]] = [
        *((each.name, partial(_enumerated, each)) for each in _subjects()),
        ("permute-and-flip", _chosen_by_cost),
        ("exponential mechanism", partial(_sampled, name="exponential, regression", places=24, most=6)),
        ("exponential mechanism", partial(_sampled, name="exponential, multinomial", places=6, most=3)),
    ]
    for name, look in looked:
        if not names or name in names:
            found = look(precision)
            yield replace(found, planted=dict(_with_wrong_coins(look))) if plant else found
    if not names or "noise in an objective" in names:
        for formula in ("y ~ 1", "y ~ x1"):
            yield _in_objective(of_fit(formula, mechanism=objective))
    if not names or "normal noise in an objective" in names:
        yield _in_normal_objective(of_fit("y ~ 1", mechanism=objective, delta=2.0**-10), most=4)


def _with_wrong_coins(look: Callable[[Precision], ExactLaw]) -> Iterator[tuple[str, bool]]:
    """Yield, for each coin that is thrown, whether it is caught when it is wrong."""
    coins = [(module, name) for module in _MODULES for name in _COINS if hasattr(module, name)]
    thrown: set[tuple[Any, str]] = set()
    with ExitStack() as stack:
        for module, name in coins:
            _set(stack, module, name, _noted(module, name, thrown))
        name_of_law = look(QUICK).name
    for module, name in coins:
        where = f"{module.__name__.removeprefix('hdpstats.')}.{name}"
        if (module, name) in thrown and (name_of_law, where) not in _WITHOUT_EFFECT:
            with ExitStack() as stack:
                _set(stack, module, name, wrong_coin(name, getattr(module, name)))
                yield where, not look(QUICK).holds


_WITHOUT_EFFECT: Final = {("rounded normal", "noise.discrete.below")}
"""Exponents there are whole numbers: of what is left of them, 0, a uniform number decides nothing."""


def _noted(module: Any, name: str, thrown: set[tuple[Any, str]]) -> Callable[..., Any]:
    """Return a coin as it is, which notes that it is thrown where more than one outcome is possible."""
    right = getattr(module, name)

    def coin(*arguments: Any) -> Any:
        if {"below": arguments[0] > 1, "bits": arguments[0] == 1}[name] if name in {"below", "bits"} else True:
            thrown.add((module, name))
        return getattr(exact, name)(*arguments) if name in {"below", "bits"} else right(*arguments)

    return coin


def wrong_coin(name: str, right: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coin that is wrong; what it throws itself are coins of the package, as they are then."""

    def coin(*arguments: Any) -> Any:
        return right(*arguments) or exact.bits(4) < 1

    def uniform(bound: Any) -> Any:
        return exact.below(max(bound - max(bound // 16, 1), 1))

    def sign(count: int) -> Any:
        return exact.bits(count) if count > 1 else 0

    return {"below": uniform, "bits": sign}.get(name, coin)
