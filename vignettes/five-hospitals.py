# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Five hospitals, one model, and one of them fails
#
# Five hospitals have the records of 2,950 women with breast cancer. No hospital shows its rows to anybody, not to the
# others and not to Ann, who wants one model of all of them. Each hospital runs a process that answers queries with
# noise, under an account of its own. Ann has 686 public records from a trial.
#
# There is no server in the middle: Ann's notebook asks the five at the same time and combines what they release. In
# what follows one hospital is killed while it is asked, the fit goes on without it and says so, and when the hospital
# is back it rejoins without anybody being charged twice. (How a custodian sets up a site: the vignette `custodian`.)

# %%
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

# %% [markdown]
# ## Five processes
#
# Each hospital has a folder with its rows, its settings and, soon, its ledger; here all are in a temporary one. One
# authority signs the certificates; tokens say who asks. The rows are in fact public, which is why they can stand in an
# example: women of whom it is known whether the cancer came back within three years.

# %%
place = Path(tempfile.mkdtemp())  # nobody else may write there
sizes = {"Aalst": 1000, "Breda": 800, "Celje": 600, "Delft": 400, "Evora": 150}
schema = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    hormon=hdp.Binary(complete=True),
    event3=hdp.Binary(complete=True),
)
settings = """\
format: hdpstats site
version: 1
data: rows.parquet
schema: ../dictionary.yaml
ledger: {{place: ledger.db, dataset: {name}}}
listen: {{host: 127.0.0.1, port: {port}}}
tls: {{certificate: ../site.pem, key: ../site.key, clients: ../ca.pem}}
tokens: {{audience: consortium, key: ../tokens.pub}}
timing: {{requests: 600, overruns: 1000}}
analysts: {{ann: {{mechanisms: all, models: all}}}}
"""


def run(command: str, folder: str = "") -> str:
    """Run a command as in a terminal, and return what it prints."""
    words = command.split()
    if words[0] == "hdpstats":
        words = [sys.executable, "-m", "hdpstats.cli", *words[1:]]
    done = subprocess.run(words, cwd=place / folder, capture_output=True, text=True)
    return done.stdout + (done.stderr if done.returncode else "")


curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
run(f"openssl req -x509 {curve} -keyout ca.key -out ca.pem -days 30 -subj /CN=authority")
for name in ("site", "ann"):
    host = "-addext subjectAltName=IP:127.0.0.1"
    run(f"openssl req -new {curve} -keyout {name}.key -out {name}.csr -subj /CN={name} {host}")
    run(f"openssl x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -days 30 -copy_extensions copy -out {name}.pem")
run("hdpstats site key tokens")
schema.to_yaml(place / "dictionary.yaml")

women = hdp.datasets.load_rotterdam().dropna(subset=["event3"]).sample(frac=1.0, random_state=1)
ends = np.cumsum(list(sizes.values()))
for name, size, end in zip(sizes, sizes.values(), ends, strict=True):
    (place / name).mkdir()
    women.iloc[end - size : end].to_parquet(place / name / "rows.parquet")
    run("chmod 600 rows.parquet", name)
    run(f"hdpstats ledger open ledger.db --dataset {name} --epsilon 3 --delta 1e-5", name)


# %%
def start(name: str, port: int = 0) -> subprocess.Popen:
    """Start a hospital's process."""
    (place / name / "site.yaml").write_text(settings.format(name=name, port=port))
    with (place / name / "site.log").open("w") as log:
        command = [sys.executable, "-m", "hdpstats.cli", "site", "serve", "site.yaml"]
        return subprocess.Popen(command, cwd=place / name, stdout=log, stderr=log)


def port_of(name: str) -> int:
    """Wait until a hospital listens, and return where."""
    while not (found := re.search(r"https://127\.0\.0\.1:(\d+)", (place / name / "site.log").read_text())):
        time.sleep(0.1)
    return int(found.group(1))


processes = {name: start(name) for name in sizes}
ports = {name: port_of(name) for name in sizes}
print(f"{len(processes)} processes: {', '.join(processes)}")

# %% [markdown]
# ## One study
#
# Ann connects to the five. A study takes them where it would take a data frame. A round may last 20 seconds; hospitals
# that have not answered by then are left out, as long as more than half of them have.

