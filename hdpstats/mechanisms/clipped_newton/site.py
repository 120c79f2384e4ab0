r"""A noisy sum of clipped scores: one round of a fit by noisy Newton steps.

With a public ``theta`` and a public ``C`` the query is

.. math:: G = \sum_i g_i, \qquad g_i = s_i \min(1,\; C / \|s_i\|),

where :math:`s_i` is the gradient of person ``i``'s whole weighted loss at ``theta``, in whitened coordinates. What is
clipped is a *person*: the sum over all rows, intervals and causes of that person, never a row or an interval of it.

**Several rows of a person in a regression.** There the score :math:`s_{ij}` of each row, case weight included, is
clipped, and those of a person are added with the weights of `hdpstats.families.several_rows`:

.. math:: g_i = w(n_i) \sum_j s_{ij} \min(1,\; C / \|s_{ij}\|), \qquad
          \|g_i\| \le n_i w(n_i)\, C \le W C,

since :math:`n w(n)` increases with ``n``. So the expectation of a person's clipped score is a sum over rows, which the
marginal model tells; that of a clipped sum would need the joint distribution of a person's outcomes. In what follows
``W C`` stands in place of ``C``; ``W`` is 1 where a person is clipped as a whole. Incomplete rows have the score 0, and
are left out before ``n`` is counted. Two persons with ``m`` equal rows each, whose scores are as long as the clip and
opposite to those of the other person, attain ``2 W C``.

**Sensitivity.** Neighbours differ in one person. As :math:`\|g_i\| \le C` whatever the record, replacing a person moves
``G`` by at most ``2 C`` in the Euclidean norm, which two persons with opposite long scores attain; adding or removing
one by at most ``C``. Nothing about the loss is used: no bound of rows, of the number of intervals, of the curvature. A
person with a missing cell has the score 0, which is not longer than ``C``.

**Floating point.** A score that is not finite in every coordinate is replaced by 0 *before* it is clipped or added (0
times infinity would otherwise spoil the whole sum, and tell), row by row where rows are clipped. The computed norm of a
vector of at most `MOST` doubles has a relative error below ``2^-41``, and so has the factor; the computed ``g_i`` is
therefore no longer than ``C (1 + 2^-40)``, and that is what is counted; weights ``w(n)`` and sums of ``m`` rows are off
by less than ``m 2^-48`` of their size, as `PersonLoss.total_of_cut` counts. Each coordinate is then rounded to a grid,
a power of two, and the integers are added: exactly, in any order. With grid ``gamma`` rounding moves a person's vector
by at most ``gamma sqrt(D) / 2``, so replace-one costs ``2 C (1 + 2^-40) + gamma sqrt(D)``, add-or-remove half of it.
Scores are computed person by person with elementwise arithmetic (`Rows.scores`): the vector of a person does not
depend, even in its last bit, on who else is in the table, or one grid step might change for everybody.

**Noise.** With a delta: normal noise, exact and rounded to the same lattice (`hdpstats.noise.normal`), of standard
deviation sensitivity / mu. The round is exactly ``mu``-GDP, and adaptively chosen rounds, ``theta`` of each depending
on the releases before it, compose exactly to ``sqrt(sum mu_t^2)`` (Dong, Roth and Su 2022). Without: lattice noise of
density proportional to ``exp(-rate ||b||)`` with ``rate = epsilon / sensitivity``, which is epsilon-DP (Hardt and
Talwar 2010).

References
----------
M. Abadi et al. (2016), Deep learning with differential privacy. M. Avella-Medina, C. Bradshaw, P.-L. Loh (2023),
Differentially private inference via noisy optimization. Z. Ji, X. Jiang, S. Wang, L. Xiong, L. Ohno-Machado (2014),
Differentially private distributed logistic regression using private and public data.
"""

from fractions import Fraction

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.base import ROUNDING, PersonLoss
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery, ClippedNewtonRelease
from hdpstats.mechanisms.score_sums import (
    FINENESS,
    PreparedSum,
    SumCalibration,
    calibrated,
    check_dimension,
    clipped,
)
from hdpstats.noise.exact import power_of_two_below, sqrt_up
from hdpstats.privacy.budget import Budget, MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.several import gaussian_ahead
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.solvers.objective import Rows


def prepare(query: ClippedNewtonQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedSum:
    """Fix the constants of a round at a site."""
    calibration = calibrate(query, relation=site_facts.relation, total=person_loss.total_of_cut)
    return PreparedSum(
        needs=person_loss.needs,
        events=(calibration.event,),
        ahead=gaussian_ahead(query.ahead, query.mu_squared, Budget(query.epsilon, query.delta)),
        query=query,
        calibration=calibration,
        records=site_facts.records,
        release=ClippedNewtonRelease,
        person_loss=person_loss,
        scores=lambda table: clipped_scores(query, person_loss.people(table)),
    )


def calibrate(query: ClippedNewtonQuery, *, relation: Relation, total: Fraction) -> SumCalibration:
    """Return the constants of a round, or raise MechanismError where the proof does not cover it.

    ``total`` is how many times longer than the clip a person's contribution may be (`PersonLoss.total_of_cut`).
    """
    D = len(query.theta)
    check_dimension(D, "clipped scores")
    longest = query.clip * total
    grid = power_of_two_below(longest) * FINENESS
    value = relation.persons_changed * (longest * ROUNDING + grid * sqrt_up(Fraction(D)) / 2)
    if query.delta == 0:
        event = PrivacyEvent(ran=MechanismName.GRADIENT_PURE, epsilon=query.epsilon)
    else:
        event = PrivacyEvent(
            ran=MechanismName.GRADIENT, epsilon=query.epsilon, delta=query.delta, mu_squared=query.mu_squared
        )
    return calibrated(value, event, dimension=D, grid=grid, relation=relation)


def clipped_scores(query: ClippedNewtonQuery, people: Rows) -> FloatArray:
    """Return the score of each person (people, D), no longer than the clip; of several rows the sum of clipped ones."""
    return people.cut_scores(np.array(query.theta), lambda scores: clipped(scores, float(query.clip)))
