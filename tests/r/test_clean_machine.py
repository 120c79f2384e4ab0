"""A clean machine: the wheel with ``[r]`` in a new environment, ``python -m r_bridge install``, plain Rscript."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
  setequal(names(coef(hazard)), c(covariates, paste0("baseline[", 1:4, "]"))), all(is.finite(vcov(hazard))),
  nobs(fit) == 2982,
  identical(dp_ledger(study)$spent, c(epsilon = 2, delta = 0)), nrow(as.data.frame(dp_ledger(study))) == 4L,
  inherits(try(dp_logit(event3 ~ age, data = study, epsilon = 2), silent = TRUE), "try-error"),
  identical(coef(dp_logit(event3 ~ age + factor(size), data = study, epsilon = 1)), coef(fit))
)
print(summary(fit))
print(confint(hazard))
print(dp_ledger(study))
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
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    program(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", place, ROOT, folder=place)
    return next(place.glob("hdpstats-*.whl"))


@pytest.mark.wide
def test_the_wheel_holds_the_kernelspec_and_the_r_code_of_the_kernel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = [name for name in names if name.endswith("data/share/jupyter/kernels/hdpstats-r/kernel.json")]
        spec = json.loads(archive.read(place))
    assert spec["argv"][0] == "python"  # which Jupyter takes for its own
    assert place.replace("kernel.json", "logo-svg.svg") in names
    sources = {f"r_bridge/kernel/R/{path.name}" for path in (ROOT / "r_bridge" / "kernel" / "R").glob("*.R")}
    assert sources
    assert sources <= set(names)


def required(package: Distribution, *extras: str) -> dict[str, Distribution]:
    """Return by name what a package needs, and what that needs: as installed here, in versions that it admits."""
    found: dict[str, Distribution] = {}
    left = [(package, extras)]
    while left:
        asking, wanted = left.pop()
        for line in asking.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                installed = distribution(needed.name)
                assert needed.specifier.contains(installed.version, prereleases=True), line
                if needed.name not in found or needed.extras:
                    left.append((installed, tuple(needed.extras)))
                found[needed.name] = installed
    return found


@pytest.fixture(scope="module")
def machine(wheel, tmp_path_factory):
    """The Python of a new environment with the built wheel and what its extra ``[r]`` needs, and nothing else.

    What it needs is linked from this environment, and what was compiled of the same source here is copied: both are as
    they would be there, and take much less time.
    """
    place = tmp_path_factory.mktemp("machine")
    program(sys.executable, "-m", "venv", "--without-pip", place / "venv", folder=place)
    python = place / "venv" / "bin" / "python"
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile")
    program(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, folder=place)
    (installed,) = place.glob("venv/lib/*/site-packages")
    (facts,) = installed.glob("hdpstats-*.dist-info")
    for package in required(PathDistribution(facts), "r").values():
        for name in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (installed / name).exists():
                (installed / name).symlink_to(package.locate_file(name))
    for cache in [*ROOT.glob("hdpstats/**/__pycache__"), *ROOT.glob("r_bridge/**/__pycache__")]:
        folder = installed / cache.parent.relative_to(ROOT)
        for module in folder.glob("*.py"):
            source = cache.parent / module.name
            assert module.read_bytes() == source.read_bytes()
            shutil.copystat(source, module)
        if folder.exists():
            copy_compiled(cache, folder / cache.name)
    return python


def copy_compiled(cache: Path, place: Path) -> None:
    """Copy compiled code without what other processes are just writing, and rename when it is complete."""
    shutil.copytree(cache, place, ignore=shutil.ignore_patterns("*.pyc.*", "*.tmp.*"))


def test_what_is_just_being_written_is_not_copied(tmp_path):
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    complete = {"design.cpython-311.pyc", "loops.fit-7.py311.nbi", "loops.fit-7.py311.1.nbc"}
    for name in complete:
        (cache / name).touch()
    for name in ("design.cpython-311.pyc.140", "loops.fit-7.py311.nbi.tmp.0a", "loops.fit-7.py311.1.nbc.tmp.0b"):
        (cache / name).symlink_to("renamed")  # there when the folder is listed, gone when it is read
    copy_compiled(cache, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == complete


@pytest.mark.wide
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
    assert re.search(r"spent\s+2\s+0", printed)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["home", "library", "script.R"]
