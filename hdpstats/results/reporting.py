"""What readers of a paper and output checkers are told of a result.

**Methods.** A paragraph for a paper: the model, the guarantee, the mechanism, the intervals, the sources. Every
statement is of a public fact of the result; what holds for private rows alone is not said of public fits.

**Disclosure.** The privacy record: what is guaranteed, what ran, what is not protected. The names of its entries follow
the registry of deployments that OpenDP keeps (variant, privacy loss, accounting, implementation).
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError
from hdpstats.ledger.disclosure import Asked, Disclosure, Facts, Statements, disclose
from hdpstats.ledger.signing import SignatureError, VerifyingKey, check_release
from hdpstats.losses import LINKS, REGRESSIONS
from hdpstats.privacy.budget import Guarantee, MechanismName, Spend, decimal
from hdpstats.privacy.proof_index import GEOMETRY, OVERLAP, PRIVACY, PROOFS
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records import codec
from hdpstats.records.codec import to_dict
from hdpstats.records.query import Query, Release
from hdpstats.records.several import (
    RoundsQuery,
    RoundsRelease,
    SitesQuery,
    SitesRelease,
    answers_in,
    charged_events,
)
from hdpstats.results.adjustment import Adjustment
from hdpstats.results.facts import ModelFacts, design_of
from hdpstats.results.sites import DescribedCohort, SiteContribution, charged_before, charged_releases, people, spent_on
from hdpstats.results.summary import weights_words
from hdpstats.schema.schema import Schema

if TYPE_CHECKING:
    from hdpstats.results.result import Result
    from hdpstats.results.survival_curves import SurvivalCurves
    from hdpstats.results.weighted_sample import WeightedSample


_POOLING: Final = "Hedges LV, Olkin I (1985). Statistical Methods for Meta-Analysis. Academic Press."
_RAKING: Final = (
    "Deville J-C, Sarndal C-E (1992). Calibration estimators in survey sampling. Journal of the American Statistical "
    "Association 87, 376-382."
)
_SEVERAL: Final = (
    "Liang K-Y, Zeger SL (1986). Longitudinal data analysis using generalized linear models. Biometrika 73, 13-22.",
    "Williamson JM, Datta S, Satten GA (2003). Marginal analyses of clustered data when cluster size is informative. "
    "Biometrics 59, 36-42.",
)
_MARGINAL: Final = (
    "Robins JM, Hernan MA, Brumback B (2000). Marginal structural models and causal inference in epidemiology. "
    "Epidemiology 11, 550-560."
)
_HAZARDS: Final = "Tutz G, Schmid M (2016). Modeling Discrete Time-to-Event Data. Springer."


def methods_text(result: "Result") -> str:
    """Return the paragraph and the references below it."""
    facts, guarantee = result.facts, result.guarantee
    sentences = [_model(facts), *_weighted(result.released.adjustment)]
    sentences += [_public(result)] if guarantee is None else _private(result, guarantee)
    sentences.append(f"Computed with hdpstats {__version__}.")
    references = "\n".join(f"- {each}" for each in references_of(result))
    return " ".join(sentences) + (f"\n\nReferences\n\n{references}" if references else "")


def references_of(result: "Result") -> tuple[str, ...]:
    """Return what the paragraph rests on, each once."""
    loss = result.facts.loss
    references = [_HAZARDS] if result.facts.hazard is not None else []
    references += [REGRESSIONS[loss][1]] if loss is not None and REGRESSIONS[loss][1] else []
    references += _SEVERAL if result.facts.several_rows is not None else []
    references += [_MARGINAL, OVERLAP] if result.released.adjustment is not None else []
    if result.guarantee is not None:
        own, before = charged_releases(result.released), result.released.before
        releases = [each for whole in (*own, *before) for each in answers_in(whole)]
        references.append(PRIVACY)
        references += [source for each in releases for event in each.events for source in PROOFS[event.ran].sources]
        references += [_POOLING] if result.pooled is not None else []
        references += [] if result.released.description is None else [GEOMETRY, _RAKING]
    return tuple(dict.fromkeys(references))


def _model(facts: ModelFacts) -> str:
    hazard = facts.hazard
    if hazard is None:
        what = f"The {facts.family} distribution" if facts.loss is None else REGRESSIONS[facts.loss][0]
        fitted = f"{what} was fitted with the formula {facts.formula}"
        if facts.averaged is not None:
            return (
                f"{fitted}, one row for each person (column {facts.first_row}): treatment and covariates are those of "
                f"the first one that has them all, and the {facts.averaged_words}."
            )
        if facts.first_row is not None:
            return f"{fitted} to the first complete row of each person (column {facts.first_row})."
        if facts.several_rows is None:
            return f"{fitted}."
        return (
            f"{fitted} to all rows of each person (column {facts.several_rows.unit}), by generalised estimating "
            "equations with an independence working correlation. It describes "
            f"{facts.several_rows.words}. Standard errors are over people."
        )
    unit = f" {hazard.unit_of_time}" if hazard.unit_of_time else ""
    causes = f", cause-specific for {', '.join(hazard.causes)}" if len(hazard.causes) > 1 else ""
    return (
        f"A discrete-time hazard model with the {hazard.link} link, {hazard.grid.intervals} intervals up "
        f"to {hazard.grid.horizon:.6g}{unit} and a baseline of {len(hazard.baseline_names)} coefficients{causes} was "
        f"fitted with the formula {facts.formula}; coefficients of covariates are {LINKS[hazard.link].scale}."
    )


def _weighted(adjustment: Adjustment | None) -> list[str]:
    """Return how people were weighted by their chance of treatment."""
    if adjustment is None:
        return []
    return [
        "People were weighted by overlap weights from a logistic propensity model with the formula "
        f"{adjustment.formula}, so that the coefficients are those among people whose treatment was in doubt (a "
        "marginal structural model). Standard errors are by stacked estimating equations: they count the estimation of "
        "the propensity model."
    ]


def _public(result: "Result") -> str:
    rows = "" if result.facts.public_rows is None else f" ({result.facts.public_rows} complete rows)"
    return f"It is an ordinary fit to public data{rows}; no private record was used."


def _left_out(result: "Result") -> list[str]:
    """Return that records with missing cells were left out, where the schema lets cells be missing."""
    read = [name for name in design_of(result).needs if name in result.schema] if result.facts.family is None else []
    holes = [name for name in read if result.schema[name].leaves_out]
    if not holes:
        return []
    return [f"Records without a value of {', '.join(holes)} were left out."]


def _described(result: "Result") -> list[str]:
    """Return which description of the private people standard errors rest on, and what it cost."""
    known = result.released.description
    if known is None:
        return []
    columns = dict.fromkeys(column.name for _, query in known.queries for column in query.columns)
    when = "part of this loss" if known.charged else "charged before, and included in this loss"
    averages = f"noisy averages of {', '.join(columns)} among the private people ({when}: {known.part.amount})"
    if result.released.sample is not None:
        return [f"Weights of public rows were calibrated to {averages}."]
    if result.facts.public_rows is None:
        return [f"Standard errors rest on {averages}."]
    return [f"Standard errors rest on {averages}, to which the public rows were raked."]


def _own_sums(release: Release | None) -> list[str]:
    """Return that standard errors rest on private people's own Hessians and squared scores, and what these cost."""
    spent = Fraction(0) if release is None else spent_on(release, (MechanismName.CURVATURE, MechanismName.SQUARES))
    if release is None or not spent:
        return []
    what = "noisy sums of the private people's own Hessians and squared scores"
    return [f"Standard errors rest on {what} (part of this loss: epsilon = {decimal(spent)})."]


