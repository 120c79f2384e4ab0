r"""Caps of discrete-time hazard models: how much one person's loss may weigh in each interval.

The loss of interval ``s`` of a person with whitened covariates ``z`` saturates at

.. math:: h_s(z) = e^{d}\,g(\gamma_{ks} + \delta_k'z + o),

``g`` being the link's scale (`hdpstats.losses.HazardLink.log_scale`), ``k`` the cause and ``o`` the offset: a function
of the own covariates only, with public numbers (`hdpstats.records.model.HazardCap`). It is either the margin ``d``
above the hazard that public rows predict (`relative_cap`), or one level for everybody where there is no public fit
(`flat_cap`). Where the caps of a person add up to more than the total, the whole loss is weighed down
(`hdpstats.families.hazard.bounds` says why that moves no estimate where the model is true); the sums are those of
`hdpstats.families.hazard.spells`, and the constants those of `hdpstats.privacy.hazard_sensitivity`. Which margin and
total a fit takes, by predicted mean squared error, is the choice of `hdpstats.mechanisms.perturbation.hazard_request`.
"""

from typing import TYPE_CHECKING, Final

from hdpstats.losses import LINKS
from hdpstats.records.geometry import on_grid
from hdpstats.records.model import HazardCap

if TYPE_CHECKING:
    from hdpstats.families.hazard.public import HazardSide

FLAT_TOTAL: Final = 4.0
"""The largest sum of caps of one person where there is no public fit."""

UNCAPPED_TOTAL, UNCAPPED_MARGIN = 1e4, 20.0
"""A cap so high that it hardly binds."""


def relative_cap(side: "HazardSide", *, total: float, margin: float, weighs: bool = False) -> HazardCap:
    """Return the cap ``margin`` above the public fit; ``weighs`` as `HazardCap.weighs`."""
    e, block = side.spells.A.shape[1], side.spells.block
    parts = [side.fit.theta[k * block : (k + 1) * block] for k in range(side.spells.causes)]
    return HazardCap(
        total=total,
        margin=margin,
        baseline=tuple(tuple(on_grid(side.spells.A @ part[:e]).tolist()) for part in parts),
        slopes=tuple(tuple(on_grid(part[e:]).tolist()) for part in parts),
        weighs=True if weighs else None,
    )


def flat_cap(
    link: str, *, total: float | None, intervals: int, causes: int, covariates: int, weighs: bool
) -> HazardCap:
    """Return the same cap for every interval; together they are a declared total, or `FLAT_TOTAL`."""
    whole = FLAT_TOTAL if total is None else total
    level = LINKS[link].at_scale(whole / (intervals * causes))
    return HazardCap(
        weighs=True if weighs else None,
        total=whole * (1.0 + 2.0**-40),
        margin=0.0,
        baseline=((level,) * intervals,) * causes,
        slopes=((0.0,) * covariates,) * causes,
    )
