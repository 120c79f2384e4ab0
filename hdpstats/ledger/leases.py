"""Who computes a charged request: one computation at a time, and none that was given up.

A charge is for one draw of a mechanism. Whoever charges a request first holds the *lease* on it, and everybody else
waits for the stored release. A holder that is at work says so every few seconds (a *beat*). One whose process has
ended, or that has not said so for a minute of the waiting computation's own clock, is given up: the request is charged
again, as its next attempt, to another holder. Only the holder of the latest charge can record a release, so a holder
that was given up too early (a laptop that slept) finds its number superseded and its draw is lost, never seen.

Leases are no part of the chain of entries: they say nothing of what was spent. Whoever may alter them in the database
can cause another charge, or let two computations run under one charge, of which the first to end is recorded: give the
right to update the table ``lease`` to sites only.

References
----------
C. Gray, D. Cheriton (1989), Leases: an efficient fault-tolerant mechanism for distributed file cache consistency.
"""

import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import final

from sqlalchemy import Connection, bindparam, insert, select, update

from hdpstats.ledger.records import Charge, Lease
from hdpstats.ledger.store import LEASE

BEAT = 10.0
"""Seconds between two beats of a holder."""

LAPSE = 60.0
"""Seconds without a beat after which a holder is given up."""

PAUSE = 0.25
"""Seconds between two looks at a lease."""

_OF_CHARGE = (LEASE.c.request_id == bindparam("request")) & (LEASE.c.attempt == bindparam("number"))
_READ = select(LEASE).where(_OF_CHARGE)
_BEAT = update(LEASE).where(_OF_CHARGE).values(beats=LEASE.c.beats + 1)


def this_process() -> str:
    """Name this process so that others on this machine can find out whether it has ended."""
    return f"{_machine()} {os.getpid()} {_started(os.getpid())}"


def has_ended(process: str) -> bool:
    """Whether a process is known to have ended: it was on this machine, and is there no more (Linux only).

    Where the processes of others are hidden (``/proc`` mounted with ``hidepid``) only their number is looked up.
    """
    machine, _, rest = process.partition(" ")
    number, _, started = rest.partition(" ")
    if not (sys.platform == "linux" and machine == _machine() and number.isdecimal()):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return _started(int(number)) not in (started, None)


@cache
def _machine() -> str:
    """Name this machine since its last start, and the name space of its process numbers."""
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{started}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return f"{uuid.getnode():x}"


def _started(process: int) -> str | None:
    """Return when a process began, in ticks of this machine; empty for one that only waits to be forgotten, or None."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return None


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """One computation that may hold leases: a name that nobody else has, and its process."""

    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    process: str = field(default_factory=this_process)


@cache
def _holder_of(_process: int) -> Holder:
    return Holder()


def own_holder() -> Holder:
    """Return what this process holds leases as where nobody is named; a forked process is another holder."""
    return _holder_of(os.getpid())


def read_lease(connection: Connection, charge: Charge) -> Lease | None:
    """Return the lease on a charge."""
    key = {"request": charge.request_id, "number": charge.attempt}
    row = connection.execute(_READ, key).mappings().one_or_none()
    return None if row is None else Lease(**row)


def write_lease(connection: Connection, charge: Charge, holder: Holder) -> None:
    """Let a holder compute a charge that was just made."""
    lease = Lease(request_id=charge.request_id, attempt=charge.attempt, holder=holder.name, process=holder.process)
    connection.execute(insert(LEASE), asdict(lease))


def add_beat(connection: Connection, charge: Charge) -> None:
    """Say that the holder of a charge is still at work."""
    connection.execute(_BEAT, {"request": charge.request_id, "number": charge.attempt})


def given_up(lease: Lease, look: Callable[[], Lease | None], *, patient: bool = False) -> Lease | None:
    """Wait for a holder. Return its lease where it is given up, None where there is nothing more to wait for.

    Parameters
    ----------
    lease
        What was found.
    look
        Returns the lease on the latest charge of the request as it is now, None once there is a release.
    patient
        Whether only a minute without a beat counts, not that the process seems to have ended: for one who was given up
        wrongly, so that two who take each other for dead do not go on charging over each other.
    """
    seen, since = lease, monotonic()
    while (patient or not has_ended(seen.process)) and monotonic() - since < LAPSE:
        sleep(PAUSE)
        now = look()
        if now is None or now.attempt != lease.attempt:
            return None
        if now != seen:
            seen, since = now, monotonic()
    return seen


@contextmanager
def beating(beat: Callable[[], None], at_work: Callable[[], bool]) -> Iterator[None]:
    """Say every few seconds that the holder is at work, for as long as it is; what fails is tried again.

    ``at_work`` is asked before each beat: an interrupt may come between any two steps, also of what ends the beats.
    """
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(BEAT) and at_work():
            with suppress(Exception):
                beat()

    try:
        threading.Thread(target=keep, name="hdpstats lease", daemon=True).start()
        yield
    finally:
        ended.set()
