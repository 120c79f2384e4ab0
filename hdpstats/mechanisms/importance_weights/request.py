r"""The query of importance weights: coding, ridge and noise, all from public rows and declarations.

**Ridge.** At small coefficients both samples have the Hessian ``S / 4`` per weight, ``S`` being the second moment of
coded public rows, so that noise of covariance ``V`` in the sum makes log weights vary by

.. math:: \mathrm{sd}^2 = \mathrm{tr}\{H^{-1} V H^{-1} S\} / n_D^2, \qquad H = S / 2 + \lambda I.

``lambda`` is the smallest of a grid from 0.01 with ``sd <= 0.5``: beyond that a few rows carry the weight.

**Coding and noise.** What the ridge takes away of the true coefficients, :math:`\lambda H^{-1} \beta`, is computed for
independent coefficients of one size in the units of the box (`hdpstats.mechanisms.importance_weights.coding`). Among
the codings (the box, which suits many columns of zeros and ones, and public whitening, which suits few columns) and the
kinds of noise that are proved, the one whose noise and shrinkage together make the least error of log weights is asked
for. The share of epsilon for smoothing is that of least error at this ridge (`hdpstats.mechanisms.perturbation.
smoothing`), which grows like the number of people by itself.

References
----------
Z. Ji, C. Elkan (2013), Differential privacy based on importance weighting.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.importance_weights import ColumnBox, DensityRatioModel, ImportanceWeightsQuery
from hdpstats.mechanisms.importance_weights.coding import (
    MOST_ROWS,
    PublicSample,
    box_of,
    coded_rows,
    geometries_of,
    prior_of,
)
from hdpstats.mechanisms.importance_weights.site import DensityRatioPersonLoss
from hdpstats.mechanisms.perturbation.site import kept_delta, noise_variance, normal_sd
from hdpstats.mechanisms.perturbation.smoothing import ExpectedPeople, with_smoothing
from hdpstats.noise.distributions import NoiseDistribution, lattice
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.moments import Moments
from hdpstats.records.geometry import Geometry
from hdpstats.records.query import LEAST_SMOOTHING

REPLACE = Relation.REPLACE_ONE
RIDGES: tuple[float, ...] = tuple(np.geomspace(0.01, 100.0, 121).tolist())
"""Candidate ridges per private person, the floor first."""

LARGEST_SD = 0.5
"""Of log weights, due to noise."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ImportanceTerms:
    """What is offered and wanted: a part of ``ridges`` (one where the user fixed it) and of the kinds of noise.

    ``counted`` says that ``records`` is a noisy number of complete rows, not the public one of all.
    """

    records: int
    epsilon: Fraction
    delta: Fraction
    ridges: tuple[float, ...]
    kinds: tuple[str, ...]
    schema_sha256: str
    public_sha256: str
    replicate: int
    counted: bool = False


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ImportanceChoice:
    """A query with what is predicted for it.

    Attributes
    ----------
    ridge : float
        Per private person.
    sd : float
        Of log weights, due to noise.
    left : float
        The share of a shift between the samples that the ridge leaves in the log weights.
    error : float
        The mean squared error of log weights.
    """

    query: ImportanceWeightsQuery
    ridge: float
    sd: float
    left: float
    error: float


