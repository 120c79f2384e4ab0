"""Rows in partitions: what is released, before noise, is that of the same rows in one table, to the last bit."""

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError, MechanismError, SchemaError, SiteError
from hdpstats.mechanisms.description.site import PreparedDescription
from hdpstats.mechanisms.score_sums import PreparedSum
from hdpstats.noise import TwoSidedGeometric
from hdpstats.schema import parquet
from hdpstats.schema.parquet import ParquetTable, files_of
from hdpstats.schema.partitions import Parts
from hdpstats.schema.table import PrivateTable, joined
from hdpstats.sites import LocalSite
from hdpstats.solvers import Penalised
from hdpstats.solvers.objective import ROUGH
from tests import known_noise
from tests.waiting import until

ROWS = 613
SCHEMA = hdp.Schema(
    y=hdp.Binary(),
    x=hdp.Continuous(-3, 3),
    k=hdp.Continuous(0, 40),
    g=hdp.Categorical(["a", "b", "c"]),
    time=hdp.Duration(horizon=5),
    event=hdp.Binary(),
)


SCHEMA_OF_TEXTS = hdp.Schema(g=hdp.Categorical(["a", "b"]), x=hdp.Continuous(0, 200))


def columns(rows=ROWS):
    """Return columns of Arrow types, with cells of all kinds that such types can hold."""
    rng = np.random.default_rng(5)
    x = rng.normal(0.0, 2.0, rows)
    texts = [str(value) if place % 3 else " 4.5 " for place, value in enumerate(rng.uniform(-5, 50, rows))]
    levels = pa.array(rng.choice(["a", "b", "c", "other", ""], rows)).dictionary_encode()
    times = pa.array(
        [None if place % 11 == 0 else Decimal(int(t)) / 4 for place, t in enumerate(rng.integers(0, 24, rows))]
    )
    return {
        "y": pa.array((rng.random(rows) < 1 / (1 + np.exp(-x))).tolist()),
        "x": pa.array([None if place % 7 == 0 else value for place, value in enumerate(x)]),
        "k": pa.array([*texts[:-2], "nan", "x"]),
        "g": levels,
        "time": times,
        "event": pa.array(rng.integers(0, 2, rows), pa.int8()),
        "when": pa.array([datetime.datetime(2020, 1, 1)] * rows),
    }


def written(folder, cuts, *, group=100, rows=None):
    """Write the rows between cuts to a file each, in row groups; return the folder."""
    folder.mkdir()
    table = pa.table(columns() if rows is None else rows)
    for number, (first, last) in enumerate(pairwise(cuts)):
        pq.write_table(table.slice(first, last - first), folder / f"{number}.parquet", row_group_size=group)
    return folder


def people(rows):
    """Return public rows: complete ones."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=rows).clip(-3, 3)
    return pd.DataFrame(
        {
            "y": (rng.random(rows) < 1 / (1 + np.exp(-x))).astype(int),
            "x": x,
            "k": rng.uniform(0, 40, rows),
            "g": rng.choice(["a", "b", "c"], rows),
            "time": rng.uniform(0.1, 5, rows),
            "event": rng.integers(0, 2, rows),
        }
    )


def in_memory(folder):
    """Return the rows of one file as a frame in the types of the file."""
    return pd.read_parquet(folder / "0.parquet", dtype_backend="pyarrow")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return folders of 1, 2 and 7 partitions, the last with an empty file."""
    place = tmp_path_factory.mktemp("rows")
    cuts = {1: [0, ROWS], 2: [0, 250, ROWS], 7: [0, 1, 1, 90, 300, 400, 612, ROWS]}
    return {n: written(place / str(n), each, group=ROWS if n == 1 else 101) for n, each in cuts.items()}


