"""What an analyst may ask a site for: what is listed, and nothing else."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian.reading import known, words
from hdpstats.mechanisms.count.query import CountQuery
from hdpstats.mechanisms.registry import FAMILIES, family_of
from hdpstats.records.query import Query

MODELS: Final = frozenset().union(*FAMILIES.values())
"""The families of models that queries fit or read."""

ALL: Final = "all"
"""The word of a settings file for everything there is."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Permissions:
    """The mechanisms, models and columns that one analyst may ask for; None where all are.

    A query is permitted where its kind is among the mechanisms, and the family of its model, if it has one, is among
    the models, and every column that it would read is among the columns. What is not listed is denied. Permissions are
    what a custodian has reasons for outside this package: a protocol, a data use agreement. The guarantee of a release
    does not rest on them.

    Attributes
    ----------
    mechanisms : frozenset of str or None
        Kinds of queries without their versions, as ledgers show them: ``objective``, ``histogram``.
    models : frozenset of str or None
        Families of models that may be fitted or read: ``regression``, ``multinomial``, ``hazard``, ``density ratio``,
        ``distribution``.
    columns : frozenset of str or None
        Declared columns that answers may be computed from.
    """

    mechanisms: frozenset[str] | None
    models: frozenset[str] | None
    columns: frozenset[str] | None = None

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any], *, name: str, declared: Collection[str]) -> "Permissions":
        """Read the entries of an analyst: lists, or the word ``all``.

        Where the mechanisms are left out, they are those that fit or read one of the models, and the number of people
        (``count``), which a fit asks first where it is protected; no other one without a model. Where the models are
        left out, every listed mechanism must be one without a model. Left out columns are all that are declared.

        Raises
        ------
        ArgumentError
            Neither mechanisms nor models are listed; a mechanism is listed without its models; or nothing has a name.
        """
        found = known(entries, name=name, allowed={"mechanisms", "models", "columns"})
        options = {"mechanisms": FAMILIES, "models": MODELS, "columns": declared}
        listed = {key: _among(found[key], options[key], name=f"{name}: {key}") for key in found}
        if not found.keys() & {"mechanisms", "models"}:
            raise ArgumentError(
                f"{name} permit nothing: list mechanisms, models or both, or write 'mechanisms: all' and 'models: all'",
                argument=name,
            )
        if "mechanisms" not in found:
            models = MODELS if listed["models"] is None else listed["models"]
            fitting = {kind for kind, families in FAMILIES.items() if families & models}
            listed["mechanisms"] = frozenset({CountQuery.kind.partition("/")[0]} | fitting)
        if "models" not in found:
            kinds = FAMILIES.keys() if listed["mechanisms"] is None else listed["mechanisms"]
            with_model = sorted(kind for kind in kinds if FAMILIES[kind])
            if with_model:
                raise ArgumentError(
                    f"{name}: models must say what {', '.join(with_model)} may fit or read: list among "
                    f"{', '.join(sorted(MODELS))}, or write 'models: all'",
                    argument=f"{name}: models",
                )
            listed["models"] = frozenset()
        return cls(**listed)

    def allow(self, query: Query, columns: Collection[str]) -> bool:
        """Whether a query may be asked, given the columns that it would read."""
        kind = query.kind.partition("/")[0]
        if kind not in FAMILIES:
            return False
        family = family_of(query)
        return (
            (self.mechanisms is None or kind in self.mechanisms)
            and (self.models is None or family is None or family in self.models)
            and (self.columns is None or self.columns.issuperset(columns))
        )

    def __str__(self) -> str:
        parts = [f"{key} {', '.join(listed) or 'none'}" for key, listed in self.to_dict().items() if listed is not None]
        return "; ".join(parts) or "everything"

    def to_dict(self) -> dict[str, list[str] | None]:
        """Return the permissions as JSON values."""
        parts = {"mechanisms": self.mechanisms, "models": self.models, "columns": self.columns}
        return {key: None if part is None else sorted(part) for key, part in parts.items()}


def _among(value: object, options: Collection[str], *, name: str) -> frozenset[str] | None:
    """Return a list of known names; None for the word ``all``."""
    if value == ALL:
        return None
    listed = words(value, name=name)
    strange = [each for each in listed if each not in options]
    if strange:
        raise ArgumentError(
            f"{name} must be among {', '.join(sorted(options))}; unknown: {', '.join(map(repr, strange))}",
            argument=name,
        )
    return frozenset(listed)
