"""Who may read and write the files of a site: its own user, root, and a group that it has alone."""

import fcntl
import grp
import json
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats.ledger.location import MOUNTS, mount_points

ROOT = 0
"""The number of the user who may do anything."""

EVERYBODYS = frozenset({"/", "/dev/shm", "/run", "/tmp", "/var/tmp"})  # noqa: S108  (nothing is written there)
"""Where the file systems in memory of a whole machine are mounted."""

_WRITING = stat.S_IWGRP | stat.S_IWOTH


class StateError(LedgerError):
    """A file of the site's own state cannot be used now: no fault of a request. Nothing was charged now."""


def mode_of(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def check_file(path: Path, *, name: str, private: bool = False) -> None:
    """Refuse a file that others may write or replace or, where it is private, read.

    Others are all users but that of this process and root. Besides what `check_folders` refuses:

    * Others may not write the file.
    * A private file (rows, keys, passphrases) is not read by others either: its mode is 0600 or 0400. A group may read
      root's (0640 or 0440, which systemd's ``LoadCredential=`` gives too): root gave it to that group. Everybody may
      read what is in memory and mounted read-only, as secrets are in a container: nobody outside sees it. Of ``/run``
      and other places of a whole machine that is not so.
    * In a folder of a group that this process has alone (`is_of_own_group`) that group is not others.

    A file that is not there is accepted where its folder is.

    Raises
    ------
    ArgumentError
        Others may do so, or the file cannot be looked at.
    """
    check_folders(path, name=name)
    status = _status(path, name=name)
    if status is None:
        return
    others = _of_others(path, status)
    if not private or _is_mounted_secret(path, status):
        others &= _WRITING
    elif status.st_uid == ROOT:
        others &= ~stat.S_IRGRP
    if not others:
        return
    mode = stat.S_IMODE(status.st_mode)
    if not private:
        raise ArgumentError(
            f"{name}: others than the owner may write {path} (mode {mode:04o}), so that it may not say what the "
            f"custodian wrote: look at it, and chmod go-w {path}",
            argument=name,
        )
    raise ArgumentError(
        f"{name}: others than the owner may read or write {path} (mode {mode:04o}); it must be its owner's alone: "
        f"chmod 600 {path}; or root's, for a group to read: chown root {path}, chmod 640 {path}",
        argument=name,
    )


def check_state(path: Path) -> None:
    """Refuse a file of the site's own state that others may write or replace, or that cannot be looked at.

    Raises
    ------
    StateError
        So it is.
    """
    try:
        check_file(path, name="state")
    except (ArgumentError, OSError) as error:
        raise StateError(f"{error}; nothing was charged now", argument="state") from None


@contextmanager
def held_alone(path: Path, *, flags: int = 0) -> Iterator[int]:
    """Give the number of an open file of the site's own state that one process holds at a time; the others wait.

    It is made where there is none, and open to others when the process ends.

    Raises
    ------
    StateError
        Others than the site's user may write it, or it cannot be used.
    """
    check_state(path)
    with ExitStack() as stack:
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
            stack.callback(os.close, number)
            fcntl.flock(number, fcntl.LOCK_EX)
        except OSError as error:
            message = f"state: {path} cannot be used: {error.strerror}; nothing was charged now"
            raise StateError(message, argument="state") from None
        yield number


def check_folders(path: Path, *, name: str) -> None:
    """Refuse a file in a folder where others may write, by its own name and by where links lead.

    * The file, each link on the way to it and each folder that the system goes through belong to the user of this
      process or to root.
    * Others may not write in the folder of the file: who puts a journal beside a database changes what is read from it.
      Folders above it may have the sticky bit, as ``/tmp`` has: nobody replaces there what is another's.
    * The mode of a folder does not count where something is mounted read-only at that very folder, as volumes of
      Kubernetes are, of mode 0777. Below it counts: a service may see all of a machine's files read-only
      (``ProtectSystem=strict`` of systemd) while other processes write them.
    * The group of a folder is not others where this process has it alone (`is_of_own_group`).

    Raises
    ------
    ArgumentError
        Others may write there; there is no such folder, or it cannot be looked at.
    """
    real = Path(os.path.realpath(path))
    files, holding = (path, real), (path.absolute().parent, real.parent)
    for place in _way(path.absolute(), {}):
        status = _status(place, name=name, follow=False)
        if status is None and place not in files:
            raise ArgumentError(
                f"{name}: there is no folder {place} on the way to {path}: make it first, for the user of this process",
                argument=name,
            )
        if status is None:
            continue
        if status.st_uid not in (ROOT, os.geteuid()):
            raise ArgumentError(
                f"{name}: {place} belongs to another user (number {status.st_uid}), who may so write or replace "
                f"{path}: look at what is there, and chown it to the user of this process, number {os.geteuid()}, "
                "or to root",
                argument=name,
            )
        if place in files or not stat.S_ISDIR(status.st_mode) or not _of_others(place, status) & _WRITING:
            continue
        mounted = _is_read_only(place) and _is_mounted(place)
        if not ((status.st_mode & stat.S_ISVTX and place not in holding) or mounted):
            raise ArgumentError(
                f"{name}: others than the owner may write in {place} (mode {stat.S_IMODE(status.st_mode):04o}), and so "
                f"replace {path} or put files beside it: look at what is there, and chmod go-w {place}, or use a "
                "folder of its own",
                argument=name,
            )


def _way(path: Path, found: dict[Path, None]) -> Iterator[Path]:
    """Yield the folders, links and files that the system goes through to a file, each once; ``found`` are those."""
    for place in (*reversed(path.parents), path):
        if place in found:
            continue
        found[place] = None
        yield place
        if os.path.islink(place):
            yield from _way(Path(os.path.realpath(place.parent)) / os.readlink(place), found)


def _status(path: Path, *, name: str, follow: bool = True) -> os.stat_result | None:
    """Return what the system says of a file, None where there is none."""
    try:
        return path.stat() if follow else path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArgumentError(
            f"{name}: {path} cannot be looked at ({error.strerror}): let the user of this process, number "
            f"{os.geteuid()}, reach it",
            argument=name,
        ) from None


def _of_others(path: Path, status: os.stat_result) -> int:
    """Return the permission bits of others than the owner and a group that is the service's own."""
    folder = status if stat.S_ISDIR(status.st_mode) else Path(os.path.realpath(path)).parent.stat()
    of_own_group = status.st_gid == folder.st_gid and is_of_own_group(folder)
    return stat.S_IMODE(status.st_mode) & (stat.S_IRWXO if of_own_group else stat.S_IRWXG | stat.S_IRWXO)


def is_of_own_group(folder: os.stat_result) -> bool:
    """Whether a folder was given to a group that this process has and, as far as the system knows, nobody else.

    It has the setgid bit, so that what is made in it is of the same group: no accident of a umask. Kubernetes gives a
    volume in this way to the one group of a pod (``fsGroup``), and lets the group write all files in it. Users who are
    in the group by a directory that the system does not list (LDAP) are not seen.
    """
    group = folder.st_gid
    if not folder.st_mode & stat.S_ISGID or group not in {os.getegid(), *os.getgroups()}:
        return False
    members = {user.pw_name for user in pwd.getpwall() if user.pw_gid == group}
    with suppress(KeyError):  # a group without a name has no members
        members.update(grp.getgrgid(group).gr_mem)
    with suppress(KeyError):
        members.discard(pwd.getpwuid(os.geteuid()).pw_name)
    return members <= {"root"}


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _is_mounted(place: Path) -> bool:
    """Whether something is mounted at a place (Linux)."""
    with suppress(OSError):
        return os.fsencode(os.path.realpath(place)) in mount_points(MOUNTS.read_bytes())
    return False


def _is_mounted_secret(path: Path, status: os.stat_result) -> bool:
    """Whether a file is in a file system in memory that is mounted read-only, as this process sees it (Linux).

    It is none of those of the whole machine (`EVERYBODYS`), which a service may see read-only as well.
    """
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    with suppress(OSError):
        lines = [line.partition(" - ") for line in MOUNTS.read_text(errors="replace").splitlines()]
        mounts = [(before.split()[4], after.split()[0]) for before, _, after in lines if before.split()[2] == device]
        in_memory = {kind for _, kind in mounts} <= {"tmpfs", "ramfs"}
        return bool(mounts) and in_memory and not EVERYBODYS & {at for at, _ in mounts} and _is_read_only(path)
    return False


def files_of_database(path: Path) -> tuple[Path, ...]:
    """Return the file of a database and those that SQLite reads beside it: a journal, a log and the log's index."""
    whole = os.path.realpath(path)
    return path, *(Path(f"{whole}-{end}") for end in ("journal", "wal", "shm"))


def closed_to_others(path: Path) -> bool:
    """Take the permissions of others away from a file, and return whether there were any.

    Raises
    ------
    ArgumentError
        They cannot be taken away.
    """
    if not (path.exists() and _of_others(path, path.stat())):
        return False
    try:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXU)
    except OSError:
        raise ArgumentError(
            f"others than the owner may read or write {path}, and this process may not change that: chmod 600 {path}",
            argument="ledger",
        ) from None
    return True


