import math
from decimal import Decimal
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError, BudgetError, InsufficientBudget, LedgerError
from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Budget, Spend


def test_a_release_is_charged_recorded_and_returned_for_free(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=3.0, delta=1e-6)
    request = request_for()
    assert ledger.stored(request.id) is None
    charge = ledger.charge(request, cost("0.5", "1e-7"))
    assert ledger.spent == cost("0.5", "1e-7")
    assert ledger.stored(request.id) is None
    release = ledger.persist(charge, '{"params":[1.5]}')
    assert (release.release_json, release.place.number, release.place.head) == ('{"params":[1.5]}', 2, ledger.head)
    for again in (ledger, Ledger(path, dataset="trial", epsilon=3, delta=1e-6)):
        assert again.stored(request.id) == release
        assert again.charge(request, cost("0.5", "1e-7")) == charge
        assert again.persist(charge, '{"params":[99]}') == release
        assert again.spent == cost("0.5", "1e-7")
        assert again.remaining == cost("2.5", "9e-7")


def test_spacing_and_order_of_the_query_do_not_make_another_request(request_for):
    same = request_for(a=1, b=2)
    assert (
        type(same)(
            dataset="trial",
            version=1,
            schema_sha256="AB" * 32,
            public_sha256=None,
            query_json='{ "b": 2, "a": 1, "model": {"formula": "y ~ age"}, "kind": "objective" }',
            terms="replace_one, one row per person",
        )
        == same
    )


@pytest.mark.parametrize(
    "change",
    [{"number": 2}, {"dataset": "x"}, {"version": 2}, {"kind": "output"}, {"terms": "add_or_remove_one"}],
    ids=lambda change: next(iter(change)),
)
def test_every_part_of_a_request_is_part_of_its_identity(request_for, change):
    assert request_for(**change).id != request_for().id


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": ""},
        {"dataset": "two\nlines"},
        {"version": 0},
        {"version": True},
        {"replicate": 0},
        {"schema_sha256": "ab"},
        {"public_sha256": "zz" * 32},
        {"query_json": "{"},
        {"query_json": "NaN"},
        {"query_json": "1e999"},
        {"query_json": None},
        {"terms": ""},
        {"terms": None},
    ],
)
def test_a_malformed_request_is_refused_by_name(request_for, change):
    good = {"dataset": "d", "version": 1, "schema_sha256": "ab" * 32, "public_sha256": None}
    good |= {"query_json": "{}", "terms": "replace_one, one row per person"}
    with pytest.raises(ArgumentError, match=next(iter(change))):
        type(request_for())(**{**good, **change})


def test_three_tenths_fit_in_three_tenths(request_for, cost):
    ledger = Ledger(None, dataset="trial", epsilon=0.3)
    for number in (1, 2, 3):
        ledger.charge(request_for(number), Spend(0.1))
    assert ledger.remaining == cost(0)
    with pytest.raises(InsufficientBudget):
        ledger.charge(request_for(4), Spend(Fraction(1, 10**300)))


def test_one_float_above_the_total_is_refused_with_the_facts(request_for):
    ledger = Ledger(None, dataset="trial", epsilon=0.3)
    with pytest.raises(InsufficientBudget, match=r"0\.300000001.*0\.3, ") as caught:
        ledger.charge(request_for(), Spend(math.nextafter(0.3, 1)))
    assert isinstance(caught.value, BudgetError)
    assert caught.value.requested.epsilon == Fraction("0.300000001")
    assert caught.value.remaining.epsilon == Fraction(3, 10)
    assert caught.value.total == Budget(Fraction(3, 10))
    assert ledger.spent.epsilon == 0
    assert len(ledger.history()) == 0
    ledger.charge(request_for(), Spend(0.3))


def test_delta_is_counted_like_epsilon(request_for, cost):
    ledger = Ledger(None, dataset="trial", epsilon=10, delta=0.6)
    ledger.charge(request_for(1), cost(1, "0.5"))
    with pytest.raises(InsufficientBudget):
        ledger.charge(request_for(2), cost(1, "0.7"))
    ledger.charge(request_for(3), cost(0, "0.1"))
    assert ledger.remaining == cost("8.9999")  # the floor, as the release has a delta only


def test_a_pure_account_takes_no_delta(request_for, cost):
    ledger = Ledger(None, dataset="trial", epsilon=10)
    with pytest.raises(InsufficientBudget):
        ledger.charge(request_for(), cost(1, "1e-12"))


def test_a_new_version_inherits_what_was_spent(path, request_for, cost):
    first = Ledger(path, dataset="trial", epsilon=1)
    first.charge(request_for(1), cost("0.75"))
    second = Ledger(path, dataset="trial", version=2, epsilon=1)
    assert second.spent == cost("0.75")
    with pytest.raises(InsufficientBudget):
        second.charge(request_for(1, version=2), cost("0.5"))
    second.charge(request_for(1, version=2), cost("0.25"))
    assert first.remaining == cost(0)
    assert list(first.history()["version"]) == [1, 2]


