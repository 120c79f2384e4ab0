"""Tables of a weighted public sample: means, quantiles, frequencies, the summary."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.display import EscapedSummary, pairs, percent, summary
from hdpstats.inference import weighted_moments
from hdpstats.inference.weighted_moments import WeightDistribution
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.records.query import Release
from hdpstats.results.summary import promise_rows
from hdpstats.results.weighted_facts import SampleFacts

MOST_LEVELS = 200
"""Combinations of levels that a table may have."""

TITLE = "Weighted public sample, differentially private"

OTHER_COLUMNS = (
    "The weights carry over what private records say about these columns; other columns follow only as far as they "
    "depend on these alike in both."
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """An estimated number.

    Attributes
    ----------
    estimate : float
        The number.
    std_error : float
        Its standard error, sampling and privacy noise together.
    sampling_error : float
        What the standard error would be without privacy noise.
    """

    estimate: float
    std_error: float
    sampling_error: float

    def conf_int(self, alpha: float = 0.05) -> tuple[float, float]:
        """Return normal limits of level ``1 - alpha``; ``alpha`` in [0.001, 0.999].

        >>> Estimated(estimate=0.5, std_error=0.1, sampling_error=0.05).conf_int()[0].__round__(3)
        0.304
        """
        half = -float(ndtri(real(alpha, name="alpha", lower=0.001, upper=0.999) / 2.0)) * self.std_error
        return self.estimate - half, self.estimate + half


def numbers_of(frame: pd.DataFrame, of: str | Callable[[pd.DataFrame], Any]) -> FloatArray:
    """Return one finite number per row (n,) from a column's name or a function of the frame."""
    if isinstance(of, str):
        if of not in frame:
            raise ArgumentError(
                f"there is no column {of!r}; the columns are {', '.join(map(str, frame.columns))}", argument="of"
            )
        found: Any = frame[of]
    elif callable(of):
        found = of(frame)
    else:
        raise ArgumentError("of must be a column's name or a function of the frame", argument="of")
    try:
        numbers = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            "of must give numbers; for levels use table(), or compare: lambda d: d.size == '>50'", argument="of"
        ) from None
    if numbers.shape != (len(frame),):
        raise ArgumentError(f"of must give one number per row, ({len(frame)},), not {numbers.shape}", argument="of")
    if not np.isfinite(numbers).all():
        raise ArgumentError("of must give finite numbers; fill what is missing, or leave such rows out", argument="of")
    return numbers


def quantiles(
    distribution: WeightDistribution, values: FloatArray, q: float | Iterable[float], *, alpha: float
) -> pd.DataFrame:
    """Return quantiles with limits; see `hdpstats.results.WeightedSample.quantile`."""
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    asked = list(q) if isinstance(q, Iterable) else [q]
    found = []
    for each in asked:
        p = real(each, name="q", lower=0.0, upper=1.0, open_lower=True, open_upper=True)
        one = weighted_moments.weighted_quantile(distribution, values, p, alpha=level)
        found.append((p, one.value, one.std_error, one.lower, one.upper))
    return pd.DataFrame(found, columns=["q", "estimate", "std_error", "conf_low", "conf_high"])


def frequencies(
    distribution: WeightDistribution, rows: pd.DataFrame, columns: Sequence[str], *, alpha: float
) -> pd.DataFrame:
    """Return counts and shares of levels; see `hdpstats.results.WeightedSample.table`."""
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    unknown = [name for name in columns if name not in rows]
    if not columns or unknown:
        raise ArgumentError(
            f"columns must be one or more of {', '.join(map(str, rows.columns))}"
            + (f", not {unknown[0]!r}" if unknown else ""),
            argument="columns",
        )
    grouped = rows.groupby(list(columns), observed=True, dropna=False, sort=True)
    if grouped.ngroups > MOST_LEVELS:
        raise ArgumentError(
            f"these columns have {grouped.ngroups} combinations of values in the public rows; a table shows at most "
            f"{MOST_LEVELS}: cut numbers into classes first, or ask for mean() and quantile()",
            argument="columns",
        )
    groups = grouped.ngroup().to_numpy()
    indicator = (groups[:, None] == np.arange(grouped.ngroups)).astype(np.float64)
    means = weighted_moments.weighted_means(distribution, indicator)
    error = np.sqrt(np.maximum(np.diag(means.sampling) + np.diag(means.privacy), 0.0))
    half = -float(ndtri(level / 2.0)) * error
    levels = grouped.size().index.to_frame(index=False)
    return levels.assign(
        count=means.estimates * float(np.sum(distribution.weights)),
        share=means.estimates,
        std_error=error,
        conf_low=np.maximum(means.estimates - half, 0.0),
        conf_high=np.minimum(means.estimates + half, 1.0),
    )


def summarise(
    *, facts: SampleFacts, distribution: WeightDistribution, releases: Sequence[Release], guarantee: Guarantee
) -> EscapedSummary:
    """Return the summary of a weighted sample: how it was made, its diagnostics, the privacy block, notes."""
    tables = [pairs(made_rows(facts)), pairs(_diagnostics(distribution)), pairs(promise_rows(guarantee, releases))]
    return summary(TITLE, tables, notes_of(facts))


def made_rows(facts: SampleFacts) -> list[tuple[str, str]]:
    """Return how a sample was made."""
    return [
        ("Method:", facts.method),
        ("Columns:", facts.formula or ", ".join(facts.columns)),
        ("No. private records:", "unknown" if facts.records is None else str(facts.records)),
        ("No. public rows:", str(facts.public_rows)),
    ]


def notes_of(facts: SampleFacts) -> list[str]:
    """Return what a reader must know."""
    return [OTHER_COLUMNS, *facts.notes]


def weight_rows(distribution: WeightDistribution) -> list[tuple[str, str]]:
    """Return the largest weight and how many rows have none."""
    weights = distribution.weights
    total = float(np.sum(weights))
    largest = percent(float(np.max(weights, initial=0.0)) / total) if total > 0 else "none"
    return [
        ("Largest weight:", f"{largest} of the total"),
        ("Rows without weight:", str(int(np.sum(weights <= 0.0)))),
    ]


def _diagnostics(distribution: WeightDistribution) -> list[tuple[str, str]]:
    size, rows = weighted_moments.effective_size(distribution.weights), len(distribution.weights)
    return [
        ("Effective size:", f"{size:.1f} of {rows} public rows"),
        *weight_rows(distribution),
        (
            "Overlap:",
            f"{weighted_moments.overlap(distribution.weights):.3f} (1: weighted and unweighted public rows agree)",
        ),
    ]
