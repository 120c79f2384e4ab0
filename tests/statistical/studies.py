"""The simulation studies behind ``vignettes/validation``: accuracy and coverage through the public API."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.designs import ar_design
from tests.statistical.designs import DESIGNS, Design

EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
COVERAGE_EPSILONS = (0.5, 1.0, 3.0, 10.0)
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
    schema = hdp.Schema(
        {name: hdp.Continuous(-1, 1, complete=True) for name in names} | {"y": hdp.Binary(complete=True)}
    )
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


PATIENTS = "event3 ~ age + size + grade3 + log1p(nodes) + hormon"


def patients_schema() -> hdp.Schema:
    """Return the schema of the breast-cancer studies."""
    return hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        nodes=hdp.Continuous(0, 40, missing=1),
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        grade3=hdp.Binary(complete=True),
        hormon=hdp.Binary(complete=True),
        event3=hdp.Binary(complete=True),
    )


@dataclass(frozen=True)
class Shift:
    """Whose covariates the public rows have ("gbsg": other ones; "rotterdam": the same), epsilon, and se_share."""

    public: str
    epsilon: float
    se_share: float


def one_shift(seed: int, shift: Shift) -> tuple[np.ndarray, np.ndarray]:
    """Simulate outcomes for Rotterdam's covariates and for public ones; return coverage of the two estimates.

    The coefficients are the same in both.
    """
    rng = np.random.default_rng(seed)
    frames = {"rotterdam": hdp.datasets.load_rotterdam(), "gbsg": hdp.datasets.load_gbsg()}
    schema = patients_schema()
    truth = hdpf.logit(PATIENTS, data=hdp.Study(public=frames["rotterdam"], schema=schema)).fit_public()

    def simulated(frame: pd.DataFrame, n: int) -> pd.DataFrame:
        drawn = frame.sample(n, replace=True, random_state=rng).reset_index(drop=True)
        drawn["nodes"] = drawn["nodes"].clip(0, 40)
        return drawn.assign(event3=(rng.random(n) < truth.predict(drawn).to_numpy()).astype(float))

    study = hdp.Study(
        private=simulated(frames["rotterdam"], 2982),
        public=simulated(frames[shift.public], 555),
        schema=schema,
        budget=hdp.Budget(epsilon=shift.epsilon),
    )
    result = hdpf.logit(PATIENTS, data=study).fit(epsilon=shift.epsilon, se_share=shift.se_share)
    beta = truth.params.to_numpy()

    def hits(limits: np.ndarray) -> np.ndarray:
        return (limits[:, 0] <= beta) & (beta <= limits[:, 1])

    return hits(result.private_only.conf_int().to_numpy()), hits(result.pooled.conf_int().to_numpy())


def _run_shift(arguments: tuple[int, Shift]) -> tuple[np.ndarray, np.ndarray]:
    return one_shift(*arguments)


def simulate_shift(shift: Shift, *, repeats: int) -> pd.DataFrame:
    """Return coverage per coefficient (rows: private_only, pooled)."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(_run_shift, [(seed, shift) for seed in range(repeats)], chunksize=8))
    names = hdpf.logit(PATIENTS, data=hdp.Study(schema=patients_schema(), public=hdp.datasets.load_gbsg()))
    terms = names.fit_public().params.index
    rows = [np.mean([pair[k] for pair in found], axis=0) for k in range(2)]
    return pd.DataFrame(rows, index=["private_only", "pooled"], columns=terms)


def _run_design(arguments: tuple[int, int]) -> list[tuple[float, float, float]]:
    place, seed = arguments
    design = DESIGNS[place]
    private, public, beta = design.simulate(seed)
    study = hdp.Study(private=private, public=public, schema=design.schema(), budget=hdp.Budget(epsilon=100))
    model = hdpf.logit(design.formula, data=study)
    found = []
    for epsilon in COVERAGE_EPSILONS:
        fit = _fit(model.fit(epsilon), epsilon, beta)
        found.append((epsilon, fit.covered_private, fit.covered_pooled))
    return found


def simulate_design(design: Design, *, repeats: int) -> pd.DataFrame:
    """Return mean coverage of the private-only and of the pooled intervals per epsilon."""
    jobs = [(DESIGNS.index(design), seed) for seed in range(repeats)]
    with ProcessPoolExecutor(max_workers=2) as pool:
        rows = [row for found in pool.map(_run_design, jobs, chunksize=4) for row in found]
    return pd.DataFrame(rows, columns=["epsilon", "private_only", "pooled"]).groupby("epsilon").mean()
