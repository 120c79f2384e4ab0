"""A private computation on rows that nobody is behind, to see how long it takes: nothing is charged or recorded."""

import warnings

import numpy as np

from hdpstats._base.errors import SiteError
from hdpstats._base.rehearsal import rehearsing
from hdpstats.mechanisms.base import Prepared
from hdpstats.schema.table import PrivateTable


def rehearse(prepared: Prepared, invented: PrivateTable) -> None:
    """Compute a release from invented rows, every loop at its full length, and let it go.

    Raises
    ------
    SiteError
        The computation fails on such rows, so that nobody can say how long it takes.
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
