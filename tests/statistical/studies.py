"""The simulation studies behind ``vignettes/validation``: accuracy and coverage through the public API."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.designs import ar_design
from tests.statistical.designs import DESIGNS, Design
from tests.statistical.monte_carlo import together

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
    """What one simulated fit gave: the relative error, and shares of coefficients covered at 95 %."""

    epsilon: float
    error: float
    covered_private: float
    covered_pooled: float


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
    return [_fit(model.fit(epsilon, se_share=0), epsilon, beta) for epsilon in epsilons]


def _fit(result: hdp.Result, epsilon: float, beta: np.ndarray) -> Fit:
    def covered(estimate: object) -> float:
        if estimate is None:
            return np.nan
        limits = estimate.conf_int().to_numpy()
        return float(np.mean((limits[:, 0] <= beta) & (beta <= limits[:, 1])))

    return Fit(
        epsilon=epsilon,
        error=float(np.linalg.norm(result.params.to_numpy() - beta) / np.linalg.norm(beta)),
        covered_private=covered(result.private_only),
        covered_pooled=covered(result.pooled),
    )


def simulate(
    setting: Setting, *, repeats: int, first_seed: int, epsilons: tuple[float, ...] = EPSILONS
) -> pd.DataFrame:
    """Return one row per data set and epsilon."""
    found = together(partial(one_data_set, setting, epsilons=epsilons), range(first_seed, first_seed + repeats))
    return pd.DataFrame([vars(fit) for fits in found for fit in fits])


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


def simulate_shift(shift: Shift, *, repeats: int) -> pd.DataFrame:
    """Return coverage per coefficient (rows: private_only, pooled)."""
    found = together(partial(one_shift, shift=shift), range(repeats), chunksize=8)
    names = hdpf.logit(PATIENTS, data=hdp.Study(schema=patients_schema(), public=hdp.datasets.load_gbsg()))
    terms = names.fit_public().params.index
    rows = [np.mean([pair[k] for pair in found], axis=0) for k in range(2)]
    return pd.DataFrame(rows, index=["private_only", "pooled"], columns=terms)


def one_design(place: int, seed: int) -> list[tuple[float, float, float]]:
    """Simulate one data set of a design; return every epsilon with coverage of the two estimates."""
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
    found = together(partial(one_design, DESIGNS.index(design)), range(repeats))
    rows = [row for each in found for row in each]
    return pd.DataFrame(rows, columns=["epsilon", "private_only", "pooled"]).groupby("epsilon").mean()
