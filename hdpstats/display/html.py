"""Small pieces of HTML with every text escaped. No colours, so that they are legible on any background."""

import html
from collections.abc import Iterable


def element(tag: str, text: str) -> str:
    """Return an element that holds text.

    >>> element("td", "size[T.<=20]")
    '<td>size[T.&lt;=20]</td>'
    """
    return f"<{tag}>{html.escape(text)}</{tag}>"


def key_values(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values.

    >>> key_values([("epsilon", "1")])
    '<table><tbody><tr><th>epsilon</th><td>1</td></tr></tbody></table>'
    """
    lines = (f"<tr>{element('th', name)}{element('td', value)}</tr>" for name, value in rows)
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def details(title: str, content: str) -> str:
    """Return a section that opens on a click; ``content`` is HTML, ``title`` is text."""
    return f"<details>{element('summary', title)}{content}</details>"
