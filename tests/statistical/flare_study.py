"""Three hospitals in FLARE, provisioned, each in processes of its own: run in an environment that has ``nvflare``.

``python -m tests.statistical.flare_study FOLDER`` writes what happened to ``FOLDER/happened.json``; the test that
starts it is `tests.statistical.test_flare`. In turn:

1. The demo: FLARE's simulator carries a request to three hospitals (`tools.flare_demo`).
2. Three provisioned hospitals, a server and an analyst, over mutual TLS. While the answer is under way one hospital is
   killed, after its ledger has its first release and before it replies.
3. The same request again, the hospital still gone; and again, the hospital back.
4. Another request in two jobs at the same time, so that each task is delivered twice.
5. What hospitals must refuse: a class that is not on their list, shipped code, and a job of somebody whom the settings
   do not know.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import yaml
from nvflare.fuel.flare_api.flare_api import new_secure_session

import hdpstats.api as hdp
from hdpstats.engines.flare import CONTROLLER, EXECUTOR, PARTICIPATION
from hdpstats.engines.flare.job import read_job, write_job
from tests.custodian.people import FORMULA, PUBLIC, SCHEMA
from tests.engines.hospitals import ANALYST, Hospital
from tools.flare_demo import HOSPITALS

NAMES = ("east", "north", "south")
STRANGER = "eve@elsewhere.example"
GRID = 1.0
PATIENCE = 10.0
SILENCE = 30
"""Seconds after which the server takes a hospital for gone: a job ends no earlier."""
NUMBER = re.compile(rb"[0-9]+\.[0-9]+(?:e-?[0-9]+)?")
UNLISTED = re.compile(r"Component '([\w.]+)' at config path '[^']*' is not in allow_list")
OTHERS = ("nvflare.app_common.np.np_trainer.NPTrainer", "hdpstats.engines.participant.Participant")
STUDY = hdp.Study(public=PUBLIC, schema=SCHEMA)


def free_port():
    """Return a port that nobody listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Federation:
    """Provisioned kits, and the processes that were started from them."""

    def __init__(self, folder, hospitals):
        self.folder, self.hospitals, self.processes = folder, hospitals, {}
        port = free_port()
        participants = [{"name": "localhost", "type": "server", "org": "coordination", "fed_learn_port": port}]
        participants += [{"name": name, "type": "client", "org": name} for name in NAMES]
        participants += [
            {"name": who, "type": "admin", "org": "university", "role": "lead"} for who in (ANALYST, STRANGER)
        ]
        builders = [
            {
                "path": "nvflare.lighter.impl.workspace.WorkspaceBuilder",
                "args": {"template_file": ["master_template.yml"]},
            },
            {
                "path": "nvflare.lighter.impl.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "grpc", "require_signed_jobs": True},
            },
            {"path": "nvflare.lighter.impl.cert.CertBuilder"},
            {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
        ]
        project = {"api_version": 3, "name": "hdp", "description": "three hospitals"}
        project |= {"participants": participants, "builders": builders}
        folder.mkdir()
        (folder / "project.yml").write_text(yaml.safe_dump(project))
        run([sys.executable, "-m", "nvflare.cli", "provision", "-p", "project.yml"], folder)
        self.kits = next(folder.glob("workspace/hdp/prod_00"))
        self.configure("localhost", CONTROLLER)
        for each in hospitals:
            self.configure(each.name, EXECUTOR)
            shutil.copy(each.participation, self.kits / each.name / "local" / PARTICIPATION)
            said = {"settings": str(each.file), "grid": GRID}
            (self.kits / each.name / "local" / PARTICIPATION).write_text(json.dumps(said))

    def configure(self, name, allowed):
        """Write what the page says that an administrator writes."""
        local = self.kits / name / "local"
        resources = json.loads((local / "resources.json.default").read_text())
        resources |= {"class_allow_list": [allowed], "class_list_enforcement_mode": "enforce"}
        if name == "localhost":
            resources["servers"][0]["heart_beat_timeout"] = SILENCE
        else:
            resources["allow_log_streaming"] = False
        (local / "resources.json").write_text(json.dumps(resources))
        permissions = json.loads((local / "authorization.json.default").read_text())
        for role in permissions["permissions"].values():
            if isinstance(role, dict):
                role["byoc"] = "none"
        (local / "authorization.json").write_text(json.dumps(permissions))

    def start(self, name):
        """Start the server or a hospital."""
        log = (self.folder / f"{name}.log").open("a")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PYTHONPATH": os.getcwd(), "PATH": path}
        self.processes[name] = subprocess.Popen(
            ["bash", str(self.kits / name / "startup" / "sub_start.sh"), "--once"],
            cwd=self.kits / name,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def kill(self, name):
        """End a hospital and its jobs as a power cut would."""
        whole = psutil.Process(self.processes.pop(name).pid)
        for process in [whole, *whole.children(recursive=True)]:  # the script first, which starts others anew
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def close(self):
        for name in list(self.processes):
            self.kill(name)

    def session(self, who):
        """Connect as an analyst."""
        for _ in range(60):
            try:
                return new_secure_session(who, str(self.kits / who), timeout=20.0)
            except Exception:
                time.sleep(1.0)
        raise TimeoutError("no session with the server")


def run(words, folder):
    """Run a command, and return what it prints; fail where it fails."""
    done = subprocess.run(
        words, cwd=folder, env=os.environ | {"PYTHONPATH": os.getcwd()}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stdout[-3000:]} {done.stderr[-3000:]}")
    return done.stdout


def until(condition, seconds=120.0, pause=0.02):
    """Wait until something is so."""
    ended = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ended:
            raise TimeoutError(condition)
        time.sleep(pause)


def accounts(hospitals):
    return {each.name: {"epsilon": each.spent, "charges": each.charges} for each in hospitals}


def read(folder, request):
    """Return what an analyst reads in a downloaded job."""
    several, result = read_job(Path(folder), request)
    at_server = next(Path(folder).rglob("hdpstats/result.json")).read_text()
    return {
        "left": dict(several.left),
        "same as at the server": result.to_json() == at_server,
        "params": result.params.to_dict() if hasattr(result, "params") else {},
        "sites": result.sites.astype(object).where(result.sites.notna(), None).to_dict("records")
        if hasattr(result, "params")
        else [],
        "releases": {name: next(Path(folder).rglob(f"releases/{name}.json")).read_text() for name in several.releases},
    }


def main(folder):
    started, times = time.monotonic(), {}
    happened = {}
    hospitals = [
        Hospital(folder / name, name, rows=400 + 50 * i, seed=10 + i, grid=GRID) for i, name in enumerate(NAMES)
    ]
    request, again = folder / "request.json", folder / "again.json"
    hdp.request("logit", FORMULA, STUDY, epsilon=1, path=request)
    hdp.request("describe", ["x", "g"], STUDY, epsilon=0.5, path=again)

    begun = time.monotonic()
    (folder / "demo").mkdir(mode=0o700)
    run([sys.executable, "-m", "tools.flare_demo", str(folder / "demo")], Path.cwd())
    times["simulator"] = time.monotonic() - begun
    accounts_of_demo = {name: hdp.Ledger.open_existing(folder / "demo" / name / "ledger.db") for name in HOSPITALS}
    happened["simulator"] = read(folder / "demo" / "flare", folder / "demo" / "request.json") | {
        "accounts": {
            name: {"epsilon": float(each.spent.epsilon), "charges": len(each.history())}
            for name, each in accounts_of_demo.items()
        }
    }

    begun = time.monotonic()
    federation = Federation(folder / "federation", hospitals)
    times["provisioning"] = time.monotonic() - begun
    try:
        _provisioned(folder, federation, hospitals, (request, again), happened, times)
    finally:
        federation.close()
    times["all"] = time.monotonic() - started
    happened["seconds"] = {name: round(seconds, 1) for name, seconds in times.items()}
    happened["why FLARE refused"] = _why_refused(folder / "federation")
    happened["logs of FLARE with a cell"] = _with_cells(folder, hospitals)
    (folder / "happened.json").write_text(json.dumps(happened, indent=1))


def _why_refused(federation):
    """Return which classes each hospital did not find on its list, and whether shipped code was refused."""
    unlisted = {name: set(UNLISTED.findall((federation / f"{name}.log").read_text())) for name in NAMES}
    return {
        "not on the list": {name: sorted(classes) for name, classes in unlisted.items()},
        "shipped code": "BYOC not permitted" in (federation / "localhost.log").read_text(),
    }


def _with_cells(folder, hospitals):
    """Return which files of FLARE have a cell of the private rows in them."""
    cells = {
        repr(abs(cell)).encode() for each in hospitals for name in ("x", "secret") for cell in each.rows[name].tolist()
    }
    cells = {cell for cell in cells if len(cell) > 12}  # of which nobody writes one by chance
    files = [file for place in ("federation", "downloads") for file in (folder / place).rglob("*")]
    files = [file for file in files if file.is_file() and file.stat().st_size < 5_000_000]
    found = [str(file.relative_to(folder)) for file in files if cells & set(NUMBER.findall(file.read_bytes()))]
    return {"looked at": len(files), "found": found}


def _provisioned(folder, federation, hospitals, requests, happened, times):
    request, again = requests
    before = {each.name: (each.spent, each.charges) for each in hospitals}
    south = hospitals[2]
    begun = time.monotonic()
    for name in ("localhost", *NAMES):
        federation.start(name)
    session = federation.session(ANALYST)
    until(lambda: len(session.get_system_info().client_info) == 3)
    times["start"] = time.monotonic() - begun
    write_job(request, folder / "job", sites=NAMES, seconds=300, patience=PATIENCE)

    def ask(job, session=session):
        begun = time.monotonic()
        identity = session.submit_job(str(job))
        return identity, begun

    def download(identity, begun, what):
        meta = session.wait_for_job(identity, timeout=400)
        times[what] = time.monotonic() - begun
        return session.download_job_result(identity, str(folder / "downloads" / what)), meta.get("status")

    identity, begun = ask(folder / "job")
    until(lambda: south.releases > before["south"][1])  # a charge whose release is not kept would be made once more
    federation.kill("south")
    place, status = download(identity, begun, "one is killed")
    happened["killed"] = read(place, request) | {"status": status, "accounts": accounts(hospitals)}

    write_job(request, folder / "job-2", sites=NAMES, seconds=300, patience=PATIENCE, after=Path(place))
    identity, begun = ask(folder / "job-2")
    place, status = download(identity, begun, "again without it")
    happened["again"] = read(place, request) | {"status": status, "accounts": accounts(hospitals)}

    federation.start("south")
    until(lambda: len(session.get_system_info().client_info) == 3)
    identity, begun = ask(folder / "job-2")
    place, status = download(identity, begun, "it is back")
    happened["back"] = read(place, request) | {"status": status, "accounts": accounts(hospitals)}

    write_job(again, folder / "job-again", sites=NAMES, seconds=300, patience=PATIENCE)
    both = [ask(folder / "job-again"), ask(folder / "job-again")]
    places = [download(identity, begun, f"twice at once, {i}") for i, (identity, begun) in enumerate(both)]
    happened["twice"] = {
        "replies": [read(place, again)["releases"] for place, _ in places],
        "accounts": accounts(hospitals),
    }
    happened["refused"] = _refused(folder, federation, again, session)
    happened["accounts at the end"] = accounts(hospitals)
    happened["logs"] = {each.name: each.settings.carried_log.read_text().splitlines() for each in hospitals}


def _refused(folder, federation, request, session):
    """Return what became of jobs that must not be answered."""
    found = {}
    for name, change in {
        "another class": lambda job: _replace(job, EXECUTOR, OTHERS[0]),
        "a class of this package": lambda job: _replace(job, EXECUTOR, OTHERS[1]),
        "shipped code": lambda job: _ship(job),
    }.items():
        job = folder / f"job-{name.replace(' ', '-')}"
        write_job(request, job, sites=NAMES, seconds=60, patience=5)
        change(job)
        try:
            meta = session.wait_for_job(session.submit_job(str(job)), timeout=200)
            found[name] = str(meta.get("status"))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    job = folder / "job-stranger"
    write_job(request, job, sites=NAMES, seconds=60, patience=5)
    stranger = federation.session(STRANGER)
    identity = stranger.submit_job(str(job))
    meta = stranger.wait_for_job(identity, timeout=200)
    place = stranger.download_job_result(identity, str(folder / "downloads" / "stranger"))
    sites = json.loads(next(Path(place).rglob("hdpstats/sites.json")).read_text())
    found["a stranger"] = {"status": str(meta.get("status")), "left": sites["left"], "failed": sites.get("failed")}
    return found


def _replace(job, before, after):
    file = job / "app" / "config" / "config_fed_client.json"
    file.write_text(file.read_text().replace(before, after))


def _ship(job):
    custom = job / "app" / "custom"
    custom.mkdir()
    (custom / "mine.py").write_text("print('hello')\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # FLARE's threads do not end by themselves
