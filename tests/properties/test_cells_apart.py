"""No cell changes the reading of another, in any type of column that pandas, Arrow and Parquet deliver.

Each cell of a column is replaced by others, also by a missing one and by cells that make the column one of another
type; what the schema makes of the other cells, and whom they name, must stay. The columns are made as readers make
them. Types that one version of pandas infers and another does not (texts as objects, times in nanoseconds) are also
made by name, so that they are read whatever version is installed; `make test-pandas2` runs this file with pandas 2.2.
"""

import datetime
import io
import sqlite3
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hdpstats.custodian.serving import read_rows
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration
from hdpstats.schema.parquet import ParquetTable, frame_of
from hdpstats.schema.persons import marks_of, persons_of
from hdpstats.schema.schema import Schema

PANDAS = int(pd.__version__.partition(".")[0])
LARGE = 2**53
ID = 12345678901234567  # 17 digits
LEVELS = ["1", "2", "1.5", "a", "True", str(LARGE - 1), str(LARGE), str(LARGE + 2), str(ID), str(ID + 1), "0.1"]
SCHEMA = Schema(
    number=Continuous(-(10**12), 10**12),
    event=Binary(),
    label=Binary(labels=("1", str(LARGE))),
    level=Categorical(LEVELS),
    filled=Categorical(LEVELS, other="a", missing_level="unknown"),
    time=Duration(30),
)
KEY = b"k" * 32


def people(cells):
    """Return for each cell the first place that names the same person, and the cell's mark."""
    whose = persons_of(cells).tolist()
    first = [-1 if person < 0 else whose.index(person) for person in whose]
    return list(zip(first, marks_of(cells, KEY).tolist(), strict=True))


def admitted(cells):
    """Return for each cell all that mechanisms read of it."""
    read = [column.admit(cells) for column in SCHEMA.values()]
    found = [*(each.values.tolist() for each in read), *(each.missing.tolist() for each in read)]
    return list(zip(*found, SCHEMA["time"].beyond(cells).tolist(), strict=True))


def in_parts(file):
    """Return for each cell of a file, whose columns are all alike, what mechanisms read of it in partitions."""
    table = ParquetTable.open([file], SCHEMA).admit(SCHEMA)
    (read,) = table.map(
        lambda part: [
            *((part.numeric if name in part.numeric else part.codes)[name].tolist() for name in SCHEMA),
            *(part.missing[name].tolist() for name in SCHEMA),
            part.beyond["time"].tolist(),
        ]
    )
    return list(zip(*read, strict=True))


def without(read, place):
    return read[:place] + read[place + 1 :]


def names_without(read, place):
    """Return who has the same name among all but one cell, and their marks."""
    others = without(read, place)
    kept = [first for first, _ in others]
    return [(-1 if first < 0 else kept.index(first), mark) for first, mark in others]


def check_apart(make, cells, replacements):
    """Compare the reading of a column with those in which one cell is replaced, in all other cells."""
    first = make(list(cells))
    before, names = admitted(first), people(first)
    for place in range(len(cells)):
        for replacement in replacements:
            column = make([*cells[:place], replacement, *cells[place + 1 :]])
            assert len(column) == len(cells)
            assert without(admitted(column), place) == without(before, place), (place, replacement, column.dtype)
            assert names_without(people(column), place) == names_without(names, place), (place, replacement)


def objects(cells):
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return pd.Series(values, dtype=object)


def arrow(kind):
    return lambda cells: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(cells, type=kind)))


def of(dtype):
    return lambda cells: pd.Series(cells, dtype=dtype)


def masked(dtype):
    """Return a maker of numpy columns, in which a missing cell makes pandas change the type."""

    def make(cells):
        lacking = [cell is None for cell in cells]
        known = np.array([0 if cell is None else cell for cell in cells], dtype=dtype)
        return pd.Series(known).mask(lacking) if any(lacking) else pd.Series(known)

    return make


def joined(dtype, own):
    """Return a maker of columns from cells of a numpy type and others, as ``concat`` joins them."""

    def make(cells):
        pieces = [pd.Series([cell], dtype=dtype if any(cell is each for each in own) else None) for cell in cells]
        return pd.concat(pieces, ignore_index=True)

    return make


def nullable(bits):
    """Return a maker of nullable columns; the constructor of series makes floats of some lists of whole numbers."""

    def make(cells):
        lacking = np.array([cell is None for cell in cells])
        return pd.Series(pd.arrays.IntegerArray(np.array([cell or 0 for cell in cells], dtype=bits), lacking))

    return make


