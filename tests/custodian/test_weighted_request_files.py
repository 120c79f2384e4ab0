"""Requests about people who are weighted by a propensity model: both parts in one exchange, at the cost of both."""

import json
from fractions import Fraction

import numpy as np
import pytest
import yaml

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import HdpError
from hdpstats._base.work import Operations
from hdpstats.custodian import answering, approvals, approve, open_site, preview
from hdpstats.custodian.previewing import looked_at
from hdpstats.exchange import RequestFile
from hdpstats.exchange.questions import KINDS, MAY
from hdpstats.exchange.weighted_people import RehearsedSite
from hdpstats.records import codec
from hdpstats.sites import LocalSite
from tests.custodian import asked_by_files
from tests.custodian.asked_by_files import BY_PROPENSITY, QUESTIONS, STUDY, WEIGHTED, Place, Seen, killed
from tests.custodian.institution import EVERYTHING, PATIENT
from tests.custodian.people import PRIVATE, PUBLIC, SCHEMA

LATER = {
    "weighted logit": lambda study, w: hdpf.logit("event ~ y", study, weighting=w).fit(epsilon=1),
    "weighted linear": lambda study, w: hdpf.linear("secret ~ y * x", study, weighting=w).fit(epsilon=1, replicate=2),
    "weighted poisson": lambda study, w: hdpf.poisson("k ~ y", study, weighting=w).fit(epsilon=1),
    "weighted hazard": lambda study, w: hdpf.hazard("Surv(time, event) ~ y", study, intervals=6, weighting=w).fit(
        epsilon=1
    ),
    "weighted curves": lambda study, w: hdpf.survfit(
        "Surv(time, event) ~ y", study, times=(6, 12, 24), weighting=w
    ).fit(epsilon=1),
    "balance": lambda study, w: hdp.describe(study, ["x", "g", "k"], weighting=w, epsilon=1, replicate=2),
}
HIDDEN = {"place": "ledger.db", "dataset": "trial", "epsilon": 100, "relation": "add_or_remove_one"}
OFFLINE = hdp.Study(public=PUBLIC, schema=SCHEMA, relation="add_or_remove_one", n_max=500)
OF_HIDDEN = {"persons": {"n_max": 500}, "ledger": HIDDEN}
CHARGES = {
    "weighted logit": (3, {}, STUDY),
    "balance": (4, {}, STUDY),
    "weighted logit of a hidden number": (5, OF_HIDDEN, OFFLINE),  # count, description, fit; count, fit
    "balance of a hidden number": (5, OF_HIDDEN, OFFLINE),
}
TWO = {name: EVERYTHING | {"epsilon": 10} for name in ("ann", "bob")}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def seen(place):
    return hdp.Study(private=Seen(open_site(place.settings)), public=PUBLIC)


def later_of(place, question):
    study, options = seen(place), WEIGHTED[question][2]
    model = hdp.propensity("y ~ x + g", study, epsilon=1, replicate=options.get("replicate", 1))
    return LATER[question](study, model.weights("overlap"))


def test_every_kind_that_takes_a_weighting_is_tried():
    asked = {kind for kind, *_ in WEIGHTED.values()}
    assert asked == {name for name, kind in KINDS.items() if kind.weighted == MAY}
    assert LATER.keys() == WEIGHTED.keys()


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("question", WEIGHTED)
def test_a_release_file_gives_what_a_later_fit_with_weighting_gives(place, question):
    place.ask(*WEIGHTED[question])
    place.answer()
    result, first = place.read().to_json(), place.release.read_bytes()
    assert place.spent == 2
    assert later_of(place, question).to_json() == result
    place.answer()  # once more
    assert (place.spent, place.release.read_bytes()) == (2, first)


@pytest.mark.parametrize("question", ["weighted logit"])
def test_a_noisy_number_of_people_is_asked_by_both_parts(tmp_path, question):
    place = Place(tmp_path, **OF_HIDDEN)
    place.ask(*WEIGHTED[question], OFFLINE)
    place.answer()
    assert place.ledger.history()["mechanism"].tolist().count("count/1") == 2
    assert place.spent == pytest.approx(2)
    assert later_of(place, question).to_json() == place.read().to_json()


