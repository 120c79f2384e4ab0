"""What a result was bought with: what was asked, what the sites answered, what that promises."""

from dataclasses import dataclass
from typing import final

from hdpstats.inference.across_sites import Heterogeneity
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.records.query import Query, Release
from hdpstats.results.sites import Counts, SiteContribution


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Purchase:
    """The private side of a result; nothing of it in a fit to public rows alone. See `hdpstats.results.Result`."""

    query: Query | None
    release: Release | None
    guarantee: Guarantee | None
    count: Counts | None = None
    sites: tuple[SiteContribution, ...] = ()
    heterogeneity: Heterogeneity | None = None
