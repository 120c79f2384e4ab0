"""Hazards, survival and incidence agree with plain loops, and their bands with finite differences."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import norm

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats.inference.life_tables import bends
from hdpstats.losses import LINKS
from hdpstats.results import hazard_curves as arrays
from hdpstats.results.hazard_curves import open_curves

HAZARDS = {
    "logit": lambda eta: 1.0 / (1.0 + math.exp(-eta)),
    "cloglog": lambda eta: 1.0 - math.exp(-math.exp(eta)),
    "probit": lambda eta: float(norm.cdf(eta)),
}
QUANTILES = {"logit": lambda p: np.log(p / (1 - p)), "cloglog": lambda p: np.log(-np.log1p(-p)), "probit": norm.ppf}
CAUSES = [("event",), ("relapse", "death")]
CUTS = np.array([1.0, 2.5, 4.0, 10.0])
Z = -float(ndtri(0.025))


def frame():
    return pd.DataFrame(
        {"age": [30.0, 55.0, 85.0], "size": ["<=20", ">50", "20-50"], "o": [0.0, 0.5, -1.0]}, index=["a", "b", "c"]
    )


BETWEEN = np.array([0.3, 1.6, 3.999, 8.0])
"""A time in each interval."""


def between_by_hand(result, theta, row):
    """Survival (4,) and incidence (4, K) at these times: hazards in proportion to those of causes."""
    p, S, F = by_hand(result, theta, row)
    part = (BETWEEN - [0.0, *CUTS[:-1]]) / np.diff([0.0, *CUTS])
    before, lost = np.append(1.0, S[:-1]), p.sum(axis=1)
    own = before * (1.0 - lost) ** part
    started = np.vstack([np.zeros(p.shape[1]), F[:-1]])
    return own, started + (p / lost[:, None]) * (before - own)[:, None]


def by_hand(result, theta, row):
    """Hazards (q, K), survival (q,) and incidence (q, K) of one row of the frame, by loops over definitions."""
    hazard = result.facts.hazard
    x = [row["age"], float(row["size"] == "20-50"), float(row["size"] == ">50")]
    offset = row["o"] if result.facts.offset else 0.0
    own = theta.reshape(len(hazard.causes), -1)
    p = np.array(
        [
            [HAZARDS[hazard.link](float(np.dot(part, [*features, *x])) + offset) for part in own]
            for features in hazard.baseline
        ]
    )
    alive, S, F, found = 1.0, [], [], np.zeros(len(own))
    for hazards in p:
        found = found + alive * hazards
        alive *= 1.0 - hazards.sum()
        S.append(alive)
        F.append(found)
    return p, np.array(S), np.array(F)


def gradient(curve, theta):
    """Central differences of an array-valued function of the coefficients."""
    step = 1e-5
    return np.stack([(curve(theta + step * e) - curve(theta - step * e)) / (2 * step) for e in np.eye(len(theta))])


def error(result, curve):
    g = gradient(curve, result.estimate.values)
    return np.sqrt(np.einsum("i...,ij,j...->...", g, result.cov_params().to_numpy(), g))


def of_row(table, label):
    return table[table["row"] == label].drop(columns="row").reset_index(drop=True)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("causes", CAUSES)
@pytest.mark.parametrize("offset", [None, "o"])
def test_hazards_survival_and_incidence_are_their_definitions(hazard, link, causes, offset):
    result = hazard(link, causes, offset=offset)
    hazards = result.predict_hazard(frame())
    curves = result.predict_survival(frame(), ci=False)
    incidences = result.predict_incidence(frame(), ci=False)
    for label, row in frame().iterrows():
        p, S, F = by_hand(result, result.estimate.values, row)
        np.testing.assert_allclose(of_row(hazards, label)["hazard"], p.T.ravel(), rtol=1e-12)
        np.testing.assert_allclose(of_row(curves, label)["survival"], [1.0, *S], rtol=1e-12)
        shown = of_row(incidences, label)["incidence"].to_numpy().reshape(len(causes), -1)
        np.testing.assert_allclose(shown, np.column_stack([np.zeros(len(causes)), F.T]), rtol=1e-12)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("causes", CAUSES)
def test_bands_of_survival_are_the_delta_method_with_finite_differences(hazard, link, causes):
    result = hazard(link, causes, noise=0.5)
    table = result.predict_survival(frame(), CUTS)
    for label, row in frame().iterrows():
        S = by_hand(result, result.estimate.values, row)[1]
        se = error(result, lambda theta, row=row: np.log(-np.log(by_hand(result, theta, row)[1])))
        shown = of_row(table, label)
        np.testing.assert_allclose(shown["conf_low"], S ** np.exp(Z * se), rtol=1e-5)
        np.testing.assert_allclose(shown["conf_high"], S ** np.exp(-Z * se), rtol=1e-5)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("causes", CAUSES)
def test_bands_of_incidence_are_the_delta_method_with_finite_differences(hazard, link, causes):
    result = hazard(link, causes, noise=0.5)
    table = result.predict_incidence(frame(), CUTS, alpha=0.2)
    z = -float(ndtri(0.1))
    for label, row in frame().iterrows():
        F = by_hand(result, result.estimate.values, row)[2]
        se = error(result, lambda theta, row=row: np.log(-np.log(1.0 - by_hand(result, theta, row)[2])))
        shown = of_row(table, label)
        np.testing.assert_allclose(shown["conf_low"], (1.0 - (1.0 - F) ** np.exp(-z * se)).T.ravel(), rtol=1e-5)
        np.testing.assert_allclose(shown["conf_high"], (1.0 - (1.0 - F) ** np.exp(z * se)).T.ravel(), rtol=1e-5)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("causes", CAUSES)
def test_limits_of_hazards_are_those_of_the_linear_predictor(hazard, link, causes):
    result = hazard(link, causes, noise=0.5)
    table = result.predict_hazard(frame(), ci=True)
    eta = {name: QUANTILES[link](table[name].to_numpy()) for name in ("hazard", "conf_low", "conf_high")}
    se = np.concatenate(
        [
            error(result, lambda theta, row=row: QUANTILES[link](by_hand(result, theta, row)[0])).T.ravel()
            for _, row in frame().iterrows()
        ]
    )
    np.testing.assert_allclose(eta["hazard"] - eta["conf_low"], Z * se, rtol=1e-5)
    np.testing.assert_allclose(eta["conf_high"] - eta["hazard"], Z * se, rtol=1e-5)


def test_privacy_noise_widens_the_bands(hazard):
    quiet, noisy = (hazard(noise=noise).predict_survival(frame(), 4.0) for noise in (0.0, 3.0))
    assert (noisy["conf_low"] < quiet["conf_low"]).all()
    assert (noisy["conf_high"] > quiet["conf_high"]).all()
    assert (noisy["survival"] == quiet["survival"]).all()


def test_incidences_and_survival_add_up_to_one(hazard):
    result = hazard("logit", ("relapse", "death"))
    F = result.predict_incidence(frame(), ci=False).groupby(["row", "time"])["incidence"].sum()
    S = result.predict_survival(frame(), ci=False).set_index(["row", "time"])["survival"]
    np.testing.assert_allclose(F + S, 1.0, rtol=1e-14)


def test_with_one_cause_incidence_is_one_minus_survival_with_its_limits(hazard):
    result = hazard("probit", noise=0.2)
    F, S = result.predict_incidence(frame()), result.predict_survival(frame())
    assert "cause" not in F
    np.testing.assert_allclose(F["incidence"], 1.0 - S["survival"], atol=1e-15)
    np.testing.assert_allclose(F["conf_low"], 1.0 - S["conf_high"], atol=1e-12)
    np.testing.assert_allclose(F["conf_high"], 1.0 - S["conf_low"], atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("causes", CAUSES)
def test_within_intervals_hazards_are_constant_with_limits_by_finite_differences(monkeypatch, hazard, link, causes):
    monkeypatch.setattr(arrays, "bends", lambda value, high, cuts, times: (0.0 * times, 0.0 * times))
    result = hazard(link, causes, noise=0.5)
    curves, incidences = result.predict_survival(frame(), BETWEEN), result.predict_incidence(frame(), BETWEEN)
    ends = result.predict_survival(frame(), [0, *CUTS]), result.predict_incidence(frame(), [0, *CUTS])
    for label, row in frame().iterrows():
        S, F = between_by_hand(result, result.estimate.values, row)
        for table, name, value, sign in (
            (of_row(curves, label), "survival", S, 1.0), (of_row(incidences, label), "incidence", 1.0 - F.T, -1.0),
        ):  # fmt: skip

            def transformed(theta, row=row, name=name):
                S, F = between_by_hand(result, theta, row)
                return np.log(-np.log(S if name == "survival" else 1.0 - F.T))

            se = error(result, transformed)
            low, high = (value ** np.exp(each * Z * se) for each in (1.0, -1.0))
            low, high = (low, high) if sign > 0 else (1.0 - high, 1.0 - low)
            lowest, highest = (  # at the ends of each interval, within which limits stay
                of_row(ends[sign < 0], label)[limit].to_numpy().reshape(-1, 5) for limit in ("conf_low", "conf_high")
            )
            low = np.maximum(low, lowest[:, 1:] if sign > 0 else lowest[:, :-1])
            high = np.minimum(high, highest[:, :-1] if sign > 0 else highest[:, 1:])
            np.testing.assert_allclose(table[name], (value if sign > 0 else 1.0 - value).ravel(), rtol=1e-12)
            np.testing.assert_allclose(table["conf_low"], low.ravel(), rtol=1e-5)
            np.testing.assert_allclose(table["conf_high"], high.ravel(), rtol=1e-5)


@pytest.mark.parametrize("causes", CAUSES)
def test_limits_between_ends_allow_for_hazards_that_change_within_intervals(hazard, causes):
    """Without errors of coefficients limits are the bends, within what every hazard allows."""
    result = hazard("cloglog", causes, noise=0.0)
    result = replace(result, estimate=replace(result.estimate, sampling=0.0 * result.estimate.sampling))
    cuts = np.array([0.0, *CUTS])
    ends, between = (result.predict_survival(frame(), times) for times in (cuts, BETWEEN))
    after = np.searchsorted(cuts, BETWEEN)
    for label, _ in frame().iterrows():
        H = -np.log(of_row(ends, label)["survival"].to_numpy())
        shown, value = of_row(between, label), -np.log(of_row(between, label)["survival"].to_numpy())
        below, above = bends(H, H, cuts, np.array(BETWEEN))
        np.testing.assert_allclose(-np.log(shown["conf_high"]), np.maximum(value - below, H[after - 1]), rtol=1e-9)
        np.testing.assert_allclose(-np.log(shown["conf_low"]), np.minimum(value + above, H[after]), rtol=1e-9)
        assert (shown["conf_high"] - shown["conf_low"]).max() > 0.01
    F, ends = (result.predict_incidence(frame(), times) for times in (BETWEEN, cuts))
    assert (F["conf_low"] < F["incidence"] - 1e-4).any()
    within = F.groupby(["row", "cause"] if len(causes) > 1 else ["row"])["conf_high"].max()
    assert (within <= ends.groupby(["row", "cause"] if len(causes) > 1 else ["row"])["incidence"].max() + 1e-12).all()


def test_curves_go_on_where_an_interval_has_next_to_no_hazard_or_takes_everybody(hazard):
    for place, moved_by, causes in ((1, 60.0, ("relapse", "death")), (2, -60.0, ("event",))):
        result = hazard("logit", causes, noise=0.0)
        facts = replace(
            result.facts.hazard,
            baseline=tuple(
                (feature[0] + moved_by if s == place else feature[0], *feature[1:])
                for s, feature in enumerate(result.facts.hazard.baseline)
            ),
        )
        moved = replace(result, facts=replace(result.facts, hazard=facts))
        times = np.unique(np.concatenate([CUTS, BETWEEN]))
        S = moved.predict_survival(frame(), times, ci=False).groupby("time")["survival"].mean()
        F = moved.predict_incidence(frame(), times, ci=False).groupby(["time", "row"])["incidence"].sum()
        assert np.isfinite(S).all()
        assert S.is_monotonic_decreasing
        np.testing.assert_allclose(F.groupby("time").mean() + S, 1.0, rtol=1e-12)


def test_times_may_be_one_number_and_come_in_any_order(hazard):
    result = hazard()
    some = result.predict_survival(frame(), [4.0, 1.0, 4.0])
    assert some["time"].tolist() == [4.0, 1.0, 4.0] * 3
    assert some["row"].tolist() == [label for label in "abc" for _ in range(3)]
    one = result.predict_survival(frame(), 1.0)
    np.testing.assert_array_equal(one["survival"], some["survival"][1::3])
    assert len(result.predict_survival(frame(), [])) == 0


@pytest.mark.parametrize("times", [10.001, -1, [1, np.nan], "1", [None], True])
def test_other_times_are_refused(hazard, times):
    with pytest.raises(ArgumentError, match="times"):
        hazard().predict_survival(frame(), times)


def test_the_limit_at_time_zero_is_certain(hazard):
    first = hazard().predict_survival(frame(), 0.0)
    assert (first[["survival", "conf_low", "conf_high"]] == 1.0).all(axis=None)


def test_the_baseline_hazard_is_where_covariates_are_zero(hazard):
    result = hazard("logit", ("relapse", "death"))
    table = result.baseline_hazard()
    assert list(table) == ["interval", "start", "stop", "cause", "hazard", "conf_low", "conf_high"]
    A = result.facts.hazard.features
    for cause, alpha in (("relapse", [-2.5, 1.0]), ("death", [-3.5, 2.0])):
        part = table[table["cause"] == cause]
        np.testing.assert_allclose(part["hazard"], [HAZARDS["logit"](eta) for eta in A @ alpha])
        assert part["stop"].tolist() == CUTS.tolist()
        assert part["start"].tolist() == [0.0, *CUTS[:-1]]
        assert part["interval"].tolist() == [1, 2, 3, 4]


def test_the_baseline_hazard_may_be_asked_for_elsewhere(hazard):
    result = hazard(offset="o")
    at = frame().loc[["b"]]
    expected = of_row(result.predict_hazard(at, ci=True), "b")
    pd.testing.assert_frame_equal(result.baseline_hazard(at=at), expected)
    with pytest.raises(ArgumentError, match="one row"):
        result.baseline_hazard(at=frame())


def test_the_median_is_where_curve_and_limits_cross_one_half(hazard):
    result = hazard()
    S = result.predict_survival(frame(), CUTS)
    found = result.predict_median(frame())
    assert list(found.index) == ["a", "b", "c"]
    for label in found.index:
        part = of_row(S, label)
        for name, curve in (("median", "survival"), ("conf_low", "conf_low"), ("conf_high", "conf_high")):
            H = np.append(0.0, -np.log(part[curve]))
            expected = np.interp(np.log(2.0), H, [0.0, *CUTS]) if H[-1] >= np.log(2.0) else np.inf
            assert found.loc[label, name] == pytest.approx(expected)
    reached = found["median"][np.isfinite(found["median"])]
    for label, median in reached.items():
        at = result.predict_survival(frame().loc[[label]], median, ci=False)["survival"]
        assert at.iloc[0] == pytest.approx(0.5, rel=1e-12)
    assert np.isfinite(found["median"]).any()
    assert np.isinf(found["conf_high"]).any()


def test_missing_rows_are_kept_as_missing(hazard):
    result = hazard()
    holes = frame().astype({"size": object})
    holes.loc["b", "age"] = np.nan
    whole = result.predict_survival(frame(), [1, 10])
    found = result.predict_survival(holes, [1, 10])
    assert found[found["row"] == "b"][["survival", "conf_low", "conf_high"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(found[found["row"] != "b"], whole[whole["row"] != "b"])
    assert result.predict_median(holes).loc["b"].isna().all()
    assert result.predict_hazard(holes)["hazard"].isna().sum() == 4


def test_an_empty_frame_has_no_curves(hazard):
    result = hazard()
    assert len(result.predict_survival(frame().iloc[:0])) == 0
    assert list(result.predict_hazard(frame().iloc[:0], ci=True))[-3:] == ["hazard", "conf_low", "conf_high"]


def test_rows_do_not_depend_on_how_many_come_together(hazard, monkeypatch):
    result = hazard("logit", ("relapse", "death"))
    whole = [result.predict_survival(frame()), result.predict_incidence(frame()), result.predict_hazard(frame(), True)]
    monkeypatch.setattr(arrays, "_BLOCK", 1)
    one_by_one = [
        result.predict_survival(frame()),
        result.predict_incidence(frame()),
        result.predict_hazard(frame(), True),
    ]
    for a, b in zip(whole, one_by_one, strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=False, rtol=1e-13)


def test_limits_are_missing_where_standard_errors_are(hazard):
    result = hazard()
    unknown = np.full_like(result.estimate.sampling, np.nan)
    silent = replace(result, estimate=replace(result.estimate, sampling=unknown))
    for table, value in (
        (silent.predict_survival(frame(), CUTS), "survival"),
        (silent.predict_incidence(frame(), CUTS), "incidence"),
        (silent.baseline_hazard(), "hazard"),
    ):
        assert table[value].notna().all()
        assert table[["conf_low", "conf_high"]].isna().all(axis=None)
    median = silent.predict_median(frame())
    assert median["median"].notna().all()
    assert median[["conf_low", "conf_high"]].isna().all(axis=None)


@pytest.mark.covering
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("causes", CAUSES)
@pytest.mark.parametrize("shift", [-800.0, -40.0, 40.0, 800.0])
def test_extreme_coefficients_give_probabilities_and_no_warning(hazard, link, causes, shift):
    result = hazard(link, causes)
    values = result.estimate.values.copy()
    values[0] += shift
    extreme = replace(result, estimate=replace(result.estimate, values=values))
    for table, value in (
        (extreme.predict_survival(frame()), "survival"),
        (extreme.predict_incidence(frame()), "incidence"),
        (extreme.predict_hazard(frame(), ci=True), "hazard"),
    ):
        assert table[value].between(0.0, 1.0).all()
        known = table[["conf_low", "conf_high"]].dropna()
        assert known.stack().between(0.0, 1.0).all()


def test_hazards_of_separate_fits_that_exceed_one_leave_nobody(hazard):
    result = hazard("logit", ("relapse", "death"))
    values = result.estimate.values.copy()
    values[[0, 5]] += 5.0
    certain = replace(result, estimate=replace(result.estimate, values=values))
    assert (certain.predict_survival(frame(), 10.0, ci=False)["survival"] == 0.0).all()


def test_the_typical_covariates_are_those_of_the_facts(hazard):
    typical, zero = (hazard(typical=values) for values in ((55.0, 0.0, 1.0), None))
    rows = (frame().loc[["b"]], pd.DataFrame({"age": [0.0], "size": ["<=20"]}))
    for result, row in zip((typical, zero), rows, strict=True):
        curve = open_curves(result, None).survival(CUTS, alpha=None)
        np.testing.assert_allclose(curve.value[0], result.predict_survival(row, CUTS)["survival"])


def test_only_hazard_models_have_curves(public_result):
    for ask in (
        lambda: public_result.predict_survival(frame()),
        lambda: public_result.predict_hazard(frame()),
        public_result.baseline_hazard,
        public_result.plot_survival,
        public_result.plot_hazard,
    ):
        with pytest.raises(ArgumentError, match=r"this is a Logit model: use predict"):
            ask()


def test_predict_says_what_to_ask_of_a_hazard_model(hazard):
    with pytest.raises(ArgumentError, match="predict_survival"):
        hazard().predict(frame())


def test_frames_and_levels_are_checked_as_in_predict(hazard):
    result = hazard(offset="o")
    with pytest.raises(ArgumentError, match="DataFrame"):
        result.predict_survival([1])
    with pytest.raises(SchemaError, match="'o'"):
        result.predict_survival(frame().drop(columns="o"))
    with pytest.raises(SchemaError, match="not a declared level"):
        result.predict_median(frame().assign(size="huge"))
    for call in (result.predict_survival, result.predict_incidence, result.predict_median):
        with pytest.raises(ArgumentError, match="alpha"):
            call(frame(), alpha=2.0)


def test_coefficients_that_are_not_identified_are_named(hazard):
    result = hazard()
    values = result.estimate.values.copy()
    values[4] = np.nan
    unknown = replace(result, estimate=replace(result.estimate, values=values))
    for ask in (lambda: unknown.predict_survival(frame()), unknown.baseline_hazard):
        with pytest.raises(ArgumentError, match=r"do not tell size\[T.>50\]"):
            ask()
