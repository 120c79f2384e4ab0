"""The file of a ledger that a site holds open: whole within seconds, whole when the site has ended."""

import shutil
import time

import hdpstats.api as hdp
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram


def test_a_copy_of_the_file_alone_has_every_entry_soon(site, running, tmp_path):
    release = site.answer(histogram(replicate=40_001))
    log = running.ledger.with_name(f"{running.ledger.name}-wal")
    assert log.exists()
    deadline = time.monotonic() + 20
    while True:
        copy = tmp_path / f"{time.monotonic_ns()}.db"
        shutil.copy(running.ledger, copy)
        found = hdp.Ledger.open_existing(copy).history("ann")["entry"]
        if release.entry.number in set(found):
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert hdp.Ledger.open_existing(copy).verify(release.entry.head)


def test_a_site_that_ends_leaves_the_file_alone(institution):
    running = institution.start(institution.write("ending", PRIVATE, SCHEMA))
    with institution.connect(running) as site:
        release = site.answer(histogram())
    running.process.terminate()
    assert running.process.wait(40) == 0
    assert sorted(path.name for path in running.ledger.parent.glob("ledger.db*")) == ["ledger.db"]
    assert running.account().verify(release.entry.head)
