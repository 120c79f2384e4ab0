"""The guarantee of a release for every person in the private records, in numbers and in words."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats.privacy.budget import decimal
from hdpstats.privacy.relation import Relation


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for one ``unit`` under a ``relation``.

    For neighbouring data sets D, D' and every set A of outputs, ``P[M(D) in A] <= e^epsilon P[M(D') in A] +
    delta``. With ``delta = 0`` the guarantee is pure.

    Attributes
    ----------
    epsilon, delta
        The parameters of the guarantee.
    relation
        Which data sets are neighbours.
    unit
        The word for one of those protected, such as "person".
    most_rows
        The largest number of rows of one of them that a release uses. All of them are protected together.
    sites
        How many sites took part. The guarantee is for those who are at one of them only.
    """

    epsilon: Fraction
    delta: Fraction
    relation: Relation
    unit: str
    most_rows: int = 1
    sites: int = 1

    @property
    def protected(self) -> str:
        """Who is protected, for tables: 'one person', or 'one person (at most 5 rows)'."""
        rows = "" if self.most_rows == 1 else f" (at most {self.most_rows} rows)"
        return f"one {self.unit}{rows}" + (f", at one of {self.sites} sites only" if self.sites > 1 else "")

    @property
    def neighbours(self) -> str:
        """Which data sets are neighbours, in plain words."""
        return self.relation.between(self.unit, most_rows=self.most_rows)

    def __str__(self) -> str:
        if self.delta == 0:
            return f"{decimal(self.epsilon)}-differential privacy (pure)"
        return f"({decimal(self.epsilon)}, {decimal(self.delta)})-differential privacy"

    def statement(self) -> str:
        """Return the guarantee in plain words, as an ethics board or a methods section can use it.

        >>> from fractions import Fraction
        >>> g = Guarantee(epsilon=Fraction(1), delta=Fraction(0), relation=Relation.REPLACE_ONE, unit="person")
        >>> g.statement().startswith("This release is 1-differentially private")
        True
        """
        factor = math.exp(min(float(self.epsilon), 700.0))
        kind = (
            f"{decimal(self.epsilon)}-differentially private (pure, delta = 0)"
            if self.delta == 0
            else f"({decimal(self.epsilon)}, {decimal(self.delta)})-differentially private"
        )
        rest = "" if self.delta == 0 else f", plus an additional probability of at most {decimal(self.delta)}"
        rows = "" if self.most_rows == 1 else f", with at most {self.most_rows} rows"
        where = "" if self.sites == 1 else f"Records are at {self.sites} sites, and each {self.unit} is at one only. "
        return (
            f"This release is {kind}. The protected unit is one {self.unit}{rows}: {self.neighbours}. {where}"
            f"Between neighbours the probability of any outcome differs by a factor of at most {factor:.4g}{rest}. "
            "The guarantee holds for every adversary, whatever else is known about the other records; "
            "it adds up with other releases from the same records, which the ledger counts."
        )
