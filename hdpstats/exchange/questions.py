"""The kinds of questions that a request file may ask: each is opened on a study, and then asks its sites.

A question is data: the name of a kind, a formula or columns, options and what it may spend. The code behind the name is
that of this package, which analyst and custodian both run: with the rows' own site at the custodian's, and afterwards
with a site that knows the recorded answers only. No code and no value that is not plain JSON is taken from a file.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, cast, final

import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import exact
from hdpstats.describe import describe
from hdpstats.exchange.weighted_people import OfWeightedPeople
from hdpstats.models import propensity, treatment_effect
from hdpstats.models.propensity import PropensityRequest
from hdpstats.models.treatment_effect import TreatmentEffectRequest
from hdpstats.privacy.budget import Budget, decimal, release_delta, release_replicate
from hdpstats.records import codec
from hdpstats.records.query import PointQuery, Query
from hdpstats.sites import Study

Options = Mapping[str, Any]

FIT: Final = frozenset(
    {"epsilon", "delta", "mechanism", "se_share", "replicate", "allow_large_epsilon", "describe"},
)
"""What a fit may be told about what it spends."""
OF_ROWS: Final = frozenset({"weights", "offset", "row_norm", "correlation"})
FORMULA, EPSILON = "propensity_formula", "propensity_epsilon"
"""What the propensity model is, and what it may cost, where people are weighted by it."""


NEVER, MAY, MUST = "never", "may", "must"
"""Whether people of a question are weighted by their chance of treatment, whose model is asked for with it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of question.

    Attributes
    ----------
    open : function
        Takes what is asked, the study and options, and checks them; spends nothing.
    ask : function
        Takes what was opened and what it may spend, asks the sites and returns the result.
    options, spending : frozenset of str
        The names that both take.
    weighted : str
        `MAY` or `MUST` where `open` takes a ``weighting``: then a question may, or must, have ``propensity_formula``
        and ``propensity_epsilon``.
    """

    open: Callable[..., Any]
    ask: Callable[[Any, Options], Any] = field(default=lambda opened, spent: opened.fit(**spent))
    options: frozenset[str] = OF_ROWS
    spending: frozenset[str] = FIT
    weighted: str = NEVER

    def __post_init__(self) -> None:
        """Take what a propensity model is asked by."""
        if self.weighted != NEVER:
            object.__setattr__(self, "options", self.options | {FORMULA})
            object.__setattr__(self, "spending", self.spending | {EPSILON})


def _release(opened: Any, spent: Options) -> Any:
    return opened.release(**spent)


def _ask_effect(opened: TreatmentEffectRequest, spent: Options) -> Any:
    drawn = replace(opened, replicate=release_replicate(spent.get("replicate", 1)))
    return drawn.release(spent["epsilon"], allow_large_epsilon=spent.get("allow_large_epsilon", False))


_DESCRIPTION: Final = frozenset(
    {"by", "complete", "quantiles", "times", "delta", "weights", "correlations", "replicate"}
)
_DRAWS: Final = frozenset({"epsilon", "replicate", "allow_large_epsilon"})

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "logit": Kind(open=hdpf.logit, weighted=MAY),
        "linear": Kind(open=hdpf.linear, weighted=MAY),
        "quantile": Kind(open=hdpf.quantile, options=OF_ROWS | {"q", "width"}),
        "poisson": Kind(open=hdpf.poisson, options=OF_ROWS | {"cap"}, weighted=MAY),
        "multinomial": Kind(open=hdpf.multinomial, options=OF_ROWS - {"offset"}),
        "hazard": Kind(
            open=hdpf.hazard,
            options=frozenset(
                {"intervals", "baseline", "df", "knots", "link", "cap", "weights", "offset", "row_norm"},
            ),
            weighted=MAY,
        ),
        "distribution": Kind(open=hdpf.distribution, options=frozenset({"family", "ranges"})),
        "survfit": Kind(
            open=hdpf.survfit,
            options=frozenset({"times", "weights", "recorded"}),
            spending=_DRAWS | {"delta"},
            weighted=MAY,
        ),
        "describe": Kind(
            open=lambda columns, data, **options: describe(data, columns, **options),
            ask=_release,
            options=_DESCRIPTION,
            spending=frozenset({"epsilon", "allow_large_epsilon"}),
            weighted=MAY,
        ),
        "propensity": Kind(open=propensity, ask=_release, options=frozenset(), spending=_DRAWS),
        "treatment_effect": Kind(
            open=treatment_effect, ask=_ask_effect, options=frozenset(), spending=_DRAWS, weighted=MUST
        ),
    }
)
"""The kinds of questions by name: those of `hdpstats.formula.api`, descriptions and treatment effects."""

LONGEST_TEXT: Final = 2_000
"""Characters of a text in a question: as many as of a formula."""
MOST_LISTED: Final = 2_000
LONGEST_QUESTION: Final = 50_000
"""Characters of the canonical JSON of all of it, which a custodian is shown."""

UNREADABLE: Final = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    AssertionError,
    NotImplementedError,
)
"""What code raises that meets a value of another kind than it was written for."""


def is_plain(value: object) -> bool:
    """Whether a value is what a question may have: a text, a number, true, false, null, or a short list of these."""
    if isinstance(value, list):
        return len(value) <= MOST_LISTED and all(not isinstance(each, list) and is_plain(each) for each in value)
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    return value is None or (isinstance(value, bool | int | float) and abs(value) < 1e15)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked, declaratively.

    Attributes
    ----------
    kind : str
        A name of `KINDS`.
    what : str or list of str
        A formula; of a description the names of columns.
    options : mapping
        What the constructor of the kind takes besides.
    spending : mapping
        What may be spent, and how: ``epsilon`` and whatever else ``fit`` takes.

    Raises
    ------
    ArgumentError
        A kind or a name that there is not, or a value that is not plain.
    """

    kind: str
    what: str | list[str]
    options: Options
    spending: Options

    def __post_init__(self) -> None:
        """Refuse what no question has."""
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ArgumentError(f"model must be one of {', '.join(KINDS)}", argument="model")
        kind = KINDS[self.kind]
        listed = isinstance(self.what, list) and all(isinstance(name, str) for name in self.what)
        if not is_plain(self.what) or not (isinstance(self.what, str) or (listed and self.kind == "describe")):
            raise ArgumentError("formula must be a text, or of a description names of columns", argument="formula")
        for given, known in ((self.options, kind.options), (self.spending, kind.spending)):
            for name, value in given.items():
                if name not in known:
                    every = ", ".join(sorted(kind.options | kind.spending))
                    raise ArgumentError(f"{name} is not an argument of {self.kind}, which takes {every}", argument=name)
                if not is_plain(value):
                    raise ArgumentError(
                        f"{name} must be a text, a number, true, false, or a list of these", argument=name
                    )
        self._check_weighted(kind)
        for name in ["epsilon", *([EPSILON] if self.is_weighted else [])]:
            value = self.spending.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ArgumentError(f"{name} must be given, one number above 0", argument=name)
        _check_words(self.spending)
        replicate = {**self.options, **self.spending}.get("replicate", 1)
        if isinstance(replicate, bool) or not isinstance(replicate, int):
            raise ArgumentError("replicate must be a whole number", argument="replicate")
        _ = self.most  # which refuses a delta that is none
        written = codec.dumps([self.what, dict(self.options), dict(self.spending)])
        if len(written) > LONGEST_QUESTION:
            raise ArgumentError(
                f"the question must have at most {LONGEST_QUESTION} characters, which a custodian can read; ask for "
                "less at once",
                argument="formula",
            )

    def _check_weighted(self, kind: Kind) -> None:
        """Refuse a propensity model without its formula or its cost, and what is not for weighted people."""
        if kind.weighted == MUST and not self.is_weighted:
            raise ArgumentError(
                f"{FORMULA} and {EPSILON} must be given for a {self.kind}: the propensity model, fitted first",
                argument=FORMULA,
            )
        if not self.is_weighted:
            return
        if not isinstance(self.options.get(FORMULA), str):
            raise ArgumentError(
                f"{FORMULA} must be given with {EPSILON}, as in 'treatment ~ age': people are weighted by that model",
                argument=FORMULA,
            )
        for name, taken in (("quantiles", False), ("complete", True)):
            if self.options.get(name, taken) is not taken:
                raise ArgumentError(
                    f"{name} must be left out with {FORMULA}: a balance has no quartiles, and is of complete people",
                    argument=name,
                )
        if "delta" in self.spending:
            raise ArgumentError(
                f"delta must be left out with {FORMULA}: both parts of such a question are pure", argument="delta"
            )

    @property
    def is_weighted(self) -> bool:
        """Whether it is about people weighted by a propensity model, which it asks for first."""
        return FORMULA in self.options or EPSILON in self.spending

    @property
    def second(self) -> Fraction | None:
        """What the second of two questions costs, where the first is of no use unless both can be charged; else None.

        Both have noise of their own and no delta.
        """
        return exact(self.spending["epsilon"], name="epsilon") if self.is_weighted else None

    def owes_second(self, answered: Iterable[Query]) -> bool:
        """Whether all of the second of two questions is to be asked yet, once some queries were answered.

        The first of them, a propensity model, ends with the coefficients of people who are not weighted.
        """
        first = any(isinstance(query, PointQuery) and query.model.overlap is None for query in answered)
        return self.second is not None and not first

    @property
    def most(self) -> Budget:
        """What all of its releases together may cost each person: the sum of its epsilons, and its delta."""
        asked = (self.spending.get(name, 0) for name in ("epsilon", EPSILON))
        epsilons = [exact(amount, name="epsilon") for amount in asked]
        delta = {**self.options, **self.spending}.get("delta", 0)
        return Budget(sum(epsilons, Fraction(0)), release_delta(delta))

    def open(self, study: Study) -> Any:
        """Open the question on a study; spends nothing, and raises what the constructor of the kind raises."""
        kind = KINDS[self.kind]
        try:
            return self._of_weighted(kind, study) if self.is_weighted else kind.open(self.what, study, **self.options)
        except HdpError:
            raise
        except UNREADABLE:
            raise ArgumentError(f"the options of {self.kind} cannot be read", argument="options") from None

    def ask(self, study: Study) -> Any:
        """Ask the sites of a study, and return the result: what the analyst's own call would be."""
        opened = self.open(study)
        if isinstance(opened, OfWeightedPeople):
            return opened.answer(self.spending)
        return KINDS[self.kind].ask(opened, self.spending)

    def _of_weighted(self, kind: Kind, study: Study) -> OfWeightedPeople:
        options = {name: value for name, value in self.options.items() if name != FORMULA}
        return OfWeightedPeople(
            propensity=cast(PropensityRequest, propensity(self.options[FORMULA], study)),
            open=lambda study, weighting: kind.open(self.what, study, weighting=weighting, **options),
            ask=kind.ask,
            replicate={**self.options, **self.spending}.get("replicate", 1),
        )

    def __str__(self) -> str:
        what = [self.what] if isinstance(self.what, str) else self.what
        return f"{self.kind}: {', '.join(map(repr, what))}{_listed(self.options)}"

    @property
    def spending_in_words(self) -> str:
        """What may be spent, and how."""
        return _listed(self.spending).removeprefix("; ")

    @property
    def parts_in_words(self) -> str:
        """What the two parts of a question about weighted people may cost; empty of all others."""
        if not self.is_weighted:
            return ""
        first, second = (decimal(exact(self.spending[name], name=name)) for name in (EPSILON, "epsilon"))
        return (
            f"two parts: the propensity model {self.options[FORMULA]!r} for at most epsilon {first}, then {self.kind} "
            f"of people weighted by it for at most epsilon {second}; a part that was released before costs nothing"
        )


def _check_words(spending: Options) -> None:
    """Refuse a mechanism that is no name, and a word that would pass for True."""
    for name, kind, what in (("mechanism", str, "a name"), ("allow_large_epsilon", bool, "True or False")):
        if name in spending and not isinstance(spending[name], kind):
            raise ArgumentError(f"{name} must be {what}", argument=name)


def _listed(values: Options) -> str:
    """Return names and values; texts in quotes, so that none passes for a further value."""
    return "".join(f"; {name} {value!r}" for name, value in sorted(values.items()))
