"""The studies that `make validate` runs hold every coefficient against its own truth: without noise estimates are near.

One data set of each, so that a study which is run seldom is not found broken only then.
"""

import dataclasses

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical import (
    adjusted_curves_studies,
    clock_studies,
    correlations_studies,
    curves_studies,
    description_studies,
    effects_of_people_studies,
    effects_studies,
    hazard_studies,
    importance_studies,
    meta_analysis_studies,
    missing_studies,
    monte_carlo,
    pooling_studies,
    public_rows_studies,
    real_outcomes_studies,
    rounds_studies,
    several_rows_studies,
    shift_designs,
    shift_studies,
    shifted_losses_studies,
    sites_studies,
    studies,
    test_contrasts,
    test_correlations,
    test_losses,
    weighted_hazards_studies,
    weights_studies,
)
from tests.statistical.hazard_designs import DESIGNS, eight_scene
from tests.statistical.monte_carlo import allow_infinite_public_fits, together

pytestmark = [pytest.mark.wide, pytest.mark.usefixtures("no_noise", "few_draws")]

LARGE = 20.0
OF_HAZARD = {design.name: design for design in DESIGNS}
SEPARATED = OF_HAZARD["a dummy for each interval"], 1
"""A design and a seed whose public rows have no event in an interval."""


SEVERAL = several_rows_studies.Scene(most=4, public=200, within=0.5, private=1500, unlike=True, fits=((0.3, LARGE),))


def of_shift(draw, mechanism="objective"):
    found = shift_studies.one_set(draw(20_001), (LARGE,), mechanism=mechanism)
    limits = [own for (_, _, reading), (_, own) in found if reading != "declined"]
    return [(own[:, 0] <= 0) & (own[:, 1] >= 0) for own in limits]


def of_hazard(scene):
    (row,) = hazard_studies.one_scene(scene, [hazard_studies.Fit("objective", {"epsilon": LARGE})])
    return [row[name] for name in hazard_studies.COVERED]


def of_missing(formula):
    lacking = missing_studies.Lacking(column="nodes", share=0.1, at_random=True)
    (fit,) = missing_studies.simulate(formula, lacking, 1, nodes=hdp.Continuous(0, 40))
    return fit.covered


def of_logit(setting):
    (fit,) = studies.one_data_set(setting, 1, (LARGE,))
    return fit


def of_shifted_loss(model):
    return [*shifted_losses_studies.one_fit(shifted_losses_studies.Job(model, "objective", LARGE, 0)).values()]


def of_correlations(setting):
    own = dataclasses.replace(setting, rows=3000, epsilon=LARGE)
    return [np.array(correlations_studies.one_set(own, 1, how)["covered"]) > 0 for how in correlations_studies.HOW[1:]]


def of_real_outcomes():
    setting = real_outcomes_studies.Setting("logit", "colon", "random", 3000, (LARGE,))
    (trial,) = real_outcomes_studies.one_trial(1, setting)
    return trial.covered


def of_adjusted_curves(design):
    found = adjusted_curves_studies.one_data_set(design, LARGE, 3)
    return [*found["covered"], *found["mean covered"]]


def of_adjusted_test():
    found = adjusted_curves_studies.one_test(LARGE, 3)
    return [found["ratio covered"], found["p"] > 0.001, found["unweighted p"] < 0.05]


def of_effect(design):
    found = effects_studies.one_data_set(design, LARGE, 3)
    return [found[name] for name in ("covered", "ratio covered", "means covered")]


def of_people_and_sites():
    """Return those of people with several rows, and of combined sites."""
    people, sites = effects_of_people_studies.VISITS, effects_of_people_studies.SEPARATE
    found = [effects_of_people_studies.one_data_set(each, LARGE, seed) for each in people for seed in range(20)]
    found += [effects_of_people_studies.one_combination(each, LARGE, 3) for each in sites[:2]]
    return [each["covered"] for each in found]


def of_weighted_regression():
    return effects_studies.one_regression(effects_studies.REGRESSIONS[0], LARGE, 3)["covered"]


def of_weighted_regressions_of_people():
    regressions = effects_of_people_studies.REGRESSIONS
    return [effects_of_people_studies.one_regression(each, LARGE, 3)["covered"] for each in regressions]


def of_weighted_hazards():
    return weighted_hazards_studies.one_hazards(weighted_hazards_studies.HAZARDS[0], LARGE, 3)["covered"]


def of_discrete_cells():
    case = importance_studies.Case("discrete", "~ a*g*y", LARGE)
    return [*importance_studies.one_coverage(case, 2).values()]


