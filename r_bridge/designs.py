"""Designs and public rows for R's generics; every public function may be called from R by its name."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import instance
from r_bridge.handles import Matrix


def model_terms(result: hdp.Result) -> dict[str, Any]:
    """Return what R's generics ask of a model; places are from 1."""
    found = asdict(hdp.model_matrix.terms(instance(result, hdp.Result)))
    texts = {name: pd.Series(levels, dtype=str) for name, levels in found["levels"].items()}
    numbers = {name: pd.Series(found[name], dtype=int) for name in ("covariates", "assign")}
    return {
        **found,
        "covariates": numbers["covariates"] + 1,
        "assign": numbers["assign"],
        "columns": pd.Series(found["columns"], dtype=str),
        "levels": texts,
        "offset": result.facts.offset,
    }


def design(result: hdp.Result, newdata: pd.DataFrame) -> Matrix:
    """Return the design of public rows; NaN where a covariate is missing."""
    return Matrix(table=hdp.model_matrix.design(instance(result, hdp.Result), newdata))


def summary_parts(result: hdp.Result) -> dict[str, Any]:
    """Return a summary without coefficients, which R prints by itself: names and values, notes, the least p-value."""
    head, privacy, notes = hdp.model_matrix.summary_rows(instance(result, hdp.Result))
    pairs = {
        "head": pd.DataFrame(head, columns=["name", "value"]),
        "privacy": pd.DataFrame(privacy, columns=["name", "value"]),
    }
    side_by_side = [each for each in notes if not each.startswith("Estimates side by side")]
    errors = result.estimate.distribution
    least = 0.0 if errors is None else float(1.0 - errors.levels[-1])
    return {**pairs, "least": least, "notes": pd.Series(side_by_side, dtype=str)}


def with_coefficients(json: str, coefficients: Any) -> hdp.Result:
    """Return the result of a JSON text with other coefficients, in R's order."""
    return hdp.model_matrix.with_coefficients(hdp.Result.from_json(json), np.asarray(coefficients, dtype=np.float64))


def public_rows(study: hdp.Study) -> pd.DataFrame | None:
    """Return a study's public rows, with the levels that the schema declares; None where it has none."""
    table = instance(study, hdp.Study, argument="study").public
    return None if table is None else table.frame()


def repr_html(x: object) -> str | None:
    """Return what a notebook shows of an object."""
    show = getattr(x, "_repr_html_", None)
    return None if show is None else str(show())
