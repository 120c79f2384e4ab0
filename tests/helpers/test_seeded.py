"""The source of noise in tests: the same bytes each time, and other bytes for every thread, process and test."""

import os
import threading
from types import SimpleNamespace

import pytest

from hdpstats.noise import exact
from tests import seeded

DRAWN = []


@pytest.fixture
def source():
    return seeded.Source("a seed")


def test_bytes_are_those_of_the_seed_and_the_name(source):
    with source.named("one"):
        first = source(100)
        assert source(100) != first
    with source.named("two"):
        assert source(100) != first
    with seeded.Source("another seed").named("one"):
        assert source(100) != first
    other = seeded.Source("a seed")
    with other.named("one"):
        assert b"".join(other(count) for count in (1, 0, 7, 92)) == first
        assert len(other(3 * seeded.BLOCK)) == 3 * seeded.BLOCK


def test_a_name_within_a_name_takes_nothing_from_it(source):
    with source.named("outer"):
        whole = source(20)
    with source.named("outer"):
        begun = source(5)
        with source.named("inner"):
            assert source(20) != whole
        assert begun + source(15) == whole


def test_threads_have_streams_of_their_own_that_depend_on_no_other(source):
    def run(slow):
        found, gate = {}, threading.Event()

        def work(name):
            if name == slow:
                gate.wait(60)
            found[name] = source(50)

        module = SimpleNamespace(system_bytes=None)
        with source.installed(module), source.named("test"):
            before = source(10)
            threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
            for thread in threads:
                thread.start()
            for name, thread in enumerate(threads):
                if name != slow:
                    thread.join(60)
            gate.set()
            threads[slow].join(60)
            found["main"] = before + source(40)
        return found

    first, second = run(0), run(2)
    assert first == second
    assert len(set(first.values())) == 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_reads_the_operating_system_s_entropy(source):
    reader, writer = os.pipe()
    with source.named("test"):
        expected = source(32)
    with source.named("test"):
        if (child := os.fork()) == 0:
            os.write(writer, source(32))
            os._exit(0)
        assert source(32) == expected
    os.waitpid(child, 0)
    assert os.read(reader, 32) not in (expected, b"")


def test_it_is_in_force_and_draws_are_the_same_for_a_test_each_time(request):
    if not seeded.INSTALLED:
        assert request.config.getoption("--system-entropy")
        return
    assert exact.system_bytes is seeded.INSTALLED[-1]
    fresh = seeded.Source(seeded.INSTALLED[-1].seed)
    with fresh.named(request.node.nodeid):
        assert exact.bits(8 * 32) == int.from_bytes(fresh(32), "little")


@pytest.mark.parametrize("number", [1, 2])
def test_other_tests_draw_other_noise(number):
    DRAWN.append(exact.bits(256))
    assert len(set(DRAWN)) == len(DRAWN)


@pytest.mark.usefixtures("kernel_entropy")
def test_one_test_can_ask_for_what_users_have(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda count: b"\7" * count)
    assert exact.system_bytes(3) == b"\7\7\7"


def test_what_is_remembered_is_the_same_whoever_asks_first():
    def draw(name):
        return exact.bits(256)

    values = []
    for before in (0, 3):
        remembered = seeded.remembered(draw)
        exact.bits(8 * (before + 1))
        values.append(remembered("x"))
        assert remembered("x") == values[-1]
        assert remembered("y") != values[-1]
    assert bool(seeded.INSTALLED) == (values[0] == values[1])
