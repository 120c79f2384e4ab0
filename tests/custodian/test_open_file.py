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

    def copied():
        copy = tmp_path / f"{next(numbers)}.db"
        shutil.copy(running.ledger, copy)
        try:
            ledger = hdp.Ledger.open_existing(copy)
            return ledger if release.entry.number in set(ledger.history("ann")["entry"]) else None
        except hdp.LedgerError:  # it was copied while the site wrote to it
            return None

    assert until(copied, "a copy with the entry", pause=0.2).verify(release.entry.head)


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
