"""What R may ask of weighted public samples: functions with keyword arguments, as in `r_bridge.functions`.

R evaluates expressions over the rows itself; their values come here as columns of numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import checked_call, many, whole


def _bought(buy: Callable[..., Any], options: Mapping[str, Any], *, name: str) -> Any:
    given = {key: whole(value) if key == "replicate" else value for key, value in options.items()}
    return checked_call(buy, given, name=name)


def hybrid_weights(study: hdp.Study, columns: Any, **options: Any) -> Any:
    """Buy weights from counts at public points."""
    names = _names(columns, len(study.schema) if isinstance(study, hdp.Study) else 0)
    return _bought(hdp.hybrid_weights, {"study": study, "columns": names, **options}, name="hybrid_weights")


def _names(columns: Any, most: int) -> list[str]:
    """Return names of columns; what cannot be names, such as the values of a column, is refused and not quoted."""
    names = many(columns)
    if len(names) > most or not all(isinstance(name, str) for name in names):
        raise hdp.ArgumentError("columns must be names of the schema's columns, each once", argument="columns")
    return names


def importance_weights(study: hdp.Study, formula: str, **options: Any) -> Any:
    """Buy weights from a density ratio."""
    return _bought(hdp.importance_weights, {"study": study, "formula": formula, **options}, name="importance_weights")


def checked(sample: object) -> hdp.WeightedSample:
    """Return the sample, or raise where it is none."""
    if not isinstance(sample, hdp.WeightedSample):
        raise hdp.ArgumentError(f"x must be a dp_weighted_sample, not {type(sample).__name__}", argument="x")
    return sample


def _features(frame: pd.DataFrame) -> Iterator[tuple[str, Callable[[pd.DataFrame], Any]]]:
    for name in map(str, frame):
        yield name, partial(_given, frame[name].to_numpy(dtype=float, na_value=float("nan")))


def _given(values: Any, _rows: pd.DataFrame) -> Any:
    return values


def sample_mean(sample: hdp.WeightedSample, frame: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Return the means of columns of numbers, a row each, with limits."""
    lines = []
    for name, values in _features(frame):
        found = checked(sample).mean(values)
        lines.append((name, found.estimate, found.std_error, found.sampling_error, *found.conf_int(alpha)))
    return pd.DataFrame(lines, columns=["term", "estimate", "std_error", "sampling_error", "conf_low", "conf_high"])


def sample_quantile(
    sample: hdp.WeightedSample, frame: pd.DataFrame, probabilities: Any, alpha: float = 0.05
) -> pd.DataFrame:
    """Return the quantiles of columns of numbers, a row for each column and probability."""
    asked = many(probabilities)
    if not asked or not all(isinstance(each, int | float) and 0 < each < 1 for each in asked):
        raise hdp.ArgumentError("q must be one or more numbers between 0 and 1", argument="q")
    tables = []
    for name, values in _features(frame):
        found = checked(sample).quantile(values, asked, alpha)
        found.insert(0, "term", name)
        tables.append(found)
    return pd.concat(tables, ignore_index=True)


def sample_table(sample: hdp.WeightedSample, columns: Any, alpha: float = 0.05) -> pd.DataFrame:
    """Return how often levels of columns occur, alone or crossed."""
    return checked(sample).table(*_names(columns, len(checked(sample).schema)), alpha=alpha)


def sample_balance(sample: hdp.WeightedSample, alpha: float = 0.05) -> pd.DataFrame:
    """Return the shifts that the weights correct."""
    return checked(sample).balance(alpha)


def sample_summary(sample: hdp.WeightedSample) -> str:
    """Return the summary as text."""
    return str(checked(sample).summary().as_text())


def sample_to_json(sample: hdp.WeightedSample, path: str | None = None) -> str:
    """Return a sample as JSON text, and write it to a file where a path is given."""
    return checked(sample).to_json(path)


SAMPLES: dict[str, Callable[..., Any]] = {
    "hybrid_weights": hybrid_weights,
    "importance_weights": importance_weights,
    "sample_mean": sample_mean,
    "sample_quantile": sample_quantile,
    "sample_table": sample_table,
    "sample_balance": sample_balance,
    "sample_summary": sample_summary,
    "sample_to_json": sample_to_json,
    "sample_from_json": hdp.WeightedSample.from_json,
}
"""The functions by the names that R uses."""
