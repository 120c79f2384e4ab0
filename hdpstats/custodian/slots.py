"""Answers that leave at fixed slots, whatever private rows and noise make of the computation.

From an analyst's request to the answer:

1. what he has received before is handed out at once: he learns nothing new from it;
2. the seconds of the answer are predicted (`hdpstats.custodian.prediction`), and multiplied by a factor for what else
   the machine does, and rounded up to a grid; where they exceed the limit, the query is refused;
3. the query is charged; now its slot begins;
4. the private computation runs in the slot. What it found, or that it failed, stays with its thread until the slot is
   over (`hdpstats.custodian.clock.paced`). Only then is it recorded in the ledger, its place among computations given
   to the next one, and the answer sent.

While a slot of an analyst is under way, no response to him begins (`Slots.quiet`): how fast a site answers his other
requests would show when the computation ends. What is sent to him without this wait: a refusal of who asks (401) and of
an address that there is not (404), the refusal of a request that is no HTTP, ``100 Continue``, the handshakes of TLS,
and the rest of a long response that began before.

Predictions are made while no slot is under way, one at a time (`hdpstats.custodian.clock.Turns`).

How often an analyst's answers took longer than predicted is kept in a file beside the settings (``site.overruns.db``
for ``site.yaml``), so that a new start forgets nothing, and not in the ledger, whose entries analysts can ask for.
Counts stay until the custodian acts: `hdpstats site resume SITE.YAML --analyst NAME`.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import final

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.custodian import journal
from hdpstats.custodian.clock import Clock, Turns, on_grid, paced
from hdpstats.custodian.prediction import MOST_CELLS, Predictions, predict
from hdpstats.custodian.settings import Timing
from hdpstats.records.query import Query, Release
from hdpstats.sites import LocalSite
from hdpstats.sites.forms import RequestRefused, code_of

_TABLE = "CREATE TABLE IF NOT EXISTS overruns (analyst TEXT PRIMARY KEY, number INTEGER NOT NULL)"
_ADD = "INSERT INTO overruns VALUES (?, 1) ON CONFLICT (analyst) DO UPDATE SET number = number + 1"


@final
class Overruns:
    """The overruns of each analyst since the custodian last looked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch(mode=0o600)
            with self._connected() as connection:
                connection.execute(_TABLE)
        except (OSError, sqlite3.Error):
            message = f"overruns are counted in {path}, which cannot be written: let the site write beside its settings"
            raise ArgumentError(message, argument="settings") from None

    def of(self, analyst: str) -> int:
        """Return an analyst's number."""
        with self._connected() as connection:
            row = connection.execute("SELECT number FROM overruns WHERE analyst = ?", (analyst,)).fetchone()
        return 0 if row is None else int(row[0])

    def add(self, analyst: str) -> None:
        """Count one; durable when this returns."""
        with self._connected() as connection:
            connection.execute(_ADD, (analyst,))

    def clear(self, analyst: str) -> int:
        """Forget an analyst's overruns, and return how many there were."""
        number = self.of(analyst)
        with self._connected() as connection:
            connection.execute("DELETE FROM overruns WHERE analyst = ?", (analyst,))
        return number

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=60.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            yield connection


@final
class Slots:
    """Predicts what an answer takes, and lets it leave at a slot."""

    def __init__(self, site: LocalSite, timing: Timing, *, overruns: Overruns, clock: Clock) -> None:
        self._site, self._timing, self._overruns, self._clock = site, timing, overruns, clock
        self._predictions, self._turns = Predictions(), Turns()

    def seconds(self, query: Query, *, analyst: str) -> float:
        """Return how long after its charge a query is answered, a function of public facts.

        Raises
        ------
        RequestRefused
            It is longer than the custodian allows (by the seconds that are said or more: no rehearsal goes on once that
            is known), or the computation fails on invented rows.
        HdpError
            The query is refused, as `hdpstats.sites.LocalSite.answer` would before it charges.
        """
        slot = self._slot(self._predictions.of(analyst, query, lambda: self._predicted(query, analyst)))
        if slot > self._timing.longest:
            raise RequestRefused("too-long", seconds=round(slot, 3), limit=self._timing.longest)
        return slot

    def answer(self, query: Query, *, analyst: str) -> tuple[Release, bool]:
        """Return a release, and whether it left at a slot: at once where the analyst has received it before.

        Raises
        ------
        RequestRefused
            The analyst is stopped, or the answer would take too long. Nothing was charged.
        HdpError
            The site refuses, or the computation failed, which is known at its slot.
        """
        release = self._site.received(query, analyst=analyst)
        if release is not None:
            return release, False
        if self._overruns.of(analyst) >= self._timing.overruns:
            raise RequestRefused("stopped")
        seconds, begun = self.seconds(query, analyst=analyst), self._clock.now()
        release = self._site.answer(query, analyst=analyst, pace=lambda: self._in_slot(query, analyst, seconds))
        self._clock.wait_until(begun + seconds)  # also where it had been computed for somebody else
        return release, True

    @contextmanager
    def _in_slot(self, query: Query, analyst: str, seconds: float) -> Iterator[None]:
        """Run the private computation in its slot, which begins when no rehearsal is under way.

        An overrun is counted only if no other analyst's slot was under way at the time: his computation may have been
        why, and nobody is stopped because of somebody else.
        """
        with self._turns.slot(analyst) as slot:

            def late(slots: int) -> None:
                counted = not slot.shared
                if counted:
                    self._overruns.add(analyst)
                journal.write(analyst=analyst, overrun=query.kind, predicted=seconds, slots=slots, counted=counted)

            with paced(self._clock, seconds, late=late):
                yield

    async def quiet(self, analyst: str) -> None:
        """Return when the private computations of an analyst that run now have come to their slots."""
        for ended in self._turns.under_way(analyst):
            await asyncio.wrap_future(ended)

    def _slot(self, seconds: float) -> float:
        return on_grid(self._timing.factor * seconds, grid=self._timing.grid)

    def _predicted(self, query: Query, analyst: str) -> float:
        site = self._site
        site.quote(query, analyst=analyst)  # what is refused without a rehearsal waits for no turn
        with self._turns.rehearsal():
            try:
                return predict(
                    lambda rows: site.rehearsal(query, rows=rows, analyst=analyst),
                    site.records * site.most_rows,
                    each=site.most_rows,
                    most=MOST_CELLS // max(len(site.schema), 1),
                    clock=self._clock,
                    too_long=lambda seconds: self._slot(seconds) > self._timing.longest,
                )
            except HdpError as error:
                journal.write(analyst=analyst, rehearsal=query.kind, failed=journal.cause(error))
                raise RequestRefused(code_of(error)) from None
