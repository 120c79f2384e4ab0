"""Few public rows, rare categories, sparse splines and rare outcomes: data sets, and what intervals hold.

Every data set has noise of its own seed, and what was computed is kept in a file for the code that computed it: a
study that is interrupted goes on where it was.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import hdpstats
import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.noise import exact
from tests import seeded
from tests.statistical.monte_carlo import together

NINE = "event3 ~ age + size + grade3 + log1p(nodes) + log1p(pgr) + log1p(er) + hormon"
FOUR = "event3 ~ age + grade3 + log1p(nodes)"
PATIENTS = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    nodes=hdp.Continuous(0, 60, complete=True),
    pgr=hdp.Continuous(0, 3000, complete=True),
    er=hdp.Continuous(0, 2000, complete=True),
    hormon=hdp.Binary(complete=True),
    event3=hdp.Binary(complete=True),
)
PEOPLE = hdp.Schema(
    x=hdp.Continuous(-4, 4, complete=True),
    z=hdp.Continuous(-4, 4, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    age=hdp.Continuous(20, 90, complete=True),
    y=hdp.Binary(complete=True),
    time=hdp.Duration(5, complete=True),
    event=hdp.Binary(complete=True),
)
SPLINE = "y ~ ns(age, knots=[45, 55, 65], lower=25, upper=85) + x"
POPULATION = 200_000
"""People from whom the coefficients of a spline are learned that stand for the truth."""

Draw = Callable[[np.random.Generator, int], pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the page: who is drawn, what is fitted, and how many people there are."""

    name: str
    public: int
    private: int
    epsilon: float
    fit: Callable[[hdp.Study, float], hdp.Result]
    draw: Draw
    truth: Callable[[], dict[str, float]]
    schema: hdp.Schema
    public_draw: Draw | None = None
    watched: str | None = None


def patients(formula: str) -> tuple[Draw, Callable[[], dict[str, float]]]:
    """Return how patients of gbsg are drawn with outcomes by a logistic regression, and its coefficients."""

    @lru_cache(maxsize=1)
    def whole() -> hdp.Result:
        return hdpf.logit(formula, hdp.Study(public=hdp.datasets.load_gbsg(), schema=PATIENTS)).fit_public()

    def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
        frame = hdp.datasets.load_gbsg()
        rows = frame.iloc[rng.integers(0, len(frame), n)].reset_index(drop=True)
        rows["event3"] = (rng.random(n) < whole().predict(rows).to_numpy()).astype(float)
        return rows

    return draw, lambda: whole().params.to_dict()


def people(rng: np.random.Generator, n: int, *, level: float = 1.0, intercept: float = -1.0) -> pd.DataFrame:
    """Return people of whom 2 % have level c, with a 0/1 outcome and a time to an event.

    ``level`` multiplies what the levels do.
    """
    x, z = rng.standard_normal((2, n)).clip(-4, 4)
    g = np.where(rng.random(n) < 0.02, "c", np.where(rng.random(n) < 0.5, "a", "b"))
    age = 20.0 + 70.0 * rng.beta(5.0, 5.0, n)
    of_group = level * (0.4 * (g == "b") + 0.8 * (g == "c"))
    hazard = 0.08 * np.exp(of_group + 0.5 * x)
    ends, censored = rng.exponential(1.0 / hazard), rng.uniform(2.0, 8.0, n)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": g,
            "age": age,
            "y": (rng.random(n) < expit(intercept + of_group + 0.5 * x - 0.4 * z)).astype(float),
            "time": np.minimum(np.minimum(ends, censored), 5.0),
            "event": ((ends <= censored) & (ends <= 5.0)).astype(float),
        }
    )


