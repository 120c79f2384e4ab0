"""Asking the sites of a study for tables, and what they released."""

from collections.abc import Mapping
from typing import Any

from hdpstats._base.errors import ArgumentError
from hdpstats.mechanisms.description.query import DescriptionQuery, DescriptionRelease
from hdpstats.privacy.accountant import guarantee, over_sites
from hdpstats.records.query import of_kind
from hdpstats.records.several import charged_events
from hdpstats.sites import Study
from hdpstats.sites.asking import ask


def check_private(study: Study, verb: str) -> None:
    """Refuse a study without private records."""
    if not study.sites:
        raise ArgumentError(f"{verb} needs private records; this study has none: use plan", argument="private")


def released(study: Study, queries: Mapping[str, DescriptionQuery]) -> dict[str, Any]:
    """Ask the sites, and return queries, releases, missing sites and guarantee, as a description has them."""
    answered = ask(study, queries)
    releases = {name: of_kind(release, DescriptionRelease) for name, release in answered.releases.items()}
    guarantees = [
        guarantee(charged_events(each), relation=study.relation, most_rows=study.most_rows)
        for each in releases.values()
    ]
    return {
        "queries": tuple((name, queries[name]) for name in releases),
        "releases": tuple(releases.items()),
        "missing": tuple((each.site, each.reason) for each in answered.missing),
        "guarantee": guarantees[0] if len(study.sites) == 1 else over_sites(guarantees),
    }
