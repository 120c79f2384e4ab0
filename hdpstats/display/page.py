"""Pages for notebooks: what an object shows of itself, legible in light and dark, with every text escaped.

Every colour is the notebook's own (``--jp-…``, the variables of JupyterLab's themes) or the surrounding text's; a
colour written here is only what a variable falls back to where there is no theme. Without the stylesheet, which
JupyterLab takes out of notebooks that it does not trust, a page can still be read.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Final, Literal

STYLE: Final = """
.hdp-page {
  --hdp-line: var(--jp-border-color2, rgba(128, 128, 128, 0.4));
  --hdp-accent: var(--jp-brand-color1, #2e86de);
  max-width: 56em; padding: 0.4em 0 0.6em; line-height: 1.4;
  color: var(--jp-content-font-color1, inherit);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px);
}
.hdp-page .hdp-title {
  display: flex; flex-wrap: wrap; align-items: baseline; gap: 0.3em 0.5em;
  padding-bottom: 0.4em; margin-bottom: 0.6em; border-bottom: 2px solid var(--hdp-accent);
}
.hdp-page .hdp-title strong { font-size: 1.15em; font-weight: 600; margin-right: 0.4em; }
.hdp-page .hdp-apart { display: none; }
.hdp-page .hdp-badge {
  border: 1px solid var(--hdp-line); border-radius: 1em; padding: 0 0.7em; font-size: 0.9em; white-space: nowrap;
}
.hdp-page .hdp-badge.hdp-strong { border-color: var(--hdp-accent); font-weight: 600; }
.hdp-page .hdp-section { font-weight: 600; margin: 0.9em 0 0.2em; }
.hdp-page p { margin: 0.4em 0; max-width: 50em; }
.hdp-page .hdp-note { opacity: 0.75; font-size: 0.95em; margin: 0.25em 0; }
.hdp-page ul { margin: 0.4em 0; padding-left: 1.4em; }
.hdp-page.hdp-page table {
  border-collapse: collapse; table-layout: auto; margin: 0.3em 0; width: auto; font-size: inherit;
  font-variant-numeric: tabular-nums; color: inherit; border: none;
}
.hdp-page.hdp-page table tr, .hdp-page.hdp-page table tr:hover { background: none !important; }
.hdp-page.hdp-page table td, .hdp-page.hdp-page table th {
  padding: 0.25em 1.2em 0.25em 0; vertical-align: top; border: none; line-height: 1.4; max-width: 40em;
}
.hdp-page.hdp-page table.hdp-grid { display: block; overflow-x: auto; }
.hdp-page.hdp-page table.hdp-grid th, .hdp-page.hdp-page table.hdp-grid td { padding: 0.3em 0.9em; }
.hdp-page.hdp-page table.hdp-grid tr > :first-child { padding-left: 0; }
.hdp-page.hdp-page table.hdp-grid thead th {
  border-bottom: 1px solid currentColor; font-weight: 600; white-space: nowrap;
}
.hdp-page.hdp-page table.hdp-grid tbody tr + tr > * { border-top: 1px solid var(--hdp-line); }
.hdp-page.hdp-page table.hdp-grid tbody th { font-weight: 600; white-space: nowrap; }
.hdp-page.hdp-page table.hdp-pairs th { font-weight: 400; opacity: 0.75; white-space: nowrap; min-width: 8em; }
.hdp-page details { margin: 0.5em 0; }
.hdp-page summary { cursor: pointer; font-weight: 600; }
.hdp-page details > summary { color: var(--jp-content-link-color, var(--hdp-accent)); }
.hdp-page .hdp-meter {
  display: grid; grid-template-columns: 7em minmax(8em, 1fr) 12em; gap: 0.8em; align-items: center; margin: 0.4em 0;
}
.hdp-page .hdp-bar {
  display: flex; height: 0.8em; overflow: hidden;
  border: 1px solid var(--hdp-line); border-radius: 0.4em;
}
.hdp-page .hdp-bar > span { display: block; background: var(--hdp-accent); }
.hdp-page .hdp-bar > .hdp-reserved { opacity: 0.35; }
"""
"""The stylesheet that every page brings along."""

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
