"""The kernel's R code: the functions in ``R/``, in an environment of their own, off the search path."""

from functools import cache
from pathlib import Path
from typing import Any

import rpy2.rinterface as ri

from r_bridge.guard import guarded
from r_bridge.session import helper
from r_bridge.strings import from_r_strings

_SOURCE = Path(__file__).parent / "R"
_LOAD = """function(directory) {
  tools <- new.env(parent = .BaseNamespaceEnv)
  for (file in sort(list.files(directory, "[.]R$", full.names = TRUE))) sys.source(file, tools)
  tools
}"""


@cache
def tool(name: str) -> Any:
    """Return the R function of that name in ``R/``."""
    return _tools()[name]


@cache
def _tools() -> Any:
    return guarded(helper(_LOAD), ri.StrSexpVector([str(_SOURCE)]))


def fields(named: Any) -> dict[str, Any]:
    """Return the elements of a named R list."""
    if len(named) == 0:
        return {}
    return dict(zip(map(str, from_r_strings(named.do_slot("names"))), named, strict=True))


def text(vector: Any) -> str:
    """Return the only element of a character vector; NA is empty."""
    return from_r_strings(vector)[0] or ""
