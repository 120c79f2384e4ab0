"""Write the table of guarantees: ``make audit``. Takes some minutes of one core, as the page says.

Exit code 1 where a claim is refuted, or a control or a planted mistake is not caught.
"""

import datetime
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import hdpstats
from hdpstats._base.errors import HdpWarning
from hdpstats.audit.guarantees import guarantees, normal_audit, page, sampler_audits

PAGE = Path(__file__).parents[1] / "vignettes" / "validation" / "guarantees.md"


def laplace(query, count):
    """Return the query plus numpy's Laplace noise of scale 1: what must fail."""
    return query + np.random.default_rng([count, int(query)]).laplace(0.0, 1.0, count)  # noqa: TID251


def main():
    """Run every search and write the page."""
    warnings.simplefilter("ignore", HdpWarning)
    begun = time.process_time()
    rows = []
    for row in guarantees():
        rows.append(row)
        missed = ", ".join(name for name, caught in row.planted.items() if not caught)
        print(f"{row.case.name}, {row.setting}: {row.share:.3f}{missed and '; NOT CAUGHT: '}{missed}", flush=True)
    samplers = [*sampler_audits(laplace=laplace), normal_audit()]
    minutes = (time.process_time() - begun) / 60
    today = datetime.datetime.now(datetime.UTC).date()
    about = (
        f"hdpstats {hdpstats.__version__}, {today}, written by `make audit` in {minutes:.1f} minutes of one core. "
        f"{len(rows)} rows."
    )
    PAGE.write_text(page(rows, samplers, about=about), encoding="utf-8")
    wrong = [f"{row.case.name}, {row.setting}" for row in rows if not (row.holds and all(row.planted.values()))]
    wrong += [each.name for each in samplers if each.holds == each.is_control]
    print(f"{PAGE} written; {len(rows)} rows; wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