def test_a_propensity_model_that_was_released_is_had_for_nothing(place):
    hdp.propensity("y ~ x + g", seen(place), epsilon=1)
    for number, question in enumerate(["weighted logit", "weighted curves"], start=2):
        asked = place.ask(*WEIGHTED[question])
        words = preview(place.settings, place.request)
        assert "2 of its queries were answered before, and cost nothing now" in words
        assert "would be charged epsilon = 1, delta = 0 for the first query" in words
        place.answer()
        assert place.spent == number
        assert asked.question.most.epsilon == 2
    place.ask("logit", "event ~ y", BY_PROPENSITY | {"propensity_epsilon": 0.5})  # another propensity model
    place.answer()
    assert place.spent == 4.5


def test_a_dry_run_says_what_each_part_costs(place):
    place.ask("logit", "event ~ y", BY_PROPENSITY | {"propensity_epsilon": 0.25})
    words = preview(place.settings, place.request)
    assert (
        "two parts: the propensity model 'y ~ x + g' for at most epsilon 0.25, then logit of people weighted by it for "
        "at most epsilon 1; a part that was released before costs nothing"
    ) in words
    assert "; the second part epsilon = 1, delta = 0\nin all it may cost epsilon = 1.25, delta = 0" in words
    assert "reads of each person: event, g, x, y" in words
    assert place.spent == 0
    place.ask(*QUESTIONS["effect"])
    assert "two parts: the propensity model 'y ~ x' for at most epsilon 1, then treatment_effect of" in preview(
        place.settings, place.request
    )
    place.ask(*QUESTIONS["logit"])
    assert "two parts" not in preview(place.settings, place.request)


@pytest.mark.parametrize("question", ["weighted logit", "balance"])
def test_an_approval_is_for_both_parts(tmp_path, question):
    place = Place(tmp_path, requests={"approval": "required"})
    kind, what, options = WEIGHTED[question]
    place.ask(kind, what, options)
    with pytest.raises(hdp.ArgumentError, match="approve must name who approves"):
        place.answer()
    place.answer(by="Dr Bos")
    (line,) = map(json.loads, place.settings.approvals.read_text().splitlines())
    assert (line["request"], line["epsilon"]) == (RequestFile.read(place.request).sha256, "2")
    assert place.spent == 2
    place.release.unlink()
    for change in ({"propensity_epsilon": 2}, {"propensity_formula": "y ~ x"}, {"epsilon": 2}):
        place.ask(kind, what, options | change)
        with pytest.raises(approvals.NotApproved, match="approve"):
            place.answer()
    assert place.spent == 2


@pytest.mark.parametrize("question", CHARGES)
def test_more_charges_than_are_allowed_are_refused_before_the_first(tmp_path, question):
    most, entries, study = CHARGES[question]
    place = Place(tmp_path, limits={"charges_each": most - 1}, **entries)
    place.ask(*WEIGHTED[question.partition(" of a hidden")[0]], study)
    assert "would be refused: more charges" in preview(place.settings, place.request, prices=asked_by_files.PRICES)
    with pytest.raises(hdp.QuotaExceeded, match="othing was charged for it"):
        place.answer()
    assert place.spent == 0
    place.file.write_text(place.file.read_text().replace(f"charges_each: {most - 1}", f"charges_each: {most}"))
    place.answer()
    assert len(place.ledger.history()) == most


@pytest.mark.parametrize(("epsilon", "left"), [(1, 1.9), (2e-5, 1.00015)])
def test_a_weighted_question_is_affordable_as_its_charges_are_counted(tmp_path, epsilon, left):
    """Each is at least the floor: of an epsilon of 2e-5 both halves of a balance are charged 1e-4."""
    ledger = {"place": "ledger.db", "dataset": "trial", "epsilon": left, "delta": 1e-3}
    place = Place(tmp_path, ledger=ledger)
    place.ask("describe", ["x", "g"], BY_PROPENSITY | {"epsilon": epsilon})
    assert "would be refused: more than is left" in preview(place.settings, place.request)
    with pytest.raises(hdp.InsufficientBudget):
        place.answer()
    assert place.spent == 0


