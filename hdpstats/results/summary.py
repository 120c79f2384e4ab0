"""The report of a result, and the blocks that it shares with those of other kinds: coefficients, guarantees."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hdpstats.display import (
    Block,
    Form,
    Report,
    columns,
    named_values,
    number,
    p_equals,
    p_value,
    percent,
    table,
)
from hdpstats.losses import LINKS
from hdpstats.privacy.budget import Guarantee, PrivacyEvent, Spend, decimal, total
from hdpstats.public.follow_up import PublicCheck
from hdpstats.records import recipe
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import LedgerEntry, Release
from hdpstats.records.several import answers_in
from hdpstats.results.facts import HazardFacts, ModelFacts, covariates, readable_order
from hdpstats.results.labels import coefficient_labels
from hdpstats.results.sites import (
    Counts,
    Released,
    charged_releases,
    counts_in,
    described_rows,
    people,
    site_rows,
    sites_block,
    stored_rows,
)
from hdpstats.schema.synthetic import INVENTED_NOTE

if TYPE_CHECKING:
    from hdpstats.results.result import Result

NO_PRIVATE_RECORD = "No private record was used"
_HEAD_SHOWN = 12
_BASELINE_SHOWN = 12
_IN_TABLE = ("Mechanisms:", "Ledger entry:")
"""What a page has in a table of its own."""
_LEGEND = "Estimates side by side: coefficient (standard error)."
WEIGHTED = (
    "Coefficients are those among people whose treatment was in doubt (overlap weights). Standard errors are by the "
    "equations of both models stacked: they count the estimation of the propensity model, and its noise."
)
_WELL_KNOWN = 5.0
"""A number that is smaller, in standard deviations of its noise, is hardly known."""


def report_of(result: "Result", alpha: float) -> Report:
    """Return the report: the model, the coefficients, the estimates side by side, the privacy block, checks, notes.

    Fewer than two estimates are not shown side by side; ``alpha`` is one minus the level of the intervals. A page
    begins with what matters first, and has the sites as a table and the guarantee in full.
    """
    facts, estimate, parts, check = result.facts, result.estimate, parts_of(result), result.public_check
    places = shown_places(facts, estimate)
    names = coefficient_labels(result)
    shown = [names[place] for place in places]
    blocks = [
        _top(facts, estimate, result.count),
        named_values([*_words_of(facts), *adjusted_rows(result.released)], only="text"),
        named_values([*_model_rows(facts, estimate, result.count), *adjusted_rows(result.released)], only="page"),
        coefficients(estimate, places, alpha, labels=shown),
    ]
    if len(parts) > 1:
        labels = [part.label for part in parts]
        terms = [estimate.terms[place] for place in places]
        cells = [[number for pair in row for number in pair] for row in _pairs(parts, places)]
        headers = [header for label in labels for header in (label, "std err")]
        blocks.append(columns(labels, terms, side_by_side(parts, places), only="text"))
        blocks.append(columns(headers, terms, cells, title="Estimates side by side", only="page", labels=shown))
    sites = result.site_facts if len(result.site_facts) > 1 else ()
    disagreement = result.disagreement
    agreement = [] if disagreement is None else [("Private vs public:", disagreement.words)]
    if sites:
        words = [*_privacy_rows(estimate, result.released, site_rows(sites)), *weights_rows(result), *agreement]
        blocks += [sites_block(sites), named_values(words, only="text")]
    elif result.guarantee is None:
        blocks.append(named_values(_privacy_rows(estimate, result.released), title="Privacy"))
    privacy = [*_privacy_rows(estimate, result.released), *weights_rows(result), *agreement]
    if result.guarantee is not None:
        own, before = charged_releases(result.released), result.released.before
        blocks += privacy_blocks(privacy, result.guarantee, own, before, only="page" if sites else None)
    if check is not None:
        blocks.append(named_values(_check_rows(facts, check), title="Checked on public rows"))
    kind = "fitted to public rows" if result.guarantee is None else "differentially private"
    return Report(
        title=f"{facts.model} results, {kind}",
        heading=f"{facts.model} results",
        blocks=blocks,
        notes=_warnings_of(result),
        asides=_explanations_of(result, len(places)),
        legend=[_LEGEND] if len(parts) > 1 else [],
        badges=guarantee_badges(result.guarantee),
        ending=guarantee_details(result.guarantee),
    )


def rows_of(result: "Result") -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[str]]:
    """Return the report without its coefficients: the model and the privacy as names and values, and the notes."""
    sites = result.site_facts if len(result.site_facts) > 1 else ()
    model = [*_model_rows(result.facts, result.estimate, result.count), *adjusted_rows(result.released)]
    privacy = _privacy_rows(result.estimate, result.released, site_rows(sites))
    check = [] if result.public_check is None else _check_rows(result.facts, result.public_check)
    words = [*_warnings_of(result), *_explanations_of(result, len(result.estimate.terms))]
    return model, [*privacy, *weights_rows(result), *check], words


def parts_of(result: "Result") -> list[Estimate]:
    """Return the estimates to show side by side."""
    return [part for part in (result.public_only, result.private_only, result.pooled) if part is not None]


def guarantee_badges(guarantee: Guarantee | None) -> list[str]:
    """Return what a release cost and under which relation, as badges."""
    if guarantee is None:
        return ["public rows only"]
    delta = "pure" if guarantee.delta == 0 else f"delta = {decimal(guarantee.delta)}"
    return [f"epsilon = {decimal(guarantee.epsilon)}", delta, guarantee.relation.value]


def guarantee_details(guarantee: Guarantee | None) -> tuple[str, str]:
    """Return a title and the guarantee in plain words."""
    return "What this guarantees", f"{NO_PRIVATE_RECORD}." if guarantee is None else guarantee.statement()


def _privacy_rows(
    estimate: Estimate, released: Released, sites: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    """Return the privacy block as names and values, with what each of several sites contributed."""
    if released.guarantee is None:
        return [("Privacy:", f"{NO_PRIVATE_RECORD}: this fit cost nothing.")]
    rows = guarantee_rows(released.guarantee, charged_releases(released), released.before)
    number = 1 if released.query is None else released.query.recipe or 1
    if number != recipe.CURRENT:
        rows.append(("Recipe:", f"{number} of queries; this version's is {recipe.CURRENT}"))
    rows += described_rows(released)
    rows += sites
    if released.heterogeneity is not None:
        agreement = released.heterogeneity.overall
        words = f"Cochran's Q {agreement.statistic:.3g} on {agreement.df} degrees of freedom, "
        rows.append(("Sites differ?", f"{words}{p_equals(agreement.pvalue)}; I2 {percent(agreement.i2)}"))
    share = _noise_share(estimate)
    return [*rows, ("Noise share:", share)] if share else rows


def weights_rows(result: "Result") -> list[tuple[str, str]]:
    """Return what weights of people take away and what is allowed for it, as a name and a value."""
    words = weights_words(result)
    clipped = result.facts.row_weights is not None and result.facts.row_weights.clipped
    return [] if words is None else [("Clipped scores:" if clipped else "Row weights:", words)]


def weights_words(result: "Result") -> str | None:
    """Return the same in words; None where nobody is weighted by public rows."""
    weights, private = result.facts.row_weights, result.private_only
    if weights is None or private is None:
        return None
    ratios = np.array(weights.allowance) / private.bse.to_numpy()
    largest = float(np.max(ratios, initial=0.0, where=np.isfinite(ratios)))
    share = f"{percent(max(weights.share, 0.0))} of the information"
    return f"take {share}; allowance up to {largest:.2g} of a private-only standard error"


def guarantee_rows(
    guarantee: Guarantee, given: Sequence[Release], before: Sequence[Release] = ()
) -> list[tuple[str, str]]:
    """Return what releases guarantee together, what ran, and where the ledger keeps them, as names and values.

    ``before`` are those that were charged before, on which what was asked now rests.
    """
    own = [each for whole in given for each in answers_in(whole)]
    releases = [*before, *own]
    rows = [
        *stored_rows([each.entry for each in own if each.entry is not None]),
        ("Guarantee:", str(guarantee)),
        ("Relation:", f"{guarantee.relation.value}: {guarantee.neighbours}"),
        ("Protected unit:", guarantee.protected),
    ]
    events = Counter(f"{event.amount}: {event.ran.words}" for each in releases for event in each.events)
    texts = list(events.elements()) if guarantee.sites == 1 else [_times(text, k) for text, k in events.items()]
    rows += [("Mechanisms:" if k == 0 else "", text) for k, text in enumerate(texts)]
    places = [(each.entry, total(each.events)) for each in releases if each.entry is not None]
    return rows + [("" if k else "Ledger entry:", _kept(entry, cost)) for k, (entry, cost) in enumerate(places)]


def privacy_blocks(
    rows: Sequence[tuple[str, str]],
    guarantee: Guarantee,
    given: Sequence[Release],
    before: Sequence[Release] = (),
    *,
    only: Form | None = None,
) -> list[Block]:
    """Return the privacy block: as text names and values, on a page those and a table of what ran at which cost.

    ``rows`` begin with those of `guarantee_rows` for the same releases.
    """
    kept = [name not in _IN_TABLE for name, _ in rows]
    for place in range(1, len(rows)):
        kept[place] = kept[place - 1] if not rows[place][0] else kept[place]
    shown = [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]
    text = [] if only == "page" else [named_values(rows, only="text")]
    return [*text, named_values(shown, title="Privacy", only="page"), _mechanisms(guarantee, given, before)]


def _mechanisms(guarantee: Guarantee, given: Sequence[Release], before: Sequence[Release]) -> Block:
    """Return what ran, at which cost, and where the ledger keeps it: a row each, those of several sites together."""
    several = guarantee.sites > 1
    ran = Counter(
        (event.ran.words, _rounded(event), "" if several or each.entry is None else _place(each.entry))
        for whole in (*before, *given)
        for each in answers_in(whole)
        for event in each.events
    )
    repeated = max(ran.values(), default=1) > 1
    headers = [*(["times"] if repeated else []), *([] if several else ["ledger entry"]), "mechanism"]
    rows = [
        [*([str(times)] if repeated else []), *([] if several else [entry]), words]
        for (words, _, entry), times in ran.items()
    ]
    return columns(headers, [amount for _, amount, _ in ran], rows, title="Mechanisms", aligns="l", only="page")


def _rounded(event: PrivacyEvent) -> str:
    """Return what an event costs, for a cell of a table: six digits, where the text and the ledger have all."""
    if event.mu_squared:
        return event.amount
    return f"epsilon\N{NO-BREAK SPACE}{float(event.epsilon):.6g}" + (
        f", delta\N{NO-BREAK SPACE}{float(event.delta):.3g}" if event.delta else ""
    )


def _place(entry: LedgerEntry) -> str:
    """Return where a ledger keeps a release, for a cell of a table."""
    again = f", charged {entry.attempt} times" if entry.attempt > 1 else ""
    return f"{entry.dataset}\N{NO-BREAK SPACE}{entry.version}, no.\N{NO-BREAK SPACE}{entry.number}{again}"


def _kept(entry: LedgerEntry, cost: Spend) -> str:
    """Return where a ledger keeps a release, and what was charged for it where that is not what it cost."""
    words = f"data set {entry.dataset!r}, version {entry.version}, entry {entry.number}"
    words += f", charged {entry.charged}" if entry.charged is not None and entry.charged != cost else ""
    words += f", charged {entry.attempt} times" if entry.attempt > 1 else ""
    return f"{words}, head {entry.head[:_HEAD_SHOWN]}"


def _times(text: str, times: int) -> str:
    return text if times == 1 else f"{text}, {times} times in all"


def _check_rows(facts: ModelFacts, check: PublicCheck) -> list[tuple[str, str]]:
    """Return what public rows say about a survival model, as names and values."""
    unit = f" {facts.hazard.unit_of_time}" if facts.hazard is not None and facts.hazard.unit_of_time else ""
    several = len(check.causes) > 1
    rows = [("Checked on:", f"{check.rows} public rows, which took part in the fit")]
    integrated = check.integrated()
    for cause, concordance in zip(check.causes, check.concordance, strict=True):
        of = f" ({cause})" if several else ""
        rows.append((f"Concordance{of}:", f"{concordance.value:.3f} (standard error {concordance.std_error:.3f})"))
        score = integrated.loc[cause].to_dict()
        if np.isfinite(score["brier"]):
            words = (
                f"{score['brier']:.3f} on average up to {score['until']:.6g}{unit}; "
                f"{score['reference']:.3f} without covariates"
            )
            rows.append((f"Brier score{of}:", words))
    return rows


def _noise_share(estimate: Estimate) -> str:
    """Return which part of the coefficients' variances is due to privacy noise, in words."""
    privacy, sampling = np.diag(estimate.privacy), np.diag(estimate.sampling)
    known = np.isfinite(privacy + sampling) & (privacy + sampling > 0)
    if not known.any():
        return ""
    shares = privacy[known] / (privacy + sampling)[known]
    low, high = (percent(max(float(share), 0.0)) for share in (shares.min(), shares.max()))
    return f"{low if low == high else f'{low} to {high}'} of the variance of a coefficient is due to privacy noise"


