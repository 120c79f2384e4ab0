"""How far standard errors would go with other correlations: what is told, and of which pairs."""

import numpy as np
import pytest

from hdpstats.inference.other_correlations import LEAST, MOVED, PARTS, correlations_note, growth, moved_correlations


def test_two_covariates_that_do_not_correlate_would_have_larger_errors_by_known_factors():
    assert growth(np.diag([4.0, 9.0]), ["x", "z"]) == pytest.approx([0.75**-0.5] * 2)
    correlated = np.array([[1.0, 0.3], [0.3, 1.0]])
    assert growth(correlated, ["x", "z"]) == pytest.approx([((1 - 0.3**2) / (1 - 0.8**2)) ** 0.5] * 2)


def test_a_matrix_stays_positive_definite():
    R = np.full((3, 3), 0.9) + 0.1 * np.eye(3)
    found = growth(R, ["x", "z", "u"])
    assert np.isfinite(found).all()
    assert (found >= 1.0).all()
    assert growth(np.eye(1), ["x"]).tolist() == [1.0]


def factors(R, j, k, step):
    """By which variances grow where one correlation is moved, by matrices that are inverted and looked at."""
    least = min(LEAST, 0.5 * np.linalg.eigvalsh(R)[0])
    for part in sorted(PARTS, reverse=True):
        moved = R.copy()
        moved[j, k] = moved[k, j] = R[j, k] + part * step
        if np.linalg.eigvalsh(moved)[0] >= least:
            return np.sqrt(np.diag(np.linalg.inv(moved)) / np.diag(np.linalg.inv(R)))
    return np.ones(len(R))


@pytest.mark.parametrize("correlated", [0.0, 0.4, 0.8, 0.97])
def test_factors_are_those_of_inverted_matrices(correlated):
    p = 5
    X = np.cos(np.outer(np.arange(40.0), np.arange(1, p + 1) * 1.3)) + np.sin(np.arange(40.0))[:, None] * correlated**4
    R = (1.0 - correlated) * np.corrcoef(X, rowvar=False) + correlated
    wanted = np.ones(p)
    for j in range(p):
        for k in range(j):
            for step in (MOVED, -MOVED):
                of_pair = factors(R, j, k, step)[[j, k]]
                wanted[[j, k]] = np.maximum(wanted[[j, k]], of_pair)
    size = np.arange(1.0, p + 1)
    assert growth(R * np.outer(size, size), list("vwxyz")) == pytest.approx(wanted, rel=1e-9)


def test_columns_of_one_variable_do_not_move_apart():
    names = ["size[T.20-50]", "size[T.>50]", "ns(age, df=3)[1]", "ns(age, df=3)[2]", "I(age**2)"]
    assert growth(np.eye(5), names) == pytest.approx([0.75**-0.5] * 5)
    assert growth(np.eye(2), names[:2]).tolist() == [1.0, 1.0]
    assert growth(np.eye(3), names[2:]).tolist() == [1.0] * 3


def test_arguments_strings_and_constants_are_no_variables():
    names = ["ns(age, df=3, intercept=True)[1]", "ns(nodes, df=3, intercept=True)[1]", "C(g, Treatment('df'))[T.b]"]
    assert growth(np.eye(3), names) == pytest.approx([0.75**-0.5] * 3)


def spline_and_factor():
    """Return the covariance of four columns, two of each of two variables, and what changes within a variable."""
    t = np.arange(200.0)
    Z = np.column_stack(
        [np.cos(t), np.cos(t) ** 2 + 0.3 * np.sin(2.0 * t), np.sin(1.7 * t) + np.cos(t), np.sin(3.1 * t)]
    )
    within = np.zeros((4, 4))
    within[:2, :2], within[2:, 2:] = [[2.0, 1.0], [0.5, -1.0]], [[1.0, 0.0], [3.0, 0.2]]
    return np.cov(Z, rowvar=False), within


