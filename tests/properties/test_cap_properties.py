"""Caps: whatever analysts ask and custodians grant, in whatever order, nobody receives more than his cap."""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats._base.errors import ArgumentError, InsufficientBudget
from hdpstats.ledger import Ledger, Request
from hdpstats.ledger.analysts import capped
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import Balance
from hdpstats.privacy.gaussian import delta_of_square, mu_of
from tests.examples import examples

ANALYSTS = ("ana", "ben", "eve")
STEP = Fraction(1, 8)
charges = st.tuples(st.just("charge"), st.sampled_from([None, *ANALYSTS]), st.integers(1, 6))
grants = st.tuples(st.just("grant"), st.sampled_from(ANALYSTS), st.integers(1, 6))


def request_for(number, dataset="d"):
    return Request(
        dataset=dataset,
        version=1,
        schema_sha256="0" * 64,
        public_sha256=None,
        query_json="{}",
        terms="replace_one, one row per person",
        replicate=number,
    )


def attempt(ledger, number, cost, analyst):
    try:
        return ledger.charge(request_for(number), cost, analyst=analyst)
    except InsufficientBudget:
        return None


def whole(costs):
    return sum(costs, NOTHING)


@examples(80)
@given(script=st.lists(st.one_of(charges, grants), max_size=16))
def test_requests_are_charged_once_to_the_total_and_once_to_the_cap_of_each_who_receives_them(script):
    """Request number k costs k steps of a total of 12; what follows from that is kept in two plain dictionaries."""
    ledger = Ledger(None, dataset="d", epsilon=12 * STEP)
    charged, caps, received = {}, {}, defaultdict(dict)
    for verb, analyst, number in script:
        cost = Spend(number * STEP)
        if verb == "grant":
            fits = whole(received[analyst].values()).epsilon <= cost.epsilon
            if fits:
                caps[analyst] = ledger.grant(analyst, epsilon=cost.epsilon).total
            else:
                with pytest.raises(ArgumentError):
                    ledger.grant(analyst, epsilon=cost.epsilon)
            continue
        is_charged, held = number in charged, number in received[analyst]
        fits = is_charged or whole(charged.values()).epsilon + cost.epsilon <= ledger.budget.epsilon
        if analyst and not held and caps:
            left = caps[analyst].epsilon - whole(received[analyst].values()).epsilon if analyst in caps else -1
            fits = fits and cost.epsilon <= left
        assert (attempt(ledger, number, cost, analyst) is not None) == fits
        if fits:
            charged[number] = received[analyst][number] = cost
        assert ledger.spent == whole(charged.values())
        for each in ANALYSTS:
            assert ledger.spent_by(each) == whole(received[each].values())
            assert len(ledger.history(each)) == len(received[each])
    assert {name: cap.total for name, cap in ledger.caps.items()} == caps
    assert len(ledger.history()) == len(charged)
    ledger.verify()


GAUSSIAN = mu_of(Fraction(1, 2), Fraction(1, 10**6)) ** 2
costs = st.sampled_from([Spend(Fraction(1, 4)), Spend(Fraction(1, 4), 1e-7), Spend(0, 0, GAUSSIAN, Budget(0.5, 1e-6))])
asked = st.tuples(st.sampled_from(ANALYSTS), costs, st.integers(1, 3))
granted = st.tuples(
    st.sampled_from(ANALYSTS), st.builds(Budget, st.sampled_from([0.6, 1, 2]), st.sampled_from([0, 2e-6]))
)


@examples(80)
@given(script=st.lists(st.one_of(asked, granted), max_size=12))
def test_with_gaussian_releases_what_anybody_received_amounts_to_no_more_than_his_cap(script):
    ledger = Ledger(None, dataset="d", epsilon=3, delta=4e-6)
    for step in script:
        if len(step) == 2:
            try:
                ledger.grant(step[0], epsilon=step[1].epsilon, delta=step[1].delta)
            except ArgumentError:
                assert ledger.spent_by(step[0]) != NOTHING
        else:
            analyst, cost, number = step
            request = number + 10 * (cost.mu_squared > 0) + 100 * (cost.delta > 0)
            held = f"{request_for(request).id[:12]}" in set(ledger.history(analyst)["request"])
            fits = ledger.affords(cost, analyst)
            done = attempt(ledger, request, cost, analyst) is not None
            assert done or not (fits or held)
        for balance in (ledger.balance, *ledger.caps.values()):
            sums, total = balance.charged, balance.total
            left = Spend(total.epsilon - sums.epsilon, total.delta - sums.delta)
            assert sums.mu_squared == 0 or delta_of_square(left.epsilon, sums.mu_squared) <= left.delta
            assert balance.spent.epsilon <= total.epsilon
            assert balance.spent.delta <= total.delta
    ledger.verify()


totals = st.builds(Budget, st.integers(1, 8).map(lambda n: Fraction(n, 4)), st.sampled_from([0, 1e-6, 3e-6]))


@examples(100)
@given(first=totals, others=st.lists(totals, min_size=1, max_size=3), used=st.booleans())
def test_a_cap_that_grows_leaves_as_much_of_either_kind(first, others, used):
    """Also where a Gaussian release has fixed the part of these for good."""
    used = used and first.delta > 0
    received = Spend(0, 0, Fraction(1, 10**6)) if used else NOTHING
    part = Budget(first.epsilon / 3, first.delta / 3) if used else None
    balance = Balance(total=first, charged=received, gaussian=part)
    for total in others:
        if not (total.epsilon >= balance.total.epsilon and total.delta >= balance.total.delta):
            continue
        after = capped(total, received, before=balance, account=balance)
        assert after.gaussian == part
        assert after.remaining.epsilon >= balance.remaining.epsilon
        assert after.remaining.delta >= balance.remaining.delta
        assert after.gaussian_remaining >= balance.gaussian_remaining
        balance = after
