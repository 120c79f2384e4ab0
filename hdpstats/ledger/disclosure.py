"""What is disclosed of the privacy of a data set, or of one result: three forms that fill themselves.

* ``nist``: the points that NIST SP 800-226 (Near, Darais, Lefkovitz and Howarth 2025) asks of whoever evaluates a
  guarantee, each with its answer and with who gives it.
* ``registry``: an entry of the registry of deployments that OpenDP keeps (schema of 2026-07-15), as YAML.
* ``text``: sentences for a paper, for an ethics application, and for the output check of a secure environment.

Most answers are public facts of the ledger: what was asked, what ran, what it cost, who is protected. What only the
custodian knows is stated once (`Statements`; ``disclosure:`` in the settings of a site), and says *not stated* until
then. No form reads a private row, and no form says more than the ledger and the queries in it, which are public.
"""

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, Final, Self, final

import pandas as pd
import yaml

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import choice, text
from hdpstats.display import grid, notes, page
from hdpstats.ledger.chain import Chain
from hdpstats.ledger.export import set_aside
from hdpstats.ledger.records import Entry
from hdpstats.privacy.budget import Budget, MechanismName, PrivacyEvent, Spend, decimal
from hdpstats.privacy.proof_index import PROOFS
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records import codec

FORMS: Final = ("nist", "registry", "text")
NOT_STATED: Final = "not stated"
REGISTRY_SCHEMA: Final = "2026-07-15"
"""The version of the registry's schema that entries follow."""
PRODUCTS: Final = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_PACKAGE, _LEDGER, _CUSTODIAN = "hdpstats", "the ledger", "the custodian"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Statements:
    """What only the custodian knows of a data set, stated once; None where it is not stated.

    Attributes
    ----------
    name, description, purpose : str or None
        What the releases are called, what they are, and what they are for.
    curators : tuple of str
        Who is responsible for the data and publishes releases.
    region, sector : str or None
        Which region the data are from or whose law applies; one of `SECTORS`.
    product : str or None
        What is published, one of `PRODUCTS`.
    published : str or None
        When the first release was published, as ``YYYY-MM-DD``; without it, when the first was charged.
    other_releases : str or None
        Whatever else was or will be published of the same people, with or without differential privacy.
    security : str or None
        How the rows are protected where they are stored and used.
    access : str or None
        Who may ask for releases, who reads the logs, and who may see the rows.
    minimisation : str or None
        Which columns are held and why, and when rows are deleted.
    updates : str or None
        Whether rows are added or changed later, and how that is counted: ``static`` or a sentence.
    served : bool or None
        Whether analysts ask over the network, from a service of this package; else they work where the rows are.
    authors : tuple of str
        Who filled in the form.
    sources : str or None
        Links to papers and pages on the releases.
    """

    name: str | None = None
    description: str | None = None
    purpose: str | None = None
    curators: tuple[str, ...] = ()
    region: str | None = None
    sector: str | None = None
    product: str | None = None
    published: str | None = None
    other_releases: str | None = None
    security: str | None = None
    access: str | None = None
    minimisation: str | None = None
    updates: str | None = None
    served: bool | None = None
    authors: tuple[str, ...] = ()
    sources: str | None = None

    @classmethod
    def read(cls, entries: "Statements | Mapping[str, Any] | None") -> "Statements":
        """Return statements from names and values, checked.

        Raises
        ------
        ArgumentError
            A name is unknown, or a value is not of its kind.
        """
        if isinstance(entries, Statements):
            return entries
        given = {} if entries is None else entries
        known = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping):
            raise ArgumentError("statements must be a mapping from names to texts", argument="statements")
        strange = [repr(name) for name in given if name not in known]
        if strange:
            raise ArgumentError(
                f"statements must not have {', '.join(strange)}; known are {', '.join(known)}", argument="statements"
            )
        return cls(**{name: _checked(name, value) for name, value in given.items() if value is not None})

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of what is not stated and belongs into a full entry of the registry."""
        return tuple(name for name in _OF_CUSTODIAN if getattr(self, name) in (None, ()))


_OF_CUSTODIAN: Final = (
    "name",
    "description",
    "purpose",
    "curators",
    "region",
    "sector",
    "other_releases",
    "security",
    "access",
    "minimisation",
    "updates",
    "served",
    "authors",
)


def _checked(name: str, value: object) -> Any:
    """Return the value of a statement, of its kind."""
    if name == "served":
        if not isinstance(value, bool):
            raise ArgumentError("statements: served must be true or false", argument="statements")
        return value
    if name in ("curators", "authors"):
        several = [value] if isinstance(value, str) else value
        if not (isinstance(several, Sequence) and several):
            raise ArgumentError(f"statements: {name} must be a list of names", argument="statements")
        return tuple(text(each, name=f"statements: {name}", longest=200) for each in several)
    if name == "published":
        try:
            return (value if isinstance(value, date) else date.fromisoformat(str(value))).isoformat()
        except ValueError:
            raise ArgumentError(
                "statements: published must be a day such as 2026-11-28", argument="statements"
            ) from None
    if name in ("sector", "product"):
        return choice(value, name=f"statements: {name}", options=SECTORS if name == "sector" else PRODUCTS)
    return text(value, name=f"statements: {name}", longest=4000)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One charge: on which day, what was asked in the words of its query, and what ran.

    ``events`` is empty where no release was recorded for the charge.
    """

    day: str
    formula: str | None
    columns: tuple[str, ...]
    public_sha256: str | None
    schema_sha256: str
    terms: str
    events: tuple[PrivacyEvent, ...]

    @classmethod
    def of(cls, entry: Entry, release: Entry | None) -> Self:
        """Return that of the entries of a charge and of its release."""
        body = codec.loads(entry.body)
        query = body["query"]
        events = [] if release is None else codec.loads(release.body).get("events", [])
        return cls(
            day=str(entry.at)[:10],
            formula=_formula(query),
            columns=tuple(dict.fromkeys(_columns(query))),
            public_sha256=body.get("public_sha256"),
            schema_sha256=body["schema_sha256"],
            terms=body["terms"],
            events=tuple(codec.from_dict(PrivacyEvent, event) for event in events),
        )


