import copy
import subprocess
import sys

import pytest

from hdpstats._base.errors import ArgumentError, HdpError, SchemaError
from hdpstats.display import STYLE
from hdpstats.schema.columns import KINDS, Binary, Categorical, Continuous, Duration, Offset, Weight, column_of
from hdpstats.schema.schema import Schema


def example():
    return Schema(
        age=Continuous(20, 90),
        nodes=Continuous(0, 40, missing=1),
        size=Categorical(["<=20", "20-50", ">50"]),
        hormon=Binary(),
        time=Duration(horizon=2557, unit="days"),
        w=Weight(max=5),
        o=Offset(-2, 2),
    )


def test_a_schema_is_a_mapping_of_names_to_columns():
    schema = example()
    assert list(schema) == ["age", "nodes", "size", "hormon", "time", "w", "o"]
    assert len(schema) == 7
    assert schema["age"] == Continuous(20, 90)
    assert "age" in schema
    assert "pgr" not in schema
    assert dict(schema)["hormon"] == Binary()
    with pytest.raises(KeyError):
        schema["pgr"]


def test_names_that_are_no_identifiers_are_given_in_a_mapping():
    schema = Schema({"tumour size": Continuous(0, 120), "1": Binary(), "__class__": Binary()}, self=Binary())
    assert list(schema) == ["tumour size", "1", "__class__", "self"]
    assert Schema(Schema(a=Binary()), b=Binary()) == Schema(a=Binary(), b=Binary())


@pytest.mark.parametrize(
    "name",
    ["", "x" * 101, "Intercept", " age", "age ", "a`b", 'a"b', "a\nb", "a\x00b", "a\u202eb", "\ud800", 3, None, ("a",)],
)
def test_names_that_cannot_be_used_are_refused(name):
    with pytest.raises((SchemaError, ArgumentError), match=r"column"):
        Schema({name: Binary()})


@pytest.mark.parametrize("column", [Binary, None, "binary", {"kind": "binary"}, (0, 1)])
def test_what_is_no_column_is_refused(column):
    with pytest.raises(SchemaError, match="'age'"):
        Schema(age=column)


def test_an_empty_schema_and_a_repeated_name_are_refused():
    with pytest.raises(SchemaError, match="at least one column"):
        Schema()
    with pytest.raises(SchemaError, match="declared twice: age"):
        Schema({"age": Binary()}, age=Binary())
    with pytest.raises(SchemaError, match="mapping"):
        Schema([("age", Binary())])


def test_equal_schemas_have_the_same_hash_whatever_the_order_of_columns():
    schema, turned = example(), Schema(dict(reversed(list(example().items()))))
    assert schema == turned
    assert schema.sha256 == turned.sha256
    assert hash(schema) == hash(turned)
    assert len(schema.sha256) == 64
    assert copy.deepcopy(schema) == schema


@pytest.mark.parametrize(
    "change",
    [
        {"age": Continuous(20, 91)},
        {"age": Continuous(20, 90, missing=50)},
        {"age": Offset(20, 90)},
        {"size": Categorical(["20-50", "<=20", ">50"])},
        {"size": Categorical(["<=20", "20-50", ">50"], other=">50")},
        {"time": Duration(horizon=2557, unit="months")},
        {"more": Binary()},
    ],
)
def test_any_change_of_a_declaration_changes_the_hash(change):
    changed = Schema({**example(), **change})
    assert changed != example()
    assert changed.sha256 != example().sha256


@pytest.mark.wide
def test_the_hash_is_the_same_in_another_process():
    code = (
        "from hdpstats.schema.schema import Schema; from hdpstats.schema.columns import *;"
        "print(Schema(a=Continuous(0.1, 1), b=Categorical(['x', 'é'])).sha256)"
    )
    found = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == Schema(b=Categorical(["x", "é"]), a=Continuous(0.1, 1)).sha256


def test_a_schema_cannot_be_changed():
    schema = example()
    with pytest.raises(TypeError):
        schema["age"] = Binary()
    with pytest.raises(AttributeError):
        schema.sha256 = "0"
    with pytest.raises(AttributeError):
        schema.undeclared = 1
    entries = schema.to_dict()
    entries["columns"].clear()
    assert len(schema) == 7


