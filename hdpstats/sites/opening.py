"""From what a user calls private to sites: frames with their ledgers, files, sites of one's own and remote ones."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice
from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.limits import MOST_SITES
from hdpstats.schema.parquet import ParquetTable, files_of, is_in_parts, rows_in
from hdpstats.schema.partitions import engine_of
from hdpstats.schema.schema import Schema
from hdpstats.schema.synthetic import INVENTED_DATASET, is_invented
from hdpstats.schema.table import PrivateRows
from hdpstats.sites.local import LocalSite
from hdpstats.sites.site import Site, SiteTerms

Source = pd.DataFrame | str | PathLike[str] | Sequence[str | PathLike[str]] | Site
"""The private records of one site; a sequence is of Parquet files, within a dictionary of sites."""

Private = Source | Mapping[str, Source] | Sequence[Source]
"""Those of one site or of several."""

ONLY = "private"
"""The name of the site of a study that has one and gives it no name."""

LONGEST_NAME = 100

_NAMES = (str, PathLike, list, tuple)


Declared = Mapping[str, Any]
"""What `SiteTerms.declared` takes, as it was given; any of it may be a mapping with a value for each site."""


def named(private: Private | None) -> dict[str, Source]:
    """Return the sources by the names of their sites; those of a list are called ``site 1``, ``site 2``, ..."""
    if private is None:
        return {}
    sources: dict[str, Source]
    if isinstance(private, Mapping):
        sources = {_name(name): source for name, source in private.items()}
    elif isinstance(private, list | tuple):
        sources = {f"site {number}": source for number, source in enumerate(private, start=1)}
    elif isinstance(private, Sequence) and not isinstance(private, str):
        raise ArgumentError("private must be a list or a dictionary where it names several sites", argument="private")
    else:
        return {ONLY: private}
    if not 1 <= len(sources) <= MOST_SITES:
        raise ArgumentError(f"private must name 1 to {MOST_SITES} sites, not {len(sources)}", argument="private")
    return sources


def schema_of(schema: Schema | None, sources: Mapping[str, Source]) -> Schema:
    """Return the schema, which all sites must share: the given one, or that of the first site that brings one."""
    theirs = [source.schema for source in sources.values() if isinstance(source, Site)]
    if schema is None and theirs:
        schema = theirs[0]
    if not isinstance(schema, Schema):
        raise ArgumentError(
            "schema must be an hdp.Schema: bounds and levels are declared, never read from private rows",
            argument="schema",
        )
    if any(declared.sha256 != schema.sha256 for declared in theirs):
        raise ArgumentError("schema must equal the site's own schema; leave it out to use that one", argument="schema")
    return schema


def terms_of(declared: Declared, site: str = "") -> SiteTerms:
    """Return the checked terms of a site."""
    return SiteTerms.declared(**{argument: _own(value, site) for argument, value in declared.items()})


def open_sites(
    sources: Mapping[str, Source],
    *,
    schema: Schema,
    ledger: Ledger | Mapping[str, Ledger] | None,
    budget: Budget | Mapping[str, Budget] | None,
    declared: Declared,
    engine: object = None,
) -> dict[str, Site]:
    """Return the sites of sources by name. What is not one per site holds for every frame.

    ``engine`` is where rows in partitions are read (`hdpstats.schema.partitions.engine_of`).

    Raises
    ------
    ArgumentError
        If an argument contradicts another one, sites differ in who is protected, or two share an account or rows.
    """
    sites = {name: source for name, source in sources.items() if isinstance(source, Site)}
    frames = [name for name in sources if name not in sites]
    if not frames:
        _check_sites_bring_their_own(declared if sources else {}, ledger=ledger, budget=budget)
    for argument, value in {"ledger": ledger, "budget": budget, **declared}.items():
        if isinstance(value, Mapping) and set(value) != set(frames):
            raise ArgumentError(
                f"{argument} must have a value for each of {', '.join(map(repr, frames))}", argument=argument
            )
    if engine is not None and any(isinstance(sources[name], pd.DataFrame) for name in frames):
        raise ArgumentError("engine belongs to Parquet files; a data frame is in memory already", argument="engine")
    for name in frames:
        terms = terms_of(declared, name)
        dataset = INVENTED_DATASET if is_invented(sources[name]) else name
        account = _account(_own(ledger, name), _own(budget, name), terms=terms, dataset=dataset)
        if dataset == INVENTED_DATASET and account.dataset != INVENTED_DATASET:
            raise ArgumentError(
                f"the private rows are invented, and would be charged to the account of data set {account.dataset!r}: "
                "give them a budget of their own, budget=hdp.Budget(epsilon=...), instead of ledger=",
                argument="ledger",
            )
        rows = _rows(sources[name], schema, unit=terms.unit, engine=engine)
        sites[name] = LocalSite(rows, schema=schema, ledger=account, **terms.arguments())
    sites = {name: sites[name] for name in sources}
    if sites:
        _check_alike(sites, declared["relation"])
    for (one, first), (other, second) in combinations(sites.items(), 2):
        if first.is_same_as(second) or _same_rows(sources[one], sources[other]):
            raise ArgumentError(
                f"private must name every site once: {one!r} and {other!r} have the same rows, or charge the same "
                "account; give each site a ledger and people of its own",
                argument="private",
            )
    return sites


def _check_sites_bring_their_own(declared: Declared, *, ledger: object, budget: object) -> None:
    """Refuse what is declared about private rows where there are none but those of sites."""
    of_rows = {
        "unit": ("unit, max_rows_per_unit and n_max belong", ("unit", "max_rows_per_unit", "n_max")),
        "row_order": ("row_order belongs", ("row_order",)),
        "ledger": ("ledger and budget belong", ("ledger", "budget")),
    }
    given = {**declared, "ledger": ledger, "budget": budget}
    for argument, (words, names) in of_rows.items():
        if any(given.get(name) not in (None, "undeclared") for name in names):
            raise ArgumentError(f"{words} to private rows; a site brings its own", argument=argument)


def _own(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, Mapping) else value


def _account(ledger: Any, budget: object, *, terms: SiteTerms, dataset: str) -> Any:
    """Return the account of private rows: what was given as one, or a new one with a budget."""
    if ledger is not None and budget is not None:
        raise ArgumentError("ledger and budget were both given; keep one of them", argument="ledger")
    if ledger is None and budget is None:
        raise ArgumentError(
            "give either ledger=hdp.Ledger(...) or budget=hdp.Budget(epsilon=...): private rows without an account are "
            "not touched",
            argument="ledger",
        )
    if budget is not None:
        if not isinstance(budget, Budget):
            raise ArgumentError("budget must be an hdp.Budget", argument="budget")
        return Ledger(
            None,
            dataset=dataset,
            epsilon=budget.epsilon,
            delta=budget.delta,
            relation=terms.relation.value,
            unit=terms.unit,
        )
    if isinstance(ledger, Ledger) and ledger.relation != terms.relation.value:
        raise ArgumentError(
            f"relation must be the ledger's own, {ledger.relation!r}, not {terms.relation.value!r}", argument="relation"
        )
    return ledger


def _check_alike(sites: Mapping[str, Site], relation: object) -> None:
    """Refuse sites that differ in who is protected, or from what was asked for."""
    asked = choice(relation, name="relation", options=[member.value for member in Relation])
    first, *others = sites.values()
    if asked not in (Relation.REPLACE_ONE.value, first.relation.value):
        message = f"relation must be the site's own, {first.relation.value!r}, not {relation!r}; leave it out"
        raise ArgumentError(message, argument="relation")
    if any((site.relation, site.unit) != (first.relation, first.unit) for site in others):
        raise ArgumentError(
            "private must name sites that protect alike: the same relation and the same unit at all of them",
            argument="private",
        )


def _same_rows(first: Source, second: Source) -> bool:
    """Whether two sources are one object, or name a file in common."""
    if isinstance(first, _NAMES) and isinstance(second, _NAMES):
        one, other = (
            {(file.stat().st_dev, file.stat().st_ino) for file in files_of(source, name="private")}
            for source in (first, second)
        )  # all were there
        return not one.isdisjoint(other)
    return first is second


def _name(name: object) -> str:
    """Return the name of a site; what is none is not quoted: it may be a cell of rows that were given by mistake."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise ArgumentError(
            f"private must name each site by a text of 1 to {LONGEST_NAME} characters, where it is a dictionary of "
            "sites; rows are given as a DataFrame",
            argument="private",
        )
    return name


def _rows(private: object, schema: Schema, *, unit: str | None, engine: object) -> pd.DataFrame | PrivateRows:
    """Return the rows that a source stands for: in memory, or Parquet files in partitions."""
    if isinstance(private, pd.DataFrame) or (engine is None and not is_in_parts(private)):
        return _frame(private)
    files = files_of(private, name="private")
    return ParquetTable.open(files, schema, unit=unit, engine=engine_of(engine))


def _frame(private: object) -> pd.DataFrame:
    if isinstance(private, pd.DataFrame):
        return private
    if not isinstance(private, str | PathLike):
        raise ArgumentError(
            f"private must be a DataFrame, the path of a Parquet file, or a site, not {type(private).__name__}",
            argument="private",
        )
    path = Path(private)
    try:
        is_file = path.is_file()
    except OSError:  # no file has a name that long
        is_file = False
    if not is_file:
        raise ArgumentError(  # without the text: it may be a cell of private rows that were given by mistake
            "private must be the path of a Parquet file, and there is no file of that name", argument="private"
        )
    return rows_in(path, name="private")
