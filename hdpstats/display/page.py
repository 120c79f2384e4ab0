"""Pages for notebooks: what an object shows of itself, legible in light and dark, with every text escaped.

Every colour is the notebook's own (``--jp-…``, the variables of JupyterLab's themes) or the surrounding text's; a
colour written here is only what a variable falls back to where there is no theme. Without the stylesheet, which
JupyterLab takes out of notebooks that it does not trust, a page can still be read.
"""

import html
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final, Literal

STYLE: Final = files("hdpstats.display").joinpath("page.css").read_text(encoding="utf-8")
"""The stylesheet that every page brings along: ``page.css``."""

_APART: Final = '<span class="hdp-apart"> · </span>'
"""What keeps texts apart where there is no stylesheet."""

Kind = Literal["filled", "reserved"]


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


def page(title: str, *parts: str, badges: Sequence[str] = ()) -> str:
    """Return a page: a title with badges beside it, the first of which stands out, and parts, which are HTML.

    >>> page("Ledger", "<p>3 charges</p>", badges=["version 1"]).endswith("<p>3 charges</p></div>")
    True
    """
    kinds = ["hdp-badge hdp-strong", *["hdp-badge"] * len(badges)]
    signs = "".join(
        _APART + element("span", text, **{"class": kind}) for text, kind in zip(badges, kinds, strict=False)
    )
    head = f'<div class="hdp-title">{element("strong", title)}{signs}</div>'
    return f'<div class="hdp-page"><style>{STYLE}</style>{head}{"".join(parts)}</div>'


def section(title: str, content: str) -> str:
    """Return a heading and what stands under it; ``content`` is HTML, ``title`` is text."""
    return f"{element('div', title, **{'class': 'hdp-section'})}{content}"


def details(title: str, content: str) -> str:
    """Return a section that opens on a click; ``content`` is HTML, ``title`` is text."""
    return f"<details>{element('summary', title)}{content}</details>"


def notes(texts: Iterable[str]) -> str:
    """Return small print, a paragraph each."""
    return "".join(element("p", text, **{"class": "hdp-note"}) for text in texts)


def grid(headers: Sequence[str], rows: Iterable[Sequence[str]], *, aligns: str = "l", named: bool = True) -> str:
    """Return a table with a line of headers; ``aligns`` has a letter (l, r) per column, the last one repeated.

    ``named`` says whether the first cell of a row is its name.

    >>> print(grid(["", "coef"], [["age", "0.5"]], aligns="lr"))
    <table class="hdp-grid">
    <thead><tr><th style="text-align: left"></th><th style="text-align: right">coef</th></tr></thead>
    <tbody>
    <tr><th style="text-align: left">age</th><td style="text-align: right">0.5</td></tr>
    </tbody></table>
    """

    def line(cells: Sequence[str], tags: Sequence[str]) -> str:
        sides = ("right" if letter == "r" else "left" for letter in aligns.ljust(len(cells), aligns[-1]))
        written = (
            element(tag, cell, style=f"text-align: {side}") for tag, cell, side in zip(tags, cells, sides, strict=False)
        )
        return f"<tr>{''.join(written)}</tr>"

    tags = ["th" if named else "td", *["td"] * len(headers)]
    body = "\n".join(line(row, tags) for row in rows)
    head = line(headers, ["th"] * len(headers))
    return f'<table class="hdp-grid">\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table>'


def meter(name: str, words: str, parts: Iterable[tuple[Kind, float]]) -> str:
    """Return a bar of parts of a whole, each a share from 0 to 1, with its name before and ``words`` after it.

    >>> meter("epsilon", "1 of 4 spent", [("filled", 0.25)]).count("width: 25%")
    1
    """
    spans = "".join(
        f'<span class="hdp-{kind}" style="width: {100.0 * min(max(share, 0.0), 1.0):.4g}%"></span>'
        for kind, share in parts
    )
    label = html.escape(f"{name}: {words}")
    bar = f'<span class="hdp-bar" role="img" aria-label="{label}">{spans}</span>'
    return f'<div class="hdp-meter">{element("span", name)} {bar} {element("span", words)}</div>'
