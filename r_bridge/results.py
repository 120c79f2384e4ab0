"""Results, aggregates, samples, designs, public rows and what figures draw, for R, which calls functions by name.

R evaluates expressions over the rows of a sample itself; their values come here as columns of numbers.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from hdpstats import display
from hdpstats.display import Reported
from hdpstats.results import model_matrix
from hdpstats.results.labels import coefficient_labels, labelled, labels_of_terms
from hdpstats.results.time_axis import time_axis as axis_of_time
from r_bridge.arguments import by_name, choice, column_names, elements, instance, method
from r_bridge.handles import Matrix, fingerprint

SAVED: Final = (hdp.WeightedSample, hdp.Description, hdp.SurvivalCurves, hdp.TreatmentEffect, hdp.Balance)
"""What R keeps as JSON text, beside results and combined effects."""

METHODS: Final[dict[str, Callable[..., Any]]] = {
    **{
        name: partial(method, (hdp.Result,), "result", name)
        for name in (
            *("tidy", "glance", "baseline_hazard", "predict"),
            *("predict_survival", "predict_hazard", "predict_incidence", "predict_median"),
        )
    },
    "to_json": partial(method, (*SAVED, hdp.CombinedEffect), "result", "to_json"),
    "effect_tidy": partial(method, (hdp.TreatmentEffect,), "effect", "tidy"),
    "effect_by_site": partial(method, (hdp.TreatmentEffect, hdp.CombinedEffect), "effect", "by_site"),
    "combined_effect_tidy": partial(method, (hdp.CombinedEffect,), "effect", "tidy"),
    "effect_with_balance": partial(method, (hdp.TreatmentEffect,), "effect", "with_balance"),
    "weighted_balance_tidy": partial(method, (hdp.Balance,), "balance", "tidy"),
    **{
        f"description_{name}": partial(method, (hdp.Description,), "description", name)
        for name in ("tidy", "balance", "correlations", "follow_up", "to_docx")
    },
    **{
        f"curves_{name}": partial(method, (hdp.SurvivalCurves,), "curves", name)
        for name in ("tidy", "at", "drawn", "quantile", "median", "restricted_mean")
    },
    "sample_balance": partial(method, (hdp.WeightedSample,), "sample", "balance"),
    "schema_to_yaml": partial(method, (hdp.Schema,), "schema", "to_yaml"),
    "dummy": partial(method, (hdp.RemoteSite,), "site", "dummy"),
}
"""Methods of objects by the names that R uses."""


def confint(result: hdp.Result | hdp.Aggregate, level: float = 0.95) -> Matrix:
    """Return confidence limits, a row per coefficient."""
    outside = (1.0 - level) / 2.0
    names = [f"{100.0 * share:.3g} %" for share in (outside, 1.0 - outside)]
    return Matrix(table=result.conf_int(alpha=1.0 - level).set_axis(names, axis=1))


def summary_text(result: Any, **given: float) -> str:
    """Return the summary as text."""
    return str(result.summary(**given).as_text())


def result_to_json(json: str, path: str) -> None:
    """Write a result's own JSON text to a file, with the names of terms that Python and R have in it alike."""
    hdp.Result.from_json(json).to_json(path)


def result_verify(result: hdp.Result, keys: Any) -> int:
    """Check the signatures of a result's releases with the files of public keys; return how many there are."""
    number: int = instance(result, hdp.Result).verify(*elements(keys))
    return number


def disclosure(
    result: Any,
    form: str | None = None,
    statements: dict[str, Any] | None = None,
) -> Any:
    """Return the privacy record for an output checker as JSON text, or a form: its text, points, what it lacks."""
    kinds = (hdp.Result, *SAVED)
    account = result.ledger if isinstance(result, hdp.Study) else result
    if form is None:
        if not isinstance(account, kinds):
            raise hdp.ArgumentError(
                'form must be "nist", "registry" or "text" for a ledger or a study', argument="form"
            )
        return json.dumps(account.disclosure())
    given = None if statements is None else {name: _statement(value) for name, value in statements.items()}
    filled = instance(account, *kinds, hdp.Ledger).disclosure(form, statements=given)
    return {
        "form": filled.form,
        "text": str(filled),
        "html": filled._repr_html_(),
        "points": filled.to_frame(),
        "missing": list(filled.missing),
    }


