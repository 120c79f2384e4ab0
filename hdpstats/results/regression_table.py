"""A paper's table of regressions: estimates of several models side by side, with reference levels and counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.display import Report, Reported, columns, p_value
from hdpstats.losses import multinomial
from hdpstats.privacy.budget import OWN, Guarantee
from hdpstats.records.estimate import Estimate
from hdpstats.results.contrasts import levels_of_term
from hdpstats.results.facts import BASELINE, TermBlock, term_blocks
from hdpstats.results.labels import coefficient_labels, labelled
from hdpstats.results.sites import people
from hdpstats.results.tables import frame_of

if TYPE_CHECKING:
    from hdpstats.results.result import Result

REFERENCE: Final = "reference"
"""What stands in the place of an estimate of a reference level."""
ABSENT: Final = "\N{EM DASH}"
"""What stands where a model does not have a term."""
_SHORT: Final = {"odds ratio": "OR", "hazard ratio": "HR"}
_INDENT: Final = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"
NUMBERS: Final = ("estimate", "std_error", "conf_low", "conf_high", "p_value")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """A coefficient of a column of the table, or a reference level, which has no term and no numbers."""

    variable: str
    level: str | None
    term: str | None
    estimate: float = np.nan
    std_error: float = np.nan
    conf_low: float = np.nan
    conf_high: float = np.nan
    p_value: float = np.nan
    p_floor: float = 0.0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TableColumn:
    """A column of the table: one fit, or several fits of a covariate each.

    Attributes
    ----------
    name : str
        Its header.
    measure : str
        What its estimates are: "OR", "HR", "IRR" or "coef".
    rows : tuple of TableRow
        Its coefficients and reference levels, in the order of the fits.
    records : str
        The number of records, noisy where it is protected; of several fits the least and the most.
    events : float or None
        The number of events, where it was given.
    epsilon : str
        The sum of the epsilons of its fits, ``"2"``, with that of their deltas where there are any, ``"(2, 1e-06)"``:
        never less than what they guarantee together. It names the relation where columns of the table differ in it,
        ``"2 (replace_one)"``.
    """

    name: str
    measure: str
    rows: tuple[TableRow, ...]
    records: str
    events: float | None
    epsilon: str


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class RegressionTable(Reported):
    """Estimates of several models side by side; `regression_table` makes one.

    ``print`` shows it; ``summary()`` has ``as_latex()``, ``as_html()`` and ``as_csv()``, `to_docx` writes a Word file.

    Attributes
    ----------
    columns : tuple of TableColumn
        The columns.
    labels : mapping of str to str
        What variables, terms and levels are called.
    conf_level : float
        The level of the intervals.
    """

    columns: tuple[TableColumn, ...]
    labels: Mapping[str, str]
    conf_level: float

    def tidy(self) -> pd.DataFrame:
        """Return a row per coefficient or reference level of each column, numbers as shown and not rounded.

        Columns column, variable, level (None of a number), term (None of a reference level), reference, estimate,
        std_error (of the coefficient), conf_low, conf_high, p_value.
        """
        rows = [
            (each.name, row.variable, row.level, row.term, *(getattr(row, name) for name in NUMBERS))
            for each in self.columns
            for row in each.rows
        ]
        frame = frame_of(rows, texts=("column", "variable", "level", "term"), numbers=NUMBERS)
        frame.insert(4, "reference", frame["term"].isna())
        return frame

    def to_docx(self, path: str | PathLike[str]) -> None:
        """Write the table to a Word file. Needs ``pip install python-docx``."""
        self.summary().to_docx(path)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the cells as they are shown to a CSV file, in UTF-8, with a line of headers."""
        headers, names, cells = self._cells()
        frame = pd.DataFrame([[name, *row] for name, row in zip(names, cells, strict=True)], columns=["", *headers])
        frame.to_csv(path, index=False)

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        headers, names, cells = self._cells()
        level = f"{100.0 * self.conf_level:.6g}%"
        with_delta = "; with delta as (epsilon, delta)" if any("," in each.epsilon for each in self.columns) else ""
        notes = [
            f"Numbers in brackets are {level} confidence intervals; they count sampling and privacy noise.",
            *({"OR": "OR: odds ratio.", "HR": "HR: hazard ratio.", "IRR": "IRR: rate ratio."}[measure]
              for measure in dict.fromkeys(each.measure for each in self.columns) if measure != "coef"),
            f"Epsilon: the privacy that the fits of a column cost together, added up{with_delta}.",
        ]  # fmt: skip
        return Report(title="Regression table", blocks=[columns(headers, names, cells)], notes=notes)

    def _cells(self) -> tuple[list[str], list[str], list[list[str]]]:
        """Return headers, names of rows, and cells."""
        headers = [header for each in self.columns for header in (f"{each.name}: {each.measure}", "p")]
        found = [{(row.variable, row.level): row for row in each.rows} for each in self.columns]
        order = list(dict.fromkeys(key for each in found for key in each))
        variables = list(dict.fromkeys(variable for variable, _ in order))
        names, cells = list[str](), list[list[str]]()
        for variable in variables:
            levels = [level for name, level in order if name == variable]
            if levels != [None]:
                names.append(self._label(variable))
                cells.append([""] * len(headers))
            for level in levels:
                rows = [each.get((variable, level)) for each in found]
                names.append(self._label(variable) if level is None else _INDENT + self._label(level))
                cells.append([cell for row in rows for cell in _cell(row)])
        names += ["N", *(["Events"] if any(each.events is not None for each in self.columns) else []), "Epsilon"]
        cells.append([cell for each in self.columns for cell in (each.records, "")])
        if len(names) > len(cells) + 1:
            counts = ("" if each.events is None else f"{each.events:.0f}" for each in self.columns)
            cells.append([cell for count in counts for cell in (count, "")])
        cells.append([cell for each in self.columns for cell in (each.epsilon, "")])
        return headers, names, cells

    def _label(self, name: str) -> str:
        return self.labels.get(name, name)

    def __repr__(self) -> str:
        return f"<regression table: {', '.join(each.name for each in self.columns)}>"


