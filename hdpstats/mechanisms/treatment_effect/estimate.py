r"""Means by arm from noisy cells, and the errors of effects by stacked estimating equations.

With the total weights ``A, B`` of an arm in which the outcome is 0 and 1, its risk is :math:`B / (A + B)`; of a number
with the cells ``A, B, C`` the mean is :math:`l + (u - l) (B / 2 + C) / (A + B + C)`
(`hdpstats.mechanisms.treatment_effect.site`), and so is the risk where people's outcomes are means over several rows,
with ``l, u = 0, 1``. Errors are drawn: the noise of the cells afresh, the rest as
`hdpstats.inference.overlap_errors` says. An effect's error in a draw is its estimate less the same contrast of the
means less their errors, so that ratios need no linearisation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.overlap_weights import UNITS
from hdpstats.inference import draws
from hdpstats.inference.overlap_errors import OutcomeModel, PropensityErrors, Stacked, WeightedPeople, contrasts_of
from hdpstats.mechanisms.treatment_effect import ARMS, BINARY, TreatmentEffectQuery, TreatmentEffectRelease
from hdpstats.records.estimate import ErrorDistribution, Estimate

FEWEST: Final = 4.0
"""So many standard deviations of its noise are the least weight of an arm of which anything is said."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """Weights by arm and cell in people (2, k), noisy or expected, and the standard deviations of noise by site."""

    query: TreatmentEffectQuery
    weights: FloatArray
    noise: tuple[float, ...]

    @property
    def totals(self) -> FloatArray:
        """The total weights of the arms (2,), the untreated first."""
        return np.asarray(self.weights.sum(axis=1))

    @property
    def sd(self) -> float:
        """The standard deviation of the noise of a cell."""
        return float(np.sqrt(np.sum(np.square(self.noise))))

    @property
    def is_clear(self) -> bool:
        """Whether the weight of both arms stands clear of its noise."""
        return bool(self.totals.min() >= FEWEST * self.sd * np.sqrt(self.query.cells))

    def places(self, weights: FloatArray) -> FloatArray:
        """Return the mean places (..., 2) in the range, from 0 to 1, of weights (..., 2, k)."""
        totals = np.maximum(weights.sum(axis=-1), 1e-3)
        high = weights[..., 1] if self.query.cells == BINARY else weights[..., 1] / 2.0 + weights[..., 2]
        return np.asarray(np.clip(high / totals, 0.0, 1.0))

    @property
    def noise_of_places(self) -> FloatArray:
        """The variance (2,) of what the noise of the cells adds to the places, to first order."""
        at = np.linspace(0.0, 1.0, self.query.cells)
        slopes = at - self.places(self.weights)[:, None]
        return np.asarray((slopes**2).sum(axis=1) * (self.sd / np.maximum(self.totals, 1e-3)) ** 2)

    @property
    def variances(self) -> FloatArray:
        """The weighted variances (2,) of the places."""
        p = self.places(self.weights)
        if self.query.cells == BINARY:
            return np.asarray(p * (1.0 - p))
        squares = self.weights[:, 2] / np.maximum(self.totals, 1e-3)
        return np.asarray(np.clip(squares - p**2, 1e-6, p * (1.0 - p) + 1e-6))


def cells_of(query: TreatmentEffectQuery, releases: Sequence[TreatmentEffectRelease]) -> Cells:
    """Return the weights of all sites together."""
    weights = np.sum([np.array(each.weights, dtype=np.float64) for each in releases], axis=0) / UNITS
    noise = tuple(each.noise_sd for each in releases)
    return Cells(query=query, weights=weights.reshape(ARMS, query.cells), noise=noise)


def stacked_of(cells: Cells, people: WeightedPeople, outcome: OutcomeModel, errors: PropensityErrors) -> Stacked:
    """Return the stacked equations of the places of an outcome, at weights of arms that are above 0."""
    p = np.clip(cells.places(cells.weights), 1e-4, 1.0 - 1e-4)
    means = outcome.means(people, p)
    if cells.query.cells == BINARY:
        residual = means * (1.0 - means)
    else:
        e = people.propensity
        w = people.weights * e * (1.0 - e)
        w = w / w.sum()
        left = cells.variances - (means - p[:, None]) ** 2 @ w
        if outcome.binary:  # a mean of up to k outcomes; no less than of k that do not go together, nor more than of 1
            most = means * (1.0 - means)
            spread = np.clip(left / (most @ w), 1.0 / (cells.query.most_rows or 1), 1.0)
            residual = spread[:, None] * most
        else:
            residual = np.broadcast_to(np.maximum(left, 0.05 * cells.variances)[:, None], means.shape)
    return Stacked(
        people=people,
        means=means,
        residual=np.asarray(residual),
        sampling=errors.sampling,
        weights=np.maximum(cells.totals, 1.0),
    )


def effects_of(
    cells: Cells, stacked: Stacked, errors: PropensityErrors, *, binary: bool, terms: tuple[str, ...], seed: str
) -> Estimate:
    """Return the contrasts of the means with their errors; NaN where an arm is not clear of its noise.

    ``terms`` name the contrasts, in the order of `hdpstats.inference.overlap_errors.contrasts_of`, which of a
    ``binary`` outcome are those of risks; ``seed`` is the hash that draws follow from.
    """
    query, rng = cells.query, draws.generator(seed)
    width = query.upper - query.lower
    covariance = errors.sampling + errors.privacy

    def contrasts(places: FloatArray) -> FloatArray:
        return contrasts_of(query.lower + width * places, binary=binary, positive=query.lower >= 0.0)

    noise = np.zeros((len(errors.draws), ARMS * query.cells))
    for sd in cells.noise:
        noise += draws.laplace(rng, ARMS * query.cells, sd=sd, count=len(noise))
    p = cells.places(cells.weights)
    around = cells.places(cells.weights - noise.reshape(-1, ARMS, query.cells))
    moved = stacked.draw(rng, errors.draws, covariance)
    sampled = stacked.draw(rng, draws.normal(rng, errors.sampling, len(errors.draws)), errors.sampling)
    values = contrasts(p)
    whole = values - contrasts(np.clip(around - moved, 0.0, 1.0))
    sampling = np.cov(values - contrasts(np.clip(p - sampled, 0.0, 1.0)), rowvar=False)
    total = np.cov(whole, rowvar=False)
    known = cells.is_clear
    # a part is no larger than the whole, whatever the draws: the variance of sampling is cut to it
    share = np.minimum(np.sqrt(np.diag(total) / np.maximum(np.diag(sampling), 1e-300)), 1.0)
    sampling = sampling * np.outer(share, share)
    privacy = total - sampling
    blank = np.full_like(total, np.nan)
    return Estimate(
        label="overlap weights",
        terms=terms,
        values=values if known else np.full(len(terms), np.nan),
        sampling=sampling if known else blank,
        privacy=privacy if known else blank,
        distribution=ErrorDistribution.of_draws(whole) if known else None,
    )
