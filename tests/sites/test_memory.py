"""Neither a site's process nor its asker's grows with the number of rounds."""

import os
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats.schema.public import PublicTable
from tests.custodian.institution import Institution
from tests.custodian.people import PRIVATE, SCHEMA, people
from tests.custodian.test_refusals import histogram

ROWS = 1500
TABLES = 10
"""More than a site keeps, so that each is sent again in every turn."""


@pytest.fixture
def running(tmp_path):
    """A site of its own, whose log goes nowhere near another test's."""
    institution = Institution(tmp_path)
    try:
        yield institution, institution.start(institution.write("site", PRIVATE, SCHEMA))
    finally:
        institution.close()


def resident(process):
    """Return the resident size of a process in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(sizes):
    """Return by how many bytes a process grew per round over the last half of rounds: a least squares line."""
    last = np.asarray(sizes[len(sizes) // 2 :], dtype=float)
    return np.polyfit(np.arange(len(last)), last, 1)[0]


def sizes_in(rounds, run, process):
    """Return the sizes of a site's process and of this one after each of so many rounds."""
    found = np.ones((2, rounds))  # all of it in memory before the first round
    for number in range(rounds):
        run(number)
        found[:, number] = resident(process), resident(os.getpid())
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


def test_rounds_leave_nothing_behind(running):
    """A round's largest part, kept once in ten rounds, would be found."""
    institution, process = running
    with institution.connect(process) as site:
        sizes = sizes_in(160, everything(site), process.process.pid)
    assert growth(sizes[0]) < 10_000
    assert growth(sizes[1]) < 10_000
