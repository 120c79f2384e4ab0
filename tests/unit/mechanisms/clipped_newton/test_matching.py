"""Matching: consistent whatever the clip, with the covariance that is announced, at one site and at several."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.families.outcomes import ListedOutcomes
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.clipped_newton.expectations import between_people, expected, root_of, score_quantile
from hdpstats.mechanisms.clipped_newton.matching import MISSED, Averaging, RoundEstimates, match, settled
from hdpstats.mechanisms.score_sums import Answer, SiteAnswers, clipped, site_weights
from hdpstats.public.moments import PublicFit

TRUTH = np.array([-0.5, 0.8, -0.4])
SLOPES = np.arange(3)


def people(rng, n):
    return np.column_stack([np.ones(n), rng.standard_normal((n, 2))])


def binary(X):
    return ListedOutcomes(loss=LogisticLoss(), X=X, weights=np.ones(len(X)), offset=np.zeros(len(X)))


def flat_fit(theta=TRUTH + 0.7):
    return PublicFit(theta=theta, covariance=1e6 * np.eye(3), information=1e-6 * np.eye(3))


def of(answers, records, *, records_sd=0.0):
    return SiteAnswers(records=records, records_sd=records_sd, answers=answers)


def test_expectations_are_sums_over_people_and_outcomes():
    made, theta, clip = binary(people(np.random.default_rng(0), 5)), TRUTH, 0.9
    asked = [(TRUTH + 0.3, 0.25), (TRUTH - 0.2, 0.75)]
    rows, slopes, weights = [], [], []
    for x in made.X:
        for y in (0.0, 1.0):
            g = np.zeros(3)
            for at, share in asked:
                s = (1.0 / (1.0 + np.exp(-x @ at)) - y) * x
                g += share * s * min(1.0, clip / np.linalg.norm(s))
            p = 1.0 / (1.0 + np.exp(-x @ theta))
            rows.append(g)
            slopes.append((y - p) * x)
            weights.append((p if y else 1.0 - p) / 5.0)
    rows, slopes, weights = np.array(rows), np.array(slopes), np.array(weights)
    found = expected(made, theta, asked=asked, clip=clip)
    assert found.mean == pytest.approx(weights @ rows, abs=1e-14)
    assert found.information == pytest.approx(-(weights[:, None] * rows).T @ slopes, abs=1e-14)
    assert found.covariance == pytest.approx(np.cov(rows.T, aweights=weights, ddof=0), abs=1e-14)
    given_people = (weights[:, None] * rows * 5.0).reshape(5, 2, 3).sum(axis=1)
    assert found.given == pytest.approx(given_people, abs=1e-14)
    assert between_people(found.given, whole=5) == pytest.approx(np.cov(given_people.T, ddof=1), abs=1e-14)
    with_idle = np.vstack([given_people, np.zeros((2, 3))])
    assert between_people(found.given, whole=7) == pytest.approx(np.cov(with_idle.T, ddof=1), abs=1e-14)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.95])
def test_clipping_leaves_no_bias_where_people_are_alike(level):
    # Sums that equal their expectation under TRUTH must give TRUTH back, however hard scores were clipped.
    made, n = binary(people(np.random.default_rng(1), 300)), 10_000
    starts = [TRUTH + 0.7, TRUTH + np.array([0.1, -0.2, 0.1]), TRUTH + 0.02]
    clip = score_quantile(made, TRUTH, level=level)
    answers = [
        Answer(
            theta=start,
            total=n * expected(made, TRUTH, asked=[(start, 1.0)], clip=clip).mean,
            noise_sd=1.0 / (k + 1),
            weight=(k + 1.0) ** 2,
        )
        for k, start in enumerate(starts)
    ]
    found = match(made, flat_fit(), [of(answers, n)], clip=clip)
    assert found.private.theta == pytest.approx(TRUTH, abs=1e-6)
    assert found.pooled == pytest.approx(TRUTH, abs=1e-5)
    # The control: a clipped score of mean zero at the truth, as an unclipped one has, is wrong by much more.
    bias = expected(made, TRUTH, asked=[(TRUTH, 1.0)], clip=clip)
    assert np.max(np.abs(np.linalg.solve(bias.information, bias.mean))) > 1e-3


def drawn(rng, *, n, n_public, start, clip, noise_sd):
    """Return the private estimate of one simulated fit with its parts."""
    X = people(rng, n)
    y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-X @ TRUTH))).astype(float)
    scores = (1.0 / (1.0 + np.exp(-X @ start)) - y)[:, None] * X
    total = clipped(scores, clip).sum(axis=0) + rng.normal(0.0, noise_sd, 3)
    answers = [Answer(theta=start, total=total, noise_sd=noise_sd, weight=1.0)]
    return match(binary(people(rng, n_public)), flat_fit(start), [of(answers, n)], clip=clip)


@pytest.mark.wide
@pytest.mark.parametrize("noise_sd", [0.1, 40.0])
def test_the_announced_covariance_is_that_of_the_errors(noise_sd):
    rng, repeats = np.random.default_rng(2), 150
    start, clip, n, n_public = TRUTH + np.array([0.3, -0.5, 0.4]), 1.2, 2000, 300
    sizes, without = [], []
    for _ in range(repeats):
        found = drawn(rng, n=n, n_public=n_public, start=start, clip=clip, noise_sd=noise_sd)
        error = np.linalg.solve(found.private.response, found.private.theta - TRUTH)
        noise = found.private.noise * np.eye(3)
        sizes.append(error @ np.linalg.solve(found.private.sampling + noise, error))
        at = expected(binary(people(rng, n_public)), TRUTH, asked=[(start, 1.0)], clip=clip)
        without.append(error @ np.linalg.solve(n * at.covariance, error))
    # Chi-squared with 3 degrees of freedom: mean 3, standard error of a mean of 150 sqrt(6 / 150) = .2.
    assert np.mean(sizes) == pytest.approx(3.0, abs=0.6)
    assert np.mean(without) > 4.2  # the control: neither noise nor the sampling of public people


def test_noise_that_drowns_the_sum_leaves_the_public_fit():
    rng = np.random.default_rng(3)
    fit = PublicFit(theta=TRUTH + 0.2, covariance=0.01 * np.eye(3), information=100.0 * np.eye(3))
    answers = [Answer(theta=fit.theta, total=rng.normal(0.0, 1e7, 3), noise_sd=1e7, weight=1.0)]
    found = match(binary(people(rng, 200)), fit, [of(answers, 1000)], clip=1.0)
    assert found.pooled == pytest.approx(fit.theta, abs=1e-3)
    assert np.all(np.isfinite(found.private.theta))


def test_a_public_fit_that_is_far_off_loses_its_say():
    rng, n = np.random.default_rng(4), 200_000
    made = binary(people(rng, 400))
    fit = PublicFit(theta=TRUTH + 1.5, covariance=0.01 * np.eye(3), information=100.0 * np.eye(3))
    start, clip = TRUTH + 0.05, 1.5
    total = n * expected(made, TRUTH, asked=[(start, 1.0)], clip=clip).mean
    found = match(made, fit, [of([Answer(theta=start, total=total, noise_sd=50.0, weight=1.0)], n)], clip=clip)
    assert np.mean(found.pooling.scales.roots**2) > 0.15
    assert found.pooled == pytest.approx(TRUTH, abs=0.02)
    assert found.private.theta == pytest.approx(TRUTH, abs=1e-3)


# Several sites.

START = TRUTH + np.array([0.3, -0.5, 0.4])
CLIP = 1.2


def exact(made, records, *places, noise_sd=30.0, records_sd=0.0, sums=None):
    """Return a site whose sums equal their expectations under the truth."""
    sums = [expected(made, TRUTH, asked=[(at, 1.0)], clip=CLIP).mean * records for at in places]
    answers = [
        Answer(theta=at, total=total, noise_sd=noise_sd, weight=1.0) for at, total in zip(places, sums, strict=True)
    ]
    return of(answers, records, records_sd=records_sd)


def test_equal_sites_are_one_site_of_all_people_with_noise_from_each():
    # Fails where k noises are taken for one (the square root of k forgotten), or people are counted once.
    made = binary(people(np.random.default_rng(10), 200))
    several = match(made, flat_fit(), [exact(made, 1500, START, noise_sd=25.0) for _ in range(4)], clip=CLIP)
    whole = match(made, flat_fit(), [exact(made, 6000, START, noise_sd=50.0)], clip=CLIP)
    assert several.weights == (1.0,) * 4
    assert several.private.noise == pytest.approx(4 * 25.0**2)
    assert several.private.sampling == pytest.approx(whole.private.sampling, rel=1e-6)
    assert several.private.theta == pytest.approx(whole.private.theta, abs=1e-7)
    assert several.private.theta == pytest.approx(TRUTH, abs=1e-6)
    assert several.private.covariance == pytest.approx(whole.private.covariance, rel=1e-6)


def test_sites_that_stopped_early_are_compared_with_what_they_were_asked():
    # One site answered three rounds, one two, one the first: their averages differ, the truth is the same.
    made = binary(people(np.random.default_rng(11), 200))
    places = (START, TRUTH + np.array([0.1, -0.2, 0.1]), TRUTH + 0.02)
    sites = [exact(made, 3000, *places[:rounds], noise_sd=20.0) for rounds in (3, 1, 2)]
    found = match(made, flat_fit(), sites, clip=CLIP)
    assert found.private.theta == pytest.approx(TRUTH, abs=1e-6)
    # The control: taking the sites' averages for one average is wrong by more than the tolerance.
    total = sum(w * site.total for w, site in zip(found.weights, sites, strict=True))
    compared = 3000 * sum(found.weights) * expected(made, TRUTH, asked=sites[0].asked, clip=CLIP).mean
    assert np.max(np.abs(found.private.response @ (total - compared))) > 1e-3


SITES = ((2500, 70.0, 3), (900, 60.0, 2), (600, 30.0, 1))
"""People, noise of a round, and rounds that were answered."""


@pytest.mark.wide
def test_the_announced_covariance_is_that_of_the_errors_of_several_sites():
    rng, repeats = np.random.default_rng(12), 150
    places = (START, TRUTH + np.array([0.1, -0.2, 0.1]), TRUTH)
    sizes, once = [], []
    for _ in range(repeats):
        sites = []
        for n, noise_sd, rounds in SITES:
            X = people(rng, n)
            y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-X @ TRUTH))).astype(float)
            sums = [clipped((1.0 / (1.0 + np.exp(-X @ at)) - y)[:, None] * X, CLIP).sum(axis=0) for at in places]
            drawn = [total + rng.normal(0.0, noise_sd, 3) for total in sums]
            answers = [
                Answer(theta=at, total=t, noise_sd=noise_sd, weight=1.0) for at, t in zip(places, drawn, strict=True)
            ]
            sites.append(of(answers[:rounds], n))
        found = match(binary(people(rng, 300)), flat_fit(START), sites, clip=CLIP)
        error = np.linalg.solve(found.private.response, found.private.theta - TRUTH)
        for kept, share in ((sizes, 1.0), (once, 1.0 / 3.0)):
            kept.append(
                error @ np.linalg.solve(found.private.sampling + share * found.private.noise * np.eye(3), error)
            )
    # Chi-squared with 3 degrees of freedom: the standard error of a mean of 150 is sqrt(6 / 150) = .2.
    assert np.mean(sizes) == pytest.approx(3.0, abs=0.6)
    assert np.mean(once) > 4.0  # the control: one noise instead of three


def test_a_small_site_with_much_noise_does_no_harm():
    made = binary(people(np.random.default_rng(13), 2000))
    large = exact(made, 5000, START, noise_sd=40.0)
    small = exact(made, 50, START, noise_sd=400.0)
    without, together = (match(made, flat_fit(), sites, clip=CLIP) for sites in ([large], [large, small]))
    assert together.weights[0] == 1.0
    assert together.weights[1] < 1e-3
    announced = np.diag(without.private.covariance)
    assert np.all(np.diag(together.private.covariance) <= announced * (1.0 + 1e-6))
    # The control: sums added as they are.
    added = replace(together.private, noise=large.noise + small.noise)
    assert np.all(np.diag(added.covariance) > 5.0 * announced)


def test_weights_are_those_of_least_variance():
    people, noise, c = np.array([4000.0, 900.0, 150.0]), np.array([900.0, 2500.0, 100.0]), 0.2

    def variance(w):
        return float(np.sum(w**2 * (people * c + noise)) / np.sum(w * people) ** 2)

    best = np.array(site_weights(people=people, noise=noise, variance=c))
    assert np.max(best) == 1.0
    assert variance(best) == pytest.approx(1.0 / np.sum(people**2 / (people * c + noise)))
    for j in range(3):
        for factor in (0.8, 1.25):
            other = best.copy()
            other[j] *= factor
            assert variance(other) > variance(best)


def test_weights_hang_on_no_sum():
    # Weights by what was answered would chase the noise, and tell of private content what no proof covers.
    made = binary(people(np.random.default_rng(14), 200))
    sites = [exact(made, 3000, START), exact(made, 500, START, noise_sd=80.0)]
    moved = [
        of([replace(each, total=each.total + 900.0) for each in site.answers], n)
        for site, n in zip(sites, (3000, 500), strict=True)
    ]
    first, second = (match(made, flat_fit(), each, clip=CLIP) for each in (sites, moved))
    assert first.weights == second.weights
    assert np.max(np.abs(first.private.theta - second.private.theta)) > 0.1


def test_the_noise_of_each_number_of_people_counts():
    made = binary(people(np.random.default_rng(15), 200))
    plain = match(made, flat_fit(), [exact(made, 2000, START) for _ in range(2)], clip=CLIP)
    noisy = match(made, flat_fit(), [exact(made, 2000, START, records_sd=sd) for sd in (30.0, 40.0)], clip=CLIP)
    mean = expected(made, noisy.pooled, asked=[(START, 1.0)], clip=CLIP).mean
    assert not plain.private.counting.any()
    assert noisy.private.counting == pytest.approx(50.0**2 * np.outer(mean, mean), rel=1e-6)


def test_each_site_has_an_estimate_of_its_own_and_its_share():
    made = binary(people(np.random.default_rng(16), 200))
    moved = TRUTH + np.array([0.2, 0.0, 0.0])
    n = (4000, 1000)
    sums = [
        k * expected(made, at, asked=[(START, 1.0)], clip=CLIP).mean for k, at in zip(n, (TRUTH, moved), strict=True)
    ]
    sites = [
        of([Answer(theta=START, total=total, noise_sd=20.0, weight=1.0)], k) for k, total in zip(n, sums, strict=True)
    ]
    found = match(made, flat_fit(), sites, clip=CLIP)
    assert found.sites[0].theta == pytest.approx(TRUTH, abs=0.01)
    assert found.sites[1].theta == pytest.approx(moved, abs=0.01)
    assert sum(found.shares) == pytest.approx(1.0)
    together = sum(share * site.theta for share, site in zip(found.shares, found.sites, strict=True))
    assert found.private.theta == pytest.approx(together, abs=1e-5)
    # Each is what the site alone would give, linearised elsewhere.
    alone = match(made, flat_fit(), sites[1:], clip=CLIP).private
    assert found.sites[1].theta == pytest.approx(alone.theta, abs=0.01)
    assert np.diag(found.sites[1].covariance) == pytest.approx(np.diag(alone.covariance), rel=0.1)


def test_what_is_not_known_of_the_distance_to_the_truth_widens_the_error():
    # Asked for far away, the sum is compared with an expectation over few people, and the less is known of where the
    # truth is the more that may be off. Fails where the estimate is taken for the truth.
    made, far = binary(people(np.random.default_rng(17), 200)), TRUTH + np.array([0.5, -0.6, 0.5])
    known, vague = (
        match(made, flat_fit(far), [exact(made, 3000, far, noise_sd=noise_sd)], clip=CLIP).private
        for noise_sd in (1.0, 400.0)
    )
    assert np.all(np.linalg.eigvalsh(vague.public - known.public) > 0.0)
    assert np.trace(vague.public) > 1.3 * np.trace(known.public)


def test_a_direction_without_information_ends_no_fit():
    # A column that is nearly nothing in public people: A is nearly singular, and so may rounding be larger than it.
    rng = np.random.default_rng(18)
    X = people(rng, 200)
    X[:, 2] *= 1e-9
    fit = PublicFit(theta=TRUTH, covariance=np.diag([0.01, 0.01, 1e6]), information=np.diag([100.0, 100.0, 1e-6]))
    sums = rng.normal(0.0, 30.0, (2, 3))
    sites = [of([Answer(theta=TRUTH, total=total, noise_sd=30.0, weight=1.0)], 2000) for total in sums]
    found = match(binary(X), fit, sites, clip=CLIP)
    assert np.all(np.isfinite(found.pooled))
    assert np.all(np.isfinite(found.private.public))
    broken = np.diag([1.0, -1e-17, 4.0])
    assert root_of(broken) @ root_of(broken) == pytest.approx(np.diag([1.0, 0.0, 4.0]))


COSTS = np.array([[0.1], [0.3], [0.6]])
PLACES = np.array([[0.3, 0.1], [-0.1, 0.05], [0.02, -0.04]])


def rounds_to(X_private, y, made, *, averaging):
    """Return estimates of a fit in three rounds without noise or clip: Newton's steps with public information."""
    places, answers = [TRUTH + np.array([0.2, -0.2, 0.2])], []
    for cost in COSTS.ravel():
        scores = (1.0 / (1.0 + np.exp(-X_private @ places[-1])) - y)[:, None] * X_private
        answers.append(Answer(theta=places[-1], total=scores.sum(axis=0), noise_sd=1e-3 / cost**0.5, weight=cost))
        found = match(made, flat_fit(), [of(answers, len(y))], clip=1e3, averaging=averaging)
        places.append(found.private.theta)
    return found.private.theta, answers


