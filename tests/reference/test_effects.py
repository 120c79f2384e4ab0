"""Joint tests against car::Anova, contrasts against emmeans, average effects against predict() and the delta method."""

import json
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

REFERENCE = json.loads((Path(__file__).parent / "effects.json").read_text(encoding="utf-8"))["found"]
LOGS = {"log risk ratio": "risk ratio", "log odds ratio": "odds ratio"}


@pytest.fixture(scope="module")
def study():
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        nodes=hdp.Continuous(0, 60, complete=True),
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        grade3=hdp.Binary(complete=True),
        hormon=hdp.Binary(complete=True),
        event3=hdp.Binary(complete=True),
        time=hdp.Duration(2500, unit="days", complete=True),
        event=hdp.Binary(complete=True),
    )
    return hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)


@pytest.fixture(scope="module")
def fits(study):
    found = {name: hdpf.logit(REFERENCE[name]["formula"], data=study).fit_public() for name in ("main", "interaction")}
    hazard = hdpf.hazard(
        "Surv(time, event) ~ age + size + hormon",
        data=study,
        intervals=REFERENCE["hazard"]["cuts"],
        baseline="dummies",
        link="logit",
    )
    return found | {"hazard": hazard.fit_public()}


def effects(table, expected):
    """Compare a table of effects with R's, ratios on the scale of their logarithms."""
    assert len(table) == len(expected)
    for name, reference in expected.items():
        row = table.loc[LOGS.get(name, name)]
        log = name in LOGS
        estimate = np.log(row["estimate"]) if log else row["estimate"]
        error = row["std_error"] / row["estimate"] if log else row["std_error"]
        assert estimate == pytest.approx(reference["estimate"], rel=1e-8, abs=1e-8)
        assert error == pytest.approx(reference["std_error"], rel=1e-8)


@pytest.mark.parametrize("name", ["main", "interaction", "hazard"])
def test_joint_tests_are_car_anova(fits, name):
    ours, expected = fits[name].wald_test_terms().table, REFERENCE[name]["tests"]
    assert ours["df_constraint"].tolist() == expected["df"]
    np.testing.assert_allclose(ours["statistic"], expected["statistic"], rtol=1e-8, atol=1e-8)
    if "pvalue" in expected:
        np.testing.assert_allclose(ours["pvalue"], expected["pvalue"], rtol=1e-8)


@pytest.mark.parametrize("name", ["main", "interaction"])
def test_pairs_of_levels_are_emmeans(fits, name):
    expected, found = REFERENCE[name]["pairs"], fits[name].t_test_pairwise("size").result_frame
    assert list(found.index) == expected["name"]
    for column, theirs in (("coef", "estimate"), ("std err", "std_error"), ("P>|z|", "p_value")):
        np.testing.assert_allclose(found[column], expected[theirs], rtol=1e-8)


def test_contrasts_in_text_are_emmeans_averages(fits):
    half = "{0} + 0.5 * {0}:hormon"
    middle, large = (half.format(f"size[T.{level}]") for level in ("20-50", ">50"))
    found = fits["interaction"].t_test([middle, large, f"{large} = {middle}"])
    expected = REFERENCE["interaction"]["averaged"]
    np.testing.assert_allclose(found.effect, expected["estimate"], rtol=1e-8)
    np.testing.assert_allclose(found.sd, expected["std_error"], rtol=1e-8)


@pytest.mark.parametrize("name", ["main", "interaction"])
def test_average_effects_are_those_by_hand(fits, name):
    result, expected = fits[name], REFERENCE[name]

    def of(variable, **given):
        return result.average_effects(variable, **given).frame.set_index("effect")

    effects(of("hormon"), expected["hormon"])
    effects(of("size", values=("<=20", ">50")), expected["size"])
    effects(of("age", values=(40, 60)), expected["age_40_60"])
    effects(of("age"), expected["age"])


def test_effects_of_hazards_are_those_by_hand(fits):
    found = fits["hazard"].average_effects("hormon", times=(1000, 2500)).frame.set_index("effect")
    for time, name in ((1000.0, "early"), (2500.0, "late")):
        at = found[found["time"] == time]
        effects(at.drop(index="restricted mean difference"), REFERENCE["hazard"][name])
        effects(
            at.loc[["restricted mean difference"]],
            {"restricted mean difference": REFERENCE["hazard"]["restricted"][f"{time:g}"]},
        )
