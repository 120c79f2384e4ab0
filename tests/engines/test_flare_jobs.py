"""Jobs for FLARE: what is in one, and how what it left is read. FLARE itself is not needed."""

import ast
import contextlib
import importlib
import json
import sys
import types
from pathlib import Path

import pytest

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.engines import flare
from hdpstats.engines.asked_sites import AskedSites
from hdpstats.engines.collecting import FACTS, NO_ANSWER, collect, written
from hdpstats.engines.flare.job import read_job, sites_of_job, write_job
from hdpstats.exchange import RequestFile
from hdpstats.ledger import SigningKey
from tests.custodian.people import PUBLIC, SCHEMA
from tests.engines.hospitals import NAMES, Carrier, Hospital, left_by

STUDY = hdp.Study(public=PUBLIC, schema=SCHEMA)


@pytest.fixture
def request_file(tmp_path):
    place = tmp_path / "request.json"
    hdp.request("describe", ["x", "g"], STUDY, epsilon=0.5, path=place)
    return place


def test_a_job_has_one_request_and_no_code(tmp_path, request_file):
    write_job(request_file, tmp_path / "job", sites=NAMES)
    files = {str(file.relative_to(tmp_path / "job")) for file in (tmp_path / "job").rglob("*") if file.is_file()}
    config = {f"app/config/{name}" for name in ("config_fed_server.json", "config_fed_client.json")}
    assert files == {"meta.json", *(f"app/config/{name}.json" for name in ("request", "sites", "known")), *config}
    assert (tmp_path / "job" / "app/config/request.json").read_bytes() == request_file.read_bytes()
    said = AskedSites.read(tmp_path / "job" / "app/config/sites.json")
    assert said == AskedSites(request_sha256=RequestFile.read(request_file).sha256, names=NAMES)
    client = json.loads((tmp_path / "job" / "app/config/config_fed_client.json").read_text())
    (executor,) = client["executors"]
    assert executor["executor"] == {"path": flare.EXECUTOR, "args": {}}
    assert client["components"] == client["task_data_filters"] == client["task_result_filters"] == []
    meta = json.loads((tmp_path / "job" / "meta.json").read_text())
    assert meta["deploy_map"] == {"app": ["server", *NAMES]}
    assert meta["min_clients"] == 2


@pytest.mark.parametrize("name", [flare.EXECUTOR, flare.CONTROLLER])
def test_the_classes_that_a_job_names_exist(name):
    module, _, wanted = name.rpartition(".")
    place = Path(flare.__file__).parent / f"{module.rpartition('.')[2]}.py"
    classes = {each.name for each in ast.parse(place.read_text()).body if isinstance(each, ast.ClassDef)}
    assert module.startswith(flare.__name__)
    assert wanted in classes


@pytest.mark.parametrize("sites", [[], ["a", "a"], ["../a"], ["a b"]])
def test_a_job_needs_names_of_sites(tmp_path, request_file, sites):
    with pytest.raises(hdp.ArgumentError, match="sites must be names"):
        write_job(request_file, tmp_path / "job", sites=sites)
    assert not (tmp_path / "job").exists()


def test_a_job_carries_its_public_rows(tmp_path):
    place = tmp_path / "request.json"
    hdp.request("describe", ["x"], STUDY, epsilon=0.5, attach_public=False, path=place)
    with pytest.raises(hdp.ArgumentError, match="public rows in it"):
        write_job(place, tmp_path / "job", sites=NAMES)


