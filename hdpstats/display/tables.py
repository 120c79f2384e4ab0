"""Numbers, tables and summaries as statsmodels writes them, escaped in HTML and LaTeX, of one width in plain text."""

import html
import textwrap
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, final

from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import Cell, SimpleTable
from statsmodels.iolib.tableformatting import fmt_base

from hdpstats._base.errors import HdpError
from hdpstats.display.page import key_values

WIDTH = 78
_SMALL = 5e-4
"""P-values below it would be shown as 0.000."""
_HTML = {"stub": '<th style="text-align: left">%s</th>', "header": '<th style="text-align: right">%s</th>'}
_SIDES = {"l": "left", "c": "center", "r": "right"}
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "|": "$|$",
        **{sign: f"\\{sign}" for sign in "#$%&_"},
    }
)


def number(value: float, decimals: int = 4) -> str:
    """Return a number with fixed decimals; in scientific form where that would hide it.

    >>> number(0.123456), number(-2.5, 3), number(0.0), number(123456.0), number(float("nan"))
    ('0.1235', '-2.500', '0.0000', '1.235e+05', 'nan')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e4:
        return f"{value:.{decimals}f}"
    return f"{value:.{decimals}g}"


def p_value(value: float, floor: float = 0.0) -> str:
    """Return a p-value with three decimals; where it is the least that draws can tell, that bound.

    >>> p_value(0.04321), p_value(1e-9), p_value(1 / 4001, 1 / 4001), p_value(1.5 / 4001, 1 / 4001)
    ('0.043', '0.000', '<0.00025', '0.00037')
    """
    if floor > 0.0 and value <= floor * (1.0 + 1e-9):
        return f"<{floor:.2g}"
    return f"{value:.5f}" if 0.0 < floor < value < _SMALL else f"{value:.3f}"


def percent(value: float) -> str:
    """Return a share as a whole percentage.

    >>> percent(0.1234)
    '12%'
    """
    return f"{100.0 * value:.0f}%"


@final
class _EscapedCell(Cell):  # type: ignore[misc]  # statsmodels is not typed
    """A cell whose text cannot break HTML or LaTeX."""

    def format(self, width: int, output_format: str = "txt", **fmt: Any) -> str:
        """Return the cell's text, escaped for the format and padded."""
        if output_format == "html":
            text = html.escape(str(self.data))
        elif output_format == "latex":
            text = str(self.data).translate(_LATEX)
        else:
            return str(super().format(width, output_format, **fmt))
        plain = Cell(text, datatype=self.datatype, row=self.row)
        return str(plain.format(width, output_format, **(fmt | {"replacements": {}})))


@final
class _Pairs(SimpleTable):  # type: ignore[misc]  # statsmodels is not typed
    """Names and values; a row without a name goes on with the value above."""

    def as_html(self, **_: Any) -> str:
        """Return the table as HTML, where a value needs no breaking into rows."""
        whole: list[tuple[str, str]] = []
        for name, value in ((str(row[0].data), str(row[1].data)) for row in self):
            if name or not whole:
                whole.append((name, value))
            else:
                whole[-1] = (whole[-1][0], f"{whole[-1][1]} {value}")
        return key_values(whole, caption=self.title)


