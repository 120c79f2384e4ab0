"""Neither a site's process nor its asker's grows with the number of rounds, nor that of a fit with rows in files."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
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


FIT = """
import json
import sys
import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
import numba, numpy as np, pandas as pd, pyarrow.parquet

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

names = [f"x{j}" for j in range(20)]
rng = np.random.default_rng(1)
public = pd.DataFrame(rng.normal(size=(2000, 20)).clip(-3, 3), columns=names).assign(y=rng.integers(0, 2, 2000))
schema = hdp.Schema({name: hdp.Continuous(-3, 3) for name in names} | {"y": hdp.Binary()})
before = peak()
options = {"budget": hdp.Budget(epsilon=1), **json.loads(sys.argv[2])}
study = hdp.Study(private=sys.argv[1], public=public, schema=schema, **options)
hdpf.logit("y ~ " + " + ".join(names), data=study).fit(epsilon=1)
print(peak() - before)
"""


@pytest.mark.validate
def test_a_fit_to_rows_in_files_needs_the_memory_of_a_batch(tmp_path):
    """2.5 million rows in row groups of 170 MB, as pandas writes them: beyond its imports a fit takes less than 400.

    So it does of 20 million, 307 MB; the control reads the file into memory.
    """
    rng, n = np.random.default_rng(2), 2_500_000
    rows = pd.DataFrame(rng.normal(size=(n, 20)).clip(-3, 3), columns=[f"x{j}" for j in range(20)])
    rows.assign(y=rng.integers(0, 2, n)).to_parquet(tmp_path / "rows.parquet", row_group_size=2**20)

    def added(**options: str) -> float:
        given = [sys.executable, "-c", FIT, str(tmp_path / "rows.parquet"), json.dumps(options)]
        found = subprocess.run(given, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
        return float(found.stdout)

    assert added(engine="pyarrow") < 400.0
    assert added() > 800.0
