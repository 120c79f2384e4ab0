r"""One charge, one draw: a request is computed once, whoever asks for it and however often.

A proof about a mechanism speaks of one draw: the release of the ``j``-th charge of a request is :math:`M(D, \omega_j)`,
a function of the rows ``D`` and of one random sequence :math:`\omega_j`, and over :math:`\omega_j` it is
:math:`\epsilon`-DP. Nothing follows for the *fastest* of several draws, whose time depends on the noise and on the
rows, nor for a draw *given that* it did not fail. So, from "is it stored?" to "recorded":

1. In one process a request is computed by one thread at a time; others wait for the stored release. The bits of the
   computation are kept (`hdpstats.noise.exact.Draw`) until the release is recorded. A computation that was
   interrupted or failed goes on under its charge with the same bits: what it may release is the same as before.
2. Between processes and machines the ledger has a lease on each charge (`hdpstats.ledger.leases`). Others wait; if the
   holder is given up, the request is charged again and drawn anew, and only the holder of the latest charge can record.

*Proof.* Let a request have been charged ``J`` times when its release is recorded. What is handed out is
:math:`M(D, \omega_J)`, the :math:`\omega_j` being independent, each of them used for this request of this account only.
What else depends on them and on ``D`` is how long computations took, and whether they ended. The claim rests on the
assumption that this shows no more than the values do: that :math:`(M(D, \omega_j), \text{ended in time})` is as private
as :math:`M(D, \omega_j)` (`hdpstats.custodian` bounds time by public facts; a computation that one record makes fail
is a defect of its mechanism). Then the release is chosen from :math:`(M(D, \omega_1), \dots, M(D, \omega_J))`, which is
:math:`J \epsilon`-DP by composition (Dwork et al. 2006), and all ``J`` charges were made before the rows were read,
by the account and by every analyst who receives the release out of his cap. A request whose computations all live has
``J = 1``.

Were each of ``k`` identical requests at once computed, and the first to finish handed out, the release would be
:math:`M(D, \omega_K)` with ``K`` the fastest draw, at the cost of one.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, final

from hdpstats._base.errors import ArgumentError, BudgetError, ChargedAgain, NothingCharged, SiteError, Superseded
from hdpstats._base.no_warnings import silence
from hdpstats.ledger import Charge, Ledger, Request, StoredRelease
from hdpstats.ledger.leases import Holder, beating, given_up
from hdpstats.mechanisms.base import Prepared
from hdpstats.noise.exact import Draw, drawing
from hdpstats.privacy.budget import total
from hdpstats.records.query import LedgerEntry, Release

T = TypeVar("T")

REFUSAL = (
    "the private computation did not complete; the budget stays charged. The same request may be sent again: it goes "
    "on under its charge, with the noise that it had"
)
"""The one text for every failure of a private computation."""


@final
@dataclass(kw_only=True, slots=True, repr=False, eq=False)
class Attempt:
    """The computation of one request in this process: at most one thread has it, and its bits are drawn once.

    Attributes
    ----------
    lock : Lock
        Held by the thread that computes, whose number is ``thread``.
    holder : Holder
        What holds the lease in the ledger.
    draw : Draw
        The bits.
    number : int
        The number of the charge that they were drawn for, 0 before there is one.
    charging : bool
        Whether the ledger may hold a charge for it that has no release.
    threads : int
        How many threads have it or wait for it.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: int = 0
    holder: Holder = field(default_factory=Holder)
    draw: Draw = field(default_factory=Draw)
    number: int = 0
    charging: bool = False
    threads: int = 0

    def begin(self, charge: Charge) -> Draw:
        """Return the bits of a charge: another charge has other ones."""
        if self.number not in (0, charge.attempt):
            self.draw = Draw()
        self.number = charge.attempt
        return self.draw

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other thread computes the request."""
        if self.lock.locked() and self.thread == threading.get_ident():
            raise SiteError("this request is being computed by this very thread; ask it when that has ended")
        with self.lock:
            self.thread = threading.get_ident()
            try:
                yield
            finally:
                self.thread = 0


Key = tuple[tuple[str, str], str]
"""An account in a place, and a request."""


@final
class _Attempts:
    """The attempts of this process that were charged and have no release yet; a forked process begins with none."""

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin with none."""
        self._lock, self._found = threading.Lock(), dict[Key, Attempt]()
        self._process = os.getpid()  # last: a thread that sees it sees the others

    @contextmanager
    def of(self, key: Key) -> Iterator[Attempt]:
        """Give the attempt of a request in a ledger, its first or the one that waits to go on; forget it afterwards.

        It stays where it was charged and has no release, or where another thread has it or waits for it.
        """
        if self._process != os.getpid():  # forked where Python did not see it, as R's mclapply does
            self.forget()
        with self._lock:
            attempt = self._found.setdefault(key, Attempt())
            attempt.threads += 1
        try:
            yield attempt
        finally:
            with self._lock:
                attempt.threads -= 1
            if not attempt.charging:
                self.end(key)

    def number(self, key: Key) -> int:
        """Return the number of the charge that the attempt of a request has bits for, 0 where there is none."""
        if self._process != os.getpid():
            return 0
        with self._lock:
            attempt = self._found.get(key)
        return 0 if attempt is None else attempt.number

    def end(self, key: Key) -> None:
        """Forget the attempt of a request, unless a thread has it."""
        with self._lock:
            attempt = self._found.get(key)
            if attempt is not None and not attempt.threads:
                del self._found[key]


