"""The private rows as a mechanism sees them: bounded, weighted, complete."""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.data.table import AdmittedTable
from hdpstats.design.design import Design
from hdpstats.design.geometry import whiten
from hdpstats.queries.geometry import Geometry


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class PrivateRows:
    """Rows ``X`` (n, D), outcome ``y`` (n,), total weights (n,), offset (n,), all within their declared bounds."""

    X: FloatArray
    y: FloatArray
    weights: FloatArray
    offset: FloatArray


def rows_of(
    table: AdmittedTable, *, design: Design, geometry: Geometry, weights: str | None, offset: str | None
) -> PrivateRows:
    """Return the whitened, weighted rows of an admitted table: a total, row-wise map."""
    rows = whiten(geometry, design.matrix(table))
    case = table.numeric[weights] if weights is not None else np.ones(table.rows)
    shift = table.numeric[offset] if offset is not None else np.zeros(table.rows)
    return PrivateRows(X=rows.X, y=table.numeric[design.response], weights=rows.weights * case, offset=shift)
