"""Several sites in one fit: weights by hand, common errors that do not average out, sites of which little is known."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.inference import combination, draws
from hdpstats.inference.combination import (
    OTHER_CURVATURE,
    InformedPoint,
    bias,
    combine_points,
    missed,
    scalar_weight,
    shares,
    unshrink,
)
from hdpstats.inference.information import (
    WIDE,
    InObjective,
    NoisyHessian,
    OnMinimiser,
    PublicInformation,
    ReleasedInformation,
    Tempered,
    draw_jointly,
)
from hdpstats.inference.sandwich import combine
from hdpstats.losses import LogisticLoss, PoissonLoss, SmoothedQuantile
from hdpstats.mechanisms.perturbation.request import noise_distribution
from hdpstats.models.estimates import ALL_UNCLEAR, NOT_RELEASED, TOGETHER, UNCLEAR, UNCLEAR_SOMEWHERE, assumed
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.records.geometry import from_box
from tests.unit.inference.several import BOX, part, read
from tests.unit.inference.sides import BETA, public_side

ROOT2 = np.sqrt(2.0)


def stacked(H):
    i, j = np.triu_indices(3)
    return H[i, j] * np.where(i == j, 1.0, ROOT2)


def positive(seed, *, size=400.0):
    root = np.random.default_rng(seed).standard_normal((3, 3))
    return size * (root @ root.T + np.eye(3))


def test_one_site_has_all_the_weight():
    found = read(part(public_side(), BETA))
    (site,) = found.sites
    assert site.weight == 1.0
    assert site.estimate is found.private_only
    assert found.heterogeneity is None


def test_two_equal_sites_are_one_of_twice_the_size():
    # Twice the people, twice the ridge; the sum of two independent noises is that of 1 / sqrt(2) the rate.
    H, theta = positive(1), BETA + np.array([0.1, -0.2, 0.3])
    half = part(None, theta, rate=0.5, ridge=100.0, hessian=stacked(H), sd=1e-6)
    whole = part(None, theta, rate=0.5 / ROOT2, ridge=200.0, hessian=stacked(2.0 * H), sd=1e-6)
    two, one = read(half, half), read(whole)
    assert two.private_only.values == pytest.approx(one.private_only.values, rel=1e-9)
    assert two.private_only.bse.to_numpy() == pytest.approx(one.private_only.bse.to_numpy(), rel=0.05)
    assert np.all(two.private_only.bse < 0.8 * two.sites[0].estimate.bse)
    # With public rows as well, but for the bias of small sites, which is taken off.
    public = public_side()
    half = part(public, theta, rate=0.5, records=1000, ridge=100.0)
    two, one = read(half, half), read(part(public, theta, rate=0.5 / ROOT2, records=2000, ridge=200.0))
    assert [site.weight for site in two.sites] == pytest.approx([0.5, 0.5])
    for each, other in ((two.private_only, one.private_only), (two.pooled, one.pooled)):
        assert each.values == pytest.approx(other.values, abs=0.2 * other.bse.min())
        assert each.bse.to_numpy() == pytest.approx(other.bse.to_numpy(), rel=0.05)


def perturbed_point(public, *, records, ridge, truth, pushed):
    """Return where the expected score of people with coefficients ``truth``, the ridge and a push (D,) add up to 0."""
    weight, loss, X = records * public.mallows / public.people, public.loss, public.X
    theta, expected = truth, loss.mean(X @ truth)
    for _ in range(30):
        gradient = X.T @ (weight * (loss.mean(X @ theta) - expected)) + ridge * (theta - public.centre) + pushed
        hessian = X.T @ ((weight * loss.typical(X @ theta)[0])[:, None] * X) + ridge * np.eye(3)
        theta = theta - np.linalg.solve(hessian, gradient)
    return theta


@pytest.mark.parametrize("sites", [1, 3])
@pytest.mark.parametrize(
    ("loss", "size", "ridge"),
    [(LogisticLoss(), 1.0, 0.05), (PoissonLoss(upper=200.0, cap=200.0), 0.4, 0.6)],
    ids=["logistic", "counts"],
)
def test_far_from_the_public_fit_the_ridge_is_taken_out_along_the_way(loss, size, ridge, sites):
    """No noise, and private people with coefficients opposite to the public ones: a ridge of the curvature's size.

    What comes back is the truth as far as sums over public rows tell it: with the curvature at its end in place of the
    mean on the way the estimates miss it by much more.
    """
    public, records, truth = replace(public_side(2000), loss=loss), 40_000, size * np.array([1.0, -1.6, 1.5])
    theta = perturbed_point(public, records=records, ridge=records * ridge, truth=truth, pushed=np.zeros(3))
    site = part(public, theta, rate=1.0, records=records, ridge=records * ridge)
    known = InformedPoint(part=site, information=PublicInformation(public=public, records=records))
    found = combine_points([known] * sites, public.fit)
    missed = np.abs(found.private - truth).max()
    at_its_end = site.unshrunk(known.information.at(truth).H)
    assert missed < 0.005
    assert np.abs(at_its_end - truth).max() > 10.0 * missed


def test_of_a_location_curvature_is_not_followed():
    """It is that of public outcomes near the predictor, which end."""
    side, rng = public_side(), np.random.default_rng(1)
    located = replace(side, loss=SmoothedQuantile(q=0.5, h=0.05, lower=0.0, upper=1.0), y=rng.random(side.people))
    assert side.along_the_way
    assert not located.along_the_way


@pytest.mark.wide
def test_the_bias_of_a_small_site_is_known():
    # 400 people and much noise. Pushes come with both signs, so that what is linear in them is nil.
    public, records, ridge, truth = public_side(2000), 400, 30.0, np.array([-0.8, 1.4, -1.0])
    at = public.moments(truth, records=records)
    site = part(public, truth, rate=0.15, records=records, ridge=ridge)
    rng = draws.generator("ab" * 32)
    pushes = draws.normal(rng, at.J, 300) + site.noise.draw(rng, np.repeat(at.H[None], 300, axis=0))
    points = [
        perturbed_point(public, records=records, ridge=ridge, truth=truth, pushed=sign * push)
        for push in pushes
        for sign in (1.0, -1.0)
    ]
    known = InformedPoint(part=site, information=PublicInformation(public=public, records=records))
    unshrunk = []
    for theta in points:
        moved = replace(known, part=replace(site, release=replace(site.release, theta=tuple(theta.tolist()))))
        H = known.information.over(moved.between(truth)).H
        unshrunk.append(unshrink(theta, centre=public.centre, ridge=ridge, H=H))
    found = bias(known, at, point=truth)
    measured = np.mean(unshrunk, axis=0) - truth
    assert found == pytest.approx(measured, rel=0.25)  # of second order
    assert np.abs(measured).min() > 0.05
    # A released Hessian tells nothing of it.
    own = ReleasedInformation(hessian=NoisyHessian(H=at.H, noise_sd=1.0), meat=1.0)
    assert not bias(InformedPoint(part=site, information=own), at, point=truth).any()


def test_bias_is_taken_off_where_sites_are_several(monkeypatch):
    biases = []
    monkeypatch.setattr(combination, "bias", lambda *site, point: biases.append(bias(*site, point=point)) or biases[-1])
    public = public_side()
    sites = [part(public, BETA + 0.2, rate=0.05, records=500) for _ in range(4)]
    known = [InformedPoint(part=each, information=PublicInformation(public=public, records=500)) for each in sites]
    alone, found = combine_points(known[:1], public.fit), combine_points(known, public.fit)
    assert alone.unshrunk[0] == pytest.approx(sites[0].unshrunk(alone.secants[0]))
    last = found.unshrunk[0] - sites[0].unshrunk(found.secants[0])
    assert len(biases) == len(sites)  # once
    assert last == pytest.approx(-biases[0], rel=1e-9)
    taken = -bias(known[0], found.at[0], point=found.pooled)
    assert np.abs(last - taken).max() < 0.05 * np.abs(taken).max()  # at a point that is almost the pooled one
    assert np.abs(taken).max() > 0.01


def test_sites_are_combined_by_inverse_variance():
    curvatures, thetas = [positive(1), positive(2), positive(3)], np.random.default_rng(4).standard_normal((3, 3))
    rates, ridges = (0.5, 0.05, 2.0), (20.0, 50.0, 5.0)
    sites = [
        part(None, theta, rate=rate, ridge=ridge, hessian=stacked(H), sd=1.0)
        for theta, rate, ridge, H in zip(thetas, rates, ridges, curvatures, strict=True)
    ]
    found = read(*sites, meat=2.0)
    precisions, unshrunk = [], []
    for theta, rate, ridge, H in zip(thetas, rates, ridges, curvatures, strict=True):
        inverse = np.linalg.inv(H)
        unshrunk.append(theta + inverse @ (ridge * theta))
        precisions.append(
            np.linalg.inv(inverse @ (2.0 * H + np.diag(noise_distribution(BOX, rate=rate).variance)) @ inverse)
        )
    V = np.linalg.inv(sum(precisions))
    u = V @ sum(P @ each for P, each in zip(precisions, unshrunk, strict=True))
    T = BOX.to_raw()
    assert found.private_only.values == pytest.approx(T @ u, rel=1e-9)
    assert [site.weight for site in found.sites] == pytest.approx([np.trace(V @ P) / 3.0 for P in precisions])
    for site, each in zip(found.sites, unshrunk, strict=True):
        assert site.estimate.values == pytest.approx(T @ each, rel=1e-9)
    assert np.diag(found.private_only.cov_params()) == pytest.approx(np.diag(T @ V @ T.T), rel=0.15)
    assert found.chosen.note is None


def test_weights_add_up_and_none_is_negative():
    weights = shares([positive(seed, size=10.0**seed) for seed in range(4)])
    assert sum(weights) == pytest.approx(np.eye(3), abs=1e-9)
    scalars = [scalar_weight(each) for each in weights]
    assert all(0.0 <= each <= 1.0 for each in scalars)
    assert sum(scalars) == pytest.approx(1.0)


def test_a_site_of_huge_noise_has_no_say():
    public = public_side()
    one, two = part(public, BETA), part(public, BETA + 0.05)
    lost = part(public, [50.0, -80.0, 20.0], rate=1e-5)
    without, found = read(one, two), read(one, lost, two)
    assert found.sites[1].weight < 1e-6
    assert found.private_only.values == pytest.approx(without.private_only.values, abs=1e-4)
    assert found.pooled.values == pytest.approx(without.pooled.values, abs=1e-4)
    assert found.private_only.bse.to_numpy() == pytest.approx(without.private_only.bse.to_numpy(), rel=0.05)


def test_more_people_and_less_noise_weigh_more_and_the_order_of_sites_is_nothing():
    public = public_side()
    sites = [part(public, BETA), part(public, BETA + 0.1, records=6000), part(public, BETA - 0.1, rate=1.0)]
    found, turned = read(*sites), read(*sites[::-1])
    weights = [site.weight for site in found.sites]
    assert weights[0] < min(weights[1:])
    assert weights == pytest.approx([site.weight for site in turned.sites][::-1])
    assert found.pooled.values == pytest.approx(turned.pooled.values, rel=1e-9)


def test_sites_weigh_by_public_numbers_of_people():
    # What a release says of itself is not read: with protected numbers of people a noisy count or a bound stands in.
    public = public_side()
    one, two = part(public, BETA), part(public, BETA + 0.1)
    told = replace(two, release=replace(two.release, records=10**6))
    assert [s.weight for s in read(one, told).sites] == pytest.approx([s.weight for s in read(one, two).sites])


def test_sites_share_the_weighting_of_the_public_rows():
    public = public_side()
    one, two = (PublicInformation(public=public, records=n) for n in (1000, 3000))
    own = ReleasedInformation(hessian=NoisyHessian(H=positive(1), noise_sd=20.0), meat=1.0)
    other = ReleasedInformation(hessian=NoisyHessian(H=positive(1), noise_sd=20.0), meat=1.0)
    rng = draws.generator("ab" * 32)
    drawn = draw_jointly(rng, [one, own, two, other], thetas=[BETA] * 4, count=200)
    assert np.allclose(drawn[2].H, 3.0 * drawn[0].H)
    assert np.std(drawn[0].H[:, 0, 0]) > 0.0
    apart = [(each.H - positive(1))[:, 0, 1] for each in (drawn[1], drawn[3])]
    assert abs(np.corrcoef(apart)[0, 1]) < 0.2


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("count", [2, 12])
def test_what_unshrinking_misses_does_not_average_out(count):
    # Scores and noise are next to nothing; a ridge of about the curvature; 40 public people tell that curvature.
    public = replace(public_side(40), fit=None)
    level = 1e6 * float(np.mean(np.diag(public.moments(BETA, records=1).H)))
    site = part(public, BETA, rate=1e4, records=10**6, ridge=level)
    found = read(*[site] * count)
    one, many = (np.diag(each.sampling) for each in (found.sites[0].estimate, found.private_only))
    assert many == pytest.approx(one, rel=0.1)
    # With Hessians of their own sites err independently, and the error averages out.
    H = positive(1)
    site = part(None, BETA, rate=1e4, ridge=float(np.mean(np.diag(H))), hessian=stacked(H), sd=0.02 * H[0, 0])
    one, many = (np.diag(read(*[site] * k, meat=1e-6).private_only.sampling) for k in (1, count))
    assert many == pytest.approx(one / count, rel=0.25)


def test_scores_and_noises_average_out():
    site = part(public_side(), BETA, ridge=1e-3)
    one, many = (read(*[site] * k).private_only for k in (1, 8))
    for name in ("sampling", "privacy"):
        assert np.diag(getattr(many, name)) == pytest.approx(np.diag(getattr(one, name)) / 8.0, rel=0.15)


def test_each_site_keeps_its_own_noise():
    # Noise in the objective at one site, on the minimiser at another, a tempered draw at the third.
    H, normal = positive(1), NormalDistribution(dimension=3, sd=0.3)
    noises = [
        InObjective(distribution=NoiseDistribution(norm=BallNorm(), dimension=3, rate=0.2)),
        OnMinimiser(distribution=normal, ridge=50.0),
        Tempered(temperature=0.05, ridge=50.0, dimension=3),
    ]
    site = part(None, BETA, ridge=50.0, hessian=stacked(H), sd=1e-6)
    found = read(*(replace(site, noise=noise) for noise in noises), meat=0.5)
    inverse, T = np.linalg.inv(H), BOX.to_raw()
    private = [inverse @ noise.covariance(H) @ inverse for noise in noises]
    weights = shares([0.5 * inverse + each for each in private])
    expected = T @ sum(W @ each @ W.T for W, each in zip(weights, private, strict=True)) @ T.T
    assert np.diag(found.private_only.privacy) == pytest.approx(np.diag(expected), rel=0.1)
    for each, alone in zip(found.sites, private, strict=True):
        assert np.diag(each.estimate.privacy) == pytest.approx(np.diag(T @ alone @ T.T), rel=0.1)


def test_each_site_keeps_its_own_ridge_and_centre():
    # Where losses are quadratic and nothing is noisy, sites of any ridge and centre tell the same coefficients.
    truth, rng = np.array([0.5, -1.0, 2.0]), np.random.default_rng(7)
    sites = []
    for ridge in (1.0, 300.0, 5000.0):
        H, centre = positive(int(ridge)), rng.standard_normal(3)
        theta = np.linalg.solve(H + ridge * np.eye(3), H @ truth + ridge * centre)
        made = part(None, theta, ridge=ridge, hessian=stacked(H), sd=1e-9)
        sites.append(replace(made, query=replace(made.query, centre=tuple(centre.tolist()))))
    found = read(*sites)
    assert found.private_only.values == pytest.approx(BOX.to_raw() @ truth, rel=1e-9)
    for site in found.sites:
        assert site.estimate.values == pytest.approx(BOX.to_raw() @ truth, rel=1e-6)


def test_moments_are_computed_at_one_common_point():
    # The second site's released point is far off; its moments, and so its weight, are not taken there.
    public = public_side()
    parts = [part(public, BETA, rate=5.0), part(public, BETA + np.array([0.0, 6.0, 0.0]), rate=0.05)]
    known = [InformedPoint(part=each, information=PublicInformation(public=public, records=3000)) for each in parts]
    found = combine_points(known, public.fit)
    last = found.at[1].H
    assert last == pytest.approx(found.at[0].H)
    assert last == pytest.approx(public.moments(found.pooled, records=3000).H, rel=0.02)
    assert last != pytest.approx(public.moments(parts[1].theta, records=3000).H, rel=0.3)


def test_an_outcome_s_shift_moves_every_estimate():
    found = read(part(public_side(), BETA), part(public_side(), BETA + 0.1))
    moved = found.moved(np.array([10.0, 0.0, 0.0]))
    pairs = [(found.pooled, moved.pooled), (found.private_only, moved.private_only)]
    pairs += [(a.estimate, b.estimate) for a, b in zip(found.sites, moved.sites, strict=True)]
    for before, after in pairs:
        assert after.values - before.values == pytest.approx([10.0, 0.0, 0.0], abs=1e-12)
    assert [site.weight for site in moved.sites] == [site.weight for site in found.sites]


def test_where_nothing_is_known_released_points_are_averaged_by_people_and_noise():
    n, rates, thetas = (2000, 1000), (0.5, 0.1), (BETA, BETA + 1.0)
    sites = [
        part(None, theta, rate=rate, records=records) for theta, rate, records in zip(thetas, rates, n, strict=True)
    ]
    found = read(*sites)
    # A variance of (n c + s^2) / (n c)^2 in each direction, with the guessed curvature c = 0.1 of a person.
    c = 0.1 * np.array(n)[:, None]
    precision = c**2 / (c + np.array([noise_distribution(BOX, rate=rate).variance for rate in rates]))
    weight = precision / precision.sum(axis=0)
    T = BOX.to_raw()
    assert found.chosen.values == pytest.approx(T @ np.sum(weight * thetas, axis=0))
    assert [site.weight for site in found.sites] == pytest.approx(weight.mean(axis=1))
    for each in (found.chosen, *(site.estimate for site in found.sites)):
        assert each.note == NOT_RELEASED
        assert each.label == "released"
        assert each.bse.isna().all()
    assert found.heterogeneity is None


def test_a_drowned_hessian_gives_way_to_public_rows_at_its_own_site():
    public = public_side()
    H = stacked(public.moments(BETA, records=3000).H)
    clear = part(public, BETA, hessian=H, sd=5.0)
    drowned = part(public, BETA + 0.1, hessian=H, sd=1e5)
    found = read(clear, drowned)
    assert [site.estimate.note for site in found.sites] == [None, UNCLEAR + assumed(public)]
    assert found.pooled.note == found.private_only.note
    assert found.pooled.note.startswith(UNCLEAR_SOMEWHERE + assumed(public) + " Correlations")
    assert np.all(found.pooled.bse > 0.0)
    assert read(drowned, drowned).pooled.note.startswith(UNCLEAR + assumed(public) + " Correlations")
    assert read(part(public, BETA), part(public, BETA)).pooled.note.startswith(assumed(public) + " Correlations")


def test_hessians_that_noise_drowns_one_by_one_may_be_clear_together():
    # Five sites: five times the curvature in sqrt(5) times the noise.
    H = positive(1, size=100.0)
    least = float(np.linalg.eigvalsh(H)[0])
    sites = [part(None, BETA, hessian=stacked(H), sd=least / 4.0), part(None, BETA, hessian=stacked(H), sd=least / 2.5)]
    sites = [sites[0]] * 3 + [sites[1]] * 2
    found = read(*sites)
    assert found.private_only.note == TOGETHER
    assert np.all(found.private_only.bse > 0.0)
    alone = read(sites[3])
    assert alone.private_only.note == ALL_UNCLEAR
    # Each site has its share of the curvature by people.
    unequal = [replace(site, records=records) for site, records in zip(sites, (1, 1, 1, 3, 4), strict=True)]
    own = read(*unequal).sites[4].estimate.values
    assert own == pytest.approx(BOX.to_raw() @ (BETA + np.linalg.solve(5.0 * 0.4 * H, 200.0 * BETA)))
    # Not even together:
    lost = [part(None, BETA, hessian=stacked(H), sd=least)] * 2
    assert {site.estimate.note for site in read(*lost).sites} == {ALL_UNCLEAR}


def test_several_releases_have_one_set_of_standard_errors_of_their_own():
    public = public_side()
    one, two = part(public, BETA), part(public, BETA + 0.1)
    assert np.array_equal(read(one, two).pooled.bse, read(one, two).pooled.bse)
    assert not np.array_equal(read(one, two).pooled.bse, read(two, one).pooled.bse)
    hashes = one.release.sha256, two.release.sha256
    first = [draws.generator(*each).standard_normal() for each in (hashes, hashes[::-1], hashes[:1], hashes)]
    assert first[0] == first[3]
    assert len(set(first)) == 3


@pytest.mark.parametrize(("people", "repeated"), [(40, 1), (150, 5), (700, 20), (20_000, 40)])
def test_more_errors_share_a_draw_of_curvature_where_public_people_are_many(people, repeated):
    side = replace(public_side(40), X=np.zeros((people, 3)))
    assert PublicInformation(public=side, records=100).repeated(4000) == repeated
    assert ReleasedInformation(hessian=NoisyHessian(H=positive(1), noise_sd=20.0), meat=1.0).repeated(4000) == 1


@pytest.mark.parametrize(("coefficients", "repeated", "of_500"), [(WIDE - 1, 40, 20), (WIDE, 100, 100)])
def test_more_errors_share_a_draw_of_curvature_where_there_are_many_coefficients(coefficients, repeated, of_500):
    geometry = from_box([0.0] * (coefficients - 1), [1.0] * (coefficients - 1), intercept=True)
    side = replace(public_side(40), X=np.zeros((20_000, coefficients)), geometry=geometry)
    information = PublicInformation(public=side, records=100)
    assert information.repeated(4000) == repeated
    assert information.repeated(500) == of_500, "draws of errors are divided evenly among those of curvature"


def test_draws_that_share_a_matrix_have_its_distribution():
    rng = draws.generator("cd" * 32)
    matrices = np.array([positive(seed) for seed in range(3)])
    found = draws.normals(matrices, rng.standard_normal((12_000, 3))).reshape(3, 4000, 3)
    for drawn, covariance in zip(found, matrices, strict=True):
        assert np.cov(drawn, rowvar=False) == pytest.approx(covariance, abs=0.15 * np.max(covariance))
    vectors = np.arange(18.0).reshape(6, 3)
    assert np.allclose(draws.through(matrices, vectors)[3], matrices[1] @ vectors[3])


def by_outcomes(side):
    """Return a public side whose curvature is that of outcomes: of medians."""
    rng = np.random.default_rng(1)
    y = side.X @ side.centre + 0.5 * rng.standard_normal(side.people)
    return replace(side, loss=SmoothedQuantile(q=0.5, h=0.5, lower=-20.0, upper=20.0), y=y)


def pulled_point(public, *, ridge=80.0, theta=(0.1, 0.5, 0.2)):
    information = PublicInformation(public=public, records=3000)
    return InformedPoint(part=part(public, np.array(theta), ridge=ridge), information=information)


def test_what_curvature_of_other_outcomes_misses_has_the_covariance_of_a_random_matrix():
    H, pull = positive(3), np.array([30.0, -50.0, 10.0])
    sizes, axes = np.linalg.eigh(H)
    root = (axes / np.sqrt(sizes)) @ axes.T
    rng = np.random.default_rng(4)
    A = rng.standard_normal((40_000, 3, 3))
    E = (
        0.5 * OTHER_CURVATURE * (A + np.swapaxes(A, 1, 2))
    )  # the diagonal with kappa, the rest with that over the root of 2
    assert np.std(E[:, 0, 0]) == pytest.approx(OTHER_CURVATURE, rel=0.02)
    assert np.std(E[:, 0, 1]) == pytest.approx(OTHER_CURVATURE / ROOT2, rel=0.02)
    error = -(E @ (root @ pull)) @ root
    found = missed(H, np.outer(pull, pull))
    assert np.linalg.norm(error.T @ error / len(error) - found) < 0.03 * np.linalg.norm(found)


def test_estimates_allow_for_it_where_curvature_rests_on_outcomes_only():
    plain = public_side()
    side = by_outcomes(plain)
    (found, few, none) = (
        combine_points([pulled_point(each, ridge=ridge)], each.fit)
        for each, ridge in ((side, 80.0), (side, 8.0), (plain, 80.0))
    )
    point = pulled_point(side)
    pull = 80.0 * (point.part.theta - side.centre)
    much, little, nothing = (each.pulls.covariance(each.shares) for each in (found, few, none))
    assert much == pytest.approx(missed(found.secants[0], np.outer(pull, pull)))
    assert np.trace(little) == pytest.approx(0.01 * np.trace(much), rel=0.2)
    assert not nothing.any()
    (estimate,) = read(point.part).sites
    (less,) = read(pulled_point(side, ridge=8.0).part).sites
    assert np.all(np.diag(estimate.estimate.privacy) > np.diag(less.estimate.privacy))


def test_weights_and_the_public_fit_err_by_the_same_cause_where_people_are_unlike():
    side = public_side()
    sites, allowance = [pulled_point(side, ridge=8.0)], np.diag([0.0, 0.01, 0.01])
    alike, half, unlike = (
        combine(sites, fit=side.fit, T=np.eye(3), terms=("a", "b", "c"), allowance=allowance, unlike=each)
        for each in (0.0, 0.5, 1.0)
    )
    for found in (half, unlike):
        assert np.array_equal(found.private_only.values, alike.private_only.values)
        assert np.allclose(found.private_only.bse, alike.private_only.bse, rtol=0.03)
        assert np.array_equal(found.pooled.values, alike.pooled.values)
        assert np.allclose(found.pooled.sampling, alike.pooled.sampling)
    errors = np.array([each.pooled.bse for each in (alike, half, unlike)])
    assert np.all(np.diff(errors[:, 1:], axis=0) > 0.01 * errors[0, 1:])
    drawn = unlike.pooled.distribution.draws.exact
    assert errors[2] == pytest.approx(np.sqrt(np.mean(drawn**2, axis=0)), rel=0.02)


def test_it_does_not_average_out_over_sites():
    side = by_outcomes(public_side())
    one, four = (combine_points([pulled_point(side)] * sites, side.fit) for sites in (1, 4))
    assert four.pulls.covariance(four.shares) == pytest.approx(one.pulls.covariance(one.shares), rel=0.05)


def test_what_sites_miss_goes_together_as_their_pulls_do():
    side = by_outcomes(public_side())
    sites = [pulled_point(side, ridge=8.0), pulled_point(side, ridge=400.0, theta=(0.3, 0.1, -0.2))]
    found = combine_points(sites, side.fit)
    drawn = found.pulls.draw(np.random.default_rng(5), 60_000)
    for each, error, H, covariance in zip(sites, drawn, found.secants, found.pulls.covariances, strict=True):
        pull = each.part.ridge * (each.part.theta - each.part.centre)
        assert covariance == pytest.approx(missed(H, np.outer(pull, pull)))
        assert np.linalg.norm(np.cov(error.T) - covariance) < 0.03 * np.linalg.norm(covariance)
    average = sum(error @ share.T for error, share in zip(drawn, found.shares, strict=True))
    whole = found.pulls.covariance(found.shares)
    assert np.linalg.norm(np.cov(average.T) - whole) < 0.03 * np.linalg.norm(whole)
    opposite = replace(
        found.pulls, pulled=found.pulls.pulled[:1] * [[1.0], [-1.0]], roots=found.pulls.roots[:1].repeat(2, 0)
    )
    assert opposite.covariance([0.5 * np.eye(3)] * 2) == pytest.approx(np.zeros((3, 3)))


def test_a_site_that_was_pulled_more_errs_more_and_counts_less():
    side = by_outcomes(public_side())
    light, heavy = (pulled_point(side, ridge=ridge).part for ridge in (8.0, 400.0))
    both, alone = read(light, heavy), [read(each).private_only for each in (light, heavy)]
    for site, each in zip(both.sites, alone, strict=True):
        assert np.allclose(np.sqrt(np.diag(site.estimate.privacy)), np.sqrt(np.diag(each.privacy)), rtol=0.15)
    assert both.sites[0].weight > 0.8
    assert np.all(both.private_only.bse < 1.1 * alone[0].bse)