def test_each_charge_of_a_hidden_number_of_people_is_at_least_the_floor(tmp_path):
    """Of an epsilon of 2e-5 a count and a fit are charged 2e-4."""
    place = Place(tmp_path, persons={"n_max": 500}, ledger=HIDDEN | {"epsilon": 1.00015})
    place.ask("logit", "event ~ y", BY_PROPENSITY | {"epsilon": 2e-5}, OFFLINE)
    assert "would be refused: more than is left" in preview(place.settings, place.request)
    with pytest.raises(hdp.InsufficientBudget):
        place.answer()
    assert place.spent == 0


@pytest.mark.parametrize(("hidden", "epsilon"), [(False, 1), (True, 1), (True, 0.004)])
@pytest.mark.parametrize("question", WEIGHTED)
def test_a_cap_of_what_a_request_is_charged_suffices_and_a_smaller_one_does_not(tmp_path, question, hidden, epsilon):
    """A second part is charged its epsilon where no charge of it is below the floor of 0.0001, else more."""
    entries, study = (OF_HIDDEN, OFFLINE) if hidden else ({}, STUDY)
    kind, what, options = WEIGHTED[question]
    folders = [tmp_path / name for name in ("any", "less", "exact")]
    [folder.mkdir() for folder in folders]

    def of(folder, **more):
        place = Place(folder, **entries, **more)
        place.ask(kind, what, options | {"epsilon": epsilon}, study)
        return place

    place = of(folders[0])
    place.answer()
    amounts = [Fraction(str(each)) for each in place.ledger.history()["epsilon"]]
    charged = sum(amounts)
    assert (charged == 1 + Fraction(str(epsilon))) == (min(amounts) > Fraction(1, 10**4))
    less, exact = (
        of(folder, analysts={"ann": EVERYTHING | {"epsilon": float(cap)}})
        for folder, cap in zip(folders[1:], (charged - Fraction(1, 10**9), charged), strict=True)
    )
    assert "would be refused: more than is left" in preview(less.settings, less.request)
    with pytest.raises(hdp.InsufficientBudget):
        less.answer()
    assert less.spent == 0
    assert "would be refused" not in preview(exact.settings, exact.request)
    exact.answer()
    assert exact.ledger.spent_by("ann").epsilon == charged


def test_an_account_without_the_second_part_is_asked_where_another_has_the_propensity_model(tmp_path):
    ledger = {"place": "ledger.db", "dataset": "trial", "epsilon": 1.5, "delta": 1e-3}
    place = Place(tmp_path, analysts=TWO, ledger=ledger)
    place.ask("propensity", "y ~ x + g", {"epsilon": 1})
    place.answer(analyst="bob")
    place.ask("logit", "event ~ y", BY_PROPENSITY)
    assert "would be refused: more than is left" in preview(place.settings, place.request, analyst="ann")
    with pytest.raises(hdp.InsufficientBudget):
        place.answer(analyst="ann")
    assert (place.spent, place.ledger.spent_by("ann").epsilon) == (1, 0)


def rehearsed_by(place, **options):
    """Return the query of the second part as it is rehearsed, at weights of public people."""
    asked = [each for each, _ in looked_at(place.settings, place.request, **options).site._fitted]
    return next(query for query in asked if '"weighting":{' in query.to_json())


@pytest.mark.parametrize(("left", "is_refused"), [(1.9, False), (1.8, True), (0.001, True)])
@pytest.mark.parametrize("question", ["weighted logit", "balance"])
def test_what_follows_a_query_that_another_has_is_taken_to_be_new(tmp_path, question, left, is_refused):
    """That another analyst has the rest too is not known before: of an epsilon of 1 the first query takes 0.15."""
    place = Place(tmp_path, analysts=TWO, ledger={"place": "ledger.db", "dataset": "trial", "epsilon": 2 + left})
    place.ask(*WEIGHTED[question])
    place.answer(analyst="bob")
    place.release.unlink()
    assert ("would be refused" in preview(place.settings, place.request, analyst="ann")) == is_refused
    if is_refused:
        with pytest.raises(hdp.InsufficientBudget):
            place.answer(analyst="ann")
    else:
        place.answer(analyst="ann")
    assert (place.spent, place.ledger.spent_by("ann").epsilon) == (2, 0 if is_refused else 2)


