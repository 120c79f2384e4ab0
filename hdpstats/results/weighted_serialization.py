"""A weighted sample as versioned JSON, exact to the last bit; never pickle."""

import json
from collections.abc import Sequence
from typing import Any, Final, TypedDict

import numpy as np
import pandas as pd

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.inference.weighted_moments import WeightDistribution
from hdpstats.mechanisms.histogram.estimate import HistogramWeights
from hdpstats.mechanisms.importance_weights.estimate import DensityRatioWeights
from hdpstats.mechanisms.json_codec import query_from_json
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.records.query import Query, Release
from hdpstats.results.serialization import entry_to_dict, release_from_dict
from hdpstats.results.weighted_facts import SampleFacts
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema

FORMAT: Final = 1
LAWS: Final[dict[str, type[HistogramWeights] | type[DensityRatioWeights]]] = {
    distribution.kind: distribution for distribution in (HistogramWeights, DensityRatioWeights)
}


class Fields(TypedDict):
    """The fields of a weighted sample by name."""

    rows: pd.DataFrame
    schema: Schema
    distribution: WeightDistribution
    facts: SampleFacts
    queries: tuple[Query, ...]
    releases: tuple[Release, ...]
    guarantee: Guarantee


def write(
    *,
    rows: pd.DataFrame,
    schema: Schema,
    distribution: WeightDistribution,
    facts: SampleFacts,
    queries: Sequence[Query],
    releases: Sequence[Release],
    guarantee: Guarantee,
) -> str:
    """Return the JSON text of a sample's fields."""
    document = {
        "format": FORMAT,
        "sample": {"rows": len(rows), "columns": {name: _cells(rows[name]) for name in rows}},
        "schema": schema.to_dict(),
        "distribution": {"kind": distribution.kind, **distribution.to_dict()},
        "facts": facts.to_dict(),
        "queries": [json.loads(query.to_json()) for query in queries],
        "releases": [json.loads(release.to_json()) for release in releases],
        "entries": [entry_to_dict(release) for release in releases],
        "guarantee": guarantee.to_dict(),
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def read(text: str) -> Fields:
    """Read what `write` wrote; ArgumentError when the text is something else."""
    try:
        document = canonical.loads(text)
        version = document["format"]
        fields = _fields(document) if "sample" in document and version == FORMAT else None
    except (HdpError, KeyError, TypeError, ValueError, AttributeError):
        raise ArgumentError("this is not a weighted sample that hdpstats wrote", argument="path_or_text") from None
    if fields is None:
        raise ArgumentError(
            f"this is not a weighted sample of format {FORMAT}, which this version of hdpstats reads",
            argument="path_or_text",
        )
    return fields


def _fields(document: dict[str, Any]) -> Fields:
    schema, distribution = Schema.from_dict(document["schema"]), dict(document["distribution"])
    releases = zip(document["releases"], document["entries"], strict=True)
    found = [release_from_dict(release, entry) for release, entry in releases]
    return Fields(
        rows=_rows(document["sample"], schema),
        schema=schema,
        distribution=LAWS[distribution.pop("kind")].from_dict(distribution),
        facts=SampleFacts.from_dict(document["facts"]),
        queries=tuple(query_from_json(canonical.dumps(query)) for query in document["queries"]),
        releases=tuple(release for release in found if release is not None),
        guarantee=Guarantee.from_dict(document["guarantee"]),
    )


def _cells(column: "pd.Series[Any]") -> list[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [None if code < 0 else column.cat.categories[code] for code in column.cat.codes]
    return [None if np.isnan(value) else float(value) for value in column.to_numpy(dtype=np.float64)]


def _rows(sample: dict[str, Any], schema: Schema) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name, cells in sample["columns"].items():
        column = schema[name]
        if isinstance(column, Categorical):
            columns[name] = pd.Categorical(cells, categories=list(column.levels))
        else:
            columns[name] = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    return pd.DataFrame(columns, index=pd.RangeIndex(int(sample["rows"])))
