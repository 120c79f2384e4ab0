"""Predictions agree with statsmodels' and treat public rows aloud."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from hdpstats._base.errors import ArgumentError, SchemaError

LEVELS = ["<=20", "20-50", ">50"]
STATSMODELS_FORMULA = "event3 ~ age + size + np.log1p(nodes)"


def make_frame(rows=200):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(25, 85, rows),
            "size": rng.choice(LEVELS, rows),
            "nodes": rng.poisson(3, rows).astype(float),
            "o": rng.uniform(-1, 1, rows),
        }
    )
    eta = -1.5 + 0.01 * frame.age + 0.5 * (frame["size"] == ">50") + 0.4 * np.log1p(frame.nodes)
    return frame.assign(event3=(rng.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(float))


def with_fit(result, fit):
    names = [term.replace("log1p", "np.log1p") for term in result.estimate.terms]
    covariance = fit.cov_params().loc[names, names].to_numpy()
    estimate = replace(
        result.estimate,
        values=fit.params[names].to_numpy(),
        sampling=covariance / 2,
        privacy=covariance / 2,
        distribution=None,
    )
    return replace(result, estimate=estimate)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_means_and_limits_are_those_of_statsmodels(result, alpha):
    frame = make_frame()
    coded = frame.assign(size=pd.Categorical(frame["size"], LEVELS))
    fit = smf.glm(STATSMODELS_FORMULA, coded, family=sm.families.Binomial()).fit()
    mine = with_fit(result, fit).predict(frame, ci=True, alpha=alpha)
    theirs = fit.get_prediction(coded).summary_frame(alpha=alpha)
    np.testing.assert_allclose(mine.predicted, theirs["mean"], rtol=1e-10)
    np.testing.assert_allclose(mine.conf_low, theirs["mean_ci_lower"], rtol=1e-10)
    np.testing.assert_allclose(mine.conf_high, theirs["mean_ci_upper"], rtol=1e-10)


def test_the_offset_is_added(public_result):
    frame = make_frame(20)
    shifted, plain = public_result.predict(frame), public_result.predict(frame.assign(o=0.0))
    np.testing.assert_allclose(np.log(shifted / (1 - shifted)) - np.log(plain / (1 - plain)), frame.o)


def test_index_and_missing_rows_are_kept(result):
    frame = make_frame(5).set_axis(list("vwxyz"))
    whole = result.predict(frame)
    frame.loc["w", "age"] = np.nan
    frame.loc["y", "size"] = None
    found = result.predict(frame, ci=True)
    assert list(found.index) == list("vwxyz")
    assert found.isna().all(axis=1).tolist() == [False, True, False, True, False]
    kept = ["v", "x", "z"]
    np.testing.assert_array_equal(found.predicted[kept], whole[kept])


def test_outcome_and_other_columns_play_no_part(result):
    frame = make_frame(5)
    strange = frame.assign(event3="unknown", o=np.inf, extra=1)
    pd.testing.assert_series_equal(result.predict(frame), result.predict(strange))
    pd.testing.assert_series_equal(result.predict(frame), result.predict(frame.drop(columns=["event3", "o"])))


def test_values_beyond_the_bounds_are_taken_as_they_are(result):
    frame = make_frame(2).assign(age=[90.0, 100.0], size="<=20", nodes=1.0)
    at, beyond = result.predict(frame)
    assert np.log(beyond / (1 - beyond)) - np.log(at / (1 - at)) == pytest.approx(10 * result.params["age"])


def test_an_empty_frame_has_no_predictions(result):
    assert len(result.predict(make_frame(3).iloc[:0])) == 0


def test_absent_columns_are_named(result):
    with pytest.raises(SchemaError, match="'nodes'"):
        result.predict(make_frame(3).drop(columns="nodes"))


def test_unknown_levels_list_the_declared(result):
    with pytest.raises(
        SchemaError, match="row 1: 'huge' is not a declared level; the levels are '<=20', '20-50', '>50'"
    ):
        result.predict(make_frame(3).assign(size=["<=20", "huge", ">50"]))


def test_undefined_transforms_are_refused(result):
    with pytest.raises(SchemaError, match="log1p"):
        result.predict(make_frame(3).assign(nodes=-2.0))


def test_repeated_columns_are_refused(result):
    frame = make_frame(3)
    with pytest.raises(SchemaError, match="several columns"):
        result.predict(pd.concat([frame, frame[["age"]]], axis=1))


def test_arguments_are_checked(result):
    with pytest.raises(ArgumentError, match="frame must be a pandas DataFrame"):
        result.predict({"age": [1]})
    with pytest.raises(ArgumentError, match="alpha"):
        result.predict(make_frame(3), ci=True, alpha=2)


def test_coefficients_that_are_not_identified_are_named(silent_result):
    with pytest.raises(ArgumentError, match=r"do not tell size\[T.>50\]"):
        silent_result.predict(make_frame(3))


def test_limits_are_missing_where_standard_errors_are(silent_result):
    values = np.nan_to_num(silent_result.estimate.values)
    known = replace(silent_result, estimate=replace(silent_result.estimate, values=values))
    found = known.predict(make_frame(3), ci=True)
    assert found.predicted.notna().all()
    assert found[["conf_low", "conf_high"]].isna().all(axis=None)
