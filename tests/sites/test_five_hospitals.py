"""One model at five sites, of which some are killed, hang, or come back; and an asker who dies."""

import itertools
import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ChargedAgain
from hdpstats.privacy.budget import Spend
from hdpstats.records.several import answers_in
from hdpstats.sites import asking
from tests import forked
from tests.custodian.people import FORMULA, SURVIVAL
from tests.sites.conftest import ROWS
from tests.waiting import LONG, until

REPLICATES = itertools.count(1)
ROUNDS = 3


def logit(study):
    return hdpf.logit(FORMULA, data=study)


def hazard(study):
    return hdpf.hazard(SURVIVAL, data=study, intervals=4)


OBJECTIVE = {"mechanism": "objective", "describe": False}
MODELS = [pytest.param(logit, id="logit"), pytest.param(hazard, id="hazard")]
FITS = [
    pytest.param(model, options, id=f"{model.__name__}, {name}")
    for model in (logit, hazard)
    for name, options in (
        ("objective", OBJECTIVE),
        ("clipped_newton", {"mechanism": "clipped_newton", "delta": 1e-6, "describe": False}),
    )
]
STEPS = pytest.param(logit, {"mechanism": "public_hessian"}, id="logit, public_hessian")


def check_books(hospitals, result, verified):
    """Every release that was handed out is in its ledger's chain, charged and recorded, and every chain verifies."""
    released = {name: answers_in(part) for name, part in result.release.sites}
    for name, account in hospitals.accounts.items():
        if name not in released:
            assert account.verify()
            continue
        history = account.history("ann").set_index("entry")
        for release in released[name]:
            assert release.entry.dataset == "trial"
            assert history.loc[release.entry.number, "released"]
        assert account.verify(released[name][-1].entry.head)
    first = next(iter(released))
    for release in released[first]:  # of several rounds, each has its own head
        assert hospitals.accounts[first].verify(release.entry.head)
    assert verified(first, released[first][-1].entry.head)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(("model", "options"), [*FITS, STEPS])
def test_five_sites_give_one_model_and_the_same_one_again_for_nothing(hospitals, verified, model, options):
    before, replicate = hospitals.spent(), next(REPLICATES)
    result = model(hospitals.study()).fit(epsilon=1.0, replicate=replicate, **options)
    assert list(result.sites["site"]) == list(ROWS)
    assert list(result.sites["records"]) == list(ROWS.values())
    assert set(result.sites["status"]) == {"answered"}
    assert float(result.guarantee.epsilon) == 1.0
    check_books(hospitals, result, verified)
    spent = hospitals.spent()
    for name in ROWS:
        assert spent[name].epsilon - before[name].epsilon == (0 if "delta" in options else 1)
        assert (spent[name].mu_squared > before[name].mu_squared) is ("delta" in options)
    again = model(hospitals.study()).fit(epsilon=1.0, replicate=replicate, **options)
    assert again.release == result.release
    pd.testing.assert_series_equal(again.params, result.params)
    assert hospitals.spent() == spent


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("model", MODELS)
def test_a_site_killed_between_charge_and_release_is_left_out_and_rejoins(hospitals, verified, model):
    study, replicate, before = hospitals.study(deadline=LONG), next(REPLICATES), hospitals.spent()
    with ThreadPoolExecutor(1) as pool, hospitals.held_after_charging("E") as wait:
        pending = pool.submit(lambda: model(study).fit(epsilon=1.0, replicate=replicate, **OBJECTIVE))
        wait()
        hospitals.kill("E")
        result = pending.result()
    rows = result.sites.set_index("site")
    assert list(rows.loc[list("ABCD"), "status"]) == ["answered"] * 4
    assert rows.loc["E", "status"].startswith("did not answer round 1: the site https://127.0.0.1")
    assert [name for name, _ in result.release.sites] == list("ABCD")
    assert "E" in str(result.summary())
    check_books(hospitals, result, verified)
    unreleased = set(hospitals.entries("E", "charge")) - set(hospitals.entries("E", "release"))
    assert len(unreleased) == 1
    spent = hospitals.spent()
    assert {name: spent[name].epsilon - before[name].epsilon for name in ROWS} == dict.fromkeys(ROWS, 1)

    # Restarted, it rejoins: the same fit has E's answer too. The draw that died with its process is charged, and so is
    # the next one; nobody else is charged.
    hospitals.all_up()
    with pytest.warns(ChargedAgain, match="2 times"):
        whole = model(study).fit(epsilon=1.0, replicate=replicate, **OBJECTIVE)
    assert set(whole.sites["status"]) == {"answered"}
    assert whole.release.sites[:4] == result.release.sites
    assert hospitals.spent() == {**spent, "E": spent["E"] + Spend(1)}
    assert whole.guarantee.epsilon == 2
    assert unreleased <= set(hospitals.entries("E", "release"))
    check_books(hospitals, whole, verified)


