"""Mixed accounts: what is set aside, what is afforded, and what the most cunning analyst can make of it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from hdpstats._base.errors import ArgumentError
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import Balance
from hdpstats.privacy.gaussian import delta_of_square, epsilon_of, mu_of

MILLIONTH = Fraction(1, 10**6)


def gaussian(epsilon, delta=MILLIONTH):
    """The cost of a Gaussian release that uses all of what it was asked to keep."""
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    return Spend(0, 0, mu_of(epsilon, delta) ** 2, Budget(epsilon, delta))


def charged(balance, *costs):
    for cost in costs:
        balance = balance.divided_for(cost)
        assert balance.affords(cost)
        balance = balance.plus(cost)
    return balance


def refused(balance, cost):
    return not balance.divided_for(cost).affords(cost)


def test_without_gaussian_noise_amounts_add_up():
    account = charged(Balance(total=Budget(3, 1e-6)), Spend(1), Spend(0.5, 1e-7))
    assert account.spent == Spend(1.5, 1e-7)
    assert account.remaining == Spend(1.5, 9e-7)
    assert account.gaussian is None
    assert account.gaussian_remaining == 0
    assert refused(account, Spend(1.6))
    assert refused(account, Spend(1, 1e-6))
    assert not refused(account, Spend(1.5, 9e-7))


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1/10", "1e-3"), ("8", "1e-9")])
def test_a_gaussian_release_fits_where_its_own_guarantee_fits(epsilon, delta):
    cost = gaussian(epsilon, delta)
    account = charged(Balance(total=Budget(Fraction(epsilon), Fraction(delta))), cost)
    assert account.spent == Spend(Fraction(epsilon), Fraction(delta)) or account.spent.epsilon < Fraction(epsilon)
    assert account.spent.epsilon > Fraction(epsilon) * Fraction(999, 1000)
    assert account.remaining == NOTHING
    assert refused(account, cost)
    assert refused(account, Spend(1e-9))


def test_rounds_of_a_fit_are_set_aside_together():
    whole = gaussian(1)
    part = Spend(0, 0, whole.mu_squared / 3, whole.asked)
    account = charged(Balance(total=Budget(1, 1e-6)), part, part, part)
    assert account.charged.mu_squared == whole.mu_squared
    assert account.spent.epsilon <= 1


def test_squares_add_up_not_epsilons():
    account = charged(Balance(total=Budget(3, 1e-6)), gaussian(1))
    assert account.gaussian == Budget(2, 1e-6)
    assert account.remaining == Spend(1)
    account = charged(account, gaussian(1), gaussian(1))
    assert account.gaussian_spent == Spend(2, MILLIONTH)
    assert account.spent == Spend(2, MILLIONTH)
    assert epsilon_of(MILLIONTH, account.charged.mu_squared) < 2
    assert refused(account, gaussian(1))
    assert not refused(account, Spend(1))


def test_what_is_left_for_gaussian_noise_can_be_spent_and_no_more():
    account = charged(Balance(total=Budget(3, 1e-6)), gaussian(1))
    left = account.gaussian_remaining
    assert not refused(account, Spend(0, 0, left))
    assert refused(account, Spend(0, 0, left * (1 + Fraction(1, 10**8))))
    assert charged(account, Spend(0, 0, left)).gaussian_spent.epsilon <= account.gaussian.epsilon


def test_releases_before_the_first_gaussian_one_do_not_bind_the_rest():
    account = charged(Balance(total=Budget(2, 1e-6)), Spend(1), gaussian(1))
    assert account.gaussian == Budget(1, 1e-6)
    assert account.remaining == NOTHING
    assert account.spent.epsilon <= 2


def test_a_release_that_was_asked_nothing_takes_all_that_is_left():
    account = charged(Balance(total=Budget(3, 1e-6)), Spend(1), Spend(0, 0, Fraction(1, 100)))
    assert account.gaussian == Budget(2, 1e-6)
    assert account.remaining == NOTHING


def test_a_declared_part_is_kept():
    account = Balance(total=Budget(3, 1e-6), gaussian=Budget(1, 5e-7))
    assert account.remaining == Spend(2, 5e-7)
    assert account.spent == NOTHING
    assert refused(account, Spend(2.1))
    assert refused(account, gaussian(1.2))
    account = charged(account, gaussian("1/2", "1e-8"))
    assert account.spent == Spend(1, 5e-7)
    account = charged(account, Spend(2, 5e-7))
    assert account.gaussian == Budget(1, 5e-7)
    assert account.spent == Spend(3, 1e-6)


def test_an_account_without_delta_refuses_gaussian_noise():
    assert refused(Balance(total=Budget(3)), gaussian(1))
    assert refused(Balance(total=Budget(3)), Spend(0, 0, Fraction(1, 10**12)))
    assert refused(Balance(total=Budget(3, 1e-7)), gaussian(1, "1e-6"))
    assert refused(Balance(total=Budget(1, 1e-6), charged=Spend(1)), gaussian("1/2"))


@pytest.mark.parametrize("part", [Budget(4, 1e-6), Budget(1), Budget(1, 1e-5), Budget(3, 1e-6)])
def test_a_part_is_a_part(part):
    account = Balance(total=Budget(3, 1e-6), charged=Spend(1, 1e-8))
    with pytest.raises(ArgumentError, match="set aside"):
        replace(account, gaussian=part)


# The most cunning analyst: after one Gaussian release he knows how revealing it was, and chooses what to ask next.

LOSS = np.linspace(-2.0, 4.0, 400_001)


def gaussian_excess(threshold, mu):
    """sup_E P(E) - e^t Q(E) of N(mu, 1) against N(0, 1)."""
    return norm.cdf(mu / 2 - threshold / mu) - np.exp(threshold) * norm.cdf(-mu / 2 - threshold / mu)


def pure_excess(threshold, epsilon):
    """The same for randomised response, the most revealing mechanism that is epsilon-DP."""
    return np.clip((math.exp(epsilon) - np.exp(threshold)) / (1 + math.exp(epsilon)), 0, None)


def adaptive_delta(total, first, epsilons, squares):
    """The delta at the total epsilon of N(mu, 1) and then, knowing its loss, the best of what is offered."""
    mu = math.sqrt(first)
    density = norm.pdf(LOSS, mu * mu / 2, mu)
    left = float(total.epsilon) - LOSS
    offers = [pure_excess(left, float(e)) for e in epsilons] + [gaussian_excess(left, math.sqrt(m)) for m in squares]
    return float((density * np.max(offers, axis=0)).sum() * (LOSS[1] - LOSS[0]))


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("share", ["0.05", "0.2", "0.5"])
@pytest.mark.parametrize("total", [Budget(1, 1e-6), Budget(2, 1e-4)])
def test_an_analyst_who_chooses_after_looking_stays_within_the_total(share, total):
    all_of_it = mu_of(total.epsilon, total.delta) ** 2
    first = Fraction(share) * all_of_it
    undivided = total.epsilon - epsilon_of(total.delta, first)
    assert adaptive_delta(total, float(first), [undivided], [float(all_of_it - first)]) > 1.2 * float(total.delta)
    asked = Budget(epsilon_of(total.delta, first), total.delta)
    account = charged(Balance(total=total), Spend(0, 0, first, asked))
    reached = adaptive_delta(total, float(first), [account.remaining.epsilon], [float(account.gaussian_remaining)])
    assert 0 < reached <= float(total.delta)


def test_both_parts_used_up_reach_the_total_and_not_more():
    total = Budget(2, 1e-4)
    account = charged(Balance(total=total), gaussian(1, "1e-4"))
    account = charged(account, Spend(0, 0, account.gaussian_remaining), account.remaining)
    part, pure = account.gaussian, account.charged.epsilon
    assert delta_of_square(total.epsilon - pure, account.charged.mu_squared) <= total.delta
    mu, heads = math.sqrt(account.charged.mu_squared), math.exp(pure) / (1 + math.exp(pure))
    reached = heads * gaussian_excess(float(total.epsilon - pure), mu)
    reached += (1 - heads) * gaussian_excess(float(total.epsilon + pure), mu)
    assert 0.5 * float(total.delta) < reached <= float(total.delta)
    assert part.epsilon + pure == total.epsilon
