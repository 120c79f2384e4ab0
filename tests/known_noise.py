"""Noise that a test knows: none, or draws of the same laws that are written down by a seeded generator of numpy.

A test of what is computed from noisy releases (estimates, standard errors, plans, texts) judges no random number. With
noise that it knows it cannot fail by chance, whatever the source of entropy is. That the samplers have their laws, and
that mechanisms add what samplers draw, is for tests with the mark ``entropy`` and with `tests.chance` to find.
"""

import numpy as np

from hdpstats.mechanisms import sampling, selection
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.moments import ball_variance, box_variance, cylinder_variance
from hdpstats.noise.tilted import TiltedNormal

VECTORS = (BallNoise, BoxNoise, CylinderNoise, RoundedNormal)


def off(monkeypatch):
    """Let every release be what is computed from the rows: noise is 0, and choices are the best ones."""
    for law in VECTORS:
        monkeypatch.setattr(law, "draw", lambda self: (0,) * self.dimension)
    for law in (TwoSidedGeometric, TiltedNormal):
        monkeypatch.setattr(law, "draw", lambda self: 0)
    monkeypatch.setattr(sampling, "bernoulli_exp", lambda *_: True)
    monkeypatch.setattr(selection, "permute_and_flip", lambda costs, rate: int(np.argmin(costs)))


def given(monkeypatch, vectors):
    """Let vector noise be one of these after the other, in grid steps, and then 0; return the laws that were asked."""
    off(monkeypatch)
    left, asked = iter(vectors), []

    def draw(self):
        asked.append(self)
        return tuple(int(step) for step in next(left, (0,) * self.dimension))

    for law in VECTORS:
        monkeypatch.setattr(law, "draw", draw)
    return asked


def drawn(law, rng):
    """Return a draw of a ball's or a box's law, rounded to its lattice, from a generator of numpy.

    Of density exp(-rate K(b)): r times a uniform point of the unit ball of K, with r from Gamma(D + 1, 1 / rate).
    """
    D = law.dimension
    if isinstance(law, BoxNoise):
        within = rng.uniform(-1.0, 1.0, D)
    else:
        assert isinstance(law, BallNoise)
        normal = rng.standard_normal(D)
        within = normal / np.linalg.norm(normal) * rng.uniform() ** (1.0 / D)
    return np.rint(rng.gamma(D + 1.0, 1.0 / float(law.rate)) * within)


def variance(law):
    """Return the variances (D,) of the coordinates of a law of pure noise, in squared grid steps."""
    D, rate = law.dimension, float(law.rate)
    if isinstance(law, CylinderNoise):
        grids = np.array([float(law.grid_axis)] + [float(law.grid_ball)] * (D - 1))
        return cylinder_variance(D, rate, float(law.radius)) / grids**2
    return np.full(D, {BallNoise: ball_variance, BoxNoise: box_variance}[type(law)](D, rate))


def counts(monkeypatch, seed):
    """Let counts have two-sided geometric noise of their law, from a generator of numpy with a seed."""
    rng = np.random.default_rng(seed)

    def draws(self, count):
        one, other = rng.geometric(-np.expm1(-float(self.rate)), (2, count))
        return (one - other).tolist()

    monkeypatch.setattr(TwoSidedGeometric, "draws", draws)
