"""Nothing of private rows is said or written down, whatever goes wrong with them, in any host."""

import gzip
import os
import pty
import re
import struct
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from tests.r.hosts import HOSTS, environment, run

NUMBER, DAY = 7734511.25, 44_260
SECRETS = [b"JANEDOE", b"7734511", b"2091-03-07"]
SECRETS += [struct.pack(order + "d", number) for order in "<>" for number in (NUMBER, -NUMBER, float(DAY))]


def test_the_day_is_what_r_counts():
    assert (pd.Timestamp("2091-03-07") - pd.Timestamp("1970-01-01")).days == DAY


def secrets_in(data: bytes) -> list[bytes]:
    """Return the secrets that data hold, also where R has compressed them."""
    plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    found = [secret for secret in SECRETS if secret in plain]
    alone = re.compile(rb"(?<![0-9.])%d(?![0-9])" % DAY)  # not within the digits of noise
    return found + alone.findall(plain)


@pytest.mark.parametrize("host", HOSTS)
def test_no_mistake_shows_private_rows(host, library, tmp_path):
    # Rows cross to Python in the same way in every host: all kinds of them in one host, some in each other.
    every, first = {"Rscript": (1, 1), "r_bridge run": (8, 2), "r_bridge.call": (8, 6)}[host]
    code = f"every <- {every}; first <- {first}\n" + (Path(__file__).parent / "secrets.R").read_text(encoding="utf-8")
    done = run(host, code, folder=tmp_path, library=library)
    assert done.stdout.endswith(b"the end\n"), done.stderr.decode(errors="replace")
    (tmp_path / "script.R").unlink()
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert {".RData", "ledger.db"} <= set(written)
    found = {"stdout": done.stdout, "stderr": done.stderr} | written
    assert {name: secrets_in(data) for name, data in found.items()} == {name: [] for name in found}


def test_what_a_secret_looks_like_in_a_workspace_is_known(library, tmp_path):
    code = "x <- data.frame(a = 7734511.25, b = 'JANEDOE', d = as.Date('2091-03-07'))\nsave.image()"
    run("Rscript", code, folder=tmp_path, library=library)
    assert len(secrets_in((tmp_path / ".RData").read_bytes())) == 3


SESSION = """
library(hdpstats)
schema <- dp_schema(age = dp_continuous(20, 90), event = dp_binary())
options(error = quote(dump.frames("dump", to.file = TRUE)))
study <- dp_study(private = read.csv("private.csv"), schema = schema, budget = 3)
traceback()
fit <- dp_logit(event ~ age, dp_study(private = read.csv("private.csv"), schema = schema, budget = dp_budget(1)), 2)
traceback()
study <- dp_study(private = read.csv("private.csv"), schema = schema, budget = dp_budget(1))
fit <- dp_logit(event ~ age, study, 1, row_norm = 1)
fit
warnings()
print("the end")
q("yes")
"""


def test_an_interactive_session_that_is_saved_holds_no_private_row(library, tmp_path):
    (tmp_path / "private.csv").write_text("age,event,name\n" + "7734511.25,1,JANEDOE\n" * 50)
    here, there = pty.openpty()
    session = subprocess.Popen(
        ["R", "--quiet", "--no-init-file"],
        cwd=tmp_path,
        env=environment(library, TERM="dumb", R_HISTFILE=".Rhistory"),
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
    )
    os.close(there)
    os.write(here, SESSION.encode())
    said = b""
    try:
        while part := os.read(here, 65536):
            said += part
    except OSError:  # the session has ended
        pass
    os.close(here)
    assert session.wait(timeout=60) == 0
    assert b'[1] "the end"' in said
    assert said.count(b"Error in dp_") == 2
    assert b"No traceback available" not in said
    (tmp_path / "private.csv").unlink()
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(written) == {".RData", ".Rhistory", "dump.rda"}
    found = written | {"terminal": said}
    assert {name: secrets_in(data) for name, data in found.items()} == {name: [] for name in found}