SMALL = [0, 1, 2, 7]
WHOLE = [1, 2, 2**24 + 1, LARGE - 1, LARGE, LARGE + 1, LARGE + 2, ID, ID + 1]
SIGNED = [-1, 1 - LARGE, -LARGE, -LARGE - 1, -ID]
UNSIGNED = [2**63, 2**63 + 1, 2**64 - 1]
FLOATS = [1.0, 2.0, 1.5, 0.1, -0.0, 31.0, float(LARGE - 1), float(LARGE), float(ID), 1e300, np.inf]
HALF = [1.0, 2.0, 1.5, 0.099976, 31.0, 2048.0]
TRUTHS = [True, False, True]
TEXTS = ["1", "2", "1.0", " 1", "a", "", "True", str(ID), str(ID + 1), "é"]
DECIMALS = [Decimal(1), Decimal("1.50"), Decimal("0.1"), Decimal(LARGE + 1), Decimal(ID), Decimal(ID) + Decimal("0.5")]
DAY = datetime.date(2020, 1, 1)
TIMES = [datetime.datetime(2020, 1, 1), datetime.datetime(1970, 1, 1, 0, 0, 0, 1), datetime.datetime(9999, 1, 1)]
SPANS = [datetime.timedelta(days=1), datetime.timedelta(microseconds=1)]
ODD = [None, np.nan, pd.NA, pd.NaT, 1, -1, 1.5, 0.1, True, "x", "1", 2**63, 2**64, 1 + 0j, 1 + 1j]
ODD += [10**400] if PANDAS > 2 else []  # pandas 2 raises where it infers a type from it
ODD += [Decimal("0.5"), Fraction(1, 3), np.float32(0.1), np.longdouble(0.1), np.uint64(2**63), np.str_("1"), b"1", (1,)]
ODD += [
    DAY,
    pd.Timestamp("2020"),
    pd.Timestamp("2020", tz="UTC"),
    pd.Timedelta(1),
    pd.Period("2020"),
    pd.Interval(0, 1),
]
FEW = [None, np.nan, -1, 1.5, True, "x", 2**64, Decimal("0.5"), b"1", DAY]
MIXED = [1, 1.0, "1", True, None, LARGE + 1, float(LARGE), str(ID), Decimal(ID), DAY, 0.1, np.float32(0.1)]

