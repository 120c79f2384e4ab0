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
