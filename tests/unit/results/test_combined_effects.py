"""Effects of separate sites in one: by hand, kept, drawn, stated and refused."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import chdtrc, expit, stdtr, stdtrit

import hdpstats.api as hdp
from hdpstats.inference.meta_analysis import SiteSummary, agreement, from_spread
from hdpstats.records.estimate import ErrorDistribution, Estimate

SCHEMA = hdp.Schema(
    a=hdp.Binary(complete=True, labels=("control", "drug")),
    x=hdp.Continuous(-3, 3, complete=True),
    y=hdp.Binary(complete=True),
    k=hdp.Continuous(0, 10, complete=True),
)


def people(count, seed, *, treated=-0.3, effect=-0.6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count).clip(-3, 3)
    a = rng.random(count) < expit(treated + 0.7 * x)
    return pd.DataFrame(
        {
            "a": np.where(a, "drug", "control"),
            "x": x,
            "y": (rng.random(count) < expit(-0.5 + 0.6 * x + effect * a)).astype(int),
            "k": np.clip(3 + x + a + rng.normal(size=count), 0, 10),
        }
    )


PUBLIC = people(300, 99)


def effect_at(rows, epsilon=2.0, outcome="y", of_model=None, **terms):
    study = hdp.Study(private=rows, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=40), **terms)
    return hdp.treatment_effect(
        f"{outcome} ~ a", study, hdp.propensity("a ~ x", study, epsilon=of_model or epsilon).weights(), epsilon=epsilon
    )


@pytest.fixture(scope="module")
def effects():
    return {
        "North": effect_at(people(2500, 1), 1.0),
        "South": effect_at(people(1500, 2, treated=-1.0), 2.0),
        "West": effect_at(people(4000, 3, treated=0.5), 0.5),
    }


@pytest.fixture(scope="module")
def found(effects):
    return hdp.combine_effects(effects)


def test_contrasts_are_combined_by_inverse_variance_each_on_its_scale(effects, found):
    table = found.tidy().set_index("effect")
    for place, name in enumerate(("risk difference", "risk ratio", "odds ratio"), start=2):
        values = np.array([each.estimate.values[place] for each in effects.values()])
        w = np.array([each.estimate.bse.iloc[place] for each in effects.values()]) ** -2.0
        mean, Q = np.average(values, weights=w), np.sum(w * (values - np.average(values, weights=w)) ** 2)
        shown = mean if name == "risk difference" else np.exp(mean)
        assert table.loc[name, "estimate"] == pytest.approx(shown)
        assert found.estimate.bse.iloc[place - 2] == pytest.approx(w.sum() ** -0.5)
        assert table.loc[name, "Q"] == pytest.approx(Q)
        assert table.loc[name, "df"] == 2
        assert table.loc[name, "Q_p_value"] == pytest.approx(chdtrc(2, Q), abs=0.05)
        assert table.loc[name, "I2"] == pytest.approx(max(0.0, 1 - 2 / Q))
        share = found.by_site().query("effect == @name")["share"].to_numpy()
        assert share == pytest.approx(w / w.sum())
    assert table.loc["number needed to treat", "estimate"] == pytest.approx(1 / abs(found.estimate.values[0]))
    assert found.heterogeneity().statistic == table["Q"].iloc[0]
    assert found.heterogeneity("odds ratio").statistic == table["Q"].iloc[2]


def test_a_variance_between_sites_widens_what_differs(effects):
    other = {**effects, "West": effect_at(people(4000, 5, effect=1.0), 2.0)}
    common, apart = hdp.combine_effects(other), hdp.combine_effects(other, between="paule_mandel")
    assert common.heterogeneity().pvalue < 0.001
    assert common.heterogeneity().i2 > 0.8
    assert apart.tau[0] > 0.05
    assert apart.tidy()["std_error"].iloc[0] > 2 * common.tidy()["std_error"].iloc[0]
    values = np.array([each.estimate.values[2] for each in other.values()])
    w = 1 / (np.array([each.estimate.bse.iloc[2] for each in other.values()]) ** 2 + apart.tau[0] ** 2)
    assert apart.tidy()["estimate"].iloc[0] == pytest.approx(np.average(values, weights=w))
    assert hdp.combine_effects(other, between="dersimonian_laird").tau[0] > 0.05
    assert "variance by Paule and Mandel" in str(apart.summary())


def given(effect, difference, variance):
    """Return an effect whose difference, and the variance of that, are given."""
    own = effect.estimate
    values, sampling = own.values.copy(), np.diag(np.full(len(own.values), variance))
    values[2] = difference
    known = dataclasses.replace(
        own, values=values, sampling=sampling, privacy=np.zeros_like(sampling), distribution=None
    )
    return dataclasses.replace(effect, estimate=known)


@pytest.mark.parametrize("between", ["paule_mandel", "dersimonian_laird"])
def test_limits_at_an_estimated_variance_between_sites_are_students(effects, between):
    values, variances = np.array([-0.12, -0.10, 0.3]), np.array([0.0001, 0.0004, 0.01])
    known = zip(effects.items(), values, variances, strict=True)
    found = hdp.combine_effects({name: given(each, value, v) for (name, each), value, v in known}, between=between)
    w = 1 / (variances + found.tau[0] ** 2)
    mean = np.average(values, weights=w)
    q = np.sum(w * (values - mean) ** 2) / 2  # Hartung and Knapp; 1 at the estimate of Paule and Mandel
    assert q == pytest.approx(1.0) if between == "paule_mandel" else q > 5.0
    error = np.sqrt(max(1.0, q) / w.sum())
    for level in (0.8, 0.95):
        row, half = found.tidy(level).iloc[0], stdtrit(2, 0.5 + level / 2) * error
        assert row.std_error == pytest.approx(error)
        assert [row.conf_low, row.conf_high] == pytest.approx([mean - half, mean + half], rel=1e-3)
    p = 2 * stdtr(2, -abs(mean) / error)
    assert row.p_value == pytest.approx(p, abs=0.002)
    low, high = found.tidy(1 - row.p_value)[["conf_low", "conf_high"]].iloc[0]  # limits at level 1 - p end at 0
    assert min(abs(low), abs(high)) < 0.01 * (high - low)
    text = " ".join(str(found.summary()).split())
    assert "Limits: by Student's distribution with 2 degrees of freedom (Hartung and Knapp)" in text
    assert "P>|t|" in text
    assert "Student's distribution with 2 degrees of freedom" in found.methods_text()
    kept = hdp.CombinedEffect.from_json(found.to_json())
    pd.testing.assert_frame_equal(kept.tidy(), found.tidy())
    assert str(kept.summary()) == str(found.summary())


def test_no_limits_are_narrower_than_if_sites_had_the_same_effect(effects, found):
    for chosen in (effects, dict(list(effects.items())[:2])):
        alike, apart = hdp.combine_effects(chosen), hdp.combine_effects(chosen, between="paule_mandel")
        assert apart.degrees == len(chosen) - 1
        assert (apart.estimate.bse >= alike.estimate.bse * (1 - 1e-12)).all()
        for level in (0.01, 0.3, 0.5, 0.9, 0.95, 0.99, 0.999):
            widths = [(each.estimate.conf_int(1 - level) @ [-1.0, 1.0]).to_numpy() for each in (alike, apart)]
            assert (widths[1] >= widths[0] * (1 - 1e-9)).all()
    text = " ".join(str(found.summary()).split())
    assert found.degrees is None
    assert "degrees" not in json.loads(found.to_json())
    assert "Limits: from the errors of the sites: sampling and privacy noise" in text


def test_errors_with_heavier_tails_than_students_keep_their_quantiles():
    # A site whose error is nearly always small and seldom huge: its 0.999 quantile is beyond 20 standard errors.
    levels = np.array([0.0, 0.9, 0.999])
    heavy = ErrorDistribution(levels=levels, quantiles=np.array([[0.0], [0.1], [400.0]]))
    own = Estimate(
        label="all sites",
        terms=("difference",),
        values=np.zeros(1),
        sampling=np.eye(1),
        privacy=np.zeros((1, 1)),
        distribution=heavy,
    )
    part = SiteSummary(values=np.zeros(1), sampling=np.eye(1), privacy=np.zeros((1, 1)), errors=None)
    for alike, expected in ((own, 400.0), (dataclasses.replace(own, distribution=None), stdtrit(4, 0.9995))):
        found = from_spread(part, np.ones(1), label="all sites", terms=("difference",), degrees=4, alike=alike)
        assert found.distribution.half_width(0.999)[0] == pytest.approx(expected, rel=0.02)
        assert found.distribution.half_width(0.9)[0] == pytest.approx(stdtrit(4, 0.95), rel=0.01)


def test_numbers_and_lists_are_combined_too():
    both = hdp.combine_effects([effect_at(people(2000, seed), outcome="k") for seed in (1, 2)])
    assert both.tidy()["effect"].tolist() == ["difference", "ratio"]
    assert both.by_site()["site"].unique().tolist() == ["1", "2"]
    assert both.tidy()["estimate"].iloc[0] == pytest.approx(1.0, abs=0.15)
    assert both.plot("ratio").get_xscale() == "log"


def test_what_each_site_cost_in_all_is_stated(effects, found):
    assert found.by_site().groupby("site", sort=False)["epsilon"].first().tolist() == [2.0, 4.0, 1.0]
    assert found.glance()["epsilon"].iloc[0] == 4.0
    text = " ".join(str(found.summary()).split())
    assert "4-differential privacy (pure) at most for one person" in text
    assert "North: 2-differential privacy (pure) in all: 1 for the effect, 1 for the propensity model" in (
        found.methods_text()
    )
    protected = effect_at(people(2000, 8), relation="add_or_remove_one", n_max=3000)
    mixed = " ".join(str(hdp.combine_effects({**effects, "East": protected}).summary()).split())
    assert "(add_or_remove_one)" in mixed
    assert "(replace_one)" in mixed


def test_it_is_kept_drawn_and_shown(found):
    kept = hdp.CombinedEffect.from_json(found.to_json())
    pd.testing.assert_frame_equal(kept.tidy(), found.tidy())
    pd.testing.assert_frame_equal(kept.by_site(), found.by_site())
    assert str(kept.summary()) == str(found.summary())
    assert kept.methods_text() == found.methods_text()
    axes = found.plot("risk ratio")
    assert axes.get_xscale() == "log"
    assert [tick.get_text().strip() for tick in axes.get_yticklabels()] == ["all sites", "North", "South", "West"]
    assert axes.get_xlabel().startswith("risk ratio: y, a = drug against control")
    assert found.plot().get_xscale() == "linear"
    assert "3 sites" in found._repr_html_()
    with pytest.raises(hdp.ArgumentError, match="effect must be"):
        found.plot("hazard ratio")


def test_effects_of_other_questions_or_the_same_people_are_refused(effects):
    north = effects["North"]
    with pytest.raises(hdp.ArgumentError, match="another outcome than 'North'"):
        hdp.combine_effects({"North": north, "other": effect_at(people(2000, 6), outcome="k")})
    with pytest.raises(hdp.ArgumentError, match="charged to one account"):
        hdp.combine_effects({"one": north, "two": north})
    unknown = dataclasses.replace(
        north,
        before=(),
        releases=tuple((name, dataclasses.replace(each, entry=None)) for name, each in north.releases),
    )
    with pytest.raises(hdp.ArgumentError, match="different people"):
        hdp.combine_effects([unknown, unknown])
    for wrong in ({}, {"North": north}, [north, 1], "North", None, {1: north, 2: north}):
        with pytest.raises(hdp.ArgumentError, match="effects must be a dictionary"):
            hdp.combine_effects(wrong)
    with pytest.raises(hdp.ArgumentError, match="an arm of 'lost' has too little weight"):
        hdp.combine_effects({"North": north, "lost": effect_at(people(2000, 7), 0.004, of_model=2.0)})
    with pytest.raises(hdp.ArgumentError, match="between must be"):
        hdp.combine_effects(effects, between="mean")


def test_the_statistic_of_normal_errors_is_chi_square():
    values = (0.0, 1.0, 2.5)
    parts = [
        SiteSummary(values=np.array([value]), sampling=np.eye(1), privacy=np.zeros((1, 1)), errors=None)
        for value in values
    ]
    (found,) = agreement(parts)
    Q = float(np.sum((np.array(values) - np.mean(values)) ** 2))
    assert found.statistic == pytest.approx(Q)
    assert found.pvalue == pytest.approx(chdtrc(2, Q))