@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_charges_in_vain_of_the_second_part_are_met_when_it_is_asked(tmp_path):
    place = Place(tmp_path, analysts=TWO)
    place.ask("logit", "event ~ y", BY_PROPENSITY)
    killed(lambda: place.answer(analyst="bob"), number=3)
    assert "have no release" not in preview(place.settings, place.request, analyst="ann")
    with pytest.raises(approvals.NotApproved, match=r"charged 1 times in vain for a query of this request.*ask for it"):
        place.answer(analyst="ann")
    assert place.ledger.spent_by("ann").epsilon == 1
    words = preview(place.settings, place.request, analyst="ann")
    assert "the analyst's cap is charged epsilon = 1, delta = 0 besides" in words
    assert "waits until --approve NAME" in words
    place.answer(analyst="ann", by="Dr Bos")
    assert place.ledger.spent_by("ann").epsilon >= 2
    assert place.read().to_json()


def test_an_old_query_of_the_second_part_waits_when_it_is_asked(tmp_path):
    place = Place(tmp_path)
    place.ask("describe", ["x", "g", "k"], BY_PROPENSITY | {"propensity_epsilon": 2})
    place.answer()
    entries = yaml.safe_load(place.file.read_text())
    place.file.write_text(yaml.safe_dump(entries | {"ledger": entries["ledger"] | {"version": 2}}))
    asked = place.ask("describe", ["x", "g", "k"], BY_PROPENSITY)
    exchange = answering.Exchange(place.settings, prices=asked_by_files.PRICES)
    for _ in range(2):  # the first part is charged once
        with pytest.raises(approvals.NotApproved, match="for version 2 of the data"):
            exchange.answer(asked, analyst="ann", carried=True)
        assert place.spent == 4
    assert "it was charged for other data" in preview(place.settings, place.request)
    place.release.unlink()
    place.answer(by="Dr Bos")
    assert place.spent == 5


@pytest.mark.parametrize("of_bob", [False, True])
def test_an_approval_covers_no_charge_in_vain_of_what_is_not_asked(tmp_path, monkeypatch, of_bob):
    """At weights of public people nothing is ever asked: whoever charges that in vain widens nobody's approval."""
    place = Place(tmp_path, analysts=TWO, requests={"approval": "required"})
    place.ask("logit", "event ~ y", BY_PROPENSITY)
    if of_bob:
        rehearsed = rehearsed_by(place, analyst="ann")
        site = open_site(place.settings)
        site.put_public(STUDY.public, analyst="bob")
        with monkeypatch.context() as patched:
            patched.setattr(LocalSite, "_compute", lambda *_: 1 / 0)
            with pytest.raises(hdp.SiteError, match="did not complete"):
                site.answer(rehearsed, analyst="bob")
        assert place.spent == 1
    found = looked_at(place.settings, place.request, analyst="ann")
    assert (found.vain, found.besides) == ({}, {})
    killed(lambda: place.answer(analyst="ann", by="Dr Bos"), number=3)
    before = place.ledger.spent_by("ann").epsilon
    with pytest.raises(approvals.NotApproved, match="approve must be given anew"):
        place.answer(analyst="ann")
    assert place.ledger.spent_by("ann").epsilon == before == 2


@pytest.mark.parametrize("question", ["weighted logit", "weighted curves", "balance"])
def test_what_takes_too_long_is_refused_before_the_propensity_model_is_charged(tmp_path, monkeypatch, question):
    place, work = Place(tmp_path), LocalSite.work
    place.ask(*WEIGHTED[question])

    def long(self, query, *, analyst):
        weighted = '"weighting":{' in query.to_json()
        return Operations(steps=1e18) if weighted else work(self, query, analyst=analyst)

    with monkeypatch.context() as patched:
        patched.setattr(LocalSite, "work", long)
        with pytest.raises(hdp.MechanismError, match="longer than the custodian allows, and nothing was charged for"):
            place.answer()
    assert place.spent == 0


