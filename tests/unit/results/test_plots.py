"""Coefficients as a plot."""

import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.results import plots
from hdpstats.results.plots import plot_differences

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def axes():
    figure = Figure(figsize=(7, 5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def drawn(ax):
    """Points and ends of the intervals, by label."""
    found = {}
    for container in ax.containers:
        points, _, (bars,) = container.lines
        ends = np.array([segment[:, 0] for segment in bars.get_segments() if len(segment) and segment.ndim == 2])
        found[container.get_label()] = (points.get_xdata(), ends)
    return found


@pytest.mark.parametrize("exponentiate", [False, True])
def test_three_estimates_side_by_side(result, exponentiate):
    ax = axes()
    assert result.plot_coefficients(ax, exponentiate=exponentiate) is ax
    scale = np.exp if exponentiate else np.asarray
    found = drawn(ax)
    assert list(found) == ["public only", "private only", "pooled"]
    for part in (result.public_only, result.private_only, result.pooled):
        points, ends = found[part.label]
        np.testing.assert_allclose(points, scale(part.values[1:]))
        np.testing.assert_allclose(ends, scale(part.conf_int(0.05).to_numpy()[1:]))
    assert [label.get_text() for label in ax.get_yticklabels()] == list(result.params.index[1:])
    assert ax.get_xscale() == ("log" if exponentiate else "linear")
    assert ("odds ratio" in ax.get_xlabel()) == exponentiate
    ax.figure.canvas.draw()


def test_one_estimate_has_no_legend(public_result):
    ax = public_result.plot_coefficients(axes())
    assert list(drawn(ax)) == ["maximum likelihood"]
    assert ax.get_legend() is None


def test_missing_standard_errors_draw_points(silent_result):
    ax = silent_result.plot_coefficients(axes())
    ax.figure.canvas.draw()
    points, ends = drawn(ax)["released"]
    assert np.isfinite(points).sum() == 3
    assert len(ends) == 0


def test_other_axes_are_refused(result):
    with pytest.raises(ArgumentError, match="ax must be matplotlib Axes"):
        result.plot_coefficients(ax="axes")


def test_without_matplotlib_the_error_says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HdpError, match="pip install matplotlib"):
        result.plot_coefficients()


def test_a_figure_has_names_numbers_and_standard_deviations(public_result):
    rows = pd.DataFrame({"age": [40.0, 60.0], "size": ["<=20", ">50"], "nodes": [0, 3], "o": [0.0, 0.0]})
    ax = public_result.plot_coefficients(labels={"age": "age in years"}, scale="sd", estimates=True, over=rows)
    assert ax.get_yticklabels()[0].get_text() == "age in years"
    assert "per standard deviation" in ax.get_xlabel()
    drawn = ax.containers[0].lines[0].get_xdata()
    assert drawn.tolist() == pytest.approx([-0.004 * 10, 0.35, 0.61, 0.82 * np.log(4) / 2])
    assert [text.get_text() for text in ax.texts][1] == "0.350 [-0.042, 0.742]"
    values = public_result.estimate.values.copy()
    values[1] = np.nan
    unknown = replace(public_result, estimate=replace(public_result.estimate, values=values))
    assert unknown.plot_coefficients(estimates=True).texts[0].get_text() == "not estimable"
    with pytest.raises(ArgumentError, match="no coefficient 'ages'"):
        public_result.plot_coefficients(labels={"ages": "age"})
    with pytest.raises(ArgumentError, match="no public rows at hand"):
        public_result.plot_coefficients(scale="sd")


def test_the_axis_label_of_differences_is_within_the_figure():
    table = pd.DataFrame(
        {"variable": ["a long name of a variable"], "level": None, "group": None, "difference": 0.1, "conf_low": 0.0,
         "conf_high": 0.2}
    )  # fmt: skip
    ax = plot_differences(table, by=None, label="private (estimated) minus public mean", ax=None)
    ax.figure.canvas.draw()
    box, whole = ax.xaxis.label.get_window_extent(), ax.figure.bbox
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1


def test_calibration_of_another_model_says_what_to_ask(public_result):
    with pytest.raises(ArgumentError, match=r"this is a Logit model: model\.evaluate"):
        public_result.plot_calibration()


def test_chosen_terms_are_drawn_in_their_order(public_result):
    ax = public_result.plot_coefficients(axes(), terms=["log1p(nodes)", "age"])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["log1p(nodes)", "age"]
    with pytest.raises(ArgumentError, match="term must be one of"):
        public_result.plot_coefficients(axes(), terms=["ages"])


def drawn_colours(axes):
    return [to_hex(part.lines[0].get_color()) for part in axes.containers]


def test_series_follow_the_style_in_light_and_dark(result):
    assert drawn_colours(result.plot_coefficients(estimates=True)) == ["#0072b2", "#d55e00", "#009e73"]
    with plt.style.context("dark_background"):
        axes = result.plot_coefficients(estimates=True)
        assert drawn_colours(axes) == ["#56b4e9", "#e69f00", "#009e73"]
        assert {to_hex(text.get_color()) for text in axes.texts} == {"#56b4e9", "#e69f00", "#009e73"}


@pytest.mark.wide
def test_written_estimates_never_overlap_however_many_there_are(result):
    many = tuple(f"x{k}" for k in range(25))

    def longer(estimate):
        k = len(many)
        return replace(
            estimate, terms=many, values=np.linspace(-1, 1, k), sampling=np.eye(k), privacy=np.zeros((k, k)),
            distribution=None,
        )  # fmt: skip

    parts = {name: longer(getattr(result, name)) for name in ("estimate", "public_only", "private_only", "pooled")}
    axes = replace(result, **parts).plot_coefficients(estimates=True)
    figure = axes.figure
    figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == 75
    assert all(lower.y1 <= upper.y0 for lower, upper in pairwise(boxes))
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


def test_long_labels_are_wrapped_and_stay_apart(result):
    label = "Tumour size at the first operation above 50 mm (against 20 mm or less, by the pathologist's report)"
    axes = result.plot_coefficients(labels={"size[T.>50]": label, "size[T.20-50]": label})
    texts = axes.get_yticklabels()
    wrapped = next(text.get_text() for text in texts if text.get_text().startswith("Tumour"))
    assert " ".join(wrapped.split()) == label
    assert max(map(len, wrapped.splitlines())) <= 36
    axes.figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.y0)
    assert all(lower.y1 <= upper.y0 for lower, upper in pairwise(boxes))


def test_intercepts_of_levels_are_left_out(result):
    terms = ("20-50:Intercept", "20-50:age", ">50:Intercept", ">50:age", ">50:nodes")
    parts = {name: replace(getattr(result, name), terms=terms) for name in ("estimate", "public_only", "private_only")}
    made = replace(result, **parts, pooled=None)
    shown = [text.get_text() for text in made.plot_coefficients(terms=list(terms)).get_yticklabels()]
    assert shown == ["20-50:age", ">50:age", ">50:nodes"]


def test_ticks_of_ratios_are_plain_numbers():
    axes = plt.figure().add_subplot()
    axes.plot([1e-5, 200.0], [0, 1])
    plots.ratio_axis(axes)
    axes.set_xlim(1e-5, 200.0)
    axes.figure.canvas.draw()
    assert {"0.00001", "0.01", "1", "100"} <= {text.get_text() for text in axes.get_xticklabels()}
