"""One request to several hospitals by a carrier: the result of a fit, whoever drops out, and what leaves a hospital."""

import json
from dataclasses import replace
from functools import partial
from threading import Thread

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import open_site, overview, preview, request_costs
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.permissions import MODELS
from hdpstats.custodian.previewing import approve
from hdpstats.custodian.request_costs import CARRIED_AGAIN
from hdpstats.engines import participant as participant_module
from hdpstats.engines.collecting import (
    ANSWER,
    FACTS,
    NO_ANSWER,
    REFUSALS,
    Reply,
    collect,
    content_of,
    in_fixed_words,
    written,
)
from hdpstats.engines.flare.job import read_job
from hdpstats.engines.participant import Participation
from hdpstats.exchange import ReleaseFile, RequestFile, SeveralSites
from hdpstats.exchange.several import DIFFERS, ENDS
from hdpstats.exchange.weighted_people import CountingSite, rehearse
from hdpstats.ledger import SigningKey
from hdpstats.records import codec
from hdpstats.sites import LocalSite
from tests.custodian.asked_by_files import killed, seen
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import FORMULA, PUBLIC, SCHEMA, SURVIVAL
from tests.custodian.test_request_files import Seen
from tests.custodian.test_watching import AWAY as AWAY_NOW
from tests.custodian.test_watching import FOLDER, GARBAGE, unusable
from tests.engines.hospitals import ANALYST, NAMES, Carrier, Hospital, left_by

STUDY = hdp.Study(public=PUBLIC, schema=SCHEMA)
QUESTIONS = {
    "logit": ("logit", FORMULA, {"epsilon": 1}),
    "hazard": ("hazard", SURVIVAL, {"epsilon": 1, "intervals": 6}),
    "rounds": ("logit", "y ~ x", {"epsilon": 1, "delta": 1e-5, "mechanism": "clipped_newton"}),
    "description": ("describe", ["x", "g", "k"], {"epsilon": 0.5, "by": "y"}),
    "effect": ("treatment_effect", "event ~ y", {"epsilon": 1, "propensity_formula": "y ~ x", "propensity_epsilon": 1}),
    "weighted": ("logit", "event ~ y", {"epsilon": 1, "propensity_formula": "y ~ x", "propensity_epsilon": 0.5}),
}
SIMPLE = ("describe", ["x", "g"], {"epsilon": 0.5})


class Of(Seen):
    """A hospital as the service shows it to the analyst of these tests."""

    def put_public(self, table):
        self._site.put_public(table, analyst=ANALYST)

    def answer(self, query):
        return self._site.answer(query, analyst=ANALYST)


@pytest.fixture
def hospitals(tmp_path):
    return [
        Hospital(tmp_path / name, name, rows=300 + 40 * i, seed=i) for i, name in enumerate(("east", "north", "south"))
    ]


@pytest.fixture
def ask(tmp_path):
    """Write a request, and return it with its file."""

    def written(kind, what, options):
        place = tmp_path / f"request-{kind}.json"
        return hdp.request(kind, what, STUDY, path=place, **options), place

    return written


OTHER = "bob@university.example"


@pytest.mark.parametrize(
    "question",
    ["description", *(pytest.param(each, marks=pytest.mark.wide) for each in QUESTIONS if each != "description")],
)
def test_the_result_is_that_of_a_fit_at_these_sites(hospitals, ask, question):
    asked, place = ask(*QUESTIONS[question])
    several, result = collect(asked, NAMES, Carrier(hospitals, place))
    spent = [each.spent for each in hospitals]
    assert several.left == {}
    if question != "rounds":  # whose charge is in another measure
        options = QUESTIONS[question][2]
        assert spent == [sum(value for name, value in options.items() if name.endswith("epsilon"))] * 3
    sites = {each.name: Of(open_site(each.settings)) for each in hospitals}
    later = asked.question.ask(hdp.Study(private=sites, public=PUBLIC, quorum=2))
    assert later.to_json() == result.to_json()
    assert [each.spent for each in hospitals] == spent


HIDDEN = {"place": "ledger.db", "epsilon": 100, "delta": 1e-3, "relation": "add_or_remove_one"}


def small_and_large(folder, small, large, *, hidden=False):
    """Return hospitals of which some have too few people for a description, and their names."""
    sizes = {f"small{i}": 25 for i in range(small)} | {f"large{i}": 1200 for i in range(large)}
    names, hospitals = tuple(sizes), []
    for seed, (name, rows) in enumerate(sizes.items()):
        entries = {"persons": {"n_max": rows + 10}, "ledger": HIDDEN | {"dataset": name}} if hidden else {}
        hospitals.append(Hospital(folder / name, name, rows=rows, seed=seed, sites=names, **entries))
    return names, hospitals


