"""The kinds of questions that a request file may ask: each is opened on a study, and then asks its sites.

A question is data: the name of a kind, a formula or columns, options and what it may spend. The code behind the name is
that of this package, which analyst and custodian both run: with the rows' own site at the custodian's, and afterwards
with a site that knows the recorded answers only. No code and no value that is not plain JSON is taken from a file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, final

import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError, FormulaError, HdpError, SchemaError
from hdpstats._base.validation import exact
from hdpstats.describe import describe
from hdpstats.formulas import compile_design
from hdpstats.mechanisms.registry import prepare
from hdpstats.models import propensity, treatment_effect
from hdpstats.models.treatment_effect import requested_effect
from hdpstats.privacy.budget import Budget, release_delta, release_epsilon
from hdpstats.records import codec
from hdpstats.results.propensity import Propensity, admitted_for_errors
from hdpstats.sites import Study
from hdpstats.sites.study import site_facts_of

Options = Mapping[str, Any]

FIT: Final = frozenset(
    {"epsilon", "delta", "mechanism", "se_share", "replicate", "allow_large_epsilon", "describe"},
)
"""What a fit may be told about what it spends."""
OF_ROWS: Final = frozenset({"weights", "offset", "row_norm", "correlation"})


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
    """

    open: Callable[..., Any]
    ask: Callable[[Any, Options], Any] = field(default=lambda opened, spent: opened.fit(**spent))
    options: frozenset[str] = OF_ROWS
    spending: frozenset[str] = FIT


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Effect:
    """An effect whose propensity model is fitted first."""

    formula: str
    study: Study
    propensity: Any


def _open_effect(formula: str, data: Study, *, propensity_formula: str) -> _Effect:
    return _Effect(formula=formula, study=data, propensity=propensity(propensity_formula, data))


def _check_effect(opened: _Effect, epsilon: object, replicate: int, *, allow_large_epsilon: bool) -> None:
    """Refuse an effect that no site would answer, or that one does not permit, before its propensity is charged.

    The weights are not known yet; those of public people stand for them where there are any. Public rows on which no
    effect's errors could rest are refused whatever the weights will be.
    """
    amount = release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
    outcome = compile_design(opened.formula, opened.study.schema).response
    public = opened.study.by_person(opened.propensity.design.needs, averaged=outcome)
    admitted_for_errors(public, opened.propensity.design, (outcome,), what="treatment_effect")
    try:
        weighting = Propensity.of(opened.propensity.model.fit_public()).weights("overlap")
        asked = requested_effect(opened.formula, opened.study, weighting, replicate=replicate)
        query = asked.query(amount)
    except (FormulaError, SchemaError):
        raise
    except HdpError:  # about public people, and private ones may differ
        return
    for site in opened.study.sites.values():
        site.check_permitted(query, prepare(query, site_facts_of(opened.study, site.records)).needs)


def _ask_effect(opened: _Effect, spent: Options) -> Any:
    large = spent.get("allow_large_epsilon", False)
    _check_effect(opened, spent["epsilon"], spent.get("replicate", 1), allow_large_epsilon=large)
    own = {name: value for name, value in spent.items() if name != "propensity_epsilon"}
    shared = {name: value for name, value in own.items() if name != "epsilon"}
    first = opened.propensity.release(spent.get("propensity_epsilon"), **shared)
    return treatment_effect(opened.formula, opened.study, first.weights("overlap"), **own)


def _release(opened: Any, spent: Options) -> Any:
    return opened.release(**spent)


_DESCRIPTION: Final = frozenset(
    {"by", "complete", "quantiles", "times", "delta", "weights", "correlations", "replicate"}
)
_DRAWS: Final = frozenset({"epsilon", "replicate", "allow_large_epsilon"})

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "logit": Kind(open=hdpf.logit),
        "linear": Kind(open=hdpf.linear),
        "quantile": Kind(open=hdpf.quantile, options=OF_ROWS | {"q", "width"}),
        "poisson": Kind(open=hdpf.poisson, options=OF_ROWS | {"cap"}),
        "multinomial": Kind(open=hdpf.multinomial, options=OF_ROWS - {"offset"}),
        "hazard": Kind(
            open=hdpf.hazard,
            options=frozenset(
                {"intervals", "baseline", "df", "knots", "link", "cap", "weights", "offset", "row_norm"},
            ),
        ),
        "distribution": Kind(open=hdpf.distribution, options=frozenset({"family", "ranges"})),
        "survfit": Kind(
            open=hdpf.survfit,
            options=frozenset({"times", "weights", "recorded"}),
            spending=_DRAWS | {"delta"},
        ),
        "describe": Kind(
            open=lambda columns, data, **options: describe(data, columns, **options),
            ask=_release,
            options=_DESCRIPTION,
            spending=frozenset({"epsilon", "allow_large_epsilon"}),
        ),
        "propensity": Kind(open=propensity, ask=_release, options=frozenset(), spending=_DRAWS),
        "treatment_effect": Kind(
            open=_open_effect,
            ask=_ask_effect,
            options=frozenset({"propensity_formula"}),
            spending=_DRAWS | {"propensity_epsilon"},
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
        for name in sorted({"epsilon", "propensity_epsilon"} & kind.spending):
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

    @property
    def second(self) -> Fraction | None:
        """What the second of two questions costs, where the first is of no use unless both can be charged; else None.

        Both have noise of their own and no delta.
        """
        return exact(self.spending["epsilon"], name="epsilon") if "propensity_epsilon" in self.spending else None

    @property
    def most(self) -> Budget:
        """What all of its releases together may cost each person: the sum of its epsilons, and its delta."""
        asked = (self.spending.get(name, 0) for name in ("epsilon", "propensity_epsilon"))
        epsilons = [exact(amount, name="epsilon") for amount in asked]
        delta = {**self.options, **self.spending}.get("delta", 0)
        return Budget(sum(epsilons, Fraction(0)), release_delta(delta))

    def open(self, study: Study) -> Any:
        """Open the question on a study; spends nothing, and raises what the constructor of the kind raises."""
        try:
            return KINDS[self.kind].open(self.what, study, **self.options)
        except HdpError:
            raise
        except UNREADABLE:
            raise ArgumentError(f"the options of {self.kind} cannot be read", argument="options") from None

    def ask(self, study: Study) -> Any:
        """Ask the sites of a study, and return the result: what the analyst's own call would be."""
        return KINDS[self.kind].ask(self.open(study), self.spending)

    def __str__(self) -> str:
        what = [self.what] if isinstance(self.what, str) else self.what
        return f"{self.kind}: {', '.join(map(repr, what))}{_listed(self.options)}"

    @property
    def spending_in_words(self) -> str:
        """What may be spent, and how."""
        return _listed(self.spending).removeprefix("; ")


def _check_words(spending: Options) -> None:
    """Refuse a mechanism that is no name, and a word that would pass for True."""
    for name, kind, what in (("mechanism", str, "a name"), ("allow_large_epsilon", bool, "True or False")):
        if name in spending and not isinstance(spending[name], kind):
            raise ArgumentError(f"{name} must be {what}", argument=name)


def _listed(values: Options) -> str:
    """Return names and values; texts in quotes, so that none passes for a further value."""
    return "".join(f"; {name} {value!r}" for name, value in sorted(values.items()))
