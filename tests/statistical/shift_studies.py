"""Fits to private people who differ from the public ones: without averages of them, with them, and what these rest on.

Each data set is fitted twice by the public interface: as a fit is by itself (*described*), and with ``describe=False``
(*declined*). The release of the former is then read a second time, with the private rows themselves in place of raked
public ones (*oracle*): what no description could do better.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from hdpstats.records.estimate import Estimate
from tests.statistical.monte_carlo import together
from tests.statistical.shift_designs import Data
from tests.statistical.shift_oracles import caught, oracle

READINGS: Final = ("declined", "described", "oracle")
ESTIMATES: Final = ("private_only", "pooled")
Line = tuple[float, str, str]
"""Epsilon, estimate, reading."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fits:
    """Errors, lengths of 95 % intervals and whether these cover (repeats, p), of one estimate of many data sets."""

    errors: np.ndarray
    widths: np.ndarray
    covered: np.ndarray

    @property
    def coverage(self) -> np.ndarray:
        """The share of intervals that cover (p,)."""
        return np.asarray(self.covered.mean(axis=0))


def one_set(
    data: Data, epsilons: Sequence[float], *, mechanism: object
) -> Iterator[tuple[Line, tuple[np.ndarray, np.ndarray]]]:
    """Yield the errors and limits less the truth, (p,) and (p, 2), of one data set's estimates."""
    model = data.model()
    for epsilon in epsilons:
        declined = model.fit(epsilon=epsilon, mechanism=mechanism, describe=False)
        with caught() as read:
            described = model.fit(epsilon=epsilon, mechanism=mechanism)
        known = oracle(model, read, data.private)
        for name in ESTIMATES:
            for reading, found in zip(READINGS, (declined, described, known), strict=True):
                estimate = getattr(found, name)
                values = estimate.values if isinstance(estimate, Estimate) else estimate.params.to_numpy()
                limits = estimate.conf_int().to_numpy() - data.truth[:, None]
                yield (epsilon, name, reading), (values - data.truth, limits)


def simulate(
    design: Callable[..., Data],
    epsilons: Sequence[float],
    *,
    repeats: int,
    mechanism: object = "objective",
    first: int = 20_000,
    **options: object,
) -> Mapping[Line, Fits]:
    """Return the fits of so many data sets, line by line."""
    draw = partial(design, **options)
    sets = together(partial(_numbers, draw, epsilons, mechanism), range(first, first + repeats))
    return {line: _fits([each[line] for each in sets]) for line in sets[0]}


def _numbers(
    draw: Callable[[int], Data], epsilons: Sequence[float], mechanism: object, seed: int
) -> dict[Line, tuple[np.ndarray, np.ndarray]]:
    return dict(one_set(draw(seed), epsilons, mechanism=mechanism))


def _fits(each: Sequence[tuple[np.ndarray, np.ndarray]]) -> Fits:
    errors, limits = (np.array(part) for part in zip(*each, strict=True))
    low, high = limits[:, :, 0], limits[:, :, 1]
    return Fits(errors=errors, widths=high - low, covered=(low <= 0.0) & (high >= 0.0))
