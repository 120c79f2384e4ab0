"""Errors of means by arm under overlap weights."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from hdpstats.inference import draws
from hdpstats.inference.overlap_errors import OutcomeModel, Stacked, WeightedPeople, contrasts_of, outcome_model

ALPHA = np.array([-0.5, 0.8, -0.4])


def people(count=4000, seed=1):
    X = np.column_stack([np.ones(count), np.random.default_rng(seed).normal(size=(count, 2))])
    return WeightedPeople.of(X[:2000], np.ones(2000), ALPHA)


def hessian(whom, records):
    e = whom.propensity
    return records * (whom.X.T * (whom.weights * e * (1 - e))) @ whom.X


def stacked(whom, means, residual, records=5000):
    return Stacked(
        people=whom,
        means=means,
        residual=residual,
        sampling=np.linalg.inv(hessian(whom, records)),
        weights=np.full(2, records * whom.overlap),
    )


def test_estimated_coefficients_balance_an_outcome_that_is_linear_in_the_covariates_exactly():
    """Then sampling leaves no error in the difference; without the covariance of the equations it would."""
    whom = people()
    line = whom.X @ np.array([0.3, 0.7, -0.2])
    found = stacked(whom, np.stack([line, line]), np.zeros((2, len(line))))
    own, crossed = found.equations()
    slopes = np.array([found.displaced(step[None] * 1e-5)[0] / 1e-5 for step in np.eye(3)]).T
    joint = np.block([[own, crossed], [crossed.T, found.sampling]])
    contrast = np.array([-1.0, 1.0])
    through = np.concatenate([contrast, contrast @ slopes])
    alone = contrast @ own @ contrast
    assert through @ joint @ through < 1e-4 * alone
    assert alone > 0


def test_errors_are_those_of_repeated_samples():
    """Sampling errors of both risks and of their difference against samples of the same population."""
    whom, records = people(), 4000
    means = expit(np.stack([-1 + whom.X @ [0, 0.7, 0.5], -1.6 + whom.X @ [0, 0.7, 0.5]]))
    found = stacked(whom, means, means * (1 - means), records)
    rng = draws.generator("1" * 64)
    predicted = found.draw(rng, draws.normal(rng, found.sampling, 4000), found.sampling)
    predicted = np.column_stack([predicted, predicted[:, 1] - predicted[:, 0]]).std(axis=0)
    sampled = []
    for seed in range(400):
        own = np.random.default_rng(seed)
        rows = own.choice(len(whom.X), records)
        X, a = whom.X[rows], (own.random(records) < whom.propensity[rows]).astype(float)
        y = (own.random(records) < means[a.astype(int), rows]).astype(float)
        e = expit(X @ sm.Logit(a, X).fit(disp=0).params)
        w = np.where(a == 1, 1 - e, e)
        risks = [np.average(y[a == arm], weights=w[a == arm]) for arm in (0, 1)]
        sampled.append([*risks, risks[1] - risks[0]])
    np.testing.assert_allclose(predicted, np.std(sampled, axis=0), rtol=0.1)


def test_what_wrong_coefficients_do_is_the_expectation_of_the_estimate_less_the_target():
    whom = people()
    means = expit(np.stack([whom.X @ [0, 0.7, 0.5], 0.4 + whom.X @ [0, 0.2, 0.9]]))
    error = np.array([0.1, -0.2, 0.15])
    found = stacked(whom, means, means * (1 - means))
    own, true = whom.propensity, expit(whom.X @ (ALPHA - error))
    target = true * (1 - true)
    for arm, weight in enumerate(((1 - true) * own, true * (1 - own))):
        expected = np.average(means[arm], weights=weight) - np.average(means[arm], weights=target)
        assert found.displaced(error[None])[0, arm] == pytest.approx(expected, rel=1e-10)
    assert found.displaced(np.zeros((1, 3)))[0] == pytest.approx([0, 0], abs=1e-15)


def test_imbalance_is_in_standard_deviations_and_nothing_without_errors():
    whom = people()
    found = stacked(whom, np.zeros((2, 2000)), np.ones((2, 2000)))
    assert found.people.imbalance(np.zeros((1, 3))) == pytest.approx(np.zeros((1, 3)), abs=1e-14)
    left = found.people.imbalance(np.array([[0.0, 0.1, 0.0]]))[0]
    assert left[0] == 0.0
    assert left[1] < -0.05


def test_the_outcome_model_is_the_logistic_regression_of_public_rows():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(800), rng.normal(size=(800, 2)), np.zeros(800)])
    a = rng.integers(0, 2, 800).astype(float)
    y = (rng.random(800) < expit(-0.5 + X @ [0, 0.7, -0.4, 0] + 0.6 * a)).astype(float)
    found = outcome_model(X, a, y, binary=True)
    plain = sm.Logit(y, np.column_stack([X[:, :3], a])).fit(disp=0).params
    np.testing.assert_allclose(found.slopes, [0, plain[1], plain[2], 0], atol=0.01)
    np.testing.assert_allclose(found.constants, [plain[0], plain[0] + plain[3]], atol=0.01)
    line = outcome_model(X, a, X @ [1, 2, 3, 0] + a, binary=False)
    np.testing.assert_allclose(line.slopes, [0, 2, 3, 0], rtol=5e-3)


def test_separated_public_outcomes_leave_finite_slopes():
    X = np.column_stack([np.ones(60), np.linspace(-1, 1, 60)])
    found = outcome_model(X, np.arange(60) % 2.0, (X[:, 1] > 0).astype(float), binary=True)
    assert np.isfinite(found.slopes).all()
    assert np.isfinite(found.constants).all()


@pytest.mark.parametrize("binary", [True, False])
def test_means_of_people_have_the_targets(binary):
    whom = people()
    model = OutcomeModel(slopes=np.array([0.0, 0.3, 0.2]), constants=np.zeros(2), spread=np.full(2, 0.1), binary=binary)
    e = whom.propensity
    means = model.means(whom, np.array([0.2, 0.6]))
    np.testing.assert_allclose(np.average(means, axis=1, weights=e * (1 - e)), [0.2, 0.6], rtol=1e-10)


def test_effective_sizes_are_those_of_weights():
    whom = people()
    e = whom.propensity
    assert whom.effective_share == pytest.approx(4 * np.mean(e * (1 - e)))
    untreated, treated = whom.effective_by_arm()
    assert untreated == pytest.approx(np.mean((1 - e) * e) ** 2 / np.mean((1 - e) * e**2))
    assert treated == pytest.approx(np.mean(e * (1 - e)) ** 2 / np.mean(e * (1 - e) ** 2))


def test_contrasts_of_risks_and_of_numbers():
    risks = contrasts_of(np.array([0.2, 0.3]), binary=True, positive=True)
    odds = 0.3 / 0.7 / (0.2 / 0.8)
    np.testing.assert_allclose(risks, [0.2, 0.3, 0.1, np.log(1.5), np.log(odds)])
    np.testing.assert_allclose(contrasts_of(np.array([2.0, 3.0]), binary=False, positive=True)[2:], [1, np.log(1.5)])
    assert len(contrasts_of(np.array([-2.0, 3.0]), binary=False, positive=False)) == 3
