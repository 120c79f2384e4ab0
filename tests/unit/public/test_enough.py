"""How many public rows a model needs, and what is said where they are few."""

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError
from hdpstats.public.enough import few, least_rows, rare_values, rarer

SCHEMA = hdp.Schema(
    x=hdp.Continuous(0, 1), g=hdp.Categorical(["a", "b", "c"]), h=hdp.Binary(), y=hdp.Binary(), z=hdp.Continuous(0, 9)
)


@pytest.fixture(scope="module")
def table():
    frame = pd.DataFrame(
        {
            "x": [0.1, 0.9] * 10,
            "g": ["a"] * 16 + ["b"] * 4,
            "h": [1.0] * 3 + [0.0] * 17,
            "y": [1.0] * 6 + [0.0] * 14,
            "z": [1.0] * 20,
        }
    )
    return hdp.Study(public=frame, schema=SCHEMA).public


def test_the_least_number_follows_from_the_coefficients():
    assert [least_rows(each) for each in (1, 4, 9, 10, 11, 25)] == [40, 40, 40, 40, 44, 100]


def test_rows_events_and_cells_are_each_a_reason():
    assert few(135, 45, [], coefficients=9) is None
    assert few(134, 45, [], coefficients=9) == (
        "Public rows are few for 9 coefficients (134 rows): what they leave open is in the intervals."
    )
    assert "(500 rows, 44 events)" in few(500, 44, [], coefficients=9)
    assert few(500, None, [], coefficients=9) is None
    assert "(4 with g=b)" in few(500, None, [("g=b", 4)], coefficients=9)
    assert few(500, None, [("g=b", 5)], coefficients=9) is None
    assert "for 1 coefficient (10 rows" in few(10, None, [], coefficients=1)


def test_values_that_few_rows_have_are_named_and_lacking_ones_are_not(table):
    assert list(rare_values(table, SCHEMA, ["x", "g", "h"])) == [("g=b", 4), ("h=1", 3)]


def test_events_are_those_of_the_rarer_of_two_outcomes(table):
    assert rarer(table, SCHEMA, "y") == 6
    assert rarer(table, SCHEMA, "z") is None
    assert rarer(hdp.Study(public=pd.DataFrame({"x": [0.5]}), schema=SCHEMA).public, SCHEMA, "y") is None


def people(count):
    return pd.DataFrame(
        {
            "x": [(place * 7 % 11) / 10 for place in range(count)],
            "g": ["abc"[place % 3] if place > 1 else "c" for place in range(count)],
            "y": [float(place % 2) for place in range(count)],
        }
    )


def test_plans_say_that_public_rows_are_too_few_and_not_used():
    said = str(hdpf.logit("y ~ x + g", hdp.Study(public=people(39), schema=SCHEMA)).plan(1.0, n=5000))
    assert "The 39 complete public rows are fewer than the 40 that this model needs, and not used." in said
    enough = hdpf.logit("y ~ x + g", hdp.Study(public=people(41), schema=SCHEMA))
    assert "not used" not in str(enough.plan(1.0, n=5000))


def test_a_multinomial_outcome_needs_rows_for_the_coefficients_of_all_levels():
    levels = list("pqrstu")
    schema = hdp.Schema(x=SCHEMA["x"], m=hdp.Categorical(levels))

    def model(count):
        frame = people(count)[["x"]].assign(m=[levels[place * 5 % 6] for place in range(count)])
        frame.loc[frame["m"] == "u", "m"] = "t"
        frame.loc[2, "m"] = "u"
        return hdpf.multinomial("m ~ x + I(x^2)", hdp.Study(public=frame, schema=schema))

    assert model(59)._spec.public is None
    assert model(59)._spec.few_public.startswith("The 59 complete public rows are fewer than the 60")
    assert model(60)._spec.public is not None
    assert "1 with m=u" in model(60)._spec.few_public


@pytest.mark.filterwarnings("ignore:public rows alone")
@pytest.mark.parametrize("model", [hdpf.logit, hdpf.linear, hdpf.multinomial])
def test_public_rows_in_which_no_covariate_varies_are_refused(model):
    outcome = {hdpf.logit: "y", hdpf.linear: "x", hdpf.multinomial: "g"}[model]
    frame = people(60).assign(z=[7.0, 8.0] * 30)
    study = hdp.Study(private=frame.assign(h=0.0), public=frame, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
    with pytest.raises(ArgumentError, match=r"no covariate of the formula varies .*: pmin\(z, 6.0\); leave"):
        model(f"{outcome} ~ I(pmin(z, 6))", study).plan(1.0)
    assert study.ledger.spent.epsilon == 0


def test_plans_of_hazards_say_that_public_people_are_too_few():
    schema = hdp.Schema(x=SCHEMA["x"], time=hdp.Duration(5), y=SCHEMA["y"])
    study = hdp.Study(public=people(39)[["x", "y"]].assign(time=2.0), schema=schema)
    with pytest.raises(ArgumentError, match=r"at risk when\. The 39 complete public rows are fewer than the 40"):
        hdpf.hazard("Surv(time, y) ~ x", study, intervals=5).plan(1.0, n=1000)
