"""Numerical minimisation with a certificate, exact nearest points, orders of points, weights with given averages.

Nothing here knows privacy, or a family of models.

* ``accelerated``: A minimiser whose number of steps is public: triple momentum, with the computed gradient's error in
  its proof.
* ``box``: The minimiser of a strongly convex objective on a lattice inside a box, certified by its gradient.
* ``kernels``: Passes over rows, in numpy or compiled: predictors, exact sums of scores and of curvatures, sums over
  spells.
* ``nearest_points``: Exact nearest neighbours among points of the unit cube, for all of a nest of sets in one pass.
* ``newton``: Newton's method for a strongly convex objective, with a certified distance to the exact minimiser.
* ``objective``: Strongly convex objectives that are minimised with a certificate: penalised sums of the losses of rows.
* ``searches``: Two compiled searches for nearest points: by tiles of points, and by a k-d tree, each exact.
"""

from hdpstats.solvers.newton import Solution, minimise
from hdpstats.solvers.objective import Penalised, Rows

__all__ = ["Penalised", "Rows", "Solution", "minimise"]
