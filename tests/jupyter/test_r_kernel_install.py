"""How Jupyter learns of the R kernel: by the command. `tests.r.test_clean_machine` looks into the wheel."""

import json
import sys

import pytest

from r_bridge.__main__ import main


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
