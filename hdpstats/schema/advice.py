"""Why cells of a file are no values of their declared kind, in words that say what to do.

Each rule looks for one usual mistake: another coding of 0 and 1, labels in other letters or with blanks, a decimal
comma, dates, another unit, a number that stands for "missing". The words are for the custodian who holds the rows
(`hdpstats.schema.check`); nothing else reads them.
"""

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.schema import cell_maps
from hdpstats.schema.columns import Binary, Categorical, Column, Duration, NumericColumn
from hdpstats.schema.dictionary import DATE

_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")
_MARKS: Final = frozenset(
    {"na", "n/a", "nan", "null", "none", "missing", "unknown", "unk", ".", "-", "?", "nd", "n.a."}
)
"""Texts, in lower case, that usually stand for a missing cell."""

_UNITS: Final[Mapping[str, float]] = {
    "months where years are declared": 12.0,
    "days where years are declared": 365.25,
    "days where months are declared": 365.25 / 12.0,
    "days where weeks are declared": 7.0,
    "another unit": 10.0,
    "another unit, such as cm where m are declared": 100.0,
    "another unit, such as g where kg are declared": 1000.0,
}
"""What a number is divided by to come to the declared unit; the other way round it is multiplied."""

_MANY = 0.2
"""The share of numbers beyond a bound from which the unit is doubted."""
_NEARLY_ALL = 0.9
_SEVERAL = 3
"""How often a number beyond a bound is repeated before it is taken for a code."""
_STAND_FOR_MISSING: Final = frozenset(
    (-1, -8, -9, -88, -99, -999, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 9999)
)
"""Numbers that code books use for missing cells."""
_ALL = 0.99
"""The share of numbers that must be explained before units are taken to be mixed."""
_SHOWN = 3
_LONGEST = 40
_COMPARED = 50
"""The most frequent labels for which the declared one that is meant is looked for."""


@final
class Spelling(NamedTuple):
    """The text of a cell, or the name of its type where it has no text."""

    text: str
    is_type: bool = False


