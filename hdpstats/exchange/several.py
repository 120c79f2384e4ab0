"""One request to several sites that no connection joins: it is answered in exchanges of files.

A fit at several sites makes the queries of each site from public facts about all of them and, where a mechanism takes
several rounds, from what all of them have released so far. So a site that answers by files needs the others' files:

1. Each site states its public facts: a release file without answers. Nothing is charged.
2. Each site is given the files of all. It runs the analyst's own code with its own rows, and with what the others have
   released; the code stops where it needs what they have not released yet. The site's new release file has its
   answers so far.
3. This is repeated until the analyst's code finds all that it asks for. A fit by objective perturbation takes two such
   exchanges, the description of its people and the coefficients; noisy Newton steps take one for each round. A site
   with too few people for a description waits for those of the others: its file has no answer until then. Nobody goes
   on to a round before every site that still answers has answered the one before.

**A site that does not answer** an exchange in time is left out from then on, by everybody alike: what it released
before counts, its later answers do not. The result names it, and is valid while a quorum answers. A site that did not
state its facts is no site of the study; it counts towards the quorum all the same.

**A site that was given other files** of the others than they wrote makes, and answers, other queries. Its file lacks
what the files of the others make of the request. Such a site, and one whose analysis was ended, is left out once no
site has anything to add.

**Again.** What a site released is in its ledger: the same request, of the same study, gets the same releases for
nothing. The study is the same where the same sites have stated their facts, now or, if they are gone, before: their
files from then belong to it. A site that was left out and is back is charged what it had not released. Where a
mechanism's later rounds depend on the releases of all (`ClippedNewton`, treatment effects), or people are weighted by
a propensity model, which is then of other sites, its return makes other queries of the others. They are charged as long
as all that a site was charged for the request is no more than the request says; then the site refuses, and the request
is written anew with another ``replicate``.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, final

import pandas as pd

from hdpstats._base.errors import ArgumentError, HdpError, SiteError
from hdpstats.exchange.release_file import RecordedSite, ReleaseFile
from hdpstats.exchange.request_file import RequestFile
from hdpstats.records.query import Query
from hdpstats.sites import Site

DIFFERS: Final = "its file answers other questions than these files ask: it was given other files of the other sites"
"""What is said in a result of a site that lacks an answer and has others that nobody asks for.