def guarantee_sentence(guarantee: Guarantee, *, how: str) -> str:
    """Return what was protected, and how, in a sentence."""
    loss = f"epsilon = {decimal(guarantee.epsilon)}" + (
        "" if guarantee.delta == 0 else f", delta = {decimal(guarantee.delta)}"
    )
    kind = "pure differential privacy" if guarantee.delta == 0 else "approximate differential privacy"
    parts = f" in all: {guarantee.listed}" if guarantee.parts else ""
    return (
        f"The private records were analysed under {kind} ({loss}{parts}; protected unit: {guarantee.protected}; "
        f"{guarantee.neighbours}), by {how}."
    )


def _private(result: "Result", guarantee: Guarantee) -> list[str]:
    """Return what was protected how, what was used, and what intervals count."""
    facts, estimate = result.facts, result.estimate
    sentences = [guarantee_sentence(guarantee, how=facts.method)]
    if guarantee.sites > 1:
        sentences.append(f"Records of {guarantee.sites} sites were analysed where they are; no record left its site.")
    noisy = result.count is not None or facts.records_sd is not None
    if facts.records is not None:
        records = "private people" if facts.by_person else "private records"
        what = f"{records} that are complete in the model's columns" if facts.complete_rows else records
        sentences.append(f"The number of {what} was {facts.records}{' (a noisy number)' if noisy else ''}.")
        if facts.several_rows is not None and facts.several_rows.rows is not None:
            sentences.append(f"They had {facts.several_rows.rows:.0f} such rows (a noisy number).")
    sentences += _left_out(result) + _described(result) + _own_sums(result.release)
    if facts.public_rows is not None:
        pooled = " and entered the pooled estimate" if result.pooled is not None else ""
        what = "set the scale of the covariates" if result.released.adjustment is None else "stand for them in errors"
        sentences.append(f"{facts.public_rows} public rows {what}{pooled}.")
    if estimate.distribution is not None:
        sentences.append(
            "Standard errors, confidence intervals and p-values count sampling and the privacy noise together. "
            "They are from draws of the error of the released estimate, which has heavier tails than the normal "
            "distribution."
        )
    else:
        sentences.append("Standard errors and intervals count sampling and, where it is known, the privacy noise.")
    weights = weights_words(result)
    if weights is not None:
        sentences.append(
            f"Weights that bound the part of one person {weights}, which is counted with the privacy noise."
        )
    return sentences


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
    several = isinstance(release, SitesRelease)
    given = [*result.released.before, *charged_releases(result.released)]
    return privacy_record(
        result.guarantee,
        result.schema,
        accounting=None if release is None else accounting_of(release.kind, given, several=several),
        about={
            "model": result.facts.to_dict(),
            "public_sha256": None if query is None else query.public_sha256,
            "query_sha256": None if query is None else query_sha256(query),
            "release_sha256": None if release is None else release.sha256,
            "ledger": ledger_entry(release),
            "number_of_records": None
            if count is None
            else {"release_sha256": count.sha256, "noise_sd": people(count)[1], "ledger": ledger_entry(count)},
            "description": _description_entry(result.released.description),
            **_propensity_entry(result.released.adjustment),
            "sites": [_site(site) for site in result.site_facts],
        },
        post_processing="everything else in the result is computed from the release and from public rows",
        used_public_rows=result.facts.public_rows is not None,
    )