def test_the_command_line_writes_a_job_reads_it_and_keeps_who_is_gone(tmp_path, request_file, capsys):
    hospitals = [Hospital(tmp_path / name, name, rows=300, seed=i) for i, name in enumerate(NAMES)]
    job, result = tmp_path / "job", tmp_path / "result.json"
    sites = [word for name in NAMES for word in ("--site", name)]
    assert main(["flare", "job", str(request_file), *sites, "--out", str(job)]) == 0
    assert main(["flare", "job", str(request_file), *sites, "--out", str(job)]) == 2  # the folder is there
    carrier = Carrier(hospitals, job / "app" / "config" / "request.json", lost={"south": 1})
    asked = hdp.request("describe", ["x", "g"], STUDY, epsilon=0.5)
    several, _ = collect(asked, NAMES, carrier)
    folder = left_by(tmp_path / "left", several, asked)
    assert main(["flare", "result", str(request_file), str(folder), "--out", str(result)]) == 0
    assert f"south was left out: {NO_ANSWER}" in capsys.readouterr().out
    assert result.read_text() == read_job(folder, request_file)[1].to_json()
    said = json.loads((folder / "workspace" / "hdpstats" / "sites.json").read_text())
    (folder / "workspace" / "hdpstats" / "sites.json").write_text(json.dumps(said | {"left": {"south": "\x1b[2K no"}}))
    assert read_job(folder, request_file)[0].left == {"south": NO_ANSWER}  # in no other words than these
    again = tmp_path / "again"
    assert main(["flare", "job", str(request_file), *sites, "--after", str(folder), "--out", str(again)]) == 0
    known = json.loads((again / "app/config/known.json").read_text())
    assert known == {name: written(each).decode() for name, each in several.releases.items()}
    assert set(known) == set(NAMES)


def test_releases_of_a_job_are_checked_with_keys(tmp_path, request_file):
    tmp_path.chmod(0o700)
    private, public = SigningKey.generate().write(tmp_path / "site")
    _, other = SigningKey.generate().write(tmp_path / "other")
    signs = {"signing": {"key": str(private)}}
    hospitals = [Hospital(tmp_path / name, name, seed=i, **signs) for i, name in enumerate(NAMES)]
    asked = hdp.request("describe", ["x", "g"], STUDY, epsilon=0.5)
    several, _ = collect(asked, NAMES, Carrier(hospitals, request_file))
    folder = left_by(tmp_path / "left", several, asked)
    read_job(folder, request_file, keys=dict.fromkeys(NAMES, public))
    with pytest.raises(hdp.LedgerError):
        read_job(folder, request_file, keys=dict.fromkeys(NAMES, public) | {"east": other})
    with pytest.raises(hdp.ArgumentError, match=r"none for north, south: .*--unsigned SITE"):
        read_job(folder, request_file, keys={"east": public})
    read_job(folder, request_file, keys={"east": public, "north": None, "south": None})
    words = ["flare", "result", str(request_file), str(folder), "--out", str(tmp_path / "r.json")]
    east = ["--key", f"east={public}"]
    assert main([*words, *east]) == 2
    assert main([*words, *east, "--unsigned", "north", "--unsigned", "east"]) == 2
    assert not (tmp_path / "r.json").exists()
    assert main([*words, *east, "--unsigned", "north", "--unsigned", "south"]) == 0
    (folder / "workspace/hdpstats/releases/south.json").unlink()
    with pytest.raises(hdp.SiteError, match="no release file of south"):
        read_job(folder, request_file, keys={"east": public, "north": public})
    with pytest.raises(hdp.ArgumentError, match="keys must be of sites that were asked"):
        read_job(folder, request_file, keys={"west": public})


@pytest.mark.parametrize("said", [["east"], ["east", "north"], ["east", "north", "west"], [*NAMES, "west"]])
def test_the_server_is_not_believed_about_whom_a_job_asked(tmp_path, request_file, capsys, said):
    job, out = tmp_path / "job", tmp_path / "result.json"
    write_job(request_file, job, sites=NAMES)
    hospitals = [Hospital(tmp_path / name, name, seed=i) for i, name in enumerate(NAMES)]
    several, _ = collect(RequestFile.read(request_file), NAMES, Carrier(hospitals, request_file, lost={"south": 1}))
    folder = left_by(tmp_path / "left", several, RequestFile.read(request_file))
    words = ["flare", "result", str(request_file), str(folder), "--out", str(out)]
    names = [word for name in reversed(NAMES) for word in ("--site", name)]
    for known in (["--job", str(job)], names):
        assert main([*words, *known]) == 0
        assert "server's word" not in (told := capsys.readouterr().out)
        assert f"south was left out: {NO_ANSWER}" in told
        out.unlink()
    written_by_server = {"asked": said, "left": {name: NO_ANSWER for name in said if name in ("south", "west")}}
    (folder / "workspace/hdpstats/sites.json").write_text(json.dumps(written_by_server))
    for known in (["--job", str(job)], names):
        assert main([*words, *known]) == 2
        assert f"the server says that {', '.join(said)} were asked" in capsys.readouterr().err
    if said == [*NAMES, "west"]:
        assert main(words) == 1  # no quorum
        return
    assert main(words) == 0
    assert f"that {', '.join(said)} were asked, and no others, is the server's word" in capsys.readouterr().out


