"""No computation takes longer than its count of operations says; ``make validate`` for all, with a page."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import hdpstats.api as hdp
from hdpstats._base.compiled import one_thread
from hdpstats.custodian.prices import measured, predicted
from hdpstats.custodian.settings import Timing
from tests.questions import questions

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "predicted-times.md"
ROWS = (300, 3000, 30_000)
ONCE, LONGEST = 30.0, 450.0
"""Seconds: what is predicted to take longer is computed once only, or not at all."""
QUICK = (
    "logit of functions",
    "logit of splines",
    "multinomial",
    "poisson",
    "one round",
    "hazard of causes",
    "hazard of a wide spline",
    "hazard with entry",
    "description of groups",
    "histogram",
    "hybrid weights",
    "importance weights",
    "curve of levels",
    "choice by loss",
    "hazard of several rows",
    "logistic of several rows",
    "sampling of one",
    "statistics",
    "blocks",
    "distance",
)


def taken(site, query, *, times=2, enough=0.0):
    """Return the shortest of some times of the processor that a computation takes on costly rows, all loops in full.

    None is measured again where one is short enough.
    """
    run = site.rehearsal(query, rows=site.records * site.terms.most_rows)
    found = []
    with one_thread():
        for _ in range(times):
            begun = time.process_time()
            run()
            found.append(time.process_time() - begun)
            if found[-1] <= enough:
                break
    return min(found)


@pytest.mark.parametrize("names", [QUICK[::4], pytest.param(QUICK, marks=pytest.mark.wide)], ids=["a fourth", "all"])
def test_slots_of_the_default_factor_are_long_enough(names):
    """Times of the processor depend little on other processes; predictions are about three times the true ones."""
    factor = Timing().factor
    found = {}
    for name, site, query in questions(600, names):
        said = factor * predicted(site.work(query), measured())
        found[name] = taken(site, query, times=3, enough=said) / said
    assert found.keys() == set(names)
    assert {name: share for name, share in found.items() if share > 1.0} == {}


@pytest.mark.validate
def test_predictions_hold_for_all_questions_and_numbers_of_rows():
    rows, late = [], {}
    for number in ROWS:
        for name, site, query in questions(number):
            said = predicted(site.work(query), measured())
            if said > LONGEST:
                rows.append(f"| {name} | {number:,} | {said:.0f} | | |")
                continue
            true = taken(site, query, times=1 if said > ONCE else 3)
            rows.append(f"| {name} | {number:,} | {said:.3g} | {true:.3g} | {said / max(true, 1e-4):.1f} |")
            if true > said:
                late[name, number] = true / said
    prices = ", ".join(f"{kind} {1e9 * price:.2g}" for kind, price in measured().items())
    lines = [
        "# Predicted times of answers",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`; {os.cpu_count()} "
        f"cores, load {os.getloadavg()[0]:.1f} at the end.",
        "",
        "A service predicts what an answer takes from a count of the operations that it may need at most, and from the "
        "nanoseconds that an operation of each kind takes on the machine, measured once at its start (here: "
        f"{prices}). *Predicted* seconds are before the factor of `timing` and the grid. *True* seconds are "
        "those of the processor for the same computation on rows that are as costly as any, with every loop at its "
        f"full length, the shortest of three times; where more than {ONCE:g} s are predicted there is one, and above "
        f"{LONGEST:g} s none. Sampling makes few proposals here, each of which is as much work as others. The study "
        "fails where a computation takes longer than predicted.",
        "",
        "| question | rows | predicted | true | ratio |",
        "| --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]
    PAGE.write_text("\n".join(lines), encoding="utf-8")
    assert late == {}
