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
from r_bridge.package import SOURCE

DOCUMENTED = re.compile(r"^export\((.*)\)$", re.MULTILINE)
FORMULA = "event3 ~ age + size + log1p(nodes)"


def plain_r(*arguments: str, folder: Path, seconds: int = 900, **environment: str) -> str:
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


def script(folder: Path, code: str, library: Path, *, seconds: int = 300) -> str:
    """Run R code with a library of its own, by a plain Rscript."""
    file = folder / "script.R"
    file.write_text(code, encoding="utf-8")
    return plain_r("Rscript", "--vanilla", str(file), folder=folder, seconds=seconds, R_LIBS=str(library))


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source package; building it runs the vignettes."""
    place = tmp_path_factory.mktemp("build")
    shutil.copytree(SOURCE, place / "hdpstats")
    plain_r("R", "CMD", "build", "hdpstats", folder=place, HDPSTATS_PYTHON=sys.executable)
    return next(place.glob("hdpstats_*.tar.gz"))


def test_check_finds_nothing(tarball: Path, tmp_path: Path) -> None:
    options = ("--no-manual", "--run-donttest", "--no-build-vignettes", "--no-vignettes")  # the build has run them
    printed = plain_r(
        "R", "CMD", "check", *options, str(tarball), folder=tmp_path,
        HDPSTATS_PYTHON=sys.executable, _R_CHECK_CRAN_INCOMING_="false",
    )  # fmt: skip
    status = re.findall(r"^Status: (.*)$", printed, re.MULTILINE)
    assert status in (["OK"], ["1 NOTE"]), printed
    results = (tmp_path / "hdpstats.Rcheck" / "tests" / "testthat.Rout").read_text(encoding="utf-8")
    assert re.search(r"FAIL 0 \| WARN 0 \| SKIP 0 \| PASS [1-9]\d\d", results), results
    examples = (tmp_path / "hdpstats.Rcheck" / "hdpstats-Ex.Rout").read_text(encoding="utf-8")
    assert "1-differential privacy (pure)" in examples  # the examples ran, with Python


def test_without_python_check_skips_politely(tarball: Path, tmp_path: Path) -> None:
    options = ("--no-manual", "--run-donttest", "--no-vignettes", "--no-build-vignettes")
    printed = plain_r(
        "R", "CMD", "check", *options, str(tarball), folder=tmp_path,
        HDPSTATS_PYTHON="/nowhere/python", _R_CHECK_CRAN_INCOMING_="false",
    )  # fmt: skip
    assert "Status: OK" in printed
    results = (tmp_path / "hdpstats.Rcheck" / "tests" / "testthat.Rout").read_text(encoding="utf-8")
    assert re.search(r"FAIL 0 \| WARN 0 \| SKIP [1-9]\d \| PASS [1-9]", results), results


def test_vignettes_show_what_they_promise(tarball: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(tarball, tmp_path)
    start = (tmp_path / "hdpstats/inst/doc/start-here.html").read_text(encoding="utf-8")
    survival = (tmp_path / "hdpstats/inst/doc/survival.html").read_text(encoding="utf-8")
    assert start.count("[1] TRUE") == 3  # equal to glm, in coefficients and standard errors; the same after JSON
    assert "Nothing was charged" in start
    assert "spent" in start
    assert survival.count("[1] TRUE") == 1  # equal to glm on person-period rows
    assert survival.count("data:image/png") == 3
    assert "#&gt; Error" not in survival


def test_every_function_has_a_page_with_an_example_that_runs() -> None:
    names = re.split(r",\s*", ", ".join(DOCUMENTED.findall((SOURCE / "NAMESPACE").read_text(encoding="utf-8"))))
    pages = [page.read_text(encoding="utf-8") for page in (SOURCE / "man").glob("*.Rd")]
    for name in names:
        page = next(text for text in pages if f"\\alias{{{name}}}" in text)
        assert "\\examples{" in page, name


def test_r_and_python_read_the_same_numbers(library: Path, tmp_path: Path) -> None:
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90),
        size=hdp.Categorical(["<=20", "20-50", ">50"]),
        nodes=hdp.Continuous(0, 40, missing=1),
        event3=hdp.Binary(),
    )
    gbsg = hdp.datasets.load_gbsg()
    study = hdp.Study(
        private=hdp.datasets.load_rotterdam(), public=gbsg, schema=schema, budget=hdp.Budget(epsilon=1, delta=0)
    )
    ours = hdpf.logit(FORMULA, data=study).fit(epsilon=1)
    ours.to_json(tmp_path / "python.json")
    printed = script(
        tmp_path,
        f"""
        library(hdpstats)
        exact <- function(x) sprintf("%a", unname(unlist(x)))
        facts <- function(fit, rows) list(
          coef = exact(coef(fit)), vcov = exact(as.vector(vcov(fit))), confint = exact(as.vector(confint(fit))),
          p = exact(dp_tidy(fit)$p.value), predicted = exact(predict(fit, rows, type = "response"))
        )
        rows <- dp_load_gbsg()[1:5, ]
        schema <- dp_schema(age = dp_continuous(20, 90), size = dp_categorical(c("<=20", "20-50", ">50")),
                            nodes = dp_continuous(0, 40, missing = 1), event3 = dp_binary())
        study <- dp_study(private = dp_load_rotterdam(), public = dp_load_gbsg(), schema = schema,
                          budget = dp_budget(epsilon = 1))
        fit <- dp_logit({FORMULA}, data = study, epsilon = 1)
        dp_write_result(fit, "r.json")
        cat("python:", unlist(facts(dp_read_result("python.json"), rows)), "\\n")
        cat("r:", unlist(facts(fit, rows)), "\\n")
        cat("schema:", schema$json, "\\n")
        """,
        library,
    )
    lines = {line.split(":", 1)[0]: line.split(":", 1)[1] for line in printed.splitlines() if ":" in line}
    theirs = hdp.Result.from_json(tmp_path / "r.json")
    for result, said in ((ours, lines["python"]), (theirs, lines["r"])):
        assert [float.fromhex(text) for text in said.split()] == _facts(result, gbsg.iloc[:5])
    assert hdp.Schema.from_dict(json.loads(lines["schema"])).sha256 == schema.sha256
    assert theirs.params.index.tolist() == ours.params.index.tolist()


def _facts(result: hdp.Result, rows: pd.DataFrame) -> list[float]:
    matrices = (result.cov_params().to_numpy(), result.conf_int().to_numpy())
    vectors = [result.params.to_numpy(), *(each.ravel(order="F") for each in matrices)]
    vectors += [result.pvalues.to_numpy(), result.predict(rows).to_numpy()]
    return [float(value) for vector in vectors for value in vector]


def test_garbage_of_reticulate_is_not_collected_while_python_waits_for_r(library: Path, tmp_path: Path) -> None:
    printed = script(
        tmp_path,
        """
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
        """,
        library,
    )
    assert "686 11 rows arrived" in printed


def test_the_same_tests_pass_in_the_r_inside_python(tmp_path: Path) -> None:
    code = (
        "import r_bridge\n"
        "r_bridge.attach_functions()\n"
        "r_bridge.call('''function(folder) {\n"
        "  found <- as.data.frame(testthat::test_dir(folder, env = new.env(parent = asNamespace(\"hdpstats\")),"
        " load_package = \"none\", reporter = \"silent\", stop_on_failure = FALSE))\n"
        "  bad <- found[found$failed > 0 | found$error, ]\n"
        "  if (nrow(bad)) stop(paste(bad$file, bad$test, collapse = \"; \"))\n"
        "  cat(sum(found$passed), \"expectations met\")\n"
        f"}}''', {str(SOURCE / 'tests' / 'testthat')!r})\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) expectations met", done.stdout)[0]) > 100