@pytest.mark.parametrize(
    ("question", "small", "large", "hidden"),
    [
        ("logit", 1, 2, False),
        ("logit", 1, 2, True),
        ("rounds", 2, 3, False),
        pytest.param("effect", 2, 3, False, marks=pytest.mark.wide),
        pytest.param("weighted", 2, 3, True, marks=pytest.mark.wide),
        pytest.param("logit", 3, 2, False, marks=pytest.mark.wide),
    ],
)
def test_hospitals_with_too_few_people_for_a_description_take_part(tmp_path, ask, question, small, large, hidden):
    """They wait for the descriptions of the others, and the others wait for them before a further round."""
    names, hospitals = small_and_large(tmp_path, small, large, hidden=hidden)
    study = hdp.Study(public=PUBLIC, schema=SCHEMA, relation="add_or_remove_one", n_max=1300) if hidden else STUDY
    place, (kind, what, options) = tmp_path / "request.json", QUESTIONS[question]
    asked = hdp.request(kind, what, study, path=place, **options)
    several, result = collect(asked, names, Carrier(hospitals, place))
    spent = [each.spent for each in hospitals]
    assert several.left == {}
    assert len(set(spent)) == 1
    sites = {each.name: Of(open_site(each.settings)) for each in hospitals}
    later = asked.question.ask(hdp.Study(private=sites, public=PUBLIC))
    assert later.to_json() == result.to_json()
    assert [each.spent for each in hospitals] == spent


def test_rounds_go_on_without_the_hospitals_that_are_lost(tmp_path, ask):
    """Also where the others' answers are fewer than all had before."""
    names, hospitals = small_and_large(tmp_path, 0, 5)
    asked, place = ask(*QUESTIONS["rounds"])
    several, result = collect(asked, names, Carrier(hospitals, place, lost={"large3": 3, "large4": 3}))
    assert set(several.left) == {"large3", "large4"}
    assert (result.sites.set_index("site")["weight"][["large0", "large1", "large2"]] > 0).all()


def test_hospitals_that_afford_the_second_part_answer_where_another_has_the_propensity_model(tmp_path, ask):
    both, account = dict.fromkeys((ANALYST, OTHER), EVERYTHING), {"place": "ledger.db", "epsilon": 2.9, "delta": 1e-3}
    hospitals = [
        Hospital(tmp_path / name, name, seed=i, analysts=both, ledger=account | {"dataset": name})
        for i, name in enumerate(NAMES)
    ]
    asked, place = ask("propensity", "y ~ x", {"epsilon": 1})
    collect(asked, NAMES, Carrier(hospitals, place, signers=(OTHER,)))
    assert [float(each.ledger.remaining.epsilon) for each in hospitals] == [1.9] * 3
    kind, what, options = QUESTIONS["weighted"]
    asked, place = ask(kind, what, options | {"propensity_epsilon": 1})
    several, _ = collect(asked, NAMES, Carrier(hospitals, place))
    assert several.left == {}
    assert [each.spent for each in hospitals] == [2] * 3
    assert [each.ledger.spent_by(ANALYST).epsilon for each in hospitals] == [2] * 3


BY_MUCH = {"epsilon": 0.3, "propensity_formula": "y ~ x + g", "propensity_epsilon": 3, "intervals": 6}
SMALL_SECOND = ("hazard", "Surv(time, event) ~ y", BY_MUCH)
"""Of a hospital of 80 people the propensity model has a description, and the second part has none."""
SIZES = {"east": 80, "north": 4000, "south": 4000}


@pytest.mark.parametrize(
    ("permitted", "refusal"),
    [({"models": sorted(MODELS - {"hazard"})}, "forbidden"), ({"epsilon": 3.2}, "insufficient-budget")],
    ids=["forbidden", "capped"],
)
def test_a_small_hospital_that_refuses_the_second_part_charges_nothing_for_the_first(tmp_path, ask, permitted, refusal):
    """Its second part rests on the others' descriptions, which are still to come when the first is asked."""
    own = {"analysts": {ANALYST: EVERYTHING | permitted}}
    hospitals = [Hospital(tmp_path / name, name, rows=SIZES[name], **(own if name == "east" else {})) for name in NAMES]
    carrier = Carrier(hospitals, ask(*SMALL_SECOND)[1])
    assert carrier.participants["east"].reply(ANSWER, facts_of(carrier)) == Reply(refusal=refusal)
    assert (hospitals[0].charges, hospitals[0].spent) == (0, 0)


