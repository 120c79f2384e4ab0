"""M-estimation with a loss of the package or of the user."""

from typing import Self, Unpack, final

import numpy.typing as npt

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats.losses import options
from hdpstats.models.arrays import ArrayOptions, Bounds, Covariates, from_arrays
from hdpstats.models.model import Model
from hdpstats.models.multinomial_spec import open_multinomial
from hdpstats.models.regression_spec import RegressionSpec, open_regression
from hdpstats.sites import Study


@final
class MEstimator(Model):
    r"""M-estimation: :math:`\beta` minimises the sum of a convex loss of :math:`x'\beta`, one of yours or of ours.

    Parameters
    ----------
    endog, exog, exog_bounds, public_endog, public_exog, intercept, complete, ledger, budget, row_norm
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
    >>> import hdpstats.api as hdp
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 800)[:, None]
    >>> counts = np.round(np.exp(0.5 * x[:, 0]))
    >>> model = MEstimator(
    ...     counts, x, loss=hdp.losses.Poisson(), endog_bounds=(0, 10), exog_bounds=[(-1, 1)],
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> model.fit(epsilon=2).facts.exponentiated
    'incidence rate ratio'
    """

    @forgets_rows
    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: Covariates,
        *,
        loss: options.LossOption,
        exog_bounds: Bounds,
        endog_bounds: tuple[float, float] | None = None,
        row_norm: float | None = None,
        **arrays: Unpack[ArrayOptions],
    ) -> None:
        if isinstance(loss, options.Exponential | options.Multinomial):
            raise ArgumentError(
                "times with events and levels are given by a formula: hdpf.mestimate(formula, study, loss=...)",
                argument="loss",
            )
        formula, study = from_arrays(endog, exog, endog_bounds=endog_bounds, exog_bounds=exog_bounds, **arrays)
        self._spec = open_regression(formula, study, loss, name="MEstimator", row_norm=row_norm)

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
        """Return the model of a formula on a study; arguments are those of `Linear.from_formula` and of the class.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 51))
        >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
        >>> MEstimator.from_formula("nodes ~ age", study, loss=hdp.losses.Poisson())
        <MEstimator: nodes ~ age, Poisson>
        """
        columns = {"weights": weights, "offset": offset, "row_norm": row_norm}
        if isinstance(loss, options.Multinomial):
            return cls._of(open_multinomial(formula, data, name="MEstimator", **columns))
        return cls._of(open_regression(formula, data, loss, name="MEstimator", **columns))

    def __repr__(self) -> str:
        loss = self._spec.option if isinstance(self._spec, RegressionSpec) else options.Multinomial()
        return f"<MEstimator: {self._spec.formula}, {type(loss).__name__}>"