def filled_form(
    form: str,
    statements: Mapping[str, Any] | None,
    *,
    what: str,
    guarantee: Guarantee | None,
    schema: Schema,
    releases: Sequence[Release],
    formula: str | None = None,
    columns: Sequence[str] = (),
    public_sha256: str | None = None,
) -> Disclosure:
    """Return a form on one result, filled in from the releases that it rests on; see `hdpstats.ledger.disclosure`."""
    given = Statements.read(statements)
    if guarantee is None:
        raise ArgumentError(
            f"form={form!r} says how private records are protected, and this result uses none: it is an ordinary fit "
            "to public rows",
            argument="form",
        )
    asked = [
        Asked(
            day="",
            formula=formula,
            columns=tuple(columns),
            public_sha256=public_sha256,
            schema_sha256=schema.sha256,
            terms="",
            events=tuple(answer.events),
        )
        for release in releases
        for answer in answers_in(release)
    ]
    facts = Facts(
        what=what,
        relation=guarantee.relation,
        protected=f"{guarantee.protected[0].upper()}{guarantee.protected[1:]}: {guarantee.neighbours}.",
        total=None,
        spent=Spend(guarantee.epsilon, guarantee.delta),
        asked=tuple(asked),
        sites=guarantee.sites,
    )
    return disclose(facts, form, given)


def check_signatures(result: "Result", keys: Sequence[VerifyingKey]) -> int:
    """Check the signature of every release that a fit rests on; return how many there are.

    Each must answer the query that the fit keeps beside it.
    """
    given = result.released
    known, sample = given.description, given.sample or ()
    asked: list[tuple[Query | None, Release]] = []
    if known is not None:
        asked += [(dict(known.queries).get(name), each) for name, each in known.releases]
    of_sample = given.sample_queries or ()
    asked += zip((*of_sample, *[None] * (len(sample) - len(of_sample))), sample, strict=False)
    shown_twice = bool(sample) and (given.query, given.release) == (asked[-1][0], sample[-1])
    asked += [(given.counting, given.count)] if given.count is not None else []
    asked += [(given.query, given.release)] if given.release is not None and not shown_twice else []
    answers = [pair for query, release in asked for pair in _asked(query, release)]
    for query, answer in answers:
        if query is None:
            message = "the result holds a release without the query that it answers: it was altered"
            raise SignatureError(message, reason="forged")
        check_release(answer, keys, query=query)
    return len(answers)


