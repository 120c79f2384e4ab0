"""The summary of a result, in the shape of statsmodels'."""

from collections.abc import Sequence

import numpy as np
from statsmodels.iolib.table import SimpleTable

from hdpstats.display import EscapedSummary, number, p_value, pairs, percent, summary, table
from hdpstats.inference.estimate import Estimate
from hdpstats.privacy.budget import decimal
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.queries import Release
from hdpstats.results.facts import ModelFacts

NO_PRIVATE_RECORD = "No private record was used"
_HEAD_SHOWN = 12


def summarise(
    *,
    facts: ModelFacts,
    estimate: Estimate,
    parts: Sequence[Estimate],
    release: Release | None,
    guarantee: Guarantee | None,
    alpha: float,
) -> EscapedSummary:
    """Return the summary: the model, the coefficients, the estimates side by side, the privacy block, notes.

    Parameters
    ----------
    facts, estimate, release, guarantee
        See `hdpstats.results.Result`.
    parts : sequence of Estimate
        The estimates to show side by side; fewer than two are not shown.
    alpha : float
        One minus the level of the intervals, in [0.001, 0.999].
    """
    tables = [_top(facts, estimate), pairs(_words(facts)), _coefficients(estimate, alpha)]
    if len(parts) > 1:
        tables.append(_side_by_side(parts))
    tables.append(pairs(privacy_rows(estimate, release, guarantee)))
    kind = "fitted to public rows" if guarantee is None else "differentially private"
    return summary(f"{facts.model} results, {kind}", tables, _notes(estimate, parts))


def privacy_rows(estimate: Estimate, release: Release | None, guarantee: Guarantee | None) -> list[tuple[str, str]]:
    """Return the privacy block as names and values."""
    if guarantee is None:
        return [("Privacy:", f"{NO_PRIVATE_RECORD}: this fit cost nothing.")]
    rows = [
        ("Guarantee:", str(guarantee)),
        ("Relation:", f"{guarantee.relation.value}: {guarantee.relation.sentence}"),
        ("Protected unit:", f"one {guarantee.unit}"),
    ]
    if release is not None:
        events = [f"epsilon = {decimal(event.epsilon)}: {event.ran.value}" for event in release.events]
        rows += [("Mechanisms:" if k == 0 else "", event) for k, event in enumerate(events)]
        if release.entry is not None:
            entry = release.entry
            where = f"data set {entry.dataset!r}, version {entry.version}, entry {entry.number}"
            rows.append(("Ledger entry:", f"{where}, head {entry.head[:_HEAD_SHOWN]}"))
    share = _noise_share(estimate)
    return [*rows, ("Noise share:", share)] if share else rows


def _noise_share(estimate: Estimate) -> str:
    """Return which part of the coefficients' variances is due to privacy noise, in words."""
    privacy, sampling = np.diag(estimate.privacy), np.diag(estimate.sampling)
    known = np.isfinite(privacy + sampling) & (privacy + sampling > 0)
    if not known.any():
        return ""
    shares = privacy[known] / (privacy + sampling)[known]
    low, high = percent(float(shares.min())), percent(float(shares.max()))
    return f"{low if low == high else f'{low} to {high}'} of the variance of a coefficient is due to privacy noise"


def _top(facts: ModelFacts, estimate: Estimate) -> SimpleTable:
    def count(value: int | None) -> str:
        return "none" if value is None else str(value)

    rows = [
        [facts.response, "No. private records:", count(facts.records)],
        [facts.model, "No. public rows:", count(facts.public_rows)],
    ]
    if facts.weights is not None or facts.offset is not None:
        rows.append([facts.weights or "none", "Offset:", facts.offset or "none"])
    stubs = ["Dep. Variable:", "Model:", "Weights:"][: len(rows)]
    rows.append([estimate.label, "No. coefficients:", str(len(estimate.terms))])
    return table(rows, stubs=[*stubs, "Estimate:"], aligns="llr")


def _words(facts: ModelFacts) -> list[tuple[str, str]]:
    return [("Method:", facts.method), ("Formula:", facts.formula)]


def _coefficients(estimate: Estimate, alpha: float) -> SimpleTable:
    limits = estimate.conf_int(alpha).to_numpy()
    columns = zip(estimate.values, estimate.bse, estimate.zvalues, estimate.pvalues, limits, strict=True)
    rows = [
        [number(b), number(se, 3), number(z, 3), p_value(p), number(low, 3), number(high, 3)]
        for b, se, z, p, (low, high) in columns
    ]
    headers = ["coef", "std err", "z", "P>|z|", f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]"]
    return table(rows, headers=headers, stubs=estimate.terms)


def _side_by_side(parts: Sequence[Estimate]) -> SimpleTable:
    """Return coefficients with standard errors, one column per estimate."""
    rows = [
        [
            f"{number(float(part.values[place]))} ({number(float(error), 3)})"
            for part, error in ((part, part.bse.iloc[place]) for part in parts)
        ]
        for place in range(len(parts[0].terms))
    ]
    return table(rows, headers=[part.label for part in parts], stubs=parts[0].terms)


def _notes(estimate: Estimate, parts: Sequence[Estimate]) -> list[str]:
    notes: list[str] = []
    if len(parts) > 1:
        notes.append("Estimates side by side: coefficient (standard error).")
    if estimate.law is not None:
        notes.append("Intervals and p-values allow for privacy noise, whose tails are heavier than the normal law's.")
    if estimate.note is not None:
        notes.append(" ".join(estimate.note.split()))
    return notes
