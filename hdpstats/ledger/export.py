"""A ledger as text, as a table of charges, on a page with bars of what is spent, and as a file for auditors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, final

import pandas as pd

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats._base.validation import rational
from hdpstats.display import Kind, details, grid, meter, notes, section
from hdpstats.ledger.chain import Chain
from hdpstats.ledger.records import Entry
from hdpstats.privacy.budget import Budget, Spend, decimal
from hdpstats.privacy.composition import Balance
from hdpstats.records import codec

if TYPE_CHECKING:
    from hdpstats.ledger.ledger import Ledger

_TYPES = {
    "entry": "int64",
    "at": "datetime64[s, UTC]",
    "dataset": "str",
    "version": "int64",
    "analyst": "str",
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeLine:
    """What a history shows of one entry that charges something, but for what may change later.

    Attributes
    ----------
    entry : int
        Its number in the file.
    request_id : str
        The request.
    attempt : int or None
        Which charge of it this is; None for a share, which stands for several.
    query : str
        The SHA-256 of the query's text.
    fields : mapping
        The columns of `Ledger.history` that never change.
    """

    entry: int
    request_id: str
    attempt: int | None
    query: str
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, entry: Entry, charge: Entry) -> Self:
        """Return that of an entry and of what it charges: itself, or for a share the charge that is shared."""
        query = codec.loads(charge.body).get("query")
        fields = {
            "at": pd.Timestamp(entry.at),
            "dataset": entry.dataset,
            "version": entry.version,
            "analyst": entry.analyst or None,
            "mechanism": _word(query, "kind"),
            "model": _word(query, "model", "formula"),
            "epsilon": float(rational(entry.epsilon, name="epsilon")),
            "delta": float(rational(entry.delta, name="delta")),
            "mu": math.sqrt(rational(entry.mu_squared, name="mu_squared")),
            "request": charge.request_id[:12],
        }
        attempt = entry.attempt if entry.kind == "charge" else None
        return cls(
            entry=entry.seq,
            request_id=charge.request_id,
            attempt=attempt,
            query=codec.sha256(query),
            fields=fields,
        )


def history_frame(lines: Sequence[ChargeLine], chain: Chain, *, analyst: str = "") -> pd.DataFrame:
    """Return one row per charge; the columns are those of `Ledger.history`. An analyst's are numbered from 1."""
    rows = [
        {**line.fields, "entry": number if analyst else line.entry, "released": _is_released(line, chain)}
        for number, line in enumerate(lines, start=1)
    ]
    return pd.DataFrame(rows, columns=list(_TYPES)).astype(_TYPES)


def _is_released(line: ChargeLine, chain: Chain) -> bool:
    """Whether a release was recorded for a charge, which is the last one of its request then."""
    last = chain.charges[line.request_id].attempt
    return line.request_id in chain.released and line.attempt in (None, last)


def set_aside(balance: Balance) -> str:
    """Say what a divided account sets aside for Gaussian noise, how much is used, and whether it counts as spent."""
    mu, most = math.sqrt(balance.charged.mu_squared), math.sqrt(balance.gaussian_affordable)
    counts = "spent, all of it" if balance.charged.mu_squared else "not spent yet"
    return f"{balance.gaussian} set aside, {counts} (mu = {mu:.6g} used of {most:.6g})"


def account_table(balance: Balance) -> str:
    """Return the total, what is spent and what remains as a plain table; below it, what the two parts are."""
    rows: dict[str, Budget | Spend] = {"total": balance.total, "spent": balance.spent, "remaining": balance.remaining}
    lines = [f"{name:<9} {decimal(row.epsilon):>12} {decimal(row.delta):>12}" for name, row in rows.items()]
    if balance.gaussian is not None:
        lines.append(f"for Gaussian noise: {set_aside(balance)}")
    return "\n".join([f"{'':<9} {'epsilon':>12} {'delta':>12}", *lines])


def caps_table(caps: Mapping[str, Balance]) -> str:
    """Return one line per analyst who has a cap, each with a line break before it."""
    lines = [f"\nanalyst {name}: {cap.spent} of a cap of {cap.total}" for name, cap in caps.items()]
    return "".join(lines)


def _pair(amount: Budget | Spend) -> dict[str, Fraction]:
    return {"epsilon": amount.epsilon, "delta": amount.delta}


def _amounts(balance: Balance) -> dict[str, Any]:
    part = balance.gaussian
    gaussian = None
    if part is not None:
        gaussian = {
            "set_aside": _pair(part),
            "mu_squared": balance.charged.mu_squared,
            "spent": _pair(balance.gaussian_spent),
            "remaining_mu_squared": balance.gaussian_remaining,
        }
    return {
        "total": _pair(balance.total),
        "spent": _pair(balance.spent),
        "remaining": _pair(balance.remaining),
        "gaussian": gaussian,
    }


