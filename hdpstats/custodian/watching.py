"""A folder that is polled: request files that come into it are answered, and release files put into another.

::

    INBOX/ann/any-name.json    a request of the analyst ann, signed or not
    INBOX/any-name.json        a signed request; or any, where there is one analyst
    OUTBOX/ann/SHA256.json     the release file of the request with this SHA-256
    OUTBOX/ann/SHA256.refused.json    why it was refused: one of the service's codes, and public numbers

Whatever carries files between these folders and analysts (a mounted share, an object store's client, a courier) must
keep what is in an analyst's folder for that analyst. Names of files in INBOX mean nothing, but for those that begin
with a dot or do not end in ``.json``, which are left alone: write a file under such a name, and rename it (``hdpstats
request`` does). Only ordinary files are read, and no link is followed in either folder below its top. INBOX is not
written to.

It is the verb of `hdpstats.custodian.answering`: the same checks, charges and files. Where the settings ask approval, a
request waits in INBOX until somebody approves it (``hdpstats site approve``). A file that was looked at is looked at
again when it changes, and by a process that starts anew; what was answered is handed out again for nothing. Where
OUTBOX cannot be used, a file or an analyst's key not be read now, or the ledger, the place of its head or another file
of the site's state not be used, nothing is refused: the log says why, and the file is looked at again at the next look.
After the data have got another version, or the site other terms, requests that were answered before wait for an
approval, and so does one that was charged in vain too often (`hdpstats.custodian.request_costs.CARRIED_AGAIN`). So does
what was refused, as long as its refusal lies in OUTBOX and its file was not written since: a larger cap, or another
account, charges nobody for what was refused before. Which requests wait, and why, is in the log and in
``site.waiting.json``. A process that receives SIGTERM or SIGINT ends when the request is answered that it is at.
Several processes may watch the same folders; they take turns.

**What an analyst sees.** A release or a refusal, and when it appears in OUTBOX. Answers end at slots, as at the
service, so that this follows from public facts and from what was released; the requests of one analyst wait for those
of others, each analyst's in turn: the first of each folder that is to be looked at, then the second of each. Where
processes ended within a day while they answered an analyst's, as they do that take more memory than there is, those of
the others come before in each round, from one listing of INBOX to the next: at least the first of each, so that a
process that is started anew reaches them, and then at least the first of each analyst for whom one ended, however many
the others send.
"""

import json
import math
import os
import re
import signal
import stat
import threading
import time
import uuid
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import compress, zip_longest
from operator import not_
from pathlib import Path
from typing import Final, final

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import real
from hdpstats._base.work import Prices
from hdpstats.custodian import log
from hdpstats.custodian.answering import Exchange, FewerAnswers, is_of_site, kept_for_last
from hdpstats.custodian.approvals import Approval, NotApproved
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.files import StateError, write_durably
from hdpstats.custodian.kept_head import held_open
from hdpstats.custodian.senders import sender_of
from hdpstats.custodian.settings import SiteSettings
from hdpstats.exchange import ReleaseFile, RequestFile
from hdpstats.exchange.files import Unreadable, read_bytes
from hdpstats.exchange.release_file import refusal_json
from hdpstats.sites.messages import NUMBERS, code_of
from hdpstats.sites.site import HeldData

SAFE: Final = re.compile(r"[A-Za-z0-9@_+-][A-Za-z0-9@._+-]*")
"""Names of analysts that are names of folders too."""

MOST_FILES: Final = 10_000
"""Files of a folder that wait for their turn at once: the rest come after them."""

MOST_LISTED: Final = 100_000
"""Files of a folder that are listed, with those that were looked at: the rest wait until some are removed."""

LISTED: Final = 1.0
"""Seconds after which the folders are listed again, once each had its turn."""

COMPUTED: Final = 600.0
"""Seconds after which a request is looked at again that waits as a query of it has no release: it may have one then."""

