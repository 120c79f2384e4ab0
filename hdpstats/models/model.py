"""What every model does: plan, fit, and fit public rows alone."""

from abc import ABC
from collections.abc import Iterable, Mapping
from typing import Self

from hdpstats.models.fit import fit_likelihood, fit_private
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.plan import Plan, plan
from hdpstats.models.request import epsilons_of, fit_request
from hdpstats.models.weighted import fit_weighted
from hdpstats.records.query import MechanismOptions
from hdpstats.results import Result, WeightedSample


class Model(ABC):
    """A model that can be planned and fitted. ``fit`` is the only method that spends epsilon."""

    _spec: ModelSpec

    @classmethod
    def _of(cls, spec: ModelSpec) -> Self:
        """Return the model of a specification."""
        model = cls.__new__(cls)
        model._spec = spec
        return model

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._spec.formula}>"

    def plan(
        self,
        epsilon: float | Iterable[float] | Mapping[str, float] = (0.1, 0.5, 1.0, 3.0),
        *,
        n: int | None = None,
        delta: float = 0,
        mechanism: str | MechanismOptions = "auto",
        se_share: float = 0.0,
    ) -> Plan:
        """Return predicted standard errors per coefficient and epsilon: from public rows and declarations, for free.

        Parameters
        ----------
        epsilon
            One or several values; or what `fit` would be given, one for each site by its name.
        n
            The number of private records, all at one site, where the study has none at hand or does not state it: under
            ``add_or_remove_one`` the plan is for the declared ``n_max`` unless another number is named.
        delta, mechanism, se_share
            What `fit` would be given; ``mechanism`` is ``"auto"``, ``"objective"`` or ``"clipped_newton"``. The column
            ``mechanism`` of the plan's frame says which one it would be.

        Raises
        ------
        ArgumentError, MechanismError
            What `fit` would raise, and for mechanisms whose errors are not known beforehand.
        """
        values = [epsilon] if isinstance(epsilon, Mapping) else dict.fromkeys(epsilons_of(epsilon))
        requests = [
            fit_request(
                epsilon=value,
                delta=delta,
                mechanism=mechanism,
                se_share=se_share,
                replicate=1,
                allow_large_epsilon=True,
            )
            for value in values
        ]
        return plan(self._spec, requests=requests, n=n)

    def fit(
        self,
        epsilon: float | Mapping[str, float],
        *,
        delta: float = 0,
        mechanism: str | MechanismOptions = "auto",
        se_share: float = 0.0,
        replicate: int = 1,
        allow_large_epsilon: bool = False,
    ) -> Result:
        """Fit under differential privacy: the only method that spends epsilon.

        The same call again returns the stored release for free; ``replicate=2`` releases an independent one.

        Parameters
        ----------
        epsilon
            What the release may cost each person, from 1e-6 to 50; a dictionary by site where sites differ. A person is
            at one site and pays there, whatever the number of sites.
        delta
            A small probability with which the bound may fail, for mechanisms that use one; objective and output
            perturbation do where normal noise is the smaller one, and are else pure, which is stronger.
        mechanism
            ``"auto"``, a name (``"objective"``, ``"output"``, ``"clipped_newton"``, ``"public_hessian"``,
            ``"exponential"``) or an object of `hdp.mechanisms`. ``"auto"`` is objective perturbation, or with a delta
            the gradient mechanism where there are 12 public people per coefficient and `plan` predicts smaller standard
            errors of it (of regressions clearly smaller).
        se_share
            Share of epsilon that pays for a noisy Hessian: for standard errors without public rows, or for standard
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
            If the site could not complete the release; the budget stays charged. At several sites: if fewer than the
            study's quorum answered. Those that did not are named in `Result.sites`.
        """
        request = fit_request(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            se_share=se_share,
            replicate=replicate,
            allow_large_epsilon=allow_large_epsilon,
        )
        return fit_private(self._spec, request)

    def fit_public(self) -> Result:
        """Return the ordinary fit to the public rows alone: no noise, no penalty, no cost.

        It is what R's ``glm``, ``lm``, ``rq``, ``survreg`` or, for hazards, ``glm`` on person-period rows (which are
        never formed) computes. Public rows are used as they are, not clipped to the schema's bounds but for the
        horizon, beyond which everybody is censored; rows with missing values are dropped, as ``glm`` does.
        """
        return fit_likelihood(self._spec)

    def fit_weighted(self, sample: WeightedSample) -> Result:
        """Return the fit to a weighted public sample that the model was opened on: what ``sample.fit`` calls."""
        return fit_weighted(self._spec, sample)