def test_datasets_in_one_file_have_separate_totals_and_one_chain(filled, cost):
    trial, other = Ledger.open_existing(filled, dataset="trial"), Ledger.open_existing(filled, dataset="other")
    assert (trial.spent, other.spent) == (cost("0.75"), cost("0.1"))
    assert (trial.budget.epsilon, other.budget.epsilon) == (3, 1)
    assert trial.head == other.head
    assert len(other.history()) == 1


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 2.9},
        {"epsilon": Fraction(3) + Fraction(1, 10**9)},
        {"delta": 1e-9},
        {"relation": "add_or_remove_one"},
        {"unit": "patient"},
    ],
)
def test_other_terms_are_refused_and_change_nothing(path, terms):
    head = Ledger(path, dataset="trial", epsilon=3).head
    with pytest.raises(LedgerError, match="first terms"):
        Ledger(path, **{"dataset": "trial", "epsilon": 3, **terms})
    assert Ledger(path, dataset="trial", epsilon=Decimal("3.0")).head == head


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("dataset", ""),
        ("dataset", "a\x1b[2J"),
        ("dataset", 3),
        ("version", 0),
        ("version", 1.5),
        ("epsilon", 0),
        ("epsilon", math.nan),
        ("epsilon", True),
        ("epsilon", "3"),
        ("delta", 1),
        ("delta", -1e-9),
        ("relation", "bounded"),
        ("unit", ""),
        ("unit", 3),
    ],
)
def test_malformed_terms_are_refused_before_a_file_exists(path, argument, value):
    with pytest.raises(ArgumentError, match=argument):
        Ledger(path, **{"dataset": "trial", "epsilon": 3, argument: value})
    assert not path.exists()


def test_an_account_of_persons_does_not_take_costs_of_rows(path):
    ledger = Ledger(path, dataset="trial", epsilon=3, unit="patient")
    assert (ledger.unit, Ledger.open_existing(path).unit) == ("patient", "patient")
    assert str(ledger).endswith("0 charges, relation replace_one, unit 'patient'")
    for other in (None, "hospital"):
        with pytest.raises(LedgerError, match="unit 'patient'"):
            Ledger(path, dataset="trial", epsilon=3, unit=other)


def test_the_same_query_under_other_terms_is_another_request(request_for, cost):
    ledger = Ledger(None, dataset="trial", epsilon=3)
    first = request_for(terms="add_or_remove_one, one row per person, n_max 500")
    other = request_for(terms="add_or_remove_one, one row per person, n_max 501")
    assert first.id != other.id
    ledger.persist(ledger.charge(first, cost(1)), '{"params":[1.5]}')
    assert ledger.stored(other.id) is None
    ledger.charge(other, cost(1))
    assert ledger.spent == cost(2)


def test_a_charge_must_cost_something_and_be_for_this_dataset_and_version(request_for, cost):
    ledger = Ledger(None, dataset="trial", epsilon=3)
    with pytest.raises(ArgumentError, match="cost"):
        ledger.charge(request_for(), cost(0))
    for stranger in (request_for(dataset="other"), request_for(version=2)):
        with pytest.raises(ArgumentError, match="request"):
            ledger.charge(stranger, cost(1))
    assert ledger.spent == cost(0)


def test_a_request_cannot_change_its_cost(request_for, cost):
    ledger = Ledger(None, dataset="trial", epsilon=3)
    ledger.charge(request_for(), cost("0.5"))
    with pytest.raises(LedgerError, match="entry 2"):
        ledger.charge(request_for(), cost("0.25"))
    assert ledger.spent == cost("0.5")


def test_a_release_that_was_never_charged_cannot_be_recorded(request_for, cost):
    elsewhere = Ledger(None, dataset="trial", epsilon=3).charge(request_for(), cost(1))
    ledger = Ledger(None, dataset="trial", epsilon=3)
    with pytest.raises(LedgerError, match="never charged"):
        ledger.persist(elsewhere, "{}")
    with pytest.raises(ArgumentError, match="release_json"):
        ledger.persist(elsewhere, {"not": "text"})


def test_history_has_one_row_per_charge_with_the_words_of_the_query(filled, request_for):
    history = Ledger.open_existing(filled, dataset="trial").history()
    assert list(history["entry"]) == [2, 4]
    assert list(history["mechanism"]) == ["objective"] * 2
    assert list(history["model"]) == ["y ~ age"] * 2
    assert list(history["epsilon"]) == [0.5, 0.25]
    assert list(history["delta"]) == [0, 0]
    assert list(history["released"]) == [True, False]
    assert list(history["request"]) == [request_for(1).id[:12], request_for(2).id[:12]]
    assert str(history["at"].dt.tz) == "UTC"
    assert (history["at"].dt.second == 0).all()


def test_history_is_a_frame_of_the_same_columns_and_types_when_empty_or_without_words(request_for, cost):
    ledger = Ledger(None, dataset="trial", epsilon=3)
    empty = ledger.history()
    ledger.charge(request_for(kind=7, model={"formula": "a\x1b[31m"}), cost(1))
    history = ledger.history()
    assert len(empty) == 0
    assert (history.dtypes == empty.dtypes).all()
    assert history["mechanism"].isna().all()
    assert history["model"][0] == "a [31m"


def test_a_ledger_prints_its_totals_and_no_password(request_for, cost):
    ledger = Ledger(None, dataset="<trial>", epsilon=3, delta=1e-6)
    ledger.charge(request_for(dataset="<trial>"), cost("0.5"))
    assert str(ledger).splitlines() == [
        "Ledger of dataset '<trial>', version 1, in memory",
        "               epsilon        delta",
        "total                3        1e-06",
        "spent              0.5            0",
        "remaining          2.5        1e-06",
        "1 charge, relation replace_one",
    ]
    assert repr(ledger) == "Ledger('memory', dataset='<trial>', version=1)"
    assert "&lt;trial&gt;" in ledger._repr_html_()
    assert "<trial>" not in ledger._repr_html_()
    with pytest.raises(LedgerError) as caught:
        Ledger("nosuchdatabase://user:secret@host/db", dataset="trial", epsilon=1)
    assert "secret" not in str(caught.value)
