r"""The distributed logistic regression of Ji et al. (2014), as printed and corrected, with its baselines. NOT private.

They are here to reproduce the paper's experiments and to measure against: numpy noise from a seed, floating point as it
comes, any number of draws. The mechanism that may see private records is
`hdpstats.mechanisms.public_hessian.PublicHessian`.

Records are split into public people, sites and a test set, standardised and truncated as the paper does.

**Algorithms 1 and 2**, as printed, as meant, and corrected. They differ in three things.

*Hessian.* Printed is :math:`H = \sum_i \log\{e^{-b'x_i} / (1 + e^{-b'x_i})^2\} - (n_0 \lambda / N) I`, a number plus a
matrix. Meant is :math:`H = -\sum_i x_i x_i' p_i (1 - p_i) - (n_0 \lambda / N) I`. Taken at its word, with the number as
a multiple of the identity, the printed form is a method of steepest ascent with steps of ``1 / (1.39 N)`` or less.

*Noise.* Printed is a density proportional to :math:`\exp(-\epsilon_0 \|b\| / 2 M)`. Coefficients at which gradients are
asked for are public, so that :math:`M D(r)` is enough (`hdpstats.privacy.sensitivity`), half of it at 0.

*Start.* Algorithm 2 starts at 0; the results mention a start at the public fit.

The coefficients after a round of noise may be anywhere: nothing says that the steps converge.

**What the paper compares with**: a public fit, and a meta-analysis of noisy fits. In the
meta-analysis each site releases its penalised fit with noise of density proportional to
:math:`\exp(-\epsilon \lambda \|b\| / 2 M)`; the fits are averaged with weights :math:`n_j`. That is private for exact
minimisers. Weights of the inverse of sampling and noise variance together do better where sites differ in size.

References
----------
Ji Z., Jiang X., Wang S., Xiong L., Ohno-Machado L. (2014). Differentially private distributed logistic regression using
private and public data. BMC Medical Genomics 7 (Suppl. 1), S14.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
import pandas as pd
from scipy.special import expit

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import choice, integer, real
from hdpstats.inference.draws import Generator
from hdpstats.papers.trials import Hospital, ball_noise, fit, positive, seeded
from hdpstats.privacy.sensitivity import diameter
from hdpstats.schema.datasets import SIZE_LEVELS, load_gbsg, load_rotterdam

MOST_SITES: Final = 1000


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Split:
    """Public people, the sites' people and people to test on, all in the columns of ``names``, a constant first.

    ``norm`` is ``M``: the largest norm that a row can have.
    """

    public: Hospital
    sites: tuple[Hospital, ...]
    test: Hospital
    names: tuple[str, ...]
    norm: float

    @property
    def private(self) -> Hospital:
        """The people of all sites."""
        return Hospital(
            X=np.concatenate([site.X for site in self.sites]), y=np.concatenate([site.y for site in self.sites])
        )

    @property
    def train(self) -> Hospital:
        """All people but the test set."""
        private = self.private
        return Hospital(X=np.concatenate([self.public.X, private.X]), y=np.concatenate([self.public.y, private.y]))


def random_split(
    frame: pd.DataFrame,
    outcome: str,
    *,
    seed: int,
    sites: int = 3,
    public: float = 0.02,
    train: float = 0.6,
    truncation: float = 2.0,
) -> Split:
    """Return a random split as in the paper's experiments.

    Columns are standardised by the means and standard deviations of the public rows, and cut to ``truncation``; those
    that do not vary among public rows are left out.

    Parameters
    ----------
    frame
        Numeric columns without missing values.
    outcome
        The column of 0 and 1.
    seed
        Of the split.
    sites
        Between how many sites the private rows are divided, evenly.
    public, train
        The public part of the training set, and the training part of all rows.
    truncation
        ``M`` is ``sqrt(1 + p truncation^2)``.

    Examples
    --------
    >>> split = random_split(breast_cancer(), "event3", seed=1, sites=4, public=0.1)
    >>> len(split.sites), split.public.records + split.private.records + split.test.records
    (4, 2950)
    """
    count = integer(sites, name="sites", lower=1, upper=MOST_SITES)
    share, whole = (real(value, name="public", lower=0.0, upper=1.0, open_lower=True) for value in (public, train))
    rng = seeded(seed)
    order = rng.permutation(len(frame))
    trained = round(whole * len(frame))
    shown = round(share * trained)
    if min(shown, trained - shown, len(frame) - trained) < count:
        raise ArgumentError("public rows, each site and the test set need rows of their own", argument="frame")
    names = [name for name in frame.columns if name != outcome]
    X, y = frame[names].to_numpy(dtype=np.float64), frame[outcome].to_numpy(dtype=np.float64)
    of_public = X[order[:shown]]
    scale = of_public.std(axis=0)
    varies = scale > 0
    z = (X[:, varies] - of_public[:, varies].mean(axis=0)) / scale[varies]
    rows = np.column_stack([np.ones(len(z)), np.clip(z, -truncation, truncation)])

    def hospital(which: IntArray) -> Hospital:
        return Hospital(X=rows[which], y=y[which])

    return Split(
        public=hospital(order[:shown]),
        sites=tuple(hospital(part) for part in np.array_split(order[shown:trained], count)),
        test=hospital(order[trained:]),
        names=tuple(name for name, kept in zip(names, varies, strict=True) if kept),
        norm=float(np.sqrt(1.0 + varies.sum() * truncation**2)),
    )


def breast_cancer(study: str = "rotterdam") -> pd.DataFrame:
    """Return numeric columns of patients of a study: the paper's first data set is German breast cancer, gbsg.

    The outcome is ``event3``, relapse or death within three years; those censored before are left out.
    """
    chosen = choice(study, name="study", options=("gbsg", "rotterdam"))
    frame = load_gbsg() if chosen == "gbsg" else load_rotterdam()
    kept = frame[frame["event3"].notna()]
    columns = {
        "age": kept["age"],
        "meno": kept["meno"],
        **{f"size {level}": (kept["size"] == level) * 1.0 for level in SIZE_LEVELS[1:]},
        "grade3": kept["grade3"],
        "nodes": np.log1p(kept["nodes"]),
        "pgr": np.log1p(kept["pgr"]),
        "er": np.log1p(kept["er"]),
        "hormon": kept["hormon"],
        "event3": kept["event3"],
    }
    return pd.DataFrame(columns).astype(np.float64).reset_index(drop=True)


MOST_DRAWS: Final = 100_000
MOST_ROUNDS: Final = 100


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A reading of the algorithm: whether its Hessian is a matrix, its noise is for ``2 M``, its start is public."""

    matrix: bool
    twice_the_norm: bool
    from_public: bool


