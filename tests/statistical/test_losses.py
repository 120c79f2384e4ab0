"""Coverage of linear, Huber, quantile and Poisson fits, 10^4 private and 200 public records: run by `make validate`."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical.monte_carlo import OF_THE_MODEL, together

pytestmark = pytest.mark.validate

RECORDS, PUBLIC, REPEATS = 10_000, 200, 80
EPSILONS = (1.0, 3.0)
LOWEST, HIGHEST = 0.93, 0.985
FORMULA = "x1 + x2 + x3 + g"
SLOPES = np.array([1.0, -0.5, 0.25])
STEP = 0.6
SCHEMA = hdp.Schema(
    y=hdp.Continuous(-10, 12, complete=True),
    k=hdp.Continuous(0, 15, complete=True),
    x1=hdp.Continuous(-3, 3, complete=True),
    x2=hdp.Continuous(-3, 3, complete=True),
    x3=hdp.Continuous(0, 1, complete=True),
    g=hdp.Binary(complete=True),
)
CLIPPED = {"delta": 1e-6, "mechanism": "clipped_newton"}
MODELS = {
    "linear": lambda study: hdpf.linear(f"y ~ {FORMULA}", study),
    "linear, clipped scores": lambda study: hdpf.linear(f"y ~ {FORMULA}", study),
    "huber": lambda study: hdpf.linear(f"y ~ {FORMULA}", study, loss=hdp.losses.Huber()),
    "median": lambda study: hdpf.quantile(f"y ~ {FORMULA}", study),
    "poisson": lambda study: hdpf.mestimate(f"k ~ {FORMULA}", study, loss=hdp.losses.Poisson()),
}


PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "losses.md"


@dataclass(frozen=True)
class Job:
    """One simulated data set for one model."""

    name: str
    seed: int


def simulated(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Return rows whose residuals are symmetric, of a spread that depends on a covariate, with rare large ones."""
    z = rng.multivariate_normal(np.zeros(2), [[1.0, 0.4], [0.4, 1.0]], rows).clip(-3, 3)
    x3, g = rng.uniform(size=rows), (rng.random(rows) < 0.3).astype(float)
    eta = np.column_stack([z, x3]) @ SLOPES + STEP * g
    noise = rng.normal(size=rows) * (0.7 + 0.4 * x3) * np.where(rng.random(rows) < 0.03, 3.0, 1.0)
    counts = rng.poisson(np.exp(0.2 + 0.4 * eta)).clip(0, 15)
    return pd.DataFrame(
        {"y": (1.0 + eta + noise).clip(-10, 12), "k": counts, "x1": z[:, 0], "x2": z[:, 1], "x3": x3, "g": g}
    )


def truth(name: str) -> np.ndarray:
    """Return the coefficients, the intercept first."""
    slopes = np.array([*SLOPES, STEP])
    return np.array([0.2, *(0.4 * slopes)]) if name == "poisson" else np.array([1.0, *slopes])


def covered(job: Job) -> list[tuple[str, float, float, float, float]]:
    """Return for every epsilon how many intervals, private only and pooled, held the truth, and their widths."""
    rng = np.random.default_rng([job.seed, len(job.name)])
    study = hdp.Study(
        private=simulated(rng, RECORDS),
        public=simulated(rng, PUBLIC),
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=20, delta=1e-3),
    )
    model, beta = MODELS[job.name](study), truth(job.name)
    found = []
    for epsilon in EPSILONS:
        result = model.fit(epsilon, **(CLIPPED if "clipped" in job.name else {}))
        shares, ratios = [], []
        for part in (result.private_only, result.pooled):
            limits = part.conf_int().to_numpy()
            shares.append(float(np.mean((limits[:, 0] <= beta) & (beta <= limits[:, 1]))))
            ratios.append(float(np.median(part.bse / result.public_only.bse)))
        found.append((job.name, epsilon, *shares, ratios[1]))
    return found


@pytest.fixture(scope="module")
def study() -> pd.DataFrame:
    """Return mean coverage with its standard error by model and epsilon."""
    jobs = [Job(name, seed) for name in MODELS for seed in range(REPEATS)]
    rows = [row for found in together(covered, jobs, chunksize=8) for row in found]
    columns = ["model", "epsilon", "private", "pooled", "ratio"]
    found = pd.DataFrame(rows, columns=columns).groupby(["model", "epsilon"]).agg(["mean", "sem"])
    PAGE.write_text("\n".join(page_of(found)), encoding="utf-8")
    return found


def page_of(found: pd.DataFrame) -> list[str]:
    """Return the page of the study."""
    lines = [
        "# Coverage of linear, Huber, median and Poisson fits, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. {RECORDS} private and "
        f"{PUBLIC} public records, four covariates, residuals of unequal spread with rare large ones, an outcome "
        f"declared within [-10, 12]; {REPEATS} data sets each. Shares of coefficients that 95 % intervals hold, in "
        "brackets their Monte-Carlo standard errors; the last column is the median standard error of the pooled fit "
        "over that of public rows alone. Clipped scores are for an (epsilon, 1e-6); all others are pure.",
        "",
        OF_THE_MODEL,
        "",
        "| fit | epsilon | private only | pooled | standard error |",
        "|---|---|---|---|---|",
    ]
    for (name, epsilon), row in found.iterrows():
        shares = [f"{row[part]['mean']:.3f} ({row[part]['sem']:.3f})" for part in ("private", "pooled")]
        lines.append(f"| {name} | {epsilon:g} | {shares[0]} | {shares[1]} | {row['ratio']['mean']:.2f} |")
    return [*lines, ""]


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_intervals_cover(study: pd.DataFrame, name: str, epsilon: float) -> None:
    found = study.loc[(name, epsilon)]
    for part in ("private", "pooled"):
        mean, error = found[part]["mean"], found[part]["sem"]
        assert LOWEST - error <= mean <= HIGHEST + error


@pytest.mark.parametrize("name", list(MODELS))
def test_private_records_are_worth_their_epsilon(study: pd.DataFrame, name: str) -> None:
    ratio = study["ratio"]["mean"]
    assert ratio[(name, 3.0)] < ratio[(name, 1.0)] < 0.5
