"""Results, aggregates and weighted samples for R; every public function may be called from R by its name.

R evaluates expressions over the rows of a sample itself; their values come here as columns of numbers.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import checked_call, column_names, elements, instance
from r_bridge.fits import options
from r_bridge.handles import Matrix


def _method(name: str, /, result: hdp.Result, **given: Any) -> Any:
    """Call a method of a result; R's ``newdata`` is Python's ``frame``."""
    asked = options(given)
    if "newdata" in asked:
        asked["frame"] = _counted_from_one(asked.pop("newdata"))
    return checked_call(getattr(instance(result, hdp.Result), name), asked, name=name)


def _counted_from_one(frame: object) -> object:
    """Return a frame whose rows, where they have no names of their own, are numbered as R numbers them."""
    if isinstance(frame, pd.DataFrame) and isinstance(frame.index, pd.RangeIndex):
        return frame.set_axis(pd.RangeIndex(1, len(frame) + 1), axis=0)
    return frame


METHODS: Final[dict[str, Callable[..., Any]]] = {
    name: partial(_method, name)
    for name in (
        *("tidy", "glance", "odds_ratios", "hazard_ratios", "baseline_hazard"),
        *("predict", "predict_survival", "predict_hazard", "predict_incidence", "predict_median"),
    )
}
"""The methods of results by the names that R uses."""


def confint(result: hdp.Result | hdp.Aggregate, level: float = 0.95) -> Matrix:
    """Return confidence limits, a row per coefficient."""
    outside = (1.0 - level) / 2.0
    names = [f"{100.0 * share:.3g} %" for share in (outside, 1.0 - outside)]
    return Matrix(table=result.conf_int(alpha=1.0 - level).set_axis(names, axis=1))


def summary_text(result: hdp.Result | hdp.WeightedSample, **given: float) -> str:
    """Return the summary as text."""
    return str(result.summary(**given).as_text())


def to_json(result: hdp.Result | hdp.WeightedSample, path: str | None = None) -> str:
    """Return a result or a sample as JSON text, and write it to a file where a path is given."""
    return str(instance(result, hdp.Result, hdp.WeightedSample).to_json(path))


def disclosure(result: hdp.Result | hdp.WeightedSample) -> str:
    """Return the privacy record for an output checker, as JSON text."""
    return json.dumps(instance(result, hdp.Result, hdp.WeightedSample).disclosure())


def refused(result: hdp.Result, name: str) -> None:
    """Raise what Python raises for what a result does not have, as an error of `hdpstats`."""
    try:
        getattr(result, name)
    except AttributeError as error:
        raise hdp.ArgumentError(str(error), argument=name) from None


def estimates(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the public, private and pooled estimates below each other, or the only one there is.

    Columns label, term, baseline (whether the term is of a hazard's baseline), estimate, std_error, conf_low and
    conf_high.
    """
    found = instance(result, hdp.Result)
    parts = [each for each in (found.public_only, found.private_only, found.pooled) if each is not None]
    table = pd.concat([_rows(each, each.label, conf_level) for each in parts or [found.estimate]], ignore_index=True)
    table.insert(2, "baseline", table["term"].isin(_baseline(found)))
    return table


