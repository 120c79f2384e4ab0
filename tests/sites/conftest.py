"""Five hospitals: sites in processes of their own, on loopback, with TLS and client certificates."""

import contextlib
import os
import signal
import sqlite3
from dataclasses import dataclass
from unittest import mock

import pytest

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.sites import remote
from tests.custodian.institution import Institution
from tests.custodian.people import PUBLIC, SCHEMA, people
from tests.sites.held import files
from tests.waiting import GENEROUS, LONG, until

ROWS = {"A": 400, "B": 500, "C": 300, "D": 600, "E": 700}
"""People at each site."""

FIRST = "from tests.sites import held\nheld.keep_idle_connections()\nheld.wait_before_computing({!r})"
"""What a site's process runs first, with its folder."""


@dataclass
class Hospitals:
    """The processes, and an asker's connections to them."""

    institution: Institution
    running: dict
    sites: dict
    accounts: dict

    def study(self, **options):
        """Return a study of all five."""
        return hdp.Study(private=self.sites, public=PUBLIC, **options)

    def spent(self):
        """Return the sums of what every ledger was charged."""
        return {name: account.balance.charged for name, account in self.accounts.items()}

    def signal(self, name, number):
        """Send a signal to a site's process."""
        os.kill(self.running[name].process.pid, number)

    def stop(self, name):
        """Stop a site's process, to which a connection is open."""
        self.sites[name].account()
        self.signal(name, signal.SIGSTOP)

    def kill(self, *names):
        """End processes as a crash would; a stopped one too."""
        for name in names:
            self.running[name].kill()

    def all_up(self):
        """Let stopped processes go on, and start those that ended, where they listened before."""
        for name, running in self.running.items():
            if running.process.poll() is None:
                self.signal(name, signal.SIGCONT)
            else:
                self.running[name] = self.institution.restart(running)

    def entries(self, name, kind):
        """Return the requests of all entries of a kind in a site's ledger, read from beside it."""
        path = self.running[name].ledger
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=GENEROUS)) as connection:
            found = connection.execute("SELECT request_id FROM entry WHERE kind = ? ORDER BY seq", (kind,))
            return [request for (request,) in found]

    @contextlib.contextmanager
    def held_after_charging(self, name):
        """Let a site wait once it has charged a request; yield what waits until it does."""
        hold, held = files(self.running[name].settings.parent)
        hold.touch()
        try:
            yield lambda: until(held.exists, "a request that the site has charged")
        finally:
            hold.unlink()
            held.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """The five, started together."""
    institution = Institution(tmp_path_factory.mktemp("hospitals"))
    try:
        settings = {
            name: institution.write(name, people(rows, seed=10 + place), SCHEMA, limits={"seconds": LONG})
            for place, (name, rows) in enumerate(ROWS.items())
        }
        running = {
            name: institution.launch(path, first=FIRST.format(str(path.parent))) for name, path in settings.items()
        }
        for each in running.values():
            institution.wait(each)
        with mock.patch.object(remote, "LONGEST_CONNECT", LONG):  # while a process is stopped
            sites = {name: institution.connect(each, timeout=LONG) for name, each in running.items()}
        yield Hospitals(institution, running, sites, {name: each.account() for name, each in running.items()})
        for site in sites.values():
            site.close()
    finally:
        institution.close()


@pytest.fixture
def hospitals(started):
    """The five, all up; up again afterwards, whatever was done to them."""
    started.all_up()
    yield started
    started.all_up()


@pytest.fixture
def verified(hospitals):
    """Say whether a ledger verifies up to a head, as the command line does."""

    def verify(name, head):
        path = hospitals.running[name].ledger
        return main(["ledger", "verify", str(path), "--head", head]) == 0

    return verify
