"""Private and public records as in the experiments of Wang et al. (2018), and exact logistic fits. NOT private."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from scipy.special import expit

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, integer
from hdpstats.inference.draws import Generator, generator
from hdpstats.losses import Logistic
from hdpstats.papers.trials import LARGEST_SEED
from hdpstats.schema.columns import Binary, Column, Continuous
from hdpstats.schema.datasets import load_gbsg, load_rotterdam
from hdpstats.schema.schema import Schema
from hdpstats.solvers import LinearObjective, minimise

LARGEST: Final = 1_000_000
RESPONSE: Final = "y"

INDICATORS: Final = {
    "age50": ("age", 50.0),
    "age65": ("age", 65.0),
    "meno": ("meno", 0.5),
    "nodes4": ("nodes", 3.5),
    "nodes10": ("nodes", 9.5),
    "grade3": ("grade3", 0.5),
    "hormon": ("hormon", 0.5),
    "pgr20": ("pgr", 19.5),
    "er20": ("er", 19.5),
}
"""Nine covariates of 0 and 1, as many as the paper's two hospitals have: a column, and the value that it exceeds."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Hospital:
    """Records of a logistic regression: covariates ``X`` (n, p), a constant included where there is one, ``y`` (n,)."""

    X: FloatArray
    y: FloatArray

    @property
    def records(self) -> int:
        """``n``."""
        return len(self.y)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    """Private records and public ones of the same columns; the columns' names, a constant not among them."""

    private: Hospital
    public: Hospital
    names: tuple[str, ...]
    intercept: bool

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return private and public records as data frames with the outcome ``y``, for `hdpstats.api`."""
        first = int(self.intercept)
        private, public = (
            pd.DataFrame(each.X[:, first:], columns=list(self.names)).assign(**{RESPONSE: each.y})
            for each in (self.private, self.public)
        )
        return private, public

    def schema(self) -> Schema:
        """Return what a custodian would declare: bounds from the public records, widened by half their range."""
        _, public = self.frames()
        columns: dict[str, Column] = {RESPONSE: Binary()}
        for name in self.names:
            low, high = float(public[name].min()), float(public[name].max())
            is_binary = set(public[name].unique()) <= {0.0, 1.0}
            columns[name] = Binary() if is_binary else Continuous(1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low)
        return Schema(columns)


def simulated_hospitals(
    dimension: int = 2,
    *,
    private: int = 10_000,
    public: int = 10_000,
    seed: int,
    beta_private: FloatArray | None = None,
    beta_public: FloatArray | None = None,
) -> Pair:
    """Draw the paper's simulation (section 5.1), without a constant. Public covariates vary less, effects are smaller.

    Parameters
    ----------
    dimension
        ``p``: with 2, private covariates are standard normal and the first public one has variance 1/2; otherwise all
        public ones have.
    private, public
        Numbers of records.
    seed
        Of everything.
    beta_private, beta_public : (p,), optional
        The coefficients; by default uniform on (-1, 1) and on (0, 1/2).
    """
    p = integer(dimension, name="dimension", lower=1, upper=1000)
    rng = generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):064x}")
    own = rng.uniform(-1.0, 1.0, p) if beta_private is None else np.asarray(beta_private, dtype=np.float64)
    other = rng.uniform(0.0, 0.5, p) if beta_public is None else np.asarray(beta_public, dtype=np.float64)
    spread = np.sqrt(np.array([0.5, 1.0]) if p == 2 else np.full(p, 0.5))
    if own.shape != (p,) or other.shape != (p,):
        raise ArgumentError(f"beta_private and beta_public must have {p} numbers", argument="beta_private")
    return Pair(
        private=_drawn(rng, own, np.ones(p), integer(private, name="private", lower=1, upper=LARGEST)),
        public=_drawn(rng, other, spread, integer(public, name="public", lower=1, upper=LARGEST)),
        names=tuple(f"x{j + 1}" for j in range(p)),
        intercept=False,
    )


def _drawn(rng: Generator, beta: FloatArray, spread: FloatArray, records: int) -> Hospital:
    X = rng.standard_normal((records, len(beta))) * spread
    return Hospital(X=X, y=(rng.uniform(size=records) < expit(X @ beta)).astype(np.float64))


def breast_cancer_hospitals(public: str = "gbsg") -> Pair:
    """Return node-positive patients of two studies with nine covariates of 0 and 1, one study public, one private.

    They stand for the paper's two hospitals (Sheffield and Edinburgh, myocardial infarction), whose data are not
    published. The outcome is relapse or death within three years; those censored before are left out.
    """
    chosen = choice(public, name="public", options=("gbsg", "rotterdam"))
    frames = {"gbsg": load_gbsg(), "rotterdam": load_rotterdam()}
    other = next(name for name in frames if name != chosen)
    hospitals = {name: _indicators(frame) for name, frame in frames.items()}
    return Pair(private=hospitals[other], public=hospitals[chosen], names=tuple(INDICATORS), intercept=True)


def _indicators(frame: pd.DataFrame) -> Hospital:
    kept = frame[(frame["nodes"] > 0) & frame["event3"].notna()]
    columns = [(kept[name] > above).to_numpy(dtype=np.float64) for name, above in INDICATORS.values()]
    return Hospital(X=np.column_stack([np.ones(len(kept)), *columns]), y=kept["event3"].to_numpy(dtype=np.float64))


def fit(hospital: Hospital, weights: FloatArray | None = None, *, ridge: float = 1e-6) -> FloatArray:
    """Return logistic coefficients (p,), exact; a ridge of next to nothing where the likelihood has no maximum."""
    n, p = hospital.X.shape
    zero = np.zeros(p)
    objective = LinearObjective(
        loss=Logistic(),
        X=hospital.X,
        y=hospital.y,
        weights=np.ones(n) if weights is None else weights,
        offset=np.zeros(n),
        ridge=np.full(p, ridge),
        centre=zero,
        linear=zero,
    )
    return minimise(objective, start=zero).theta


def prediction_error(hospital: Hospital, theta: FloatArray, best: FloatArray) -> float:
    """Return the paper's ``t``: how far apart, in Euclidean norm, two coefficients put the records' probabilities."""
    return float(np.linalg.norm(expit(hospital.X @ theta) - expit(hospital.X @ best)))