COVERED = {
    "logit": lambda: of_logit(studies.Setting(4000, 200)).covered_pooled,
    "20 columns": lambda: studies.one_design(1, 1)[-1][1:],
    "other public covariates": lambda: [
        studies.one_shift(number, studies.Shift("rotterdam", LARGE, 0.0)) for number in range(4)
    ],
    "losses": lambda: test_losses.covered(test_losses.Job("linear", 0))[-1][2:4],
    "shifted losses": lambda: of_shifted_loss("Poisson"),
    "other correlations": lambda: of_correlations(test_correlations.DIFFER["two covariates"][0]),
    "counts with other correlations": lambda: of_correlations(test_correlations.FAMILIES["counts"]),
    "shifted patients": lambda: of_shift(shift_designs.patients),
    "shifted, correlated": lambda: of_shift(shift_designs.correlated),
    "shifted, hazards": lambda: of_shift(shift_designs.survivors, hdp.mechanisms.ClippedNewton(rounds=1)),
    "hazard, two causes": lambda: of_hazard(OF_HAZARD["two causes"].scene(1)),
    "hazard, six covariates": lambda: of_hazard(eight_scene(1, records=4000)),
    "Newton steps at sites": lambda: sites_studies.one_simulation("1, 1, 0", 1),
    "contrasts": lambda: [
        each[name] for each in test_contrasts.one_data_set(3, "alike") for name in ("contrast", "risk")
    ],
    "real outcomes": of_real_outcomes,
    "importance weights": of_discrete_cells,
    "missing cells": lambda: of_missing(missing_studies.LOGIT),
    "missing cells, hazard": lambda: of_missing(missing_studies.HAZARD),
    "treatment effect": lambda: of_effect(effects_studies.DESIGNS[0]),
    "effects of people and sites": of_people_and_sites,
    "weighted regression": of_weighted_regression,
    "weighted regressions of people": of_weighted_regressions_of_people,
    "weighted hazards": of_weighted_hazards,
    "adjusted curves": lambda: of_adjusted_curves(adjusted_curves_studies.DESIGNS[0]),
    "adjusted curves of two causes": lambda: of_adjusted_curves(adjusted_curves_studies.DESIGNS[-1]),
    "adjusted log-rank test": of_adjusted_test,
    "treatment effect on counts": lambda: of_effect(effects_studies.DESIGNS[-1]),
    "hybrid weights": lambda: [*weights_studies.discrete_coverage(1, epsilon=LARGE, projection="simplex").values()],
    "several rows of a person": lambda: several_rows_studies.one_set(SEVERAL, 1)[0]["covered"],
    "public rows": lambda: [*public_rows_studies.few_public_rows(0).values()],
    "a level that public rows lack": lambda: public_rows_studies.absent_level((0.4, LARGE, True, 2))["others"],
}
"""Whether 95 % intervals hold the truth."""

ERRORS = {
    "logit without public rows": lambda: of_logit(studies.Setting(4000, 200, use_public=False)).error,
    "rounds": lambda: rounds_studies.one_data_set(rounds_studies.equal(4000, 2, epsilon=LARGE), 1)["pooled"],
    "one release of each site": lambda: meta_analysis_studies.one_data_set(
        meta_analysis_studies.equal(4000, 2, epsilon=LARGE), 1
    )["private"],
    "splits between sites": lambda: max(
        each["error"] for each in sites_studies.one_split("gbsg", 1) if each["method"] in sites_studies.OURS
    ),
    "plans": lambda: np.abs(np.log(pooling_studies.planned_against_reported({}, LARGE, splits=1))).max(),
}
"""The length of what coefficients err by, over their own; of a plan the largest logarithm of its ratio."""


@pytest.mark.parametrize("study", COVERED)
def test_intervals_are_held_against_the_truth_of_their_coefficients(study):
    allow_infinite_public_fits()
    assert np.mean(COVERED[study]()) >= 0.8


@pytest.mark.parametrize("study", ERRORS)
def test_estimates_are_held_against_the_truth_of_their_coefficients(study):
    assert ERRORS[study]() < 0.4


