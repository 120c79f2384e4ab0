"""Every mechanism of the registry is replayed on neighbours, and has its row in the table of guarantees."""

import dataclasses
from fractions import Fraction
from pathlib import Path

import pytest

from hdpstats.audit import guarantees, record_and_replay
from hdpstats.audit.cases import CASES, ROWS_OF_A_PERSON, SETTINGS, asked, computed, offered, people
from hdpstats.audit.guarantees import checked
from hdpstats.audit.noise_laws import ExactLaw
from hdpstats.audit.noise_mechanisms import SamplerAudit, sampler_audits
from hdpstats.audit.page import page
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.mechanisms import base, registry
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.proof_index import PROOFS
from tests import seeded

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "guarantees.md"
REPLACED, ADDED, *_ = SETTINGS
SEVERAL = tuple(setting for setting in SETTINGS if setting.several)
NOT_OFFERED = {"count"}
"""What is not asked where the number of people is public."""


def of(name, *, setting=REPLACED):
    (case,) = (case for case in CASES if case.name == name)
    return asked(case, setting)


@seeded.remembered
def rows():
    """Return a row for each case, in one setting that offers it: the full table is of `make audit`."""
    found = []
    for place, case in enumerate(CASES):
        order = SETTINGS[place % 2 :] + SETTINGS[: place % 2]
        setting, question = next((each, q) for each in order if (q := offered(case, each)) is not None)
        found.append(checked(case, setting, question, pairs_of_each=1, plant=False))
    return found


def test_every_entry_of_the_registry_has_a_case_for_each_family_that_it_takes():
    """A new mechanism is asked here, or this fails."""
    wanted = {(each.query, family) for each in registry.MECHANISMS for family in each.models or {None}}
    assert {(case.asks, case.family) for case in CASES} == wanted
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_mechanism_of_a_proof_runs_in_a_case():
    assert {name for row in rows() for name in row.mechanisms} == set(MechanismName) == set(PROOFS)


def test_nothing_but_inputs_of_noise_differs_and_these_cost_no_more_than_is_charged():
    wrong = {row.case.name: (row.found, row.claimed, row.differences) for row in rows() if not row.holds}
    assert wrong == {}
    assert sum(row.share > 0.9 for row in rows()) >= 10


@pytest.mark.parametrize("name", ["objective, regression", "output, multinomial", "objective, hazard", "description"])
def test_people_of_several_rows_are_replayed_too(name):
    (case,) = (case for case in CASES if case.name == name)
    row = checked(case, SEVERAL[0], asked(case, SEVERAL[0]), pairs_of_each=2, plant=False)
    assert row.holds
    assert row.share > 0.0


def test_weighted_people_of_several_rows_count_once(monkeypatch):
    """As they do not where a site takes all rows of each, in place of one with the mean outcome."""
    name = "objective, regression, weighted people"
    (case,) = (case for case in CASES if case.name == name)
    question = of(name, setting=SEVERAL[0])
    assert question.query.model.averaged == ROWS_OF_A_PERSON
    row = checked(case, SEVERAL[0], question, pairs_of_each=1, plant=False)
    assert row.holds
    assert row.share > 0.9
    monkeypatch.setattr(RegressionPersonLoss, "_used", lambda _self, table: table)
    assert not checked(case, SEVERAL[0], question, pairs_of_each=1, plant=False).holds


def test_planted_mistakes_are_caught():
    for name in ("histogram", "clipped_newton, regression", "objective, regression"):
        (case,) = (case for case in CASES if case.name == name)
        row = checked(case, ADDED, asked(case, ADDED), pairs_of_each=1, plant=True)
        assert row.planted
        assert all(row.planted.values()), (name, row.planted)


