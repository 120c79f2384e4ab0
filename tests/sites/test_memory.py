"""Neither a site's process nor its asker's grows with the number of rounds."""

from functools import partial

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats.schema.public import PublicTable
from tests.custodian.institution import Institution
from tests.custodian.people import PRIVATE, SCHEMA, people
from tests.custodian.test_refusals import histogram
from tests.sites import footprint

ROWS = 1500
EARLIER = 20
"""Rounds in which what a process keeps a bounded number of is first filled."""
ROUNDS = 60
TABLES = 10
"""More than a site keeps, so that each is sent again in every turn."""


@pytest.fixture
def running(tmp_path):
    """A site of its own, whose log goes nowhere near another test's, and the file in which it tells its size."""
    institution, place = Institution(tmp_path), tmp_path / "size"
    first = f"from tests.sites import footprint\nfootprint.tell_when_asked({str(place)!r})"
    try:
        yield institution, institution.start(institution.write("site", PRIVATE, SCHEMA), first=first), place
    finally:
        institution.close()


def growth(sizes):
    """Return by how many bytes a process grew per round after the earlier ones: the median over ten rounds at a time.

    It is 200 to 2,000, mostly what the C library keeps for threads. One step, as of a thread that begins late, is none.
    """
    last = np.asarray(sizes[EARLIER:], dtype=float)
    return np.median(last[TABLES:] - last[:-TABLES]) / TABLES


def sizes_in(rounds, run, *measures):
    """Return the sizes that are measured after each of so many rounds, a row for each measure."""
    found = np.ones((len(measures), rounds))  # all of it in memory before the first round
    for number in range(rounds):
        run(number)
        found[:, number] = [measure() for measure in measures]
    return found


def everything(site):
    """Return a round in which about 100 kB cross: public rows, a cost, an answer, a refusal, an account."""
    tables = [PublicTable.from_frame(people(ROWS, seed=100 + number), SCHEMA, ()) for number in range(TABLES)]

    def run(number):
        site.put_public(tables[number % TABLES])
        query = histogram(replicate=1 + number % 5)
        site.quote(query)
        site.answer(query)
        with pytest.raises(hdp.InsufficientBudget):
            site.answer(histogram(epsilon="10000", replicate=1 + number))
        site.account()

    return run


@pytest.mark.wide
def test_rounds_leave_nothing_behind(running):
    """A round's largest part, kept once in ten rounds, would be found: 10,000.

    One token serves all rounds: a site remembers the latest 256, so new ones would be growth, though a bounded one.
    """
    institution, process, place = running
    with institution.connect(process, token=institution.token(hours=24)) as site:
        of_site = partial(footprint.in_use_of, process.process.pid, place)
        sizes = sizes_in(ROUNDS, everything(site), of_site, footprint.in_use)
    assert growth(sizes[0]) < 5_000
    assert growth(sizes[1]) < 5_000
