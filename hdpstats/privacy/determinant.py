r"""The determinant in objective perturbation: coupled with the noise for the logistic loss, else in full.

**Coupled.** The coupled analysis of objective perturbation for the logistic loss: noise against curvature.

Write the private objective as :math:`\sum_i a_i \ell(\theta; z_i) + \tfrac12 \|\theta - c\|^2_\Lambda + b'\theta`
with noise density :math:`\propto \exp(-\rho K(b))`. Its minimiser has density
:math:`\nu(b_D(\theta))\,|\det \partial b_D|` (the map from noise to minimiser is a diffeomorphism). Under
replace-one, with K-halfwidth ``h`` (every record's gradient satisfies :math:`K(\nabla\ell) \le h u`, where
:math:`u = |\ell'| \le 1`), the log density ratio is at most

.. math:: \rho h (u + u') + \rho c + \log\{1 + 4 r\, u (1 - u)\},

where ``c`` is the widening of the noise cells, ``r`` bounds :math:`\tfrac14 a\,x'\Lambda^{-1}x` and the last
term is the determinant of the record that is present; the other record's determinant has the good sign. The
logistic loss couples the two terms, because :math:`u = 1 - p` and :math:`\ell'' = p(1 - p)` belong to the same
record. With :math:`\rho h = e_b / 2` the supremum is

.. math:: \tfrac12 e_b + \sup_p\,\{\tfrac12 e_b (1 - p) + \log(1 + 4 r p (1 - p))\}.

The bracket is concave in ``p`` with slope :math:`4r - e_b/2` at 0: **if 8 r <= e_b the determinant is free** and the
whole of :math:`e_b` goes into noise. Otherwise the supremum is attained at the smaller root of a quadratic. The full
proof, step by step, is the vignette ``explanation/objective-perturbation``.

Where a person is added or removed the record ``u'`` is absent: with :math:`\rho h = e_b` the loss is the bracket alone
with :math:`e_b` in place of :math:`e_b / 2`, and the determinant is free if 4 r <= e_b.

**Uncoupled.** For any convex loss with a Lipschitz score the determinant costs a part of epsilon.

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

So the loss is :math:`\rho S + J` with :math:`J = \log(1 + \sup \ell''\|x\|^2 / \lambda)`, and the rest of epsilon is
for noise. Where noise is drawn on a lattice and thought of as spread over its cells, ``S`` grows by a cell.

K. Chaudhuri, C. Monteleoni, A. Sarwate (2011), Differentially private empirical risk minimization, have twice ``J``.
"""

import math
from fractions import Fraction

from hdpstats._base.errors import MechanismError
from hdpstats.privacy.sensitivity import Relation

DOWN = 1.0 - 2.0**-30
"""Safety factor of every float that enters a guarantee: float error here is below 2^-45."""


def coupled_loss(noise_epsilon: float, curvature_ratio: float, *, relation: Relation = Relation.REPLACE_ONE) -> float:
    """Return the privacy loss of noise ``e_b`` at curvature ratio ``r``.

    Parameters
    ----------
    noise_epsilon
        ``e_b``: the noise rate times the K-distance between the gradients of neighbours, twice the halfwidth of one
        record's gradient under replace-one and once under add-or-remove.
    curvature_ratio
        ``r``: the supremum of a quarter of the weighted squared row length in the metric of the ridge.
    relation
        Who is a neighbour of whom.
    """
    replaced = relation is Relation.REPLACE_ONE
    half, r = noise_epsilon / (2.0 if replaced else 1.0), curvature_ratio
    if 4.0 * r <= half:
        return noise_epsilon
    b, c = 2.0 + half, 1.0 - half / (4.0 * r)  # of half p^2 - b p + c = 0: divided by 4 r, so that nothing overflows
    p = min(1.0, 2.0 * c / (b + math.sqrt(b * b - 4.0 * half * c)))
    return (half if replaced else 0.0) + half * (1.0 - p) + math.log1p(4.0 * r * p * (1.0 - p))


def coupled_noise_epsilon(
    epsilon: Fraction, curvature_ratio: Fraction, *, relation: Relation = Relation.REPLACE_ONE
) -> Fraction:
    """Return the largest certified ``e_b`` whose coupled loss is at most ``epsilon``, rounded down.

    Exact (``e_b = epsilon``) where the determinant is free; otherwise found by bisection and lowered by 2^-30.

    Raises
    ------
    MechanismError
        When the ridge is so small that the determinant alone exceeds epsilon.
    """
    if (8 if relation is Relation.REPLACE_ONE else 4) * curvature_ratio <= epsilon:
        return epsilon
    r, target = float(curvature_ratio) / DOWN, float(epsilon) * DOWN
    low, high = 0.0, target
    if coupled_loss(low, r, relation=relation) > target:
        raise MechanismError(
            f"the ridge is too small for epsilon = {float(epsilon):g}: its determinant alone costs "
            f"{coupled_loss(low, r, relation=relation):.3g}; use a larger ridge",
            epsilon=epsilon,
        )
    for _ in range(200):
        middle = 0.5 * (low + high)
        fits = coupled_loss(middle, r, relation=relation) <= target
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low * DOWN)


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
