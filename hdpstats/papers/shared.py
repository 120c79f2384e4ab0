"""What the reproduced algorithms share: seeded generators, noise as printed, exact logistic fits. NOT private."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer, real
from hdpstats.inference.draws import Generator, generator
from hdpstats.losses import LogisticLoss
from hdpstats.solvers import minimise, ridge_objective

LARGEST_SEED: Final = 2**64 - 1
MOST_DRAWS: Final = 1_000_000


def seeded(seed: int) -> Generator:
    """Return the generator of a seed from 0 to 2^64 - 1."""
    return generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):x}")


def positive(value: float, name: str) -> float:
    """Return an argument that must be a number above 0."""
    return real(value, name=name, lower=0.0, open_lower=True)


def ball_noise(rng: Generator, scale: float, *shape: int) -> FloatArray:
    """Return vectors (..., D) of density proportional to ``exp(-||b|| / scale)``; ``shape`` ends with ``D``."""
    directions = rng.standard_normal(shape)
    lengths = rng.gamma(float(shape[-1]), scale, shape[:-1])
    return np.asarray((lengths / np.linalg.norm(directions, axis=-1))[..., None] * directions)


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


def fit(hospital: Hospital, weights: FloatArray | None = None, *, ridge: float = 1e-6) -> FloatArray:
    """Return logistic coefficients (p,), exact; a ridge of next to nothing where the likelihood has no maximum."""
    objective = ridge_objective(LogisticLoss(), hospital.X, hospital.y, ridge=ridge, weights=weights)
    return minimise(objective, start=objective.centre).theta
