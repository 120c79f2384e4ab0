"""Quantiles of private people far from those of public ones: intervals hold them, and a note says what they rest on."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf


def test_an_upper_quantile_of_older_people_is_not_led_beyond_all_public_ones():
    """At 72 years, 6 above the public 0.9-quantile, few public outcomes are left, and farther on none."""
    schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), grade3=hdp.Binary(complete=True))
    private, public = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=4))
    found = hdpf.quantile("age ~ grade3", data=study, q=0.9).fit(epsilon=2)
    assert "sparse near the private coefficients" in str(found.summary()).replace("\n", " ")
    assert "sparse" not in str(hdpf.quantile("age ~ grade3", data=study).fit(epsilon=2).summary())
    for estimate in (found.private_only, found.pooled):
        assert abs(estimate.values[0] - 72.0) < 15.0  # with other moments 80 years off, or 30,000
        assert found.bse["Intercept"] < 15.0


@pytest.mark.wide
@pytest.mark.parametrize(("q", "shift", "above"), [(0.5, 12.0, 0.0), (0.9, 8.0, 8.0 * 1.2816)])
def test_intervals_hold_quantiles_of_people_far_from_public_ones(q, shift, above):
    """Public rows tell curvature under two suppositions: with errors of either alone half of these or fewer hold."""
    schema = hdp.Schema(y=hdp.Continuous(0, 100, complete=True), x=hdp.Binary(complete=True))
    held = []
    for seed in range(8):
        rng = np.random.default_rng(seed)

        def people(rows, mean, rng=rng):
            x = rng.integers(0, 2, rows)
            return pd.DataFrame({"x": x, "y": np.clip(mean + 8.0 * rng.standard_normal(rows), 0.0, 100.0)})

        study = hdp.Study(
            private=people(3000, 40.0 + shift), public=people(300, 40.0), schema=schema, budget=hdp.Budget(epsilon=2)
        )
        low, high = hdpf.quantile("y ~ x", data=study, q=q).fit(epsilon=2).conf_int().loc["Intercept"]
        held.append(low <= 40.0 + shift + above <= high)
        assert high - low < 40.0
    assert all(held)
