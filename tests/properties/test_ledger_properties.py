"""Properties of the ledger: whatever is asked in whatever order, the sum of the charges stays within the total."""

import functools
import math
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from hdpstats._base.errors import InsufficientBudget, LedgerError
from hdpstats.ledger import Ledger, Request, verify_file
from hdpstats.ledger.records import Entry
from hdpstats.privacy.budget import Budget, Spend, rounded_down
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, Balance, Floor, shared, square_of
from tests.examples import examples

epsilons = st.one_of(
    st.floats(min_value=1e-9, max_value=2).map(lambda number: Fraction(str(number))),
    st.fractions(min_value=Fraction(1, 1000), max_value=2, max_denominator=1000),
)
deltas = st.sampled_from([Fraction(0), Fraction(1, 10**6), Fraction(1, 10)])
costs = st.builds(Spend, epsilons, deltas)
ZERO = Spend(Fraction(0))
FLOOR = Floor(epsilon=Fraction(1, 10**4), mu_squared=Fraction(1, 10**6))


def charge_of(cost):
    return FLOOR.charged(cost)


def request_for(number, version=1):
    return Request(
        dataset="d",
        version=version,
        schema_sha256="0" * 64,
        public_sha256=None,
        query_json="{}",
        terms="replace_one, one row per person",
        replicate=number + 1,
    )


def attempt(ledger, number, cost):
    try:
        return ledger.charge(request_for(number), cost)
    except InsufficientBudget:
        return None


@examples(120)
@given(total=costs, asked=st.lists(costs, max_size=8))
def test_the_sum_of_the_charges_is_what_is_spent_and_never_exceeds_the_total(total, asked):
    ledger = Ledger(None, dataset="d", epsilon=total.epsilon, delta=total.delta)
    total = Spend(ledger.budget.epsilon, ledger.budget.delta)
    granted = ZERO
    for number, cost in enumerate(asked):
        cost = ledger.charged(cost)
        fits = granted.epsilon + cost.epsilon <= total.epsilon and granted.delta + cost.delta <= total.delta
        assert (attempt(ledger, number, cost) is not None) == fits
        granted = granted + cost if fits else granted
        assert ledger.spent == granted
        assert ledger.spent.epsilon <= ledger.budget.epsilon
        assert ledger.spent.delta <= ledger.budget.delta
        assert ledger.spent + ledger.remaining == total
    assert len(ledger.history()) == ledger.verify().entries - 1


@examples(100)
@given(asked=st.lists(epsilons, min_size=1, max_size=6).flatmap(lambda e: st.tuples(st.just(e), st.permutations(e))))
def test_a_total_that_suffices_suffices_in_every_order(asked):
    for order in asked:
        costs = [charge_of(Spend(epsilon)).epsilon for epsilon in order]
        ledger = Ledger(None, dataset="d", epsilon=sum(costs), floor=FLOOR.epsilon)
        for number, epsilon in enumerate(order):
            ledger.charge(request_for(number), Spend(epsilon))
        assert ledger.remaining == ZERO


TOTAL = Budget(2, 1e-4)
guarantees = st.builds(Budget, st.sampled_from([0.1, 0.5, 1, 1.5]), st.sampled_from([1e-6, 5e-5, 1e-4]))
shares = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 3)])
gaussians = st.builds(lambda asked, share: (asked, share), guarantees, shares)
either = st.one_of(costs, gaussians)


def cost_of(asked):
    """The cost of one of several rounds of a fit that was asked for a guarantee, or an additive cost as it is."""
    if isinstance(asked, Spend):
        return asked
    asked_for, share = asked
    return Spend(0, 0, rounded_down(square_of(asked_for.epsilon, asked_for.delta) * share, MU_SQUARED_GRAIN), asked_for)


def delta_reached(epsilon, mu_squared):
    """What Gaussian releases reach at an epsilon, in doubles (Balle and Wang 2018)."""
    mu = math.sqrt(mu_squared)
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) if mu else 0.0


@examples(120)
@given(asked=st.lists(either, max_size=10), declared=st.sampled_from([None, Budget(0.5, 1e-4), Budget(2, 5e-5)]))
def test_both_kinds_together_never_exceed_the_total_in_any_order(asked, declared):
    ledger = Ledger(None, dataset="d", epsilon=TOTAL.epsilon, delta=TOTAL.delta, gaussian=declared)
    granted = ZERO
    for number, cost in enumerate(map(cost_of, asked)):
        stated, before = ledger.affords(cost), ledger.balance
        assert (attempt(ledger, number, cost) is not None) == stated
        granted = granted + ledger.charged(cost) if stated else granted
        balance = ledger.balance
        assert balance.charged == granted
        left = float(TOTAL.epsilon - granted.epsilon), float(TOTAL.delta - granted.delta)
        assert delta_reached(left[0], granted.mu_squared) <= left[1] * (1 + 1e-12)
        assert balance.spent.epsilon <= TOTAL.epsilon
        assert balance.spent.delta <= TOTAL.delta
        assert balance.affords(balance.remaining)
        assert balance.gaussian == before.gaussian or before.charged.mu_squared == 0
        if granted.mu_squared > 0 or declared is None:
            assert balance.spent + balance.remaining == Spend(TOTAL.epsilon, TOTAL.delta)
    assert len(ledger.history()) <= ledger.verify().entries - 1


