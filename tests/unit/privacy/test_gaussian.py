"""Bounds of Gaussian noise: against quadrature, against published values, and against exact distributions on grids."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from hdpstats._base.errors import MechanismError
from hdpstats.privacy.gaussian import (
    delta_of,
    delta_of_square,
    epsilon_of,
    fixed_sign_multiplier,
    mu_of,
    objective_delta,
    objective_multiplier,
)

MILLIONTH = Fraction(1, 10**6)
TENTH = Fraction(1, 10)
PRECISION = 128
"""Binary digits of what is compared to 25 decimal ones."""


def quadrature(epsilon, mu):
    """The definition: the integral of (p - e^epsilon q)_+ for p = N(mu, 1), q = N(0, 1); p > e^epsilon q from a on."""
    with mpmath.workprec(PRECISION):
        epsilon, mu = mpmath.mpf(epsilon.numerator) / epsilon.denominator, mpmath.mpf(mu.numerator) / mu.denominator
        a = epsilon / mu + mu / 2

        def excess(x):
            return (mpmath.exp(-((x - mu) ** 2) / 2) - mpmath.exp(epsilon - x * x / 2)) / mpmath.sqrt(2 * mpmath.pi)

        size = excess(a + 1 / (1 + a))  # quad stops at an absolute error
        return size * mpmath.quad(
            lambda x: excess(x) / size, [a, *(a + mpmath.mpf(2) ** k / (16 + 16 * a) for k in range(14))]
        )


def as_mpf(value):
    with mpmath.workprec(PRECISION):
        return mpmath.mpf(value.numerator) / value.denominator


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [
        ("0", "1/10"),
        ("1", "0.2367"),
        ("1/10", "1/30"),
        ("4", "0.8"),
        ("1", "3"),
        ("10", "2"),
        ("1e-6", "1e-7"),
        ("8", "1/2"),
    ],
)
def test_delta_is_the_integral_rounded_up(epsilon, mu):
    epsilon, mu = Fraction(epsilon), Fraction(mu)
    bound, exact = delta_of(epsilon, mu), quadrature(epsilon, mu)
    with mpmath.workprec(PRECISION):
        assert exact <= as_mpf(bound) <= exact * (1 + mpmath.mpf(2) ** -60)


def test_delta_of_extreme_arguments():
    assert delta_of(Fraction(1), Fraction(0)) == 0
    assert delta_of(Fraction(1), Fraction(500)) == 1
    assert delta_of(Fraction(1), Fraction(1, 10**9)) == Fraction(1, 2**2000)
    assert delta_of(Fraction(10**6), Fraction(100)) == Fraction(1, 2**2000)
    assert 1 - Fraction(1, 2**60) < delta_of(Fraction(10), Fraction(190)) <= 1
    tiny = delta_of(Fraction(0), Fraction(1, 10**12))
    assert float(tiny) == pytest.approx(1e-12 / math.sqrt(2 * math.pi), rel=1e-9)


def test_delta_of_a_root_that_is_not_rational():
    third = delta_of_square(Fraction(1), Fraction(3, 40))
    below, above = Fraction(math.sqrt(3 / 40)) * (1 - TENTH**12), Fraction(math.sqrt(3 / 40)) * (1 + TENTH**12)
    assert delta_of(Fraction(1), below) < third < delta_of(Fraction(1), above)


def test_published_calibrations():
    """Values at (1, 1e-6) that numerical accountants give: mu, and its zCDP equivalent mu^2 / 2 = 0.02801."""
    mu = mu_of(Fraction(1), MILLIONTH)
    assert float(mu) == pytest.approx(0.2367, abs=5e-5)
    assert float(mu**2 / 2) == pytest.approx(0.02801, abs=5e-6)


@pytest.mark.parametrize("epsilon", ["0", "1/1000", "1/2", "1", "5", "50"])
@pytest.mark.parametrize("delta", ["1/100", "1e-6", "1e-12"])
def test_the_inverses_are_on_the_safe_side_and_close(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta < delta_of(epsilon, mu * (1 + TENTH**10))
    back = epsilon_of(delta, mu * mu)
    assert delta_of(back, mu) <= delta
    assert epsilon * (1 - TENTH**8) - TENTH**8 <= back <= epsilon * (1 + TENTH**8) + TENTH**8


def test_epsilon_of_little_noise_and_of_much():
    assert epsilon_of(Fraction(1, 10), Fraction(1, 100)) == 0
    assert epsilon_of(Fraction(0), Fraction(0)) == 0
    with pytest.raises(MechanismError, match="delta above 0"):
        epsilon_of(Fraction(0), Fraction(1, 100))
    large = epsilon_of(MILLIONTH, Fraction(100))
    assert delta_of(large, Fraction(10)) <= MILLIONTH < delta_of(large * (1 - TENTH**9), Fraction(10))


def test_composition_costs_less_than_the_sum():
    one = mu_of(Fraction(1), MILLIONTH) ** 2
    costs = [float(epsilon_of(MILLIONTH, count * one)) for count in (1, 2, 4, 9)]
    assert costs[0] == pytest.approx(1, abs=1e-9)
    assert all(second < first * 1.6 for first, second in pairwise(costs))
    assert costs[-1] < 4


def test_calibrations_of_objective_perturbation():
    """Standard deviations in units of the radius R at (1, 1e-6) with J = 0.1."""
    noise = {rank: 2 / objective_multiplier(Fraction(1), MILLIONTH, TENTH, rank) for rank in (2, 5)}
    assert float(noise[2]) == pytest.approx(10.425, abs=1e-3)
    assert float(noise[5]) == pytest.approx(12.018, abs=1e-3)
    assert float(1 / objective_multiplier(Fraction(1), MILLIONTH, TENTH, 1)) == pytest.approx(4.816, abs=1e-3)
    assert float(1 / fixed_sign_multiplier(Fraction(1), MILLIONTH, TENTH)) == pytest.approx(4.659, abs=1e-3)


def chi_quadrature(left, g, rank):
    """E (1 - exp(left - g²/2 - g X))_+ for X ~ chi with ``rank`` degrees of freedom, by numerical integration."""
    with mpmath.workprec(PRECISION):
        scale = mpmath.mpf(2) ** (mpmath.mpf(rank) / 2 - 1) * mpmath.gamma(mpmath.mpf(rank) / 2)
        a = max(mpmath.mpf(0), left / g - g / 2)

        def inner(x):
            return x ** (rank - 1) * mpmath.exp(-x * x / 2) * (1 - mpmath.exp(left - g * g / 2 - g * x)) / scale

        return mpmath.quad(inner, [a, *(a + mpmath.mpf(2) ** k / 16 for k in range(10))])


@pytest.mark.covering(1)
@pytest.mark.parametrize("rank", [1, 2, 5, 12, 40])
@pytest.mark.parametrize(("left", "multiplier"), [("0.9", "0.19"), ("0.3", "1.5"), ("-0.2", "0.4"), ("3", "0.7")])
def test_the_elementary_form_is_the_integral_rounded_up(rank, left, multiplier):
    left, g = Fraction(left), Fraction(multiplier)
    bound = objective_delta(left + TENTH, jacobian=TENTH, multiplier=g, rank=rank)
    with mpmath.workprec(PRECISION):
        exact = chi_quadrature(as_mpf(left), as_mpf(g), rank)
        assert exact * (1 - mpmath.mpf(10) ** -25) <= as_mpf(bound) <= exact * (1 + mpmath.mpf(10) ** -15)


def test_objective_bounds_at_their_ends():
    one = Fraction(1)
    assert objective_delta(one, jacobian=TENTH, multiplier=TENTH**6, rank=3) == Fraction(1, 2**2000)
    assert objective_delta(one, jacobian=TENTH, multiplier=Fraction(300), rank=3) == 1
    assert objective_delta(one, jacobian=TENTH, multiplier=Fraction(0), rank=3) == Fraction(1, 2**2000)
    assert 0 < objective_delta(one, jacobian=TENTH, multiplier=Fraction(1, 20), rank=500) < 1
    with pytest.raises(MechanismError, match="rank"):
        objective_delta(one, jacobian=TENTH, multiplier=one, rank=0)
    with pytest.raises(MechanismError, match="larger ridge"):
        objective_multiplier(TENTH, MILLIONTH, one, rank=2)
    with pytest.raises(MechanismError, match="larger ridge"):
        fixed_sign_multiplier(TENTH, MILLIONTH, one)
    with pytest.raises(MechanismError, match="delta above 0"):
        objective_multiplier(one, Fraction(0), TENTH, rank=2)
    with pytest.raises(MechanismError, match="delta above 0"):
        mu_of(one, Fraction(0))


def test_threads_give_the_values_of_one_thread():
    arguments = [(Fraction(1, n), Fraction(n, 30)) for n in range(1, 40)]
    alone = [delta_of(*pair) for pair in arguments]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            delta_of_square.cache_clear()
            assert list(pool.map(lambda pair: delta_of(*pair), arguments)) == alone


# One coefficient: the exact distribution of the minimiser of a ridge logistic regression with Gaussian objective
# perturbation. It has density nu(b(theta)) b'(theta), b(theta) = -ridge (theta - centre) - sum of the gradients. A
# centre far to the left lets a record x = 1, y = 1 pull with all its force.

GRID = np.linspace(-60, 60, 120_001)
FAR = -8.0


def density(records, ridge, centre, s):
    slope = np.full_like(GRID, ridge)
    perturbation = -ridge * (GRID - centre)
    for x, y in records:
        p = expit(x * GRID)
        slope += x * x * p * (1 - p)
        perturbation += x * (y - p)
    return norm.pdf(perturbation / s) / s * slope


def exact_delta(first, second, epsilon, ridge, centre, s):
    p, q = density(first, ridge, centre, s), density(second, ridge, centre, s)
    step = GRID[1] - GRID[0]
    return max(step * np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize("ridge", [1.0, 5.0, 50.0])
@pytest.mark.parametrize("centre", [0.0, FAR])
@pytest.mark.parametrize("others", [[], [(1.0, 1.0), (-0.5, 0.0)]])
def test_a_person_added_to_a_logistic_regression_stays_within_the_bound(ridge, centre, others):
    epsilon, delta = Fraction(1, 2), Fraction(1, 1000)
    s = float(1 / fixed_sign_multiplier(epsilon, delta, Fraction(math.log1p(0.25 / ridge))))
    assert exact_delta([(1.0, 1.0), *others], others, 0.5, ridge, centre, s) <= float(delta)


def test_the_bound_for_an_added_person_is_tight():
    epsilon, delta, ridge = Fraction(1, 2), Fraction(1, 1000), 200.0
    s = float(1 / fixed_sign_multiplier(epsilon, delta, Fraction(math.log1p(0.25 / ridge))))
    assert exact_delta([(1.0, 1.0)], [], 0.5, ridge, FAR, s) > 0.96 * float(delta)
    assert exact_delta([(1.0, 1.0)], [], 0.5, ridge, FAR, 0.97 * s) > float(delta)


def test_a_person_exchanged_in_a_logistic_regression_stays_within_the_bound():
    ridge, delta = 20.0, Fraction(1, 1000)
    s = float(2 / objective_multiplier(Fraction(1, 2), delta, Fraction(math.log1p(0.25 / ridge)), rank=1))
    for second in ((1.0, 0.0), (-1.0, 1.0), (-1.0, 0.0), (0.5, 0.0)):
        for centre in (0.0, FAR):
            assert exact_delta([(1.0, 1.0)], [second], 0.5, ridge, centre, s) <= float(delta)
    assert exact_delta([(1.0, 1.0)], [(1.0, 0.0)], 0.5, ridge, FAR, s / 2.5) > float(delta)


PLANE = np.stack(np.meshgrid(*[np.linspace(-14, 14, 701)] * 2, indexing="ij"))


def plane_density(record, ridge, s):
    x, y = np.asarray(record[0]), record[1]
    p = expit(np.tensordot(x, PLANE, 1))
    b = -ridge * PLANE + x[:, None, None] * (y - p)
    determinant = ridge * ridge + ridge * p * (1 - p) * (x @ x)
    return norm.pdf(b / s).prod(axis=0) / s**2 * determinant


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("angle", [0.0, 0.7, 1.6, 3.0])
def test_a_row_exchanged_for_one_in_another_direction_stays_within_the_bound_of_rank_two(angle):
    ridge, epsilon, delta = 5.0, Fraction(1), Fraction(1, 100)
    g = objective_multiplier(epsilon, delta, Fraction(math.log1p(0.25 / ridge)), rank=2)
    cell = float((PLANE[0, 1, 0] - PLANE[0, 0, 0]) ** 2)

    def reached(s):
        p = plane_density(([1.0, 0.0], 1.0), ridge, s)
        q = plane_density(([math.cos(angle), math.sin(angle)], 0.0), ridge, s)
        return max(cell * np.maximum(a - math.e * b, 0.0).sum() for a, b in ((p, q), (q, p)))

    s = float(2 / g)
    assert reached(s) <= float(delta)
    assert angle or reached(s / 3) > float(delta)