@pytest.mark.parametrize("spread", [0.65, 0.8])
def test_rounds_are_averaged_where_they_lead_to_the_place_they_were_asked_at(spread):
    """Where public people have more information, each round goes only a part of the way to the ordinary fit."""
    rng = np.random.default_rng(8)
    X_private = np.column_stack([np.ones(20_000), spread * rng.standard_normal((20_000, 2))])
    y = (rng.uniform(size=len(X_private)) < 1.0 / (1.0 + np.exp(-X_private @ TRUTH))).astype(float)
    ordinary, made = TRUTH, binary(people(rng, 300))
    for _ in range(20):
        chance = 1.0 / (1.0 + np.exp(-X_private @ ordinary))
        H = (X_private * (chance * (1.0 - chance))[:, None]).T @ X_private
        ordinary = ordinary - np.linalg.solve(H, X_private.T @ (chance - y))
    averaging = Averaging(costs=(0.1, 0.3, 0.6), noise=1e-12, first=0.2, slopes=SLOPES)
    near, answers = rounds_to(X_private, y, made, averaging=averaging)
    by_noise, _ = rounds_to(X_private, y, made, averaging=None)
    last = match(made, flat_fit(), [of(answers[-1:], len(y))], clip=1e3).private.theta
    off = [np.max(np.abs(each - ordinary)) for each in (near, by_noise, last)]
    assert off[0] < 0.3 * min(off[1:])
    assert off[0] < 0.007


