"""A round of three sites over HTTPS beside the same round in one process: what the service costs.

From the project's root: ``python -m benchmarks.service``. Three sites listen on loopback, each with its process, rows,
certificate and ledger on disk; the asker keeps a connection to each and asks all at once from three threads. The page
is printed and written to ``benchmarks/results/service.md``.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import hdpstats.api as hdp
from benchmarks.logistic import ROOT, machine
from benchmarks.pages import keep
from hdpstats.custodian.kept_head import held_open
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from tests.custodian.institution import Institution, Running
from tests.custodian.people import SCHEMA, people

RESULTS = ROOT / "benchmarks" / "results" / "service.md"
SITES = ("A", "B", "C")
RECORDS = 10_000


def query(replicate: int) -> HistogramQuery:
    """Return a cheap query, so that what is around it shows."""
    axes = (Axis(name="g", levels=3), Axis(name="y", cuts=(0.5,)))
    return HistogramQuery(axes=axes, epsilon=Fraction(1, 10**5), schema_sha256=SCHEMA.sha256, replicate=replicate)


@dataclass
class Spent:
    """Milliseconds of each round, and of processors in all processes together."""

    elapsed: list[float] = field(default_factory=list)
    busy: float = 0.0

    @contextmanager
    def watch(self, sites: Iterable[Running] = ()) -> Iterator[None]:
        """Note what happens meanwhile."""
        before, start = time.process_time() + sum(map(busy, sites)), time.perf_counter()
        yield
        self.elapsed.append(1000 * (time.perf_counter() - start))
        self.busy += 1000 * (time.process_time() + sum(map(busy, sites)) - before)

    def median(self) -> float:
        """Return the median of a round."""
        return statistics.median(self.elapsed)

    def processors(self) -> float:
        """Return the mean time of processors in a round."""
        return self.busy / len(self.elapsed)

    def row(self, name: str) -> str:
        """Return a row of the table."""
        lowest, middle, highest = (statistics.quantiles(self.elapsed, n=20)[place] for place in (0, 9, 18))
        return f"| {name} | {lowest:.1f} | {middle:.1f} | {highest:.1f} | {self.processors():.1f} |"


def busy(running: Running) -> float:
    """Return the seconds of processors that a site's process has had."""
    fields = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    """Return the resident size of a process in MB."""
    text = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def report(folder: Path, rounds: int, replays: int) -> str:
    """Measure, and return the page."""
    frames = {name: people(RECORDS, seed=place) for place, name in enumerate(SITES)}
    institution = Institution(folder)
    try:
        up = {name: institution.launch(institution.write(name, frames[name], SCHEMA)) for name in SITES}
        for running in up.values():
            institution.wait(running)
        remote = [institution.connect(running) for running in up.values()]
        places = [folder / f"{name}.db" for name in SITES]
        accounts = [hdp.Ledger(place, dataset="trial", epsilon=1000, delta=1e-3) for place in places]
        local = [
            hdp.LocalSite(frames[name], schema=SCHEMA, ledger=account)
            for name, account in zip(SITES, accounts, strict=True)
        ]
        with ExitStack() as stack:
            for place in places:  # as a service does
                stack.enter_context(held_open(str(place)))
            pool = stack.enter_context(ThreadPoolExecutor(len(SITES)))
            sites = list(up.values())

            def far(number: int) -> object:
                return list(pool.map(lambda site: site.answer(query(number)), remote))

            def near(number: int) -> object:
                return [site.answer(query(number), analyst="ann") for site in local]

            for number in range(10**6, 10**6 + 20):
                far(number)
                near(number)
            spent = {name: Spent() for name in ("far", "near", "far again", "near again")}
            for again in ("", " again"):
                for number in range(1, rounds + 1):  # in turn, so that neither has the machine's caches to itself
                    with spent[f"far{again}"].watch(sites):
                        far(number)
                    with spent[f"near{again}"].watch():
                        near(number)
            processes = [os.getpid(), *(running.process.pid for running in sites)]
            memory = [[resident(process) for process in processes]]
            for _ in range(2):
                for number in range(replays // 2):
                    far(number % rounds + 1)
                memory.append([resident(process) for process in processes])
        for site in remote:
            site.close()
    finally:
        institution.close()
    return page(spent, rounds, replays, memory)


def page(spent: dict[str, Spent], rounds: int, replays: int, memory: list[list[float]]) -> str:
    """Return the page."""
    names = {
        "far": "three sites over HTTPS, at once",
        "near": "three sites in this process, one after the other",
        "far again": "over HTTPS, answered before",
        "near again": "in this process, answered before",
    }
    beyond = {again: (spent[f"far{again}"], spent[f"near{again}"]) for again in ("", " again")}
    elapsed = {again: far.median() - near.median() for again, (far, near) in beyond.items()}
    processors = {again: far.processors() - near.processors() for again, (far, near) in beyond.items()}
    return "\n".join(
        [
            "# A round of three sites over HTTPS",
            "",
            f"{RECORDS} rows a site, a histogram of 6 cells each, TLS 1.3 with client certificates, tokens, ledgers in",
            f"SQLite; {rounds} rounds, over HTTPS and in one process in turn; milliseconds. `processors`: mean time of",
            "all processors in all processes per round, which other work on the machine lengthens less.",
            "",
            "| round | 5% | median | 95% | processors |",
            "|---|---|---|---|---|",
            *(spent[key].row(name) for key, name in names.items()),
            "",
            "What a round takes over HTTPS beyond the same in one process:",
            "",
            f"- a round of new answers: {elapsed['']:.1f} ms at the median, {processors['']:.1f} ms of processors;",
            "- a round that was answered before, which reads the ledgers and computes nothing:",
            f"  {elapsed[' again']:.1f} ms at the median, {processors[' again']:.1f} ms of processors.",
            "",
            f"Memory in MB of the asker's process and of the sites', before {replays} further rounds, after half of",
            f"them and after all: {'; '.join(', '.join(f'{size:.1f}' for size in sizes) for sizes in memory)}.",
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
        written = report(Path(folder), chosen.rounds, chosen.replays)
    keep(written, RESULTS)


if __name__ == "__main__":
    main()
