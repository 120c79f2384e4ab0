"""How numbers and tables look: a thin adapter over statsmodels' tables. It knows no model and no privacy."""

from hdpstats.display.html import details, element, key_values
from hdpstats.display.numbers import number, p_value, percent
from hdpstats.display.page import grid, meter, notes, page, section
from hdpstats.display.tables import EscapedSummary, pairs, summary, table

__all__ = [
    "EscapedSummary",
    "details",
    "element",
    "grid",
    "key_values",
    "meter",
    "notes",
    "number",
    "p_value",
    "page",
    "pairs",
    "percent",
    "section",
    "summary",
    "table",
]
