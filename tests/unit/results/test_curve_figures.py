"""Figures of survival curves: steps, bands, numbers at risk, the unit of time."""

import itertools

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.results.time_axis import time_axis
from tests import known_noise

SCHEMA = hdp.Schema(
    time=hdp.Duration(3000, unit="days"),
    event=hdp.Categorical(["none", "relapse", "death"]),
    arm=hdp.Categorical(["A", "B"]),
)
TIMES = [365.25, 730.5, 1461.0, 2922.0]


def rows(n, seed):
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, n)
    time, censored = rng.exponential(1500 / (1 + arm), n), rng.uniform(800, 4000, n)
    event = np.where(time <= censored, rng.choice(["relapse", "death"], n), "none")
    return pd.DataFrame({"time": np.minimum(time, censored), "event": event, "arm": np.array(["A", "B"])[arm]})


@pytest.fixture
def curves(monkeypatch):
    known_noise.counts(monkeypatch, 3)
    study = hdp.Study(private=rows(600, 1), public=rows(200, 2), schema=SCHEMA, budget=hdp.Budget(epsilon=3))
    return hdpf.survfit("Surv(time, event) ~ arm", study, times=TIMES).fit(epsilon=1)


def axes():
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def texts(ax):
    return [each.get_text() for each in ax.texts]


def test_steps_bands_and_numbers_at_risk_are_those_of_the_tables(curves):
    ax = curves.plot(axes())
    table, one = curves.tidy(), ax.get_lines()[0]
    own = table[(table["group"] == "A") & (table["cause"] == "(event-free)")]
    assert one.get_drawstyle() == "steps-post"
    np.testing.assert_allclose(one.get_ydata()[1:5], own["estimate"])
    np.testing.assert_allclose(one.get_xdata()[1:5], TIMES)
    assert len(ax.collections) == 2
    assert ax.get_xlabel() == "time (years)"
    assert [each.get_text() for each in ax.get_xticklabels()] == [str(k) for k in range(9)]
    shown = texts(ax)
    assert "Number at risk (noisy)" in shown
    first = shown.index("arm = A")
    at_risk = curves.at([0, 365.25, 730.5])
    expected = at_risk.loc[(at_risk["group"] == "A") & (at_risk["cause"] == "(event-free)"), "at_risk"]
    assert shown[first + 1 : first + 4] == [f"{each:.0f}" for each in expected]
    assert any(each.startswith("log-rank p") for each in shown)
    ax.figure.canvas.draw()


def test_what_is_switched_off_is_not_drawn(curves):
    ax = curves.plot(axes(), ci=False, at_risk=False, median=False, p=False, labels=["one", "two"])
    assert (len(ax.collections), texts(ax), len(ax.get_lines())) == (0, [], 2)
    assert [each.get_text() for each in ax.get_legend().get_texts()] == ["one", "two"]


def test_public_curves_stand_beside_private_ones(curves):
    labels = [line.get_label() for line in curves.plot(axes(), public=True, join="smooth").get_lines()]
    assert {"arm = A", "arm = B", "public"} <= set(labels)


def test_incidence_has_lines_of_causes_and_colours_of_groups(curves):
    ax = curves.plot_incidence(axes(), at_risk=False)
    styles = {(line.get_color(), line.get_linestyle()) for line in ax.get_lines()}
    assert len(styles) == 4
    assert len(curves.plot_incidence(axes(), causes="death").get_lines()) == 2
    with pytest.raises(hdp.ArgumentError, match="causes"):
        curves.plot_incidence(axes(), causes="cure")


def test_a_dark_style_is_written_in_light(curves):
    with matplotlib.rc_context({"text.color": "white", "figure.facecolor": "black"}):
        ax = curves.plot()
    assert ax.get_lines()[0].get_color() == "#ffffff"
    assert ax.figure.get_facecolor()[:3] == (0.0, 0.0, 0.0)
    matplotlib.pyplot.close(ax.figure)


def test_errors_name_the_argument(curves):
    for options, argument in (
        ({"labels": ["one"]}, "labels"), ({"join": "spline"}, "join"), ({"time_unit": "hours"}, "time_unit"),
    ):  # fmt: skip
        with pytest.raises(hdp.ArgumentError, match=argument):
            curves.plot(axes(), **options)


@pytest.mark.parametrize(
    ("end", "declared", "shown", "unit", "last"),
    [
        (2557, "days", None, "years", "7"),
        (2557, "day", "months", "months", "84"),
        (84, "months", None, "years", "7"),
        (10, "weeks", None, "months", "2"),
        (1.5, "years", None, "years", "1.4"),
        (300, "visits", None, "visits", "300"),
    ],
)
def test_time_is_shown_in_the_unit_that_fits(end, declared, shown, unit, last):
    axis = time_axis(end, declared, shown)
    assert (axis.unit, axis.labels[-1]) == (unit, last)
    assert 3 <= len(axis.ticks) <= 9


def test_narrow_figures_have_fewer_ticks_whose_numbers_do_not_touch(curves):
    figure = Figure(figsize=(3.3, 3.0), layout="constrained")
    FigureCanvasAgg(figure)
    ax = curves.plot(figure.subplots())
    figure.draw_without_rendering()
    numbers = [each for each in ax.texts if each.get_text().isdigit()]
    boxes = sorted((each.get_window_extent() for each in numbers), key=lambda box: (round(box.y0), box.x0))
    for left, right in itertools.pairwise(boxes):
        assert left.y0 != pytest.approx(right.y0) or left.x1 < right.x0
    assert ax.get_legend().get_texts()[0].get_size() < 8


def test_figures_of_groups_that_are_not_shown_say_so(monkeypatch):
    known_noise.counts(monkeypatch, 3)
    study = hdp.Study(private=rows(30, 1), schema=SCHEMA, budget=hdp.Budget(epsilon=3))
    hidden = hdpf.survfit("Surv(time, event) ~ arm", study, times=TIMES).fit(epsilon=0.1)
    for ax in (hidden.plot(axes()), hidden.plot(axes(), join="smooth"), hidden.plot_incidence(axes())):
        assert "N/A: too few people for the noise" in texts(ax)
        assert ax.get_legend() is None
