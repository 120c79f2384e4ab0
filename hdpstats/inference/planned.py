r"""What released points of sites would err by, before anything is spent: what is known of curvature included.

A fit takes the ridge out with the best guess ``H`` of a curvature that is in truth :math:`\tilde H`
(`hdpstats.inference.sandwich`). With :math:`A = (I + H^{-1} \Lambda)(\tilde H + \Lambda)^{-1}` its estimate errs by

.. math:: -A (S + b) + M p, \qquad M = H^{-1} \Lambda - A \Lambda, \qquad p = \theta_0 - c.

``M`` is 0 where :math:`\tilde H = H`, and large where the ridge is large and public rows are few. Here :math:`\tilde H`
is drawn from what a fit would know of it: random weightings of the public rows, the same at all sites, as a fit has it.
Given it the covariances are in closed form; they are averaged. Of the pull ``p`` the second moments are those that
pooling expects where private and public people are alike (`hdpstats.inference.pooling.expected_pull`). Without a public
fit it is not known how far the ridge pulls: that part is then left out. Of a level that public rows lack the pull is
not known either: with people invented for one (`hdpstats.public.absent`) plans take curvature for known.

Guarantee: public numbers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.combination import shares
from hdpstats.inference.information import OverPublicPeople, ScoreNoise, draw_jointly
from hdpstats.inference.pooling import expected_pull
from hdpstats.inference.sandwich import PredictedCovariance, averaged, of_point
from hdpstats.public.moments import Moments, PublicFit

MOST, FEWEST, TERMS = 100, 12, 400_000
"""Draws of curvature; fewer where people of a site have more terms than that in all."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlannedPoint:
    """A point that a site would release: the noise, the ridge, and what would be known of curvature."""

    noise: ScoreNoise
    ridge: float
    information: OverPublicPeople

    def predicted(self) -> PredictedCovariance:
        """Return what the unshrunk point errs by, were curvature known to be the best guess."""
        known = self.information
        return of_point(known.public, noise=self.noise, records=round(known.records), known=known)

    def unshrunk(self, at: Moments, drawn: Moments) -> tuple[PredictedCovariance, FloatArray]:
        """Return what it errs by where curvature is as ``drawn`` (B of each), and ``M`` (B, D, D)."""
        identity = np.eye(len(at.H))
        taken = self.ridge * np.linalg.inv(at.H)
        A = (identity + taken) @ np.linalg.inv(drawn.H + self.ridge * identity)
        back = np.swapaxes(A, 1, 2)
        found = PredictedCovariance(
            sampling=np.mean(A @ drawn.J @ back, axis=0),
            privacy=np.mean(A @ self.noise.covariance(drawn.H) @ back, axis=0),
        )
        return found, np.asarray(taken - self.ridge * A)


def planned_covariance(sites: Sequence[PlannedPoint], fit: PublicFit | None) -> PredictedCovariance:
    """Return what the average of the sites' estimates by inverse variance errs by."""
    centre = sites[0].information.public.centre
    at = [each.information.at(centre) for each in sites]
    known = [each.predicted() for each in sites]
    weights = shares([each.covariance for each in known])
    count = min(_count(each.information) for each in sites)
    drawn = draw_jointly(draws.nodes(), [each.information for each in sites], theta=centre, count=count)
    parts = [each.unshrunk(best, moments) for each, best, moments in zip(sites, at, drawn, strict=True)]
    sampling = np.asarray(sum(W @ each.sampling @ W.T for W, (each, _) in zip(weights, parts, strict=True)))
    privacy = np.asarray(sum(W @ each.privacy @ W.T for W, (each, _) in zip(weights, parts, strict=True)))
    if fit is not None:
        missed = np.asarray(sum(W @ M for W, (_, M) in zip(weights, parts, strict=True)))
        pull = expected_pull(averaged(known).covariance, fit)
        sampling = sampling + np.mean(missed @ pull @ np.swapaxes(missed, 1, 2), axis=0)
    return PredictedCovariance(sampling=sampling, privacy=privacy)


def _count(information: OverPublicPeople) -> int:
    """Return for how many draws of curvature there is time."""
    return min(MOST, max(FEWEST, TERMS // (information.public.people * information.public.cells)))
