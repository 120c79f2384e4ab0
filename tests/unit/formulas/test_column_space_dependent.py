"""Columns that depend linearly on each other whatever the rows are: refused before anything is charged."""

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import FormulaError

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90),
    bmi=hdp.Continuous(10, 60),
    g=hdp.Categorical(["a", "b", "c"]),
    h=hdp.Binary(),
    site=hdp.Categorical([f"s{place}" for place in range(40)]),
    day=hdp.Categorical([f"d{place}" for place in range(10)]),
    y=hdp.Binary(),
    time=hdp.Duration(5),
)
ROWS = pd.DataFrame(
    {"age": [50.0], "bmi": [25.0], "g": ["a"], "h": [1], "site": ["s1"], "day": ["d1"], "y": [1], "time": [2.0]}
)


def study():
    return hdp.Study(private=pd.concat([ROWS] * 50, ignore_index=True), schema=SCHEMA, budget=hdp.Budget(epsilon=1))


@pytest.mark.parametrize(
    ("right", "named"),
    [
        ("age + bmi + I(age + bmi)", r"age, bmi, I\(age \+ bmi\): these columns"),
        ("age + ns(age, df=3)", r"age, ns\(age, df=3\)\[1\]"),
        ("age + poly(age, 2)", r"age, poly\(age, 2\)\[1\]: these"),
        ("age + rcs(age, 4)", r"age, rcs\(age, 4\)\[1\]: these"),
        ("I(age > 50) + cut(age, c(-Inf, 50, 60, Inf))", r"I\(age > 50\)\[T.True\], cut"),
        ("h + C(h) + bmi", r"h, C\(h\)\[T.1\]: these"),
    ],
)
@pytest.mark.parametrize(
    "model",
    [
        lambda right, data: hdpf.logit(f"y ~ {right}", data),
        lambda right, data: hdpf.multinomial(f"g ~ {right}", data),
        lambda right, data: hdpf.hazard(f"Surv(time, y) ~ {right}", data, intervals=5),
    ],
    ids=["logit", "multinomial", "hazard"],
)
def test_they_are_named(model, right, named):
    data = study()
    with pytest.raises(FormulaError, match=named + ".*leave out a term"):
        model(right, data)
    assert data.ledger.spent.epsilon == 0


@pytest.mark.parametrize(
    "right",
    [
        "ns(age, df=4) * g + bmi * h",
        "age + I(age^2) + I(age^3) + I(age^4)",
        "age + I(age - 50) * h - I(age - 50)",
        "g * h * rcs(bmi, 3)",
        "0 + g + h",
        "g:h",
        "age:g",
        "bs(age, df=6) + log1p(bmi) + bmi",
        "site:day",  # cells with hardly a row: nothing is known of these
        "site + site:age",
    ],
)
def test_others_are_not(right):
    assert hdpf.logit(f"y ~ {right}", study())._spec.terms