def _statement(value: Any) -> Any:
    """Return a statement, of a vector of R with several elements a list."""
    several = elements(value)
    return several[0] if len(several) == 1 else several


def curves_test(
    curves: hdp.SurvivalCurves,
    method: str = "logrank",
    strata: Any = None,
    source: str | None = None,
    alpha: float = 0.05,
) -> dict[str, Any]:
    """Return a log-rank test: its numbers, events, hazard ratios and text."""
    by = None if strata is None else elements(strata)
    test = instance(curves, hdp.SurvivalCurves, argument="curves").logrank_test(method, strata=by, source=source)
    return {
        "strata": list(test.strata),
        **{name: getattr(test, name) for name in ("statistic", "df", "p_value", "method")},
        "events": test.table,
        "hazard_ratios": test.hazard_ratios(alpha),
        "text": str(test),
        "html": test._repr_html_(),
    }


def curves_compare(
    curves: hdp.SurvivalCurves, result: hdp.Result, newdata: pd.DataFrame, conf_level: float = 0.95
) -> pd.DataFrame:
    """Return a hazard model's survival, averaged over rows, against curves."""
    given: hdp.SurvivalCurves = instance(curves, hdp.SurvivalCurves, argument="x")
    return given.compare(instance(result, hdp.Result), newdata, alpha=1.0 - conf_level)


def p_floor(result: hdp.Result) -> float:
    """Return the least p-value that a result can have: 0 where the distribution of its errors is known."""
    return float(instance(result, hdp.Result).estimate.p_floor)


def compare(
    result: hdp.Result,
    reference: hdp.Result | None = None,
    frame: pd.DataFrame | None = None,
    model: str | None = None,
    formula: str | None = None,
    cause: str | None = None,
    label: str | None = None,
) -> dict[str, Any]:
    """Return a comparison with a result, or with a table of terms that comes from a ``model`` by a ``formula``."""
    other = pd.DataFrame() if frame is None else frame
    other.attrs |= {"model": model, "formula": formula}
    first = instance(result, hdp.Result)
    comparison = first.compare(other if reference is None else reference, cause=cause, label=label)
    hazard = first.facts.hazard
    names = () if hazard is None else tuple(hazard.baseline_names)
    return {
        **{name: getattr(comparison, name) for name in ("relative_error", "note", "label")},
        "table": comparison.frame.assign(baseline=[str(term).endswith(names) for term in comparison.frame["term"]]),
        "result_only": list(comparison.result_only),
        "reference_only": list(comparison.reference_only),
        "text": str(comparison),
        "html": comparison._repr_html_(),
    }


def regression_table(
    results: Any, labels: Any = None, events: Any = None, conf_level: float = 0.95, of_rows: bool = False
) -> dict[str, Any]:
    """Return fits side by side: numbers, cells as they are shown, text, page and LaTeX.

    ``of_rows`` says that labels are those of columns of rows, of which the table may have some only.
    """
    names, counts = (None if given is None else by_name(given) for given in (labels, events))
    plain = hdp.regression_table(results, events=counts, conf_level=conf_level)
    if names and of_rows:
        variables = set(plain.tidy()["variable"])
        names = {name: label for name, label in names.items() if name in variables}
    table = hdp.regression_table(results, labels=names, events=counts, conf_level=conf_level) if names else plain
    headers, stubs, cells = table._cells()
    return {
        "table": table.tidy(),
        "cells": pd.DataFrame([[stub, *row] for stub, row in zip(stubs, cells, strict=True)]).add_prefix("column"),
        "headers": ["", *headers],
        "text": str(table),
        "html": table._repr_html_(),
        "latex": table._repr_latex_(),
        "labels": pd.Series(dict(table.labels), dtype=str) if table.labels else None,
    }


def regression_table_to_docx(
    results: Any, path: str, labels: Any = None, events: Any = None, conf_level: float = 0.95
) -> None:
    """Write that table to a Word file."""
    names, counts = (None if given is None else by_name(given) for given in (labels, events))
    hdp.regression_table(results, labels=names, events=counts, conf_level=conf_level).to_docx(path)