def _cell(row: TableRow | None) -> tuple[str, str]:
    """Return an estimate with its limits, and the p-value."""
    if row is None:
        return ABSENT, ""
    if row.term is None:
        return REFERENCE, ""
    if np.isnan(row.conf_low):
        return _short(row.estimate), ""
    limits = f"({_short(row.conf_low)} to {_short(row.conf_high)})"
    return f"{_short(row.estimate)} {limits}", p_value(row.p_value, row.p_floor)


def _short(value: float) -> str:
    """Return a number as papers print it: two decimals, two digits where these would hide it."""
    if np.isnan(value):
        return "NA"
    return f"{value:.2f}" if value == 0 or 0.01 <= abs(value) < 1000 else f"{value:.2g}"


def regression_table(
    results: "Sequence[Result] | Mapping[str, Result | Sequence[Result]]",
    *,
    labels: Mapping[str, str] | None = None,
    events: Mapping[str, float] | None = None,
    conf_level: float = 0.95,
) -> RegressionTable:
    """Return a table of several fits side by side, such as crude and adjusted ratios.

    Ratios where the exponential of a coefficient is one, coefficients elsewhere; intercepts and baselines are left out,
    and factors have a line for their reference level. Below stand the number of records (noisy where it is protected),
    the number of events where it is known, and epsilon, with delta where there is one. It is post-processing and costs
    nothing.

    Parameters
    ----------
    results : list of Result, or mapping of str to Result or list of Result
        The columns, by their headers. A column may be several fits, such as a crude one for each covariate.
    labels : mapping of str to str, optional
        What to write for a variable (``"size"``), a coefficient (``"log1p(nodes)"``) or a level (``">50"``); variables
        have the labels of the schema by default.
    events : mapping of str to float, optional
        Released numbers of events, by the headers of columns: those of survival curves or of a description. A fit
        itself releases none.
    conf_level : float
        The level of the intervals, in [0.001, 0.999].

    Returns
    -------
    RegressionTable
        ``print`` shows it; ``tidy()`` has its numbers; ``to_docx(path)``, ``to_csv(path)``, ``summary().as_latex()``
        and ``summary().as_html()`` are for papers.

    Raises
    ------
    ArgumentError
        If there is no result, a column has the same coefficient twice or fits under both relations, whose epsilons do
        not add up, names of ``labels`` or ``events`` are of nothing in the table, or a result is of a categorical
        outcome or has no covariates.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(
    ...     age=hdp.Continuous(20, 90), size=hdp.Categorical(["<=20", "20-50", ">50"]), event3=hdp.Binary()
    ... )
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> crude = [hdpf.logit(f"event3 ~ {name}", data=study).fit_public() for name in ("age", "size")]
    >>> adjusted = hdpf.logit("event3 ~ age + size", data=study).fit_public()
    >>> table = hdp.regression_table(
    ...     {"Crude": crude, "Adjusted": adjusted}, labels={"age": "Age (years)", "size": "Tumour size (mm)"}
    ... )
    >>> table.tidy().loc[2, ["column", "variable", "level", "term"]].tolist()
    ['Crude', 'size', '20-50', 'size[T.20-50]']
    >>> print(str(table).splitlines()[4])
    Age (years)        1.00 (0.98 to 1.01)    0.640   1.00 (0.98 to 1.01)    0.681
    """
    from hdpstats.results.result import Result

    named = dict(results) if isinstance(results, Mapping) else {f"({k})": each for k, each in enumerate(results, 1)}
    if not named:
        raise ArgumentError("results must have one or more results", argument="results")
    level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
    counts = dict(events or {})
    fits = {name: _fits(str(name), each) for name, each in named.items()}
    relations = {fit.guarantee.relation for each in fits.values() for fit in each if fit.guarantee is not None}
    several = len(relations) > 1
    made = tuple(
        _column(str(name), each, level, counts.pop(name, None), names_relation=several) for name, each in fits.items()
    )
    if counts:
        raise ArgumentError(
            f"events: there is no column {next(iter(counts))!r}; they are {', '.join(named)}", argument="events"
        )
    known = {text for each in made for row in each.rows for text in (row.variable, row.level, row.term)}
    unknown = [name for name in labels or {} if name not in known]
    if unknown:
        listed = ", ".join(sorted(str(text) for text in known - {None}))
        raise ArgumentError(f"labels: there is no {unknown[0]!r}; there are {listed}", argument="labels")
    own: dict[str, str] = {}
    for each in named.values():
        for fit in [each] if isinstance(each, Result) else each:
            own = {**_labels(fit), **own}
    shown = {name: label for name, label in {**own, **(labels or {})}.items() if name in known and name != label}
    return RegressionTable(columns=made, labels=shown, conf_level=level)


