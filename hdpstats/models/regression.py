"""Logistic, linear and quantile regression on private and public records."""

from typing import Self, Unpack, final

import numpy.typing as npt

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats.families.regression.spec import open_regression
from hdpstats.losses import options
from hdpstats.models.arrays import ArrayOptions, Bounds, Covariates, from_arrays
from hdpstats.models.evaluation import evaluate
from hdpstats.models.model import Model
from hdpstats.results import Result
from hdpstats.results.evaluation import Evaluation
from hdpstats.results.propensity import Weighting
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
    complete
        Whether it is known, from elsewhere than the private arrays, that they have no missing cell (NaN). By default it
        is not: rows with one are left out, and a part of epsilon is spent on the noisy number of the others.
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
        formula, study = from_arrays(endog, exog, endog_bounds=None, exog_bounds=exog_bounds, **arrays)
        self._open(open_regression, formula, study, options.Logistic(), name="Logit", row_norm=row_norm)

    @classmethod
    @forgets_rows
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
        correlation: str | float = "person",
        weighting: Weighting | None = None,
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
        correlation
            Where the study has ``unit=``, how much each of a person's n rows counts: :math:`1 / (1 + (n - 1) r)`. The
            default, ``"person"``, is r = 1: every person counts the same (the average person). ``"independence"`` is r
            = 0: every row does (the average row). A number from 0 to 1 is between. They estimate the same coefficients
            where the number of rows says nothing of the outcome that the covariates do not say; else different ones. So
            r is a choice of what is estimated, and none of accuracy; with a small r one person moves more, and the
            noise is larger.
        weighting
            What ``hdp.propensity(...).weights("overlap")`` returned: people are weighted by their chance of treatment,
            and the model is a marginal structural one (Robins, Hernan and Brumback 2000), as ``"died ~ hormon"``: its
            coefficients are those among people whose treatment was in doubt. Terms are the treatment, and covariates of
            the propensity model, which it may interact with. Private people alone are fitted; errors are by the
            equations of both models stacked (`hdpstats.families.regression.weighted`), and the guarantee counts both.
            Of people with several rows treatment and covariates are those of the row that the propensity model counts,
            and the outcome is the person's mean, over ``max_rows_per_unit`` rows at most: the average person.

        Raises
        ------
        FormulaError, SchemaError, ArgumentError, MechanismError
            Before anything is charged.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), event=hdp.Binary())
        >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
        >>> Logit.from_formula("event ~ age", study).fit_public().params.round(3).tolist()
        [-0.213, -0.001]
        """
        return cls._of(
            open_regression,
            formula,
            data,
            options.Logistic(),
            name="Logit",
            weights=weights,
            offset=offset,
            row_norm=row_norm,
            correlation=correlation,
            weighting=weighting,
        )

    @classmethod
    def of_first_rows(cls, formula: str, data: Study) -> Self:
        """Return the model of the first complete row of each person, as `hdpstats.api.propensity` fits it.

        The public rows of the study are one for each person (`hdpstats.sites.Study.by_person`).
        """
        return cls._of(open_regression, formula, data, options.Logistic(), name="Logit", first=True)

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
    complete
        Whether it is known, from elsewhere than the private arrays, that they have no missing cell (NaN). By default it
        is not: rows with one are left out, and a part of epsilon is spent on the noisy number of the others.
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
    >>> import hdpstats.api as hdp
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 500)[:, None]
    >>> model = Linear(x[:, 0] + 1, x, endog_bounds=(-1, 3), exog_bounds=[(-1, 1)], budget=hdp.Budget(epsilon=2))
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
        formula, study = from_arrays(endog, exog, endog_bounds=endog_bounds, exog_bounds=exog_bounds, **arrays)
        self._open(open_regression, formula, study, _checked(loss), name="Linear", row_norm=row_norm)

    @classmethod
    @forgets_rows
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
        loss: options.Squares | options.Huber | None = None,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
        correlation: str | float = "person",
        weighting: Weighting | None = None,
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
        correlation
            How rows of a person count, where the study has ``unit=``; see `Logit.from_formula`.
        weighting
            How people are weighted by their chance of treatment; see `Logit.from_formula`. Of least squares only.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 51))
        >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
        >>> Linear.from_formula("nodes ~ age", study).fit_public().params.round(3).tolist()
        [4.071, 0.018]
        """
        return cls._of(
            open_regression,
            formula,
            data,
            _checked(loss),
            name="Linear",
            weights=weights,
            offset=offset,
            row_norm=row_norm,
            correlation=correlation,
            weighting=weighting,
        )


def _checked(loss: object) -> options.Squares | options.Huber:
    option = options.Squares() if loss is None else loss
    if not isinstance(option, options.Squares | options.Huber):
        raise ArgumentError(
            f"loss must be hdp.losses.Squares() or hdp.losses.Huber(), not {loss!r}; hdpf.quantile fits quantiles, "
            "hdpf.mestimate any loss",
            argument="loss",
        )
    return option


@final
class Quantile(Model):
    r"""Quantile regression: the ``q``-quantile of the outcome is :math:`x'\beta`. The median by default.

    What is estimated is the quantile of the outcome plus uniform noise of a small public half-width, which smooths the
    loss (`hdp.losses.Quantile`); the median of symmetric errors is not moved by it.

    Parameters
    ----------
    endog, exog, endog_bounds, exog_bounds, public_endog, public_exog, intercept, complete, ledger, budget, row_norm
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
        formula, study = from_arrays(endog, exog, endog_bounds=endog_bounds, exog_bounds=exog_bounds, **arrays)
        self._open(open_regression, formula, study, options.Quantile(q, width), name="Quantile", row_norm=row_norm)

    @classmethod
    @forgets_rows
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
        correlation: str | float = "person",
    ) -> Self:
        """Return the model of a formula on a study; arguments are those of `Linear.from_formula` and of the class.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 51))
        >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
        >>> Quantile.from_formula("age ~ nodes", study, q=0.25)
        <Quantile: age ~ nodes>
        """
        return cls._of(
            open_regression,
            formula,
            data,
            options.Quantile(q, width),
            name="Quantile",
            weights=weights,
            offset=offset,
            row_norm=row_norm,
            correlation=correlation,
        )
