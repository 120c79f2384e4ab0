"""The summary reads like statsmodels' and says what is guaranteed."""

from dataclasses import replace

import numpy as np
import pytest
from statsmodels.iolib.summary import Summary

from hdpstats.display import STYLE
from hdpstats.records.estimate import Estimate

KINDS = ["result", "public_result", "silent_result"]


@pytest.mark.parametrize("kind", KINDS)
def test_text(kind, request, snapshot):
    assert request.getfixturevalue(kind).summary().as_text() == snapshot


@pytest.mark.parametrize("kind", KINDS)
def test_html(kind, request, snapshot):
    assert request.getfixturevalue(kind)._repr_html_().replace(STYLE, "") == snapshot


def test_latex(result, snapshot):
    assert result.summary(alpha=0.1).as_latex() == snapshot


def test_it_is_statsmodels_summary(result):
    made = result.summary()
    assert isinstance(made, Summary)
    assert str(made) == made.as_text() == str(result)


@pytest.mark.parametrize("kind", KINDS)
def test_it_fits_a_terminal(kind, request):
    assert max(map(len, str(request.getfixturevalue(kind)).splitlines())) <= 78


def test_the_level_is_in_the_header(result):
    text = result.summary(alpha=0.1).as_text()
    assert "[0.05" in text
    assert "0.95]" in text
    assert f"{result.conf_int(0.1).loc['age', 0]:.3f}" in text


def test_a_public_fit_says_so(public_result):
    text = str(public_result)
    assert "No private record was used" in text
    assert "Guarantee" not in text
    assert "No private record was used" in public_result._repr_html_()


def test_the_note_about_missing_standard_errors_is_printed(silent_result):
    assert "fit again with hessian_share above 0" in " ".join(str(silent_result).split())
    assert "&lt;with&gt;" in silent_result._repr_html_()
    assert "<with>" not in silent_result._repr_html_()


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ([0.0, 0.0], "0% of the variance"),
        ([1.0, 3.0], "50% to 75% of the variance"),
        ([1.0, np.nan], "50% of the variance"),
        ([np.nan, np.nan], None),
    ],
)
def test_the_share_of_noise(result, privacy, words):
    estimate = Estimate(
        label="released", terms=("a", "b"), values=np.ones(2), sampling=np.eye(2), privacy=np.diag(privacy)
    )
    text = str(replace(result, estimate=estimate, public_only=None, private_only=None, pooled=None))
    assert (words in text) if words else ("of the variance" not in text)


def test_one_line(result, public_result):
    assert repr(result) == "<Logit result: 5 coefficients, 1-differential privacy (pure)>"
    assert repr(public_result) == "<Logit result: 5 coefficients, public rows only>"


def test_weights_and_offset_are_shown_where_there_are_any(result, public_result):
    assert "Offset:" in str(public_result)
    assert "Offset:" not in str(result)


def between(page, start, end):
    return page[page.index(start) : page.index(end)]


def test_a_page_has_the_estimates_side_by_side_in_columns(result):
    part = between(result._repr_html_().replace(STYLE, ""), "Estimates side by side", ">Privacy<")
    headers = ["public only", "std err", "private only", "std err", "pooled", "std err"]
    assert [part.count(f">{name}</th>") for name in headers] == [1, 3, 1, 3, 1, 3]
    assert ">-1.6500</td>" in part
    assert "(standard error)" not in result._repr_html_()
    assert "(standard error)" in str(result)


def test_a_page_has_a_row_per_mechanism_with_its_cost_and_ledger_entry(result):
    part = between(result._repr_html_().replace(STYLE, ""), ">Mechanisms<", "<details>").replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert part.count("<tr>") == 4
    assert part.count("rotterdam 1, no. 2") == 3
    for cost in ("epsilon 0.849999", "epsilon 1e-06", "epsilon 0.15"):
        assert part.count(f">{cost}</th>") == 1
    assert "Mechanisms:" in str(result)
    assert "head ab12ab12ab12" in str(result)


def test_explanations_are_folded_and_warnings_are_not(result, silent_result):
    page = result._repr_html_()
    assert page.index("<summary>Notes (1)</summary>") < page.index("heavier than the normal distribution")
    open_page = silent_result._repr_html_()
    assert "Notes (" not in open_page
    assert '<p class="hdp-note">Standard errors were not asked for' in open_page
