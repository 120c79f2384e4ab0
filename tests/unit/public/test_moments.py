"""Sums over public rows: those that are computed together are the same as one by one, to the bit."""

import numpy as np
import pytest

from hdpstats.public import moments
from hdpstats.public.moments import FEW, averaged_squares, squares, squares_under

LEVELLED = (slice(1, None),)


@pytest.fixture
def rows():
    rng = np.random.default_rng(2)
    return rng.standard_normal((2100, 4)), rng.random((5, 2100)), rng.random(2100)


def test_sums_under_several_weights_are_those_of_each(rows):
    X, weights, factor = rows
    found = squares_under(X, (weights[:2], weights[2:], weights[:0]), factor)
    for one, part in zip(found, (weights[:2], weights[2:], weights[:0]), strict=True):
        assert np.array_equal(one, squares(X, part, factor))
    assert np.allclose(found[0][1], X.T @ ((weights[1] * factor)[:, None] * X))


@pytest.mark.parametrize("case", ["same factor", "equal", "apart"])
def test_what_is_the_same_in_both_moments_is_computed_once(rows, case, monkeypatch):
    X, weights, factor = rows
    parts = {
        "same factor": ((weights[:2], factor), (weights[2:], factor)),
        "equal": ((weights, factor), (weights, factor.copy())),
        "apart": ((weights, factor), (weights, factor**2)),
    }[case]
    one_by_one = [averaged_squares(X, part, part, records=3.0, levelled=LEVELLED).H for part in parts]
    calls = []

    def counted(*given):
        calls.append(case)
        return squares_under(*given)

    monkeypatch.setattr(moments, "squares_under", counted)
    both = averaged_squares(X, *parts, records=3.0, levelled=LEVELLED)
    assert len(calls) == (2 if case == "apart" else 1)
    assert np.array_equal(both.H, one_by_one[0])
    assert np.array_equal(both.J, one_by_one[1])


def test_few_weightings_and_many_give_the_same_sums(rows):
    X, _, factor = rows
    weights = np.random.default_rng(4).random((FEW + 1, len(X)))
    both = squares_under(X, (weights[:FEW], weights), factor)
    assert np.allclose(both[0], both[1][:FEW], rtol=1e-11)