def test_shares_of_rounds_make_noise_and_what_is_hidden_the_least():
    noise = np.array([1e-3, 4e-3]) / COSTS
    estimates = RoundEstimates(places=PLACES, ends=np.zeros((3, 2)), noise=noise)

    def error(shares):
        of_rounds = shares**2 @ (noise + MISSED**4 * PLACES**2)
        return np.sum((of_rounds + MISSED**2 * (shares @ PLACES) ** 2) / [1e-3, 4e-3])

    assert np.sum(estimates.shares) == pytest.approx(1.0)
    for step in np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]):
        assert error(estimates.shares) < min(
            error(estimates.shares + 1e-3 * step), error(estimates.shares - 1e-3 * step)
        )
    assert replace(estimates, ends=PLACES).shares == pytest.approx(COSTS.ravel())
    assert estimates.first(1).shares.tolist() == [1.0]


def test_a_coordinate_of_much_noise_does_not_choose_the_shares_of_all():
    """Where it leads is far from where it was asked, by noise alone."""
    noise = np.array([1e-6, 1.0]) / COSTS
    estimates = RoundEstimates(places=0.001 * PLACES, ends=np.array([[0.0, 1.5], [0.0, -1.0], [0.0, 0.7]]), noise=noise)
    assert estimates.missed == pytest.approx([MISSED, MISSED])
    assert estimates.shares == pytest.approx(COSTS.ravel(), abs=0.02)


