"""Overlap weights of private people."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError
from hdpstats.families.overlap_weights import UNITS, units, weighting_design, weights_of
from hdpstats.records.overlap_weights import OverlapWeights, rounded
from hdpstats.schema.table import PrivateTable

SCHEMA = hdp.Schema(a=hdp.Binary(), x=hdp.Continuous(-3, 3), y=hdp.Binary())
WEIGHTING = OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(-0.4, 0.9))


def weights(frame, needs=("a", "x")):
    table = PrivateTable.from_frame(frame if "y" in frame else frame.assign(y=0), SCHEMA).admit(needs)
    return weights_of(WEIGHTING, weighting_design(WEIGHTING, SCHEMA), table)


def test_the_treated_weigh_one_less_their_chance_and_the_others_the_chance():
    frame = pd.DataFrame({"a": [1, 0, 1, 0], "x": [0.5, 0.5, -9.0, 2.0]})
    e = expit(-0.4 + 0.9 * frame["x"].clip(-3, 3))
    np.testing.assert_allclose(weights(frame), np.where(frame["a"] == 1, 1 - e, e), rtol=1e-14)


def test_who_lacks_treatment_or_a_covariate_weighs_nothing_and_who_lacks_the_outcome_something():
    frame = pd.DataFrame({"a": [1, None, 1], "x": [None, 1.0, 1.0], "y": [1, 1, None]})
    found = weights(frame, ("a", "x", "y"))
    assert found[:2].tolist() == [0.0, 0.0]
    assert found[2] > 0.0


def test_a_weight_depends_on_the_row_alone_to_the_last_bit():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.integers(0, 2, 3000), "x": rng.normal(size=3000)})
    whole = weights(frame)
    for start, end in ((0, 1), (7, 20), (1500, 2999)):
        assert (weights(frame.iloc[start:end]) == whole[start:end]).all()


def test_units_are_whole_numbers_up_to_one():
    assert units(np.array([-1.0, 1e-9, 0.25, 2.0])).tolist() == [0, 0, UNITS // 4, UNITS]


@pytest.mark.parametrize("coefficients", [(), (np.inf, 0.0), (np.nan,), (1e13,)])
def test_coefficients_that_are_none_are_refused(coefficients):
    with pytest.raises(MechanismError, match="finite"):
        OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=coefficients)


def test_rounding_keeps_24_binary_digits():
    assert rounded(0.0) == 0.0
    for value in (0.1, -1 / 3, 1e-9, 12345.678):
        assert abs(rounded(value) / value - 1) <= 2.0**-24
        assert rounded(rounded(value)) == rounded(value)
