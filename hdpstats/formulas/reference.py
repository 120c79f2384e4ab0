"""A reference population made of declarations alone, for planning where there are no public rows."""

import warnings

import numpy as np
from scipy.stats import qmc

from hdpstats._base.typing import FloatArray
from hdpstats.formulas.design import Design
from hdpstats.schema.columns import Categorical, NumericColumn
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

ROWS = 1024


def reference_matrix(design: Design, schema: Schema) -> FloatArray:
    """Return the design (1024, p) of rows spread evenly over the schema: independent columns, uniform within bounds.

    A quasi-random (Sobol) grid, the same every time. It assumes what nobody knows, and plans say so.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        points = qmc.Sobol(len(design.needs), scramble=False).random(ROWS)
    numeric: dict[str, FloatArray] = {}
    codes = {}
    for name, u in zip(design.needs, points.T, strict=True):
        column = schema[name]
        if isinstance(column, Categorical):
            codes[name] = np.minimum((u * len(column.levels)).astype(np.int64), len(column.levels) - 1)
        elif isinstance(column, NumericColumn) and column.kind == "binary":
            numeric[name] = (u >= 0.5).astype(float)
        elif isinstance(column, NumericColumn):
            numeric[name] = column.lower + u * (column.upper - column.lower)
    return design.matrix(AdmittedTable(numeric=numeric, codes=codes, rows=ROWS))
