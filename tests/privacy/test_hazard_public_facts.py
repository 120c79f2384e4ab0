"""Everything about a hazard model but the noisy numbers is fixed without a private row."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

HORIZON = 1000.0
SCHEMA = hdp.Schema(
    time=hdp.Duration(HORIZON, unit="days", complete=True),
    event=hdp.Binary(complete=True),
    x=hdp.Continuous(-2, 2, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    w=hdp.Weight(max=3, complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)


def people(rows, *, seed, longest=HORIZON, event=0.5, spread=1.0):
    """Return people whose follow-up is at most ``longest``."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "time": rng.uniform(1.0, longest, rows),
            "event": (rng.random(rows) < event).astype(float),
            "x": (spread * rng.normal(size=rows)).clip(-2, 2),
            "g": rng.choice(["a", "b", "c"], rows),
            "w": rng.uniform(0.0, 3.0, rows),
            "o": rng.uniform(-1.0, 1.0, rows),
        }
    )


def fitted(private, public, *, formula="Surv(time, event) ~ x + g", **options):
    """Return one fit at epsilon = 1."""
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    return hdpf.hazard(formula, data=study, **options).fit(epsilon=1, se_share=0)


@pytest.mark.covering(1)
@pytest.mark.parametrize("public", [None, 80], ids=["no public people", "public people"])
@pytest.mark.parametrize("baseline", ["spline", "dummies"])
def test_the_whole_query_is_the_same_whatever_the_private_rows(public, baseline):
    """Fails if the horizon were the private maximum, or if caps, centre, radius, ridge or levels saw a private row."""
    shown = None if public is None else people(public, seed=1)
    options = {"intervals": 6, "baseline": baseline, "weights": "w", "offset": "o"}
    first = fitted(people(120, seed=2), shown, **options)
    short = fitted(people(120, seed=3, longest=50.0, event=0.9, spread=9.0).assign(g="a", w=0.0), shown, **options)
    beyond = fitted(people(120, seed=4).assign(time=1e9, event=1.0), shown, **options)
    for other in (short, beyond):
        assert other.query == first.query
        assert other.facts == first.facts
        assert (other.release.grid, other.release.noise_rate) == (first.release.grid, first.release.noise_rate)
        assert other.release.events == first.release.events
    assert first.query.model.grid.horizon == HORIZON


def test_the_unit_of_time_changes_nothing_that_a_person_can_move():
    """Fails if features were times themselves: days would then weigh 365 times as much as years."""
    public, private = people(80, seed=5), people(100, seed=6)
    days = fitted(private, public, intervals=8)

    def in_years(frame):
        return frame.assign(time=frame["time"] / 365.0)

    schema = hdp.Schema(
        {name: SCHEMA[name] for name in SCHEMA} | {"time": hdp.Duration(HORIZON / 365.0, unit="years", complete=True)}
    )
    study = hdp.Study(private=in_years(private), public=in_years(public), schema=schema, budget=hdp.Budget(epsilon=10))
    years = hdpf.hazard("Surv(time, event) ~ x + g", data=study, intervals=8).fit(epsilon=1)
    assert years.release.noise_rate == days.release.noise_rate
    assert years.query.ridge == pytest.approx(days.query.ridge, rel=1e-6)
    assert np.max(np.linalg.norm(np.array(days.query.model.baseline), axis=1)) <= 1.0 + 2.0**-40


def test_a_private_fit_says_its_cap_and_a_public_fit_has_none():
    public = people(80, seed=7)
    result = fitted(people(100, seed=8), public, intervals=6, cap=2.0)
    assert result.query.model.cap.total == 2.0
    assert "2" in result.facts.hazard.cap
    assert "Cap:" in result.summary().as_text()
    alone = hdpf.hazard("Surv(time, event) ~ x", data=hdp.Study(public=public, schema=SCHEMA), intervals=6).fit_public()
    assert alone.facts.hazard.cap is None
