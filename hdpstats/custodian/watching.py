"""A folder that is polled: request files that come into it are answered, and release files put into another.

::

    INBOX/ann/any-name.json    a request of the analyst ann, signed or not
    INBOX/any-name.json        a signed request; or any, where there is one analyst
    OUTBOX/ann/SHA256.json     the release file of the request with this SHA-256
    OUTBOX/ann/SHA256.refused.json    why it was refused: one of the service's codes, public numbers, and whether a
                                      query of it was charged; where it is known whose request it is

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
So it is where the site has not enough memory outside of the analyst's own code and of the private computation, up to
`ENDED` times while a request is read or answered. What fails in the private computation (for lack of memory too, or as
the system starts no further thread) is refused after its charge, which stays.
After the data have got another version, or the site other terms, requests that were answered before wait for an
approval, and so does one that was charged in vain too often (`hdpstats.custodian.request_costs.CARRIED_AGAIN`). So does
what was refused, as long as its refusal lies in OUTBOX and its file has no later time than that, unless somebody
approved it, before or since: a larger cap, or another account, charges nobody for what was refused before. Which
requests wait, and why, is in the log and in ``site.waiting.json``. A process that receives SIGTERM or SIGINT ends when
the request is answered that it is at. Several processes may watch the same folders; they take turns.

**What an analyst sees.** A release or a refusal, and when it appears in OUTBOX. Answers end at slots, as at the
service, so that this follows from public facts and from what was released; the requests of one analyst wait for those
of others, each analyst's in turn, in rounds, from one listing of INBOX to the next: the first of each folder that is to
be looked at, then, while there is time (`ROUND`), the second of each. In a folder new files come before those that were
looked at, and of these the one that was longest ago. A process that is started anew goes on in each folder after the
file that was read last there, as ``site.turns.json`` says, and comes to the earlier ones afterwards: that file may have
ended the process, and earlier ones may be answered. So nobody's files, new or written again however often, keep
another folder's from their turn. Where processes ended within a day while they read or answered an analyst's, as they
do that take more memory than there is, those of the others come before in each round: at least the first of each, so
that processes that are started anew reach one file of each after another, and then at least the first of each analyst
for whom one ended, the one first for whom that was longest ago.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final, final

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import real
from hdpstats._base.work import Prices
from hdpstats.custodian import log
from hdpstats.custodian.answering import ENDED, Exchange, FewerAnswers, comes_again, counting_ends, kept_for_last
from hdpstats.custodian.approvals import Approval, NotApproved
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.files import StateError, held_alone, write_durably
from hdpstats.custodian.kept_head import held_open
from hdpstats.custodian.senders import sender_of
from hdpstats.custodian.settings import SiteSettings
from hdpstats.exchange import ReleaseFile, RequestFile, RequestName
from hdpstats.exchange.files import Unreadable, read_bytes
from hdpstats.sites.messages import code_of
from hdpstats.sites.site import HeldData

SAFE: Final = re.compile(r"[A-Za-z0-9@_+-][A-Za-z0-9@._+-]*")
"""Names of analysts that are names of folders too."""

MOST_LISTED: Final = 100_000
"""Files of a folder that are listed, with those that were looked at: the rest wait until some are removed."""

ROUND: Final = 1.0
"""Seconds after which a round ends, once each folder had its turn: others may have asked meanwhile."""

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
        self._after = _turns(settings.turns)
        self._done: set[Found] = set()
        self._waiting: dict[Found, Waiting] = {}
        self._failing: dict[Found, str] = {}
        self._looked: dict[Found, int] = {}  # by the number of its last look, of all looks
        self._looks, self._is_cut = 0, False
        self._crowded: set[str] = set()
        self._ended = threading.Event()

    def end(self) -> None:
        """End after the request that is answered now."""
        self._ended.set()

    def run(self, every: float) -> None:
        """Look into the inbox every so many seconds, and at once where new files had no turn, until `end` is called."""
        while not self._ended.is_set():
            self.sweep()
            if not self._is_cut:
                self._ended.wait(every)

    def sweep(self) -> int:
        """Give the files that are in the inbox and not done a round; return how many were read and are done.

        What waits afterwards, and why, is kept for the custodian (`hdpstats.custodian.overview`).
        """
        answered, self._is_cut = 0, False
        try:
            answered = self._round()
            self._tell()
        except (OSError, MemoryError) as error:  # of a share that is away, or of this machine: they come back
            with suppress(MemoryError):
                why = getattr(error, "strerror", None) or log.cause(error)
                log.write(failed=f"the inbox cannot be looked at, or what waits not be kept: {why}")
        return answered

    def _round(self) -> int:
        """Look at the files of one listing: at the first of each folder, and at others while there is time."""
        answered, groups = 0, self._turns()
        listed = self._clock.now()
        for group in groups:  # the others', then those kept for last: each has one turn at least
            for turn in group:
                for file in turn:
                    if self._ended.is_set():
                        return answered
                    answered += self._handle(file)
                if self._clock.now() - listed > ROUND:
                    break
        self._is_cut = any(file not in self._looked for group in groups for turn in group for file in turn)
        return answered

    def _turns(self) -> tuple[list[list[Found]], list[list[Found]]]:
        """Return the files in the inbox that are to be looked at, and those that are kept for last.

        Of both the first of each folder, the second of each, ...; of those that are kept for last the folder first for
        which the last process ended longest ago. In each folder new files come first, the oldest before others, but
        those first that come after the one that an earlier process read last; and then those that were looked at, the
        one first that was longest ago.

        Raises
        ------
        OSError
            The inbox cannot be looked at.
        """
        folders = ["", *self._settings.analysts]
        with _opened(self._inbox) as top:
            listed = [_listed(name, top) for name in folders]
        found = {file for each in listed for file in each}
        self._done &= found
        for kept in (self._waiting, self._failing, self._looked):
            for file in kept.keys() - found:
                del kept[file]
        crowded = {name for name, each in zip(folders, listed, strict=True) if len(each) > MOST_LISTED}
        for name in sorted(crowded - self._crowded):
            log.write(folder=name, failed=f"it has more than {MOST_LISTED} files: some wait; remove old ones")
        self._crowded = crowded
        rest = ([file for file in each[:MOST_LISTED] if file not in self._done] for each in listed)
        pending = {name: sorted(each, key=self._place) for name, each in zip(folders, rest, strict=True)}
        last = kept_for_last(self._settings)
        if last:
            last[""] = max(last.values())
        late = sorted(pending.keys() & last.keys(), key=lambda name: (last[name], name))
        return (
            _in_turn(each for name, each in pending.items() if name not in last),
            _in_turn(pending[name] for name in late),
        )

    def _place(self, file: Found) -> tuple[int, bool, int, str]:
        """Return the place of a file in its folder."""
        written, last = file.mark[_WRITTEN], self._after.get(self._turn(file))
        is_earlier = last is not None and (written, file.name) <= last
        return self._looked.get(file, 0), is_earlier, written, file.name

    def _turn(self, file: Found) -> str:
        """Return the name of a file's folder in the file of turns: another watch may have another inbox."""
        return os.path.realpath(self._inbox / file.folder)

    def _takes_turn(self, file: Found) -> None:
        """Keep that a file is read now, for a process that starts anew; where that cannot be kept, nothing is."""
        turns = _turns(self._settings.turns) | {self._turn(file): (file.mark[_WRITTEN], file.name)}
        with suppress(OSError, MemoryError):
            write_durably(self._settings.turns, json.dumps(turns))

    def _handle(self, file: Found) -> bool:
        """Answer one request, let it wait for its approval, or refuse it; whatever it is, others go on."""
        self._looks += 1
        self._looked[file] = self._looks
        try:
            return self._handled(file)
        except Exception as error:  # of the site, or of what the folders do: it is looked at again
            self._fails(file, log.cause(error))
            return False

    def _fails(self, file: Found, why: str) -> None:
        """Say in the log, once, why a file is looked at again."""
        if self._failing.get(file) != why:
            log.write(request="file", found=file.name[:100], folder=file.folder, failed=why)
        self._failing[file] = why

    def _handled(self, file: Found) -> bool:
        """Return whether a file was a request, and is answered or refused.

        Raises
        ------
        HdpError, MemoryError
            The site cannot use what it needs now, or the system does not read the file: nothing is refused.
        """
        asked, name, approval, waiting = None, "", None, self._waiting.get(file)
        if waiting is not None and self._waits(waiting):
            return False
        self._takes_turn(file)  # before: reading it may end the process
        content = self._read(file)
        named = RequestName.of(content)
        try:
            with ExitStack() as turn:  # until what it leads to is written
                try:
                    name = sender_of(self._settings, named, file.folder or None)
                    turn.enter_context(held_alone(self._settings.answering))  # as `taking_turns` does
                    turn.enter_context(counting_ends(self._settings, named.sha256, name, most=ENDED))
                    log.write(request="file", found=file.name[:100], folder=file.folder, sha256=named.sha256)
                    asked = RequestFile.from_bytes(content, place=file.name)
                    del content  # which may be long
                    approval = self._exchange.approval(asked.sha256, name)  # before: one that comes meanwhile is seen
                    made = self._made(file, asked, name).to_json()
                except FewerAnswers as error:
                    log.write(request="file", found=file.name[:100], sha256=named.sha256, stays=str(error))
                    written = True
                except HdpError as error:
                    if comes_again(error):
                        raise
                    code = str(error.facts.get("code", code_of(error)))
                    whose = name if asked is not None or code == "ended" else ""  # else it is no request
                    written = self._refuse(file, named.sha256, whose, code, why=log.cause(error), facts=error.facts)
                except MemoryError:  # of the site: the analyst's own code fails in other words
                    raise
                except Exception as error:
                    whose = name if asked is not None else ""
                    written = self._refuse(file, named.sha256, whose, "failed", why=log.cause(error), facts={})
                else:
                    written = self._put(name, f"{named.sha256}.json", made + "\n")
                    self._remove(name, f"{named.sha256}.refused.json")
        except NotApproved as error:
            until = self._clock.now() + (COMPUTED if error.facts.get("computed") else math.inf)
            self._waiting[file] = Waiting(
                sha256=named.sha256, analyst=name, approval=approval, why=str(error), until=until
            )
            if waiting is None or waiting.why != str(error):
                log.write(request="file", found=file.name[:100], sha256=named.sha256, analyst=name, waits=str(error))
            return False
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
        try:
            write_durably(self._settings.waiting, told)
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

    def _read(self, file: Found) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        Unreadable
            The system does not read it now.
        """
        try:
            with _opened(self._inbox) as top, _below(file.folder, top) as folder:
                return read_bytes(file.name, name="request", folder=folder)
        except OSError as error:
            raise Unreadable(f"inbox: it cannot be looked at: {error.strerror}", argument="inbox") from None

    def _refuse(
        self, file: Found, sha256: str, analyst: str, code: str, *, why: str, facts: Mapping[str, object]
    ) -> bool:
        """Write a refusal to the log and, where it is known whose request it is, into the outbox: whether it could.

        Raises
        ------
        LedgerError
            The costs of its queries (`StateError`) or the ledger cannot be read.
        """
        log.write(request="file", found=file.name[:100], folder=file.folder, analyst=analyst, refused=code, why=why)
        if not analyst:
            return True
        refusal = self._exchange.refusal(sha256, analyst, code, facts) + "\n"
        return self._put(analyst, f"{sha256}.refused.json", refusal, since=file.mark[_WRITTEN])

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


def _turns(place: Path) -> dict[str, tuple[int, str]]:
    """Return when the file was written that was read last in each folder, and its name; nothing where none is kept."""
    try:
        turns = json.loads(place.read_bytes())
        return {str(folder): (int(written), str(name)) for folder, (written, name) in turns.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def _in_turn(listed: Iterable[list[Found]]) -> list[list[Found]]:
    """Return the first file of each list, then the second of each, ..."""
    return [[file for file in turn if file is not None] for turn in zip_longest(*listed)]


def _listed(folder: str, top: int) -> list[Found]:
    """Return the ordinary files of a folder that may be requests: one more than `MOST_LISTED` where there are more."""
    found = list[Found]()
    with suppress(OSError), _below(folder, top) as number, os.scandir(number) as entries:
        for entry in entries:
            if len(found) > MOST_LISTED:
                break
            if entry.name.startswith(".") or not entry.name.endswith(".json"):
                continue
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                    found.append(Found(folder=folder, name=entry.name, mark=mark))
    return found