def _top(facts: ModelFacts, estimate: Estimate, count: Counts | None) -> Block:
    """Return the first table of the text, with two names and values in a row."""
    private, public = _records_of(facts, count)
    rows = [
        [facts.response, "No. private people:" if facts.by_person else "No. private records:", private],
        [facts.model, "No. public rows:", public],
    ]
    if facts.weights is not None or facts.offset is not None:
        rows.append([facts.weights or "none", "Offset:", facts.offset or "none"])
    stubs = ["Dep. Variable:", "Model:", "Weights:"][: len(rows)]
    rows.append([estimate.label, "No. coefficients:", str(len(estimate.terms))])
    return Block(text=partial(table, rows, stubs=[*stubs, "Estimate:"], aligns="llr"))


def _records_of(facts: ModelFacts, count: Counts | None) -> tuple[str, str]:
    """Return the numbers of private and of public records, as texts."""
    private, public = ("none" if value is None else str(value) for value in (facts.records, facts.public_rows))
    if facts.several_rows is not None and facts.several_rows.public_people is not None:
        public = f"{public} of {facts.several_rows.public_people} people"
    if count is None:
        return noisy_number(private, facts.records_sd, complete=bool(facts.complete_rows)), public
    complete = all(each.columns is not None for each in counts_in(count))
    return noisy_number(private, people(count)[1], complete=complete), public


