"""What tables, figures and pages call coefficients and groups: the labels of the schema, where columns have one.

A label is a word for readers. Terms, `tidy` and constraints keep the names of the formula.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hdpstats.results.facts import design_of
from hdpstats.schema.schema import Schema, group_labels, labels_of

if TYPE_CHECKING:
    from hdpstats.results.result import Result

_PIECES: Final = re.compile(r":(?![^\[]*\])(?![^(]*\))")
"""The colons of interactions: none in brackets, which are of levels and of arguments."""
_FACTOR: Final = re.compile(r"(?:C\((?P<coded>[^()\[\]]+)\)|(?P<name>[^()\[\]]+))(?:\[T?\.?(?P<level>.+)\])?")


def labelled(name: str, schema: Schema) -> str:
    """Return a term or a coefficient with labels in the place of its columns, as it is where none has one.

    Functions of columns stay as the formula has them.

    >>> from hdpstats.schema.columns import Categorical, Continuous
    >>> schema = Schema(age=Continuous(20, 90, label="Age (years)"), size=Categorical(["<=20", ">20"], label="Size"))
    >>> labelled("age", schema), labelled("C(size)[T.>20]", schema), labelled("age:size[T.>20]", schema)
    ('Age (years)', 'Size = >20', 'Age (years) × Size = >20')
    >>> labelled("log1p(age)", schema), labelled("size = >20", schema)
    ('log1p(age)', 'Size = >20')
    """
    column, equals, level = name.partition(" = ")
    if equals and column in schema.labels:
        return f"{schema.labels[column]} = {level}"
    pieces = _PIECES.split(name)
    shown = [_piece(piece, schema) for piece in pieces]
    return name if shown == pieces else " \N{MULTIPLICATION SIGN} ".join(shown)


def _piece(piece: str, schema: Schema) -> str:
    found = _FACTOR.fullmatch(piece.strip())
    column = "" if found is None else (found["coded"] or found["name"]).strip(" `")
    if found is None or column not in schema.labels:
        return piece
    return schema.labels[column] + (f" = {found['level']}" if found["level"] else "")


_OF_A_PART: Final = re.compile(r"(?P<part>[^()\[\]]+?): (?P<name>.+)")
"""A term or coefficient of one of several causes, or of one level of a categorical outcome."""


def labels_of_terms(names: Iterable[str], schema: Schema) -> dict[str, str]:
    """Return labels of the terms or coefficients that have one; the cause or level that one is of stays before it.

    >>> from hdpstats.schema.columns import Continuous
    >>> labels_of_terms(["Intercept", "age", "relapse: age"], Schema(age=Continuous(20, 90, label="Age (years)")))
    {'age': 'Age (years)', 'relapse: age': 'relapse: Age (years)'}
    """
    found = {}
    for name in names if schema.labels else ():
        of_part = _OF_A_PART.fullmatch(name)
        prefix, own = ("", name) if of_part is None else (f"{of_part['part']}: ", of_part["name"])
        if (label := labelled(own, schema)) != own:
            found[name] = prefix + label
    return found


def coefficient_labels(fit: "Result") -> tuple[str, ...]:
    """Return what each coefficient of a result is called: its term where its columns have no labels.

    With several causes, or levels of a categorical outcome, the cause or the level stands before.
    """
    terms, hazard = fit.estimate.terms, fit.facts.hazard
    if fit.facts.family is not None or not fit.schema.labels:
        return terms
    names = [column.name for column in design_of(fit).columns]
    if hazard is not None:
        names = ["" for _ in hazard.baseline_names] + names[1:]
    shown = []
    for place, term in enumerate(terms):
        part, within = divmod(place, len(names))
        words = labelled(names[within], fit.schema)
        prefix = "" if len(terms) == len(names) else f"{_part(fit, part, term, names[within])}: "
        shown.append(term if words == names[within] else prefix + words)
    return tuple(shown)


def _part(fit: "Result", part: int, term: str, name: str) -> str:
    """Return the cause, or the level of the outcome, that a coefficient is of."""
    if fit.facts.hazard is not None:
        return fit.facts.hazard.causes[part]
    return term.removesuffix(name).rstrip(": ") if term.endswith(name) else term.partition(":")[0]


def group_name(column: str, level: str, schema: Schema) -> str:
    """Return what a group is called: ``"hormon = yes"``, with the column's label where it has one."""
    return f"{schema.label(column)} = {level}"


def group_names(grouping: Sequence[str], schema: Schema) -> list[str]:
    """Return what figures call the groups of `hdpstats.schema.schema.group_labels`.

    >>> from hdpstats.schema.columns import Binary, Categorical
    >>> schema = Schema(arm=Categorical(["A", "B"], label="Treatment"), sex=Binary())
    >>> group_names(["arm"], schema), group_names([], schema), group_names(["arm", "sex"], schema)[-1]
    (['Treatment = A', 'Treatment = B'], ['all'], 'Treatment = B, sex = 1')
    """
    levels = [labels_of(schema, name) for name in grouping]
    combined = [
        ", ".join(group_name(name, level, schema) for name, level in zip(grouping, each, strict=True))
        for each in itertools.product(*levels)
    ]
    return combined if grouping else ["all"]


def groups_called(grouping: Sequence[str], schema: Schema) -> dict[str, str]:
    """Return what pages call groups, by their names in tables; none where no column of theirs has a label."""
    if schema.labels.keys().isdisjoint(grouping):
        return {}
    names = zip(group_labels(grouping, schema), group_names(grouping, schema), strict=True)
    return {name: shown for name, shown in names if name is not None}
