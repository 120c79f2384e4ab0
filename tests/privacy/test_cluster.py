"""Partitions on the workers of a Dask cluster: the same numbers, one charge, and nothing lost with a worker."""

import os
import signal
import warnings

import distributed
import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import SiteError
from hdpstats.schema.parquet import ParquetTable, files_of
from hdpstats.schema.partitions import engine_of
from hdpstats.sites import LocalSite
from tests import known_noise

pytestmark = [pytest.mark.wide, pytest.mark.filterwarnings("ignore")]  # of Dask and of what it loads

ROWS = 900
SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    g=hdp.Categorical(["a", "b"], complete=True),
    time=hdp.Duration(horizon=5, complete=True),
)


@pytest.fixture(scope="module")
def cluster():
    """Return a client of two workers in processes of their own."""
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        yield client


def frame(rows=ROWS, seed=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows).clip(-3, 3)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x))).astype(int)
    return pd.DataFrame({"y": y, "x": x, "g": rng.choice(["a", "b"], rows), "time": rng.uniform(0.1, 5.0, rows)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of seven files."""
    place = tmp_path_factory.mktemp("rows")
    for number, part in enumerate(np.array_split(np.arange(ROWS), 7)):
        frame().iloc[part].to_parquet(place / f"{number}.parquet", row_group_size=60)
    return place


def analyses(study):
    """Return what a description, curves and fits release."""
    hdp.describe(study, ["x", "g"], by="y", epsilon=1)
    hdpf.survfit("Surv(time, y) ~ g", data=study).fit(epsilon=1)
    model = hdpf.logit("y ~ x + g", data=study)
    model.fit(epsilon=1)
    model.fit(epsilon=1, delta=1e-5, mechanism="clipped_newton")
    hdpf.hazard("Surv(time, y) ~ x", data=study).fit(epsilon=1)
    hdp.importance_weights(study, "~ x + g", epsilon=1)


def test_what_is_released_is_the_same_on_a_cluster(cluster, folder, monkeypatch):
    known_noise.off(monkeypatch)
    found, compute = [], LocalSite._compute

    def noted(self, pace, prepared):
        found.append((prepared, compute(self, pace, prepared)))
        return found[-1][1]

    monkeypatch.setattr(LocalSite, "_compute", noted)
    analyses(hdp.Study(private=frame(), public=frame(60, 7), schema=SCHEMA, budget=hdp.Budget(epsilon=100, delta=1e-3)))
    rows = ParquetTable.open(files_of(folder, name="private"), SCHEMA, engine=engine_of(cluster))
    assert len(found) >= 6
    for prepared, release in found:
        assert prepared.compute(rows.admit(prepared.needs)) == release


def kill_once(marker, after):
    """Let the worker that reads the so-many-th partition of this process end as a killed process does, once."""
    from hdpstats.schema import parquet

    load, seen = parquet._admitted, []

    def fatal(*given):
        seen.append(1)
        if len(seen) == after:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return load(*given)
            os.kill(os.getpid(), signal.SIGKILL)
        return load(*given)

    parquet._admitted = fatal


def test_a_worker_that_is_killed_in_a_fit_costs_nothing(cluster, folder, tmp_path, monkeypatch):
    known_noise.off(monkeypatch)
    budget = hdp.Budget(epsilon=10)
    expected = hdpf.logit("y ~ x + g", data=hdp.Study(private=frame(), schema=SCHEMA, budget=budget)).fit(
        epsilon=1, se_share=0
    )
    study = hdp.Study(private=folder, schema=SCHEMA, budget=budget, engine=cluster)
    marker = tmp_path / "killed"
    cluster.run(kill_once, str(marker), 20)
    result = hdpf.logit("y ~ x + g", data=study).fit(epsilon=1, se_share=0)
    assert marker.exists()
    np.testing.assert_array_equal(result.params, expected.params)
    assert study.site.ledger.spent.epsilon == 1
    assert len(study.site.ledger.history()) == 1


def test_a_partition_that_cannot_be_read_on_a_worker_fails_without_a_word(cluster, tmp_path, monkeypatch):
    frame().to_parquet(tmp_path / "0.parquet")
    study = hdp.Study(private=tmp_path, schema=SCHEMA, budget=hdp.Budget(epsilon=5), engine=cluster)
    os.utime(tmp_path / "0.parquet", ns=(1, 1))
    monkeypatch.setattr(ParquetTable, "check_unchanged", lambda _: None)  # it changes after the site looked
    with pytest.raises(SiteError) as caught:
        hdp.describe(study, ["x"], epsilon=1)
    assert str(tmp_path) not in str(caught.value)
    assert study.site.ledger.spent.epsilon == 1


def pretend(**other):
    """Let this process have another environment; without one its own again."""
    from hdpstats.schema import partitions

    own = getattr(partitions, "_own", partitions.environment)
    partitions._own, partitions.environment = own, (lambda: {**own(), **other}) if other else own


def test_workers_that_may_compute_other_last_bits_are_refused_also_where_they_join_later(cluster, tmp_path):
    frame(60).to_parquet(tmp_path / "0.parquet")
    study = hdp.Study(private=tmp_path, schema=SCHEMA, budget=hdp.Budget(epsilon=5), engine=cluster)
    other = {"numpy": "1.0", "processor": "x86_64 of another kind"}
    cluster.run(pretend, **other)
    try:
        with pytest.raises(hdp.ArgumentError, match="differ from this process in numpy, processor"):
            hdp.Study(private=tmp_path, schema=SCHEMA, budget=hdp.Budget(epsilon=5), engine=cluster)
        with pytest.raises(SiteError, match="did not complete"):
            hdp.describe(study, ["x"], epsilon=1)
    finally:
        cluster.run(pretend)
    hdp.describe(study, ["x"], epsilon=1)
    assert study.site.ledger.spent.epsilon == 1


def damage():
    """Let compiled code be such as cannot be loaded in this process; called again, as it was."""
    from hdpstats.mechanisms import loading

    def damaged(*_):
        raise EOFError("Ran out of input")

    own = getattr(loading, "_own", loading.mark_missing)
    loading.mark_missing = own if loading.mark_missing is not own else damaged
    loading._own = own
    loading._loaded.cache_clear()


def test_a_price_asks_nothing_of_workers(cluster, tmp_path, monkeypatch):
    frame(60).to_parquet(tmp_path / "0.parquet")
    study = hdp.Study(private=tmp_path, schema=SCHEMA, budget=hdp.Budget(epsilon=5), engine=cluster)
    query = hdp.describe(study, ["x"], epsilon=1).query
    monkeypatch.setattr(type(cluster), "run", lambda *_, **__: pytest.fail("workers were asked"))
    study.site.quote(query)
    study.site.rehearsal(query, rows=60)()


def test_code_is_loaded_on_workers_before_a_charge(cluster, tmp_path):
    frame(60).to_parquet(tmp_path / "0.parquet")
    study = hdp.Study(private=tmp_path, schema=SCHEMA, budget=hdp.Budget(epsilon=5), engine=cluster)
    one = list(cluster.scheduler_info()["workers"])[:1]
    cluster.run(damage, workers=one)
    try:
        with pytest.raises(hdp.MechanismError, match="on a worker of the cluster"):
            hdp.describe(study, ["x"], epsilon=1)
        assert study.site.ledger.spent.epsilon == 0
    finally:
        cluster.run(damage, workers=one)
    hdp.describe(study, ["x"], epsilon=1)
    assert study.site.ledger.spent.epsilon == 1
