"""Tables of a weighted public sample: means, quantiles, frequencies, shifts, the summary, the page."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.display import Block, Report, columns, meter, named_values, number, percent, section
from hdpstats.inference import weighted_moments
from hdpstats.inference.weighted_moments import CalibratedWeights, WeightDistribution
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows, noisy_number
from hdpstats.results.tables import normal_quantile
from hdpstats.schema.columns import Categorical

if TYPE_CHECKING:
    from hdpstats.results.weighted_sample import WeightedSample

MOST_LEVELS = 200
"""Combinations of levels that a table may have."""

_SHIFTS: Final = ("feature", "public", "private", "difference", "std_error", "conf_low", "conf_high")
_SHOWN: Final = ("public", "private", "difference", "conf_low", "conf_high")
_ALL_SHOWN: Final = 12
"""Lines of the table of shifts that are shown without opening it."""

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
        half = normal_quantile(alpha) * self.std_error
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
    found = []
    for each in q if isinstance(q, Iterable) else [q]:
        p = real(each, name="q", lower=0.0, upper=1.0, open_lower=True, open_upper=True)
        one = weighted_moments.weighted_quantile(distribution, values, p, alpha=level)
        found.append((p, one.value, one.std_error, one.lower, one.upper))
    return pd.DataFrame(found, columns=["q", "estimate", "std_error", "conf_low", "conf_high"])


def means_of(distribution: WeightDistribution, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means of columns (n, k) and their standard errors, sampling and noise together."""
    means = weighted_moments.weighted_means(distribution, values)
    return means.estimates, np.sqrt(np.maximum(np.diag(means.sampling) + np.diag(means.privacy), 0.0))


def balance(sample: "WeightedSample", *, alpha: float) -> pd.DataFrame:
    """Return the shifts that weights correct; see `hdpstats.results.WeightedSample.balance`.

    With ``m`` the mean and ``s`` the standard deviation of a feature over public rows and ``m_w`` its weighted mean,
    the difference is ``(m_w - m) / s``; its standard error is that of ``m_w`` over ``s``, as public rows are given.
    """
    z, features = normal_quantile(alpha), _features(sample)
    values = np.ascontiguousarray(np.array(list(features.values())).reshape(len(features), len(sample)).T)
    public, spread = values.mean(axis=0), np.std(values, axis=0)
    private, error = means_of(sample.distribution, values) if features else (public, public)
    difference, half = (private - public) / spread, z * error / spread
    numbers = (public, private, difference, error / spread, difference - half, difference + half)
    table = pd.DataFrame(dict(zip(_SHIFTS, (pd.Series(list(features), dtype=object), *numbers), strict=True)))
    if isinstance(sample.distribution, CalibratedWeights):
        table["uncalibrated"] = means_of(sample.distribution.base, values)[0] if features else private
    return table


def _features(sample: "WeightedSample") -> dict[str, FloatArray]:
    """Return the features (n,) of the weighted columns that vary, an indicator for each level."""
    found: dict[str, FloatArray] = {}
    for name in sample.facts.columns:
        column, cells = sample.schema[name], sample.rows[name]
        if isinstance(column, Categorical):
            found |= {f"{name} = {level}": np.asarray(cells == level, dtype=np.float64) for level in column.levels}
        else:
            found[name] = cells.to_numpy(dtype=np.float64)
    return {name: feature for name, feature in found.items() if np.std(feature) > 0}


def frequencies(sample: "WeightedSample", names: Sequence[str], *, alpha: float) -> pd.DataFrame:
    """Return counts and shares of levels; see `hdpstats.results.WeightedSample.table`."""
    z, rows = normal_quantile(alpha), sample.rows
    unknown = [name for name in names if name not in rows]
    if not names or unknown:
        raise ArgumentError(
            f"columns must be one or more of {', '.join(map(str, rows.columns))}"
            + (f", not {unknown[0]!r}" if unknown else ""),
            argument="columns",
        )
    grouped = rows.groupby(list(names), observed=True, dropna=False, sort=True)
    if grouped.ngroups > MOST_LEVELS:
        raise ArgumentError(
            f"these columns have {grouped.ngroups} combinations of values in the public rows; a table shows at most "
            f"{MOST_LEVELS}: cut numbers into classes first, or ask for mean() and quantile()",
            argument="columns",
        )
    groups = grouped.ngroup().to_numpy()
    share, error = means_of(sample.distribution, (groups[:, None] == np.arange(grouped.ngroups)).astype(np.float64))
    return (
        grouped.size()
        .index.to_frame(index=False)
        .assign(
            count=share * float(np.sum(sample.distribution.weights)),
            share=share,
            std_error=error,
            conf_low=np.maximum(share - z * error, 0.0),
            conf_high=np.minimum(share + z * error, 1.0),
        )
    )


def sample_report(sample: "WeightedSample", shifts: pd.DataFrame) -> Report:
    """Return the report of a weighted sample: how it was made, its diagnostics, the privacy block, notes.

    ``shifts`` is its `balance`, which a page shows, as it shows diagnostics that are shares as bars.
    """
    facts, weights = sample.facts, sample.distribution.weights
    rows, total = len(weights), float(np.sum(weights))
    people = "unknown" if facts.records is None else str(facts.records)
    made = [
        ("Method:", facts.method),
        ("Columns:", facts.formula or ", ".join(facts.columns)),
        ("No. private records:", noisy_number(people, facts.records_sd, complete=bool(facts.complete_rows))),
        ("No. public rows:", str(facts.public_rows)),
    ]
    size, overlap = f"{sample.effective_size:.1f} of {rows}", f"{sample.overlap:.3f}"
    largest = percent(sample.max_weight) if total > 0 else "none"
    extremes = [
        ("Largest weight:", f"{largest} of the total"),
        ("Rows without weight:", str(int(np.sum(weights <= 0.0)))),
    ]
    bars = (
        meter("Effective size", f"{size} rows", [("filled", sample.effective_size / rows if rows else 0.0)]),
        meter("Overlap", f"{overlap} of 1", [("filled", sample.overlap)]),
    )
    alike = ("Overlap:", f"{overlap} (1: weighted and unweighted public rows agree)")
    blocks = [
        named_values(made),
        named_values([("Effective size:", f"{size} public rows"), *extremes, alike], only="text"),
        Block(html=section("How precise the weighted rows are", "".join(bars))),
        named_values(extremes, only="page"),
        *([] if shifts.empty else [_shifts(shifts)]),
        named_values(guarantee_rows(sample.guarantee, sample.releases), title="Privacy"),
    ]
    return Report(
        title="Weighted public sample, differentially private",
        heading="Weighted public sample",
        blocks=blocks,
        notes=[OTHER_COLUMNS, *facts.notes],
        badges=guarantee_badges(sample.guarantee),
        ending=guarantee_details(sample.guarantee),
    )


def _shifts(balance: pd.DataFrame) -> Block:
    """Return the table of shifts for a page; a long one is shown when it is asked for."""
    headers = ["public", "private, estimated", "difference in public std dev", "95% interval"]
    cells = [
        [number(public), number(private), f"{difference:+.2f}", f"{low:+.2f} to {high:+.2f}"]
        for public, private, difference, low, high in balance[list(_SHOWN)].itertuples(index=False)
    ]
    names, long = [str(feature) for feature in balance["feature"]], len(balance) > _ALL_SHOWN
    return columns(headers, names, cells, title="What the weights change", folded=long, only="page")
