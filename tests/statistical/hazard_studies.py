"""The simulation studies behind ``vignettes/validation/hazard.md``: accuracy and coverage through the public API."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from hdpstats.families.hazard.likelihood import HazardData, fit_hazard
from hdpstats.papers import unit_ball_trial
from hdpstats.papers.nguyen_hui import Patients, objective_perturbation, output_perturbation
from tests.statistical.hazard_designs import DESIGNS, HazardDesign, Scene
from tests.statistical.monte_carlo import together

RIDGES = np.geomspace(1e-4, 10.0, 11)
"""The paper's regularisation parameter: its Algorithm 1 is given the best of these in hindsight."""


COVERED = ("private_only slopes", "private_only baseline", "pooled slopes", "pooled baseline", "S(t)")
"""Columns of shares covered; those of a pooled estimate are missing where there is none."""

MOST_REPORT = 0.98
"""The share of studies of a design that must report every coefficient."""


@dataclass(frozen=True)
class Fit:
    """A call of `fit` that is studied."""

    name: str
    options: dict[str, object] = field(default_factory=dict)


def one_scene(scene: Scene, fits: Sequence[Fit]) -> list[dict[str, object]]:
    """Fit one simulated study in several ways: a row each, with errors of the slopes and shares covered at 95 %."""
    model = scene.discrete_hazard()
    return [_row(scene, model.fit(**fit.options), fit.name) for fit in fits]


def _row(scene: Scene, result: hdp.Result, name: str) -> dict[str, object]:
    row: dict[str, object] = {"fit": name, "error": _error(scene, result.params)}
    for label in ("penalised", "private_only", "pooled"):
        estimate = getattr(result, label)
        if estimate is None:
            continue
        limits = estimate.conf_int().to_numpy()
        covered = (limits[:, 0] <= scene.truth) & (scene.truth <= limits[:, 1])
        told = estimate.params.notna().to_numpy()
        row |= {
            f"{label} error": _error(scene, estimate.params),
            f"{label} slopes": float(np.mean(covered[scene.is_slope & told])),
            f"{label} baseline": float(np.mean(covered[~scene.is_slope & told])),
        }
    if result.params.isna().any():  # not estimable, where public people of a rare level had no event: no curves either
        return row | {"S(t)": np.nan}
    curves = result.predict_survival(scene.at, times=scene.times)
    truth = scene.survival.ravel()
    inside = (curves["conf_low"].to_numpy() <= truth) & (truth <= curves["conf_high"].to_numpy())
    return row | {"S(t)": float(np.mean(inside))}


def _error(scene: Scene, params: pd.Series) -> float:
    return float(np.linalg.norm((params.to_numpy() - scene.truth)[scene.is_slope]))


def _run(seed: int, make: Callable[[int], Scene], fits: Sequence[Fit]) -> list[dict[str, object]]:
    return one_scene(make(seed), fits)


def simulate(make: Callable[[int], Scene], fits: Sequence[Fit], *, repeats: int, first_seed: int) -> pd.DataFrame:
    """Return one row per simulated study and fit. ``make`` must be picklable."""
    found = together(partial(_run, make=make, fits=fits), range(first_seed, first_seed + repeats), chunksize=1)
    return pd.DataFrame([row for rows in found for row in rows])


def summary(table: pd.DataFrame, column: str, statistic: Callable[[np.ndarray], float]) -> tuple[float, float]:
    """Return a statistic of a column with its bootstrap standard error (over studies); NaN where there is none.

    Studies that do not have it, as they report not all coefficients, are left out; they must be one in fifty at most.
    """
    if column not in table:
        return np.nan, np.nan
    rng, values = np.random.default_rng(0), table[column].dropna().to_numpy(dtype=float)
    assert len(values) >= MOST_REPORT * len(table), f"{column}: reported in {len(values)} of {len(table)} studies"
    again = [statistic(rng.choice(values, len(values))) for _ in range(400)]
    return float(statistic(values)), float(np.std(again))


@dataclass(frozen=True)
class FromDesign:
    """A picklable way to draw from one of `DESIGNS`."""

    place: int

    def __call__(self, seed: int) -> Scene:
        """Draw."""
        return DESIGNS[self.place].scene(seed)


def simulate_design(design: HazardDesign, *, repeats: int) -> pd.DataFrame:
    """Return one row per study simulated from a design."""
    fit = Fit("objective", {"epsilon": design.epsilon, "se_share": design.se_share})
    return simulate(FromDesign(DESIGNS.index(design)), [fit], repeats=repeats, first_seed=1)


def paper(seed: int, records: int) -> dict[str, object]:
    """Fit one unit-ball trial as the paper prints it, and without privacy; errors of the slopes."""
    trial = unit_ball_trial(records + 200, seed=seed)
    frame = trial.frame.iloc[200:]
    patients = Patients(
        covariates=trial.covariates,
        data=HazardData(
            A=trial.baseline,
            Z=frame[list(trial.covariates)].to_numpy(),
            entry=np.zeros(records, dtype=np.int64),
            exit=frame["time"].to_numpy(),
            event=frame["event"].to_numpy(),
            weights=np.ones(records),
            offset=np.zeros(records),
        ),
    )
    e = len(trial.alpha)

    def errors(theta: np.ndarray) -> np.ndarray:
        return np.linalg.norm(theta[..., e:] - trial.beta, axis=-1)

    row: dict[str, object] = {"not private": float(errors(fit_hazard(patients.data, "logit").theta))}
    for place, ridge in enumerate(RIDGES):
        draws = output_perturbation(patients, epsilon=1.0, regularisation=ridge, seed=seed, draws=20)
        row[f"1 at {place}"] = float(np.median(errors(draws)))
        drawn = objective_perturbation(patients, epsilon=1.0, regularisation=ridge, seed=seed)
        row[f"2 at {place}"] = float(np.median(errors(drawn)))
    return row
