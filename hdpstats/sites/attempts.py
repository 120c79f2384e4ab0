r"""One charge, one draw: a request is computed once, whoever asks for it and however often.

A proof about a mechanism speaks of one draw: the release of the ``j``-th charge of a request is :math:`M(D, \omega_j)`,
a function of the rows ``D`` and of one random sequence :math:`\omega_j`, and over :math:`\omega_j` it is
:math:`\epsilon`-DP. Nothing follows for the *fastest* of several draws, whose time depends on the noise and on the
rows, nor for a draw *given that* it did not fail. So, from "is it stored?" to "recorded":

1. In one process a request is computed by one thread at a time; others wait for the stored release. The bits of the
   computation are kept (`hdpstats.noise.entropy.Draw`) until the release is recorded. A computation that was
   interrupted or failed goes on under its charge with the same bits: what it may release is the same as before.
2. Between processes and machines the ledger has a lease on each charge (`hdpstats.ledger.leases`). Others wait; if the
   holder is given up, the request is charged again and drawn anew, and only the holder of the latest charge can record.

*Proof.* Let a request have been charged ``J`` times when its release is recorded. What is handed out is
:math:`M(D, \omega_J)`, the :math:`\omega_j` being independent, and each of them used for one value only. All that else
depends on them is how long computations took and whether they ended: time, which is not part of this claim
(`hdpstats.custodian` bounds it by public facts). Given the times, the release is a component of
:math:`(M(D, \omega_1), \dots, M(D, \omega_J))`, which is :math:`J \epsilon`-DP by composition (Dwork et al. 2006), and
all ``J`` charges were paid for before the rows were read. A request whose computations all live has ``J = 1``.

Were each of ``k`` identical requests at once computed, and the first to finish handed out, the release would be
:math:`M(D, \omega_K)` with ``K`` the fastest draw, at the price of one.
"""

import os
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import final

from hdpstats._base.errors import ChargedAgain, Superseded
from hdpstats.ledger import Charge, Ledger, Request, StoredRelease
from hdpstats.ledger.leases import Holder, beating, given_up
from hdpstats.mechanisms.base import Prepared
from hdpstats.noise.entropy import Draw, drawing
from hdpstats.privacy.accountant import total
from hdpstats.queries import LedgerEntry, Release
from hdpstats.sites.firewall import behind_the_wall


@final
@dataclass(kw_only=True, slots=True, repr=False, eq=False)
class Attempt:
    """The computation of one request in this process: at most one thread has it, and its bits are drawn once."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    holder: Holder = field(default_factory=Holder)
    draw: Draw = field(default_factory=Draw)

    def renew(self) -> None:
        """Become another holder with other bits: what was drawn before is lost."""
        self.holder, self.draw = Holder(), Draw()


@final
class _Attempts:
    """The attempts of this process that have no release yet; a forked process begins with none."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Attempt] = {}

    def of(self, key: tuple[str, str]) -> Attempt:
        """Return the attempt of a request in a ledger, its first or the one that waits to go on."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            return self._found.setdefault(key, Attempt())

    def end(self, key: tuple[str, str], attempt: Attempt) -> None:
        """Forget an attempt whose release is recorded."""
        with self._lock:
            if self._found.get(key) is attempt:
                del self._found[key]


_ATTEMPTS = _Attempts()


def drawn_once(
    ledger: Ledger,
    request: Request,
    *,
    prepare: Callable[[], Prepared],
    compute: Callable[[Prepared], Release],
    analyst: str | None = None,
) -> StoredRelease:
    """Return the stored release of a request: charge it and compute it if it has none, or wait for who does.

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

    Raises
    ------
    HdpError
        What ``prepare`` and `hdpstats.ledger.Ledger.charge` raise; a SiteError where the computation failed.
    """
    stored = ledger.stored(request.id, analyst)
    if stored is not None:
        return stored
    prepared, key = prepare(), (ledger.place, request.id)
    while True:
        attempt = _ATTEMPTS.of(key)
        with attempt.lock:
            stored = _next(ledger, request, prepared, compute, analyst, attempt)
        if stored is not None:
            _ATTEMPTS.end(key, attempt)
            return stored


def _next(
    ledger: Ledger,
    request: Request,
    prepared: Prepared,
    compute: Callable[[Prepared], Release],
    analyst: str | None,
    attempt: Attempt,
) -> StoredRelease | None:
    """Return the stored release, or compute it, or wait for who does; None where everything is to be seen again."""
    stored = ledger.stored(request.id, analyst)
    if stored is not None:
        return stored
    cost = total(prepared.events)
    found = ledger.charge(request, cost, prepared.ahead, analyst, holder=attempt.holder)
    if not isinstance(found, Charge):
        over = given_up(found, lambda: ledger.lease(request.id))
        if over is None:
            return None
        found = ledger.charge(request, cost, prepared.ahead, analyst, holder=attempt.holder, over=over)
    stored = ledger.stored(request.id, analyst)
    if stored is not None or not isinstance(found, Charge):
        return stored
    charge = found
    with beating(partial(ledger.beat, charge)), drawing(attempt.draw):
        release = behind_the_wall(partial(compute, prepared))
    try:
        stored = ledger.persist(charge, release.to_json(), analyst)
    except Superseded:
        attempt.renew()
        return None
    return stored


def warn_if_charged_again(entry: LedgerEntry) -> None:
    """Say that a release was paid for more than once."""
    if entry.attempt > 1:
        warnings.warn(
            f"this release was charged {entry.attempt} times: a process that computed it before ended, or was not "
            "heard of for a minute, and what was charged stays charged",
            ChargedAgain,
            stacklevel=3,
        )
