"""What figures of results draw, as tables; every public function may be called from R by its name."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import by_name, choice, elements, instance


def estimates(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the public, private and pooled estimates below each other, or the only one there is.

    Columns label, term, baseline (whether the term is of a hazard's baseline), estimate, std_error, conf_low and
    conf_high.
    """
    found: hdp.Result = instance(result, hdp.Result)
    parts = [each for each in (found.public_only, found.private_only, found.pooled) if each is not None]
    return _stacked(found, [(each.label, each) for each in parts or [found.estimate]], conf_level)


def coefficient_rows(
    result: hdp.Result,
    conf_level: float = 0.95,
    exponentiate: bool = False,
    labels: Any = None,
    terms: Any = None,
    scale: str = "unit",
    newdata: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Return the coefficients to draw, as `estimates` has them, in R's order or that of ``terms``; and what they are.

    A column ``shown`` has what to write in the place of terms. Without ``terms`` the baseline is left out, and the
    intercept where there are other coefficients. With the scale "sd" a number's coefficient is that of a standard
    deviation in the rows ``newdata``.
    """
    found: hdp.Result = instance(result, hdp.Result)
    table = estimates(found, conf_level)
    standard = choice(scale, name="scale", options=("unit", "sd")) == "sd"
    if standard and newdata is not None:
        factors = hdp.model_matrix.standard_deviations(found, newdata)
        numbers = ["estimate", "std_error", "conf_low", "conf_high"]
        table[numbers] = table[numbers].mul(np.tile(factors, len(table) // len(factors)), axis=0)
    known = [found.estimate.terms[place] for place in hdp.model_matrix.order(found)]
    names, wanted = by_name(labels) if labels is not None else {}, known if terms is None else elements(terms)
    if not isinstance(names, dict):
        raise hdp.ArgumentError('labels must have the names of coefficients: c(age = "age, years")', argument="labels")
    for argument, given in (("labels", names), ("terms", wanted)):
        unknown = [name for name in given if name not in known]
        if unknown:
            close = get_close_matches(str(unknown[0]), known, n=1)
            raise hdp.ArgumentError(
                f"{argument}: there is no coefficient {unknown[0]!r}; "
                + (f"did you mean {close[0]!r}?" if close else "see coef()"),
                argument=argument,
            )
    if terms is None:
        slopes = table.loc[~table["baseline"] & (table["term"] != "(Intercept)"), "term"]
        wanted = [name for name in known if name in set(slopes if len(slopes) else table["term"])]
    label = found.facts.exponentiated if exponentiate else "coefficient"
    shown = table[table["term"].isin(wanted)]
    shown = shown.sort_values("term", key=lambda each: each.map(wanted.index), kind="stable")
    return {
        "table": shown.assign(shown=shown["term"].map(lambda name: str(names.get(name, name)))).reset_index(drop=True),
        "label": f"{label}, of numbers per standard deviation" if standard else label,
    }


def unit_of_time(result: hdp.Result) -> str | None:
    """Return the declared unit of a hazard model's times; None without one."""
    hazard = instance(result, hdp.Result).facts.hazard
    return None if hazard is None else hazard.unit_of_time


def forest(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the rows of a forest plot: combined estimates, then each site's own, below each other.

    Columns label, depth (0 for combined ones), group (whether it is combined), term, covariate (whether the term is no
    intercept and of no baseline), estimate, std_error, conf_low and conf_high.
    """
    found: hdp.Result = instance(result, hdp.Result)
    own = [(site.site, site.estimate) for site in found.site_facts if site.estimate is not None]
    if not own:
        raise hdp.ArgumentError("only a fit to several sites has estimates of each site to plot", argument="which")
    parts = [each for each in (found.pooled, found.private_only, found.public_only) if each is not None]
    combined = [(each.label, each) for each in parts or [found.estimate]]
    table = _stacked(found, [*combined, *own], conf_level)
    depth = np.repeat([0] * len(combined) + [1] * len(own), len(found.estimate.terms))
    covariate = ~(table.pop("baseline") | (table["term"] == "(Intercept)"))
    for place, name, column in ((1, "depth", depth), (2, "group", depth == 0), (4, "covariate", covariate)):
        table.insert(place, name, column)
    return table


def _stacked(result: hdp.Result, parts: Sequence[tuple[str, Any]], conf_level: float) -> pd.DataFrame:
    """Return estimates of a result's terms below each other; the first terms of each cause are of its baseline."""
    hazard, terms = result.facts.hazard, list(result.estimate.terms)
    own, baseline = (1, 0) if hazard is None else (len(terms) // len(hazard.causes), len(hazard.baseline_names))
    return pd.concat(
        pd.DataFrame(
            {
                "label": label,
                "term": terms,
                "baseline": np.arange(len(terms)) % own < baseline,
                "estimate": each.params.to_numpy(),
                "std_error": each.bse.to_numpy(),
                **dict(zip(("conf_low", "conf_high"), each.conf_int(1.0 - conf_level).to_numpy().T, strict=True)),
            }
        )
        for label, each in parts
    ).reset_index(drop=True)
