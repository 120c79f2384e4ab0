"""Who may read and write the files of a site."""

import stat
from pathlib import Path

from hdpstats._base.errors import ArgumentError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITING = stat.S_IWGRP | stat.S_IWOTH


def mode_of(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def check_secret(path: Path, *, name: str) -> None:
    """Refuse a file that others than its owner may read or write: a private key, private rows, a password."""
    if path.exists() and mode_of(path) & _OTHERS:
        raise ArgumentError(
            f"{name}: others than the owner may read or write {path} (mode {mode_of(path):04o}); it must be its "
            f"owner's alone: chmod 600 {path}",
            argument=name,
        )


def check_trusted(path: Path, *, name: str) -> None:
    """Refuse a file that others than its owner may write: what a site believes must be its custodian's own words."""
    if path.exists() and mode_of(path) & _WRITING:
        raise ArgumentError(
            f"{name}: others than the owner may write {path} (mode {mode_of(path):04o}), so that it may not say what "
            f"the custodian wrote: look at it, and chmod go-w {path}",
            argument=name,
        )


def closed_to_others(path: Path) -> bool:
    """Take the permissions of others away from a file, and return whether there were any.

    Raises
    ------
    ArgumentError
        They cannot be taken away.
    """
    if not (path.exists() and mode_of(path) & _OTHERS):
        return False
    try:
        path.chmod(mode_of(path) & ~_OTHERS)
    except OSError:
        raise ArgumentError(
            f"others than the owner may read or write {path}, and this process may not change that: chmod 600 {path}",
            argument="ledger",
        ) from None
    return True
