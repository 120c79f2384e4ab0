"""Tests of random numbers that fail by chance with a probability that is known, and that find a named fault.

With the operating system's entropy every check here fails for right code with a probability of at most ``ALARM``,
whatever the number of draws: the bounds are proven, none is asymptotic. A test of several checks has that probability
where each has its share of it as ``alarm``. What a check finds is computed in the same way:
a *miss* is a bound of the probability that draws from one distribution pass the check of another one. A test states a
wrong constant, asserts that its miss is at most ``ALARM`` too, and may then demand that the check rejects it.

References
----------
R. Agrawal (2020), Finite-sample concentration of the multinomial in relative entropy.
R. Simard, P. L'Ecuyer (2011), Computing the two-sided Kolmogorov-Smirnov distribution.
"""

import math
from collections import Counter

import numpy as np
from scipy.stats import binom, gamma, kstwo, norm

ALARM = 1e-9
"""Largest probability with which a test of right code may fail, and with which a named fault may be missed."""

FEWEST = 30.0
"""Points that are expected less often are one cell together: for power only, the bounds need no such rule."""


# ------------------------------------------------------------------------------------------------------- one event


def share_fits(hits, trials, probability, *, alarm=ALARM):
    """Whether an event of this probability, or of one within these two, may have come so often: binomial tails."""
    low, high = probability if isinstance(probability, tuple) else (probability, probability)
    return bool(binom.cdf(hits, trials, low) > alarm / 2 and binom.sf(hits - 1, trials, high) > alarm / 2)


def miss_of_share(probability, truth, trials, *, alarm=ALARM):
    """Return the probability that `share_fits` accepts one probability when another one is true: exact."""
    hits = np.arange(trials + 1)
    low, high = probability if isinstance(probability, tuple) else (probability, probability)
    accepted = (binom.cdf(hits, trials, low) > alarm / 2) & (binom.sf(hits - 1, trials, high) > alarm / 2)
    return float(binom.pmf(hits, trials, truth)[accepted].sum())


# ------------------------------------------------------------------------------------------------------- many cells


def counts_fit(observed, probabilities, *, alarm=ALARM):
    """Whether counts of cells may be those of a multinomial distribution.

    With relative entropy D of the shares from the distribution, k cells and n draws, P[n D >= t] is at most
    exp(-t) (e t / (k - 1))^(k - 1) for t > k - 1 (Agrawal 2020, theorem 1.2): this bound must exceed ``alarm``.
    """
    observed, probabilities = np.asarray(observed, dtype=float), np.asarray(probabilities, dtype=float)
    if np.any(observed[probabilities <= 0.0] > 0):
        return False
    return bool(_entropy(observed, probabilities) < _threshold(int(np.sum(probabilities > 0.0)), alarm))


def miss_of_counts(probabilities, truth, trials, *, alarm=ALARM):
    """Return a bound of the probability that `counts_fit` accepts one distribution when another one is true.

    The relative entropy of all cells is at least that of the event A "a cell that the truth makes more likely", so the
    check rejects where the number of draws in A alone is far enough from its expectation: an exact binomial tail.
    """
    probabilities, truth = np.asarray(probabilities, dtype=float), np.asarray(truth, dtype=float)
    inside = truth > probabilities
    p, q = float(probabilities[inside].sum()), float(truth[inside].sum())
    hits = np.arange(math.ceil(p * trials), trials + 1)
    rest = trials - hits
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = hits * np.log(hits / (trials * p)) + np.where(rest > 0, rest * np.log(rest / (trials * (1 - p))), 0.0)
    found = hits[entropy >= _threshold(int(np.sum(probabilities > 0.0)), alarm)]
    return float(binom.cdf(found[0] - 1, trials, q)) if len(found) else 1.0


def _entropy(observed, probabilities):
    """Return n D of the observed shares from the distribution."""
    seen = observed > 0
    return float(np.sum(observed[seen] * np.log(observed[seen] / (observed.sum() * probabilities[seen]))))


def _threshold(cells, alarm):
    """Return the least t, to 1e-9, at which Agrawal's bound is at most ``alarm``; it falls in t above cells - 1."""
    k = max(cells - 1, 1)
    low, high = float(k), 4.0 * k + 4.0 * math.log(1.0 / alarm)
    while high - low > 1e-9:
        middle = (low + high) / 2
        bound = -middle + k * (1.0 + math.log(middle / k))
        low, high = (middle, high) if bound > math.log(alarm) else (low, middle)
    return high


def tells(distribution, draws, *wrong, alarm=ALARM):
    """Assert that draws have a distribution, and others are told from it: neither fails by chance above ``alarm``."""
    assert distribution.fits(draws, alarm=alarm)
    for other in wrong:
        assert other.miss(distribution, len(draws), alarm=alarm) <= alarm
        assert not other.fits(draws, alarm=alarm)


def enough(distribution, *wrong):
    """Return a number of draws with which `tells` tells a distribution from others."""
    trials = 200
    while any(other.miss(distribution, trials) > ALARM for other in wrong):
        trials += trials // 4
    return trials


