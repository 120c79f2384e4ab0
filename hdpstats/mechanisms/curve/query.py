"""The query of a performance curve, how far candidates' predictions are from a private fit's, and its release."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.selection.query import LARGEST
from hdpstats.records.limits import MOST_CANDIDATES, check_size
from hdpstats.records.query import ChargedRelease, PurchaseQuery, check_pure


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CurveQuery(PurchaseQuery):
    """Ask how far the probabilities under each candidate are from those of a ridge fit to the private people.

    Columns of the design are divided by ``scale`` and rows cut to the Euclidean length ``radius``; candidates are
    coefficients of the columns so divided.

    Attributes
    ----------
    formula : str
        A formula with a binary outcome, read again by the site against its own schema.
    candidates : tuple of tuples of float
        Coefficients (k, D), k from 1 to 100 (`hdpstats.records.limits`).
    scale : tuple of float
        Positive (D,).
    radius : Fraction
        The longest row.
    ridge : Fraction
        The ridge of the private fit, on the scale of the mean loss.
    """

    kind: ClassVar[str] = "curve/1"
    formula: str
    candidates: tuple[tuple[float, ...], ...]
    scale: tuple[float, ...]
    radius: Fraction
    ridge: Fraction
    public_sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a curve")
        check_size("candidates", len(self.candidates), MOST_CANDIDATES, remedy="leave some out")
        if not self.candidates:
            raise MechanismError(f"there must be 1 to {MOST_CANDIDATES} candidates")
        if any(len(candidate) != len(self.scale) for candidate in self.candidates) or not self.scale:
            raise MechanismError("all candidates must have as many coefficients as there are scales")
        values = [value for candidate in self.candidates for value in candidate]
        if not all(math.isfinite(value) and abs(value) <= LARGEST for value in values):
            raise MechanismError(f"coefficients must be finite, at most {LARGEST:g}")
        if not all(1e-12 <= value <= 1e12 for value in self.scale):
            raise MechanismError("scales must be between 1e-12 and 1e12")
        if not (Fraction(1, 10**6) <= self.radius <= 10**6 and Fraction(1, 10**6) <= self.ridge <= 10**6):
            raise MechanismError("radius and ridge must be between 1e-6 and 1e6")
        if max(self.radius.denominator, self.ridge.denominator) > 10**30:
            raise MechanismError("radius and ridge must be fractions of at most 30 digits")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CurveRelease(ChargedRelease):
    """A noisy performance curve. Everything but ``errors`` is a public constant.

    Attributes
    ----------
    errors : tuple of float
        For each candidate the noisy Euclidean distance between the private people's probabilities under it and under
        the private fit; some may be below 0.
    noise_sd : float
        The standard deviation of the noise in each.
    """

    kind: ClassVar[str] = "curve/1"
    errors: tuple[float, ...]
    noise_sd: float