_TICK: Final = 2 * 10**9
"""Nanoseconds: the coarsest step of times of files that a file system has (FAT)."""

_DAY: Final = 24 * 3600 * 10**9
"""Nanoseconds by which clocks of computers differ at most: a file of a later time does not say when it was written."""

_WRITTEN: Final = 3
"""Where the time of its last change is in the mark of a file."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A file in the inbox.

    Attributes
    ----------
    folder : str
        The analyst whose folder it is in, empty for the inbox itself.
    name : str
        Its name.
    mark : tuple of int
        What changes where another file has the name, or it is written again.
    """

    folder: str
    name: str
    mark: tuple[int, int, int, int, int]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A request that waits for an approval, or for another one than it has, and why; or until some time of the clock.

    What others were charged has no release as long as it is computed, too: it is looked at again.
    """

    sha256: str
    analyst: str
    approval: Approval | None
    why: str
    until: float


@final
class Watch:
    """Two folders, and the site that answers between them.

    Parameters
    ----------
    settings
        Of the site; read once.
    inbox, outbox
        The folders, which exist.
    prices, clock
        Those of this machine.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        A folder is none, an analyst's name is none of a folder, or the site cannot be opened.
    """

    def __init__(
        self,
        settings: SiteSettings,
        inbox: Path,
        outbox: Path,
        *,
        prices: Prices | None = None,
        clock: Clock = Clock(),  # noqa: B008  (frozen)
    ) -> None:
        for path, name in ((inbox, "inbox"), (outbox, "outbox")):
            if not path.is_dir():
                raise ArgumentError(f"{name} must be a folder; there is none at {path}", argument=name)
        strange = [name for name in settings.analysts if not SAFE.fullmatch(name)]
        if strange:
            raise ArgumentError(
                f"analysts: {strange[0]!r} is no name of a folder: letters, digits and @ . _ + - only, no dot first",
                argument="analysts",
            )
        self._settings, self._inbox, self._outbox = settings, inbox, outbox
        self._exchange, self._clock = Exchange(settings, prices=prices, clock=clock), clock
        self._done: set[Found] = set()
        self._waiting: dict[Found, Waiting] = {}
        self._failing: dict[Found, str] = {}
        self._crowded: set[str] = set()
        self._told = ""
        self._ended = threading.Event()

    def end(self) -> None:
        """End after the request that is answered now."""
        self._ended.set()

    def run(self, every: float) -> None:
        """Look into the inbox every so many seconds, until `end` is called."""
        while not self._ended.is_set():
            self.sweep()
            self._ended.wait(every)

    def sweep(self) -> int:
        """Answer the requests that are in the inbox and were not looked at; return how many were read and are done.

        What waits afterwards, and why, is kept for the custodian (`hdpstats.custodian.overview`).
        """
        try:
            return self._look()
        finally:
            self._tell()

    def _look(self) -> int:
        answered, seen = 0, set[Found]()
        while any(turns := self._turns(seen)):
            listed = self._clock.now()
            for group in turns:  # the others', then those kept for last: each has one turn at least
                for turn in group:
                    for file in turn:
                        if self._ended.is_set():
                            return answered
                        seen.add(file)
                        answered += self._handle(file)
                    if self._clock.now() - listed > LISTED:  # others may have asked meanwhile
                        break
        return answered

    def _turns(self, seen: Container[Found]) -> tuple[list[list[Found]], list[list[Found]]]:
        """Return the files in the inbox that are to be looked at, and those that are kept for last.

        Of both the first of each folder, the second of each, ...
        """
        folders = ["", *self._settings.analysts]
        try:
            with _opened(self._inbox) as top:
                listed = [_listed(name, top, self._done, seen) for name in folders]
        except OSError as error:  # of a share that is away: it comes back
            log.write(failed=f"the inbox cannot be looked at: {error.strerror}")
            return [], []
        found = {file for each in listed for file in (*each.pending, *each.passed)}
        self._done &= found
        self._waiting = {file: asked for file, asked in self._waiting.items() if file in found}
        self._failing = {file: why for file, why in self._failing.items() if file in found}
        crowded = {name for name, each in zip(folders, listed, strict=True) if each.is_cut}
        for name in sorted(crowded - self._crowded):
            log.write(
                folder=name,
                failed=f"it has more than {MOST_FILES} new files, or {MOST_LISTED} in all: some wait; remove old ones",
            )
        self._crowded, pending = crowded, [each.pending for each in listed]
        last = kept_for_last(self._settings)
        late = [bool(last) if not name else name in last for name in folders]
        return _in_turn(compress(pending, map(not_, late))), _in_turn(compress(pending, late))

    def _handle(self, file: Found) -> bool:
        """Answer one request, let it wait for its approval, or refuse it; whatever it is, others go on."""
        try:
            return self._handled(file)
        except Exception as error:  # of what the folders do: it is looked at again
            self._fails(file, log.cause(error))
            return False

    def _fails(self, file: Found, why: str) -> None:
        """Say in the log, once, why a file is looked at again."""
        if self._failing.get(file) != why:
            log.write(request="file", found=file.name[:100], folder=file.folder, failed=why)
        self._failing[file] = why

    def _handled(self, file: Found) -> bool:
        """Return whether a file was a request, and is answered or refused."""
        asked, name, approval, waiting = None, "", None, self._waiting.get(file)
        try:
            if waiting is not None and self._waits(waiting):
                return False
            asked = self._read(file)
            name = sender_of(self._settings, asked, file.folder or None)
            approval = self._exchange.approval(asked.sha256, name)  # before: one that comes meanwhile is seen
            made = self._made(file, asked, name)
        except NotApproved as error:
            if asked is not None:
                until = self._clock.now() + (COMPUTED if error.facts.get("computed") else math.inf)
                self._waiting[file] = Waiting(
                    sha256=asked.sha256, analyst=name, approval=approval, why=str(error), until=until
                )
                if waiting is None or waiting.why != str(error):
                    log.write(
                        request="file", found=file.name[:100], sha256=asked.sha256, analyst=name, waits=str(error)
                    )
            return False
        except FewerAnswers as error:
            log.write(request="file", found=file.name[:100], sha256=asked and asked.sha256, stays=str(error))
            written = True
        except HdpError as error:
            if is_of_site(error) or isinstance(error, Unreadable):  # it comes back
                self._fails(file, str(error))
                return False
            code = str(error.facts.get("code", code_of(error)))
            written = self._refuse(file, asked, name, code, why=log.cause(error), numbers=error.facts)
        except Exception as error:
            written = self._refuse(file, asked, name, "failed", why=log.cause(error), numbers={})
        else:
            written = self._put(name, f"{asked.sha256}.json", made.to_json() + "\n")
            self._remove(name, f"{asked.sha256}.refused.json")
        self._waiting.pop(file, None)
        if written:
            self._done.add(file)
        return asked is not None

    def _made(self, file: Found, asked: RequestFile, name: str) -> ReleaseFile:
        """Return the answer to a request; a copy of one that has its answer in the outbox takes nobody's time."""
        if self._is_answered(asked.sha256, name):
            raise FewerAnswers("it was answered before, and its answer is in the outbox")
        refused = self._was_refused(file, asked.sha256, name)
        before = partial(self._answers_before, asked.sha256, name)
        return self._exchange.answer(asked, analyst=name, carried=True, refused=refused, before=before)

    def _waits(self, waiting: Waiting) -> bool:
        """Whether nothing happened that a request waits for."""
        early = self._clock.now() < waiting.until
        return early and self._exchange.approval(waiting.sha256, waiting.analyst) == waiting.approval

    def _was_refused(self, file: Found, sha256: str, analyst: str) -> bool:
        """Whether the outbox has a refusal of a request whose file was not written since.

        A file of a time more than a day ahead does not say when it was written, and its refusal may have no such time:
        it holds.

        Raises
        ------
        StateError
            The outbox cannot be looked at.
        """
        try:
            with _opened(self._outbox) as top, suppress(FileNotFoundError), _below(analyst, top) as folder:
                since = os.stat(f"{sha256}.refused.json", dir_fd=folder, follow_symlinks=False).st_mtime_ns
                return file.mark[_WRITTEN] <= since or file.mark[_WRITTEN] > time.time_ns() + _DAY
        except OSError as error:
            message = f"outbox: it cannot be looked at ({log.cause(error)}); nothing was charged"
            raise StateError(message, argument="outbox") from None
        return False

    def _tell(self) -> None:
        """Keep which requests wait, and why, for who asks how the site stands."""
        found = sorted({(each.sha256, each.analyst, each.why) for each in self._waiting.values()})
        told = json.dumps([{"request": sha256, "analyst": name, "why": why} for sha256, name, why in found])
        if told == self._told:
            return
        try:
            write_durably(self._settings.waiting, told)
            self._told = told
        except OSError as error:
            log.write(failed=f"what waits cannot be kept in {self._settings.waiting}: {error.strerror}")

    def _is_answered(self, sha256: str, analyst: str) -> bool:
        """Whether this process has answered a request to its end, and the outbox still has the answer: it is a copy."""
        ledger = self._exchange.ledger
        held = HeldData(dataset=ledger.dataset, version=ledger.version, account=ledger.identity)
        known = (sha256, analyst) in self._exchange.ended
        return known and self._answers_before(sha256, analyst, held) is not None

    def _answers_before(self, sha256: str, analyst: str, held: HeldData | None = None) -> int | None:
        """Return how many answers the file in the outbox has, of whatever version of the data; None where none is."""
        with suppress(OSError), _opened(self._outbox) as top, _below(analyst, top) as folder:
            return ReleaseFile.answers_at(f"{sha256}.json", request=sha256, held=held, folder=folder)
        return None

    def _read(self, file: Found) -> RequestFile:
        """Read a request.

        Raises
        ------
        Unreadable
            The system does not read it now.
        HdpError
            It is none.
        """
        try:
            with _opened(self._inbox) as top, _below(file.folder, top) as folder:
                content = read_bytes(file.name, name="request", folder=folder)
        except OSError as error:
            raise Unreadable(f"inbox: it cannot be looked at: {error.strerror}", argument="inbox") from None
        asked = RequestFile.from_bytes(content, place=file.name)
        log.write(request="file", found=file.name[:100], folder=file.folder, sha256=asked.sha256)
        return asked

    def _refuse(
        self, file: Found, asked: RequestFile | None, analyst: str, code: str, *, why: str, numbers: dict[str, object]
    ) -> bool:
        """Write a refusal to the log and, where it is known whose request it is, into the outbox: whether it could."""
        log.write(request="file", found=file.name[:100], folder=file.folder, analyst=analyst, refused=code, why=why)
        if asked is None or not analyst:
            return True
        public = {name: number for name, number in numbers.items() if name in NUMBERS}
        refusal = refusal_json(asked.sha256, code, public) + "\n"
        return self._put(analyst, f"{asked.sha256}.refused.json", refusal, since=file.mark[_WRITTEN])

    def _put(self, analyst: str, name: str, text: str, *, since: int = 0) -> bool:
        """Put a file into an analyst's folder of the outbox as a whole, for its owner and its group, if it can.

        It says to be written no earlier than at ``since``, if its file system has that time: another computer may have
        another clock, or coarser times.
        """
        try:
            with _opened(self._outbox) as top:
                with suppress(FileExistsError):
                    os.mkdir(analyst, 0o750, dir_fd=top)
                with _below(analyst, top) as folder:
                    _write(name, text, folder, since=since)
        except OSError as error:
            log.write(failed=f"{name} was not written: {error.strerror}; the same request again costs nothing")
            return False
        return True

    def _remove(self, analyst: str, name: str) -> None:
        """Remove a refusal that no longer holds."""
        with suppress(OSError), _opened(self._outbox) as top, _below(analyst, top) as folder:
            os.unlink(name, dir_fd=folder)