def test_a_site_whose_own_second_part_is_not_met_refuses_whatever_others_are_asked(hospitals, ask):
    class Own(CountingSite, Of):
        expect = None

    east, north = (open_site(each.settings) for each in hospitals[:2])
    carrier = Carrier(hospitals, ask(*SIMPLE)[1])
    reply = carrier.participants["south"].reply(ANSWER, facts_of(carrier))
    query = ReleaseFile.from_bytes(reply.release).answers[0][0]
    study = hdp.Study(private={"east": Own(east), "north": Of(north)}, public=PUBLIC)
    with pytest.raises(hdp.SiteError, match="rehearsal"):
        rehearse(study, lambda tried: tried.sites["north"].answer(query))
    assert set(rehearse(study, lambda tried: tried.sites["east"].answer(query))) == {"east"}


def test_a_file_with_a_part_of_the_answers_replaces_none_of_a_site(hospitals, ask):
    asked, place = ask(*QUESTIONS["logit"])
    several, result = collect(asked, NAMES, Carrier(hospitals, place))
    whole = several.releases["south"]
    for part in (whole.answers[:1], ()):
        later = several.with_releases({"south": replace(whole, answers=part)})
        assert later.releases["south"] is whole
        assert later.result(asked).to_json() == result.to_json()
    other = replace(whole, answers=(), facts=replace(whole.facts, version=2))
    assert several.with_releases({"south": other}).releases["south"] is other
    forged = replace(whole, answers=(whole.answers[0][:1] + whole.answers[1][1:],))
    assert several.with_releases({"south": forged}).releases["south"] is forged


def test_a_hospital_that_is_lost_in_the_middle_is_named_and_comes_back_for_nothing_more(hospitals, ask):
    asked, place = ask(*QUESTIONS["logit"])
    several, result = collect(asked, NAMES, Carrier(hospitals, place, lost={"south": 2}))
    table = result.sites.set_index("site")
    assert table["weight"]["south"] == 0
    assert NO_ANSWER in table["status"]["south"]
    assert table["weight"][["east", "north"]].sum() == pytest.approx(1)
    assert [each.spent for each in hospitals] == [1, 1, 0.15]  # south described its people, and then was gone
    again, same = collect(asked, NAMES, Carrier(hospitals, place, lost={"south": 0}), known=several.releases)
    assert list(again.left) == ["south"]
    assert same.to_json() == result.to_json()
    assert [each.spent for each in hospitals] == [1, 1, 0.15]
    _, whole = collect(asked, NAMES, Carrier(hospitals, place))
    assert [each.spent for each in hospitals] == [1, 1, 1]
    assert [each.charges for each in hospitals] == [2, 2, 2]
    assert (whole.sites["weight"] > 0).all()


@pytest.mark.parametrize(
    ("question", "lost"),
    [
        ("weighted", 2),
        *(pytest.param(*each, marks=pytest.mark.wide) for each in (("weighted", 1), ("effect", 1), ("effect", 2))),
    ],
)
def test_a_hospital_that_is_lost_before_its_propensity_model_is_no_part_of_what_rests_on_it(
    hospitals, ask, question, lost
):
    asked, place = ask(*QUESTIONS[question])
    several, result = collect(asked, NAMES, Carrier(hospitals, place, lost={"south": lost}))
    spent = [each.spent for each in hospitals]
    whole = float(asked.question.most.epsilon)
    assert several.left == {"south": NO_ANSWER}
    assert spent[:2] == [whole] * 2
    assert spent[2] < asked.question.spending["propensity_epsilon"]
    names = set(result.sites) if question == "effect" else set(result.sites["site"])
    assert names == {"east", "north"}
    again, same = collect(asked, NAMES, Carrier(hospitals, place, lost={"south": 0}), known=several.releases)
    assert same.to_json() == result.to_json()
    found, same = read_job(left_by(place.parent / "left", several, asked), place)
    assert found.left == again.left == several.left
    assert same.to_json() == result.to_json()
    assert [each.spent for each in hospitals] == spent


def test_a_hospital_that_refuses_the_second_part_keeps_nobody_from_it(tmp_path, ask):
    """It refuses before its first charge, and the others answer both parts; fewer than a quorum are charged nothing."""
    forbidden = {"analysts": {ANALYST: EVERYTHING | {"models": sorted(MODELS - {"hazard"})}}}
    hospitals = [Hospital(tmp_path / name, name, **(forbidden if name == "south" else {})) for name in NAMES]
    asked, place = ask("hazard", "Surv(time, event) ~ y", BY_MUCH | {"epsilon": 1})
    several, _ = collect(asked, NAMES, Carrier(hospitals, place))
    assert several.left == {"south": REFUSALS["forbidden"]}
    assert [each.spent for each in hospitals] == [4, 4, 0]


