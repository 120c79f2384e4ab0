"""A plan as a plot."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import HdpError
from hdpstats.models.plan import plot_plan
from tests.support import FORMULA, PUBLIC_ROWS, SCHEMA, people

mpl.use("agg")


def plan(public, formula=FORMULA):
    study = hdp.Study(public=public, schema=SCHEMA)
    return hdpf.logit(formula, data=study).plan(np.geomspace(0.1, 10, 5).tolist(), n=2000)


def test_a_panel_per_coefficient_shows_the_plan():
    made = plan(people(PUBLIC_ROWS, seed=1))
    figure = made.plot()
    panels = [panel for panel in figure.axes if panel.axison]
    assert [panel.get_title() for panel in panels] == [t for t in made.frame["term"].unique() if t != "Intercept"]
    drawn = {line.get_label(): line.get_ydata() for line in panels[0].lines}
    part = made.frame[made.frame["term"] == panels[0].get_title()]
    assert np.array_equal(drawn["reported"], part["std_error"])
    assert np.array_equal(drawn["private only"], part["private_only"])
    assert np.array_equal(drawn["public only"], np.repeat(part["public_only"].iloc[0], 2))


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
def test_without_public_rows_there_is_no_public_line(formula):
    (panel,) = plan(None, formula).plot().axes
    assert {line.get_label() for line in panel.lines} == {"private only", "reported"}


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HdpError, match="pip install matplotlib"):
        plan(None, "y ~ x").plot()


def test_a_plan_of_one_epsilon_shows_its_points():
    study = hdp.Study(public=None, schema=SCHEMA)
    (panel,) = hdpf.logit("y ~ x", data=study).plan(1, n=2000).plot().axes
    assert [line.get_marker() for line in panel.lines] == ["o", "o"]


@pytest.mark.wide
def test_a_long_name_is_given_in_full_above_its_own_panel():
    name = "I(np.log(age + 1)):smoking[T.former, more than ten years]"
    made = plot_plan(plan(None, "y ~ x").frame.replace({"term": {"x": name}}))
    lines = made.axes[0].get_title().split("\n")
    assert " ".join(lines) == name
    assert max(map(len, lines)) <= 28


def test_a_plan_shows_how_far_it_is(monkeypatch):
    shown = []

    def recorded(items, *, label):
        shown.append((len(items), label))
        return items

    monkeypatch.setattr("hdpstats.models.model.progress", recorded)
    hdpf.logit("y ~ x", data=hdp.Study(public=None, schema=SCHEMA)).plan([1, 2, 3], n=2000)
    assert shown == [(3, "plan")]


@pytest.mark.wide
def test_a_dark_plan_is_written_in_light_and_unknown_errors_leave_gaps():
    frame = plan(people(PUBLIC_ROWS, seed=1), "y ~ x").frame
    with mpl.style.context("dark_background"):
        (panel,) = plot_plan(frame).axes
        public = next(line for line in panel.get_lines() if line.get_label() == "public only")
        assert public.get_color() == "#ffffff"
    unknown = frame.assign(private_only=np.nan, std_error=np.nan, public_only=np.nan)
    (panel,) = plot_plan(unknown).axes
    assert panel.get_ylim() == (0.0, 1.0)
    levels = plan(None, "y ~ x").frame.replace({"term": {"x": "2:Intercept"}})
    both = pd.concat([levels, levels.assign(term="2:x")])
    assert [panel.get_title() for panel in plot_plan(both).axes if panel.get_title()] == ["2:x"]


def test_the_lowest_panel_of_each_column_has_numbers_below_its_axis():
    rows = [(term, at, 1 / at, 1.1 / at, 0.5) for term in "abcd" for at in (0.5, 1.0)]
    frame = pd.DataFrame(rows, columns=["term", "epsilon", "std_error", "private_only", "public_only"])
    drawn = [panel for panel in plot_plan(frame).axes if panel.get_title()]
    assert [panel.xaxis.get_tick_params()["labelbottom"] for panel in drawn] == [False, True, True, True]