def _printable(word: object) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(word))[:400]


def _formula(query: Mapping[str, Any]) -> str | None:
    model = query.get("model")
    formula = model.get("formula") if isinstance(model, Mapping) else None
    return None if formula is None else _printable(formula)


def _columns(query: Mapping[str, Any]) -> Iterable[str]:
    """Return the names of columns that a query lists besides its formula."""
    listed = [*(query.get("columns") or ()), *(query.get("besides") or ())]
    for each in listed:
        name = each.get("name") if isinstance(each, Mapping) else each
        if isinstance(name, str):
            yield _printable(name)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """The public facts that forms are filled in from.

    Attributes
    ----------
    what : str
        What is disclosed: a data set, or a result.
    relation : Relation
        Which data sets are neighbours.
    protected : str
        Who is protected, and which data sets are neighbours, in sentences.
    total : Budget or None
        The total of the account; None where it is not known, as for one result.
    spent : Spend
        An (epsilon, delta) that holds for everything charged so far.
    gaussian : str
        What the account sets aside for Gaussian noise, in words; empty where it is not divided.
    analysts : tuple of str
        Those who have caps.
    asked : tuple of Asked
        Every charge, in order.
    head : str
        The head of the ledger.
    sites : int
        How many sites took part.
    """

    what: str
    relation: Relation
    protected: str
    total: Budget | None
    spent: Spend
    gaussian: str = ""
    analysts: tuple[str, ...] = ()
    asked: tuple[Asked, ...]
    head: str = ""
    sites: int = 1

    @classmethod
    def of_account(cls, dataset: str, chain: Chain, entries: Sequence[Entry]) -> Self:
        """Return the facts of an account from all its entries."""
        account = chain.account(dataset)
        balance = account.balance
        released = {(entry.request_id, entry.attempt): entry for entry in entries if entry.kind == "release"}
        charges = [entry for entry in entries if entry.kind == "charge"]
        names = [name for name, first in chain.names.items() if first == account.dataset]
        others = (
            "" if len(names) == 1 else f" (the same people: {', '.join(name for name in names if name != dataset)})"
        )
        return cls(
            what=f"data set {dataset!r}{others}",
            relation=Relation(account.relation),
            protected=_protected(account.unit, Relation(account.relation)),
            total=balance.total,
            spent=balance.spent,
            gaussian="" if balance.gaussian is None else set_aside(balance),
            analysts=tuple(chain.capped(dataset)),
            asked=tuple(Asked.of(each, released.get((each.request_id, each.attempt))) for each in charges),
            head=chain.head,
        )

    @property
    def mechanisms(self) -> dict[MechanismName, int]:
        """The mechanisms that ran, and how often each."""
        return dict(Counter(event.ran for each in self.asked for event in each.events))

    @property
    def is_pure(self) -> bool:
        """Whether everything has delta = 0."""
        delta = self.spent.delta if self.total is None else self.total.delta
        return delta == 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that queries list."""
        return tuple(dict.fromkeys(name for each in self.asked for name in each.columns))

    @property
    def formulas(self) -> tuple[str, ...]:
        """The formulas of models that were asked for."""
        return tuple(dict.fromkeys(each.formula for each in self.asked if each.formula))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One point of a form.

    Attributes
    ----------
    number : str
        Its number in the form, or its place.
    topic : str
        What is asked.
    answer : str
        The answer; `NOT_STATED` and what to state, where nobody has.
    by : tuple of str
        Who answers: the package, the ledger, the custodian.
    missing : tuple of str
        The names of the `Statements` that the answer lacks.
    """

    number: str
    topic: str
    answer: str
    by: tuple[str, ...]
    missing: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Disclosure:
    """A form that is filled in; printing it shows the whole form.

    Attributes
    ----------
    form : str
        ``"nist"``, ``"registry"`` or ``"text"``.
    title : str
        What is disclosed.
    points : tuple of Point
        The points of the form with their answers; of a registry's entry one for each of its keys.
    entry : mapping or None
        The entry of the registry, as it is written to YAML.
    """

    form: str
    title: str
    points: tuple[Point, ...]
    entry: Mapping[str, Any] | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of statements that the form lacks, for ``statements=`` or ``disclosure:`` in a site's settings."""
        return tuple(dict.fromkeys(name for point in self.points for name in point.missing))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per point: ``number``, ``topic``, ``answer``, ``by``, ``stated`` (whether it is complete)."""
        rows = [
            {
                "number": point.number,
                "topic": point.topic,
                "answer": point.answer,
                "by": ", ".join(point.by),
                "stated": not point.missing,
            }
            for point in self.points
        ]
        return pd.DataFrame(rows, columns=["number", "topic", "answer", "by", "stated"])

    def write(self, path: str | Path) -> None:
        """Write the form: as it is printed (``.txt``, ``.md``, ``.yaml``, ``.yml``), or its points as CSV or JSON.

        Raises
        ------
        ArgumentError
            The suffix is another one.
        HdpError
            The file cannot be written.
        """
        place = Path(path)
        match place.suffix.lower():
            case ".csv":
                content = self.to_frame().to_csv(index=False, lineterminator="\n")
            case ".json":
                value = self.to_frame().to_dict(orient="records") if self.entry is None else self.entry
                content = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
            case ".txt" | ".md":
                content = f"{self}\n"
            case ".yaml" | ".yml" if self.entry is not None:
                content = f"{self}\n"
            case suffix:
                known = ".txt, .md, .csv or .json" if self.entry is None else ".yaml, .yml, .txt, .csv or .json"
                raise ArgumentError(f"path must end in {known}, not {suffix!r}", argument="path")
        try:
            place.write_text(content, encoding="utf-8", newline="")
        except OSError as error:
            raise HdpError(f"the form {place} cannot be written: {error.strerror}; name another file") from None

    def __str__(self) -> str:
        if self.entry is not None:
            return yaml.safe_dump(dict(self.entry), sort_keys=False, allow_unicode=True, width=100).rstrip()
        lines = [self.title, "=" * len(self.title)]
        for point in self.points:
            heading = f"{point.number}. {point.topic}" if point.number else point.topic
            by = f" [{', '.join(point.by)}]" if self.form == "nist" else ""
            lines += [
                "",
                heading + by,
                textwrap.fill(point.answer, 100, break_long_words=False, break_on_hyphens=False),
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [[point.number, point.topic, point.answer, ", ".join(point.by)] for point in self.points]
        missing = [f"not stated yet: {', '.join(self.missing)}"] if self.missing else []
        return page(self.title, grid(("", "point", "answer", "answered by"), rows), notes(missing))


def disclose(facts: Facts, form: object, statements: Statements) -> Disclosure:
    """Return a form filled in from facts and statements.

    Raises
    ------
    ArgumentError
        There is no such form.
    """
    match choice(form, name="form", options=FORMS):
        case "nist":
            return Disclosure(
                form="nist",
                title=f"Points of NIST SP 800-226: {facts.what}",
                points=tuple(_nist(facts, statements)),
            )
        case "registry":
            return _registry(facts, statements)
        case _:
            return Disclosure(
                form="text",
                title=f"What may be said of the privacy of {facts.what}",
                points=tuple(_texts(facts, statements)),
            )


# The sentences that forms share.


def _stated(value: str | None, name: str) -> str:
    return value or f"{NOT_STATED} (the custodian states {name!r})"


def _spent(facts: Facts) -> str:
    """Say the total, what is spent, and how the numbers are read."""
    count = len(facts.asked)
    releases = f"{count} charge" + ("" if count == 1 else "s")
    spent = _pair(facts.spent)
    if facts.total is None:
        return f"{spent} for {facts.what}; the ledger of the data set has the total of all releases. " + _odds(
            facts.spent, facts.relation
        )
    aside = f" For Gaussian noise: {facts.gaussian}." if facts.gaussian else ""
    return (
        f"At most {_pair(facts.total)} for all releases together, fixed when the account was opened and checked before "
        f"every charge. Spent so far: {spent}, in {releases}.{aside} {_odds(facts.total, facts.relation)}"
    )


def _pair(amount: Budget | Spend) -> str:
    return f"epsilon = {decimal(amount.epsilon)}" + (f", delta = {decimal(amount.delta)}" if amount.delta else "")


def _odds(amount: Budget | Spend, relation: Relation) -> str:
    """Say what an amount means for one person."""
    if amount.epsilon > 20:
        return "An epsilon above 20 promises next to nothing to one person."
    other = (
        "without that person" if relation is Relation.ADD_OR_REMOVE_ONE else "with anybody else in place of that person"
    )
    but = f", but for cases of probability {decimal(amount.delta)}" if amount.delta else ""
    factor = _rounded_up(math.exp(amount.epsilon))
    return (
        f"Any statement about the releases is at most e^{decimal(amount.epsilon)} = {factor} "
        f"times as probable with one person's data as {other}, and the other way round{but}."
    )


def _rounded_up(factor: float) -> str:
    """Write a factor with three digits, none less than it is.

    >>> _rounded_up(math.exp(1)), _rounded_up(1.0), _rounded_up(148.4)
    ('2.72', '1', '149')
    """
    unit = 10.0 ** (math.floor(math.log10(factor)) - 2)
    return f"{math.ceil(factor / unit) * unit:.3g}"


def _protected(unit: str | None, relation: Relation) -> str:
    """Say who is protected in an account."""
    who = "each row of the table is one person" if unit is None else f"all rows with one value of {unit!r}"
    if relation is Relation.ADD_OR_REMOVE_ONE:
        differ, number = "added or removed", "The number of people is protected as well."
    else:
        differ, number = "replaced by any other", "The declared number of people is public."
    return f"One person: {who}. Neighbouring data sets differ in one person, {differ}. {number}"


def _unit(facts: Facts) -> str:
    terms = "; ".join(dict.fromkeys(each.terms for each in facts.asked if each.terms))
    return facts.protected + (f" Terms of the queries: {terms}." if terms else "")


def _variant(facts: Facts) -> str:
    if facts.is_pure:
        return "Pure epsilon-differential privacy: delta is 0. No conversion was made."
    return (
        "(epsilon, delta)-differential privacy. Gaussian noise is counted by its parameter mu of Gaussian differential "
        "privacy (Dong, Roth and Su 2022), which the ledger keeps for each charge, and turned into epsilon and delta "
        "once."
    )


def _mechanisms(facts: Facts) -> str:
    if not facts.mechanisms:
        return "None has run yet."
    shown = [
        f"{name.words} ({number} time{'' if number == 1 else 's'}; proof: {PROOFS[name]})"
        for name, number in facts.mechanisms.items()
    ]
    return "; ".join(shown) + "."


def _bounds(facts: Facts) -> str:
    schemas = ", ".join(dict.fromkeys(each.schema_sha256[:12] for each in facts.asked if each.schema_sha256.strip("0")))
    tables = ", ".join(dict.fromkeys(each.public_sha256[:12] for each in facts.asked if each.public_sha256))
    from_public = f" Public tables used (SHA-256): {tables}." if tables else ""
    declared = f" Schemas (SHA-256): {schemas}." if schemas else ""
    return (
        "Bounds, levels and grids are declared in a schema, or come from public rows or from earlier releases; none is "
        f"computed from the private rows.{declared}{from_public}"
    )


_FLOATING_POINT: Final = (
    "Noise is drawn as whole numbers from exact samplers with the entropy of the operating system; statistics are "
    "sums of whole multiples of a public step. Numerical error of solvers and rounding is bounded by a proof and "
    "counted in epsilon."
)
_MESSAGES: Final = (
    "Private cells are read by total functions: whatever a cell holds, no error, warning or log line depends on it. "
    "Arguments are checked before anything is charged."
)
_TUNING: Final = (
    "Mechanisms, scales, weights and steps are chosen from the query, the schema, public rows and earlier releases, "
    "which were charged; nothing is tuned on private rows."
)
_COMPOSITION: Final = (
    "Sequential composition with a fixed total: epsilons and deltas of charges add up, and so do the squared mu of "
    "Gaussian ones. Each charge is written durably before rows are read, is never given back, and pays for one draw "
    "of the noise. The same request again returns the stored release and costs nothing."
)
_POST_PROCESSING: Final = (
    "Everything else is computed from releases and public rows: standard errors, intervals, tables, curves, "
    "predictions. Counts below 0 stay in releases."
)


def _timing(statements: Statements) -> str:
    if statements.served is None:
        return (
            f"{NOT_STATED} (the custodian states 'served'): over the service of hdpstats answers leave at times that "
            "are multiples of a public step; where requests and releases are files, the custodian alone sees it; where "
            "analysts work with the rows in their own process, the running time is not protected."
        )
    if statements.served:
        return (
            "Analysts ask a service over HTTPS. Answers leave at times that are multiples of a public step and follow "
            "from public facts; answers that take longer than predicted are counted, and stop the analyst."
        )
    return (
        "Analysts work where the rows are, in one process with them: running time and memory are not protected against "
        "them. Releases are protected against everybody else."
    )


def _trust(facts: Facts, statements: Statements) -> str:
    where = f"{facts.sites} sites, each of which keeps its own rows and ledger" if facts.sites > 1 else "one site"
    curators = ", ".join(statements.curators) or _stated(None, "curators")
    return (
        f"Central: the custodian of {where} is trusted with the rows and adds the noise before anything leaves. "
        f"Responsible: {curators}. Whoever sees releases is not trusted, whatever he knows besides."
    )


def _interaction(facts: Facts) -> str:
    caps = (
        f"Analysts with caps under the total: {', '.join(facts.analysts)}."
        if facts.analysts
        else "No analyst has a cap of his own; all share the total."
    )
    return (
        "Interactive: analysts choose what they ask after seeing earlier answers. The total holds for all of them "
        f"together, also if they share what they receive. {caps} When it is spent, further releases are refused."
    )


def _read(facts: Facts) -> str:
    columns = f"Columns listed in queries: {', '.join(facts.columns)}." if facts.columns else ""
    formulas = f" Formulas: {'; '.join(facts.formulas)}." if facts.formulas else ""
    return f"{columns}{formulas}".strip() or "No column was read yet."


# The points of NIST SP 800-226.


def _nist(facts: Facts, statements: Statements) -> Iterable[Point]:
    """Return the points, in the order of the publication's pyramid: parameters, algorithms, exposure."""
    numbers = iter(range(1, 20))

    def point(topic: str, answer: str, *by: str, lacks: Sequence[str] = ()) -> Point:
        missing = tuple(name for name in lacks if getattr(statements, name) in (None, ()))
        return Point(number=str(next(numbers)), topic=topic, answer=answer, by=by, missing=missing)

    s = statements
    yield point("Privacy parameter", _spent(facts), _LEDGER)
    yield point("Variant of differential privacy", _variant(facts), _PACKAGE, _LEDGER)
    yield point("Unit of privacy", _unit(facts), _LEDGER)
    yield point(
        "Comparison with other guarantees",
        "Compare epsilons only where the unit, the neighbouring relation and delta are the same: replacing a person "
        "can count as much as removing one and adding another.",
        _PACKAGE,
    )
    yield point(
        "Other releases of the same data",
        _stated(s.other_releases, "other_releases"),
        _CUSTODIAN,
        lacks=["other_releases"],
    )
    yield point(
        "Proof and audit",
        "Every mechanism has a proof, and tests that search neighbouring data for a violation. " + _mechanisms(facts),
        _PACKAGE,
        _LEDGER,
    )
    yield point(
        "Implementation",
        f"hdpstats {__version__}. Its test suite checks samplers, sensitivities and the ledger, and plants faults that "
        "must be found; `hdp.audit` repeats the searches.",
        _PACKAGE,
    )
    yield point("Sensitivity and bounds", _bounds(facts), _LEDGER)
    yield point(
        "Utility",
        "Results have standard errors and intervals that count sampling and noise; they are computed from releases, so "
        "their publication costs nothing.",
        _PACKAGE,
    )
    yield point(
        "Bias",
        "Clipping, weights and penalties move estimates by an amount that is estimated and counted in the errors where "
        "a public fact bounds it; noise hurts small groups most, whose intervals are wide or are reported as not "
        "estimable. " + _POST_PROCESSING,
        _PACKAGE,
    )
    yield point("Query model", _interaction(facts), _LEDGER)
    yield point("Trust model", _trust(facts, s), _PACKAGE, _CUSTODIAN, lacks=["curators"])
    yield point("Floating-point numbers", _FLOATING_POINT, _PACKAGE)
    yield point("Running time", _timing(s), _PACKAGE, _CUSTODIAN, lacks=["served"])
    yield point("Errors and messages", _MESSAGES, _PACKAGE)
    yield point("Tuning on private data", _TUNING, _PACKAGE)
    yield point("Security of the rows", _stated(s.security, "security"), _CUSTODIAN, lacks=["security"])
    yield point(
        "Access and logging",
        f"Every charge is in a chained ledger{f' (head {facts.head[:16]})' if facts.head else ''}. "
        + _stated(s.access, "access"),
        _LEDGER,
        _CUSTODIAN,
        lacks=["access"],
    )
    yield point(
        "Minimisation and retention",
        f"{_read(facts)} {_stated(s.minimisation, 'minimisation')}",
        _LEDGER,
        _CUSTODIAN,
        lacks=["minimisation"],
    )


