"""Queries and releases of clipped scores: exact round trips, refusals, what rounds may cost."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery, ClippedNewtonRelease
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.gaussian import mu_of
from hdpstats.records.geometry import from_box
from hdpstats.records.model import RegressionModel
from hdpstats.records.query import LedgerEntry
from hdpstats.records.several import RoundsQuery, RoundsRelease

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
WHOLE = mu_of(EPSILON, DELTA) ** 2
FIRST = ClippedNewtonQuery(
    model=RegressionModel(
        formula="y ~ x", loss="logistic", geometry=from_box([0.1], [1 / 3], intercept=True, row_norm=1.1), weights="w"
    ),
    theta=(0.1, -5e-324),
    clip=Fraction(2.7),
    epsilon=EPSILON,
    delta=DELTA,
    mu_squared=WHOLE / 4,
    ahead=WHOLE / 2,
    schema_sha256="a" * 64,
    public_sha256="b" * 64,
    replicate=2,
)
SECOND = replace(FIRST, theta=(0.2, 1e-17), mu_squared=WHOLE / 2, ahead=Fraction(0))
ANSWER = ClippedNewtonRelease(
    total=(0.1, -3.5e7),
    noise_sd=12.25,
    grid=2.0**-29,
    records=10,
    events=(PrivacyEvent(ran=MechanismName.GRADIENT, epsilon=EPSILON, delta=DELTA, mu_squared=WHOLE / 4),),
    entry=LedgerEntry(dataset="d", version=1, number=4, head="f" * 64),
)
ROUNDS = RoundsRelease(rounds=(ANSWER, replace(ANSWER, total=(1.0, 2.0), entry=None)), entry=ANSWER.entry)


@pytest.mark.parametrize("query", [FIRST, SECOND, RoundsQuery(rounds=(FIRST, SECOND))], ids=["one", "two", "both"])
def test_a_query_survives_a_round_trip_exactly(query):
    assert query_from_json(query.to_json()) == query
    assert (query.epsilon, query.delta, query.replicate) == (EPSILON, DELTA, 2)
    assert (query.schema_sha256, query.public_sha256, query.model) == ("a" * 64, "b" * 64, FIRST.model)


@pytest.mark.parametrize("release", [ANSWER, ROUNDS], ids=["one", "both"])
def test_a_release_survives_a_round_trip_but_for_its_own_place(release):
    back = release_from_json(release.to_json())
    assert back == replace(release, entry=None)
    assert back.sha256 == release.sha256


def test_rounds_keep_the_place_of_each():
    back = release_from_json(ROUNDS.to_json())
    assert [each.entry for each in back.rounds] == [ANSWER.entry, None]
    assert [event.mu_squared for event in back.events] == [WHOLE / 4, WHOLE / 4]
    other = LedgerEntry(dataset="d", version=1, number=9, head="0" * 64)
    assert ROUNDS.at(other).entry == other
    assert ROUNDS.at(other).rounds == ROUNDS.rounds


@pytest.mark.parametrize("record", [FIRST, RoundsQuery(rounds=(FIRST,)), ANSWER, ROUNDS], ids=lambda each: each.kind)
def test_a_text_without_a_field_is_refused(record):
    read = query_from_json if isinstance(record, ClippedNewtonQuery | RoundsQuery) else release_from_json
    for name in json.loads(record.to_json()):
        fields = json.loads(record.to_json())
        del fields[name]
        with pytest.raises(SiteError):
            read(json.dumps(fields))


@pytest.mark.parametrize(
    "changes",
    [
        {"theta": (0.1,)},
        {"theta": (0.1, float("nan"))},
        {"theta": (0.1, 1e13)},
        {"clip": Fraction(0)},
        {"clip": Fraction(1, 3)},
        {"clip": Fraction(2) ** 40},
        {"epsilon": Fraction(0)},
        {"epsilon": Fraction(10**31, 10**31 + 1)},
        {"delta": Fraction(1)},
        {"ahead": Fraction(-1, 10)},
        {"mu_squared": Fraction(0)},
        {"mu_squared": Fraction(1, 3**200)},
        {"mu_squared": WHOLE},
        {"ahead": WHOLE},
        {"delta": Fraction(0)},
        {"delta": Fraction(0), "mu_squared": Fraction(0)},
    ],
    ids=str,
)
def test_a_query_that_contradicts_itself_is_refused(changes):
    with pytest.raises(MechanismError):
        replace(FIRST, **changes)


def test_rounds_may_cost_all_that_is_offered_and_no_more():
    # Fails if later rounds were not counted when a round is checked.
    half = WHOLE / 2
    assert replace(FIRST, mu_squared=half, ahead=half).ahead == half
    with pytest.raises(MechanismError, match="together"):
        replace(FIRST, mu_squared=half, ahead=half * (1 + Fraction(1, 10**6)))


def test_without_a_delta_a_query_is_one_round():
    pure = replace(FIRST, delta=Fraction(0), mu_squared=Fraction(0), ahead=Fraction(0))
    assert query_from_json(pure.to_json()) == pure


def test_rounds_of_different_fits_are_no_fit():
    for other in (
        replace(FIRST, replicate=3),
        replace(FIRST, public_sha256=None),
        replace(FIRST, epsilon=Fraction(2)),
        replace(FIRST, model=replace(FIRST.model, weights=None)),
    ):
        with pytest.raises(MechanismError, match="agree"):
            RoundsQuery(rounds=(SECOND, other))
    with pytest.raises(MechanismError):
        RoundsQuery(rounds=())


def test_the_rate_of_pure_noise_gives_its_standard_deviation():
    pure = replace(ANSWER, events=(PrivacyEvent(ran=MechanismName.GRADIENT_PURE, epsilon=EPSILON),), noise_sd=6.0)
    assert not pure.is_gaussian
    assert ANSWER.is_gaussian
    assert pure.noise_rate**2 * 6.0**2 == pytest.approx(3.0)  # variance (D + 1) / rate^2