def test_a_task_that_is_delivered_twice_is_charged_and_drawn_once(hospitals, ask):
    asked, place = ask(*SIMPLE)
    carrier = Carrier(hospitals, place, times=2)  # which compares the replies, byte for byte
    collect(asked, NAMES, carrier)
    assert [(each.spent, each.charges) for each in hospitals] == [(0.5, 1)] * 3


def forged(release, by):
    """Return a release file whose coefficients are others; its hash holds."""
    fields = json.loads(release)
    fields.pop("sha256")
    for each in fields["answers"]:
        each["release"] |= {
            name: [value + by for value in values]
            for name, values in each["release"].items()
            if name in ("coefficients", "theta", "total")
        }
    return (codec.dumps({**fields, "sha256": codec.sha256(fields)}) + "\n").encode()


@pytest.mark.wide
def test_forged_files_of_others_are_charged_no_more_than_the_request_says(hospitals, ask):
    asked, place = ask(*QUESTIONS["effect"])
    carrier = Carrier(hospitals, place)
    several, _ = collect(asked, NAMES, carrier)
    content, one = content_of(several), hospitals[0]
    south = forged(content["releases"]["south"], 0.25)
    assert south != content["releases"]["south"]
    content["releases"]["south"] = south
    assert one.participant(place).reply(ANSWER, content) == Reply(refusal="refused")
    assert (one.spent, one.charges) == (2, 3)


@pytest.mark.filterwarnings("ignore:this release was charged")
def test_a_carrier_that_ends_processes_has_few_charges_in_vain(tmp_path, ask):
    _, place = ask(*SIMPLE)
    one = Hospital(tmp_path / "east", "east", sites=("east",), requests={"unsigned": "admitted"})
    carrier = Carrier([one], place)
    facts = carrier(FACTS, {}, ("east",))["east"].release
    content = {"asked": ["east"], "releases": {"east": facts}, "left": {}}

    for charges in range(1, CARRIED_AGAIN + 2):
        killed(lambda: one.participant(place).reply(ANSWER, content))
        assert one.charges == charges
    for charges in (CARRIED_AGAIN + 1, CARRIED_AGAIN + 2):
        assert one.participant(place).reply(ANSWER, content) == Reply(refusal="not-approved")
        assert one.charges == charges
        approve(one.settings, place, by="Dr Bos", sha256=seen(one, place, analyst=ANALYST), analyst=ANALYST)
        if charges == CARRIED_AGAIN + 1:
            killed(lambda: one.participant(place).reply(ANSWER, content))
    assert one.participant(place).reply(ANSWER, content).release
    assert one.charges == CARRIED_AGAIN + 3


class Joint:
    """A hospital that was asked all but the joint query of an exchange: it rests on files of the others."""

    def __init__(self, folder, hospitals, asked, place, last, *, signers=(ANALYST,), **entries):
        carrier = Carrier(hospitals, place)
        collect(asked, NAMES, carrier)
        self.one, self.place, self.own = Hospital(folder / "new" / "east", "east", **entries), place, {}
        for who in signers:
            if entries.get("requests", {}).get("approval") == "required":
                self.approve(who)
            self.own[who] = self.one.participant(place, (who,)).reply(FACTS, {}).release
            for number in range(1, last):
                self.content = carrier.sent[number][1]
                self.own[who] = self.reply(who).release
        self.content = carrier.sent[last][1]
        assert self.one.charges == self.one.releases == last - 1

    def reply(self, who=ANALYST, by=0.0):
        releases = {**self.content["releases"], "east": self.own[who]}
        if by:
            releases["south"] = forged(releases["south"], by)
        return self.one.participant(self.place, (who,)).reply(ANSWER, {**self.content, "releases": releases})

    def approve(self, who=ANALYST):
        sha256 = seen(self.one, self.place, analyst=who)
        return approve(self.one.settings, self.place, by="Dr Bos", sha256=sha256, analyst=who)


@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_forged_files_of_others_get_no_further_charges_in_vain(tmp_path, hospitals, ask):
    """However many queries they make: what a request was charged in vain counts over all of them."""
    joint = Joint(tmp_path, hospitals, *ask(*QUESTIONS["rounds"]), 3, requests={"unsigned": "admitted"})
    before = joint.one.charges
    for number in range(CARRIED_AGAIN + 1):
        killed(partial(joint.reply, by=0.001 * number))
    for number in (CARRIED_AGAIN, CARRIED_AGAIN + 1):
        assert joint.reply(by=0.001 * number) == Reply(refusal="not-approved")
    assert joint.one.charges == before + CARRIED_AGAIN + 1
    joint.approve()
    assert joint.reply(by=0.001 * CARRIED_AGAIN).release
    assert joint.one.charges == before + CARRIED_AGAIN + 2


