"""A ledger on a page: bars of what is spent, and its charges."""

from collections.abc import Mapping

import pandas as pd

from hdpstats.display import grid, meter, notes
from hdpstats.display.page import Kind
from hdpstats.ledger.export import set_aside
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import decimal

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
