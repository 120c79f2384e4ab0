"""Hazards over raked public people: who is at risk follows from the described shares."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.families.hazard import raked
from hdpstats.families.hazard.caps import relative_cap
from hdpstats.families.hazard.raked import Reached
from hdpstats.families.hazard.spec import HazardSpec
from hdpstats.losses import LINKS
from hdpstats.mechanisms.perturbation.hazard_request import allowance
from hdpstats.raking.information import raked_information, with_described
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind
from hdpstats.records.geometry import at_radius

YEARS, N = 4, 300
SCHEMA = hdp.Schema(
    x=hdp.Continuous(-4, 4), arm=hdp.Binary(), time=hdp.Duration(YEARS, unit="years"), event=hdp.Binary()
)
AT_RISK = {1.0: 0.7, 2.0: 0.45, 3.0: 0.2}


@pytest.fixture(scope="module")
def side():
    rng = np.random.default_rng(3)
    arm = (np.arange(N) % 3 == 0).astype(float)
    time = np.minimum(rng.exponential(4.0, N), rng.uniform(0.1, 6.0, N))
    frame = pd.DataFrame(
        {
            "x": rng.normal(0, 1, N),
            "arm": arm,
            "time": np.minimum(time, YEARS),
            "event": (time < YEARS) * (rng.random(N) < 0.6) * 1.0,
        }
    )
    study = hdp.Study(private=None, public=frame, schema=SCHEMA)
    model = hdp.DiscreteHazard.from_formula(
        "Surv(time, event) ~ x + arm", data=study, intervals=list(range(1, YEARS + 1)), baseline="dummies"
    )
    spec = model._spec
    assert isinstance(spec, HazardSpec)
    public = spec.public
    return public.at(at_radius(public.geometry, 2.0), relative_cap(public, total=5.0, margin=1.2))


def known(side, at_risk):
    x, arm = side.variables.table.numeric["x"], side.variables.table.numeric["arm"]
    box = {"variable": "x", "noise_sd": 0.0, "lower": -4.0, "upper": 4.0}
    return CohortMoments(
        people=1000.0,
        people_sd=0.0,
        release_sha256="7" * 64,
        moments=(
            CohortMoment(variable="arm", what=MomentKind.SHARE, value=float(arm.mean()), noise_sd=0.0, level=1),
            CohortMoment(what=MomentKind.MEAN, value=float(x.mean()), **box),
            CohortMoment(what=MomentKind.SQUARE, value=float((x**2).mean()), **box),
            *(
                CohortMoment(variable="time", what=MomentKind.AT_RISK, value=share, noise_sd=0.0, time=time)
                for time, share in at_risk.items()
            ),
        ),
    )


def moments(side, at_risk):
    found = raked_information(side, known(side, at_risk), records=1000, records_sd=0.0)
    return found.at(side.centre)


@pytest.mark.wide
def test_people_like_the_public_ones_have_their_moments(side):
    rows = side.rows
    at_risk = {float(s): float(np.mean(rows.exit > s)) for s in range(1, YEARS)}
    found, public = moments(side, at_risk), side.moments(side.centre, records=1000)
    assert np.allclose(found.H, public.H, atol=0.06 * np.linalg.norm(public.H))
    assert np.allclose(found.J, public.J, atol=0.06 * np.linalg.norm(public.J))
    without = moments(side, {})  # as public people are followed
    assert np.allclose(without.H, public.H, atol=0.08 * np.linalg.norm(public.H))


def test_curvature_of_an_interval_is_in_proportion_to_the_share_at_risk(side):
    whole = moments(side, AT_RISK)
    A = side.spells.A
    fewer = moments(side, AT_RISK | {3.0: 0.1})
    of_interval = np.linalg.solve(A, np.eye(YEARS)).T  # the directions of single intervals
    H, few = (each.H[:YEARS, :YEARS] - 0.1 * np.eye(YEARS) for each in (whole, fewer))
    ratio = [(v @ few @ v) / (v @ H @ v) for v in of_interval]
    assert np.allclose(ratio, [1.0, 1.0, 1.0, 0.5], atol=1e-6)


def test_shares_between_known_times_lie_on_lines_and_never_grow(side):
    people = raked_information(side, known(side, {1.0: 0.5, 3.0: 0.7}), records=10, records_sd=0.0).averaged[0].raked
    assert np.allclose(people.at_risk_at(np.array([0.0, 0.5, 1.0, 2.0, 5.0]))[0], [1.0, 0.75, 0.5, 0.5, 0.5])
    assert np.all(np.diff(people.at_risk, axis=1) <= 0)


def test_the_direct_sum_over_people_and_intervals(side):
    """With the shrinkage of few people undone, H is the sum by definition."""
    theta = side.centre + 0.1
    people = raked_information(side, known(side, AT_RISK), records=1000, records_sd=0.0).averaged[0].raked
    one = replace(people, weights=people.weights[:1], X=people.X[:1], at_risk=people.at_risk[:1])
    found = side.raked_moments(theta, records=1000, people=side.whitened(one)).H[0]
    spells, e, share = side.spells, YEARS, [1.0, *AT_RISK.values()]
    alive, H = np.ones(N), np.zeros_like(found)
    for s in range(YEARS):
        eta = spells.A[s] @ theta[:e] + spells.Z @ theta[e:]
        caps = np.column_stack([spells.log_caps(slice(0, N), slice(0, YEARS), 0)])
        inside = np.cumsum(np.exp(caps), axis=1)[:, s] <= spells.total
        cells, p = spells.loss.cells(eta, caps[:, s]), spells.loss.hazard(eta)
        curvature = (1 - p) * cells.survived_curvature + p * cells.event_curvature
        reached = min(share[s] / alive.mean(), 1.0)
        x = np.column_stack([np.tile(spells.A[s], (N, 1)), spells.Z])
        H += 1000 / N * x.T @ ((side.spells.weights * reached * alive * inside * curvature)[:, None] * x)
        alive = alive * (1 - p)
    assert np.allclose(found[:e, :e], H[:e, :e] + 0.1 * np.eye(e), rtol=1e-6)
    assert np.linalg.norm(found - H) < 0.05 * np.linalg.norm(H)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_compiled_sums_are_those_cell_by_cell(side, link, monkeypatch):
    """With two causes, caps that end follow-up and more people than are handled at a time."""
    rng = np.random.default_rng(5)
    spells = replace(
        side.spells,
        loss=LINKS[link],
        cap_baseline=rng.normal(-1.0, 1.0, (2, YEARS)),
        cap_slopes=0.3 * np.ones((2, 2)),
        margin=0.5,
        total=2.0,
    )
    theta, people = rng.normal(-0.5, 1.0, 2 * spells.block), np.stack([side.spells.Z, 2.0 * side.spells.Z])
    of_sums = {
        "share": rng.dirichlet(np.ones(N), 2),
        "counted": rng.uniform(0.0, 1.0, (2, 2, N)),
        "reached": Reached(at_risk=np.array([[1.0, 0.7, 0.4, 0.3], [1.0, 0.9, 0.2, 0.1]])),
    }
    on = raked.raked_spells(spells, people)
    plain = raked._plain_sums(on, theta, **of_sums)
    assert 0.2 < np.mean(plain[0][0].people[:, -1] > 0.0) < 0.98  # the cap ends follow-up of the others at once
    monkeypatch.setattr(raked, "_plain_sums", None)
    for cause, both in enumerate(raked._sums(on, theta, **of_sums)):
        for found, wanted in zip(both, plain[cause], strict=True):
            assert np.allclose(found.intervals, wanted.intervals, rtol=1e-10)
            assert np.allclose(found.people, wanted.people, rtol=1e-10, atol=1e-12)


def test_memory_that_nobody_has_written_to_is_not_read(side, monkeypatch):
    """Whatever it held before: a signalling NaN makes a warning, which only some runs would show."""
    fresh = np.empty

    def unwritten(*arguments, **named):
        array = fresh(*arguments, **named)
        if array.dtype == np.float64:
            array.view(np.int64)[...] = 0x7FF0000000000001
        return array

    monkeypatch.setattr(np, "empty", unwritten)
    assert np.all(
        np.isfinite(raked_information(side, known(side, AT_RISK), records=1000, records_sd=0.0).at(side.centre).H)
    )


def people_of(side, cohort):
    (people,) = raked_information(side, cohort, records=1000, records_sd=0.0).averaged[:1]
    return people


def test_people_who_are_as_public_ones_stand_for_them(side):
    same = side.as_raked(people_of(side, known(side, {})))
    ours, theirs = side.moments(side.centre, records=1000.0), same.moments(side.centre, records=1000.0)
    assert pytest.approx(ours.H, rel=1e-4, abs=1e-2) == theirs.H
    assert pytest.approx(ours.J, rel=1e-4, abs=1e-2) == theirs.J


def test_people_who_spread_more_are_weighed_down_more_and_more_is_allowed_for(side):
    cohort = known(side, {})
    wide = replace(
        cohort,
        moments=tuple(replace(m, value=2.0 * m.value) if m.what is MomentKind.SQUARE else m for m in cohort.moments),
    )
    people = people_of(side, wide)
    found = side.as_raked(people)
    assert np.allclose(found.spells.Z, people.z[0])
    assert found.rows.weights == pytest.approx(side.rows.weights * people.weights[0] * N)
    assert np.all(found.spells.weights <= found.rows.weights * people.mallows[0] * (1 + 1e-12))
    assert np.mean(found.spells.weights) < 0.97 * np.mean(side.spells.weights)

    model = SimpleNamespace(geometry=side.geometry, cap=side.cap)

    def told(of):
        return allowance(model, of, apart=0.225)

    alike, unlike = told(side), with_described(side, [(1000, wide)], allowance=told)
    slopes = np.ix_(side.covariates, side.covariates)
    assert unlike.share > 1.1 * alike.share
    assert np.trace(unlike.covariance[slopes]) > 1.2 * np.trace(alike.covariance[slopes])