# %%
token = run("hdpstats site token --key tokens.key --analyst ann --audience consortium --certificate ann.pem").strip()
files = {"ca": place / "ca.pem", "cert": (place / "ann.pem", place / "ann.key")}
sites = {name: hdp.connect(f"https://127.0.0.1:{port}", token=token, **files) for name, port in ports.items()}
study = hdp.Study(private=sites, public=hdp.datasets.load_gbsg(), deadline=20)
model = hdpf.logit("event3 ~ age + size + grade3 + log1p(nodes) + hormon", data=study)
print(study)
print(model.plan(epsilon=[0.5, 1.0, 2.0]))

# %% [markdown]
# ## A hospital fails while it is asked
#
# The process at Delft is stopped, as a machine that hangs: it takes the question and does not answer. A second later it
# is killed.

# %%
os.kill(processes["Delft"].pid, signal.SIGSTOP)
threading.Timer(1.0, processes["Delft"].kill).start()
began = time.monotonic()
result = model.fit(epsilon=1.0)
print(f"within the deadline: {time.monotonic() - began < 20}")
print(result.summary())

# %% [markdown]
# The estimate is valid without Delft, and labelled. What each hospital contributed are public facts: its size, its
# cost, where its ledger keeps the release. The weight is its share of the combined private estimate.

# %%
with pd.option_context("display.width", 200, "display.max_colwidth", 40):
    print(result.sites)

# %% [markdown]
# Every hospital has an estimate of its own, which is as noisy as the hospital is small. Combined they say more
# than the largest of them; pooled with the public records, more still.

# %%
ax = result.plot_sites("log1p(nodes)")
plt.show()

# %% [markdown]
# ## What the ledgers say
#
# Every hospital charges its own account for its own women. A woman is a patient of one hospital, so that what the fit
# costs her is what *her* hospital charged, not the sum: 1, not 4. Delft charged nothing, as its process died before.

# %%
print(result.guarantee)
ledgers = {name: hdp.Ledger.open_existing(place / name / "ledger.db") for name in sizes}
print(pd.DataFrame({"spent": [str(each.spent) for each in ledgers.values()]}, index=list(ledgers)))
print(run("hdpstats ledger show ledger.db", "Aalst"))

# %% [markdown]
# A ledger is a chain of hashes, and a release names the link at which it was recorded: what was handed out stands in
# the books.

# %%
for name, release in result.release.sites:
    print(f"{name}: {str(ledgers[name].verify(release.entry.head)).split(';')[0]}")
print(f"Delft: {str(ledgers['Delft'].verify()).split(';')[0]}")

# %% [markdown]
# ## It comes back
#
# Delft starts its process again, and Ann repeats the call. Four hospitals recognise the question and hand out the
# release that they have on record, for nothing; Delft answers for the first time.

# %%
processes["Delft"].wait()
processes["Delft"] = start("Delft", ports["Delft"])
port_of("Delft")
whole = model.fit(epsilon=1.0)
print(whole.sites[["site", "status", "records", "epsilon", "weight"]])
first, again = dict(result.release.sites), dict(whole.release.sites)
print("the same releases:", all(first[name] == again[name] for name in first))
print(pd.DataFrame({"received": [str(site.account()) for site in sites.values()]}, index=list(sites)))

# %%
standard_errors = pd.DataFrame({"four": result.bse, "five": whole.bse, "public only": whole.public_only.bse})
print(standard_errors.round(3))

# %% [markdown]
# ## Several rounds
#
# With a delta the fit may go in rounds: all hospitals answer at the same coefficients, which move from round to round.
# A hospital that misses a round is not waited for in later ones; what it answered before still counts. If Ann's own
# notebook dies in between, the same call asks the same questions, and what was answered costs nothing.

# %%
rounds = model.fit(epsilon=1.0, delta=1e-6, mechanism="clipped_newton")
print(rounds.sites[["site", "status", "rounds", "epsilon", "delta", "weight"]])
print(rounds.guarantee)

# %%
for site in sites.values():
    site.close()
for process in processes.values():
    process.terminate()
print("ended:", {process.wait() for process in processes.values()})