def first_table(
    description: hdp.Description, labels: Any = None, conf_level: float = 0.95, of_rows: bool = False
) -> dict[str, Any]:
    """Return a first table: cells as they are shown, text, page and LaTeX.

    ``of_rows`` says that labels are those of columns of rows, of which the table may have some only.
    """
    given: hdp.Description = instance(description, hdp.Description)
    names = None if labels is None else by_name(labels)
    if names and of_rows:
        described = {column.name for column in given.query.columns}
        names = {name: label for name, label in names.items() if name in described}
    table = given.first_table(names or None, conf_level=conf_level)
    lines = [[name, *row] for name, row in zip(table.names, table.cells, strict=True)]
    return {
        "cells": pd.DataFrame(lines).add_prefix("column"),
        "headers": ["", *table.headers],
        "text": str(table),
        "html": table._repr_html_(),
        "latex": table._repr_latex_(),
        "labels": pd.Series(names, dtype=str) if names else None,
    }


def first_table_to_docx(description: hdp.Description, path: str, labels: Any = None, conf_level: float = 0.95) -> None:
    """Write that table to a Word file."""
    given: hdp.Description = instance(description, hdp.Description)
    given.first_table(None if labels is None else by_name(labels), conf_level=conf_level).to_docx(path)


def balance_labels(description: hdp.Description) -> dict[str, Any]:
    """Return what a figure of differences calls the columns that have labels, and the column of groups."""
    given: hdp.Description = instance(description, hdp.Description)
    by, labels = given.query.by, given.schema.labels
    return {
        "labels": pd.Series(labels, dtype=str) if labels else None,
        "by": None if by is None else given.schema.label(by),
    }


def term_labels(result: hdp.Result | hdp.Aggregate, terms: Any) -> list[str]:
    """Return what pages call terms of a formula: by the labels of the schema, else as they are."""
    names = [str(name) for name in elements(terms)]
    labels = labels_of_terms(names, result.schema) if isinstance(result, hdp.Result) else {}
    return [labels.get(name, name) for name in names]


def sample_labels(sample: hdp.WeightedSample, terms: Any) -> list[str]:
    """Return what a figure calls the terms of a sample's balance."""
    given: hdp.WeightedSample = instance(sample, hdp.WeightedSample)
    return [labelled(str(name), given.schema) for name in elements(terms)]


def time_axis(
    end: float, unit: str | None = None, units: str | None = None, most: float = 8, label: str | None = None
) -> dict[str, Any]:
    """Return the ticks of an axis of time in the declared unit, their labels, and the title: those of Python's figures.

    ``units`` is the unit that is shown, ``label`` what the time is called.
    """
    axis = axis_of_time(float(end), unit, units, most=int(most), label=label)
    return {"ticks": axis.ticks.tolist(), "labels": axis.labels, "title": axis.title}


def aggregate_table(aggregate: hdp.Aggregate, conf_level: float = 0.95) -> pd.DataFrame:
    """Return a row per group or result and term, with limits of a level."""
    combined: hdp.Aggregate = instance(aggregate, hdp.Aggregate)
    limits = pd.concat([node.estimate.conf_int(1.0 - conf_level) for node in combined.nodes])
    return combined.frame.assign(conf_low=limits[0].to_numpy(), conf_high=limits[1].to_numpy())


def aggregate_tidy(result: hdp.Aggregate, conf_level: float = 0.95, exponentiate: bool = False) -> pd.DataFrame:
    """Return that table; ``exponentiate`` applies to estimates and limits."""
    table = aggregate_table(result, conf_level)
    shown = ["estimate", "conf_low", "conf_high"]
    if exponentiate:
        table[shown] = np.exp(table[shown])
    return table


