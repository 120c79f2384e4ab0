"""Quantile regression on private and public records."""

from typing import Self, Unpack, final

import numpy.typing as npt

from hdpstats._base.forgetting import forgets_rows
from hdpstats.losses import options
from hdpstats.models.arrays import ArrayOptions, Bounds, Covariates, from_arrays, outcome_of
from hdpstats.models.model import Model
from hdpstats.models.regression_spec import open_regression
from hdpstats.sites import Study


@final
class Quantile(Model):
    r"""Quantile regression: the ``q``-quantile of the outcome is :math:`x'\beta`. The median by default.

    What is estimated is the quantile of the outcome plus uniform noise of a small public half-width, which smooths the
    loss (`hdp.losses.Quantile`); the median of symmetric errors is not moved by it.

    Parameters
    ----------
    endog, exog, endog_bounds, exog_bounds, public_endog, public_exog, intercept, ledger, budget, row_norm
        As for `Linear`.
    q
        Which quantile, from 0.001 to 0.999.
    width
        The half-width, in the outcome's unit; chosen from public facts by default.

    Raises
    ------
    ArgumentError, SchemaError, MechanismError
        Before anything is charged.
    """

    @forgets_rows
    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: Covariates,
        *,
        endog_bounds: tuple[float, float],
        exog_bounds: Bounds,
        q: float = 0.5,
        width: float | None = None,
        row_norm: float | None = None,
        **arrays: Unpack[ArrayOptions],
    ) -> None:
        formula, study = from_arrays(endog, exog, exog_bounds=exog_bounds, outcome=outcome_of(endog_bounds), **arrays)
        self._spec = open_regression(formula, study, options.Quantile(q, width), name="Quantile", row_norm=row_norm)

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
        q: float = 0.5,
        width: float | None = None,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
    ) -> Self:
        """Return the model of a formula on a study; arguments are those of `Linear.from_formula` and of the class."""
        model = cls.__new__(cls)
        model._spec = open_regression(
            formula,
            data,
            options.Quantile(q, width),
            name="Quantile",
            weights=weights,
            offset=offset,
            row_norm=row_norm,
        )
        return model

    def __repr__(self) -> str:
        return f"<Quantile: {self._spec.formula}>"