_ATTEMPTS = _Attempts()


def held_charge(ledger: Ledger, request: Request) -> int:
    """Return the number of a request's charge whose bits this process holds, 0 where it holds none.

    As long as it is the latest one, going on under it charges nothing.
    """
    return _ATTEMPTS.number((ledger.place, request.id))


def drawn_once(
    ledger: Ledger,
    request: Request,
    *,
    prepare: Callable[[], Prepared],
    compute: Callable[[Prepared], Release],
    analyst: str | None = None,
    in_vain: int | None = None,
) -> tuple[StoredRelease, bool]:
    """Return the stored release of a request: charge it and compute it if it has none, or wait for who does.

    With it, whether the ledger had it before, charged to the analyst: to him, what was computed for somebody else is as
    new as any other release, since he is not shown that anybody asked.

    Parameters
    ----------
    ledger
        The account that is charged.
    request
        What is asked.
    prepare
        Checks what can be checked without a row; called only where there is no stored release.
    compute
        Computes the release from private rows, with noise; called with the bits of this request's draw in use.
    analyst
        Who receives the release.
    in_vain
        How many charges of the request may have no release, or nothing is charged; None for any number.

    Raises
    ------
    HdpError
        What ``prepare`` and `hdpstats.ledger.Ledger.charge` raise; a SiteError where the computation failed.
    """
    key, patient = (ledger.place, request.id), False
    stored = ledger.stored(request.id, analyst)
    if stored is not None:
        _ATTEMPTS.end(key)  # of which an interrupt after the record may have left something
        return stored, True
    prepared = prepare()
    while stored is None:
        with _ATTEMPTS.of(key) as attempt, attempt.alone(), ledger.room() as room:
            outcome = _charged(ledger, request, prepared, analyst, attempt, patient=patient, in_vain=in_vain)
            if isinstance(outcome, Charge):
                draw = attempt.begin(outcome)
                with beating(partial(ledger.beat, outcome), attempt.lock.locked), drawing(draw):
                    release = errors_scrubbed(partial(compute, prepared))
                if not draw.is_here():
                    raise SiteError("the process was forked while it computed; its parent goes on")
                with suppress(Superseded):
                    stored = ledger.persist(outcome, release.to_json(), analyst, room)
            else:
                stored = outcome
            attempt.charging = attempt.charging and stored is None
            patient = patient or bool(attempt.number)
        if stored is None:
            stored = ledger.stored(request.id, analyst)
            if stored is not None:
                _ATTEMPTS.end(key)  # another computation recorded it: the bits of this one are of no use any more
    return stored, False


def _charged(
    ledger: Ledger,
    request: Request,
    prepared: Prepared,
    analyst: str | None,
    attempt: Attempt,
    *,
    patient: bool,
    in_vain: int | None,
) -> Charge | StoredRelease | None:
    """Return the charge to compute for, or the stored release, or wait for who computes.

    None where everything is to be seen again.
    """
    cost, holder = total(prepared.events), attempt.holder
    charging = partial(ledger.charge, request, cost, prepared.ahead, analyst, holder=holder, in_vain=in_vain)
    before, attempt.charging = attempt.charging, True  # an interrupt may come when the charge is written
    try:
        outcome = charging()
        if not isinstance(outcome, Charge):
            attempt.charging = before  # nothing was written
            over = given_up(outcome, partial(ledger.lease, request.id), patient=patient)
            if over is None:
                return None
            attempt.charging = True
            outcome = charging(over=over)
    except (BudgetError, NothingCharged, ArgumentError, ArithmeticError):  # nothing was written
        attempt.charging = before
        raise
    stored = ledger.stored(request.id, analyst)
    return outcome if stored is None and isinstance(outcome, Charge) else stored


def errors_scrubbed(compute: Callable[[], T]) -> T:
    """Run a computation on private rows; replace whatever it raises by one fixed error without cause or context.

    The error is raised outside the handler, so that neither its context nor its frames lead to the data. Ctrl-C is
    passed on, bare.
    """
    interrupted = False
    try:
        with silence():
            return compute()
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:  # noqa: S110  (nothing may pass)
        pass
    del compute
    if interrupted:
        raise KeyboardInterrupt
    raise SiteError(REFUSAL)


def warn_if_charged_again(entry: LedgerEntry) -> None:
    """Say that a release was charged more than once."""
    if entry.attempt > 1:
        warnings.warn(
            f"this release was charged {entry.attempt} times: a process that computed it before ended, or was not "
            "heard of for a minute, and what was charged stays charged",
            ChargedAgain,
            stacklevel=3,
        )
