r"""The algorithms of Chen and Sung, as printed and as corrected, on simulated parties. NOT private.

They are here to reproduce the paper and to measure against: their noise comes from a seed, and as printed their scale
is wrong in two of four. What may see private records is `hdpstats.models.Distribution`.

Algorithms 1 to 4 have their noise as printed or as needed, drawn in floating point.

**Mean squared errors** of the estimators of a scalar. ``M`` parties hold ``N`` records each, :math:`I` is the
information of a record, :math:`\Lambda` the length of the range of the parameter, :math:`\Lambda_T` that of the
statistic, ``k`` the number of blocks of a party.

**Blocks (theorem 3.2).** Estimates of blocks of ``t = N / k`` records have bias :math:`O(t^{-3/2})` once corrected,
with a square :math:`C (k / N)^3` that averaging over parties leaves, and Laplace noise of scale ``s`` has variance
:math:`2 s^2`:

.. math:: \frac{1}{M N} \Bigl( \frac{1}{I} + \frac{2 N \Lambda^2}{k^2 \epsilon^2} + \frac{C M k^3}{N^2} \Bigr).

Printed are :math:`N \Lambda^2 / (k^2 \epsilon^2)` and :math:`k^2 M / N^2`. The least is at :math:`k^* = (4 \Lambda^2
N^3 / (3 C M \epsilon^2))^{1/5}`; noise and bias then vanish beside :math:`1 / I` if and only if :math:`\epsilon` is
large against :math:`N^{-1/6} M^{1/3}` (printed: :math:`N^{1/6} M^{-1/3}`, both signs turned round).

**Statistics (theorem 3.3).** With the noise that is needed, :math:`\Lambda_T / (N \epsilon)`, and
:math:`d\theta/d\tau = 1 / I` in canonical parameters:

.. math:: \frac{1}{M N} \Bigl( \frac{1}{I} + \frac{2 \Lambda_T^2}{N \epsilon^2 I^2} \Bigr).

Printed is :math:`\frac{1}{I} + 32^{1/4} \Lambda_T / \sqrt{N \epsilon I} + \sqrt 2 \Lambda_T / (\epsilon N)`: there the
derivative is bounded by the variance of the statistic, of which it is the inverse, and the variance of the noise is
taken for :math:`\sqrt 2` times its scale. Efficient if and only if :math:`\epsilon` is large against
:math:`N^{-1/2}` (printed: :math:`N^{-1}`).

References
----------
W.-N. Chen, J. Sung, Differentially private parameter estimation from distributed sources.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer
from hdpstats.inference.draws import Generator, generator
from hdpstats.losses.families import BernoulliFamily, ExponentialTimeFamily, Family, Interval, corrected
from hdpstats.mechanisms.subsample.site import starts_of_blocks
from hdpstats.papers.trials import LARGEST_SEED, positive

NUMBERS_AT_ONCE = 10**7
"""Records that are in memory while many repeats are drawn."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trial:
    """A family of one parameter, its true value and its range: what parties draw from and what they are given.

    Attributes
    ----------
    family : Family
        One of `hdpstats.losses.families` with one parameter.
    truth : float
        The true parameter.
    box : (float, float)
        The public range of the parameter.
    draw : callable
        ``draw(rng, shape)`` gives numbers of the family between its bounds.
    """

    family: Family
    truth: float
    box: Interval
    draw: Callable[[Generator, tuple[int, ...]], FloatArray]

    def __post_init__(self) -> None:
        """Refuse families of several parameters: the paper's formulas are for scalars."""
        if len(self.family.parameters) != 1:
            raise ArgumentError("family must have one parameter: the formulas are for scalars", argument="family")

    @property
    def information(self) -> float:
        """The information of one record."""
        return float(self.family.information(np.array([self.truth]))[0, 0])

    @property
    def width(self) -> float:
        """The length of the box."""
        return self.box[1] - self.box[0]

    def parties(self, parties: int, records: int, *, seed: int) -> FloatArray:
        """Draw the records (parties, records)."""
        return self.draw(_generator(seed, "records"), (parties, records))


def exponential_times(rate: float = 1.0, *, longest: float = 30.0, box: Interval = (0.5, 2.0)) -> Trial:
    """Return exponential times, cut at the ``longest``; the parameter is their rate.

    Examples
    --------
    >>> exponential_times().parties(2, 3, seed=1).shape
    (2, 3)
    """
    return Trial(
        family=ExponentialTimeFamily(lower=0.0, upper=longest),
        truth=rate,
        box=box,
        draw=lambda rng, shape: np.minimum(rng.exponential(1.0 / rate, shape), longest),
    )