Queries follow from the files of all. So either whoever carried them gave the site others, or its answers are of an
earlier exchange, with other sites.
"""

ENDS: Final = (
    "its file ends before this question: its analysis was ended, it was given other files of the other sites, or it "
    "was not asked this"
)
"""What is said in a result of any other site that lacks an answer."""


def _latest(before: ReleaseFile | None, new: ReleaseFile) -> ReleaseFile:
    """Return the earlier file of a site where the new one, of the same site, has a part of its answers only."""
    if before is None or before.facts.to_dict() != new.facts.to_dict():
        return new
    had, has = ({(query.to_json(), each.to_json()) for query, each in file.answers} for file in (before, new))
    return before if has < had else new


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class SeveralSites:
    """What several sites have released for one request so far.

    Attributes
    ----------
    asked : tuple of str
        The names of all sites that the request was sent to.
    releases : mapping of str to ReleaseFile
        The latest file of each site that has sent one.
    left : mapping of str to str
        Why a site does not answer any more, in words that do not depend on its records.

    Raises
    ------
    ArgumentError
        A name is unknown, or a file answers another request than the others.
    """

    asked: tuple[str, ...]
    releases: Mapping[str, ReleaseFile]
    left: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse files that do not belong together."""
        if not self.asked or len(set(self.asked)) < len(self.asked):
            raise ArgumentError("asked must name sites, each once", argument="asked")
        if not {*self.releases, *self.left} <= set(self.asked):
            raise ArgumentError("releases and left must be of the sites that were asked", argument="releases")
        if len({each.request_sha256 for each in self.releases.values()}) > 1:
            raise ArgumentError("releases must all answer the same request", argument="releases")

    @property
    def quorum(self) -> int:
        """How many sites must answer: more than half of those that were asked."""
        return len(self.asked) // 2 + 1

    @property
    def present(self) -> tuple[str, ...]:
        """The sites that answer, in the order in which they were asked."""
        return tuple(name for name in self.asked if name not in self.left)

    def without(self, reasons: Mapping[str, str]) -> "SeveralSites":
        """Return it with further sites left out, and why; those that were left out before stay so."""
        return replace(self, left={**reasons, **self.left})

    def with_releases(self, releases: Mapping[str, ReleaseFile]) -> "SeveralSites":
        """Return it with the new files of sites that answer, where they are no part of an earlier one."""
        new = {name: _latest(self.releases.get(name), each) for name, each in releases.items() if name not in self.left}
        return replace(self, releases={**self.releases, **new})

    def check_quorum(self) -> None:
        """Refuse to go on with fewer sites than must answer.

        Raises
        ------
        SiteError
            What was released is in the ledgers, and is had again for nothing.
        """
        present = self.present
        if len(present) < self.quorum:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.left.items())
            raise SiteError(
                f"{len(present)} of {len(self.asked)} sites answer, and {self.quorum} must ({reasons}). What was "
                "released is in the ledgers: the same request gets it again for nothing"
            )

    def sites(self, own: Mapping[str, Site] = MappingProxyType({})) -> dict[str, Site]:
        """Return the sites of the study by name; ``own`` are those that are here.

        Raises
        ------
        SiteError
            A site that is here is not the one of that name in the files: its facts differ.
        """
        sites: dict[str, Site] = {}
        for name, recorded in self._recorded(awaited=True).items():
            facts, here = self.releases[name].facts, own.get(name)
            if here is not None and (here.held, here.schema.sha256, here.records) != (
                recorded.held,
                facts.schema.sha256,
                recorded.records,
            ):
                raise SiteError(f"the files call another site {name!r} than this one")
            sites[name] = recorded if here is None or name in self.left else here
        return sites

    def _recorded(self, *, awaited: bool) -> dict[str, RecordedSite]:
        """Return the sites of the study by name, as their files have them.

        Those that still answer have the answers that they lack later (``awaited``), or never.
        """
        return {
            name: self.releases[name].site(otherwise=self.left[name])
            if name in self.left
            else self.releases[name].site(otherwise=ENDS, differs=DIFFERS, awaited=awaited)
            for name in self.asked
            if name in self.releases
        }

    def quorum_of_study(self) -> int | None:
        """Return the quorum as a study of `sites` takes it: None of one site, where it is nobody's to decide."""
        return min(self.quorum, len(self.releases)) if len(self.releases) > 1 else None

    def result(self, request: RequestFile, public: pd.DataFrame | None = None) -> Any:
        """Return the result of a request: what `fit` at these sites returns, with the sites that did not answer.

        See `outcome` for what is raised.
        """
        return self.outcome(request, public)[1]

    def outcome(self, request: RequestFile, public: pd.DataFrame | None = None) -> "tuple[SeveralSites, Any]":
        """Return these releases, with all sites left out that the result lacks an answer of, and the result.

        Raises
        ------
        ArgumentError, SiteError, SchemaError
            Fewer sites than the quorum answer, an answer is still to come, or files are of another request.
        """
        self.check_quorum()
        if any(each.request_sha256 != request.sha256 for each in self.releases.values()):
            raise ArgumentError("releases must answer this request", argument="releases")
        sites = self._recorded(awaited=False)
        with request.in_its_recipe():
            result = request.question.ask(request.study(sites, public, quorum=self.quorum_of_study()))
        return self._without_lacking(sites), result

    def without_late(self, request: RequestFile) -> "SeveralSites":
        """Return these releases, with all sites left out that lack an answer in the first round that others wait in."""
        sites = self._recorded(awaited=True)
        with suppress(HdpError), request.in_its_recipe():
            request.question.ask(request.study(sites, quorum=self.quorum_of_study()))
        return self._without_lacking(sites)

    def _without_lacking(self, sites: Mapping[str, RecordedSite]) -> "SeveralSites":
        return self.without({name: DIFFERS if each.unused else ENDS for name, each in sites.items() if each.lacks})

    def adds_to(self, before: "SeveralSites") -> bool:
        """Whether a site that still answers has answers that it did not have before."""
        had, has = ({(name, query.question()) for name, query in each._answered} for each in (before, self))
        return not has <= had

    @property
    def _answered(self) -> "Iterator[tuple[str, Query]]":
        """What sites that still answer have answered."""
        for name in self.present:
            for query, _ in self.releases[name].answers if name in self.releases else ():
                yield name, query

    def __repr__(self) -> str:
        left = f"; left out: {', '.join(self.left)}" if self.left else ""
        return f"<releases of {len(self.releases)} of {len(self.asked)} sites{left}>"
