"""Coefficients as a plot."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hdpstats._base.errors import ArgumentError, HdpError


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


def test_without_matplotlib_the_error_names_the_extra(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HdpError, match=r"pip install 'hdpstats\[plot\]'"):
        result.plot_coefficients()


def test_importing_results_does_not_import_matplotlib():
    check = "import sys, hdpstats.results; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