def events(chance: float = 0.4, *, box: Interval = (0.01, 0.99)) -> Trial:
    """Return events of 0 and 1; the parameter is the chance of a 1."""
    return Trial(
        family=BernoulliFamily(lower=0.0, upper=1.0),
        truth=chance,
        box=box,
        draw=lambda rng, shape: np.asarray(rng.random(shape) < chance, dtype=np.float64),
    )


def csaa(trial: Trial, x: FloatArray, epsilon: float, *, blocks: int, seed: int, projected: bool = True) -> float:
    """Return algorithm 1 on the records (N,) of one party. Printed, block estimates are not projected on the box."""
    eps = positive(epsilon, "epsilon")
    k = integer(blocks, name="blocks", lower=1, upper=len(x))
    z = _of_blocks(trial, x, k)
    kept = np.clip(z, *trial.box) if projected else z
    return float(kept.mean() + _generator(seed, "noise").laplace(0.0, trial.width / (k * eps)))


def dsaa(trial: Trial, x: FloatArray, epsilon: float, *, blocks: int, seed: int, projected: bool = True) -> float:
    """Return algorithm 2 on the records (M, N) of all parties: the mean of `csaa`, each party with its own noise."""
    estimates = [
        csaa(trial, records, epsilon, blocks=blocks, seed=_own(seed, j), projected=projected)
        for j, records in enumerate(x)
    ]
    return float(np.mean(estimates))


def cssa(trial: Trial, x: FloatArray, epsilon: float, *, seed: int, blocks: int | None = None) -> float:
    """Return algorithm 3 on the records (N,) of one party: the noisy mean of the statistic.

    Printed, the noise has the scale of ``blocks`` blocks; with None it has that of ``N`` records, which is enough.
    """
    eps = positive(epsilon, "epsilon")
    count = len(x) if blocks is None else integer(blocks, name="blocks", lower=1, upper=len(x))
    low, high = trial.family.box[0]
    values = np.clip(trial.family.statistics(x)[:, 0], low, high)
    return float(values.mean() + _generator(seed, "noise").laplace(0.0, (high - low) / (count * eps)))


def dssa(trial: Trial, x: FloatArray, epsilon: float, *, seed: int, blocks: int | None = None) -> float:
    """Return algorithm 4 on the records (M, N): maximum likelihood at the mean of `cssa`, projected on the box."""
    tau = np.mean([cssa(trial, records, epsilon, seed=_own(seed, j), blocks=blocks) for j, records in enumerate(x)])
    return float(np.clip(trial.family.solve(np.array([[tau]]))[0, 0], *trial.box))


def repeat_dsaa(
    trial: Trial, *, parties: int, records: int, epsilon: float, blocks: int, repeats: int, seed: int
) -> FloatArray:
    """Return estimates (repeats,) of algorithm 2, projected, each from fresh records: `dsaa` many times at once.

    Examples
    --------
    >>> found = repeat_dsaa(
    ...     exponential_times(), parties=5, records=1000, epsilon=3.0, blocks=40, repeats=200, seed=1
    ... )
    >>> found.shape, bool(abs(found.mean() - 1) < 0.01)
    ((200,), True)
    """
    eps = positive(epsilon, "epsilon")
    k = integer(blocks, name="blocks", lower=1, upper=records)
    means = [
        np.clip(_of_blocks(trial, x, k), *trial.box).mean(axis=2)
        for x in _records(trial, parties, records, repeats, seed)
    ]
    noise = _generator(seed, "noise").laplace(0.0, trial.width / (k * eps), (repeats, parties))
    return np.asarray((np.concatenate(means) + noise).mean(axis=1))


def repeat_dssa(
    trial: Trial, *, parties: int, records: int, epsilon: float, repeats: int, seed: int, blocks: int | None = None
) -> FloatArray:
    """Return estimates (repeats,) of algorithm 4, each from fresh records: `dssa` many times at once."""
    eps = positive(epsilon, "epsilon")
    count = records if blocks is None else integer(blocks, name="blocks", lower=1, upper=records)
    low, high = trial.family.box[0]
    means = [
        np.clip(_statistic(trial, x), low, high).mean(axis=2) for x in _records(trial, parties, records, repeats, seed)
    ]
    noise = _generator(seed, "noise").laplace(0.0, (high - low) / (count * eps), (repeats, parties))
    tau = (np.concatenate(means) + noise).mean(axis=1)
    return np.asarray(np.clip(trial.family.solve(tau[:, None])[:, 0], *trial.box))