def test_what_rounds_show_to_be_missed_counts_where_it_is_more_than_noise():
    ends = PLACES * [-0.9, 0.1] + 0.5
    sure, some, unsure = (
        RoundEstimates(places=PLACES, ends=ends, noise=each / COSTS * np.ones(2)) for each in (1e-12, 1e-3, 1.0)
    )
    assert sure.missed == pytest.approx([0.9, MISSED], abs=1e-4)
    assert unsure.missed == pytest.approx([MISSED, MISSED])
    # One standard error of a slope of one regressor, of noise with the variances 1e-3 / costs.
    x, costs = PLACES[:, 0], COSTS.ravel()
    square = np.sum(costs * (x - costs @ x) ** 2)
    assert some.missed[0] == pytest.approx(0.9 - 2.0 * np.sqrt(1e-3 / square))


def answers_that_lead(made, places, ends, *, noise_sd=1e-3, n=3000):
    """Return sums, asked at ``places``, that lead to ``ends``."""
    return [
        Answer(
            theta=TRUTH + at,
            total=n * expected(made, TRUTH + end, asked=[(TRUTH + at, 1.0)], clip=1e3).mean,
            noise_sd=noise_sd / cost**0.5,
            weight=cost,
        )
        for at, end, cost in zip(places, ends, COSTS.ravel(), strict=True)
    ]


