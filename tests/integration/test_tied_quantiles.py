"""Quantiles of tied outcomes: intervals hold the value that R's quantile(type = 1) gives, and counts warn."""

import warnings

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

SCHEMA = hdp.Schema(
    y=hdp.Continuous(0, 15, complete=True),
    length=hdp.Continuous(0, 15.5, complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
)
SHARES = {
    "a wide step at the level": ([0.3, 0.4, 0.2, 0.1], 0.5, 1),
    "a step that ends just below the level": ([0.2, 0.295, 0.305, 0.2], 0.5, 2),
    "a step that ends just above the level": ([0.2, 0.305, 0.295, 0.2], 0.5, 1),
    "most are zero": ([0.6, 0.1, 0.1, 0.2], 0.5, 0),
    "an upper quartile": ([0.3, 0.4, 0.2, 0.1], 0.75, 2),
}


def counts(shares: list[float], rows: int) -> pd.DataFrame:
    """Return rows of which exactly these shares have the counts 0, 1, ..."""
    y = np.repeat(np.arange(len(shares)), np.rint(np.array(shares) * rows).astype(int)).astype(float)
    return pd.DataFrame({"y": y, "length": y, "x": np.linspace(-1, 1, len(y))})


def fitted(
    private: pd.DataFrame | dict[str, pd.DataFrame], public: pd.DataFrame, *, q: float = 0.5, epsilon: float = 20.0
) -> hdp.Result:
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=100))
    return hdpf.quantile("y ~ 1", study, q=q).fit(epsilon)


@pytest.mark.parametrize("name", SHARES)
def test_the_interval_holds_the_quantile_that_r_calls_type_1(name: str) -> None:
    shares, q, expected = SHARES[name]
    result = fitted(counts(shares, 2000), counts(shares, 200), q=q)
    for estimate in (result.private_only, result.estimate):
        low, high = estimate.conf_int().to_numpy()[0]
        assert low <= expected <= high
        assert high - low < 3.0
    assert "The outcome has ties" in str(result.summary())
    assert result.bse.iloc[0] > 0


def test_an_interval_is_no_wider_than_the_window_where_a_step_is_wide() -> None:
    result = fitted(counts([0.3, 0.4, 0.2, 0.1], 20_000), counts([0.3, 0.4, 0.2, 0.1], 200))
    low, high = result.conf_int().to_numpy()[0]
    assert high - low < 4 * result.query.model.parameters[1]


def test_more_noise_reaches_further_steps() -> None:
    shares = [0.2, 0.28, 0.32, 0.2]
    widths = [
        float(np.diff(fitted(counts(shares, 400), counts(shares, 200), epsilon=epsilon).conf_int().to_numpy()[0])[0])
        for epsilon in (0.1, 20.0)
    ]
    assert widths[0] > widths[1]


def test_counts_with_covariates_warn_from_the_schema_alone() -> None:
    study = hdp.Study(public=counts([0.25] * 4, 100), schema=SCHEMA)
    with pytest.warns(RuntimeWarning, match="y may be a count") as seen:
        hdpf.quantile("y ~ x", study)
    assert [each.filename for each in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hdpf.quantile("y ~ 1", study)
        hdpf.quantile("length ~ x", study)
        hdpf.linear("y ~ x", study)


def test_outcomes_that_differ_keep_their_intervals() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"y": rng.uniform(0, 15, 600), "length": 1.0, "x": 0.0})
    result = fitted(rows, rows[:200])
    assert "ties" not in str(result.summary())


def test_several_sites_say_that_their_intervals_take_ties_for_continuous() -> None:
    private = {name: counts([0.3, 0.4, 0.2, 0.1], rows) for name, rows in (("a", 1000), ("b", 1200))}
    several = fitted(private, counts([0.3, 0.4, 0.2, 0.1], 200))
    assert "several sites intervals take it for continuous" in " ".join(str(several.summary()).split())
    assert several.private_only.bse.notna().all()
