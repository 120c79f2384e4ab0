"""A round of three sites over HTTPS beside the same round in one process: what the service costs.

From the project's root: ``python -m benchmarks.service``. Three sites listen on loopback, each with its process, rows,
certificate and ledger on disk; the asker keeps a connection to each and asks all at once from three threads. The page
is printed and written to ``benchmarks/results/service.md``.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import hdpstats.api as hdp
from benchmarks.logistic import ROOT, machine
from hdpstats.queries import HistogramQuery
from hdpstats.queries.histogram import Axis
from tests.custodian.institution import Institution, Running
from tests.custodian.people import SCHEMA, people

RESULTS = ROOT / "benchmarks" / "results" / "service.md"
SITES = ("A", "B", "C")
RECORDS = 10_000


def query(replicate: int) -> HistogramQuery:
    """Return a cheap query, so that what is around it shows."""
    axes = (Axis(name="g", levels=3), Axis(name="y", cuts=(0.5,)))
    return HistogramQuery(axes=axes, epsilon=Fraction(1, 10**5), schema_sha256=SCHEMA.sha256, replicate=replicate)


@dataclass(frozen=True)
class Spent:
    """Milliseconds of each call, and of processors per call in the asker's process and those of the sites."""

    elapsed: list[float]
    busy: float


def timed(work: Callable[[int], object], numbers: range, sites: Iterable[Running] = ()) -> Spent:
    """Call with each number."""
    elapsed, before = [], time.process_time() + sum(map(busy, sites))
    for number in numbers:
        start = time.perf_counter()
        work(number)
        elapsed.append(1000 * (time.perf_counter() - start))
    return Spent(elapsed, 1000 * (time.process_time() + sum(map(busy, sites)) - before) / max(len(numbers), 1))


def busy(running: Running) -> float:
    """Return the seconds of processors that a site's process has had."""
    fields = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(running: Running) -> float:
    """Return the resident size of a site's process in MB."""
    text = Path(f"/proc/{running.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def row(name: str, spent: Spent) -> str:
    """Return a row of the table."""
    lowest, middle, highest = (statistics.quantiles(spent.elapsed, n=20)[place] for place in (0, 9, 18))
    return f"| {name} | {lowest:.1f} | {middle:.1f} | {highest:.1f} | {spent.busy:.1f} |"


def report(folder: Path, rounds: int, replays: int) -> str:
    """Measure, and return the page."""
    frames = {name: people(RECORDS, seed=place) for place, name in enumerate(SITES)}
    institution = Institution(folder)
    try:
        up = {name: institution.launch(institution.write(name, frames[name], SCHEMA)) for name in SITES}
        for running in up.values():
            institution.wait(running)
        remote = [institution.connect(running) for running in up.values()]
        local = [
            hdp.LocalSite(
                frames[name],
                schema=SCHEMA,
                ledger=hdp.Ledger(folder / f"{name}.db", dataset="trial", epsilon=1000, delta=1e-3),
            )
            for name in SITES
        ]
        with ThreadPoolExecutor(len(SITES)) as pool:

            def far(number: int) -> object:
                return list(pool.map(lambda site: site.answer(query(number)), remote))

            def near(number: int) -> object:
                return [site.answer(query(number)) for site in local]

            sites = list(up.values())
            timed(far, range(10**6, 10**6 + 20))
            timed(near, range(10**6, 10**6 + 20))
            numbers = range(1, rounds + 1)
            spent = {
                "three sites over HTTPS, at once": timed(far, numbers, sites),
                "three sites in this process, one after the other": timed(near, numbers),
                "over HTTPS, answered before": timed(far, numbers, sites),
                "in this process, answered before": timed(near, numbers),
            }
            before = [resident(running) for running in sites]
            timed(lambda number: far(number % rounds + 1), range(replays))
            growth = max(now - then for now, then in zip(map(resident, sites), before, strict=True))
        for site in remote:
            site.close()
    finally:
        institution.close()
    beyond = spent["over HTTPS, answered before"].busy - spent["in this process, answered before"].busy
    return "\n".join(
        [
            "# A round of three sites over HTTPS",
            "",
            f"{RECORDS} rows a site, a histogram of 6 cells each, TLS 1.3 with client certificates, tokens, ledgers in",
            f"SQLite; {rounds} rounds; milliseconds. `processors`: time of all processors in all processes per round,",
            "which other work on the machine does not lengthen.",
            "",
            "| round | 5% | median | 95% | processors |",
            "|---|---|---|---|---|",
            *(row(name, each) for name, each in spent.items()),
            "",
            "A round that was answered before reads the ledger and computes nothing: what it takes over HTTPS beyond",
            f"the same in one process is the service, {beyond:.1f} ms of processors for three sites together.",
            f"{replays} further rounds: memory of a site's process grows by at most {growth:.1f} MB.",
            "",
            f"{machine()}; load {os.getloadavg()[0]:.0f} while measuring.",
            "",
        ]
    )


def main() -> None:
    """Measure, print and write."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=200)
    arguments.add_argument("--replays", type=int, default=10_000)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = report(Path(folder), chosen.rounds, chosen.replays)
    sys.stdout.write(page)
    RESULTS.write_text(page)


if __name__ == "__main__":
    main()
