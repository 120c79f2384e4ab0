"""The simulation studies behind ``vignettes/validation``: accuracy and coverage through the public API."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.designs import ar_design

EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
COLUMNS = 10


@dataclass(frozen=True)
class Setting:
    """One design: private and public records, and whether public rows are used."""

    records: int
    public: int
    use_public: bool = True


@dataclass(frozen=True)
class Fit:
    """What one simulated fit gave: relative errors and shares of coefficients covered at 95 %."""

    epsilon: float
    error: float
    public_error: float
    covered_private: float
    covered_pooled: float
    width: float


def _frame(X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])]).assign(y=y)


def one_data_set(setting: Setting, seed: int, epsilons: tuple[float, ...] = EPSILONS) -> list[Fit]:
    """Simulate one data set and fit it at every epsilon."""
    X, y, X_public, y_public, beta = ar_design(setting.records, COLUMNS, setting.public, seed)
    names = [f"x{j + 1}" for j in range(COLUMNS)]
    schema = hdp.Schema({name: hdp.Continuous(-1, 1) for name in names} | {"y": hdp.Binary()})
    study = hdp.Study(
        private=_frame(X, y),
        public=_frame(X_public, y_public) if setting.use_public else None,
        schema=schema,
        budget=hdp.Budget(epsilon=100),
    )
    row_norm = None if setting.use_public else 1.0
    model = hdpf.logit("y ~ " + " + ".join(names), data=study, row_norm=row_norm)
    return [_fit(model.fit(epsilon), epsilon, beta) for epsilon in epsilons]


def _fit(result: hdp.Result, epsilon: float, beta: np.ndarray) -> Fit:
    def relative(values: np.ndarray) -> float:
        return float(np.linalg.norm(values - beta) / np.linalg.norm(beta))

    def covered(estimate: object) -> float:
        if estimate is None:
            return np.nan
        limits = estimate.conf_int().to_numpy()
        return float(np.mean((limits[:, 0] <= beta) & (beta <= limits[:, 1])))

    limits = result.conf_int().to_numpy()
    public = result.public_only
    return Fit(
        epsilon=epsilon,
        error=relative(result.params.to_numpy()),
        public_error=np.nan if public is None else relative(public.params.to_numpy()),
        covered_private=covered(result.private_only),
        covered_pooled=covered(result.pooled),
        width=float(np.mean(limits[:, 1] - limits[:, 0])),
    )


def _run(arguments: tuple[Setting, int, tuple[float, ...]]) -> list[Fit]:
    return one_data_set(*arguments)


def simulate(
    setting: Setting, *, repeats: int, first_seed: int, epsilons: tuple[float, ...] = EPSILONS
) -> pd.DataFrame:
    """Return one row per data set and epsilon."""
    jobs = [(setting, first_seed + k, epsilons) for k in range(repeats)]
    with ProcessPoolExecutor(max_workers=2) as pool:
        fits = [fit for found in pool.map(_run, jobs, chunksize=4) for fit in found]
    return pd.DataFrame([vars(fit) for fit in fits])


def summarise(table: pd.DataFrame, column: str, statistic: Callable[[np.ndarray], float]) -> pd.DataFrame:
    """Return a statistic per epsilon with its bootstrap standard error (over data sets)."""
    rng = np.random.default_rng(0)
    rows = []
    for epsilon, part in table.groupby("epsilon"):
        values = part[column].to_numpy()
        again = [statistic(rng.choice(values, len(values))) for _ in range(400)]
        rows.append({"epsilon": epsilon, "value": statistic(values), "error": float(np.std(again))})
    return pd.DataFrame(rows).set_index("epsilon")
