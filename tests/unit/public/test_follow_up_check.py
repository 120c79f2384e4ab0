"""One record of discrimination and calibration."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hdpstats.public.follow_up import (
    GROUPS,
    FollowUp,
    PublicCheck,
    brier_scores,
    calibration,
    check,
    concordance,
    kaplan_meier,
)

TIMES = np.array([0.5, 1.0, 2.0])


def simulate(n=600, causes=1, seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.2, 1.5, (n, causes))
    death, censoring = rng.exponential(1.0 / rates.sum(axis=1)), rng.exponential(2.5, n)
    which = 1 + (rng.uniform(size=n) * rates.sum(axis=1) > rates[:, 0]).astype(np.int64)
    rows = FollowUp(time=np.minimum(death, censoring), cause=np.where(death <= censoring, which, 0), causes=causes)
    total = rates.sum(axis=1)[:, None, None]
    incidence = rates[:, None, :] / total * (1.0 - np.exp(-total * TIMES[None, :, None]))
    return rows, np.log(rates), incidence


def made(causes=1, **options):
    rows, score, incidence = simulate(causes=causes)
    names = ("relapse", "death")[:causes]
    return (
        rows,
        score,
        incidence,
        check(rows, score, causes=names, times=TIMES, incidence=incidence, **{"shown": [0, 2], **options}),
    )


@pytest.mark.parametrize("causes", [1, 2])
def test_the_record_holds_the_parts(causes):
    rows, score, incidence, found = made(causes)
    curves = kaplan_meier(rows)
    assert found.rows == 600
    for k, cause in enumerate(found.causes):
        assert found.concordance[k] == concordance(rows, score[:, k], cause=k + 1)
        part = found.scores[found.scores["cause"] == cause]
        np.testing.assert_array_equal(part["time"], TIMES)
        np.testing.assert_array_equal(part["brier"], brier_scores(rows, incidence[:, :, k], TIMES, cause=k + 1))
        alike = np.tile(curves.at(curves.incidence[:, k], TIMES, start=0.0), (600, 1))
        np.testing.assert_allclose(part["reference"], brier_scores(rows, alike, TIMES, cause=k + 1))
        assert (part["brier"] < part["reference"]).all()
        shown = found.calibration[found.calibration["cause"] == cause]
        assert shown["time"].unique().tolist() == [0.5, 2.0]
    until = found.integrated()
    assert list(until.index) == list(found.causes)
    assert (until["until"] == 2.0).all()
    assert (until["brier"] < until["reference"]).all()


@pytest.mark.parametrize("causes", [1, 2])
def test_groups_of_risk(causes):
    rows, _, incidence, _ = made(causes)
    for k in range(causes):
        table = calibration(rows, incidence[:, 1, k], time=1.0, cause=k + 1)
        assert table["group"].tolist() == list(range(1, GROUPS + 1))
        assert table["rows"].tolist() == [600 // GROUPS] * GROUPS
        order = np.argsort(incidence[:, 1, k]).reshape(GROUPS, -1)
        for (_, row), members in zip(table.iterrows(), order, strict=True):
            chosen = np.isin(np.arange(600), members)
            curves = kaplan_meier(rows.take(chosen))
            assert row["predicted"] == pytest.approx(incidence[members, 1, k].mean())
            assert row["observed"] == pytest.approx(curves.at(curves.incidence[:, k], np.array([1.0]), start=0.0)[0])
        # the predictions are those that the rows were made with
        inside = table["predicted"].between(table["conf_low"], table["conf_high"])
        assert inside.sum() >= GROUPS - 1


def test_limits_of_observed_incidence_are_those_of_log_minus_log():
    rows, _, incidence, _ = made()
    table = calibration(rows, incidence[:, 1, 0], time=1.0).iloc[2]
    inner = np.quantile(incidence[:, 1, 0], [0.4, 0.6])
    curves = kaplan_meier(rows.take((incidence[:, 1, 0] >= inner[0]) & (incidence[:, 1, 0] < inner[1])))
    at = np.array([1.0])
    S = float(curves.at(curves.survival, at, start=1.0)[0])
    se = float(curves.at(curves.std_error[:, 0], at, start=0.0)[0])
    step = 1.959963984540054 * se / (S * -np.log(S))
    assert table["conf_low"] == pytest.approx(1.0 - S ** np.exp(-step))
    assert table["conf_high"] == pytest.approx(1.0 - S ** np.exp(step))


def test_equal_predictions_are_one_group():
    rows, _, _, _ = made()
    table = calibration(rows, np.full(600, 0.3), time=1.0)
    assert table["rows"].tolist() == [600]
    assert table["predicted"].tolist() == [pytest.approx(0.3)]


def test_groups_that_do_not_reach_a_time_have_no_observation():
    rows, _, incidence, _ = made()
    ended = replace(rows, time=np.minimum(rows.time, 0.4), cause=np.where(rows.time > 0.4, 0, rows.cause))
    late = calibration(ended, incidence[:, 0, 0], time=0.5)
    assert late["predicted"].notna().all()
    assert late[["observed", "conf_low", "conf_high"]].isna().all(axis=None)
    assert calibration(ended, incidence[:, 0, 0], time=0.4)["observed"].notna().all()


def test_rows_of_changing_covariates_have_a_concordance_only():
    rows, score, _, _ = made()
    found = check(rows, score, causes=("event",), times=np.zeros(0), incidence=np.zeros((600, 0, 1)), shown=[])
    assert np.isfinite(found.concordance[0].value)
    assert len(found.scores) == len(found.calibration) == 0
    assert found.integrated()["brier"].isna().all()
    assert PublicCheck.from_dict(found.to_dict()).to_dict() == found.to_dict()


@pytest.mark.parametrize("causes", [1, 2])
def test_it_comes_back_from_json(causes):
    found = made(causes)[-1]
    text = json.dumps(found.to_dict(), allow_nan=False)
    again = PublicCheck.from_dict(json.loads(text))
    assert again.concordance == found.concordance
    assert again.scores.equals(found.scores)
    assert again.calibration.equals(found.calibration)
    assert json.dumps(again.to_dict()) == text


def test_a_missing_number_comes_back_as_missing():
    rows = FollowUp(time=np.ones(3), cause=np.zeros(3, dtype=np.int64), causes=1)
    found = check(
        rows, np.zeros((3, 1)), causes=("event",), times=np.array([2.0]), incidence=np.full((3, 1, 1), 0.1), shown=[0]
    )
    again = PublicCheck.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert np.isnan(again.concordance[0].value)
    assert again.scores["brier"].isna().all()
    assert again.calibration["observed"].isna().all()
