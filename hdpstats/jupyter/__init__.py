"""The IPython extension: ``%load_ext hdpstats.jupyter``.

``%hdp`` shows ledgers and schemas and plans fits; it never spends. Other packages add magics through the entry point
group `GROUP`: the entry's name is the magic's, its object a function that takes the shell and returns the function of
``(line, cell, local_ns)`` that is the magic. It is imported when the magic is first used: ``%%R`` comes this way, and R
does not start before.
"""

from IPython.core.interactiveshell import InteractiveShell

from hdpstats.jupyter import commands, entries

GROUP = "hdpstats.jupyter"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics."""
    commands.register(shell)
    entries.register(shell, GROUP)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics away."""
    commands.unregister(shell)
    entries.unregister(shell, GROUP)