@pytest.fixture(scope="module")
def asked(folders):
    """Return what analyses compute at a site in memory, without noise: prepared queries with their releases."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        known_noise.off(patch)
        compute = LocalSite._compute

        def noted(self, pace, prepared):
            found.append((prepared, compute(self, pace, prepared)))
            return found[-1][1]

        patch.setattr(LocalSite, "_compute", noted)
        frame = in_memory(folders[1])
        public = people(80)
        study = hdp.Study(private=frame, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=1000, delta=1e-3))
        hdp.describe(study, ["y", "x", "k", "g"], by="event", epsilon=1)
        hdpf.survfit("Surv(time, event) ~ g", data=study).fit(epsilon=1)
        model = hdpf.logit("y ~ x + k + g", data=study)
        model.fit(epsilon=1)
        model.fit(epsilon=1, se_share=0.2, mechanism="objective")
        model.fit(epsilon=1, mechanism="output")
        model.fit(epsilon=1, delta=1e-5, mechanism="clipped_newton")
        model.fit(epsilon=1, mechanism="public_hessian")
        hdpf.hazard("Surv(time, event) ~ x", data=study).fit(epsilon=1)
        hdp.importance_weights(study, "~ x + g", epsilon=1)
    return found


@pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.wide), 7])
def test_what_is_released_is_the_same_for_any_partitions(asked, folders, number, monkeypatch):
    known_noise.off(monkeypatch)
    monkeypatch.setattr(parquet, "BATCH", 64)
    table = ParquetTable.open(files_of(folders[number], name="private"), SCHEMA)
    kinds = {type(release).__name__ for _, release in asked}
    assert len(kinds) >= 5
    for prepared, release in asked:
        assert prepared.compute(table.admit(prepared.needs)) == release


def test_the_map_of_cells_is_that_of_a_frame_whatever_types_files_store(folders, tmp_path):
    key = b"k" * 32
    frame = in_memory(folders[1])
    expected = PrivateTable.from_frame(frame, SCHEMA).fingerprint(key)
    for folder in folders.values():
        assert ParquetTable.open(files_of(folder, name="private"), SCHEMA).fingerprint(key) == expected
    other = tmp_path / "types"
    other.mkdir()
    frame[:300].to_parquet(other / "0.parquet")
    texts = frame[300:].assign(y=frame["y"][300:].map(str), event=frame["event"][300:].astype("float64[pyarrow]"))
    texts.to_parquet(other / "1.parquet")
    assert ParquetTable.open(files_of(other, name="private"), SCHEMA).fingerprint(key) == expected


def test_rows_gathered_are_the_table_in_memory(folders):
    names = ["x", "g", "time"]
    whole = ParquetTable.open(files_of(folders[7], name="private"), SCHEMA).admit(names).gathered(joined)
    table = PrivateTable.from_frame(in_memory(folders[1]), SCHEMA).admit(names)
    assert whole.rows == table.rows == ROWS
    for arrays in ("numeric", "codes", "missing", "beyond"):
        assert set(getattr(whole, arrays)) == set(getattr(table, arrays))
        for name, values in getattr(table, arrays).items():
            np.testing.assert_array_equal(getattr(whole, arrays)[name], values)


def count_of(study):
    return hdp.describe(study, ["y"], epsilon=1)


def test_a_study_of_a_pattern_a_folder_and_a_list_reads_all_files(folders, monkeypatch):
    known_noise.off(monkeypatch)
    frame = in_memory(folders[1])
    expected = count_of(hdp.Study(private=frame, schema=SCHEMA, budget=hdp.Budget(epsilon=1))).tidy()
    files = sorted(folders[7].glob("*.parquet"))
    for source in (folders[7], str(folders[7] / "*.parquet"), {"hospital": files}):
        study = hdp.Study(private=source, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
        pd.testing.assert_frame_equal(count_of(study).tidy(), expected)
    study = hdp.Study(private=folders[1] / "0.parquet", schema=SCHEMA, budget=hdp.Budget(epsilon=1), engine="pyarrow")
    pd.testing.assert_frame_equal(count_of(study).tidy(), expected)


def refused(source, match, error=ArgumentError, **options):
    with pytest.raises(error, match=match):
        hdp.Study(private=source, schema=SCHEMA, budget=hdp.Budget(epsilon=1), **options)


def test_what_cannot_be_read_in_parts_is_refused_when_it_is_opened(folders, tmp_path):
    refused(folders[2] / "*.csv", "there is none of that name")
    refused(folders[2], "people with several rows", unit="x", n_max=700, max_rows_per_unit=2)
    refused(folders[2], "engine must be None, 'pyarrow'", engine="spark")
    refused(in_memory(folders[1]), "in memory already", engine="pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"no such thing")
    refused(tmp_path, "no Parquet file that can be read")
    lacking = written(tmp_path / "lacking", [0, ROWS], rows={k: v for k, v in columns().items() if k != "x"})
    refused(lacking, "lacks declared columns: 'x'", SchemaError)
    twice = pa.Table.from_arrays([*columns().values(), columns()["x"]], names=[*columns(), "x"])
    (tmp_path / "twice").mkdir()
    pq.write_table(twice, tmp_path / "twice" / "0.parquet")
    refused(tmp_path / "twice", "repeats declared columns: 'x'", SchemaError)
    same = {"one": folders[2], "other": folders[2] / "0.parquet"}
    with pytest.raises(ArgumentError, match="have the same rows"):
        hdp.Study(private=same, schema=SCHEMA, budget=hdp.Budget(epsilon=1))


def test_what_needs_all_rows_at_once_is_refused_before_a_charge_where_they_are_too_many(folders, monkeypatch):
    known_noise.off(monkeypatch)
    schema = hdp.Schema(k=hdp.Continuous(0, 40, complete=True))
    study = hdp.Study(private=folders[7], schema=schema, budget=hdp.Budget(epsilon=5), row_order="arbitrary")
    model = hdpf.distribution("k ~ 1", data=study, family="poisson")
    monkeypatch.setattr(parquet, "MOST_WHOLE", 9 * ROWS - 1)
    with pytest.raises(MechanismError, match="no sum over partitions"):
        model.fit(1.0, mechanism="subsample")
    assert study.site.ledger.spent.epsilon == 0
    monkeypatch.setattr(parquet, "MOST_WHOLE", 9 * ROWS)
    model.fit(1.0, mechanism="subsample")
    assert study.site.ledger.spent.epsilon == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("harm", ["touch", "mode", "cut", "exchange", "rows", "gone"])
def test_a_file_that_changed_is_refused_before_a_charge_and_fails_after_one(tmp_path, monkeypatch, harm, when):
    folder = written(tmp_path / "rows", [0, 300, ROWS])
    study = hdp.Study(private=folder, schema=SCHEMA, budget=hdp.Budget(epsilon=5))
    file, probe = folder / "1.parquet", tmp_path / "probe"
    # Many systems take the times of files from a clock that moves every few milliseconds: the harm has a later one.
    until(lambda: probe.touch() or probe.stat().st_ctime_ns > file.stat().st_ctime_ns, "a later time of a file")
    if harm == "touch":
        os.utime(file, ns=(1, 1))
    elif harm == "mode":
        file.chmod(0o600)
    elif harm == "gone":
        file.unlink()
    elif harm == "exchange":
        kept, other = file.stat(), tmp_path / "other"
        other.write_bytes(file.read_bytes())
        os.utime(other, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        other.replace(file)
    elif harm == "cut":
        kept = file.stat()
        file.write_bytes(b"\0" * kept.st_size)
        os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    else:
        pq.write_table(pa.table(columns()).slice(0, 5), file)
    if when == "after":  # as where it changes after the site has looked
        monkeypatch.setattr(parquet.ParquetTable, "check_unchanged", lambda _: None)
    with pytest.raises(SiteError) as caught:
        count_of(study)
    assert str(folder) not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert study.site.ledger.spent.epsilon == (when == "after")


@pytest.mark.parametrize(
    "named", ["path", "pattern", "pattern and folder", "symbolic link", "hard link", "up and down"]
)
def test_a_file_that_is_named_twice_is_refused_before_anybody_has_two_rows(tmp_path, named):
    folder = written(tmp_path / "rows", [0, 250, ROWS])
    first = folder / "0.parquet"
    sources = {
        "path": [first, str(first)],
        "pattern": [first, folder / "*.parquet"],
        "pattern and folder": [folder, folder / "1*.parquet"],
        "symbolic link": folder,
        "hard link": folder,
        "up and down": [first, folder / ".." / "rows" / "0.parquet"],
    }
    if named == "symbolic link":
        (folder / "latest.parquet").symlink_to(first)
    elif named == "hard link":
        (folder / "latest.parquet").hardlink_to(first)
    with pytest.raises(hdp.ArgumentError, match="names a file twice"):
        hdp.Study(private={"one": sources[named]}, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
    with pytest.raises(hdp.ArgumentError, match="names a file twice"):
        ParquetTable.open(files_of(sources[named], name="private"), SCHEMA)


def test_what_exists_is_meant_itself_whatever_characters_its_name_has(tmp_path):
    mine = written(tmp_path / "data[1]", [0, 7, 20])
    written(tmp_path / "data1", [0, ROWS])
    written(tmp_path / "data1" / "b", [0, ROWS])
    for source in (
        mine,
        str(mine),
        mine / "*.parquet",
        f"{mine}/[0-9].parquet",
        [mine / "0.parquet", mine / "1.parquet"],
    ):
        study = hdp.Study(private={"one": source}, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
        assert study.records == 20
    found = mine / "x[0].parquet"
    (mine / "0.parquet").rename(found)
    for source in (found, [found]):
        assert files_of(source, name="private") == [found]
        study = hdp.Study(private={"one": source}, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
        assert study.records == 7
    assert files_of(tmp_path / "data[0-9]" / "0.parquet", name="private") == [tmp_path / "data1" / "0.parquet"]


def test_odd_cells_in_any_partition_raise_nothing_and_move_only_their_own_row(tmp_path):
    texts = ["1.5", "2.5", "\N{SNOWMAN}", "", "1e999", "nan", "0x10"] * 20
    good = pa.array([text.encode() for text in texts])
    odd = pa.array([b"\xff\xfe" if place == 77 else cell.as_py() for place, cell in enumerate(good)])
    schema = hdp.Schema(x=hdp.Continuous(0, 5))
    found = []
    for name, cells in (("good", good), ("odd", odd)):
        rows = pa.Table.from_arrays([cells.cast(pa.binary()).view(pa.string())], names=["x"])
        (tmp_path / name).mkdir()
        for number in range(7):
            pq.write_table(rows.slice(20 * number, 20), tmp_path / name / f"{number}.parquet")
        table = ParquetTable.open(files_of(tmp_path / name, name="private"), schema).admit(["x"]).gathered(joined)
        found.append(np.column_stack([table.numeric["x"], table.missing["x"]]))
    assert np.flatnonzero((found[0] != found[1]).any(axis=1)).tolist() == [77]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("plain", [False, True])
def test_a_text_of_a_dictionary_that_is_no_utf8_raises_nothing(tmp_path, kind, plain):
    bytes_of = pa.array([b"a", b"\xff\xfe", b"b"], pa.large_binary() if kind == pa.large_string() else pa.binary())
    texts = pa.Array.from_buffers(kind, 3, bytes_of.buffers())
    places = pa.array([0, 1, 2, None, 2] * 40, pa.int16())
    rows = pa.table({"g": pa.DictionaryArray.from_arrays(places, texts), "x": pa.array(range(200))})
    pq.write_table(rows, tmp_path / "0.parquet", row_group_size=70, use_dictionary=not plain)
    table = ParquetTable.open(files_of(tmp_path, name="private"), SCHEMA_OF_TEXTS)
    for names in (["g"], ["x", "g"]):
        found = table.admit(names).gathered(joined)
        assert found.codes["g"].tolist() == [0, 0, 1, 0, 1] * 40
        assert found.missing["g"].tolist() == [False, True, False, True, False] * 40


class Registered(pa.ExtensionType):
    """An extension type that is known when files are opened: its words do not say what it stores."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "hdpstats.tests.registered")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _: bytes) -> "Registered":
        return cls(storage)