def _as_json(dataset: str, chain: Chain, entries: Sequence[Entry]) -> str:
    account = chain.account(dataset)
    document = {
        "package": "hdpstats",
        "package_version": __version__,
        "dataset": dataset,
        "same_people": [name for name, first in chain.names.items() if first == account.dataset],
        "relation": account.relation,
        "unit": account.unit,
        **_amounts(account.balance),
        "analysts": {name: _amounts(cap) for name, cap in chain.capped(dataset).items()},
        "account": account.id,
        "head": chain.head,
        "hashes": list(chain.hashes),
        "entries": [asdict(entry) for entry in entries],
    }
    return codec.dumps(document) + "\n"


def write_export(path: Path, *, dataset: str, chain: Chain, entries: Sequence[Entry]) -> None:
    """Write an account's entries with their hashes; JSON has the totals, the caps, the terms and the head as well.

    Amounts are fractions written as text, as in the ledger. An entry's hash can be recomputed from the
    export; the links between entries only where the ledger holds no other dataset.
    """
    match path.suffix.lower():
        case ".json":
            content = _as_json(dataset, chain, entries)
        case ".csv":
            content = pd.DataFrame(map(asdict, entries)).to_csv(index=False, lineterminator="\n")
        case _:
            raise ArgumentError(f"path must end in .json or .csv, not {path.suffix!r}", argument="path")
    try:
        path.write_text(content, encoding="utf-8", newline="")
    except OSError as error:
        raise LedgerError(f"the export {path} cannot be written: {error.strerror}; name another file") from None


_SHOWN = 20
_STAY = "\N{NO-BREAK SPACE}"


def account_html(balance: Balance) -> str:
    """Return a bar for epsilon, one for delta where there is any, and what is set aside for Gaussian noise.

    The part of a bar that is set aside and not spent is lighter.
    """
    total, spent, part = balance.total, balance.spent, balance.gaussian
    unspent = (0, 0) if part is None else (part.epsilon, part.delta)
    used = balance.gaussian_spent
    bars = []
    for name, whole, gone, held in (
        ("epsilon", total.epsilon, spent.epsilon, unspent[0] - used.epsilon),
        ("delta", total.delta, spent.delta, unspent[1] - used.delta),
    ):
        if whole > 0:
            shares: list[tuple[Kind, float]] = [("filled", float(gone / whole)), ("reserved", float(held / whole))]
            bars.append(meter(name, f"{decimal(gone)} of {decimal(whole)} spent", shares if held else shares[:1]))
    if part is not None:
        bars.append(notes([f"For Gaussian noise: {set_aside(balance)}."]))
    return "".join(bars)


def caps_html(caps: Mapping[str, Balance]) -> str:
    """Return a table of what analysts have received of their caps; nothing where nobody has one."""
    if not caps:
        return ""
    rows = [[name, str(cap.spent), str(cap.total)] for name, cap in caps.items()]
    return grid(("analyst", "received", "cap"), rows)


def charges_html(history: pd.DataFrame) -> str:
    """Return the latest charges, newest first, from what `Ledger.history` returns."""
    if history.empty:
        return notes(["Nothing has been charged."])
    rows = []
    for charge in history.iloc[::-1].head(_SHOWN).to_dict("records"):
        amounts = {"epsilon": charge["epsilon"], "delta": charge["delta"], "mu": charge["mu"]}
        cost = ", ".join(f"{name}{_STAY}={_STAY}{value:.6g}" for name, value in amounts.items() if value)
        words = [charge[name] if isinstance(charge[name], str) else "" for name in ("mechanism", "model")]
        when = charge["at"].strftime("%Y-%m-%d %H:%M")
        released = "yes" if charge["released"] else "no"
        rows.append([str(charge["entry"]), when, *words, cost, released])
    table = grid(("entry", "charged (UTC)", "mechanism", "model", "cost", "released"), rows)
    older = len(history) - len(rows)
    return table + (notes([f"and {older} before; history() has them all"]) if older else "")


_OPEN: Final = 5
"""Of how many accounts the bars are shown without a click."""


def accounts_html(ledgers: Mapping[str, "Ledger"], *, elsewhere: int = 0) -> str:
    """Return the bars of every account; ``elsewhere`` sites keep theirs themselves."""
    accounts = "".join(section(f"Privacy spent at {name}", ledger.as_html()) for name, ledger in ledgers.items())
    shown = accounts if len(ledgers) <= _OPEN else details(f"Privacy spent at {len(ledgers)} sites", accounts)
    return shown + notes([elsewhere_words(elsewhere)] if elsewhere else [])


def elsewhere_words(count: int) -> str:
    """Say that so many sites keep their accounts themselves."""
    keep = "site keeps its account itself" if count == 1 else "sites keep their accounts themselves"
    return f"{count} {keep}: study.sites[name].account() asks for your part."
