"""A computation on rows, private or invented: nothing leaves it through an exception, a traceback or a warning."""

import warnings
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from hdpstats._base.errors import SiteError
from hdpstats._base.rehearsal import rehearsing
from hdpstats.mechanisms.base import Prepared
from hdpstats.schema.table import PrivateTable

T = TypeVar("T")

REFUSAL = (
    "the private computation did not complete; the budget stays charged. The same request may be sent again: it goes "
    "on under its charge, with the noise that it had"
)
"""The one text for every failure of a private computation."""


def errors_scrubbed(compute: Callable[[], T]) -> T:
    """Run a computation on private rows; replace whatever it raises by one fixed error without cause or context.

    The error is raised outside the handler, so that neither its context nor its frames lead to the data. Ctrl-C is
    passed on, bare.
    """
    interrupted = False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return compute()
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:  # noqa: S110  (nothing may pass)
        pass
    del compute
    if interrupted:
        raise KeyboardInterrupt
    raise SiteError(REFUSAL)


def rehearse(prepared: Prepared, invented: PrivateTable) -> None:
    """Compute a release from invented rows, every loop at its full length, to see how long it takes.

    Nothing is charged, recorded or returned.

    Raises
    ------
    SiteError
        The computation fails on such rows, so that its time is not known.
    """
    failed = False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), rehearsing():
            warnings.simplefilter("ignore")
            prepared.compute(invented.admit(prepared.needs, key=prepared.key)).to_json()
    except Exception:  # invented rows are public, but what a computation says may be long and of no use
        failed = True
    if failed:
        raise SiteError("the computation fails on invented rows of the declared shape; nothing was charged")
