"""Three provisioned hospitals in NVIDIA FLARE, one of them killed: ``vignettes/validation/flare.md``.

``make validate``. FLARE is in an environment of its own (``.venv/flare``, which the Makefile makes): it brings 22
packages that nothing else needs. What runs there is `tests.statistical.flare_study`; here is what must come of it.
"""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

import hdpstats.api as hdp
from hdpstats.engines.collecting import NO_ANSWER, REFUSALS

pytestmark = pytest.mark.validate

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "flare" / "bin" / "python"
PAGE = ROOT / "vignettes" / "validation" / "flare.md"
NAMES = ("east", "north", "south")
DESCRIPTION, FIT = 0.15, 1.0
OTHERS = ["hdpstats.engines.participant.Participant", "nvflare.app_common.np.np_trainer.NPTrainer"]
"""Classes that no hospital lists."""


@pytest.fixture(scope="module")
def happened(tmp_path_factory):
    """What happened in one run of the study."""
    assert PYTHON.exists(), f"{PYTHON} is missing: make validate makes it, or make .venv/flare/.installed"
    folder = tmp_path_factory.mktemp("flare")
    folder.chmod(0o700)
    subprocess.run(
        [PYTHON, "-W", "ignore", "-m", "tests.statistical.flare_study", folder],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=3000,
    )
    found = json.loads((folder / "happened.json").read_text())
    yield found
    PAGE.write_text("\n".join(_page(found)), encoding="utf-8")


def spent(happened, when):
    return {name: account["epsilon"] for name, account in happened[when]["accounts"].items()}


def charges(happened, when):
    return {name: account["charges"] for name, account in happened[when]["accounts"].items()}


def test_the_simulator_carries_a_request(happened):
    found = happened["simulator"]
    assert found["left"] == {}
    assert found["same as at the server"]
    assert set(spent(happened, "simulator").values()) == {1.0}


def test_the_result_names_the_hospital_that_was_killed(happened):
    found = happened["killed"]
    assert found["left"] == {"south": NO_ANSWER}
    assert found["same as at the server"]
    sites = {each["site"]: each for each in found["sites"]}
    assert NO_ANSWER in sites["south"]["status"]
    assert sites["south"]["weight"] == 0
    assert sites["east"]["weight"] + sites["north"]["weight"] == pytest.approx(1)
    assert spent(happened, "killed") == {"east": FIT, "north": FIT, "south": DESCRIPTION}
    assert charges(happened, "killed") == {"east": 2, "north": 2, "south": 1}


def test_the_same_request_again_is_free_and_gives_the_same(happened):
    for what in ("params", "sites", "left"):
        assert happened["again"][what] == happened["killed"][what]
    assert happened["again"]["accounts"] == happened["killed"]["accounts"]


def test_a_hospital_that_is_back_is_charged_what_it_had_not_released(happened):
    found = happened["back"]
    assert found["left"] == {}
    assert spent(happened, "back") == dict.fromkeys(NAMES, FIT)
    assert charges(happened, "back") == dict.fromkeys(NAMES, 2)
    for name in ("east", "north"):
        assert found["releases"][name] == happened["killed"]["releases"][name]


def test_two_deliveries_at_once_are_one_charge_and_one_draw(happened):
    one, other = happened["twice"]["replies"]
    assert set(one) == set(NAMES)
    answers = [{name: json.loads(text)["answers"] for name, text in each.items()} for each in (one, other)]
    assert answers[0] == answers[1]
    assert spent(happened, "twice") == dict.fromkeys(NAMES, FIT + 0.5)
    assert charges(happened, "twice") == dict.fromkeys(NAMES, 3)


def test_hospitals_run_one_class_and_answer_whom_they_know(happened):
    refused = happened["refused"]
    for what in ("another class", "a class of this package", "shipped code"):
        assert "COMPLETED" not in refused[what], what
    assert happened["why FLARE refused"] == {"not on the list": dict.fromkeys(NAMES, OTHERS), "shipped code": True}
    stranger = refused["a stranger"]
    assert stranger["left"] == dict.fromkeys(NAMES, REFUSALS["unknown-analyst"])
    assert happened["accounts at the end"] == happened["twice"]["accounts"]


def test_nothing_of_the_rows_is_in_what_flare_writes(happened):
    looked = happened["logs of FLARE with a cell"]
    assert looked["looked at"] > 100
    assert looked["found"] == []
    assert all(json.loads(line)["at"] for lines in happened["logs"].values() for line in lines)


def _page(found):
    """Return the lines of the page."""
    accounts = [
        ("one is killed after its first charge", "killed"),
        ("the same request again, it is gone", "again"),
        ("the same request again, it is back", "back"),
        ("another request, two jobs at once", "twice"),
    ]
    seconds = found["seconds"]
    return [
        "# Three hospitals in NVIDIA FLARE, measured",
        "",
        f"hdpstats {hdp.__version__}, FLARE 2.9, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. Server, "
        "hospitals and analyst are processes of one machine with startup kits of `nvflare provision` and mutual TLS.",
        "",
        "## What each hospital's ledger has afterwards",
        "",
        "| what happens | " + " | ".join(f"{name}: epsilon | charges" for name in NAMES) + " |",
        "| --- | " + " | ".join(["---"] * (2 * len(NAMES))) + " |",
        *(
            f"| {words} | "
            + " | ".join(
                f"{found[when]['accounts'][name]['epsilon']:g} | {found[when]['accounts'][name]['charges']}"
                for name in NAMES
            )
            + " |"
            for words, when in accounts
        ),
        "",
        "The request is a logistic regression at epsilon = 1: a description of the people (0.15), then the fit. South "
        "is killed after the first charge and before its reply; the others' result names it. Two jobs with one "
        "request, at the same time, got the same releases to the last digit.",
        "",
        "## What the result says of the sites after the kill",
        "",
        "| site | status | weight |",
        "| --- | --- | --- |",
        *(f"| {each['site']} | {each['status']} | {each['weight']:.3f} |" for each in found["killed"]["sites"]),
        "",
        "## What hospitals refused",
        "",
        "| job | what became of it |",
        "| --- | --- |",
        *(f"| with the class `{name}` | each: it is not in `class_allow_list` |" for name in OTHERS),
        "| that ships code | not deployed: BYOC not permitted |",
        f"| signed by somebody whom no hospital lists | each: {REFUSALS['unknown-analyst']} |",
        "",
        f"Of {found['logs of FLARE with a cell']['looked at']} files that FLARE wrote at all places, none has a cell "
        "of the private rows.",
        "",
        "## Seconds",
        "",
        "| what | seconds |",
        "| --- | --- |",
        *(f"| {name} | {value:g} |" for name, value in seconds.items()),
        "",
        "A job with a hospital that vanished ends when the server has missed it for `heart_beat_timeout`, 30 seconds "
        "here; replies leave hospitals at whole seconds (`grid`).",
        "",
    ]
