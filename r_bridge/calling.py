"""Call R from Python as if it were Python."""

from typing import Any

import rpy2.rinterface as ri

from r_bridge.from_r import from_r
from r_bridge.guard import guarded
from r_bridge.session import helper, start
from r_bridge.to_r import to_r


def call(function: Any, /, *arguments: object, **named: object) -> Any:
    """Call an R function with Python values, and return what it returns as a Python value.

    Parameters
    ----------
    function
        The name of a function (also ``"package::name"``), R code that defines one, or an R function.
    *arguments, **named
        Values that `to_r` takes.

    Raises
    ------
    RError
        If R raises an error.
    KeyboardInterrupt
        If R was interrupted.

    Examples
    --------
    >>> call("paste", "a", "b", sep="-")
    'a-b'
    """
    start()
    found = helper("function(code) eval(str2lang(code), globalenv())") if isinstance(function, str) else None
    target = function if found is None else guarded(found, ri.StrSexpVector([function]))
    return from_r(guarded(target, *map(to_r, arguments), **{key: to_r(value) for key, value in named.items()}))
