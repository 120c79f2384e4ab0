"""Exchanges that are killed or come twice: no overspend, and no draw of noise without its own charge."""

import json
import os
import subprocess
import sys

import pytest

from tests import forked


def killed_exchanges(folder, number, *, seed):
    """Return what became of so many exchanges (`tests.custodian.killing`)."""
    folder.chmod(0o700)
    command = [sys.executable, "-m", "tests.custodian.killing", str(folder), str(number), str(seed)]
    process = forked.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    told, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(told.splitlines()[-1])


def check(found):
    """Compare the numbers of draws, charges and releases."""
    assert found["killed"] > found["exchanges"] / 4
    assert found["spent"] == pytest.approx(found["sum_of_charges"])
    assert found["spent"] <= found["total"]
    assert found["draws_without_charge"] == 0
    assert found["most_releases"] == 1
    assert found["files"] <= found["releases"] <= found["charges"]
    assert found["different_files"] == found["files"]


@pytest.mark.wide
def test_exchanges_that_are_killed_at_each_step_or_come_twice(tmp_path):
    check(killed_exchanges(tmp_path, 48, seed=3))
