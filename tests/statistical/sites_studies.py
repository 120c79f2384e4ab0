"""Three hospitals against public rows, a meta-analysis and the paper's algorithm: random splits of public data sets."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
from scipy.stats import ttest_rel

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.papers import ji2014 as paper
from hdpstats.papers.wang import Hospital, fit
from tests.statistical.importance_studies import ADULT
from tests.statistical.monte_carlo import together

SITES = ("A", "B", "C")
EPSILON = 1.0
TRAINED = 0.6
PER_COEFFICIENT = 15
"""Public people per coefficient, where 2 % of the training rows are fewer."""

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Of the methods of the paper: which of them is best is not known beforehand."""

OURS = {
    "noisy Newton, matched": hdp.mechanisms.ClippedNewton(rounds=1),
    "objective perturbation": hdp.mechanisms.ObjectivePerturbation(),
    "output perturbation": hdp.mechanisms.OutputPerturbation(),
}
FIRST = "noisy Newton, matched"
PUBLIC, META = "public only, penalised", "meta-analysis"
PAPER, CORRECTED = "Newton as the paper means it", "Newton, corrected"
HINDSIGHT = (META, PAPER, CORRECTED)
"""Methods with a ridge, of which the best over all splits is taken, by each measure: nobody could do better."""


@dataclass(frozen=True)
class Records:
    """A data set: numeric columns, the outcome ``y``, and what a custodian would declare."""

    frame: pd.DataFrame
    bounds: dict[str, tuple[float, float]]

    @property
    def names(self) -> list[str]:
        """The covariates."""
        return [name for name in self.frame if name != "y"]

    @property
    def schema(self) -> hdp.Schema:
        """Bounds where they are declared; all others are 0 or 1."""
        columns = {
            name: hdp.Continuous(*self.bounds[name]) if name in self.bounds else hdp.Binary(complete=True)
            for name in self.names
        }
        return hdp.Schema(columns | {"y": hdp.Binary(complete=True)})


def breast_cancer(frame: pd.DataFrame, *, size: bool) -> Records:
    """Return relapse or death within three years by the covariates of both studies."""
    kept = frame[frame["event3"].notna()]
    columns = {"age": kept["age"], "grade3": kept["grade3"], "nodes": np.log1p(kept["nodes"]), "hormon": kept["hormon"]}
    if size:
        columns |= {"size20": (kept["size"] == "20-50") * 1.0, "size50": (kept["size"] == ">50") * 1.0}
    return Records(_numbers(columns, kept["event3"]), {"age": (20.0, 90.0), "nodes": (0.0, 3.7)})


def light_chains() -> Records:
    """Return death within five years by age, sex and free light chains."""
    frame = hdp.datasets.load_flchain()
    known = (frame["futime"] > 1826) | (frame["death"] == 1)
    kept = frame[known]
    columns = {
        "age": kept["age"],
        "male": (kept["sex"] == "M") * 1.0,
        "kappa": np.log(kept["kappa"]),
        "lam": np.log(kept["lambda_"]),
    }
    dead = ((kept["death"] == 1) & (kept["futime"] <= 1826)) * 1.0
    return Records(_numbers(columns, dead), {"age": (50.0, 105.0), "kappa": (-3.0, 3.0), "lam": (-3.0, 3.0)})


def census() -> Records:
    """Return a large income by eight columns of Adult."""
    frame = pd.read_csv(ADULT)
    degrees = ["Bachelors", "Masters", "Doctorate", "Prof-school"]
    columns = {
        "male": frame["male"],
        "young": frame["age=Young"],
        "senior": frame["age=Senior"],
        "unmarried": frame["marital-status=Never-married"],
        "divorced": frame["marital-status=Divorced"],
        "degree": frame[[f"education={name}" for name in degrees]].sum(axis=1),
        "executive": frame["occupation=Exec-managerial"],
        "overtime": frame["hours-per-week=Over-time"],
    }
    return Records(_numbers(columns, frame["income=large"]), {})


def _numbers(columns: dict[str, pd.Series], y: pd.Series) -> pd.DataFrame:
    return pd.DataFrame(columns | {"y": y}).astype(float).reset_index(drop=True)


DATA: dict[str, Callable[[], Records]] = {
    "gbsg": lambda: breast_cancer(hdp.datasets.load_gbsg(), size=False),
    "rotterdam": lambda: breast_cancer(hdp.datasets.load_rotterdam(), size=True),
    "flchain": light_chains,
} | ({"Adult": census} if ADULT.exists() else {})


