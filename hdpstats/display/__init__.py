"""How objects show themselves: a report, described once, is written as text, LaTeX, HTML and a notebook's page.

**Tables** and their numbers are written as by statsmodels, which is loaded when the first table is made.

**Pages** for notebooks are legible in light and dark, and every text is escaped. Every colour is the notebook's own
(``--jp-…``, the variables of JupyterLab's themes) or the surrounding text's; a colour written here is only what a
variable falls back to where there is no theme. Without the stylesheet, which JupyterLab takes out of notebooks that it
does not trust, a page can still be read.

* ``statsmodels_tables``: Tables and summaries of statsmodels whose texts are escaped in HTML and LaTeX.
* ``word``: Tables as Word files, by python-docx, which is loaded when the first file is written.
"""

import html
import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, final

if TYPE_CHECKING:
    from statsmodels.iolib.table import SimpleTable

    from hdpstats.display.statsmodels_tables import EscapedSummary


WIDTH = 78
_SMALLEST_SHOWN = 1e-3
"""P-values below it are shown as less than it; those of draws with more decimals, down to the least they can tell."""
_HTML = {"stub": '<th style="text-align: left">%s</th>', "header": '<th style="text-align: right">%s</th>'}
_SIDES = {"l": "left", "c": "center", "r": "right"}
_FURTHER = "  "
"""What stands before the further lines of a name."""
_LEAST_NAME = 20
"""Names that are shorter, in characters, are never written in several lines."""


