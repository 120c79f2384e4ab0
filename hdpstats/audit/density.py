r"""The exact privacy loss of objective perturbation, and a search for the neighbours where it is largest.

The perturbed minimiser has the density :math:`\nu(b_D(\theta))\,\det\{\Lambda + \sum H_i(\theta)\}` with
:math:`b_D(\theta) = -\Lambda(\theta - c) - \sum \nabla\ell_i(\theta)`, so the log-ratio of two data sets' densities
at a point is a formula, not an estimate. Maximising it over points, rows and neighbours gives a lower bound on the true
epsilon.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.families.regression.bounds import RegressionPersonLoss, regression_person_loss
from hdpstats.losses import LogisticLoss, PredictorLoss
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.privacy.sensitivity import BallNorm, BoxNorm, Norm, Relation
from hdpstats.records.geometry import mallows_weights
from hdpstats.records.model import RegressionModel
from hdpstats.schema.schema import Schema


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PerturbedObjective:
    """A mechanism as its density sees it: loss, ridge and centre (D,), noise ``exp(-rate K(b))``, weights of rows.

    ``weigh`` maps rows (n, D) to weights (n,): the Mallows weights, times the largest case weight. ``relation`` says
    which data sets are neighbours, ``outcomes`` which outcomes a search tries, as the loss reads them.
    """

    loss: PredictorLoss
    ridge: FloatArray
    centre: FloatArray
    rate: float
    norm: Norm
    weigh: Callable[[FloatArray], FloatArray]
    relation: Relation = Relation.REPLACE_ONE
    outcomes: tuple[float, ...] = (0.0, 1.0)

    def log_density(self, theta: FloatArray, X: FloatArray, y: FloatArray, counts: FloatArray) -> FloatArray:
        """Return the log density (...) up to a constant at ``theta`` (..., D) for rows ``X`` (..., n, D).

        Each row is there ``counts`` times (..., n); a fraction is a case weight relative to the largest one.
        """
        D = X.shape[-1]
        weights = counts * self.weigh(X.reshape(-1, D)).reshape(X.shape[:-1])
        eta = np.einsum("...ij,...j->...i", X, theta)
        gradient = np.einsum("...ij,...i->...j", X, weights * self.loss.score(eta, y))
        curved = X * (weights * self.loss.curvature(eta, y))[..., None]
        hessian = np.swapaxes(X, -1, -2) @ curved + np.diag(self.ridge)
        noise = -self.ridge * (theta - self.centre) - gradient
        return np.asarray(np.linalg.slogdet(hessian)[1] - self.rate * k_norm(noise, self.norm))


class SearchedData(NamedTuple):
    """Rows ``X`` (n, D) with outcomes ``y`` (n,), and how many persons share each row, ``counts`` (n,).

    The count of the last row is its case weight relative to the largest one, 0 where that person is not there.
    """

    X: FloatArray
    y: FloatArray
    counts: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Neighbours:
    """Two data sets that differ in the last row, the point where their densities differ most, and by how much.

    A search keeps many pairs in one record, with a leading axis everywhere.
    """

    one: SearchedData
    other: SearchedData
    theta: FloatArray
    loss: float = math.nan


def perturbed_objective(
    query: ObjectiveQuery, *, largest_weight: float = 1.0, relation: str = "replace_one", schema: Schema | None = None
) -> PerturbedObjective:
    """Return the mechanism that a site runs for a query, in whitened coordinates and before smoothing.

    Rate and norm of the noise are those that `hdpstats.mechanisms.perturbation.site.calibrate_objective` gives to
    every site; they depend neither on the number of records nor on offsets. To break the mechanism on purpose use
    `dataclasses.replace`.

    Parameters
    ----------
    query
        What was asked: the ``query`` of a result.
    largest_weight
        The declared bound of case weights, 1 without them.
    relation
        The site's relation, which sets the rate: the ``relation`` of a result's guarantee.
    schema
        The site's, which says what an outcome may be; not needed for the logistic loss.

    Raises
    ------
    MechanismError
        If the proof does not cover the query.
    """
    between = Relation(choice(relation, name="relation", options=[member.value for member in Relation]))
    if not isinstance(query.model, RegressionModel):
        raise MechanismError("the density is written down for regression models")
    if query.delta > 0:
        raise MechanismError("the density is written down for pure noise; this query asks for normal noise")
    geometry = query.model.geometry
    if schema is not None:
        person_loss = replace(regression_person_loss(query.model, schema), largest_weight=largest_weight)
    elif query.model.loss == LogisticLoss.name:
        person_loss = RegressionPersonLoss(model=query.model, largest_weight=largest_weight, largest_offset=0.0)
    else:
        raise MechanismError(f"schema must be given: the {query.model.loss} loss depends on the outcome's range")
    constants = perturbation.calibrate_objective(query, person_loss, records=1, relation=between)
    first = int(geometry.intercept)

    def weigh(X: FloatArray) -> FloatArray:
        return largest_weight * mallows_weights(np.sum(X[:, first:] ** 2, axis=1), geometry)

    return PerturbedObjective(
        loss=person_loss.loss,
        ridge=np.full(geometry.dimension, float(query.ridge)),
        centre=np.array(query.centre),
        rate=float(constants.noise_rate),
        norm=constants.sensitivity.norm,
        weigh=weigh,
        relation=between,
        outcomes=_extremes(person_loss),
    )


def _extremes(person_loss: RegressionPersonLoss) -> tuple[float, ...]:
    """Return outcomes whose scores are the largest: the ends of a range; of times, all of follow-up or none of it."""
    if person_loss.response.stop is None:
        return person_loss.response.lower, person_loss.response.upper
    return -0.0, 1.0, -1.0, 0.0


def k_norm(vectors: FloatArray, norm: Norm) -> FloatArray:
    """Return ``K`` of vectors (..., D), shape (...)."""
    if isinstance(norm, BoxNorm):
        return np.asarray(np.max(np.abs(vectors) / np.array([float(radius) for radius in norm.radii]), axis=-1))
    radius = float(norm.radius)
    if isinstance(norm, BallNorm):
        return np.asarray(np.linalg.norm(vectors, axis=-1) / radius)
    return np.asarray(np.maximum(np.abs(vectors[..., 0]), np.linalg.norm(vectors[..., 1:], axis=-1) / radius))


def privacy_loss(mechanism: PerturbedObjective, pair: Neighbours) -> FloatArray:
    """Return ``log p_D(theta) - log p_D'(theta)`` of one pair, or of each of many."""
    return mechanism.log_density(pair.theta, *pair.one) - mechanism.log_density(pair.theta, *pair.other)