def forest(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the rows of a forest plot: combined estimates, then each site's own, below each other.

    Columns label, depth (0 for combined ones), group (whether it is combined), term, covariate (whether the term is no
    intercept and of no baseline), estimate, std_error, conf_low and conf_high.
    """
    found = instance(result, hdp.Result)
    own = [(site.site, site.estimate) for site in found.site_facts if site.estimate is not None]
    if not own:
        raise hdp.ArgumentError("only a fit to several sites has estimates of each site to plot", argument="which")
    parts = (found.pooled, found.private_only, found.public_only)
    combined = [(each.label, each) for each in parts if each is not None] or [(found.estimate.label, found.estimate)]
    table = pd.concat([_rows(each, name, conf_level) for name, each in combined + own], ignore_index=True)
    depth = np.repeat([0] * len(combined) + [1] * len(own), [len(each.terms) for _, each in combined + own])
    table.insert(1, "depth", depth)
    table.insert(2, "group", depth == 0)
    table.insert(4, "covariate", ~table["term"].isin(["Intercept", *_baseline(found)]))
    return table


def _baseline(result: hdp.Result) -> list[str]:
    """Return the terms of a hazard's baseline: the first ones of each cause."""
    hazard, terms = result.facts.hazard, result.estimate.terms
    if hazard is None:
        return []
    own = len(terms) // len(hazard.causes)
    return [term for place, term in enumerate(terms) if place % own < len(hazard.baseline_names)]


def _rows(estimate: Any, label: str, conf_level: float) -> pd.DataFrame:
    limits = estimate.conf_int(1.0 - conf_level)
    return pd.DataFrame(
        {
            "label": label,
            "term": list(estimate.terms),
            "estimate": estimate.params.to_numpy(),
            "std_error": estimate.bse.to_numpy(),
            "conf_low": limits[0].to_numpy(),
            "conf_high": limits[1].to_numpy(),
        }
    )


def compare(
    result: hdp.Result,
    reference: hdp.Result | None = None,
    frame: pd.DataFrame | None = None,
    model: str | None = None,
    formula: str | None = None,
    cause: str | None = None,
    label: str | None = None,
) -> dict[str, Any]:
    """Return a comparison with a result, or with a table of terms that comes from a ``model`` by a ``formula``."""
    other = pd.DataFrame() if frame is None else frame
    other.attrs |= {"model": model, "formula": formula}
    own = instance(result, hdp.Result)
    found = own.compare(other if reference is None else reference, cause=cause, label=label)
    hazard = own.facts.hazard
    names = () if hazard is None else tuple(hazard.baseline_names)
    return {
        **{name: getattr(found, name) for name in ("relative_error", "note", "label")},
        "table": found.frame.assign(baseline=[str(term).endswith(names) for term in found.frame["term"]]),
        "result_only": list(found.result_only),
        "reference_only": list(found.reference_only),
        "text": str(found),
    }


def aggregate_table(aggregate: hdp.Aggregate, conf_level: float = 0.95) -> pd.DataFrame:
    """Return a row per group or result and term, with limits of a level."""
    found: hdp.Aggregate = instance(aggregate, hdp.Aggregate)
    limits = pd.concat([node.estimate.conf_int(1.0 - conf_level) for node in found.nodes])
    return found.frame.assign(conf_low=limits[0].to_numpy(), conf_high=limits[1].to_numpy())


def aggregate_tidy(result: hdp.Aggregate, conf_level: float = 0.95, exponentiate: bool = False) -> pd.DataFrame:
    """Return that table; ``exponentiate`` applies to estimates and limits."""
    table = aggregate_table(result, conf_level)
    shown = ["estimate", "conf_low", "conf_high"]
    if exponentiate:
        table[shown] = np.exp(table[shown])
    return table


def _features(frame: pd.DataFrame) -> Iterator[tuple[str, Callable[[pd.DataFrame], Any]]]:
    for name in map(str, frame):
        yield name, partial(_given, frame[name].to_numpy(dtype=float, na_value=float("nan")))


def _given(values: Any, _rows: pd.DataFrame) -> Any:
    return values


def sample_mean(sample: hdp.WeightedSample, frame: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Return the means of columns of numbers, a row each, with limits."""
    lines = []
    for name, values in _features(frame):
        found = instance(sample, hdp.WeightedSample).mean(values)
        lines.append((name, found.estimate, found.std_error, found.sampling_error, *found.conf_int(alpha)))
    return pd.DataFrame(lines, columns=["term", "estimate", "std_error", "sampling_error", "conf_low", "conf_high"])


def sample_quantile(
    sample: hdp.WeightedSample, frame: pd.DataFrame, probabilities: Any, alpha: float = 0.05
) -> pd.DataFrame:
    """Return the quantiles of columns of numbers, a row for each column and probability."""
    asked = elements(probabilities)
    if not asked or not all(isinstance(each, int | float) and 0 < each < 1 for each in asked):
        raise hdp.ArgumentError("q must be one or more numbers between 0 and 1", argument="q")
    tables: list[pd.DataFrame] = []
    for name, values in _features(frame):
        found = instance(sample, hdp.WeightedSample).quantile(values, asked, alpha)
        found.insert(0, "term", name)
        tables.append(found)
    return pd.concat(tables, ignore_index=True)


def sample_table(sample: hdp.WeightedSample, columns: Any, alpha: float = 0.05) -> pd.DataFrame:
    """Return how often levels of columns occur, alone or crossed."""
    found: hdp.WeightedSample = instance(sample, hdp.WeightedSample)
    return found.table(*column_names(columns, len(found.schema)), alpha=alpha)


def sample_balance(sample: hdp.WeightedSample, alpha: float = 0.05) -> pd.DataFrame:
    """Return the differences of columns' means that the weights correct."""
    found: hdp.WeightedSample = instance(sample, hdp.WeightedSample)
    return found.balance(alpha)
