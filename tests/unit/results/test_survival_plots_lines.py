"""Figures of survival curves: lines, bands, numbers at risk, the unit of time."""

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


def line_of(ax, label):
    return next(line for line in ax.get_lines() if line.get_label() == label)


def height_of(line, times):
    """What a reader sees at times: matplotlib joins points by straight lines."""
    assert line.get_drawstyle() == "default"
    return np.interp(times, line.get_xdata(), line.get_ydata())


def event_free(table, group):
    return table[(table["group"] == group) & (table["cause"] == "(event-free)")]


def edges_of(band, times):
    """The lowest and highest value of a band where its outline has a corner at these times."""
    corners = pd.DataFrame(band.get_paths()[0].vertices, columns=["time", "value"]).groupby("time")["value"]
    return corners.min()[times].to_numpy(), corners.max()[times].to_numpy()


def test_lines_bands_points_and_numbers_at_risk_are_those_of_the_tables(curves):
    ax = curves.plot(axes())
    asked = [100.0, 365.0, 365.25, 500.0, 1000.0, 1461.0, 2000.0, 2922.0]
    table, at_any_time = curves.tidy(), curves.at(asked)
    for group, band, container in zip("AB", ax.collections[::2], ax.containers, strict=False):
        own, between = event_free(table, group), event_free(at_any_time, group)
        line = line_of(ax, f"arm = {group}")
        np.testing.assert_allclose(height_of(line, asked), between["estimate"], rtol=1e-4)
        np.testing.assert_allclose(height_of(line, TIMES), own["estimate"], rtol=1e-12)
        low, high = edges_of(band, TIMES)
        np.testing.assert_allclose(low, own["conf_low"], rtol=1e-12)
        np.testing.assert_allclose(high, own["conf_high"], rtol=1e-12)
        np.testing.assert_array_equal(container.lines[0].get_xdata(), TIMES)
        np.testing.assert_allclose(container.lines[0].get_ydata(), own["estimate"], rtol=1e-12)
        bars = np.array(container.lines[2][0].get_segments())[:, :, 1]
        np.testing.assert_allclose(bars, own[["conf_low", "conf_high"]], rtol=1e-12)
    assert ax.get_xlabel() == "time (years)"
    assert [each.get_text() for each in ax.get_xticklabels()] == [str(k) for k in range(9)]
    shown = texts(ax)
    assert "Number at risk (noisy)" in shown
    first = shown.index("arm = A")
    expected = event_free(curves.at([0, 365.25, 730.5]), "A")["at_risk"]
    assert shown[first + 1 : first + 4] == [f"{each:.0f}" for each in expected]
    assert any(each.startswith("log-rank p") for each in shown)
    ax.figure.canvas.draw()


def test_the_line_of_a_median_meets_its_curve(curves):
    ax, found = curves.plot(axes()), curves.median().set_index("group")["estimate"]
    upright = {
        line.get_color(): list(line.get_xdata()) for line in ax.get_lines() if list(line.get_ydata()) == [0.0, 0.5]
    }
    assert np.isfinite(found).any()
    for group, median in found[np.isfinite(found)].items():
        line = line_of(ax, f"arm = {group}")
        assert upright[line.get_color()] == [median, median]
        assert height_of(line, median) == pytest.approx(0.5, abs=1e-4)


def test_drawn_incidence_is_that_of_the_tables_and_adds_up_with_survival(curves):
    asked = [100.0, 365.25, 1000.0, 2922.0]
    ax, table = curves.plot_incidence(axes()), curves.at(asked)
    for group in "AB":
        for cause in ("relapse", "death"):
            own = table[(table["group"] == group) & (table["cause"] == cause)]
            line = line_of(ax, f"arm = {group}, {cause}")
            np.testing.assert_allclose(height_of(line, asked), own["estimate"], rtol=1e-4)
        share = table[(table["group"] == group) & (table["time"] < 1500)].groupby("time")["estimate"].sum()
        np.testing.assert_allclose(share, 1.0, atol=0.02)


def test_public_curves_are_drawn_as_steps_at_their_events(curves):
    ax = curves.plot(axes(), public=True)
    line = line_of(ax, "public")
    assert line.get_drawstyle() == "steps-post"
    expected = event_free(curves.at(line.get_xdata(), source="public"), "A")["estimate"]
    np.testing.assert_allclose(line.get_ydata(), expected)


def test_what_is_switched_off_is_not_drawn(curves):
    ax = curves.plot(axes(), ci=False, at_risk=False, median=False, p=False, labels=["one", "two"])
    assert (len(ax.collections), texts(ax), len(ax.get_lines())) == (0, [], 4)  # lines and points
    assert [each.get_text() for each in ax.get_legend().get_texts()] == ["one", "two"]


def test_public_curves_stand_beside_private_ones(curves):
    labels = [line.get_label() for line in curves.plot(axes(), public=True).get_lines()]
    assert {"arm = A", "arm = B", "public"} <= set(labels)


