"""Correlations of a description: what products tell of them, with which errors, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.describe import Description
from hdpstats.records.averages import CentredColumn
from tests import known_noise

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-5, 5, complete=True),
    z=hdp.Continuous(-10, 10, complete=True),
    arm=hdp.Binary(complete=True),
    part=hdp.Categorical(["p", "q", "r"], complete=True),
    y=hdp.Binary(complete=True),
    w=hdp.Weight(max=2),
)


def people(seed, n, r):
    rng = np.random.default_rng(seed)
    x, z = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], n).T
    arm = (rng.random(n) < np.where(x > 0, 0.3 + r / 3, 0.3 - r / 3)).astype(int)
    part = np.array(["p", "q", "r"])[np.clip((x + 1.5 + rng.random(n)).astype(int), 0, 2)]
    y = (rng.random(n) < 1 / (1 + np.exp(-0.5 * x + 0.4 * z))).astype(int)
    return pd.DataFrame({"x": x, "z": 2 * z, "arm": arm, "part": part, "y": y, "w": rng.integers(0, 3, n) * 1.0})


PRIVATE, PUBLIC = people(1, 6000, 0.75), people(2, 400, 0.0)


def study(private=PRIVATE, **terms):
    budget = {"budget": hdp.Budget(epsilon=60)} if private is not None else {}
    return hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, **{**budget, **terms})


def truth():
    columns = PRIVATE.assign(p=PRIVATE["part"] == "p", q=PRIVATE["part"] == "q")[["x", "z", "arm", "p", "q"]]
    R = columns.astype(float).corr().to_numpy()
    i, j = np.triu_indices(5, 1)
    return R[i, j][:-1]


def test_without_noise_they_are_those_of_the_private_people(monkeypatch):
    known_noise.off(monkeypatch)
    description = hdp.describe(study(), ["x", "z", "arm", "part"], correlations=True, epsilon=2)
    found = description.correlations()
    assert found["estimate"].to_numpy() == pytest.approx(truth(), abs=0.03)
    assert found["other_level"].tolist()[:5] == [None, "1", "p", "q", "1"]
    assert (found["conf_low"] < found["estimate"]).all()
    assert "x and z" in str(description.summary())
    assert "x and arm and 1" in description.sums()["variable"].tolist()


def test_their_errors_are_those_that_a_plan_predicts():
    request = hdp.describe(study(), ["x", "z", "arm"], correlations=True, quantiles=False)
    plan = request.plan(epsilon=2).frame.query("statistic == 'correlation'")
    assert plan["variable"].tolist() == ["x, z", "x, arm", "z, arm"]
    request = hdp.describe(study(PUBLIC.copy()), ["x", "z", "arm"], correlations=True, quantiles=False)
    alike, expected = request.release(30), request.plan(epsilon=30)
    errors = expected.frame.query("statistic == 'correlation'")["std_error"].to_numpy()
    assert alike.correlations()["std_error"].to_numpy() == pytest.approx(errors, rel=0.1)


def test_json_and_a_fit_keep_them():
    of = study()
    description = hdp.describe(of, ["x", "z"], correlations=True, quantiles=False, epsilon=2)
    assert Description.from_json(description.to_json()).correlations().equals(description.correlations())
    result = hdpf.logit("y ~ x + z", data=of).fit(epsilon=1, description=description)
    assert "mixed to the described shares" in " ".join(str(result.summary()).split())


@pytest.mark.parametrize(
    ("columns", "given", "match"),
    [
        (["x"], {}, "two columns or more"),
        (["x", "z"], {"by": "arm"}, "without by="),
        (["x", "w"], {}, "w may have missing cells: give complete=True"),
    ],
)
def test_what_has_no_correlations_is_refused_before_a_charge(columns, given, match):
    spent = (of := study()).ledger.spent
    with pytest.raises(hdp.ArgumentError, match=match):
        hdp.describe(of, columns, correlations=True, epsilon=1, **given)
    assert of.ledger.spent == spent
    plain = hdp.describe(study(), ["x", "z"], epsilon=1)
    with pytest.raises(hdp.ArgumentError, match="correlations=True"):
        plain.correlations()


def test_constants_are_refused_that_are_none():
    with pytest.raises(hdp.ArgumentError, match="a finite centre and a unit above 0"):
        CentredColumn(name="x", centre=0.0, unit=0.0)
    with pytest.raises(hdp.ArgumentError, match="must be 0 or more"):
        CentredColumn(name="x", centre=0.0, unit=1.0, level=-1)
    asked = hdp.describe(study(), ["x", "z"], correlations=True)
    pairs = next(iter(asked.queries(hdp.Budget(epsilon=1).epsilon, {"": 100}).values())).pairs
    with pytest.raises(hdp.MechanismError, match="numbers in"):
        replace(pairs, largest=np.inf)
