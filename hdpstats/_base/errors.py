"""The errors a user can meet, one family.

A message states the fact, its cause and the remedy, and speaks of declared or public things only: of
arguments, of the schema, of column names, of public rows and of the ledger. It never quotes a private value.
The facts are attributes too, so that a program (or R) can read them.
"""


class HdpError(Exception):
    """Root of every error that hdpstats raises on purpose. Keyword facts become attributes."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = dict(facts)

    def __getattr__(self, name: str) -> object:
        if name == "facts" or name not in self.facts:
            raise AttributeError(f"{type(self).__name__} has no fact {name!r}")
        return self.facts[name]


class ArgumentError(HdpError, ValueError):
    """An argument has a wrong type or value."""


class SchemaError(HdpError):
    """A column is missing, declared twice, or declared in a way that cannot hold."""


class FormulaError(HdpError):
    """A formula cannot be read, or asks for something that would have to be learned from private rows."""


class BudgetError(HdpError):
    """A release would cost more privacy than is left, or more than is sensible."""


class InsufficientBudget(BudgetError):  # noqa: N818  (the public name of the contract)
    """The ledger refuses: the charge would exceed the total, or the cap of an analyst, whom the fact ``analyst`` names.

    Facts: requested, remaining, total, analyst (None where the total refuses).
    """


class QuotaExceeded(BudgetError):  # noqa: N818  (as InsufficientBudget)
    """The ledger refuses: the analyst has caused as many charges, or stored as much, as the custodian allows him.

    Facts: analyst.
    """


class MechanismError(HdpError):
    """The mechanism's proof does not cover the request. The message lists what does work."""


class SiteError(HdpError):
    """A site refused a query or could not complete it. Never carries data."""


class LedgerError(HdpError):
    """A ledger cannot be opened, does not verify, or was opened with other terms."""


class Superseded(LedgerError):  # noqa: N818  (a refusal that only a site meets, which then asks for the stored release)
    """A release comes too late: its request was charged again, since its computation was thought to have ended."""


class ChargedAgain(UserWarning):
    """A release was charged more than once: a process that computed it before ended without recording it."""
