"""R's discrete hazard on a million person-period rows: `r_bridge.reference.hazard_glm` beside a dense `glm`.

From the project's root: ``python -m benchmarks.reference_fits``. Every fit has a process of its own with one thread.
The dense fit, whose memory and time grow with the square of the intervals, runs where it ends soon. The page is printed
and written to ``benchmarks/results/reference_fits.md``.
"""

import argparse
import json
import os
import subprocess
from typing import Any

import numpy as np

from benchmarks.logistic import ONE_THREAD, OWN_PYTHON, ROOT, machine
from benchmarks.pages import keep

RESULTS = ROOT / "benchmarks" / "results" / "reference_fits.md"


def run(how: str, intervals: int, link: str) -> dict[str, Any]:
    """Fit once in a process of its own."""
    done = subprocess.run(  # noqa: S603  (a program of this project)
        [OWN_PYTHON, "-m", "benchmarks.workers.reference_fits", how, str(intervals), link],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, "RPY2_CFFI_MODE": "ABI"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record | {"how": how, "intervals": intervals, "link": link}


def apart(a: dict[str, Any], b: dict[str, Any]) -> tuple[float, float]:
    """Return the largest differences of finite coefficients, and of their standard errors relative to them."""
    found = []
    for name in ("estimates", "std_errors"):
        x, y = np.array(a[name], dtype=float), np.array(b[name], dtype=float)
        known = np.isfinite(np.array(a["std_errors"], dtype=float))
        gaps = np.abs(x - y)[known]
        found.append(float(np.max(gaps if name == "estimates" else gaps / y[known])))
    return found[0], found[1]


def report(records: list[dict[str, Any]]) -> str:
    """Return the page that is printed and written."""
    lines = [
        "# R's discrete hazards on person-period rows",
        "",
        "flchain: 7871 people with follow-up, age, sex, kappa, lambda and flc.grp, one coefficient per interval.",
        "Wall-clock seconds of one fit from the data frame in Python to the table in Python, one thread; peak memory",
        "of the process, of which Python, pandas and R with its packages had the part in brackets before.",
        "",
        "| fit | intervals | link | person-period rows | seconds | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    names = {"sparse": "`reference.hazard_glm`", "dense": "`glm`, dense"}
    lines += [
        f"| {names[each['how']]} | {each['intervals']} | {each['link']} | {each['rows']:,} "
        f"| {each['seconds']:.1f} | {each['peak_mb']:.0f} MB ({each['before_mb']:.0f}) |"
        for each in records
    ]
    lines.append("")
    dense = {(each["intervals"], each["link"]): each for each in records if each["how"] == "dense"}
    for each in records:
        other = dense.get((each["intervals"], each["link"]))
        if each["how"] == "sparse" and other is not None:
            values, errors = apart(each, other)
            lines.append(
                f"{each['intervals']} intervals, {each['link']}: coefficients of the two differ by at most "
                f"{values:.0e}, standard errors by a share of {errors:.0e} (`glm` has them from its last step but one)."
            )
    versions = ", ".join(f"{package} {number}" for package, number in sorted(records[0]["versions"].items()))
    return "\n".join([*lines, "", f"Machine: {machine()}.", "", f"Versions: {versions}."]) + "\n"


def main() -> None:
    """Read the command line, run, print and write the page."""
    parser = argparse.ArgumentParser(description="Time and weigh R's discrete hazards on person-period rows.")
    parser.add_argument("--dense", type=int, default=20, help="intervals of the dense fit (default: 20)")
    options = parser.parse_args()
    jobs = [("sparse", options.dense, "logit"), ("dense", options.dense, "logit")]
    jobs += [("sparse", 200, link) for link in ("logit", "cloglog", "probit")]
    text = report([run(*job) for job in jobs])
    keep(text, RESULTS)


if __name__ == "__main__":
    main()
