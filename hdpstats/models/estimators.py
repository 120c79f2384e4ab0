"""M-estimation with a loss of the package or of the user, and parameters of a distribution."""

from collections.abc import Mapping
from typing import Self, Unpack, final

import numpy.typing as npt

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats._base.validation import truth
from hdpstats.families.distribution.spec import DistributionSpec, open_distribution
from hdpstats.families.multinomial.spec import open_multinomial
from hdpstats.families.regression.spec import open_regression
from hdpstats.ledger import Ledger
from hdpstats.losses import options
from hdpstats.models.arrays import OUTCOME, ArrayOptions, Bounds, Covariates, frame_of, from_arrays, outcome_of
from hdpstats.models.model import Model
from hdpstats.privacy.budget import Budget
from hdpstats.results.propensity import Weighting
from hdpstats.schema.schema import Schema
from hdpstats.sites import Study

Ranges = Mapping[str, tuple[float, float]]


@final
class Distribution(Model):
    r"""The distribution of one column, by maximum likelihood from noisy statistics of all sites (Chen and Sung).

    ======================  ===================  ===============================================
    family                  parameters           sufficient statistics
    ======================  ===================  ===============================================
    ``"bernoulli"``         probability          x
    ``"poisson"``           mean                 x
    ``"exponential"``       rate                 x
    ``"normal"``            mean, sd             x and its square, shifted and scaled by the bounds
    ``"gamma"``             shape, rate          x and its logarithm
    ======================  ===================  ===============================================

    Every site of the study releases its own noisy statistics, or the mean of blocks with
    ``mechanism="subsample"`` or `hdp.mechanisms.SubsampleAggregate`, which needs a declared order of rows or named
    people. They are combined by inverse variance and turned into parameters once
    (`hdpstats.mechanisms.statistics.estimate`). Both are pure, whatever delta is offered, which is stronger. `plan`
    predicts errors of noisy statistics.

    Private numbers are clipped to the declared bounds, which make the statistics bounded: bounds that cut off more than
    a little of the distribution bias the estimate, wide ones cost noise.

    Parameters
    ----------
    endog
        The private numbers (n,).
    family
        The name of the family.
    endog_bounds
        A pair (lower, upper), declared and not computed; left out for ``"bernoulli"``.
    ranges
        The public interval of each parameter, by its name: estimates are projected on it. It may be left out where the
        bounds imply it (probabilities, means, the ``sd`` of a normal distribution).
    complete
        Whether it is known, from elsewhere than the private numbers, that none is missing (NaN). By default it is not:
        a part of epsilon is spent on the noisy number of those that are there.
    ledger, budget
        The account; one of the two.

    Raises
    ------
    ArgumentError, SchemaError, FormulaError
        Before anything is charged. Values of private cells are never refused.

    Examples
    --------
    >>> import numpy as np
    >>> model = Distribution(
    ...     np.arange(100) % 2, family="bernoulli", budget=Budget(epsilon=2)
    ... )
    >>> list(model.fit(epsilon=1).params.index)
    ['probability']
    """

    _spec: DistributionSpec

    @forgets_rows
    def __init__(
        self,
        endog: npt.ArrayLike,
        *,
        family: str,
        endog_bounds: tuple[float, float] | None = None,
        ranges: Ranges | None = None,
        complete: bool = False,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
    ) -> None:
        schema = Schema({OUTCOME: outcome_of(endog_bounds, complete=truth(complete, name="complete"))})
        study = Study(private=frame_of(None, endog, [OUTCOME]), schema=schema, ledger=ledger, budget=budget)
        self._open(open_distribution, f"{OUTCOME} ~ 1", study, family=family, ranges=ranges)

    @classmethod
    @forgets_rows
    def from_formula(cls, formula: str, data: Study, *, family: str, ranges: Ranges | None = None) -> Self:
        """Return the model of ``"column ~ 1"`` on a study; bounds come from its schema.

        Parameters
        ----------
        formula
            ``"column ~ 1"``, a column declared as `Continuous` or `Binary`.
        data
            The study; one row per person, relation ``"replace_one"``.
        family, ranges
            See the class.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(nodes=hdp.Continuous(0, 51))
        >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
        >>> Distribution.from_formula("nodes ~ 1", study, family="poisson")
        <Distribution: nodes ~ 1, poisson>
        """
        return cls._of(open_distribution, formula, data, family=family, ranges=ranges)

    def __repr__(self) -> str:
        return f"<Distribution: {self._spec.formula}, {self._spec.family.name}>"


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
    >>> model.fit(epsilon=2, se_share=0).facts.exponentiated
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
        self._open(open_regression, formula, study, loss, name="MEstimator", row_norm=row_norm)

    @classmethod
    @forgets_rows
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
        loss: options.LossOption,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
        correlation: str | float = "person",
        weighting: Weighting | None = None,
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
        columns = {"weights": weights, "offset": offset, "row_norm": row_norm, "correlation": correlation}
        if isinstance(loss, options.Multinomial):
            if weighting is not None:
                raise ArgumentError("weighting is not for several levels of an outcome", argument="weighting")
            return cls._of(open_multinomial, formula, data, name="MEstimator", **columns)
        return cls._of(open_regression, formula, data, loss, name="MEstimator", weighting=weighting, **columns)

    def __repr__(self) -> str:
        return f"<MEstimator: {self._spec.formula}, {self._spec.loss_title}>"