def write_durably(path: Path, content: str | bytes) -> None:
    """Replace a file as a whole, for its owner alone: written to a new file, flushed, and renamed.

    Raises
    ------
    OSError
        It cannot be written.
    """
    number, new = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)  # none that was there
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        Path(new).replace(path)
    except BaseException:
        Path(new).unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def append_line(path: Path, line: str) -> int:
    """Append a line as `append_to` does, to a file that is made where there is none; return how long it was before.

    Raises
    ------
    OSError
        It cannot be written.
    """
    number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return append_to(number, path, line)
    finally:
        os.close(number)


def append_to(number: int, path: Path, line: str) -> int:
    """Append a line durably to an open file; a part of it that was written where the rest was not is taken back.

    When this returns the line is on the disk as a whole. What an earlier call left that did not return
    (`without_torn_end`) is cut off first. The file's length after that is returned.
    """
    before, content = os.fstat(number).st_size, line.encode()
    if before and os.pread(number, 1, before - 1) != b"\n":
        found = os.pread(number, before, 0)
        whole = without_torn_end(found)
        if len(whole) < len(found):
            before = len(whole)
            os.ftruncate(number, before)
        else:  # an editor left the last line without its end
            content = b"\n" + content
    try:
        while content:
            content = content[os.write(number, content) :]
        os.fsync(number)
    except OSError:
        os.ftruncate(number, before)
        raise
    flush_folder(path.parent)
    return before


