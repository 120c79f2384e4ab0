"""The table of guarantees as a page in Markdown."""

import math
from collections.abc import Sequence

from hdpstats.audit.guarantees import LOOKS, REPEATS, Guarantee
from hdpstats.audit.noise_laws import FULL, ExactLaw
from hdpstats.audit.noise_mechanisms import SamplerAudit
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.proof_index import PROOFS


def page(
    rows: Sequence[Guarantee], samplers: Sequence[SamplerAudit], exact: Sequence[ExactLaw] = (), *, about: str
) -> str:
    """Return the table as a page in Markdown."""
    lines = [
        "# The table of guarantees",
        "",
        about,
        "",
        "A row for everything that the package offers: what is asked, of which family of models, under which "
        "relation, and of people with one row or several. **Found** is the largest privacy loss that was found "
        "between neighbouring data sets, **claimed** is what the ledger is charged (epsilon, or mu of normal noise): "
        "found must not be above claimed. **Planted** are mistakes that were put into the same computation on purpose, "
        "and how many of them were caught. A search can refute a claim and cannot prove one; the proof is named in "
        "each row, and so is the noise that is drawn: what is known of it stands [below](#noise-exact-distributions). "
        "[How the searches work, and how to run them yourself](../check-it-yourself.py).",
        "",
        "| what is asked | relation | person | found | claimed | share | planted, caught | noise | proof |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row) for row in rows]
    missed = sorted({name for row in rows for name, caught in row.planted.items() if not caught})
    lines += [""]
    planted, caught = (sum(count(row.planted) for row in rows) for count in (len, lambda found: sum(found.values())))
    words = f"NOT CAUGHT everywhere: {', '.join(missed)}." if missed else "All of them are caught."
    lines += [
        f"{planted} mistakes were planted, and {caught} caught. {words} Leaks show on two pairs of neighbours. Too "
        "little noise shows there where neighbours come near to the sensitivity, and else by the size of what is "
        f"drawn: up to {LOOKS[-1]} runs on one data set, each draw of which is made {REPEATS} times, are compared "
        "with the noise that the claim needs, so that enough noise is taken for too little with a probability of 1e-12 "
        "at each look.",
        "",
        *_exact_part(exact),
    ]
    lines += [
        "## Noise: what draws show",
        "",
        "Lower bounds of epsilon from draws (Clopper-Pearson), at a claimed epsilon of 1 and of 2, and what the last "
        "bits of releases certify at a claim of 1. All bounds hold together with probability 1 - 1e-9. Controls are "
        "broken on purpose and must fail. Normal noise of mu = 1 is judged at the delta that it gives each claim. The "
        "exponential mechanism and noise in an objective are some hundred whole answers to a model of one coefficient, "
        "where a bound of 0 says nothing.",
        "",
        "| noise | bound at 1 | bound at 2 | last bits | |",
        "|---|---|---|---|---|",
    ]
    lines += [_sampler_line(each) for each in samplers]
    return "\n".join(lines) + "\n"


def _exact_part(exact: Sequence[ExactLaw]) -> list[str]:
    planted = [caught for each in exact for caught in each.planted.values()]
    return [
        "## Noise: exact distributions",
        "",
        "In one or two dimensions nothing is left to chance. The code of each sampler is run for all outcomes of its "
        "coins, which gives its distribution as it stands. **Found** is the largest log-ratio of probabilities over "
        "likely outputs, between inputs that one person moves apart; for normal noise delta at an epsilon of 1. "
        "**Off** is the largest difference of a logarithm of a probability from the formula, over outcomes of "
        f"{FULL.outcome:g} and more; {FULL.apart:g} would be told from none. Of the exponential mechanism, run as at a "
        "site, the coins are enumerated at a grid of points, where log-ratios may lie in an interval of the length "
        "claimed. Noise in an objective has a density in closed form, which is searched for the worst neighbours, or "
        "integrated. A coin of each kind, in each module that a sampler is made of, was made wrong on purpose by a "
        f"sixteenth: {len(planted)} mistakes were planted, and {sum(planted)} caught.",
        "",
        "| noise | numbers | found | claimed | off | planted, caught | |",
        "|---|---|---|---|---|---|---|",
        *map(_exact_line, exact),
        "",
    ]


def _exact_line(each: ExactLaw) -> str:
    kind = "delta " if each.is_delta else ""
    ratio = ["" if math.isnan(value) else f"{kind}{value:.6g}" for value in (each.found, each.claimed)]
    off = "density" if math.isnan(each.deviation) else f"{each.deviation:.1g}"
    missed = [name for name, caught in each.planted.items() if not caught]
    planted = f"{len(each.planted)}, {len(each.planted) - len(missed)}" if each.planted else "not planted"
    word = f"**NOT CAUGHT** {', '.join(missed)}" if missed else "holds" if each.holds else "**REFUTED**"
    return f"| {each.name} | {each.dimension} | {ratio[0]} | {ratio[1]} | {off} | {planted} | {word} |"


def _line(row: Guarantee) -> str:
    found, claimed = (
        f"mu {each.mu:.3g}" if row.claimed.mu and not row.claimed.epsilon else f"{each.epsilon:.3g}"
        for each in (row.found, row.claimed)
    )
    person = "several rows" if row.setting.several else "one row"
    planted = f"{len(row.planted)}, {sum(row.planted.values())}" if row.planted else "not planted"
    where = "; ".join(dict.fromkeys(_linked(name) for name in row.mechanisms))
    word = "" if row.holds else " **REFUTED**"
    return (
        f"| {row.case.name} | {row.setting.relation.value} | {person} | {found}{word} | {claimed} | {row.share:.3f} | "
        f"{planted} | {', '.join(row.noises)} | {where} |"
    )


def _linked(name: MechanismName) -> str:
    proof = PROOFS[name]
    page = proof.page or "counts"  # the shortest proofs stand on one page
    return f"[{page}](../explanation/{page}.md)"


def _sampler_line(audit: SamplerAudit) -> str:
    bounds = [f"{max(0.0, audit.bounds[claim]):.2f}" if claim in audit.bounds else "" for claim in (1.0, 2.0)]
    last = "" if math.isnan(audit.last_bits) else f"{audit.last_bits:.2f}"
    word = (
        ("fails, as it must" if not audit.holds else "**NOT CAUGHT**")
        if audit.is_control
        else ("holds" if audit.holds else "**REFUTED**")
    )
    return f"| {audit.name} | {bounds[0]} | {bounds[1]} | {last} | {word} |"