LISTS = {
    "whole numbers": WHOLE,
    "whole numbers, signed": WHOLE + SIGNED,
    "whole numbers to 2^64": WHOLE + UNSIGNED,
    "floats": FLOATS,
    "truth values": TRUTHS,
    "texts": TEXTS,
    "decimals": DECIMALS,
    "dates": [DAY, DAY],
    "times": [pd.Timestamp("2020"), pd.Timestamp("1970")],
    "complex numbers": [1 + 0j, 2 + 0j, 1.5 + 0j, 1j, complex(LARGE + 2)],
    "cells of many types": MIXED,
}
MAKERS = {
    "inferred": pd.Series,
    "objects": objects,
    "inferred again": lambda cells: objects(cells).infer_objects(),
    "records": lambda cells: pd.DataFrame.from_records([{"a": cell} for cell in cells])["a"],
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("cells", LISTS)
def test_in_columns_whose_type_pandas_infers(cells, maker):
    check_apart(MAKERS[maker], LISTS[cells], ODD if maker == "inferred" else FEW)


@pytest.mark.covering(cases=5)
@pytest.mark.parametrize("cells", [name for name in LISTS if name != "cells of many types"])
def test_in_categories(cells):
    """Categories are what Python finds different: of True and 1, or 0.1 in two precisions, one would be lost."""
    check_apart(lambda made: pd.Series(made).astype("category"), LISTS[cells], [None, "x", 2.5, Decimal("3.5"), DAY])


def typed_columns():
    for bits in (8, 16, 32, 64):
        yield f"int{bits}", masked(f"int{bits}"), [*SMALL, -1] if bits < 64 else WHOLE + SIGNED
        yield f"uint{bits}", masked(f"uint{bits}"), SMALL if bits < 64 else WHOLE + UNSIGNED
        yield f"UInt{bits}", nullable(f"uint{bits}"), WHOLE + UNSIGNED if bits == 64 else SMALL
        yield f"Int{bits}", nullable(f"int{bits}"), WHOLE + SIGNED if bits == 64 else [*SMALL, -1]
    yield "category of Int64", lambda cells: nullable("int64")(cells).astype("category"), WHOLE
    yield "category of int64", lambda cells: masked("int64")(cells).astype("category"), WHOLE
    declared = pd.CategoricalDtype(pd.Index([ID, 1, 2, LARGE, LARGE - 1], dtype="int64"))
    yield "declared categories", of(declared), [1, 2, LARGE, LARGE - 1, ID]
    yield "ordered categories of texts", of(pd.CategoricalDtype(["unused", *TEXTS], ordered=True)), TEXTS
    yield "float16", masked("float16"), HALF
    yield "float32", masked("float32"), [*HALF, 2.0**24, 2.0**60]
    yield "float64", masked("float64"), FLOATS
    yield "longdouble", masked("longdouble"), FLOATS
    yield "complex64", masked("complex64"), HALF
    yield "complex128", masked("complex128"), FLOATS[:-1]
    yield "Float32", of("Float32"), HALF
    yield "Float64", of("Float64"), FLOATS
    yield "bool", masked("bool"), TRUTHS
    yield "boolean", of("boolean"), TRUTHS
    yield (
        "Sparse int",
        lambda cells: masked("int64")(cells).astype(pd.SparseDtype(float if None in cells else int)),
        WHOLE,
    )
    yield "Sparse float", lambda cells: masked("float64")(cells).astype("Sparse[float]"), FLOATS
    yield "Sparse bool", lambda cells: masked("bool")(cells).astype(pd.SparseDtype(object)), TRUTHS
    for name in ("object", "str", "string[python]", "string[pyarrow]", "category"):
        yield f"texts as {name}", of(name), TEXTS
    for unit in ("s", "ms", "us", "ns"):
        within = TIMES if unit != "ns" else TIMES[:2]
        yield f"datetime64[{unit}]", of(f"datetime64[{unit}]"), within
        yield f"datetime64[{unit}, UTC]", of(f"datetime64[{unit}, UTC]"), within
        yield f"timedelta64[{unit}]", of(f"timedelta64[{unit}]"), SPANS
    yield "period", of("period[D]"), [pd.Period("2020-01-01"), pd.Period("2021-01-01")]
    yield "interval", of("interval"), [pd.Interval(0, 1), pd.Interval(1, 2)]


def arrow_columns():
    for bits in (8, 16, 32, 64):
        whole = {"int": WHOLE + SIGNED, "uint": WHOLE + UNSIGNED}
        yield from ((getattr(pa, f"{name}{bits}")(), whole[name] if bits == 64 else SMALL) for name in whole)
    yield from ((pa.float16(), HALF), (pa.float32(), HALF), (pa.float64(), FLOATS), (pa.bool_(), TRUTHS))
    yield from ((kind, TEXTS) for kind in (pa.string(), pa.large_string(), pa.string_view()))
    yield from ((pa.dictionary(index, pa.string()), TEXTS) for index in (pa.int8(), pa.uint32(), pa.int64()))
    yield pa.dictionary(pa.int32(), pa.large_string()), TEXTS
    yield pa.dictionary(pa.int32(), pa.int64()), WHOLE
    yield pa.dictionary(pa.int32(), pa.float64()), FLOATS
    yield from ((kind, DECIMALS) for kind in (pa.decimal128(38, 2), pa.decimal256(60, 2)))
    small = [Decimal(1), Decimal("1.5"), Decimal("0.1")]
    yield from ((getattr(pa, name)(9, 2), small) for name in ("decimal32", "decimal64") if hasattr(pa, name))
    yield from ((kind, [DAY, datetime.date(9999, 1, 1)]) for kind in (pa.date32(), pa.date64()))
    yield from ((pa.timestamp(unit), TIMES) for unit in ("s", "ms", "us"))
    yield from ((pa.timestamp("ns"), TIMES[:2]), (pa.timestamp("us", "UTC"), TIMES))
    yield from ((pa.duration(unit), SPANS) for unit in ("s", "us", "ns"))
    yield from ((pa.time32("s"), [datetime.time(1)]), (pa.time64("us"), [datetime.time(1)]))
    yield from ((kind, [b"1", b"a"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)))
    yield pa.list_(pa.int64()), [[1], [1, 2]]
    yield pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": 2}]
    yield pa.map_(pa.string(), pa.int64()), [[("a", 1)]]
    yield pa.null(), [None, None]


TYPED = {name: (make, cells) for name, make, cells in typed_columns()}
TYPED |= {f"Arrow {kind}": (arrow(kind), cells) for kind, cells in arrow_columns()}


@pytest.mark.covering(cases=20)
@pytest.mark.parametrize("name", TYPED)
def test_in_columns_of_a_type(name):
    make, cells = TYPED[name]
    check_apart(make, cells, [None, *cells])


NUMBERS = (int, float, complex, np.number)


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "float32", "float64", "bool"])
def test_in_columns_that_are_joined_with_a_cell_of_another_type(dtype):
    """But for truth values, of which pandas 2 makes 1.0 and 0.0 when it joins them with numbers (the page says so)."""
    cells = TYPED[dtype][1]
    others = [each for each in ODD if each is not None]
    if dtype == "bool" and PANDAS < 3:
        others = [each for each in others if isinstance(each, bool) or not isinstance(each, NUMBERS)]
    check_apart(joined(dtype, cells), cells, others)


