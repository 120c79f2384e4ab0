"""Declarations, ledgers, studies and sites for R; every public function may be called from R by its name."""

import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import checked_call, elements, instance, per_site, whole
from r_bridge.handles import amount

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


def schema_from_public(frame: pd.DataFrame, columns: Mapping[str, Any] | None = None) -> hdp.Schema:
    """Return a schema from public rows, except for the columns that are declared.

    Levels of a factor keep their order. Columns that are the same in all rows can explain nothing; they are left out,
    and a warning names them.
    """
    declared = _columns(columns or {})
    if not isinstance(frame, pd.DataFrame) or not frame.columns.is_unique:
        return hdp.Schema.from_public(frame, **declared)
    free = [name for name in frame.columns if name not in declared]
    factors = {name: _levels(frame[name]) for name in free if isinstance(frame[name].dtype, pd.CategoricalDtype)}
    same = [name for name in free if len(factors.get(name, ())) < 2 and len(frame[name].dropna().unique()) == 1]
    if same:
        warnings.warn(f"left out of the schema, as all rows are the same in them: {', '.join(same)}", stacklevel=2)
    ordered = {name: hdp.Categorical(levels) for name, levels in factors.items() if len(levels) > 1}
    return hdp.Schema.from_public(frame.drop(columns=same), **{**ordered, **declared})


def _levels(cells: "pd.Series[Any]") -> list[str]:
    return [str(level) for level in cells.cat.categories]


def rows_check(frame: pd.DataFrame, schema: hdp.Schema, unit: str | None = None) -> dict[str, Any]:
    """Compare private rows with their schema, for the custodian who holds them."""
    found = hdp.check(frame, instance(schema, hdp.Schema), unit=unit)
    return {"table": found.tidy(), "advice": list(found.advice), "text": str(found)}


def ledger(path: str | None = None, **terms: Any) -> Any:
    """Open or create a ledger; without a path one in memory."""
    return checked_call(hdp.Ledger, {"path_or_url": path} | terms, name="ledger")


def ledger_open(path: str, **terms: Any) -> Any:
    """Open a ledger that exists, on its own terms."""
    return checked_call(hdp.Ledger.open_existing, {"path_or_url": path} | terms, name="ledger")


def _ledger(ledger: object) -> hdp.Ledger:
    found = ledger.ledger if isinstance(ledger, hdp.Study) else ledger
    if not isinstance(found, hdp.Ledger):
        raise hdp.ArgumentError("ledger must be a dp_ledger or a dp_study", argument="ledger")
    return found


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
        "dataset": facts.dataset,
        "version": facts.version,
        **total,
        "spent": amount(account.spent),
        "remaining": amount(account.remaining),
        "history": account.history if isinstance(site, hdp.RemoteSite) else account.history(),
    }


def ledger_verify(ledger: hdp.Ledger | hdp.Study, head: str | None = None) -> str:
    """Recompute every hash and sum, and return the verdict."""
    return str(_ledger(ledger).verify(head))


def ledger_export(ledger: hdp.Ledger | hdp.Study, path: str) -> None:
    """Write an account to a file."""
    _ledger(ledger).export(path)


def study(**parts: Any) -> Any:
    """Return a study."""
    options, private = dict(parts), parts.get("private")
    sites = ["private"]  # the only site, which has no name, is called as in Python
    if isinstance(private, dict):
        sites = [name for name, each in private.items() if not isinstance(each, hdp.Site)]
    for name in [each for each in ("n_max", "row_order") if options.get(each) is not None]:
        found = per_site(options[name], sites, name=name, requirement="have a value for each of")
        several = isinstance(found, dict)
        options[name] = {site: whole(each) for site, each in found.items()} if several else whole(found)
    return checked_call(hdp.Study, options, name="study")


def study_columns(study: object) -> list[str]:
    """Return the names of the columns that a study's schema declares."""
    found: hdp.Study = instance(study, hdp.Study, argument="study")
    return list(found.schema)


def study_at(study: object, names: Any) -> hdp.Study:
    """Return the study of some of its sites."""
    found: hdp.Study = instance(study, hdp.Study, argument="study")
    return found.at(*names)


def connect(url: str, token: str, ca: str | None = None, cert: Any = None, timeout: float = 600.0) -> hdp.RemoteSite:
    """Connect to a custodian's service; ``cert`` are the files of a certificate and of its key.

    A token is a text here: sites are asked on threads of their own, from which a function of R's cannot be called.
    """
    if not isinstance(token, str):
        raise hdp.ArgumentError("token must be a text: the token as it was handed out", argument="token")
    return hdp.connect(url, token=token, ca=ca, cert=None if cert is None else tuple(cert), timeout=timeout)
