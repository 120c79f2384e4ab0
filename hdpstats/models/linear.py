"""Linear regression, quantile regression and M-estimation on private and public records."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy.typing as npt
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats.ledger import Ledger
from hdpstats.losses import options
from hdpstats.models.arrays import opened, outcome_of
from hdpstats.models.front_desk import FrontDesk
from hdpstats.models.multinomial import open_multinomial
from hdpstats.models.regression import open_regression
from hdpstats.privacy.budget import Budget
from hdpstats.sites import Study

Covariates = npt.ArrayLike | pd.DataFrame
Bounds = Sequence[tuple[float, float]] | npt.NDArray[Any]


@final
class Linear(FrontDesk):
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

    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: Covariates,
        *,
        endog_bounds: tuple[float, float],
        exog_bounds: Bounds,
        public_endog: npt.ArrayLike | None = None,
        public_exog: Covariates | None = None,
        loss: options.Squares | options.Huber | None = None,
        intercept: bool = True,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        row_norm: float | None = None,
    ) -> None:
        formula, study = opened(
            endog,
            exog,
            exog_bounds=exog_bounds,
            outcome=outcome_of(endog_bounds),
            public_endog=public_endog,
            public_exog=public_exog,
            intercept=intercept,
            ledger=ledger,
            budget=budget,
        )
        self._open(formula, study, loss, None, None, row_norm)

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
        model._open(formula, _study(data), loss, weights, offset, row_norm)
        return model

    def _open(
        self, formula: str, study: Study, loss: object, weights: object, offset: object, row_norm: object
    ) -> None:
        option = options.Squares() if loss is None else loss
        if not isinstance(option, options.Squares | options.Huber):
            raise ArgumentError(
                f"loss must be hdp.losses.Squares() or hdp.losses.Huber(), not {loss!r}; hdpf.quantile fits quantiles, "
                "hdpf.mestimate any loss",
                argument="loss",
            )
        self._spec = open_regression(
            formula, study, option, name="Linear", weights=weights, offset=offset, row_norm=row_norm
        )

    def __repr__(self) -> str:
        return f"<Linear: {self._spec.formula}>"


@final
class Quantile(FrontDesk):
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

    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: Covariates,
        *,
        endog_bounds: tuple[float, float],
        exog_bounds: Bounds,
        q: float = 0.5,
        width: float | None = None,
        public_endog: npt.ArrayLike | None = None,
        public_exog: Covariates | None = None,
        intercept: bool = True,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        row_norm: float | None = None,
    ) -> None:
        formula, study = opened(
            endog,
            exog,
            exog_bounds=exog_bounds,
            outcome=outcome_of(endog_bounds),
            public_endog=public_endog,
            public_exog=public_exog,
            intercept=intercept,
            ledger=ledger,
            budget=budget,
        )
        self._open(formula, study, options.Quantile(q, width), None, None, row_norm)

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
        model._open(formula, _study(data), options.Quantile(q, width), weights, offset, row_norm)
        return model

    def _open(
        self,
        formula: str,
        study: Study,
        option: options.Quantile,
        weights: object,
        offset: object,
        row_norm: object,
    ) -> None:
        self._spec = open_regression(
            formula, study, option, name="Quantile", weights=weights, offset=offset, row_norm=row_norm
        )

    def __repr__(self) -> str:
        return f"<Quantile: {self._spec.formula}>"


@final
class MEstimator(FrontDesk):
    r"""M-estimation: :math:`\beta` minimises the sum of a convex loss of :math:`x'\beta`, one of yours or of ours.

    Parameters
    ----------
    endog, exog, exog_bounds, public_endog, public_exog, intercept, ledger, budget, row_norm
        As for `Linear`.
    loss
        An object of `hdp.losses`: `Squares`, `Huber`, `Absolute`, `Quantile`, `Logistic`, `Poisson`, or a `Loss` that
        you bring; with formulas also `Exponential`, for ``Surv(time, event)``, and `Multinomial`.
    endog_bounds
        The outcome's bounds; None for a binary one.

    Raises
    ------
    ArgumentError, SchemaError, MechanismError
        Before anything is charged.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, (800, 1))
    >>> model = MEstimator(
    ...     rng.poisson(np.exp(0.5 * x[:, 0])), x, loss=options.Poisson(), endog_bounds=(0, 10),
    ...     exog_bounds=[(-1, 1)], budget=Budget(epsilon=2),
    ... )
    >>> model.fit(epsilon=2).facts.exponentiated
    'incidence rate ratio'
    """

    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: Covariates,
        *,
        loss: options.LossOption,
        exog_bounds: Bounds,
        endog_bounds: tuple[float, float] | None = None,
        public_endog: npt.ArrayLike | None = None,
        public_exog: Covariates | None = None,
        intercept: bool = True,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        row_norm: float | None = None,
    ) -> None:
        if isinstance(loss, options.Exponential | options.Multinomial):
            raise ArgumentError(
                "times with events and levels are given by a formula: hdpf.mestimate(formula, study, loss=...)",
                argument="loss",
            )
        formula, study = opened(
            endog,
            exog,
            exog_bounds=exog_bounds,
            outcome=outcome_of(endog_bounds),
            public_endog=public_endog,
            public_exog=public_exog,
            intercept=intercept,
            ledger=ledger,
            budget=budget,
        )
        self._open(formula, study, loss, None, None, row_norm)

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
        loss: options.LossOption,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
    ) -> Self:
        """Return the model of a formula on a study; arguments are those of `Linear.from_formula` and of the class."""
        model = cls.__new__(cls)
        model._open(formula, _study(data), loss, weights, offset, row_norm)
        return model

    def _open(
        self,
        formula: str,
        study: Study,
        loss: options.LossOption,
        weights: object,
        offset: object,
        row_norm: object,
    ) -> None:
        self._loss = type(loss).__name__
        if isinstance(loss, options.Multinomial):
            self._spec = open_multinomial(
                formula, study, name="MEstimator", weights=weights, offset=offset, row_norm=row_norm
            )
        else:
            self._spec = open_regression(
                formula, study, loss, name="MEstimator", weights=weights, offset=offset, row_norm=row_norm
            )

    def __repr__(self) -> str:
        return f"<MEstimator: {self._spec.formula}, {self._loss}>"


def _study(data: object) -> Study:
    if not isinstance(data, Study):
        raise ArgumentError(f"data must be an hdp.Study, not {type(data).__name__}", argument="data")
    return data
