"""Nothing about a private row leaves through an exception, a traceback or a warning."""

import warnings
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from hdpstats._base.errors import SiteError

T = TypeVar("T")

REFUSAL = (
    "the private computation did not complete; the budget stays charged. The same request may be sent again: it goes "
    "on under its charge, with the noise that it had"
)
"""The one text for every failure inside the wall."""


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
    except BaseException:  # noqa: S110  (that is the point: nothing may pass)
        pass
    del compute
    if interrupted:
        raise KeyboardInterrupt
    raise SiteError(REFUSAL)