def combined_effect_forest(effect: hdp.CombinedEffect, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the lines of a forest plot, all sites first: ratios as logarithms, which the figure exponentiates."""
    combined: hdp.CombinedEffect = instance(effect, hdp.CombinedEffect)
    named = [("all sites", combined.estimate), *((site.name, site.estimate) for site in combined.sites)]
    parts = []
    for place, (name, estimate) in enumerate(named):
        limits = estimate.conf_int(1.0 - conf_level).to_numpy()
        parts.append(
            pd.DataFrame(
                {
                    "label": name,
                    "depth": int(place > 0),
                    "group": place == 0,
                    "term": list(estimate.terms),
                    "estimate": estimate.params.to_numpy(),
                    "std_error": estimate.bse.to_numpy(),
                    "conf_low": limits[:, 0],
                    "conf_high": limits[:, 1],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _features(frame: pd.DataFrame) -> Iterator[tuple[str, Callable[[pd.DataFrame], Any]]]:
    for name in map(str, frame):
        values = frame[name].to_numpy(dtype=float, na_value=float("nan"))
        yield name, partial(_given, values)


def _given(values: Any, _rows: pd.DataFrame) -> Any:
    return values


def sample_mean(sample: hdp.WeightedSample, frame: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Return the means of columns of numbers, a row each, with limits."""
    lines = []
    for name, values in _features(frame):
        average = instance(sample, hdp.WeightedSample).mean(values)
        lines.append((name, average.estimate, average.std_error, average.sampling_error, *average.conf_int(alpha)))
    return pd.DataFrame(lines, columns=["term", "estimate", "std_error", "sampling_error", "conf_low", "conf_high"])


def sample_quantile(
    sample: hdp.WeightedSample, frame: pd.DataFrame, probabilities: list[Any], alpha: float = 0.05
) -> pd.DataFrame:
    """Return the quantiles of columns of numbers, a row for each column and probability."""
    if not probabilities or not all(
        isinstance(probability, int | float) and 0 < probability < 1 for probability in probabilities
    ):
        raise hdp.ArgumentError("q must be one or more numbers between 0 and 1", argument="q")
    weighted: hdp.WeightedSample = instance(sample, hdp.WeightedSample)
    tables = {name: weighted.quantile(values, probabilities, alpha) for name, values in _features(frame)}
    return pd.concat(tables, names=["term", None]).reset_index(level="term").reset_index(drop=True)


def sample_table(sample: hdp.WeightedSample, columns: Any, alpha: float = 0.05) -> pd.DataFrame:
    """Return how often levels of columns occur, alone or crossed."""
    weighted: hdp.WeightedSample = instance(sample, hdp.WeightedSample)
    return weighted.table(*column_names(columns, len(weighted.schema)), alpha=alpha)


def model_terms(result: hdp.Result) -> dict[str, Any]:
    """Return what R's generics ask of a model; places are from 1."""
    terms = asdict(model_matrix.terms(instance(result, hdp.Result)))
    texts = {name: pd.Series(levels, dtype=str) for name, levels in terms["levels"].items()}
    numbers = {name: pd.Series(terms[name], dtype=int) for name in ("covariates", "assign")}
    return {
        **terms,
        "covariates": numbers["covariates"] + 1,
        "assign": numbers["assign"],
        "columns": pd.Series(terms["columns"], dtype=str),
        "levels": texts,
        "beside": pd.Series(terms["beside"], dtype=str),
        "offset": result.facts.offset,
    }


def model_variables(result: hdp.Result, newdata: pd.DataFrame | None = None) -> dict[str, Any]:
    """Return the variables of R's model frame by their names, with their values in public rows."""
    variables = model_matrix.variables(instance(result, hdp.Result), newdata)
    return {
        name: {
            "kind": variable.kind,
            "levels": pd.Series(variable.levels, dtype=str),
            "size": variable.size,
            "values": variable.cells,
        }
        for name, variable in variables.items()
    }


def public_fingerprint(study: hdp.Study) -> str | None:
    """Return a hash of a study's schema and public rows, which a result of a fit to them has too; None without rows."""
    return fingerprint(instance(study, hdp.Study, argument="study").public)


def design(result: hdp.Result, newdata: pd.DataFrame) -> Matrix:
    """Return the design of public rows; NaN where a covariate is missing."""
    return Matrix(table=model_matrix.design(instance(result, hdp.Result), newdata))


def summary_parts(result: hdp.Result) -> dict[str, Any]:
    """Return a summary without coefficients, which R prints by itself: names and values, notes, the least p-value."""
    head, privacy, notes = model_matrix.summary_rows(instance(result, hdp.Result))
    pairs = {
        "head": pd.DataFrame(head, columns=["name", "value"]),
        "privacy": pd.DataFrame(privacy, columns=["name", "value"]),
    }
    errors = result.estimate.distribution
    least = 0.0 if errors is None else float(1.0 - errors.levels[-1])
    return {**pairs, "least": least, "notes": pd.Series(notes, dtype=str)}


def with_coefficients(json: str, coefficients: Any) -> hdp.Result:
    """Return the result of a JSON text with other coefficients, in R's order."""
    return model_matrix.with_coefficients(hdp.Result.from_json(json), np.asarray(coefficients, dtype=np.float64))


def public_rows(study: hdp.Study) -> pd.DataFrame | None:
    """Return a study's public rows, with the levels that the schema declares; None where it has none."""
    table = instance(study, hdp.Study, argument="study").public
    return None if table is None else table.frame()


def page(x: object, alpha: float | None = None) -> str | None:
    """Return what a notebook shows of an object; ``alpha`` is one minus the level of its intervals."""
    if alpha is not None and isinstance(x, Reported):
        return x._report(alpha).page()
    show = getattr(x, "_repr_html_", None)
    if show is None:
        return display.page("A request: nothing is spent", display.notes([repr(x)]))
    return str(show())


def table_page(
    frame: pd.DataFrame, title: str, badges: Any = None, notes: Any = None, p_floor: float = 0.0, named: bool = False
) -> str:
    """Return a page of a table as it is in R, in the look of other pages.

    ``named`` says that the first column names the rows; ``p_floor`` is the least p-value that draws can tell.
    """
    columns = [frame[name] for name in frame]
    numeric = [pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) for column in columns]
    shown = [_cells(column, p_floor if "p.value" in str(column.name) else None) for column in columns]
    names = ["" if place == 0 and named else str(name) for place, name in enumerate(frame)]
    sides = "".join("r" if right else "l" for right in numeric)
    table = display.grid(names, zip(*shown, strict=True), aligns=sides or "l", named=named)
    return display.page(title, table, display.notes(_texts(notes)), badges=_texts(badges))


