"""Problems for the solvers: ordinary ones and those that break solvers. Exact gradients and true minimisers."""

from fractions import Fraction

import mpmath
import numpy as np

from hdpstats.families.regression.rows import LinearObjective
from hdpstats.losses import LogisticLoss


def make(X, y, *, ridge=1.0, weights=None, offset=None, centre=None, linear=None) -> LinearObjective:
    """Return an objective; what is left out is trivial."""
    X = np.asarray(X, dtype=float)
    n, D = X.shape
    return LinearObjective(
        loss=LogisticLoss(),
        X=X,
        y=np.asarray(y, dtype=float),
        weights=np.ones(n) if weights is None else np.asarray(weights, dtype=float),
        offset=np.zeros(n) if offset is None else np.asarray(offset, dtype=float),
        ridge=np.broadcast_to(np.asarray(ridge, dtype=float), (D,)).copy(),
        centre=np.zeros(D) if centre is None else np.asarray(centre, dtype=float),
        linear=np.zeros(D) if linear is None else np.asarray(linear, dtype=float),
    )


def problems() -> dict[str, LinearObjective]:
    """Return named problems."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(60), rng.standard_normal((60, 3))])
    y = (rng.uniform(size=60) < 1.0 / (1.0 + np.exp(-X @ [0.2, 1.0, -0.5, 0.0]))).astype(float)
    none, one = np.zeros((0, 3)), np.array([[1.0, -2.0, 0.5]])
    copies = np.column_stack([X, X[:, 1], X[:, 1] + 1e-9 * X[:, 2]])
    return {
        "ordinary": make(X, y, ridge=2.0, linear=rng.standard_normal(4)),
        "no rows": make(none, [], ridge=0.5, linear=[3.0, -1.0, 1e-3], centre=[1.0, 2.0, 3.0]),
        "one row": make(one, [1.0], ridge=0.1),
        "separated": make(X, X[:, 1] > 0, ridge=1e-3),
        "separated, ridge 1e-6": make(X, X[:, 1] > 0, ridge=1e-6),
        "one outcome only": make(X, np.ones(60), ridge=1e-2),
        "collinear": make(copies, y, ridge=0.3),
        "far offsets": make(X, y, ridge=1.0, offset=rng.choice([-700.0, 0.0, 700.0], 60)),
        "far centre": make(X, y, ridge=5.0, centre=[40.0, -1e3, 1e3, 7.0]),
        "huge perturbation": make(X, y, ridge=4.0, linear=[1e6, -1e7, 3.0, 1e5]),
        "unequal columns": make(X * [1.0, 1e-6, 1e6, 1.0], y, ridge=[1.0, 1e-3, 1e3, 0.1]),
        "weights of all sizes": make(X, y, ridge=1.0, weights=10.0 ** rng.uniform(-12.0, 3.0, 60)),
        "weights of zero": make(X, y, ridge=1.0, weights=np.arange(60) % 3),
        "fractional outcomes": make(X, rng.uniform(size=60), ridge=0.7),
    }


def exact_gradient(objective: LinearObjective, theta, *, bits: int = 400) -> list[mpmath.mpf]:
    """Return the gradient at exact numbers, in so many bits."""
    with mpmath.workprec(bits):
        total = [mpmath.mpf(0)] * len(theta)
        columns = (objective.X, objective.y, objective.weights, objective.offset)
        for x, y, w, o in zip(*(column.tolist() for column in columns), strict=True):
            eta = mpmath.mpf(o) + sum(mpmath.mpf(a) * b for a, b in zip(x, theta, strict=True))
            residual = mpmath.mpf(w) * (1 / (1 + mpmath.exp(-eta)) - mpmath.mpf(y))
            total = [t + residual * mpmath.mpf(a) for t, a in zip(total, x, strict=True)]
        rest = (objective.ridge, objective.centre, objective.linear)
        penalty = zip(*(values.tolist() for values in rest), theta, strict=True)
        return [
            t + mpmath.mpf(r) * (b - mpmath.mpf(c)) + mpmath.mpf(s)
            for t, (r, c, s, b) in zip(total, penalty, strict=True)
        ]


def exact_hessian(objective: LinearObjective, theta) -> mpmath.matrix:
    """Return the Hessian at exact numbers, in the present precision."""
    hessian = mpmath.diag([mpmath.mpf(r) for r in objective.ridge.tolist()])
    for x, w, o in zip(objective.X.tolist(), objective.weights.tolist(), objective.offset.tolist(), strict=True):
        row = mpmath.matrix([mpmath.mpf(a) for a in x])
        eta = mpmath.mpf(o) + sum(a * b for a, b in zip(row, theta, strict=True))
        p = 1 / (1 + mpmath.exp(-eta))
        hessian += mpmath.mpf(w) * p * (1 - p) * row * row.T
    return hessian


def true_minimiser(objective: LinearObjective, start: np.ndarray, *, bits: int = 400) -> list[mpmath.mpf]:
    """Return the minimiser by Newton's method in so many bits, from a point that is close already."""
    with mpmath.workprec(bits):
        theta = [mpmath.mpf(value) for value in start.tolist()]
        inverse = exact_hessian(objective, theta) ** -1
        for _ in range(60):
            gradient = mpmath.matrix(exact_gradient(objective, theta, bits=bits))
            step = inverse * gradient
            theta = [value - step[j] for j, value in enumerate(theta)]
            if mpmath.norm(step) < mpmath.mpf(2) ** -200:
                return theta
    raise AssertionError("the reference did not converge")


def distance(a, b) -> float:
    """Return the Euclidean distance of exact points, rounded once."""
    with mpmath.workprec(400):
        terms = zip(map(number, a), map(number, b), strict=True)
        return float(mpmath.sqrt(sum(((x - y) ** 2 for x, y in terms), mpmath.mpf(0))))


def number(value) -> mpmath.mpf:
    """Return a fraction, a double or an mpf as an mpf of the present precision."""
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return +mpmath.mpf(value)
