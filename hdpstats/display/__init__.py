"""How numbers and tables look: a thin adapter over statsmodels' tables. It knows no model and no privacy."""

from hdpstats.display.page import details, element, grid, key_values, meter, notes, page, section
from hdpstats.display.tables import EscapedSummary, number, p_value, pairs, percent, summary, table

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