@pytest.mark.parametrize("approval", ["none", "required"])
@pytest.mark.filterwarnings("ignore:this release was charged")
def test_a_joint_query_that_was_interrupted_is_charged_once_somebody_approved_it(tmp_path, hospitals, ask, approval):
    """A dry run meets no query that rests on files of other sites: it says what was charged in vain of all."""
    requests = {"unsigned": "admitted", "approval": approval}
    joint = Joint(tmp_path, hospitals, *ask(*QUESTIONS["logit"]), 2, requests=requests)
    times = 1 if approval == "required" else CARRIED_AGAIN + 1
    for _ in range(times):
        killed(joint.reply)
    assert joint.reply() == Reply(refusal="not-approved")
    words = preview(joint.one.settings, joint.place, analyst=ANALYST)
    assert f"of charges for other queries of it, as with files of other sites, {times} have no release" in words
    assert f"it was charged {times} times in vain" in words or "before a charge was in vain" in words
    assert list(joint.approve().vain.values()) == [times]
    assert "approved by Dr Bos" in overview(joint.one.settings, requests=joint.place.parent)
    assert joint.reply().release
    assert joint.one.charges == 1 + times + 1


@pytest.mark.parametrize("approval", ["none", "required"])
@pytest.mark.filterwarnings("ignore:this release was charged")
def test_what_others_were_charged_in_vain_for_a_joint_query_is_shown_and_approved(tmp_path, hospitals, ask, approval):
    requests = {"unsigned": "admitted", "approval": approval}
    analysts = {name: EVERYTHING | {"epsilon": 5} for name in (ANALYST, OTHER)}
    question = ask(*QUESTIONS["logit"])
    joint = Joint(tmp_path, hospitals, *question, 2, signers=(OTHER, ANALYST), analysts=analysts, requests=requests)
    killed(partial(joint.reply, OTHER))
    for _ in range(2):
        assert joint.reply() == Reply(refusal="not-approved")
    lines = [json.loads(line) for line in joint.one.settings.request_costs.read_text().splitlines()]
    assert [(line["analyst"], line.get("waits", False)) for line in lines[-2:]] == [(OTHER, False), (ANALYST, "true")]
    words = preview(joint.one.settings, joint.place, analyst=ANALYST)
    assert "the analyst's cap is charged epsilon = 0.85, delta = 0 besides, for those made for others" in words
    assert sum(joint.approve().vain.values()) == 1
    assert joint.reply().release
    assert (joint.one.charges, float(joint.one.ledger.spent_by(ANALYST).epsilon)) == (3, 1.85)


def test_what_leaves_is_a_release_file_or_a_name(hospitals, ask, monkeypatch):
    asked, place = ask(*SIMPLE)
    carrier = Carrier(hospitals, place)
    collect(asked, NAMES, carrier)
    for replies, hospital in ((replies, each) for replies in carrier.replies for each in hospitals):
        reply = replies[hospital.name]
        assert reply.refusal is None
        fields = json.loads(reply.release)
        assert set(fields) == {"format", "hdpstats", "request", "facts", "columns", "answers", "sha256"}
        assert not [cell for cell in map(repr, hospital.rows["x"][:50]) if cell.encode() in reply.release]
    secret = repr(hospitals[0].rows["x"][0])

    def broken(*_, **__):
        raise ValueError(secret)

    monkeypatch.setattr(participant_module.Exchange, "answer", broken)
    hospitals[0].sites = ("east",)
    replies = Carrier(hospitals[:1], place)
    with pytest.raises(hdp.SiteError) as caught:
        collect(asked, ("east",), replies)
    assert replies.replies[1] == {"east": Reply(refusal="unavailable")}
    assert secret not in str(caught.value)


def test_fewer_than_a_quorum_stop_before_anything_is_charged(hospitals, ask):
    asked, place = ask(*SIMPLE)
    with pytest.raises(hdp.SiteError, match="1 of 3 sites answer, and 2 must"):
        collect(asked, NAMES, Carrier(hospitals, place, lost={"north": 0, "south": 0}))
    assert [each.spent for each in hospitals] == [0, 0, 0]
    content = content_of(SeveralSites(asked=NAMES, releases={}, left={"north": NO_ANSWER, "south": NO_ANSWER}))
    assert hospitals[0].participant(place).reply(ANSWER, content) == Reply(refusal="others")