def _asked(query: Query | None, release: Release) -> list[tuple[Query | None, Release]]:
    """Return what was charged one by one (`answers_in`), each with its query; None where none is kept."""
    if isinstance(query, SitesQuery) and isinstance(release, SitesRelease):
        of_sites = dict(query.sites)
        return [pair for name, at_site in release.sites for pair in _asked(of_sites.get(name), at_site)]
    if (
        isinstance(query, RoundsQuery)
        and isinstance(release, RoundsRelease)
        and len(query.parts) == len(release.rounds)
    ):
        return list(zip(query.parts, release.rounds, strict=True))
    return [(query, answer) for answer in answers_in(release)]


def result_form(result: "Result", form: str, statements: Mapping[str, Any] | None) -> Disclosure:
    """Return a form on a fit."""
    released = [*result.released.before, *charged_releases(result.released)]
    return filled_form(
        form,
        statements,
        what=f"the fit of {result.facts.formula}",
        guarantee=result.guarantee,
        schema=result.schema,
        releases=released if result.guarantee is not None else [],
        formula=result.facts.formula,
        public_sha256=None if result.query is None else result.query.public_sha256,
    )


def sample_form(sample: "WeightedSample", form: str, statements: Mapping[str, Any] | None) -> Disclosure:
    """Return a form on a weighted sample."""
    return filled_form(
        form,
        statements,
        what="a weighted sample of public rows",
        guarantee=sample.guarantee,
        schema=sample.schema,
        releases=[*charged_before(sample.description), *sample.releases],
        public_sha256=sample.queries[0].public_sha256,
    )


def _description_entry(known: DescribedCohort | None) -> dict[str, Any] | None:
    """Return which description of the private people a fit rests on."""
    if known is None:
        return None
    return {
        "charged_to_this_fit": known.charged,
        "query_sha256": {name: query_sha256(each) for name, each in known.queries},
        "release_sha256": {name: each.sha256 for name, each in known.releases},
        "epsilon": {name: str(each.epsilon) for name, each in known.queries},
        "delta": {name: str(each.delta) for name, each in known.queries},
        "ledger": {name: ledger_entry(each) for name, each in known.releases},
    }


def _propensity_entry(adjustment: Adjustment | None) -> dict[str, Any]:
    """Return which propensity model people were weighted by; nothing where they were not."""
    if adjustment is None:
        return {}
    before = [{"release_sha256": each.sha256, "ledger": ledger_entry(each)} for each in adjustment.before]
    return {"propensity": {"formula": adjustment.formula, "releases": before}}


def sample_disclosure(sample: "WeightedSample") -> dict[str, Any]:
    """Return the privacy record of a weighted sample; see `hdpstats.results.WeightedSample.disclosure`."""
    queries, releases = sample.queries, sample.releases
    return privacy_record(
        sample.guarantee,
        sample.schema,
        accounting=accounting_of(
            [release.kind for release in releases], [*charged_before(sample.description), *releases]
        ),
        about={
            "sample": sample.facts.to_dict(),
            "public_sha256": queries[0].public_sha256,
            "query_sha256": [query_sha256(query) for query in queries],
            "release_sha256": [release.sha256 for release in releases],
            "ledger": [ledger_entry(release) for release in releases],
            "description": _description_entry(sample.description),
        },
        bounds="declared in the schema, and the ranges of public rows",
        post_processing="everything computed from the weighted rows, in any software",
    )


