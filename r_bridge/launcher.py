"""Run an R script in the R inside Python, as ``Rscript`` would, with the functions of the package attached."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import rpy2.rinterface as ri
from rpy2.rinterface_lib import callbacks

from hdpstats.api import ArgumentError
from r_bridge.guard import guarded
from r_bridge.package import attach_functions
from r_bridge.session import helper, start

_RUN = """function(script) {
  place <- function(what, e) {
    call <- asNamespace("hdpstats")$.without_data(conditionCall(e)) # do.call() puts whole data frames into calls
    if (is.null(call)) what else paste(what, "in", paste(deparse(call, nlines = 1L), collapse = " "))
  }
  told <- function(e) {
    message(place("Error", e), ": ", conditionMessage(e), "\\nExecution halted")
    1L
  }
  run <- function() {
    for (expression in parse(script, keep.source = TRUE)) {
      found <- withVisible(eval(expression, globalenv()))
      if (found$visible) print(found$value)
    }
    0L
  }
  warned <- function(w) {
    message(place("Warning", w), ": ", conditionMessage(w))
    tryInvokeRestart("muffleWarning")
  }
  tryCatch(withCallingHandlers(run(), warning = warned), error = told)
}"""


def run(script: str, arguments: Sequence[str] = ()) -> int:
    """Run a script and return its exit status: 0, 1 after an error, 130 after an interrupt, or what ``quit`` says.

    ``commandArgs(trailingOnly = TRUE)`` are the arguments. The functions are attached before the first line;
    ``library(hdpstats)`` does no harm.

    Raises
    ------
    ArgumentError
        If there is no such file.
    """
    if not Path(script).is_file():
        raise ArgumentError(f"there is no file {script!r}", argument="script")
    start(arguments)
    callbacks.cleanup = _quit
    attach_functions()
    try:
        status = int(guarded(helper(_RUN), ri.StrSexpVector([script]))[0])
    except KeyboardInterrupt:
        status = 130
    sys.stdout.flush()
    return status


def _quit(_save: object, status: int, _run_last: object) -> None:
    """End the process as R's ``quit`` asks; R would end it with status 0."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
