r"""Whether the noise that a computation draws is as large as its claim says.

Replays (`hdpstats.audit.replay`) measure how far neighbours move the inputs of noise, in units of the noise that is
drawn. Where no pair of neighbours that is tried comes near to the sensitivity, they cannot tell a third of the noise
from all of it. Here the numbers themselves are looked at. The noise that is claimed has a size ``K`` with a known
distribution: of two-sided geometric noise :math:`P(|z| \le k) = 1 - 2 q^{k + 1} / (1 + q)` with
:math:`q = e^{-\rho}`; of noise of density proportional to :math:`\exp(-\rho K)` in ``D`` dimensions
:math:`\rho K \sim \mathrm{Gamma}(D)`; of normal noise :math:`K^2 / \sigma^2 \sim \chi^2_D`. A choice by
permute-and-flip, and whether a proposal is accepted, have known probabilities.

**The test.** Each draw gives the probability ``u`` with which claimed noise would be as small, or a choice as cheap. Of
what has few values the probability of the value itself is taken times a uniform number of its own, which makes ``u``
uniform. Where noise is as claimed, or larger, ``u`` is not below a uniform number, so that :math:`-\sum \log u` over
``n`` draws is not above a Gamma variable of shape ``n``: a large sum says that there is too little noise. Each draw of
a computation is judged by itself. Lattices are allowed for by a whole cell, and by taking nine tenths of the claimed
scale. No more is shown than that the draws are too small for the claim; that the claim covers what people move is for
the proof and for the searches.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer
from hdpstats.audit.replay import Coins, DrawnNoise, draws_in, measured
from hdpstats.inference import draws
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip, RoundedNormal, TwoSidedGeometric
from hdpstats.records import codec

ALPHA: Final = 1e-12
"""The probability with which enough noise may be taken for too little, at each look."""
ALLOWED: Final = 0.9
"""The part of the claimed scale that is certainly enough."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FoundScale:
    """What the draws of a computation say of its noise.

    Attributes
    ----------
    runs : int
        How often it was run.
    pvalue : float
        With at most this probability noise of the claimed scale is as small as what was drawn.
    """

    runs: int
    pvalue: float

    @property
    def too_little(self) -> bool:
        """Whether there is less noise than is claimed."""
        return self.pvalue < ALPHA

    def __str__(self) -> str:
        word = "less noise than is claimed" if self.too_little else "no less noise than is claimed"
        return f"{word} in {self.runs} runs (p = {self.pvalue:.3g})"


def noise_scale(
    compute: Callable[[Any], Any],
    data: Any,
    *,
    claimed: Callable[[Any], Any],
    looks: Sequence[int] = (16, 64, 256),
    repeats: int = 1,
) -> FoundScale:
    """Compare the noise that a computation draws with that of what is claimed.

    Parameters
    ----------
    compute
        Takes the data and returns what leaves; its noise is of `hdpstats.noise`.
    data
        One data set.
    claimed
        A computation of which the noise is as claimed: it is run once, for the distributions that it draws from.
    looks
        After how many runs in all it is judged; too little noise ends it.
    repeats
        How often each draw of a run is made, by the sampler that the run calls: the computation goes on with the
        first, and all are judged. Sixteen runs of 64 tell as much as 1024 runs where draws have the same distribution
        in each run.

    Raises
    ------
    ArgumentError
        If one of them raises an error, or a number is out of range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> def total(rate):
    ...     return lambda ages: sum(ages) + TwoSidedGeometric(rate=rate).draw()
    >>> noise_scale(total(Fraction(3, 100)), [30, 40], claimed=total(Fraction(1, 100))).too_little
    True
    >>> noise_scale(total(Fraction(1, 100)), [30, 40], claimed=total(Fraction(1, 100))).too_little
    False
    """
    if not looks or any(step <= 0 for step in looks):
        raise ArgumentError("looks must be numbers of runs above 0", argument="looks")
    repeats = integer(repeats, name="repeats", lower=1, upper=10**6)
    reference = [each[0] for each in draws_in(claimed, data)]
    sums, counts, runs = np.zeros(len(reference)), np.zeros(len(reference)), 0
    rng = draws.generator(codec.sha256("noise_scale"))
    for look in looks:
        while runs < look:
            drawn = draws_in(compute, data, repeats=repeats)
            runs += 1
            if not _alike(reference, [each[0] for each in drawn]):
                return FoundScale(runs=runs, pvalue=0.0)
            for place, (claim, repeated) in enumerate(zip(reference, drawn, strict=True)):
                sizes = -np.log(np.maximum(_sizes(claim, repeated, rng), 1e-300))
                sums[place] += float(np.sum(sizes))
                counts[place] += len(sizes)
        found = FoundScale(runs=runs, pvalue=_pvalue(sums, counts))
        if found.too_little:
            break
    return found