@pytest.fixture
def registered() -> Iterator[None]:
    pa.register_extension_type(Registered(pa.dictionary(pa.int32(), pa.string())))
    yield
    pa.unregister_extension_type("hdpstats.tests.registered")


CODED = (
    "list",
    "struct",
    "extension",
    "registered",
    "list of registered",
    "DELTA_BYTE_ARRAY",
    "DELTA_LENGTH_BYTE_ARRAY",
)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("how", CODED)
def test_dictionaries_that_arrow_cannot_read_cell_by_cell_are_refused_when_files_are_opened(tmp_path, how):
    coded, options = pa.array(["a", "b", "?"] * 10).dictionary_encode(), {}
    if "registered" in how:
        coded = pa.ExtensionArray.from_storage(Registered(coded.type), coded)
    if how.startswith("list"):
        coded = pa.ListArray.from_arrays(pa.array(range(31), pa.int32()), coded)
    elif how == "struct":
        coded = pa.StructArray.from_arrays([coded], ["f"])
    elif how == "extension":
        coded = pa.ExtensionArray.from_storage(pa.opaque(coded.type, "a type", "a vendor"), coded)
    elif "DELTA" in how:
        options = {"use_dictionary": False, "column_encoding": {"g": how}}
    pq.write_table(pa.table({"g": coded, "x": pa.array(range(30))}), tmp_path / "0.parquet", **options)
    files = files_of(tmp_path, name="private")
    with pytest.raises(SchemaError, match="cannot read cell by cell: 'g'; write these columns as plain texts"):
        ParquetTable.open(files, SCHEMA_OF_TEXTS)
    other = ParquetTable.open(files, hdp.Schema(x=hdp.Continuous(0, 200)))
    assert other.admit(["x"]).map(lambda part: part.rows) == [30]


