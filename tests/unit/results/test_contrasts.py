"""Contrasts and joint tests: statsmodels' numbers on public rows, the drawn errors' under noise."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import ndtr

from hdpstats._base.errors import ArgumentError
from hdpstats.formulas.coefficients import read_constraints
from hdpstats.records.estimate import ErrorDistribution, Estimate
from hdpstats.records.saved import ErrorDraws
from hdpstats.results.contrasts import Constraints, wald_test
from tests.unit.results.conftest import TERMS, make_hazard

NAMES = ["Intercept", "age", "age2", "bs(age, df=4)[1]", "rx[T.Lev+5FU]", "a: size[T.>50]", "Q('a b')"]


@pytest.fixture(scope="module")
def drawn():
    """An estimate whose errors are heavy-tailed and go together."""
    rng = np.random.default_rng(3)
    mixing = np.eye(5) + np.diag([0.5, 0.8, 0.3, 0.2], k=1)
    draws = rng.standard_t(4, size=(4000, 1)) * rng.normal(size=(4000, 5)) @ mixing
    covariance = draws.T @ draws / len(draws)
    estimate = Estimate(
        label="pooled",
        terms=TERMS,
        values=np.array([-1.0, 0.5, 2.0, 3.0, 9.0]),
        sampling=0.4 * covariance,
        privacy=0.6 * covariance,
        distribution=ErrorDistribution.of_draws(draws),
    )
    return estimate, draws


def test_text_is_read_as_algebra_and_never_evaluated():
    L, q, names = read_constraints("a: size[T.>50] - 2*bs(age, df=4)[1] / 4 = 1e-2 + .5, age2 = -(age)", NAMES)
    assert L.tolist() == [[0, 0, 0, -0.5, 0, 1, 0], [0, 1, 1, 0, 0, 0, 0]]
    assert q.tolist() == [0.51, 0.0]
    assert names == ("a: size[T.>50] - 2*bs(age, df=4)[1] / 4 = 1e-2 + .5", "age2 = -(age)")
    assert read_constraints("rx[T.Lev+5FU], Q('a b')", NAMES)[0].nonzero()[1].tolist() == [4, 6]


@pytest.mark.parametrize(
    "text",
    ["", "age,", "age = 0 = 1", "age = ", "= 2", "age * age2", "age +", "0 = 1", "age - age", "ages = 0", "2age",
     "age / 0", "__import__('os')", "age ** 2", "1 / age", "age = 1e999", "(age", "age" * 10_000],
)  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(ArgumentError, match="constraints"):
        read_constraints(text, NAMES)


def test_a_misspelt_name_is_corrected():
    with pytest.raises(ArgumentError, match=r"did you mean rx\[T.Lev\+5FU\]"):
        read_constraints("rx[T.Lev+5FV] = 0", NAMES)


def test_a_contrast_has_the_distribution_of_its_own_drawn_errors(result, drawn):
    estimate, draws = drawn
    result = replace(result, estimate=estimate)
    found = result.t_test("size[T.>50] - size[T.20-50] = 0.25")
    errors = np.abs(draws[:, 3] - draws[:, 2])
    assert found.effect.tolist() == [1.0]
    assert found.sd[0] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
    assert found.statistic[0] == pytest.approx(0.75 / found.sd[0])
    assert found.pvalue[0] == pytest.approx(np.mean(errors >= 0.75), abs=5e-3)
    assert found.pvalue[0] != pytest.approx(2 * ndtr(-found.statistic[0]), abs=0.01)
    low, high = found.conf_int(0.1)[0]
    assert (low, high) == pytest.approx(1.0 + np.quantile(errors, 0.9) * np.array([-1, 1]), rel=1e-3)
    frame = found.summary_frame(xname=["difference"], alpha=0.1)
    assert frame.loc["difference", "Conf. Int. Low"] == low


def test_a_single_coefficient_has_the_p_value_and_limits_of_the_table(result, drawn):
    result = replace(result, estimate=drawn[0])
    found = result.t_test(np.eye(5))
    np.testing.assert_array_equal(found.pvalue, result.pvalues)
    np.testing.assert_array_equal(found.conf_int(), result.conf_int())


def test_a_hypothesis_has_one_p_value(result, public_result, drawn):
    for own in (replace(result, estimate=drawn[0]), public_result):
        alone = [own.wald_test(row[None, :]).pvalue for row in np.eye(5)]
        np.testing.assert_array_equal(alone, own.pvalues)
        tests = own.wald_test_terms().tests
        assert tests["age"].pvalue == own.pvalues["age"]
        assert (
            own.wald_test("size[T.>50] - size[T.20-50] = 0.25").pvalue
            == own.t_test("size[T.>50] - size[T.20-50] = 0.25").pvalue[0]
        )


def test_a_joint_test_has_the_distribution_of_its_own_drawn_errors(result, drawn):
    estimate, draws = drawn
    result = replace(result, estimate=estimate)
    found = result.wald_test("size[T.20-50] = 2.5, size[T.>50] = 2.5")
    inverse = np.linalg.inv(estimate.cov_params().to_numpy()[2:4, 2:4])
    distance = np.array([-0.5, 0.5])
    by_chance = np.einsum("bi,ij,bj->b", draws[:, 2:4], inverse, draws[:, 2:4])
    assert found.statistic == pytest.approx(distance @ inverse @ distance)
    assert found.pvalue == pytest.approx((1 + np.sum(by_chance >= found.statistic)) / 4001, abs=1e-3)
    assert (found.df_constraint, found.df_denom) == (2, 2)


def test_no_p_value_is_below_what_draws_can_tell(result, drawn):
    result = replace(result, estimate=replace(drawn[0], values=1e3 * drawn[0].values))
    assert result.wald_test("age = 0").pvalue == pytest.approx(1 / 4001)
    assert "<0.00025" in str(result.wald_test("age = 0"))
    assert "<0.00025" in str(result.t_test("age = 0"))
    assert "<0.00025" in str(result.wald_test_terms())


def test_terms_are_tested_as_a_whole_on_every_estimate(result):
    public = result.wald_test_terms(estimate="public_only").table
    assert list(public.index) == ["Intercept", "age", "size", "log1p(nodes)"]
    assert public["df_constraint"].tolist() == [1, 1, 2, 1]
    assert public.loc["size", "statistic"] == pytest.approx((0.35 / 0.2) ** 2 + (0.61 / 0.3) ** 2)
    assert list(result.wald_test_terms(estimate="public_only", skip_single=True).table.index) == ["size"]
    with pytest.raises(ArgumentError, match="estimate must be one of"):
        result.wald_test_terms(estimate="public")


def test_every_cause_has_its_own_terms_and_pairs():
    hazard = make_hazard(causes=("relapse", "death"))
    table = hazard.wald_test_terms().table
    assert list(table.index) == [
        f"{cause}: {term}" for cause in ("relapse", "death") for term in ("baseline", "age", "size")
    ]
    assert table["df_constraint"].tolist() == [2, 1, 2] * 2
    pairs = hazard.t_test_pairwise("size", cause="death")
    assert pairs.result_frame["coef"].round(6).to_dict() == {
        "20-50 - <=20": -0.2,
        ">50 - <=20": 0.1,
        ">50 - 20-50": 0.3,
    }
    with pytest.raises(ArgumentError, match="term_name must be one of"):
        hazard.t_test_pairwise("age")


def test_a_factor_is_named_by_its_term_or_its_column(public_result):
    own = replace(public_result, facts=replace(public_result.facts, formula="event3 ~ age + C(size) + log1p(nodes)"))
    assert own.t_test_pairwise("size").result_frame.equals(own.t_test_pairwise("C(size)").result_frame)
    with pytest.raises(ArgumentError, match=r"term_name must be one of"):
        own.t_test_pairwise("nodes")
    with pytest.raises(ArgumentError, match=r"did you mean size\[T.20-50\] or size\[T.>50\]\?"):
        own.t_test("size")


def test_public_fits_are_statsmodels(public_result):
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(200), rng.normal(size=(200, 4))])
    theirs = sm.Logit((rng.random(200) < 0.4).astype(float), X).fit(disp=0)
    estimate = replace(public_result.estimate, values=theirs.params, sampling=theirs.cov_params())
    ours = replace(public_result, estimate=estimate)
    L = np.array([[0.0, 0.0, 1.0, -1.0, 0.0], [0.0, 2.0, 0.0, 0.0, 0.0]])
    mine, reference = ours.t_test((L, [0.1, 0.2])), theirs.t_test((L, [0.1, 0.2]))
    for name in ("effect", "sd", "statistic", "pvalue"):
        np.testing.assert_allclose(getattr(mine, name), np.ravel(getattr(reference, name)), rtol=1e-9)
    np.testing.assert_allclose(mine.conf_int(0.1), reference.conf_int(0.1), rtol=1e-9)
    np.testing.assert_allclose(mine.summary_frame(), reference.summary_frame(), rtol=1e-9)
    assert list(mine.summary_frame()) == list(reference.summary_frame())
    joint, of = ours.wald_test((L, [0.1, 0.2])), theirs.wald_test((L, [0.1, 0.2]), scalar=True)
    assert (joint.statistic, joint.pvalue) == pytest.approx((of.statistic, of.pvalue), rel=1e-9)


def test_what_is_not_identified_is_not_tested():
    covariance = np.diag([1.0, np.nan])
    estimate = Estimate(
        label="ml", terms=("a", "b"), values=np.array([1.0, np.nan]), sampling=covariance, privacy=0.0 * covariance
    )

    def statistic(*row):
        return wald_test(estimate, Constraints(L=np.array([row]), q=np.zeros(1), names=("c",))).statistic

    assert statistic(1.0, 0.0) == 1.0
    assert np.isnan(statistic(1.0, 1.0))


def test_constraints_that_follow_from_others_and_other_shapes_are_refused(result):
    for given in ("age = 0, 2*age = 0", "age, age = 1"):
        with pytest.raises(ArgumentError, match="follow from the others"):
            result.wald_test(given)
    for given in (np.eye(2), [[0.0] * 5], [[np.nan] * 5], 3, None, (np.eye(5), [1.0, 2.0])):
        with pytest.raises(ArgumentError, match="constraints must be"):
            result.wald_test(given)


def test_without_joint_draws_there_is_no_contrast(result):
    with pytest.raises(ArgumentError, match="no joint draws"):
        result.t_test("age - size[T.>50]", estimate="pooled")


def test_draws_are_kept_to_the_last_bit():
    draws = ErrorDraws.of(np.random.default_rng(1).normal(size=(7, 3)))
    assert np.array_equal(ErrorDraws.from_dict(draws.to_dict()).values, draws.values)
    for change in ({"shape": [7, 4]}, {"shape": [7]}, {"float32": "é"}, {"float32": 3}, {"shape": ["7", 3]}):
        with pytest.raises(ArgumentError, match="draws"):
            ErrorDraws.from_dict(draws.to_dict() | change)
