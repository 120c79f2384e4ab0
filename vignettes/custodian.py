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
# # For custodians: rows that never leave, and an analyst who asks
#
# A hospital has the records of 2,982 women with breast cancer. An analyst, Ann, has 686 public records from a trial
# and a model in mind. Ann's notebook never holds a private row: the rows live in a process of the hospital's, behind
# HTTPS, and that process answers queries with noise, under an account.
#
# This page plays both parts, on one machine: first the custodian's (a data dictionary, certificates, settings, the
# service), then Ann's (invented rows, a fit), then the custodian's again (who received what, and the auditor's
# file). The records are in fact public, which is why they can stand in an example.
# Everything is written to a temporary folder, anew each time.

# %%
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

place = Path(tempfile.mkdtemp())  # nobody else may write there
hospital, ann = place / "hospital", place / "ann"
hospital.mkdir()
ann.mkdir()


def run(command: str, folder: Path = hospital) -> str:
    """Run a command as in a terminal, and return what it prints."""
    words = command.split()
    if words[0] == "hdpstats":
        words = [sys.executable, "-m", "hdpstats.cli", *words[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    return done.stdout + (done.stderr if done.returncode else "")


# %% [markdown]
# ## The data dictionary
#
# What each column may hold is declared from the study's protocol, never read from the rows: cells are mapped into
# these bounds, one by one, whatever they hold. The dictionary is a file to read, to edit and to publish.

# %%
hdp.datasets.load_rotterdam().to_parquet(hospital / "rows.parquet")
(hospital / "rows.parquet").chmod(0o600)  # rows that other users of the machine may read are not served
schema = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    hormon=hdp.Binary(complete=True),
    event3=hdp.Binary(),
)
schema.to_yaml(hospital / "dictionary.yaml")
print((hospital / "dictionary.yaml").read_text())

# %% [markdown]
# ## Certificates and keys
#
# The hospital's authority signs a certificate for the site and one for each analyst's machine; a client without one
# is turned away before it has said anything. Institutions have an authority; here `openssl` makes one. Tokens say
# *who* asks. Larger places take them from their identity provider (`tokens: {issuer: ...}`); a small
# one signs them with a key of its own. A list of certificates that the authority took back (`tls: {crl: ...}`) is
# compared at every handshake and request. Where the site's key is encrypted, `tls: {passphrase: FILE}` names a file
# that holds its passphrase; nobody is asked for it. A certificate that expires within 30 days is named when the
# service starts and by `site check`.
#
# **Whose files.** The service reads and writes files under four rules, and does not start where one is broken:
#
# * Each file that it relies on, each link to it and each folder above belongs to the service's user or to root.
# * Nobody else may write in the file or its folder (`chmod go-w`). Folders above may have the sticky bit, like `/tmp`.
#   The mode of a folder does not count where a file system is mounted read-only at it, like a volume of Kubernetes.
# * Rows, keys and passphrases are read by nobody else: mode 0600 or 0400. A group may read root's (`chown
#   root:hdpstats`, `chmod 640` or 440), and everybody what is in memory and mounted read-only, as secrets are in a
#   container (not `/run`, `/tmp` or `/dev/shm` of a machine).
# * A group that the service's process is in, and no other user, is not somebody else in a folder with the setgid bit
#   (`chmod g+s`).
#
# The folder of compiled code, where `NUMBA_CACHE_DIR` puts it outside the package, is held to the same rules, since
# what lies there is executed.

# %%
key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
run(f"openssl req -x509 {key} -keyout ca.key -out ca.pem -days 30 -subj /CN=authority")
for name in ("site", "ann"):
    host = "-addext subjectAltName=IP:127.0.0.1"
    run(f"openssl req -new {key} -keyout {name}.key -out {name}.csr -subj /CN={name} {host}")
    run(f"openssl x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -days 30 -copy_extensions copy -out {name}.pem")
print(run("hdpstats site key tokens"))

# %% [markdown]
# ## The account
#
# The total is agreed once: no release, to whomever, can make the women lose more. The service opens an account that
# exists, and never makes one: a ledger that was lost, or restored from a backup, would begin again from zero and grant
# a second time what was charged. A password of a database never stands in a command: everybody on the machine can read
# it there. It belongs in `~/.pgpass`, or in the environment variable that `password_variable:` names.

# %%
print(run("hdpstats ledger open ledger.db --dataset rotterdam --epsilon 2.5"))

# %% [markdown]
# ## The settings
#
# One file says everything else that the custodian decides: the rows, the dictionary, the account, and who may ask for
# what. What is not listed is denied: Ann may fit regressions by two mechanisms, without the column `hormon`, up to
# $\varepsilon = 2$. Her models cover whatever fits or reads one, also where a query does not look like a fit (a
# performance curve, a choice by loss, an evaluation). Who may fit a model may ask what fits ask first: numbers of
# people who are complete in some columns, and averages of columns among them. Nothing ties these to one model: Ann may
# have them of every column but `hormon`. `count` permits numbers of people and nothing else. Bob may ask for
# everything, which has to be said, up to 1. Together they can never have more than 2.5.
#
# Caps are granted in the ledger when the service starts. A cap that is lowered below what its analyst has received
# stops that analyst, and the log names him; the others go on. Where somebody granted another cap by hand since
# (`hdpstats ledger grant`), the service does not start: the two must be made to agree. A limit of charges that was set
# by hand stays, such as `--most-charges 0`, which stops an analyst, also through a time of a cap that is too low.
#
# `heads:` names a second place, on another disk, where the service keeps the number and the hash of the ledger's last
# entry, rewritten after every charge. A ledger that does not have that entry any more is not served, and where that
# disk is full, a query is refused before it is charged. It is refused too where the disk of the ledger's file has less
# than 17 MB left for the release. `site note` writes the head for the first time.
#
# `data:` names a file of Parquet or CSV, or a folder of Parquet files. The first line of a CSV file has the names of
# the columns, and each further line is a row, an empty one too: a person all of whose cells are missing. What the
# service itself writes is in the folder that `state:` names: counts of late answers, and a keyed hash of the rows.
# Without it, it is the folder that systemd makes (`StateDirectory=`), else that of the settings. So settings may be
# root's, and read only. What was kept beside the settings is moved when the service first starts with another folder.

# %%
(hospital / "site.yaml").write_text("""\
format: hdpstats site
version: 1
data: rows.parquet
schema: dictionary.yaml
ledger: {place: ledger.db, dataset: rotterdam}
heads: {file: ../ledger.head}
listen: {host: 127.0.0.1, port: 0}
tls: {certificate: site.pem, key: site.key, clients: ca.pem}
tokens: {audience: rotterdam, key: tokens.pub}
timing: {requests: 600, overruns: 1000}
analysts:
  ann:
    mechanisms: [objective, output]
    models: [regression]
    columns: [age, size, grade3, nodes, event3]
    epsilon: 2
  bob: {mechanisms: all, models: all, epsilon: 1}
""")
print(run("hdpstats site note site.yaml"))
print(run("hdpstats site check site.yaml"))

# %% [markdown]
# ## Are the rows as declared?
#
# Rows are mapped into the dictionary without an error, whatever they hold: an error would depend on a cell. So a file
# that is coded otherwise than declared would give wrong tables without a word. The custodian, who may see the rows,
# looks first: `--rows` shows how many cells of each column are empty, hold no value of the declared kind, or are cut at
# the bounds. These numbers are exact, and for the custodian's screen alone.

# %%
print(run("hdpstats site check site.yaml --rows").partition("\nhttps://")[0])

# %% [markdown]
# Here nothing is wrong. Had a tool put a blank into the labels of tumour sizes, the check would say so, and what to do
# (in R it is `dp_check`):

# %%
export = hdp.datasets.load_rotterdam().assign(size=lambda rows: rows["size"].astype(str).replace("<=20", "<= 20"))
print(*hdp.check(export, schema).advice, sep="\n")

# %% [markdown]
# No cell of the file changes how another is read. Where people are named by ids of more than 15 digits, the file must
# keep them as text or as nullable integers from the first reading on: with one missing id pandas' columns of integers
# become columns of floats, which merge such ids. Whole numbers of 2^53 or more in either type therefore name nobody,
# and the check says what to do:

# %%
visits = hdp.datasets.load_rotterdam().assign(patient=lambda rows: 12345678901234567 + rows.index)
print(*hdp.check(visits, schema, unit="patient").advice, sep="\n")
print(hdp.check(visits.astype({"patient": "Int64"}), schema, unit="patient").persons)

# %% [markdown]
# The service does not start with labels that are not declared, nor where more than a tenth of a column's cells hold no
# value or more than a fifth are cut at the bounds, until the settings acknowledge it:
# `acknowledged: {undeclared_levels: [size], missing_share: {nodes: 0.3}, cut_share: {age: 0.5}}`.
# When it starts it notes a keyed hash of the rows in the folder of its state. If the file changes later, it asks for
# another `version:` under `ledger:`, because a stored release would be of other rows than a new one. The key is beside
# the ledger's file and says of which versions there is a hash: a hash that was lost is noticed.

# %% [markdown]
# ## The service
#
# On a server this is a unit of systemd; here it is a process beside the notebook. Each request writes one line of JSON
# to its log:
#
# * the address, the kind of query, the analyst, the status, and the versions of the package and of the data;
# * how long the client waited, as a class such as "under 1 s";
# * for a release the cost and the entry in the ledger, for a refusal the reason.
#
# No line has a cell of the data, or the text of a query.
#
# A query may have 1 MB and public rows 16 MB (`limits: {query: ..., public: ...}`). An analyst's public rows arrive as
# plain arrays of numbers and positions of levels, not as Parquet or Arrow: no parser of a format meets what a client
# sent in the process that holds private rows, and arrays are never larger than the bytes that were sent. What is longer
# is refused before it is sent: a model states a number for each pair of its columns, so that one of more than about 200
# columns is too long (of 450 where most of these numbers are 0). Who asks more often than the settings allow, or finds
# the site busy, is told after how many seconds to ask again; `hdp.connect` waits and asks again by itself, up to its
# `timeout`, and shows a bar meanwhile. Nothing is charged for a request that was refused.
#
# A new answer leaves at a *slot*: three times the time that the site predicts from the query and the declared number of
# people, on a grid of 50 ms. How long the computation took on the women's rows does not show. If an answer misses its
# slot, the log says so; after three, with nobody else asking meanwhile, the analyst is stopped, until the custodian has
# looked into it and says `hdpstats site resume site.yaml --analyst ann`. Here the machine may be busy with other
# things, so `timing` above stops nobody.
#
# SIGHUP (`systemctl reload`) makes it read its settings again: analysts with their permissions and caps, certificates,
# lists of revoked ones, and whose tokens are accepted change at once. Connections end with the request that is under
# way. If anything is wrong, or something else was changed (rows, ledger, address: "needs a restart"), the settings
# before stay in force, and the log says why in one line.
#
# A unit for systemd. Settings, certificates and keys are root's; the service writes its ledger and its state only:
#
# ```ini
# # /etc/systemd/system/hdpstats.service
# [Service]
# User=hdpstats
# ExecStart=/opt/hdpstats/bin/hdpstats site serve /etc/hdpstats/site.yaml
# ExecReload=/bin/kill -HUP $MAINPID
# StateDirectory=hdpstats
# StateDirectoryMode=0700
# ProtectSystem=strict
# ReadWritePaths=/srv/other-disk/hdpstats
# LimitNOFILE=4096
#
# [Install]
# WantedBy=multi-user.target
# ```
#
# ```yaml
# # /etc/hdpstats/site.yaml, root:root 0644
# data: /srv/rows/rotterdam                                   # a folder or file, root:hdpstats 0640
# ledger: {place: /var/lib/hdpstats/ledger.db, dataset: rotterdam}
# heads: {file: /srv/other-disk/hdpstats/rotterdam.head}
# state: /var/lib/hdpstats                                    # said here, so that `site resume` finds it too
# tls: {certificate: site.pem, key: site.key, clients: ca.pem}    # the key: root:hdpstats 0640
# ```
#
# Keys can also come by `LoadCredential=site.key:/etc/hdpstats/site.key`; name them by their place,
# `/run/credentials/hdpstats.service/site.key`.
#
# In a container the ledger and the state are in a volume of the service's user, the settings are mounted read-only:
#
# ```sh
# docker run --user 1000:1000 --read-only --tmpfs /tmp -p 8443:8443 \
#   -v hdpstats-state:/var/lib/hdpstats -v /etc/hdpstats:/etc/hdpstats:ro -v /srv/rows:/srv/rows:ro IMAGE \
#   hdpstats site serve /etc/hdpstats/site.yaml                 # docker kill --signal HUP reads the settings again
# ```
#
# The volume must be the service's own: `docker run --user 0 -v hdpstats-state:/state IMAGE chown 1000:1000 /state`.
#
# In Kubernetes settings come from a ConfigMap, keys from a Secret. Both are mounted read-only, with links (`..data`)
# that are followed. The keys of this example may be read by everybody in the container (0444), which is accepted since
# they are in memory. Name keys and rows by their whole path, and say `state:` in the settings, since nothing can be
# written beside them. `fsGroup` gives volumes to a group of the service: root's folder with mode 2775, in which the
# service writes its ledger, state and head. This is accepted while the service's process is in that group and, as far
# as the container's list of users says, nobody else is.
#
# ```yaml
# securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
# containers:
# - name: site
#   image: IMAGE
#   command: [hdpstats, site, serve, /etc/hdpstats/site.yaml]
#   volumeMounts:
#   - {name: settings, mountPath: /etc/hdpstats, readOnly: true}
#   - {name: keys, mountPath: /run/keys, readOnly: true}
#   - {name: state, mountPath: /var/lib/hdpstats}
# volumes:
# - {name: settings, configMap: {name: hdpstats}}
# - {name: keys, secret: {secretName: hdpstats, defaultMode: 0444}}
# - {name: state, persistentVolumeClaim: {claimName: hdpstats}}
# ```

# %%
log = (hospital / "site.log").open("w")
server = subprocess.Popen(
    [sys.executable, "-m", "hdpstats.cli", "site", "serve", "site.yaml"], cwd=hospital, stdout=log, stderr=log
)
address = None
while address is None and server.poll() is None:
    time.sleep(0.1)
    address = re.search(r"https://127\.0\.0\.1:\d+", (hospital / "site.log").read_text())
url = address.group()

# %% [markdown]
# Ann receives a token for eight hours. It is bound to her certificate: stolen without the certificate's key it opens
# nothing. Sites take no other tokens, unless their settings say `bound: false`.

# %%
token = run("hdpstats site token --key tokens.key --analyst ann --audience rotterdam --certificate ann.pem").strip()
for name in ("ca.pem", "ann.pem", "ann.key"):
    (ann / name).write_bytes((hospital / name).read_bytes())

# %% [markdown]
# ## Ann's side
#
# `hdp.connect` gives a site. It shows the public facts and nothing else.

# %%
site = hdp.connect(url, token=token, ca=ann / "ca.pem", cert=(ann / "ann.pem", ann / "ann.key"))
print(site)
print("may ask for:", site.permissions["columns"])
print(site.schema)

# %% [markdown]
# Code is tried on **invented rows** first, drawn from the schema alone. They cost nothing and show nothing.

# %%
gbsg = hdp.datasets.load_gbsg()
formula = "event3 ~ age + size + grade3 + log1p(nodes)"
rehearsal = hdp.Study(private=site.dummy(1000), public=gbsg, schema=site.schema, budget=hdp.Budget(epsilon=1))
print(hdpf.logit(formula, data=rehearsal).fit(epsilon=1.0))

# %% [markdown]
# Then the real thing. A study takes the site where it would take a data frame; everything else is the same.

# %%
study = hdp.Study(private=site, public=gbsg)
model = hdpf.logit(formula, data=study)
print(model.plan(epsilon=[0.5, 1.0, 2.0]))

# %%
result = model.fit(epsilon=1.0)
print(result.summary())

# %% [markdown]
# The same fit again is the same release, for nothing, from any machine. What a query would cost is known before it is
# asked. A fit is three releases here, of epsilon = 1 in all: the number of complete rows, averages of the covariates,
# and the coefficients.

# %%
again = model.fit(epsilon=1.0)
print("same release:", again.release == result.release)
print("would cost:", site.quote(result.query).cost)
print(site.account())

# %% [markdown]
# ## What is refused
#
# In fixed words, so that nothing about a row can be in them, and before anything is charged: a column that was not
# permitted, more than the cap, a forged token, a machine without a certificate.

# %%
other = hdpf.logit("event3 ~ age + hormon", data=study)
asked = {"column": lambda: other.fit(epsilon=0.1), "cap": lambda: model.fit(epsilon=1.5)}
files = {"ca": ann / "ca.pem", "cert": (ann / "ann.pem", ann / "ann.key")}
asked["token"] = lambda: hdp.connect(url, token=token[:-8] + "AAAAAAAA", **files)
asked["certificate"] = lambda: hdp.connect(url, token=token, ca=ann / "ca.pem")
for what, ask in asked.items():
    try:
        ask()
    except hdp.HdpError as error:
        print(f"{what}: {type(error).__name__}: {error}\n")

# %% [markdown]
# ## The custodian's books
#
# The account says what was spent and by whom. It is a chain of hashes: each release carries its head, so that an entry
# cannot vanish unseen. The auditor gets a file.

# %%
print(run("hdpstats ledger show ledger.db"))
print(run(f"hdpstats ledger verify ledger.db --head {result.release.entry.head}"))
run("hdpstats ledger export ledger.db account.json")
print("exported:", sorted(json.loads((hospital / "account.json").read_text()))[:4], "...")

# %%
lines = (hospital / "site.log").read_text().splitlines()
for line in [line for line in lines if '"request": "answer"' in line][:4]:
    print(line[:170])

# %%
site.close()
server.terminate()
server.wait()
log.close()

# %% [markdown]
# ## What is left to people
#
# The service hides how long a computation took on the private rows: answers leave at slots. It does not hide that the
# machine is under load, nor how often an answer missed its slot. It does not guard the file of the rows, the machine's
# swap and its superuser: that is the hospital's. The file of the ledger belongs on a local disk, or in PostgreSQL
# (`place: postgresql://...`), and its head on another disk. If two data sets hold the same women, their accounts are
# one: `hdpstats ledger open --same-people-as`.
