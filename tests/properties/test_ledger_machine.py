"""A ledger does all that it can after any sequence of accepted charges, whatever fractions were asked."""

import math
import tempfile
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hdpstats._base.errors import BudgetError, Superseded
from hdpstats.ledger import Charge, Lease, Ledger, Request, verify_file
from hdpstats.ledger.leases import Holder
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import square_of
from hdpstats.privacy.gaussian import delta_of_square

DELTA = Fraction(1, 10**6)


def request_for(number):
    return Request(
        dataset="d",
        version=1,
        schema_sha256="0" * 64,
        public_sha256=None,
        query_json="{}",
        terms="replace_one, one row per person",
        replicate=number,
    )


def coprime(count, digits=30):
    """Denominators of so many digits, no two of which have a factor in common (steps of 1 in Euclid's sequence)."""
    found, candidate = [], 10 ** (digits - 1) + 1
    while len(found) < count:
        if all(math.gcd(candidate, each) == 1 for each in found):
            found.append(candidate)
        candidate += 2
    return found


def reads_well(ledger, folder):
    """Everything that a custodian asks of a ledger."""
    assert repr(ledger)
    assert str(ledger)
    assert ledger._repr_html_()
    assert len(ledger.history()) == len(ledger.history().index)
    assert ledger.verify().entries > 0
    for name in ("ledger.json", "ledger.csv"):
        ledger.export(folder / name)
    assert ledger.spent.epsilon <= ledger.budget.epsilon


def test_150_charges_of_coprime_denominators_leave_the_account_readable_and_open_to_gaussian_noise(tmp_path):
    """Sums of such fractions have 4,500 digits, more than Python writes: the export failed for good."""
    ledger = Ledger(tmp_path / "ledger.db", dataset="d", epsilon=3, delta=1e-5)
    for number, denominator in enumerate(coprime(150), start=1):
        ledger.charge(
            request_for(number), Spend(Fraction(10**25, denominator), Fraction(1, denominator)), analyst="eve"
        )
    assert len(ledger.history()) == 150
    asked = Budget(1, DELTA)
    gaussian = Spend(0, 0, square_of(asked.epsilon, asked.delta), asked)
    assert ledger.affords(gaussian, "ana")
    ledger.persist(ledger.charge(request_for(151), gaussian, analyst="ana"), "{}", "ana")
    reads_well(ledger, tmp_path)
    again = Ledger.open_existing(tmp_path / "ledger.db")
    assert again.balance == ledger.balance
    digits = (again.balance.charged.epsilon.denominator, again.balance.charged.delta.denominator)
    assert digits <= (10**9, 10**30)


amounts = st.one_of(
    st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(1, 2), max_denominator=10**30),
    st.sampled_from([Fraction(1, 10**6), Fraction(1, 3), Fraction(10**20, 3**45)]),
)
analysts = st.sampled_from([None, "ana", "ben"])


@dataclass
class Asked:
    """A request that was charged: at what cost, its charges, and how many of them each analyst has paid."""

    request: Request
    cost: Spend
    charges: list[Charge]
    paid: Counter[str]
    released: bool = False


