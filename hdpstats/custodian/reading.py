"""Files that a site is given: who may read and write them; sections of settings, each entry known and of its type."""

import errno
import grp
import os
import pwd
import stat
import tempfile
from abc import ABC
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import exact
from hdpstats.ledger.location import MOUNTS, locate, mount_points
from hdpstats.schema.dictionary import UniqueKeys

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITING = stat.S_IWGRP | stat.S_IWOTH
_LONGEST = 4096
"""Parts of a path that are looked at, with those of links on the way: links that go in a circle have an end."""


def mode_of(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def check_secret(path: Path, *, name: str) -> None:
    """Refuse a file that others may read, write or replace: a private key, private rows, a password.

    Besides the owner, the group may read a file of root's: root gave it to the group, which the user of this process
    belongs to, or to the list of users (ACL) that a mode shows as a group. On a file system in memory that is mounted
    read-only everybody may read: it holds the secrets of one container or service (Kubernetes, systemd), which nobody
    else sees. In a folder of the service's own group (`is_of_own_group`) that group may do anything.
    """
    check_folder(path, name=name)
    found = _found(path, name=name)
    if found is None:
        return
    others = _beyond_group(path, found) & _OTHERS
    if others and _of_one_service(path, found):
        others &= _WRITING
    elif found.st_uid in _roots():
        others &= ~stat.S_IRGRP
    if others:
        raise ArgumentError(
            f"{name}: others than the owner may read or write {path} (mode {stat.S_IMODE(found.st_mode):04o}); it must "
            f"be its owner's alone: chmod 600 {path}; or root's, for a group to read: chown root {path}, chmod 640 "
            f"{path}",
            argument=name,
        )


def is_of_own_group(folder: os.stat_result) -> bool:
    """Whether a folder was given to a group that this process has and, as far as the system knows, nobody else.

    It has the setgid bit, so that what is made in it is of the same group: no accident of a umask. Kubernetes gives a
    volume in this way to the one group of a pod (``fsGroup``), and lets the group write all files in it. Users who are
    in the group by a directory that the system does not list (LDAP) are not seen.
    """
    group = folder.st_gid
    if not (
        stat.S_ISDIR(folder.st_mode) and folder.st_mode & stat.S_ISGID and group in {os.getegid(), *os.getgroups()}
    ):
        return False
    with suppress(KeyError):  # a group without a name has no members
        if not {_number(name) for name in grp.getgrgid(group).gr_mem} <= {0, os.geteuid()}:
            return False
    return {each.pw_uid for each in pwd.getpwall() if each.pw_gid == group} <= {0, os.geteuid()}


def _number(user: str) -> int | None:
    with suppress(KeyError):
        return pwd.getpwnam(user).pw_uid
    return None


def _beyond_group(path: Path, found: os.stat_result) -> int:
    """Return the permission bits of a file, without those of a group that counts as the service's own."""
    mode = stat.S_IMODE(found.st_mode)
    folder = Path(os.path.realpath(path)).parent.stat()
    own = folder.st_gid == found.st_gid and is_of_own_group(folder)
    return mode & ~stat.S_IRWXG if own else mode


def _roots() -> set[int]:
    """Return root, and the owner of the root of the file system, whoever it is in a container."""
    return {0, os.stat("/").st_uid}


def _found(path: Path, *, name: str) -> os.stat_result | None:
    """Return what the system says of a file, None where there is none."""
    try:
        return path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise ArgumentError(
            f"{name}: {path} cannot be looked at ({error.strerror}): let the user of this process, number "
            f"{os.geteuid()}, reach it",
            argument=name,
        ) from None


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _is_mounted(path: Path) -> bool:
    """Whether something is mounted at a place, given without links."""
    with suppress(OSError):
        return os.fsencode(path) in mount_points(MOUNTS.read_bytes())
    return False


def _of_one_service(path: Path, found: os.stat_result) -> bool:
    """Whether a file is in a file system in memory that this process sees read-only."""
    if not _is_read_only(path):
        return False
    device = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
    with suppress(OSError):
        return device_kind(MOUNTS.read_bytes(), device) in ("tmpfs", "ramfs")
    return False


def device_kind(mounts: bytes, device: str) -> str | None:
    """Return the kind of file system on a device, as ``/proc/self/mountinfo`` says it; None where it is not mounted.

    >>> device_kind(b"36 35 0:42 / /run/secrets ro,relatime - tmpfs tmpfs rw,size=64k", "0:42")
    'tmpfs'
    """
    for line in mounts.decode("utf-8", "replace").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2:3] == [device]:
            return after.split()[0]
    return None


def check_trusted(path: Path, *, name: str, alone: bool = False) -> None:
    """Refuse a file that others may write or replace: what a site relies on must be its custodian's own words."""
    check_folder(path, name=name, alone=alone)
    found = _found(path, name=name)
    if found is not None and _beyond_group(path, found) & _WRITING:
        raise ArgumentError(
            f"{name}: others than the owner may write {path} (mode {mode_of(path):04o}), so that it may not say what "
            f"the custodian wrote: look at it, and chmod go-w {path}",
            argument=name,
        )