@final
class EscapedSummary(Summary):  # type: ignore[misc]  # statsmodels is not typed
    """A statsmodels `Summary` whose notes cannot break HTML or LaTeX."""

    def as_html(self) -> str:
        """Return tables and notes as HTML."""
        notes = (f"<p>{html.escape(note)}</p>" for note in (self.extra_txt or "").splitlines())
        return "\n".join([*(part.as_html() for part in self.tables), *notes])

    def as_latex(self) -> str:
        """Return tables and notes as LaTeX."""
        notes = [note.translate(_LATEX) for note in (self.extra_txt or "").splitlines()]
        return "\n\n".join([*(part.as_latex_tabular() for part in self.tables), *notes])

    def to_docx(self, path: str | PathLike[str]) -> None:
        """Write title, tables and notes to a Word file. Needs ``pip install 'hdpstats[word]'``.

        Raises
        ------
        HdpError
            If python-docx is not installed.
        """
        try:
            from docx import Document
        except ImportError:
            raise HdpError("Word files need python-docx: pip install 'hdpstats[word]'") from None
        document = Document()
        if self.tables and self.tables[0].title:
            document.add_heading(str(self.tables[0].title), level=2)
        for part in self.tables:
            lines = [[str(cell.data) for cell in row] for row in part]
            grid = document.add_table(rows=len(lines), cols=max(map(len, lines), default=0))
            grid.style = "Table Grid"
            for row, cells in zip(grid.rows, lines, strict=True):
                for place, text in zip(row.cells, cells, strict=False):
                    place.text = text
            document.add_paragraph()
        for note in (self.extra_txt or "").splitlines():
            document.add_paragraph(note)
        document.save(str(path))

    def as_text(self) -> str:
        """Return tables and notes as plain text, notes wrapped to the width of the tables."""
        bodies = [str(part) for part in self.tables]
        joined = "\n".join([*(body.rpartition("\n")[0] for body in bodies[:-1]), bodies[-1]])
        lines = (line.rstrip() for line in joined.splitlines())
        notes = (self.extra_txt or "").splitlines()
        return "\n".join([*lines, *(textwrap.fill(note, _text_width(self.tables[-1])) for note in notes)])


def table(
    rows: Iterable[Sequence[str]],
    *,
    headers: Sequence[str] | None = None,
    stubs: Sequence[str] | None = None,
    title: str = "",
    aligns: str = "r",
) -> SimpleTable:
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
    cells = [f'<td style="text-align: {_SIDES[align]}">%s</td>' for align in aligns]
    return SimpleTable(
        [list(row) for row in rows],
        headers,
        stubs,
        title=title,
        txt_fmt=_layout(aligns),
        html_fmt={**_HTML, "data_fmts": cells},
        ltx_fmt={"data_aligns": aligns},
        celltype=_EscapedCell,
    )


def pairs(rows: Iterable[tuple[str, str]], *, width: int = WIDTH) -> SimpleTable:
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
    listed = list(rows)
    available = max(width - max(len(name) for name, _ in listed) - 1, 8)
    names: list[str] = []
    values: list[list[str]] = []
    for name, value in listed:
        lines = textwrap.wrap(value, available, break_on_hyphens=False) or [""]
        names.extend([name, *[""] * (len(lines) - 1)])
        values.extend([line] for line in lines)
    return _Pairs(values, None, names, txt_fmt=_layout("l"), ltx_fmt={"data_aligns": "l"}, celltype=_EscapedCell)


def summary(
    title: str, tables: Sequence[SimpleTable], notes: Iterable[str] = (), *, width: int = WIDTH
) -> EscapedSummary:
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
    widest = max(width, *(_text_width(part) for part in tables))
    for part in tables:
        _stretch(part, widest)
    tables[0].title = title
    made = EscapedSummary()
    made.tables.extend(tables)
    listed = list(notes)
    if listed:
        made.add_extra_txt(listed)
    return made


def _layout(aligns: str) -> dict[str, Any]:
    return {**fmt_base, "colwidths": None, "data_aligns": aligns}


def _text_width(part: SimpleTable) -> int:
    return len(part[-1].as_string("txt", **part.output_formats["txt"]))


def _stretch(part: SimpleTable, width: int) -> None:
    """Widen the columns after the first so that the table's text has a width."""
    layout = part.output_formats["txt"]
    widths = list(part.get_colwidths("txt", **layout))
    extra, columns = width - _text_width(part), max(len(widths) - 1, 1)
    for place in range(columns):
        widths[-1 - place] += extra // columns + (1 if place < extra % columns else 0)
    layout["colwidths"] = widths