def stored(cells, file):
    """Write a series or an Arrow array to a file, once for each column of the schema."""
    if isinstance(cells, pd.Series):
        pd.concat([cells] * len(SCHEMA), axis=1, keys=list(SCHEMA)).to_parquet(file)
    else:
        pq.write_table(pa.table(dict.fromkeys(SCHEMA, cells)), file)


def changed(cells, replacements, most=4):
    """Return lists of cells with one replaced: each replacement at one of the places in turn, and all at the first."""
    places = [(number % len(cells), each) for number, each in enumerate(replacements)]
    places += [(0, each) for each in replacements[:most]]
    return [(place, [*cells[:place], each, *cells[place + 1 :]]) for place, each in places]


WRITTEN = {name: TYPED[name] for name in TYPED if not name.startswith(("Arrow", "Sparse", "complex", "longdouble"))}
WRITTEN |= {
    "inferred whole numbers": (pd.Series, WHOLE),
    "objects of whole numbers": (objects, WHOLE),
    "objects of truth values": (objects, TRUTHS),
    "objects of decimals": (objects, DECIMALS),
    "objects of dates": (objects, [DAY, DAY]),
}


IN_FOLDERS = [name for name in WRITTEN if not name.endswith(("8", "16", "32", "[s]", "[ms]", "[us]", "UTC]"))]
"""One type of each kind, with the widest numbers and the shortest steps of time."""


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(
    "name", [name if name in IN_FOLDERS else pytest.param(name, marks=pytest.mark.wide) for name in WRITTEN]
)
def test_in_parquet_files_that_pandas_writes(name, tmp_path):
    make, cells = WRITTEN[name]
    file = tmp_path / "0.parquet"

    def readings(cells):
        """Return the reading of a file: as pandas reads it, as a site reads it, and in partitions."""
        stored(make(cells), file)
        frames = [pd.read_parquet(file)["level"], frame_of(file)["level"]]
        return [(admitted(each), people(each)) for each in frames], in_parts(file)

    frames, parts = readings(cells)
    assert parts == frames[1][0]
    for place, others in changed(cells, [None, *cells]):
        new_frames, new_parts = readings(others)
        for (before, names), (after, new_names) in zip(frames, new_frames, strict=True):
            assert without(after, place) == without(before, place), (place, others[place])
            assert names_without(new_names, place) == names_without(names, place), (place, others[place])
        assert without(new_parts, place) == without(parts, place), (place, others[place])


@pytest.mark.covering(cases=10)
@pytest.mark.parametrize("name", [name for name in TYPED if name.startswith("Arrow")])
def test_in_parquet_files_of_other_writers(name, tmp_path):
    make, cells = TYPED[name]
    file = tmp_path / "0.parquet"

    def readings(cells):
        stored(pa.array(make(cells).array), file)
        frame = frame_of(file)["level"]
        parts = in_parts(file)
        assert parts == admitted(frame)
        return parts, people(frame)

    parts, names = readings(cells)
    for place, others in changed(cells, [None, *cells]):
        new_parts, new_names = readings(others)
        assert without(new_parts, place) == without(parts, place), (place, others[place])
        assert names_without(new_names, place) == names_without(names, place), (place, others[place])


@pytest.mark.covering(cases=6)
@pytest.mark.parametrize("name", IN_FOLDERS)
def test_in_folders_of_parquet_files(name, tmp_path):
    """One missing cell may give one of the files another type, and none but missing cells no type at all."""
    make, cells = WRITTEN[name]

    def in_file(cells, number):
        file = tmp_path / f"{number}.parquet"
        pd.DataFrame({"a": make(cells)}).to_parquet(file)
        return frame_of(file)["a"]

    first = in_file(cells, 0)
    alone = admitted(first), people(first)
    nobody = [None] * len(cells)
    for others in (cells, [None, *cells[1:]], nobody, [cells[0], *nobody[1:]], [*nobody[1:], cells[-1]]):
        second = in_file(others, 1)
        both = read_rows(tmp_path)["a"]
        assert admitted(both) == alone[0] + admitted(second), both.dtype
        names = people(both)
        assert names[: len(cells)] == alone[1], both.dtype
        assert [mark for _, mark in names[len(cells) :]] == [mark for _, mark in people(second)], both.dtype


