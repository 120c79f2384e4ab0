"""How long the text of a query may become that rests on releases: a site looks at it before a fit is charged.

A fit shows a site its own query before it asks for anything (`hdpstats.sites.Site.check_permitted`). What it asks later
is the same query with other numbers: they follow from released numbers of people, averages and coefficients, and from
the propensity model by which people are weighted. So the text has at most this length whatever is released.
"""

import json
from dataclasses import fields
from fractions import Fraction
from typing import Any, Final

from hdpstats.records.codec import dumps
from hdpstats.records.query import MinimiserQuery, Query

LONGEST_NUMBER: Final = 24
"""Characters of a number of double precision in JSON, at most."""

LONGEST_FRACTION: Final = 130
"""Characters of a fraction of a fit's query, at most: a denominator of 61 digits and an amount up to 10^6.

A ridge from 1e-60 to 1e60 of double precision takes fewer.
"""

_SHARE: Final = "0" * LONGEST_FRACTION
_NUMBER: Final = int("9" * LONGEST_NUMBER)
_SANDWICH: Final = {"share": _SHARE, "curvature": _NUMBER, "scores": _NUMBER, "width": _NUMBER}
_PARTS: Final = len(dumps({"smoothing_share": _SHARE, "sandwich": _SANDWICH}))
"""Characters of what a query may lack before the number of people is known, and have then."""


def longest_text(query: Query) -> int:
    """Return how long the text of a query is at most, whatever the numbers are that its own rest on.

    Each number is taken to be as long as one can be, and parts that depend on numbers to be there.
    """
    text = query.to_json()
    numbers: list[str] = []
    json.loads(text, parse_float=numbers.append, parse_int=numbers.append)
    record: Any = query
    values = (getattr(query, each.name) for each in fields(record))
    fractions = [str(value) for value in values if isinstance(value, Fraction)]
    more = sum(max(LONGEST_NUMBER - len(each), 0) for each in numbers)
    more += sum(max(LONGEST_FRACTION - len(each), 0) for each in fractions)
    return len(text.encode()) + more + (_PARTS if isinstance(query, MinimiserQuery) else 0)
