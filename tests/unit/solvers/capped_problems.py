"""Capped spells for tests, and the plain loops over person-periods that their objective must agree with."""

from dataclasses import replace

import mpmath
import numpy as np

from hdpstats.families.hazard import spells as module
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.losses import LINKS
from hdpstats.solvers import Penalised
from tests.objectives import hazard_objective


def capped(
    seed: int = 0,
    *,
    m: int = 30,
    q: int = 7,
    e: int = 2,
    p: int = 2,
    causes: int = 1,
    link: str = "logit",
    total: float = 4.0,
    margin: float = 0.3,
    flat: bool = False,
    whole: bool = False,
) -> CappedSpells:
    """Draw spells with late entry, empty ones, events of all causes, weights and offsets, ended by their caps.

    ``whole`` leaves out the last.
    """
    rng = np.random.default_rng(seed)
    A = rng.uniform(-1.0, 1.0, (q, e))
    A /= np.linalg.norm(A, axis=1, keepdims=True) * rng.uniform(1.0, 2.0, (q, 1))
    entry = rng.integers(0, q, m)
    last = np.minimum(entry + rng.integers(0, q + 1, m), q)
    cause = np.where(last > entry, rng.integers(0, causes + 1, m), 0)
    spells = CappedSpells(
        loss=LINKS[link],
        A=A,
        Z=rng.standard_normal((m, p)),
        entry=entry,
        last=last,
        cause=cause,
        weights=rng.uniform(0.0, 2.0, m),
        offset=rng.uniform(-1.0, 1.0, m),
        cap_baseline=np.full((causes, q), -1.0) if flat else rng.uniform(-2.0, 0.5, (causes, q)),
        cap_slopes=np.zeros((causes, p)) if flat else rng.standard_normal((causes, p)),
        margin=margin,
        total=total,
    )
    return spells if whole else spells.ended(np.arange(m))


def objective(spells: CappedSpells, *, seed: int = 1, ridge: float = 0.5) -> Penalised:
    """Return a penalised, perturbed objective."""
    rng = np.random.default_rng(seed)
    D = spells.causes * spells.block
    return hazard_objective(
        spells=spells,
        ridge=ridge * rng.uniform(1.0, 2.0, D),
        centre=rng.standard_normal(D),
        linear=rng.standard_normal(D),
    )


def cells_of(spells: CappedSpells) -> list[tuple[int, int, int, bool]]:
    """Return every person-period of every cause: spell, interval (0-based), cause (0-based), whether it is an event."""
    return [
        (i, s, k, s == spells.last[i] - 1 and spells.cause[i] == k + 1)
        for i in range(len(spells.Z))
        for s in range(spells.entry[i], spells.last[i])
        for k in range(spells.causes)
    ]


def row_of(spells: CappedSpells, i: int, s: int, k: int) -> np.ndarray:
    """Return the whole row ``x`` (D,) of a person-period: features and covariates in the block of its cause."""
    row = np.zeros(spells.causes * spells.block)
    row[k * spells.block : (k + 1) * spells.block] = np.concatenate([spells.A[s], spells.Z[i]])
    return row


def log_cap(spells: CappedSpells, i: int, s: int, k: int) -> float:
    """Return ``log h`` of a person-period."""
    eta = spells.cap_baseline[k, s] + spells.Z[i] @ spells.cap_slopes[k] + spells.offset[i]
    return float(spells.loss.caps(np.array([eta]), spells.margin)[0])


def plain_derivatives(problem: Penalised, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient and Hessian by a loop over person-periods."""
    spells = problem.rows.spells
    gradient = problem.ridge * (theta - problem.centre) + problem.linear
    hessian = np.diag(problem.ridge)
    for i, s, k, event in cells_of(spells):
        row = row_of(spells, i, s, k)
        eta, cap = np.array([row @ theta + spells.offset[i]]), np.array([log_cap(spells, i, s, k)])
        c, e = spells.loss.scores(eta, cap)
        cells = spells.loss.cells(eta, cap)
        gradient = gradient + spells.weights[i] * float(-e[0] if event else c[0]) * row
        curvature = cells.event_curvature if event else cells.survived_curvature
        hessian = hessian + spells.weights[i] * float(curvature[0]) * np.outer(row, row)
    return gradient, hessian


def exact_gradient(
    problem: Penalised, theta: np.ndarray, rest: np.ndarray | None = None, *, bits: int = 250
) -> list[mpmath.mpf]:
    """Return the gradient at ``theta + rest`` with exact predictors and losses.

    Where the scale is ``e^eta`` the logarithm of a cap is the exact sum of two doubles: ``gamma_s + d``, and
    ``z'delta + o`` as it is added from the first product to the last; what multiplies a survived interval's score is
    the cap as a double. Elsewhere the logarithm is a double.
    """
    spells = problem.rows.spells
    with mpmath.workprec(bits):
        exact = [mpmath.mpf(float(value)) for value in theta]
        if rest is not None:
            exact = [value + float(left) for value, left in zip(exact, rest, strict=True)]
        total = [
            mpmath.mpf(float(r)) * (value - mpmath.mpf(float(c))) + mpmath.mpf(float(b))
            for r, value, c, b in zip(problem.ridge, exact, problem.centre, problem.linear, strict=True)
        ]
        for i, s, k, event in cells_of(spells):
            row = [mpmath.mpf(float(value)) for value in row_of(spells, i, s, k)]
            offset = mpmath.mpf(float(spells.offset[i]))
            eta = sum((a * b for a, b in zip(row, exact, strict=True)), offset)
            if spells.loss.multiplicative:
                slopes = zip(spells.Z[i].tolist(), spells.cap_slopes[k].tolist(), strict=True)
                own = sum(a * b for a, b in slopes) + float(spells.offset[i])
                baseline = float(spells.cap_baseline[k, s]) + spells.margin
                level = mpmath.mpf(baseline) + mpmath.mpf(own)
                factor = computed_cap(spells, baseline, own) / mpmath.exp(level)
            else:
                factor = mpmath.mpf(1)
                level = mpmath.mpf(float(spells.log_caps(slice(i, i + 1), slice(s, s + 1), k)[0, 0]))
            c, e = spells.loss.exact_scores(mpmath.mp, eta, level)
            score = mpmath.mpf(float(spells.weights[i])) * (-e if event else factor * c)
            total = [t + score * a for t, a in zip(total, row, strict=True)]
    return total


def computed_cap(spells: CappedSpells, baseline: float, level: float) -> mpmath.mpf:
    """Return the cap of a person-period as computed gradients have it, where the scale is ``e^eta``."""
    if spells._has_factors:
        return mpmath.mpf(float(np.exp(np.array([baseline]))[0]) * float(module._cap_factors(np.array([level]))[0]))
    return mpmath.mpf(float(spells._caps(np.array([baseline]), np.array([level]))[0, 0]))


def people_of(seed: int, m: int) -> np.ndarray:
    """Return whose each of ``m`` spells is: one to four in a row."""
    rng = np.random.default_rng(seed)
    return np.repeat(np.arange(m), rng.integers(1, 5, m))[:m]


def in_time_order(spells: CappedSpells, person: np.ndarray) -> CappedSpells:
    """Return the spells with those of a person one after the other in time."""
    entry, last = spells.entry.copy(), spells.last.copy()
    q = len(spells.A)
    for name in np.unique(person):
        places = np.flatnonzero(person == name)
        cuts = np.linspace(0, q, len(places) + 1).astype(int)
        entry[places], last[places] = cuts[:-1], cuts[1:]
    return replace(spells, entry=entry, last=last, cause=np.where(last > entry, spells.cause, 0))
