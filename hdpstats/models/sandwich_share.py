r"""Which share of epsilon a fit spends on its private people's own Hessians and squared scores: public facts only.

Public rows tell curvature and the covariance of scores as far as private people vary as they do. With many people that
is what standard errors err by. Two noisy sums at the released coefficients tell both (`hdpstats.records.sandwich`), and
cost next to nothing where there are many people and much epsilon. A sum over ``n`` people of stacked matrices of
``k = D (D + 1) / 2`` entries, each cut to ``m`` times their mean trace, at half of a share ``s``, has noise of

.. math:: \sigma = \frac{2 m D \sqrt{k + 1}\, r}{n s \epsilon}

in an entry, over the mean of the diagonal; :math:`r` is :math:`\sqrt 2` where a person is replaced, else 1. Where only
a part ``p`` of people has curvature, as with a quantile's window, ``m`` is divided by it.

Both the share and the noise make standard errors larger where private people are as public ones, by about

.. math:: \sqrt{1 + q \{(1 - s)^{-2} - 1\}} - 1 + \tfrac{4}{3} D \sigma^2 :

privacy noise, a part ``q`` of the variance, grows by ``1 / (1 - s)``, and inverses of noisy matrices err (measured at
``D`` of 5 to 8). Of `SHARES` those are possible for which it is at most `COST` at the smallest ``m``, and its first
part at most `MOST_GROWN`; where none is, nothing is asked for. Among them it is least, at `ORDINARY` as ``m``, for the
one that is taken. Then ``m`` is the largest of `MULTIPLES` with a noise of `WANTED`, or less by the root of ``m`` over
`ORDINARY` where that is larger: with more people less is cut, and noise falls too.
A quantile's window is the narrowest with that, of the public rows' own, its halves, quarters, .... The part is no
larger than what the number of people and averages of them leave of a fifth of epsilon
(`hdpstats.models.own_description.MOST_OF_ALL`).
"""

import math
from fractions import Fraction
from typing import Final

from hdpstats.families.spec import LossSpec
from hdpstats.models.own_description import MOST_OF_ALL
from hdpstats.models.site_records import SiteRecords
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.sandwich import SandwichSide
from hdpstats.records.limits import MOST_WITH_HESSIAN
from hdpstats.records.model import AnyModel
from hdpstats.records.sandwich import SandwichPart

SHARES: Final = tuple(Fraction(each, 200) for each in (1, 2, 3, 4, 6, 8, 10, 12, 16, 20))
"""Shares of epsilon among which a fit chooses."""

MULTIPLES: Final = (4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0)
"""Norms that a person's matrix is cut to, over the mean trace."""

ORDINARY: Final = 16.0
"""The multiple for which the share is chosen."""

WANTED: Final = 0.05
"""Noise of an entry, over the mean of the diagonal, that is aimed at."""

MOST_GROWN, COST = 0.03, 0.04
"""By how much standard errors may grow at most, relative to themselves: by the share, and by that and noise."""

HALVINGS: Final = 4
"""How often the window of public rows may be halved."""

ROOTS: Final = (
    1.0,
    1.0905077326652577,
    1.189207115002721,
    1.2968395546510096,
    1.4142135623730951,
    1.5422108254079407,
    1.681792830507429,
    1.8340080864093424,
)
"""Powers of the eighth root of two as doubles: a query is the same on machines whose powers differ in a last digit."""


def chosen_part(
    spec: LossSpec, side: SandwichSide, site: SiteRecords, model: AnyModel, *, share: Fraction | None
) -> SandwichPart | None:
    """Return what a site is asked for; None where noise would hide it.

    Parameters
    ----------
    spec, side
        The model, and its public people at the query's geometry.
    site
        What is known of the site's people, and what is left to spend.
    model
        What is asked about.
    share
        The share of that; None for the one that is chosen, which may be none.
    """
    D, n, epsilon = model.dimension, max(site.records, 1), float(site.request.epsilon)
    persons = math.sqrt(2.0) if spec.study.relation is Relation.REPLACE_ONE else 1.0
    unit = 2.0 * D * math.sqrt(D * (D + 1) / 2.0 + 1.0) * persons / (n * epsilon)
    windows = [side.sandwich_at(width) for width in side.windows(HALVINGS)]
    widest = windows[0]
    if share is None and D > MOST_WITH_HESSIAN:
        return None
    if share is None:
        left = site.request.epsilon
        most = (MOST_OF_ALL * (left + site.for_count + site.for_averages) - site.for_count - site.for_averages) / left
        noisy = spec.noisy_part(model, widest.scores / D, epsilon=site.request.epsilon, records=n)
        allowed = [each for each in SHARES if each <= most]

        def cost(each: Fraction, multiple: float) -> float:
            return cost_of(each, noisy, noise=unit * multiple / (widest.part * float(each)), dimension=D)

        allowed = [each for each in allowed if cost(each, 0.0) <= MOST_GROWN and cost(each, MULTIPLES[0]) <= COST]
        if not allowed:
            return None
        share = min(allowed, key=lambda each: cost(each, ORDINARY))
    noise = unit / float(share)
    narrowest = [each for each in windows if _aimed(noise * MULTIPLES[1] / each.part, widest.part / each.part)]
    window = narrowest[-1] if narrowest else widest
    return SandwichPart(
        share=share,
        curvature=_bound(window.curvature / window.part, noise=noise / window.part),
        scores=_bound(window.scores, noise=noise),
        width=window.width,
    )


def cost_of(share: Fraction, noisy: float, *, noise: float, dimension: int) -> float:
    """Return by how much standard errors grow, of whose variance a part is noise; see the module's docstring."""
    grown = math.sqrt(1.0 + noisy * ((1.0 - float(share)) ** -2.0 - 1.0)) - 1.0
    return grown + 4.0 / 3.0 * dimension * noise**2


def _aimed(noise: float, finer: float) -> bool:
    """Return whether noise is what is aimed at, where so many times less is cut than usual."""
    return noise * math.sqrt(max(finer, 1.0)) <= WANTED


def _bound(level: float, *, noise: float) -> float:
    """Return what matrices of a mean trace are cut to, rounded to a power of the eighth root of two."""
    multiple = max((each for each in MULTIPLES if _aimed(noise * each, each / ORDINARY)), default=MULTIPLES[0])
    eighths = round(8.0 * math.log2(multiple * max(level, 1e-50)))
    return math.ldexp(ROOTS[eighths % 8], eighths // 8)
