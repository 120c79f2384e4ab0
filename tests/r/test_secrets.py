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

from tests.r.hosts import environment, run

NUMBER, DAY = 773421190862.25, -106_220
SECRETS = [b"JANEDOE", b"1679-03-07"]
SECRETS += [struct.pack(order + "d", number) for order in "<>" for number in (NUMBER, -NUMBER, float(DAY), float(-DAY))]
NUMBERS = re.compile(
    rb"(%d|%d(?![0-9]|[0-9a-f]{6})|7\.73[0-9]*e\+?11)" % (NUMBER, DAY)
    + rb'|[0-9]\.[0-9]+|"units":-?[0-9]+'  # decimals, and integers that were released with noise: read over
)


def test_the_day_is_what_r_counts():
    assert (pd.Timestamp("1679-03-07") - pd.Timestamp("1970-01-01")).days == DAY


def secrets_in(data: bytes) -> list[bytes]:
    """Return the secrets that data hold, also where R has compressed them.

    Digests, noise and the numbers of processes differ in each run. The probability that any of them looks like a secret
    is below 1e-9 a run. The number has more digits than those of processes and times; among the 5e4 hexadecimal digits
    of digests it is found with probability 5e4 / 16^12 < 2e-10. The day has a sign, as only numbers with noise have and
    the last group of an identifier, whose other hexadecimal digits tell it from a day. Of numbers with noise, decimals
    and ``units`` are read over; what is left of them stays below a thousand.
    """
    plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    return [secret for secret in SECRETS if secret in plain] + [each for each in NUMBERS.findall(plain) if each]


@pytest.mark.parametrize(
    "text",
    [
        b"x = 773421190862.25,",
        b"grade773421190862",
        b"rows641000773421190862",
        b"0.5 -773421190862",
        b"7.73421e+11",
        b"[7.734e11]",
        b"-106220.0",
        b'{"age":-106220,"units":3}',
        b"days-106220L",
        b"1679-03-07 00:00:00",
        b"NAJANEDOE60",
        *SECRETS[2:],
    ],
)
def test_a_secret_is_found_wherever_it_stands(text):
    assert len(secrets_in(text)) == 1
    assert len(secrets_in(gzip.compress(b"\0\x0f" + text + b"\0"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"0.773421190862",
        b"-14.1773421190862254",
        b"7.73421",
        b'"units":-106220,',
        b'"units":773421190862,',
        b"-1062204",
        b"1a2b3c4d-1a2b-4a2b-8a2b-106220abcdef/4026531836 106220 10622012",
    ],
)
def test_noise_and_numbers_of_processes_are_no_secret(text):
    assert secrets_in(text) == []


# Rows cross to Python in the same way in every host: of all kinds of them some in each.
@pytest.mark.parametrize(
    ("host", "every", "first"),
    [
        pytest.param("Rscript", 1, 1, marks=pytest.mark.wide),
        ("Rscript", 8, 1),
        pytest.param("r_bridge run", 8, 2, marks=pytest.mark.wide),
        pytest.param("r_bridge.call", 8, 6, marks=pytest.mark.wide),
    ],
)
def test_no_mistake_shows_private_rows(host, every, first, library, tmp_path):
    code = f"every <- {every}; first <- {first}\n" + (Path(__file__).parent / "secrets.R").read_text(encoding="utf-8")
    done = run(host, code, folder=tmp_path, library=library)
    assert done.stdout.endswith(b"the end\n"), done.stderr.decode(errors="replace")
    (tmp_path / "script.R").unlink()
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert {".RData", "ledger.db"} <= set(written)
    found = {"stdout": done.stdout, "stderr": done.stderr} | written
    assert {name: secrets_in(data) for name, data in found.items()} == {name: [] for name in found}


def test_what_a_secret_looks_like_in_a_workspace_is_known(library, tmp_path):
    code = "x <- data.frame(a = 773421190862.25, b = 'JANEDOE', d = as.Date('1679-03-07'))\nsave.image()"
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
fit <- dp_logit(event ~ age, study, 1, row_norm = 1, se_share = 0)
fit
warnings()
print("the end")
q("yes")
"""


@pytest.mark.wide
def test_an_interactive_session_that_is_saved_holds_no_private_row(library, tmp_path):
    (tmp_path / "private.csv").write_text("age,event,name\n" + "773421190862.25,1,JANEDOE\n" * 50)
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
