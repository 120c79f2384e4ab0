"""Studies, fits and tests for R; every public function may be called from R by its name.

Declarations, ledgers, studies and sites come first, then fits, plans and weighted samples, whose arguments are given to
the model or to its method, whichever takes them; then tests, contrasts and average effects, where text constraints have
R's names of coefficients, and a matrix has R's order of them.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.results import model_matrix
from r_bridge.arguments import (
    argument_names,
    by_name,
    check,
    checked_call,
    choice,
    column_names,
    elements,
    instance,
    per_site,
    whole,
)
from r_bridge.durations import check_declared, in_declared_units
from r_bridge.handles import amount, guarantee_in_r, in_python, in_r, plan_in_r

_KINDS = {
    kind.__name__.lower(): kind
    for kind in (hdp.Continuous, hdp.Binary, hdp.Categorical, hdp.Duration, hdp.Weight, hdp.Offset)
}


def column(kind: str, **declared: Any) -> dict[str, Any]:
    """Check the declaration of a column and return it in full."""
    return dict(_made(kind, declared).to_dict())


def _made(kind: Any, declared: Mapping[str, Any]) -> Any:
    if kind not in _KINDS:
        raise hdp.SchemaError(f"kind must be one of {', '.join(_KINDS)}, not {kind!r}")
    options = dict(declared)
    for name in {"levels", "labels", "other", "missing_level"} & options.keys():  # R's 3 is the level "3"
        texts = [str(whole(level)) for level in elements(options[name])]
        options[name] = texts if name in ("levels", "labels") else texts[0]
    return checked_call(_KINDS[kind], options, name=f"a {kind} column")


def _columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(columns, Mapping):
        raise hdp.SchemaError("columns must be declared by name, for example age = dp_continuous(18, 100)")
    return {name: _declared(name, entry) for name, entry in columns.items()}


def _declared(name: str, entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        raise hdp.SchemaError(f"column {name!r} must be declared, for example by dp_continuous(18, 100)", column=name)
    return _made(entry.get("kind"), {key: value for key, value in entry.items() if value is not None and key != "kind"})


def schema(columns: Mapping[str, Any]) -> hdp.Schema:
    """Return the schema of declared columns."""
    return hdp.Schema(_columns(columns))


def schema_table(schema: hdp.Schema) -> pd.DataFrame:
    """Return a row for each declared column."""
    rows = instance(schema, hdp.Schema)._rows()
    return pd.DataFrame(rows, columns=["column", "kind", "range", "missing", "label"][: len(rows[0])])


def with_labels(schema: hdp.Schema, labels: Mapping[str, Any]) -> hdp.Schema:
    """Return a schema with other labels of columns; NA and NULL take one away."""
    given: hdp.Schema = instance(schema, hdp.Schema)
    if not isinstance(labels, Mapping):
        raise hdp.ArgumentError('labels must have the names of columns: age = "Age (years)"', argument="labels")
    return given.with_labels({name: None if pd.isna(label) else label for name, label in labels.items()})


def _with_labels_of_rows(schema: hdp.Schema, labels: Any) -> hdp.Schema:
    """Return a schema with the labels that columns of public rows bring along, where it has none itself."""
    if labels is None:
        return schema
    lines = {str(name): " ".join(str(label).split())[:200] for name, label in by_name(labels).items()}
    fresh = {name: line for name, line in lines.items() if name in schema and name not in schema.labels}
    return schema.with_labels({name: line for name, line in fresh.items() if line and line.isprintable()})


def schema_from_public(frame: pd.DataFrame, columns: Mapping[str, Any] | None = None, labels: Any = None) -> hdp.Schema:
    """Return a schema from public rows, except for the columns that are declared.

    ``labels`` are what the columns of the rows are called, where they are not declared with labels.
    Levels of a factor keep their order. Columns that are the same in all rows can explain nothing; they are left out,
    and a warning names them.
    """
    declared = _columns(columns or {})
    check_declared(frame, declared)
    if declared:
        frame = in_declared_units({"frame": frame, "schema": hdp.Schema(declared)})["frame"]
    if not isinstance(frame, pd.DataFrame) or not frame.columns.is_unique:
        return _with_labels_of_rows(hdp.Schema.from_public(frame, **declared), labels)
    free = [name for name in frame.columns if name not in declared]
    factors = {name: _levels(frame[name]) for name in free if isinstance(frame[name].dtype, pd.CategoricalDtype)}
    same = [name for name in free if len(factors.get(name, ())) < 2 and len(frame[name].dropna().unique()) == 1]
    if same:
        warnings.warn(f"left out of the schema, as all rows are the same in them: {', '.join(same)}", stacklevel=2)
    ordered = {name: hdp.Categorical(levels) for name, levels in factors.items() if len(levels) > 1}
    with redirect_stderr(sys.stdout):  # what is taken for granted is printed in R
        made = hdp.Schema.from_public(frame.drop(columns=same), **{**ordered, **declared})
    return _with_labels_of_rows(made, labels)


def _levels(cells: "pd.Series[Any]") -> list[str]:
    return [str(level) for level in cells.cat.categories]


def rows_check(frame: Any, schema: hdp.Schema, unit: str | None = None) -> dict[str, Any]:
    """Compare private rows with their schema, for the custodian who holds them."""
    rows_check = hdp.check(frame, instance(schema, hdp.Schema), unit=unit)
    return {
        "table": rows_check.tidy(),
        "advice": list(rows_check.advice),
        "text": str(rows_check),
        "html": rows_check._repr_html_(),
    }


def qualify(file: str | None = None) -> dict[str, Any]:
    """Check the installation in this environment, and write a report where a file is named."""
    found = hdp.qualify(file)
    return {"passed": found.passed, "table": found.to_frame(), "text": str(found), "html": found._repr_html_()}


def ledger(path: str | None = None, **terms: Any) -> Any:
    """Open or create a ledger; without a path one in memory. What is said of a new one is printed in R."""
    with redirect_stderr(sys.stdout):
        return checked_call(hdp.Ledger, {"path_or_url": path} | terms, name="ledger")


def ledger_open(path: str, **terms: Any) -> Any:
    """Open a ledger that exists, on its own terms."""
    return checked_call(hdp.Ledger.open_existing, {"path_or_url": path} | terms, name="ledger")


def _ledger(ledger: object) -> hdp.Ledger:
    account = ledger.ledger if isinstance(ledger, hdp.Study) else ledger
    if not isinstance(account, hdp.Ledger):
        raise hdp.ArgumentError("ledger must be a dp_ledger or a dp_study", argument="ledger")
    return account


def ledger_show(ledger: hdp.Ledger | hdp.Study | hdp.RemoteSite) -> dict[str, Any]:
    """Return an account's text, totals and history; of a study with several sites those of each.

    Of a site in another process it is the analyst's own part.
    """
    if isinstance(ledger, hdp.Study) and len(ledger.sites) > 1:
        return {"sites": {name: ledger_show(ledger.at(name)) for name in ledger.sites}}
    site = ledger.site if isinstance(ledger, hdp.Study) else ledger
    account: Any = site.account() if isinstance(site, hdp.RemoteSite) else _ledger(ledger)
    facts = site.facts if isinstance(site, hdp.RemoteSite) else account
    total = {} if isinstance(site, hdp.RemoteSite) else {"total": amount(account.budget)}
    return {
        "text": str(account),
        "html": account._repr_html_() if hasattr(account, "_repr_html_") else None,
        "dataset": facts.dataset,
        "version": facts.version,
        **total,
        "spent": amount(account.spent),
        "remaining": amount(account.remaining),
        "history": account.history if isinstance(site, hdp.RemoteSite) else account.history(),
    }


def ledger_verify(ledger: hdp.Ledger | hdp.Study, head: str | None = None, key: str | None = None) -> str:
    """Recompute every hash and sum, and return the verdict; with the file of a signed head, compare with it."""
    return str(_ledger(ledger).verify(head, key=key))


def ledger_export(ledger: hdp.Ledger | hdp.Study, path: str) -> None:
    """Write an account to a file."""
    _ledger(ledger).export(path)


def study(**parts: Any) -> Any:
    """Return a study."""
    options, private = dict(parts), parts.get("private")
    sources = private.values() if isinstance(private, dict) else [private]
    marked = [
        *(sources if options.pop("invented", False) else []),
        *([parts.get("public")] if options.pop("public_invented", False) else []),
    ]
    for rows in marked:
        if isinstance(rows, pd.DataFrame):
            rows.attrs["hdpstats"] = "invented"
    labels = options.pop("labels", None)
    if labels is not None:
        sources = private.values() if isinstance(private, dict) else [private]
        bring = [source.schema for source in sources if isinstance(source, hdp.Site)]
        declared = options.get("schema") or (bring[0] if bring else None)
        if isinstance(declared, hdp.Schema):
            options["schema"] = _with_labels_of_rows(declared, labels)
    sites = ["private"]  # the only site, which has no name, is called as in Python
    if isinstance(private, dict):
        sites = [name for name, source in private.items() if not isinstance(source, hdp.Site)]
    for name in [option for option in ("n_max", "row_order") if options.get(option) is not None]:
        numbers = per_site(options[name], sites, name=name, requirement="have a value for each of")
        several = isinstance(numbers, dict)
        options[name] = {site: whole(number) for site, number in numbers.items()} if several else whole(numbers)
    return checked_call(hdp.Study, options, name="study")


def synthetic(schema: object, n: Any, **options: Any) -> pd.DataFrame:
    """Return invented rows of a schema."""
    declared: hdp.Schema = instance(schema, hdp.Schema, argument="schema")
    numbers = {name: whole(options[name]) for name in ("max_rows_per_unit", "seed") if options.get(name) is not None}
    outcome = options.get("follow_up")
    given = {name: options[name] for name in ("public", "unit") if options.get(name) is not None}
    return declared.synthetic(
        whole(n), **given, **numbers, follow_up=None if outcome is None else [str(name) for name in outcome]
    )


def study_columns(study: object) -> list[str]:
    """Return the names of the columns that a study's schema declares."""
    opened: hdp.Study = instance(study, hdp.Study, argument="study")
    return list(opened.schema)


