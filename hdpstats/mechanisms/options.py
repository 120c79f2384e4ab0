"""The mechanisms that a user may name, with the options that change what is promised."""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import real

__all__ = ["ObjectivePerturbation"]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectivePerturbation:
    """Objective perturbation, pure epsilon (Nguyen and Hui 2017, algorithm 2, corrected; public-whitened form).

    Parameters
    ----------
    se_share
        Share of epsilon, from 0 to 0.9, that buys a noisy Hessian: standard errors then rest on the private
        covariates, not on public rows.

    Examples
    --------
    >>> ObjectivePerturbation(se_share=0.15).share
    Fraction(3, 20)
    """

    se_share: float = 0.0

    def __post_init__(self) -> None:
        """Validate the share."""
        real(self.se_share, name="se_share", lower=0.0, upper=0.9)

    @property
    def share(self) -> Fraction:
        """The share as the exact fraction that was meant."""
        return Fraction(str(self.se_share))


Mechanism = ObjectivePerturbation
"""Any of the mechanisms."""

BY_NAME: dict[str, type[Mechanism]] = {"objective": ObjectivePerturbation}
"""The mechanisms by the names that `fit` takes."""


def named(mechanism: object) -> Mechanism | None:
    """Return the options of a mechanism given by name or as an object; None where the model is to choose ("auto")."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    if isinstance(mechanism, str) and mechanism == "auto":
        return None
    if isinstance(mechanism, str) and mechanism in BY_NAME:
        return BY_NAME[mechanism]()
    names = ", ".join(map(repr, BY_NAME))
    raise MechanismError(
        f"mechanism must be 'auto', {names} or an object of hdp.mechanisms, not {mechanism!r}: these are the ones "
        "whose proofs the package holds",
        available=tuple(BY_NAME),
    )
