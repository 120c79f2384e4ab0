"""Magics of other packages, found by their entry points and imported when they are first used."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import needs_local_scope, no_var_expand


def register(shell: InteractiveShell, group: str) -> None:
    """Register a magic, of lines and of cells, for each entry point of a group."""
    for entry in entry_points(group=group):
        shell.register_magic_function(_lazy(shell, entry), "line_cell", entry.name)


def unregister(shell: InteractiveShell, group: str) -> None:
    """Take the magics of a group away."""
    for entry in entry_points(group=group):
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