def _labels(fit: "Result") -> dict[str, str]:
    """Return what variables are called: by the labels of the schema."""
    names, found = coefficient_labels(fit), dict[str, str]()
    for block in term_blocks(fit):
        of_cause = "" if block.cause is None else f"{block.cause}: "
        bare = _bare(block)
        found[of_cause + bare] = of_cause + labelled(bare, fit.schema)
        found[block.label] = of_cause + labelled(block.term, fit.schema)
        if len(block.places) > 1:
            found.update({fit.estimate.terms[place]: names[place] for place in block.places})
    return found


def _fits(name: str, given: "Result | Sequence[Result]") -> "list[Result]":
    """Return the fits of a column, or refuse what is no fit with covariates."""
    from hdpstats.results.result import Result

    fits = [given] if isinstance(given, Result) else list(given)
    wrong = [each for each in fits if not isinstance(each, Result)]
    if wrong or not fits:
        kind = type(wrong[0]).__name__ if wrong else "an empty list"
        raise ArgumentError(
            f"results: column {name!r} must be a result or a list of them, not {kind}", argument="results"
        )
    for fit in fits:
        if fit.facts.loss == multinomial.NAME or fit.facts.family is not None:
            raise ArgumentError(
                f"results: column {name!r} has a {fit.facts.model} model, whose coefficients are of several levels or "
                "of no covariate: take tidy()",
                argument="results",
            )
    return fits


