"""What R may ask of studies with several sites and of results in groups: functions as in `r_bridge.functions`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import many


def study_at(study: object, names: Any) -> hdp.Study:
    """Return the study of some of its sites."""
    if not isinstance(study, hdp.Study):
        raise hdp.ArgumentError("study must be a dp_study", argument="study")
    return study.at(*many(names))


def forest(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the rows of a forest plot: combined estimates, then each site's own, below each other.

    Columns label, depth (0 for combined ones), group (whether it is combined), term, covariate (whether the term is no
    intercept and of no baseline), estimate, std_error, conf_low and conf_high.
    """
    if not isinstance(result, hdp.Result):
        raise hdp.ArgumentError(f"x must be a dp_result, not {type(result).__name__}", argument="x")
    own = [(site.site, site.estimate) for site in result.site_facts if site.estimate is not None]
    if not own:
        raise hdp.ArgumentError("only a fit to several sites has estimates of each site to plot", argument="which")
    parts = (result.pooled, result.private_only, result.public_only)
    together = [each for each in parts if each is not None] or [result.estimate]
    rows = [_rows(each.label, 0, each, conf_level) for each in together]
    rows += [_rows(name, 1, each, conf_level) for name, each in own]
    table = pd.concat(rows, ignore_index=True)
    table.insert(4, "covariate", ~table["term"].isin(["Intercept", *_baseline(result)]))
    return table


def _baseline(result: hdp.Result) -> list[str]:
    """Return the terms of a hazard's baseline: the first ones of each cause."""
    hazard, terms = result.facts.hazard, result.estimate.terms
    if hazard is None:
        return []
    own = len(terms) // len(hazard.causes)
    return [term for place, term in enumerate(terms) if place % own < len(hazard.baseline_names)]


def _rows(label: str, depth: int, estimate: Any, conf_level: float) -> pd.DataFrame:
    limits = estimate.conf_int(1.0 - conf_level)
    return pd.DataFrame(
        {
            "label": label,
            "depth": depth,
            "group": depth == 0,
            "term": list(estimate.terms),
            "estimate": estimate.params.to_numpy(),
            "std_error": estimate.bse.to_numpy(),
            "conf_low": limits[0].to_numpy(),
            "conf_high": limits[1].to_numpy(),
        }
    )


def aggregate(results: Any, between: Any = None, **options: Any) -> hdp.Aggregate:
    """Return results in groups of groups; ``between`` may have NA for members that have the same parameters."""
    several = isinstance(between, pd.Series | Sequence) and not isinstance(between, str)
    options["between"] = many(between) if several else between
    if not isinstance(results, Mapping | list | hdp.Result):
        raise hdp.ArgumentError("results must be a list of results, or of groups of them", argument="results")
    return hdp.aggregate(results, **options)


def aggregated(aggregate: object) -> hdp.Aggregate:
    """Return the aggregate, or raise where it is none."""
    if not isinstance(aggregate, hdp.Aggregate):
        raise hdp.ArgumentError(f"x must be a dp_aggregate, not {type(aggregate).__name__}", argument="x")
    return aggregate


def aggregate_table(aggregate: hdp.Aggregate, conf_level: float = 0.95) -> pd.DataFrame:
    """Return a row per group or result and term, with limits of a level."""
    found = aggregated(aggregate)
    limits = pd.concat([node.estimate.conf_int(1.0 - conf_level) for node in found.nodes])
    return found.frame.assign(conf_low=limits[0].to_numpy(), conf_high=limits[1].to_numpy())


def aggregate_tidy(result: hdp.Aggregate, conf_level: float = 0.95, exponentiate: bool = False) -> pd.DataFrame:
    """Return that table; ``exponentiate`` applies to estimates and limits."""
    table = aggregate_table(result, conf_level)
    shown = ["estimate", "conf_low", "conf_high"]
    if exponentiate:
        table[shown] = np.exp(table[shown])
    return table


MANY: dict[str, Callable[..., Any]] = {
    "study_at": study_at,
    "forest": forest,
    "aggregate": aggregate,
    "aggregate_table": aggregate_table,
    "aggregate_tidy": aggregate_tidy,
}
"""The functions by the names that R uses."""
