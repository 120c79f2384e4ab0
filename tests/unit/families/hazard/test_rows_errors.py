"""The error of a sum of capped scores against exact arithmetic, on spells and coefficients that are hostile to floats.

Each mutation, of predictors, of exponents, of the rest of coefficients and of the grid, breaks the bound.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr

from hdpstats.families.hazard import rows as objectives
from hdpstats.families.hazard import spells as module
from hdpstats.families.hazard.rows import HazardRows
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.losses import LINKS
from hdpstats.losses.base import FARTHEST
from hdpstats.solvers import Penalised, kernels
from hdpstats.solvers.objective import UNIT, SumError, integer_bits, score_bits
from tests.unit.solvers.capped_problems import capped, exact_gradient, objective

CASES = [(link, causes) for link in LINKS for causes in (1, 2)]
Problem = tuple[Penalised, np.ndarray, np.ndarray]


def hostile(link: str, size: float, *, seed: int = 0, causes: int = 1, m: int = 24, offset: float = 0.0) -> Problem:
    """Return an objective and coefficients of about a length, in two parts, whose large products cancel.

    The first feature is the same in all intervals, and the first covariate takes away what it adds, and an offset: the
    predictor is of the order of 1, what it is made of is not. A tenth of the spells are far out, another has numbers
    that underflow.
    """
    rng = np.random.default_rng(seed)
    spells = capped(seed, m=m, q=6, e=2, p=3, causes=causes, link=link, whole=True)
    D = causes * spells.block
    theta = rng.standard_normal(D)
    A = np.column_stack([np.full(6, 0.7), rng.uniform(-0.7, 0.7, 6)])
    Z, known = rng.standard_normal((m, 3)), offset * rng.uniform(0.5, 1.0, m)
    for cause in range(causes):
        theta[cause * spells.block] = size * rng.uniform(0.5, 1.0)
        theta[cause * spells.block + 2] = size * rng.uniform(0.5, 1.0) if not cause else theta[2]
    theta[:: spells.block] = theta[0]
    Z[:, 0] = (rng.normal(scale=2.0, size=m) - 0.7 * theta[0] - known) / theta[2]
    Z[: m // 10] *= rng.choice([-1.0, 1.0], (m // 10, 3)) * 40.0
    Z[m // 10 : m // 5, 1:] *= 1e-300
    cap_slopes = 0.3 * rng.standard_normal((causes, 3))
    level = Z @ cap_slopes.mean(axis=0) + known
    spells = replace(spells, A=A, Z=Z, offset=known, cap_slopes=cap_slopes)
    spells = replace(spells, cap_baseline=spells.cap_baseline - 1.5 - float(np.median(level)))
    task = objective(spells.ended(np.arange(m)), ridge=1e-9)
    rest = UNIT * theta * rng.uniform(-1.0, 1.0, D)
    return replace(task, centre=np.zeros(D), linear=np.zeros(D)), theta, rest


def share(task: Penalised, theta: np.ndarray, rest: np.ndarray, *, of: Penalised | None = None) -> float:
    """Return the error of the gradient over its bound, or over that of another objective."""
    exact = exact_gradient(task, theta, rest, bits=400)
    with mpmath.workprec(400):
        off = [value - float(found) for value, found in zip(exact, task.gradient(theta, rest).tolist(), strict=True)]
        return float(mpmath.norm(off)) / (of or task).gradient_error(theta)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("link", "causes"), CASES)
@pytest.mark.parametrize(("size", "offset"), [(1.0, 0.0), (1e3, 0.0), (1e6, 1e6), (1e12, 0.0), (1e80, 0.0)])
def test_the_bound_holds_for_hostile_spells(link: str, causes: int, size: float, offset: float) -> None:
    for seed in range(3):
        task, theta, rest = hostile(link, size, seed=seed, causes=causes, offset=offset)
        assert np.sum(task.rows.spells.last - task.rows.spells.entry) > 20
        assert share(task, theta, rest) <= 1.0


@pytest.mark.parametrize("link", ["logit", "cloglog"])
@pytest.mark.parametrize("size", [1e6, 1e12])
def test_the_bound_holds_cell_by_cell(link: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedSpells, "_has_factors", False)
    task, theta, rest = hostile(link, size)
    assert share(task, theta, rest) <= 1.0
    monkeypatch.setattr(module, "compensated_pairs", plain)
    assert size > 1e6 or share(task, theta, rest) > 2.0


@pytest.mark.parametrize("link", LINKS)
def test_the_bound_does_not_grow_with_coefficients(link: str) -> None:
    bounds = []
    for size in (1.0, 1e3, 1e5):
        task, _, _ = hostile(link, 1.0)
        task = replace(task, ridge=np.full(len(task.ridge), 1e-30))
        bounds.append(task.gradient_error(np.full(len(task.ridge), size / np.sqrt(len(task.ridge)))))
    assert bounds[1] <= 1.001 * bounds[0]
    assert bounds[2] <= 1.1 * bounds[0]
    spells = task.rows.spells
    sizes = float(np.sum(spells.weights * np.sqrt(1.0 + np.sum(spells.Z**2, axis=1)))) * (spells.total + 1.0)
    cells = 0.5 * len(spells.Z) * np.sqrt(len(task.ridge)) * 2.0**-task.rows.grid_bits
    ulps = max(spells.loss.ulps, spells.loss.event_ulps)
    assert bounds[0] <= (ulps + 6.0 + 9.0) * UNIT * sizes * 1.01 + cells


def plain(X: np.ndarray, parts: np.ndarray, offset: np.ndarray, rows: slice = slice(None)) -> kernels.Pair:
    """Return predictors that are added up in doubles."""
    found = kernels.row_products(X, parts[0], rows) + offset[rows]
    return found, np.zeros_like(found)


def without_rest(exponents: kernels.Pair, largest: float) -> np.ndarray:
    """Return exponentials of rounded sums."""
    return np.exp(np.clip(exponents[0] + exponents[1], -largest, largest))


def without_rests(own: np.ndarray, rest: np.ndarray, caps: np.ndarray, middle: float, ratios: np.ndarray) -> None:
    """Set the exponents of spells from rounded levels."""
    ratios[:] = np.clip((own + rest) - caps + middle, -2.0 * kernels.SPAN, 2.0 * kernels.SPAN)
    rest[:] = 0.0


def one_limb(summand: float) -> int:
    """Return the bits that are left where 64 bits are to add as many rows as a query may have."""
    return integer_bits(2**30, summand)


MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "predictors in doubles": lambda patch: patch.setattr(module, "compensated_pairs", plain),
    "one part of coefficients": lambda patch: patch.setattr(
        module, "coefficient_parts", lambda theta, rest: kernels.coefficient_parts(theta)
    ),
    "one limb": lambda patch: patch.setattr(objectives, "score_bits", one_limb),
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", MUTATIONS)
def test_less_exact_sums_break_the_bound(link: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, theta, rest = hostile(link, 1e6)
    assert right.rows.grid_bits  # chosen before the mutation
    MUTATIONS[name](monkeypatch)
    assert share(hostile(link, 1e6)[0], theta, rest, of=right) > 2.0


@pytest.mark.parametrize("rows", [40, 3000])
def test_scores_of_63_bits_break_the_bound(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody has the event in the first interval, and nearly the largest score."""
    one = capped(1, m=rows, q=2, e=1, p=1, total=1e-6, flat=True, whole=True)
    first = np.ones(rows, dtype=np.int64)
    spells = replace(one, entry=0 * first, last=first, cause=first, Z=np.ones((1, rows)).T, offset=np.zeros(rows))
    spells = replace(spells, weights=np.ones(rows), cap_baseline=np.full((1, 2), -30.0))
    theta = np.array([0.0, -60.0])
    assert share(replace(objective(spells), ridge=np.zeros(2), linear=np.zeros(2)), theta, 0.0 * theta) <= 1.0
    monkeypatch.setattr(objectives, "score_bits", lambda summand: score_bits(summand) + 13)
    assert share(replace(objective(spells), ridge=np.zeros(2), linear=np.zeros(2)), theta, 0.0 * theta) > 1e3


