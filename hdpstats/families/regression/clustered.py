r"""The covariance of a fit to public people with several rows: a sandwich with people in its middle.

With ``A`` the Hessian of the weighted losses, and the score of a person the sum of the weighted scores of the rows,

.. math:: \operatorname{Cov}(\hat\theta) = A^{-1} \Big\{\sum_i s_i s_i'\Big\} A^{-1}, \qquad
          s_i = \sum_j \omega_{ij}\, \ell'_{ij}\, x_{ij},

which is what `statsmodels.GEE` with an independence working correlation and ``geepack::geeglm`` print: CR0 (Liang and
Zeger 1986). Of few people it is too small, since residuals of a fit are smaller than errors. `adjusted` makes it right
on average where outcomes are independent and the variance is the model's: CR2 (Bell and McCaffrey 2002; Pustejovsky and
Tipton 2018). Covariances of private estimates rest on public people by CR2.
"""

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.base import summed

LEAST = 1e-10
NONE = 1e-14
"""Eigenvalues of what adjusts residuals below these, the first times a squared variance over the largest, are taken for
0: along such directions a person's residuals vanish."""


def clustered_meat(
    X: FloatArray,
    person: IntArray,
    *,
    weights: FloatArray,
    curvatures: FloatArray,
    scores: FloatArray,
    inverse: FloatArray | None = None,
    variances: FloatArray | None = None,
) -> FloatArray:
    """Return the sum of outer products of people's scores (D, D); adjusted for few people with ``inverse`` (D, D).

    Parameters
    ----------
    X, person
        Rows (n, D), those of a person together, and whose they are.
    weights, curvatures, scores
        Of each row (n,): its whole weight, and the derivatives of its loss.
    inverse
        The inverse of the Hessian of the weighted losses; None for CR0.
    variances
        See `adjusted`.
    """
    if inverse is not None:
        t = adjusted(
            X, person, weights=weights, curvatures=curvatures, scores=scores, inverse=inverse, variances=variances
        )
        scores = np.sqrt(curvatures) * t
    of_people = summed(person, (weights * scores)[:, None] * X, people=int(person.max(initial=-1)) + 1)
    return np.asarray(of_people.T @ of_people)


def adjusted(
    X: FloatArray,
    person: IntArray,
    *,
    weights: FloatArray,
    curvatures: FloatArray,
    scores: FloatArray,
    inverse: FloatArray,
    variances: FloatArray | None = None,
) -> FloatArray:
    r"""Return standardised residuals ``l' / sqrt(l'')`` (n,), each person's multiplied by a matrix of leverages.

    With rows :math:`z = x \sqrt{\ell''}` and ``M`` the inverse Hessian, residuals of a person have the covariance
    :math:`B = I - H - H' + Z M \{\sum \omega^2 z z'\} M Z'`, :math:`H = Z M Z' \Omega`, where errors are independent
    with variance 1. They are multiplied by :math:`(\Phi B \Phi)^{-1/2} \Phi`, the symmetric root of the
    (pseudo-)inverse, so that they have that variance again; :math:`\Phi` are the variances of outcomes under the model.
    This is CR2 with these as the working ones, and of the roots that have this property the one of Pustejovsky and
    Tipton (2018), as in R's ``clubSandwich``.

    ``variances`` (n / k, k, k) are ``Phi`` for each k of the rows one after the other; by default it is ``curvatures``.
    """
    blocks = curvatures[:, None, None] if variances is None else variances
    k = blocks.shape[1]
    root = np.sqrt(curvatures)
    Z, t = X * root[:, None], np.divide(scores, root, out=np.zeros(len(root)), where=root > 0.0)
    middle = inverse @ (Z.T @ ((weights**2)[:, None] * Z)) @ inverse
    begins = np.flatnonzero(np.diff(person, prepend=-1))
    numbers = np.diff(begins, append=len(person))
    out = np.empty(len(t))
    for number in np.unique(numbers):  # people with as many rows at a time
        rows = begins[numbers == number][:, None] + np.arange(number)
        own, w = Z[rows], weights[rows]
        H = own @ inverse @ np.swapaxes(own * w[:, :, None], 1, 2)
        B = np.eye(number) - H - np.swapaxes(H, 1, 2) + own @ middle @ np.swapaxes(own, 1, 2)
        Phi = np.zeros_like(B)
        for first in range(0, number, k):
            Phi[:, first : first + k, first : first + k] = blocks[rows[:, first] // k]
        largest = np.einsum("pii->pi", Phi).max(axis=1)[:, None, None]
        Phi = Phi / np.maximum(largest, np.finfo(float).tiny)
        least = np.maximum(LEAST * np.linalg.eigvalsh(Phi)[:, :1] ** 2, NONE)
        sizes, vectors = np.linalg.eigh(Phi @ B @ Phi)
        factors = np.where(sizes > least, 1.0 / np.sqrt(np.maximum(sizes, least)), 0.0)
        along = np.einsum("pji,pj->pi", vectors, np.einsum("pij,pj->pi", Phi, t[rows])) * factors
        out[rows] = np.einsum("pij,pj->pi", vectors, along)
    return out