def noisy_number(people: str, sd: float | None, *, complete: bool) -> str:
    """Return a number of people with the standard deviation of its noise; as it is where it has none."""
    words = "noisy; complete rows" if complete else "noisy"
    return people if sd is None else f"{people} +/- {number(sd, 2)} ({words})"


def _model_rows(facts: ModelFacts, estimate: Estimate, count: Counts | None) -> list[tuple[str, str]]:
    private, public = _records_of(facts, count)
    whose = "Private people:" if facts.by_person else "Private records:"
    rows = [("Estimate:", estimate.label), (whose, private), ("Public rows:", public)]
    own = (("Weights:", facts.weights), ("Offset:", facts.offset))
    return [*_words_of(facts), *rows, *((name, value) for name, value in own if value is not None)]


def adjusted_rows(released: Released) -> list[tuple[str, str]]:
    """Return how people were weighted by their chance of treatment, as names and values; nothing where not."""
    return [] if released.adjustment is None else released.adjustment.head


def _words_of(facts: ModelFacts) -> list[tuple[str, str]]:
    """Return what was fitted how, as names and values."""
    axis = [] if facts.hazard is None else _time_axis(facts.hazard)
    several = []
    if facts.first_row is not None:
        outcome = f"; {facts.averaged_words}" if facts.averaged is not None else ""
        several.append(("Rows of a person:", f"the first complete one of each {facts.first_row}{outcome}"))
    if facts.several_rows is not None:
        several.append(("Rows of a person:", facts.several_rows.words))
        if facts.several_rows.rows is not None:
            rows = noisy_number(f"{facts.several_rows.rows:.0f}", facts.several_rows.rows_sd, complete=True)
            several.append(("Private rows:", rows))
    return [("Method:", facts.method), ("Formula:", facts.formula), *several, *axis]