def worst_factors(size: float) -> tuple[float, float]:
    """Return by how many units of 2^-53 ratios and caps from factors are off relatively, at most.

    Caps of the intervals are e^150 apart, so that exponents of intervals and of spells are large and cancel.
    """
    task, theta, _ = hostile("cloglog", size)
    spells = replace(task.rows.spells, cap_baseline=task.rows.spells.cap_baseline + np.linspace(-150.0, 0.0, 6))
    factors = spells.factors(theta, slice(0, len(spells.Z)), 0)
    assert factors is not None
    worst, count = [0.0, 0.0], 0
    with mpmath.workprec(400):
        of = [mpmath.mpf(value) for value in theta.tolist()]
        for i, z in enumerate(spells.Z.tolist()):
            eta = sum((a * b for a, b in zip(z, of[2:], strict=True)), mpmath.mpf(float(spells.offset[i])))
            for s, log_cap in enumerate(spells.exact_log_caps(mpmath.mp, i, 0)):
                log_ratio = eta + float(spells.A[s, 0]) * of[0] + float(spells.A[s, 1]) * of[1] - log_cap
                if abs(log_ratio) < 100 and abs(log_cap) < 320:
                    count += 1
                    found = factors.E[s] * factors.W[i], factors.G[s] * factors.K[i]
                    for k, exact in enumerate((log_ratio, log_cap)):
                        off = abs(mpmath.mpf(float(found[k])) / mpmath.exp(exact) - 1)
                        worst[k] = max(worst[k], float(off) / UNIT)
    assert count > 20
    return worst[0], worst[1]