@pytest.mark.parametrize(("times", "answers"), [(2.5, True), (3.0, False)])
def test_a_later_query_that_takes_up_to_twice_as_long_as_allowed_is_answered(tmp_path, monkeypatch, times, answers):
    """How long a second part takes rests on the propensity model, which is not known at the rehearsal."""
    place, charged = Place(tmp_path, timing=PATIENT | {"longest": 0.2}), LocalSite.answer
    place.ask(*WEIGHTED["weighted hazard"])
    answered = []

    def answer(self, query, **options):
        answered.append(query)
        return charged(self, query, **options)

    def work(self, query, *, analyst):
        return Operations(steps=0.1 * (times if answered else 1.0))

    monkeypatch.setattr(LocalSite, "answer", answer)
    monkeypatch.setattr(LocalSite, "work", work)
    if answers:  # its slot is 0.38 seconds, or 0.455, of 0.4 that are allowed
        assert len(place.answer(prices={"steps": 1.0}).answers) == place.ledger.history().shape[0] > 1
    else:
        with pytest.raises(hdp.MechanismError, match="longer than the custodian allows"):
            place.answer(prices={"steps": 1.0})
        assert place.ledger.history().shape[0] == 1


def test_a_dry_run_allows_queries_that_come_after_an_answer_the_time_that_answering_allows(place):
    place.ask("propensity", BY_PROPENSITY["propensity_formula"], {"epsilon": BY_PROPENSITY["propensity_epsilon"]})
    place.answer()
    place.ask(*WEIGHTED["weighted hazard"])
    found = looked_at(place.settings, place.request)
    first, *others = (later for _, later in found.site.works(found.met))
    assert first
    assert {True, False} == set(others)


MANY = ("describe", ["x", "g", "k", "secret", "time", "event"], BY_PROPENSITY)
"""A balance whose weighted half is the longest query of all."""


def test_a_balance_that_is_too_long_is_refused_before_the_propensity_model_is_charged(tmp_path):
    place = Place(tmp_path)
    place.ask(*MANY)
    *others, longest = (len(query.to_json()) for query, _ in place.answer().answers)
    assert longest > max(others)
    place.release.unlink()
    tmp_path.joinpath("other").mkdir()
    place = Place(tmp_path.joinpath("other"), limits={"query": longest - 1})
    place.ask(*MANY)
    assert "would be refused: the request is longer" in preview(place.settings, place.request)
    with pytest.raises(hdp.SiteError, match="longer than the site accepts"):
        place.answer()
    assert place.spent == 0


def test_each_number_of_the_second_part_is_allowed_to_be_long_before_the_first_is_charged(tmp_path):
    """Of splines more than the weights is rewritten at the coefficients: 4,226 characters hold it at public ones."""
    place = Place(tmp_path, limits={"query": 4226})
    place.ask("linear", "secret ~ y + bs(x, df=12)", BY_PROPENSITY | {"propensity_formula": "y ~ x", "replicate": 11})
    assert len(rehearsed_by(place).to_json()) <= 4226
    assert "would be refused: the request is longer" in preview(place.settings, place.request)
    with pytest.raises(hdp.SiteError, match="longer than the site accepts"):
        place.answer()
    assert place.spent == 0


@pytest.mark.parametrize("question", WEIGHTED)
def test_what_is_not_permitted_is_refused_before_the_propensity_model_is_charged(tmp_path, question):
    few = {"columns": ["y", "x", "g"]}
    place = Place(tmp_path, analysts={"ann": EVERYTHING | few})
    kind, what, options = WEIGHTED[question]
    place.ask(kind, what, options)
    assert "not permitted to ann" in preview(place.settings, place.request)
    with pytest.raises(hdp.SiteError, match="does not permit"):
        place.answer()
    assert place.spent == 0


