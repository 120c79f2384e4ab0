"""Noise that a test knows: none, or draws of the same distributions drawn by a seeded generator of numpy.

A test of what is computed from noisy releases (estimates, standard errors, plans, texts) judges no random number. With
noise that it knows it cannot fail by chance, whatever the source of entropy is. That the samplers have their
distributions, and that mechanisms add what samplers draw, is for tests with the mark ``entropy`` and with
`tests.chance` to find.
"""

import itertools
import math

import numpy as np

from hdpstats.mechanisms.exponential import site as sampling
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.distributions import ball_variance, box_variance, cylinder_variance
from hdpstats.noise.normal import TiltedNormal

VECTORS = (BallNoise, BoxNoise, CylinderNoise, RoundedNormal)


def snap(values, grid):
    """Return round(value / grid) of doubles, halves upwards, exactly: how a query is put onto the lattice."""
    p, q = grid.numerator, grid.denominator
    ratios = (float(value).as_integer_ratio() for value in values)
    return tuple((2 * n * q + d * p) // (2 * d * p) for n, d in ratios)


def off(monkeypatch):
    """Let every release be what is computed from the rows: noise is 0, and choices are the best ones."""
    for distribution in VECTORS:
        monkeypatch.setattr(distribution, "draw", lambda self: (0,) * self.dimension)
    for distribution in (TwoSidedGeometric, TiltedNormal):
        monkeypatch.setattr(distribution, "draw", lambda self: 0)
    monkeypatch.setattr(sampling, "bernoulli_exp", lambda *_: True)
    monkeypatch.setattr(PermuteAndFlip, "draw", lambda self, costs: int(np.argmin(costs)))


def given(monkeypatch, vectors):
    """Let vector noise be one of these after the other, in grid steps, then 0; return the distributions asked for."""
    off(monkeypatch)
    left, asked = iter(vectors), []

    def draw(self):
        asked.append(self)
        return tuple(int(step) for step in next(left, (0,) * self.dimension))

    for distribution in VECTORS:
        monkeypatch.setattr(distribution, "draw", draw)
    return asked


def drawn(distribution, rng):
    """Return a draw of a ball's or a box's distribution, rounded to its lattice, from a generator of numpy.

    Of density exp(-rate K(b)): r times a uniform point of the unit ball of K, with r from Gamma(D + 1, 1 / rate).
    """
    D = distribution.dimension
    if isinstance(distribution, BoxNoise):
        within = rng.uniform(-1.0, 1.0, D)
    else:
        assert isinstance(distribution, BallNoise)
        normal = rng.standard_normal(D)
        within = normal / np.linalg.norm(normal) * rng.uniform() ** (1.0 / D)
    return np.rint(rng.gamma(D + 1.0, 1.0 / float(distribution.rate)) * within)


def variance(distribution):
    """Return the variances (D,) of the coordinates of a distribution of pure noise, in squared grid steps."""
    D, rate = distribution.dimension, float(distribution.rate)
    if isinstance(distribution, CylinderNoise):
        grids = np.array([float(distribution.grid_axis)] + [float(distribution.grid_ball)] * (D - 1))
        return cylinder_variance(D, rate, float(distribution.radius)) / grids**2
    return np.full(D, {BallNoise: ball_variance, BoxNoise: box_variance}[type(distribution)](D, rate))


def choices(costs, rate):
    """Return the distribution of permute-and-flip: the average over permutations of the first coin that shows heads."""
    heads = [math.exp(-float(rate) * (cost - min(costs))) for cost in costs]
    found = np.zeros(len(costs))
    orders = list(itertools.permutations(range(len(costs))))
    for order in orders:
        left = 1.0
        for place in order:
            found[place] += left * heads[place] / len(orders)
            left *= 1 - heads[place]
    return found


def counts(monkeypatch, seed):
    """Let counts have two-sided geometric noise of their distribution, from a generator of numpy with a seed."""
    rng = np.random.default_rng(seed)

    def draws(self, count):
        one, other = rng.geometric(-np.expm1(-float(self.rate)), (2, count))
        return (one - other).tolist()

    monkeypatch.setattr(TwoSidedGeometric, "draws", draws)
