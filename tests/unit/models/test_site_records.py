"""The number of people that fits and plans use, and what is left of epsilon once it is released."""

from fractions import Fraction

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.models.site_records import LEAST_SHARE, MOST_SHARE, left_for_fit, share_of_count
from hdpstats.privacy.sensitivity import Relation
from tests.support import FORMULA, PUBLIC_ROWS, SCHEMA, people

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
PUBLIC = people(PUBLIC_ROWS, seed=1)


LACKING = "rows may be left out"


def study_of(relation):
    """Return a study under a relation; `LACKING`: under replace_one, with a column that is not declared complete."""
    lacking = relation == LACKING
    return hdp.Study(
        public=PUBLIC[["x"]],
        schema=hdp.Schema(x=hdp.Continuous(-3, 3, complete=not lacking)),
        relation=REPLACE.value if lacking else relation.value,
        **({"n_max": 500} if relation is ADD else {}),
    )


@pytest.mark.parametrize(
    ("records", "epsilon", "share"),
    [
        (3000, 1, Fraction(94, 10_000)),
        (500, 1, Fraction(565, 10_000)),
        (500, Fraction(1, 2), MOST_SHARE),
        (10, Fraction(1, 10), MOST_SHARE),
        (10**6, 1, LEAST_SHARE),
    ],
)
def test_the_number_of_complete_rows_has_a_relative_error_of_a_twentieth(records, epsilon, share):
    found = share_of_count(study_of(LACKING), ["x"], Fraction(epsilon), records=records)
    assert found == max(share, LEAST_SHARE)
    assert share_of_count(study_of(REPLACE), ["x"], Fraction(epsilon), records=records) == 0


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 3), Fraction(1), Fraction(31, 10), Fraction(50)])
def test_a_fiftieth_is_for_the_number_where_it_is_protected(epsilon):
    left = left_for_fit(study_of(ADD), ["x"], epsilon, records=500)
    assert 0 <= left - epsilon * Fraction(49, 50) < Fraction(1, 10**9)
    assert left < epsilon
    assert left_for_fit(study_of(REPLACE), ["x"], epsilon, records=500) == epsilon


def test_what_is_left_has_no_more_digits_than_a_query_may_have():
    for relation, epsilon in ((ADD, Fraction(10**29 + 1, 10**29)), (LACKING, Fraction(1, 999_999_937))):
        assert left_for_fit(study_of(relation), ["x"], epsilon, records=500).denominator <= 10**30


def planned(**terms):
    return hdpf.logit(FORMULA, data=hdp.Study(public=PUBLIC, schema=SCHEMA, **terms))


def test_a_plan_is_for_the_declared_number_and_says_so():
    plan = planned(relation="add_or_remove_one", n_max=4321).plan(1.0)
    assert (plan.records, plan.declared) == (4321, True)
    for text in (str(plan), plan._repr_html_()):
        assert "the declared 4321 private records (the real number is protected: plan(n=...) for another)" in text
    named = planned(relation="add_or_remove_one", n_max=4321).plan(1.0, n=800)
    assert (named.records, named.declared) == (800, False)
    assert "Predicted standard errors, 800 private records; nothing is spent" in str(named)
    with pytest.raises(hdp.ArgumentError, match="n must be given"):
        planned().plan(1.0)


def test_a_plan_is_for_what_is_left_and_for_half_the_noise(monkeypatch):
    asked, right = [], perturbation.calibrate_objective

    def calibrate(query, *args, **options):
        asked.append((query.epsilon, options["relation"]))
        return right(query, *args, **options)

    monkeypatch.setattr(perturbation, "calibrate_objective", calibrate)
    here = planned(relation="add_or_remove_one", n_max=900).plan(1.0, describe=False)
    there = planned().plan(1.0, n=900, describe=False)
    assert asked == [(Fraction(49, 50), ADD), (Fraction(1), REPLACE)]
    assert (here.frame["privacy"] < 0.7 * there.frame["privacy"]).all()