REFUSED = {
    "another treatment": ("logit", "event ~ x", {}, "the treatment y among its terms"),
    "a column that is not balanced": ("logit", "event ~ y + k", {}, "balanced in the covariates"),
    "the outcome as a covariate": ("linear", "x ~ y", {}, "must not be the treatment or a covariate"),
    "weights": ("survfit", "Surv(time, event) ~ y", {"weights": "k"}, "eight"),
    "another group": ("survfit", "Surv(time, event) ~ g", {}, "the treatment alone"),
    "groups": ("describe", ["x"], {"by": "g"}, "by must be left out"),
    "correlations": ("describe", ["x", "k"], {"correlations": True}, "correlations must be left out"),
    "a mechanism": ("logit", "event ~ y", {"mechanism": "clipped_newton"}, "clipped_newton does not count"),
    "epsilon": ("logit", "event ~ y", {"epsilon": 60}, "epsilon"),
    "a propensity of other columns": ("logit", "event ~ y", {"propensity_formula": "y ~ nobody"}, "nobody"),
    "a propensity of no treatment": ("logit", "event ~ y", {"propensity_formula": "x ~ g"}, "inary"),
}
"""Questions that public facts refuse, whatever the propensity model is: kind, formula, options, words."""


@pytest.mark.parametrize("question", REFUSED)
def test_what_public_facts_refuse_is_refused_before_the_propensity_model_is_charged(place, question):
    kind, what, options, words = REFUSED[question]
    of_public = "epsilon" not in options and "mechanism" not in options
    if of_public:
        with pytest.raises(HdpError, match=words):
            place.ask(kind, what, BY_PROPENSITY | options)
    place.ask("logit", "event ~ y", BY_PROPENSITY)
    fields, known = json.loads(place.request.read_text()), KINDS[kind].options
    given = BY_PROPENSITY | options
    fields["question"] = {
        "kind": kind,
        "what": what,
        "options": {name: value for name, value in given.items() if name in known},
        "spending": {name: value for name, value in given.items() if name not in known},
    }
    place.request.write_text(codec.dumps(fields))
    assert "would be refused: " in preview(place.settings, place.request)
    with pytest.raises(HdpError, match=words):
        place.answer()
    assert place.spent == 0


@pytest.mark.parametrize("kind", [name for name, each in KINDS.items() if each.weighted == "never"])
def test_kinds_without_a_weighting_take_no_propensity_model(place, kind):
    with pytest.raises(hdp.ArgumentError, match="propensity_formula is not an argument"):
        place.ask(kind, "event ~ y", BY_PROPENSITY)


@pytest.mark.parametrize(("name", "value"), [("quantiles", True), ("complete", False)])
def test_what_a_balance_does_not_take_is_refused_by_name(place, name, value):
    with pytest.raises(hdp.ArgumentError, match=f"{name} must be left out with propensity_formula"):
        place.ask("describe", ["x", "k"], BY_PROPENSITY | {name: value})
    place.ask("describe", ["x", "k"], BY_PROPENSITY | {name: not value})


def test_a_refusal_after_the_propensity_model_says_how_that_is_had(place, monkeypatch):
    place.ask("logit", "event ~ y", BY_PROPENSITY)
    before = answering.AnsweringSite._check_approved

    def refusing(self, query):
        if getattr(getattr(query, "model", None), "overlap", None) is not None:
            raise answering._refusal("insufficient-budget")
        before(self, query)

    monkeypatch.setattr(answering.AnsweringSite, "_check_approved", refusing)
    with pytest.raises(hdp.InsufficientBudget, match="ask for it alone"):
        place.answer()
    assert place.spent == 1
    place.ask("propensity", "y ~ x + g", {"epsilon": 1})
    place.answer()
    assert place.spent == 1


@pytest.mark.parametrize("lacking", ["propensity_formula", "propensity_epsilon"])
@pytest.mark.parametrize("kind", ["logit", "treatment_effect"])
def test_both_fields_are_given_or_none(place, kind, lacking):
    options = {name: value for name, value in BY_PROPENSITY.items() if name != lacking}
    with pytest.raises(hdp.ArgumentError, match=f"{lacking} must be given"):
        place.ask(kind, "event ~ y", options)
    with pytest.raises(hdp.ArgumentError, match="propensity_formula must be given"):
        place.ask(kind, "event ~ y", BY_PROPENSITY | {"propensity_formula": ["y ~ x"]})
    with pytest.raises(hdp.ArgumentError, match="delta"):
        place.ask("survfit", "Surv(time, event) ~ y", BY_PROPENSITY | {"delta": 1e-6})


