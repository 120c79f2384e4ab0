"""The R package: built, checked, installed into a fresh library, and used by a plain Rscript."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from r_bridge import from_r
from r_bridge.package import SOURCE
from tests import forked, seeded
from tests.r.hosts import Session

DOCUMENTED = re.compile(r"^export\((.*)\)$", re.MULTILINE)


def program(*arguments: str, folder: Path, seconds: int = 900, **environment: str) -> str:
    """Run R as a user would, in a folder, without anybody's profile; return what it printed."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HDPSTATS", "RETICULATE", "R_"))}
    done = subprocess.run(
        list(arguments),
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    return printed


@pytest.mark.wide
def test_check_finds_nothing(archive: Path, tmp_path: Path) -> None:
    """The vignettes have run when the archive was built; tests, and examples that need Python, run below."""
    options = ("--no-manual", "--no-build-vignettes", "--no-vignettes", "--no-tests")
    printed = program(
        "R", "CMD", "check", *options, str(archive), folder=tmp_path,
        HDPSTATS_PYTHON=sys.executable, _R_CHECK_CRAN_INCOMING_="false", R_COMPILE_PKGS="0",
    )  # fmt: skip
    status = re.findall(r"^Status: (.*)$", printed, re.MULTILINE)
    assert status in (["OK"], ["1 NOTE"]), printed
    checked = tmp_path / "hdpstats.Rcheck"
    assert (checked / "hdpstats-Ex.Rout").exists()
    built = {page.stem for page in (checked / "hdpstats" / "doc").glob("*.html")}
    assert built - {"index"} == {page.stem for page in (SOURCE / "vignettes").glob("*.Rmd")}  # which help pages cite


SEEDED = """
local({
  stopifnot(hdpstats::dp_available())
  reticulate::py_run_string(%s)
  on.exit(reticulate::py_run_string("from tests import few_draws, seeded; few_draws.end(); seeded.end()"))
  source(%s, local = globalenv())
})
"""


def with_seeded_noise(
    plain_r: Session, script: str, folder: Path, *, seldom: bool = False
) -> "subprocess.CompletedProcess[bytes]":
    """Run an R script of a folder where noise is seeded, and where asked standard errors are drawn seldom."""
    begin = seeded.beginning() + "\nfrom tests import few_draws\nfew_draws.begin()" * seldom
    return plain_r.run(SEEDED % (json.dumps(begin), json.dumps(script)), folder=folder)


@pytest.mark.skipif(not seeded.INSTALLED, reason="noise is the operating system's")
def test_noise_in_plain_r_is_the_same_each_time(plain_r: Session, tmp_path: Path) -> None:
    code = "exact <- reticulate::import('hdpstats.noise.exact')\ncat(exact$bits(30L), exact$bits(30L))"
    (tmp_path / "draw.R").write_text(code, encoding="utf-8")
    first, second = (with_seeded_noise(plain_r, "draw.R", tmp_path) for _ in range(2))
    assert first.stdout == second.stdout != b"", first.stderr.decode()
    assert plain_r.run(code, folder=tmp_path).stdout not in (first.stdout, b"")


LONG = ("broom", "figures", "generics", "names", "orders", "samples")
"""Files of tests that take two thirds of the time of all: how fits behave in other packages of R, are named and drawn,
the order of arguments, and weighted samples."""

SHORT = 'options(hdpstats.tests = "short")\non.exit(options(hdpstats.tests = NULL))\n'
"""What leaves out tests that say that they take long, which are in other files."""


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.wide)], ids=["most", "all"])
def test_tests_pass_in_plain_r(plain_r: Session, tmp_path: Path, long: bool) -> None:
    """As ``R CMD check`` runs them: by the script beside them."""
    folder = shutil.copytree(SOURCE / "tests", tmp_path / "tests")
    skipped = 0
    if not long:
        for name in LONG:
            (folder / "testthat" / f"test-{name}.R").unlink()
        kept = [file.read_text(encoding="utf-8") for file in (folder / "testthat").glob("test-*.R")]
        skipped = sum(text.count("\n  takes_long()\n") for text in kept)
        script = folder / "testthat.R"
        script.write_text(f"local({{\n{SHORT}{script.read_text(encoding='utf-8')}}})\n", encoding="utf-8")
    done = with_seeded_noise(plain_r, "testthat.R", folder, seldom=not long)
    printed = done.stdout.decode()
    wanted = rf"FAIL 0 \| WARN 0 \| SKIP {skipped} \| PASS [1-9]\d\d"
    assert re.search(wanted, printed), printed + done.stderr.decode()


