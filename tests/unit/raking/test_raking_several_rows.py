"""Public people with several rows, raked: as wholes, to averages over rows and to numbers of rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.raking.posterior import RAKED_PEOPLE, cohort_posterior, notes_on
from hdpstats.raking.raking import Averages, raked_variables, raking_at
from hdpstats.records.averages import NUMBER_OF_ROWS, CohortMoment, CohortMoments, MomentKind

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-4, 4),
    b=hdp.Binary(complete=True),
    y=hdp.Binary(complete=True),
    c=hdp.Categorical(["p", "q", "r"]),
)
rng = np.random.default_rng(5)
NUMBERS = rng.choice([1, 2, 4], 200, p=[0.4, 0.3, 0.3])
WHOSE = np.repeat(np.arange(200), NUMBERS)
PUBLIC = pd.DataFrame(
    {
        "id": WHOSE,
        "x": rng.normal(0, 1, len(WHOSE)).round(3),
        "b": rng.integers(0, 2, len(WHOSE)),
        "y": rng.integers(0, 2, len(WHOSE)),
        "c": rng.choice(["p", "q", "r"], len(WHOSE)),
    }
)


def side_of(correlation, loss=None):
    study = hdp.Study(public=PUBLIC, schema=SCHEMA, unit="id", max_rows_per_unit=4, n_max=900)
    if loss == "linear":
        return hdpf.linear("x ~ b", study, correlation=correlation)._spec.public
    if loss == "multinomial":
        return hdpf.multinomial("c ~ x", study, correlation=correlation)._spec.public
    return hdpf.logit("y ~ x + b", study, correlation=correlation)._spec.public


KNOWN = CohortMoments(
    people=900.0,
    people_sd=0.0,
    moments=(
        CohortMoment(variable="b", what=MomentKind.SHARE, level=1, value=0.7, noise_sd=0.0),
        CohortMoment(variable="x", what=MomentKind.MEAN, value=0.4, noise_sd=0.0, lower=-4, upper=4),
        CohortMoment(variable="x", what=MomentKind.SQUARE, value=1.5, noise_sd=0.0, lower=-4, upper=4, centre=0.0),
        CohortMoment(variable=NUMBER_OF_ROWS, what=MomentKind.ROWS, level=0, value=0.2, noise_sd=0.0, upper=1.0),
        CohortMoment(variable=NUMBER_OF_ROWS, what=MomentKind.ROWS, level=1, value=0.3, noise_sd=0.0, upper=2.0),
    ),
    release_sha256="0" * 64,
)


@pytest.mark.parametrize("correlation", [0.0, 0.4, 1.0])
def test_raked_people_have_the_described_averages_over_rows_and_numbers_of_rows(correlation):
    side = side_of(correlation)
    variables = raked_variables(side.variables, KNOWN, case_weights=side.case_weights)
    posterior = cohort_posterior(variables)
    raking = raking_at(variables, posterior.mean)
    people = raking.raked(posterior.mean, base=np.full((1, side.people), 1.0 / side.people))
    by_person = pd.Series(people.weights[0]).groupby(side.person)
    assert by_person.nunique().max() == 1
    assert by_person.first().sum() == pytest.approx(1.0)
    counts = people.weights[0] * side.weights
    counts, columns = counts / counts.sum(), dict(zip(side.variables.design.names, people.X[0].T, strict=True))
    assert counts @ columns["b"] == pytest.approx(0.7, abs=2e-3)
    assert counts @ columns["x"] == pytest.approx(0.4, abs=2e-3)
    assert counts @ columns["x"] ** 2 == pytest.approx(1.5, abs=5e-3)
    numbers = np.bincount(side.person)[side.person]
    assert [counts @ (numbers == each) for each in (1, 2, 4)] == pytest.approx([0.2, 0.3, 0.5], abs=2e-3)
    assert notes_on(raking, dimension=3)[0] == RAKED_PEOPLE.format(what="Standard errors")


def test_numbers_that_no_public_person_has_are_said():
    side = side_of(1.0)
    none = replace(
        KNOWN,
        moments=(replace(KNOWN.moments[3], upper=2.5, value=0.4), replace(KNOWN.moments[4], upper=3.0, value=0.3)),
    )
    raking = raked_variables(side.variables, none, case_weights=side.case_weights)
    assert raking.constant == (NUMBER_OF_ROWS,)


@pytest.mark.parametrize("loss", ["logistic", "linear", pytest.param("multinomial", marks=pytest.mark.wide)])
def test_people_raked_to_nothing_have_the_moments_of_public_people(loss):
    side = side_of(0.4, loss)
    nothing = replace(KNOWN, moments=())
    variables = raked_variables(side.variables, nothing, case_weights=side.case_weights)
    raking = raking_at(variables, cohort_posterior(variables).mean)
    rng = np.random.default_rng(1)
    base = rng.dirichlet(np.ones(side.people), 3)
    empty = np.zeros((3, 0))
    averages = Averages(shares=empty, means=empty, squares=empty, at_risk=empty, products=empty)
    people = side.whitened(raking.raked(averages, base=base))
    theta = side.centre + 0.2
    raked = side.raked_moments(theta, records=900, people=people)
    plain = side.moments(theta, records=900, row_weights=base)
    for one, other in ((raked.H, plain.H), (raked.J, plain.J)):  # but for how they are shrunk
        assert np.abs(one - other).max() < 0.1 * np.abs(other).max()
        assert np.linalg.eigvalsh(one).min() > 0
