"""Linear regression on private and public records."""

from typing import Self, Unpack, final

import numpy.typing as npt

from hdpstats._base.errors import ArgumentError
from hdpstats._base.forgetting import forgets_rows
from hdpstats.losses import options
from hdpstats.models.arrays import ArrayOptions, Bounds, Covariates, from_arrays, outcome_of
from hdpstats.models.model import Model
from hdpstats.models.regression_spec import open_regression
from hdpstats.sites import Study


@final
class Linear(Model):
    r"""Linear regression: :math:`E(y \mid x) = x'\beta` for an outcome between declared bounds.

    Least squares with predictions cut to the outcome's declared range, or with ``loss=hdp.losses.Huber()`` Huber's
    estimate, which needs less noise where the range is wide against the spread of the residuals. So do least squares
    with a delta and public rows: a person's score is then clipped at what is usual.

    Parameters
    ----------
    endog
        The private outcome (n,).
    exog
        The private covariates (n, p), array or DataFrame, without a constant column.
    endog_bounds, exog_bounds
        A pair (lower, upper) for the outcome, and for every covariate: declared, not computed from the private rows.
    public_endog, public_exog
        The same for public rows; the outcome may be left out.
    loss
        `hdp.losses.Squares` (default) or `hdp.losses.Huber`.
    intercept
        Whether the model has a constant.
    ledger, budget
        The account; one of the two.
    row_norm
        A declared bound on the norm of a row whose covariates are scaled to [-1, 1] by their bounds; rows beyond it are
        weighted down. Only without public rows.

    Raises
    ------
    ArgumentError, SchemaError, MechanismError
        Before anything is charged. Values of private cells are never refused.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 500)[:, None]
    >>> model = Linear(x[:, 0] + 1, x, endog_bounds=(-1, 3), exog_bounds=[(-1, 1)], budget=Budget(epsilon=2))
    >>> list(model.fit(epsilon=1).params.index)
    ['Intercept', 'x1']
    """

    @forgets_rows
    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: Covariates,
        *,
        endog_bounds: tuple[float, float],
        exog_bounds: Bounds,
        loss: options.Squares | options.Huber | None = None,
        row_norm: float | None = None,
        **arrays: Unpack[ArrayOptions],
    ) -> None:
        formula, study = from_arrays(endog, exog, exog_bounds=exog_bounds, outcome=outcome_of(endog_bounds), **arrays)
        self._spec = open_regression(formula, study, _checked(loss), name="Linear", row_norm=row_norm)

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
        loss: options.Squares | options.Huber | None = None,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
    ) -> Self:
        """Return the model of a formula on a study.

        Parameters
        ----------
        formula
            ``"outcome ~ terms"``; levels and bounds come from the study's schema.
        data
            The study.
        weights, offset
            Columns declared as `Weight` and `Offset`.
        loss, row_norm
            See the class.
        """
        model = cls.__new__(cls)
        model._spec = open_regression(
            formula, data, _checked(loss), name="Linear", weights=weights, offset=offset, row_norm=row_norm
        )
        return model

    def __repr__(self) -> str:
        return f"<Linear: {self._spec.formula}>"


def _checked(loss: object) -> options.Squares | options.Huber:
    option = options.Squares() if loss is None else loss
    if not isinstance(option, options.Squares | options.Huber):
        raise ArgumentError(
            f"loss must be hdp.losses.Squares() or hdp.losses.Huber(), not {loss!r}; hdpf.quantile fits quantiles, "
            "hdpf.mestimate any loss",
            argument="loss",
        )
    return option
