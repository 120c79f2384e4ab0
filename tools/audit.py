"""Write the table of guarantees: ``make audit``, or ``python -m tools.audit 4`` with four processes.

It takes about four CPU minutes, as the page says. What was found is kept in ``.audit`` by the code that found it: one
that was interrupted goes on.

Exit code 1 where a claim is refuted, or a control or a planted mistake is not caught.
"""

import dataclasses
import datetime
import hashlib
import json
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
from hdpstats.audit.guarantees import Claim, Guarantee, checked
from hdpstats.audit.noise_laws import ExactLaw, exact_laws
from hdpstats.audit.noise_mechanisms import SamplerAudit, fit_audits, normal_audit, sampler_audits
from hdpstats.audit.page import page
from hdpstats.privacy.budget import MechanismName

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "vignettes" / "validation" / "guarantees.md"
KEPT = ROOT / ".audit"
"""What was found, by the code that found it: an audit that was interrupted goes on, and unchanged code is not run."""
FIELDS = ("mechanisms", "found", "claimed", "differences", "planted", "noises")
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
    fields = None if row is None else {name: getattr(row, name) for name in FIELDS}
    return fields, time.process_time() - begun


def noise_of(part):
    """Return one part of what is known of noise, and its seconds of work."""
    begun = time.process_time()
    parts = {
        "exact": exact_laws,
        "draws": lambda: sampler_audits(laplace=laplace),
        "normal": lambda: [normal_audit()],
        "fits": fit_audits,
    }
    return list(parts[part]()), time.process_time() - begun


def at_work(work):
    """Do a piece of work in a process of a pool, or take what was kept of it."""
    function, place = work
    file = KEPT / f"{function.__name__}-{'-'.join(map(str, place if isinstance(place, tuple) else (place,)))}.json"
    file = file.with_name(f"{CODE[function]}-{file.name}")
    if file.exists():
        return read(file.read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HdpWarning)
        done = function(place)
    KEPT.mkdir(exist_ok=True)
    file.write_text(written(done), encoding="utf-8")
    return done


def sources(*others):
    """Return a hash of the package's code but for some modules of the audit, and of what runs it."""
    digest = hashlib.sha256(f"{platform.python_version()} {np.__version__}".encode())
    for path in sorted((ROOT / "hdpstats").rglob("*.py")):
        if path.parent.name != "audit" or path.name not in {*others, "page.py", "qualification.py"}:
            digest.update(f"{path.relative_to(ROOT)}".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


CODE = {row_of: sources("laws.py", "noise_laws.py", "noise_mechanisms.py"), noise_of: sources()}
"""The code of each piece of work, as it is when the audit begins."""


def written(done):
    """Return JSON of what a piece of work returned."""

    def plain(value):
        if dataclasses.is_dataclass(value):
            return {"": type(value).__name__} | {
                each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)
            }
        if isinstance(value, MechanismName):
            return {"": "MechanismName", "value": value.value}
        if isinstance(value, dict):
            return {"": "dict", "items": [[key, plain(each)] for key, each in value.items()]}
        return [plain(each) for each in value] if isinstance(value, list | tuple) else value

    return json.dumps(plain(done))


def read(text):
    """Return what was written."""
    kinds = {each.__name__: each for each in (Claim, ExactLaw, SamplerAudit)}

    def whole(value):
        if isinstance(value, list):
            return tuple(map(whole, value))
        if not isinstance(value, dict):
            return value
        kind = value.pop("")
        if kind == "dict":
            return {key: whole(each) for key, each in value["items"]}
        if kind == "MechanismName":
            return MechanismName(value["value"])
        return kinds[kind](**{name: whole(each) for name, each in value.items()})

    return whole(json.loads(text))


def main():
    """Run every search and write the page."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    places = [(case, setting) for case in range(len(CASES)) for setting in range(len(SETTINGS))]
    rows, exact, samplers, seconds = [], [], [], 0.0
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        works = [(row_of, place) for place in places]
        works += [(noise_of, part) for part in ("exact", "draws", "normal", "fits")]
        for (function, place), (found, taken) in zip(works, pool.imap(at_work, works), strict=True):
            seconds += taken
            if function is noise_of:
                (exact if place == "exact" else samplers).extend(found)
                print(*found, sep="\n", flush=True)
            elif found is not None:
                row = Guarantee(case=CASES[place[0]], setting=SETTINGS[place[1]], **found)
                rows.append(row)
                missed = ", ".join(name for name, caught in row.planted.items() if not caught)
                print(
                    f"{row.case.name}, {row.setting}: {row.share:.3f}{missed and '; NOT CAUGHT: '}{missed}", flush=True
                )
    PAGE.write_text(page(rows, samplers, exact, about=about(seconds / 60, rows)), encoding="utf-8")
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
