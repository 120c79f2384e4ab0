"""What one analyst takes of a site's computing, memory and tables is never what another one needs."""

import anyio
import pytest

import hdpstats.api as hdp
from hdpstats.custodian.capacity import Bytes, Capacity
from hdpstats.custodian.settings import Limits
from hdpstats.sites.messages import RequestRefused
from tests.custodian.people import PRIVATE, PUBLIC, SCHEMA


def test_an_analyst_with_many_requests_leaves_a_computing_slot_to_others():
    """Ann has five requests, none of which ends before bob has been answered."""
    order = []

    async def main():
        capacity = Capacity(Limits(computing=2, computing_each=1), ["ann", "bob"])
        answered = anyio.Event()

        async def compute(analyst, ended):
            async with capacity.computing(analyst):
                order.append(analyst)
                if analyst == "bob":
                    answered.set()
                await ended.wait()

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(compute, "ann", answered)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(compute, "bob", answered)

    anyio.run(main)
    assert order[:2] == ["ann", "bob"]
    assert order.count("ann") == 5


def test_prices_and_tables_need_no_computing_slot():
    async def main():
        capacity = Capacity(Limits(computing=1, computing_each=1), ["ann"])
        async with capacity.computing("ann"):
            return await capacity.read("ann", lambda: "cost"), await capacity.parse("ann", lambda: "table")

    assert anyio.run(main) == ("cost", "table")


def test_bytes_under_way_are_bounded_for_each_and_for_all():
    held = Bytes(Limits(query=100, public=100, bytes_each=100, bytes=150))
    with held.holding("ann") as ann, held.holding("bob") as bob:
        ann(100)
        with pytest.raises(RequestRefused, match="busy"):
            ann(1)
        bob(50)
        with pytest.raises(RequestRefused, match="busy"):
            bob(1)
        assert held.total == 150
    assert held.total == 0
    with held.holding("bob") as bob:
        bob(100)


def test_bytes_that_are_always_held_take_nothing_from_others():
    held = Bytes(Limits(query=100, public=100, bytes_each=100, bytes=150))
    with held.holding("ann") as ann, held.holding("bob") as bob:
        ann(20)
        ann(1000, always=True)
        assert held.total == 20
        with pytest.raises(RequestRefused, match="busy"):
            ann(1)  # her own part is full
        bob(100)
        with held.holding("eve") as eve:
            eve(30)
    assert held.total == 0
    with held.holding("ann") as ann:
        ann(100)


def test_requests_under_way_are_bounded_for_each():
    capacity = Capacity(Limits(requests_each=2), ["ann", "bob"])
    with capacity.request("ann"), capacity.request("ann"):
        with pytest.raises(RequestRefused, match="busy"), capacity.request("ann"):
            pass
        with capacity.request("bob"):
            pass
    with capacity.request("ann"):
        pass


def tables(count):
    return [hdp.Study(public=PUBLIC.iloc[number:], schema=SCHEMA).public for number in range(count)]


def test_one_analysts_public_tables_never_evict_anothers():
    site = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(None, dataset="d", epsilon=1))
    first, *others = tables(12)
    site.put_public(first, analyst="ann")
    for table in others:
        site.put_public(table, analyst="bob")
    assert set(site._public.of("ann")) == {first.sha256}
    assert list(site._public.of("bob")) == [table.sha256 for table in others[-8:]]
    assert not site._public.of("eve")


def test_public_tables_of_an_analyst_are_bounded_in_bytes():
    site = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(None, dataset="d", epsilon=1))
    made = tables(4)
    for table in made:
        site.put_public(table, analyst="ann", most_bytes=2 * made[0].nbytes)
    assert list(site._public.of("ann")) == [table.sha256 for table in made[-2:]]
    site.put_public(made[0], analyst="ann", most_bytes=1)
    assert list(site._public.of("ann")) == [made[0].sha256]
