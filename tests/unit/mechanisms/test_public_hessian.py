"""Queries and releases of scores of cut rows: exact round trips, and rounds of one fit."""

from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.public_hessian import PublicHessianQuery, PublicHessianRelease
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.records.geometry import from_box
from hdpstats.records.model import RegressionModel
from hdpstats.records.query import LedgerEntry
from hdpstats.records.several import RoundsQuery, RoundsRelease, answers_in

FIRST = PublicHessianQuery(
    model=RegressionModel(formula="y ~ x", loss="logistic", geometry=from_box([0.1], [1 / 3], intercept=True)),
    theta=(0.1, -5e-324),
    truncation=1 / 3,
    norm=Fraction(2.7),
    epsilon=Fraction(1),
    cost=Fraction(1, 3),
    ahead=Fraction(2, 3),
    schema_sha256="a" * 64,
    public_sha256="b" * 64,
    replicate=2,
)
SECOND = replace(FIRST, theta=(0.2, 1e-17), cost=Fraction(2, 3), ahead=Fraction(0))
ANSWER = PublicHessianRelease(
    total=(0.1, -3.5e7),
    noise_sd=6.0,
    grid=2.0**-29,
    records=10,
    events=(PrivacyEvent(ran=MechanismName.SCORE_PURE, epsilon=Fraction(1, 3)),),
)
ENTRY = LedgerEntry(dataset="d", version=1, number=3, head="c" * 64)
BOTH = RoundsQuery(rounds=(FIRST, SECOND))
ANSWERS = RoundsRelease(rounds=(ANSWER.at(ENTRY), replace(ANSWER, total=(1.0, 2.0))))


@pytest.mark.parametrize("query", [FIRST, SECOND, BOTH], ids=["one", "two", "both"])
def test_a_query_is_read_back_exactly(query):
    assert query_from_json(query.to_json()) == query


def test_releases_are_read_back_exactly_with_their_places():
    assert release_from_json(ANSWER.to_json()) == ANSWER
    back = release_from_json(ANSWERS.to_json())
    assert back == ANSWERS
    assert [each.entry for each in back.rounds] == [ENTRY, None]


def test_rounds_speak_for_the_fit():
    assert (BOTH.epsilon, BOTH.delta, BOTH.replicate) == (1, 0, 2)
    assert (BOTH.model, BOTH.schema_sha256, BOTH.public_sha256) == (FIRST.model, "a" * 64, "b" * 64)
    assert len(ANSWERS.events) == 2
    assert answers_in(ANSWERS) == ANSWERS.rounds
    assert ANSWERS.records == 10
    assert ANSWERS.at(ENTRY).entry == ENTRY


def test_rounds_of_two_fits_are_none_of_one():
    with pytest.raises(MechanismError, match="agree"):
        RoundsQuery(rounds=(FIRST, replace(SECOND, replicate=1)))
    with pytest.raises(MechanismError, match="one round"):
        RoundsQuery(rounds=())


def test_the_rate_of_pure_noise_follows_from_its_standard_deviation():
    assert not ANSWER.is_gaussian
    assert ANSWER.noise_rate == pytest.approx(3.0**0.5 / 6.0)