# The entry of the registry of deployments.


def _registry(facts: Facts, statements: Statements) -> Disclosure:
    """Return the entry: tier 3 with all statements of the custodian, else tier 2."""
    s, loss = statements, facts.spent if facts.total is None else facts.total
    parameters: dict[str, Any] = {"epsilon": float(loss.epsilon)}
    if loss.delta:
        parameters["delta"] = float(loss.delta)
    published = s.published or min((each.day for each in facts.asked if each.day), default="1900-01-01")
    static = s.updates is None or s.updates.strip().lower() == "static"
    mechanisms = (
        f"{_mechanisms(facts)} Library: hdpstats {__version__}. Running time: {_timing(s)} Floating point: "
        f"{_FLOATING_POINT} Platform: {_MESSAGES} Security: {_stated(s.security, 'security')} "
        f"Access: {_stated(s.access, 'access')}"
    )
    deployment: dict[str, Any] = {
        "basic": {
            "name": s.name or f"Releases of {facts.what}",
            "data_curators": list(s.curators) or [NOT_STATED],
            "intended_use": _stated(s.purpose, "purpose"),
            "data_product_type": s.product or ("Interactive API" if s.served else "Summary statistics"),
            "data_product_region": _stated(s.region, "region"),
            "description": s.description or f"Statistics of {facts.what}. {_read(facts)}",
            "publication_date": published,
            **({} if s.sector is None else {"data_product_sector": s.sector}),
        },
        "dp_variant": {
            "variant_name": "Pure DP" if facts.is_pure else "Approximate DP",
            "data_domain": "All tables with the columns of the declared schema, whatever their cells hold.",
            "unprotected_quantities": _unprotected(facts),
        },
        "privacy_loss": {
            "privacy_unit": "Person",
            "privacy_unit_details": _unit(facts),
            "privacy_parameters": parameters,
            "privacy_parameters_details": f"{_spent(facts)} {_variant(facts)}",
        },
        "deployment_model": {
            "model_name": "Federated" if facts.sites > 1 else "Central",
            "model_name_details": _trust(facts, s),
            "actors": "Custodian (holds rows and ledger), analysts (ask), readers (see results).",
            "release_type": "Many releases" if facts.total is not None else "One release",
            "release_type_details": f"{_interaction(facts)} Other releases: "
            + _stated(s.other_releases, "other_releases"),
            "data_source_type": "Static" if static else "Dynamic",
            "data_source_type_details": s.updates
            or "A revision of the data is a new version in the ledger, which keeps what was spent.",
            "access_type": "Interactive",
            "access_type_details": _interaction(facts),
        },
        "accounting": {"post_processing": _POST_PROCESSING, "composition": _COMPOSITION},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": f"{_bounds(facts)} {_TUNING}",
            "mechanisms": mechanisms,
            "justification": "Each mechanism has a proof in the documentation of hdpstats, searched for violations on "
            f"neighbouring data. Minimisation: {_stated(s.minimisation, 'minimisation')}",
        },
        "administrative": {
            "sources": s.sources or "",
            "notes": f"Filled in by hdpstats {__version__} for the schema of {REGISTRY_SCHEMA}."
            + (f" Ledger head: {facts.head}." if facts.head else ""),
            "registry_authors": list(s.authors) or [NOT_STATED],
        },
    }
    entry = {
        "url_slug": re.sub(r"[^a-z0-9]+", "_", (s.name or facts.what).lower()).strip("_") or "hdpstats",
        "status": "Draft",
        "tier": 2 if s.missing else 3,
        "deployment": deployment,
    }
    points = [
        Point(
            number=f"{section}.{key}",
            topic=key.replace("_", " "),
            answer=str(value),
            by=(_CUSTODIAN,) if _REGISTRY_BY_CUSTODIAN.get(key) else (_PACKAGE, _LEDGER),
            missing=tuple(name for name in _REGISTRY_BY_CUSTODIAN.get(key, ()) if name in s.missing),
        )
        for section, part in deployment.items()
        for key, value in part.items()
    ]
    if s.sector is None:  # the registry has no value that says so: the entry leaves the key out
        unstated = _stated(None, "sector")
        points.append(
            Point(
                number="basic.data_product_sector",
                topic="data product sector",
                answer=unstated,
                by=(_CUSTODIAN,),
                missing=("sector",),
            )
        )
    return Disclosure(
        form="registry", title=f"Registry of deployments: {facts.what}", points=tuple(points), entry=entry
    )


