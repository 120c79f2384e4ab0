"""The paragraph for a methods section: what it says of private, public and hazard fits."""

from dataclasses import replace
from fractions import Fraction

from hdpstats.privacy.accountant import MechanismName
from hdpstats.results.methods_text import SOURCES, methods_text, references_of
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


def test_sources_are_of_mechanisms():
    assert set(SOURCES) <= set(MechanismName)