def number(value: float, decimals: int = 4) -> str:
    """Return a number with fixed decimals; in scientific form where that would hide it.

    >>> number(0.123456), number(-2.5, 3), number(0.0), number(123456.0), number(float("nan"))
    ('0.1235', '-2.500', '0.0000', '1.235e+05', 'nan')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e4:
        return f"{value:.{decimals}f}"
    return f"{value:.{decimals}g}"


def stated(value: float, decimals: int = 4) -> str:
    """Return `number`, or ``N/A`` for NaN: of tables whose notes say why a number is not stated.

    >>> stated(0.25, 2), stated(float("nan"))
    ('0.25', 'N/A')
    """
    return "N/A" if math.isnan(value) else number(value, decimals)


def p_value(value: float, floor: float = 0.0) -> str:
    """Return a p-value with three decimals, or ``<0.001``; where it is the least that draws can tell, that bound.

    >>> p_value(0.04321), p_value(1e-9), p_value(1 / 4001, 1 / 4001), p_value(1.5 / 4001, 1 / 4001)
    ('0.043', '<0.001', '<0.00025', '0.00037')
    """
    if floor > 0.0 and value <= floor * (1.0 + 1e-9):
        return f"<{floor:.2g}"
    if value < _SMALLEST_SHOWN:
        return f"{value:.5f}" if floor > 0.0 else f"<{_SMALLEST_SHOWN:g}"
    return f"{value:.3f}"


def p_equals(value: float, floor: float = 0.0) -> str:
    """Return a p-value in a sentence.

    >>> p_equals(0.04321), p_equals(1e-9)
    ('p = 0.043', 'p < 0.001')
    """
    shown = p_value(value, floor)
    return f"p < {shown[1:]}" if shown.startswith("<") else f"p = {shown}"


def percent(value: float) -> str:
    """Return a share as a whole percentage: 12% for 0.1234."""
    return f"{100.0 * value:.0f}%"


def table(
    rows: Iterable[Sequence[str]],
    *,
    headers: Sequence[str] | None = None,
    stubs: Sequence[str] | None = None,
    title: str = "",
    aligns: str = "r",
) -> "SimpleTable":
    """Return a table of texts.

    Parameters
    ----------
    rows : iterable of sequences of str
        The cells, all rows of the same length.
    headers : sequence of str, optional
        One per column.
    stubs : sequence of str, optional
        One per row.
    title : str, optional
        Above the table. It is not escaped: it must hold no text of a user.
    aligns : str
        One letter (l, c, r) per column, repeated as needed.

    Examples
    --------
    >>> print(table([["0.5000"]], headers=["coef"], stubs=["age"]))
    ==========
          coef
    ----------
    age 0.5000
    ==========
    """
    from hdpstats.display.statsmodels_tables import TextTable

    return TextTable([list(row) for row in rows], headers, stubs, title=title, **_form(aligns))


def _form(aligns: str) -> dict[str, Any]:
    """Return how a table of texts is written in each form, its columns aligned by one letter each."""
    from hdpstats.display.statsmodels_tables import EscapedCell, layout

    cells = [f'<td style="text-align: {_SIDES[align]}">%s</td>' for align in aligns]
    return {
        "txt_fmt": layout(aligns),
        "html_fmt": {**_HTML, "data_fmts": cells},
        "ltx_fmt": {"data_aligns": aligns, "header_align": aligns[-1]},
        "celltype": EscapedCell,
    }


def named_rows(
    rows: Sequence[Sequence[str]], *, headers: Sequence[str], names: Sequence[str], width: int = WIDTH
) -> "SimpleTable":
    """Return a table of rows with names; as text, names that leave no room in the width go on in further lines.

    >>> names = ["age", "tumour size at the first operation[T.between 20 and 50 mm]"]
    >>> made = named_rows([["0.5000"], ["1.0000"]], headers=["coef"], names=names, width=40)
    >>> print(summary("A title", [made], width=40))
                    A title
    ========================================
                                        coef
    ----------------------------------------
    age                               0.5000
    tumour size at the first          1.0000
      operation[T.between 20 and 50
      mm]
    ========================================
    """
    from hdpstats.display.statsmodels_tables import Wrapped

    whole = table(rows, headers=headers, stubs=names)
    cells = zip(headers, *rows, strict=True)
    room = max(width - sum(1 + max(map(len, column)) for column in cells), _LEAST_NAME)
    if all(len(name) <= room for name in names):
        return whole
    lines: list[list[str]] = []
    stubs: list[str] = []
    for name, row in zip(names, rows, strict=True):
        parts = _lines_of(name, room)
        stubs += parts
        lines += [list(row), *[[""] * len(row)] * (len(parts) - 1)]
    return Wrapped(lines, headers, stubs, whole=whole, **_form("r"))


def _lines_of(name: str, room: int) -> list[str]:
    """Return a name in lines, broken at blanks, after underscores, colons and dots, and before brackets."""
    lines = [""]
    for whole in re.split(r"(?<=[\s_:.])|(?=[\[(])", name):
        piece = whole
        while piece:
            space = room - len(_FURTHER) * (len(lines) > 1) - len(lines[-1])
            if len(piece.rstrip()) <= space:
                lines[-1] += piece
                break
            if not lines[-1]:
                lines[-1], piece = piece[:space], piece[space:]
            lines.append("")
    return [lines[0].rstrip(), *(_FURTHER + line.rstrip() for line in lines[1:] if line)]


def pairs(rows: Iterable[tuple[str, str]], *, width: int = WIDTH) -> "SimpleTable":
    """Return a table of names and values; values beyond the width go on in the rows below.

    >>> rows = [("Model:", "Logit"), ("Formula:", "y ~ age + size")]
    >>> print(summary("A title", [pairs(rows, width=18)], width=18))
         A title
    ==================
    Model:   Logit
    Formula: y ~ age +
             size
    ==================
    """
    from hdpstats.display.statsmodels_tables import Pairs, Wrapped

    listed = list(rows)
    available = max(width - max(len(name) for name, _ in listed) - 1, 8)
    names: list[str] = []
    values: list[list[str]] = []
    for name, value in listed:
        lines = textwrap.wrap(value, available, break_on_hyphens=False) or [""]
        names.extend([name, *[""] * (len(lines) - 1)])
        values.extend([line] for line in lines)
    form = _form("l")
    whole = Pairs(_joined(listed), None, [name for k, (name, _) in enumerate(listed) if name or not k], **form)
    return Wrapped(values, None, names, whole=whole, **form)


def summary(
    title: str, tables: "Sequence[SimpleTable]", notes: Iterable[str] = (), *, width: int = WIDTH
) -> "EscapedSummary":
    """Return a summary of tables, stretched to one width (at least ``width``), with notes under them.

    >>> tables = [pairs([("Model:", "Logit")]), table([["1"], ["2"]], stubs=["a", "b"])]
    >>> print(summary("A title", tables, ["A note."], width=12))
      A title
    ============
    Model: Logit
    ============
    a          1
    b          2
    ============
    A note.
    """
    from hdpstats.display.statsmodels_tables import EscapedSummary, text_width

    widest = max(width, *(text_width(part) for part in tables))
    for part in tables:
        _stretch(part, widest)
    tables[0].title = title
    made = EscapedSummary()
    made.tables.extend(tables)
    if listed := list(notes):
        made.add_extra_txt(listed)
    return made


def _joined(rows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the values of names, each with those of rows without a name below it."""
    whole: list[list[str]] = []
    for name, value in rows:
        if name or not whole:
            whole.append([value])
        else:
            whole[-1] = [f"{whole[-1][0]} {value}"]
    return whole


