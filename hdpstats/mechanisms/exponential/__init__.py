"""The exponential mechanism: one draw from the tempered posterior on a box.

The draw is exact, by rejection; delta bounds the probability that no proposal is accepted.
Guarantee: (epsilon, delta). Source: Nguyen and Hui (2017), algorithm 3, made exact (McSherry and Talwar 2007).
Use: to reproduce the paper, or with few coefficients. Proof: `hdpstats.mechanisms.exponential.site`.

* ``request``: The query of exponential sampling: box, number of proposals and ridge, all from public facts.
* ``site``: The exponential mechanism on a box, drawn exactly by rejection with an acceptance that is certain
  beforehand.
"""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size
from hdpstats.records.limits import MOST_PROPOSALS
from hdpstats.records.query import MechanismOptions, PointQuery, PointRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialMechanism(MechanismOptions):
    """A draw from the tempered posterior on a box (Nguyen and Hui 2017, algorithm 3, made exact): for a delta.

    The draw is exact, by rejection: no Markov chain, whose distance from its limit nobody knows. The delta is the
    probability that no proposal is accepted, bounded before a row is read, whatever the rows are. Fits that would
    rarely accept are refused, as are sites where the number of people is protected, links other than logit, and models
    without public rows. Its noise is a multiple of the sampling error at any number of people; that of the other
    mechanisms falls faster.
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialQuery(PointQuery):
    """Draw coefficients with probability ∝ exp(-s (sum of losses + ridge)) on a box about the centre.

    Attributes
    ----------
    half_widths : tuple of float
        Of the box in each whitened direction (D,).
    proposals : int
        How many proposals are made; where none is accepted the centre is released, which delta covers. At most a
        million, and at most 10^10 over the number of people (`hdpstats.records.limits`).
    """

    kind: ClassVar[str] = "exponential/1"
    half_widths: tuple[float, ...]
    proposals: int

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        PointQuery.__post_init__(self)
        if len(self.half_widths) != self.model.dimension or not all(1e-6 <= each <= 1e6 for each in self.half_widths):
            raise MechanismError(f"the box must have {self.model.dimension} half-widths in [1e-6, 1e6]")
        if not self.proposals >= 1:
            raise MechanismError("the number of proposals must be 1 or more")
        check_size("proposals", self.proposals, MOST_PROPOSALS, remedy="use mechanism='objective'")
        if self.delta == 0 or self.for_errors:
            raise MechanismError("sampling needs a delta above 0, and releases no Hessian")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialRelease(PointRelease):
    """A draw. ``temperature`` is ``s``: the distribution is that of the posterior to this power."""

    kind: ClassVar[str] = "exponential/1"
    temperature: float
