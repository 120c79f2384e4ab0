"""Tests, contrasts and average effects for R; every public function may be called from R by its name.

Text constraints have R's names of coefficients, and a matrix has R's order of them.
"""

from typing import Any

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import elements, instance

_NAMES = {
    "coef": "estimate",
    "std err": "std_error",
    "z": "statistic",
    "P>|z|": "p_value",
    "Conf. Int. Low": "conf_low",
    "Conf. Int. Upp.": "conf_high",
}
"""Columns of statsmodels in broom's words."""


def wald_test(
    result: hdp.Result, hypothesis: str | None = None, frame: pd.DataFrame | None = None, estimate: str | None = None
) -> pd.DataFrame:
    """Return the joint test of constraints in one row, or of every term of the formula in a row each."""
    own = instance(result, hdp.Result)
    if hypothesis is None and frame is None:
        table: pd.DataFrame = own.wald_test_terms(estimate=estimate).table.reset_index()
        table["term"] = table["term"].replace("Intercept", "(Intercept)")
    else:
        found = own.wald_test(_constraints(own, hypothesis, frame), estimate=estimate)
        table = pd.DataFrame(
            {"statistic": [found.statistic], "pvalue": [found.pvalue], "df_constraint": [found.df_constraint]}
        )
    return table.rename(columns={"pvalue": "p_value", "df_constraint": "df"})


def contrasts(
    result: hdp.Result,
    hypothesis: str | None = None,
    frame: pd.DataFrame | None = None,
    conf_level: float = 0.95,
    estimate: str | None = None,
) -> pd.DataFrame:
    """Return a row for each contrast."""
    own = instance(result, hdp.Result)
    found = own.t_test(_constraints(own, hypothesis, frame), estimate=estimate)
    return _in_broom(found.summary_frame(alpha=1.0 - conf_level))


def pairwise(
    result: hdp.Result,
    term: str,
    adjust: str = "hs",
    conf_level: float = 0.95,
    cause: str | None = None,
    estimate: str | None = None,
) -> pd.DataFrame:
    """Return a row for each pair of levels of a factor, with p-values adjusted for their number."""
    found = instance(result, hdp.Result).t_test_pairwise(
        term, method=adjust, alpha=1.0 - conf_level, cause=cause, estimate=estimate
    )
    table = _in_broom(found.contrasts.summary_frame(alpha=1.0 - conf_level))
    return table.assign(adj_p_value=found.adjusted)


def average_effects(
    result: hdp.Result,
    variable: str,
    over: Any = None,
    study: hdp.Study | None = None,
    values: Any = None,
    times: Any = None,
    cause: str | None = None,
    weights: str | None = None,
    conf_level: float = 0.95,
    estimate: str | None = None,
) -> pd.DataFrame:
    """Return a row for each effect of a variable, averaged over rows: by default the public ones of a study."""
    own = instance(result, hdp.Result)
    found: pd.DataFrame = (
        (own if study is None else hdp.model_matrix.with_public_rows(own, study.public))
        .average_effects(
            variable,
            over="public" if over is None else over,
            values=None if values is None else elements(values),
            times=None if times is None else elements(times),
            cause=cause,
            weights=weights,
            estimate=estimate,
            alpha=1.0 - conf_level,
        )
        .frame
    )
    return found


def methods_text(result: hdp.Result) -> str:
    """Return the paragraph for a methods section."""
    return str(instance(result, hdp.Result).methods_text())


def result_to_docx(result: hdp.Result, path: str) -> None:
    """Write the summary of a result to a Word file."""
    instance(result, hdp.Result).summary().to_docx(path)


def _constraints(result: hdp.Result, hypothesis: str | None, frame: pd.DataFrame | None) -> Any:
    """Return constraints of a text, or of a matrix in R's order of coefficients with the values in a last column."""
    if frame is None:
        return hypothesis
    numbers = frame.to_numpy(dtype=np.float64)
    places = hdp.model_matrix.order(result)
    if numbers.shape[1] != len(places) + 1:
        raise hdp.ArgumentError(
            f"hypothesis must have a column for each of the {len(places)} coefficients", argument="hypothesis"
        )
    L = np.empty((len(numbers), len(places)))
    L[:, places] = numbers[:, :-1]
    return L, numbers[:, -1]


def _in_broom(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns=_NAMES).rename_axis("contrast").reset_index()
