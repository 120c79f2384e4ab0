"""Tables as Word files, by python-docx, which is loaded when the first file is written."""

from collections.abc import Sequence
from os import PathLike

from hdpstats._base.errors import HdpError


def write_docx(
    path: str | PathLike[str], *, title: str, grids: Sequence[Sequence[Sequence[str]]], notes: Sequence[str]
) -> None:
    """Write a title, grids of texts row by row, and notes to a Word file.

    Raises
    ------
    HdpError
        If python-docx is not installed.
    """
    try:
        from docx import Document
    except ImportError:
        raise HdpError("Word files need python-docx: pip install python-docx") from None
    document = Document()
    if title:
        document.add_heading(title, level=2)
    for lines in grids:
        grid = document.add_table(rows=len(lines), cols=max(map(len, lines), default=0))
        grid.style = "Table Grid"
        for row, cells in zip(grid.rows, lines, strict=True):
            for place, text in zip(row.cells, cells, strict=False):
                place.text = text
        document.add_paragraph()
    for note in notes:
        document.add_paragraph(note)
    document.save(str(path))
