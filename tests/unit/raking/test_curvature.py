"""Public rows raked to averages of private people: against direct computation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hdpstats.families.regression.public import public_rows, whitened_public
from hdpstats.formulas import compile_design
from hdpstats.formulas.outcome import response_of
from hdpstats.inference import draws
from hdpstats.inference.information import Information, draw_jointly
from hdpstats.losses import HuberLoss, LogisticLoss
from hdpstats.public.row_weights import COMMON_CAUSE
from hdpstats.public.squares import weighted_squares
from hdpstats.raking import curvature, information
from hdpstats.raking.curvature import RakeableSide
from hdpstats.raking.information import RakedInformation, raked_information, with_described
from hdpstats.raking.posterior import shrunk
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind
from hdpstats.records.geometry import whiten
from hdpstats.schema.columns import Binary, Categorical, Continuous, Weight
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

SCHEMA = Schema(
    age=Continuous(20, 90),
    nodes=Continuous(0, 40),
    size=Categorical(["small", "mid", "large"]),
    hormon=Binary(),
    y=Binary(),
    a=Weight(max=4),
)
FORMULA = "y ~ bs(age, df=4) + age:hormon + log1p(nodes) + size + hormon"
N = 400


@pytest.fixture(scope="module")
def public():
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(50, 6, N), 35, 65)
    return pd.DataFrame(
        {
            "age": age,
            "nodes": np.minimum(rng.poisson(8, N) + 4.0, 20.0),
            "size": rng.choice(["small", "mid", "large"], N, p=[0.5, 0.3, 0.2]),
            "hormon": (rng.random(N) < 0.3 + 0.01 * (age - 50)).astype(float),
            "y": (rng.random(N) < 0.4).astype(float),
            "a": rng.uniform(0.5, 3.0, N),
        }
    )


def side_of(frame, formula=FORMULA, weights=None):
    table = PublicTable.from_frame(frame, SCHEMA)
    design = compile_design(formula, SCHEMA)
    rows = public_rows(table, design, response_of(design, "logistic", SCHEMA), weights=weights, offset=None)
    return whitened_public(rows, design, LogisticLoss()).at_radius(2.0)


def people_of(frame, *, tilt=0.8):
    """Return public people tilted by levels, moved and stretched: weights and the frame."""
    w = np.exp(tilt * frame["hormon"] - 0.5 * (frame["size"] == "small"))
    w /= w.sum()
    moved = frame.assign(age=55 + 1.3 * (frame["age"] - 50), nodes=2 + 0.7 * frame["nodes"])
    return w.to_numpy(), moved


def moment(variable, what, value, sd=0.0, **parts):
    return CohortMoment(variable=variable, what=what, value=float(value), noise_sd=sd, **parts)


def moments_of(frame, w, *, sd=0.0, **parts):
    """Return the averages of people with weights that sum to 1."""
    found = [moment("hormon", MomentKind.SHARE, w @ frame["hormon"], sd, level=1)]
    found += [moment("size", MomentKind.SHARE, w @ (frame["size"] == level), sd, level=k) for k, level in SIZES]
    for name, lower, upper, centre in (("age", 20.0, 90.0, 50.0), ("nodes", 0.0, 40.0, 11.0)):
        x, box = frame[name].to_numpy(), {"lower": lower, "upper": upper}
        found.append(moment(name, MomentKind.MEAN, w @ x, sd, **box))
        found.append(moment(name, MomentKind.SQUARE, w @ (x - centre) ** 2, sd, centre=centre, **box))
    given = {"people": 5000.0, "people_sd": 0.0, "release_sha256": "5" * 64} | parts
    return CohortMoments(moments=tuple(found), **given)


SIZES = ((0, "small"), (1, "mid"))


def design_of(side, frame):
    codes = frame["size"].map({"small": 0, "mid": 1, "large": 2}).to_numpy()
    numeric = {name: frame[name].to_numpy(dtype=float) for name in ("age", "nodes", "hormon")}
    return side.variables.design.matrix(AdmittedTable(numeric=numeric, codes={"size": codes}, rows=len(frame)))


def test_people_are_the_private_ones_where_these_are_tilted_moved_and_stretched_public_ones(public):
    side = side_of(public)
    w, private = people_of(public)
    found = raked_information(side, moments_of(private, w), records=5000, records_sd=0.0)
    people = found.averaged[0].raked
    assert np.allclose(people.weights, w, rtol=1e-6)
    assert np.allclose(people.X, design_of(side, private), atol=1e-5)  # interactions and splines of the moved numbers


def test_the_hessian_is_that_of_the_private_people(public):
    side = side_of(public)
    w, private = people_of(public)
    found = raked_information(side, moments_of(private, w), records=5000, records_sd=0.0)
    theta = 0.3 * np.cos(np.arange(side.dimension))
    rows = whiten(side.geometry, design_of(side, private))
    p = LogisticLoss.mean(rows.X @ theta)
    curvatures = 5000 * w * rows.weights * p * (1 - p)
    H, J = rows.X.T @ (curvatures[:, None] * rows.X), rows.X.T @ ((curvatures * rows.weights)[:, None] * rows.X)
    at = found.at(theta)
    shrinkage = side.dimension * np.sum(w**2)  # about D / n_e
    assert np.linalg.norm(at.H - H) < 2.0 * shrinkage * np.linalg.norm(H)
    assert np.linalg.norm(at.J - J) < 2.0 * shrinkage * np.linalg.norm(J)
    unraked = side.moments(theta, records=5000).H
    assert np.linalg.norm(unraked - H) > 5 * np.linalg.norm(at.H - H)


@pytest.mark.parametrize("formula", [FORMULA, "y ~ 0 + age + nodes"])
def test_how_curvature_changes_is_what_hessians_on_both_sides_say(public, formula):
    side = side_of(public, formula=formula)
    w, private = people_of(public)
    found = raked_information(side, moments_of(private, w, sd=0.02), records=5000, records_sd=0.0)
    assert isinstance(found, RakedInformation)
    theta, steps = 0.3 * np.cos(np.arange(side.dimension)), 0.4 * np.cos(np.arange(1.0, 3 * side.dimension, 3))
    steps = np.vstack([steps, np.sin(steps)])
    by_hessians = Information.hessian_change(found, theta, steps)
    assert found.hessian_change(theta, steps) == pytest.approx(by_hessians, rel=1e-8)
    people = found.averaged[0]
    by_moments = RakeableSide.raked_hessian_change(side, theta, steps, people=people)
    assert side.raked_hessian_change(theta, steps, people=people) == pytest.approx(by_moments, rel=1e-8)


def test_numbers_that_averages_cut_are_matched_as_cut(public):
    side = side_of(public)
    w, private = people_of(public, tilt=0.0)
    known = moments_of(private, w)
    cut = np.clip(private["age"], 42.0, 58.0)
    box = {"lower": 42.0, "upper": 58.0}
    others = tuple(each for each in known.moments if each.variable != "age")
    ages = (
        moment("age", MomentKind.MEAN, w @ cut, **box),
        moment("age", MomentKind.SQUARE, w @ (cut - 50.0) ** 2, centre=50.0, **box),
    )
    found = raked_information(side, replace(known, moments=(*others, *ages)), records=5000, records_sd=0.0)
    assert np.allclose(
        found.averaged[0].raked.X, design_of(side, private), atol=0.05 * design_of(side, private).std(axis=0).max()
    )


def test_case_weights_count_people_and_their_total_is_the_size(public):
    side = side_of(public, weights="a")
    w, private = people_of(public)
    a = public["a"].to_numpy()
    known = moments_of(private, w * a / (w @ a), people=5000 * float(w @ a), weighted=True)
    at = raked_information(side, known, records=1, records_sd=0.0).at(np.zeros(side.dimension))
    rows = whiten(side.geometry, design_of(side, private))
    H = rows.X.T @ ((5000 * 0.25 * w * a * rows.weights)[:, None] * rows.X)
    J = rows.X.T @ ((5000 * 0.25 * w * a**2 * rows.weights**2)[:, None] * rows.X)
    assert np.allclose([at.H[0, 0], at.J[0, 0]], [H[0, 0], J[0, 0]], rtol=1e-4)  # the others are shrunk
    assert np.linalg.norm(at.H - H) < 0.1 * np.linalg.norm(H)
    assert np.linalg.norm(at.J - J) < 0.1 * np.linalg.norm(J)


def test_sites_share_the_weighting_of_public_rows_and_draw_averages_by_themselves(public):
    side = side_of(public)
    w, private = people_of(public)
    exact, noisy = (
        raked_information(side, moments_of(private, w, sd=sd), records=5000, records_sd=0.0) for sd in (0.0, 0.02)
    )
    theta = np.zeros(side.dimension)
    one, two = draw_jointly(draws.generator("1" * 64), [exact, exact], thetas=[theta] * 2, count=20)
    assert np.array_equal(one.H, two.H)
    one, two = draw_jointly(draws.generator("1" * 64), [noisy, noisy], thetas=[theta] * 2, count=200)
    assert not np.allclose(one.H, two.H)
    apart, alone = np.std(one.H - two.H, axis=0), np.std(one.H, axis=0)
    assert np.all(apart[1:, 1:].diagonal() < 1.4 * alone[1:, 1:].diagonal())


def test_averages_far_above_the_noise_are_kept_and_drowned_ones_are_the_public_ones():
    released, public = np.array([1.0, -0.5, 0.3, 0.0]), np.zeros(4)
    small = np.full(4, 1e-4)
    clear = shrunk(released, public=public, noise=small, sampling=small)
    assert np.allclose(clear.mean, released, atol=0.02)
    drowned = shrunk(released, public=public, noise=np.full(4, 100.0), sampling=small)
    assert np.allclose(drowned.mean, public, atol=0.05)
    spread = drowned.draw(draws.generator("2" * 64), 4000).std(axis=0)
    assert np.all((spread > 0.3) & (spread < 3.0))  # what is not known is kept: no more is known than the prior
    assert np.all(clear.draw(draws.generator("2" * 64), 4000).std(axis=0) < 0.012)


def test_shares_that_noise_made_impossible_are_made_shares_again(public):
    w, private = people_of(public)
    of = raked_information(side_of(public), moments_of(private, w), records=1, records_sd=0.0).raking.variables
    hormon, small, mid = 0.3, 0.7, 0.35  # so that the last level has -0.05
    found = of.feasible(np.array([[hormon, small, mid], [-0.2, 0.5, 0.3]]))
    assert np.allclose(found[0], [0.3, 0.7 / 1.1, 0.35 / 1.1])
    assert np.allclose(found[1], [0.2 / 1.4, 0.5, 0.3])


def test_says_what_raking_cannot_mend(public):
    w, private = people_of(public)
    known = moments_of(private, w)

    def notes(frame, moments):
        side = side_of(frame)
        return " ".join(raked_information(side, moments, records=5000, records_sd=0.0).notes)

    assert "correlations" in notes(public, known)
    assert "agree in hormon" in notes(public.assign(hormon=0.0), known)
    rare = tuple(replace(each, value=0.001) if each.variable == "hormon" else each for each in known.moments)
    assert "share of hormon" in notes(public, replace(known, moments=rare))
    box = {"lower": 40.0, "upper": 60.0}
    far = (moment("age", MomentKind.MEAN, 59.0, **box), moment("age", MomentKind.SQUARE, 90.0, centre=50.0, **box))
    assert "values of age" in notes(public, replace(known, moments=far))
    apart = "Private people lie more than a standard deviation from public ones in age."
    assert apart in notes(public, replace(known, moments=far))
    assert apart not in notes(public, known)  # of age they are .8 apart
    few = public.assign(hormon=(np.arange(N) < 4).astype(float))
    assert "Few public people" in notes(few, known)


def test_without_averages_of_variables_of_the_model_rows_stay_as_they_are(public):
    side = side_of(public, "y ~ age")
    known = CohortMoments(people=5000.0, people_sd=0.0, moments=(), release_sha256="5" * 64)
    found = raked_information(side, known, records=5000, records_sd=0.0)
    assert np.allclose(found.averaged[0].weights, 1.0 / N)
    assert np.allclose(found.averaged[0].raked.X, side.variables.design.matrix(side.variables.table))


@pytest.mark.parametrize("radius", [0.5, 1e3])
def test_a_hessian_alone_is_that_of_both_moments_to_the_bit(public, radius, monkeypatch):
    made = []

    def counted(X, w):
        made.append(len(w))
        return weighted_squares(X, w)

    monkeypatch.setattr(curvature, "weighted_squares", counted)
    side = side_of(public).at_radius(radius)
    known = raked_information(side, moments_of(*people_of(public)[::-1]), records=5000, records_sd=0.0)
    theta = side.centre + 0.2
    made.clear()
    both = known.at(theta)
    each = set(made)
    made.clear()
    assert np.array_equal(known.hessian_over([theta]), both.H)
    assert set(made) == {1}
    assert each == ({2} if radius < 1.0 else {1})  # people who all count alike have one sum for both
    assert np.array_equal(both.H, both.J) == (radius > 1.0)
    places = [theta, side.centre]
    assert np.array_equal(known.hessian_over(places), known.over(places).H)
    assert np.array_equal(side.hessian(theta, records=70.0), side.moments(theta, records=70.0).H)


@pytest.mark.parametrize("radius", [0.5, 1e3])
def test_moments_over_places_are_the_mean_of_those_at_each(public, radius):
    side = side_of(public).at_radius(radius)
    known = raked_information(side, moments_of(*people_of(public)[::-1]), records=5000, records_sd=0.0)
    places = [side.centre + 0.2, side.centre, side.centre - 0.5]
    each, over = [known.at(place) for place in places], known.over(places)
    assert np.allclose(over.H, np.mean([one.H for one in each], axis=0), rtol=1e-11, atol=1e-11)
    assert np.allclose(over.J, np.mean([one.J for one in each], axis=0), rtol=1e-11, atol=1e-11)


def allowed(side, sites, scale=0.15):
    return with_described(side, sites, allowance=lambda of: of.allowance_at(side.geometry, scale=scale))


@pytest.mark.parametrize("formula", [FORMULA, "y ~ 0 + age + nodes + hormon + size"])
def test_weights_are_allowed_for_as_they_take_information_of_the_described_people(public, formula):
    side = side_of(public, formula)
    w, private = people_of(public)
    rows = whiten(side.geometry, design_of(side, private))
    theirs = replace(side, X=rows.X, mallows=rows.weights, weights=N * w).allowance_at(side.geometry, scale=0.15)
    alike = side.allowance_at(side.geometry, scale=0.15)
    found = allowed(side, [(5000, moments_of(private, w))])
    assert found.share == pytest.approx(theirs.share, rel=1e-3)
    assert found.share > 1.2 * alike.share
    assert found.covariance == pytest.approx(alike.at_least(theirs).covariance, rel=1e-2, abs=1e-8)


def test_the_allowance_of_sites_is_their_mean_by_people(public):
    side = side_of(public)
    w, private = people_of(public)
    known = moments_of(private, w)
    one, alike = allowed(side, [(1000, known)]), side.allowance_at(side.geometry, scale=0.15)
    found = allowed(side, [(1000, known), (3000, None)])
    assert found.covariance == pytest.approx(0.25 * one.covariance + 0.75 * alike.covariance)
    assert found.share == pytest.approx(0.25 * one.share + 0.75 * alike.share)
    assert found.unlike == pytest.approx(0.25 * one.unlike)


def test_people_are_as_unlike_as_the_farthest_of_their_means(public):
    side = side_of(public)
    w, private = people_of(public)
    known = moments_of(private, w)

    def columns(frame):
        return frame["hormon"], frame["age"], frame["nodes"], frame["size"] == "small", frame["size"] == "mid"

    apart = [
        abs(w @ theirs - np.mean(ours)) / np.std(ours)
        for theirs, ours in zip(columns(private), columns(public), strict=True)
    ]
    assert 0.1 < max(apart) < 1.0
    assert allowed(side, [(5000, known)]).unlike == pytest.approx(COMMON_CAUSE * max(apart) ** 2, rel=0.1)
    older = {MomentKind.MEAN: 18.0, MomentKind.SQUARE: 18.0**2}
    far = replace(
        known,
        moments=tuple(
            replace(each, value=each.value + older.get(each.what, 0.0)) if each.variable == "age" else each
            for each in known.moments
        ),
    )
    assert allowed(side, [(5000, far)]).unlike == COMMON_CAUSE
    assert allowed(side, [(5000, None)]).unlike == side.allowance_at(side.geometry, scale=0.15).unlike == 0.0


def test_people_who_are_not_described_or_to_no_use_are_allowed_for_as_public_ones(public, monkeypatch):
    side = side_of(public)
    w, private = people_of(public)
    alike = side.allowance_at(side.geometry, scale=0.15)
    nothing = CohortMoments(people=5000.0, people_sd=0.0, moments=(), release_sha256="5" * 64)
    for sites in ([], [(5000, None)], [(5000, nothing)]):
        assert allowed(side, sites).covariance == pytest.approx(alike.covariance)
    known = moments_of(private, w)
    assert np.trace(allowed(side, [(5000, known)]).covariance) > 1.2 * np.trace(alike.covariance)
    monkeypatch.setattr(information, "FARTHEST_RATIO", 1e-3)
    assert allowed(side, [(5000, known)]).covariance == pytest.approx(alike.covariance, rel=1e-12)
    assert allowed(replace(side, variables=None), [(5000, known)]).covariance == pytest.approx(alike.covariance)


def test_raked_people_keep_their_residuals(public):
    outcome = 0.1 * np.cos(np.arange(float(N)))
    side = replace(side_of(public), loss=HuberLoss(lower=-0.5, upper=0.5, c=0.05), y=outcome)
    w, private = people_of(public)
    (people,) = raked_information(side_of(public), moments_of(private, w), records=5000, records_sd=0.0).averaged[:1]
    found = side.as_raked(people)
    assert found.y - found.X @ side.centre == pytest.approx(outcome - side.X @ side.centre)
    assert pytest.approx(people.X[0]) == found.X
    assert found.weights == pytest.approx(N * people.weights[0])
