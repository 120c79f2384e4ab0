"""Sums of clipped scores matched over raked public people: consistent where private covariates differ as described."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.families.hazard.outcomes import SurvivalOutcomes, without_censoring
from hdpstats.families.outcomes import LevelOutcomes, ListedOutcomes
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.clipped_newton.expectations import expected, raked_site
from hdpstats.mechanisms.clipped_newton.matching import match
from hdpstats.mechanisms.score_sums import Answer, SiteAnswers, clipped
from hdpstats.public.moments import PublicFit
from hdpstats.records.geometry import whiten
from tests.unit.families.hazard import test_raked
from tests.unit.families.hazard.test_raked import AT_RISK, known
from tests.unit.raking import test_curvature
from tests.unit.raking.test_curvature import design_of, moments_of, people_of, side_of

public, side = test_curvature.public, test_raked.side
CLIP = 1.5
TRUTH, START = np.array([-0.4, 0.6, -0.3, 0.2, 0.0, 0.5]), np.array([0.6, 0.0, 0.4, 0.0, 0.3, -0.5])


def listed(of):
    return ListedOutcomes(loss=LogisticLoss(), X=of.X, weights=of.weights * of.mallows, offset=of.offset)


@pytest.fixture(scope="module")
def logit(public):
    of = side_of(public, "y ~ age + nodes + size + hormon")
    w, private = people_of(public)
    return of, moments_of(private, w), w, private


def test_the_truth_is_found_where_private_people_are_as_described(logit):
    of, cohort, w, private = logit
    rows = whiten(of.geometry, design_of(of, private))
    people = ListedOutcomes(loss=LogisticLoss(), X=rows.X, weights=rows.weights, offset=of.offset, share=w)
    total = 5000 * expected(people, TRUTH, asked=[(START, 1.0)], clip=CLIP).mean
    answers = SiteAnswers(
        records=5000, records_sd=0.0, answers=[Answer(theta=START, total=total, noise_sd=1.0, weight=1.0)]
    )
    flat = PublicFit(theta=START, covariance=1e6 * np.eye(6), information=1e-6 * np.eye(6))
    raked = raked_site(of, listed(of), of.geometry, cohort, starts=np.zeros(0))
    found = match(listed(of), flat, [answers], clip=CLIP, raked=[raked])
    assert found.private.theta == pytest.approx(TRUTH, abs=1e-3)
    without = match(listed(of), flat, [answers], clip=CLIP)
    assert np.max(np.abs(without.private.theta - TRUTH)) > 0.1


def test_sites_share_what_public_people_err_by(logit):
    of, cohort, *_ = logit
    raked = raked_site(of, listed(of), of.geometry, cohort, starts=np.zeros(0))
    total = 5000 * expected(raked.outcomes, TRUTH, asked=[(START, 1.0)], clip=CLIP).mean
    answers = SiteAnswers(
        records=5000, records_sd=0.0, answers=[Answer(theta=START, total=total, noise_sd=1.0, weight=1.0)]
    )
    flat = PublicFit(theta=START, covariance=np.eye(6), information=np.eye(6))
    one = match(listed(of), flat, [answers], clip=CLIP, raked=[raked])
    two = match(listed(of), flat, [answers, answers], clip=CLIP, raked=[raked, raked])
    ratio = np.diag(two.private.public) / np.diag(one.private.public)
    assert np.all((ratio > 3.0) & (ratio < 4.1))
    assert np.allclose(two.private.scores, 2.0 * one.private.scores, atol=1e-3 * one.private.scores[0, 0])


def test_survival_is_followed_so_that_the_described_shares_are_at_risk(side):
    spells = side.spells
    outcomes = SurvivalOutcomes(spells=spells, followed=np.full((side.people, 4), 0.25), whole=side.people)
    raked = raked_site(side, outcomes, side.geometry, known(side, AT_RISK), starts=side.starts)
    at, q = raked.outcomes.at(side.centre), 4
    chances = at.distribution(side.centre, slice(0, at.people)).probability
    leaves = at.counted @ (chances[:, :q] + chances[:, q:])  # in each interval, by the event or by censoring
    assert np.allclose(1.0 - np.cumsum(leaves)[:-1], list(AT_RISK.values()), atol=1e-3)
    assert np.allclose(leaves.sum(), 1.0)


def test_following_never_grows_and_is_never_certain_beyond_everybody():
    found = without_censoring(np.array([[1.0, 0.9, 0.0]]), np.array([[1.0, 0.8, 0.5]]))
    assert np.allclose(found, [[1.0, 1.0, 0.02]])


def test_means_of_clipped_scores_are_those_over_all_outcomes(logit, side):
    # They are computed without the scores of every outcome: with late entries, weights, a curved baseline and a clip
    # that shortens some scores and leaves others, nothing may differ.
    of = logit[0]
    n, rng = side.people, np.random.default_rng(4)
    spells = replace(
        side.spells,
        A=side.spells.A * [[1.0], [-0.4], [0.8], [0.6]],
        entry=rng.integers(0, 3, n),
        weights=rng.uniform(0.2, 2.0, n),
    )
    survival = SurvivalOutcomes(spells=spells, followed=rng.dirichlet(np.ones(4), n), whole=n)
    people, rows = slice(3, 90), listed(of)
    for outcomes in (survival, rows, LevelOutcomes(others=2, X=rows.X, weights=rows.weights)):
        here, asked = 0.3 * rng.standard_normal((2, outcomes.dimension))
        scores = outcomes.gradients(asked, people)
        chances = outcomes.distribution(here, people).probability
        assert np.allclose(outcomes.chances_of(here, people), chances, rtol=1e-13, atol=0.0)
        clip = float(np.median(np.linalg.norm(scores, axis=2)))
        short = clipped(scores.reshape(-1, outcomes.dimension), clip).reshape(scores.shape)
        found = outcomes.shortened(asked, chances, people, clip=clip)
        assert np.allclose(found, np.einsum("bk,bkd->bd", chances, short), rtol=1e-11, atol=1e-13)
