"""Memory that grows with one person's rows would be an exception, sooner or later, that tells of them."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hdpstats.families import base
from hdpstats.families.hazard import bounds
from hdpstats.families.hazard.bounds import HazardPeople
from hdpstats.families.regression.bounds import RegressionPeople
from hdpstats.losses import LogisticLoss
from tests.unit.solvers.capped_problems import capped

MEGABYTE = 2**20


def peak(compute: Callable[[], object]) -> int:
    """Return the most bytes that a computation holds at a time."""
    tracemalloc.start()
    try:
        compute()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def followed(spells: int, *, p: int = 48) -> HazardPeople:
    """Return people of whom the first has ``spells`` spells, one interval each, and the others have one."""
    many = capped(1, m=spells + 20, q=6, p=p, whole=True)
    entry = np.concatenate([np.arange(spells) % 6, np.zeros(20, dtype=np.int64)])
    many = replace(many, entry=entry, last=entry + 1, cause=np.zeros(spells + 20, dtype=np.int64))
    person = np.concatenate([np.zeros(spells, dtype=np.int64), np.arange(1, 21)])
    return HazardPeople(spells=many, person=person, number=21)


def test_hessians_of_one_person_with_many_spells_need_no_more_memory() -> None:
    theta = np.full(50, 0.1)

    def compute(spells: int) -> Callable[[], object]:
        people = followed(spells)
        return lambda: people.stacked_hessian(theta, grid=2.0**-20)

    # 4000 Hessians of 50 x 50 doubles would be 80 megabytes.
    assert peak(compute(4000)) < peak(compute(1)) + 40 * MEGABYTE


def test_hessians_of_rows_are_not_held_together() -> None:
    n, D = 20_000, 60
    rng = np.random.default_rng(2)
    people = RegressionPeople(
        loss=LogisticLoss(), X=rng.standard_normal((n, D)), y=np.ones(n), weights=np.ones(n), offset=np.zeros(n)
    )
    # 20,000 times 1830 doubles would be 290 megabytes.
    assert peak(lambda: people.stacked_hessian(np.full(D, 0.1), grid=2.0**-20)) < 60 * MEGABYTE


@pytest.mark.parametrize("numbers", [1, 100, 5000])
def test_pieces_of_any_size_give_the_same_integers(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    theta, grid = np.linspace(-0.5, 0.5, 6), 2.0**-45
    people = followed(50, p=4)
    rng = np.random.default_rng(3)
    rows = RegressionPeople(
        loss=LogisticLoss(), X=rng.standard_normal((70, 6)), y=np.ones(70), weights=np.ones(70), offset=np.zeros(70)
    )
    whole = people.stacked_hessian(theta, grid=grid), rows.stacked_hessian(theta, grid=grid)
    monkeypatch.setattr(bounds, "NUMBERS", numbers)
    monkeypatch.setattr(base, "NUMBERS", numbers)
    assert np.array_equal(people.stacked_hessian(theta, grid=grid), whole[0])
    assert np.array_equal(rows.stacked_hessian(theta, grid=grid), whole[1])
