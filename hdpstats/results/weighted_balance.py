"""What weights change: means of columns among public rows, without and with them."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.inference import weighted_moments
from hdpstats.inference.weighted_moments import WeightDistribution
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema

COLUMNS = ("feature", "public", "private", "difference", "std_error", "conf_low", "conf_high")


def balance(
    distribution: WeightDistribution, rows: pd.DataFrame, schema: Schema, columns: Sequence[str], *, alpha: float
) -> pd.DataFrame:
    """Return the shifts that weights correct; see `hdpstats.results.WeightedSample.balance`.

    With ``m`` the mean and ``s`` the standard deviation of a feature over public rows and ``m_w`` its weighted mean,
    the difference is ``(m_w - m) / s``; its standard error is that of ``m_w`` over ``s``, as public rows are given.
    """
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    listed = list(_features(rows, schema, columns))
    if not listed:
        return pd.DataFrame({name: pd.Series(dtype=object if name == "feature" else float) for name in COLUMNS})
    values = np.column_stack([feature for _, feature in listed])
    public, spread = values.mean(axis=0), np.std(values, axis=0)
    means = weighted_moments.weighted_means(distribution, values)
    difference = (means.estimates - public) / spread
    error = np.sqrt(np.maximum(np.diag(means.sampling) + np.diag(means.privacy), 0.0)) / spread
    half = -float(ndtri(level / 2.0)) * error
    numbers = (public, means.estimates, difference, error, difference - half, difference + half)
    names = [name for name, _ in listed]
    return pd.DataFrame(dict(zip(COLUMNS, (names, *numbers), strict=True)))


def _features(rows: pd.DataFrame, schema: Schema, columns: Sequence[str]) -> Iterator[tuple[str, FloatArray]]:
    for name in columns:
        column = schema[name]
        if isinstance(column, Categorical):
            for level in column.levels:
                yield from _varying(f"{name} = {level}", np.asarray(rows[name] == level, dtype=np.float64))
        else:
            yield from _varying(name, rows[name].to_numpy(dtype=np.float64))


def _varying(name: str, feature: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    if np.std(feature) > 0:
        yield name, feature