def test_private_rows_in_files_are_neither_copied_nor_shown(folders):
    table = ParquetTable.open(files_of(folders[2], name="private"), SCHEMA)
    assert str(ROWS) not in repr(table)
    assert str(ROWS) not in repr(table.admit(["x"]))
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        table.__reduce_ex__(4)


def test_a_fit_of_many_rows_begins_with_the_same_rough_hessian(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    rows = 2 * ROUGH + 1000
    frame = pd.DataFrame({"x": rng.normal(size=rows), "y": rng.integers(0, 2, rows)})
    schema = hdp.Schema(y=hdp.Binary(complete=True), x=hdp.Continuous(-3, 3, complete=True))
    frame.to_parquet(tmp_path / "0.parquet", row_group_size=50_000)
    known_noise.off(monkeypatch)
    rough, found = Penalised.rough_hessian, []
    monkeypatch.setattr(Penalised, "rough_hessian", lambda self, at: found.append(1) or rough(self, at))
    fitted = [
        hdpf.logit("y ~ x", data=hdp.Study(private=source, schema=schema, budget=hdp.Budget(epsilon=1))).fit(
            epsilon=1, se_share=0
        )
        for source in (frame, tmp_path)
    ]
    assert found
    np.testing.assert_array_equal(fitted[0].params, fitted[1].params)


class Unread(Parts):
    """Rows that nobody may read."""

    def refuse(self, *_):
        raise RuntimeError("read")

    map = each = here = gathered = as_one = total = refuse


def test_the_noise_of_sums_is_drawn_before_a_row_is_read(asked, monkeypatch):
    drawn = known_noise.given(monkeypatch, [])
    monkeypatch.setattr(TwoSidedGeometric, "draws", lambda self, count: drawn.append(self) or [0] * count)
    summed = [prepared for prepared, _ in asked if isinstance(prepared, PreparedSum | PreparedDescription)]
    assert {type(each) for each in summed} == {PreparedSum, PreparedDescription}
    for prepared in summed:
        drawn.clear()
        with pytest.raises(RuntimeError, match="read"):
            prepared.compute(Unread())
        assert drawn