def test_far_places_hide_more_than_was_foreseen_and_noise_does_not():
    made = binary(people(np.random.default_rng(13), 200))
    places = np.array([[0.0, each, 0.0] for each in (0.06, -0.08, 0.08)])
    ends = -0.9 * places

    def allowed(answers, first=0.0, n=3000):
        averaging = Averaging(costs=(0.1, 0.3, 0.6), noise=1e-12, first=first, slopes=SLOPES)
        found = match(made, flat_fit(), [of(answers, n)], clip=1e3, averaging=averaging).private
        assert found.by_noise - found.allowance == pytest.approx(
            found.noise * found.response @ found.response.T, abs=1e-12
        )
        return np.diag(found.allowance)

    exact = answers_that_lead(made, places, ends)
    # About .08 from the estimate, which is near 0: the rounds go from one side to the other.
    assert np.sqrt(allowed(exact)) == pytest.approx([0.0, MISSED * 0.078, 0.0], abs=0.002)
    foreseen = Averaging(costs=(0.1, 0.3, 0.6), noise=1e-12, first=0.2, slopes=SLOPES).hidden
    assert allowed(exact, first=0.2)[1] == pytest.approx(allowed(exact)[1] - foreseen**2)
    assert not allowed(exact, first=10.0).any()
    assert not allowed(answers_that_lead(made, places, ends, noise_sd=1e3)).any()
    # Where a fit ends after its first round, what that hides counts.
    assert np.sqrt(allowed(exact[:1])) == pytest.approx([0.0, MISSED * 0.114, 0.0], abs=0.002)


