"""Small pieces of HTML with every text escaped; `hdpstats.display.page` gives them their looks."""

import html
from collections.abc import Iterable


def element(tag: str, text: str, **attributes: str) -> str:
    """Return an element that holds text; tag and names of attributes are the program's own.

    >>> element("td", "size[T.<=20]")
    '<td>size[T.&lt;=20]</td>'
    """
    written = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{written}>{html.escape(text)}</{tag}>"


def key_values(rows: Iterable[tuple[str, str]], *, caption: str = "") -> str:
    """Return a table of names and values, left-aligned.

    >>> print(key_values([("epsilon", "1")]))
    <table class="simpletable hdp-pairs">
    <tr><th style="text-align: left">epsilon</th><td style="text-align: left">1</td></tr>
    </table>
    """
    left = {"style": "text-align: left"}
    lines = [f"<tr>{element('th', name, **left)}{element('td', value, **left)}</tr>" for name, value in rows]
    above = [element("caption", caption)] if caption else []
    return "\n".join(['<table class="simpletable hdp-pairs">', *above, *lines, "</table>"])


def details(title: str, content: str) -> str:
    """Return a section that opens on a click; ``content`` is HTML, ``title`` is text."""
    return f"<details>{element('summary', title)}{content}</details>"
