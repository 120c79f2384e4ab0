"""What an analyst may ask a site for: what is listed, and nothing else."""

from collections.abc import Collection
from fractions import Fraction
from functools import partial
from typing import Annotated, Final, Self, final

from pydantic import BeforeValidator, model_validator

from hdpstats.custodian.settings_sections import Amount, Section
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.description import DescriptionQuery
from hdpstats.mechanisms.importance_weights import ImportanceWeightsQuery
from hdpstats.mechanisms.registry import BY_NAME, FAMILIES, is_listed, name_of
from hdpstats.privacy.budget import Budget
from hdpstats.records.query import Query

MODELS: Final = frozenset().union(*FAMILIES.values())
"""The families of models that queries fit or read."""

COUNT: Final = CountQuery.kind.partition("/")[0]
"""The mechanism of numbers of people."""

FITTING: Final = frozenset(BY_NAME) | {ImportanceWeightsQuery.kind.partition("/")[0]}
"""The mechanisms that fit models, where these are of their families; the others read a model, or have none."""

ALL: Final = "all"
"""The word of a settings file for everything there is."""


def _among(options: Collection[str] | None, value: object) -> frozenset[str] | None:
    """Return a list of known names, or of any; None for the word ``all``."""
    if value == ALL:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("must be a list of names, or the word 'all'")
    strange = [] if options is None else [name for name in value if name not in options]
    if strange:
        raise ValueError(f"must be among {', '.join(sorted(options or ()))}; unknown: {', '.join(map(repr, strange))}")
    return frozenset(value)


@final
class Permissions(Section):
    """The mechanisms, models and columns that one analyst may ask for; None where all are.

    A query is permitted where its kind is among the mechanisms, and the family of its model, if it has one, is among
    the models, and every column that it would read is among the columns. What is not listed is denied. Permissions are
    what a custodian has reasons for outside this package: a protocol, a data use agreement. The guarantee of a release
    does not rest on them.

    Who may fit a model may also ask what a fit asks first, whether or not ``count`` is listed: the number of people
    who are complete in some columns, and averages of columns among them. Such a query says that charges lie ahead (its
    ``ahead``), but nothing ties it to a model or to a fit that follows: whoever may fit any model may have these
    numbers of any permitted columns, as often as the budget affords. ``count`` permits numbers of people and nothing
    else.

    In the settings they are lists, or the word ``all``. Where the mechanisms are left out, they are those that fit or
    read one of the models, and ``count``; no other one without a model. Where the models are left out, every listed
    mechanism must be one without a model. Left out columns are all that are declared.

    Attributes
    ----------
    mechanisms : frozenset of str or None
        Kinds of queries without their versions, as ledgers show them: ``objective``, ``histogram``.
    models : frozenset of str or None
        Families of models that may be fitted or read: ``regression``, ``multinomial``, ``hazard``, ``density ratio``,
        ``distribution``.
    columns : frozenset of str or None
        Declared columns that answers may be computed from.
    epsilon, delta : Fraction or None
        What the analyst may receive in all.
    """

    mechanisms: Annotated[frozenset[str] | None, BeforeValidator(partial(_among, FAMILIES))] = None
    models: Annotated[frozenset[str] | None, BeforeValidator(partial(_among, MODELS))] = None
    columns: Annotated[frozenset[str] | None, BeforeValidator(partial(_among, None))] = None
    epsilon: Amount | None = None
    delta: Amount | None = None

    @model_validator(mode="after")
    def _filled(self) -> Self:
        """Fill in what is left out, as the class says, or refuse it."""
        if not self.model_fields_set & {"mechanisms", "models"}:
            raise ValueError(
                "permit nothing: list mechanisms, models or both, or write 'mechanisms: all' and 'models: all'"
            )
        if self.epsilon is None and self.delta is not None:
            raise ValueError("must have an epsilon where there is a delta")
        if "mechanisms" not in self.model_fields_set:
            models = MODELS if self.models is None else self.models
            fitting = {kind for kind, families in FAMILIES.items() if families & models}
            return self.model_copy(update={"mechanisms": frozenset({COUNT} | fitting)})
        if "models" not in self.model_fields_set:
            kinds = FAMILIES.keys() if self.mechanisms is None else self.mechanisms
            with_model = sorted(kind for kind in kinds if FAMILIES[kind])
            if with_model:
                raise ValueError(
                    f"must say by models what {', '.join(with_model)} may fit or read: list among "
                    f"{', '.join(sorted(MODELS))}, or write 'models: all'"
                )
            return self.model_copy(update={"models": frozenset[str]()})
        return self

    @property
    def cap(self) -> Budget | None:
        """What the analyst may receive in all; None without a cap."""
        return None if self.epsilon is None else Budget(self.epsilon, self.delta or Fraction(0))

    def allow(self, query: Query, columns: Collection[str]) -> bool:
        """Whether a query may be asked, given the columns that it would read."""
        if name_of(query) not in FAMILIES:
            return False
        asked_first = self._fits and _is_of_fit(query)
        mechanisms = None if asked_first else self.mechanisms
        return is_listed(query, columns, {"mechanisms": mechanisms, "models": self.models, "columns": self.columns})

    @property
    def _fits(self) -> bool:
        """Whether some model may be fitted by some mechanism."""
        models = MODELS if self.models is None else self.models
        kinds = FITTING if self.mechanisms is None else FITTING & self.mechanisms
        return any(FAMILIES[kind] & models for kind in kinds)

    def __str__(self) -> str:
        parts = [f"{key} {', '.join(listed) or 'none'}" for key, listed in self.to_dict().items() if listed is not None]
        return "; ".join(parts) or "everything"

    def to_dict(self) -> dict[str, list[str] | None]:
        """Return the permissions as JSON values."""
        parts = {"mechanisms": self.mechanisms, "models": self.models, "columns": self.columns}
        return {key: None if part is None else sorted(part) for key, part in parts.items()}


def _is_of_fit(query: Query) -> bool:
    """Whether a query asks for the number of people of a fit, or describes them: it says what the fit will cost."""
    return isinstance(query, CountQuery | DescriptionQuery) and bool(query.ahead)
