r"""What Ji et al. (2014) compare with: a meta-analysis of noisy fits, a public fit, and the area under the ROC curve.

In the meta-analysis each site releases its penalised fit with noise of density proportional to
:math:`\exp(-\epsilon \lambda \|b\| / 2 M)`; the fits are averaged with weights :math:`n_j`. That is private for exact
minimisers. Weights of the inverse of sampling and noise variance together do better where sites differ in size.
NOT private.
"""

import numpy as np
from scipy.stats import rankdata

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, integer, real
from hdpstats.inference.draws import generator
from hdpstats.papers.ji2014.newton import MOST_DRAWS, ball_noise, hessian
from hdpstats.papers.ji2014.split import Split
from hdpstats.papers.trials import LARGEST_SEED
from hdpstats.papers.wang.hospitals import Hospital, fit


def everybody(split: Split, *, ridge: float = 1e-6) -> FloatArray:
    """Return the penalised fit (D,) to public and private people together, without noise."""
    return fit(split.train, ridge=ridge)


def public_only(split: Split, *, ridge: float) -> FloatArray:
    """Return the penalised fit (D,) to public people alone."""
    return fit(split.public, ridge=ridge)


def meta_analysis(
    split: Split, *, ridge: float, epsilon: float, seed: int, weights: str = "people", draws: int = 1
) -> FloatArray:
    """Return averages (draws, D) of the sites' fits, each with noise drawn anew.

    Parameters
    ----------
    split
        The records.
    ridge
        ``lambda`` of each site's penalty: the noise is inversely proportional to it.
    epsilon, seed, draws
        What each site spends; of the noise; how often it is drawn.
    weights
        ``"people"``, the numbers of people, as in the paper; or ``"variances"``, inverse predicted variances.
    """
    weak = real(ridge, name="ridge", lower=0.0, open_lower=True)
    scale = 2.0 * split.norm / (weak * real(epsilon, name="epsilon", lower=0.0, open_lower=True))
    number = integer(draws, name="draws", lower=1, upper=MOST_DRAWS)
    by_variance = choice(weights, name="weights", options=("people", "variances")) == "variances"
    rng = generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):064x}")
    fits = np.array([fit(site, ridge=weak) for site in split.sites])
    shares = _precisions(split, weak, scale) if by_variance else np.array([site.records for site in split.sites])
    shares = shares / shares.sum()
    D = fits.shape[1]
    noise = np.array([[ball_noise(rng, scale, D) for _ in split.sites] for _ in range(number)])
    return np.asarray(np.einsum("j,bjd->bd", shares, fits + noise))


def _precisions(split: Split, ridge: float, scale: float) -> FloatArray:
    """Return the inverse of each site's mean variance (k,): of sampling, by public curvature, and of noise."""
    public = split.public
    curvature = -hessian(public, fit(public, ridge=ridge), ridge=0.0, matrix=True) / public.records
    D = len(curvature)
    noise = (D + 1) * scale**2
    found = []
    for site in split.sites:
        inverse = np.linalg.inv(site.records * curvature + ridge * np.eye(D))
        found.append(1.0 / (float(np.trace(inverse @ (site.records * curvature) @ inverse)) / D + noise))
    return np.array(found)


def auc(people: Hospital, theta: FloatArray) -> float:
    """Return the area under the ROC curve of a linear predictor: how often a case's is above another's, ties half.

    >>> people = Hospital(X=np.array([[1.0], [2.0], [3.0]]), y=np.array([0.0, 1.0, 1.0]))
    >>> auc(people, np.array([1.0]))
    1.0
    """
    cases = int(people.y.sum())
    others = people.records - cases
    if cases * others == 0:
        raise ArgumentError("the area under the curve needs people with and without the outcome", argument="people")
    ranks = rankdata(people.X @ theta)
    return float((ranks[people.y == 1.0].sum() - cases * (cases + 1) / 2.0) / (cases * others))
