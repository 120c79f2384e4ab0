"""A site answers a query: what it checks, in which order, and what it hands out."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.regression.bounds import regression_person_loss
from hdpstats.families.regression.rows import LinearObjective
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms import minimiser
from hdpstats.mechanisms.perturbation import ObjectiveRelease
from hdpstats.mechanisms.perturbation.site import calibrate_objective
from hdpstats.records.query import Query
from hdpstats.schema.table import PrivateTable
from tests.support import FORMULA, PUBLIC_ROWS, RECORDS, SCHEMA, people, study_of

PRIVATE = people(RECORDS)


@pytest.fixture
def ledger():
    return hdp.Ledger(None, dataset="trial", epsilon=3)


@pytest.fixture
def site(ledger):
    return hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger)


@pytest.fixture(scope="module")
def query():
    """A query as a model asks it."""
    model = hdpf.logit(FORMULA, data=study_of(PRIVATE, people(PUBLIC_ROWS, seed=1)), weights="w", offset="o")
    return model.fit(epsilon=1.0, describe=False).query


def test_a_site_answers_with_a_release_and_its_entry(site, ledger, query):
    release = site.answer(query)
    assert isinstance(release, ObjectiveRelease)
    assert (release.entry.dataset, release.entry.version) == ("trial", 1)
    assert ledger.history()[["entry", "model"]].iloc[0].tolist() == [release.entry.number, query.model.formula]
    assert release.entry.head == ledger.head
    assert release.records == RECORDS
    assert sum(event.epsilon for event in release.events) <= query.epsilon
    assert ledger.spent.epsilon == query.epsilon


def test_the_same_query_is_answered_by_the_same_release_for_free(site, ledger, query):
    first, again = site.answer(query), site.answer(type(query).from_dict(query.to_dict()))
    assert first == again
    assert ledger.spent.epsilon == 1


def test_a_second_site_on_the_same_ledger_hands_out_the_recorded_release(site, ledger, query):
    other = hdp.LocalSite(PRIVATE.assign(y=0.0), schema=SCHEMA, ledger=ledger)
    assert other.answer(query) == site.answer(query)


def test_every_coordinate_of_a_release_is_on_its_lattice(site, query):
    release = site.answer(query)
    for value in release.theta:
        assert (Fraction(value) / Fraction(release.grid)).denominator == 1


MODEL_CHANGES = [
    ({"formula": "y ~ x"}, hdp.SiteError),
    ({"formula": "y ~ 0 + x + log1p(k) + g + x:k"}, hdp.SiteError),
    ({"formula": "y ~ nowhere + x + g"}, hdp.FormulaError),
    ({"formula": "y ~ I(__import__('os'))"}, hdp.FormulaError),
    ({"weights": "x"}, hdp.SiteError),
    ({"weights": "nowhere"}, hdp.SiteError),
    ({"offset": "w"}, hdp.SiteError),
    ({"loss": "squared hinge"}, hdp.MechanismError),
]
QUERY_CHANGES = [
    ({"schema_sha256": "0" * 64}, hdp.SiteError),
    ({"ridge": Fraction(1, 2**60)}, hdp.MechanismError),
    ({"epsilon": Fraction(31, 10)}, hdp.InsufficientBudget),
]


def check_refused(site, ledger, query, error, match=None):
    before = ledger.verify()
    with pytest.raises(error, match=match):
        site.answer(query)
    assert ledger.verify() == before


@pytest.mark.parametrize(("change", "error"), QUERY_CHANGES, ids=str)
def test_a_query_that_does_not_fit_is_refused_and_costs_nothing(site, ledger, query, change, error):
    check_refused(site, ledger, replace(query, **change), error)


@pytest.mark.parametrize(("change", "error"), MODEL_CHANGES, ids=str)
def test_a_model_that_does_not_fit_is_refused_and_costs_nothing(site, ledger, query, change, error):
    check_refused(site, ledger, replace(query, model=replace(query.model, **change)), error)


@pytest.mark.parametrize("formula", ["x ~ k + log1p(k) + g", "k ~ x + I(x^2) + g"])
def test_an_outcome_that_the_constants_do_not_hold_for_is_refused(site, ledger, query, formula):
    """A handwritten query may name any column; the score of one person is bounded for a binary one only."""
    asked = replace(query, model=replace(query.model, formula=formula))
    check_refused(site, ledger, asked, hdp.MechanismError, "binary outcome")


def test_one_row_per_person_is_not_asked_of_a_site_of_people_with_several(query):
    """The score of one row is bounded, not that of all rows of a person."""
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, unit="id")
    several = hdp.LocalSite(PRIVATE.assign(id=1), schema=SCHEMA, ledger=ledger, unit="id", max_rows_per_unit=3, n_max=9)
    check_refused(several, ledger, query, hdp.SiteError, "several rows")


def test_a_release_of_a_hidden_number_of_people_tells_the_declared_one(query):
    for rows in (0, 40, RECORDS):
        ledger = hdp.Ledger(None, dataset="trial", epsilon=3, relation="add_or_remove_one")
        site = hdp.LocalSite(PRIVATE.iloc[:rows], schema=SCHEMA, ledger=ledger, n_max=500)
        assert site.answer(query).records == 500


def test_the_same_query_under_another_declared_number_is_another_charge(query):
    """Its calibration is another, so the recorded release is no answer to it."""
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, relation="add_or_remove_one")
    first, other = (hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger, n_max=most) for most in (500, 501))
    assert first.answer(query).theta != other.answer(query).theta
    assert ledger.spent.epsilon == 2
    assert first.answer(query) == first.answer(query)
    assert ledger.spent.epsilon == 2


@pytest.mark.parametrize(("opened", "asked"), [(None, "id"), ("id", None), ("id", "patient")])
def test_an_account_of_rows_and_one_of_persons_are_not_mixed(opened, asked):
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, unit=opened)
    several = {} if asked is None else {"unit": asked, "max_rows_per_unit": 3, "n_max": 9}
    for made in (hdp.LocalSite, lambda frame, **options: hdp.Study(private=frame, **options)):
        with pytest.raises(hdp.ArgumentError, match="unit must be the ledger's own") as caught:
            made(PRIVATE.assign(id=1, patient=1), schema=SCHEMA, ledger=ledger, **several)
        assert caught.value.argument == "unit"


def test_a_query_of_another_kind_is_refused(site, ledger):
    class Other(Query):
        schema_sha256 = SCHEMA.sha256

        def to_dict(self):
            return {}

    with pytest.raises(hdp.SiteError, match="Other"):
        site.answer(Other())
    assert ledger.history().empty


@pytest.mark.parametrize("argument", ["schema", "ledger", "frame"])
def test_a_site_checks_what_it_is_made_of(ledger, argument):
    made_of = {"frame": PRIVATE, "schema": SCHEMA, "ledger": ledger}
    with pytest.raises(hdp.ArgumentError):
        hdp.LocalSite(**(made_of | {argument: None}))


def test_a_site_shows_no_number_of_records(site):
    assert repr(site) == "<local site: data set 'trial', 6 declared columns; replace_one, one row per person>"


def test_another_version_of_the_data_is_another_release_on_the_same_account(tmp_path, query):
    terms = {"dataset": "trial", "epsilon": 3}
    first = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(tmp_path / "a.db", **terms)).answer(query)
    ledger = hdp.Ledger(tmp_path / "a.db", version=2, **terms)
    second = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger).answer(query)
    assert first.theta != second.theta
    assert ledger.spent.epsilon == 2


@pytest.fixture(params=range(5))
def orders(request, query):
    """Return the people of a query, as the mechanism sees them, in the frame's and in another order."""
    person_loss = regression_person_loss(query.model, SCHEMA)
    seen = []
    for order in (np.arange(RECORDS), np.random.default_rng(request.param).permutation(RECORDS)):
        seen.append(person_loss.people(PrivateTable.from_frame(PRIVATE.iloc[order], SCHEMA).admit(person_loss.needs)))
    return seen