def _time_axis(hazard: HazardFacts) -> list[tuple[str, str]]:
    """Return what a reader of a hazard model's coefficients must know."""
    unit, names = f" {hazard.unit_of_time}" if hazard.unit_of_time else "", hazard.baseline_names
    rows = [
        ("Link:", f"{hazard.link}: coefficients of covariates are {LINKS[hazard.link].scale}"),
        ("Intervals:", f"{hazard.grid.intervals}, up to {hazard.grid.horizon:.6g}{unit}"),
        ("Baseline:", f"{len(names)} coefficients: {' to '.join(dict.fromkeys((names[0], names[-1])))}"),
    ]
    if len(hazard.causes) > 1:
        rows.append(("Causes:", f"{', '.join(hazard.causes)}, each with its own hazard"))
    return [*rows, ("Cap:", hazard.cap)] if hazard.cap else rows


def shown_places(facts: ModelFacts, estimate: Estimate) -> list[int]:
    """Return the terms to show, covariates first, without a baseline that would fill pages."""
    if facts.hazard is None:
        return list(range(len(estimate.terms)))
    many = len(facts.hazard.baseline_names) > _BASELINE_SHOWN
    return (covariates(facts, estimate) if many else []) or readable_order(facts, estimate)


def coefficients(estimate: Estimate, places: Sequence[int], alpha: float, *, labels: Sequence[str] = ()) -> Block:
    """Return a row per coefficient, in statsmodels' words; a page has the labels of the rows as well."""
    limits = estimate.conf_int(alpha).to_numpy()
    listed = list(zip(estimate.values, estimate.bse, estimate.tvalues, estimate.pvalues, limits, strict=True))
    rows = [
        [number(b), number(se, 3), number(z, 3), p_value(p, estimate.p_floor), number(low, 3), number(high, 3)]
        for b, se, z, p, (low, high) in (listed[place] for place in places)
    ]
    headers = ["coef", "std err", "z", "P>|z|", *limit_headers(alpha)]
    return columns(headers, [estimate.terms[place] for place in places], rows, labels=labels)