def study_at(study: object, names: Any) -> hdp.Study:
    """Return the study of some of its sites."""
    opened: hdp.Study = instance(study, hdp.Study, argument="study")
    return opened.at(*names)


def connect(url: str, token: str, ca: str | None = None, cert: Any = None, timeout: float = 600.0) -> hdp.RemoteSite:
    """Connect to a custodian's service; ``cert`` are the files of a certificate and of its key.

    A token is a text here: sites are asked on threads of their own, from which a function of R's cannot be called.
    """
    if not isinstance(token, str):
        raise hdp.ArgumentError("token must be a text: the token as it was handed out", argument="token")
    return hdp.connect(url, token=token, ca=ca, cert=None if cert is None else tuple(cert), timeout=timeout)


MODELS: Final[dict[str, Callable[..., Any]]] = {name: getattr(hdpf, name) for name in hdpf.__all__ if name != "survfit"}


def _run(name: str, verb: str, /, **given: Any) -> Any:
    """Make the model ``name`` and call its method ``verb``: each takes the arguments that are its own."""
    constructor, study, epsilon = MODELS[name], given.get("data"), given.get("epsilon")
    if verb == "fit" and isinstance(study, hdp.Study):
        requirement = "be a number, or a number for each of the study's sites:"
        given["epsilon"] = per_site(epsilon, study.sites, name="epsilon", requirement=requirement)
    elif isinstance(epsilon, pd.Series):
        given["epsilon"] = elements(epsilon)
    of_model = {key: given.pop(key) for key in argument_names(constructor) if key in given}
    model = checked_call(constructor, of_model, name=name)
    check(getattr(model, verb), given, name=name, also=argument_names(constructor))
    schema = study.schema if isinstance(study, hdp.Study) and name != "distribution" else None
    if "std_error" in given:
        wanted = by_name(given["std_error"])
        given["std_error"] = wanted if schema is None else in_python(wanted, of_model["formula"], schema)
    try:
        result = getattr(model, verb)(**given)
    except hdp.ArgumentError as error:
        raise error if schema is None else in_r(error, of_model["formula"], schema) from None
    if isinstance(result, hdp.Plan) and schema is not None:
        return plan_in_r(result, of_model["formula"], schema)
    return result