def test_the_gradient_does_not_depend_on_the_order_of_rows(orders, query):
    rng = np.random.default_rng(0)
    D = query.model.dimension
    constants = {
        "ridge": np.full(D, float(query.ridge)),
        "centre": np.array(query.centre),
        "linear": rng.normal(size=D),
    }
    both = [people.objective(**constants) for people in orders]
    for theta in rng.normal(scale=3.0, size=(50, D)):
        assert both[0].gradient(theta).tobytes() == both[1].gradient(theta).tobytes()


def test_the_gradient_does_not_depend_on_the_order_of_rows_in_any_shape():
    """Of these shapes about one in seven gives another gradient if BLAS multiplies: all pass by luck once in 10^12."""
    rng = np.random.default_rng(11)
    for _ in range(200):
        n, D = int(rng.integers(3, 400)), int(rng.integers(2, 24))
        X, y, weights, offset = rng.normal(size=(n, D)), rng.integers(0, 2, n) + 0.0, rng.random(n), rng.normal(size=n)
        theta, order = rng.normal(scale=3.0, size=D), rng.permutation(n)
        constants = {"loss": LogisticLoss(), "ridge": np.ones(D), "centre": np.zeros(D), "linear": np.zeros(D)}
        here = LinearObjective(X=X, y=y, weights=weights, offset=offset, **constants)
        there = LinearObjective(X=X[order], y=y[order], weights=weights[order], offset=offset[order], **constants)
        assert here.gradient(theta).tobytes() == there.gradient(theta).tobytes()


def test_the_solution_does_not_depend_on_the_order_of_rows_beyond_its_certificate(orders, query):
    calibration = calibrate_objective(query, regression_person_loss(query.model, SCHEMA), records=RECORDS)
    effort = calibration.effort
    for _ in range(5):
        perturbation = calibration.perturbation.draw()
        first, second = (minimiser.certified(query, each, effort=effort, perturbation=perturbation) for each in orders)
        apart = sum((a - b) ** 2 for a, b in zip(first, second, strict=True))
        assert apart <= (2 * effort.radius) ** 2
        other = minimiser.certified(query, orders[1], effort=effort, perturbation=[value + 1 for value in perturbation])
        assert sum((a - b) ** 2 for a, b in zip(first, other, strict=True)) > (2 * effort.radius) ** 2