def curves_methods(curves: "SurvivalCurves") -> str:
    """Return a paragraph for a paper; see `hdpstats.results.SurvivalCurves.methods_text`."""
    several = len(curves.causes) > 1
    what = "Aalen-Johansen estimates of cumulative incidence" if several else "Kaplan-Meier curves"
    asked, adjusted = curves.asked, curves.adjusted
    sentences = [f"{what} of {curves.formula} were estimated by group."]
    if adjusted is not None:
        sentences.append(
            "People were weighted by overlap weights from a logistic propensity model with the formula "
            f"{adjusted.formula}, so that the curves are those of people whose treatment was in doubt."
        )
    if curves.guarantee is None:
        sentences.append("They are of public rows, without noise.")
    else:
        what_counted = "weights of people" if adjusted is not None else "people"
        sentences += [
            f"They are read from a noisy table of {what_counted} by event or censoring in {len(asked.ends)} public "
            "intervals, within which hazards are taken as constant.",
            guarantee_sentence(curves.guarantee, how="noise on the count in each cell of group, interval and event"),
        ]
    errors = "Standard errors and limits count sampling and privacy noise"
    if adjusted is not None and curves.guarantee is not None:
        errors = (
            "Standard errors, limits and the log-rank test are from stacked estimating equations: they count sampling, "
            "the estimation of the propensity model and all privacy noise. Averages in them are over "
            f"{adjusted.public_rows} public rows that stand for the private people"
        )
    elif adjusted is not None:
        errors = "Standard errors are robust ones that count the estimation of the propensity model"
    sentences += [f"{errors}.", f"Computed with hdpstats {__version__}."]
    releases = [
        each for whole in (*curves.before, *(each for _, each in curves.releases)) for each in answers_in(whole)
    ]
    sources = [source for each in releases for event in each.events for source in PROOFS[event.ran].sources]
    references = [*([PRIVACY] if releases else []), *dict.fromkeys(sources), *([OVERLAP] if adjusted else [])]
    if not references:
        return " ".join(sentences)
    listed = "\n".join(f"- {each}" for each in references)
    return f"{' '.join(sentences)}\n\nReferences\n\n{listed}"


def curves_disclosure(curves: "SurvivalCurves") -> dict[str, Any]:
    """Return the privacy record of survival curves; see `hdpstats.results.SurvivalCurves.disclosure`."""
    queries, releases = dict(curves.queries), dict(curves.releases)
    accounting = None
    if releases:
        kind = next(iter(releases.values())).kind
        accounting = accounting_of(kind, [*curves.before, *releases.values()], several=len(releases) > 1)
    weighted: dict[str, Any] = {}
    if curves.before:
        weighted = {
            "weighting": next(iter(queries.values())).to_dict()["weighting"],
            "propensity": [{"release_sha256": each.sha256, "ledger": ledger_entry(each)} for each in curves.before],
        }
    return privacy_record(
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
            "query_sha256": {name: query_sha256(each) for name, each in queries.items()},
            "release_sha256": {name: each.sha256 for name, each in releases.items()},
            "ledger": {name: ledger_entry(each) for name, each in releases.items()},
            **weighted,
        },
        post_processing="everything else in the curves is computed from the releases and from public rows",
        used_public_rows=curves.public is not None or curves.adjusted is not None,
    )


def privacy_record(
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


def query_sha256(query: Query) -> str:
    """Return the hash of what was asked."""
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
        "parts": [
            {"what": each.what, "epsilon": str(each.epsilon), "delta": str(each.delta)}
            for each in guarantee.parts or ()
        ],
        "relation": guarantee.relation.value,
        "privacy_unit": guarantee.unit,
        "most_rows_of_a_unit": guarantee.most_rows,
        "statement": guarantee.statement(),
    }


def ledger_entry(release: Release | None) -> dict[str, Any] | None:
    """Return where the custodian's ledger keeps a release; of several sites by site."""
    if isinstance(release, SitesRelease):
        return {name: ledger_entry(answers_in(each)[-1]) for name, each in release.sites}
    return None if release is None or release.entry is None else release.entry.to_dict()


def _site(site: SiteContribution) -> dict[str, Any]:
    facts = {"site": site.site, "status": site.status, "epsilon": str(site.epsilon), "delta": str(site.delta)}
    return facts | {"ledger": [entry.to_dict() for entry in site.entries]}


def accounting_of(kind: str | list[str], releases: Sequence[Release], *, several: bool = False) -> dict[str, Any]:
    """Return what ran, how it adds up, and for whom."""
    return {
        "composition": _AT_SITES + _COMPOSITION if several else _COMPOSITION,
        "mechanism": kind,
        "events": [to_dict(event) | {"text": str(event)} for each in releases for event in charged_events(each)],
    }


def _not_protected(guarantee: Guarantee | None, *, used_public_rows: bool) -> list[str]:
    facts = ["the public rows: they are used without noise"] if used_public_rows else []
    if guarantee is None:
        return facts
    if guarantee.relation is Relation.REPLACE_ONE:
        facts.append(
            "the declared number of people; how many there are, and how many rows, is protected"
            if guarantee.is_of_all_rows
            else "the number of private records: it is public under replace_one"
        )
    return [*facts, *_ALWAYS_PUBLIC]
