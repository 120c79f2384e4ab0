"""A result on a page: the summary as a notebook shows it, what matters first."""

from collections.abc import Sequence
from typing import Final

from hdpstats.display import details, element, grid, key_values, notes, page, section
from hdpstats.privacy.budget import decimal
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.public.check import PublicCheck
from hdpstats.records.estimate import Estimate
from hdpstats.results.facts import ModelFacts
from hdpstats.results.fit_record import Purchase
from hdpstats.results.sites import SITE_HEADERS, Counts, site_cells
from hdpstats.results.summary import (
    NO_PRIVATE_RECORD,
    check_rows,
    coefficient_cells,
    coefficient_headers,
    notes_of,
    privacy_rows,
    records_of,
    shown_places,
    side_by_side,
    words_of,
)

_ALPHA: Final = 0.05


def result_page(
    *,
    facts: ModelFacts,
    estimate: Estimate,
    parts: Sequence[Estimate],
    purchase: Purchase,
    check: PublicCheck | None,
) -> str:
    """Return the page of a result: what `hdpstats.results.summary.summarise` says, with the promise in full."""
    places = shown_places(facts, estimate)
    terms = [estimate.terms[place] for place in places]
    cells = coefficient_cells(estimate, places, _ALPHA)
    coefficients = grid(["", *coefficient_headers(_ALPHA)], _named(terms, cells), aligns="lr")
    shown = [plain(_model_rows(facts, estimate, purchase.count)), coefficients]
    if len(parts) > 1:
        compared = grid(["", *(part.label for part in parts)], _named(terms, side_by_side(parts, places)), aligns="lr")
        shown.append(details(f"Estimates side by side: {', '.join(part.label for part in parts)}", compared))
    if len(purchase.sites) > 1:
        shown.append(section("Sites", grid(SITE_HEADERS, site_cells(purchase.sites), aligns="llrrrr")))
    shown.append(section("Privacy", plain(privacy_rows(estimate, purchase, sites=False))))
    if check is not None:
        shown.append(section("Checked on public rows", plain(check_rows(facts, check))))
    shown.append(notes(notes_of(estimate, parts, purchase, len(places))))
    return page(f"{facts.model} results", *shown, promise(purchase.guarantee), badges=signs(purchase.guarantee))


def signs(guarantee: Guarantee | None) -> list[str]:
    """Return what a release cost and under which relation, as badges."""
    if guarantee is None:
        return ["public rows only"]
    delta = "pure" if guarantee.delta == 0 else f"delta = {decimal(guarantee.delta)}"
    return [f"epsilon = {decimal(guarantee.epsilon)}", delta, guarantee.relation.value]


def promise(guarantee: Guarantee | None) -> str:
    """Return the guarantee in plain words, to open."""
    statement = f"{NO_PRIVATE_RECORD}." if guarantee is None else guarantee.statement()
    return details("What this promises", element("p", statement))


def _model_rows(facts: ModelFacts, estimate: Estimate, count: Counts | None) -> list[tuple[str, str]]:
    private, public = records_of(facts, count)
    rows = [("Estimate:", estimate.label), ("Private records:", private), ("Public rows:", public)]
    own = (("Weights:", facts.weights), ("Offset:", facts.offset))
    return [*words_of(facts), *rows, *((name, value) for name, value in own if value is not None)]


def _named(terms: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[term, *row] for term, row in zip(terms, cells, strict=True)]


def plain(rows: Sequence[tuple[str, str]]) -> str:
    """Return names, without the colon that text needs, and values; a row without a name is one with that above."""
    return key_values((name.removesuffix(":"), value) for name, value in rows)
