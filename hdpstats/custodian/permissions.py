"""What an analyst may ask a site for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian.reading import known, words
from hdpstats.queries import Query
from hdpstats.queries.wire import KINDS

FAMILIES = frozenset({"regression", "multinomial", "hazard", "density ratio"})
"""The families of models that queries name."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Permissions:
    """The mechanisms, models and columns that one analyst may ask for; None where all are.

    Permissions are what a custodian has reasons for outside this package: a protocol, a data use agreement. The
    guarantee of a release does not rest on them.

    Attributes
    ----------
    mechanisms : frozenset of str or None
        Kinds of queries without their versions, as ledgers show them: ``objective-perturbation``, ``histogram``.
    models : frozenset of str or None
        Families of models: ``regression``, ``multinomial``, ``hazard``, ``density ratio``. Queries without a model
        (a histogram) are not restricted by them.
    columns : frozenset of str or None
        Declared columns that answers may be computed from.
    """

    mechanisms: frozenset[str] | None = None
    models: frozenset[str] | None = None
    columns: frozenset[str] | None = None

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any], *, name: str, declared: Collection[str]) -> "Permissions":
        """Read the entries of an analyst; a name that nothing has is an error, as it would permit nothing."""
        found = known(entries, name=name, allowed={"mechanisms", "models", "columns"})
        options = {"mechanisms": KINDS, "models": FAMILIES, "columns": declared}
        return cls(**{key: _among(found[key], options[key], name=f"{name}: {key}") for key in found})

    def allow(self, query: Query, columns: Collection[str]) -> bool:
        """Whether a query may be asked, given the columns that it would read."""
        kind = query.kind.partition("/")[0]
        family = getattr(getattr(query, "model", None), "family", None)
        return (
            (self.mechanisms is None or kind in self.mechanisms)
            and (self.models is None or family is None or family in self.models)
            and (self.columns is None or self.columns.issuperset(columns))
        )

    def __str__(self) -> str:
        parts = [f"{key} {', '.join(listed)}" for key, listed in self.to_dict().items() if listed is not None]
        return "; ".join(parts) or "everything"

    def to_dict(self) -> dict[str, list[str] | None]:
        """Return the permissions as JSON values."""
        parts = {"mechanisms": self.mechanisms, "models": self.models, "columns": self.columns}
        return {key: None if part is None else sorted(part) for key, part in parts.items()}


def _among(value: object, options: Collection[str], *, name: str) -> frozenset[str]:
    listed = words(value, name=name)
    strange = [each for each in listed if each not in options]
    if strange:
        raise ArgumentError(
            f"{name} must be among {', '.join(sorted(options))}; unknown: {', '.join(map(repr, strange))}",
            argument=name,
        )
    return frozenset(listed)
