"""The data dictionary: a schema as a YAML file that a custodian can read, edit and keep.

::

    format: hdpstats schema
    version: 1
    columns:
      age: {kind: continuous, lower: 20, upper: 90}
      size: {kind: categorical, levels: ['<=20', '20-50', '>50']}
      hormon: {kind: binary}
"""

from collections.abc import Hashable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

import yaml

from hdpstats._base.canonical import Json
from hdpstats._base.errors import SchemaError

FORMAT: Final = "hdpstats schema"
VERSION: Final = 1


class UniqueKeys(yaml.SafeLoader):
    """PyYAML's safe loader, except that an entry given twice is an error instead of a silent overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return the mapping of a node whose keys are all different, as texts."""
        keys = [key.value for key, _ in node.value]
        if len(keys) != len({str(key) for key in keys}):
            raise yaml.constructor.ConstructorError(None, None, "an entry is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


class _Escaping(yaml.SafeDumper):
    """PyYAML's safe dumper, except that text with characters that do not print is quoted and escaped.

    PyYAML writes some of them (the line breaks of Unicode) as they are, and reads them back as blanks.
    """


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Escaping.add_representer(str, _represent_text)


def document(columns: Mapping[str, Json]) -> dict[str, Json]:
    """Return the declarations of columns with the format's name and version around them."""
    return {"format": FORMAT, "version": VERSION, "columns": dict(columns)}


def columns(entries: Mapping[str, object]) -> dict[str, Any]:
    """Return the declarations of columns in a document, after checking what is around them."""
    if not isinstance(entries, Mapping) or set(entries) != {"format", "version", "columns"}:
        raise SchemaError("a data dictionary has exactly the entries 'format', 'version' and 'columns'")
    if entries["format"] != FORMAT or entries["version"] != VERSION or entries["version"] is True:
        raise SchemaError(f"a data dictionary must say 'format: {FORMAT}' and 'version: {VERSION}'")
    declared = entries["columns"]
    if not isinstance(declared, Mapping) or not all(isinstance(name, str) for name in declared):
        raise SchemaError("'columns' must map names to declarations; put names such as 'no' or '1' in quotes")
    return dict(declared)


def write(path: str | PathLike[str], entries: Mapping[str, Json]) -> None:
    """Write a document as YAML, in UTF-8."""
    shown = yaml.dump(dict(entries), Dumper=_Escaping, sort_keys=False, allow_unicode=True, width=110)
    Path(path).write_text(shown, encoding="utf-8", newline="\n")


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a document from YAML, with the safe loader; text that is no YAML is a `SchemaError`."""
    try:
        entries = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=UniqueKeys)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SchemaError(f"the data dictionary cannot be read: {error}") from None
    if not isinstance(entries, dict):
        raise SchemaError("a data dictionary has the entries 'format', 'version' and 'columns'")
    return entries