def _records(trial: Trial, parties: int, records: int, repeats: int, seed: int) -> Iterator[FloatArray]:
    """Draw the records of many repeats, (some, parties, records) at a time."""
    rng = _generator(seed, "records")
    at_once = max(1, NUMBERS_AT_ONCE // (parties * records))
    for begun in range(0, repeats, at_once):
        yield trial.draw(rng, (min(at_once, repeats - begun), parties, records))


def _statistic(trial: Trial, x: FloatArray) -> FloatArray:
    """Return the statistic of every number, in their shape."""
    return trial.family.statistics(x.ravel())[:, 0].reshape(x.shape)


def _of_blocks(trial: Trial, x: FloatArray, k: int) -> FloatArray:
    """Return the corrected estimates (..., k) of blocks of records (..., N)."""
    starts = starts_of_blocks(x.shape[-1], k)
    counts = np.diff(starts, append=x.shape[-1]).astype(np.float64)
    means = np.add.reduceat(_statistic(trial, x), starts, axis=-1) / counts
    estimates = corrected(trial.family, means.reshape(-1, 1), np.broadcast_to(counts, means.shape).ravel())
    return estimates.reshape(means.shape)


def _own(seed: int, party: int) -> int:
    """Return the seed of a party: no two parties draw the same noise."""
    return (integer(seed, name="seed", lower=0, upper=LARGEST_SEED) << 32) + party


def _generator(seed: int, purpose: str) -> Generator:
    return generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED << 33):x}{purpose.encode().hex()}")


_MOST = 10**12


def _checked(parties: int, records: int, epsilon: float, width: float, information: float) -> tuple[float, ...]:
    numbers = {"epsilon": epsilon, "width": width, "information": information}
    counts = {"parties": parties, "records": records}
    return (
        *(float(integer(value, name=name, lower=1, upper=_MOST)) for name, value in counts.items()),
        *(positive(value, name) for name, value in numbers.items()),
    )


def mse_blocks(
    *, parties: int, records: int, epsilon: float, blocks: int, width: float, information: float, bias: float = 0.0
) -> float:
    """Return the mean squared error of averaged blocks, corrected; ``bias`` is ``C``, 0 for exactly unbiased ones.

    Examples
    --------
    >>> round(4e4 * mse_blocks(parties=10, records=4000, epsilon=2.0, blocks=80, width=1.5, information=1.0), 3)
    1.703
    """
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    return (1.0 / info + 2.0 * N * (length / (blocks * eps)) ** 2 + bias * M * blocks**3 / N**2) / (M * N)


def mse_blocks_printed(
    *, parties: int, records: int, epsilon: float, blocks: int, width: float, information: float
) -> float:
    """Return the mean squared error of theorem 3.2 as printed."""
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    return (1.0 / info + N * (length / (blocks * eps)) ** 2 + blocks**2 * M / N**2) / (M * N)


def best_blocks(*, parties: int, records: int, epsilon: float, width: float, bias: float = 1.0) -> float:
    """Return ``k*``, not rounded.

    Examples
    --------
    >>> round(best_blocks(parties=10, records=4000, epsilon=2.0, width=1.5))
    86
    """
    M, N, eps, length, _ = _checked(parties, records, epsilon, width, 1.0)
    return float((4.0 * length**2 * N**3 / (3.0 * bias * M * eps**2)) ** 0.2)


def mse_statistics(*, parties: int, records: int, epsilon: float, width: float, information: float) -> float:
    """Return the mean squared error of averaged statistics, corrected; ``width`` is the range of the statistic."""
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    return (1.0 / info + 2.0 * length**2 / (N * (eps * info) ** 2)) / (M * N)


def mse_statistics_printed(*, parties: int, records: int, epsilon: float, width: float, information: float) -> float:
    """Return the mean squared error of theorem 3.3 as printed."""
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    cross = 32.0**0.25 * length / math.sqrt(N * eps * info)
    return float((1.0 / info + cross + math.sqrt(2.0) * length / (eps * N)) / (M * N))
