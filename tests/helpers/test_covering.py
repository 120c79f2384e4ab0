"""Which cases `tests.covering` keeps."""

import itertools
from types import SimpleNamespace

import pytest

from tests import covering

LISTS = [[2, 2], [3, 2, 4], [2, 2, 2, 2, 2], [7], [5, 1, 3]]


def together(cases, strength):
    """Return all values of so many lists that occur together."""
    places = list(itertools.combinations(range(len(cases[0])), strength))
    return {(chosen, tuple(case[place] for place in chosen)) for case in cases for chosen in places}


@pytest.mark.parametrize(
    ("number", "kept", "places"),
    [(10, 4, {0, 3, 6, 9}), (7, 7, set(range(7))), (3, 8, {0, 1, 2}), (5, 1, {0}), (1, 3, {0}), (97, 3, {0, 48, 96})],
)
def test_places_at_equal_steps(number, kept, places):
    assert covering.spread(number, kept) == places


@pytest.mark.parametrize("strength", [1, 2])
@pytest.mark.parametrize("sizes", LISTS)
def test_all_values_that_occur_together_are_seen_in_few_cases(sizes, strength):
    cases = list(itertools.product(*map(range, sizes)))
    kept = covering.selection(cases, strength)
    at_once = min(strength, len(sizes))
    assert together([cases[place] for place in kept], at_once) == together(cases, at_once)
    if len(sizes) > at_once and min(sizes) > 1:
        assert len(kept) < len(cases)


def test_cases_that_are_no_product_are_covered():
    cases = [(0, 0), (0, 1), (1, 1), (2, 0)]
    assert covering.selection(cases) == {0, 1, 2, 3}


class Case:
    """A case of a test as pytest collects it."""

    def __init__(self, name, params, *strength, lists=("a", "b", "c"), marked=True, **cases):
        self.nodeid = f"test_it.py::{name}[{len(params)}]"
        self.callspec = SimpleNamespace(params=params)
        self.lists, self.marked, self.strength, self.cases, self.added = lists, marked, strength, cases, []

    def get_closest_marker(self, name):
        if name != "covering":
            return name if name in self.added else None
        return pytest.mark.covering(*self.strength, **self.cases).mark if self.marked else None

    def iter_markers(self, name):
        return [getattr(pytest.mark, name)(names, []).mark for names in self.lists]

    def add_marker(self, marker):
        self.added.append(marker.name)


def test_cases_that_are_not_kept_are_marked():
    lists = itertools.product([1, 2], [True, False], ["x", "y"])
    params = [dict(zip("abc", values, strict=True)) for values in lists]
    pairs = [Case("pairs", each) for each in params]
    values = [Case("values", each, 1) for each in params]
    together = [Case("together", each, 1, lists=(("a", "b"), "c")) for each in params]
    everything = [Case("everything", each, marked=False) for each in params]
    covering.mark_wide(
        [*pairs, *values, *together, *everything, SimpleNamespace(nodeid="test_it.py::test_without_params")]
    )
    assert [sum(case.added == [] for case in cases) for cases in (pairs, values, together, everything)] == [4, 2, 4, 8]
    assert {name for case in pairs + values + together for name in case.added} == {"wide"}


def test_so_many_cases_of_one_list_are_kept_and_none_that_are_wide_themselves():
    cases = [Case("one list", {"a": value}, lists=("a",), cases=3) for value in range(9)]
    cases[0].added.append("wide")
    covering.mark_wide(cases)
    assert [place for place, case in enumerate(cases) if case.added == []] == [1, 5, 8]