EXAMPLES = """
library(hdpstats)
pdf(NULL)
local({
  man <- %s
  macros <- tools::loadPkgRdMacros(dirname(man))
  for (page in list.files(man, "[.]Rd$", full.names = TRUE)) {
    tools::Rd2ex(page, "example.R", commentDonttest = FALSE, macros = macros)
    source("example.R", local = globalenv(), print.eval = TRUE)
    rm(list = ls(globalenv()), envir = globalenv())
    cat("ran", basename(page), "\\n")
  }
})
invisible(dev.off())
"""


@pytest.mark.wide
def test_examples_of_help_pages_run(plain_r: Session, one_folder: Path) -> None:
    (one_folder / "examples.R").write_text(EXAMPLES % json.dumps(str(SOURCE / "man")), encoding="utf-8")
    done = with_seeded_noise(plain_r, "examples.R", one_folder, seldom=True)
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    assert printed.count("\nran ") == len(list((SOURCE / "man").glob("*.Rd")))
    assert "1-differential privacy (pure)" in printed  # with Python


WITHOUT_PYTHON = """
found <- as.data.frame(testthat::test_dir(
  %s, package = "hdpstats", load_package = "installed", reporter = "silent"
))
cat("failed:", sum(found$failed), sum(found$error), "skipped:", sum(found$skipped), "passed:", sum(found$passed), "\\n")
"""


@pytest.mark.wide
def test_without_python_tests_and_examples_skip_politely(library: Path, tmp_path: Path) -> None:
    code = WITHOUT_PYTHON % json.dumps(str(SOURCE / "tests" / "testthat"))
    file = tmp_path / "without.R"
    file.write_text(code + EXAMPLES % json.dumps(str(SOURCE / "man")), encoding="utf-8")
    changes = {"R_LIBS": str(library), "HDPSTATS_PYTHON": "/nowhere/python"}
    printed = program("Rscript", "--vanilla", str(file), folder=tmp_path, **changes)
    assert re.search(r"failed: 0 0 skipped: [1-9]\d+ passed: [1-9]", printed), printed
    assert printed.count("\nran ") == len(list((SOURCE / "man").glob("*.Rd")))