def check_folder(path: Path, *, name: str, alone: bool = False) -> None:
    """Refuse a file that others than this process's user and root own, or may replace.

    All folders and links are looked at that the system goes through to the file. In a folder with the sticky bit nobody
    may replace what others own, but everybody may add files. ``alone`` refuses such a folder for the file itself (not
    above it): it is for files that the site writes, and for databases, which are read with a journal beside them; but
    nobody adds files where the file system is read-only. A folder of root's that is itself mounted, read-only, may have
    any mode: it is a volume of a container, and nobody writes in it (those of Kubernetes have mode 0777). The owner of
    the root of the file system, whoever it is in a container, counts as root. A group that this process has alone may
    write in a folder with the setgid bit (`is_of_own_group`).
    """
    owners = _roots() | {os.geteuid()}
    way = tuple(_way(path))
    beside = {way[-1].parent, tuple(_way(path.absolute().parent))[-1]} if alone else set()
    for place in dict.fromkeys(way):
        try:
            found = place.lstat()
        except OSError as error:  # it is not there, or nobody gets as far as the file
            if isinstance(error, FileNotFoundError) and place != way[-1]:
                raise ArgumentError(
                    f"{name}: there is no folder {place} on the way to {path}, so that others might make one: make it "
                    "first, for the user of this process",
                    argument=name,
                ) from None
            continue
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid not in owners:
            raise ArgumentError(
                f"{name}: {place} belongs to another user (number {found.st_uid}), who may so write or replace {path}: "
                f"look at what is there, and chown it to the user of this process, number {os.geteuid()}, or to root",
                argument=name,
            )
        shared = stat.S_ISDIR(found.st_mode) and mode & (stat.S_IWOTH if is_of_own_group(found) else _WRITING)
        kept = mode & stat.S_ISVTX and (place not in beside or _is_read_only(place))
        if shared and not (kept or (found.st_uid in _roots() and _is_read_only(place) and _is_mounted(place))):
            raise ArgumentError(
                f"{name}: others than the owner may write in {place} (mode {mode:04o}), and so replace {path} or put "
                f"files beside it: look at what is there, and chmod go-w {place}, or use a folder of its own",
                argument=name,
            )


def _way(path: Path) -> Iterator[Path]:
    """Yield what the system looks up on the way to a file: folders from the root on, links, and where they point to."""
    place, left = Path("/"), list(reversed(path.absolute().parts[1:]))
    yield place
    for _ in range(_LONGEST):
        if not left:
            return
        part = left.pop()
        place = place.parent if part == ".." else place / part
        yield place
        with suppress(OSError):  # no link
            target = Path(os.readlink(place))
            whole = target.is_absolute()
            place = Path("/") if whole else place.parent
            left += reversed(target.parts[1:] if whole else target.parts)


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
    if not (path.exists() and _beyond_group(path, path.stat()) & _OTHERS):
        return False
    try:
        path.chmod(mode_of(path) & ~_OTHERS)
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
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Section(BaseModel, ABC):
    """Entries of the settings with a name each: all of them known, and of their types; what is left out has a default.

    Its types say what a value may be; paths are relative to the folder of the settings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    @classmethod
    def read(cls, entries: object, *, name: str, file: Path | None = None) -> Self:
        """Return the entries of a section in a settings file.

        Raises
        ------
        ArgumentError
            An entry is missing, unknown or of the wrong type. It quotes no value.
        """
        try:
            return cls.model_validate(entries, context=file)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
        raise ArgumentError("; ".join(_in_words(name, each["loc"], each["msg"]) for each in found), argument=name)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, entries: Any) -> Any:
        if not isinstance(entries, Mapping) or not all(isinstance(key, str) for key in entries):
            raise ValueError("must be a mapping from names to values")
        options = [field.alias or name for name, field in cls.model_fields.items()]
        strange = [repr(key) for key in entries if key not in options]
        if strange:
            raise ValueError(f"must not have {', '.join(strange)}; known are {', '.join(sorted(options))}")
        return entries


def _in_words(name: str, path: tuple[int | str, ...], message: str) -> str:
    """Return what is wrong with an entry, in the words of this package's errors."""
    words = message.removeprefix("Value error, ")
    for theirs, ours in (("Input should", "must"), ("String should", "must"), ("Field required", "is missing")):
        words = words.replace(theirs, ours)
    return f"{': '.join(map(str, path or (name,)))} {words}"


def in_folder(value: object, info: ValidationInfo) -> Path:
    """Return a path of the settings, which is relative to their folder."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be the name of a file")
    return (info.context or Path("settings")).resolve().parent / value


def existing(value: object, info: ValidationInfo) -> Path:
    """Return the path of a file that is there."""
    path = in_folder(value, info)
    try:
        if path.is_file():
            return path
    except OSError as error:
        raise ValueError(f"must be a file that this process reaches; {path}: {error.strerror}") from None
    raise ValueError(f"must be a file; there is none at {path}")


def trusted(value: object, info: ValidationInfo, *, name: str) -> Path:
    """Return the path of a file that is there and that others may not write."""
    path = existing(value, info)
    check_trusted(path, name=name)
    return path


def _amount(value: object) -> Fraction:
    """Return an exact number; ``1e-6``, which YAML takes for a text, too."""
    try:
        return exact(Decimal(value) if isinstance(value, str) else value, name="it")
    except InvalidOperation:
        raise ValueError("must be a number") from None


File = Annotated[Path, BeforeValidator(existing)]
Amount = Annotated[Fraction, BeforeValidator(_amount)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def read_yaml(path: Path) -> Any:
    """Read a YAML document without entries that are given twice; else raise an `ArgumentError`."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeys)  # noqa: S506  (a SafeLoader)
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ArgumentError(f"the settings {path} cannot be read: {error}", argument="settings") from None


def with_password(url: str, variable: str | None) -> str:
    """Return a database URL with the password that an environment variable holds, if one is named."""
    if variable is None:
        return url
    word = os.environ.get(variable)
    if word is None:
        raise ValueError(f"password_variable names {variable!r}, which is not in the environment; set it")
    return locate(url).set(password=word).render_as_string(hide_password=False)
