"""What a site's process does for tests: it waits between charge and release, or keeps idle connections for long."""

from pathlib import Path

from hdpstats.custodian import http_connection
from hdpstats.sites import LocalSite
from tests.waiting import LONG, until


def keep_idle_connections():
    """Let the site of this process answer what comes over a connection that was idle as long as it was stopped."""
    http_connection.IDLE = LONG


def files(folder):
    """Return the file that has a site wait, and the one that says that it does."""
    return Path(folder, "hold"), Path(folder, "held")


def wait_before_computing(folder):
    """Let the sites of this process wait, once a request is charged, until the first file is gone."""
    hold, held = files(folder)
    compute = LocalSite._compute

    def waits(self, *arguments):
        if hold.exists():
            held.touch()
            until(lambda: not hold.exists(), "the end of a wait")
        return compute(self, *arguments)

    LocalSite._compute = waits
