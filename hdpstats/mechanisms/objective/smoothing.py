r"""Lattice noise that objective perturbation adds to the computed point: its distribution, and a bound.

The computed point is within ``total`` of the exact minimiser. It is rounded to multiples of ``grid``, the power of two
with ``4 <= total / grid < 8``, and L2 K-norm noise is added whose rate per lattice step is

.. math:: r = \frac{\epsilon_2}{2 (total / grid + \sqrt D)}

(`hdpstats.mechanisms.objective.site`, part 3, where the guarantee is proved). Every coordinate then has the variance
``(D + 1) (grid / r)^2``. The noise grows with the number of people, as the float error of a sum does, and falls with
the ridge. With many people and a small ridge it is no small part of the error.
"""

from fractions import Fraction

from hdpstats.mechanisms.objective.query import ObjectiveRelease
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.noise.lattice import power_of_two_below, round_down, sqrt_up
from hdpstats.privacy.event import MechanismName
from hdpstats.privacy.sensitivity import BallNorm

STEPS = 8
"""Lattice steps within ``total``, at most."""


def smoothing_noise(*, total: Fraction, dimension: int, epsilon: Fraction) -> tuple[BallNoise, Fraction]:
    """Return the lattice noise that covers a distance ``total`` for ``epsilon / 2``, and its lattice step."""
    grid = power_of_two_below(total / (STEPS // 2))
    rate = round_down(epsilon / (2 * (total / grid + sqrt_up(Fraction(dimension)))), 90)
    return BallNoise(dimension=dimension, rate=rate), grid


def smoothing_distribution(noise: BallNoise, grid: Fraction) -> NoiseDistribution:
    """Return the distribution of the noise in the coordinates of the minimiser."""
    return NoiseDistribution(norm=BallNorm(), dimension=noise.dimension, rate=float(noise.rate / grid))


def widest_smoothing(release: ObjectiveRelease) -> NoiseDistribution | None:
    """Return the widest distribution of the smoothing noise that a release may have; None where no smoothing ran.

    A release tells its ``grid`` and ``epsilon_2``, not ``total``: the distribution is that of ``total = 8 grid``. Its
    standard deviation is never smaller than that of the noise, and at most ``(8 + sqrt(D)) / (4 + sqrt(D))`` times as
    large.
    """
    epsilon = sum((event.epsilon for event in release.events if event.ran is MechanismName.SMOOTHING), Fraction(0))
    if not epsilon:
        return None
    dimension = len(release.theta)
    rate = float(epsilon) / (2.0 * (STEPS + dimension**0.5)) / release.grid
    return NoiseDistribution(norm=BallNorm(), dimension=dimension, rate=rate)
