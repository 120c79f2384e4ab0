"""The privacy record of a result for an output checker: what is guaranteed, what ran, what is not protected.

The names of the entries follow the registry of deployments that OpenDP keeps (variant, privacy loss, accounting,
implementation).
"""

from typing import TYPE_CHECKING, Any

from hdpstats import __version__
from hdpstats._base import canonical
from hdpstats.privacy.accountant import Guarantee
from hdpstats.privacy.relation import Relation
from hdpstats.records.codec import to_dict
from hdpstats.records.query import Release
from hdpstats.records.several import SitesRelease, answers_in, charged_events
from hdpstats.results.sites import Counts, SiteContribution, people

if TYPE_CHECKING:
    from hdpstats.results.description import Description
    from hdpstats.results.result import Result
    from hdpstats.results.weighted_sample import WeightedSample

_ALWAYS_PUBLIC = (
    "the formula, the mechanism and its options, the budget, and the schema with its bounds and levels",
    "that a release was made, and its place in the ledger",
    "what the coefficients say about the population: it may concern a person whether or not their record was used",
)

_COMPOSITION = (
    "epsilons and deltas of the events add up; so do the squared mu of Gaussian ones, which become an epsilon and a "
    "delta at the end (Gaussian differential privacy)"
)
_AT_SITES = "every person is at one site, and pays for the events of that site only; there, "
_IMPLEMENTATION = {"package": "hdpstats", "version": __version__, "noise": "exact lattice samplers, OS entropy"}


def disclosure(result: "Result") -> dict[str, Any]:
    """Return the privacy record as JSON values; see `hdpstats.results.Result.disclosure`."""
    query, release, guarantee, count = result.query, result.release, result.guarantee, result.count
    return {
        "format": 1,
        "dp_variant": _variant(guarantee),
        "privacy_loss": None if guarantee is None else _loss(guarantee),
        "accounting": None if release is None else _accounting(release, count),
        "model": result.facts.to_dict(),
        "bounds": {"source": "declared in the schema", "schema_sha256": result.schema.sha256},
        "public_sha256": None if query is None else query.public_sha256,
        "query_sha256": None if query is None else canonical.sha256(canonical.loads(query.to_json())),
        "release_sha256": None if release is None else release.sha256,
        "ledger": _entry(release),
        "number_of_records": None
        if count is None
        else {"release_sha256": count.sha256, "noise_sd": people(count)[1], "ledger": _entry(count)},
        "sites": [_site(site) for site in result.site_facts],
        "implementation": _IMPLEMENTATION,
        "post_processing": "everything else in the result is computed from the release and from public rows",
        "not_protected": _not_protected(result.facts.public_rows, guarantee),
    }


def sample_disclosure(sample: "WeightedSample") -> dict[str, Any]:
    """Return the privacy record of a weighted sample; see `hdpstats.results.WeightedSample.disclosure`."""
    queries, releases, guarantee = sample.queries, sample.releases, sample.guarantee
    return {
        "format": 1,
        "dp_variant": _variant(guarantee),
        "privacy_loss": _loss(guarantee),
        "accounting": {
            "composition": _COMPOSITION,
            "mechanism": [release.kind for release in releases],
            "events": [
                to_dict(event) | {"text": str(event)} for release in releases for event in charged_events(release)
            ],
        },
        "sample": sample.facts.to_dict(),
        "bounds": {
            "source": "declared in the schema, and the ranges of public rows",
            "schema_sha256": sample.schema.sha256,
        },
        "public_sha256": queries[0].public_sha256,
        "query_sha256": [canonical.sha256(canonical.loads(query.to_json())) for query in queries],
        "release_sha256": [release.sha256 for release in releases],
        "ledger": [_entry(release) for release in releases],
        "implementation": _IMPLEMENTATION,
        "post_processing": "everything computed from the weighted rows, in any software",
        "not_protected": _not_protected(sample.facts.public_rows, guarantee),
    }


def description_disclosure(description: "Description") -> dict[str, Any]:
    """Return the privacy record of a description; see `hdpstats.results.Description.disclosure`."""
    query, guarantee, releases = description.query, description.guarantee, dict(description.releases)
    several = len(releases) > 1
    return {
        "format": 1,
        "dp_variant": _variant(guarantee),
        "privacy_loss": _loss(guarantee),
        "accounting": {
            "composition": _AT_SITES + _COMPOSITION if several else _COMPOSITION,
            "mechanism": query.kind,
            "events": [
                to_dict(event) | {"text": str(event)} for each in releases.values() for event in charged_events(each)
            ],
        },
        "description": {
            "columns": [each.name for each in query.columns],
            "by": query.by,
            "complete": query.complete,
            "follow_up": None if query.follow_up is None else query.follow_up.to_dict(),
        },
        "bounds": {"source": "declared in the schema", "schema_sha256": description.schema.sha256},
        "public_sha256": query.public_sha256,
        "query_sha256": canonical.sha256(canonical.loads(query.to_json())),
        "release_sha256": {name: each.sha256 for name, each in releases.items()},
        "ledger": {name: _entry(each) for name, each in releases.items()},
        "implementation": _IMPLEMENTATION,
        "post_processing": "everything else in the description is computed from the releases and from public rows",
        "not_protected": _not_protected(None if description.public is None else 1, guarantee),
    }


def _variant(guarantee: Guarantee | None) -> str:
    if guarantee is None:
        return "none: no private record was used"
    return "pure differential privacy" if guarantee.delta == 0 else "approximate differential privacy"


def _loss(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "epsilon": float(guarantee.epsilon),
        "delta": float(guarantee.delta),
        "exact": {"epsilon": str(guarantee.epsilon), "delta": str(guarantee.delta)},
        "relation": guarantee.relation.value,
        "privacy_unit": guarantee.unit,
        "most_rows_of_a_unit": guarantee.most_rows,
        "statement": guarantee.statement(),
    }


def _entry(release: Release | None) -> dict[str, Any] | None:
    if isinstance(release, SitesRelease):
        return {name: _entry(answers_in(each)[-1]) for name, each in release.sites}
    return None if release is None or release.entry is None else release.entry.to_dict()


def _site(site: SiteContribution) -> dict[str, Any]:
    facts = {"site": site.site, "status": site.status, "epsilon": str(site.epsilon), "delta": str(site.delta)}
    return facts | {"ledger": [entry.to_dict() for entry in site.entries]}


def _accounting(release: Release, count: Counts | None) -> dict[str, Any]:
    events = (*charged_events(count), *charged_events(release))
    return {
        "composition": _AT_SITES + _COMPOSITION if isinstance(release, SitesRelease) else _COMPOSITION,
        "mechanism": release.kind,
        "events": [to_dict(event) | {"text": str(event)} for event in events],
    }


def _not_protected(public_rows: int | None, guarantee: Guarantee | None) -> list[str]:
    found = [] if public_rows is None else ["the public rows: they are used without noise"]
    if guarantee is None:
        return found
    if guarantee.relation is Relation.REPLACE_ONE:
        found.append("the number of private records: it is public under replace_one")
    return [*found, *_ALWAYS_PUBLIC]