def _alike(reference: Sequence[DrawnNoise], drawn: Sequence[DrawnNoise]) -> bool:
    """Whether all noise that is claimed is drawn, each of its kind, and differences of potentials cost no more."""
    if [type(each.noise) for each in drawn] != [type(each.noise) for each in reference]:
        return False
    coins = [(one.noise, two.noise) for one, two in zip(reference, drawn, strict=True) if isinstance(one.noise, Coins)]
    return all(float(own.rate) * ALLOWED <= float(claim.rate) for claim, own in coins)


def _pvalue(sums: FloatArray, counts: FloatArray) -> float:
    """Return the smallest tail of Gamma variables, times how many there are."""
    from scipy.stats import gamma

    tails = gamma.sf(sums[counts > 0], counts[counts > 0])
    return min(1.0, float(np.min(tails, initial=1.0)) * len(tails))


def _sizes(claim: DrawnNoise, repeated: Sequence[DrawnNoise], rng: draws.Generator) -> FloatArray:
    """Return the probabilities with which claimed noise is as small as each of the draws of one sampler."""
    noise, own = claim.noise, repeated[0]
    drawn = np.array([[float(number) for number in each.numbers] for each in repeated])
    if isinstance(noise, PermuteAndFlip):
        below, at = _as_cheap(float(noise.rate), own.costs)
        chosen = drawn[:, 0].astype(int)
        return np.asarray(below[chosen] + at[chosen] * rng.random(len(chosen)))
    if isinstance(noise, Coins):
        refused = -np.expm1(-np.array(own.noise.exponents) / ALLOWED)
        shares = rng.random(drawn.shape)
        return np.asarray(np.where(drawn == 0, shares * refused, refused + shares * (1.0 - refused)).ravel())
    return _as_small(noise, np.abs(drawn), rng)


def _as_small(noise: Any, numbers: FloatArray, rng: draws.Generator) -> FloatArray:
    """Return the probabilities for draws (R, D): one for each number where numbers are independent, else one a draw."""
    from scipy.stats import chi2, gamma

    D = numbers.shape[1]

    if isinstance(noise, TwoSidedGeometric) or (isinstance(noise, BallNoise) and D == 1):
        single = numbers.ravel()
        q = math.exp(-float(noise.rate) / ALLOWED)
        to = 1.0 - 2.0 * q ** (single + 1.0) / (1.0 + q)
        below = np.where(single > 0, 1.0 - 2.0 * q**single / (1.0 + q), 0.0)
        return np.asarray(below + (to - below) * rng.random(len(single)))
    whole = numbers + 1.0
    if isinstance(noise, RoundedNormal):
        lengths = np.linalg.norm(whole, axis=1) * float(noise.grid) / (float(noise.sd) * ALLOWED)
        return np.asarray(chi2.cdf(lengths**2, D))
    if isinstance(noise, BallNoise | BoxNoise | CylinderNoise):
        sizes = np.array([measured(noise, each)[1] for each in whole])
        return np.asarray(gamma.cdf(sizes * float(noise.rate) / ALLOWED, D))
    raise ArgumentError(f"{type(noise).__name__} has no known distribution of sizes", argument="claimed")


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def _as_cheap(rate: float, costs: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    r"""Return, for each candidate, the probabilities that permute-and-flip chooses a cheaper one, and one as cheap.

    In a random order each candidate comes before the i-th with a probability ``t`` that is uniform, and all before it
    are refused: :math:`P(i) = a_i \int_0^1 \prod_{j \ne i} (1 - a_j t)\,dt`, with ``a`` what is accepted.
    """
    away = np.array([float(cost - min(costs)) for cost in costs])
    accepted = np.exp(-rate / ALLOWED * away)
    t = (_NODES[:, None] + 1.0) / 2.0
    refused = 1.0 - accepted * t
    integrals = [float(_WEIGHTS @ np.prod(np.delete(refused, i, axis=1), axis=1)) / 2.0 for i in range(len(costs))]
    chances = accepted * np.array(integrals)
    chances /= chances.sum()
    below = np.array([np.sum(chances[away < own]) for own in away])
    return below, np.array([np.sum(chances[away == own]) for own in away])
