"""Public rows that a user hands to a result: checked, and turned into the design of the model."""

from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.formulas import Design
from hdpstats.records.estimate import Estimate
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import check_frame


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicRows:
    """The design of public rows.

    Attributes
    ----------
    X : (m, p) float64
        The design of the m complete rows, clipped to nothing.
    offset : (m,) float64
        Their offsets, 0 without one.
    complete : (n,) bool
        Which rows those are.
    index : Index
        The labels of all n rows.
    """

    X: FloatArray
    offset: FloatArray
    complete: BoolArray
    index: pd.Index

    def spread(self, values: FloatArray) -> FloatArray:
        """Return values (m, ...) of the complete rows as one per row (n, ...), NaN in the others."""
        spread = np.full((len(self.complete), *values.shape[1:]), np.nan)
        spread[self.complete] = values
        return spread


def read_rows(frame: pd.DataFrame, schema: Schema, design: Design, *, offset: str | None, name: str) -> PublicRows:
    """Check public rows aloud and return their design; the outcome is not needed. ``name`` is the argument's."""
    plain = check_frame(frame, name=name)
    needs = [*dict.fromkeys([*design.needs[1:], *([] if offset is None else [offset])])]
    read = plain.loc[:, [label in needs for label in plain.columns]]
    table = PublicTable.from_frame(read, schema, required=needs).raw(needs)
    X = design.evaluate_unclipped(table)
    return PublicRows(
        X=X,
        offset=table.numeric[offset] if offset is not None else np.zeros(len(X)),
        complete=read.notna().all(axis=1).to_numpy(dtype=bool),
        index=plain.index,
    )


def check_identified(estimate: Estimate) -> None:
    """Refuse to predict with a coefficient that the fit's rows did not identify."""
    missing = [term for term, value in zip(estimate.terms, estimate.values, strict=True) if np.isnan(value)]
    if missing:
        raise ArgumentError(
            f"predict needs every coefficient, and the rows of this fit do not identify {', '.join(missing)}; "
            "drop those terms from the formula, or fit with private records",
            argument="frame",
        )