FORMS: Final = {
    "printed": Form(matrix=False, twice_the_norm=True, from_public=False),
    "meant, from 0": Form(matrix=True, twice_the_norm=True, from_public=False),
    "meant": Form(matrix=True, twice_the_norm=True, from_public=True),
    "corrected": Form(matrix=True, twice_the_norm=False, from_public=True),
}
"""The printed algorithm, what it means (from 0 as algorithm 2, from the public fit as the results), and corrected."""


def distributed_newton(
    split: Split, *, ridge: float, epsilon: float, seed: int, rounds: int = 2, form: str = "corrected", draws: int = 1
) -> FloatArray:
    """Return coefficients (draws, D) after the rounds, with noise drawn anew each time.

    >>> split = random_split(breast_cancer(), "event3", seed=1, public=0.1)
    >>> distributed_newton(split, ridge=1.0, epsilon=1.0, seed=2, draws=3).shape
    (3, 10)
    """
    chosen = FORMS[choice(form, name="form", options=tuple(FORMS))]
    number = integer(draws, name="draws", lower=1, upper=MOST_DRAWS)
    steps = integer(rounds, name="rounds", lower=1, upper=MOST_ROUNDS)
    weak = positive(ridge, "ridge")
    share = positive(epsilon, "epsilon") / steps
    rng = seeded(seed)
    people = split.public.records + split.private.records
    zero = np.zeros(split.public.X.shape[1])
    start = fit(split.public, ridge=weak * split.public.records / people) if chosen.from_public else zero
    return np.array([_walk(split, start, rng, chosen, ridge=weak, epsilon=share, rounds=steps) for _ in range(number)])


def _walk(
    split: Split, start: FloatArray, rng: Generator, form: Form, *, ridge: float, epsilon: float, rounds: int
) -> FloatArray:
    """Return the coefficients after the rounds, ``epsilon`` being that of one."""
    b, share = start, split.public.records / split.train.records
    for _ in range(rounds):
        wide = 2.0 if form.twice_the_norm else float(diameter(Fraction(split.norm * float(np.linalg.norm(b)))))
        scale = split.norm * wide / epsilon
        noise = sum((ball_noise(rng, scale, len(b)) for _ in split.sites), np.zeros(len(b)))
        upwards = gradient(split.train, b) + noise - ridge * b
        b = b - share * np.linalg.solve(hessian(split.public, b, ridge=share * ridge, matrix=form.matrix), upwards)
    return b


def gradient(people: Hospital, b: FloatArray) -> FloatArray:
    """Return the gradient (D,) of the log-likelihood."""
    return np.asarray(people.X.T @ (people.y - expit(people.X @ b)))


def hessian(public: Hospital, b: FloatArray, *, ridge: float, matrix: bool) -> FloatArray:
    """Return the paper's ``H`` (D, D), penalty included: as it is meant, or the printed number times the identity."""
    eta, identity = public.X @ b, np.eye(len(b))
    if not matrix:
        number = float(np.sum(-np.logaddexp(0.0, eta) - np.logaddexp(0.0, -eta)))  # the logarithm of p (1 - p)
        return np.asarray((number - ridge) * identity)
    p = expit(eta)
    return np.asarray(-(public.X.T * (p * (1.0 - p))) @ public.X - ridge * identity)


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
    weak = positive(ridge, "ridge")
    scale = 2.0 * split.norm / (weak * positive(epsilon, "epsilon"))
    number = integer(draws, name="draws", lower=1, upper=MOST_DRAWS)
    by_variance = choice(weights, name="weights", options=("people", "variances")) == "variances"
    rng = seeded(seed)
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
    precisions = []
    for site in split.sites:
        inverse = np.linalg.inv(site.records * curvature + ridge * np.eye(D))
        precisions.append(1.0 / (float(np.trace(inverse @ (site.records * curvature) @ inverse)) / D + noise))
    return np.array(precisions)


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
    from scipy.stats import rankdata

    ranks = rankdata(people.X @ theta)
    return float((ranks[people.y == 1.0].sum() - cases * (cases + 1) / 2.0) / (cases * others))