@pytest.mark.parametrize("size", [1.0, 1e3, 1e5])
def test_ratios_and_caps_err_by_what_the_links_say(size: float) -> None:
    ratios, caps = worst_factors(size)
    assert ratios <= 21.0
    assert caps <= 17.0


@pytest.mark.parametrize(("name", "mutation"), [("to_ratios", without_rests), ("exponential", without_rest)])
def test_rounded_exponents_err_by_more(
    name: str, mutation: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, mutation)
    assert worst_factors(1e3)[0] > 25.0


def test_scores_feel_no_more_of_ratios_and_caps_than_the_links_say() -> None:
    """Ratios off by 21 units, and 6 more for the operations after them; of caps, off by 17, events alone count."""
    L, level = (each.ravel() for each in np.meshgrid(np.linspace(-60.0, 60.0, 2401), np.linspace(-30.0, 3.0, 67)))
    step = 1e-7
    for link in (link for link in LINKS.values() if link.multiplicative):
        u, h = np.exp(L), np.exp(level)
        c, e = link.saturated(u, h)
        for signs in ((1, 1), (1, -1)):
            ratios, caps = u * (1.0 + 21.0 * step * signs[0]), h * (1.0 + 17.0 * step * signs[1])
            off, after = link.saturated(ratios, h)[0], link.saturated(ratios, caps)[1]
            assert np.max(np.abs(off - c) / h) / step <= link.ulps - 5.5
            assert np.max(np.abs(after - e)) / step <= link.event_ulps - (19.0 if link.cumulative else 5.0)


def test_caps_are_the_same_whether_hazards_have_factors_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far hazards: then a score is its cap to the last bit, and another cap would be another loss."""
    task, theta, _ = hostile("logit", 1e3)
    spells = replace(task.rows.spells, cap_baseline=task.rows.spells.cap_baseline + np.linspace(-9.0, 0.0, 6))
    whole, intervals = slice(0, len(spells.Z)), slice(0, len(spells.A))
    (of,) = spells.coefficients(theta)
    _, caps = spells._ratios(of, spells._predictor(of, whole, intervals), whole, intervals)
    factors = spells.factors(theta, whole, 0)
    assert factors is not None
    assert np.array_equal(caps, np.multiply.outer(factors.K, factors.G))
    monkeypatch.setattr(type(spells), "_has_factors", False)
    _, other = spells._ratios(of, spells._predictor(of, whole, intervals), whole, intervals)
    assert not np.array_equal(caps, other)


def far_caps(monkeypatch: pytest.MonkeyPatch) -> Problem:
    """Return a problem whose computed caps are off by 2^-30: what errors of exponentials are, many times over."""
    factors, exponentials = module._cap_factors, module.exponential
    monkeypatch.setattr(module, "_cap_factors", lambda levels: factors(levels) * (1.0 + 2.0**-30))
    monkeypatch.setattr(
        module,
        "exponential",
        lambda exponents, largest: exponentials(exponents, largest) * (1.0 + (largest == FARTHEST) * 2.0**-30),
    )
    return hostile("logit", 1e3)


@pytest.mark.parametrize("has_factors", [True, False])
def test_numbers_of_any_precision_have_the_loss_with_computed_caps(
    has_factors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who is minimised in doubles and who in more digits had minimisers of two losses, and a distance besides."""
    monkeypatch.setattr(CappedSpells, "_has_factors", has_factors)
    task, theta, rest = far_caps(monkeypatch)
    assert share(task, theta, rest) <= 1.0
    found = task.gradient(theta, rest).tolist()

    def away(rows: HazardRows) -> float:
        with mpmath.workprec(400):
            exact = rows.exact_loss_gradient(
                mpmath.mp, [mpmath.mpf(a) + b for a, b in zip(theta.tolist(), rest.tolist(), strict=True)]
            )
            penalty = [
                r * (a + mpmath.mpf(b))
                for r, a, b in zip(task.ridge.tolist(), theta.tolist(), rest.tolist(), strict=True)
            ]
            off = [a + b - c for a, b, c in zip(exact, penalty, found, strict=True)]
            return float(mpmath.norm(off)) / task.gradient_error(theta)

    assert away(task.rows) <= 1.0
    logs = CappedSpells.exact_log_caps
    monkeypatch.setattr(
        CappedSpells, "exact_caps", lambda self, *given: [(log_cap, mpmath.mpf(1)) for log_cap in logs(self, *given)]
    )
    assert away(task.rows) > 100.0


