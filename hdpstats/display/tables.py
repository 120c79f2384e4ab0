"""Numbers, tables and summaries as statsmodels writes them; it is loaded when the first table is made."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statsmodels.iolib.table import SimpleTable

    from hdpstats.display.statsmodels_tables import EscapedSummary

WIDTH = 78
_SMALLEST_SHOWN = 1e-3
"""P-values below it are shown as less than it; those of draws with more decimals, down to the least they can tell."""
_HTML = {"stub": '<th style="text-align: left">%s</th>', "header": '<th style="text-align: right">%s</th>'}
_SIDES = {"l": "left", "c": "center", "r": "right"}


def number(value: float, decimals: int = 4) -> str:
    """Return a number with fixed decimals; in scientific form where that would hide it.

    >>> number(0.123456), number(-2.5, 3), number(0.0), number(123456.0), number(float("nan"))
    ('0.1235', '-2.500', '0.0000', '1.235e+05', 'nan')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e4:
        return f"{value:.{decimals}f}"
    return f"{value:.{decimals}g}"


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
    """Return a share as a whole percentage.

    >>> percent(0.1234)
    '12%'
    """
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
    from hdpstats.display.statsmodels_tables import EscapedCell, TextTable, layout

    cells = [f'<td style="text-align: {_SIDES[align]}">%s</td>' for align in aligns]
    return TextTable(
        [list(row) for row in rows],
        headers,
        stubs,
        title=title,
        txt_fmt=layout(aligns),
        html_fmt={**_HTML, "data_fmts": cells},
        ltx_fmt={"data_aligns": aligns},
        celltype=EscapedCell,
    )


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
    from hdpstats.display.statsmodels_tables import EscapedCell, Pairs, layout

    listed = list(rows)
    available = max(width - max(len(name) for name, _ in listed) - 1, 8)
    names: list[str] = []
    values: list[list[str]] = []
    for name, value in listed:
        lines = textwrap.wrap(value, available, break_on_hyphens=False) or [""]
        names.extend([name, *[""] * (len(lines) - 1)])
        values.extend([line] for line in lines)
    return Pairs(values, None, names, txt_fmt=layout("l"), ltx_fmt={"data_aligns": "l"}, celltype=EscapedCell)


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
    listed = list(notes)
    if listed:
        made.add_extra_txt(listed)
    return made


def _stretch(part: "SimpleTable", width: int) -> None:
    """Widen the columns after the first so that the table's text has a width."""
    from hdpstats.display.statsmodels_tables import text_width

    form = part.output_formats["txt"]
    widths = list(part.get_colwidths("txt", **form))
    extra, columns = width - text_width(part), max(len(widths) - 1, 1)
    for place in range(columns):
        widths[-1 - place] += extra // columns + (1 if place < extra % columns else 0)
    form["colwidths"] = widths
