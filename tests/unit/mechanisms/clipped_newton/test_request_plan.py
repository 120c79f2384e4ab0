"""What sums will err by, before they are asked for: against simulated fits, and by hand."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats.families.outcomes import ListedOutcomes
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.clipped_newton.expectations import expected, spread_of_slopes
from hdpstats.mechanisms.clipped_newton.matching import Averaging, match
from hdpstats.mechanisms.clipped_newton.request import (
    Rounds,
    covariance_over,
    expected_estimate,
    with_public_correlations,
)
from hdpstats.mechanisms.score_sums import Answer, SiteAnswers, SiteRounds, clipped
from hdpstats.public.moments import PublicFit
from hdpstats.public.row_weights import Allowance

TRUTH = np.array([-0.5, 0.8, -0.4])
SLOPES = np.arange(3)
CLIP = 1.2


def people(rng, n):
    return np.column_stack([np.ones(n), rng.standard_normal((n, 2))])


def binary(X):
    return ListedOutcomes(loss=LogisticLoss(), X=X, weights=np.ones(len(X)), offset=np.zeros(len(X)))


def fit_at(theta, n=150):
    information = n * 0.2 * np.eye(3)
    return PublicFit(theta=theta, covariance=np.linalg.inv(information), information=information)


NOISY = 1e6
"""Noise beside which distances do not matter: rounds are averaged by what they cost."""


def planned(made, fit, sizes, *, noise_sd, costs=(1.0,), records_sd=0.0, raked=None, noise=NOISY):
    """Return what a fit to sites of so many people is planned to err by."""
    state = state_of(made, fit, sizes, costs=costs, records_sd=records_sd, raked=raked, noise=noise)
    return expected_estimate(state, dict.fromkeys(state.sites, noise_sd))


def state_of(made, fit, sizes, *, costs=(1.0,), records_sd=0.0, raked=None, noise=NOISY):
    sites = {
        str(place): SiteRounds(records=n, records_sd=records_sd, epsilon=Fraction(1), delta=Fraction(0), costs=())
        for place, n in enumerate(sizes)
    }
    return Rounds(
        model=None,
        outcomes=made,
        fit=fit,
        clip=Fraction(CLIP),
        averaging=Averaging(costs=costs, noise=noise, first=0.2, slopes=SLOPES),
        allowance=Allowance(share=0.0, covariance=np.zeros((3, 3))),
        raked=raked or {},
        sites=sites,
        schema_sha256="",
        public_sha256=None,
        replicate=1,
    )


def test_scores_beside_the_truth_have_means_that_differ_between_people():
    made = binary(people(np.random.default_rng(0), 50))
    root = np.linalg.cholesky(np.array([[0.4, 0.1, 0.0], [0.1, 0.3, 0.1], [0.0, 0.1, 0.2]])) * 1e-3
    means = []
    for column in root.T:
        for sign in (1.0, -1.0):
            # Scores at TRUTH where the truth is a little beside it.
            given = expected(made, TRUTH + sign * column, asked=[(TRUTH, 1.0)], clip=CLIP).given
            means.append(given - expected(made, TRUTH, asked=[(TRUTH, 1.0)], clip=CLIP).given)
    by_hand = sum(np.cov(each.T, ddof=0) for each in means) / 2.0
    assert spread_of_slopes(made, TRUTH, asked=[(TRUTH, 1.0)], root=root, clip=CLIP) == pytest.approx(
        by_hand, rel=1e-2, abs=1e-9
    )


def test_all_people_count_when_blocks_are_small(monkeypatch):
    made = binary(people(np.random.default_rng(1), 40))
    whole = spread_of_slopes(made, TRUTH, asked=[(TRUTH, 1.0)], root=np.eye(3), clip=CLIP)
    for module in ("families.outcomes", "mechanisms.clipped_newton.expectations"):
        monkeypatch.setattr(f"hdpstats.{module}.NUMBERS", 60)
    assert spread_of_slopes(made, TRUTH, asked=[(TRUTH, 1.0)], root=np.eye(3), clip=CLIP) == pytest.approx(whole)


def simulated(rng, *, sizes, noise_sd, costs, averaging=None):
    """Return the error of one simulated fit in rounds: the private estimate against the truth."""
    X_public = people(rng, 150)
    information = 0.2 * 150 * np.eye(3)
    start = TRUTH + np.linalg.solve(np.linalg.cholesky(information).T, rng.standard_normal(3))
    fit = PublicFit(theta=start, covariance=np.linalg.inv(information), information=information)
    made, private, theta = binary(X_public), [], start
    for n in sizes:
        X = people(rng, n)
        private.append((X, (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-X @ TRUTH))).astype(float)))
    answers: list[list[Answer]] = [[] for _ in sizes]
    for cost in costs:
        sd = noise_sd / cost**0.5
        for (X, y), given in zip(private, answers, strict=True):
            scores = (1.0 / (1.0 + np.exp(-X @ theta)) - y)[:, None] * X
            total = clipped(scores, CLIP).sum(axis=0) + rng.normal(0.0, sd, 3)
            given.append(Answer(theta=theta, total=total, noise_sd=sd, weight=cost))
        sites = [SiteAnswers(records=n, records_sd=0.0, answers=each) for n, each in zip(sizes, answers, strict=True)]
        found = match(made, fit, sites, clip=CLIP, averaging=averaging)
        theta = found.pooled
    return found.private.theta - TRUTH


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("costs", [(1.0,), (0.1, 0.3, 0.6)], ids=["1 round", "3 rounds"])
@pytest.mark.parametrize("noise_sd", [2.0, 25.0])
def test_what_is_foreseen_is_what_comes(costs, noise_sd):
    rng, sizes = np.random.default_rng(2), (3000, 1000)
    errors = np.array([simulated(rng, sizes=sizes, noise_sd=noise_sd, costs=costs) for _ in range(60)])
    told = planned(binary(people(rng, 150)), fit_at(TRUTH), sizes, noise_sd=noise_sd, costs=costs)
    ratio = np.mean(errors**2) / np.mean(np.diag(told.covariance))
    assert 0.6 < ratio < 1.35
    if noise_sd == 2.0 and len(costs) == 1:
        # The control: an expectation over few people, of scores asked for beside the truth, is much of the error.
        without = replace(told, public=0.0 * told.public)
        assert np.mean(errors**2) > 1.5 * np.mean(np.diag(without.covariance))


def test_noise_of_every_site_and_of_their_numbers_is_foreseen():
    # Fails where the noise of k sites is taken for one.
    made, fit = binary(people(np.random.default_rng(3), 300)), fit_at(TRUTH)

    def told(k, n, **changes):
        return planned(made, fit, (n,) * k, noise_sd=30.0, **changes)

    four, one = told(4, 1000), told(1, 4000)
    assert four.noise == pytest.approx(4 * one.noise)
    assert four.scores == pytest.approx(one.scores)
    assert four.response == pytest.approx(one.response)
    assert not one.counting.any()
    assert np.trace(told(4, 1000, records_sd=20.0).counting) > 0.0


@dataclass
class Described:
    """People of whom the truth's distance alone moves an expectation: each direction of it, by as much."""

    outcomes: ListedOutcomes
    total: None = None

    def deviations(self, theta, *, asked, clip, root=None):
        return np.zeros((3, 3)) if root is None else root


