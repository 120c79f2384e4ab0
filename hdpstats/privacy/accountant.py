"""From events to what they cost together, and to the guarantee that is promised."""

from collections.abc import Iterable
from fractions import Fraction

from hdpstats.privacy.budget import Spend
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.privacy.relation import Relation


def total(events: Iterable[PrivacyEvent]) -> Spend:
    """Return the sum of epsilons and deltas: sequential composition, valid for adaptively chosen events.

    Dwork, Kenthapadi, McSherry, Mironov and Naor (2006); for adaptively chosen parameters the additive
    filter is valid by Rogers, Roth, Ullman and Vadhan (2016).
    """
    spend = Spend(Fraction(0))
    for event in events:
        spend = spend + Spend(event.epsilon, event.delta)
    return spend


def guarantee(events: Iterable[PrivacyEvent], *, relation: Relation, unit: str = "person") -> Guarantee:
    """Return the guarantee of everything that ran inside one release."""
    spend = total(events)
    return Guarantee(epsilon=spend.epsilon, delta=spend.delta, relation=relation, unit=unit)
