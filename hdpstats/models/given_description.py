"""A description that a fit is given: used as it is, at no further charge, where it is of the same people as the fit."""

from collections.abc import Mapping

from hdpstats._base.errors import ArgumentError
from hdpstats.mechanisms.description.query import DescriptionQuery
from hdpstats.models.cohort import SiteDescription, averaged_variables, outcome_of
from hdpstats.models.hazard_spec import HazardSpec
from hdpstats.models.model_spec import LossSpec, ModelSpec
from hdpstats.results.description import Description
from hdpstats.sites import Study


def described_sites(spec: ModelSpec, description: object) -> Mapping[str, SiteDescription]:
    """Return what a given description says of each site, or refuse one that is not of the people of the fit.

    Raises
    ------
    ArgumentError
        With the reason and what to do; nothing was charged.
    """
    if not isinstance(description, Description):
        raise _refused(
            f"be what hdp.describe(study, columns, complete=True, epsilon=...) returned, not "
            f"{type(description).__name__}; without epsilon it returns a request, which describes nothing yet"
        )
    check_described_study(spec.study, description)
    _check_people(spec, description.query)
    _check_averages(spec, description.query)
    queries = dict(description.queries)
    return {name: SiteDescription(query=queries[name], release=release) for name, release in description.releases}


def _refused(reason: str) -> ArgumentError:
    return ArgumentError(f"description must {reason}", argument="description")


def check_described_study(study: Study, description: Description) -> None:
    """Refuse a description of other records, or under other terms."""
    if description.schema.sha256 != study.schema.sha256:
        raise _refused("be of a study with the same schema; describe this study")
    given = description.guarantee
    if (given.relation, given.most_rows) != (study.relation, study.most_rows):
        raise _refused(
            f"be of a study with the same relation and max_rows_per_unit, {study.relation.value} and "
            f"{study.most_rows}; describe this study"
        )
    if set(description.sites) != set(study.sites):
        raise _refused(
            f"be of the same sites: it is of {', '.join(description.sites)}, the study of "
            f"{', '.join(study.sites) or 'none'}; describe this study, or fit study.at(...) of the described sites"
        )
    for name, release in description.releases:
        ledger, entry = study.ledgers.get(name), release.entry
        if ledger is None or entry is None or (entry.dataset, entry.version) == (ledger.dataset, ledger.version):
            continue
        raise _refused(
            f"be of the same data: it is of data set {entry.dataset!r}, version {entry.version}, and the study has "
            f"{ledger.dataset!r}, version {ledger.version}; describe this study"
        )


def _check_people(spec: ModelSpec, query: DescriptionQuery) -> None:
    """Refuse a description of other rows than those that count in the fit."""
    schema, needs = spec.study.schema, set(spec.needs)
    call = f"hdp.describe(study, {_columns(spec)}, complete=True, epsilon=...)"
    if query.by is not None:
        raise _refused(f"be without groups, by={query.by!r}: {call}")
    if not query.columns:
        raise _refused(f"be of columns beside Surv(), which tell the number of people: {call}")
    weights = spec.weights if isinstance(spec, LossSpec) else None
    if query.weights != weights:
        own = "without weights" if weights is None else f"with weights={weights!r}"
        raise _refused(f"count people as the model does, {own}")
    model, described = ({name for name in names if schema[name].leaves_out} for names in (needs, query.names))
    if not query.complete and (model or described & needs):
        raise _refused(f"be of complete rows, as fits leave out rows with missing cells: {call}")
    if query.complete and model != described:
        lacks, more = sorted(model - described), sorted(described - model)
        what = [f"it lacks {', '.join(lacks)}"] if lacks else []
        what += [f"its rows are complete in {', '.join(more)} too, which the model does not read"] if more else []
        raise _refused(f"be of the rows that are complete in the model's columns: {' and '.join(what)}; {call}")


def _check_averages(spec: ModelSpec, query: DescriptionQuery) -> None:
    """Refuse a description that lacks averages which the fit has use for."""
    wanted = averaged_variables(spec)
    if wanted is None:
        return
    call = f"hdp.describe(study, {_columns(spec)}, complete=True, epsilon=...)"
    lacking = [name for name in wanted.variables if name not in {each.name for each in query.columns}]
    if lacking:
        raise _refused(f"be of the model's covariates, and lacks {', '.join(lacking)}: {call}")
    followed = query.follow_up
    if wanted.time is not None and (followed is None or (followed.time, followed.start) != (wanted.time, None)):
        raise _refused(f"count follow-up, which hazards rest on: {call}")
    if wanted.times and followed is not None and followed.ends[-1] < wanted.times[-1]:
        raise _refused(
            f"count follow-up up to the last interval, which begins at {wanted.times[-1]:g}, not only to "
            f"{followed.ends[-1]:g}: give describe other times="
        )


def _columns(spec: ModelSpec) -> list[str]:
    """Return the columns to describe for a model, as `describe` takes them."""
    followed = outcome_of(spec) if isinstance(spec, HazardSpec) else ()
    weights = spec.weights if isinstance(spec, LossSpec) else None
    names = [name for name in dict.fromkeys(spec.needs) if name not in (*followed, weights)]
    return [*names, f"Surv({', '.join(followed)})"] if followed else names