def test_whom_a_job_asked_is_read_from_what_the_analyst_keeps(tmp_path, request_file):
    job, other = tmp_path / "left" / "job", tmp_path / "other.json"
    job.parent.mkdir()
    write_job(request_file, job, sites=NAMES)
    assert sites_of_job(job, request_file, folder=tmp_path / "elsewhere") == NAMES
    with pytest.raises(hdp.ArgumentError, match="is in what was downloaded"):
        sites_of_job(job, request_file, folder=job.parent)
    hdp.request("describe", ["x", "g"], STUDY, epsilon=0.5, replicate=2, path=other)
    with pytest.raises(hdp.ArgumentError, match="asks another request"):
        sites_of_job(job, other, folder=tmp_path / "elsewhere")
    with pytest.raises(hdp.ArgumentError, match="cannot be read"):
        sites_of_job(tmp_path, request_file, folder=tmp_path / "elsewhere")


def test_what_is_no_job_is_refused(tmp_path, request_file):
    with pytest.raises(hdp.ArgumentError, match="there is no hdpstats/sites"):
        read_job(tmp_path, request_file)
    (tmp_path / "hdpstats").mkdir()
    for said in (
        "[]",
        '{"asked": [], "left": {}}',
        '{"asked": ["../etc"], "left": {}}',
        '{"asked": ["\x1b"], "left": {}}',
    ):
        (tmp_path / "hdpstats" / "sites.json").write_text(json.dumps(said))
        with pytest.raises(hdp.ArgumentError, match="cannot be read"):
            read_job(tmp_path, request_file)


@pytest.fixture
def controller(monkeypatch):
    """The controller's module, with a FLARE that has no clients."""

    class Base:
        def __init__(self, **_):
            self.panics = []

        def broadcast_and_wait(self, **_):
            pass

        def log_info(self, *_):
            pass

        log_error = log_info

        def system_panic(self, reason, _):
            self.panics.append(reason)

    names = {
        "nvflare.apis.client": ["Client"],
        "nvflare.apis.controller_spec": ["ClientTask", "Task"],
        "nvflare.apis.fl_context": ["FLContext"],
        "nvflare.apis.impl.controller": ["Controller"],
        "nvflare.apis.shareable": ["Shareable"],
        "nvflare.apis.signal": ["Signal"],
    }
    for name in ("nvflare", "nvflare.apis", "nvflare.apis.impl", *names):
        made = types.ModuleType(name)
        vars(made).update(
            {each: type(each, (dict,), {"__init__": lambda self, **_: None}) for each in names.get(name, ())}
        )
        monkeypatch.setitem(sys.modules, name, made)
    sys.modules["nvflare.apis.impl.controller"].Controller = Base
    monkeypatch.delitem(sys.modules, "hdpstats.engines.flare.controller", raising=False)
    yield importlib.import_module("hdpstats.engines.flare.controller")
    sys.modules.pop("hdpstats.engines.flare.controller", None)


@pytest.mark.parametrize("sites", [["east"], ["east", "../../escaped"]])
def test_a_job_writes_nothing_out_of_its_folder_at_the_server(tmp_path, request_file, controller, sites):
    hospital = Hospital(tmp_path / "east", "east")
    facts = Carrier([hospital], request_file)(FACTS, {}, ["east"])["east"].release
    config, run = tmp_path / "config", tmp_path / "jobs" / "one"
    config.mkdir()
    run.mkdir(parents=True)
    (config / "request.json").write_bytes(request_file.read_bytes())
    (config / "known.json").write_text(
        json.dumps(dict.fromkeys(["east", "../../../escaped", "../../escaped"], facts.decode()))
    )
    workspace = types.SimpleNamespace(get_run_dir=lambda _: run, get_app_config_dir=lambda _: config)
    context = types.SimpleNamespace(
        get_engine=lambda: types.SimpleNamespace(get_workspace=lambda: workspace), get_job_id=lambda: "one"
    )
    with contextlib.suppress(ValueError):
        controller.RequestController(sites, seconds=1, patience=1).control_flow(None, context)
    assert not list(tmp_path.rglob("escaped*"))
