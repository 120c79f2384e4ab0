"""The distributed regression of Ji et al. (2014) against exact fits, its printed Hessian, and its baselines."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from hdpstats._base.errors import ArgumentError
from hdpstats.inference.draws import generator
from hdpstats.papers import ji2014 as paper
from hdpstats.papers.ji2014 import ball_noise, gradient, hessian
from hdpstats.papers.wang import Hospital

FRAME = paper.breast_cancer()
SPLIT = paper.random_split(FRAME, "event3", seed=1, public=0.2, sites=3)
SILENT = 1e12
"""An epsilon so large that there is next to no noise."""


def test_a_split_is_that_of_the_paper():
    split = paper.random_split(FRAME, "event3", seed=3, sites=4, public=0.05)
    n = len(FRAME)
    assert split.test.records == n - round(0.6 * n)
    assert split.public.records == round(0.05 * round(0.6 * n))
    assert split.train.records + split.test.records == n
    sizes = [site.records for site in split.sites]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 1
    rows = split.train.X
    assert np.abs(rows[:, 1:]).max() <= 2.0
    assert np.linalg.norm(rows, axis=1).max() <= split.norm
    assert split.norm == pytest.approx(np.sqrt(1 + 4 * len(split.names)))


def test_columns_are_standardised_by_public_rows_only():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(5, 3, 400), "b": 1.0, "y": rng.integers(0, 2, 400)})
    split = paper.random_split(frame, "y", seed=1, public=0.5, truncation=50.0)
    assert split.names == ("a",)  # b does not vary
    assert split.public.X[:, 1].mean() == pytest.approx(0.0, abs=1e-12)
    assert split.public.X[:, 1].std() == pytest.approx(1.0)
    assert split.private.X[:, 1].mean() != pytest.approx(0.0, abs=1e-6)


def test_without_noise_the_meant_form_ends_at_the_fit_to_everybody():
    expected = paper.everybody(SPLIT, ridge=2.0)
    for form in ("meant, from 0", "meant", "corrected"):
        found = paper.distributed_newton(SPLIT, ridge=2.0, epsilon=SILENT, rounds=40, form=form, seed=1)
        assert found[0] == pytest.approx(expected, abs=1e-4)


def test_the_printed_hessian_is_steepest_ascent_and_two_rounds_of_it_go_hardly_anywhere():
    printed = paper.distributed_newton(SPLIT, ridge=2.0, epsilon=SILENT, rounds=2, form="printed", seed=1)[0]
    meant = paper.distributed_newton(SPLIT, ridge=2.0, epsilon=SILENT, rounds=2, form="meant, from 0", seed=1)[0]
    best = paper.everybody(SPLIT, ridge=2.0)
    zero = np.zeros(len(best))
    H = hessian(SPLIT.public, zero, ridge=0.0, matrix=False)
    assert pytest.approx(-SPLIT.public.records * np.log(4.0) * np.eye(len(best))) == H
    step = gradient(SPLIT.train, zero) / (SPLIT.train.records * np.log(4.0))
    once = paper.distributed_newton(SPLIT, ridge=1e-9, epsilon=SILENT, rounds=1, form="printed", seed=1)[0]
    assert once == pytest.approx(step, rel=1e-6)
    left = np.linalg.norm(printed - best) / np.linalg.norm(best)
    assert left > 0.5 > 0.2 > np.linalg.norm(meant - best) / np.linalg.norm(best)


def test_the_hessian_and_the_gradient_belong_to_the_penalised_likelihood():
    b = np.linspace(-0.5, 0.5, SPLIT.public.X.shape[1])
    steps = 1e-5 * np.eye(len(b))
    slope = np.array([(gradient(SPLIT.public, b + e) - gradient(SPLIT.public, b - e)) / 2e-5 for e in steps])
    assert hessian(SPLIT.public, b, ridge=3.0, matrix=True) == pytest.approx(slope - 3.0 * np.eye(len(b)), abs=1e-5)


def test_noise_at_zero_is_half_of_the_printed_one():
    options = {"ridge": 1.0, "epsilon": 1.0, "rounds": 1, "seed": 5, "draws": 400}
    twice = paper.distributed_newton(SPLIT, form="meant", **options)
    once = paper.distributed_newton(SPLIT, form="corrected", **options)
    ratio = once.std(axis=0) / twice.std(axis=0)
    assert np.all(ratio < 0.95)  # D(r) / 2 at the public fit
    assert np.all(ratio > 0.5)


def test_the_noise_has_the_density_of_the_paper():
    rng = generator("1")
    draws = np.array([ball_noise(rng, 2.0, 4) for _ in range(20_000)])
    lengths = np.linalg.norm(draws, axis=1)
    assert lengths.mean() == pytest.approx(4 * 2.0, rel=0.02)  # Gamma(4, 2)
    assert lengths.std() == pytest.approx(2 * 2.0, rel=0.03)
    assert draws.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.15)


def test_the_meta_analysis_averages_penalised_fits_with_noise_of_two_m_over_lambda():
    ridge = 30.0
    found = paper.meta_analysis(SPLIT, ridge=ridge, epsilon=1.0, seed=1, draws=3000)

    def site_fit(site):
        def objective(b):
            eta = site.X @ b
            return float(np.sum(np.logaddexp(0, eta) - site.y * eta)) + 0.5 * ridge * float(b @ b)

        return minimize(objective, np.zeros(site.X.shape[1]), method="BFGS", options={"gtol": 1e-6}).x

    sizes = np.array([site.records for site in SPLIT.sites])
    expected = np.average([site_fit(site) for site in SPLIT.sites], axis=0, weights=sizes)
    D = len(expected)
    sd = np.sqrt((D + 1) * np.sum((sizes / sizes.sum()) ** 2)) * 2 * SPLIT.norm / ridge
    assert found.mean(axis=0) == pytest.approx(expected, abs=5 * sd / np.sqrt(3000))
    assert found.std(axis=0) == pytest.approx(np.full(D, sd), rel=0.1)


def test_inverse_variances_trust_small_sites_more_where_noise_rules():
    # Noise does not depend on a site's size, so that next to it all sites are equal: people's weights are wrong.
    sizes = (1100, 60)
    X, y = SPLIT.private.X, SPLIT.private.y
    ends = np.cumsum((0, *sizes))
    uneven = paper.Split(
        public=SPLIT.public,
        sites=tuple(Hospital(X=X[a:b], y=y[a:b]) for a, b in pairwise(ends)),
        test=SPLIT.test,
        names=SPLIT.names,
        norm=SPLIT.norm,
    )
    spread = {
        weights: paper.meta_analysis(uneven, ridge=5.0, epsilon=1.0, seed=1, weights=weights, draws=500).std()
        for weights in ("people", "variances")
    }
    assert spread["variances"] < 0.85 * spread["people"]


def test_the_area_under_the_curve_counts_pairs():
    rng = np.random.default_rng(2)
    people = Hospital(X=rng.integers(0, 4, (60, 1)).astype(float), y=(rng.uniform(size=60) < 0.5).astype(float))
    eta = people.X[:, 0]
    cases, others = eta[people.y == 1], eta[people.y == 0]
    pairs = np.mean((cases[:, None] > others) + 0.5 * (cases[:, None] == others))
    assert paper.auc(people, np.array([1.0])) == pytest.approx(pairs)
    with pytest.raises(ArgumentError, match="with and without"):
        paper.auc(Hospital(X=people.X, y=np.zeros(60)), np.array([1.0]))


def test_the_same_seed_gives_the_same_coefficients():
    one, two = (paper.distributed_newton(SPLIT, ridge=1.0, epsilon=1.0, seed=7) for _ in range(2))
    assert np.array_equal(one, two)


def test_tables_that_cannot_be_split_are_refused():
    with pytest.raises(ArgumentError, match="rows of their own"):
        paper.random_split(FRAME.iloc[:20], "event3", seed=1)
    assert paper.breast_cancer("gbsg").shape[1] == FRAME.shape[1]
