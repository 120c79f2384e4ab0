"""Logistic regression on private and public records."""

from collections.abc import Iterable, Sequence
from typing import Any, Self, final

import numpy.typing as npt
import pandas as pd

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats.data.schema import Schema
from hdpstats.design import compile_design
from hdpstats.ledger import Ledger
from hdpstats.losses import Logistic
from hdpstats.mechanisms.options import Mechanism, ObjectivePerturbation
from hdpstats.models.arrays import column_names, formula_of, frame_of, pairs_of, schema_of
from hdpstats.models.evaluation import evaluate, evaluation_request
from hdpstats.models.fit import fit_likelihood, fit_private
from hdpstats.models.plan import Plan, plan
from hdpstats.models.regression import open_regression
from hdpstats.models.request import epsilons_of, fit_request
from hdpstats.privacy.budget import Budget
from hdpstats.results import Result
from hdpstats.results.evaluation import Evaluation
from hdpstats.sites import Study


@final
class Logit:
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
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 500)[:, None]
    >>> y = (x[:, 0] > 0).astype(float)
    >>> model = Logit(y, x, exog_bounds=[(-1, 1)], budget=Budget(epsilon=2))
    >>> result = model.fit(epsilon=1)
    >>> list(result.params.index)
    ['Intercept', 'x1']
    """

    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: npt.ArrayLike | pd.DataFrame,
        *,
        exog_bounds: Sequence[tuple[float, float]] | npt.NDArray[Any],
        public_endog: npt.ArrayLike | None = None,
        public_exog: npt.ArrayLike | pd.DataFrame | None = None,
        intercept: bool = True,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        row_norm: float | None = None,
    ) -> None:
        bounds = pairs_of(exog_bounds)
        names = column_names(exog, count=len(bounds))
        if public_exog is None and public_endog is not None:
            raise ArgumentError(
                "public_exog must be given with public_endog: outcomes alone say nothing", argument="public_exog"
            )
        public = None if public_exog is None else frame_of(public_endog, public_exog, names, which="public_")
        study = Study(
            private=frame_of(endog, exog, names),
            public=public,
            schema=schema_of(names, bounds),
            ledger=ledger,
            budget=budget,
        )
        self._open(formula_of(names, intercept=intercept), study, None, None, row_norm)

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
        FormulaError, SchemaError, ArgumentError
            Before anything is charged.
        """
        if not isinstance(data, Study):
            raise ArgumentError(f"data must be an hdp.Study, not {type(data).__name__}", argument="data")
        model = cls.__new__(cls)
        model._open(formula, data, weights, offset, row_norm)
        return model

    def _open(self, formula: str, study: Study, weights: object, offset: object, row_norm: object) -> None:
        design = compile_design(formula, study.schema)
        _check_binary(study.schema, design.response)
        self._model = open_regression(
            design,
            study,
            Logistic(),
            name="Logit",
            exponentiated="odds ratio",
            weights=weights,
            offset=offset,
            row_norm=row_norm,
        )

    def __repr__(self) -> str:
        return f"<Logit: {self._model.design.formula}>"

    def plan(
        self, epsilon: float | Iterable[float] = (0.1, 0.5, 1.0, 3.0), *, n: int | None = None, se_share: float = 0.0
    ) -> Plan:
        """Return predicted standard errors per coefficient and epsilon: from public rows and declarations, for free.

        Parameters
        ----------
        epsilon
            One or several values.
        n
            The number of private records, where the study has none at hand or does not tell: under
            ``add_or_remove_one`` the plan is for the declared ``n_max`` unless another number is named.
        se_share
            The share of epsilon that `fit` would be given for a noisy Hessian.
        """
        share = ObjectivePerturbation(se_share=se_share).share
        return plan(self._model, epsilons=epsilons_of(epsilon), n=n, share=share)

    def fit(
        self,
        epsilon: float,
        *,
        delta: float = 0,
        mechanism: str | Mechanism = "auto",
        se_share: float = 0.0,
        replicate: int = 1,
        allow_large_epsilon: bool = False,
    ) -> Result:
        """Fit under differential privacy: the only verb that spends.

        The same call again returns the stored release for free; ``replicate=2`` buys an independent one.

        Parameters
        ----------
        epsilon
            What the release may cost each person, from 1e-6 to 50.
        delta
            A small probability with which the bound may fail, for mechanisms that use one; objective and output
            perturbation do where normal noise is the smaller one, and are else pure, which is stronger.
        mechanism
            ``"auto"``, a name (``"objective"``, ``"output"``, ``"gradient"``, ``"sampling"``) or an object of
            `hdp.mechanisms`. ``"auto"`` is objective perturbation, with a delta and many coefficients (13 or more at
            epsilon 0.1, 17 or more at 1) the gradient mechanism.
        se_share
            Share of epsilon that buys a noisy Hessian: for standard errors without public rows, or for standard
            errors that do not take the private covariates to be distributed as the public ones.
        replicate
            Number of the draw.
        allow_large_epsilon
            Allow more than 50, which protects nobody.

        Raises
        ------
        ArgumentError, BudgetError, MechanismError
            Before anything is charged.
        SiteError
            If the site could not complete the release; the budget stays charged.
        """
        request = fit_request(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            se_share=se_share,
            replicate=replicate,
            allow_large_epsilon=allow_large_epsilon,
        )
        return fit_private(self._model, request)

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
        request = evaluation_request(
            epsilon=epsilon,
            cause=None,
            groups=groups,
            times=None,
            replicate=replicate,
            allow_large_epsilon=allow_large_epsilon,
        )
        return evaluate(self._model, result, request)

    def fit_public(self) -> Result:
        """Return the ordinary maximum-likelihood fit to the public rows alone: no noise, no penalty, no cost.

        Public rows are used as they are, not clipped to the schema's bounds; rows with missing values are
        dropped, as ``glm`` does.
        """
        return fit_likelihood(self._model)


def _check_binary(schema: Schema, response: str) -> None:
    if schema[response].kind != "binary":
        raise SchemaError(
            f"the outcome of a logistic regression must be declared Binary(); {response} is {schema[response].kind}",
            column=response,
        )
