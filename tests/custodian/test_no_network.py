"""A request that is made, answered and read on machines with no network between.

Each command runs in a network namespace of its own, which has no interface that is up, not even to itself. That takes
the rights of root, as in the container that runs these tests nightly: without them the test fails, and is not skipped.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import open_site
from hdpstats.exchange import RequestFile
from tests.custodian.asked_by_files import QUESTIONS, Place, Seen
from tests.custodian.people import PUBLIC

pytestmark = pytest.mark.wide

RUN = "import sys; from hdpstats.cli import main; sys.exit(main())"
ALONE = """
import socket, sys
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "::1")):
    with socket.socket(family) as tried:
        try:
            tried.connect((host, 9))
        except OSError as error:
            print(error.errno)
        else:
            sys.exit("there is a network")
"""
UNREACHABLE = {"99", "101"}  # no such address, no route: of a port where nobody listens it would be 111
COUNTED = {
    "persons": {"n_max": 500},
    "ledger": {"place": "ledger.db", "dataset": "trial", "epsilon": 100, "relation": "add_or_remove_one"},
}
"""A site that protects the number of people, which a fit asks first, with noise."""


def alone(*command, **options):
    """Run a command without a network, and return what it prints."""
    done = subprocess.run(
        ["unshare", "--net", "--", *command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | options.pop("env", {}),
    )
    if "Operation not permitted" in done.stderr:
        pytest.fail("network namespaces need the rights of root (unshare --net): run this test as root")
    assert done.returncode == 0, done.stderr
    return done.stdout


def hdpstats(*words):
    return alone(sys.executable, "-c", RUN, *map(str, words))


@pytest.mark.parametrize("question", ["logit", "description", "curves", "count", "effect"])
def test_results_are_those_of_a_later_fit_byte_for_byte(tmp_path, question):
    assert set(alone(sys.executable, "-c", ALONE).split()) <= UNREACHABLE
    analyst, hospital = tmp_path / "analyst", tmp_path / "hospital"
    for folder in (analyst, hospital):
        folder.mkdir(mode=0o700)
    key = hospital / "site"
    hdpstats("site", "signing-key", key)
    place = Place(hospital, signing={"key": f"{key}.key"}, timing={}, **(COUNTED if question == "count" else {}))
    PUBLIC.to_parquet(analyst / "public.parquet")
    shutil.copy(hospital / "dictionary.yaml", analyst)
    kind, what, options = QUESTIONS["logit" if question == "count" else question]
    options = dict(options)
    hdpstats(
        *("request", what if isinstance(what, str) else ",".join(what), "--model", kind),
        *("--schema", analyst / "dictionary.yaml", "--public", analyst / "public.parquet"),
        *("--epsilon", options.pop("epsilon"), "--out", analyst / "request.json"),
        *(word for name, value in options.items() for word in ("--option", f"{name}={json.dumps(value)}")),
    )
    shutil.copy(analyst / "request.json", place.request)
    assert "nothing was charged" in hdpstats("site", "answer", place.file, place.request, "--dry-run")
    hdpstats("site", "answer", place.file, place.request, "--out", place.release)
    shutil.copy(place.release, analyst)
    shutil.copy(f"{key}.pub", analyst)
    files = analyst / "request.json", analyst / "release.json"
    hdpstats("result", *files, "--key", analyst / "site.pub", "--out", analyst / "result.json")
    asked, spent = RequestFile.read(place.request), place.spent
    later = asked.question.ask(hdp.Study(private=Seen(open_site(place.settings)), public=PUBLIC))
    assert (analyst / "result.json").read_text() == later.to_json()
    assert place.spent == spent == float(asked.question.most.epsilon)
    assert ("count/1" in set(place.ledger.history()["mechanism"])) == (question == "count")
