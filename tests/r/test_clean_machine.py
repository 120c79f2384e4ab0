"""A clean machine: the wheel with ``[r]`` in a new environment, ``python -m r_bridge install``, plain Rscript."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
library(hdpstats)
stopifnot(startsWith(normalizePath(find.package("hdpstats")), normalizePath(Sys.getenv("R_LIBS"))))

schema <- dp_schema(
  age = dp_continuous(20, 90, complete = TRUE), size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE),
  time = dp_duration(2557, complete = TRUE), event = dp_binary(complete = TRUE), event3 = dp_binary(complete = TRUE)
)
study <- dp_study(private = dp_load_rotterdam(), public = dp_load_gbsg(), schema = schema, budget = dp_budget(3))
fit <- dp_logit(event3 ~ age + factor(size), data = study, epsilon = 1)
hazard <- dp_hazard(Surv(time, event) ~ age + factor(size), data = study, epsilon = 1, intervals = 24)
covariates <- c("age", "factor(size)20-50", "factor(size)>50")
stopifnot(
  identical(names(coef(fit)), c("(Intercept)", covariates)), all(is.finite(coef(fit))), all(fit$bse > 0),
  setequal(names(coef(hazard)), c(covariates, paste0("baseline[", 1:3, "]"))), all(is.finite(vcov(hazard))),
  nobs(fit) == 2982, coef(fit)[["factor(size)>50"]] > 0, coef(hazard)[["factor(size)>50"]] > 0,
  identical(dp_ledger(study)$spent, c(epsilon = 2, delta = 0)), nrow(as.data.frame(dp_ledger(study))) == 4L
)
print(summary(fit))
print(confint(hazard))

pbc <- survival::pbc
pbc <- data.frame(time = pbc$time / 365.25, death = as.integer(pbc$status == 2), age = pbc$age, bili = pbc$bili,
                  sex = pbc$sex, late = as.integer(pbc$stage >= 4))
ours <- seq_len(nrow(pbc)) %% 4 == 0
liver <- dp_study(
  private = pbc[!ours, ], public = pbc[ours, ], budget = dp_budget(epsilon = 4),
  schema = dp_schema(
    age = dp_continuous(20, 80, complete = TRUE), bili = dp_continuous(0.3, 30, complete = TRUE),
    death = dp_binary(complete = TRUE), sex = dp_categorical(c("m", "f"), complete = TRUE), late = dp_binary(),
    time = dp_duration(10, "years", complete = TRUE)
  )
)
death <- dp_hazard(Surv(time, death) ~ age + log(bili) + sex, data = liver, epsilon = 2, link = "cloglog")
late <- dp_logit(late ~ age + log(bili), data = liver, epsilon = 2)
stopifnot(
  inherits(death, "dp_hazard"), coef(death)[["log(bili)"]] > 0, nobs(death) == sum(!ours),
  identical(names(coef(late)), c("(Intercept)", "age", "log(bili)")), all(is.finite(confint(late))),
  identical(dp_ledger(liver)$spent, c(epsilon = 4, delta = 0)),
  inherits(try(dp_logit(late ~ age, data = liver, epsilon = 1), silent = TRUE), "try-error"),
  identical(coef(dp_logit(late ~ age + log(bili), data = liver, epsilon = 2)), coef(late)),
  identical(dp_ledger(liver)$remaining, c(epsilon = 0, delta = 0))
)
print(dp_ledger(liver))
"""


def program(*arguments: object, folder: Path, **changes: str) -> str:
    """Run a program as on a machine where nobody has set anything; return what it prints."""
    set_here = ("HDPSTATS", "RETICULATE", "R_", "PYTHON", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(set_here)}
    done = subprocess.run(
        list(map(str, arguments)),
        cwd=folder,
        env=kept | {"RPY2_CFFI_MODE": "ABI"} | changes,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """The Python of a new environment into which the built wheel was installed, with the extra ``[r]``."""
    place = tmp_path_factory.mktemp("machine")
    program(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", place, ROOT, folder=place)
    wheel = next(place.glob("hdpstats-*.whl"))
    program(sys.executable, "-m", "venv", "--without-pip", place / "venv", folder=place)
    python = place / "venv" / "bin" / "python"
    install = ["--python", python, "install", "--quiet", "--no-compile", f"{wheel}[r]"]
    program(sys.executable, "-m", "pip", *install, folder=place)
    return python


def test_install_and_fit_both_models_on_a_clean_machine(machine, tmp_path):
    library, home = tmp_path / "library", tmp_path / "home"
    home.mkdir()
    said = program(
        machine, "-m", "r_bridge", "install", "--no-vignettes", "--lib", library, folder=tmp_path, HOME=str(home)
    )
    assert f"start R with R_LIBS={library}" in said
    assert (library / "hdpstats" / "python.txt").read_text().strip() == str(machine)
    (tmp_path / "script.R").write_text(SCRIPT, encoding="utf-8")
    printed = program("Rscript", "script.R", folder=tmp_path, R_LIBS=str(library), HOME=str(home))
    assert printed.count("1-differential privacy (pure)") == 1
    assert "factor(size)>50" in printed
    assert re.search(r"spent\s+4\s+0", printed)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["home", "library", "script.R"]
