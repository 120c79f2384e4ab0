"""R attributes as plain data: what pandas has no type for travels in ``DataFrame.attrs`` and finds its way back.

Plain data, because pandas copies, compares and writes them to Parquet as JSON; R's own serialisation could carry code.
"""

from typing import Any

import rpy2.rinterface as ri

from r_bridge.numbers import cells_of, doubles, integers
from r_bridge.session import helper
from r_bridge.strings import from_r_strings, to_r_strings

Plain = dict[str, Any]


def attribute(vector: Any, name: str) -> Any:
    """Return an attribute of an R object, or None."""
    try:
        return vector.do_slot(name)
    except LookupError:
        return None


def classes(vector: Any) -> list[str]:
    """Return the S3 class of an R object, empty for none."""
    found = attribute(vector, "class")
    return [] if found is None else [str(each) for each in found]


def with_attributes(vector: Any, attributes: dict[str, Any]) -> Any:
    """Return an R vector with further attributes, set by R itself, which marks it as an object where it has a class."""
    if not attributes:
        return vector
    values = ri.ListSexpVector(list(attributes.values()))
    code = "function(x, names, values) { for (i in seq_along(names)) attr(x, names[i]) <- values[[i]]; x }"
    return helper(code)(vector, ri.StrSexpVector(list(attributes)), values)


def read(vector: Any, *, without: tuple[str, ...] = ()) -> Plain:
    """Return the attributes of an R object that have a plain form, but those with an entry per row."""
    found = {}
    for name in vector.list_attrs():
        if name not in ("names", "row.names", "dim", *without):
            plain = _to_plain(vector.do_slot(name))
            if plain is not None:
                found[str(name)] = plain
    return found


def write(attributes: Plain) -> dict[str, Any]:
    """Return R objects from what `read` returned."""
    return {name: _from_plain(plain) for name, plain in attributes.items()}


def _to_plain(value: Any) -> Plain | None:
    names = attribute(value, "names")
    listed = None if names is None else from_r_strings(names)
    if isinstance(value, ri.ListSexpVector):
        items = [_to_plain(each) for each in value]
        return None if None in items else {"type": "list", "values": items, "names": listed}
    if isinstance(value, ri.StrSexpVector):
        return {"type": "character", "values": from_r_strings(value), "names": listed}
    for kind, vector in (("logical", ri.BoolSexpVector), ("integer", ri.IntSexpVector), ("double", ri.FloatSexpVector)):
        if isinstance(value, vector):
            return {"type": kind, "values": cells_of(value).tolist(), "names": listed}
    return None


def _from_plain(plain: Plain) -> Any:
    kind, values, names = plain["type"], plain["values"], plain["names"]
    if kind == "list":
        vector = ri.ListSexpVector([_from_plain(each) for each in values])
    elif kind == "character":
        vector = to_r_strings(values)
    elif kind == "double":
        vector = doubles(values)
    else:
        vector = integers(values)
        vector = ri.baseenv["as.logical"](vector) if kind == "logical" else vector
    return vector if names is None else with_attributes(vector, {"names": to_r_strings(names)})
