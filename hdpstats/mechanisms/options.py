"""The mechanisms that a user may name, with the options that change what is promised."""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import choice, integer, real

__all__ = [
    "ClippedNewton",
    "ExponentialMechanism",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PerturbedHistogram",
    "PublicHessian",
    "SubsampleAggregate",
    "SufficientStatistics",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class _BuyingHessian:
    se_share: float = 0.0

    def __post_init__(self) -> None:
        """Validate the share."""
        real(self.se_share, name="se_share", lower=0.0, upper=0.9)

    @property
    def share(self) -> Fraction:
        """The share as the exact fraction that was meant."""
        return Fraction(str(self.se_share))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectivePerturbation(_BuyingHessian):
    """Objective perturbation (Nguyen and Hui 2017, algorithm 2, corrected; public-whitened form).

    Pure, unless a delta is offered with which normal noise is smaller.

    Parameters
    ----------
    se_share
        Share of epsilon, from 0 to 0.9, that buys a noisy Hessian: standard errors then rest on the private
        covariates, not on public rows.

    Examples
    --------
    >>> ObjectivePerturbation(se_share=0.15).share
    Fraction(3, 20)
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OutputPerturbation(_BuyingHessian):
    """Noise on the certified minimiser (Nguyen and Hui 2017, algorithm 1, corrected; public-whitened form).

    Pure, unless a delta is offered with which normal noise is smaller. More noise than objective perturbation adds
    wherever that has a proof; this proof asks nothing of the losses but a bounded gradient.

    Parameters
    ----------
    se_share
        Share of epsilon, from 0 to 0.9, that buys a noisy Hessian, as for `ObjectivePerturbation`.

    Examples
    --------
    >>> OutputPerturbation().share
    Fraction(0, 1)
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ClippedNewton:
    """Noisy sums of clipped scores at a few points, solved against public people: for an (epsilon, delta).

    What is clipped is a person's whole score, however long the follow-up, so that much less noise is needed than the
    worst record would ask for. The bias of clipping is taken out by public people with outcomes, of whom 12 per
    coefficient are needed: private ones are taken to be distributed as they are.

    Parameters
    ----------
    rounds
        How often the site is asked, 1 to 4; 1 for a fit without a delta.
    clip_quantile
        Scores are clipped at this quantile of their length at the public fit, from 0.5 to 0.999.
    censoring
        How long private people are followed in a survival model: ``"as public"``, as a product-limit estimate from
        public people says, or ``"administrative"``, to the horizon, all of them.

    Examples
    --------
    >>> ClippedNewton(clip_quantile=0.9)
    ClippedNewton(rounds=3, clip_quantile=0.9, censoring='as public')
    """

    rounds: int = 3
    clip_quantile: float = 0.95
    censoring: str = "as public"

    def __post_init__(self) -> None:
        """Validate the options."""
        integer(self.rounds, name="rounds", lower=1, upper=4)
        real(self.clip_quantile, name="clip_quantile", lower=0.5, upper=0.999)
        choice(self.censoring, name="censoring", options=("as public", "administrative"))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PublicHessian:
    """Newton steps with noisy gradients and a public Hessian (Ji et al. 2014, algorithms 1 and 2), corrected.

    For logistic regressions with public rows, at one site or several: to reproduce the paper, to teach and to compare.
    `ClippedNewton` needs fewer assumptions and less noise. Public and private people are taken as one population, their
    gradients are added, and the estimate is that of a model in which standardised covariates are cut to the truncation.
    Where private covariates vary more than twice as much as public ones in some direction, every step leads farther
    away from the maximum, as with any curvature that is too small by half; standard errors do not know of it.
    What is corrected: the Hessian, whose printed formula has a logarithm and lacks the outer product; the sensitivity,
    which at public coefficients is smaller than the printed ``2 M``. With a delta noise is normal.

    Parameters
    ----------
    rounds
        The number of steps, 1 to 10, each of which gets the same part of what the fit costs.
    ridge
        ``lambda`` of the penalty ``lambda ||b||^2 / 2``, in standardised coordinates, intercept included. By default
        what public coefficients and the noise to come make best; the paper chooses it by cross-validation on private
        records, which nobody paid for.
    truncation
        Covariates, standardised by public means and standard deviations, are cut to this size.
    start
        ``"public fit"``, as the paper's results say, or ``"zero"``, as its algorithm says.

    Examples
    --------
    >>> PublicHessian(rounds=1)
    PublicHessian(rounds=1, ridge=None, truncation=2.0, start='public fit')
    """

    rounds: int = 2
    ridge: float | None = None
    truncation: float = 2.0
    start: str = "public fit"

    def __post_init__(self) -> None:
        """Validate the options."""
        integer(self.rounds, name="rounds", lower=1, upper=10)
        if self.ridge is not None:
            real(self.ridge, name="ridge", lower=1e-6, upper=1e9)
        real(self.truncation, name="truncation", lower=0.1, upper=100.0)
        choice(self.start, name="start", options=("public fit", "zero"))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialMechanism:
    """A draw from the tempered posterior on a box (Nguyen and Hui 2017, algorithm 3, made exact): for a delta.

    The draw is exact, by rejection: no Markov chain, whose distance from its limit nobody knows. The delta is the
    probability that no proposal is accepted, bounded before a row is read, whatever the rows are. Fits that would
    rarely accept are refused, as are sites where the number of people is protected, links other than logit, and models
    without public rows. Its noise is a multiple of the sampling error at any number of people; that of the other
    mechanisms falls faster.
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PerturbedHistogram:
    """Noisy counts of the cells of a public grid, to whose centres the model is fitted (Lei 2011), pure.

    It uses no public record: the baseline for what they add. For few columns only; a grid that would be too fine for
    the number of people is refused before anything is charged.

    Parameters
    ----------
    bins
        Classes of each numeric column between its declared bounds; by default as many as balance what a cell hides and
        what the noise of more cells adds.

    Examples
    --------
    >>> PerturbedHistogram(bins=10)
    PerturbedHistogram(bins=10)
    """

    bins: int | None = None

    def __post_init__(self) -> None:
        """Validate the options."""
        if self.bins is not None:
            integer(self.bins, name="bins", lower=2, upper=10**4)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SufficientStatistics:
    """Noisy sums of the sufficient statistics of an exponential family (Chen and Sung, algorithm 3, corrected), pure.

    The noise falls with the number of people, whatever the parameters: the choice for all families of
    `hdpf.distribution`.
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleAggregate:
    """The mean of estimates from disjoint blocks of people, with noise (Chen and Sung, algorithm 1, corrected), pure.

    Blocks are runs of rows where whoever holds the rows declared that their order was not made from values
    (``Study(row_order="arbitrary")``, or a site's own declaration). Where people are named instead
    (``Study(unit=..., max_rows_per_unit=1)``) a hash of the name makes the blocks, whatever the order, with twice the
    noise. Otherwise the site refuses.

    For `hdpf.distribution`. `SufficientStatistics` needs less noise; this asks nothing of an estimate but that it can
    be projected on a public box. Noise and bias vanish beside the sampling error only where epsilon is large against
    the sixth root of one over the number of people.

    Parameters
    ----------
    blocks
        How many; by default the number of least predicted error, with 25 rows each or more.
    window
        With 25 public rows or more, estimates of blocks are projected on a window around the public estimate, so many
        standard errors of a block's distance from it wide on each side; less noise than on the whole ranges. None for
        the whole ranges.

    Examples
    --------
    >>> SubsampleAggregate(blocks=40)
    SubsampleAggregate(blocks=40, window=5.0)
    """

    blocks: int | None = None
    window: float | None = 5.0

    def __post_init__(self) -> None:
        """Validate the options."""
        if self.blocks is not None:
            integer(self.blocks, name="blocks", lower=1, upper=2**20)
        if self.window is not None:
            real(self.window, name="window", lower=1.0, upper=100.0)


DistributionMechanism = SufficientStatistics | SubsampleAggregate
"""The mechanisms of `hdpf.distribution`, and of no other model."""

Mechanism = (
    ObjectivePerturbation
    | OutputPerturbation
    | ClippedNewton
    | PublicHessian
    | ExponentialMechanism
    | PerturbedHistogram
    | SufficientStatistics
    | SubsampleAggregate
)
"""Any of the mechanisms."""

BY_NAME: dict[str, type[Mechanism]] = {
    "objective": ObjectivePerturbation,
    "output": OutputPerturbation,
    "clipped_newton": ClippedNewton,
    "public_hessian": PublicHessian,
    "exponential": ExponentialMechanism,
    "histogram": PerturbedHistogram,
    "statistics": SufficientStatistics,
    "subsample": SubsampleAggregate,
}
"""The mechanisms by the names that `fit` takes."""


def named(mechanism: object) -> Mechanism | None:
    """Return the options of a mechanism given by name or as an object; None where the model is to choose ("auto")."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    if isinstance(mechanism, str) and mechanism == "auto":
        return None
    if isinstance(mechanism, str) and mechanism in BY_NAME:
        return BY_NAME[mechanism]()
    names = ", ".join(map(repr, BY_NAME))
    raise MechanismError(
        f"mechanism must be 'auto', {names} or an object of hdp.mechanisms, not {mechanism!r}: these are the ones "
        "whose proofs the package holds",
        available=tuple(BY_NAME),
    )
