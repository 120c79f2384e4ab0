"""Size of joint Wald tests, coverage of contrasts and risk differences under noise: run by `make validate`.

Public people are like the private ones ("alike"), or their coefficients differ by as much as pooling takes them to
differ beforehand ("apart"): a pooled test that held its size where people are alike could not hold it elsewhere.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.pooling import DEGREES, SCALE
from tests.statistical.monte_carlo import OF_THE_MODEL, together

pytestmark = pytest.mark.validate

RECORDS, PUBLIC, REPEATS = 10_000, 500, 2_000
EPSILONS = (0.5, 1.0)
LEVEL, SMALLEST, LARGEST = 0.05, 0.035, 0.065
"""Limits of sizes. With fewer records tests reject less often (`explanation/raked-rows.md`)."""

LOWEST = 0.93
FORMULA = "y ~ t + arm + site"
LEVELS = {"arm": ("a", "b", "c"), "site": ("n", "s", "w")}
SCHEMA = hdp.Schema(
    t=hdp.Binary(complete=True),
    arm=hdp.Categorical(list(LEVELS["arm"]), complete=True),
    site=hdp.Categorical(list(LEVELS["site"]), complete=True),
    y=hdp.Binary(complete=True),
)
BETA = pd.Series({"Intercept": -0.6, "t": 0.5, "arm[T.b]": 0.3, "arm[T.c]": -0.4, "site[T.s]": 0.0, "site[T.w]": 0.0})
DIFFERENCE = BETA["arm[T.b]"] - BETA["arm[T.c]"]
PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "contrasts.md"
ESTIMATES = ("private_only", "pooled")
PEOPLE = ("alike", "apart")


def differences(rng: np.random.Generator) -> np.ndarray:
    """Return coefficients per standard deviation by which public people differ: draws from the prior of pooling."""
    tau = np.abs(SCALE * rng.standard_t(DEGREES)) * np.sqrt(DEGREES / rng.chisquare(DEGREES, len(BETA)))
    return np.asarray(tau * rng.standard_normal(len(BETA)))


def apart(public: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return public people with outcomes by coefficients of their own."""
    levels = [public[name] == level for name in ("arm", "site") for level in LEVELS[name][1:]]
    X = np.column_stack([public["t"], *levels]).astype(float)
    standard = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    eta = linear_predictor(public) + standard @ differences(rng)
    return public.assign(y=(rng.random(len(public)) < expit(eta)).astype(int))


def linear_predictor(rows: pd.DataFrame, t: float | None = None) -> np.ndarray:
    """Return the linear predictor of rows, as they are or with another treatment."""
    treated = rows["t"] if t is None else t
    return BETA["Intercept"] + BETA["t"] * treated + rows["arm"].map({"a": 0.0, "b": 0.3, "c": -0.4}).astype(float)


def simulated(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Return people; the site has no effect."""
    frame = pd.DataFrame(
        {"t": rng.integers(0, 2, rows)} | {name: rng.choice(own, rows) for name, own in LEVELS.items()}
    )
    return frame.assign(y=(rng.random(rows) < expit(linear_predictor(frame))).astype(int))


def one_data_set(seed: int, people: str) -> list[dict[str, float | str]]:
    """Return for every epsilon and estimate whether the site's joint test rejected, and which intervals held.

    An estimate with a coefficient that is NaN has no tests and intervals: it counts as one that rejects and holds
    nothing.
    """
    rng = np.random.default_rng([20_261_122, PEOPLE.index(people), seed])
    public = simulated(rng, PUBLIC)
    public = public if people == "alike" else apart(public, rng)
    study = hdp.Study(private=simulated(rng, RECORDS), public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=5))
    model = hdpf.logit(FORMULA, data=study)
    risk = float(np.mean(expit(linear_predictor(public, 1.0)) - expit(linear_predictor(public, 0.0))))
    found = []
    for epsilon in EPSILONS:
        result = model.fit(epsilon)
        for estimate in ESTIMATES:
            row: dict[str, float | str] = {"people": people, "epsilon": epsilon, "estimate": estimate}
            if getattr(result, estimate).params.isna().any():
                found.append(row | {"joint": True, "contrast": False, "risk": False})
                continue
            low, high = result.t_test("arm[T.b] - arm[T.c]", estimate=estimate).conf_int()[0]
            effects = result.average_effects("t", estimate=estimate).frame.iloc[0]
            found.append(
                row
                | {
                    "joint": result.wald_test("site[T.s], site[T.w]", estimate=estimate).pvalue <= LEVEL,
                    "contrast": low <= DIFFERENCE <= high,
                    "risk": effects["conf_low"] <= risk <= effects["conf_high"],
                }
            )
    return found


def measured(repeats: int) -> pd.DataFrame:
    """Return shares of data sets by people, epsilon and estimate."""
    seeds, people = zip(*((seed, each) for each in PEOPLE for seed in range(repeats)), strict=True)
    rows = [row for found in together(one_data_set, seeds, people, chunksize=8) for row in found]
    return pd.DataFrame(rows).groupby(["people", "epsilon", "estimate"])[["joint", "contrast", "risk"]].mean()


@pytest.fixture(scope="module")
def shares() -> pd.DataFrame:
    """Return the shares, and write the page."""
    found = measured(REPEATS)
    PAGE.write_text("\n".join(page_of(found, REPEATS)), encoding="utf-8")
    return found


def page_of(found: pd.DataFrame, repeats: int) -> list[str]:
    """Return the page of the study."""
    error = np.sqrt(0.05 * 0.95 / repeats)
    lines = [
        "# Joint Wald tests, contrasts and risk differences under noise, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Logistic regression of "
        f"a treatment and two factors of three levels, {RECORDS} private and {PUBLIC} public records, {repeats} data "
        "sets. One factor has no effect: the share of data sets in which its joint Wald test rejects at 5 % is the "
        "size of the test. Then the shares of data sets in which 95 % intervals hold a contrast of two levels of the "
        "other factor, "
        "and the risk difference of the treatment, standardised over the public rows. "
        f"Monte-Carlo standard errors are about {error:.3f}.",
        "",
        OF_THE_MODEL,
        "",
        "Public people are *alike*, or their coefficients are *apart* by draws from the prior of pooling (decision "
        "0040). A pooled estimate allows for people who are apart. Averaged over how far they may be, its tests have "
        "their size; where people are exactly alike they reject less often, and no test from the same estimate could "
        "do otherwise without rejecting too often where they are not. Tests of `private_only` do not depend on it. "
        "With fewer records, or a smaller epsilon, all reject less often: [why](../explanation/raked-rows.md).",
        "",
        "| people | epsilon | estimate | size at 5 % | coverage, contrast | coverage, risk difference |",
        "|---|---|---|---|---|---|",
    ]
    for (people, epsilon, estimate), row in found.iterrows():
        name = str(estimate).replace("_", " ")
        lines.append(
            f"| {people} | {epsilon:g} | {name} | {row['joint']:.3f} | {row['contrast']:.3f} | {row['risk']:.3f} |"
        )
    return [*lines, ""]


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_joint_tests_reject_as_often_as_they_say(
    shares: pd.DataFrame, epsilon: float, estimate: str, people: str
) -> None:
    size = shares.loc[(people, epsilon, estimate), "joint"]
    assert SMALLEST <= size <= LARGEST


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_intervals_of_contrasts_and_effects_cover(
    shares: pd.DataFrame, epsilon: float, estimate: str, people: str
) -> None:
    assert shares.loc[(people, epsilon, estimate), "contrast"] >= LOWEST
    assert shares.loc[(people, epsilon, estimate), "risk"] >= LOWEST
