"""The public names: ``import hdpstats.api as hdp``.

They are listed in ``api.pyi`` beside this module, for type checkers and for this module, as imports. Each name is
loaded when it is first asked for, so that the import itself takes little: who opens a ledger loads no model, and who
asks remote sites no code of a site.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_PLACES = {
    alias.asname or alias.name: (str(statement.module), alias.name)
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
"""Where each name comes from: a module, and what it is called there."""

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    found = import_module(module)
    return getattr(found, attribute) if hasattr(found, attribute) else import_module(f"{module}.{attribute}")


def __dir__() -> list[str]:
    return __all__
