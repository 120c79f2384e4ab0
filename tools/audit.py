"""Write the table of guarantees: ``make audit``, or ``python -m tools.audit 4`` with four processes.

It takes some minutes, as the page says.

Exit code 1 where a claim is refuted, or a control or a planted mistake is not caught.
"""

import datetime
import multiprocessing
import os
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import hdpstats
from hdpstats._base.errors import HdpWarning
from hdpstats.audit.cases import CASES, SETTINGS, offered
from hdpstats.audit.guarantees import Guarantee, checked
from hdpstats.audit.noise_laws import exact_laws
from hdpstats.audit.noise_mechanisms import fit_audits, normal_audit, sampler_audits
from hdpstats.audit.page import page

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "vignettes" / "validation" / "guarantees.md"
KEPT = ("mechanisms", "found", "claimed", "differences", "planted", "noises")
"""The fields of a row that one process hands another: questions are functions, which are not handed on."""


def laplace(query, count):
    """Return the query plus numpy's Laplace noise of scale 1: what must fail."""
    return query + np.random.default_rng([count, int(query)]).laplace(0.0, 1.0, count)  # noqa: TID251


def row_of(place):
    """Return what the row of a case in a setting consists of, None where it is not offered, and its seconds of work."""
    begun, (case, setting) = time.process_time(), place
    question = offered(CASES[case], SETTINGS[setting])
    row = None
    if question is not None:
        row = checked(CASES[case], SETTINGS[setting], question, pairs_of_each=6, plant=True)
    fields = None if row is None else {name: getattr(row, name) for name in KEPT}
    return fields, time.process_time() - begun


def main():
    """Run every search and write the page."""
    warnings.simplefilter("ignore", HdpWarning)
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    rows, seconds = [], 0.0
    places = [(case, setting) for case in range(len(CASES)) for setting in range(len(SETTINGS))]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for (case, setting), (fields, taken) in zip(places, pool.imap(row_of, places), strict=True):
            seconds += taken
            if fields is None:
                continue
            row = Guarantee(case=CASES[case], setting=SETTINGS[setting], **fields)
            rows.append(row)
            missed = ", ".join(name for name, caught in row.planted.items() if not caught)
            print(f"{row.case.name}, {row.setting}: {row.share:.3f}{missed and '; NOT CAUGHT: '}{missed}", flush=True)
    begun = time.process_time()
    exact = []
    for law in exact_laws():
        exact.append(law)
        missed = ", ".join(name for name, caught in law.planted.items() if not caught)
        print(f"{law.name}: {law.found:.6g} of {law.claimed:.6g}{missed and '; NOT CAUGHT: '}{missed}", flush=True)
    samplers = []
    for each in (*sampler_audits(laplace=laplace), normal_audit(), *fit_audits()):
        samplers.append(each)
        print(f"{each.name}: {each.bounds}, last bits {each.last_bits:.2f}", flush=True)
    minutes = (seconds + time.process_time() - begun) / 60
    PAGE.write_text(page(rows, samplers, exact, about=about(minutes, rows)), encoding="utf-8")
    wrong = [f"{row.case.name}, {row.setting}" for row in rows if not (row.holds and all(row.planted.values()))]
    wrong += [each.name for each in samplers if each.holds == each.is_control]
    wrong += [each.name for each in exact if not (each.holds and all(each.planted.values()))]
    print(f"{PAGE} written; {len(rows)} rows; wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


def about(minutes, rows):
    """Say when, where, on which commit and in which time the page was written."""
    today = datetime.datetime.now(datetime.UTC).date()
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return (
        f"hdpstats {hdpstats.__version__}, {today}, commit {commit.stdout.strip() or 'unknown'}, written by "
        f"`make audit` in {minutes:.1f} CPU minutes on {platform.machine()} {platform.system()} with "
        f"{os.cpu_count()} processors, Python {platform.python_version()}, NumPy {np.__version__}. {len(rows)} rows."
    )


if __name__ == "__main__":
    sys.exit(main())
