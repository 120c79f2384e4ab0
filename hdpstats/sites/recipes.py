"""A call is answered under the recipe that it was charged under.

Recipes are those of `hdpstats.records.recipe`.

Before a call spends anything, it is run once under each recipe, the latest first, with sites that say only what their
ledgers hold (`hdpstats.sites.site.Site.received`): what was written, read under an older recipe, *is* the older
question. Under the first recipe for which some site has all answers the call is then made. Those sites give what they
have, for nothing; a site that had not answered then is asked the same as the others were. Where there is none, the
latest recipe is taken. A call that was interrupted before its last answer under an older recipe begins anew.

With one recipe there is nothing to choose, and nothing is run twice.
"""

import warnings
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from hdpstats._base.errors import HdpError, OlderRecipe
from hdpstats._base.no_warnings import silence
from hdpstats.records import recipe
from hdpstats.records.query import Query, Release
from hdpstats.sites.site import Site

P = ParamSpec("P")
T = TypeVar("T")

_DAY = len("2026-01-31")
_LOOKING: ContextVar[bool] = ContextVar("whether sites are asked only for what they have", default=False)
_CHOSEN: ContextVar[set[str] | None] = ContextVar("the days of releases of a call that has its recipe", default=None)


class NotReceived(Exception):  # noqa: N818  (no error: it ends a look into the ledgers)
    """No site has the answer to a question of a call."""


def is_looking() -> bool:
    """Whether sites are asked only for what their ledgers hold."""
    return _LOOKING.get()


def received(site: Site, query: Query) -> Release | None:
    """Return what a site has of a query, None where it has nothing or refuses."""
    try:
        return site.received(query)
    except HdpError:
        return None


def answer(site: Site, query: Query) -> Release:
    """Return a site's answer to a query; while a call looks for its recipe, only one that was charged before.

    Raises
    ------
    NotReceived
        It was not, while a call looks.
    HdpError
        What `Site.answer` raises.
    """
    if not is_looking():
        return noted(site.answer(query))
    release = received(site, query)
    if release is None:
        raise NotReceived
    return release


def noted(release: Release) -> Release:
    """Note the day of a release that was charged before, for what is said of an older recipe."""
    days, entry = _CHOSEN.get(), release.entry
    if days is not None and entry is not None and entry.stored:
        days.add(entry.stored[:_DAY])
    return release


def in_its_recipe(call: Callable[P, T]) -> Callable[P, T]:
    """Let a call that asks sites be answered under the recipe that it was charged under.

    It warns (`OlderRecipe`) where that is not the latest one, with the days of the charges.
    """

    @wraps(call)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        latest = recipe.in_use()
        if latest == 1 or _CHOSEN.get() is not None or is_looking():  # a call within a call has its recipe
            return call(*args, **kwargs)
        number = _charged_under(lambda: call(*args, **kwargs), latest)
        days: set[str] = set()
        token = _CHOSEN.set(days)
        try:
            with recipe.using(number):
                result = call(*args, **kwargs)
        finally:
            _CHOSEN.reset(token)
        if number != latest:
            warnings.warn(_words(number, latest, sorted(days)), OlderRecipe, stacklevel=2)
        return result

    return asked


def _charged_under(call: Callable[[], object], latest: int) -> int:
    """Return the latest recipe under which some site has all answers to a call; the latest of all where there is none.

    Nothing is charged.
    """
    for number in range(latest, 0, -1):
        token = _LOOKING.set(True)
        try:
            with recipe.using(number), silence():
                call()
        except (NotReceived, HdpError):
            continue
        finally:
            _LOOKING.reset(token)
        return number
    return latest


def _words(number: int, latest: int, days: list[str]) -> str:
    when = f"on {' and '.join(days)} " if days else ""
    return (
        f"this call was charged {when}under recipe {number} of queries; that release is returned, and nothing is "
        f"charged for it. This version asks by recipe {latest}: another replicate= is asked so, and charged"
    )