def test_incidence_has_lines_of_causes_and_colours_of_groups(curves):
    ax = curves.plot_incidence(axes(), at_risk=False)
    lines = [line for line in ax.get_lines() if line.get_label().startswith("arm = ")]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 4
    assert [text.get_text() for text in curves.plot_incidence(axes(), causes="death").get_legend().get_texts()] == [
        "arm = A", "arm = B",
    ]  # fmt: skip
    with pytest.raises(hdp.ArgumentError, match="causes"):
        curves.plot_incidence(axes(), causes="cure")


def test_a_dark_style_is_written_in_light(curves):
    with matplotlib.rc_context({"text.color": "white", "figure.facecolor": "black"}):
        ax = curves.plot()
    assert ax.get_lines()[0].get_color() == "#56B4E9"
    assert ax.figure.get_facecolor()[:3] == (0.0, 0.0, 0.0)
    matplotlib.pyplot.close(ax.figure)


def test_errors_name_the_argument(curves):
    for options, argument in (
        ({"labels": ["one"]}, "labels"), ({"time_unit": "hours"}, "time_unit"),
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
        (1.5, "years", None, "years", "1.5"),
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
    for ax in (hidden.plot(axes()), hidden.plot_incidence(axes())):
        assert "N/A: too few people for the noise" in texts(ax)
        assert ax.get_legend() is None


@pytest.fixture
def many(monkeypatch):
    """Curves of nine groups."""
    known_noise.counts(monkeypatch, 3)
    schema = hdp.Schema({**SCHEMA, "arm": hdp.Categorical(list("ABCDEFGHI"), label="Treatment")})
    people = [
        pd.concat([rows(n, seed + k).assign(arm=arm) for k, arm in enumerate(schema["arm"].levels)])
        for n, seed in ((150, 10), (60, 50))
    ]
    study = hdp.Study(private=people[0], public=people[1], schema=schema, budget=hdp.Budget(epsilon=9))
    return hdpf.survfit("Surv(time, event) ~ arm", study, times=TIMES).fit(epsilon=5)


@pytest.mark.wide
def test_more_lines_than_colours_have_a_panel_for_each_group(many):
    figure = many.plot(public=True).figure
    panels = figure.axes
    assert [panel.get_title(loc="left") for panel in panels] == [f"Treatment = {arm}" for arm in "ABCDEFGHI"]
    table, numbers = many.tidy(), many.at([0, 730.5])
    for arm, panel in zip("ABCDEFGHI", panels, strict=True):
        own = event_free(table, arm)
        line = line_of(panel, f"Treatment = {arm}")
        assert height_of(line, own["time"]) == pytest.approx(own["estimate"].to_numpy(), abs=1e-12)
        at_risk = event_free(numbers, arm)["at_risk"].to_numpy()
        assert f"{at_risk[0]:.0f}" in texts(panel)
        assert panel.get_legend() is None
        assert panel.get_ylim() == (0.0, 1.02)
    assert [bool(panel.get_ylabel()) for panel in panels] == [True, False, False] * 3
    assert "log-rank" in figure.get_suptitle()
    figure.draw_without_rendering()
    matplotlib.pyplot.close(figure)


def test_incidence_of_many_groups_has_colours_of_causes(many):
    figure = many.plot_incidence().figure
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["relapse", "death"]
    drawn = many.drawn("death")
    for arm, panel in zip("ABCDEFGHI", figure.axes, strict=True):
        line, own = line_of(panel, "death"), drawn[drawn["group"] == arm]
        assert line.get_ydata() == pytest.approx(own["estimate"].to_numpy(), abs=1e-12)
        assert line.get_color() == line_of(figure.axes[0], "death").get_color() != line_of(panel, "relapse").get_color()
    matplotlib.pyplot.close(figure)


def test_panels_need_a_figure_of_their_own(many):
    with pytest.raises(hdp.ArgumentError, match="ax is one panel"):
        many.plot(axes())


def test_rows_of_a_model_have_panels():
    people = rows(200, 1)
    people["event"] = (people["event"] != "none").astype(float)
    study = hdp.Study(public=people, schema=hdp.Schema({**SCHEMA, "event": hdp.Binary()}))
    fit = hdpf.hazard("Surv(time, event) ~ arm", data=study, intervals=4).fit_public()
    frame = pd.DataFrame({"arm": ["A", "B"] * 4}, index=[f"person {k}" for k in range(8)])
    figure = fit.plot_survival(frame).figure
    expected = fit.predict_survival(frame, times=[1500.0])["survival"]
    for name, panel, value in zip(frame.index, figure.axes, expected, strict=True):
        assert panel.get_title(loc="left") == name
        assert height_of(line_of(panel, name), [1500.0]) == pytest.approx([value], abs=1e-4)
    matplotlib.pyplot.close(figure)