@pytest.mark.parametrize(
    ("entries", "signers", "refusal"),
    [
        ({}, (), "unknown-analyst"),
        ({}, ("eve@elsewhere.example",), "unknown-analyst"),
        ({}, (ANALYST, "eve@elsewhere.example"), "unknown-analyst"),
        ({"requests": {"approval": "required"}}, (ANALYST,), "not-approved"),
        ({"data": "other.parquet"}, (ANALYST,), "unavailable"),
        ({"data": "dictionary.yaml", "requests": {"approval": "required"}}, (ANALYST,), "not-approved"),
        ({"analysts": {ANALYST: {"mechanisms": ["count"], "models": []}}}, (ANALYST,), "forbidden"),
        (
            {"analysts": {ANALYST: {"mechanisms": "all", "models": "all", "epsilon": 0.1}}},
            (ANALYST,),
            "insufficient-budget",
        ),
    ],
)
def test_a_hospital_refuses_in_fixed_words(tmp_path, ask, entries, signers, refusal):
    one = Hospital(tmp_path / "east", "east", sites=("east",), **entries)
    asked, place = ask(*SIMPLE)
    with pytest.raises(hdp.SiteError) as caught:
        collect(asked, ("east",), Carrier([one], place, signers=signers))
    assert REFUSALS[refusal] in str(caught.value)
    assert one.spent == 0


@pytest.mark.parametrize("names", [("north", "south"), ("EAST", "east.example", "south")])
def test_a_hospital_answers_what_its_analyst_asked_it(hospitals, ask, names):
    """Whatever the carrier says of whom the request is for, it is charged nothing and says nothing else."""
    _, place = ask(*SIMPLE)
    one = hospitals[0]
    content = facts_of(Carrier(hospitals, place))
    of_others = one.participant(place, sites=names)
    for task, given in ((FACTS, {}), (ANSWER, content), (ANSWER, content | {"asked": list(names)})):
        assert of_others.reply(task, given) == Reply(refusal="not-asked")
    assert one.charges == 0


def test_whom_another_request_is_for_is_nothing_to_this_one(hospitals, ask):
    """As where a server puts files of two jobs together, which the same analyst signed."""
    one, signed = hospitals[0], hospitals[0].folder / "sites.json"
    one.participant(ask(*QUESTIONS["logit"])[1])
    of_other = signed.read_bytes()
    _, place = ask(*SIMPLE)
    for content in (of_other, place.read_bytes(), b"{}", b"[]", of_other.replace(b'["east"', b'[1,"east"')):
        asked = one.participant(place)
        signed.write_bytes(content)
        assert asked.reply(FACTS, {}) == Reply(refusal="not-asked")
    signed.unlink()
    assert asked.reply(FACTS, {}) == Reply(refusal="unavailable")
    assert one.participant(place).reply(FACTS, {}).release


def test_a_hospital_goes_by_the_hospitals_that_its_analyst_asked(hospitals, ask):
    """A server that names fewer makes a quorum of them no smaller."""
    _, place = ask(*SIMPLE)
    carrier, one = Carrier(hospitals, place), hospitals[0]
    content = facts_of(carrier)
    for names in (["east"], ["east", "north"], ["north", "east", "south"]):
        releases = {name: content["releases"][name] for name in names}
        said = {"asked": names, "releases": releases, "left": {}}
        assert carrier.participants["east"].reply(ANSWER, said) == Reply(refusal="others")
    assert one.charges == 0
    assert carrier.participants["east"].reply(ANSWER, content).release


AWAY = [("site.answering.lock", FOLDER), ("site.request-costs.jsonl", GARBAGE), ("ledger.db", GARBAGE)]


@pytest.mark.parametrize("fresh", [True, False], ids=["opened-then", "open"])
@pytest.mark.parametrize(("name", "how"), AWAY)
def test_a_hospital_that_cannot_use_its_own_files_says_so_and_is_asked_again(hospitals, ask, name, how, fresh):
    _, place = ask(*SIMPLE)
    carrier, one = Carrier(hospitals, place), hospitals[0]
    one.settings.answering.touch(mode=0o600)
    one.settings.request_costs.touch(mode=0o600)
    content = facts_of(carrier)
    asked = one.participant(place) if fresh else carrier.participants["east"]
    with unusable(one.folder / name, how):
        assert asked.reply(ANSWER, content) == Reply(refusal="unavailable")
    assert one.charges == 0
    assert asked.reply(ANSWER, content).release
    assert one.charges == 1


def facts_of(carrier):
    """Return what hospitals are asked once they have stated their public facts."""
    replies = carrier(FACTS, {}, NAMES)
    return {"asked": list(NAMES), "releases": {name: each.release for name, each in replies.items()}, "left": {}}


