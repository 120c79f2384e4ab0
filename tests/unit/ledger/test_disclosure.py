"""Forms on the privacy of a data set: every point answered or marked, valid entries of the registry."""

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
import yaml

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.ledger import Ledger, Statements
from hdpstats.ledger.disclosure import FORMS, NOT_STATED
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.proof_index import PROOFS

REGISTRY = yaml.safe_load(
    (Path(__file__).parents[2] / "reference" / "registry-entry.schema.yaml").read_text(encoding="utf-8")
)
ROOT = Path(__file__).parents[3]
SAID = {
    "name": "Relapse of breast cancer",
    "description": "Regressions and descriptions.",
    "purpose": "Research",
    "curators": ["Erasmus MC"],
    "region": "Netherlands",
    "sector": "Healthcare",
    "other_releases": "A table in the annual report.",
    "security": "One server without a network.",
    "access": "Two analysts.",
    "minimisation": "Columns of the protocol; deleted in 2030.",
    "updates": "static",
    "served": False,
    "authors": "A. Statistician",
}


@pytest.fixture(scope="module")
def study():
    ledger = Ledger(None, dataset="rotterdam", epsilon=4, delta=1e-6)
    schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event3=hdp.Binary(complete=True))
    return hdp.Study(
        private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema, ledger=ledger
    )


@pytest.fixture(scope="module")
def fit(study):
    return hdpf.logit("event3 ~ age", data=study).fit(epsilon=1)


def test_each_of_the_19_points_is_answered_asked_for_or_marked(study, fit):
    form = study.ledger.disclosure("nist")
    assert [point.number for point in form.points] == [str(number) for number in range(1, 20)]
    for point in form.points:
        assert point.answer
        assert point.by
        assert bool(point.missing) == (NOT_STATED in point.answer)
        assert set(point.missing) <= set(SAID)
    assert form.missing == ("other_releases", "curators", "served", "security", "access", "minimisation")
    assert form.to_frame()["stated"].sum() == 13
    assert not study.ledger.disclosure("nist", statements=SAID).missing


def test_every_charge_mechanism_and_bound_is_in_the_form(study, fit):
    text = str(study.ledger.disclosure("nist"))
    joined = " ".join(text.split())
    assert "At most epsilon = 4, delta = 1e-06 for all releases together" in joined
    spent, charges = float(study.ledger.spent.epsilon), len(study.ledger.history())
    assert f"Spent so far: epsilon = {spent:g}, in {charges} charges" in joined
    ran = {event.ran for entry in fit.disclosure()["accounting"]["events"] for event in [_event(entry)]}
    assert ran
    for name in ran:
        assert " ".join(name.words.split()) in joined
    assert study.schema.sha256[:12] in joined
    assert "event3 ~ 1 + age" in joined
    assert "replace_one, one row per person" in joined


def _event(entry):
    class Event:
        ran = MechanismName(entry["ran"])

    return Event


@pytest.mark.parametrize("said", [None, SAID])
def test_an_entry_of_the_registry_is_valid(study, fit, said):
    form = study.ledger.disclosure("registry", statements=said)
    written = yaml.safe_load(str(form))
    jsonschema.validate(written, REGISTRY)
    assert written == form.entry
    assert written["tier"] == (2 if said is None else 3)
    assert bool(form.missing) == (said is None)
    parameters = written["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": 4.0, "delta": 1e-6}
    assert written["deployment"]["dp_variant"]["variant_name"] == "Approximate DP"
    spoiled = {**written, "tier": 4}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spoiled, REGISTRY)


def test_a_statement_that_is_missing_keeps_an_entry_from_tier_3(study):
    for name in SAID:
        said = {key: value for key, value in SAID.items() if key != name}
        form = study.ledger.disclosure("registry", statements=said)
        assert (form.entry["tier"], form.missing) == (2, (name,))


def test_forms_on_one_result_state_what_it_rests_on(fit):
    for form in FORMS:
        filled = fit.disclosure(form)
        assert f"epsilon = {float(fit.guarantee.epsilon):g} for the fit of event3 ~" in " ".join(str(filled).split())
    entry = fit.disclosure("registry", statements=SAID).entry
    jsonschema.validate(entry, REGISTRY)
    assert entry["deployment"]["deployment_model"]["release_type"] == "One release"
    assert entry["deployment"]["dp_variant"]["variant_name"] == "Pure DP"