@examples(100)
@given(
    asked=st.lists(either, min_size=1, max_size=6).flatmap(lambda e: st.tuples(st.just(e), st.permutations(e))),
)
def test_in_a_divided_account_what_suffices_suffices_in_every_order(asked):
    charged = Ledger(None, dataset="d", epsilon=2, delta=1e-4).charged
    whole = sum(map(charged, map(cost_of, asked[0])), ZERO)
    balance = Balance(total=TOTAL, gaussian=Budget(1, 5e-5))
    if not (whole.delta < 1 and balance.affords(whole)):
        return
    for order in asked:
        ledger = Ledger(None, dataset="d", epsilon=2, delta=1e-4, gaussian=Budget(1, 5e-5))
        for number, cost in enumerate(map(cost_of, order)):
            ledger.charge(request_for(number), cost)
        assert ledger.balance.charged == whole
        assert ledger.spent == replace(balance, charged=whole).spent


@examples(100)
@given(asked_for=guarantees, rounds=st.integers(1, 6), before=st.sampled_from([ZERO, Spend(0.25, 1e-6)]))
def test_a_fit_fits_alone_wherever_its_guarantee_fits(asked_for, rounds, before):
    ledger = Ledger(None, dataset="d", epsilon=before.epsilon + asked_for.epsilon, delta=before.delta + asked_for.delta)
    if before != ZERO:
        ledger.charge(request_for(0), before)
    parts = shared(square_of(asked_for.epsilon, asked_for.delta), [1] * rounds, MU_SQUARED_GRAIN)
    for number, part in enumerate(parts):
        later = [Spend(0, 0, each, asked_for) for each in parts[number + 1 :]]
        ledger.charge(request_for(number + 1), Spend(0, 0, part, asked_for), later)
    assert ledger.spent.epsilon <= ledger.budget.epsilon
    assert ledger.remaining == ZERO


steps = st.tuples(st.sampled_from(["charge", "persist", "reopen"]), st.integers(0, 3), st.integers(1, 3))


@examples(80)
@given(script=st.lists(steps, max_size=12))
def test_a_file_remembers_each_request_once_through_replays_reopenings_and_versions(script):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = Ledger(path, dataset="d", epsilon=1)
        charges, releases = {}, {}
        for step, (verb, number, version) in enumerate(script):
            key = (number, ledger.version)
            if verb == "reopen":
                ledger = Ledger(path, dataset="d", version=version, epsilon=1)
            elif verb == "charge" and (key in charges or len(charges) < 5):
                charge = ledger.charge(request_for(*key), Spend(Fraction(1, 5)))
                assert charges.setdefault(key, charge) == charge
            elif verb == "charge":
                with pytest.raises(InsufficientBudget):
                    ledger.charge(request_for(*key), Spend(Fraction(1, 5)))
            elif key in charges:
                release = ledger.persist(charges[key], f"[{step}]")
                assert releases.setdefault(key, release) == release
            assert ledger.spent.epsilon == Fraction(len(charges), 5)
            assert ledger.stored(request_for(number, ledger.version).id) == releases.get((number, ledger.version))
        assert verify_file(path).entries == 1 + len(charges) + len(releases)


@functools.cache
def content_and_head():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = Ledger(path, dataset="d", epsilon=1, delta=1e-6)
        ledger.persist(ledger.charge(request_for(0), Spend(Fraction(1, 7))), "{}")
        ledger.charge(request_for(1), Spend(0, 0, Fraction(1, 100)))
        return path.read_bytes(), ledger.head


@contextmanager
def copy_of_a_ledger():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(content_and_head()[0])
        yield path


COLUMNS = [field.name for field in fields(Entry) if field.name != "seq"]
values = st.one_of(st.text(max_size=8), st.integers(0, 9), st.binary(max_size=4), st.sampled_from(["1/7", "{}"]))


@examples(120)
@given(seq=st.integers(1, 5), column=st.sampled_from(COLUMNS), value=values)
def test_any_change_of_any_field_of_any_entry_is_noticed(seq, column, value):
    with copy_of_a_ledger() as path:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            was = connection.execute(f"SELECT {column} FROM entry WHERE seq = {seq}").fetchone()
            connection.execute(f"UPDATE OR IGNORE entry SET {column} = ? WHERE seq = {seq}", [value])
            connection.commit()
            became = connection.execute(f"SELECT {column} FROM entry WHERE seq = {seq}").fetchone()
        if (type(was[0]), was) == (type(became[0]), became):
            assert verify_file(path).entries == 5
        else:
            with pytest.raises(LedgerError, match=f"entry {seq}|dataset"):
                verify_file(path)


@examples(80)
@given(kept=st.integers(0, 4))
def test_any_truncation_is_noticed_by_a_noted_head(kept):
    with copy_of_a_ledger() as path:
        noted = content_and_head()[1]
        assert verify_file(path, noted).entries == 5
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"DELETE FROM entry WHERE seq > {kept}")
            connection.commit()
        with pytest.raises(LedgerError):
            verify_file(path, noted)
