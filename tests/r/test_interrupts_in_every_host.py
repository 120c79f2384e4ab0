"""Ctrl-C, a real signal to the process, stops R and Python; nothing is charged twice."""

import contextlib
import signal
import sqlite3
import subprocess
from fractions import Fraction

import pytest

from tests import forked
from tests.r.hosts import HOSTS, command, environment
from tests.waiting import GENEROUS, until

SCRIPT = """
library(hdpstats)
private <- do.call(rbind, rep(list(dp_load_rotterdam()), 8))
schema <- dp_schema(age = dp_continuous(20, 90, complete = TRUE), nodes = dp_continuous(0, 40, complete = TRUE),
                    time = dp_duration(2557, complete = TRUE), event = dp_binary(complete = TRUE))
ledger <- dp_ledger_open("ledger.db", dataset = "r", epsilon = 10)
study <- dp_study(private = private, public = dp_load_gbsg(), schema = schema, ledger = ledger)
fit <- function(replicate) dp_hazard(Surv(time, event) ~ age + nodes, study, 1, intervals = 50, replicate = replicate)
first <- fit(1)
stopped <- function(name, code) {
  # Nothing ends before it is interrupted; an interrupt before the code begins, or after a fit, is caught too.
  outcome <- tryCatch(
    { cat("begin", name, "\\n"); flush(stdout()); code; Sys.sleep(600); "ran out" },
    interrupt = function(e) "stopped"
  )
  cat("end", name, outcome, sprintf("%.9f", dp_ledger(study)$spent[["epsilon"]]), "\\n", sep = "|") # whole grains
  flush(stdout())
}
stopped("sleep", Sys.sleep(600))
stopped("loop", { until <- proc.time()[[3]] + 600; while (proc.time()[[3]] < until) {} })
stopped("sort", { until <- proc.time()[[3]] + 600; while (proc.time()[[3]] < until) sort(stats::runif(1e5)) })
stopped("fit 2", fit(2))
stopped("fit 3", fit(3))
again <- lapply(2:3, fit)
cat("end|again|usable|", dp_ledger(study)$spent[["epsilon"]], "\\n", sep = "")
history <- as.data.frame(dp_ledger(study))
cat("end|charges|", identical(coef(fit(1)), coef(first)), "|", nrow(history), "\\n", sep = "")
cat("end|verify|", dp_ledger_verify(ledger), "|0\\n", sep = "")
"""
CONVERTED = """
reticulate::py_run_string("
from r_bridge.functions import FUNCTIONS
def reported_as_something_else():
    try:
        open('begun', 'w').close()
        while True:
            pass
    except BaseException as error:
        raise ImportError('what was interrupted says so in its own way') from error
FUNCTIONS['other'] = reported_as_something_else
")
stopped("another error", hdpstats:::.py("other"))
"""
"""Python code, called by R that started Python, reports an interrupt as an error of its own."""

UNMINDED = """
said <- FALSE
until <- proc.time()[[3]] + 600
while (proc.time()[[3]] < until) if (!said) { cat("begin script\\n"); flush(stdout()); said <- TRUE }
"""
"""It says that it has begun from within the loop: an interrupt before the loop would be no interrupt of it."""

ENDS = {"r_bridge run": 130, "Rscript": 1}
"""How a script ends that does not mind an interrupt."""
ADDED = {"Rscript": CONVERTED}
"""What runs in one host besides; the R inside Python has a test of its own for it."""

NAMES = {"sleep", "loop", "sort", "fit 2", "fit 3"}


def charges(path):
    """Return the epsilon of each charge of a ledger, read from beside it."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=GENEROUS)) as connection:
        rows = connection.execute("SELECT epsilon FROM entry WHERE kind = 'charge' ORDER BY seq").fetchall()
    return [Fraction(each) for (each,) in rows]


# What stops a plain R is in tests/r/test_install.py.
@pytest.mark.parametrize(
    "host", [host if host == "r_bridge run" else pytest.param(host, marks=pytest.mark.wide) for host in HOSTS]
)
def test_ctrl_c_stops_whatever_runs_and_the_ledger_is_exact(host, library, tmp_path):
    script = tmp_path / "script.R"
    script.write_text(SCRIPT + ADDED.get(host, "") + UNMINDED * (host in ENDS), encoding="utf-8")
    ends, sent = {}, set()
    with forked.Popen(
        command(host, script),
        cwd=tmp_path,
        env=environment(library),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as session:
        for line in session.stdout:
            if line.startswith("begin"):
                sent.add(name := line.removeprefix("begin").strip())
                if name == "fit 3":  # fit 2 is interrupted as it begins, this one once it has charged all its epsilon
                    until(lambda: sum(charges(tmp_path / "ledger.db")) >= Fraction(ends["fit 2"][1]) + 1, "its charges")
                if name == "another error":
                    until((tmp_path / "begun").exists, "the work that is to be interrupted")
                session.send_signal(signal.SIGINT)
            elif line.startswith("end"):
                _, name, *outcome = line.strip("|\n").split("|")
                ends[name] = outcome
        errors = session.stderr.read()
    assert session.returncode == ENDS.get(host, 0), errors
    assert sent == NAMES | ({"another error"} if host in ADDED else set()) | ({"script"} if host in ENDS else set())
    sent -= {"script"}
    assert {name: ends[name][0] for name in sent} == dict.fromkeys(sent, "stopped")
    assert {float(ends[name][1]) for name in ("sleep", "loop", "sort")} == {1.0}
    found = charges(tmp_path / "ledger.db")
    assert sorted(found) == sorted(3 * found[:2])  # of each fit its description and itself
    assert sum(found[:2]) == 1
    assert Fraction(ends["fit 2"][1]) in (1, 1 + found[0], 2)  # nothing charged, its description, or all of it
    assert Fraction(ends["fit 3"][1]) - Fraction(ends["fit 2"][1]) == 1
    assert ends["again"] == ["usable", "3"]
    assert ends["charges"] == ["TRUE", "6"]
    assert "verif" in ends["verify"][0]
