"""The recipe of queries: how a version of the package makes questions to sites from what a user writes.

A user writes a formula, an epsilon and some options. Radii, ridges, caps, grids, shares of epsilon, and what is asked
beside the coefficients follow from these and from public facts, by a **recipe**. Where a later version takes another
ridge, the same call asks another question, which a ledger has no release of: it would be charged again, for the same
people and the same purpose. So recipes are numbered. A version that changes what is asked takes the next number, and
keeps how it was asked before: code that differs says ``if recipe.in_use() >= 2``. A call is then answered from the
ledger where it was charged under an older recipe (`hdpstats.sites.recipes`).

**In JSON** recipe 1 is written by leaving the key out, so that what was written before there was another one reads as
it did. A recipe has no part in what identifies a release in a ledger (`hdpstats.records.query.Query.question`): the
same question is charged once, by whatever recipe it was made.

**What it is not.** What a site computes for a query, and with which proof, has the version of the query's kind
(``objective/1``). A site refuses a recipe that it does not know before anything is charged: what a later version means
by a question it cannot know.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from hdpstats._base.errors import SiteError

CURRENT: Final[int] = 1
"""The recipe of this version. All from 1 on are known."""

_IN_USE: ContextVar[int | None] = ContextVar("the recipe that queries are made by", default=None)


def in_use() -> int:
    """Return the recipe that queries are made by here."""
    number = _IN_USE.get()
    return CURRENT if number is None else number


def written() -> int | None:
    """Return the recipe in use as queries have it: None for the first."""
    number = in_use()
    return None if number == 1 else number


@contextmanager
def using(number: int) -> Iterator[None]:
    """Make queries by a recipe, in this thread."""
    token = _IN_USE.set(number)
    try:
        yield
    finally:
        _IN_USE.reset(token)


def is_known(number: object) -> bool:
    """Whether a number is a recipe that this version knows, as JSON has it: None for the first, else from 2 on."""
    return number is None or (type(number) is int and 2 <= number <= CURRENT)


def check_known(number: object) -> None:
    """Refuse a recipe that this version does not know.

    Raises
    ------
    SiteError
        Nothing was charged.
    """
    if not is_known(number):
        raise SiteError(
            f"the query is of recipe {number}, and this version of hdpstats knows recipes up to {CURRENT}, the first "
            "of which is written by leaving it out; nothing was charged. Ask with a version that the site knows, or "
            "have the site updated"
        )
