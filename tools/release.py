"""Build what is released, the same bytes each time, and try it where nothing else is: ``make release``.

From the last commit, never from files that are just being edited: wheel and source archive, built twice and compared;
each installed in an empty environment and tried in an empty folder (`tools/installed.py`); a list of what the wheel
needs, as CycloneDX; and the SHA-256 of all of these. They are in ``dist/``.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PACKAGES = ("hdpstats", "r_bridge")


def run(*arguments: object, folder: Path = ROOT, **changes: str) -> str:
    """Run a program, and return what it prints; what it says of a failure is shown."""
    done = subprocess.run(
        list(map(str, arguments)), cwd=folder, env=os.environ | changes, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def exported(commit: str, place: Path) -> Path:
    """Write the files of a commit to a folder."""
    archive = place / "source.tar"
    run("git", "archive", "--format=tar", "-o", archive, commit)
    source = place / "source"
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    return source


def built(commit: str, out: Path, python: Path) -> list[Path]:
    """Build wheel and source archive of a commit; their times are that of the commit."""
    with tempfile.TemporaryDirectory() as folder:
        source = exported(commit, Path(folder))
        epoch = run("git", "log", "-1", "--format=%ct", commit).strip()
        run(
            python, "-m", "build", "--no-isolation", "--outdir", out, source,
            folder=Path(folder), SOURCE_DATE_EPOCH=epoch,
        )  # fmt: skip
    return sorted(out.iterdir())


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_contents(wheel: Path, commit: str) -> None:
    """Refuse a wheel without one of the packages' files, or with a file that is not in the commit."""
    listed = run("git", "ls-tree", "-r", "--name-only", commit, *PACKAGES).split()
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith(PACKAGES) and ".dist-info/" not in name}
        held = {name for name in held if ".data/" not in name}
    if held != set(listed):
        raise SystemExit(f"{wheel.name} and {commit} differ in {sorted(held ^ set(listed))}")


def tried(artefact: Path, place: Path, *, r: bool) -> Path:
    """Install an artefact in an empty environment, try it in an empty folder, and return the environment."""
    environment, folder = place / "venv", place / "empty"
    folder.mkdir(parents=True)
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    what = f"{artefact}[r]" if r else str(artefact)
    run(python, "-m", "pip", "install", "--quiet", what, folder=folder, RPY2_CFFI_MODE="ABI")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "R_", "HDPSTATS"))}
    options = ["--with-r"] if r else []
    script = (ROOT / "tools" / "installed.py").read_text(encoding="utf-8")
    (folder / "try.py").write_text(script, encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "README.md").write_text(readme, encoding="utf-8")
    done = subprocess.run(
        [str(python), "-I", "try.py", *options], cwd=folder, env=kept | {"RPY2_CFFI_MODE": "ABI"}, check=False
    )
    if done.returncode:
        raise SystemExit(f"{artefact.name} fails where nothing else is installed")
    return environment


def materials(environment: Path, out: Path, tool: Path) -> None:
    """Write what is installed in an environment as CycloneDX, the same bytes each time."""
    options = ("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")
    run(tool, "environment", *options, "--pyproject", ROOT / "pyproject.toml", "--output-file", out, environment)


def main() -> int:
    """Build, compare, try, list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--no-r", action="store_true", help="where there is no R: only Python is tried")
    parser.add_argument("--build-only", action="store_true", help="build twice and compare, and stop")
    options = parser.parse_args()
    tools = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first, second = (built(options.commit, place / name, Path(sys.executable)) for name in ("one", "two"))
        differing = [one.name for one, two in zip(first, second, strict=True) if sha256(one) != sha256(two)]
        if differing:
            raise SystemExit(f"two builds of one commit differ: {', '.join(differing)}")
        DIST.mkdir(exist_ok=True)
        for old in DIST.iterdir():
            old.unlink()
        for path in first:
            (DIST / path.name).write_bytes(path.read_bytes())
        (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
        check_contents(wheel, options.commit)
        print(f"built twice, the same bytes: {wheel.name}, {source.name}")
        if options.build_only:
            return 0
        run(tools / "twine", "check", "--strict", wheel, source)
        environment = tried(wheel, place / "wheel", r=not options.no_r)
        tried(source, place / "sdist", r=False)
        materials(
            environment, DIST / f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json", tools / "cyclonedx-py"
        )
    lines = [f"{sha256(path)}  {path.name}" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="ascii")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
