"""Hospitals that are asked by a carrier: their folders, and a carrier in this process."""

import json
from fractions import Fraction

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings
from hdpstats.engines.asked_sites import AskedSites
from hdpstats.engines.collecting import written
from hdpstats.engines.participant import Participant
from hdpstats.exchange import RequestFile
from tests.custodian.people import SCHEMA, people

EVERYTHING = {"mechanisms": "all", "models": "all"}
PATIENT = {"grid": 0.005, "factor": 1, "requests": 10**9, "overruns": 10**9}
"""Slots that many quick requests of one test fit in."""
PRICES = {"steps": 1e-12}
ANALYST = "ann@university.example"
GRID = 0.01
NAMES = ("east", "north", "south")


class Hospital:
    """A hospital's folder: rows, settings, ledger, and what it says about taking part."""

    def __init__(self, folder, name, *, rows=300, seed=0, unsigned=False, grid=GRID, sites=NAMES, **entries):
        folder.mkdir(parents=True)
        folder.chmod(0o700)
        self.name, self.folder, self.rows, self.sites = name, folder, people(rows, seed=seed), sites
        self.rows.to_parquet(folder / "rows.parquet")
        (folder / "rows.parquet").chmod(0o600)
        SCHEMA.to_yaml(folder / "dictionary.yaml")
        settings = {
            "format": "hdpstats site",
            "version": 1,
            "data": "rows.parquet",
            "schema": "dictionary.yaml",
            "ledger": {"place": "ledger.db", "dataset": name, "epsilon": 100, "delta": 1e-3},
            "analysts": {ANALYST: EVERYTHING},
            "timing": PATIENT,
        } | entries
        self.file = folder / "site.yaml"
        self.file.write_text(json.dumps(settings))  # which is YAML
        self.file.chmod(0o600)
        hdp.Ledger(
            folder / "ledger.db",
            dataset=name,
            epsilon=settings["ledger"]["epsilon"],
            delta=Fraction(1, 1000),
            relation=settings["ledger"].get("relation", "replace_one"),
        )
        self.participation = folder / "hdpstats.json"
        said = {"settings": "site.yaml", "grid": grid} | ({"unsigned": True} if unsigned else {})
        self.participation.write_text(json.dumps(said))
        self.participation.chmod(0o600)

    @property
    def settings(self):
        return SiteSettings.from_yaml(self.file)

    @property
    def ledger(self):
        return hdp.Ledger.open_existing(self.folder / "ledger.db")

    @property
    def spent(self):
        return float(self.ledger.spent.epsilon)

    @property
    def charges(self):
        return len(self.ledger.history())

    @property
    def releases(self):
        return int(self.ledger.history()["released"].sum())

    def participant(self, request, signers=(ANALYST,), *, sites=None, **options):
        """Return what answers a request that is for these hospitals."""
        said = AskedSites(request_sha256=RequestFile.read(request).sha256, names=sites or self.sites)
        place = self.folder / "sites.json"
        place.write_text(said.to_json() + "\n")
        return Participant(
            name=self.name,
            participation=self.participation,
            request=request,
            sites=place,
            signers=frozenset(signers),
            prices=PRICES,
            **options,
        )


class Carrier:
    """Carries tasks to hospitals of this process; ``lost`` says which hospital is gone from which exchange on."""

    def __init__(self, hospitals, request, *, lost=None, times=1, signers=(ANALYST,)):
        self.participants = {each.name: each.participant(request, signers) for each in hospitals}
        self.lost, self.times, self.sent, self.replies = lost or {}, times, [], []

    def __call__(self, task, content, sites):
        exchange = len(self.sent)
        self.sent.append((task, content))
        replies = {}
        for name in sites:
            if exchange >= self.lost.get(name, 10**9):
                continue
            several = [self.participants[name].reply(task, content) for _ in range(self.times)]
            assert all(each == several[0] for each in several)
            replies[name] = several[0]
        self.replies.append(replies)
        return replies


def left_by(folder, several, request):
    """Write what the controller leaves."""
    out = folder / "workspace" / "hdpstats"
    (out / "releases").mkdir(parents=True)
    for name, release in several.releases.items():
        (out / "releases" / f"{name}.json").write_bytes(written(release))
    said = {"request": request.sha256, "asked": list(several.asked), "left": dict(several.left)}
    (out / "sites.json").write_text(json.dumps(said))
    return folder