_REGISTRY_BY_CUSTODIAN: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name",),
    "data_curators": ("curators",),
    "intended_use": ("purpose",),
    "data_product_region": ("region",),
    "description": ("description",),
    "data_product_sector": ("sector",),
    "release_type_details": ("other_releases",),
    "data_source_type": ("updates",),
    "mechanisms": ("security", "access", "served"),
    "justification": ("minimisation",),
    "registry_authors": ("authors",),
}


def _unprotected(facts: Facts) -> str:
    number = "" if facts.relation is Relation.ADD_OR_REMOVE_ONE else "the declared number of people; "
    return (
        f"{number}public rows, the schema with its bounds and levels, formulas, mechanisms and their options, "
        "epsilons, and that a release was made."
    )


# Sentences.


def _texts(facts: Facts, statements: Statements) -> Iterable[Point]:
    """Return the sentences for a paper, an ethics application, an output check."""
    other = _stated(statements.other_releases, "other_releases")
    lacks = tuple(name for name in ("other_releases",) if name in statements.missing)
    together = "for all that this result rests on" if facts.total is None else "for all releases together"
    public = "" if facts.relation is Relation.ADD_OR_REMOVE_ONE else ", but for the declared number of people"
    yield Point(
        number="",
        topic="For a paper",
        answer=f"Statistics of {facts.what} were released under differential privacy with hdpstats {__version__}. "
        f"{_spent(facts)} {_unit(facts)} {_bounds(facts)} {_COMPOSITION} Standard errors and intervals count sampling "
        "and the privacy noise.",
        by=(_PACKAGE, _LEDGER),
    )
    yield Point(
        number="",
        topic="For an ethics application",
        answer=f"No record leaves the site. What leaves are statistics with noise. {_spent(facts)} {_unit(facts)} This "
        f"holds whatever else a reader knows, now or later, and {together}. It does not keep secret what "
        "is true of the population: a finding may concern a person whether or not her record was used. "
        f"{_trust(facts, statements)} Other releases of the same people: {other}.",
        by=(_PACKAGE, _LEDGER, _CUSTODIAN),
        missing=lacks,
    )
    yield Point(
        number="",
        topic="For the output check of a secure environment",
        answer="The file holds releases of a differentially private mechanism and numbers computed from them; it holds "
        f"no record and no count without noise{public}. Mechanisms: {_mechanisms(facts)} {_spent(facts)} "
        f"{_bounds(facts)} Each release can be compared with the custodian's ledger"
        + (f", whose head is {facts.head}" if facts.head else "")
        + ". Small numbers need no further rounding or suppression: the noise has been added.",
        by=(_PACKAGE, _LEDGER),
    )