def test_sentences_on_one_result_promise_nothing_of_other_releases_and_name_the_public_number(study, fit):
    of_fit, of_account = (" ".join(str(each.disclosure("text")).split()) for each in (fit, study.ledger))
    assert "now or later, and for all that this result rests on." in of_fit
    assert "now or later, and for all releases together." in of_account
    for said in (of_fit, of_account):
        assert "no record and no count without noise, but for the declared number of people." in said
    protected = Ledger(None, dataset="new", epsilon=2, unit="patient", relation="add_or_remove_one")
    assert "no record and no count without noise." in " ".join(str(protected.disclosure("text")).split())


def test_a_public_fit_has_no_form(study):
    result = hdpf.logit("event3 ~ age", data=study).fit_public()
    with pytest.raises(hdp.ArgumentError, match="uses none"):
        result.disclosure("nist")


def test_forms_on_descriptions_curves_and_samples(study):
    described = hdp.describe(study, ["age"]).release(epsilon=0.5)
    assert "0.5 for a description of the cohort" in " ".join(str(described.disclosure("nist")).split())
    assert "description/1" in json.dumps(described.disclosure())


def test_an_account_that_nothing_was_charged_to_has_forms():
    ledger = Ledger(None, dataset="new", epsilon=2, unit="patient", relation="add_or_remove_one")
    for form in FORMS:
        assert "epsilon = 2" in str(ledger.disclosure(form))
    assert "The number of people is protected as well" in str(ledger.disclosure("text"))
    assert "all rows with one value of 'patient'" in " ".join(str(ledger.disclosure("text")).split())
    jsonschema.validate(ledger.disclosure("registry").entry, REGISTRY)


def test_a_total_above_20_is_not_called_protection():
    assert "promises next to nothing" in str(Ledger(None, dataset="new", epsilon=30).disclosure("text"))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"colour": "blue"}, "must not have 'colour'; known are name, description"),
        ({"served": "yes"}, "served must be true or false"),
        ({"sector": "Sport"}, "sector"),
        ({"product": "Poster"}, "product"),
        ({"curators": []}, "curators must be a list of names"),
        ({"published": "May"}, "published must be a day"),
        ({"security": 5}, "security"),
        (["name"], "must be a mapping"),
    ],
)
def test_statements_of_another_kind_are_refused(said, words):
    with pytest.raises(hdp.ArgumentError, match=words) as refused:
        Statements.read(said)
    assert refused.value.facts["argument"].startswith("statements")


def test_statements_are_read_from_yaml():
    said = yaml.safe_load("published: 2026-11-28\nauthors: A. Statistician\nserved: true\nregion: null")
    assert Statements.read(said) == Statements(published="2026-11-28", authors=("A. Statistician",), served=True)
    assert Statements.read(Statements(region="EU")) == Statements(region="EU")


def test_another_form_is_refused(study):
    with pytest.raises(hdp.ArgumentError, match="form"):
        study.ledger.disclosure("gdpr")


@pytest.mark.parametrize("suffix", [".txt", ".md", ".csv", ".json"])
def test_forms_are_written(study, tmp_path, suffix):
    for form in FORMS:
        filled, place = study.ledger.disclosure(form), tmp_path / f"{form}{suffix}"
        filled.write(place)
        assert place.read_text(encoding="utf-8").strip()
    assert json.loads((tmp_path / "registry.json").read_text()) == filled_entry(study) if suffix == ".json" else True
    with pytest.raises(hdp.ArgumentError, match="must end in"):
        study.ledger.disclosure("nist").write(tmp_path / "form.yaml")
    with pytest.raises(hdp.HdpError, match="cannot be written"):
        study.ledger.disclosure("nist").write(tmp_path / "missing" / "form.txt")


def filled_entry(study):
    return study.ledger.disclosure("registry").entry


def test_the_page_escapes_what_custodians_state(study):
    page = study.ledger.disclosure("nist", statements={"security": "<script>alert(1)</script>"})._repr_html_()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_every_proof_is_where_it_is_said_to_be():
    for name, proof in PROOFS.items():
        __import__(proof.module)
        assert proof.page is None or (ROOT / "vignettes" / "explanation" / f"{proof.page}.md").exists(), name


def test_gaussian_charges_are_told_with_what_is_set_aside():
    ledger = Ledger(None, dataset="trial", epsilon=3, delta=1e-5, gaussian=hdp.Budget(Fraction(1), Fraction(1, 10**6)))
    assert "set aside" in str(ledger.disclosure("nist"))
