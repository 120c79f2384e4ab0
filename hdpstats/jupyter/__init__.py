"""The IPython extension: ``%load_ext hdpstats.jupyter``.

``%hdp`` shows ledgers and schemas and plans fits; it never spends. Other packages add magics through the entry point
group `GROUP`: the entry's name is the magic's, its object a function that takes the shell and returns the function of
``(line, cell, local_ns)`` that is the magic. It is imported when the magic is first used: ``%%R`` comes this way, and R
does not start before.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import needs_local_scope, no_var_expand

from hdpstats.jupyter import commands

GROUP = "hdpstats.jupyter"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics."""
    commands.register(shell)
    _register(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics away."""
    commands.unregister(shell)
    _unregister(shell)


def _register(shell: InteractiveShell) -> None:
    """Register a magic, of lines and of cells, for each entry point of `GROUP`."""
    for entry in entry_points(group=GROUP):
        shell.register_magic_function(_lazy(shell, entry), "line_cell", entry.name)


def _unregister(shell: InteractiveShell) -> None:
    """Take the magics of `GROUP` away."""
    for entry in entry_points(group=GROUP):
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(entry.name, None)


def _lazy(shell: InteractiveShell, entry: EntryPoint) -> Callable[..., Any]:
    @cache
    def loaded() -> Callable[..., Any]:
        function: Callable[..., Any] = entry.load()(shell)
        return function

    def magic(line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        return loaded()(line, cell, local_ns)

    magic.__doc__ = f"The magic of {entry.value}, which is imported when it is first used; its options: --help."
    marked: Callable[..., Any] = no_var_expand(needs_local_scope(magic))
    return marked