@dataclass(frozen=True)
class Judge:
    """Measures coefficients: error against the fit to all records, in standard deviations, and AUC on test rows."""

    records: Records
    best: np.ndarray
    test: Hospital

    def __call__(self, values: np.ndarray) -> dict[str, float]:
        """Return both numbers of raw coefficients, the intercept first."""
        spread = self.records.frame[self.records.names].std().to_numpy()
        best = self.best
        error = np.linalg.norm((values - best)[1:] * spread) / np.linalg.norm(best[1:] * spread)
        return {"auc": paper.auc(self.test, values), "error": float(error)}


def _raw_fit(frame: pd.DataFrame, names: list[str]) -> np.ndarray:
    scale, middle = frame[names].std().to_numpy(), frame[names].mean().to_numpy()
    z = (frame[names].to_numpy() - middle) / scale
    return unstandardised(
        fit(Hospital(X=np.column_stack([np.ones(len(z)), z]), y=frame["y"].to_numpy())), middle, scale
    )


def unstandardised(values: np.ndarray, middle: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return raw coefficients from standardised ones (..., D)."""
    slopes = values[..., 1:] / scale
    return np.concatenate([values[..., :1] - (slopes @ middle)[..., None], slopes], axis=-1)


@cache
def _known(name: str) -> tuple[Records, np.ndarray]:
    """Return a data set and the fit to all of its rows."""
    records = DATA[name]()
    return records, _raw_fit(records.frame, records.names)


def one_split(name: str, seed: int) -> list[dict[str, object]]:
    """Split a data set at random and judge every method: a row each."""
    records, best = _known(name)
    order = np.random.default_rng(seed).permutation(len(records.frame))
    trained = round(TRAINED * len(order))
    shown = max(round(0.02 * trained), PER_COEFFICIENT * (len(records.names) + 1))
    rows = records.frame.iloc[order].reset_index(drop=True)
    public, private, test = rows.iloc[:shown], rows.iloc[shown:trained], rows.iloc[trained:]
    at = {site: private.iloc[k :: len(SITES)] for k, site in enumerate(SITES)}
    judge = Judge(records, best, Hospital(X=_matrix(test, records.names), y=test["y"].to_numpy()))
    found = {label: judge(values) for label, values in _ours(records, public, at).items()}
    for label, values in _theirs(records, public, at, seed).items():
        found[label] = judge(values)
    return [{"data": name, "seed": seed, "method": label} | numbers for label, numbers in found.items()]


def study_of(records: Records, public: pd.DataFrame, at: dict[str, pd.DataFrame]) -> hdp.Study:
    """Return a study of several sites, each with a ledger of its own."""
    sites = {
        site: hdp.LocalSite(
            frame.reset_index(drop=True),
            schema=records.schema,
            ledger=hdp.Ledger(None, dataset=site, epsilon=100, delta=1e-3),
        )
        for site, frame in at.items()
    }
    return hdp.Study(private=sites, public=public.reset_index(drop=True), schema=records.schema)


def _ours(records: Records, public: pd.DataFrame, at: dict[str, pd.DataFrame]) -> dict[str, np.ndarray]:
    model = hdpf.logit("y ~ " + " + ".join(records.names), data=study_of(records, public, at))
    found = {label: model.fit(EPSILON, mechanism=options) for label, options in OURS.items()}
    values = {label: result.params.to_numpy() for label, result in found.items()}
    return values | {PUBLIC: found[FIRST].penalised.params.to_numpy()}


def _theirs(records: Records, public: pd.DataFrame, at: dict[str, pd.DataFrame], seed: int) -> dict[str, np.ndarray]:
    """Return the paper's meta-analysis and Newton steps at several ridges, on standardised, truncated columns."""
    middle, scale = public[records.names].mean().to_numpy(), public[records.names].std().to_numpy()
    scale = np.where(scale > 0, scale, 1.0)

    def hospital(frame: pd.DataFrame) -> Hospital:
        z = np.clip((frame[records.names].to_numpy() - middle) / scale, -2.0, 2.0)
        return Hospital(X=np.column_stack([np.ones(len(z)), z]), y=frame["y"].to_numpy())

    split = paper.Split(
        public=hospital(public),
        sites=tuple(hospital(frame) for frame in at.values()),
        test=hospital(public),
        names=tuple(records.names),
        norm=float(np.sqrt(1.0 + 4.0 * len(records.names))),
    )
    found = {}
    for ridge in RIDGES:
        found[META, ridge] = paper.meta_analysis(split, ridge=ridge, epsilon=EPSILON, seed=seed)[0]
        for label, form in ((PAPER, "meant"), (CORRECTED, "corrected")):
            found[label, ridge] = paper.distributed_newton(split, ridge=ridge, epsilon=EPSILON, seed=seed, form=form)[0]
    return {f"{label}: {ridge:g}": unstandardised(values, middle, scale) for (label, ridge), values in found.items()}


def _matrix(frame: pd.DataFrame, names: list[str]) -> np.ndarray:
    return np.column_stack([np.ones(len(frame)), frame[names].to_numpy()])


def predicted(name: str, method: str) -> float:
    """Return the median over coefficients of the predicted private standard error over the public one, at a split."""
    records = DATA[name]()
    rows = records.frame.sample(frac=1.0, random_state=0)
    trained = round(TRAINED * len(rows))
    shown = max(round(0.02 * trained), PER_COEFFICIENT * (len(records.names) + 1))
    at = {site: rows.iloc[shown + k : trained : len(SITES)] for k, site in enumerate(SITES)}
    model = hdpf.logit("y ~ " + " + ".join(records.names), data=study_of(records, rows.iloc[:shown], at))
    plan = model.plan(EPSILON, mechanism=OURS[method]).frame
    return float((plan["private_only"] / plan["public_only"]).median())


def all_splits(name: str, repeats: int) -> pd.DataFrame:
    """Return a row per split and method."""
    found = together(partial(one_split, name), range(repeats), chunksize=2)
    return pd.DataFrame([row for rows in found for row in rows])


def in_hindsight(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return a column per method (splits,) of one measure, methods with a ridge at their best one."""
    wide = table.pivot_table(index="seed", columns="method", values=measure)
    for label in HINDSIGHT:
        rivals = [column for column in wide if column.startswith(f"{label}: ")]
        means = wide[rivals].mean()
        best = wide[means.idxmax() if measure == "auc" else means.idxmin()]
        wide = wide.drop(columns=rivals).assign(**{label: best})
    return wide


def better(wide: pd.DataFrame, measure: str, rival: str, ours: str = FIRST) -> float:
    """Return the p-value of a one-sided paired t test that a method of ours is better than a rival."""
    side = "greater" if measure == "auc" else "less"
    return float(ttest_rel(wide[ours], wide[rival], alternative=side).pvalue)


TRUTH = np.array([-0.4, 0.6, -0.3, 0.2, 0.0])
COVERED: dict[str, tuple[int, float, float]] = {
    "1, 1, 0": (1, 1.0, 0.0),
    "2, 3, 0": (2, 3.0, 0.0),
    "3, 1, 1e-6": (3, 1.0, 1e-6),
}
"""Rounds, epsilon and delta."""


def one_simulation(label: str, seed: int) -> tuple[float, float]:
    """Return the shares of coefficients within their 95 % intervals: pooled, and of private people alone."""
    rounds, epsilon, delta = COVERED[label]
    rng = np.random.default_rng(seed)
    names = ["x1", "x2", "x3", "x4"]
    root = np.linalg.cholesky(0.5 * np.eye(4) + 0.5)

    def people(rows: int) -> pd.DataFrame:
        X = np.clip(rng.standard_normal((rows, 4)) @ root.T, -1.9, 1.9)  # next to nobody is cut at three deviations
        p = 1.0 / (1.0 + np.exp(-(TRUTH[0] + X @ TRUTH[1:])))
        return pd.DataFrame(X, columns=names).assign(y=(rng.random(rows) < p) * 1.0)

    frame = people(3000)
    records = Records(frame, dict.fromkeys(names, (-6.0, 6.0)))
    model = hdpf.logit(
        "y ~ x1 + x2 + x3 + x4",
        data=study_of(records, people(200), {site: frame.iloc[k :: len(SITES)] for k, site in enumerate(SITES)}),
    )
    options = hdp.mechanisms.PublicHessian(rounds=rounds, truncation=3.0)
    result = model.fit(epsilon, delta=delta, mechanism=options)
    limits = [part.conf_int().to_numpy() for part in (result.pooled, result.private_only)]
    pooled, private = (float(np.mean((each[:, 0] <= TRUTH) & (each[:, 1] >= TRUTH))) for each in limits)
    return pooled, private


def coverage(label: str, repeats: int) -> tuple[float, float]:
    """Return the mean shares over simulated data sets."""
    found = np.array(together(partial(one_simulation, label), range(repeats)))
    pooled, private = found.mean(axis=0).tolist()
    return pooled, private