def _stretch(part: "SimpleTable", width: int) -> None:
    """Widen the columns after the first so that the table's text has a width."""
    from hdpstats.display.statsmodels_tables import text_width

    form = part.output_formats["txt"]
    widths = list(part.get_colwidths("txt", **form))
    extra, columns = width - text_width(part), max(len(widths) - 1, 1)
    for place in range(columns):
        widths[-1 - place] += extra // columns + (1 if place < extra % columns else 0)
    form["colwidths"] = widths


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


Form = Literal["text", "page"]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Block:
    """A part of a report: a table of text, LaTeX and simple HTML, and the HTML of a page, made when they are shown."""

    text: "Callable[[], SimpleTable] | None" = None
    html: Callable[[], str] = str


def named_values(rows: Sequence[tuple[str, str]], *, title: str = "", only: Form | None = None) -> Block:
    """Return names, with the colon that text needs, and values; a row without a name goes on with the one above.

    ``title`` is shown on a page; ``only`` says that the block is for one of the two forms.
    """

    def html() -> str:
        whole = key_values((name.removesuffix(":"), value) for name, value in rows)
        return section(title, whole) if title else whole

    return Block(text=None if only == "page" else partial(pairs, rows), html=str if only == "text" else html)


def columns(
    headers: Sequence[str],
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    folded: bool = False,
    aligns: str = "lr",
    only: Form | None = None,
    labels: Sequence[str] = (),
) -> Block:
    """Return a row of cells for each of the names, under headers of the cells.

    ``folded`` says that a page shows its title, and the rest on a click; ``aligns`` is for a page, as in `grid`.
    ``labels`` are for readers: where they differ from the names, a page has them before these.
    """
    lines = [[name, *row] for name, row in zip(names, rows, strict=True)]
    first = [""]
    if labels and list(labels) != list(names):
        lines = [[label, *line] for label, line in zip(labels, lines, strict=True)]
        first, aligns = ["", "term"], f"l{aligns}"

    def html() -> str:
        whole = grid([*first, *headers], lines, aligns=aligns)
        return whole if not title else details(title, whole) if folded else section(title, whole)

    text = None if only == "page" else partial(named_rows, rows, headers=headers, names=names)
    return Block(text=text, html=str if only == "text" else html)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Report:
    """What an object shows of itself.

    Attributes
    ----------
    title : str
        Above the text.
    blocks : sequence of Block
        The parts, in their order.
    notes : sequence of str
        What a reader must know.
    asides : sequence of str
        What a reader may want to know: below the notes of a text, on a click on a page.
    legend : sequence of str
        How the tables of the text are read; the page has headers that say it.
    heading : str
        Above the page; the title by default.
    badges : sequence of str
        Beside the page's heading.
    ending : tuple of two str or None
        A title at the end of the page, and the words that are shown on a click.
    """

    title: str
    blocks: Sequence[Block]
    notes: Sequence[str] = ()
    asides: Sequence[str] = ()
    legend: Sequence[str] = ()
    heading: str = ""
    badges: Sequence[str] = ()
    ending: tuple[str, str] | None = None

    def summary(self) -> "EscapedSummary":
        """Return statsmodels' `Summary`."""
        tables = [block.text() for block in self.blocks if block.text is not None]
        return summary(self.title, tables, [*self.notes, *self.legend, *self.asides])

    def page(self) -> str:
        """Return the page of a notebook."""
        ending = "" if self.ending is None else details(self.ending[0], element("p", self.ending[1]))
        parts = [*(block.html() for block in self.blocks), notes(self.notes)]
        if self.asides:
            parts.append(details(f"Notes ({len(self.asides)})", notes(self.asides)))
        return page(self.heading or self.title, *parts, ending, badges=self.badges)


class Reported(ABC):
    """An object that is shown by its report: as text by ``print``, as a page in a notebook, as LaTeX in a document."""

    __slots__ = ()

    @abstractmethod
    def _report(self, alpha: float = 0.05) -> Report:
        """Return the report; ``alpha`` in [0.001, 0.999] is one minus the level of its intervals."""

    def summary(self, alpha: float = 0.05) -> "EscapedSummary":
        """Return the report as statsmodels' `Summary`.

        ``print`` shows its text; ``as_html()``, ``as_latex()`` and ``as_csv()`` give the other forms. ``alpha`` in
        [0.001, 0.999] is one minus the level of the intervals.
        """
        return self._report(alpha).summary()

    def __str__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self._report().page()

    def _repr_latex_(self) -> str:
        return self.summary().as_latex()