def test_a_site_killed_while_it_holds_the_request_is_left_out_uncharged(hospitals, verified):
    """The request lies accepted in the buffers of a stopped process, which is then killed."""
    replicate, before = next(REPLICATES), hospitals.spent()
    study = hospitals.study(deadline=LONG)
    hospitals.stop("C")
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(lambda: logit(study).fit(epsilon=1.0, replicate=replicate, **OBJECTIVE))
        until(
            lambda: all(hospitals.spent()[name].epsilon > before[name].epsilon for name in "ABDE"),
            "charges of the others",
            pause=0.05,
        )
        assert not pending.done()
        hospitals.kill("C")
        result = pending.result()
    rows = result.sites.set_index("site")
    assert set(rows.loc[list("ABDE"), "status"]) == {"answered"}
    assert rows.loc["C", "status"].startswith("did not answer round 1: the site https://127.0.0.1")  # no deadline
    assert [name for name, _ in result.release.sites] == list("ABDE")
    assert hospitals.spent()["C"] == before["C"]
    check_books(hospitals, result, verified)
    hospitals.all_up()
    whole = logit(study).fit(epsilon=1.0, replicate=replicate, **OBJECTIVE)
    assert set(whole.sites["status"]) == {"answered"}
    assert {name: each.epsilon - before[name].epsilon for name, each in hospitals.spent().items()} == dict.fromkeys(
        ROWS, 1
    )


def test_a_site_that_hangs_costs_one_deadline_in_a_fit_of_several_rounds(hospitals, verified, monkeypatch):
    """The deadline of round 1 passes when the four others have answered; later rounds wait for these alone."""
    replicate, before, waits = next(REPLICATES), hospitals.spent(), []
    options = {"mechanism": "clipped_newton", "delta": 1e-6, "epsilon": 1.0, "replicate": replicate, "describe": False}
    hospitals.stop("B")
    with monkeypatch.context() as patch:
        patch.setattr(asking, "_left", lambda *_: waits.append("for one") or (0.0 if len(waits) == len(ROWS) else LONG))
        result = logit(hospitals.study(deadline=6.0)).fit(**options)
    assert len(waits) == len(ROWS) + (ROUNDS - 1) * (len(ROWS) - 1)
    again = logit(hospitals.study().at(*"ACDE")).fit(**options)
    rows = result.sites.set_index("site")
    assert rows.loc["B", "status"].startswith("did not answer round 1: no answer within 6 seconds")
    assert set(rows.loc[list("ACDE"), "rounds"]) == {ROUNDS}
    assert [name for name, _ in again.release.sites] == list("ACDE")
    check_books(hospitals, result, verified)

    # It was asked once: going on, it answers round 1, to nobody, and its ledger says so.
    charged = len(hospitals.entries("B", "charge"))
    assert hospitals.spent()["B"] == before["B"]
    hospitals.signal("B", signal.SIGCONT)
    until(lambda: len(hospitals.entries("B", "release")) > charged, "the answer to nobody", pause=0.05)
    assert len(hospitals.entries("B", "charge")) == charged + 1


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize(("model", "options"), [FITS[0], FITS[-1]])
def test_below_the_quorum_there_is_no_result_and_nothing_is_lost(hospitals, model, options):
    replicate = next(REPLICATES)
    hospitals.kill("C", "D", "E")
    with pytest.raises(hdp.SiteError, match=r"2 of 5 sites answered, and the study needs 3 .*C: .*for nothing"):
        model(hospitals.study(deadline=LONG)).fit(epsilon=1.0, replicate=replicate, **options)
    hospitals.all_up()
    spent = hospitals.spent()
    charges = {name: hospitals.entries(name, "charge") for name in "AB"}
    result = model(hospitals.study(deadline=LONG)).fit(epsilon=1.0, replicate=replicate, **options)
    assert set(result.sites["status"]) == {"answered"}
    first = {name: answers_in(part)[0].entry.number for name, part in result.release.sites}
    for name in "AB":  # the first round of both was charged before
        history = hospitals.accounts[name].history("ann").set_index("entry")
        assert history.loc[first[name], "request"] == charges[name][-1][:12]
        later = 0 if options == OBJECTIVE else ROUNDS - 1
        assert len(hospitals.entries(name, "charge")) == len(charges[name]) + later
        assert (hospitals.spent()[name] == spent[name]) is (later == 0)


