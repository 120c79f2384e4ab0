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


def without_private(result, places):
    """Return the result where the private-only estimate lacks some coefficients."""
    which = np.isin(np.arange(len(result.estimate.terms)), places)
    return replace(result, private_only=result.private_only.without(which, words="Not estimable: {names}."))


def test_coefficients_without_private_estimate_do_not_count(pooled_result):
    few = with_test(without_private(pooled_result, [1, 2]), [0.5, 0.01, 0.01, 0.3, 0.9], overall=0.41)
    found = few.released.disagreement
    test = replace(
        few,
        released=replace(few.released, disagreement=replace(found, overall=CochranQ(statistic=2.5, df=3, pvalue=0.41))),
    )
    names = ", ".join(test.estimate.terms[1:3])
    expected = f"Cochran's Q 2.5 on 3 degrees of freedom, p = 0.410: no disagreement shows; not compared: {names}"
    assert test.disagreement.words == expected
    assert np.isnan(test.disagreement.tidy()["p_value"]).tolist() == [False, True, True, False, False]
    assert test.disagreement.tidy()["df"].tolist() == [1, 0, 0, 1, 1]
    nothing = CochranQ(statistic=np.nan, df=0, pvalue=np.nan)  # as they are computed
    own = replace(test.released.disagreement, by_term=(*found.by_term[:1], nothing, nothing, *found.by_term[3:]))
    again = Result.from_json(replace(test, released=replace(test.released, disagreement=own)).to_json())
    assert again.disagreement.words == expected
    assert again.disagreement.tidy().equals(test.disagreement.tidy())


def test_a_stored_test_of_coefficients_that_are_missing_is_not_available(pooled_result):
    """Earlier versions compared all coefficients."""
    stored = with_test(without_private(pooled_result, [1, 2]), [0.5, 0.01, 0.01, 0.3, 0.9], overall=0.004)
    names = ", ".join(stored.estimate.terms[1:3])
    assert f"Private vs public: not available: the private-only estimate has no {names}" in plain(stored)
    assert "are not described" not in plain(stored)
    row = stored.glance().iloc[0]
    assert np.isnan([row["q_statistic"], row["q_p_value"]]).all()
    assert row["q_df"] == 0


def test_no_private_coefficient_no_test(pooled_result):
    nothing = CochranQ(statistic=np.nan, df=0, pvalue=np.nan)
    lost = without_private(pooled_result, range(5))
    found = Heterogeneity(overall=nothing, by_term=(nothing,) * 5)
    lost = replace(lost, released=replace(lost.released, disagreement=found))
    assert "not available" in Result.from_json(lost.to_json()).disagreement.words


@pytest.mark.parametrize("form", ["text", "page"])
def test_the_private_only_estimates_own_notes_are_shown(pooled_result, form):
    lost = without_private(pooled_result, [1])
    note = "Errors are rough. Public rows are few."
    private = replace(lost.private_only, note=f"Errors are rough. {lost.private_only.note.split('. ')[-1]}")
    shown = replace(lost, private_only=private, estimate=replace(lost.estimate, note=note))
    text = plain(shown) if form == "text" else " ".join(shown.summary().as_html().split())
    assert f"Private only: Not estimable: {lost.estimate.terms[1]}." in text
    assert text.count("Errors are rough.") == 1
    alike = replace(shown, private_only=replace(private, note=note))
    assert "Private only:" not in str(alike.summary())
