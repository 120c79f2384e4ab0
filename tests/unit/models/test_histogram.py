"""Lei's histogram: what the noise of many cells with few people does to means and fits, and how many there are."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.histogram import PerturbedHistogram
from hdpstats.mechanisms.histogram.estimate import axes_of
from hdpstats.models.histogram import perturbed_histogram
from hdpstats.papers.wang import fit, simulated_hospitals
from tests import known_noise


def test_cells_are_projected_neighbourhood_by_neighbourhood(monkeypatch):
    """Projected all at once, what noise leaves in empty cells pulls the mean to the middle of the box.

    Noise of the distribution is that of a generator with a seed: no chance.
    """
    known_noise.counts(monkeypatch, 1)
    schema = hdp.Schema(x=hdp.Continuous(-8, 8, complete=True), z=hdp.Continuous(-8, 8, complete=True))
    people = pd.DataFrame(np.random.default_rng(1).normal(-3, 1.5, (2_000, 2)).clip(-8, 8), columns=["x", "z"])
    study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
    sample = perturbed_histogram(study, ("x", "z"), epsilon=Fraction(1), bins=40, replicate=1)
    at_once = replace(sample, distribution=replace(sample.distribution, order=None))
    errors = [
        abs(float(each.weights @ each.rows["x"]) / len(people) - people["x"].mean()) for each in (sample, at_once)
    ]
    assert errors[0] < errors[1]
    assert errors[1] > 0.5


@pytest.mark.wide
def test_classes_are_few_enough_for_fits_and_not_only_for_means(monkeypatch):
    """As many classes as suit a mean leave noise in empty cells far out, where it pulls slopes to 0.

    Noise of the distribution is that of a generator with a seed: no chance.
    """
    known_noise.counts(monkeypatch, 1)
    pair = simulated_hospitals(private=10_000, public=100, seed=3)
    study = hdp.Study(private=pair.frames()[0], schema=pair.schema(), budget=hdp.Budget(epsilon=100))
    model, best = hdpf.logit("y ~ 0 + x1 + x2", data=study), fit(pair.private)

    def error(bins):
        fits = [model.fit(0.5, mechanism=PerturbedHistogram(bins=bins), replicate=k + 1).params for k in range(2)]
        return np.mean([np.linalg.norm(each - best) for each in fits])

    assert error(None) < 0.75 * error(63)


@pytest.mark.parametrize(
    ("columns", "people", "rate", "classes"),
    [("xzy", 10_000, 1, 22), ("xzy", 10_000, Fraction(1, 4), 14), ("xzy", 1_000, 1, 10), ("xwzy", 10_000, 1, 13)],
)
def test_the_number_of_classes(columns, people, rate, classes):
    """With epsilon 2, 1/2 and 2 by simulation the best were 20, 13, 6 to 9 and 9 to 13 of 4, 6, 9, 13, 20, 30, 45."""
    schema = hdp.Schema(
        {name: hdp.Continuous(-8, 8, complete=True) for name in "xzw"} | {"y": hdp.Binary(complete=True)}
    )
    axes = axes_of(schema, tuple(columns), people=people, rate=Fraction(rate), bins=None)
    assert [axis.classes for axis in axes] == [classes] * (len(columns) - 1) + [2]


def test_a_grid_that_says_little_is_refused():
    schema = hdp.Schema(
        x=hdp.Continuous(0, 1, complete=True), z=hdp.Continuous(0, 1, complete=True), b=hdp.Binary(complete=True)
    )
    with pytest.raises(hdp.MechanismError, match="says too little about 100 people"):
        axes_of(schema, ("x", "z", "b"), people=100, rate=Fraction(1, 2), bins=None)
    with pytest.raises(hdp.MechanismError, match="says too little about 10 people"):
        axes_of(schema, ("b",), people=10, rate=Fraction(1, 2), bins=None)
    assert axes_of(schema, ("b",), people=1000, rate=Fraction(1, 2), bins=None)[0].classes == 2


def test_quantiles_are_refused_before_anything_is_charged():
    rng = np.random.default_rng(5)
    schema = hdp.Schema(y=hdp.Continuous(0, 5, complete=True), g=hdp.Categorical(["a", "b"], complete=True))
    people = pd.DataFrame({"y": rng.uniform(0, 5, 2000), "g": rng.choice(["a", "b"], 2000)})
    study = hdp.Study(private=people, public=people.iloc[::10], schema=schema, budget=hdp.Budget(epsilon=1))
    model = hdpf.quantile("y ~ g", study)
    for asked in (model.fit, model.plan):
        with pytest.raises(MechanismError, match=r"not for quantiles.*objective.*describe"):
            asked(epsilon=1, mechanism="histogram")
    assert study.ledger.history().empty


def of_line(*, n=3000):
    """Return people whose outcome is a line plus an error, and their schema."""
    schema = hdp.Schema(x=hdp.Continuous(-4, 4, complete=True), y=hdp.Continuous(-10, 10, complete=True))
    rng = np.random.default_rng(1)
    x = rng.standard_normal(n).clip(-4, 4)
    return pd.DataFrame({"x": x, "y": (1.0 + 0.5 * x + rng.standard_normal(n)).clip(-10, 10)}), schema


@pytest.mark.parametrize(("bins", "half"), [(20, 0.5), (10, 1.0)])
def test_a_loss_that_is_flat_between_centres_is_refused_before_anything_is_charged(bins, half, monkeypatch):
    """With 20 classes from -10 to 10 centres are 1 apart: half of that is the least c."""
    known_noise.counts(monkeypatch, 1)
    people, schema = of_line()
    study = hdp.Study(private=people, public=people.iloc[::10], schema=schema, budget=hdp.Budget(epsilon=2))
    mechanism = PerturbedHistogram(bins=bins)
    small = hdpf.linear("y ~ x", study, loss=hdp.losses.Huber(0.98 * half))
    for asked in (small.fit, small.plan):
        with pytest.raises(MechanismError, match=rf"flat between them.*nothing was charged.*c of at least {half:g}"):
            asked(epsilon=1, mechanism=mechanism)
    assert study.ledger.history().empty
    enough = hdpf.linear("y ~ x", study, loss=hdp.losses.Huber(half)).fit(epsilon=1, mechanism=mechanism)
    assert np.all(enough.bse > 0.0)


def holding(places, *, n=400):
    """Return the sample of a histogram that holds 200 people in each of some cells (x, y), as if without noise."""
    people, schema = of_line(n=n)
    study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
    sample = perturbed_histogram(study, ("x", "y"), epsilon=Fraction(1), bins=8, replicate=1)
    cells = sample.rows[["x", "y"]].apply(tuple, axis=1)
    counts = np.array([200 * (cell in places) for cell in cells], dtype=np.int64)
    return replace(sample, distribution=replace(sample.distribution, counts=counts, rate=Fraction(1000), records=None))


def test_no_error_is_reported_where_the_loss_is_flat():
    """Between outcomes of -8.75 and 8.75, half of either, no residual is within c."""
    sample = holding([(x, y) for x in (0.5, 1.5) for y in (-8.75, 8.75)])
    found = sample.fit(hdpf.linear, "y ~ x", loss=hdp.losses.Huber(1.25))
    assert found.bse.isna().all()
    assert found.tvalues.isna().all()
    assert "no curvature along some direction of Intercept, x" in found.estimate.note


def test_no_error_of_zero_is_reported():
    """All people lie on a line exactly: residuals are 0, or rounding errors."""
    found = holding([(0.5, 1.25), (1.5, 3.75)]).fit(hdpf.linear, "y ~ x")
    assert found.params.to_numpy() == pytest.approx([0.0, 2.5], abs=1e-6)
    assert found.bse.isna().all()
    assert "leaves no residual" in found.estimate.note
    near = holding([(0.5, 1.25), (1.5, 3.75), (1.5, 1.25)]).fit(hdpf.linear, "y ~ x")
    assert np.all(near.bse > 0.01)
    assert "NaN" not in near.estimate.note
