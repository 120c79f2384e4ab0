"""A result speaks statsmodels', broom's and maketables' words."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from maketables import ETable

from hdpstats._base.errors import ArgumentError
from hdpstats.results import Result
from hdpstats.results.tables import REFUSED

TERMS = ["Intercept", "age", "size[T.20-50]", "size[T.>50]", "log1p(nodes)"]


def test_numbers_are_those_of_the_chosen_estimate(result):
    pooled = result.pooled
    for name in ("params", "bse", "tvalues", "pvalues"):
        pd.testing.assert_series_equal(getattr(result, name), getattr(pooled, name))
        assert list(getattr(result, name).index) == TERMS
    pd.testing.assert_frame_equal(result.cov_params(), result.cov_sampling + result.cov_privacy)
    pd.testing.assert_frame_equal(result.conf_int(0.1), pooled.conf_int(0.1))
    assert not np.allclose(result.conf_int(0.1), result.conf_int(0.5))


def test_ledger_entry_is_that_of_the_release(result, public_result):
    assert result.ledger_entry.number == 2
    assert public_result.ledger_entry is None


def test_tidy_has_brooms_columns(result):
    frame = result.tidy()
    assert list(frame) == ["term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"]
    assert list(frame.term) == TERMS
    np.testing.assert_allclose(frame[["conf_low", "conf_high"]], result.conf_int(0.05), rtol=1e-12)


def test_tidy_exponentiates_as_broom_does(result):
    plain, ratio = result.tidy(conf_level=0.8), result.tidy(exponentiate=True, conf_level=0.8)
    for column in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_allclose(ratio[column], np.exp(plain[column]))
    pd.testing.assert_series_equal(ratio.std_error, plain.std_error)


def test_glance_is_one_row_of_public_facts(result, public_result):
    private, public = result.glance(), public_result.glance()
    assert len(private) == len(public) == 1
    assert private.loc[0, ["epsilon", "delta", "nobs", "public_rows", "relation"]].tolist() == [
        1.0,
        0.0,
        2982,
        686,
        "replace_one",
    ]
    assert public.loc[0, ["epsilon", "nobs", "relation"]].isna().all()
    assert list(private) == list(public)


def test_odds_ratios_are_exponentials_with_the_delta_method(result):
    frame = result.odds_ratios(alpha=0.2)
    limits = result.conf_int(0.2)
    np.testing.assert_allclose(frame.estimate, np.exp(result.params))
    np.testing.assert_allclose(frame.conf_low, np.exp(limits[0]))
    np.testing.assert_allclose(frame.conf_high, np.exp(limits[1]))
    step = 1e-6
    slope = (np.exp(result.params + step) - np.exp(result.params - step)) / (2 * step)
    np.testing.assert_allclose(frame.std_error, slope * result.bse, rtol=1e-8)


def test_odds_ratios_are_refused_where_there_are_none(result):
    other = replace(result, facts=replace(result.facts, exponentiated="hazard ratio"))
    with pytest.raises(ArgumentError, match="hazard ratio"):
        other.odds_ratios()


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1, float("nan"), "0.05", True])
def test_levels_are_checked(result, alpha):
    for call in (result.conf_int, result.summary, result.odds_ratios):
        with pytest.raises(ArgumentError, match="alpha"):
            call(alpha=alpha)
    with pytest.raises(ArgumentError, match="conf_level"):
        result.tidy(conf_level=alpha)


@pytest.mark.parametrize("name", [*sorted(REFUSED), "resid_pearson", "resid_response", "resid_anything"])
def test_what_would_leak_says_why_and_what_to_ask_instead(result, public_result, name):
    with pytest.raises(AttributeError, match=r"differentially private result has no .*Instead: "):
        getattr(result, name)
    with pytest.raises(AttributeError, match=r"for this, (fit statsmodels to the public rows|see \w+|ask \w+)"):
        getattr(public_result, name)
    assert not hasattr(result, name)


def test_other_names_are_ordinary_attribute_errors(result):
    with pytest.raises(AttributeError, match=r"^'Result' object has no attribute 'parms'$") as caught:
        _ = result.parms
    assert caught.value.name == "parms"


def test_no_own_name_is_refused(result):
    own = {name for name in dir(result) if not name.startswith("_")}
    assert not own & set(REFUSED)


def test_copies_are_alike_and_an_empty_shell_is_no_endless_loop(result):
    assert copy.deepcopy(result).to_json() == copy.copy(result).to_json() == result.to_json()
    with pytest.raises(AttributeError, match="no attribute"):
        _ = Result.__new__(Result).guarantee


def test_a_result_cannot_be_changed(result):
    with pytest.raises(AttributeError):
        result.facts = None


@pytest.mark.parametrize("name", ["query", "release", "guarantee"])
def test_query_release_and_guarantee_come_together(result, name):
    with pytest.raises(ArgumentError, match="together"):
        replace(result, released=replace(result.released, **{name: None}))


def test_maketables_reads_the_numbers_of_the_summary(result, public_result):
    """It takes the attributes of statsmodels where a result has them, and its own protocol elsewhere."""
    custom = {"epsilon": [1, "none"]}
    shown = ETable(
        [result, public_result],
        model_stats=["N", "se_type"],
        custom_model_stats=custom,
        coef_fmt="b:.6f [ci95l:.6f, ci95u:.6f]",
    ).df
    low, high = result.conf_int().loc["age"]
    row = next(row for name, row in shown.iterrows() if "age" in name)
    assert row.iloc[0] == f"{result.params['age']:.6f} [{low:.6f}, {high:.6f}]"
    text = shown.to_string()
    assert "event3" in text
    assert "2,982" in text
    assert "sampling + privacy noise" in text


def test_statsmodels_names_of_outcome_and_errors(result, public_result):
    assert result.endog_names == public_result.endog_names == "event3"
    assert result.cov_type == "sampling + privacy noise"
    assert public_result.cov_type == "sampling"


def test_maketables_protocol(result, public_result):
    frame = result.__maketables_coef_table__
    assert list(frame) == ["b", "se", "t", "p", "ci95l", "ci95u"]
    assert list(frame.index) == TERMS
    np.testing.assert_array_equal(frame["se"], result.bse)
    assert result.__maketables_depvar__ == "event3"
    keys = result.__maketables_default_stat_keys__
    assert [result.__maketables_stat__(key) for key in keys] == [2982, 686, 1.0, 0.0]
    keys = public_result.__maketables_default_stat_keys__
    assert [public_result.__maketables_stat__(key) for key in keys] == [686, 686]
    assert result.__maketables_stat__("r2") is None
    assert result.__maketables_vcov_info__["vcov_type"] == "sampling + privacy noise"
