r"""A noisy sum of logistic scores of rows cut to a length: one round of Ji et al. (2014), algorithm 1, corrected.

At a public ``theta`` the query is :math:`G = \sum_i (p_i - y_i) x_i` with :math:`p_i = 1/(1 + e^{-\theta'x_i})`. A row
:math:`x = (1, z)`, ``z`` standardised by a public location and scale, is cut before it is used: its covariates to a
truncation, one by one, then as a whole to the length ``M``. The cut row takes the place of the row everywhere, in the
predictor as in the score; a weight on the score alone would not do.

**Sensitivity.** As ``theta`` is public when the sum is asked for, replacing a person moves it by at most ``M D(r)``,
adding or removing one by at most :math:`M \sigma(r)`, with :math:`r = M \|\theta\|` (proof:
`hdpstats.privacy.sensitivity`). The paper has ``2 M``, which ``D`` approaches for large ``r`` only; at
``theta = 0`` it is ``M``, and less would be wrong: `M` is attained. A person with a missing cell has the score 0, that
of a row of length 0, which the bounds are taken over too.

**Floating point.** A cut row is a vector of doubles no longer than :math:`M' = M (1 + 2^{-40})`, as proved for
`hdpstats.mechanisms.score_sums.clipped`, and is taken as the person's row. Its computed predictor errs by at
most
:math:`2 (D + 2) 2^{-53} M' \|\theta\|` (Higham 2002, section 3.1), hence the probability by a quarter of that and 8
times :math:`2^{-53}` (`Loss.score`), and the product by :math:`2^{-53}` of its size: together less than

.. math:: e = M' \{(D + 2)\, r\, 2^{-54} + 2^{-49}\}

in the Euclidean norm, which is counted for each person that neighbours differ in. Rounding to the grid ``gamma`` before
the exact sum of integers adds :math:`\gamma \sqrt D / 2` for each. Scores are computed one by one with elementwise
arithmetic; should one not be finite, it is 0.

**Noise** as in `hdpstats.mechanisms.clipped_newton.site`: without a delta of density proportional to ``exp(-rate
||b||)``, epsilon of the round over the sensitivity, and the rounds add up (sequential composition, the coefficients of
each depending on the releases before it); with a delta normal, and the rounds compose exactly in ``mu``. The number of
rounds is fixed before the first. A person is at one site, whose releases alone count for that person.

References
----------
Z. Ji, X. Jiang, S. Wang, L. Xiong, L. Ohno-Machado (2014), Differentially private distributed logistic regression using
private and public data. BMC Medical Genomics 7 (Suppl. 1), S14.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.families.base import ROUNDING, PersonLoss
from hdpstats.families.regression.bounds import RegressionPeople, RegressionPersonLoss
from hdpstats.mechanisms.public_hessian import PublicHessianQuery, PublicHessianRelease
from hdpstats.mechanisms.score_sums import (
    FINENESS,
    PreparedSum,
    SumCalibration,
    calibrated,
    check_dimension,
    clipped,
)
from hdpstats.noise.exact import power_of_two_below, sqrt_up
from hdpstats.privacy.budget import Budget, MechanismName, PrivacyEvent, Spend
from hdpstats.privacy.sensitivity import Relation, sensitivity_at
from hdpstats.records.several import gaussian_ahead, in_parts
from hdpstats.schema.site_facts import SiteFacts


def prepare(query: PublicHessianQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedSum:
    """Fix the constants of a round at a site."""
    if not isinstance(person_loss, RegressionPersonLoss):
        raise MechanismError("scores of cut rows are proved for one row per person")
    calibration = calibrate(query, relation=site_facts.relation)
    return PreparedSum(
        needs=person_loss.needs,
        events=(calibration.event,),
        ahead=_ahead(query),
        query=query,
        calibration=calibration,
        records=site_facts.records,
        release=PublicHessianRelease,
        person_loss=person_loss,
        scores=lambda table: finite_scores(query, cut(person_loss.people(table), query)),
    )


def _ahead(query: PublicHessianQuery) -> tuple[Spend, ...]:
    """Return what the later rounds will cost."""
    if query.delta == 0:
        return tuple(Spend(part) for part in in_parts(query.ahead, query.cost))
    return gaussian_ahead(query.ahead, query.cost, Budget(query.epsilon, query.delta))


def calibrate(query: PublicHessianQuery, *, relation: Relation) -> SumCalibration:
    """Return the constants of a round, or raise MechanismError where the proof does not cover it."""
    D = len(query.theta)
    check_dimension(D, "scores of cut rows")
    grid, norm = power_of_two_below(query.norm) * FINENESS, query.norm * ROUNDING
    size = sqrt_up(sum((Fraction(value) ** 2 for value in query.theta), Fraction(0)))
    of_floats = norm * ((D + 2) * norm * size / 2**54 + Fraction(1, 2**49)) + grid * sqrt_up(Fraction(D)) / 2
    value = sensitivity_at(size, norm=norm, relation=relation) + relation.persons_changed * of_floats
    if query.delta == 0:
        event = PrivacyEvent(ran=MechanismName.SCORE_PURE, epsilon=query.cost)
    else:
        event = PrivacyEvent(ran=MechanismName.SCORE, epsilon=query.epsilon, delta=query.delta, mu_squared=query.cost)
    return calibrated(value, event, dimension=D, grid=grid, relation=relation)


def finite_scores(query: PublicHessianQuery, people: RegressionPeople) -> FloatArray:
    """Return the score of each person (people, D), 0 where it is not finite."""
    scores = people.scores(np.array(query.theta))
    return np.where(np.all(np.isfinite(scores), axis=1)[:, None], scores, 0.0)


def cut(people: RegressionPeople, query: PublicHessianQuery) -> RegressionPeople:
    """Return the people with cut rows, each weighing 1, or 0 where its row has a missing cell."""
    X = cut_rows(
        people.X, truncation=query.truncation, norm=float(query.norm), intercept=query.model.geometry.intercept
    )
    return replace(people, X=X, weights=np.sign(people.weights))


def cut_rows(X: FloatArray, *, truncation: float, norm: float, intercept: bool) -> FloatArray:
    """Return rows (n, D) with covariates cut to ``truncation``, then shortened to ``norm``. A total map of each row."""
    first = int(intercept)
    truncated = np.column_stack([X[:, :first], np.clip(X[:, first:], -truncation, truncation)])
    return clipped(truncated, norm)
