"""A hospital that is asked by files: its folder, what is asked of it, and the files that come and go."""

import os
import unittest.mock

import yaml

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings, answering, kept_head, previewing
from hdpstats.custodian.request_costs import query_sha256
from hdpstats.exchange import ReleaseFile, RequestFile, read_result
from hdpstats.exchange.weighted_people import OfWeightedPeople
from hdpstats.records import codec
from hdpstats.sites import LocalSite, Site
from hdpstats.sites.site import HeldData
from tests.custodian.institution import EVERYTHING, PATIENT, open_account
from tests.custodian.people import FORMULA, PRIVATE, PUBLIC, SCHEMA, SURVIVAL

PRICES = {"steps": 1e-12}
STUDY = hdp.Study(public=PUBLIC, schema=SCHEMA)
QUESTIONS = {
    "logit": ("logit", FORMULA, {"epsilon": 1}),
    "hazard": ("hazard", SURVIVAL, {"epsilon": 1, "intervals": 6}),
    "poisson": ("poisson", "k ~ x", {"epsilon": 1, "se_share": 0}),
    "description": ("describe", ["x", "g", "k"], {"epsilon": 0.5, "by": "y"}),
    "curves": ("survfit", "Surv(time, event) ~ g", {"epsilon": 1, "times": (6, 12, 24)}),
    "effect": (
        "treatment_effect",
        "event ~ y",
        {"epsilon": 1, "propensity_formula": "y ~ x", "propensity_epsilon": 1},
    ),
}
BY_PROPENSITY = {"epsilon": 1, "propensity_formula": "y ~ x + g", "propensity_epsilon": 1}
WEIGHTED = {
    "weighted logit": ("logit", "event ~ y", BY_PROPENSITY),
    "weighted linear": ("linear", "secret ~ y * x", BY_PROPENSITY | {"replicate": 2}),
    "weighted poisson": ("poisson", "k ~ y", BY_PROPENSITY),
    "weighted hazard": ("hazard", "Surv(time, event) ~ y", BY_PROPENSITY | {"intervals": 6}),
    "weighted curves": ("survfit", "Surv(time, event) ~ y", BY_PROPENSITY | {"times": (6, 12, 24)}),
    "balance": ("describe", ["x", "g", "k"], BY_PROPENSITY | {"replicate": 2}),
}
"""Questions about people who are weighted by a propensity model, which they ask for first."""
SIMPLE = ("describe", ["x", "g"], {"epsilon": 0.5})


class Seen(Site):
    """The site as the service shows it to ann: what a later fit of hers asks."""

    def __init__(self, site):
        self._site = site

    schema = property(lambda self: self._site.schema)
    records = property(lambda self: self._site.records)
    terms = property(lambda self: self._site.terms)
    held = property(lambda self: self._site.held)

    def put_public(self, table):
        self._site.put_public(table, analyst="ann")

    def received(self, query):
        return self._site.received(query, analyst="ann")

    def answer(self, query):
        return self._site.answer(query, analyst="ann")


class Place:
    """A hospital's folder, and the files that come and go."""

    def __init__(self, folder, **entries):
        folder.chmod(0o700)
        self.request, self.release = folder / "request.json", folder / "release.json"
        PRIVATE.to_parquet(folder / "rows.parquet")
        (folder / "rows.parquet").chmod(0o600)
        SCHEMA.to_yaml(folder / "dictionary.yaml")
        settings = {
            "format": "hdpstats site",
            "version": 1,
            "data": "rows.parquet",
            "schema": "dictionary.yaml",
            "ledger": {"place": "ledger.db", "dataset": "trial", "epsilon": 1000, "delta": 1e-3},
            "analysts": {"ann": EVERYTHING},
            "timing": PATIENT,
        } | entries
        settings["requests"] = {"unsigned": "admitted"} | settings.get("requests", {})
        self.file = folder / "site.yaml"
        self.file.write_text(yaml.safe_dump(settings, sort_keys=False))
        self.file.chmod(0o600)
        open_account(settings, folder)

    @property
    def settings(self):
        return SiteSettings.from_yaml(self.file)

    @property
    def ledger(self):
        return hdp.Ledger.open_existing(self.file.with_name("ledger.db"))

    @property
    def spent(self):
        return float(self.ledger.spent.epsilon)

    def ask(self, kind, formula, options, study=STUDY, **more):
        self.request.unlink(missing_ok=True)  # which no other request replaces
        return hdp.request(kind, formula, study, path=self.request, **options, **more)

    def ask_unchecked(self, kind, formula, options, study=STUDY):
        """Write a request as who does not check it by public facts can."""
        with unittest.mock.patch.object(OfWeightedPeople, "check"):
            return self.ask(kind, formula, options, study)

    def answer(self, *, by=None, **options):
        if self.release.exists():
            ledger, asked = kept_head.open_account(self.settings), RequestFile.read(self.request).sha256
            held = HeldData(dataset=ledger.dataset, version=ledger.version, account=ledger.identity)
            if not ReleaseFile.is_at(self.release, request=asked, held=held):
                self.release.unlink()  # which no answer to another request, or of other data, replaces
        if by is not None and "sha256" not in options:
            options["sha256"] = seen(self, self.request, **{k: v for k, v in options.items() if k in LOOKING})
        return answering.answer(self.settings, self.request, self.release, **{"prices": PRICES, "by": by} | options)

    def read(self, **options):
        return read_result(self.release, self.request, **options)


def write_whole(path, fields):
    """Write a release file anew, as whoever alters one can: with its hash, and without a signature."""
    rest = {name: value for name, value in fields.items() if name not in ("sha256", "signature")}
    path.write_text(codec.dumps({**rest, "sha256": codec.sha256(rest)}) + "\n")


def killed(do, number=1):
    """Do something in a process that is killed between the charge and the release of its so-and-so-many-th query."""
    child, compute, begun = os.fork(), LocalSite._compute, []

    def computing(*given):
        begun.append(given)
        return os._exit(9) if len(begun) == number else compute(*given)

    if not child:
        LocalSite._compute = computing
        try:
            do()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def in_vain(place, request, number, *, others=False, **options):
    """Return what a ledger says (`Ledger.in_vain`) where the first query of a request was charged so often in vain."""
    name = query_sha256(previewing.looked_at(place.settings, request, **options).met)
    return lambda _, terms, analyst=None: {name: number} if others or analyst is None else {}


LOOKING = ("analyst", "public")


def seen(place, request, **options):
    """Return the hash that a custodian reads in the dry run of a request."""
    found = previewing.looked_at(place.settings, request, **options)
    sha256 = previewing.proposed(place.settings, found).sha256
    assert f"; its SHA-256: {sha256}\n" in previewing.in_words(place.settings, found)
    return sha256


def with_entries(place, **entries):
    """Write settings anew, as a custodian does after an approval."""
    place.file.write_text(yaml.safe_dump({**yaml.safe_load(place.file.read_text()), **entries}, sort_keys=False))
