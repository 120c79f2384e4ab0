"""Five hospitals: sites in processes of their own, on loopback, with TLS and client certificates."""

import contextlib
import os
import signal
import sqlite3
from dataclasses import dataclass

import pytest

import hdpstats.api as hdp
from hdpstats.cli import main
from tests.custodian.institution import PATIENT, Institution
from tests.custodian.people import PUBLIC, SCHEMA, people
from tests.waiting import GENEROUS, until

ROWS = {"A": 400, "B": 500, "C": 300, "D": 600, "E": 3_000}
"""People at each site."""

SLOW = {"timing": PATIENT | {"grid": 0.1}}
"""Settings of E: a tenth of a second from charge to release, long enough to be met at work."""


@dataclass
class Hospitals:
    """The processes, and an asker's connections to them."""

    institution: Institution
    running: dict
    sites: dict

    def study(self, **options):
        """Return a study of all five."""
        return hdp.Study(private=self.sites, public=PUBLIC, **options)

    def spent(self):
        """Return the sums of what every ledger was charged."""
        return {name: running.account().balance.charged for name, running in self.running.items()}

    def signal(self, name, number):
        """Send a signal to a site's process."""
        os.kill(self.running[name].process.pid, number)

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

    def stop_between_charge_and_release(self, name):
        """Stop a site's process as soon as it has charged a new request; say whether its release was still to come."""
        before = len(self.entries(name, "charge"))
        until(lambda: len(self.entries(name, "charge")) > before, "a question to the site", pause=0.002)
        self.signal(name, signal.SIGSTOP)
        return set(self.entries(name, "charge")) > set(self.entries(name, "release"))


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """The five, started together."""
    institution = Institution(tmp_path_factory.mktemp("hospitals"))
    try:
        running = {
            name: institution.launch(
                institution.write(name, people(rows, seed=10 + place), SCHEMA, **(SLOW if name == "E" else {}))
            )
            for place, (name, rows) in enumerate(ROWS.items())
        }
        for each in running.values():
            institution.wait(each)
        sites = {name: institution.connect(each) for name, each in running.items()}
        yield Hospitals(institution, running, sites)
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
