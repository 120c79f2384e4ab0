"""Plans: the closed form, monotone in epsilon, with and without public rows."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.information import InObjective
from hdpstats.inference.pooling import expected_covariance
from hdpstats.inference.sandwich import averaged, of_point, predicted_errors
from hdpstats.mechanisms.perturbation.request import noise_distribution
from tests.unit.inference.sides import BETA, public_side

SCHEMA = hdp.Schema(
    a=hdp.Continuous(-4, 4, complete=True), b=hdp.Continuous(0, 10, complete=True), y=hdp.Binary(complete=True)
)
EPSILONS = [0.05, 0.1, 0.5, 1, 3, 20]


def frame(n=400):
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal(n), rng.uniform(0.0, 10.0, n)
    y = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-0.5 * a))
    return pd.DataFrame({"a": a, "b": b, "y": y.astype(float)})


def predicted(public, *, rate, records):
    point = of_point(
        public, noise=InObjective(distribution=noise_distribution(public.geometry, rate=rate)), records=records
    )
    return predicted_errors(point, public.fit, T=public.geometry.to_raw())


def plan(public, *, n=5000, epsilon=EPSILONS):
    return hdpf.logit("y ~ a + b", data=hdp.Study(public=public, schema=SCHEMA)).plan(epsilon, n=n)


def test_predictions_are_the_sandwich_in_closed_form():
    public = public_side()
    found = predicted(public, records=2000, rate=0.3)
    at = public.moments(public.fit.theta, records=2000)
    T, inverse = public.geometry.to_raw(), np.linalg.inv(at.H)
    noise = inverse @ np.diag(noise_distribution(public.geometry, rate=0.3).variance) @ inverse
    sampling = inverse @ at.J @ inverse
    pooled = expected_covariance(noise + sampling, public.fit)
    assert found.sampling == pytest.approx(np.sqrt(np.diag(T @ sampling @ T.T)))
    assert found.privacy == pytest.approx(np.sqrt(np.diag(T @ noise @ T.T)))
    assert found.reported == pytest.approx(np.sqrt(np.diag(T @ pooled @ T.T)))
    assert found.public == pytest.approx(np.sqrt(np.diag(T @ public.fit.covariance @ T.T)))
    assert len(BETA) == len(found.reported)


def test_sites_are_averaged_by_inverse_variance():
    # Halves with the noise of a whole each: sampling as of the whole, noise sqrt(2) times as large. Fails where the
    # noise of k sites is taken for that of one, or small sites count as large ones do.
    public = public_side()
    T, noise = public.geometry.to_raw(), InObjective(distribution=noise_distribution(public.geometry, rate=0.3))
    half, whole = (of_point(public, noise=noise, records=records) for records in (1000, 2000))
    two, one = (predicted_errors(part, public.fit, T=T) for part in (averaged([half, half]), whole))
    assert two.sampling == pytest.approx(one.sampling)
    assert two.privacy == pytest.approx(2.0**0.5 * one.privacy)
    small = of_point(public, noise=noise, records=20)
    with_small = predicted_errors(averaged([whole, small]), public.fit, T=T)
    assert np.all((with_small.reported <= one.reported) & (with_small.reported > 0.99 * one.reported))


def test_predictions_scale_as_they_should():
    public = public_side()
    one, four = (predicted(public, records=n, rate=0.3) for n in (1000, 4000))
    assert one.sampling == pytest.approx(2.0 * four.sampling)
    assert one.privacy == pytest.approx(4.0 * four.privacy)
    loud = predicted(public, records=1000, rate=0.03)
    assert loud.privacy == pytest.approx(10.0 * one.privacy)
    assert np.all((loud.reported > one.reported) & (loud.reported < np.hypot(loud.sampling, loud.privacy)))


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("public", [True, False], ids=["public", "none"])
def test_more_epsilon_never_plans_larger_errors(public):
    made = plan(frame() if public else None)
    table = made.table[[f"epsilon={value:g}" for value in EPSILONS]].to_numpy()
    assert table.shape == (3, 6)
    assert np.all(np.isfinite(table) & (table > 0.0))
    assert np.all(np.diff(table, axis=1) < 0.0)
    # Both parts of the private estimate's error are there at every epsilon.
    assert np.all(made.frame[["sampling", "privacy"]].to_numpy() > 0.0)


def test_more_records_plan_smaller_errors():
    tables = [plan(frame(), n=n).frame["std_error"].to_numpy() for n in (100, 10_000, 1_000_000)]
    assert np.all(tables[0] > tables[1])
    assert np.all(tables[1] > tables[2])


@pytest.mark.wide
def test_pooling_is_never_worse_than_the_private_estimate():
    found = plan(frame()).frame
    assert np.all(found["std_error"] < 1.02 * found["private_only"])
    assert plan(None).frame["public_only"].isna().all()


def test_noise_that_drowns_private_records_leaves_open_whether_public_coefficients_hold():
    made = plan(frame(), epsilon=0.01, n=400)
    gain = 1.0 - (made.frame["std_error"] / made.frame["public_only"]).median()
    assert gain < -0.5
    assert f"standard errors {-gain:.0%} larger than public only" in made.verdicts[0.01]


def test_a_plan_needs_the_number_of_records():
    model = hdpf.logit("y ~ a + b", data=hdp.Study(public=frame(), schema=SCHEMA))
    with pytest.raises(hdp.ArgumentError, match="number of private records"):
        model.plan(1.0)
    assert model.plan(1.0, n=10).records == 10


def test_a_plan_is_what_a_fit_reports_about():
    data = frame(3000)
    study = hdp.Study(private=data, public=frame(500), schema=SCHEMA, budget=hdp.Budget(epsilon=2))
    model = hdpf.logit("y ~ a + b", data=study)
    planned = model.plan(1.0).frame["std_error"].to_numpy()
    assert study.ledger.spent.epsilon == Fraction(0)
    reported = model.fit(epsilon=1.0).bse.to_numpy()
    assert np.all((reported > 0.5 * planned) & (reported < 3.0 * planned))


def test_a_plan_says_next_to_nothing_only_of_a_small_gain():
    made = plan(frame(), n=1000)
    gains = 1.0 - (made.frame["std_error"] / made.frame["public_only"]).groupby(made.frame["epsilon"]).median()
    assert gains.min() < 0.1 < 0.2 < gains.max()
    assert {epsilon: "next to nothing" in words for epsilon, words in made.verdicts.items()} == (gains < 0.1).to_dict()