@pytest.mark.parametrize("error", [OSError(28, "No space left"), MemoryError(), hdp.LedgerError("it is away")])
@pytest.mark.parametrize("place_of", [(request_costs, "append_line"), (LocalSite, "answer"), (LocalSite, "held")])
def test_a_hospital_whose_system_fails_says_so_and_is_asked_again(hospitals, ask, monkeypatch, error, place_of):
    """Also where its own code makes of it that too few hospitals answered."""
    _, place = ask(*SIMPLE)
    carrier, one = Carrier(hospitals, place), hospitals[0]
    content = facts_of(carrier)

    def failing(*_, **__):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(*place_of, property(failing) if place_of[1] == "held" else failing)
        assert carrier.participants["east"].reply(ANSWER, content) == Reply(refusal="unavailable")
    assert one.charges == 0
    assert carrier.participants["east"].reply(ANSWER, content).release
    assert one.charges == 1


@pytest.mark.parametrize("unsigned", [False, True], ids=["at-a-hospital", "in-a-simulator"])
def test_a_hospital_answers_where_its_limit_of_time_holds(tmp_path, ask, unsigned):
    """It does so in the main thread; a simulator needs none."""
    _, place = ask(*SIMPLE)
    one = Hospital(tmp_path / "east", "east", sites=("east",), unsigned=unsigned)
    asked, replies = one.participant(place), []
    facts = asked.reply(FACTS, {}).release
    content = {"asked": ["east"], "releases": {"east": facts}, "left": {}}
    thread = Thread(target=lambda: replies.append(asked.reply(ANSWER, content)))
    thread.start()
    thread.join()
    assert (replies[0].refusal, one.charges) == ((None, 1) if unsigned else ("unavailable", 0))
    assert asked.reply(ANSWER, content).release


def test_no_refusal_that_may_follow_a_charge_says_that_nothing_was_charged():
    assert {name for name, words in REFUSALS.items() if "nothing was charged" in words} == {
        "not-asked",
        "request",
        "others",
    }


def test_a_request_that_cannot_be_read_now_is_asked_again(hospitals, ask):
    _, place = ask(*SIMPLE)
    asked = hospitals[0].participant(place)
    with unusable(place, AWAY_NOW):
        assert asked.reply(FACTS, {}) == Reply(refusal="unavailable")
    assert asked.reply(FACTS, {}).release


def test_nobody_signs_in_a_simulator_that_a_custodian_allowed(tmp_path, ask):
    one = Hospital(tmp_path / "east", "east", sites=("east",), unsigned=True)
    asked, place = ask(*SIMPLE)
    collect(asked, ("east",), Carrier([one], place, signers=()))
    assert one.spent == 0.5


@pytest.mark.parametrize("signers", [(ANALYST,), ()])
def test_an_analyst_with_a_key_signs_requests_whoever_signed_the_job(tmp_path, ask, signers):
    private, public = SigningKey.generate().write(tmp_path / "ann")
    one = Hospital(tmp_path / "east", "east", unsigned=True, requests={"keys": {ANALYST: str(public)}})
    asked, place = ask(*SIMPLE)
    assert one.participant(place, signers).reply(FACTS, {}) == Reply(refusal="unknown-analyst")
    asked.signed(private).write(place)
    assert one.participant(place, signers).reply(FACTS, {}).release


def test_the_name_of_a_site_leads_to_no_other_folder(tmp_path):
    one = Hospital(tmp_path / "east", "east")
    one.participation.write_text(json.dumps({"settings": "../{site}/site.yaml", "grid": 0.01}))
    assert Participation.read(one.participation, site="east").settings.resolve() == one.file.resolve()
    for name in ("../north", ".", "", "a/b", "/etc"):
        with pytest.raises(hdp.ArgumentError, match="participation"):
            Participation.read(one.participation, site=name)


def test_files_of_other_sites_that_do_not_belong_together_are_refused(hospitals, ask, tmp_path):
    asked, place = ask(*SIMPLE)
    carrier = Carrier(hospitals, place)
    collect(asked, NAMES, carrier)
    facts = {name: reply.release for name, reply in carrier.replies[0].items()}
    good = {"asked": list(NAMES), "releases": facts, "left": {}}
    changes = [
        {"releases": facts | {"south": facts["south"].replace(b'"south"', b'"other"')}},
        {"releases": facts | {"south": b"{}"}},
        {"releases": facts | {"south": 7}},
        {"releases": {"north": facts["north"], "south": facts["south"]}},
        {"releases": facts | {"east": facts["north"]}},
        {"asked": ["east", "east", "north"]},
        {"asked": ["north", "south"]},
        {"left": {"east": NO_ANSWER}},
        {"left": None},
    ]
    before = [each.spent for each in hospitals]
    for change in changes:
        assert hospitals[0].participant(place).reply(ANSWER, good | change) == Reply(refusal="others"), change
    assert hospitals[0].participant(place).reply("train", good) == Reply(refusal="request")
    assert hospitals[0].participant(place).reply(ANSWER, good).release
    assert [each.spent for each in hospitals] == before


