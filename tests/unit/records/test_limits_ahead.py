"""What the asker writes of later charges is bounded when a query is made and when it is read."""

from fractions import Fraction

import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.count import CountQuery
from hdpstats.mechanisms.hybrid_weights import LossSelectionQuery
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.privacy.budget import Budget, Spend
from hdpstats.privacy.composition import square_of
from hdpstats.records import codec
from hdpstats.records.codec import to_dict
from hdpstats.records.limits import MOST_AHEAD

PAIR = Budget(1, Fraction(1, 10**6))
WHOLE = square_of(PAIR.epsilon, PAIR.delta)


def count(*ahead, epsilon=Fraction(1, 10)):
    return CountQuery(epsilon=epsilon, schema_sha256="a" * 64, ahead=ahead)


def gaussian(mu_squared, asked=PAIR):
    return Spend(0, mu_squared=mu_squared, asked=asked)


REFUSED = {
    "asked nothing": (gaussian(WHOLE, None),),
    "a tiny mu that was asked nothing": (gaussian(Fraction(1, 10**18), None),),
    "not implied": (gaussian(WHOLE * Fraction(101, 100)),),
    "no delta": (gaussian(WHOLE, Budget(50)),),
    "grossly beyond": (gaussian(WHOLE / 101),),
    "together grossly beyond": (gaussian(WHOLE / 210), gaussian(WHOLE / 210)),
    "asked without noise": (Spend(1, asked=PAIR),),
    "large epsilon": (Spend(10**400 + Fraction(1, 10**9)),),
    "large mu": (gaussian(10**700 + Fraction(1, 10**18)),),
    "large asked": (gaussian(WHOLE, Budget(10**400 + Fraction(1, 10**9), PAIR.delta)),),
    "digits": (Spend(Fraction(1, 3**400)),),
    "delta": (Spend(1, 1),),
    "many": (Spend(Fraction(1, 100)),) * (MOST_AHEAD + 1),
}


@pytest.mark.parametrize("ahead", REFUSED.values(), ids=REFUSED.keys())
def test_amounts_that_no_fit_needs_are_refused_when_made_and_when_read(ahead):
    with pytest.raises(MechanismError, match="ahead"):
        count(*ahead)
    written = codec.loads(count().to_json())
    written["ahead"] = [to_dict(each) for each in ahead]
    with pytest.raises(MechanismError, match="ahead"):
        query_from_json(codec.dumps(written))


@pytest.mark.parametrize(
    "ahead",
    [(gaussian(WHOLE),), (gaussian(WHOLE / 10), gaussian(9 * WHOLE / 10)), (gaussian(WHOLE), Spend(1, Fraction(1, 9)))],
)
def test_rounds_of_a_fit_may_lie_ahead(ahead):
    query = count(*ahead)
    assert [each.asked for each in query_from_json(query.to_json()).ahead] == [each.asked for each in ahead]


def test_no_query_has_an_epsilon_that_no_account_affords():
    with pytest.raises(MechanismError, match="epsilon must be at most"):
        count(epsilon=Fraction(10**400))


@pytest.mark.parametrize("later", [Spend(10**400), Spend(1, Fraction(1, 10)), gaussian(WHOLE)])
def test_later_questions_of_a_pure_request_are_bounded_epsilons(later):
    made = {
        "formula": "y ~ x",
        "candidates": ((0.1, 0.2), (0.0, -1.0)),
        "reach": 0.5,
        "epsilon": Fraction(1, 2),
        "schema_sha256": "a" * 64,
        "public_sha256": "b" * 64,
    }
    assert LossSelectionQuery(**made, ahead=(Spend(Fraction(1, 7)),)).ahead
    with pytest.raises(MechanismError, match="ahead"):
        LossSelectionQuery(**made, ahead=(later,))
