"""Bits of the operating system: uniform, never used twice, never replaced by something else."""

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import exact
from tests import chance

FORK = """
import ctypes, os
from hdpstats.noise.exact import bits

def fork_behind_pythons_back():
    return ctypes.PyDLL(None).fork()

bits(64)
for fork in (os.fork, fork_behind_pythons_back):
    reader, writer = os.pipe()
    if fork() == 0:
        os.write(writer, bits(256).to_bytes(32, "little"))
        os._exit(0)
    parent = bits(256)
    os.wait()
    child = int.from_bytes(os.read(reader, 32), "little")
    print("different" if child != parent else "same")
"""


def looks_uniform(values: list[int], size: int) -> bool:
    """Uniform values fail with probability 1e-9 at most (`tests.chance.counts_fit`)."""
    counts = Counter(values)
    return set(counts) <= set(range(size)) and chance.counts_fit([counts[v] for v in range(size)], [1 / size] * size)


@pytest.mark.entropy
def test_bits_are_uniform_on_their_range() -> None:
    assert looks_uniform([exact.bits(3) for _ in range(8000)], 8)
    assert looks_uniform([exact.bits(9) >> 6 for _ in range(8000)], 8)
    assert exact.bits(0) == 0


@pytest.mark.entropy
def test_below_is_uniform_and_a_biased_reduction_is_not() -> None:
    assert looks_uniform([exact.below(6) for _ in range(12000)], 6)
    biased = np.array([3, 3, 3, 3, 2, 2]) / 16
    assert chance.miss_of_counts([1 / 6] * 6, biased, 12000) <= chance.ALARM
    assert not looks_uniform([exact.bits(4) % 6 for _ in range(12000)], 6)
    assert {exact.below(1) for _ in range(10)} == {0}


def test_below_refuses_an_empty_range() -> None:
    with pytest.raises(ArgumentError, match="bound must be at least 1"):
        exact.below(0)


def test_forked_children_draw_other_bits() -> None:
    run = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["different", "different"]


@pytest.mark.entropy
def test_threads_never_share_bits() -> None:
    with ThreadPoolExecutor(8) as pool:
        chunks = pool.map(lambda _: [exact.bits(128) for _ in range(500)], range(8))
        drawn = [value for chunk in chunks for value in chunk]
    assert len(set(drawn)) == len(drawn) == 4000


@pytest.mark.usefixtures("kernel_entropy")
def test_no_fallback_when_the_kernel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(size: int) -> bytes:
        raise NotImplementedError("no randomness source")

    exact.bits(64)
    monkeypatch.setattr(os, "urandom", broken)
    with pytest.raises(NotImplementedError):
        exact.bits(1)
    with pytest.raises(NotImplementedError):
        exact.below(3)
