r"""Overlap weights of private people: a total map, row by row, at public coefficients.

The propensity is :math:`e = 1 / (1 + e^{-x'\alpha})`, with the design row ``x`` cut to the bounds of the schema and
coefficients that are public when the query is asked. A treated person weighs ``1 - e``, an untreated one ``e``: in
[0, 1] for every row and all coefficients. A row that lacks the treatment or a covariate weighs 0. The predictor is
summed in the order of the columns (`hdpstats.solvers.kernels.row_products`), and the logistic function is the one of
`hdpstats.losses.logistic`: the weight of a row depends on that row alone, to the last bit.

As integers weights are multiples of :math:`2^{-20}`, from 0 to :math:`2^{20}` (`units`).
"""

from typing import Final

import numpy as np

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.formulas import Design, compile_design
from hdpstats.losses.logistic import logistic_residual
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.kernels import product_work, row_products

UNITS: Final = 2**20
"""Steps of a weight from 0 to 1."""


def weighting_design(weighting: OverlapWeights, schema: Schema) -> Design:
    """Return the design of the propensity model, or refuse a formula or coefficients that do not fit the schema."""
    design = compile_design(weighting.formula, schema)
    if schema[design.response].kind != "binary":
        raise MechanismError(
            f"a weighting by propensity needs a binary outcome; {design.response!r} is none in this site's schema"
        )
    columns, coefficients = len(design.columns), len(weighting.coefficients)
    if columns != coefficients:
        raise SiteError(f"the formula has {columns} columns, and the query {coefficients} coefficients")
    if design.needs != weighting.columns:
        raise SiteError("the weights must name the columns that their formula reads, in their order")
    return design


def weights_of(weighting: OverlapWeights, design: Design, table: AdmittedTable) -> FloatArray:
    """Return the weight (n,) of each row, from 0 to 1; 0 where the treatment or a covariate is missing."""
    eta = row_products(design.matrix(table), np.array(weighting.coefficients))
    treated = (table.numeric[design.response] == 1.0).astype(np.float64)
    weights = np.clip(np.abs(logistic_residual(eta, treated)), 0.0, 1.0)
    others = [name for name in table.missing if name not in design.needs]
    return np.asarray(np.where(table.lacking(but=others), 0.0, weights))


def units(weights: FloatArray) -> IntArray:
    """Return weights (n,) from 0 to 1 as whole numbers of 2^-20.

    >>> units(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 524288, 1048576]
    """
    return np.asarray(np.floor(np.clip(weights, 0.0, 1.0) * UNITS + 0.5), dtype=np.int64)


def weighting_work(weighting: OverlapWeights, design: Design, rows: int) -> Operations:
    """Return what the weights of so many rows take at most."""
    products = product_work(rows, len(weighting.coefficients), by_columns=False)
    missing = Operations(steps=2.0 * len(design.needs), passes=2.0 * len(design.needs) * rows)
    return design.work(rows) + products + missing + Operations(steps=120.0, passes=60.0 * rows)
