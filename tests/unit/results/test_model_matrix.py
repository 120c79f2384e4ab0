"""A result as R's generics see it: the names, order and terms that `model.matrix` has, by known examples."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.results import model_matrix

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90),
    size=hdp.Categorical(["s", "m", "l"]),
    arm=hdp.Binary(labels=("placebo", "active")),
    y=hdp.Binary(),
)


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": generator.uniform(30, 80, 300),
            "size": generator.choice(["s", "m", "l"], 300),
            "arm": generator.choice(["placebo", "active"], 300),
            "y": generator.integers(0, 2, 300),
        }
    )


@pytest.fixture(scope="module")
def result(rows):
    model = hdpf.logit("y ~ arm + C(size) + age:C(size):arm", data=hdp.Study(public=rows, schema=SCHEMA))
    return model.fit_public()


def test_names_are_those_of_r_and_know_their_terms(result):
    found = model_matrix.of_result(result)
    assert [(each.name, each.term) for each in found] == [
        ("(Intercept)", 0), ("armactive", 1), ("C(size)m", 2), ("C(size)l", 2),
        ("arm:C(size)s:age", 3), ("arm:C(size)m:age", 3), ("arm:C(size)l:age", 3),
    ]  # fmt: skip
    assert model_matrix.terms(result).assign == [0, 1, 2, 2, 3, 3, 3]
    assert model_matrix.terms(result).levels == {"arm": ["placebo", "active"], "size": ["s", "m", "l"]}


def test_factors_stand_in_the_order_of_the_formula_and_the_first_changes_fastest():
    schema = hdp.Schema(a=hdp.Categorical(["0", "1", "2"]), b=hdp.Categorical(["x", "y", "z"]), y=hdp.Binary())
    names = ["Intercept", "b[T.y]", "b[T.z]", "a[T.1]", "a[T.2]"]
    names += [f"a[T.{a}]:b[T.{b}]" for b in "yz" for a in "12"]  # Python's order: a changes fastest
    found = model_matrix.coefficients("y ~ b + a + a:b", schema, names)
    ordered = [each.name for each in sorted(found, key=lambda each: each.key)]
    assert ordered == ["(Intercept)", "by", "bz", "a1", "a2", "by:a1", "bz:a1", "by:a2", "bz:a2"]


def test_a_renamed_result_says_the_same_in_other_words(result, rows):
    renamed = model_matrix.renamed(result)
    assert renamed.params.to_list() == result.params.to_list()
    assert renamed.params.index[1] == "armactive"
    pd.testing.assert_series_equal(renamed.predict(rows), result.predict(rows))
    assert model_matrix.of_result(renamed) == model_matrix.of_result(result)


def test_the_design_times_the_coefficients_is_the_linear_predictor(result, rows):
    design = model_matrix.design(result, rows)
    renamed = model_matrix.renamed(result)
    eta = design @ renamed.params[design.columns]
    assert 1.0 / (1.0 + np.exp(-eta.to_numpy())) == pytest.approx(result.predict(rows).to_numpy(), rel=1e-12)
    lacking = model_matrix.design(result, rows.assign(age=[np.nan, *rows["age"][1:]]))
    assert lacking.isna().all(axis=1).tolist() == [True] + [False] * 299


def test_other_coefficients_are_given_in_the_order_of_r(result):
    values = np.arange(float(len(result.params)))
    changed = model_matrix.with_coefficients(result, values)
    ordered = [changed.params.iloc[place] for place in model_matrix.order(changed)]
    assert ordered == values.tolist()
    with pytest.raises(hdp.ArgumentError, match="coefficients must be 7 numbers"):
        model_matrix.with_coefficients(result, values[:2])


def test_an_average_of_a_binary_column_has_a_design(rows):
    schema = hdp.Schema(y=hdp.Binary(), z=hdp.Binary())
    study = hdp.Study(public=rows[["y"]].assign(z=(rows["age"] > 50).astype(int)), schema=schema)
    result = hdpf.logit("y ~ z", data=study).fit_public()
    design = model_matrix.design(result, pd.DataFrame({"z": [0.25, 1.0]}))
    assert design.to_numpy().tolist() == [[1.0, 0.25], [1.0, 1.0]]


def test_variables_of_a_formula_are_those_of_r(rows):
    formula = 'y ~ ns(age, df=3) + I(age > 50):arm + relevel(size, ref="m") + cut(age, c(0, 50, 100)) + log(age)'
    fit = hdpf.logit(formula, data=hdp.Study(public=rows, schema=SCHEMA)).fit_public()
    found = model_matrix.variables(fit, rows.assign(age=[np.nan, *rows["age"][1:]]))
    kinds = {name: (each.kind, each.levels, each.size) for name, each in found.items()}
    assert kinds == {
        "ns(age, df = 3)": ("matrix", [], 3),
        'relevel(size, ref = "m")': ("factor", ["m", "s", "l"], 1),
        "cut(age, c(0, 50, 100))": ("factor", ["(0,50]", "(50,100]"], 1),
        "log(age)": ("numeric", [], 1),
        "I(age > 50)": ("logical", [], 1),
        "arm": ("factor", ["placebo", "active"], 1),
    }
    values = {name: each.cells[:, 0] for name, each in found.items()}
    assert np.isnan(values["log(age)"][0])
    assert np.isnan(values["I(age > 50)"][0])
    np.testing.assert_array_equal(values["log(age)"][1:], np.log(rows["age"][1:]))
    np.testing.assert_array_equal(values["I(age > 50)"][1:], rows["age"][1:] > 50)
    np.testing.assert_array_equal(values['relevel(size, ref = "m")'], rows["size"].map({"m": 1, "s": 2, "l": 3}))
    np.testing.assert_array_equal(values["arm"], rows["arm"].map({"placebo": 1, "active": 2}))
    assert model_matrix.factor_levels(fit) == {name: levels for name, (kind, levels, _) in kinds.items() if levels}
    assert model_matrix.terms(fit).beside == ["y"]
