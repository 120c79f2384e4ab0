"""Newton steps with a public Hessian and noisy private gradients.

Guarantee: pure epsilon, or (epsilon, delta) with normal noise. Source: Ji et al. (2014), algorithms 1 and 2, corrected.
Use: to reproduce the paper, to teach and to compare; `hdpstats.mechanisms.clipped_newton` needs less noise.
Proof: `hdpstats.mechanisms.public_hessian.site`.

* ``estimate``: Standard errors of Newton steps with a public Hessian: the steps are repeated, linearised, on drawn
  public people.
* ``request``: Newton steps with a public Hessian and noisy private gradients, as data flow: Ji et al. (2014),
  corrected.
* ``site``: A noisy sum of logistic scores of rows cut to a length: one round of Ji et al. (2014), algorithm 1,
  corrected.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import choice, integer, real
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.records.model import RegressionModel
from hdpstats.records.query import MechanismOptions
from hdpstats.records.several import RoundQuery, RoundRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PublicHessian(MechanismOptions):
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
        records, on which no epsilon was spent.
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
class PublicHessianQuery(RoundQuery):
    """Sum the people's logistic scores at given coefficients, their rows cut to a length, and add noise.

    The round costs ``cost`` of what the whole fit keeps, and the rounds that are still to come cost ``ahead``: in
    epsilon without a delta, else in squared Gaussian differential privacy. There are at most 2000 coefficients
    (`hdpstats.records.limits`).

    Attributes
    ----------
    model : RegressionModel
        A logistic regression without weights and offset. Of its geometry location and whitening count: rows are cut,
        not weighted down.
    truncation : float
        Whitened covariates are cut to this size, one by one.
    norm : Fraction
        ``M``: rows that are longer, the intercept's 1 included, are shortened to it; a binary64 number.
    cost, ahead : Fraction
        What this round costs, and what the later ones will.
    """

    kind: ClassVar[str] = "public_hessian/1"
    model: RegressionModel
    truncation: float
    norm: Fraction
    cost: Fraction

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself, or is too large, or rounds that cost more than is offered."""
        self.check("norm", self.norm, least=Fraction(1, 1000), most=10**6, cost=self.cost, farthest=1e6)
        model = self.model
        if model.loss != "logistic" or model.weights is not None or model.offset is not None:
            raise MechanismError("scores of rows of bounded length are for logistic losses without weights and offset")
        if not 1e-3 <= self.truncation <= 1e6:
            raise MechanismError("the truncation must be in [1e-3, 1e6]")
        if not self.cost > 0:
            raise MechanismError("the query needs cost > 0")
        whole = self.cost + self.ahead
        if not (whole <= self.epsilon if self.delta == 0 else delta_of_square(self.epsilon, whole) <= self.delta):
            raise MechanismError("the rounds must together cost no more than epsilon and delta allow")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PublicHessianRelease(RoundRelease):
    """The noisy sum of scores of cut rows: the gradient of the sum of losses."""

    kind: ClassVar[str] = "public_hessian/1"
