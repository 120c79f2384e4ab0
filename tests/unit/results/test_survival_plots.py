"""Curves, hazards and calibration as plots."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from hdpstats._base.errors import ArgumentError
from hdpstats.public.follow_up import Concordance, PublicCheck
from hdpstats.results import DeferredCheck
from hdpstats.results.plots import COLOURS

CUTS = [1.0, 2.5, 4.0, 10.0]
WHO = pd.DataFrame({"age": [40.0, 70.0], "size": ["<=20", ">50"]}, index=["young", "old"])


def axes():
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def band(collection):
    """The lowest and highest value of a band at each of its times."""
    corners = pd.DataFrame(collection.get_paths()[0].vertices, columns=["time", "value"])
    return corners["time"].unique(), corners.groupby("time")["value"].agg(["min", "max"])


def test_survival_curves_are_the_predictions(hazard):
    result = hazard(noise=0.5)
    ax = axes()
    assert result.plot_survival(WHO, ax) is ax
    asked = [0.0, 0.4, 1.0, 2.0, 2.5, 4.0, 7.3, 10.0]
    table = result.predict_survival(WHO, asked)
    for line, label, colour in zip(ax.get_lines(), WHO.index, COLOURS, strict=False):
        part = table[table["row"] == label]
        assert line.get_label() == label
        assert line.get_drawstyle() == "default"
        assert to_hex(line.get_color()) == colour.lower()
        np.testing.assert_allclose(np.interp(asked, line.get_xdata(), line.get_ydata()), part["survival"], rtol=1e-5)
    for collection, label in zip(ax.collections, WHO.index, strict=True):
        part = table[table["row"] == label].set_index("time")
        ends = band(collection)[1].loc[[1.0, 2.5, 4.0, 10.0]]
        np.testing.assert_allclose(ends["min"], part.loc[ends.index, "conf_low"], rtol=1e-12)
        np.testing.assert_allclose(ends["max"], part.loc[ends.index, "conf_high"], rtol=1e-12)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["young", "old"]
    assert ax.get_xlabel() == "time (years)"
    assert ax.get_xlim() == (0.0, 10.0)
    ax.figure.canvas.draw()


def test_without_bands(hazard):
    result = hazard()
    unknown = replace(result, estimate=replace(result.estimate, sampling=np.full((5, 5), np.nan)))
    for one, ci in ((result, False), (unknown, True)):
        for ax in (one.plot_survival(WHO, axes(), ci=ci), one.plot_hazard(axes(), ci=ci)):
            assert len(ax.collections) == 0
            assert len(ax.get_lines()) > 0
            ax.figure.canvas.draw()


def test_labels_name_the_rows(hazard):
    ax = hazard().plot_survival(WHO, axes(), labels=["A", "B"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A", "B"]
    for labels in (["A"], "AB"):
        with pytest.raises(ArgumentError, match="labels"):
            hazard().plot_survival(WHO, axes(), labels=labels)


def test_one_row_has_no_legend_and_typical_covariates_are_named(hazard):
    assert hazard().plot_survival(WHO.iloc[[0]], axes()).get_legend() is None
    ax = hazard(typical=(55.0, 0.0, 1.0)).plot_survival(ax=axes())
    assert ax.get_title(loc="left") == "at typical covariates"
    row = pd.DataFrame({"age": [55.0], "size": [">50"]})
    line = ax.get_lines()[0]
    expected = hazard().predict_survival(row, line.get_xdata(), ci=False)["survival"]
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert hazard().plot_survival(ax=axes()).get_title(loc="left") == "at all covariates 0"


def test_too_many_or_no_rows_are_refused(hazard):
    for rows in (0, 31):
        frame = pd.DataFrame({"age": np.full(rows, 50.0), "size": ["<=20"] * rows})
        with pytest.raises(ArgumentError, match="1 to 30 rows"):
            hazard().plot_survival(frame, axes())


@pytest.mark.parametrize("causes", [("event",), ("relapse", "death")])
def test_hazards_are_those_of_the_table(hazard, causes):
    result = hazard("logit", causes)
    ax = result.plot_hazard(axes())
    table = result.baseline_hazard()
    for k, line in enumerate(ax.get_lines()):
        part = table if len(causes) == 1 else table[table["cause"] == causes[k]]
        np.testing.assert_array_equal(line.get_xdata(), [0.0, *CUTS])
        np.testing.assert_allclose(line.get_ydata(), [*part["hazard"], part["hazard"].iloc[-1]])
        ends = band(ax.collections[k])[1]
        assert ends["min"].min() == pytest.approx(part["conf_low"].min())
        assert ends["max"].max() == pytest.approx(part["conf_high"].max())
    assert len(ax.get_lines()) == len(causes)
    assert (ax.get_legend() is None) == (len(causes) == 1)
    ax.figure.canvas.draw()


def test_hazards_elsewhere(hazard):
    result = hazard()
    ax = result.plot_hazard(axes(), at=WHO.iloc[[1]])
    expected = result.baseline_hazard(at=WHO.iloc[[1]])["hazard"]
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata()[:-1], expected)
    with pytest.raises(ArgumentError, match="one row"):
        result.plot_hazard(axes(), at=WHO)


def test_a_wide_band_does_not_flatten_the_hazards(hazard):
    ax = hazard(noise=1000.0).plot_hazard(axes())
    assert ax.get_ylim()[1] == pytest.approx(1.08 * 4.0 * np.max(ax.get_lines()[0].get_ydata()))


def checked(causes=("event",), observed=(0.1, 0.3, np.nan)):
    rows = [
        (cause, time, group, 100, 0.12 * group, value, value - 0.05, value + 0.08)
        for cause in causes
        for time in (2.5, 1278.0)
        for group, value in enumerate(observed, start=1)
    ]
    names = ["cause", "time", "group", "rows", "predicted", "observed", "conf_low", "conf_high"]
    return PublicCheck(
        rows=300,
        causes=causes,
        concordance=(Concordance(value=0.7, std_error=0.02, pairs=10.0),) * len(causes),
        scores=pd.DataFrame({"cause": [], "time": [], "brier": [], "reference": []}),
        calibration=pd.DataFrame(rows, columns=names),
    )


def with_check(result, check):
    return replace(result, checked=DeferredCheck.of(check))


def test_calibration_has_a_line_per_time(hazard):
    ax = with_check(hazard(), checked()).plot_calibration(axes())
    found = {container.get_label(): container.lines[0] for container in ax.containers}
    assert list(found) == ["2.5 years", "1278 years"]
    for line in found.values():
        np.testing.assert_allclose(line.get_xdata(), [0.12, 0.24])
        np.testing.assert_allclose(line.get_ydata(), [0.1, 0.3])
    segments = np.array(ax.containers[0].lines[2][0].get_segments())
    np.testing.assert_allclose(segments[:, :, 1], [[0.05, 0.18], [0.25, 0.38]])
    assert ax.get_xlim() == ax.get_ylim()
    ax.figure.canvas.draw()


def test_calibration_of_a_cause(hazard):
    result = with_check(hazard("logit", ("relapse", "death")), checked(("relapse", "death")))
    assert "of relapse" in result.plot_calibration(axes()).get_xlabel()
    assert "of death" in result.plot_calibration(axes(), cause="death").get_ylabel()
    with pytest.raises(ArgumentError, match="cause must be one of 'relapse', 'death'"):
        result.plot_calibration(axes(), cause="fall")


def test_calibration_without_limits_draws_points(hazard):
    check = checked(observed=(0.1, 1.0, 0.4))
    check.calibration.loc[check.calibration["observed"] == 1.0, ["conf_low", "conf_high"]] = np.nan
    ax = with_check(hazard(), check).plot_calibration(axes())
    assert len(ax.containers[0].lines[0].get_xdata()) == 3
    ax.figure.canvas.draw()


def test_calibration_needs_public_rows(hazard):
    for check in (None, checked(observed=())):
        with pytest.raises(ArgumentError, match="calibration needs public rows"):
            with_check(hazard(), check).plot_calibration(axes())


def test_coefficients_are_drawn_without_the_baseline(hazard):
    ax = hazard().plot_coefficients(axes(), exponentiate=True)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age", "size[T.20-50]", "size[T.>50]"]
    assert "hazard ratio" in ax.get_xlabel()


@pytest.mark.parametrize("spread", [0.02, 0.5, 3.0])
def test_ratios_have_plain_numbers(hazard, spread):
    result = hazard()
    wide = replace(result, estimate=replace(result.estimate, sampling=np.eye(5) * spread**2))
    ax = wide.plot_coefficients(axes(), exponentiate=True)
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    shown = [
        tick.get_text()
        for tick, place in zip(ax.get_xticklabels(), ax.get_xticks(), strict=True)
        if low <= place <= high
    ]
    assert len(shown) >= 2
    assert not any("e" in text or "$" in text for text in shown if 1e-3 < float(text) < 1e4)


def test_what_is_not_known_leaves_a_gap_and_no_warning(hazard):
    made = hazard()
    unknown = replace(made, estimate=replace(made.estimate, sampling=np.full_like(made.estimate.sampling, np.nan)))
    for ax in (unknown.plot_survival(ax=axes()), unknown.plot_hazard(axes())):
        assert not ax.collections
        ax.figure.draw_without_rendering()
