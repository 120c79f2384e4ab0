"""From events to what they cost, and to the guarantee of a release or a fit.

The events are those of one release, or of the rounds of one fit: their number and their costs were fixed before the
first of them ran. For costs that are chosen after seeing releases, see `hdpstats.privacy.balance`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from hdpstats.privacy.budget import NOTHING, Spend
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.privacy.gaussian import delta_of_square, epsilon_of
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.privacy.relation import Relation


def total(events: Iterable[PrivacyEvent]) -> Spend:
    """Return what events cost: the sums of epsilons and deltas, and of mu_squared of the Gaussian ones.

    Sequential composition: Dwork, Kenthapadi, McSherry, Mironov and Naor (2006); Dong, Roth and Su (2022).
    """
    return sum((event.cost for event in events), NOTHING)


def as_pair(spend: Spend) -> Spend:
    """Return an amount as an (epsilon, delta) without Gaussian part: the guarantee when nothing else is released.

    Events of epsilons and deltas that sum to (e, d), composed with sqrt(mu_squared)-GDP, are
    (e + epsilon(delta_g), d + delta_g)-DP for every delta_g: each of the former multiplies the odds by at most its own
    factor, up to its delta. Here delta_g is the delta that the Gaussian part was asked to keep, and its epsilon the
    one it was asked to keep if the sum of its squares implies that, else the least that they do imply.
    """
    if spend.asked is None:
        return spend
    asked = spend.asked
    kept = delta_of_square(asked.epsilon, spend.mu_squared) <= asked.delta
    epsilon = asked.epsilon if kept else epsilon_of(asked.delta, spend.mu_squared)
    return Spend(spend.epsilon + epsilon, spend.delta + asked.delta)


def guarantee(
    events: Iterable[PrivacyEvent], *, relation: Relation, unit: str = "person", most_rows: int = 1
) -> Guarantee:
    """Return the guarantee of everything that ran inside one fit.

    Parameters
    ----------
    events
        What ran.
    relation, unit, most_rows
        Who is protected: the neighbouring relation, the word for one of those protected, and the largest number of
        rows that one of them may have.
    """
    pair = as_pair(total(events))
    return Guarantee(epsilon=pair.epsilon, delta=pair.delta, relation=relation, unit=unit, most_rows=most_rows)


def over_data_sets(guarantees: Sequence[tuple[frozenset[str], Guarantee]]) -> tuple[Fraction, Fraction]:
    """Return an epsilon and a delta that results keep together for everybody whose records are in one data set.

    Guarantees of results with a data set in common add up (sequential composition); those of different data sets, by
    the argument of `over_sites`, do not. So it is the largest sum over data sets. A result whose data set is not known
    counts as one of a data set of its own.

    Parameters
    ----------
    guarantees
        The data sets of each result, by the identities of their accounts, and the guarantee for each of them.
    """
    together: dict[str, tuple[Fraction, Fraction]] = {}
    for place, (accounts, each) in enumerate(guarantees):
        for account in accounts or {f"result {place}"}:
            epsilon, delta = together.get(account, (Fraction(0), Fraction(0)))
            together[account] = (epsilon + each.epsilon, delta + each.delta)
    epsilons, deltas = zip(*together.values(), strict=True)
    return max(epsilons), max(deltas)


def over_sites(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee of a fit at several sites for every person, of whom each is at one site only.

    A person's record is read by one site. Given all that was public when a site was asked, what the other sites then
    say has the same distribution whether or not that record is another, as none of them holds it: their densities
    cancel from the likelihood ratio of the whole transcript. What is left is the composition of that one site's
    releases, whatever the number of sites and of rounds. So the largest epsilon and the largest delta over sites hold
    for everybody.

    For a person at two sites the guarantees of both add up.
    """
    first = guarantees[0]
    return replace(
        first,
        epsilon=max(each.epsilon for each in guarantees),
        delta=max(each.delta for each in guarantees),
        most_rows=max(each.most_rows for each in guarantees),
        sites=len(guarantees),
    )