def choose_importance(sample: PublicSample, asked: ImportanceTerms) -> ImportanceChoice:
    """Return the query with the least predicted error of log weights, if possible among those with little noise.

    With more than `LARGEST_SD` the prediction is too good: exponentials of noise leave few rows with any weight.

    Raises
    ------
    MechanismError
        If no ridge that may be chosen leaves epsilon for noise.
    """
    box = box_of(sample)
    codings: tuple[ColumnBox | Geometry, ...] = (box, *geometries_of(sample))
    seen = replace(sample, X=sample.X[:: max(1, len(sample.X) // MOST_ROWS)])
    found = [
        choice
        for coding in codings
        for kind, delta in _kinds(asked)
        if (choice := _best(_Case(sample=seen, asked=asked, coding=coding, kind=kind, delta=delta), box)) is not None
    ]
    if not found:
        raise MechanismError(
            f"ridge = {max(asked.ridges):g} is too small for epsilon = {float(asked.epsilon):g} and {asked.records} "
            "private records: the determinant alone costs more; use a larger ridge, or mechanism='output'"
        )
    return min(found, key=lambda choice: (choice.sd > 1.01 * LARGEST_SD, choice.error))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Case:
    """One coding with one kind of noise."""

    sample: PublicSample
    asked: ImportanceTerms
    coding: ColumnBox | Geometry
    kind: str
    delta: Fraction

    @property
    def person_loss(self) -> DensityRatioPersonLoss:
        """A person's loss."""
        model = DensityRatioModel(
            formula=self.sample.design.canonical,
            columns=self.sample.columns,
            coding=self.coding,
            complete=self.asked.records if self.asked.counted else None,
        )
        rows = coded_rows(self.coding, self.sample.X)
        return DensityRatioPersonLoss(model=model, design=self.sample.design, public=rows, records=self.asked.records)


def _kinds(asked: ImportanceTerms) -> Iterator[tuple[str, Fraction]]:
    for kind in asked.kinds:
        yield kind, Fraction(0)
        if asked.delta > 0:
            yield kind, asked.delta


def _best(case: _Case, box: ColumnBox) -> ImportanceChoice | None:
    """Return the smallest admissible ridge whose noise is small enough, or the largest ridge; None where none is."""
    person_loss, asked = case.person_loss, case.asked
    rows = person_loss.public
    S = rows.X.T @ (rows.weights[:, None] * rows.X) / len(rows.X)
    at = rows.X.T @ rows.X / len(rows.X)
    variance = _variance_of(person_loss, case)

    def predicted(ridge: float) -> tuple[float, FloatArray]:
        inverse = np.asarray(np.linalg.inv(S / 2.0 + ridge * np.eye(len(S))), dtype=np.float64)
        noise = variance(ridge)
        if noise is None:
            return np.inf, inverse
        spread = inverse @ np.diag(noise) @ inverse if case.kind == "objective" else np.diag(noise)
        return float(np.sqrt(np.trace(spread @ at))), inverse

    low, high = 0, len(asked.ridges) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if predicted(asked.ridges[middle])[0] <= LARGEST_SD else (middle + 1, high)
    ridge = asked.ridges[high]
    sd, inverse = predicted(ridge)
    if not np.isfinite(sd):
        return None
    prior = prior_of(case.coding, box)
    shift = at - np.outer(at[0], at[0]) / at[0, 0] if case.coding.intercept else at
    whole = float(np.trace(shift @ prior))
    shrinkage = ridge * inverse
    bias = float(np.trace(shrinkage @ shift @ shrinkage @ prior))
    query = ImportanceWeightsQuery(
        model=person_loss.model,
        perturbs=case.kind,
        centre=(0.0,) * person_loss.dimension,
        ridge=Fraction(ridge * asked.records),
        epsilon=asked.epsilon,
        delta=case.delta,
        schema_sha256=asked.schema_sha256,
        public_sha256=asked.public_sha256,
        replicate=asked.replicate,
    )
    if query.smooths:
        n = max(asked.records, 1)
        moments = Moments(H=n * S / 2.0, J=n * S / 4.0)
        expected = ExpectedPeople(moments=moments, missed=0.0, apart=0.0)
        query = with_smoothing(query, person_loss, expected, records=n, relation=REPLACE, ridges=1)
    left = float(np.sqrt(bias / whole)) if whole > 0 else 0.0
    return ImportanceChoice(query=query, ridge=ridge, sd=sd, left=left, error=sd**2 + bias)


def _variance_of(person_loss: DensityRatioPersonLoss, case: _Case) -> Callable[[float], FloatArray | None]:
    """Return the noise's variance (D,) per private person at a ridge; None where the determinant costs too much."""
    asked, epsilon = case.asked, case.asked.epsilon
    if case.kind == "output":
        level = noise_variance(person_loss, epsilon=epsilon, delta=case.delta, relation=REPLACE)
        return lambda ridge: np.full(person_loss.dimension, level / (ridge * asked.records) ** 2)
    rest = epsilon * (1 - LEAST_SMOOTHING)
    kept = kept_delta(case.delta, epsilon * LEAST_SMOOTHING)
    cell = lattice(person_loss.norm, person_loss.dimension, scale=1 / rest)[1]

    def variance(ridge: float) -> FloatArray | None:
        whole = Fraction(ridge * asked.records)
        try:
            if case.delta > 0:
                sd = normal_sd(person_loss, ridge=whole, epsilon=rest, delta=kept, relation=REPLACE)
                return np.full(person_loss.dimension, (float(sd) / asked.records) ** 2)
            rate = person_loss.noise_rate(rest, ridge=whole, cell=cell, relation=REPLACE)
        except MechanismError:
            return None
        distribution = NoiseDistribution(norm=person_loss.norm, dimension=person_loss.dimension, rate=float(rate))
        return distribution.variance / asked.records**2

    return variance
