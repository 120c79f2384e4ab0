"""Logistic regression on private and public records."""

from typing import Self, Unpack, final

import numpy.typing as npt

from hdpstats._base.forgetting import forgets_rows
from hdpstats.losses import options
from hdpstats.models.arrays import ArrayOptions, Bounds, Covariates, from_arrays
from hdpstats.models.evaluation import evaluate
from hdpstats.models.model import Model
from hdpstats.models.regression_spec import open_regression
from hdpstats.results import Result
from hdpstats.results.evaluation import Evaluation
from hdpstats.schema.columns import Binary
from hdpstats.sites import Study


@final
class Logit(Model):
    r"""Logistic regression: :math:`\log\{p / (1 - p)\} = x'\beta` with :math:`p = P(y = 1 \mid x)`.

    Users with a data frame write ``hdpf.logit("y ~ x", data=study)`` or `Logit.from_formula`; this constructor
    takes arrays, as statsmodels' does, with the bounds that privacy needs.

    Parameters
    ----------
    endog
        The private outcome (n,), 0 or 1.
    exog
        The private covariates (n, p), array or DataFrame, without a constant column.
    exog_bounds
        A pair (lower, upper) for every covariate, declared, not computed from the private rows.
    public_endog, public_exog
        The same for public rows; the outcome may be left out.
    intercept
        Whether the model has a constant.
    ledger, budget
        The account; one of the two.
    row_norm
        A declared bound on the norm of a row whose covariates are scaled to [-1, 1] by their bounds; rows
        beyond it are weighted down. Only without public rows.

    Raises
    ------
    ArgumentError, SchemaError
        If shapes do not fit, a bound is none, or there is no account. Values of private cells are never refused.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 500)[:, None]
    >>> y = (x[:, 0] > 0).astype(float)
    >>> model = Logit(y, x, exog_bounds=[(-1, 1)], budget=hdp.Budget(epsilon=2))
    >>> result = model.fit(epsilon=1)
    >>> list(result.params.index)
    ['Intercept', 'x1']
    """

    @forgets_rows
    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: Covariates,
        *,
        exog_bounds: Bounds,
        row_norm: float | None = None,
        **arrays: Unpack[ArrayOptions],
    ) -> None:
        formula, study = from_arrays(endog, exog, exog_bounds=exog_bounds, outcome=Binary(), **arrays)
        self._spec = open_regression(formula, study, options.Logistic(), name="Logit", row_norm=row_norm)

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
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
        row_norm
            See the class.

        Raises
        ------
        FormulaError, SchemaError, ArgumentError, MechanismError
            Before anything is charged.
        """
        model = cls.__new__(cls)
        model._spec = open_regression(
            formula, data, options.Logistic(), name="Logit", weights=weights, offset=offset, row_norm=row_norm
        )
        return model

    def __repr__(self) -> str:
        return f"<Logit: {self._spec.formula}>"

    def evaluate(
        self,
        result: Result,
        epsilon: float,
        *,
        groups: int | None = None,
        replicate: int = 1,
        allow_large_epsilon: bool = False,
    ) -> Evaluation:
        """Say how a fitted model does on the private records: a release of its own, which spends.

        Records are counted with noise by risk group, cut at quantiles of the public rows' linear predictors, and by
        outcome. Concordance (the area under the ROC curve), Brier score and calibration are computed from these counts,
        with errors that include the noise. Each record counts once, whatever the case weights.

        Parameters
        ----------
        result
            What is evaluated: a fit of this model, private or public, on this study or on another with its schema.
        epsilon
            What the release may cost each person, from 1e-6 to 50.
        groups
            How many risk groups (2 to 10); by default more the larger epsilon and the number of records are.
        replicate, allow_large_epsilon
            As for `fit`.

        Raises
        ------
        ArgumentError, BudgetError, MechanismError
            Before anything is charged.
        SiteError
            If the site could not complete the release; the budget stays charged.
        """
        return evaluate(
            self._spec,
            result,
            epsilon,
            groups=groups,
            replicate=replicate,
            allow_large_epsilon=allow_large_epsilon,
        )
