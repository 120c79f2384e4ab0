"""The paragraph for a methods section: what it says of private, public and hazard fits."""

from dataclasses import replace
from fractions import Fraction

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.losses import MEANS, REGRESSIONS
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.proof_index import PROOFS
from hdpstats.results.reporting import methods_text, references_of
from tests.unit.results.conftest import make_hazard


def test_a_private_fit_says_what_was_protected_and_what_intervals_count(result):
    text = result.methods_text()
    for words in (
        "Logistic regression was fitted with the formula event3 ~ age + size + log1p(nodes).",
        "pure differential privacy (epsilon = 1; protected unit: one person",
        "by objective perturbation, whitened by public rows",
        "The number of private records was 2982.",
        "686 public rows set the scale of the covariates and entered the pooled estimate",
        "count sampling and the privacy noise together",
        "Chaudhuri K",
        "Hedges LV",
    ):
        assert words in text
    assert text.count("neighbours") == 1
    assert len(set(references_of(result))) == len(references_of(result))
    assert result.nobs == 2982


def test_delta_sites_and_noisy_numbers_are_said(result):
    guarantee = replace(result.guarantee, delta=Fraction(1, 10**6), sites=3)
    facts = replace(result.facts, records_sd=2.0, complete_rows=False)
    text = methods_text(replace(result, facts=facts, released=replace(result.released, guarantee=guarantee)))
    assert "approximate differential privacy (epsilon = 1, delta = 1e-06;" in text
    assert "Records of 3 sites" in text
    assert "2982 (a noisy number)" in text


def test_a_public_fit_says_that_nobody_was_protected(public_result):
    text = public_result.methods_text()
    assert "no private record was used" in text
    assert "References" not in text
    assert "noise" not in text
    assert public_result.nobs == 686


def test_a_hazard_model_says_its_link_and_intervals():
    text = make_hazard("cloglog", ("relapse", "death")).methods_text()
    assert "cloglog link, 4 intervals up to 10 years and a baseline of 2 coefficients" in text
    assert "cause-specific for relapse, death" in text
    assert "log hazard ratios" in text


def test_every_mechanism_has_sources_and_every_loss_a_name():
    assert set(PROOFS) == set(MechanismName)
    assert all(source.endswith(".") for proof in PROOFS.values() for source in proof.sources)
    assert all(proof.sources for proof in PROOFS.values())
    assert REGRESSIONS.keys() == MEANS.keys()
    assert all(words[0].isupper() for words, _ in REGRESSIONS.values())


@pytest.mark.parametrize(
    ("model", "words", "source"),
    [
        (lambda data: hdpf.poisson("nodes ~ age", data), "Poisson regression was fitted", None),
        (
            lambda data: hdpf.linear("nodes ~ age", data, loss=hdp.losses.Huber(5.0)),
            "Robust linear regression",
            "Huber PJ",
        ),
        (lambda data: hdpf.multinomial("size ~ age", data), "Multinomial logistic regression was", None),
        (
            lambda data: hdpf.distribution("nodes ~ 1", data, family="normal"),
            "The normal distribution was fitted",
            "Chen W-N",
        ),
    ],
)
def test_other_models_are_named_too(model, words, source):
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        nodes=hdp.Continuous(0, 50, complete=True),
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    )
    study = hdp.Study(private=hdp.datasets.load_rotterdam(), schema=schema, budget=hdp.Budget(epsilon=1))
    found = model(study).fit(epsilon=1, se_share=0).methods_text()
    assert words in found
    assert source is None or source in found


def test_what_standard_errors_rest_on_and_who_was_left_out_are_said():
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90), size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True), event3=hdp.Binary()
    )
    study = hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=hdp.datasets.load_gbsg(),
        schema=schema,
        budget=hdp.Budget(epsilon=9),
    )
    model = hdpf.logit("event3 ~ age + size", data=study)
    text = model.fit(epsilon=1).methods_text()
    assert "Records without a value of event3, age were left out." in text
    assert "Standard errors rest on noisy averages of age, size among the private people (part of this loss" in text
    assert "Calibration estimators in survey sampling" in text
    given = hdp.describe(study, ["age", "size", "event3"], complete=True, epsilon=0.5)
    assert (
        "(charged before, and included in this loss: epsilon = 0.5)"
        in model.fit(epsilon=1, description=given).methods_text()
    )
    declined = model.fit(epsilon=2, describe=False).methods_text()
    assert "noisy averages" not in declined
    assert "Records without" not in model.fit_public().methods_text()
