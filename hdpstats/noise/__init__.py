"""The only package that draws randomness for a release.

Noise is an integer vector with an exact distribution, drawn with bits of the operating system and added to a query
that was rounded onto a public grid. Nothing here takes a seed, and nothing here sees a record: the distributions depend
on declared numbers only.
"""

from hdpstats.noise.discrete import PermuteAndFlip, TwoSidedGeometric
from hdpstats.noise.knorm import BallNoise, BoxNoise, CylinderNoise
from hdpstats.noise.normal import RoundedNormal

__all__ = ["BallNoise", "BoxNoise", "CylinderNoise", "PermuteAndFlip", "RoundedNormal", "TwoSidedGeometric"]
