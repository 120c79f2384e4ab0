r"""What a query asks, and a release says, of the two parts of a sandwich: private people's Hessians and squared scores.

At the released coefficients a person has the Hessian :math:`\nabla^2 \ell_i` and the score :math:`s_i`. Both
:math:`\nabla^2 \ell_i` and :math:`s_i s_i'` are positive semidefinite. Each is cut to a declared Frobenius norm ``c``
(:math:`A \min\{1, c / \|A\|_F\}`), summed over people, and released with noise. Of a person with several rows they are
the Hessian and the score of all rows together; that Hessian is cut to the trace ``c``, which is no smaller than its
norm.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.codec import LEFT_OUT, Record

MOST_SHARE = Fraction(9, 10)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SandwichPart(Record):
    """What a query asks for.

    Attributes
    ----------
    share : Fraction
        The share of the query's epsilon, half of it for either sum; above 0 and at most .9.
    curvature, scores : float
        The Frobenius norms that one person's Hessian and squared score are cut to.
    width : float or None
        The half-width of the window in which outcomes count for the curvature of a quantile's loss, on the scale of the
        linear predictor; None, which JSON leaves out, for that of the loss.
    """

    share: Fraction
    curvature: float
    scores: float
    width: Annotated[float | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse what is no share, no bound and no width."""
        if not 0 < self.share <= MOST_SHARE or self.share.denominator > 10**30:
            raise MechanismError("the sandwich's share must be above 0 and at most 0.9: a fraction of 30 digits")
        sizes = (self.curvature, self.scores, 1.0 if self.width is None else self.width)
        if not all(math.isfinite(each) and 1e-60 <= each <= 1e60 for each in sizes):
            raise MechanismError("the sandwich's bounds and width must be numbers in [1e-60, 1e60]")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NoisySandwich(Record):
    """What a release says.

    Attributes
    ----------
    hessian, scores : tuple of float
        The noisy sums of cut Hessians and squared scores, stacked as a Hessian is (`hdpstats.records.query.stack`).
    hessian_sd, scores_sd : float
        The standard deviation of the noise in each stacked entry.
    """

    hessian: tuple[float, ...]
    scores: tuple[float, ...]
    hessian_sd: float
    scores_sd: float
