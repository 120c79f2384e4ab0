"""A site's process that waits between charge and release as long as a file is there."""

from pathlib import Path

from hdpstats.sites import LocalSite
from tests.waiting import until


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
