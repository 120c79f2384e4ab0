"""Files that commands write: as a whole, and in the place of nothing that somebody else put there."""

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Final

from hdpstats._base.errors import ArgumentError

_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""What file systems without hard links say."""
_HERE: Final = -100
_EXCHANGE: Final = 2
"""Of Linux: ``AT_FDCWD`` and ``RENAME_EXCHANGE``."""


def check_new(
    path: str | PathLike[str],
    *,
    name: str = "out",
    same: Callable[[Path], bool] | None = None,
    ending: str = "",
) -> None:
    """Refuse a place where a file cannot be written, or where something is that it would replace.

    Parameters
    ----------
    path
        Where the file is to be.
    name
        The argument that says so.
    same
        Whether an ordinary file that is there is an earlier one of the same, which may be replaced; none may be
        without it.
    ending
        What a refusal says besides.

    Raises
    ------
    ArgumentError
        There is something else, or the folder is none or may not be written in.
    """
    place = Path(path)
    folder = place.absolute().parent
    if not os.path.isdir(folder):
        raise ArgumentError(f"{name}: there is no folder {folder}: make it first{ending}", argument=name)
    if not os.access(folder, os.W_OK):
        raise ArgumentError(
            f"{name}: this process cannot write in the folder of {place}: name another{ending}", argument=name
        )
    if os.path.lexists(place) and not _is_same(place, same):
        raise _taken(place, name, ending)


def _is_same(place: Path, same: Callable[[Path], bool] | None) -> bool:
    """Whether an ordinary file, and no link, is an earlier one of the same."""
    return same is not None and place.is_file() and not place.is_symlink() and same(place)


def _taken(place: Path, name: str, ending: str = "") -> ArgumentError:
    return ArgumentError(
        f"{name}: there is something else at {place} already, which is not replaced: name a new file, or move that one "
        f"away{ending}",
        argument=name,
    )


@contextmanager
def new_file(
    path: str | PathLike[str], *, name: str = "out", same: Callable[[Path], bool] | None = None
) -> Iterator[Path]:
    """Give a place to write a file at, in a folder of its own, and move it to ``path`` as a whole at the end.

    Nothing is replaced but what `check_new` admits, whatever came to that place meanwhile; nothing is left where the
    block raises. The file is on the disk when the block is over, and has the permissions that it was written with.

    Raises
    ------
    ArgumentError
        As `check_new`, or it cannot be written.
    """
    place = Path(path)
    check_new(place, name=name, same=same)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".new", dir=place.absolute().parent))
        try:
            new = folder / place.name
            yield new
            _flush(new)
            _move(new, place, name=name, same=same)
            _flush(place.absolute().parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise ArgumentError(
            f"{name}: {place} cannot be written: {error.strerror}; make room, or name another file", argument=name
        ) from None


def write_new(
    path: str | PathLike[str],
    content: str,
    *,
    name: str = "out",
    same: Callable[[Path], bool] | None = None,
) -> None:
    """Write a text file as `new_file` does."""
    with new_file(path, name=name, same=same) as new:
        new.write_bytes(content.encode())


def _flush(place: Path) -> None:
    number = os.open(place, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _move(new: Path, place: Path, *, name: str, same: Callable[[Path], bool] | None) -> None:
    """Move a file to a place where nothing is, or an earlier one of the same."""
    try:
        os.link(new, place)  # which replaces nothing
    except FileExistsError:
        check_new(place, name=name, same=same)
        if not _exchanged(new, place):
            new.replace(place)
        elif not _is_same(new, same):  # another came after it was looked at
            _exchanged(new, place)
            raise _taken(place, name) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy(new, place)


def _exchanged(new: Path, place: Path) -> bool:
    """Let two files change places in one step; False where the system or the file system has no such step."""
    try:
        step = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return bool(step(_HERE, os.fsencode(new.absolute()), _HERE, os.fsencode(place.absolute()), _EXCHANGE) == 0)


def _copy(new: Path, place: Path) -> None:
    """Write a file that is not there: where there are no links, it is whole once it is closed."""
    number = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, new.stat().st_mode & 0o777)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(new.read_bytes())
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        place.unlink(missing_ok=True)
        raise