def _texts(given: Any) -> list[str]:
    """Return the texts of a vector; none for NULL."""
    return [] if given is None else [str(text) for text in elements(given)]


def _cells(column: "pd.Series[Any]", p_floor: float | None) -> list[str]:
    """Return the texts of a column: p-values where there is a floor, whole numbers, other numbers, anything else."""
    known = column[column.notna()]
    if p_floor is not None:
        write: Callable[[Any], str] = partial(display.p_value, floor=p_floor)
    elif pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        whole_ones = bool((known % 1 == 0).all()) and bool((known.abs() < 1e15).all())
        write = (lambda value: f"{value:.0f}") if whole_ones else display.number
    else:
        write = str
    return ["" if pd.isna(cell) else write(cell) for cell in column]


def estimates(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the public, private and pooled estimates below each other, or the only one there is.

    Columns label, term, baseline (whether the term is of a hazard's baseline), estimate, std_error, conf_low and
    conf_high.
    """
    fit: hdp.Result = instance(result, hdp.Result)
    parts = [estimate for estimate in (fit.public_only, fit.private_only, fit.pooled) if estimate is not None]
    return _stacked(fit, [(estimate.label, estimate) for estimate in parts or [fit.estimate]], conf_level)


def coefficient_rows(
    result: hdp.Result,
    conf_level: float = 0.95,
    exponentiate: bool = False,
    labels: Any = None,
    terms: Any = None,
    scale: str = "unit",
    newdata: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Return the coefficients to draw, as `estimates` has them, in R's order or that of ``terms``; and what they are.

    A column ``shown`` has what to write in the place of terms. Without ``terms`` the baseline is left out, and the
    intercept where there are other coefficients. With the scale "sd" a number's coefficient is that of a standard
    deviation in the rows ``newdata``.
    """
    fit: hdp.Result = instance(result, hdp.Result)
    table = estimates(fit, conf_level)
    standard = choice(scale, name="scale", options=("unit", "sd")) == "sd"
    if standard and newdata is not None:
        factors = model_matrix.standard_deviations(fit, newdata)
        numbers = ["estimate", "std_error", "conf_low", "conf_high"]
        table[numbers] = table[numbers].mul(np.tile(factors, len(table) // len(factors)), axis=0)
    term_names = [fit.estimate.terms[place] for place in model_matrix.order(fit)]
    names, wanted = by_name(labels) if labels is not None else {}, term_names if terms is None else elements(terms)
    if not isinstance(names, dict):
        raise hdp.ArgumentError('labels must have the names of coefficients: c(age = "age, years")', argument="labels")
    for argument, given in (("labels", names), ("terms", wanted)):
        unknown = [name for name in given if name not in term_names]
        if unknown:
            close = get_close_matches(str(unknown[0]), term_names, n=1)
            raise hdp.ArgumentError(
                f"{argument}: there is no coefficient {unknown[0]!r}; "
                + (f"did you mean {close[0]!r}?" if close else "see coef()"),
                argument=argument,
            )
    if terms is None:
        intercept = table["term"].str.fullmatch(r"(.*:)?\(?Intercept\)?")
        slopes = table.loc[~table["baseline"] & ~intercept, "term"]
        wanted = [name for name in term_names if name in set(slopes if len(slopes) else table["term"])]
    label = fit.facts.exponentiated if exponentiate else "coefficient"
    shown = table[table["term"].isin(wanted)]
    shown = shown.sort_values("term", key=lambda terms: terms.map(wanted.index), kind="stable")
    called = {**dict(zip(fit.estimate.terms, coefficient_labels(fit), strict=True)), **names}
    return {
        "table": shown.assign(shown=shown["term"].map(lambda name: str(called[name]))).reset_index(drop=True),
        "label": f"{label}, of numbers per standard deviation" if standard else label,
    }


def unit_of_time(result: hdp.Result) -> str | None:
    """Return the declared unit of a hazard model's times; None without one."""
    hazard = instance(result, hdp.Result).facts.hazard
    return None if hazard is None else hazard.unit_of_time


def label_of_time(result: hdp.Result) -> str | None:
    """Return the label of a hazard model's times; None without one."""
    fit: hdp.Result = instance(result, hdp.Result)
    return None if fit.facts.hazard is None else fit.schema[fit.facts.hazard.stop].label


def forest(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the rows of a forest plot: combined estimates, then each site's own, below each other.

    Columns label, depth (0 for combined ones), group (whether it is combined), term, covariate (whether the term is no
    intercept and of no baseline), estimate, std_error, conf_low and conf_high.
    """
    fit: hdp.Result = instance(result, hdp.Result)
    of_sites = [(site.site, site.estimate) for site in fit.site_facts if site.estimate is not None]
    if not of_sites:
        raise hdp.ArgumentError("only a fit to several sites has estimates of each site to plot", argument="which")
    parts = [estimate for estimate in (fit.pooled, fit.private_only, fit.public_only) if estimate is not None]
    combined = [(estimate.label, estimate) for estimate in parts or [fit.estimate]]
    table = _stacked(fit, [*combined, *of_sites], conf_level)
    depth = np.repeat([0] * len(combined) + [1] * len(of_sites), len(fit.estimate.terms))
    intercept = table["term"].str.fullmatch(r"(.*:)?\(?Intercept\)?")
    covariate = ~(table.pop("baseline") | intercept)
    called = dict(zip(fit.estimate.terms, coefficient_labels(fit), strict=True))
    table.insert(1, "shown", table["term"].map(called))
    for place, name, column in ((1, "depth", depth), (2, "group", depth == 0), (4, "covariate", covariate)):
        table.insert(place, name, column)
    return table


def _stacked(result: hdp.Result, parts: Sequence[tuple[str, Any]], conf_level: float) -> pd.DataFrame:
    """Return estimates of a result's terms below each other; the first terms of each cause are of its baseline."""
    hazard, terms = result.facts.hazard, list(result.estimate.terms)
    per_cause, baseline = (1, 0) if hazard is None else (len(terms) // len(hazard.causes), len(hazard.baseline_names))
    return pd.concat(
        pd.DataFrame(
            {
                "label": label,
                "term": terms,
                "baseline": np.arange(len(terms)) % per_cause < baseline,
                "estimate": estimate.params.to_numpy(),
                "std_error": estimate.bse.to_numpy(),
                **dict(zip(("conf_low", "conf_high"), estimate.conf_int(1.0 - conf_level).to_numpy().T, strict=True)),
            }
        )
        for label, estimate in parts
    ).reset_index(drop=True)
