"""Public against private coefficients: in the summary, in glance and in JSON; in words where they disagree."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.records.estimate import CochranQ, Heterogeneity
from hdpstats.results import Result


def with_test(result, pvalues, *, overall):
    found = Heterogeneity(
        overall=CochranQ(statistic=9.5, df=len(pvalues), pvalue=overall),
        by_term=tuple(CochranQ(statistic=k + 0.5, df=1, pvalue=p) for k, p in enumerate(pvalues)),
    )
    return replace(result, released=replace(result.released, disagreement=found))


@pytest.fixture
def pooled_result(result):
    """A result with the public fit that pooling takes."""
    return replace(result, penalised=replace(result.public_only, label="public, penalised"))


@pytest.fixture
def apart(pooled_result):
    return with_test(pooled_result, [0.5, 0.012, 0.3, 0.03, 0.9], overall=0.004)


@pytest.fixture
def alike(pooled_result):
    return with_test(pooled_result, [0.5, 0.04, 0.3, 0.6, 0.9], overall=0.41)


def plain(result):
    return " ".join(str(result.summary()).split())


def test_the_summary_says_whether_they_agree(apart, alike, pooled_result):
    assert "Private vs public: Cochran's Q 9.5 on 5 degrees of freedom, p = 0.004: they disagree" in plain(apart)
    assert "most in age (p = 0.012), size[T.>50] (p = 0.030): private people are not described" in plain(apart)
    assert "p = 0.410: no disagreement shows" in plain(alike)
    assert "the private-only one does without public coefficients" in plain(apart)  # words of Python and of R
    assert "are not described" not in plain(alike)
    assert "Private vs public:" in alike.summary().as_html()
    assert "Cochran" not in plain(pooled_result)
    assert pooled_result.disagreement is None


def test_glance_has_the_test_where_there_is_one(apart, pooled_result):
    row = apart.glance().iloc[0]
    assert (row["q_statistic"], row["q_df"], row["q_p_value"]) == (9.5, 5, 0.004)
    assert "q_statistic" not in pooled_result.glance()


def test_each_coefficient_has_a_row(apart):
    table = apart.disagreement.tidy()
    assert list(table) == ["term", "public", "private", "statistic", "df", "p_value"]
    assert list(table["term"]) == list(apart.estimate.terms)
    assert np.array_equal(table["public"], apart.penalised.values)
    assert np.array_equal(table["private"], apart.private_only.values)
    assert table["p_value"].tolist() == [0.5, 0.012, 0.3, 0.03, 0.9]
    assert "age" in str(apart.disagreement.summary())


def test_json_keeps_it(apart, pooled_result):
    again = Result.from_json(apart.to_json())
    assert again.released.disagreement == apart.released.disagreement
    assert again.disagreement.pvalue == 0.004
    assert "disagreement" not in pooled_result.to_json()
