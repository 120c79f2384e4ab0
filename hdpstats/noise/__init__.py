"""The only package that draws randomness for a release.

Noise is an integer vector with an exact distribution, drawn with bits of the operating system and added to a query
that was rounded onto a public grid. Nothing here takes a seed, and nothing here sees a record: the distributions depend
on declared numbers only.

* ``discrete``: Exact draws of single numbers: coins, the discrete Laplace distribution, and a private choice among
  candidates.
* ``distributions``: Lattice noise in the norm of a person's loss, and normal noise: grids, distributions, variances.
* ``exact``: What exact samplers are made of: random bits of the operating system, and numbers without rounding
  errors.
* ``knorm``: Exact noise of the K-norm mechanism (Hardt & Talwar 2010) on the integer lattice: for a ball, a cylinder
  and a box.
* ``normal``: Exact normal noise: rounded to a lattice, and on the integers of an interval, tilted towards one of
  them.
"""

from hdpstats.noise.discrete import PermuteAndFlip, TwoSidedGeometric
from hdpstats.noise.knorm import BallNoise, BoxNoise, CylinderNoise
from hdpstats.noise.normal import RoundedNormal

__all__ = ["BallNoise", "BoxNoise", "CylinderNoise", "PermuteAndFlip", "RoundedNormal", "TwoSidedGeometric"]