def test_what_moves_does_not_depend_on_the_other_columns_of_a_variable():
    """The slope of a column is the same whatever columns, with it, span its variable and the other one."""
    S, within = spline_and_factor()
    names = ["ns(x, df=2)[1]", "ns(x, df=2)[2]", "g[T.b]", "g[T.c]"]
    other = within.copy()
    other[:2, :2] = np.eye(2)  # the same columns of x, others of g
    assert growth(other @ S @ other.T, names)[:2] == pytest.approx(growth(S, names)[:2], rel=1e-9)
    assert growth(S, names).max() > 1.1


def test_columns_that_are_multiplied_have_the_errors_that_are_told():
    S, _ = spline_and_factor()
    moves = moved_correlations(S, ["ns(x, df=2)[1]", "ns(x, df=2)[2]", "g[T.b]", "g[T.c]"])
    before = np.diag(np.linalg.inv(S))
    for move in range(len(moves.steps)):
        A = moves.columns(move)
        moved = A @ S @ A.T
        rested = moves.ratios[move] != 1.0
        after = np.sqrt(np.diag(np.linalg.inv(moved)) / before)
        assert after[rested] == pytest.approx(moves.ratios[move][rested], rel=1e-8)
        for own in (slice(0, 2), slice(2, 4)):  # what one variable's columns have in common stays
            assert moved[own, own] == pytest.approx(S[own, own], rel=1e-8)


def test_a_product_is_a_variable_of_its_own_wherever_its_variables_are_centred():
    """Of ``x * z`` the slope of the product is the same with other centres; so is how far its error goes."""
    t = np.arange(300.0)
    x, z = np.cos(t) + 0.2 * np.cos(2.0 * t), np.sin(1.3 * t)
    centred, away = (
        growth(np.cov([x + a, z + b, (x + a) * (z + b)]), ["x", "z", "x:z"]) for a, b in ((0.0, 0.0), (9.0, -4.0))
    )
    assert centred[2] == pytest.approx(away[2], rel=1e-6)
    assert 1.1 < centred[2] < 1.3


def test_columns_that_depend_on_each_other_are_not_looked_at():
    assert growth(np.ones((2, 2)), ["x", "z"]).tolist() == [1.0, 1.0]
    assert growth(np.diag([1.0, 0.0]), ["x", "z"]).tolist() == [1.0, 1.0]


def test_the_sentence_names_the_coefficients_of_the_formula():
    T = np.array([[1.0, -2.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 4.0]])
    terms, slopes = ("Intercept", "x", "z"), [np.array([1, 2])]
    found = correlations_note(100.0 * np.eye(3), T, terms=terms, blocks=slopes)
    assert "were not released. Were" in found
    assert "standard errors would be larger by up to 15 % (x), 15 % (z); those" in found
    some = correlations_note(100.0 * np.eye(3), T, terms=terms, blocks=slopes, share=0.4)
    assert "were not released by sites with 40 % of the people. Were" in some
    assert "standard errors would be larger by up to 6 % (x), 6 % (z); those" in some
    assert correlations_note(100.0 * np.eye(3), T, terms=terms, blocks=slopes, share=0.01) == ""
    assert correlations_note(np.eye(3), T[:2], terms=terms, blocks=slopes) == ""
    assert correlations_note(np.eye(3), T, terms=terms, blocks=[np.array([1])]) == ""


def test_each_predictor_is_looked_at_by_itself():
    T, terms = np.eye(6), tuple(f"{level}:{name}" for level in "bc" for name in ("Intercept", "x", "z"))
    found = correlations_note(np.eye(6), T, terms=terms, blocks=[np.array([1, 2]), np.array([4, 5])])
    assert "by up to 15 % (x), 15 % (z); " in found


def test_the_sentence_speaks_of_variables():
    terms = ("Intercept", "ns(x1, df=3)[1]", "ns(x1, df=3)[2]", "lev[T.b]", "lev[T.c]", "ns(x1, df=3)[1]:lev[T.b]")
    found = correlations_note(np.eye(6), np.eye(6), terms=terms, blocks=[np.arange(1, 6)])
    assert "by up to 15 % (x1), 15 % (lev), 15 % (x1:lev); " in found