def others(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return people with a rare outcome whose slopes are halves of those of `people`."""
    frame = people(rng, n)
    eta = -3.9 + 0.25 * frame["x"] - 0.2 * frame["z"]
    return frame.assign(y=(rng.random(n) < expit(eta)).astype(float))


def along_age(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return people whose log odds bend with age, few of whom are young or old."""
    frame = people(rng, n)
    away = frame["age"] - 55.0
    eta = -1.2 + 0.03 * away + 0.0008 * away**2 + 0.4 * frame["x"]
    return frame.assign(y=(rng.random(n) < expit(eta)).astype(float))


@lru_cache(maxsize=1)
def of_spline() -> dict[str, float]:
    """Return the coefficients of the spline in a population."""
    study = hdp.Study(public=along_age(np.random.default_rng(4), POPULATION), schema=PEOPLE)
    return dict(hdpf.logit(SPLINE, study).fit_public().params.to_dict())


def logit(formula: str, study: hdp.Study, epsilon: float) -> hdp.Result:
    """Return a logistic regression."""
    return hdpf.logit(formula, study).fit(epsilon)


def hazard(formula: str, study: hdp.Study, epsilon: float) -> hdp.Result:
    """Return a hazard model."""
    return hdpf.hazard(formula, study).fit(epsilon)


def _rows() -> Iterable[Row]:
    for formula, public, many in ((FOUR, 40, 4), (NINE, 100, 9), (NINE, 40, 9), (NINE, 300, 9)):
        draw, truth = patients(formula)
        for private, epsilon in ((6000, 1.0), (30_000, 3.0)):
            yield Row(
                name=f"{public} public rows, {many} coefficients",
                public=public,
                private=private,
                epsilon=epsilon,
                fit=partial(logit, formula),
                draw=draw,
                truth=truth,
                schema=PATIENTS,
            )
    level = {"g[T.b]": 0.4, "g[T.c]": 0.8, "x": 0.5}
    for private, epsilon in ((3000, 0.5), (6000, 1.0)):
        yield Row(
            name="a category of 2 %, logit",
            public=300,
            private=private,
            epsilon=epsilon,
            fit=partial(logit, "y ~ g + x + z"),
            draw=people,
            truth=lambda: {"Intercept": -1.0, **level, "z": -0.4},
            schema=PEOPLE,
            watched="g[T.c]",
        )
    for private in (2000, 6000):
        yield Row(
            name="a category of 2 %, hazard",
            public=300,
            private=private,
            epsilon=1.0,
            fit=partial(hazard, "Surv(time, event) ~ g + x"),
            draw=people,
            truth=lambda: level,
            schema=PEOPLE,
            watched="g[T.c]",
        )
    for private in (2000, 6000):
        yield Row(
            name="a spline where people are sparse",
            public=300,
            private=private,
            epsilon=1.0,
            fit=partial(logit, SPLINE),
            draw=along_age,
            truth=of_spline,
            schema=PEOPLE,
        )
    for private in (6000, 30_000):
        yield Row(
            name="an outcome of 3 %, public slopes half as large",
            public=300,
            private=private,
            epsilon=1.0,
            fit=partial(logit, "y ~ x + z"),
            draw=partial(people, level=0.0, intercept=-3.9),
            truth=lambda: {"Intercept": -3.9, "x": 0.5, "z": -0.4},
            schema=PEOPLE,
            public_draw=others,
        )


ROWS = tuple(_rows())


def one_set(job: tuple[int, int]) -> list[dict[str, Any]]:
    """Return for each coefficient of a row's data set its truth, and what the reported estimate says of it."""
    place, seed = job
    row, rng = ROWS[place], np.random.default_rng([seed, place, 8])
    with seeded.Source(f"few rows {place} {seed}").installed(exact):
        study = hdp.Study(
            private=row.draw(rng, row.private),
            public=(row.public_draw or row.draw)(rng, row.public),
            schema=row.schema,
            budget=hdp.Budget(epsilon=50),
        )
        start = time.process_time()
        result = row.fit(study, row.epsilon)
        seconds = time.process_time() - start
    limits, truth = result.conf_int(), row.truth()
    return [
        {
            "place": place,
            "seed": seed,
            "term": term,
            "truth": value,
            "estimate": float(result.params[term]),
            "std_error": float(result.bse[term]),
            "low": float(limits[0][term]),
            "high": float(limits[1][term]),
            "public": float(result.penalised.params[term]),
            "seconds": seconds,
        }
        for term, value in truth.items()
    ]


def kept_file() -> Path:
    """Return the file that keeps what this code has computed."""
    code = hashlib.sha256()
    for path in sorted(Path(hdpstats.__file__).parent.rglob("*.py")):
        code.update(path.read_bytes())
    code.update(Path(__file__).read_bytes())
    return Path(tempfile.gettempdir()) / f"hdpstats-few-rows-{code.hexdigest()[:16]}.jsonl"


AT_ONCE = 20
"""Data sets between two writings of the file."""


def measured(sets: int) -> pd.DataFrame:
    """Return `one_set` of so many data sets of each row, those of the file first."""
    path = kept_file()
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    done = {(each["place"], each["seed"]) for each in found}
    jobs = [(place, seed) for seed in range(sets) for place in range(len(ROWS)) if (place, seed) not in done]
    for start in range(0, len(jobs), AT_ONCE):
        new = [each for part in together(one_set, jobs[start : start + AT_ONCE]) for each in part]
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(each)}\n" for each in new)
        found += new
    frame = pd.DataFrame(found)
    return frame[frame["seed"] < sets]


def summarised(frame: pd.DataFrame) -> pd.DataFrame:
    """Return by row and coefficient: coverage, that given an estimate too far from 0, RMSE, length, NaN, shares."""
    known = frame.assign(
        held=((frame["low"] <= frame["truth"]) & (frame["truth"] <= frame["high"])).where(frame["std_error"].notna()),
        error=frame["estimate"] - frame["truth"],
        length=frame["high"] - frame["low"],
    )
    known["held_far"] = known["held"].where(known["error"] * np.sign(known["truth"]) > 0)
    groups = known.groupby(["place", "term"], sort=False)
    return pd.DataFrame(
        {
            "sets": groups.size(),
            "coverage": groups["held"].mean().astype(float),
            "far": groups["held_far"].mean().astype(float),
            "rmse": np.sqrt(groups["error"].apply(lambda error: (error**2).mean())),
            "bias": groups["error"].mean(),
            "length": groups["length"].mean(),
            "nan": groups["std_error"].apply(lambda error: error.isna().mean()),
            "truth": groups["truth"].first(),
            "apart": groups["public"].mean() - groups["truth"].first(),
            "seconds": groups["seconds"].median(),
        }
    )
