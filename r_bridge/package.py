"""The R package `hdpstats` in either host: attached to the R inside Python, or the one that started Python."""

from pathlib import Path

import rpy2.rinterface as ri

from r_bridge import forks, interrupts, session
from r_bridge.dispatcher import dispatcher
from r_bridge.guard import guarded
from r_bridge.session import helper

SOURCE = Path(__file__).parent / "R" / "hdpstats"
"""The source of the R package that comes with this Python package."""

_ATTACH = Path(__file__).parent / "R" / "attach.R"


def attach_functions() -> None:
    """Attach the R package that comes with this Python package to the R inside Python, without installing it.

    It is a namespace like any other: ``library(hdpstats)`` and ``hdpstats::dp_logit`` find it.
    """
    session.start()
    if not session.hosted():
        forks.take_the_lock_for_forks()
    attach = helper(_ATTACH.read_text(encoding="utf-8"))
    guarded(attach, ri.StrSexpVector([str(SOURCE)]), dispatcher())


def connect() -> None:
    """Give the R package that started this Python the function that it calls."""
    session.adopt(interrupts.told_by_r)
    put = helper("function(dispatch) assign('dispatch', dispatch, envir = asNamespace('hdpstats')$.state)")
    put(dispatcher())
