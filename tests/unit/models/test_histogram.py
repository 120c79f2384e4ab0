"""Lei's histogram: what the noise of many cells with few people does to a mean."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from hdpstats.models.histogram import perturbed_histogram


def test_cells_are_projected_neighbourhood_by_neighbourhood():
    """Projected all at once, what noise leaves in empty cells pulls the mean to the middle of the box."""
    schema = hdp.Schema(x=hdp.Continuous(-8, 8), z=hdp.Continuous(-8, 8))
    people = pd.DataFrame(np.random.default_rng(1).normal(-3, 1.5, (2_000, 2)).clip(-8, 8), columns=["x", "z"])
    study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
    sample = perturbed_histogram(study, ("x", "z"), epsilon=Fraction(1), bins=40, replicate=1)
    at_once = replace(sample, law=replace(sample.law, order=None))
    errors = [
        abs(float(each.weights @ each.rows["x"]) / len(people) - people["x"].mean()) for each in (sample, at_once)
    ]
    assert errors[0] < errors[1]
    assert errors[1] > 0.5