CSV = {
    "whole numbers": [str(each) for each in WHOLE],
    "whole numbers, signed": [str(each) for each in WHOLE + SIGNED],
    "numbers": ["1", "2", "0.1", "1e16", "31"],
    "truth values": ["True", "False", "True"],
}
AS_TEXT = {"dtype": str, "keep_default_na": False}


def read_csv(cells, **options):
    return pd.read_csv(io.StringIO("\n".join(["a,b", *(f"{cell},0" for cell in cells)])), **options)["a"]


@pytest.mark.parametrize("name", CSV)
def test_in_csv_files_that_pandas_reads_by_default(name):
    odd = ["", "NA", "1.5", "-1"] if name != "truth values" else ["", "NA"]
    check_apart(read_csv, CSV[name], odd)


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("name", CSV)
def test_in_csv_files_that_are_read_as_text(name):
    check_apart(lambda cells: read_csv(cells, **AS_TEXT), [*CSV[name], *TEXTS], ["", "NA", "1.5", "x", str(2**64)])


def of_database(cells, query="select a from t", **options):
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (a)")
        connection.executemany("insert into t values (?)", [(cell,) for cell in cells])
        found = pd.read_sql(query, connection, **options)["a"]
    connection.close()
    return found


AS_TEXTS = "select cast(a as text) as a from t"


def test_one_float_in_a_database_merges_no_other_ids_that_are_read_as_texts():
    """As nullable numbers they would be floats: SQLite holds to no type."""
    ids = [ID, ID + 1, ID + 2, 7]
    check_apart(lambda cells: of_database(cells, AS_TEXTS), ids, [1.5, None, "x", b"1"])
    lost = of_database([*ids[:3], 1.5], dtype_backend="numpy_nullable")
    assert people(lost)[0] != people(of_database(ids, dtype_backend="numpy_nullable"))[0]


@pytest.mark.parametrize("name", ["whole numbers", "whole numbers, signed", "floats", "texts"])
def test_in_tables_of_databases_that_pandas_reads_by_default(name):
    check_apart(of_database, LISTS[name], [None, 1.5, -1, "x", "1", b"1"])


IDS = range(ID, ID + 1000)


def written(cells, folder):
    pd.DataFrame({"a": cells}).to_parquet(folder / "0.parquet")
    return folder / "0.parquet"


READERS = {
    "a list": lambda cells, _: pd.Series(cells),
    "read_csv": lambda cells, _: read_csv(["" if cell is None else cell for cell in cells]),
    "read_sql": lambda cells, _: of_database(cells),
    "read_parquet": lambda cells, folder: pd.read_parquet(written(cells, folder))["a"],
    "a site": lambda cells, folder: frame_of(written(cells, folder))["a"],
    "an Arrow file": lambda cells, folder: pd.read_parquet(arrow_file(cells, folder))["a"],
}


def arrow_file(cells, folder):
    pq.write_table(pa.table({"a": pa.array(cells, pa.int64())}), folder / "0.parquet")
    return folder / "0.parquet"


REMEDIES = {
    "read_csv as text": lambda cells, _: read_csv(["" if cell is None else cell for cell in cells], **AS_TEXT),
    "read_csv as Int64": lambda cells, _: read_csv(
        ["" if cell is None else cell for cell in cells], dtype={"a": "Int64"}
    ),
    "read_sql as text": lambda cells, _: of_database(cells, AS_TEXTS),
    "read_parquet as Int64": lambda cells, folder: pd.read_parquet(
        arrow_file(cells, folder), dtype_backend="numpy_nullable"
    )["a"],
    "a site, of Arrow's": lambda cells, folder: frame_of(arrow_file(cells, folder))["a"],
    "a site, of Int64": lambda cells, folder: frame_of(written(pd.array(cells, dtype="Int64"), folder))["a"],
    "a list of Int64": lambda cells, _: pd.Series(cells, dtype="Int64"),
}


@pytest.mark.parametrize("reader", [*READERS, *REMEDIES])
def test_a_missing_id_of_17_digits_merges_no_other_people(reader, tmp_path):
    """As read by default nobody has a name, and as `check` advises everybody; neighbours differ by one person."""
    read, lost = (READERS | REMEDIES)[reader], reader in READERS
    found = []
    for cells in ([*IDS], [*IDS[:-1], None]):
        column = read(cells, tmp_path)
        found.append(int(persons_of(column).max()) + 1)
        assert Categorical([str(ID), str(ID + 1)]).admit(column).missing[:2].tolist() == [lost] * 2
    assert found == ([0, 0] if lost else [1000, 999])
