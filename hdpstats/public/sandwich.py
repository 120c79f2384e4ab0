"""What public people tell of private Hessians and squared scores that are to be released, each cut to a norm.

Not every family releases them (`hdpstats.models.sandwich_share`): a public side that tells of them is a `SandwichSide`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from hdpstats._base.typing import FloatArray
from hdpstats.public.moments import Moments, PublicSide
from hdpstats.records.sandwich import SandwichPart


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    r"""Mean traces of public people's Hessians and squared scores, with a window's half-width; None for the loss's own.

    ``part`` is the share of people who have curvature, :math:`(E\, l'')^2 / E\, l''^2`.
    """

    width: float | None
    curvature: float
    scores: float
    part: float


class SandwichSide(PublicSide, ABC):
    """A public side of a family whose private people's Hessians and squared scores may be released."""

    @abstractmethod
    def windows(self, halvings: int) -> tuple[float | None, ...]:
        """Return half-widths of windows in which outcomes may count for curvature, the widest first; None for none."""

    @abstractmethod
    def sandwich_at(self, width: float | None) -> Window:
        """Return how large public people's Hessians and squared scores are at the centre."""

    @abstractmethod
    def cut_moments(
        self, theta: FloatArray, part: SandwichPart, *, row_weights: FloatArray | None = None
    ) -> tuple[Moments, Moments]:
        """Return averages of one public person's moments at ``theta``: whole, and each person's matrices cut.

        ``row_weights`` (B, people) give a pair of stacks (B, D, D) instead, one for each weighting of the people.
        """


def sandwich_side(side: PublicSide | None) -> SandwichSide | None:
    """Return a side that tells of released Hessians and squared scores; None for others."""
    return side if isinstance(side, SandwichSide) else None
