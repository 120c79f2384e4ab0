"""A ledger as text, as a table of charges, and as a file for auditors."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from hdpstats import __version__
from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats._base.validation import rational
from hdpstats.ledger.records import Account, Entry
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import Budget, Spend, decimal

_TYPES = {
    "entry": "int64",
    "at": "datetime64[s, UTC]",
    "version": "int64",
    "mechanism": "str",
    "model": "str",
    "epsilon": "float64",
    "delta": "float64",
    "mu": "float64",
    "released": "bool",
    "request": "str",
}


def _word(query: Any, *keys: str) -> str | None:
    """Return the word at a path in the query, fit for a terminal, or ``None``."""
    value = query
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str):
        return None
    return "".join(letter if letter.isprintable() else " " for letter in value)[:200]


def history_frame(entries: Sequence[Entry]) -> pd.DataFrame:
    """Return one row per charge among the entries of a dataset; the columns are those of `Ledger.history`."""
    released = {entry.request_id for entry in entries if entry.kind == "release"}
    rows = []
    for entry in entries:
        if entry.kind == "charge":
            query = canonical.loads(entry.body).get("query")
            row = {
                "entry": entry.seq,
                "at": pd.Timestamp(entry.at),
                "version": entry.version,
                "mechanism": _word(query, "kind"),
                "model": _word(query, "model", "formula"),
                "epsilon": float(rational(entry.epsilon, name="epsilon")),
                "delta": float(rational(entry.delta, name="delta")),
                "mu": math.sqrt(rational(entry.mu_squared, name="mu_squared")),
                "released": entry.request_id in released,
                "request": entry.request_id[:12],
            }
            rows.append(row)
    return pd.DataFrame(rows, columns=list(_TYPES)).astype(_TYPES)


def account_table(balance: Balance) -> str:
    """Return the total, what is spent and what remains as a plain table; below it, what the two parts are."""
    rows: dict[str, Budget | Spend] = {"total": balance.total, "spent": balance.spent, "remaining": balance.remaining}
    lines = [f"{name:<9} {decimal(row.epsilon):>12} {decimal(row.delta):>12}" for name, row in rows.items()]
    if balance.gaussian is not None:
        mu, used = math.sqrt(balance.charged.mu_squared), decimal(balance.gaussian_spent.epsilon)
        part, delta = decimal(balance.gaussian.epsilon), decimal(balance.gaussian.delta)
        share = f"epsilon = {used} spent of the {part} set aside, at delta = {delta} (mu = {mu:.6g})"
        lines.append(f"for Gaussian noise: {share}")
    return "\n".join([f"{'':<9} {'epsilon':>12} {'delta':>12}", *lines])


def _pair(amount: Budget | Spend) -> dict[str, Fraction]:
    return {"epsilon": amount.epsilon, "delta": amount.delta}


def _as_json(account: Account, head: str, entries: Sequence[Entry]) -> str:
    balance, part = account.balance, account.balance.gaussian
    document = {
        "package": "hdpstats",
        "package_version": __version__,
        "dataset": account.dataset,
        "relation": account.relation,
        "unit": account.unit,
        "total": _pair(balance.total),
        "spent": _pair(balance.spent),
        "remaining": _pair(balance.remaining),
        "gaussian": None
        if part is None
        else {
            "set_aside": _pair(part),
            "mu_squared": balance.charged.mu_squared,
            "spent": _pair(balance.gaussian_spent),
            "remaining_mu_squared": balance.gaussian_remaining,
        },
        "head": head,
        "entries": [asdict(entry) for entry in entries],
    }
    return canonical.dumps(document) + "\n"


def _as_csv(entries: Sequence[Entry]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Entry)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(entry) for entry in entries)
    return text.getvalue()


def write_export(path: Path, *, account: Account, head: str, entries: Sequence[Entry]) -> None:
    """Write a dataset's entries with their hashes; JSON has the totals, the terms and the head as well.

    Amounts are fractions written as text, as in the ledger. An entry's hash can be recomputed from the
    export; the links between entries only where the ledger holds no other dataset.
    """
    match path.suffix.lower():
        case ".json":
            content = _as_json(account, head, entries)
        case ".csv":
            content = _as_csv(entries)
        case _:
            raise ArgumentError(f"path must end in .json or .csv, not {path.suffix!r}", argument="path")
    try:
        path.write_text(content, encoding="utf-8", newline="")
    except OSError as error:
        raise LedgerError(f"the export {path} cannot be written: {error.strerror}; name another file") from None
