"""A study: private records at one site or several, public records at hand, and the schema that all obey."""

from collections.abc import Iterable, Mapping
from copy import copy
from types import MappingProxyType
from typing import Final, final

import pandas as pd

from hdpstats._base.errors import ArgumentError, MechanismError, forgets_rows
from hdpstats._base.validation import integer, real
from hdpstats.display import details, grid, key_values, page, section
from hdpstats.ledger import Ledger
from hdpstats.ledger.export import accounts_html
from hdpstats.privacy.budget import Budget, Guarantee, guarantee
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.query import Release
from hdpstats.records.several import charged_events
from hdpstats.schema.check import was_checked
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.synthetic import is_invented
from hdpstats.sites.local import LocalSite
from hdpstats.sites.opening import Private, named, open_sites, schema_of, terms_of
from hdpstats.sites.site import Site

NOT_CHECKED: Final = (
    "a check compares rows with their schema (another coding, labels, units), which no answer can tell; it is not "
    "known to have been run on these rows"
)


@final
class Study:
    """What a model is fitted to.

    Parameters
    ----------
    private
        The private records, one row per person (or several, see ``unit``): a DataFrame, the path of a Parquet file, or
        a `Site`, such as `connect` returns. For several sites a dictionary of them by name, or a list. Every person
        must be at one site only. None allows `fit_public` and `plan` only. A pattern (``"folder/*.parquet"``) or a
        folder stands for the rows of all its Parquet files, and so does a list of files in a dictionary of sites: they
        are read in parts, again at each pass, and need not fit into memory (`hdpstats.schema.parquet`).
    public
        Records that anybody may see, with the schema's columns (the outcome may be missing: then they give the geometry
        only). They must not contain private persons.
    schema
        What is declared about the columns; may be left out where ``private`` is a site.
    ledger
        The account that releases are charged to; for private rows at several sites a dictionary of one for each.
    budget
        Instead of a ledger: a total for an account that lasts as long as this process; at several sites each has one.
    relation
        ``"replace_one"``: one person's record may be any other, the number of records is public.
        ``"add_or_remove_one"``: one person may be there or not, the number is never read but through noise, which each
        fit spends epsilon on; it needs ``n_max``.
    unit
        The column that names the person, where a person has several rows; all rows of a person are protected together.
        A ledger must have been opened with it. The schema need not declare it. Cells are read as text (1, 1.0 and "1"
        are one person); private rows that name nobody contribute nothing; public rows may lack the column: then each is
        a person.
    max_rows_per_unit
        With ``unit``: the most rows of one person that a model uses, the earliest ones. A public choice.
    n_max
        Under ``add_or_remove_one`` the declared maximum of people, above what is expected: noisy counts are cut there.
        With ``unit`` under ``replace_one`` the declared number of people, which standard errors rest on, as it does not
        follow from the rows. No guarantee depends on it. A dictionary where sites differ.
    row_order
        ``"arbitrary"`` declares that the order of the private rows was not made from their values (they are sorted by
        none): the mechanism ``"subsample"`` needs it where people are not named by ``unit``. Whoever holds the rows
        declares it; a site that is not in this process brings its own declaration. Rows in several files have the
        order of the files' names: a file for each year or clinic sorts them by that value. A dictionary where sites
        differ.
    deadline
        For several sites: how many seconds a round may take, after which remote sites that have not answered are left
        out of the fit. None waits as long as their connections do.
    quorum
        For several sites: how many must answer in every round; more than half of them by default.
    engine
        Where Parquet files are read in parts: ``"pyarrow"``, in this process (as patterns and folders are in any case),
        or a ``distributed.Client``, on the workers of a Dask cluster, which must see the files under the same names.
        None reads a single file into memory.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        Before anything is charged.

    Examples
    --------
    >>> import pandas as pd
    >>> from hdpstats.schema.columns import Binary, Continuous
    >>> schema = Schema(age=Continuous(20, 90), event=Binary())
    >>> private = pd.DataFrame({"age": [35, 61], "event": [0, 1]})
    >>> Study(private=private, schema=schema, budget=Budget(epsilon=1))
    <study: private records at 1 site, no public rows, 2 declared columns; replace_one, one row per person>

    A Parquet file that need not fit into memory is read in parts by an engine:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "cohort.parquet"
    ...     private.to_parquet(file)
    ...     Study(private=file, schema=schema, budget=Budget(epsilon=1), engine="pyarrow")
    <study: private records at 1 site, no public rows, 2 declared columns; replace_one, one row per person>
    """

    @forgets_rows
    def __init__(
        self,
        *,
        private: Private | None = None,
        public: pd.DataFrame | None = None,
        schema: Schema | None = None,
        ledger: Ledger | Mapping[str, Ledger] | None = None,
        budget: Budget | Mapping[str, Budget] | None = None,
        relation: str = "replace_one",
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        n_max: int | Mapping[str, int] | None = None,
        row_order: str | Mapping[str, str] = "undeclared",
        deadline: float | None = None,
        quorum: int | None = None,
        engine: object = None,
    ) -> None:
        sources = named(private)
        if public is not None and any(public is source for source in sources.values()):
            raise ArgumentError("public must be other records than private, not the same object", argument="public")
        if is_invented(public) and not all(is_invented(source) for source in sources.values()):
            raise ArgumentError(
                "public rows are invented, and estimates from private rows would be combined with them: give rows that "
                "are real, none, or invented private rows too",
                argument="public",
            )
        self._schema = schema_of(schema, sources)
        declared = {
            "relation": relation,
            "unit": unit,
            "max_rows_per_unit": max_rows_per_unit,
            "n_max": n_max,
            "row_order": row_order,
        }
        self._sites: Mapping[str, Site] = open_sites(
            sources, schema=self._schema, ledger=ledger, budget=budget, declared=declared, engine=engine
        )
        self._terms = next(iter(self._sites.values())).terms if sources else terms_of(declared)
        own = [source for source in sources.values() if not isinstance(source, Site)]
        self._not_checked = any(not was_checked(source) for source in own)
        self._deadline = None if deadline is None else real(deadline, name="deadline", lower=0.0, open_lower=True)
        most = max(len(sources), 1)
        self._quorum = None if quorum is None else integer(quorum, name="quorum", lower=1, upper=most)
        self._public = (
            None if public is None else PublicTable.from_frame(public, self._schema, required=(), unit=self._terms.unit)
        )

    def at(self, *names: str) -> "Study":
        """Return the study of some of its sites, with the same public rows and accounts.

        A fit that some sites did not answer is had again from those that did, for nothing, by asking them alone. The
        quorum is then more than half of them.
        """
        if not names or not set(names) <= set(self._sites) or len(set(names)) != len(names):
            site_names = ", ".join(map(repr, self._sites)) or "none"
            raise ArgumentError(f"at must name sites of the study, each once; they are {site_names}", argument="names")
        part = copy(self)
        part._sites = {name: site for name, site in self._sites.items() if name in names}
        part._terms = next(iter(part._sites.values())).terms
        part._quorum = None
        return part

    def by_person(self, names: Iterable[str], *, averaged: str | None = None) -> "Study":
        """Return the study with one public row of each person: see `hdpstats.schema.public.PublicTable.by_person`.

        Sites and accounts are the same, and so is the study itself where people have one row.
        """
        present = [name for name in names if self._public is not None and name in self._public.names]
        if self._public is None or self.unit is None:
            return self
        part = copy(self)
        part._public = self._public.by_person(present, averaged=averaged, most_rows=self.most_rows)
        return part

    @property
    def schema(self) -> Schema:
        """What is declared about the columns."""
        return self._schema

    @property
    def sites(self) -> Mapping[str, Site]:
        """The sites of the private records by name; none in a study of public rows alone."""
        return MappingProxyType(dict(self._sites))

    @property
    def site(self) -> Site | None:
        """The one site of the private records, or None.

        Raises
        ------
        MechanismError
            Where there are several: what asks for one is not for several.
        """
        if len(self._sites) > 1:
            raise MechanismError(
                f"this is for private records at one site, and the study has {len(self._sites)}: choose one of them, "
                f"study.at({next(iter(self._sites))!r})"
            )
        return next(iter(self._sites.values()), None)

    @property
    def deadline(self) -> float | None:
        """How many seconds a round at several sites may take; None for as long as their connections wait."""
        return self._deadline

    @property
    def quorum(self) -> int:
        """How many sites must answer in every round."""
        return len(self._sites) // 2 + 1 if self._quorum is None else self._quorum

    @property
    def public(self) -> PublicTable | None:
        """The public rows, or None."""
        return self._public

    @property
    def relation(self) -> Relation:
        """The neighbouring relation."""
        return self._terms.relation

    @property
    def unit(self) -> str | None:
        """The column that names the person, None where every row is a person."""
        return self._terms.unit

    @property
    def most_rows(self) -> int:
        """The most rows of one person that a model uses; 1 without a unit."""
        return max((site.most_rows for site in self._sites.values()), default=self._terms.most_rows)

    @property
    def records(self) -> int | None:
        """The public number of people at all sites, else the declared one; None where neither is known."""
        return sum(site.records for site in self._sites.values()) if self._sites else self._terms.n_max

    @property
    def ledger(self) -> Ledger:
        """The account of the one site, where that is in this process."""
        site = self.site
        if not isinstance(site, LocalSite):
            raise ArgumentError("this study has no ledger at hand: its private records are not in this process")
        return site.ledger

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """The accounts of the sites that are in this process, by name."""
        return {name: site.ledger for name, site in self._sites.items() if isinstance(site, LocalSite)}

    def __repr__(self) -> str:
        if not hasattr(self, "_public"):  # the last that the constructor sets
            return "<study: not complete>"
        public = "no public rows" if self._public is None else f"{self._public.rows} public rows"
        return f"<study: {self._where}, {public}, {len(self._schema)} declared columns; {self._terms}>"

    @property
    def _where(self) -> str:
        count = len(self._sites)
        return f"private records at {count} {'site' if count == 1 else 'sites'}" if count else "no private records"

    def _repr_html_(self) -> str:
        which = "which answers queries and shows no row" if len(self._sites) == 1 else ", ".join(self._sites)
        private = f"{self._where.removeprefix('private records ')}, {which}" if self._sites else "none"
        public = "none" if self._public is None else f"{self._public.rows} rows"
        ledgers = self.ledgers
        if len(self._sites) > 1:
            accounts = [sites_html(self._sites), accounts_html(ledgers, elsewhere=len(self._sites) - len(ledgers))]
        else:
            accounts = [section("Privacy spent", ledger.as_html()) for ledger in ledgers.values()]
        columns = details(f"Schema, {len(self._schema)} declared columns", self._schema.as_html())
        remind = [("Check of rows", NOT_CHECKED)] if self._not_checked and self._sites else []
        records = key_values([("Private records", private), ("Public records", public), *remind])
        return page("Study", records, *accounts, columns, badges=str(self._terms).split(", "))


