"""What is said of errors that rest on public rows as they are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.hazard import public as hazards
from hdpstats.families.regression import public as regressions
from hdpstats.models.estimates import assumed
from tests.statistical.taken_alike_studies import DESCRIBED, MODELS, PUBLIC, ROWS, made

PAGE = Path(__file__).parents[3] / "vignettes" / "validation" / "taken-alike.md"
SCHEMA = hdp.Schema(
    x=hdp.Continuous(-3, 3, complete=True),
    v=hdp.Continuous(-6, 6, complete=True),
    start=hdp.Duration(5, unit="years", complete=True),
    time=hdp.Duration(5, unit="years", complete=True),
    event=hdp.Binary(complete=True),
    s=hdp.Categorical(["a", "b"], complete=True),
    level=hdp.Categorical(["a", "b", "c"], complete=True),
)
LOGISTIC = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(0.0, eta) - y * eta,
    score=lambda eta, y: 1.0 / (1.0 + np.exp(-eta)) - y,
    lipschitz=1.0,
    smoothness=0.25,
    predictor=(-8.0, 8.0),
)
FROM_ZERO, LATE = "Surv(time, event) ~ x", "Surv(start, time, event) ~ x"
TWICE = {"unit": "who", "max_rows_per_unit": 2, "n_max": 100}


def public(n=200):
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, n)
    time = np.minimum(rng.exponential(2 * np.exp(-0.5 * x)) + 0.01, 5.0)
    columns = {"x": x, "start": 0.0, "time": time, "event": (time < 5).astype(int), "s": np.where(x > 0, "a", "b")}
    return pd.DataFrame(
        columns | {"v": x + rng.standard_normal(n), "level": rng.choice(["a", "b", "c"], n), "who": np.arange(n) // 2}
    )


def rows_in_turn():
    """Return public rows of which those of a person follow each other in time."""
    frame = public()
    first = np.arange(len(frame)) % 2 == 0
    event = np.where(first, 0, frame["event"])
    return frame.assign(start=np.where(first, 0.0, 1.0), time=np.where(first, 1.0, 3.5), event=event)


def hazard(formula, **options):
    return lambda data: hdpf.hazard(formula, data, intervals=[1, 2, 3, 5], **options)


@pytest.mark.parametrize(
    ("model", "unit", "fits"),
    [
        (
            lambda data: hdpf.mestimate("event ~ x", data, loss=LOGISTIC),
            {},
            "logistic regressions by a user's own loss",
        ),
        (lambda data: hdpf.mestimate("event ~ x", data, loss=LOGISTIC), TWICE, None),
        (lambda data: hdpf.mestimate(FROM_ZERO, data, loss=hdp.losses.Exponential()), {}, None),
        (lambda data: hdpf.linear("v ~ x", data), {}, None),
        (lambda data: hdpf.linear("v ~ x", data), TWICE, "linear regressions of people with two rows each"),
        (lambda data: hdpf.mestimate("v ~ x", data, loss=hdp.losses.Huber(1.0)), TWICE, None),
        (lambda data: hdpf.logit("event ~ x", data), {}, None),
        (lambda data: hdpf.logit("event ~ x", data), TWICE, "logistic regressions of people with two rows each"),
        (lambda data: hdpf.multinomial("level ~ x", data), {}, None),
        (lambda data: hdpf.multinomial("level ~ x", data), TWICE, None),
        (hazard(FROM_ZERO), {}, None),
        (hazard(f"{FROM_ZERO} + strata(s)"), {}, "hazard models (logit) with two strata"),
        (hazard(f"{FROM_ZERO} + strata(s)", link="cloglog"), {}, "hazard models (cloglog) with two strata"),
        (hazard(f"{FROM_ZERO} + strata(s)", link="probit"), {}, None),
        (hazard(LATE), {}, "hazard models (logit) with late entry"),
        (hazard(LATE, link="cloglog"), {}, "hazard models (cloglog) with late entry"),
        (hazard(f"{LATE} + strata(s)"), {}, None),
        (hazard(LATE), TWICE, "hazard models (logit) with a covariate that changes"),
        (hazard(LATE, link="cloglog"), TWICE, "hazard models (cloglog) with a covariate that changes"),
        (hazard(f"{LATE} + strata(s)"), TWICE, None),
        (hazard("Surv(time, level) ~ x + strata(s)"), {}, None),
    ],
)
def test_of_fits_that_were_simulated_it_is_said_what_was_covered_and_of_no_others(model, unit, fits):
    rows = rows_in_turn() if unit else public().drop(columns="who")
    side = model(hdp.Study(public=rows, schema=SCHEMA, **unit))._spec.public_side
    said = assumed(side)
    assert said.startswith("Standard errors take private covariates")
    if fits is None:
        assert side.covered_unlike is None
        assert said.endswith("to be distributed as the public ones.")
        return
    assert f"In simulations of {fits} ({ROWS:,} private and {PUBLIC} public people, epsilon 1)" in said
    assert side.covered_unlike.besides + " and a level of 10 %" in said
    assert said.endswith(f"95 % intervals covered about {100 * side.covered_unlike.share:.0f} % of the slopes.")


def test_without_public_rows_nothing_is_assumed():
    assert assumed(None) == ""


def test_what_is_said_is_on_the_page_of_the_study_and_every_figure_was_measured():
    table = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    measured = {cells[0]: float(cells[4]) for cells in table[2:]}
    said = {name: made(0, name).model._spec.public_side.covered_unlike for name in MODELS}
    assert {name: each.share for name, each in said.items()} == measured
    figures = [*regressions.COVERED.values(), *regressions.COVERED_SEVERAL.values(), *hazards.COVERED.values()]
    assert {each.fits for each in said.values()} == {each.fits for each in figures}
    assert len(said) == len(figures)


@pytest.mark.parametrize("name", DESCRIBED)
def test_fits_that_describe_their_people_do_not_say_it_but_where_they_are_told_not_to(name):
    model = made(0, name).model
    own, declined = (
        " ".join(str(model.fit(epsilon=1.0, describe=describe).summary()).split()) for describe in (True, False)
    )
    said = assumed(model._spec.public_side)
    assert "In simulations of" not in own
    assert said in declined
