"""Spells for hazard models: people of a study, and many drawn ones."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Spells(NamedTuple):
    """Baseline features (q, 3); covariates (m, p); last interval and event (m,)."""

    A: FloatArray
    Z: FloatArray
    exit: IntArray
    event: IntArray


def baseline(intervals: int) -> FloatArray:
    """Return a natural cubic spline of the share of follow-up, with knots 0, 1/2 and 1."""
    t = np.arange(1, intervals + 1) / intervals

    def d(knot: float) -> FloatArray:
        return np.asarray((np.maximum(t - knot, 0.0) ** 3 - np.maximum(t - 1.0, 0.0) ** 3) / (1.0 - knot))

    return np.column_stack([np.ones(intervals), t, d(0.0) - d(0.5)])


def flchain(intervals: int) -> Spells:
    """Return the 7874 people of flchain with six covariates, centred and scaled into the unit ball."""
    from hdpstats.schema.datasets import load_flchain

    frame = load_flchain()
    frame["male"] = (frame["sex"] == "M").astype(float)
    Z = frame[["age", "male", "kappa", "lambda_", "flc_grp", "mgus"]].to_numpy(dtype=np.float64)
    Z = (Z - Z.mean(axis=0)) / np.ptp(Z, axis=0)
    Z /= np.linalg.norm(Z, axis=1).max()
    time = frame["futime"].to_numpy(dtype=np.float64)
    last = np.maximum(np.ceil(intervals * time / time.max()), 1).astype(np.int64)
    return Spells(baseline(intervals), Z, last, frame["death"].to_numpy(dtype=np.int64))


def drawn(people: int, intervals: int, *, covariates: int = 10, seed: int = 1) -> Spells:
    """Draw people with Gaussian covariates in the unit ball, hazards of about 1/2 in all, and censoring."""
    rng = np.random.default_rng(seed)  # noqa: TID251  (data for a benchmark, not noise of a release)
    A = baseline(intervals)
    Z = rng.standard_normal((people, covariates))
    Z /= np.sqrt(np.max(np.einsum("ij,ij->i", Z, Z)))
    eta = Z @ rng.uniform(-3.0, 3.0, covariates)
    hazard = np.cumsum(np.exp(A @ np.array([-5.2 - np.log(intervals / 200), 1.0, -1.0])))
    waiting = np.searchsorted(hazard, rng.exponential(size=people) / np.exp(eta)) + 1
    censoring = np.minimum(rng.integers(intervals // 4, 2 * intervals, people), intervals)
    return Spells(A, Z, np.minimum(waiting, censoring), (waiting <= censoring).astype(np.int64))
