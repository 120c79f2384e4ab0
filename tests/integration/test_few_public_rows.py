"""Few public rows: answered, and said in plan and summary; too few: the schema's box, whatever the model is."""

import numpy as np
import pandas as pd
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.noise import exact
from tests import seeded

NAMES = [f"x{j}" for j in range(1, 11)]
SCHEMA = hdp.Schema(**{name: hdp.Continuous(-4, 4, complete=True) for name in NAMES}, y=hdp.Binary(complete=True))


def frame(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 10)).clip(-4, 4)
    y = (rng.random(n) < expit(-0.5 + 0.6 * X[:, 0] - 0.4 * X[:, 1])).astype(float)
    return pd.DataFrame({**dict(zip(NAMES, X.T, strict=True)), "y": y})


def study(public):
    return hdp.Study(private=frame(4000, 1), public=frame(public, 2), schema=SCHEMA, budget=hdp.Budget(epsilon=10))


def test_forty_rows_for_four_coefficients_are_answered_and_called_few():
    model = hdpf.logit("y ~ x1 + x2 + x3", study(40))
    plan, result = model.plan(epsilon=1.0), model.fit(1.0)
    said = "Public rows are few for 4 coefficients (40 rows, "
    assert said in plan.assumption
    assert said in " ".join(str(result.summary()).split())
    assert np.isfinite(result.bse).all()


def test_many_rows_are_not_called_few():
    model = hdpf.logit("y ~ x1 + x2 + x3", study(300))
    assert "few" not in model.plan(epsilon=1.0).assumption
    assert "Public rows are few" not in " ".join(str(model.fit(1.0).summary()).split())


def test_the_least_number_of_rows_follows_from_the_coefficients():
    formula = "y ~ " + " + ".join(NAMES)
    used, lacking = (hdpf.logit(formula, study(rows)).plan(epsilon=1.0).assumption for rows in (44, 43))
    assert "Public rows are few for 11 coefficients (44 rows" in used
    assert "Public rows are few" not in lacking
    assert "Predicted from public rows" not in lacking


def with_rare_level(n, seed):
    """Return people with an outcome of 3 %, of whom 2 % have a level."""
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, n)).clip(-4, 4)
    level = rng.random(n) < 0.02
    y = (rng.random(n) < expit(-3.6 + 0.4 * x + 0.5 * level)).astype(float)
    return pd.DataFrame({"x1": x, "x2": z, "lev": np.where(level, "b", "a"), "y": y})


def test_what_is_not_estimable_is_named_for_each_estimate():
    schema = hdp.Schema(
        x1=SCHEMA["x1"], x2=SCHEMA["x2"], lev=hdp.Categorical(["a", "b"], complete=True), y=hdp.Binary(complete=True)
    )
    with seeded.Source("rare level").installed(exact):
        people = hdp.Study(
            private=with_rare_level(500, 1),
            public=with_rare_level(400, 3),
            schema=schema,
            budget=hdp.Budget(epsilon=1),
        )
        result = hdpf.logit("y ~ x1 + x2 + lev", people).fit(epsilon=0.5)
    assert np.isnan(result.private_only.values).tolist() == [False, True, True, True]
    assert np.isnan(result.bse).tolist() == [False, False, False, True]
    for shown in (" ".join(str(result.summary()).split()), result.summary().as_html()):
        assert "Not estimable: lev[T.b]. Private people and the public fit together" in shown
        assert "Private only: Not estimable: x1, x2, lev[T.b]. Private people are predicted" in shown
    assert result.disagreement.df == 1
    assert hdp.Result.from_json(result.to_json()).disagreement.words == result.disagreement.words
