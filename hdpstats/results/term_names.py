"""Names of coefficients here, in R and in patsy, brought to one form so that tables can be matched.

========================================= ==================================== =====================
here                                      R                                    form
========================================= ==================================== =====================
``Intercept``                             ``(Intercept)``                      ``Intercept``
``size[T.20-50]``, ``C(size)[T.20-50]``   ``size20-50``, ``factor(size)20-50`` ``size20-50``
``bs(age, knots=[40, 60])[2]``            ``bs(age, knots = c(40, 60))2``      ``bs(age,knots=40,60)2``
``I(age**2):size[T.>50]``                 ``I(age^2):size>50``                 ``I(age^2):size>50``
``interval[3]``                           ``factor(interval)3``                ``interval3``
========================================= ==================================== =====================
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_RULES: Final = (
    (re.compile(r"[\s`]"), ""),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<![\w.])(?:C|factor|as\.factor|ordered)\(([\w.]+)\)"), r"\1"),
    (re.compile(r"(?<![\w.])c\(([^()]*)\)"), r"\1"),
    (re.compile(r"\[(?:T\.)?([^\[\]]*)\]"), r"\1"),
    (re.compile(r"^\(Intercept\)$"), "Intercept"),
)


def plain_name(term: str) -> str:
    """Return the form of a name that it shares with those of other software.

    >>> plain_name("factor(size)20-50"), plain_name("C(size)[T.20-50]")
    ('size20-50', 'size20-50')
    """
    for pattern, replacement in _RULES:
        term = pattern.sub(replacement, term)
    return term


def match(ours: Sequence[str], others: Sequence[str]) -> dict[int, int]:
    """Return for places of ``ours`` the places of the same terms among ``others``.

    A term is the same if its name is, or else its `plain_name` where no other term has it on either side. R's name of
    a truth value, ``hormonTRUE``, is that of the column.

    >>> match(["Intercept", "size[T.b]", "hormon"], ["(Intercept)", "hormonTRUE", "age"])
    {0: 0, 2: 1}
    """
    found = _same(list(ours), list(others))
    left, right = [plain_name(term) for term in ours], [plain_name(term) for term in others]
    for names in (right, [re.sub(r"TRUE(?=:|$)", "", name) for name in right]):
        taken = set(found.values())
        free = [None if place in found else name for place, name in enumerate(left)]
        found |= _same(free, [None if place in taken else name for place, name in enumerate(names)])
    return dict(sorted(found.items()))


def _same(ours: Sequence[str | None], others: Sequence[str | None]) -> dict[int, int]:
    """Return the places of equal names, of which each side has one."""
    once, twice = Counter(ours), Counter(others)
    places = {name: place for place, name in enumerate(others)}
    return {
        place: places[name]
        for place, name in enumerate(ours)
        if name is not None and once[name] == 1 and twice[name] == 1
    }
