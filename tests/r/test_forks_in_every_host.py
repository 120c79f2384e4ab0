"""``parallel::mclapply`` after a fit: forked processes of R use results, Python and accounts, and never hang."""

import os
import signal
import subprocess
import sys

import pytest

from tests import forked
from tests.r.hosts import HOSTS, command, environment

GENEROUS = 240
"""Seconds after which a hanging process is ended; the script takes a few."""

SCRIPT = """
library(hdpstats)
schema <- dp_schema(age = dp_continuous(20, 90), event3 = dp_binary())
fitted <- function(...) {
  study <- dp_study(private = dp_load_rotterdam(), public = dp_load_gbsg(), schema = schema, ...)
  list(study = study, fit = dp_logit(event3 ~ age, study, 1))
}
memory <- fitted(budget = dp_budget(epsilon = 3))
file <- fitted(ledger = dp_ledger_open("ledger.db", dataset = "r", epsilon = 3))
alone <- lapply(1:4, function(i) confint(memory$fit, level = 0.5 + i / 10))
for (round in 1:2) {
  Sys.sleep(0.2) # R runs for longer than it takes the thread that watches for interrupts to look for them
  forked <- parallel::mclapply(1:4, function(i) confint(memory$fit, level = 0.5 + i / 10), mc.cores = 2)
  stopifnot(identical(forked, alone))
}
plain <- parallel::mclapply(1:2, function(i) coef(file$fit), mc.cores = 2)
stopifnot(identical(plain, list(coef(file$fit), coef(file$fit))))
refused <- function(i) tryCatch(dp_logit(event3 ~ age, memory$study, 1, replicate = 1 + i), dp_error = conditionMessage)
stopifnot(grepl("process", unlist(parallel::mclapply(1:2, refused, mc.cores = 2))))
stopifnot(dp_ledger(memory$study)$spent[["epsilon"]] == 1)
again <- parallel::mclapply(2:3, function(i) coef(dp_logit(event3 ~ age, file$study, 1, replicate = i)), mc.cores = 2)
stopifnot(dp_ledger(file$study)$spent[["epsilon"]] == 3)
stopifnot(identical(again, lapply(2:3, function(i) coef(dp_logit(event3 ~ age, file$study, 1, replicate = i)))))
cat("all is well\\n")
"""


def said(program, folder, library):
    """Return the status of a session and what it printed; end it with all its forked processes where it hangs."""
    with forked.Popen(
        program,
        cwd=folder,
        env=environment(library),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as session:
        try:
            printed, _ = session.communicate(timeout=GENEROUS)
        finally:
            if session.poll() is None:
                os.killpg(session.pid, signal.SIGKILL)
    return session.returncode, printed


@pytest.mark.parametrize(
    "host", [host if host == "Rscript" else pytest.param(host, marks=pytest.mark.wide) for host in HOSTS]
)
def test_forked_processes_use_results_python_and_accounts(host, library, plain_r, tmp_path):
    """Would hang if a thread of Python's waited for its lock while R runs. An account in memory is not shared."""
    if host == "Rscript":
        done = plain_r.run(SCRIPT, folder=tmp_path)
        status, printed = done.returncode, (done.stdout + done.stderr).decode()
    else:
        script = tmp_path / "script.R"
        script.write_text(SCRIPT, encoding="utf-8")
        status, printed = said(command(host, script), tmp_path, library)
    assert status == 0, printed
    assert "all is well" in printed


BUSY = """
import threading
import r_bridge

def work():
    while True:
        pass

r_bridge.attach_functions()
threading.Thread(target=work, daemon=True).start()  # has Python's lock whenever R runs
fit = '''function() {
  schema <- dp_schema(age = dp_continuous(20, 90), event3 = dp_binary())
  dp_logit(event3 ~ age, dp_study(private = dp_load_rotterdam(), schema = schema, public = dp_load_gbsg(),
           budget = dp_budget(1)), 1)
}'''
forked = '''function(fit) {
  found <- parallel::mclapply(1:4, function(i) { cat("here\\\\n"); confint(fit, level = 0.5 + i / 10) }, mc.cores = 2)
  all(vapply(found, is.matrix, NA))
}'''
found = r_bridge.call(fit)
print("all is well" if all(r_bridge.call(forked, found) for _ in range(3)) else "something failed")
"""


@pytest.mark.wide
def test_forked_processes_do_not_wait_for_a_thread_that_held_pythons_lock(tmp_path):
    """As in a notebook, whose other threads work while R runs."""
    status, printed = said([sys.executable, "-c", BUSY], tmp_path, tmp_path)
    assert status == 0, printed
    assert "all is well" in printed
