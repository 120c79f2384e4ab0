"""Code that many rows need is loaded before anything is charged, whatever the number of rows is."""

import subprocess
import sys

import numba
import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.compiled import SMALLEST_COMPILED, Loops
from hdpstats._base.errors import MechanismError
from hdpstats.families.hazard import spells
from hdpstats.families.regression import one_pass
from hdpstats.formulas import design
from hdpstats.losses import logistic
from hdpstats.mechanisms import loading, score_sums
from hdpstats.mechanisms.description import one_pass as in_one_pass
from hdpstats.mechanisms.description import people
from hdpstats.schema import stored_columns
from hdpstats.solvers import kernels

SCHEMA = hdp.Schema(y=hdp.Binary(), x=hdp.Continuous(0, 1))
LOOPS = {
    people: ("_places", "_squares"),
    in_one_pass: ("add_stored",),
    one_pass: ("add_scores",),
    stored_columns: ("address", "clip_numbers", "mark_missing"),
    design: ("whiten_columns",),
    logistic: ("residuals",),
    score_sums: ("_shorten",),
    kernels: ("_products", "_score_sum", "_logistic_sum", "_rounded_products", "_square_sums"),
}


def people(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(rows)
    return pd.DataFrame({"y": rng.integers(0, 2, rows), "x": rng.uniform(0, 1, rows)})


def study(rows: int, **terms: object) -> hdp.Study:
    return hdp.Study(private=people(rows), schema=SCHEMA, budget=hdp.Budget(epsilon=9), **terms)


@pytest.mark.parametrize("rows", [SMALLEST_COMPILED - 1, SMALLEST_COMPILED])
def test_code_that_cannot_be_loaded_tells_nothing_of_the_number_of_rows(monkeypatch, rows: int) -> None:
    def damaged(*_: object) -> None:
        raise EOFError("Ran out of input")

    loading._loaded.cache_clear()
    monkeypatch.setattr(loading, "whiten_columns", damaged)
    private = study(rows, relation="add_or_remove_one", n_max=8000)
    with pytest.raises(MechanismError, match=r"compiled code cannot be loaded \(EOFError\), and nothing was charged"):
        hdpf.logit("y ~ x", data=private).fit(epsilon=1, se_share=0)
    assert all(ledger.spent.epsilon == 0 for ledger in private.ledgers.values())
    public = study(40)
    hdpf.logit("y ~ x", data=public).fit(epsilon=1, se_share=0)  # the number of rows is public, and numpy is enough


@pytest.mark.parametrize(
    "ask",
    [
        lambda study: hdpf.logit("y ~ x", data=study).fit(epsilon=1, mechanism="objective", se_share=0),
        lambda study: hdp.describe(study, ["x"], epsilon=1),
    ],
    ids=["fit", "description"],
)
def test_code_for_few_rows_in_files_is_loaded_before_a_charge(monkeypatch, tmp_path, ask) -> None:
    def damaged(*_: object) -> None:
        raise EOFError("Ran out of input")

    people(40).to_parquet(tmp_path / "0.parquet")
    in_files = hdp.Study(private=tmp_path, schema=SCHEMA, budget=hdp.Budget(epsilon=9))
    loading._loaded.cache_clear()
    monkeypatch.setattr(loading, "mark_missing", damaged)
    with pytest.raises(MechanismError, match="cannot be loaded"):
        ask(in_files)
    assert all(ledger.spent.epsilon == 0 for ledger in in_files.ledgers.values())


def test_threads_that_cannot_be_started_tell_nothing_of_the_number_of_rows(monkeypatch) -> None:
    def absent() -> int:
        raise ValueError("No threading layer could be loaded.")

    loading._loaded.cache_clear()
    monkeypatch.setattr(numba, "get_num_threads", absent)
    private = study(40, relation="add_or_remove_one", n_max=2000)
    with pytest.raises(MechanismError, match=r"cannot be loaded \(ValueError\), and nothing was charged"):
        hdpf.logit("y ~ x", data=private).fit(epsilon=1, se_share=0)
    assert all(ledger.spent.epsilon == 0 for ledger in private.ledgers.values())


def test_what_is_loaded_is_what_an_answer_runs(monkeypatch, tmp_path) -> None:
    seen: dict[str, set[tuple[object, ...]]] = {}
    for module, names in LOOPS.items():
        for name in names:
            loop = getattr(module, name)

            def spy(*given: object, name: str = name, loop=loop) -> object:
                seen.setdefault(name, set()).add(tuple(numba.typeof(each) for each in given))
                return loop(*given)

            monkeypatch.setattr(module, name, spy)
    for module in (design, in_one_pass, stored_columns):
        for name in LOOPS[module]:
            if hasattr(loading, name):
                monkeypatch.setattr(loading, name, getattr(module, name))
    loading._loaded.cache_clear()
    loading.load()
    loaded, seen = seen, {}
    private = study(2 * SMALLEST_COMPILED)
    hdpf.logit("y ~ x", data=private).fit(epsilon=1, se_share=0)
    described = {"_places", "_squares"}
    assert set(seen) - described == {"whiten_columns", "_logistic_sum", "_products", "_rounded_products"}
    hdpf.poisson("x ~ y", data=private).fit(epsilon=1, se_share=0)
    hdp.describe(private, ["x"], epsilon=1)
    people(2 * SMALLEST_COMPILED).to_parquet(tmp_path / "0.parquet")
    in_files = hdp.Study(private=tmp_path, schema=SCHEMA, budget=hdp.Budget(epsilon=9))
    hdpf.logit("y ~ x", data=in_files).fit(epsilon=1)
    hdp.describe(in_files, ["x"], epsilon=1)
    score_sums.clipped(np.ones((2, 2 * SMALLEST_COMPILED)).T, 0.5)
    assert set(seen) == set(loaded) - {"residuals"}  # of people's own scores
    assert all(types <= loaded[name] for name, types in seen.items())


def test_what_is_loaded_is_what_an_answer_about_spells_runs(monkeypatch) -> None:
    seen: dict[str, set[tuple[object, ...]]] = {}
    for name in ("add_caps", "add_scores", "add_curvatures", "to_ratios"):
        loop = getattr(kernels, name)

        def spy(*given: object, name: str = name, loop=loop) -> object:
            seen.setdefault(name, set()).add(tuple(numba.typeof(each) for each in given))
            return loop(*given)

        monkeypatch.setattr(loading, name, spy)
        monkeypatch.setattr(spells, name, spy)
    loading._loaded.cache_clear()
    loading.load()
    loaded, seen = seen, {}
    schema = hdp.Schema(x=hdp.Continuous(0, 1), time=hdp.Duration(12), start=hdp.Duration(12), event=hdp.Binary())
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"x": rng.random(800), "time": rng.uniform(6, 12, 800), "start": 0.0, "event": 1.0})
    for terms, times in (({}, "time"), ({"unit": "id", "max_rows_per_unit": 2, "n_max": 800}, "start, time")):
        frame = rows.assign(id=np.arange(800) // 2) if terms else rows
        private = hdp.Study(private=frame, schema=schema, budget=hdp.Budget(epsilon=9), **terms)
        model = hdpf.hazard(f"Surv({times}, event) ~ x", data=private, intervals=6)
        model.fit(epsilon=1, mechanism="objective", se_share=0)
    assert set(seen) == set(loaded)
    assert all(types <= loaded[name] for name, types in seen.items())


@pytest.mark.wide
def test_no_answer_loads_a_loop_while_it_is_computed() -> None:
    command = [sys.executable, "-m", "tests.privacy.loops_of_answers"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # a process that has loaded nothing
    assert done.stdout.split() == []


def test_only_loops_that_a_query_may_run_are_loaded() -> None:
    private, loaded = study(2 * SMALLEST_COMPILED).site, loading._loaded
    loaded.cache_clear()
    hdp.describe(hdp.Study(private=private), ["x"], epsilon=1)
    assert loaded.cache_info().currsize == 2
    hdpf.logit("y ~ x", data=hdp.Study(private=private)).fit(epsilon=1, se_share=0, mechanism="objective")
    assert loaded.cache_info().currsize == 3  # before the count the sums of a description that might follow it
    loading.load()
    assert loaded.cache_info().currsize == len(Loops) + 2
