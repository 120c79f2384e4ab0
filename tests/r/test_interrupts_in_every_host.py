"""Ctrl-C, a real signal to the process, stops R and Python within half a second; nothing is charged twice."""

import signal
import subprocess
import time

import pytest

from tests.r.hosts import HOSTS, command, environment

LIMIT = 0.5
"""Seconds from the signal to the next line of the script."""

SCRIPT = """
library(hdpstats)
private <- do.call(rbind, rep(list(dp_load_rotterdam()), 20))
schema <- dp_schema(age = dp_continuous(20, 90), nodes = dp_continuous(0, 40, missing = 1),
                    time = dp_duration(2557), event = dp_binary())
ledger <- dp_ledger_open("ledger.db", dataset = "r", epsilon = 10)
study <- dp_study(private = private, public = dp_load_gbsg(), schema = schema, ledger = ledger)
fit <- function(replicate) dp_hazard(Surv(time, event) ~ age + nodes, study, 1, intervals = 50, replicate = replicate)
first <- fit(1)
now <- function() format(as.numeric(Sys.time()), digits = 16)
stopped <- function(name, code) {
  cat("begin", name, "\\n")
  flush(stdout())
  outcome <- tryCatch({ code; "ran out" }, interrupt = function(e) "stopped")
  cat("end", name, now(), outcome, dp_ledger(study)$spent[["epsilon"]], "\\n", sep = "|")
  flush(stdout())
}
stopped("sleep", Sys.sleep(5))
stopped("loop", { until <- proc.time()[[3]] + 5; while (proc.time()[[3]] < until) {} })
stopped("sort", for (i in 1:500) sort(stats::runif(1e5)))
stopped("fit 2", fit(2))
stopped("fit 3", fit(3))
again <- lapply(2:3, fit)
cat("end|again|", now(), "|usable|", dp_ledger(study)$spent[["epsilon"]], "\\n", sep = "")
history <- as.data.frame(dp_ledger(study))
cat("end|charges|", now(), "|", identical(coef(fit(1)), coef(first)), "|", nrow(history), "\\n", sep = "")
cat("end|verify|", now(), "|", dp_ledger_verify(ledger), "|0\\n", sep = "")
"""
AFTER = {"sleep": 0.3, "loop": 0.3, "sort": 0.3, "fit 2": 0.1, "fit 3": 0.4}
"""Seconds after which each is interrupted."""


@pytest.mark.parametrize("host", HOSTS)
def test_ctrl_c_stops_whatever_runs_and_the_ledger_is_exact(host, library, tmp_path):
    script = tmp_path / "script.R"
    script.write_text(SCRIPT, encoding="utf-8")
    ends, sent = {}, {}
    with subprocess.Popen(
        command(host, script),
        cwd=tmp_path,
        env=environment(library),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as session:
        for line in session.stdout:
            if line.startswith("begin"):
                name = line.removeprefix("begin").strip()
                time.sleep(AFTER[name])
                sent[name] = time.time()
                session.send_signal(signal.SIGINT)
            elif line.startswith("end"):
                _, name, at, *outcome = line.strip().split("|")
                ends[name] = (float(at), *outcome)
        errors = session.stderr.read()
    assert session.returncode == 0, errors
    assert set(sent) == set(AFTER)
    assert {name: ends[name][1] for name in sent} == dict.fromkeys(sent, "stopped")
    assert max(ends[name][0] - sent[name] for name in sent) < LIMIT
    assert {float(ends[name][2]) for name in ("sleep", "loop", "sort")} == {1.0}
    assert float(ends["fit 2"][2]) in (1.0, 2.0)  # charged, and to be had for that charge, or not
    assert float(ends["fit 3"][2]) - float(ends["fit 2"][2]) in (0.0, 1.0)
    assert ends["again"][1:] == ("usable", "3")
    assert ends["charges"][1:] == ("TRUE", "3")
    assert "verif" in ends["verify"][1]


@pytest.mark.parametrize("host", ["r_bridge run", "Rscript"])
def test_a_script_that_does_not_mind_interrupts_ends_at_once(host, library, tmp_path):
    script = tmp_path / "script.R"
    script.write_text('library(hdpstats)\ndp_available()\ncat("begin\\n")\nwhile (TRUE) {}\n', encoding="utf-8")
    with subprocess.Popen(
        command(host, script), cwd=tmp_path, env=environment(library), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as session:
        next(line for line in session.stdout if line == b"begin\n")
        time.sleep(0.2)  # an interrupt before the loop begins is no interrupt of the loop
        session.send_signal(signal.SIGINT)
        try:
            session.wait(timeout=60)
        finally:
            session.kill()
    assert session.returncode == (130 if host == "r_bridge run" else 1)
