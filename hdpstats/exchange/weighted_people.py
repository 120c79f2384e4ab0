"""Questions about people who are weighted by their chance of treatment: a propensity model, and what rests on it.

One request asks for both. The second question is made from what the first released, and the first is of no use
without it. So the second is *rehearsed* before the first is charged, with weights of public people in place of those
that are not known yet (`hdpstats.models.propensity.PropensityRequest.stand_in`): the analyst's own code runs until it
asks the sites. What public facts refuse is refused then, and so is what a site says that it would refuse.

A site that answers request files is told what it would be asked (`Expected`): how many charges the second question
makes, and which of its queries the ledger knows of before, whoever asked them. Where the ledger has all of the first
question, released to whoever, the second is rehearsed once more at its real weights: nobody is told more of a release
that he has not received than which queries the ledger knows.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, final

from hdpstats._base.errors import HdpError, SiteError
from hdpstats._base.no_warnings import silence
from hdpstats.mechanisms.registry import prepare
from hdpstats.models.propensity import PropensityRequest
from hdpstats.records.query import Query, Release
from hdpstats.results.propensity import Weighting
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites import Site, Study
from hdpstats.sites.site import HeldData, SiteTerms
from hdpstats.sites.study import site_facts_of, with_sites

LONGEST_NUMBER: Final = 24
"""Characters of a number of double precision in JSON, at most."""


def longest_text(query: Query) -> int:
    """Return how long the text of a query is at most, whatever the coefficients are that people are weighted by."""
    weighting = getattr(query, "weighting", None) or getattr(getattr(query, "model", None), "overlap", None)
    shorter = () if weighting is None else (LONGEST_NUMBER - len(repr(each)) for each in weighting.coefficients)
    return len(query.to_json().encode()) + sum(shorter)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a site would be asked by the second question, as far as it is known before the first is charged.

    Attributes
    ----------
    charges : int
        How many charges it makes at most.
    queries : tuple of Query
        Its queries up to the first without a release.
    missing : Query or None
        The first query of both questions that the site has released to nobody.
    is_sure : bool
        Whether ``queries`` are what will be asked: the first question was released, to whoever. Else those that do not
        rest on its coefficients are.
    """

    charges: int = 1
    queries: tuple[Query, ...] = ()
    missing: Query | None = None
    is_sure: bool = False


class ExpectingSite(Site):
    """A site that wants to know what it would be asked by the second question."""

    @abstractmethod
    def expect(self, expected: Expected) -> None:
        """Take what is expected, before the first question is asked."""

    @abstractmethod
    def known(self, query: Query) -> Release | None:
        """Return the release of a query, to whoever it was made; None where there is none."""


class RehearsedSite(Site):
    """A site in a rehearsal: it keeps what it is asked, and answers nothing."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.asked: list[Query] = []

    @property
    def schema(self) -> Schema:
        """The site's schema."""
        return self._site.schema

    @property
    def records(self) -> int:
        """The public number of people."""
        return self._site.records

    @property
    def terms(self) -> SiteTerms:
        """Who is protected."""
        return self._site.terms

    @property
    def held(self) -> HeldData | None:
        """Which data the site holds."""
        return self._site.held

    def check_permitted(self, query: Query, columns: Any) -> None:
        """Refuse what the site is known to refuse."""
        self._site.check_permitted(query, columns)

    def put_public(self, table: PublicTable) -> None:
        """Keep nothing."""

    def answer(self, query: Query) -> Release:
        """Keep the query, and end the rehearsal."""
        self.asked.append(query)
        raise SiteError("this is a rehearsal, in which nothing is answered")