def test_coefficients_of_pooling_have_their_names():
    """Estimates over their standard errors do not depend on units, and little on the prior."""
    design = pooling_studies.rotterdam_from_gbsg()
    schema, frame = studies.patients_schema(), hdp.datasets.load_gbsg()
    alone = hdpf.logit(studies.PATIENTS, data=hdp.Study(public=frame, schema=schema)).fit_public()
    back, fit = np.linalg.inv(design.directions), design.fit
    ours = (back @ fit.theta) / np.sqrt(np.diag(back @ fit.covariance @ back.T))
    assert ours[1:] == pytest.approx((alone.params / alone.bse)[list(design.terms)][1:], abs=0.5)


def test_a_study_that_was_stopped_goes_on(monkeypatch, tmp_path):
    file, asked = tmp_path / "new" / "sets.jsonl", []

    def noted(work, scenes, seeds, **options):
        asked.extend(seeds)
        return [[{"r": 1.0, "number": seed}, {"r": 0.0, "number": seed}] for seed in seeds]

    monkeypatch.setattr(several_rows_studies, "together", noted)
    ((scene, found),) = several_rows_studies.computed([SEVERAL], 30, file)
    assert (scene, len(found), asked) == (SEVERAL, 60, list(range(30)))
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index('"number": 25') + 3], encoding="utf-8")
    asked.clear()
    ((_, found),) = several_rows_studies.computed([SEVERAL], 40, file)
    assert asked == list(range(25, 40))
    assert sorted(found["number"]) == sorted([*range(40), *range(40)])


def test_data_sets_that_are_kept_are_not_simulated_again(monkeypatch, tmp_path):
    file, asked = tmp_path / "new" / "effects.jsonl", []

    def noted(work, designs, seeds):
        asked.extend(seeds)
        return [{"error": float(seed), "held": np.ones(2)} for seed in seeds]

    monkeypatch.setattr(monte_carlo, "together", noted)
    monkeypatch.delenv("HDPSTATS_SETS", raising=False)
    found = monte_carlo.resumed(file, "one", 30, None, "design")
    assert (found["error"].tolist(), found["held"].shape, asked) == ([*range(30)], (30, 2), [*range(30)])
    own = monte_carlo.of_this_code(file)
    text = own.read_text(encoding="utf-8")
    own.write_text(text[: text.index('"seed": 25') + 3], encoding="utf-8")
    asked.clear()
    assert monte_carlo.resumed(file, "one", 40, None, "design")["error"].tolist() == [*range(40)]
    assert asked == [*range(25, 40)]
    assert monte_carlo.resumed(file, "another", 2, None, "design")["error"].tolist() == [0.0, 1.0]
    asked.clear()
    monkeypatch.setattr(monte_carlo, "code_digest", lambda: "other code")
    assert len(monte_carlo.resumed(file, "one", 30, None, "design")["error"]) == 30
    assert asked == [*range(30)]


def test_a_public_fit_without_finite_coefficients_stops_no_study():
    design, seed = SEPARATED
    with pytest.warns(RuntimeWarning, match="public rows alone"):
        assert np.isnan(design.scene(seed).discrete_hazard().fit(LARGE).public_only.params).any()
    fits = [hazard_studies.Fit("objective", {"epsilon": LARGE})]
    scenes = [design.scene(seed), OF_HAZARD["two causes"].scene(1)]
    ((separated,), (other,)) = together(hazard_studies.one_scene, scenes, [fits, fits])
    assert separated["penalised error"] < 2.0
    assert other["error"] == hazard_studies.one_scene(scenes[1], fits)[0]["error"]


def test_questions_about_a_person_name_him():
    queries = clock_studies.templates(clock_studies.people(2).head(200), radius="64", ridge="1/10")
    for about in queries.values():
        text = str(about(7))
        assert "code - 7" in text
        assert "code - 0" not in text


def test_studies_of_counts_run(monkeypatch):
    monkeypatch.setattr(description_studies, "REPEATS", 1)
    assert max(description_studies.errors(500, LARGE).values()) < 0.01
    for name in ("CURVES", "TESTS", "DRAWINGS"):
        monkeypatch.setattr(curves_studies, name, 5)
    assert curves_studies.curves(2643, 0, 6, LARGE)["error"] < 0.02
    assert curves_studies.causes(2643, 12, LARGE)["error"] < 0.02
    held = curves_studies.drawn(500, "flat", LARGE, 6)
    assert min(held["ends"][0], held["between"][0]) >= 0.8
    assert curves_studies.one_model(1, 1000, "crossing", LARGE, 12)[0].mean() >= 0.8
    assert curves_studies.shapes(500, "flat", "spread", LARGE)["held"] >= 0.8
    assert abs(curves_studies.rejections((500, 500), 6, LARGE, repeats=5)["bias"]) < 0.2
