"""The privacy record of a result for an output checker: what is guaranteed, what ran, what is not protected.

The names of the entries follow the registry of deployments that OpenDP keeps (variant, privacy loss, accounting,
implementation).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hdpstats import __version__
from hdpstats.privacy.budget import Guarantee
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records import codec
from hdpstats.records.codec import to_dict
from hdpstats.records.query import Query, Release
from hdpstats.records.several import SitesRelease, answers_in, charged_events
from hdpstats.results.sites import DescribedCohort, SiteContribution, charged_releases, people
from hdpstats.schema.schema import Schema

if TYPE_CHECKING:
    from hdpstats.results.description import Description
    from hdpstats.results.result import Result
    from hdpstats.results.survival_curves import SurvivalCurves
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
_AT_SITES = "every person is at one site, and is charged for the events of that site only; there, "
_IMPLEMENTATION = {"package": "hdpstats", "version": __version__, "noise": "exact lattice samplers, OS entropy"}


def disclosure(result: "Result") -> dict[str, Any]:
    """Return the privacy record as JSON values; see `hdpstats.results.Result.disclosure`."""
    query, release, count = result.query, result.release, result.count
    several, given = isinstance(release, SitesRelease), charged_releases(result.released)
    return _record(
        result.guarantee,
        result.schema,
        accounting=None if release is None else _accounting(release.kind, given, several=several),
        about={
            "model": result.facts.to_dict(),
            "public_sha256": None if query is None else query.public_sha256,
            "query_sha256": None if query is None else _sha256(query),
            "release_sha256": None if release is None else release.sha256,
            "ledger": _entry(release),
            "number_of_records": None
            if count is None
            else {"release_sha256": count.sha256, "noise_sd": people(count)[1], "ledger": _entry(count)},
            "description": _described(result.released.description),
            "sites": [_site(site) for site in result.site_facts],
        },
        post_processing="everything else in the result is computed from the release and from public rows",
        used_public_rows=result.facts.public_rows is not None,
    )


def _described(known: DescribedCohort | None) -> dict[str, Any] | None:
    """Return which description of the private people a fit rests on."""
    if known is None:
        return None
    return {
        "charged_to_this_fit": known.charged,
        "query_sha256": {name: _sha256(each) for name, each in known.queries},
        "release_sha256": {name: each.sha256 for name, each in known.releases},
        "epsilon": {name: str(each.epsilon) for name, each in known.queries},
        "ledger": {name: _entry(each) for name, each in known.releases},
    }


def sample_disclosure(sample: "WeightedSample") -> dict[str, Any]:
    """Return the privacy record of a weighted sample; see `hdpstats.results.WeightedSample.disclosure`."""
    queries, releases = sample.queries, sample.releases
    return _record(
        sample.guarantee,
        sample.schema,
        accounting=_accounting([release.kind for release in releases], releases),
        about={
            "sample": sample.facts.to_dict(),
            "public_sha256": queries[0].public_sha256,
            "query_sha256": [_sha256(query) for query in queries],
            "release_sha256": [release.sha256 for release in releases],
            "ledger": [_entry(release) for release in releases],
        },
        bounds="declared in the schema, and the ranges of public rows",
        post_processing="everything computed from the weighted rows, in any software",
    )


def description_disclosure(description: "Description") -> dict[str, Any]:
    """Return the privacy record of a description; see `hdpstats.results.Description.disclosure`."""
    query, releases = description.query, dict(description.releases)
    return _record(
        description.guarantee,
        description.schema,
        accounting=_accounting(query.kind, list(releases.values()), several=len(releases) > 1),
        about={
            "description": {
                "columns": [each.name for each in query.columns],
                "by": query.by,
                "complete": query.complete,
                "follow_up": None if query.follow_up is None else query.follow_up.to_dict(),
            },
            "public_sha256": query.public_sha256,
            "query_sha256": _sha256(query),
            "release_sha256": {name: each.sha256 for name, each in releases.items()},
            "ledger": {name: _entry(each) for name, each in releases.items()},
        },
        post_processing="everything else in the description is computed from the releases and from public rows",
        used_public_rows=description.public is not None,
    )


def curves_disclosure(curves: "SurvivalCurves") -> dict[str, Any]:
    """Return the privacy record of survival curves; see `hdpstats.results.SurvivalCurves.disclosure`."""
    queries, releases = dict(curves.queries), dict(curves.releases)
    accounting = None
    if releases:
        kind = next(iter(releases.values())).kind
        accounting = _accounting(kind, list(releases.values()), several=len(releases) > 1)
    return _record(
        curves.guarantee,
        curves.schema,
        accounting=accounting,
        about={
            "survival_curves": {
                "formula": curves.formula,
                "grouping": list(curves.grouping),
                "complete_in": list(curves.complete_in),
                "follow_up": curves.asked.to_dict(),
            },
            "query_sha256": {name: _sha256(each) for name, each in queries.items()},
            "release_sha256": {name: each.sha256 for name, each in releases.items()},
            "ledger": {name: _entry(each) for name, each in releases.items()},
        },
        post_processing="everything else in the curves is computed from the releases and from public rows",
        used_public_rows=curves.public is not None,
    )


def _record(
    guarantee: Guarantee | None,
    schema: Schema,
    *,
    accounting: dict[str, Any] | None,
    about: dict[str, Any],
    post_processing: str,
    bounds: str = "declared in the schema",
    used_public_rows: bool = True,
) -> dict[str, Any]:
    """Return the record of any kind; ``about`` is what was asked and released."""
    return {
        "format": 1,
        "dp_variant": _variant(guarantee),
        "privacy_loss": None if guarantee is None else _loss(guarantee),
        "accounting": accounting,
        "bounds": {"source": bounds, "schema_sha256": schema.sha256},
        **about,
        "implementation": _IMPLEMENTATION,
        "post_processing": post_processing,
        "not_protected": _not_protected(guarantee, used_public_rows=used_public_rows),
    }


def _sha256(query: Query) -> str:
    return codec.sha256(codec.loads(query.to_json()))


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


def _accounting(kind: str | list[str], releases: Sequence[Release], *, several: bool = False) -> dict[str, Any]:
    return {
        "composition": _AT_SITES + _COMPOSITION if several else _COMPOSITION,
        "mechanism": kind,
        "events": [to_dict(event) | {"text": str(event)} for each in releases for event in charged_events(each)],
    }


def _not_protected(guarantee: Guarantee | None, *, used_public_rows: bool) -> list[str]:
    found = ["the public rows: they are used without noise"] if used_public_rows else []
    if guarantee is None:
        return found
    if guarantee.relation is Relation.REPLACE_ONE:
        found.append("the number of private records: it is public under replace_one")
    return [*found, *_ALWAYS_PUBLIC]