class LedgerMachine(RuleBasedStateMachine):
    """Charges of all kinds, for several analysts and over again, grants and quotas in any order.

    What is accepted must be read back.
    """

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.db"
        self.ledger = Ledger(self.path, dataset="d", epsilon=2, delta=1e-5)
        self.number, self.charged = 0, NOTHING
        self.asked, self.received = [], {"ana": NOTHING, "ben": NOTHING}

    def charge(self, request, cost, analyst, **holder):
        """Return the charge or the lease; None where it is refused, and then nothing was written."""
        before = self.ledger.head
        try:
            return self.ledger.charge(request, cost, analyst=analyst, **holder)
        except BudgetError:
            assert self.ledger.head == before
            return None

    def pay(self, one, analyst):
        """Count what an analyst has paid when he was charged for all charges of a request."""
        if analyst is not None:
            self.received[analyst] += one.charges[-1].cost.times(len(one.charges) - one.paid[analyst])
            one.paid[analyst] = len(one.charges)

    def attempt(self, cost, analyst, *, released=True):
        self.number += 1
        request = request_for(self.number)
        charge = self.charge(request, cost, analyst)
        if charge is None:
            return
        assert charge.cost.epsilon >= cost.epsilon
        assert charge.cost.mu_squared >= cost.mu_squared
        self.charged += charge.cost
        self.asked.append(Asked(request, cost, [charge], Counter()))
        self.pay(self.asked[-1], analyst)
        if released:
            self.ledger.persist(charge, "[1]", analyst)
            self.asked[-1].released = True

    def one_of(self, data, **fields):
        found = [one for one in self.asked if fields.items() <= vars(one).items()]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(epsilon=amounts, analyst=analysts)
    def leave(self, epsilon, analyst):
        self.attempt(Spend(epsilon), analyst, released=False)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), analyst=st.sampled_from(["ana", "ben"]))
    def share(self, data, analyst):
        """Ask for what was charged before, perhaps for another one: the total stays as it is."""
        one, before = self.one_of(data), self.ledger.head
        found = self.charge(one.request, one.cost, analyst)
        if isinstance(found, Lease):
            assert self.ledger.head == before
            assert not one.released
        elif found is not None:
            assert found == one.charges[-1]
            self.pay(one, analyst)
            stored = self.ledger.stored(one.request.id, analyst)
            assert (stored is not None) == one.released

    @precondition(lambda self: any(not one.released for one in self.asked))
    @rule(data=st.data(), analyst=analysts)
    def charge_again(self, data, analyst):
        """Give up a holder: the total is charged once more, and an analyst for every charge of the request."""
        one = self.one_of(data, released=False)
        over = self.ledger.lease(one.request.id)
        charge = self.charge(one.request, one.cost, analyst, holder=Holder(), over=over)
        if charge is None:
            return
        assert charge.attempt == len(one.charges) + 1
        self.charged += charge.cost
        one.charges.append(charge)
        self.pay(one, analyst)

    @precondition(lambda self: any(not one.released for one in self.asked))
    @rule(data=st.data())
    def record(self, data):
        """Only the latest charge of a request has a release."""
        one = self.one_of(data, released=False)
        for earlier in one.charges[:-1]:
            with pytest.raises(Superseded):
                self.ledger.persist(earlier, "[2]")
        assert self.ledger.persist(one.charges[-1], "[1]").release_json == "[1]"
        one.released = True

    @rule(epsilon=amounts, delta=st.sampled_from([Fraction(0), Fraction(1, 3 * 10**7)]), analyst=analysts)
    def pure(self, epsilon, delta, analyst):
        self.attempt(Spend(epsilon, delta), analyst)

    @rule(epsilon=amounts, share=amounts, analyst=analysts)
    def gaussian(self, epsilon, share, analyst):
        asked = Budget(max(epsilon, Fraction(1, 100)), DELTA)
        self.attempt(Spend(0, 0, square_of(asked.epsilon, asked.delta) * share, asked), analyst)

    @rule(epsilon=amounts, delta=st.sampled_from([Fraction(0), DELTA, Fraction(1, 3 * 10**5)]))
    def grant(self, epsilon, delta):
        for analyst in ("ana", "ben"):
            before = self.ledger.spent_by(analyst)
            try:
                cap = self.ledger.grant(analyst, epsilon=epsilon + 1, delta=delta)
            except ValueError:  # it does not cover what he has received
                continue
            assert cap.spent.epsilon <= cap.total.epsilon
            assert cap.charged.epsilon >= min(before.epsilon, cap.charged.epsilon)

    @rule(charges=st.integers(0, 20))
    def limit(self, charges):
        self.ledger.limit("ben", most_charges=charges)

    @rule()
    def reopen(self):
        self.ledger = Ledger.open_existing(self.path)

    @invariant()
    def sums_are_kept(self):
        if not hasattr(self, "ledger"):
            return
        balance = self.ledger.balance
        assert balance.charged == self.charged
        parts = {analyst: self.ledger._latest().part("d", analyst).received for analyst in self.received}
        assert parts == self.received
        part = balance.gaussian
        if part is not None:
            assert delta_of_square(part.epsilon, balance.charged.mu_squared) <= part.delta

    def teardown(self):
        if hasattr(self, "ledger"):
            reads_well(self.ledger, Path(self.folder.name))
            assert verify_file(self.path).entries == self.ledger.verify().entries
            self.folder.cleanup()


LedgerMachine.TestCase.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)
TestLedgerMachine = LedgerMachine.TestCase