def worst_neighbours(
    mechanism: PerturbedObjective,
    *,
    others: int = 1,
    intercept: bool = True,
    reach: float = 10.0,
    spread: float = 60.0,
    tries: int = 4096,
    polish: int = 32,
    rounds: int = 120,
) -> Neighbours:
    """Search for the neighbouring data sets and the point of largest privacy loss under the mechanism's relation.

    Deterministic: a Sobol design over rows ``|z_j| <= reach``, outcomes, multiplicities up to 10^4, case weights and
    points ``|theta_j| <= spread``, then a pattern search from the best. The data sets share ``others`` distinct rows;
    with an intercept the first column is 1.

    Parameters
    ----------
    mechanism
        What is searched.
    others, intercept, reach, spread
        The range that is searched.
    tries, polish, rounds
        Points of the design, how many of them the pattern search starts from, and its rounds.
    """
    slopes = len(mechanism.ridge) - int(intercept)

    def pairs(cube: FloatArray) -> Neighbours:
        neighbours = _unpack(cube, mechanism.outcomes, slopes, others, intercept, reach, spread)
        return neighbours if mechanism.relation is Relation.REPLACE_ONE else _one_alone(neighbours)

    def losses(cube: FloatArray) -> FloatArray:
        return privacy_loss(mechanism, pairs(cube))

    size = (others + 2) * (slopes + 1) + others + 2 + len(mechanism.ridge)
    from scipy.stats import qmc

    design = np.asarray(qmc.Sobol(size, scramble=False).random_base2(math.ceil(math.log2(tries))))[1:]
    starts = design[np.argsort(-losses(design), kind="stable")[:polish]]
    best = _climb(losses, starts, directions=design[: 2 * rounds], rounds=rounds)
    worst = pairs(best[None, :])
    one, other = (SearchedData(*(sets[0] for sets in data)) for data in (worst.one, worst.other))
    return Neighbours(one=one, other=other, theta=worst.theta[0], loss=float(losses(best[None, :])[0]))


