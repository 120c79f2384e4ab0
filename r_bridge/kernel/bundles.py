"""What a value and a plot look like in a notebook: contents by media type, and their metadata."""

import base64
from dataclasses import dataclass, field
from typing import Any, final

from hdpstats.api import HdpError
from r_bridge.attributes import classes
from r_bridge.from_r import from_r
from r_bridge.handles import stands_for
from r_bridge.kernel.tools import fields, text
from r_bridge.strings import raw_bytes

_LARGEST_SVG = 2_000_000
"""Bytes of a drawing beyond which a picture serves better: a notebook with it would be slow to open."""


@final
@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Contents by media type; ``page`` is true for what a front end shows beside the notebook, such as help."""

    data: dict[str, str]
    metadata: dict[str, Any] = field(default_factory=dict)
    page: bool = False


def of_value(value: Any, described: Any) -> Bundle | None:
    """Return the bundle of a value that R has described; None if there is nothing to show, as for a plot's value."""
    data = {name: text(each) for name, each in fields(described).items()}
    page = data.pop("page", None) is not None
    html = _html(value)
    if html is not None and data:
        data["text/html"] = html
    return Bundle(data=data, page=page) if data else None


def _html(value: Any) -> str | None:
    """Return the HTML of an object of `hdpstats`, which is the same in R as in Python."""
    if not stands_for(classes(value)):
        return None
    try:
        show = getattr(from_r(value), "_repr_html_", None)
        return None if show is None else str(show())
    except HdpError:  # a handle of a session that has ended
        return None


def of_page(page: Any) -> Bundle:
    """Return the bundle of a page of plots: PNG and SVG of the same size on the screen."""
    parts = fields(page)
    size = {"width": round(parts.pop("width")[0]), "height": round(parts.pop("height")[0])}
    data = {"text/plain": "plot"}
    metadata: dict[str, Any] = {}
    for kind, content in parts.items():
        written = raw_bytes(content)
        if kind == "image/png":
            data[kind], metadata[kind] = base64.b64encode(written).decode(), size
        elif len(written) <= _LARGEST_SVG or len(parts) == 1:
            data[kind], metadata[kind] = written.decode(), {"isolated": True}  # else glyphs of two plots share names
    return Bundle(data=data, metadata=metadata)
