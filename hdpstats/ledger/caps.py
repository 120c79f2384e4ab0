"""The cap of an analyst: what he may receive under the total of a dataset, as an account of its own.

The total covers everybody together and is what the people in the data are promised. A cap says how much of it one
analyst may see. It is counted like a total, in the same exact arithmetic (`hdpstats.privacy.balance`): every release
that he receives, computed for him or for somebody else before, is charged to his cap once. So what he has received
keeps the (epsilon, delta) of the largest cap that he ever had, as long as he learns nothing from other analysts; if he
does, the total holds.

*Proof.* A query belongs to a request that the analyst made himself, knowing only what he had received before. Its
release is a draw of the mechanism with noise of its own, whether it was drawn for him or earlier for another who asked
the same; so what he receives has the law of a conversation in which he alone is answered, in which the proof in
`hdpstats.privacy.balance` covers whatever a cap pays for. A cap that grows leaves in each part of its division at least
what was there, and so is covered by the last one; one that shrinks pays for less than the one before it.
"""

from collections.abc import Iterator

from hdpstats._base.errors import ArgumentError
from hdpstats.ledger.records import in_words
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import Budget, Spend


def capped(total: Budget, received: Spend, before: Balance | None) -> Balance:
    """Return the account of an analyst who has received something, under a first or another cap.

    A division between Gaussian releases and all others keeps its proportions. A first cap of an analyst who has
    received Gaussian releases sets half of what is left aside for them, or all of it if half does not cover them.

    Raises
    ------
    ArgumentError
        If the cap does not cover what was received.
    """
    for part in _parts(total, received, before):
        balance = Balance(total=total, gaussian=part)
        if balance.affords(received):
            return balance.plus(received)
    raise ArgumentError(
        f"the cap of {in_words(total)} does not cover what the analyst has received, {in_words(received)}; grant at "
        "least that",
        argument="epsilon",
    )


def _parts(total: Budget, received: Spend, before: Balance | None) -> Iterator[Budget | None]:
    known = None if before is None else before.gaussian
    if total.delta == 0 or (known is None and received.mu_squared == 0):
        yield None
    elif before is not None and known is not None:
        yield Budget(
            known.epsilon * total.epsilon / before.total.epsilon, known.delta * total.delta / before.total.delta
        )
    else:
        epsilon, delta = total.epsilon - received.epsilon, total.delta - received.delta
        if epsilon > 0 and delta > 0:
            yield Budget(epsilon / 2, delta / 2)
            yield Budget(epsilon, delta)
