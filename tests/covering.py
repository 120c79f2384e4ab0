"""A selection of the cases of a test that is written for every combination of several lists.

A test marked ``covering`` runs in ``make test`` for so many cases that every pair of values of two lists occurs
together in one of them, as most errors depend on one or two of the lists. With ``covering(1)`` every value occurs at
least once, for lists whose values meet different code. With ``covering(cases=8)`` eight cases run, at equal steps from
the first to the last, for one list whose values meet the same code. The other cases are marked ``wide``;
``make test-wide`` runs them. A test that is asked for by name, without ``-m``, runs for all cases.

Method: greedy covering arrays, D. M. Cohen, S. R. Dalal, M. L. Fredman, G. C. Patton (1997), The AETG system: an
approach to testing based on combinatorial design, IEEE Transactions on Software Engineering 23(7), 437-444.
"""

import itertools
from collections import defaultdict

import pytest


def mark_wide(items):
    """Mark the cases of tests marked ``covering`` that are not in their selections."""
    tests = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and (marker := item.get_closest_marker("covering")):
            name = item.nodeid.partition("[")[0]
            if marker.kwargs.get("cases") is None:
                tests[name, marker.args or (2,), None].append(item)
            elif item.get_closest_marker("wide") is None:
                tests[name, (1,), marker.kwargs["cases"]].append(item)
    for (_, (strength,), cases), found in tests.items():
        kept = spread(len(found), cases) if cases else selection([_values(item) for item in found], strength)
        for place, item in enumerate(found):
            if place not in kept:
                item.add_marker(pytest.mark.wide)


def _values(item):
    """Return what a case has of each list; names that one list gives values to are one value, told by identity."""
    given = [marker.args[0] for marker in item.iter_markers("parametrize")]
    names = [[name.strip() for name in each.split(",")] if isinstance(each, str) else list(each) for each in given]
    params = {name: id(value) for name, value in item.callspec.params.items()}
    found = [tuple(params.pop(name) for name in group if name in params) for group in names]
    return (*found, *params.values())


def spread(number, kept):
    """Return so many places of a list at equal steps, the first and the last one among them."""
    return {round(place * (number - 1) / max(1, min(kept, number) - 1)) for place in range(min(kept, number))}


def selection(cases, strength=2):
    """Return places of cases in which each combination of ``strength`` values occurs that occurs in any case.

    Parameters
    ----------
    cases
        Tuples of one length. Equal places of two tuples hold values of one list.
    strength
        Of how many lists values should be seen together.
    """
    lists = len(cases[0])
    chosen = list(itertools.combinations(range(lists), min(strength, lists)))
    needed = [{(places, tuple(case[place] for place in places)) for places in chosen} for case in cases]
    missing, kept = set().union(*needed), set()
    while missing:
        best = max(range(len(cases)), key=lambda place: (len(needed[place] & missing), -place))
        kept.add(best)
        missing -= needed[best]
    return kept