def hybrid_weights(study: hdp.Study, columns: Any, **given: Any) -> Any:
    """Return a weighted sample with weights from counts at public points."""
    names = column_names(columns, len(study.schema) if isinstance(study, hdp.Study) else 0)
    return checked_call(hdp.hybrid_weights, {"study": study, "columns": names, **given}, name="hybrid_weights")


def describe(study: hdp.Study, columns: Any, times: Any = None, **given: Any) -> Any:
    """Return a description, or without an epsilon the request for one."""
    names = column_names(columns, 1 + len(study.schema) if isinstance(study, hdp.Study) else 0)
    given |= {"study": study, "columns": names, "times": _ends(times)}
    return checked_call(hdp.describe, given, name="describe")


def _ends(times: Any) -> Any:
    """Return ends of intervals; one number is how many."""
    ends = elements(times) if isinstance(times, pd.Series | list) else times
    return whole(ends[0]) if isinstance(ends, list) and len(ends) == 1 else whole(ends)


def _survfit(
    verb: str,
    /,
    formula: str,
    data: hdp.Study,
    times: Any = None,
    weights: Any = None,
    recorded: str = "within",
    weighting: Any = None,
    **given: Any,
) -> Any:
    """Ask for survival curves, plan them, or return those of public rows."""
    options = {"formula": formula, "data": data, "times": _ends(times), "weights": weights, "recorded": recorded}
    options |= {} if weighting is None else {"weighting": weighting}
    request = checked_call(hdpf.survfit, options, name="survfit")
    if verb == "plan":
        given["epsilon"] = elements(given.get("epsilon"))
    return checked_call(getattr(request, verb), given, name="survfit")