def sites_html(sites: Mapping[str, Site]) -> str:
    """Return a row per site: its name, its public number of people, and where its records are."""
    rows = [[name, _people(site), site.place] for name, site in sites.items()]
    return section("Sites", grid(["", "people", "records are"], rows, aligns="lrl"))


def _people(site: Site) -> str:
    protected = site.relation is Relation.ADD_OR_REMOVE_ONE
    return f"protected, at most {site.records}" if protected else str(site.records)


def with_sites(study: Study, sites: Mapping[str, Site], *, quorum: int) -> Study:
    """Return a study of the sites that there are in the places of its own, by name, of which so many must answer."""
    changed = copy(study)
    changed._sites = {name: sites[name] for name in study.sites if name in sites}
    changed._quorum = quorum
    return changed


def checked_study(study: object, *, argument: str = "data") -> Study:
    """Return a study, or refuse what is none."""
    if not isinstance(study, Study):
        raise ArgumentError(f"{argument} must be an hdp.Study, not {type(study).__name__}", argument=argument)
    return study


def check_private(study: Study, verb: str) -> None:
    """Refuse a study without private records."""
    if not study.sites:
        raise ArgumentError(f"{verb} needs private records; this study has none: use plan", argument="private")


def site_facts_of(study: Study, records: int) -> SiteFacts:
    """Return the public facts about a site with so many records, as far as the study states them."""
    return SiteFacts(
        schema=study.schema, relation=study.relation, records=records, unit=study.unit, most_rows=study.most_rows
    )


def guarantee_of(study: Study, *releases: Release | None) -> Guarantee:
    """Return what was charged for releases of a site to each of its people, together."""
    events = [event for release in releases for event in charged_events(release)]
    of_all_rows = study.unit is not None
    return guarantee(events, relation=study.relation, most_rows=study.most_rows, of_all_rows=of_all_rows)


def people_of(study: Study, n: object) -> int:
    """Return the number of private people to plan for: the study's, where none is named."""
    if n is not None:
        return integer(n, name="n", lower=1, upper=10**12)
    if study.records is None:
        raise ArgumentError("n must be given, the number of private records: the study has none", argument="n")
    return study.records