def test_described_people_are_compared_where_the_truth_may_be():
    # Fails where draws of them are compared at the public fit only, where scores have hardly a mean.
    made, fit = binary(people(np.random.default_rng(4), 100)), fit_at(TRUTH)
    raked = {"0": Described(made)}
    one = planned(made, fit, (500,), noise_sd=30.0, raked=raked)
    assert one.public == pytest.approx(500**2 * fit.covariance / 3)


@dataclass(frozen=True)
class Told:
    """A site's people as described: what of them a prediction for few persons needs."""

    outcomes: ListedOutcomes
    correlated: bool
    total: None = None


def test_what_private_people_tell_is_predicted_over_where_the_truth_may_be():
    made, other = (binary(people(np.random.default_rng(seed), 80)) for seed in (2, 3))
    places = (TRUTH, TRUTH + np.array([0.5, -1.0, 2.0]))
    state = state_of(made, fit_at(TRUTH), [100], records_sd=5.0, raked={"0": Told(other, correlated=True)})
    for known, listed in ((False, made), (True, other)):
        at = [expected(listed, place, asked=[(place, 1.0)], clip=CLIP) for place in places]
        A = 100 * sum(each.information for each in at) / 2
        sums = sum(100 * each.covariance + 25 * np.outer(each.mean, each.mean) for each in at) / 2 + 7.0**2 * np.eye(3)
        by_hand = np.linalg.inv(A) @ sums @ np.linalg.inv(A).T
        found = covariance_over(state, {"0": 7.0}, places, known=known)
        assert found == pytest.approx(by_hand, rel=1e-5, abs=1e-6)


def test_a_site_of_little_information_does_not_spoil_what_all_of_them_tell():
    made = binary(people(np.random.default_rng(2), 80))
    one, two = (state_of(made, fit_at(TRUTH), sizes) for sizes in ([3000], [3000, 30]))
    alone = covariance_over(one, {"0": 10.0}, [TRUTH], known=False)
    together = covariance_over(two, {"0": 10.0, "1": 300.0}, [TRUTH], known=False)
    assert np.trace(together) <= np.trace(alone)
    assert together == pytest.approx(alone, rel=0.01, abs=1e-5)


def test_the_curvature_that_takes_public_correlations_is_that_of_a_site_where_none_were_released():
    made, other = (binary(people(np.random.default_rng(seed), 80)) for seed in (2, 3))
    informations = [expected(each, TRUTH, asked=[(TRUTH, 1.0)], clip=CLIP).information for each in (made, other)]
    of_public, of_other = (0.5 * (each + each.T) for each in informations)
    for described, wanted in (
        ({}, of_public),
        ({"0": Told(other, correlated=True)}, of_public),
        ({"0": Told(other, correlated=False)}, of_other),
        ({"0": Told(other, correlated=True), "1": Told(other, correlated=True)}, None),
    ):
        found = with_public_correlations(state_of(made, fit_at(TRUTH), [100, 100], raked=described))
        assert (found is None) if wanted is None else found == pytest.approx(wanted)
