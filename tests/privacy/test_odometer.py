"""What counts as spent when an analyst stops because of what he saw: exact Gaussian releases, on a grid.

The privacy loss of Gaussian releases of squared mu summing to m is N(m/2, m) under the first data set, and that of
further ones is independent of it. An analyst who stops when the loss is L, where (e, d) is said to be spent, adds
(1 - exp(e - L))+ to P(A) - exp(e) Q(A); the best rule is found from the last release backwards. The grid errs by less
than 1e-3 of the values compared: that of one fixed time is known exactly.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import norm

from hdpstats.ledger.analysts import capped
from hdpstats.privacy.budget import Budget, Spend
from hdpstats.privacy.composition import Balance, square_of
from hdpstats.privacy.gaussian import delta_of_square, epsilon_of

DELTA = Fraction(1, 10**6)
SQUARES = [square_of(Fraction(1), DELTA) / 2**left for left in range(9, -1, -1)]
"""Nine doublings, up to what (1, 1e-6) affords."""


def stopped(squares, epsilons, step=2e-4):
    """The largest sum over times of P(A) - exp(e) Q(A), A that he stops there, e what is said to be spent then."""
    top = float(squares[-1])
    grid = np.arange(-8 * np.sqrt(top), 9 * np.sqrt(top) + top, step)
    value = np.zeros_like(grid)
    times = [0.0, *map(float, squares)]
    for number in range(len(squares), 0, -1):
        gain = np.clip(1 - np.exp(float(epsilons[number - 1]) - grid), 0, None)
        value = np.maximum(gain, value)
        more = times[number] - times[number - 1]
        reach = np.arange(-np.ceil(12 * np.sqrt(more) / step), np.ceil(12 * np.sqrt(more) / step) + 1) * step
        weights = norm.pdf(reach, more / 2, np.sqrt(more)) * step
        if number > 1:
            value = fftconvolve(value, weights[::-1], mode="same")
        else:
            return float(norm.pdf(grid, more / 2, np.sqrt(more)) @ value * step)
    raise AssertionError


def test_the_grid_gives_what_is_known_at_one_time():
    for square in (SQUARES[-1], SQUARES[-3]):
        known = float(delta_of_square(Fraction(1, 2), square))
        assert stopped([square], [Fraction(1, 2)]) == pytest.approx(known, rel=1e-3)


def test_the_least_epsilon_of_the_releases_so_far_is_no_odometer_and_the_part_set_aside_is_one():
    """What was called spent is exceeded sevenfold by an analyst who looks after each doubling and stops at will."""
    least = [epsilon_of(DELTA, square) for square in SQUARES]
    assert stopped(SQUARES, least) > 7 * DELTA
    account = Balance(total=Budget(3, DELTA), gaussian=Budget(1, DELTA))
    spent = []
    for before, square in zip([Fraction(0), *SQUARES], SQUARES, strict=False):
        account = account.plus(Spend(0, 0, square - before))
        assert account.affords(Spend(0))
        spent.append(account.spent)
    assert {each.delta for each in spent} == {DELTA}
    reached = stopped(SQUARES, [each.epsilon for each in spent])
    assert 0.99 * DELTA < reached <= DELTA * Fraction(1001, 1000)


def test_nothing_is_spent_on_gaussian_noise_before_the_first_such_release():
    account = Balance(total=Budget(3, DELTA), gaussian=Budget(1, DELTA), charged=Spend(Fraction(1, 2)))
    assert account.spent == Spend(Fraction(1, 2))
    assert account.plus(Spend(0, 0, SQUARES[0])).spent == Spend(Fraction(3, 2), DELTA)


def test_a_cap_whose_gaussian_part_grew_because_of_what_was_seen_would_count_delta_again():
    """He uses up a cap of (1, 1e-6), stops if the outcome is revealing, and is granted (2, 1e-6) if it is not."""
    grown = square_of(Fraction(2), DELTA)
    assert stopped([SQUARES[-1], grown], [Fraction(1), Fraction(2)]) > 1.9 * DELTA
    account = Balance(total=Budget(9, 1e-5), gaussian=Budget(5, 1e-5))
    first = Balance(total=Budget(1, DELTA), gaussian=Budget(1, DELTA), charged=Spend(0, 0, SQUARES[-1]))
    second = capped(Budget(2, DELTA), first.charged, before=first, account=account)
    assert second.gaussian == first.gaussian
    assert not second.affords(Spend(0, 0, SQUARES[-1] / 1000))
    left = square_of(second.gaussian.epsilon, DELTA)
    assert stopped([SQUARES[-1], max(left, SQUARES[-1] * (1 + Fraction(1, 10**6)))], [1, 1]) <= 1.001 * DELTA
