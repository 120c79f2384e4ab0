"""How the categories of a term become columns: by treatment contrasts or by dummies, as in R.

A category within a term is coded by *treatment contrasts* (one 0/1 column per level but the first, the
reference) or by *dummies* (one 0/1 column per level). R decides so (``terms.formula``, after Chambers and
Hastie 1992, *Statistical Models in S*, p. 38; ``model.matrix`` for the second half):

* contrasts, if the term without that factor is empty or part of an earlier term, otherwise dummies;
* in a model without intercept, dummies for the first category of the first term that has one.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

F = TypeVar("F", bound=Hashable)


def dummy_coded(
    terms: Sequence[Sequence[F]], *, categorical: Callable[[F], bool], intercept: bool
) -> tuple[frozenset[F], ...]:
    """Return, for each term, which of its factors are coded by dummies; its other categories are contrasts.

    Parameters
    ----------
    terms : sequence of sequences of factors
        The terms by increasing degree, without the intercept.
    categorical : callable
        Whether a factor is a category.
    intercept : bool
        Whether the model has an intercept.

    Examples
    --------
    >>> dummy_coded([("a",), ("a", "b")], categorical=str.islower, intercept=True)
    (frozenset(), frozenset({'a'}))
    """
    coded: list[frozenset[F]] = []
    earlier: list[frozenset[F]] = []
    first_is_due = not intercept
    for term in terms:
        members = frozenset(term)
        categories = [factor for factor in term if categorical(factor)]
        dummies = {factor for factor in categories if not _spanned(members - {factor}, earlier)}
        if first_is_due and categories:
            dummies.add(categories[0])
            first_is_due = False
        coded.append(frozenset(dummies))
        earlier.append(members)
    return tuple(coded)


def coded_levels(
    source: str, levels: Sequence[str], *, dummies: bool, reference: int = 0
) -> tuple[tuple[int, str], ...]:
    """Return the code of the level and the name of the column for each column of a category.

    Examples
    --------
    >>> coded_levels("size", ["<=20", "20-50", ">50"], dummies=False)
    ((1, 'size[T.20-50]'), (2, 'size[T.>50]'))
    >>> coded_levels("C(g)", ["a", "b"], dummies=True)
    ((0, 'C(g)[a]'), (1, 'C(g)[b]'))
    """
    if dummies:
        return tuple((code, f"{source}[{level}]") for code, level in enumerate(levels))
    return tuple((code, f"{source}[T.{level}]") for code, level in enumerate(levels) if code != reference)


def _spanned(rest: frozenset[F], earlier: Sequence[frozenset[F]]) -> bool:
    return not rest or any(rest <= term for term in earlier)