def _climb(
    losses: Callable[[FloatArray], FloatArray], starts: FloatArray, *, directions: FloatArray, rounds: int
) -> FloatArray:
    """Return the best point of pattern searches in the unit cube from all starts at once (Hooke and Jeeves 1961).

    Rounds take the axes and a basis reflected by a point of ``directions`` in turn. A step that finds nothing better is
    halved, one that does is doubled. After a third of the rounds the better quarter of the searches goes on.
    """
    points, values = starts.copy(), losses(starts)
    size = starts.shape[1]
    steps = np.full(len(starts), 0.25)
    for turn in range(rounds):
        if turn == rounds // 3:
            ahead = np.argsort(-values, kind="stable")[: math.ceil(len(starts) / 4)]
            points, values, steps = points[ahead], values[ahead], steps[ahead]
        basis = np.eye(size)
        if turn % 2:
            axis = 2.0 * directions[turn % len(directions)] - 1.0
            basis -= 2.0 * np.outer(axis, axis) / max(float(axis @ axis), 1e-12)
        moves = np.concatenate([basis, -basis])
        around = np.clip(points[:, None, :] + steps[:, None, None] * moves, 0.0, 1.0)
        reached = losses(around.reshape(-1, size)).reshape(len(points), -1)
        chosen = np.argmax(reached, axis=1)
        rows = np.arange(len(points))
        better = reached[rows, chosen] > values
        points = np.where(better[:, None], around[rows, chosen], points)
        values = np.where(better, reached[rows, chosen], values)
        steps = np.where(better, np.minimum(2.0 * steps, 0.5), np.maximum(0.5 * steps, 1e-9))
    best: FloatArray = points[int(np.argmax(values))]
    return best


def _unpack(
    cube: FloatArray,
    outcomes: tuple[float, ...],
    slopes: int,
    others: int,
    intercept: bool,
    reach: float,
    spread: float,
) -> Neighbours:
    """Return the neighbours and the points that vectors (B, size) of the unit cube stand for."""
    cells = (others + 2) * (slopes + 1)
    rows = cube[:, :cells].reshape(len(cube), others + 2, slopes + 1)
    z = reach * (2.0 * rows[..., 1:] - 1.0)
    X = np.concatenate([np.ones((*z.shape[:-1], 1)), z], axis=-1) if intercept else z
    which = np.ceil(rows[..., 0] * len(outcomes)).astype(np.int64) - 1
    y = np.array(outcomes)[np.clip(which, 0, len(outcomes) - 1)]
    shared = np.floor(10.0 ** (4.0 * cube[:, cells : cells + others]))
    weights = cube[:, cells + others : cells + others + 2]
    theta = spread * (2.0 * cube[:, cells + others + 2 :] - 1.0) ** 3
    one, two = (
        SearchedData(X[:, rows], y[:, rows], np.column_stack([shared, weight]))
        for rows, weight in ((np.append(np.arange(others), others + k), weights[:, k]) for k in (0, 1))
    )
    return Neighbours(one=one, other=two, theta=theta)


def _one_alone(pairs: Neighbours) -> Neighbours:
    """Return pairs in which one of the two persons is not there: the one of smaller case weight."""
    counts, other = pairs.one.counts.copy(), pairs.other.counts.copy()
    first = counts[:, -1] >= other[:, -1]
    counts[:, -1] *= first
    other[:, -1] *= ~first
    return replace(pairs, one=pairs.one._replace(counts=counts), other=pairs.other._replace(counts=other))