FIRST_LINE: Final = 10_000
"""Bytes that a first line of approvals or costs has at most, but for one that names hundreds of columns."""

BEGINNING: Final = b'{"request": "'
"""How the lines of approvals and of costs begin."""


def without_torn_end(content: bytes) -> bytes:
    """Return the lines of a file that `append_to` writes without a last one that was not written to its end.

    That is a beginning of such a line (`BEGINNING`) without the line's end, and zeros where a disk had not what follows
    when the power was cut. A beginning of a JSON object that is not all of it is no JSON text, so that no whole line is
    taken for one. A call of `append_to` that left one did not return: nothing was done that comes after it. What is
    neither a line nor the beginning of one stays, and is for whoever reads the file to refuse. So do zeros that are
    more than a line: they are where lines were that something was done after.
    """
    kept, newline, last = content.rpartition(b"\n")
    begun = last.rstrip(b"\0")
    if not last or not (begun.startswith(BEGINNING) or BEGINNING.startswith(begun)):
        return content
    if len(begun) < len(last) > _longest_torn(kept):
        return content
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return kept + newline
    return content


def _longest_torn(kept: bytes) -> float:
    """Return how long a line with zeros may be that was not written to its end: not as two that are there."""
    return 1.5 * max(map(len, kept.splitlines()), default=FIRST_LINE)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file that `append_to` writes, without one that was not written to its end.

    Raises
    ------
    OSError, ValueError
        It cannot be read.
    """
    return without_torn_end(path.read_bytes()).decode().splitlines()


def flush_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
