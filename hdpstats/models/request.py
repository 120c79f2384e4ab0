"""What a fit asks for, checked before anything is charged: epsilon, delta, mechanism, draw and description."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import truth
from hdpstats.describe.description import Description
from hdpstats.mechanisms.perturbation import ObjectivePerturbation
from hdpstats.mechanisms.registry import named
from hdpstats.privacy.budget import requested
from hdpstats.records.query import AUTO, MechanismOptions, WithHessianShare, checked_share

ONLY = "site"
"""What a site is called where it does not matter which one it is."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FitRequest:
    """One fit that may spend ``epsilon`` and ``delta`` on a mechanism; ``replicate`` numbers independent draws.

    Without a mechanism the model chooses. ``epsilons`` are those of sites by name where they differ; ``epsilon`` is
    then the largest. ``description`` is one of the private cohort that was charged before; without it the fit asks
    for what it needs to know of the cohort, unless not told to ``describe``. ``share`` is the share of epsilon for a
    noisy Hessian that was asked for; None where the fit chooses it, 0 where coefficients alone are wanted.
    """

    epsilon: Fraction
    delta: Fraction
    mechanism: MechanismOptions | None
    replicate: int
    epsilons: Mapping[str, Fraction] = field(default_factory=dict)
    description: Description | None = None
    describe: bool = True
    share: Fraction | None = None

    def at(self, site: str) -> "FitRequest":
        """Return what one site is asked to spend."""
        return replace(self, epsilon=self.epsilons.get(site, self.epsilon), epsilons={})

    def check(self, sites: Collection[str]) -> None:
        """Raise ArgumentError unless epsilon is one number, or one for each site of the study."""
        if self.epsilons and set(self.epsilons) != set(sites):
            raise ArgumentError(
                f"epsilon must be a number, or a number for each of the study's sites: {', '.join(map(repr, sites))}",
                argument="epsilon",
            )


def fit_request(
    epsilon: object,
    delta: object = 0,
    mechanism: object = "auto",
    se_share: float | str = AUTO,
    *,
    replicate: object = 1,
    allow_large_epsilon: bool = False,
    description: Description | None = None,
    describe: object = True,
) -> FitRequest:
    """Check the arguments of `fit`."""
    if describe is False and description is not None:
        raise ArgumentError(
            "describe=False declines what description= gives; leave one of them out", argument="describe"
        )
    read = partial(requested, delta=delta, replicate=replicate, allow_large_epsilon=allow_large_epsilon)
    several = epsilon if isinstance(epsilon, Mapping) else {}
    epsilons = {str(site): read(value).epsilon for site, value in several.items()}
    asked = read(max(epsilons.values()) if epsilons else epsilon)
    options, share = named(mechanism), checked_share(se_share)
    own = options.share if isinstance(options, WithHessianShare) else None
    plain = options is None or options == ObjectivePerturbation()
    if (share and not plain) or (share is not None and own not in (None, share)):
        raise ArgumentError(
            "se_share must be given once, to fit or to an ObjectivePerturbation; no other mechanism takes it",
            argument="se_share",
        )
    return FitRequest(
        epsilon=asked.epsilon,
        delta=asked.delta,
        mechanism=ObjectivePerturbation(se_share=se_share) if share else options,
        replicate=asked.replicate,
        epsilons=epsilons,
        description=description,
        describe=truth(describe, name="describe"),
        share=own if share is None else share,
    )
