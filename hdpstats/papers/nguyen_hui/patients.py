"""Survival data prepared as in Nguyen and Hui (2017, section 6.1), and the exact fits that their algorithms perturb."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer
from hdpstats.formulas.baseline import spline
from hdpstats.records.timegrid import MOST_INTERVALS, TimeGrid
from hdpstats.solvers.hazard import HazardData, HazardFit, fit_hazard

MOST_KNOTS: Final = 20


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Patients:
    """A survival study in discrete time.

    Attributes
    ----------
    covariates : tuple of str
        Their names.
    data : HazardData
        ``A`` (q, e): a natural cubic spline at ``s/q``. ``Z`` (n, p): centred covariates, every row in the unit ball.
        ``exit`` and ``event`` (n,): the last interval at risk, and whether the event happened in it.
    """

    covariates: tuple[str, ...]
    data: HazardData

    @property
    def people(self) -> int:
        """``n``."""
        return self.data.spells

    @property
    def dimension(self) -> int:
        """``e + p``: the number of coefficients, the baseline's first."""
        return int(self.data.A.shape[1]) + len(self.covariates)


def prepare(
    frame: pd.DataFrame, *, time: str, event: str, covariates: list[str], intervals: int = 200, knots: int = 3
) -> Patients:
    """Prepare a study as the paper does. NOT private: scales and the length of follow-up are learned from the rows.

    Times are divided by the longest and cut into intervals, ``ceil(q t / max t)``. Covariates are divided by their
    range, centred, and divided by the largest norm of a row. (The paper says that they are "normalised to have zero
    mean and fitted inside the unit sphere". Of the readings tried, the division by the range agrees best with its
    figure 3.)

    Parameters
    ----------
    frame : DataFrame
        One row per person, complete.
    time, event : str
        Columns with the length of follow-up and, as 0 or 1, whether it ended with the event.
    covariates : list of str
        Columns with numbers.
    intervals, knots : int
        ``q`` and ``e``.

    Raises
    ------
    ArgumentError
        If a cell is no finite number, an event neither 0 nor 1, no time positive, or a covariate constant.
    """
    q = integer(intervals, name="intervals", lower=2, upper=MOST_INTERVALS)
    e = integer(knots, name="knots", lower=3, upper=MOST_KNOTS)
    cells = frame[[*covariates, time, event]].to_numpy(dtype=np.float64)
    X, times, happened = cells[:, :-2], cells[:, -2], cells[:, -1]
    if not np.all(np.isfinite(cells)) or not np.max(times, initial=0.0) > 0.0 or np.any(np.ptp(X, axis=0) == 0.0):
        raise ArgumentError(
            "frame must hold finite numbers, a positive time and covariates that vary; drop incomplete rows first",
            argument="frame",
        )
    if not np.all((happened == 0.0) | (happened == 1.0)):
        raise ArgumentError(f"column {event!r} must hold 0 and 1", argument="event")
    scaled = X / np.ptp(X, axis=0)
    scaled -= scaled.mean(axis=0)
    grid = TimeGrid(tuple(float(cut) for cut in range(1, q + 1)))
    data = HazardData(
        A=spline(grid, df=e),
        Z=scaled / np.max(np.linalg.norm(scaled, axis=1)),
        entry=np.zeros(len(X), dtype=np.int64),
        exit=np.maximum(grid.interval_of(np.ceil(q * times / np.max(times))), 1),
        event=happened.astype(np.int64),
        weights=np.ones(len(X)),
        offset=np.zeros(len(X)),
    )
    return Patients(covariates=tuple(covariates), data=data)


def fit(
    patients: Patients,
    *,
    link: str = "logit",
    ridge: float = 0.0,
    linear: FloatArray | None = None,
    start: FloatArray | None = None,
) -> HazardFit:
    r"""Find the minimiser (e + p,) of :math:`\sum_i \ell_i(f) + \frac{\rho}{2}\|f\|^2 + b'f`. NOT private: exact.

    Parameters
    ----------
    link : {"logit", "cloglog", "probit"}
        Of the hazard; the paper's algorithms take the logit.
    ridge : number
        ``rho``, in the scale of sums: ``n`` times the paper's ``Lambda``. Positive where there is a linear term.
    linear : (e + p,), optional
        ``b``.
    start : (e + p,), optional
        Where Newton's method begins.
    """
    penalty = np.full(patients.dimension, ridge) if ridge > 0.0 else None
    centre = None if linear is None else -linear / ridge  # completes the square
    return fit_hazard(patients.data, link, ridge=penalty, centre=centre, start=start)


def relative_error(estimates: FloatArray, truth: FloatArray) -> FloatArray:
    """Return ``||f - f*|| / ||f*||`` (...) of estimates (..., D). NOT private: ``f*`` is exact.

    Its mean is the paper's MRE (equation 9).
    """
    return np.asarray(np.linalg.norm(estimates - truth, axis=-1) / np.linalg.norm(truth))
