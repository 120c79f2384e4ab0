"""How numbers and tables look: a thin adapter over statsmodels' tables. It knows no model and no privacy."""

from hdpstats.display.report import (
    Block,
    Report,
    Reported,
    columns,
    details,
    element,
    grid,
    key_values,
    meter,
    named_values,
    notes,
    page,
    section,
)
from hdpstats.display.tables import number, p_equals, p_value, pairs, percent, summary, table

__all__ = [
    "Block",
    "Report",
    "Reported",
    "columns",
    "details",
    "element",
    "grid",
    "key_values",
    "meter",
    "named_values",
    "notes",
    "number",
    "p_equals",
    "p_value",
    "page",
    "pairs",
    "percent",
    "section",
    "summary",
    "table",
]