def limit_headers(alpha: float) -> list[str]:
    """Return the headers of limits of level ``1 - alpha``."""
    return [f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]"]


def side_by_side(parts: Sequence[Estimate], places: Sequence[int]) -> list[list[str]]:
    """Return a row per coefficient: it and its standard error, a cell per estimate."""
    return [[f"{value} ({error})" for value, error in row] for row in _pairs(parts, places)]


def _pairs(parts: Sequence[Estimate], places: Sequence[int]) -> list[list[tuple[str, str]]]:
    """Return a row per coefficient: it and its standard error, of each estimate."""
    listed = [(part.values.tolist(), part.bse.tolist()) for part in parts]
    return [[(number(values[place]), number(errors[place], 3)) for values, errors in listed] for place in places]


def _warnings_of(result: "Result") -> list[str]:
    """Return what a reader of the coefficients must know."""
    found: list[str] = [INVENTED_NOTE] if result.rests_on_invented_rows else []
    sites = result.site_facts
    facts = result.facts
    records, noise_sd = (facts.records, facts.records_sd) if result.count is None else people(result.count)
    if records is not None and noise_sd is not None and records < _WELL_KNOWN * noise_sd:
        found.append(
            "The number of private records is small against its noise; standard errors rest on it and are rough."
        )
    absent = [site.site for site in sites if site.missing is not None]
    if absent:
        found.append(f"Not all sites answered every round: {', '.join(absent)} did not. The estimate is valid without.")
    missed = None if facts.hazard is None else facts.hazard.missed_courses(max(records or 0, facts.public_rows or 0))
    if missed is not None:
        found.append(missed)
    if result.disagreement is not None and result.disagreement.note is not None:
        found.append(result.disagreement.note)
    if result.estimate.note is not None:
        found.append(" ".join(result.estimate.note.split()))
    private = result.private_only
    if private is not None and (more := _beyond(private.note, result.estimate.note)):
        found.append(f"Private only: {more}")
    return found


def _beyond(note: str | None, shown: str | None) -> str:
    """Return the sentences of a note that are not in another one, which is shown; empty where all are.

    >>> _beyond("Errors are rough. Not estimable: a, b. Merge levels.", "Errors are rough. Merge levels.")
    'Not estimable: a, b.'
    """
    seen = set(_sentences(shown))
    return " ".join(each for each in _sentences(note) if each not in seen)


def _sentences(note: str | None) -> list[str]:
    """Return the sentences of a note, each with its full stop."""
    return [] if note is None else re.split(r"(?<=\.) (?=[A-Z])", " ".join(note.split()))


def _explanations_of(result: "Result", shown: int) -> list[str]:
    """Return how the numbers came about, of coefficients ``shown`` of which are shown."""
    found: list[str] = [] if result.released.adjustment is None else [WEIGHTED]
    if shown < len(result.estimate.terms):
        found.append("The coefficients of the baseline are in tidy(); baseline_hazard() gives the hazards themselves.")
    if result.estimate.distribution is not None:
        found.append(
            "Intervals and p-values allow for privacy noise, whose tails are heavier than the normal distribution's."
        )
    if result.public_only is not None and result.public_only.note is not None:
        found.append(f"Public only: {result.public_only.note}")
    if result.penalised is not None and result.penalised.note is not None:
        found.append(f"Pooled with {result.penalised.note[0].lower()}{result.penalised.note[1:]}")
    return found