class OutcomeDistribution:
    """A distribution on finitely many points, to be checked by counts; points that come rarely are one cell.

    Parameters
    ----------
    heights
        Mapping of points to numbers that are proportional to their probabilities.
    outside
        Probability of all other points.
    """

    def __init__(self, heights, *, outside=0.0):
        whole = math.fsum(heights.values())
        self.of = {point: (1.0 - outside) * height / whole for point, height in heights.items()}
        self.outside = outside

    def cells(self, trials):
        """Return the points that have a cell of their own."""
        return [point for point, probability in self.of.items() if probability * trials >= FEWEST]

    def shares(self, cells):
        """Return the probabilities of cells and of all else."""
        own = [self.of.get(point, 0.0) for point in cells]
        return np.array([*own, max(0.0, 1.0 - math.fsum(own))])

    def fits(self, draws, *, alarm=ALARM):
        """Whether the draws may be of this distribution: a false alarm has a probability of at most ``alarm``."""
        cells, counts = self.cells(len(draws)), Counter(draws)
        observed = [counts[point] for point in cells]
        return counts_fit([*observed, len(draws) - sum(observed)], self.shares(cells), alarm=alarm)

    def miss(self, truth, trials, *, alarm=ALARM):
        """Return a bound of the probability that draws of another distribution pass as draws of this one."""
        cells = self.cells(trials)
        return miss_of_counts(self.shares(cells), truth.shares(cells), trials, alarm=alarm)


# -------------------------------------------------------------------------------------------- values with a known
# distribution


def follows(values, cdf, *, alarm=ALARM):
    """Whether values may have this continuous distribution function: Kolmogorov-Smirnov with its exact distribution.

    Rounding of the values to a lattice that is fine against 1 / n changes nothing.
    """
    below = np.sort(cdf(np.sort(np.asarray(values, dtype=float))))
    n = len(below)
    places = np.arange(n + 1) / n
    distance = max(float(np.max(places[1:] - below)), float(np.max(below - places[:-1])))
    return bool(kstwo.sf(distance, n) > alarm)


def miss_of_cdf(cdf, truth, trials, *, near, alarm=ALARM):
    """Return a bound of the probability that `follows` accepts one distribution function when another one is true.

    ``near`` has points; at that where the two differ most, the number of values below decides alone.
    """
    x = np.asarray(near, dtype=float)
    p, q = np.asarray(cdf(x)), np.asarray(truth(x))
    place = int(np.argmax(np.abs(p - q)))
    hits = np.arange(trials + 1)
    accepted = np.abs(hits / trials - p[place]) < kstwo.isf(alarm, trials)
    return float(binom.pmf(hits, trials, q[place])[accepted].sum())


def gamma_sum_fits(total, shape, scale=1.0, *, alarm=ALARM):
    """Whether a sum of independent gamma variables of this total shape may have this value: its two exact tails.

    A Laplace variable has an absolute value of shape 1; a vector of density exp(-rate K(b)) in D dimensions has K of
    shape D and scale 1 / rate; the sum of n squared normal variables has shape n / 2 and scale 2 sd².
    """
    return bool(min(gamma.cdf(total, shape, scale=scale), gamma.sf(total, shape, scale=scale)) > alarm / 2)


def miss_of_gamma_sum(shape, factor, *, alarm=ALARM):
    """Return the probability that `gamma_sum_fits` accepts a scale that is the true one times ``factor``: exact."""
    low, high = gamma.ppf(alarm / 2, shape), gamma.isf(alarm / 2, shape)
    return float(gamma.cdf(high * factor, shape) - gamma.cdf(low * factor, shape))


def square_sum_fits(values, sd, *, alarm=ALARM):
    """Whether independent normal values of mean 0 may have this standard deviation: exact chi-square tails."""
    values = np.asarray(values, dtype=float).ravel()
    return gamma_sum_fits(float(np.sum((values / sd) ** 2)), len(values) / 2, 2.0, alarm=alarm)


def normal_reach(comparisons=1, *, alarm=ALARM):
    """Return how many standard errors one of so many normal values exceeds with probability ``alarm`` at most."""
    return float(norm.isf(alarm / (2 * comparisons)))


def noise_reach(dimension, *, alarm=ALARM):
    """Return how many standard deviations a released number is away with probability ``alarm`` at most.

    For noise b of density exp(-rate K(b)): K is Gamma(dimension), whose tail bounds every linear function of b at once,
    to within sqrt(2) for the norms in use. It covers normal noise too. About 20: a number beyond it is wrong by far,
    and a distribution that is slightly off is for the tests of the samplers to find.
    """
    return float(math.sqrt(2.0) * gamma.isf(alarm, dimension) / math.sqrt(dimension + 1.0))


def errors_fit(errors, sampling, privacy, *, farthest=4.5):
    """Whether errors of estimates from fixed rows may be theirs: rows within ``farthest`` standard errors, and noise.

    The rows of a test are fixed, so that chance is in the noise alone: `noise_reach`, to first order in the noise.
    """
    sampling, privacy = (np.sqrt(np.diag(np.asarray(each, dtype=float))) for each in (sampling, privacy))
    allowed = farthest * sampling + noise_reach(len(sampling)) * privacy
    return bool(np.all(np.abs(np.asarray(errors, dtype=float)) <= allowed))


def least_trials(right, wrong, *, alarm=ALARM):
    """Return a number of trials with which `share_fits` tells two probabilities apart."""
    trials = 8
    while miss_of_share(right, wrong, trials, alarm=alarm) > alarm:
        trials += max(1, trials // 16)
    return trials
