r"""Objective perturbation for any convex loss with a Lipschitz score: the determinant is paid for.

The objective is :math:`\sum_i \ell_i(\theta) + \tfrac{\lambda}{2}\|\theta - c\|^2 + b'\theta` with noise of density
:math:`\nu(b) \propto \exp(-\rho K(b))`. Its gradient vanishes where :math:`b = b_D(\theta) = -\lambda(\theta - c) -
\sum_i \nabla\ell_i(\theta)`: a strongly monotone, Lipschitz map, hence a bi-Lipschitz bijection, so that by the area
formula the minimiser has the density :math:`\nu(b_D(\theta)) \det(\lambda I + \sum_i H_i(\theta))` almost everywhere;
``l`` need not be twice differentiable at every point. For neighbours ``D``, ``D'``

* the first factors differ by at most :math:`\exp(\rho S)`, ``S`` bounding ``K`` of the difference of their gradients:
  twice a person's where one is replaced, once where one is added or removed;
* with ``M`` the matrix that they share, :math:`\det(M + H) / \det(M + H') \le \det(M + H) / \det M \le
  \det(I + H / \lambda)`, as :math:`H' \ge 0` and :math:`M \ge \lambda I`. Only the record that is present counts, and
  once. For a Hessian :math:`H = \ell''\,x x'` of rank one that is :math:`1 + \ell''\|x\|^2 / \lambda`.

So the loss is :math:`\rho S + J` with :math:`J = \log(1 + \sup \ell''\|x\|^2 / \lambda)`, and the rest of epsilon buys
noise. Where noise is drawn on a lattice and thought of as spread over its cells, ``S`` grows by a cell.

K. Chaudhuri, C. Monteleoni, A. Sarwate (2011), Differentially private empirical risk minimization, have twice ``J``.
"""

import math
from fractions import Fraction

from hdpstats._base.errors import MechanismError

UP = 1.0 + 2.0**-40
"""Safety factor of every float that enters a guarantee."""


def rank_one_jacobian(ratio: Fraction) -> Fraction:
    """Return ``log(1 + ratio)``, rounded up: ``ratio`` is a Hessian's trace over the ridge.

    >>> float(rank_one_jacobian(Fraction(1, 10))) >= math.log(1.1)
    True
    """
    return Fraction(math.log1p(float(ratio) * UP) * UP)


def uncoupled_rate(epsilon: Fraction, *, jacobian: Fraction, width: Fraction) -> Fraction:
    """Return the largest ``rho`` with ``rho width + jacobian <= epsilon``; ``width`` counts the lattice cell.

    Raises
    ------
    MechanismError
        If the determinant alone costs epsilon.
    """
    if jacobian >= epsilon:
        raise MechanismError(
            f"the ridge is too small for epsilon = {float(epsilon):g}: its determinant alone costs "
            f"{float(jacobian):.3g}; use a larger ridge",
            epsilon=epsilon,
        )
    return (epsilon - jacobian) / width
