"""Try an installed hdpstats in the folder where it stands, beside README.md: ``python -I installed.py [--with-r]``.

It runs alone, with what the installation has. README's lines of Python and of R, `hdpstats qualify`, the command, data
files, the type marker, the kernel specification, and the R package, installed into a library of its own.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from importlib import metadata
from importlib.resources import files
from pathlib import Path

HERE = Path.cwd()


def run(*arguments: object, **changes: str) -> str:
    """Run a program here, and return what it prints."""
    done = subprocess.run(
        list(map(str, arguments)), env=os.environ | changes, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def lines_of(language: str) -> str:
    """Return README's first block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", (HERE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise SystemExit(f"README.md has no block of {language}")
    return found.group(1)


def expect(condition: object, words: str) -> None:
    """Print what is so, or end."""
    if not condition:
        raise SystemExit(f"not so: {words}")
    print(f"ok: {words}", flush=True)


def check_files() -> None:
    """Check what an installation has beside its modules."""
    import hdpstats

    prefix, place = Path(sys.prefix).resolve(), Path(hdpstats.__file__).resolve()
    expect(place.is_relative_to(prefix), f"hdpstats is that of {prefix}")
    expect(metadata.version("hdpstats") == hdpstats.__version__, f"its version is {hdpstats.__version__}")
    expect((files("hdpstats") / "py.typed").is_file(), "types are marked")
    for name in (
        "schema/csv/rotterdam.csv",
        "schema/csv/LICENSE",
        "audit/reference.json",
        "display/page.css",
        "api.pyi",
    ):
        expect((files("hdpstats") / name).is_file(), f"hdpstats/{name} is there")
    command = Path(sysconfig.get_path("scripts")) / "hdpstats"
    expect(hdpstats.__version__ in run(command, "--version"), "the command hdpstats says its version")
    spec = prefix / "share" / "jupyter" / "kernels" / "hdpstats-r" / "kernel.json"
    expect(json.loads(spec.read_text(encoding="utf-8"))["display_name"], "Jupyter's kernel is specified")
    package = metadata.distribution("hdpstats").metadata
    expect(package["License-Expression"] == "MIT AND LGPL-2.0-or-later", "the licence is stated")


def check_python() -> None:
    """Run README's lines twice: the second time the stored release is returned."""
    (HERE / "ten_lines.py").write_text(lines_of("python"), encoding="utf-8")
    first, again = (run(sys.executable, "-I", HERE / "ten_lines.py") for _ in range(2))
    expect("log1p(nodes)" in first and "1-differential privacy" in first, "README's lines of Python give a table")
    expect("stored release of" in again, "and the same release the second time")
    command = Path(sysconfig.get_path("scripts")) / "hdpstats"
    report = HERE / "qualification.json"
    run(command, "qualify", "--out", report)
    expect(report.stat().st_size > 1000, "hdpstats qualify passes")


def check_r() -> None:
    """Install the R package into a library of its own, and run README's lines."""
    library, home = HERE / "library", HERE / "home"
    home.mkdir()
    run(sys.executable, "-I", "-m", "r_bridge", "install", "--no-vignettes", "--lib", library, HOME=str(home))
    expect((library / "hdpstats" / "DESCRIPTION").is_file(), "python -m r_bridge install installs the R package")
    (HERE / "ten_lines.R").write_text(lines_of("r"), encoding="utf-8")
    printed = run("Rscript", HERE / "ten_lines.R", R_LIBS=str(library), HOME=str(home))
    expect("log1p(nodes)" in printed and "1-differential privacy" in printed, "README's lines of R give a table")


def main() -> None:
    """Try everything."""
    check_files()
    check_python()
    if "--with-r" in sys.argv:
        check_r()


if __name__ == "__main__":
    main()
