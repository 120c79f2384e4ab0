"""Output perturbation: noise on the certified minimiser of the penalised sum of losses.

Guarantee: pure epsilon, or (epsilon, delta) with normal noise where that is smaller. Source: Nguyen and Hui (2017),
algorithm 1, corrected. Use: losses that have a bounded gradient and nothing else.
Proof: `hdpstats.mechanisms.output.site`.
"""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats.mechanisms.objective import WithHessianShare
from hdpstats.records.query import PointQuery, PointRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OutputPerturbation(WithHessianShare):
    """Noise on the certified minimiser (Nguyen and Hui 2017, algorithm 1, corrected; public-whitened form).

    Pure, unless a delta is offered with which normal noise is smaller. More noise than objective perturbation adds
    wherever that has a proof; this proof asks nothing of the losses but a bounded gradient.

    Parameters
    ----------
    se_share
        Share of epsilon, from 0 to 0.9, that is spent on a noisy Hessian, as for `ObjectivePerturbation`.

    Examples
    --------
    >>> OutputPerturbation().share
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
