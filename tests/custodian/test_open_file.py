"""The file of a ledger that a site holds open: whole within seconds, whole when the site has ended."""

import itertools
import shutil

import hdpstats.api as hdp
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram
from tests.waiting import GENEROUS, until


def test_a_copy_of_the_file_alone_has_every_entry_soon(site, running, tmp_path):
    release = site.answer(histogram(replicate=40_001))
    log = running.ledger.with_name(f"{running.ledger.name}-wal")
    assert log.exists()
    numbers = itertools.count()

    def verified():
        copy = tmp_path / f"{next(numbers)}.db"
        shutil.copy(running.ledger, copy)
        try:
            return hdp.Ledger.open_existing(copy).verify(release.entry.head)
        except hdp.LedgerError:  # copied while the site wrote to it, or between the charge and the release
            return None

    assert until(verified, "a copy with the release", pause=0.2)


def test_a_site_that_ends_leaves_the_file_alone(institution):
    running = institution.start(institution.write("ending", PRIVATE, SCHEMA))
    with institution.connect(running) as site:
        release = site.answer(histogram())
    running.process.terminate()
    assert running.process.wait(GENEROUS) == 0
    assert sorted(path.name for path in running.ledger.parent.glob("ledger.db*")) == [
        "ledger.db",
        "ledger.db.cells.key",
    ]
    assert running.account().verify(release.entry.head)