TOO_LARGE: Final = Spelling("whole number of 2^53 or more", is_type=True)
"""A cell that has no text as it stands (`hdpstats.schema.cell_maps`)."""
NOT_TOLD_APART: Final = (
    "hold whole numbers of 2^53 or more in a column that one missing cell would make one of floats, which do not tell "
    "them apart, so"
)
READ_AS_TEXT: Final = (
    "read the column as text or Int64 (pd.read_csv(..., dtype=str); pd.read_sql with cast(id as text) in the query; "
    "pd.read_parquet(..., dtype_backend='numpy_nullable'); in R as text or integer64). To convert it after it was read "
    "is too late"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a column of a file holds.

    Attributes
    ----------
    empty : int
        Cells that hold nothing.
    spellings : Counter of Spelling
        Cells that hold no value of the declared kind, by their text; a cell without a text by its type.
    numbers : float64 array
        The numbers that were read, before they are cut.
    """

    empty: int
    spellings: Counter[Spelling]
    numbers: FloatArray


def advice(column: Column, findings: Findings) -> tuple[str, ...]:
    """Return what is likely to be wrong with a column, and what to do; nothing where all is as declared."""
    words: list[str] = []
    spellings = Counter(findings.spellings)
    large = spellings.pop(TOO_LARGE, 0)
    if large:
        words.append(f"{_cells(large)} {NOT_TOLD_APART} that they are read as missing: {READ_AS_TEXT}")
    if isinstance(column, Categorical):
        words += _labels(column.levels, spellings, undeclared=_undeclared(column))
    elif isinstance(column, Binary):
        words += _coding(column, spellings, findings.numbers)
    else:
        words += _texts(findings)
    if isinstance(column, NumericColumn) and not isinstance(column, Binary):
        words += [*_codes(column, findings.numbers), *_unit(column, findings.numbers)]
        words += [*_apart(column, findings.numbers), *_mixed(findings.numbers[~_is_code(column, findings.numbers)])]
    return (*words, *_complete(column, findings))


def shown(spelling: Spelling) -> str:
    """Return a text as it is spelled, blanks and signs that do not print included, shortened; a type in brackets.

    >>> shown(Spelling("Placebo ")), shown(Spelling("<date>")), shown(Spelling("date", is_type=True))
    ("'Placebo '", "'<date>'", '<date>')
    """
    text = repr(spelling.text if len(spelling.text) <= _LONGEST else f"{spelling.text[:_LONGEST]}…")
    return f"<{text[1:-1]}>" if spelling.is_type else text


def _cells(number: int) -> str:
    return "1 cell" if number == 1 else f"{number} cells"


def _complete(column: Column, findings: Findings) -> Iterable[str]:
    without = findings.empty + findings.spellings.total()
    if column.complete and without:
        yield (
            f"it is declared complete=True, and {_cells(without)} hold no value: their rows are left out, and no count "
            "says so; fill them in the file, or take complete=True out of the schema"
        )


def _take(spellings: Counter[Spelling], belongs: Callable[[Spelling], object]) -> tuple[int, str]:
    """Take cells that belong to a rule out; return their number and examples."""
    taken = [(spelling, number) for spelling, number in spellings.most_common() if belongs(spelling)]
    for spelling, _ in taken:
        del spellings[spelling]
    return sum(number for _, number in taken), ", ".join(shown(spelling) for spelling, _ in taken[:_SHOWN])


def _texts(findings: Findings) -> Iterable[str]:
    """Say why cells of a column of numbers are no numbers."""
    spellings = Counter(findings.spellings)
    rules: tuple[tuple[Callable[[Spelling], object], str], ...] = (
        (
            _is_date,
            "dates, which are no numbers: store the days since a fixed date, or the age at it, and declare that",
        ),
        (_is_comma, "a decimal comma: load the file with decimal=',', or store the numbers with a point"),
        (_is_mark, "marks of a missing cell, and are read as missing: leave such cells empty"),
    )
    for belongs, meaning in rules:
        number, examples = _take(spellings, belongs)
        if number:
            yield f"{_cells(number)}, such as {examples}, hold {meaning}"
    if spellings:
        examples = ", ".join(shown(spelling) for spelling, _ in spellings.most_common(_SHOWN))
        yield (
            f"{_cells(spellings.total())}, such as {examples}, hold no number and are read as missing: store "
            "numbers, or declare the column as categorical, or as binary with labels"
        )


def _is_date(spelling: Spelling) -> bool:
    if spelling.is_type:
        return spelling.text.startswith(("date", "Timestamp", "timestamp"))
    return bool(DATE.fullmatch(spelling.text))


def _is_comma(spelling: Spelling) -> bool:
    return not spelling.is_type and bool(_COMMA.fullmatch(spelling.text))


def _is_mark(spelling: Spelling) -> bool:
    return not spelling.is_type and spelling.text.strip().casefold() in _MARKS


def _coding(column: Binary, spellings: Counter[Spelling], numbers: FloatArray) -> Iterable[str]:
    """Say why cells of a column of zeros and ones are neither."""
    if column.labels is not None:
        yield from _labels(column.labels, spellings, undeclared="are read as missing: spell them as one of the labels")
        return
    marks, examples = _take(spellings, _is_mark)
    if marks:
        yield f"{_cells(marks)}, such as {examples}, hold marks of a missing cell: leave such cells empty"
    if not spellings:
        return
    numerals = {f"{value:g}" for value in np.unique(numbers)}
    typed = any(spelling.is_type for spelling in spellings)
    both = [] if typed else sorted(numerals | {spelling.text for spelling in spellings})
    if both == ["1", "2"]:
        yield ('it is coded 1 and 2, not 0 and 1: recode the file, or declare labels=("1", "2"), the label of 0 first')
    elif len(both) == 2 and not numerals:
        first, second = (shown(Spelling(spelling)) for spelling in both)
        one, other = (repr(spelling).replace("'", '"') for spelling in both)
        yield (
            f"it is coded {first} and {second}, not 0 and 1, so that every cell is read as missing: "
            f"declare labels=({one}, {other}), the label of 0 first, or recode the file"
        )
    else:
        examples = ", ".join(shown(spelling) for spelling, _ in spellings.most_common(_SHOWN))
        yield (
            f"{_cells(spellings.total())}, such as {examples}, are neither 0 nor 1 and are read as missing: recode the "
            "file, or declare the column as categorical"
        )


def _undeclared(column: Categorical) -> str:
    if column.other is None:
        return "are read as missing: declare them as levels, name other=, or correct the file"
    return f"take the level {column.other!r} (other=): is that meant?"


def _labels(levels: Sequence[str], spellings: Counter[Spelling], *, undeclared: str) -> Iterable[str]:
    """Name each label that is not declared beside the declared one that it is probably meant to be."""
    others: Counter[Spelling] = Counter()
    folded = [(difference, fold, _folded(levels, fold)) for difference, fold in _FOLDS]
    for place, (spelling, number) in enumerate(spellings.most_common()):
        near = None if spelling.is_type or place >= _COMPARED else _near(spelling.text, levels, folded)
        if near is None:
            others[spelling] = number
            continue
        level, difference = near
        yield (
            f"the label {shown(spelling)} ({_cells(number)}) is not declared, {level!r} is, and {difference}: spell it "
            "as declared"
        )
    marks, examples = _take(others, _is_mark)
    if marks:
        yield f"{_cells(marks)}, such as {examples}, hold marks of a missing cell: leave such cells empty"
    if others:
        examples = ", ".join(shown(spelling) for spelling, _ in others.most_common(_SHOWN))
        labels = "1 label" if len(others) == 1 else f"{len(others)} labels"
        yield f"{labels} that no level declares ({_cells(others.total())}), such as {examples}, {undeclared}"


_Fold = Callable[[str], str]
_FOLDS: Final[tuple[tuple[str, _Fold], ...]] = (
    ("differs in blanks", lambda word: "".join(word.split())),
    ("differs in case", str.casefold),
    ("differs in case and blanks", lambda word: "".join(word.casefold().split())),
    ("differs in the form of letters", lambda word: unicodedata.normalize("NFKC", word).casefold().strip()),
    ("is the same number", lambda word: repr(cell_maps.number(word)).replace("nan", word)),
)


def _folded(levels: Sequence[str], fold: _Fold) -> dict[str, str]:
    """Return the first level of each folded form."""
    return {fold(level): level for level in reversed(levels)}


def _near(
    spelling: str, levels: Sequence[str], folded: Sequence[tuple[str, _Fold, Mapping[str, str]]]
) -> tuple[str, str] | None:
    """Return the declared level that a label is probably meant to be, and what differs."""
    for difference, fold, by_fold in folded:
        declared = by_fold.get(fold(spelling))
        if declared is not None:
            return declared, difference
    if len(spelling) > _LONGEST:
        return None
    alike = [level for level in levels if re.findall(r"\d", level) == re.findall(r"\d", spelling)]
    close = difflib.get_close_matches(spelling, alike, n=1, cutoff=0.8)
    return (close[0], "is spelled nearly alike") if close else None


def _codes(column: NumericColumn, numbers: FloatArray) -> Iterable[str]:
    """Name a number beyond the bounds that many cells share: it may stand for something."""
    for beyond, bound in ((numbers < column.lower, column.lower), (numbers > column.upper, column.upper)):
        values, times = np.unique(numbers[beyond], return_counts=True)
        if isinstance(column, Duration) and bound == column.upper:
            continue  # follow-up that ends at one date often is of one length, and is censored at the horizon
        if times.size and times.max() >= max(_SEVERAL, times.sum() / 2):
            value = values[times.argmax()]
            yield (
                f"the number {value:.12g} is in {_cells(int(times.max()))}, and is cut at the bound {bound:.12g}: if "
                "it stands for missing, leave such cells empty"
            )


def _is_code(column: NumericColumn, numbers: FloatArray) -> BoolArray:
    """Return which numbers (n,) beyond the bounds usually stand for missing: they are of no other unit."""
    beyond = (numbers < column.lower) | (numbers > column.upper)
    return np.asarray(beyond & np.isin(numbers, sorted(_STAND_FOR_MISSING)))


def _apart(column: NumericColumn, numbers: FloatArray) -> Iterable[str]:
    """Name a number within the bounds that usually stands for missing, is repeated, and lies apart from all others."""
    inside = numbers[(column.lower <= numbers) & (numbers <= column.upper)]
    values, times = np.unique(inside, return_counts=True)
    if isinstance(column, Duration) or len(values) < _SEVERAL:
        return
    for place, next_to, rest in ((0, 1, values[1:]), (-1, -2, values[:-1])):
        gap, width = abs(values[place] - values[next_to]), np.ptp(rest)
        if values[place] in _STAND_FOR_MISSING and times[place] >= _SEVERAL and gap > max(0.05 * width, 1.0):
            yield (
                f"the number {values[place]:g} is in {_cells(int(times[place]))}, apart from all others (the next one "
                f"is {values[next_to]:g}): if it stands for missing, leave such cells empty"
            )


def _mixed(numbers: FloatArray) -> Iterable[str]:
    """Say so where a few numbers are those of the others in another unit, as heights in metres among centimetres."""
    positive = numbers[np.isfinite(numbers) & (numbers > 0.0)]
    if len(positive) < _SEVERAL * _SEVERAL:
        return
    middle = float(np.median(positive))
    usual = (positive > middle / 3.0) & (positive < middle * 3.0)
    for factor in (100.0, 1000.0, 365.25):
        for scale, how in ((factor, "multiplied"), (1.0 / factor, "divided")):
            other = (positive * scale > middle / 3.0) & (positive * scale < middle * 3.0)
            few = int(other.sum())
            if few >= _SEVERAL and (usual | other).mean() >= _ALL and usual.mean() > other.mean():
                yield (
                    f"{few} of {len(positive)} numbers, such as {positive[other][0]:g}, would be like the others if "
                    f"{how} by {factor:g}: are they in another unit?"
                )
                return


def _doubted(column: NumericColumn, side: str) -> float:
    """Return the share from which the unit is doubted: follow-up beyond the horizon is usual, and censored there."""
    return _NEARLY_ALL if isinstance(column, Duration) and side == "above" else _MANY


def _unit(column: NumericColumn, numbers: FloatArray) -> Iterable[str]:
    """Say so where so many numbers lie beyond a bound that their unit may be another one."""
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return
    for beyond, side, power in ((finite > column.upper, "above", -1.0), (finite < column.lower, "below", 1.0)):
        share = float(beyond.mean())
        if share <= _doubted(column, side) or np.unique(finite[beyond]).size < _SEVERAL:
            continue
        within = {
            unit: float(((finite * factor**power >= column.lower) & (finite * factor**power <= column.upper)).mean())
            for unit, factor in _UNITS.items()
        }
        unit = max(within, key=lambda name: within[name])
        bound = column.upper if side == "above" else column.lower
        words = f"{int(beyond.sum())} of {finite.size} numbers lie {side} the bound {bound:.12g} and are cut there"
        if within[unit] >= max(_NEARLY_ALL, 1.0 - share / 2):
            how = "divided" if power < 0 else "multiplied"
            reverse = unit if power < 0 else "another unit"
            yield f"{words}; {how} by {_UNITS[unit]:g} nearly all would be within the bounds: is it {reverse}?"
        else:
            yield f"{words}: look at the unit of the column and at its bounds"