@pytest.mark.parametrize(
    "name",
    [
        "output, hazard",
        "curve, regression",
        pytest.param("objective, regression, normal noise", marks=pytest.mark.wide),
        pytest.param("exponential, regression", marks=pytest.mark.wide),
    ],
)
def test_too_little_noise_is_caught_where_neighbours_are_far_from_the_sensitivity(name):
    """What was missed by replays alone; enough noise passes."""
    (case,) = (case for case in CASES if case.name == name)
    question = asked(case, REPLACED)

    def weaker(frame):
        with guarantees._a_third_of_noise():
            return question.compute(frame)

    def dearer(frame):
        return computed(guarantees._dearer(question.query), question.site_facts, frame)

    looks = (4, 16)
    assert guarantees.scale_of(weaker, question, REPLACED, looks=looks).too_little
    assert guarantees.scale_of(dearer, question, REPLACED, looks=looks).too_little
    assert not guarantees.scale_of(question.compute, question, REPLACED, looks=(4,)).too_little


def test_noise_that_is_left_out_is_caught():
    question = of("histogram")
    bare = dataclasses.replace(question.query, epsilon=Fraction(10**6))

    def silent(frame):
        return [int(value) for value in frame["k"].fillna(0)]

    assert guarantees.scale_of(silent, question, REPLACED, looks=(1,)).pvalue == 0.0
    almost = guarantees.scale_of(
        lambda frame: computed(bare, question.site_facts, frame), question, REPLACED, looks=(64,)
    )
    assert almost.too_little


def test_a_skipped_clip_is_caught(monkeypatch):
    """A histogram that counts the last person's row twice, as one with several cells would be."""
    right = base.counted
    question = of("histogram")
    monkeypatch.setattr(
        "hdpstats.mechanisms.histogram.site.counted", lambda places, *args: right(places, *args) * (1 + places[-1])
    )
    one, other = people((1, 0, "a", 3, 3, 1, 0, 0, "none")), people((0, 0, "c", 0, 0, 1, 0, 0, "none"))
    found = record_and_replay(question.compute, one, other)
    assert not found.keeps(epsilon=1.0)
    assert found.differences == ()


def test_a_draw_used_for_two_tables_is_caught(monkeypatch):
    def added(noise, totals):
        return tuple((z + int(total)) * 10**9 + (z + 1) for z, total in zip(noise, totals, strict=True))

    monkeypatch.setattr(base, "added", added)
    assert "used twice" in str(record_and_replay(of("histogram").compute, people((1,) * 9), people(None)))


def test_the_page_has_a_row_for_everything_that_is_offered_and_for_its_noise():
    text = PAGE.read_text(encoding="utf-8")
    for case in CASES:
        assert f"| {case.name} |" in text
    _, exact, drawn = text.split("## Noise: ")
    for noise in {noise for row in rows() for noise in row.noises}:
        assert f"\n| {noise} |" in exact
        assert f"\n| {noise} |" in drawn
    assert "REFUTED" not in text
    assert "NOT CAUGHT" not in text


def test_a_refuted_claim_and_a_control_that_passes_are_printed():
    row = rows()[0]
    wrong = dataclasses.replace(row, found=dataclasses.replace(row.claimed, epsilon=2.0))
    leak = dataclasses.replace(row, differences=("warnings",))
    assert not wrong.holds
    assert not leak.holds
    passes = SamplerAudit(name="a control", bounds={1.0: 0.5}, last_bits=0.1, is_control=True)
    law = ExactLaw(name="ball", dimension=2, found=1.5, claimed=1.0, deviation=0.0, planted={"coin": False}, apart=1e-6)
    text = page([row, wrong], [passes, dataclasses.replace(passes, is_control=False)], [law], about="")
    assert text.count("REFUTED") == 1
    assert text.count("NOT CAUGHT") == 2
    assert text.count("| holds |") == 1
    assert "REFUTED" in page([], [], [dataclasses.replace(law, planted={})], about="")


@pytest.mark.entropy
def test_samplers_keep_their_claims_and_controls_do_not():
    found = list(sampler_audits(draws=3000, releases=300))
    assert len(found) == 6
    assert [each.holds for each in found] == [not each.is_control for each in found]
