"""Weights of public rows before and after calibration to a description, Rotterdam by gbsg: run by ``make validate``."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from tests.statistical.monte_carlo import together

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "calibrated-weights.md"
DATA_SETS = 60
COLUMNS = ["age", "nodes", "size", "hormon", "grade3"]
SHOWN = ["age", "nodes", "hormon", "grade3"]
SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    hormon=hdp.Binary(complete=True),
    grade3=hdp.Binary(complete=True),
)


def patients() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the patients of Rotterdam and of gbsg."""
    loaded = (hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg())
    first, second = (each[COLUMNS].assign(nodes=each["nodes"].clip(0, 40)) for each in loaded)
    return first, second


def one(seed: int) -> list[dict[str, object]]:
    """Return errors of weighted means, as standard errors and in units of the column's standard deviation."""
    rng, (whole, public) = np.random.default_rng([seed, 4]), patients()
    private = whole.iloc[rng.integers(0, len(whole), len(whole))].reset_index(drop=True)
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=20))
    cohort = hdp.describe(study, COLUMNS, complete=True, epsilon=0.3)
    found = []
    for calibrated in (False, True):
        description = cohort if calibrated else None
        samples = {
            "importance": hdp.importance_weights(study, f"~ {' + '.join(COLUMNS)}", epsilon=1, description=description),
            "hybrid": hdp.hybrid_weights(study, COLUMNS, epsilon=1, description=description),
        }
        for way, sample in samples.items():
            for name in SHOWN:
                mean, true = sample.mean(name), float(whole[name].mean())
                found.append(
                    {
                        "weights": way,
                        "calibrated": calibrated,
                        "column": name,
                        "bias": (mean.estimate - true) / whole[name].std(),
                        "held": float(abs(mean.estimate - true) <= 1.96 * mean.std_error),
                        "size": sample.effective_size,
                    }
                )
    return found


@pytest.fixture(scope="module")
def study() -> pd.DataFrame:
    found = pd.DataFrame([row for rows in together(one, range(DATA_SETS)) for row in rows])
    lines = [
        "# Weights of public rows calibrated to a description, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. {DATA_SETS} samples of "
        "the patients of Rotterdam as private records, those of gbsg as public rows: half of the former have no "
        "positive node, none of the latter. Weights at epsilon 1, the description at 0.3. Bias in standard deviations "
        "of the column; shares of 95 % intervals that hold the mean, with their Monte-Carlo standard errors.",
        "",
        "| weights | column | bias before | after | coverage before | after | effective size before | after |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (way, column), part in found.groupby(["weights", "column"], sort=False):
        before, after = (part[part["calibrated"] == each] for each in (False, True))
        cells = [f"{each['bias'].mean():+.3f}" for each in (before, after)]
        cells += [
            f"{each['held'].mean():.2f} ({each['held'].std() / len(each) ** 0.5:.2f})" for each in (before, after)
        ]
        cells += [f"{each['size'].mean():.0f}" for each in (before, after)]
        lines.append(f"| {way} | {column} | {' | '.join(cells)} |")
    PAGE.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return found


def test_calibration_mends_the_means_of_continuous_columns(study: pd.DataFrame) -> None:
    for _, part in study[study["column"].isin(["age", "nodes"])].groupby(["weights", "column"]):
        before, after = (part[part["calibrated"] == each] for each in (False, True))
        assert abs(after["bias"].mean()) < 0.5 * abs(before["bias"].mean())
        assert after["held"].mean() >= 0.8 > before["held"].mean()


def test_levels_stay_covered(study: pd.DataFrame) -> None:
    levels = study[study["calibrated"] & study["column"].isin(["hormon", "grade3"])]
    assert (levels.groupby(["weights", "column"])["held"].mean() >= 0.9).all()
