"""Parameters of a distribution: Bernoulli, Poisson, normal, exponential, gamma."""

from collections.abc import Iterable, Mapping
from typing import Self, final

import numpy.typing as npt

from hdpstats._base.forgetting import forgets_rows
from hdpstats.ledger import Ledger
from hdpstats.mechanisms.options import Mechanism
from hdpstats.models.arrays import OUTCOME, frame_of, outcome_of
from hdpstats.models.distribution_fits import fit_distribution, fit_public_rows, open_distribution
from hdpstats.models.distribution_plan import plan_distribution
from hdpstats.models.plan import Plan
from hdpstats.models.request import epsilons_of, fit_request
from hdpstats.privacy.budget import Budget
from hdpstats.results import Result
from hdpstats.schema.columns import Binary
from hdpstats.schema.schema import Schema
from hdpstats.sites import Study

Ranges = Mapping[str, tuple[float, float]]


@final
class Distribution:
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
        bounds tell it (probabilities, means, the ``sd`` of a normal distribution).
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

    @forgets_rows
    def __init__(
        self,
        endog: npt.ArrayLike,
        *,
        family: str,
        endog_bounds: tuple[float, float] | None = None,
        ranges: Ranges | None = None,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
    ) -> None:
        column = Binary() if endog_bounds is None else outcome_of(endog_bounds)
        schema = Schema({OUTCOME: column})
        study = Study(private=frame_of(None, endog, [OUTCOME]), schema=schema, ledger=ledger, budget=budget)
        self._model = open_distribution(f"{OUTCOME} ~ 1", study, family=family, ranges=ranges)

    @classmethod
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
        """
        model = cls.__new__(cls)
        model._model = open_distribution(formula, data, family=family, ranges=ranges)
        return model

    def plan(self, epsilon: float | Iterable[float] = (0.1, 0.5, 1.0, 3.0), *, n: int | None = None) -> Plan:
        """Return predicted standard errors of noisy statistics, from public rows and declarations, for free.

        Parameters
        ----------
        epsilon
            One or several values, each the same at all sites.
        n
            The number of private people, at one site; by default each site of the study has its own.
        """
        return plan_distribution(self._model, epsilons=epsilons_of(epsilon), n=n)

    def fit(
        self,
        epsilon: float | Mapping[str, float],
        *,
        delta: float = 0,
        mechanism: str | Mechanism = "auto",
        replicate: int = 1,
        allow_large_epsilon: bool = False,
    ) -> Result:
        """Fit under differential privacy: the only verb that spends.

        Every site of the study releases its own noisy statistics, or blocks, which are combined by inverse variance
        and turned into parameters once (`hdpstats.mechanisms.statistics.estimate`). The same call again returns the
        stored releases for free; ``replicate=2`` buys independent ones.

        Parameters
        ----------
        epsilon
            What the fit may cost each person, from 1e-6 to 50; a dictionary by the names of sites where they differ.
        delta
            Accepted as for other models; the release is pure, which is stronger.
        mechanism
            ``"auto"`` and ``"statistics"`` are noisy sufficient statistics; ``"subsample"``, or an
            `hdp.mechanisms.SubsampleAggregate` with options, needs a declared order of rows or named people.
        replicate
            Number of the draw.
        allow_large_epsilon
            Allow more than 50, which protects nobody.

        Raises
        ------
        ArgumentError, BudgetError, MechanismError
            Before anything is charged.
        SiteError
            If the site could not complete the release; the budget stays charged. At several sites: if fewer than the
            study's quorum answered. Those that did not are named in `Result.sites`.
        """
        request = fit_request(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            se_share=0.0,
            replicate=replicate,
            allow_large_epsilon=allow_large_epsilon,
        )
        return fit_distribution(self._model, request)

    def fit_public(self) -> Result:
        """Return maximum likelihood from the public rows as they are, not clipped: no noise, no cost."""
        return fit_public_rows(self._model)

    def __repr__(self) -> str:
        return f"<Distribution: {self._model.formula}, {self._model.family.name}>"
