"""Spells for tests of the hazard kernels, and the plain expansion to person-period rows that they must agree with."""

import numpy as np
from scipy.special import expit, log_expit, log_ndtr
from scipy.stats import norm

from hdpstats.families.hazard.likelihood import LARGEST_TABLE, HazardData, Likelihood, table_size
from hdpstats.losses import LINKS
from hdpstats.losses.base import HazardLink


class LogLog(HazardLink):
    """``p = exp(-e^-eta)``, the complementary log-log link of the opposite event: surviving has the lighter tail."""

    name = "loglog"
    analytic = 1.57  # singularities at -log(2 pi) +- i pi / 2

    def survive(self, eta):
        return LINKS["cloglog"].event(-eta).mirrored()

    def event(self, eta):
        return LINKS["cloglog"].survive(-eta).mirrored()

    def self_concordance(self, eta):
        return LINKS["cloglog"].self_concordance(-eta)

    def hazard(self, eta):
        return np.exp(-np.exp(-eta))

    def predictor(self, hazard):
        return -np.log(-np.log(hazard))

    def exact_scores(self, numbers, eta, log_cap):
        raise NotImplementedError("this link is for the likelihood only")


def use(monkeypatch, method: str) -> None:
    """Let likelihoods be summed term by term ("direct"), or from tables where these can be made ("tabulated")."""

    def tabulates(self: Likelihood, eta: np.ndarray) -> bool:
        made = method == "tabulated" and len(eta) > 0 and np.isfinite(np.ptp(eta))
        return bool(made and table_size(self.link, self.data.A, eta) <= LARGEST_TABLE)

    monkeypatch.setattr(Likelihood, "_tabulates", tabulates)


def baseline(q: int) -> np.ndarray:
    """Return a smooth baseline of three features of the interval."""
    s = np.arange(1, q + 1) / q
    return np.column_stack([np.ones(q), s, np.sin(3 * s)])


def spells(
    seed: int, *, m: int = 400, q: int = 12, p: int = 2, dummies: bool = False, plain: bool = False
) -> HazardData:
    """Draw spells with late entry, empty spells, weights (some zero) and offsets; ``plain`` has none of these."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((m, p))
    entry = np.zeros(m, int) if plain else np.where(rng.random(m) < 0.5, 0, rng.integers(0, q + 1, m))
    waiting = np.ceil(rng.exponential(0.8 * q * np.exp(-0.5 * Z.sum(axis=1)))).astype(int)
    censoring = entry + rng.integers(0 if not plain else 1, q + 1, m)
    exit_ = np.minimum(np.minimum(entry + waiting, censoring), q)
    return HazardData(
        A=np.eye(q) if dummies else baseline(q),
        Z=Z,
        entry=entry,
        exit=exit_,
        event=(entry + waiting == exit_) & (exit_ > 0),
        weights=np.ones(m) if plain else rng.integers(0, 4, m) / 2,
        offset=np.zeros(m) if plain else rng.uniform(-1, 1, m),
    )


def expanded(data: HazardData) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return design (rows, e + p), outcome, weights and offset of the person-period rows, by two plain loops."""
    rows = [(i, s) for i in range(len(data.Z)) for s in range(data.entry[i], data.exit[i])]
    i, s = (np.array(each, dtype=int) for each in zip(*rows, strict=True))
    y = (data.event[i] == 1) & (s == data.exit[i] - 1)
    return np.hstack([data.A[s], data.Z[i]]), y, data.weights[i], data.offset[i]


def expanded_derivatives(data: HazardData, link: str, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return minus the log-likelihood, its gradient and its Hessian, row by row of the expanded table."""
    X, y, w, offset = expanded(data)
    eta = X @ theta + offset
    if link == "logit":
        value, score = -np.where(y, log_expit(eta), log_expit(-eta)), expit(eta) - y
        curvature = expit(eta) * expit(-eta)
    elif link == "cloglog":
        u = np.exp(eta)
        g = u / np.expm1(np.minimum(u, 700.0))
        value, score = np.where(y, -np.log(-np.expm1(-u)), u), np.where(y, -g, u)
        curvature = np.where(y, g * (g + u - 1), u)
    elif link == "loglog":
        u = np.exp(-eta)
        g = u / np.expm1(np.minimum(u, 700.0))
        value, score = np.where(y, u, -np.log(-np.expm1(-u))), np.where(y, -u, g)
        curvature = np.where(y, u, g * (g + u - 1))
    else:
        assert link == "probit"
        sign = np.where(y, -1.0, 1.0)
        mills = np.exp(norm.logpdf(eta) - log_ndtr(-sign * eta))
        value, score = -log_ndtr(-sign * eta), sign * mills
        curvature = mills * (mills - sign * eta)
    return float(w @ value), X.T @ (w * score), X.T @ (X * (w * curvature)[:, None])


def expanded_fit(data: HazardData, link: str, *, ridge: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return the maximum by Newton's method with halving on the expanded table."""
    theta = np.zeros(len(ridge))
    penalty = lambda at: 0.5 * float(ridge @ (at - centre) ** 2)  # noqa: E731
    for _ in range(60):
        value, gradient, hessian = expanded_derivatives(data, link, theta)
        step = np.linalg.lstsq(hessian + np.diag(ridge), gradient + ridge * (theta - centre), rcond=None)[0]
        while expanded_derivatives(data, link, theta - step)[0] + penalty(theta - step) > value + penalty(theta) + 1e-9:
            step = step / 2
        theta = theta - step
    return theta
