"""Write which versions CI and releases are made with, and the hashes of their files: ``make lock``.

What pip would install now, in an empty environment of this Python on this kind of machine, as requirements that
``pip install --require-hashes`` takes: nothing else than these very files is installed then. The extra ``flare`` has no
part in it: CI does without it, and `make validate` installs it in an environment of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WANTED = {
    "ci": ["--editable", f"{ROOT}[all,r-cells,dev]", "hatchling", "editables"],
    "release": ["--requirement", str(ROOT / "tools" / "requirements-release.in")],
}
HEAD = "# Written by `make lock` for Python {}.{} on {}: versions, and the SHA-256 of the files that are installed.\n"


def resolved(wanted: list[str]) -> list[dict]:
    """Return what pip would install, from the index alone."""
    alone = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    options = ["--dry-run", "--ignore-installed", "--quiet"]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", *options, "--report", report.name, *wanted]
        environment = alone | {"PIP_CONFIG_FILE": os.devnull, "RPY2_CFFI_MODE": "ABI"}
        subprocess.run(command, check=True, env=environment, cwd=tempfile.gettempdir())
        return json.loads(Path(report.name).read_text(encoding="utf-8"))["install"]


def main() -> int:
    """Write the files that are named, or both."""
    for name in sys.argv[1:] or WANTED:
        lines = []
        for each in resolved(WANTED[name]):
            if each["metadata"]["name"] != "hdpstats":
                pinned = f"{each['metadata']['name']}=={each['metadata']['version']}"
                digest = each["download_info"]["archive_info"]["hashes"]["sha256"]
                lines.append(f"{pinned} \\\n    --hash=sha256:{digest}\n")
        head = HEAD.format(*sys.version_info[:2], sys.platform)
        path = ROOT / "tools" / f"requirements-{name}.txt"
        path.write_text(head + "".join(sorted(lines, key=str.lower)), encoding="utf-8")
        print(f"{path}: {len(lines)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