def off_by(computed: np.ndarray, exact: Callable[[mpmath.mpf], mpmath.mpf], at: np.ndarray, least: float) -> float:
    """Return the largest error in units of 2^-53 of the size, or of a least size."""
    worst = 0.0
    with mpmath.workprec(200):
        for found, x in zip(computed.tolist(), at.tolist(), strict=True):
            value = exact(mpmath.mpf(x))
            worst = max(worst, float(abs(value - found) / max(abs(value), mpmath.mpf(least))))
    return worst / UNIT


def test_functions_err_by_no_more_than_is_taken_for_granted() -> None:
    rng = np.random.default_rng(7)
    far, near = rng.uniform(-340.0, 340.0, 2000), rng.uniform(-36.0, 36.0, 600)
    near = np.concatenate([near, rng.uniform(-1.3, -0.7, 200), rng.standard_normal(200)])
    small = np.exp(rng.uniform(-40.0, 6.0, 2000))
    assert off_by(np.exp(far), mpmath.exp, far, 1e-300) <= 8.0
    assert off_by(np.expm1(small), mpmath.expm1, small, 1e-300) <= 8.0
    assert off_by(log_ndtr(near), lambda x: mpmath.log(mpmath.ncdf(x)), near, 1.0) <= 8.0


def test_terms_of_many_intervals_are_added_in_groups() -> None:
    """One term of 1, and 511 of three quarters of its last place: added one by one, each is rounded to a whole one."""
    q, one, terms = 512, np.ones(1), np.full(512, 1.5 * UNIT)
    terms[0] = 1.0
    found = np.empty((2, 1))
    kernels.add_scores(np.full(q, 1e100), terms, np.ones((q, 1)), one, one, np.zeros(1, int), np.full(1, q), found)
    exact = mpmath.fsum(terms.tolist())
    for total in found[:, 0].tolist():
        assert float(abs(total - exact)) <= (q / kernels.TOGETHER + 9.0) * UNIT
    with np.errstate(over="ignore"):
        assert float(abs(np.add.accumulate(terms)[-1] - exact)) > 2.0 * (q / kernels.TOGETHER + 9.0) * UNIT
    np.testing.assert_allclose(module._sums(terms[:, None]), float(exact), rtol=(q / kernels.TOGETHER + 9.0) * UNIT)


@pytest.mark.parametrize("q", [1, 7, 8, 9, 64, 65, 100, 200, 513])
def test_sums_over_intervals_depend_on_the_own_spell_alone(q: int) -> None:
    """Rows of a matrix, of which one may be the only one of its block: `numpy.sum` adds a column in another order."""
    terms = np.random.default_rng(4).standard_normal((q, 30))
    found = module._sums(terms)
    for number in (1, 2, 3):
        for first in range(30 - number):
            part = module._sums(np.ascontiguousarray(terms[:, first : first + number]))
            np.testing.assert_array_equal(part, found[first : first + number])


def test_a_spell_alone_in_its_block_has_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who comes or goes before it would change what it adds, and more than one contribution would change."""
    q, rng = 120, np.random.default_rng(5)
    spells = capped(6, m=41, q=q, e=2, p=2, link="probit", whole=True)
    spells = replace(spells, entry=0 * spells.entry, last=0 * spells.last + q)
    theta = rng.standard_normal(spells.block)
    together = spells.scores(theta)
    monkeypatch.setattr(module, "CELLS", q)
    np.testing.assert_array_equal(spells.scores(theta), together)


def test_three_roundings_of_a_converted_sum_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of gradients half a unit above a double, a ridge and a perturbation of half a unit: all are lost."""
    task = objective(capped(1, m=1, e=1, p=1))
    half, whole = (math.ldexp(1.0, power - task.rows.grid_bits) for power in (7, 60))
    each = np.ones(2)
    task = replace(task, ridge=half * each, centre=0.0 * each, linear=half * each)
    monkeypatch.setattr(HazardRows, "loss_gradient", lambda *_: np.array([2**60 + 2**7] * 2, dtype=object))
    np.testing.assert_array_equal(task.gradient(each), whole)
    off, length = 3.0 * half * math.sqrt(2.0), (whole + half) * math.sqrt(2.0)
    assert 2.99 * UNIT * length < off <= SumError(summands=0.0, steepest=length).beside(2.0 * half * math.sqrt(2.0))
