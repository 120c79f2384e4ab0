"""A hazard model is checked on the public rows of its fit."""

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError
from hdpstats.families.hazard import spec as hazard_spec
from hdpstats.public.follow_up import FollowUp, brier_scores, concordance
from hdpstats.results import DeferredCheck, Result, check_public
from hdpstats.schema.public import PublicTable

CUTS = np.array([1.0, 2.5, 4.0, 10.0])


def people(result, n=300, seed=2):
    """Draw rows from a hazard model, censored at random."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(25, 85, n),
            "size": rng.choice(["<=20", "20-50", ">50"], n),
            "o": rng.uniform(-1, 1, n),
            "w": rng.uniform(0.5, 3, n),
        }
    )
    causes = result.facts.hazard.causes
    hazards = result.predict_hazard(frame)["hazard"].to_numpy().reshape(n, len(causes), 4)
    end, what = np.full(n, 12.0), np.zeros(n, dtype=int)
    for s in range(4):
        draw = rng.uniform(size=n)
        which = (draw[:, None] > np.cumsum(hazards[:, :, s], axis=1)).sum(axis=1) + 1
        now = (which <= len(causes)) & (what == 0)
        what[now], end[now] = which[now], rng.uniform([0.0, *CUTS[:-1]][s], CUTS[s], now.sum())
    censored = rng.uniform(1, 14, n)
    what, end = np.where(censored < end, 0, what), np.minimum(censored, end)
    event = what if len(causes) == 1 else np.array(["none", *causes])[what]
    return frame.assign(**{"time": end, result.facts.hazard.event: event})


def table_of(result, frame, **options):
    return PublicTable.from_frame(frame, result.schema, required=[n for n in result.schema if n in frame], **options)


def check(result, frame, **options):
    return check_public(facts=result.facts, values=result.estimate.values, public=table_of(result, frame, **options))


@pytest.mark.parametrize("causes", [("event",), ("relapse", "death")])
@pytest.mark.parametrize("columns", [{}, {"offset": "o"}])
def test_predictions_are_compared_with_outcomes(hazard, causes, columns):
    result = hazard("logit", causes, **columns)
    frame = people(result)
    found = check(result, frame)
    event = frame[result.facts.hazard.event]
    code = event if len(causes) == 1 else event.map({"none": 0, "relapse": 1, "death": 2})
    cause = np.where(frame["time"] > 10.0, 0, code).astype(np.int64)
    rows = FollowUp(time=np.minimum(frame["time"].to_numpy(), 10.0), cause=cause, causes=len(causes))
    assert (frame["time"] > 10.0).any()
    predicted = result.predict_incidence(frame, CUTS, ci=False)["incidence"].to_numpy().reshape(300, len(causes), 4)
    shift = frame["o"].to_numpy() if columns else 0.0
    X = np.column_stack([frame["age"], frame["size"] == "20-50", frame["size"] == ">50"]).astype(float)
    for k, name in enumerate(causes):
        score = X @ result.estimate.values[5 * k + 2 : 5 * k + 5] + shift
        assert found.concordance[k].value == pytest.approx(concordance(rows, score, cause=k + 1).value, rel=1e-12)
        part = found.scores[found.scores["cause"] == name]
        expected = brier_scores(rows, predicted[:, k], CUTS, cause=k + 1)
        np.testing.assert_allclose(part["brier"], expected, rtol=1e-12)
        assert found.calibration[found.calibration["cause"] == name]["time"].unique().tolist() == [2.5, 4.0, 10.0]
    assert found.rows == 300


def test_a_true_model_is_calibrated_and_a_wrong_one_is_not(hazard):
    result = hazard("cloglog")
    frame = people(result, n=2000)
    true, wrong = (check(r, frame).calibration for r in (result, shifted(result, 1.0)))
    inside = [t["predicted"].between(t["conf_low"], t["conf_high"]).mean() for t in (true, wrong)]
    assert inside[0] > 0.8
    assert inside[1] < 0.2


def shifted(result, by):
    values = result.estimate.values.copy()
    values[0] += by
    return replace(result, estimate=replace(result.estimate, values=values))


def test_case_weights_count_rows(hazard):
    result = hazard()
    frame = people(result, n=120).assign(w=np.tile([1.0, 2.0, 0.0], 40))
    weighted = replace(result, facts=replace(result.facts, weights="w"))
    doubled = frame.loc[frame.index.repeat(frame["w"].astype(int))]
    one, other = check(weighted, frame), check(result, doubled)
    assert one.concordance[0].value == pytest.approx(other.concordance[0].value, rel=1e-10)
    np.testing.assert_allclose(one.scores["brier"], other.scores["brier"], rtol=1e-10)
    assert one.rows == 80
    assert check(weighted, frame.assign(w=0.0)) is None


def entering(result, event="event"):
    facts = replace(
        result.facts,
        formula=f"Surv(entry, time, {event}) ~ age + size",
        hazard=replace(result.facts.hazard, start="entry"),
    )
    return replace(result, facts=facts)


def test_with_entry_times_there_is_a_concordance_only(hazard):
    result = entering(hazard())
    frame = people(result)
    entry = np.random.default_rng(3).uniform(-1, 4, len(frame))
    found = check(result, frame.assign(entry=entry))
    keep = entry < np.minimum(frame["time"], 10.0)
    assert not keep.all()
    assert found.rows == keep.sum()
    part = frame[keep]
    rows = FollowUp(
        time=np.minimum(part["time"].to_numpy(), 10.0),
        cause=np.where(part["time"] > 10.0, 0, part["event"]).astype(np.int64),
        causes=1,
        entry=np.maximum(entry[keep], 0.0),
    )
    X = np.column_stack([part["age"], part["size"] == "20-50", part["size"] == ">50"]).astype(float)
    assert found.concordance[0] == concordance(rows, X @ result.estimate.values[2:])
    assert found.scores.empty
    assert found.calibration.empty


def test_rows_of_one_person_count_as_one_in_the_standard_error(hazard):
    result = entering(hazard())
    frame = people(result).assign(entry=0.0)
    twice = pd.concat([frame, frame]).assign(name=np.tile(np.arange(len(frame)), 2))
    alone, together = check(result, frame), check(result, twice, unit="name")
    assert together.concordance[0].std_error == pytest.approx(alone.concordance[0].std_error, rel=1e-9)
    assert check(result, twice).concordance[0].std_error < 0.8 * alone.concordance[0].std_error


def test_what_cannot_be_checked_is_none(hazard, result):
    model = hazard()
    frame = people(model, n=20)
    assert check(model, frame.drop(columns="event")) is None
    assert check(model, frame.assign(age=np.nan)) is None
    unknown = replace(model, estimate=replace(model.estimate, values=np.full(5, np.nan)))
    assert check(unknown, frame) is None
    with pytest.raises(ArgumentError, match="hazard models"):
        check_public(facts=result.facts, values=result.estimate.values, public=table_of(model, frame))


@pytest.mark.parametrize("causes", [("event",), ("relapse", "death")])
def test_the_result_keeps_and_shows_it(hazard, causes):
    plain = hazard("logit", causes)
    result = replace(plain, checked=DeferredCheck.of(check(plain, people(plain))))
    text = result.to_json()
    again = Result.from_json(text)
    assert again.to_json() == text
    assert str(again) == str(result)
    shown = " ".join(str(result).split())
    for cause, found in zip(causes, result.public_check.concordance, strict=True):
        of = f" ({cause})" if len(causes) > 1 else ""
        assert f"Concordance{of}: {found.value:.3f} (standard error {found.std_error:.3f})" in shown
        assert f"Brier score{of}: {result.public_check.integrated().loc[cause, 'brier']:.3f} on average" in shown
    assert "300 public rows, which took part in the fit" in shown
    assert max(map(len, str(result).splitlines())) <= 78
    assert "Concordance" not in str(plain)
    assert "Concordance" in result._repr_html_()
    assert "Concordance" in result.summary().as_latex()


def test_a_broken_check_is_an_argument_error(hazard):
    result = hazard()
    document = json.loads(replace(result, checked=DeferredCheck.of(check(result, people(result)))).to_json())
    for change in ({"rows": None}, {"concordance": [{"value": 1.0}]}, {"scores": {}}):
        broken = document | {"checked": {"check": document["checked"]["check"] | change}}
        with pytest.raises(ArgumentError, match="not a result"):
            Result.from_json(json.dumps(broken))


def test_the_check_is_computed_once_and_only_when_it_is_asked_for(hazard):
    calls = []

    def compute():
        calls.append(1)
        return check(plain, people(plain))

    plain = hazard()
    result = replace(plain, checked=DeferredCheck(compute=compute))
    assert len(result.params) == 5
    assert repr(result) == repr(plain)
    assert calls == []
    assert result.public_check is result.public_check is not None
    assert "Concordance" in str(result)
    assert calls == [1]


def test_a_copy_has_what_was_found_and_no_way_to_the_rows(hazard):
    plain = hazard()
    result = replace(plain, checked=DeferredCheck(compute=lambda: check(plain, people(plain))))
    again = copy.deepcopy(result)
    assert again.to_json() == result.to_json()
    assert again.public_check.rows == result.public_check.rows == 300


def test_a_fit_checks_the_public_rows_as_they_were(monkeypatch):
    asked = []

    def checking(**given):
        asked.append(given)
        return check_public(**given)

    monkeypatch.setattr(hazard_spec, "check_public", checking)
    frame = hdp.datasets.load_gbsg()
    frame["time"] /= 365.25
    schema = hdp.Schema(age=hdp.Continuous(20, 90), time=hdp.Duration(7, unit="years"), event=hdp.Binary())
    study = hdp.Study(public=frame, schema=schema)
    result, other = (hdpf.hazard("Surv(time, event) ~ age", data=study, intervals=4).fit_public() for _ in range(2))
    assert asked == []
    found = result.public_check
    assert len(asked) == 1
    frame["age"] = 50.0
    assert other.public_check.to_dict() == found.to_dict()