def _column(
    name: str, fits: "Sequence[Result]", level: float, events: float | None, *, names_relation: bool
) -> TableColumn:
    measures = list(dict.fromkeys(_measure(fit) for fit in fits))
    if len(measures) > 1:
        raise ArgumentError(
            f"results: column {name!r} has {' and '.join(measures)}: put them in columns of their own",
            argument="results",
        )
    rows = [row for fit in fits for row in _rows(fit, level)]
    keys = [(row.variable, row.level) for row in rows]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ArgumentError(f"results: column {name!r} has {twice[0]!r} more than once", argument="results")
    return TableColumn(
        name=name,
        measure=measures[0],
        rows=tuple(rows),
        records=_records(fits),
        events=None if events is None else real(events, name="events", lower=0.0, upper=np.inf),
        epsilon=_cost(
            name, [fit.guarantee for fit in fits if fit.guarantee is not None], names_relation=names_relation
        ),
    )


def _cost(name: str, guarantees: Sequence[Guarantee], *, names_relation: bool) -> str:
    """Return what fits cost together, with the relation where that is asked for."""
    if not guarantees:
        return "none"
    first = guarantees[0]
    if any((each.relation, each.unit) != (first.relation, first.unit) for each in guarantees):
        raise ArgumentError(
            f"results: column {name!r} has fits under several relations or for several units, whose epsilons do not "
            "add up: put them in columns of their own",
            argument="results",
        )
    whole = first.resting_on(*(part for each in guarantees[1:] for part in each.as_parts(OWN)))
    return whole.pair + (f" ({whole.relation.value})" if names_relation else "")


def _measure(fit: "Result") -> str:
    kind = fit.facts.exponentiated
    return "IRR" if kind.endswith("rate ratio") else _SHORT.get(kind, "coef")


def _records(fits: "Sequence[Result]") -> str:
    """Return the number of records of fits: that of one, or the least and the most."""
    numbers = [fit.nobs if fit.count is None else people(fit.count)[0] for fit in fits]
    known = [value for value in numbers if value is not None]
    if not known:
        return "not known"
    return str(known[0]) if min(known) == max(known) else f"{min(known)} to {max(known)}"


def _rows(fit: "Result", level: float) -> list[TableRow]:
    """Return the coefficients of covariates, and before those of a factor its reference level.

    A column of zeros and ones without labels has one line, as numbers have.
    """
    found: list[TableRow] = []
    for block in term_blocks(fit):
        if block.term in (BASELINE, "Intercept"):
            continue
        of_cause = "" if block.cause is None else f"{block.cause}: "
        factor = levels_of_term(fit, block.term)
        if factor is None or factor[0] == ("0", "1"):
            names = [fit.estimate.terms[place] for place in block.places]
            variables = [block.label] if len(names) == 1 else names
            found += [_row(fit, place, level, each, None) for place, each in zip(block.places, variables, strict=True)]
            continue
        levels, codes = factor
        variable = of_cause + _bare(block)
        found += [TableRow(variable=variable, level=text, term=None) for k, text in enumerate(levels) if k not in codes]
        found += [
            _row(fit, place, level, variable, levels[code]) for place, code in zip(block.places, codes, strict=True)
        ]
    return found


def _bare(block: TermBlock) -> str:
    """Return the column of a term that is one factor: ``size`` for ``C(size)``."""
    return block.term[2:-1] if block.term.startswith("C(") and block.term[2:-1].isidentifier() else block.term


def _row(fit: "Result", place: int, level: float, variable: str, name: str | None) -> TableRow:
    estimate: Estimate = fit.estimate
    low, high = estimate.conf_int(1.0 - level).to_numpy()[place]
    shown = np.asarray if _measure(fit) == "coef" else np.exp
    return TableRow(
        variable=variable,
        level=name,
        term=estimate.terms[place],
        estimate=float(shown(estimate.params.iloc[place])),
        std_error=float(estimate.bse.iloc[place]),
        conf_low=float(shown(low)),
        conf_high=float(shown(high)),
        p_value=float(estimate.pvalues.iloc[place]),
        p_floor=estimate.p_floor,
    )