@pytest.mark.wide
def test_vignettes_show_what_they_say(archive: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(archive, tmp_path)
    start = (tmp_path / "hdpstats/inst/doc/start-here.html").read_text(encoding="utf-8")
    survival = (tmp_path / "hdpstats/inst/doc/survival.html").read_text(encoding="utf-8")
    assert start.count("[1] TRUE") == 4  # equal to glm: coefficients (twice), standard errors; the same after JSON
    assert "Nothing was charged" in start
    assert "spent" in start
    assert survival.count("[1] TRUE") == 1  # equal to glm on person-period rows
    assert survival.count("data:image/png") == 3
    assert "#&gt; Error" not in survival
    hospitals = (tmp_path / "hdpstats/inst/doc/hospitals.html").read_text(encoding="utf-8")
    assert "each person is at one only" in hospitals
    assert "Sites differ?" in hospitals
    assert "did not answer round 1: the release would cost" in " ".join(hospitals.split())
    assert hospitals.count("data:image/png") == 2
    assert "#&gt; Error" not in hospitals


def test_every_function_has_a_page_with_an_example_that_runs() -> None:
    names = re.split(r",\s*", ", ".join(DOCUMENTED.findall((SOURCE / "NAMESPACE").read_text(encoding="utf-8"))))
    pages = [page.read_text(encoding="utf-8") for page in (SOURCE / "man").glob("*.Rd")]
    for name in names:
        page = next(text for text in pages if f"\\alias{{{name}}}" in text)
        assert "\\examples{" in page, name


NUMBERS = """
library(hdpstats)
exact <- function(x) sprintf("%a", as.numeric(unlist(x, use.names = FALSE)))
facts <- function(fit, predicted) {
  exact(list(coef(fit), as.vector(vcov(fit)), as.vector(confint(fit)), dp_tidy(fit)$p.value, predicted))
}
rows <- dp_load_gbsg()[1:5, ]
of_logit <- function(fit) facts(fit, predict(fit, rows, type = "response"))
of_hazard <- function(fit) {
  curves <- dp_predict_survival(fit, rows)[c("survival", "conf.low", "conf.high")]
  facts(fit, c(curves, predict(fit, rows, "hazard")$hazard))
}
schema <- dp_schema(
  age = dp_continuous(20, 90, complete = TRUE), size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE),
  event = dp_binary(complete = TRUE), nodes = dp_continuous(0, 40, missing = 1), event3 = dp_binary(complete = TRUE),
  time = dp_duration(2557, "days", complete = TRUE)
)
study <- dp_study(private = dp_load_rotterdam(), public = dp_load_gbsg(), schema = schema, budget = dp_budget(2))
logit <- dp_logit(event3 ~ age + size + log1p(nodes), study, 1)
hazard <- dp_hazard(Surv(time, event) ~ age + size, study, 1, intervals = 12, link = "cloglog")
parts <- split(dp_load_rotterdam(), rep(c("Oslo", "Bergen"), c(1982, 1000)))
sites <- dp_study(private = parts, public = dp_load_gbsg(), schema = schema, budget = dp_budget(9))
several <- dp_logit(event3 ~ age + nodes, sites, c(Oslo = 1, Bergen = 2))
of_sites <- function(fit) exact(c(dp_sites(fit)[c("records", "epsilon", "rounds", "weight", "entry")],
                                  coef(fit), vcov(fit), confint(fit), dp_tidy(fit)$p.value))
distribution <- dp_distribution(nodes ~ 1, sites, c(Oslo = 1, Bergen = 2), family = "poisson")
one_by_one <- lapply(c(Bergen = "Bergen", Oslo = "Oslo"), function(site) {
  fit <- dp_logit(event3 ~ age + nodes, dp_at(sites, site), 1, replicate = 2)
  dp_write_result(fit, paste(site, "of R.json"))
  fit
})
groups <- dp_aggregate(list(North = one_by_one["Bergen"], South = list(one_by_one$Oslo)), between = c(NA, NA))
of_groups <- as.data.frame(groups)[c("estimate", "std.error", "conf.low", "conf.high", "p.value")]
dp_write_result(several, "several of R.json")
dp_write_result(distribution, "distribution of R.json")
cat("several of R:", of_sites(several), "\\n")
cat("several of Python:", of_sites(dp_read_result("several of Python.json")), "\\n")
cat("distribution of R:", of_sites(distribution), "\\n")
cat("distribution of Python:", of_sites(dp_read_result("distribution of Python.json")), "\\n")
cat("groups of R:", exact(of_groups), "\\n")
dp_write_result(logit, "logit of R.json")
dp_write_result(hazard, "hazard of R.json")
cat("logit of R:", of_logit(logit), "\\n")
cat("hazard of R:", of_hazard(hazard), "\\n")
cat("logit of Python:", of_logit(dp_read_result("logit of Python.json")), "\\n")
cat("hazard of Python:", of_hazard(dp_read_result("hazard of Python.json")), "\\n")
cat("schema:", schema$json, "\\n")
"""


def test_r_and_python_read_the_same_numbers(plain_r: Session, tmp_path: Path) -> None:
    columns = {
        "age": hdp.Continuous(20, 90, complete=True),
        "size": hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        "event": hdp.Binary(complete=True),
        "nodes": hdp.Continuous(0, 40, missing=1),
        "event3": hdp.Binary(complete=True),
        "time": hdp.Duration(2557, unit="days", complete=True),
    }
    private, gbsg = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
    schema, budget = hdp.Schema(columns), hdp.Budget(epsilon=2, delta=0)
    study = hdp.Study(private=private, public=gbsg, schema=schema, budget=budget)
    hdpf.logit("event3 ~ age + size + log1p(nodes)", data=study).fit(epsilon=1).to_json(
        tmp_path / "logit of Python.json"
    )
    hazard = hdpf.hazard("Surv(time, event) ~ age + size", data=study, intervals=12, link="cloglog")
    hazard.fit(epsilon=1).to_json(tmp_path / "hazard of Python.json")
    sites = {"Bergen": private.iloc[1982:], "Oslo": private.iloc[:1982]}
    hospitals = hdp.Study(private=sites, public=gbsg, schema=schema, budget=hdp.Budget(epsilon=9, delta=0))
    epsilon = {"Oslo": 1, "Bergen": 2}
    hdpf.logit("event3 ~ age + nodes", data=hospitals).fit(epsilon=epsilon).to_json(tmp_path / "several of Python.json")
    distribution = hdpf.distribution("nodes ~ 1", data=hospitals, family="poisson")
    distribution.fit(epsilon=epsilon).to_json(tmp_path / "distribution of Python.json")
    done = plain_r.run(NUMBERS, folder=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    lines = dict(line.split(":", 1) for line in done.stdout.decode().splitlines() if ":" in line)
    for name in ("logit of Python", "hazard of Python", "logit of R", "hazard of R"):
        result = hdp.Result.from_json(tmp_path / f"{name}.json")
        said, predicted = _read(lines[name]), _predicted(result, gbsg.iloc[:5])
        assert said[: -len(predicted)] == _released(result), name
        assert said[-len(predicted) :] == pytest.approx(predicted, rel=1e-14), name  # sums of floats, in two processes
    for name in ("several of Python", "distribution of Python", "several of R", "distribution of R"):
        result = hdp.Result.from_json(tmp_path / f"{name}.json")
        facts = result.sites[["records", "epsilon", "rounds", "weight", "entry"]].to_numpy(dtype=float).ravel(order="F")
        assert _read(lines[name]) == [*facts, *_released(result)], name
        assert result.sites["epsilon"].tolist() == [2.0, 1.0]
    one, other = (hdp.Result.from_json(tmp_path / f"{site} of R.json") for site in ("Bergen", "Oslo"))
    frame = hdp.aggregate({"North": {"Bergen": one}, "South": [other]}).frame
    numbers = frame[["estimate", "std_error", "conf_low", "conf_high", "p_value"]].to_numpy().ravel(order="F")
    assert _read(lines["groups of R"]) == list(numbers)
    assert hdp.Schema.from_dict(json.loads(lines["schema"])).sha256 == schema.sha256


def _read(line: str) -> list[float]:
    return [float.fromhex(text) for text in line.split()]


def _released(result: hdp.Result) -> list[float]:
    matrices = (result.cov_params().to_numpy(), result.conf_int().to_numpy())
    vectors = [result.params.to_numpy(), *(each.ravel(order="F") for each in matrices), result.pvalues.to_numpy()]
    return [float(value) for vector in vectors for value in vector]


def _predicted(result: hdp.Result, rows: pd.DataFrame) -> list[float]:
    if result.facts.model == "Logit":
        return list(result.predict(rows))
    curves = result.predict_survival(rows)
    columns = [curves[name] for name in ("survival", "conf_low", "conf_high")] + [result.predict_hazard(rows)["hazard"]]
    return [float(value) for column in columns for value in column]


GARBAGE = """
library(hdpstats)
invisible(dp_available())
sys <- reticulate::import("sys")
flush <- sys$stdout$flush
rm(flush)
invisible(gctorture2(300L))
x <- dp_load_gbsg()
for (i in 1:3) y <- dp_continuous(1, 2)
invisible(gctorture2(0L))
cat(dim(x), "rows arrived\\n")
"""


@pytest.mark.wide
def test_garbage_of_reticulate_is_not_collected_while_python_waits_for_r(plain_r: Session, tmp_path: Path) -> None:
    done = plain_r.run(GARBAGE, folder=tmp_path)
    assert b"686 11 rows arrived" in done.stdout, done.stderr.decode()


OF_THE_HOST = ("declare", "errors", "ledger", "public", "tables")
"""Tests of what may differ between hosts: the way to Python and back, its errors and warnings, frames, files, methods.

`test_tests_pass_in_plain_r` runs these and all others in plain R.
"""


@pytest.mark.wide
def test_the_same_tests_pass_in_the_r_inside_python(tmp_path: Path) -> None:
    code = (
        f"{seeded.beginning()}\n"
        "import r_bridge\n"
        "r_bridge.attach_functions()\n"
        "r_bridge.call('''function(folder) {\n"
        "  found <- as.data.frame(testthat::test_dir(folder, env = new.env(parent = asNamespace(\"hdpstats\")),"
        f" load_package = \"none\", filter = \"{'|'.join(OF_THE_HOST)}\","
        " reporter = \"silent\", stop_on_failure = FALSE))\n"
        "  bad <- found[found$failed > 0 | found$error, ]\n"
        "  if (nrow(bad)) stop(paste(bad$file, bad$test, collapse = \"; \"))\n"
        "  cat(sum(found$passed), \"expectations met\")\n"
        f"}}''', {str(SOURCE / 'tests' / 'testthat')!r})\n"
    )  # fmt: skip
    done = forked.run([sys.executable, "-c", code], cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) expectations met", done.stdout)[0]) > 100


METHODS = """
source <- %s
methods <- as.data.frame(parseNamespaceFile(basename(source), dirname(source))$S3methods)
names(methods) <- c("generic", "class", "method", "package")
unnamed <- is.na(methods$method)
methods$method[unnamed] <- paste(methods$generic, methods$class, sep = ".")[unnamed]
methods$package[is.na(methods$package)] <- "hdpstats"
methods <- methods[vapply(methods$package, requireNamespace, NA, quietly = TRUE), ]
registered <- function(generic, class, method, package) {
  identical(getS3method(generic, class, TRUE, envir = asNamespace(package)), get(method, asNamespace("hdpstats")))
}
found <- do.call(mapply, c(list(registered, USE.NAMES = FALSE), methods))
paste(c(sum(found), methods$method[!found]), collapse = " ")
"""


def test_every_method_is_registered_in_the_r_inside_python(evaluate) -> None:
    """Also those for generics of packages that are loaded after the functions were attached."""
    number, *absent = from_r(evaluate(METHODS % json.dumps(str(SOURCE)))).split()
    assert absent == []
    assert int(number) > 100
