"""Estimates as JSON values, exact to the last bit."""

from typing import Any

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.records.estimate import ErrorDistribution, Estimate


def estimate_to_dict(estimate: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate as JSON values, None for none."""
    if estimate is None:
        return None
    distribution = estimate.distribution
    return {
        "label": estimate.label,
        "terms": list(estimate.terms),
        "values": numbers_to_list(estimate.values),
        "sampling": numbers_to_list(estimate.sampling),
        "privacy": numbers_to_list(estimate.privacy),
        "distribution": None
        if distribution is None
        else {"levels": numbers_to_list(distribution.levels), "quantiles": numbers_to_list(distribution.quantiles)},
        "note": estimate.note,
    }


def estimate_from_dict(fields: dict[str, Any] | None) -> Estimate | None:
    """Read what `estimate_to_dict` wrote."""
    if fields is None:
        return None
    terms = tuple(str(term) for term in fields["terms"])
    p, distribution, note = len(terms), fields["distribution"], fields["note"]
    return Estimate(
        label=str(fields["label"]),
        terms=terms,
        values=numbers_from_list(fields["values"], (p,)),
        sampling=numbers_from_list(fields["sampling"], (p, p)),
        privacy=numbers_from_list(fields["privacy"], (p, p)),
        distribution=None
        if distribution is None
        else ErrorDistribution(
            levels=numbers_from_list(distribution["levels"], (-1,)),
            quantiles=numbers_from_list(distribution["quantiles"], (-1, p)),
        ),
        note=None if note is None else str(note),
    )


def numbers_to_list(array: FloatArray) -> list[Any]:
    """Return the numbers of an array in their order, None for NaN."""
    return [None if np.isnan(value) else float(value) for value in array.ravel()]


def numbers_from_list(values: list[float | None], shape: tuple[int, ...]) -> FloatArray:
    """Return the array of a shape that `numbers_to_list` wrote."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64).reshape(shape)
