"""What ran: the private events inside one release. Their meaning never changes; a new mechanism is a new name."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, final

from hdpstats._base.validation import rational


class Ran(StrEnum):
    """The mechanisms whose proofs the package holds, by name."""

    OBJECTIVE = "objective perturbation (K-norm noise, coupled analysis)"
    SMOOTHING = "lattice noise on the solution (covers solver error and floating point)"
    HESSIAN = "L2 K-norm noise on the weighted Hessian at the released coefficients"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyEvent:
    """One mechanism that ran on the private rows, with the (epsilon, delta) its proof gives it."""

    ran: Ran
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def to_dict(self) -> dict[str, str]:
        """Return the event as plain strings (fractions exactly)."""
        return {"ran": self.ran.value, "epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "PrivacyEvent":
        """Read what `to_dict` wrote."""
        return cls(
            ran=Ran(fields["ran"]),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
        )