@final
class KnowingSite(RehearsedSite):
    """A site in a rehearsal that goes on with what the site has released, to whoever."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.missing: Query | None = None

    def check_permitted(self, query: Query, columns: Any) -> None:
        """Check nothing: what is checked must not rest on releases that the analyst has not received."""

    def received(self, query: Query) -> Release | None:
        """Return what the analyst has received, by which a call finds its recipe."""
        return self._site.received(query)

    def answer(self, query: Query) -> Release:
        """Keep the query, and return what was released; end the rehearsal where nothing was."""
        release = self._site.known(query) if isinstance(self._site, ExpectingSite) else self._site.received(query)
        if release is not None:
            self.asked.append(query)
            return release
        self.missing = self.missing or query
        return super().answer(query)


def rehearse(study: Study, ask: Callable[[Study], object]) -> dict[str, int]:
    """Ask a study until its sites would answer, and raise what it refuses by then; nothing is charged.

    Returns
    -------
    dict
        How many charges each site makes: for the query that it is asked first, and what that says lies ahead of it.

    Raises
    ------
    HdpError
        The question is refused, or a site is known to refuse one of the queries that it is asked first.
    """
    rehearsed = {name: RehearsedSite(site) for name, site in study.sites.items()}
    try:
        with silence():
            ask(with_sites(study, rehearsed))
    except HdpError:
        if not any(site.asked for site in rehearsed.values()):
            raise
    public = {} if study.public is None else {study.public.sha256: study.public}
    charges = dict.fromkeys(rehearsed, 1)
    for name, site in rehearsed.items():
        facts = replace(site_facts_of(study, site.records), public=public)
        for query in site.asked:
            prepared = prepare(query, facts)
            site.check_permitted(query, prepared.needs)
            charges[name] = max(charges[name], 1 + len(prepared.ahead))
    return charges


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OfWeightedPeople:
    """A question whose propensity model is fitted first.

    Attributes
    ----------
    study : Study
        The data.
    first : function
        Opens the first question on a study.
    open : function
        Opens the second on a study, with a weighting.
    ask : function
        Takes what was opened and what it may spend, and asks.
    replicate : int
        Which draw of both is asked for.
    """

    study: Study
    first: Callable[[Study], PropensityRequest]
    open: Callable[[Study, Weighting], Any]
    ask: Callable[[Any, Mapping[str, Any]], Any]
    replicate: int = 1

    def check(self) -> None:
        """Refuse what public facts refuse, whatever the weights will be; no site is asked.

        Raises
        ------
        HdpError
            What the constructor of the second question raises.
        """
        with silence():
            self.open(self.study, self._standing())

    def answer(self, spent: Mapping[str, Any]) -> Any:
        """Ask both questions, and return the result of the second; see the module's docstring."""
        own = {name: value for name, value in spent.items() if name != "propensity_epsilon"}
        shared = {"replicate": self.replicate, "allow_large_epsilon": own.get("allow_large_epsilon", False)}

        def weights(study: Study) -> Weighting:
            return self.first(study).release(spent["propensity_epsilon"], **shared).weights("overlap")

        def ask(study: Study, weighting: Weighting) -> Any:
            return self.ask(self.open(study, weighting), own)

        with silence():
            standing = self._standing()
        charges = rehearse(self.study, lambda tried: ask(tried, standing))
        expecting = {name: site for name, site in self.study.sites.items() if isinstance(site, ExpectingSite)}
        expected = look_ahead(self.study, weights, ask, standing) if expecting else {}
        for name, site in expecting.items():
            site.expect(replace(expected[name], charges=charges[name]))
        return ask(self.study, weights(self.study))

    def _standing(self) -> Weighting:
        return self.first(self.study).stand_in()


def look_ahead(
    study: Study,
    weights: Callable[[Study], Weighting],
    ask: Callable[[Study, Weighting], object],
    standing: Weighting,
) -> dict[str, Expected]:
    """Return which queries each site would be asked by a second question, as far as their ledgers tell.

    Whatever fails here fails for nobody: it may rest on releases that the analyst has not received. Where the analyst
    has received all of the first question, the second is asked at once, and nothing is told before.
    """
    first = {name: KnowingSite(site) for name, site in study.sites.items()}
    second = {name: KnowingSite(site) for name, site in study.sites.items()}
    weighting, ended = standing, False
    with silence(), suppress(Exception):
        weighting = weights(with_sites(study, first))
    is_real = weighting is not standing
    if is_real and all(site.received(query) is not None for site in first.values() for query in site.asked):
        return {name: Expected() for name in study.sites}
    with silence(), suppress(Exception):
        ask(with_sites(study, second), weighting)
        ended = True
    return {
        name: Expected(
            queries=tuple(site.asked),
            missing=first[name].missing or site.missing,
            is_sure=is_real and first[name].missing is None and (ended or site.missing is not None),
        )
        for name, site in second.items()
    }
