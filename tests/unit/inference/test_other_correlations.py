"""How far standard errors would go with other correlations: what is told, and of which pairs."""

import numpy as np
import pytest

from hdpstats.inference.other_correlations import LEAST, MOVED, PARTS, correlations_note, growth


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
    names = ["size[T.20-50]", "size[T.>50]", "ns(age, 3)[1]", "ns(age, 3)[2]", "age:size[T.>50]"]
    found = growth(np.eye(5), names)
    assert found[:4] == pytest.approx([0.75**-0.5] * 4)
    assert found[4] == 1.0
    assert growth(np.eye(2), names[:2]).tolist() == [1.0, 1.0]


def test_the_sentence_names_the_coefficients_of_the_formula():
    T = np.array([[1.0, -2.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 4.0]])
    terms, slopes = ("Intercept", "x", "z"), [np.array([1, 2])]
    found = correlations_note(100.0 * np.eye(3), T, terms=terms, blocks=slopes)
    assert found.endswith("standard errors would be larger by up to 15 % (x), 15 % (z).")
    assert correlations_note(np.eye(3), T[:2], terms=terms, blocks=slopes) == ""
    assert correlations_note(np.eye(3), T, terms=terms, blocks=[np.array([1])]) == ""


def test_each_predictor_is_looked_at_by_itself():
    T, terms = np.eye(6), tuple(f"{level}:{name}" for level in "bc" for name in ("Intercept", "x", "z"))
    found = correlations_note(np.eye(6), T, terms=terms, blocks=[np.array([1, 2]), np.array([4, 5])])
    assert "15 % (b:x), 15 % (b:z), 15 % (c:x), 15 % (c:z)" in found