def watch(settings: SiteSettings, inbox: Path, outbox: Path, *, every: float = 5.0) -> None:
    """Answer request files as they come into a folder, until this process receives SIGTERM or SIGINT.

    See `hdpstats.custodian.watching`. The log goes to standard error, one JSON line an event.

    Parameters
    ----------
    settings
        Of the site.
    inbox, outbox
        The folders.
    every
        Seconds between two looks, from 0.1 to 3600.
    """
    pause = real(every, name="every", lower=0.1, upper=3600.0)
    watching = Watch(settings, inbox, outbox)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watching.end())
    log.write(event="watching", inbox=str(inbox), outbox=str(outbox))
    with held_open(settings.ledger.place):
        watching.run(pause)
    log.write(event="ended")


def _write(name: str, text: str, folder: int, *, since: int) -> None:
    """Replace a file of an open folder as a whole; of processes of several computers each has a name of its own."""
    new = f".{name}.{uuid.uuid4().hex}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(new, flags, 0o640, dir_fd=folder), "wb") as file:
            file.write(text.encode())
            file.flush()
            if since:
                _date(file.fileno(), since)
            os.fsync(file.fileno())
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
    os.fsync(folder)


def _date(file: int, since: int) -> None:
    """Let an open new file be written no earlier than at a time; where there is none so late, a day from now at most.

    Raises
    ------
    OSError
        The file system takes no time.
    """
    now = os.fstat(file).st_mtime_ns
    exact, capped = (-(-max(at, now) // _TICK) * _TICK for at in (since, min(since, now + _DAY)))
    try:
        os.utime(file, ns=(exact, exact))
    except (OSError, OverflowError, ValueError):
        os.utime(file, ns=(capped, capped))


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Give the number of an open folder."""
    number = os.open(path, _FOLDER)
    try:
        yield number
    finally:
        os.close(number)


@contextmanager
def _below(name: str, top: int) -> Iterator[int]:
    """Give the number of a folder in an open one, or that one where there is no name; no link is followed."""
    if not name:
        yield top
        return
    number = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=top)
    try:
        yield number
    finally:
        os.close(number)


def _in_turn(listed: Iterable[list[Found]]) -> list[list[Found]]:
    """Return the first file of each list, then the second of each, ..."""
    return [[file for file in turn if file is not None] for turn in zip_longest(*listed)]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """The ordinary files of a folder that may be requests.

    Attributes
    ----------
    pending : list of Found
        Those that are to be looked at, the oldest first.
    passed : list of Found
        Those that were looked at.
    is_cut : bool
        Whether there are more.
    """

    pending: list[Found]
    passed: list[Found]
    is_cut: bool


def _listed(folder: str, top: int, done: Container[Found], seen: Container[Found]) -> Listed:
    """Return the files of a folder; those that were looked at take nobody's place."""
    pending, passed, is_cut = list[Found](), list[Found](), False
    with suppress(OSError), _below(folder, top) as number, os.scandir(number) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.endswith(".json"):
                continue
            if len(pending) >= MOST_FILES or len(pending) + len(passed) >= MOST_LISTED:
                is_cut = True
                break
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                    file = Found(folder=folder, name=entry.name, mark=mark)
                    (passed if file in done or file in seen else pending).append(file)
    return Listed(pending=sorted(pending, key=_age), passed=passed, is_cut=is_cut)


def _age(file: Found) -> tuple[int, str]:
    return file.mark[_WRITTEN], file.name
