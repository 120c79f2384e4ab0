"""A report: what an object shows of itself, described once and written as text, LaTeX, HTML and a notebook's page."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from hdpstats.display.page import details, grid, key_values, notes, page, section
from hdpstats.display.tables import pairs, summary, table

if TYPE_CHECKING:
    from statsmodels.iolib.table import SimpleTable

    from hdpstats.display.statsmodels_tables import EscapedSummary

Form = Literal["text", "page"]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Block:
    """A part of a report: a table of text, LaTeX and simple HTML, and the HTML of a page; one may be left out."""

    text: "SimpleTable | None" = None
    html: str = ""


def named_values(rows: Sequence[tuple[str, str]], *, title: str = "", only: Form | None = None) -> Block:
    """Return names, with the colon that text needs, and values; a row without a name goes on with the one above.

    ``title`` is shown on a page; ``only`` says that the block is for one of the two forms.
    """
    html = key_values((name.removesuffix(":"), value) for name, value in rows)
    return _block(pairs(rows), html, title=title, folded=False, only=only)


def columns(
    headers: Sequence[str],
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    folded: bool = False,
    aligns: str = "lr",
    only: Form | None = None,
) -> Block:
    """Return a row of cells for each of the names, under headers of the cells.

    ``folded`` says that a page shows its title, and the rest on a click; ``aligns`` is for a page, as in `grid`.
    """
    html = grid(["", *headers], ([name, *row] for name, row in zip(names, rows, strict=True)), aligns=aligns)
    return _block(table(rows, headers=headers, stubs=names), html, title=title, folded=folded, only=only)


def _block(text: "SimpleTable", html: str, *, title: str, folded: bool, only: Form | None) -> Block:
    if title:
        html = details(title, html) if folded else section(title, html)
    return Block(text=None if only == "page" else text, html="" if only == "text" else html)


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
    heading : str
        Above the page; the title by default.
    badges : sequence of str
        Beside the page's heading.
    ending : str
        HTML at the end of the page.
    """

    title: str
    blocks: Sequence[Block]
    notes: Sequence[str] = ()
    heading: str = ""
    badges: Sequence[str] = ()
    ending: str = ""

    def summary(self) -> "EscapedSummary":
        """Return statsmodels' `Summary`."""
        return summary(self.title, [each.text for each in self.blocks if each.text is not None], self.notes)

    def page(self) -> str:
        """Return the page of a notebook."""
        parts = [*(each.html for each in self.blocks), notes(self.notes), self.ending]
        return page(self.heading or self.title, *parts, badges=self.badges)


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
