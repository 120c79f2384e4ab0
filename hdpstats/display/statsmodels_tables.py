"""Tables and summaries of statsmodels whose texts are escaped in HTML and LaTeX.

Loading statsmodels takes long, so that this module is imported where a table is made.
"""

import html
import textwrap
from itertools import repeat
from os import PathLike
from typing import Any, final

from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import Cell, SimpleTable, get_output_format
from statsmodels.iolib.tableformatting import fmt_base

from hdpstats.display import key_values
from hdpstats.display.word import write_docx

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


@final
class EscapedCell(Cell):  # type: ignore[misc]  # statsmodels is not typed
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

    def _get_fmt(self, output_format: str, **fmt: Any) -> dict[str, Any]:
        """Return how the cell is written; where its row says so, that is not looked up again for each cell."""
        if "colsep" in fmt:
            return {**self._fmt, **fmt}
        return dict(super()._get_fmt(output_format, **fmt))


class TextTable(SimpleTable):  # type: ignore[misc]  # statsmodels is not typed
    """A table of texts; as text each column is as wide as its longest cell, or as it is asked to be."""

    def _get_colwidths(self, output_format: str, **fmt: Any) -> list[int]:
        """Return the widths of columns, in statsmodels' place, which formats each cell to measure it."""
        if get_output_format(output_format) != "txt":
            return list(super()._get_colwidths(output_format, **fmt))
        asked = {**self.output_formats["txt"], **fmt}["colwidths"] or repeat(0)
        columns = ([len(str(cell.data)) for cell in cells] for cells in zip(*self, strict=True))
        return [max(width, *lengths) for width, lengths in zip(asked, columns, strict=False)]


@final
class Pairs(TextTable):
    """Names and values."""

    def as_html(self, **_: Any) -> str:
        """Return the table as HTML."""
        return key_values([(str(row[0].data), str(row[1].data)) for row in self], caption=self.title)


@final
class Wrapped(TextTable):
    """A table whose names or values are broken into rows as text, and are ``whole`` in every other form."""

    def __init__(self, *lines: Any, whole: TextTable, **form: Any) -> None:
        """Take the rows of the text as `TextTable` does, and the whole table."""
        super().__init__(*lines, **form)
        self.whole = whole

    def as_html(self, **fmt: Any) -> str:
        """Return the whole table as HTML."""
        self.whole.title = self.title
        return str(self.whole.as_html(**fmt))

    def as_latex_tabular(self, center: bool = True, **fmt: Any) -> str:
        """Return the whole table as LaTeX."""
        self.whole.title = self.title
        return str(self.whole.as_latex_tabular(center=center, **fmt))

    def as_csv(self, **fmt: Any) -> str:
        """Return the whole table as CSV."""
        self.whole.title = self.title
        return str(self.whole.as_csv(**fmt))


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
        """Write title, tables and notes to a Word file. Needs ``pip install python-docx``.

        Raises
        ------
        HdpError
            If python-docx is not installed.
        """
        title = str(self.tables[0].title) if self.tables and self.tables[0].title else ""
        whole = [part.whole if isinstance(part, Wrapped) else part for part in self.tables]
        grids = [[[str(cell.data) for cell in row] for row in part] for part in whole]
        write_docx(path, title=title, grids=grids, notes=(self.extra_txt or "").splitlines())

    def as_text(self) -> str:
        """Return tables and notes as plain text, notes wrapped to the width of the tables."""
        bodies = [str(part) for part in self.tables]
        joined = "\n".join([*(body.rpartition("\n")[0] for body in bodies[:-1]), bodies[-1]])
        lines = (line.rstrip() for line in joined.splitlines())
        notes, width = (self.extra_txt or "").splitlines(), text_width(self.tables[-1])
        return "\n".join([*lines, *(textwrap.fill(note, width) for note in notes)])


def layout(aligns: str) -> dict[str, Any]:
    """Return how a table is written as text, its columns aligned by one letter each."""
    return {**fmt_base, "colwidths": None, "data_aligns": aligns}


def text_width(part: SimpleTable) -> int:
    """Return the width of a table as text."""
    return len(part[-1].as_string("txt", **part.output_formats["txt"]))
