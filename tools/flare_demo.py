"""Three hospitals answer one request through FLARE's simulator: the demo of docs/how-to/flare.md.

``python -m tools.flare_demo [FOLDER]`` in an environment with ``pip install ".[flare]"``. The folder, a new one by
default, afterwards has all that hospitals, server and analyst wrote.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hdpstats.api as hdp
from hdpstats.engines.flare import CONTROLLER, EXECUTOR, PARTICIPATION
from hdpstats.engines.flare.job import read_job, write_job

HOSPITALS = ("oslo", "bergen", "bodo")
SETTINGS = """\
format: hdpstats site
version: 1
data: rows.parquet
schema: ../schema.yaml
ledger: {place: ledger.db, dataset: patients}
analysts:
  ann: {mechanisms: all, models: all, epsilon: 2}
"""
SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    event3=hdp.Binary(),
)


def demo(folder: Path) -> None:
    """Make the hospitals, ask them, and print what they answered and what it cost."""
    SCHEMA.to_yaml(folder / "schema.yaml")
    patients = hdp.datasets.load_rotterdam()
    for place, name in enumerate(HOSPITALS):
        hospital = folder / name
        hospital.mkdir(mode=0o700)
        rows = patients.iloc[place :: len(HOSPITALS)][[*SCHEMA]]
        rows.to_parquet(hospital / "rows.parquet")
        (hospital / "rows.parquet").chmod(0o600)
        (hospital / "site.yaml").write_text(SETTINGS)
        hdp.Ledger(hospital / "ledger.db", dataset="patients", epsilon=2, create=True)
        print(f"{name}: {len(rows)} patients, who never leave; an account of epsilon = 2")

    study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=SCHEMA)
    request = folder / "request.json"
    hdp.request("logit", "event3 ~ age + log1p(nodes) + size", study, epsilon=1, path=request)
    write_job(request, folder / "job", sites=HOSPITALS)

    workspace = folder / "flare"
    (workspace / "local").mkdir(parents=True)
    takes_part = {"settings": str(folder / "{site}" / "site.yaml"), "grid": 2, "unsigned": True}
    (workspace / "local" / PARTICIPATION).write_text(json.dumps(takes_part))
    allowed = {"class_allow_list": [CONTROLLER, EXECUTOR], "class_list_enforcement_mode": "enforce"}
    (workspace / "local" / "resources.json").write_text(json.dumps(allowed))
    words = [sys.executable, "-m", "nvflare.cli", "simulator", str(folder / "job"), "-w", str(workspace)]
    done = subprocess.run(
        [*words, "-c", ",".join(HOSPITALS), "-t", str(len(HOSPITALS))],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=False,
    )
    (folder / "flare.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"FLARE failed; see {folder / 'flare.log'}")
    several, result = read_job(workspace, request)
    result.to_json(folder / "result.json")
    print(result.summary())
    for name in several.releases:
        print(f"{name}: {hdp.Ledger.open_existing(folder / name / 'ledger.db').spent} spent")
    print(f"all of it is in {folder}")


if __name__ == "__main__":
    demo(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()).resolve())
