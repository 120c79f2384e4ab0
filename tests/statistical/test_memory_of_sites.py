"""Neither a site's process nor its asker's grows with the number of rounds: ten thousand of them."""

import pytest

from tests.custodian.test_refusals import histogram
from tests.sites.test_memory import growth, running, sizes_in  # noqa: F401  (a fixture is found by its name)


@pytest.mark.validate
def test_ten_thousand_rounds_leave_nothing_behind(running):  # noqa: F811
    """Less than 100 bytes a round: what was answered before, with a token of its own for every request."""
    institution, process = running
    tokens = (institution.token(hours=1 + number / 10**6) for number in range(10**6))
    with institution.connect(process, token=lambda: next(tokens)) as site:
        sizes = sizes_in(10_000, lambda number: site.answer(histogram(replicate=1 + number % 5)), process.process.pid)
    print("bytes per round:", growth(sizes[0]), growth(sizes[1]))
    assert growth(sizes[0]) < 100
    assert growth(sizes[1]) < 100


@pytest.mark.validate
def test_what_new_answers_leave_is_their_entries_in_the_ledger(running):  # noqa: F811
    """A chain of hashes is in memory whole: two entries of less than 2 kB each for a new answer, and nothing else."""
    institution, process = running
    with institution.connect(process) as site:
        sizes = sizes_in(
            3_000, lambda number: site.answer(histogram(epsilon="1/1000", replicate=100 + number)), process.process.pid
        )
    print("bytes per new answer:", growth(sizes[0]), growth(sizes[1]))
    assert growth(sizes[0]) < 4_000
    assert growth(sizes[1]) < 100
