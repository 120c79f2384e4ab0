"""A weighted sample on a page: what was bought, how much the rows still tell, and what the weights change."""

from collections.abc import Sequence
from typing import Final

import pandas as pd

from hdpstats.display import details, grid, meter, notes, number, page, section
from hdpstats.inference import weighted_moments
from hdpstats.inference.weighted_moments import WeightDistribution
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.records.query import Release
from hdpstats.results.summary import plain, promise, promise_rows, signs
from hdpstats.results.weighted_facts import SampleFacts
from hdpstats.results.weighted_tables import made_rows, notes_of, weight_rows

_SHOWN: Final = ("feature", "public", "private", "difference", "conf_low", "conf_high")
_ALL_SHOWN: Final = 12
"""Lines of the table of shifts that are shown without opening it."""


def sample_page(
    *,
    facts: SampleFacts,
    distribution: WeightDistribution,
    balance: pd.DataFrame,
    releases: Sequence[Release],
    guarantee: Guarantee,
) -> str:
    """Return the page of a weighted sample; ``balance`` is the table of its shifts with 95 % limits."""
    shown = [plain(made_rows(facts)), section("How much the weighted rows tell", _weights(distribution))]
    if not balance.empty:
        table = _shifts(balance)
        title = "What the weights change"
        shown.append(section(title, table) if len(balance) <= _ALL_SHOWN else details(title, table))
    shown.append(section("Privacy", plain(promise_rows(guarantee, releases))))
    shown.append(notes(notes_of(facts)))
    return page("Weighted public sample", *shown, promise(guarantee), badges=signs(guarantee))


def _weights(distribution: WeightDistribution) -> str:
    size, rows = weighted_moments.effective_size(distribution.weights), len(distribution.weights)
    alike = weighted_moments.overlap(distribution.weights)
    bars = (
        meter("Effective size", f"{size:.1f} of {rows} rows", [("filled", size / rows if rows else 0.0)]),
        meter("Overlap", f"{alike:.3f} of 1", [("filled", alike)]),
    )
    return "".join(bars) + plain(weight_rows(distribution))


def _shifts(balance: pd.DataFrame) -> str:
    headers = ["mean of", "public", "private, estimated", "difference in public std dev", "95% interval"]
    cells = [
        [str(feature), number(public), number(private), f"{difference:+.2f}", f"{low:+.2f} to {high:+.2f}"]
        for feature, public, private, difference, low, high in zip(*(balance[name] for name in _SHOWN), strict=True)
    ]
    return grid(headers, cells, aligns="lr")