def test_plain_data_round_trip_keeps_the_order():
    schema = example()
    again = Schema.from_dict(schema.to_dict())
    assert again == schema
    assert list(again) == list(schema)


def test_an_error_in_a_declaration_names_the_column():
    entries = example().to_dict()
    entries["columns"]["age"]["lower"] = 100
    with pytest.raises(SchemaError, match="column 'age': lower must be below upper") as caught:
        Schema.from_dict(entries)
    assert caught.value.column == "age"
    assert isinstance(caught.value, HdpError)


def test_text_shows_every_declaration():
    assert repr(example()) == "\n".join(
        [
            "column  kind         range or levels     missing cells",
            "age     continuous   20 to 90            left out",
            "nodes   continuous   0 to 40             1",
            "size    categorical  <=20 | 20-50 | >50  left out",
            "hormon  binary       0 to 1              left out",
            "time    duration     0 to 2557 days      left out",
            "w       weight       0 to 5              left out",
            "o       offset       -2 to 2             left out",
        ]
    )


def test_html_is_escaped_and_short():
    schema = Schema({"a<b": Categorical(["<script>", *(str(level) for level in range(30))])})
    shown = schema._repr_html_()
    assert "<script>" not in shown
    assert "a&lt;b" in shown
    assert "&lt;script&gt; | 0 | 1" in shown
    assert "(31 levels)" in shown
    assert len(shown.replace(STYLE, "")) < 900


def test_what_becomes_of_missing_cells_is_a_part_of_the_hash_and_of_the_text():
    declared = [
        Schema(g=Categorical(["a", "b"])),
        Schema(g=Categorical(["a", "b"], complete=True)),
        Schema(g=Categorical(["a", "b"], other="b")),
        Schema(g=Categorical(["a", "b"], missing_level="b")),
        Schema(g=Categorical(["a", "b"], other="a", missing_level="b")),
        Schema(g=Binary()),
        Schema(g=Binary(missing=0)),
        Schema(g=Binary(complete=True)),
        Schema(g=Binary(labels=("no", "yes"))),
    ]
    assert len({schema.sha256 for schema in declared}) == len(declared)
    assert [schema._rows()[0][3] for schema in declared] == [
        "left out", "none: complete", "left out; other labels: b", "b", "b; other labels: a", "left out", "0",
        "none: complete", "left out",
    ]  # fmt: skip
    assert [schema.leaves_out("g") for schema in declared] == [True, False, True, True, False, True, False, False, True]


def test_labels_are_kept_and_shown_and_are_no_part_of_what_is_declared(tmp_path):
    plain = example()
    labelled = plain.with_labels({"age": "Age (years)", "size": "Tumour size <mm>"})
    again = labelled.with_labels(age="Alter", size=None)
    assert labelled == plain == again
    assert labelled.sha256 == plain.sha256 == again.sha256
    assert hash(labelled) == hash(plain)
    assert again.labels == {"age": "Alter"}
    assert (labelled.label("age"), plain.label("age")) == ("Age (years)", "age")
    assert "label" not in plain.to_dict()["columns"]["age"]
    labelled.to_yaml(tmp_path / "dictionary.yaml")
    assert Schema.from_yaml(tmp_path / "dictionary.yaml").labels == labelled.labels
    assert "Age (years)" in repr(labelled).splitlines()[1 + list(labelled).index("age")]
    assert "label" not in repr(plain)
    assert "Tumour size &lt;mm&gt;" in labelled.as_html()


def test_every_kind_of_column_has_a_label():
    kinds = (
        Continuous(0, 1, label="x"), Binary(label="x"), Categorical(["a", "b"], label="x"), Duration(5, label="x"),
        Weight(5, label="x"), Offset(0, 1, label="x"),
    )  # fmt: skip
    assert {column.kind for column in kinds} == set(KINDS)
    for column in kinds:
        assert column.label == "x"
        assert column_of(column.to_dict()).label == "x"
        assert column_of(column.declaration()).label is None
        assert column_of(column.declaration()) == column


@pytest.mark.parametrize("label", ["", " Age", "Age\n(years)", 3, "a" * 201, "\u202eegA"])
def test_a_label_is_a_line_of_text(label):
    with pytest.raises(HdpError, match="label"):
        Continuous(0, 1, label=label)
    with pytest.raises(SchemaError, match="not declared: 'sex'"):
        example().with_labels(sex="Sex")