def test_sites_that_missed_rounds_are_averaged_over_those_that_they_answered():
    made = binary(people(np.random.default_rng(9), 300))
    averaging = Averaging(costs=(0.1, 0.3, 0.6), noise=1e-12, first=0.0, slopes=SLOPES)
    places = np.array([[0.3, 0.3, 0.3], [-0.1, -0.1, -0.1], [0.1, 0.1, 0.1]])
    given = answers_that_lead(made, places, 0.0 * places)
    sites = [of(given, 3000), of(given[:2], 3000)]
    found = settled(made, flat_fit(), sites, clip=1e3, averaging=averaging)
    whole, part = (np.array([share for _, share in each.site.asked]) for each in found.parts)
    assert [np.sum(whole), np.sum(part)] == pytest.approx([1.0, 1.0])
    assert abs(whole @ places[:, 0]) < 0.01
    assert abs(part @ places[:2, 0]) < 0.01
    assert found.private.theta == pytest.approx(TRUTH, abs=1e-6)
    # A site that answered the first round alone hides more, and has half of the information.
    first = settled(made, flat_fit(), [of(given, 3000), of(given[:1], 3000)], clip=1e3, averaging=averaging)
    alone = settled(made, flat_fit(), [of(given[:1], 3000)], clip=1e3, averaging=averaging)
    later = settled(made, flat_fit(), [of(given, 3000)], clip=1e3, averaging=averaging)
    hidden = [np.sqrt(np.diag(each.private.allowance)) for each in (later, first, alone)]
    assert hidden[1] == pytest.approx((hidden[0] + hidden[2]) / 2.0, rel=0.2)
