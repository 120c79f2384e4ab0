import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats._base.errors import SchemaError
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.schema import Schema
from tests.examples import examples

HEAD = "format: hdpstats schema\nversion: 2\n"

NAMES = st.text(min_size=1, max_size=20).filter(
    lambda name: name == name.strip() and name.isprintable() and not set(name) & {"`", '"'} and name != "Intercept"
)
LEVELS = st.text(min_size=1, max_size=20).filter(lambda text: text.isascii() or not _has_surrogate(text))
BOUNDS = st.floats(-1e12, 1e12, allow_nan=False)


def _has_surrogate(text):
    return any("\ud800" <= character <= "\udfff" for character in text)


@st.composite
def bounded(draw):
    lower = draw(BOUNDS)
    upper = draw(BOUNDS.filter(lambda value: abs(value - lower) > 1.0))
    lower, upper = sorted([lower, upper])
    return draw(st.sampled_from([Continuous, Offset]))(lower, upper, missing=draw(st.floats(lower, upper)))


COLUMNS = st.one_of(
    bounded(),
    st.builds(Binary, missing=st.sampled_from([0, 1]), labels=st.sampled_from([None, ("no", "yes"), ("1", "2")])),
    st.builds(Binary, complete=st.booleans()),
    st.builds(Categorical, st.just(["a", "b"]), other=st.sampled_from([None, "a"]), missing_level=LEVELS | st.none()),
    st.builds(Duration, st.floats(1e-6, 1e12), st.none() | LEVELS),
    st.builds(Weight, st.floats(1e-6, 1e12)),
    st.lists(LEVELS, min_size=2, max_size=5, unique=True).map(Categorical),
    st.sampled_from([["no", "yes"], ["1", "2"], ["~", "null"], ["1e3", "0x1"], ["2020-01-01", "="]]).map(Categorical),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("dictionary") / "schema.yaml"


@given(columns=st.dictionaries(NAMES, COLUMNS, min_size=1, max_size=5))
@examples(150)
def test_yaml_round_trip(path, columns):
    schema = Schema(columns)
    schema.to_yaml(path)
    again = Schema.from_yaml(path)
    assert again == schema
    assert list(again) == list(schema)
    assert again.sha256 == schema.sha256


@pytest.mark.covering(1)
@pytest.mark.parametrize("place", ["{}", "a{}", "{}a", "a{}b", "a {} b", "{0}{0}", "'{}\""])
@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\ufeff", "\n", "\r", "\t", "\x00", "\xa0", " "])
def test_characters_that_do_not_print_survive(path, character, place):
    schema = Schema(a=Categorical([place.format(character), "b" * 200 + " c"]), t=Duration(1, place.format(character)))
    schema.to_yaml(path)
    assert Schema.from_yaml(path) == schema


def test_a_custodian_can_type_a_dictionary(path):
    path.write_text(
        HEAD
        + "columns:\n"
        + "  age: {kind: continuous, lower: 20, upper: 90}\n"
        + "  'no': {kind: binary}  # a comment\n"
        + "  size:\n    kind: categorical\n    levels: ['<=20', 20-50, '>50']\n"
        + "  time: {kind: duration, horizon: 2557, unit: days}\n"
    )
    expected = Schema(
        {
            "age": Continuous(20, 90),
            "no": Binary(),
            "size": Categorical(["<=20", "20-50", ">50"]),
            "time": Duration(2557, "days"),
        }
    )
    assert Schema.from_yaml(str(path)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "entries"),
        ("- a", "entries"),
        ("a: [", "cannot be read"),
        ("\x00", "cannot be read"),
        ("columns: {}", "exactly the entries"),
        (HEAD, "exactly the entries"),
        (HEAD + "columns: {}", "at least one column"),
        (HEAD + "columns: []", "must map names"),
        (HEAD + "columns: {no: {kind: binary}}", "quotes"),
        (HEAD + "columns: {a: {kind: binary}}\nnotes: x", "exactly the entries"),
        (HEAD + "columns: {a: {kind: binary, note: x}}", "'a': a binary column cannot be read.*note"),
        (HEAD + "columns: {a: {kind: ordinal}}", "'a': kind must be one of"),
        (HEAD + "columns: {a: binary}", "'a'"),
        (HEAD + "columns: {a: {kind: continuous, lower: 0, upper: 1e5}}", "'a': upper must be a number"),
        (HEAD + "columns: {a: {kind: continuous, lower: 0, upper: .inf}}", "'a': upper"),
        (HEAD + "columns: {a: {kind: categorical, levels: [no, yes]}}", "'a': levels.*quotes"),
        (HEAD + "columns: {a: {kind: categorical, levels: [010, 8]}}", "'a': levels.*quotes"),
        (HEAD + "columns:\n  a: {kind: binary}\n  a: {kind: binary}", "given twice"),
        (HEAD + "columns: {a: {kind: binary, kind: binary}}", "given twice"),
        (HEAD + "columns: {a: !!python/object/apply:os.getcwd []}", "cannot be read"),
        (HEAD.replace("2", "1") + "columns: {a: {kind: binary}}", "filled missing cells in.*version: 2"),
        (HEAD.replace("2", "3") + "columns: {a: {kind: binary}}", "version: 2"),
        (HEAD.replace("2", "yes") + "columns: {a: {kind: binary}}", "version: 2"),
        (HEAD + "columns: {a: {kind: binary, labels: [no, yes]}}", "'a': labels.*quotes"),
        (HEAD.replace("schema", "results") + "columns: {a: {kind: binary}}", "format"),
    ],
)
def test_a_text_that_is_no_dictionary_is_refused(path, text, reason):
    path.write_text(text)
    with pytest.raises(SchemaError, match=reason):
        Schema.from_yaml(path)


def test_bytes_that_are_no_utf8_are_refused(path):
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.from_yaml(path)


def test_an_absent_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Schema.from_yaml(tmp_path / "absent.yaml")


def test_the_file_is_readable(path):
    Schema(size=Categorical(["≤20", ">20"]), age=Continuous(20, 90, missing=55)).to_yaml(path)
    assert path.read_text(encoding="utf-8") == (
        "format: hdpstats schema\nversion: 2\ncolumns:\n"
        "  size:\n    kind: categorical\n    levels:\n    - ≤20\n    - '>20'\n    other: null\n"
        "    missing_level: null\n"
        "    complete: false\n"
        "  age:\n    kind: continuous\n    lower: 20.0\n    upper: 90.0\n    missing: 55.0\n    complete: false\n"
    )