def request_file(
    model: str,
    data: hdp.Study,
    epsilon: float,
    path: str,
    formula: str | None = None,
    columns: Any = None,
    **options: Any,
) -> str:
    """Write down what is asked of a site; return the name of the request."""
    asked: Any = formula
    if columns is not None:
        asked = column_names(columns, 1 + len(data.schema)) if isinstance(data, hdp.Study) else []
    plain = {name: _option(value) for name, value in options.items()}
    return hdp.request(model, asked, data, epsilon=epsilon, path=path, **plain).sha256


def _option(value: Any) -> Any:
    """Return an argument as a number, a text or a list of them."""
    return [whole(each) for each in elements(value)] if isinstance(value, pd.Series | list) else whole(value)


def release_result(release: str, request: str, public: pd.DataFrame | None = None, key: str | None = None) -> Any:
    """Return the result of a release file."""
    return hdp.read_result(release, request, public=public, key=key)


def describe_plan(request: Any, epsilon: Any, n: int | None = None) -> Any:
    """Return what a description, or a balance, would find at each epsilon."""
    kinds = (hdp.DescriptionRequest, hdp.BalanceRequest)
    return instance(request, *kinds, argument="request").plan(elements(epsilon), n=n)


def propensity(formula: str, data: hdp.Study, **given: Any) -> Any:
    """Return a propensity model."""
    return checked_call(hdp.propensity, {"formula": formula, "data": data, **given}, name="propensity")


def propensity_public(formula: str, data: hdp.Study) -> Any:
    """Return the propensity model of public rows alone."""
    return checked_call(hdp.propensity, {"formula": formula, "data": data}, name="propensity").fit_public()


def weighting(propensity: hdp.Result, kind: str = "overlap") -> hdp.Weighting:
    """Return the weights of a propensity model, which R holds as the result that it is."""
    return hdp.Propensity(fit=instance(propensity, hdp.Result)).weights(kind)


def treatment_effect(formula: str, data: hdp.Study, weighting: Any, **given: Any) -> Any:
    """Return an effect, or without an epsilon the request for one."""
    given |= {"formula": formula, "data": data, "weighting": weighting}
    return checked_call(hdp.treatment_effect, given, name="treatment_effect")


def plan_effect(propensity: str, effect: str, data: hdp.Study, epsilon: Any, shares: Any, **given: Any) -> Any:
    """Return how exact an effect would be by total epsilon and its split."""
    request = checked_call(hdp.propensity, {"formula": propensity, "data": data}, name="propensity")
    return request.plan_effect(effect, elements(epsilon), shares=elements(shares), **given)


def effect_plan(request: hdp.TreatmentEffectRequest, epsilon: Any, n: int | None = None) -> Any:
    """Return how exact an effect would be at each epsilon."""
    return instance(request, hdp.TreatmentEffectRequest, argument="request").plan(elements(epsilon), n=n)


def sample_fit(sample: hdp.WeightedSample, formula: str, model: str, **given: Any) -> Any:
    """Fit the model of that name to the rows of a weighted sample."""
    choice(model, "model", tuple(MODELS))
    check(MODELS[model], {"formula": formula, "data": None, **given}, name=model)
    return instance(sample, hdp.WeightedSample).fit(MODELS[model], formula, **given)


SEVERAL_EPSILONS: Final = frozenset(
    {*MODELS, *(f"{name}_plan" for name in (*MODELS, "describe", "survfit", "effect")), "plan_effect"}
)
"""The functions that take several epsilons: one for each site, or those to plan for."""

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: partial(_run, name, "fit") for name in MODELS},
    **{f"{name}_plan": partial(_run, name, "plan") for name in MODELS},
    **{f"{name}_public": partial(_run, name, "fit_public") for name in MODELS},
    "survfit": partial(_survfit, "fit"),
    "survfit_plan": partial(_survfit, "plan"),
    "survfit_public": partial(_survfit, "fit_public"),
    "describe": describe,
    "describe_plan": describe_plan,
    "propensity": propensity,
    "propensity_public": propensity_public,
    "weighting": weighting,
    "treatment_effect": treatment_effect,
    "effect_plan": effect_plan,
    "plan_effect": plan_effect,
    "hybrid_weights": hybrid_weights,
    "importance_weights": hdp.importance_weights,
    "sample_fit": sample_fit,
    "synthetic": synthetic,
}
"""The functions by the names that R uses."""