def test_a_hospital_that_is_named_twice_charges_nothing_for_a_study_that_nobody_can_read(hospitals, ask):
    _, place = ask(*SIMPLE)
    one, facts = hospitals[0], {}
    for each in hospitals:
        facts |= {each.name: each.participant(place).reply(FACTS, {}).release}
    for other in ("north", "south"):
        content = {"asked": list(NAMES), "releases": facts | {other: facts["east"]}, "left": {}}
        assert one.participant(place).reply(ANSWER, content) == Reply(refusal="refused")
    assert (one.spent, one.charges) == (0, 0)


def test_a_reply_waits_for_its_grid(tmp_path, ask, monkeypatch):
    one = Hospital(tmp_path / "east", "east", grid=5.0)
    _, place = ask(*SIMPLE)
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    opened = participant_module.Participant._opened

    def slow(self):
        now[0] += 6.25
        return opened(self)

    monkeypatch.setattr(participant_module.Participant, "_opened", slow)
    one.participant(place, clock=Clock(now=lambda: now[0], sleep=sleep)).reply(FACTS, {})
    assert slept == [3.75]


def test_others_may_not_say_by_which_settings_a_hospital_answers(tmp_path, ask, monkeypatch):
    monkeypatch.setattr(participant_module, "GRID", 0.01)
    one = Hospital(tmp_path / "east", "east")
    _, place = ask(*SIMPLE)
    one.participation.chmod(0o666)
    assert one.participant(place).reply(FACTS, {}) == Reply(refusal="unavailable")
    one.participation.chmod(0o600)
    for said in ("[]", "{}", '{"settings": "site.yaml", "grid": 0}', '{"settings": "site.yaml", "more": 1}'):
        one.participation.write_text(said)
        assert one.participant(place).reply(FACTS, {}) == Reply(refusal="unavailable"), said


def test_a_request_for_another_schema_is_refused(tmp_path, hospitals):
    other = hdp.Schema({name: SCHEMA[name] for name in SCHEMA if name != "secret"})
    place = tmp_path / "other.json"
    asked = hdp.request("describe", ["x"], hdp.Study(public=PUBLIC, schema=other), epsilon=0.5, path=place)
    with pytest.raises(hdp.SiteError, match="of another schema"):
        collect(asked, NAMES, Carrier(hospitals, place))
    assert RequestFile.read(place).sha256 == asked.sha256


def stated_otherwise(release):
    """Return a release file with another number of people."""
    read = ReleaseFile.from_bytes(release)
    return written(replace(read, facts=replace(read.facts, records=7 * read.facts.records)))


def answered_otherwise(release):
    """Return a release file with other coefficients, where it has any."""
    return forged(release, 0.25) if len(ReleaseFile.from_bytes(release).answers) > 1 else release


@pytest.mark.parametrize(
    ("question", "misreported", "why"),
    [("logit", stated_otherwise, ENDS), ("rounds", stated_otherwise, ENDS), ("rounds", answered_otherwise, DIFFERS)],
)
def test_a_hospital_that_was_told_otherwise_is_left_out_and_the_result_says_why(
    tmp_path, hospitals, ask, question, misreported, why
):
    """Its file is there, and answers what follows from what was misreported to it."""
    asked, place = ask(*QUESTIONS[question])
    carrier = Carrier(hospitals, place)

    def send(task, content, sites):
        others = {name: misreported(each) for name, each in content["releases"].items() if name != "south"}
        told = content | {"releases": content["releases"] | others}
        replies = carrier(task, content, [name for name in sites if name != "south"])
        return replies | {"south": carrier.participants["south"].reply(task, told)}

    several, result = collect(asked, NAMES, send)
    assert several.left == {"south": why}
    assert several.present == ("east", "north")
    assert why in result.sites.set_index("site")["status"]["south"]
    found, same = read_job(left_by(tmp_path / "left", replace(several, left={}), asked), place)
    assert found.left == {"south": why}
    assert same.to_json() == result.to_json()
    assert in_fixed_words(why) == why


def test_a_hospital_whose_file_ends_early_is_left_out(hospitals, ask):
    asked, place = ask(*QUESTIONS["logit"])
    several, _ = collect(asked, NAMES, Carrier(hospitals, place))
    assert several.left == {}
    south = several.releases["south"]
    cut = replace(several, releases={**several.releases, "south": replace(south, answers=south.answers[:1])})
    assert cut.outcome(asked)[0].left == {"south": ENDS}
