"""Noise before or after the penalised sum of losses is minimised: objective and output perturbation.

*Objective perturbation* adds a random linear term to the sum before it is minimised. It is the default of every
regression, and at several sites without a delta. *Output perturbation* adds noise to the certified minimiser: for
losses that have a bounded gradient and nothing else. Guarantee: both pure epsilon, or (epsilon, delta) with normal
noise where that is smaller; they survive a finite solver and floating point. Source: Chaudhuri, Monteleoni and Sarwate
(2011); Nguyen and Hui (2017), algorithms 2 and 1, corrected. Proofs: `hdpstats.mechanisms.perturbation.site`.

* ``hazard_request``: The query of objective perturbation for a hazard model: geometry, cap, centre and ridge, all
  from public facts.
* ``request``: The queries of objective and output perturbation: geometry, centre, ridge and kind of noise, all from
  public facts.
* ``site``: Objective and output perturbation that survive a finite solver and floating point: pure, or with normal
  noise.
* ``smoothing``: The ridge and the share of epsilon for smoothing, chosen together: the least predicted variance from
  public facts.
"""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats.records.query import PointQuery, PointRelease, WithHessianShare


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectivePerturbation(WithHessianShare):
    """Objective perturbation (Nguyen and Hui 2017, algorithm 2, corrected; public-whitened form).

    Pure, unless a delta is offered with which normal noise is smaller.

    Parameters
    ----------
    se_share
        Share of epsilon, from 0 to 0.9, that is spent on what standard errors rest on: a noisy Hessian, or with public
        rows, for regressions of one predictor, noisy sums of private Hessians and squared scores. ``"auto"`` leaves it
        to the fit (`Model.fit`). 0 asks for coefficients alone.

    Examples
    --------
    >>> ObjectivePerturbation(se_share=0.15).share
    Fraction(3, 20)
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveQuery(PointQuery):
    """Minimise the perturbed, penalised objective once: with K-norm noise, or with normal noise for a delta above 0."""

    kind: ClassVar[str] = "objective/1"

    @property
    def smooths(self) -> bool:
        """Noise enters the objective."""
        return True


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveRelease(PointRelease):
    """The perturbed minimiser; its noise entered the objective."""

    kind: ClassVar[str] = "objective/1"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OutputPerturbation(WithHessianShare):
    """Noise on the certified minimiser (Nguyen and Hui 2017, algorithm 1, corrected; public-whitened form).

    Pure, unless a delta is offered with which normal noise is smaller. More noise than objective perturbation adds
    wherever that has a proof; this proof asks nothing of the losses but a bounded gradient.

    Parameters
    ----------
    se_share
        Share of epsilon, from 0 to 0.9, that is spent on what standard errors rest on, or ``"auto"``, as for
        `ObjectivePerturbation`.

    Examples
    --------
    >>> OutputPerturbation(se_share=0).share
    Fraction(0, 1)
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OutputQuery(PointQuery):
    """Minimise the penalised objective and add noise: K-norm noise, or normal noise for a delta above 0."""

    kind: ClassVar[str] = "output/1"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OutputRelease(PointRelease):
    """The minimiser with noise."""

    kind: ClassVar[str] = "output/1"
