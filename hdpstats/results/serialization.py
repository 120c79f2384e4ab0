"""Results as versioned JSON, exact to the last bit; never pickle.

A float is written in its shortest exact decimal form, NaN as null, a fraction as a string.
"""

import json
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypedDict

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.inference.across_sites import Heterogeneity
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.mechanisms.json_codec import query_from_json, release_from_json
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.public.check import PublicCheck
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.records.sites import SitesRelease
from hdpstats.results.estimates import estimate_from_dict, estimate_to_dict
from hdpstats.results.facts import ModelFacts
from hdpstats.results.sites import Counts, SiteContribution
from hdpstats.schema.schema import Schema

FORMAT: Final = 3
_ESTIMATES: Final = ("estimate", "public_only", "private_only", "pooled")


class Fields(TypedDict):
    """The fields of a result by name."""

    facts: ModelFacts
    schema: Schema
    estimate: Estimate
    public_only: Estimate | None
    private_only: Estimate | None
    pooled: Estimate | None
    query: Query | None
    release: Release | None
    guarantee: Guarantee | None
    public_check: PublicCheck | None
    count: Counts | None
    site_facts: tuple[SiteContribution, ...]
    heterogeneity: Heterogeneity | None


def write(fields: Fields) -> str:
    """Return the JSON text of a result's fields."""
    query, release, guarantee = fields["query"], fields["release"], fields["guarantee"]
    check, count, heterogeneity = fields["public_check"], fields["count"], fields["heterogeneity"]
    document = {
        "format": FORMAT,
        "facts": fields["facts"].to_dict(),
        "schema": fields["schema"].to_dict(),
        "estimate": estimate_to_dict(fields["estimate"]),
        "public_only": estimate_to_dict(fields["public_only"]),
        "private_only": estimate_to_dict(fields["private_only"]),
        "pooled": estimate_to_dict(fields["pooled"]),
        "query": None if query is None else json.loads(query.to_json()),
        "release": None if release is None else json.loads(release.to_json()),
        "entry": entry_to_dict(release),
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "public_check": None if check is None else check.to_dict(),
        "count": None if count is None else json.loads(count.to_json()),
        "count_entry": entry_to_dict(count),
        "sites": [site.to_dict() for site in fields["site_facts"]],
        "heterogeneity": None if heterogeneity is None else heterogeneity.to_dict(),
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def read(text: str) -> Fields:
    """Read what `write` wrote; ArgumentError when the text is something else."""
    try:
        document = canonical.loads(text)
        version = document["format"]
        fields = _fields(document) if version == FORMAT else None
    except (HdpError, KeyError, TypeError, ValueError, AttributeError):
        raise ArgumentError("this is not a result that hdpstats wrote", argument="path_or_text") from None
    if fields is None:
        raise ArgumentError(
            f"this version of hdpstats reads results of format {FORMAT}, not {version!r}", argument="path_or_text"
        )
    return fields


def text_of(path_or_text: str | PathLike[str]) -> str:
    """Return JSON text as it is, or the content of the file of that name."""
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        return path_or_text
    path = Path(path_or_text)
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(path)!r}", argument="path_or_text")
    return path.read_text(encoding="utf-8")


def _fields(document: dict[str, Any]) -> Fields:
    estimates = {name: estimate_from_dict(document[name]) for name in _ESTIMATES}
    chosen = estimates["estimate"]
    if chosen is None:
        raise ValueError("a result has an estimate")
    query, guarantee, check = document["query"], document["guarantee"], document["public_check"]
    heterogeneity = document["heterogeneity"]
    count = release_from_dict(document["count"], document["count_entry"])
    if not (count is None or isinstance(count, CountRelease | SitesRelease)):
        raise ValueError("a count is a release of that kind")
    return Fields(
        facts=ModelFacts.from_dict(document["facts"]),
        schema=Schema.from_dict(document["schema"]),
        estimate=chosen,
        public_only=estimates["public_only"],
        private_only=estimates["private_only"],
        pooled=estimates["pooled"],
        query=None if query is None else query_from_json(canonical.dumps(query)),
        release=release_from_dict(document["release"], document["entry"]),
        guarantee=None if guarantee is None else Guarantee.from_dict(guarantee),
        public_check=None if check is None else PublicCheck.from_dict(check),
        count=count,
        site_facts=tuple(SiteContribution.from_dict(site) for site in document["sites"]),
        heterogeneity=None if heterogeneity is None else Heterogeneity.from_dict(heterogeneity),
    )


def entry_to_dict(release: Release | None) -> dict[str, Any] | None:
    """Return the place of a release in the ledger as JSON values."""
    return None if release is None or release.entry is None else release.entry.to_dict()


def release_from_dict(fields: dict[str, Any] | None, entry: dict[str, Any] | None) -> Release | None:
    """Return a release with its place in the ledger, from JSON values."""
    if fields is None:
        return None
    release = release_from_json(canonical.dumps(fields))
    if entry is None:
        return release
    return replace(release, entry=LedgerEntry.from_dict(entry))  # type: ignore[type-var]  # every release is a dataclass
