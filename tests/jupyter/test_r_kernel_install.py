"""How Jupyter learns of the R kernel: the command, and the wheel."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from r_bridge.__main__ import main

ROOT = Path(__file__).parents[2]


def test_the_command_installs_a_kernelspec_that_names_this_python(tmp_path, capsys):
    assert main(["kernel", "install", "--prefix", str(tmp_path)]) == 0
    place = tmp_path / "share" / "jupyter" / "kernels" / "hdpstats-r"
    assert str(place) in capsys.readouterr().out
    spec = json.loads((place / "kernel.json").read_text())
    assert spec["argv"] == [sys.executable, "-P", "-m", "r_bridge.kernel", "-f", "{connection_file}"]
    assert (spec["display_name"], spec["language"], spec["interrupt_mode"]) == ("R (hdpstats)", "R", "signal")
    assert (place / "logo-svg.svg").read_text().startswith("<svg")


def test_a_place_that_cannot_be_written_is_exit_status_1(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["kernel", "install", "--prefix", str(tmp_path / "file")]) == 1
    assert "--user" in capsys.readouterr().err


def test_places_exclude_each_other():
    with pytest.raises(SystemExit):
        main(["kernel", "install", "--user", "--sys-prefix"])


def test_the_wheel_holds_the_kernelspec_and_the_r_code_of_the_kernel(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = [name for name in names if name.endswith("data/share/jupyter/kernels/hdpstats-r/kernel.json")]
        spec = json.loads(archive.read(place))
    assert spec["argv"][0] == "python"  # which Jupyter takes for its own
    assert place.replace("kernel.json", "logo-svg.svg") in names
    sources = {f"r_bridge/kernel/R/{path.name}" for path in (ROOT / "r_bridge" / "kernel" / "R").glob("*.R")}
    assert sources
    assert sources <= set(names)