def test_public_rows_that_do_not_tell_the_treatment_leave_the_second_question_checked(place):
    """Half a chance of treatment stands for what they do not tell; the propensity model itself is refused then."""
    study = hdp.Study(public=PUBLIC.assign(y=0.0), schema=SCHEMA)
    with pytest.raises(hdp.ArgumentError, match="balanced in the covariates"):
        place.ask("logit", "event ~ y + k", BY_PROPENSITY, study)


def test_a_balance_needs_no_public_rows(place):
    place.ask("describe", ["x", "k"], BY_PROPENSITY | {"propensity_epsilon": 5}, hdp.Study(schema=SCHEMA))
    place.answer()
    assert place.spent == 6
    study = hdp.Study(private=Seen(open_site(place.settings)))
    model = hdp.propensity("y ~ x + g", study, epsilon=5)
    direct = hdp.describe(study, ["x", "k"], weighting=model.weights("overlap"), epsilon=1)
    assert direct.to_json() == place.read().to_json()
    assert place.spent == 6


@pytest.mark.parametrize("question", ["weighted logit", "balance"])
def test_people_may_have_several_rows(tmp_path, monkeypatch, question):
    private, public = (each.assign(pid=np.arange(len(each)) // 2) for each in (PRIVATE, PUBLIC))
    monkeypatch.setattr(asked_by_files, "PRIVATE", private)
    terms = {"unit": "pid", "max_rows_per_unit": 2, "n_max": 250}
    place = Place(tmp_path, persons=terms, ledger=HIDDEN | {"relation": "replace_one"})
    kind, what, options = WEIGHTED[question]
    place.ask(kind, what, options | {"propensity_epsilon": 4}, hdp.Study(public=public, schema=SCHEMA, **terms))
    place.answer()
    assert place.spent == 5
    study = hdp.Study(private=Seen(open_site(place.settings)), public=public)
    model = hdp.propensity("y ~ x + g", study, epsilon=4, replicate=options.get("replicate", 1))
    assert LATER[question](study, model.weights("overlap")).to_json() == place.read().to_json()
    assert place.spent == 5


def test_a_rehearsal_asks_nothing_of_a_site():
    study = hdp.Study(private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=2))
    site = RehearsedSite(study.site)
    assert (site.schema, site.records, site.terms, site.held) == (
        *(study.schema, study.site.records),
        *(study.site.terms, study.site.held),
    )
    site.put_public(study.public)
    (query,) = (hdpf.logit("event ~ y", study).fit(epsilon=1, describe=False, se_share=0).query,)
    with pytest.raises(hdp.SiteError, match="rehearsal"):
        site.answer(query)
    assert site.asked == [query]
    assert site.received(query) is None


@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_an_approval_while_a_query_is_computed_lets_no_other_query_be_charged_again(tmp_path, monkeypatch):
    """What is being computed has no release yet; once it has, nothing was in vain, and nothing is left of it."""
    place = Place(tmp_path, requests={"approval": "required"})
    place.ask(*WEIGHTED["weighted logit"])
    approve(place.settings, place.request, by="Dr Bos", sha256=asked_by_files.seen(place, place.request))
    compute, computed = LocalSite._compute, []

    def computing(*arguments):
        computed.append(True)
        if len(computed) == 1:
            approve(place.settings, place.request, by="Dr Bos", sha256=asked_by_files.seen(place, place.request))
        return compute(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(LocalSite, "_compute", computing)
        killed(place.answer, number=3)
    lines = [json.loads(line) for line in place.settings.approvals.read_text().splitlines()]
    assert [sum(line.get("vain", {}).values()) for line in lines] == [0, 1]
    with pytest.raises(approvals.NotApproved, match="must be given anew"):
        place.answer()
    assert list(place.ledger.history()["released"]) == [True, True, False]
    approve(place.settings, place.request, by="Dr Bos", sha256=asked_by_files.seen(place, place.request))
    place.answer()
    assert list(place.ledger.history()["released"]) == [True, True, False, True]