_NAMES = {
    "coef": "estimate",
    "std err": "std_error",
    "z": "statistic",
    "P>|z|": "p_value",
    "Conf. Int. Low": "conf_low",
    "Conf. Int. Upp.": "conf_high",
}
"""Columns of statsmodels in broom's words."""


def wald_test(
    result: hdp.Result, hypothesis: str | None = None, frame: pd.DataFrame | None = None, estimate: str | None = None
) -> pd.DataFrame:
    """Return the joint test of constraints in one row, or of every term of the formula in a row each."""
    fit = instance(result, hdp.Result)
    if hypothesis is None and frame is None:
        table: pd.DataFrame = fit.wald_test_terms(estimate=estimate).table.reset_index()
        table["term"] = table["term"].replace("Intercept", "(Intercept)")
    else:
        test = fit.wald_test(_constraints(fit, hypothesis, frame), estimate=estimate)
        table = pd.DataFrame(
            {"statistic": [test.statistic], "pvalue": [test.pvalue], "df_constraint": [test.df_constraint]}
        )
    return table.rename(columns={"pvalue": "p_value", "df_constraint": "df"})


def contrasts(
    result: hdp.Result,
    hypothesis: str | None = None,
    frame: pd.DataFrame | None = None,
    conf_level: float = 0.95,
    estimate: str | None = None,
) -> pd.DataFrame:
    """Return a row for each contrast."""
    fit = instance(result, hdp.Result)
    test = fit.t_test(_constraints(fit, hypothesis, frame), estimate=estimate)
    return _in_broom(test.summary_frame(alpha=1.0 - conf_level))


def pairwise(
    result: hdp.Result,
    term: str,
    adjust: str = "hs",
    conf_level: float = 0.95,
    cause: str | None = None,
    estimate: str | None = None,
) -> pd.DataFrame:
    """Return a row for each pair of levels of a factor, with p-values adjusted for their number."""
    comparisons = instance(result, hdp.Result).t_test_pairwise(
        term, method=adjust, alpha=1.0 - conf_level, cause=cause, estimate=estimate
    )
    table = _in_broom(comparisons.contrasts.summary_frame(alpha=1.0 - conf_level))
    return table.assign(adj_p_value=comparisons.adjusted)


def average_effects(
    result: hdp.Result,
    variable: str,
    over: Any = None,
    study: hdp.Study | None = None,
    values: Any = None,
    times: Any = None,
    cause: str | None = None,
    weights: str | None = None,
    conf_level: float = 0.95,
    estimate: str | None = None,
) -> dict[str, Any]:
    """Return a row for each effect of a variable, averaged over rows: by default the public ones of a study.

    With them what all releases that they rest on guarantee together.
    """
    fit = instance(result, hdp.Result)
    effects = (fit if study is None else model_matrix.with_public_rows(fit, study.public)).average_effects(
        variable,
        over="public" if over is None else over,
        values=None if values is None else elements(values),
        times=None if times is None else elements(times),
        cause=cause,
        weights=weights,
        estimate=estimate,
        alpha=1.0 - conf_level,
    )
    return {"table": effects.frame, **guarantee_in_r(effects.guarantee)}


def methods_text(result: hdp.Result | hdp.TreatmentEffect | hdp.CombinedEffect | hdp.SurvivalCurves) -> str:
    """Return the paragraph for a methods section."""
    kinds = hdp.Result, hdp.TreatmentEffect, hdp.CombinedEffect, hdp.SurvivalCurves
    return str(instance(result, *kinds).methods_text())


def result_to_docx(result: hdp.Result, path: str) -> None:
    """Write the summary of a result to a Word file."""
    instance(result, hdp.Result).summary().to_docx(path)


def _constraints(result: hdp.Result, hypothesis: str | None, frame: pd.DataFrame | None) -> Any:
    """Return constraints of a text, or of a matrix in R's order of coefficients with the values in a last column."""
    if frame is None:
        return hypothesis
    numbers = frame.to_numpy(dtype=np.float64)
    places = model_matrix.order(result)
    if numbers.shape[1] != len(places) + 1:
        raise hdp.ArgumentError(
            f"hypothesis must have a column for each of the {len(places)} coefficients", argument="hypothesis"
        )
    L = np.empty((len(numbers), len(places)))
    L[:, places] = numbers[:, :-1]
    return L, numbers[:, -1]


def _in_broom(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns=_NAMES).rename_axis("contrast").reset_index()