ASKER = """
import json, os, signal, sys
import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.sites import Site, remote
from tests.custodian.people import FORMULA, PUBLIC

remote.LONGEST_CONNECT = 600.0

class Doomed(Site):
    '''A site behind which the asker dies as soon as a round after the last one is asked.'''
    schema = records = terms = None
    def __init__(self, site):
        self.site, self.asked = site, 0
    def put_public(self, table):
        self.site.put_public(table)
    def received(self, query):
        return self.site.received(query)
    def answer(self, query):
        self.asked += 1
        if self.asked > last:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.site.answer(query)

for name in ("schema", "records", "terms"):
    setattr(Doomed, name, property(lambda self, name=name: getattr(self.site, name)))

given = json.load(sys.stdin)
last = given["last"]
sites = {name: Doomed(hdp.connect(url, **given["files"])) for name, url in given["urls"].items()}
study = hdp.Study(private=sites, public=PUBLIC)
options = {"mechanism": "clipped_newton", "delta": 1e-6, "describe": False}
hdpf.logit(FORMULA, data=study).fit(epsilon=1.0, replicate=given["replicate"], **options)
"""


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("last", range(1, ROUNDS))
def test_an_asker_who_dies_between_rounds_resumes_from_what_was_released(hospitals, verified, last):
    replicate = next(REPLICATES)
    before = {name: hospitals.entries(name, "charge") for name in ROWS}
    institution = hospitals.institution
    given = {
        "last": last,
        "replicate": replicate,
        "files": {
            "token": institution.token(),
            "ca": str(institution.authority.path),
            "cert": list(map(str, institution.ann_files)),
        },
        "urls": {name: running.url for name, running in hospitals.running.items()},
    }
    died = forked.run([sys.executable, "-c", ASKER], given=json.dumps(given))
    assert (died.returncode, died.stderr) == (-signal.SIGKILL, "")
    charged = {name: hospitals.entries(name, "charge")[len(before[name]) :] for name in ROWS}
    # Of the round in which it died, requests of other threads may have been on their way.
    assert all(last <= len(requests) <= last + 1 for requests in charged.values())

    options = {"mechanism": "clipped_newton", "delta": 1e-6, "describe": False}
    result = logit(hospitals.study()).fit(epsilon=1.0, replicate=replicate, **options)
    assert set(result.sites["status"]) == {"answered"}
    check_books(hospitals, result, verified)
    for name, part in result.release.sites:
        requests = hospitals.entries(name, "charge")[len(before[name]) :]
        assert len(requests) == ROUNDS
        assert requests[: len(charged[name])] == charged[name]
        history = hospitals.accounts[name].history("ann").set_index("entry")
        used = [history.loc[each.entry.number, "request"] for each in part.rounds]
        assert used == [request[:12] for request in requests]
