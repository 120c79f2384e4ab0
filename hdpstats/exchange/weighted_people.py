"""Questions about people who are weighted by their chance of treatment: a propensity model, and what rests on it.

One request asks for both. The second question is made from what the first released, and the first is of no use
without it. So the second is *rehearsed* before the first is charged, with weights of public people in place of those
that are not known yet (`hdpstats.models.propensity.PropensityRequest.stand_in`): the analyst's own code runs until it
asks the sites. What public facts refuse is refused then, and so is what a site says that it would refuse. A site that
answers request files goes by its own queries, whatever the files of the others are: what the others would release is
not waited for, and where the rehearsal does not come to a query to the site itself, nothing is charged.

A site that answers request files is told what each charge of the second question costs by its proof (`CountingSite`).
That is a function of public facts, whatever the weights are: parts of epsilon follow from what is declared, from the
numbers of people, and from public rows that nobody weighs. What another analyst has received decides nothing here.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Never, final

from hdpstats._base.errors import HdpError, SiteError
from hdpstats._base.no_warnings import silence
from hdpstats.mechanisms.registry import prepare
from hdpstats.models.propensity import PropensityRequest
from hdpstats.privacy.budget import Spend, total
from hdpstats.records.query import Query
from hdpstats.results.propensity import Propensity, Weighting
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites import Site, Study
from hdpstats.sites.site import HeldData, SiteTerms
from hdpstats.sites.study import site_facts_of, with_sites


class CountingSite(Site):
    """A site that wants to know what the second question costs."""

    @abstractmethod
    def expect(self, costs: tuple[Spend, ...]) -> None:
        """Take what each of its charges costs by its proof, before the first question is asked."""


@final
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

    def check_later(self, query: Query) -> None:
        """Have the site look at a query that is asked later."""
        self._site.check_later(query)

    def put_public(self, table: PublicTable) -> None:
        """Keep nothing."""

    def answer(self, query: Query) -> Never:
        """Keep the query, and end the rehearsal."""
        self.asked.append(query)
        raise SiteError("this is a rehearsal, in which nothing is answered")


def rehearse(study: Study, ask: Callable[[Study], object]) -> dict[str, tuple[Spend, ...]]:
    """Ask a study until its sites would answer, and raise what it refuses by then; nothing is charged.

    A site that is asked after others, as its people are too few to be described, is met too: those that would be asked
    before it count as gone, and one site is quorum enough.

    Returns
    -------
    dict
        What each charge costs at a site that is asked: for the query that it is asked first, and what that says lies
        ahead of it.

    Raises
    ------
    HdpError
        The question is refused, a site is known to refuse one of the queries that it is asked first, or one that wants
        to know what it costs (`CountingSite`) is not asked.
    """
    rehearsed = {name: RehearsedSite(site) for name, site in study.sites.items()}
    stopped: HdpError = SiteError("the second question asks nothing of this site; nothing was charged now")
    try:
        with silence():
            ask(with_sites(study, rehearsed, quorum=1))
    except HdpError as error:
        stopped = error
    asked = {name for name, site in rehearsed.items() if site.asked}
    if not asked or any(isinstance(site, CountingSite) and name not in asked for name, site in study.sites.items()):
        raise stopped
    public = {} if study.public is None else {study.public.sha256: study.public}
    costs: dict[str, tuple[Spend, ...]] = {}
    for name, site in rehearsed.items():
        facts = replace(site_facts_of(study, site.records), public=public)
        for query in site.asked:
            prepared = prepare(query, facts)
            site.check_permitted(query, prepared.needs)
            costs[name] = max(costs.get(name, ()), (total(prepared.events), *prepared.ahead), key=len)
    return costs


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OfWeightedPeople:
    """A question whose propensity model is fitted first.

    Attributes
    ----------
    propensity : PropensityRequest
        The first question.
    open : function
        Opens the second on a study, with a weighting.
    ask : function
        Takes what was opened and what it may spend, and asks.
    replicate : int
        Which draw of both is asked for.
    """

    propensity: PropensityRequest
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
            self.open(self.propensity.study, self.propensity.stand_in())

    def answer(self, spent: Mapping[str, Any]) -> Any:
        """Ask both questions, and return the result of the second; see the module's docstring.

        A site that took no part in the propensity model is asked nothing more.
        """
        own = {name: value for name, value in spent.items() if name != "propensity_epsilon"}
        shared = {"replicate": self.replicate, "allow_large_epsilon": own.get("allow_large_epsilon", False)}
        study = self.propensity.study
        with silence():
            standing = self.propensity.stand_in()
        costs = rehearse(study, lambda tried: self.ask(self.open(tried, standing), own))
        for name, site in study.sites.items():
            if isinstance(site, CountingSite) and name in costs:
                site.expect(costs[name])
        first = self.propensity.release(spent["propensity_epsilon"], **shared)
        return self.ask(self.open(_that_took_part(study, first), first.weights("overlap")), own)


def _that_took_part(study: Study, first: Propensity) -> Study:
    """Return a study of the sites that a propensity model is of; as many as before must answer."""
    known = {each.site for each in first.fit.site_facts if each.weight > 0.0}
    if len(study.sites) == 1 or known >= study.sites.keys():
        return study
    return with_sites(study, {name: site for name, site in study.sites.items() if name in known}, quorum=study.quorum)
