"""From settings to a site that holds the rows."""

from pathlib import Path

import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian.settings import Settings
from hdpstats.custodian.tokens import Door
from hdpstats.custodian.transport import tls_context
from hdpstats.sites import LocalSite


def open_site(settings: Settings) -> LocalSite:
    """Open the ledger, read the rows, and return the site that holds both.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        What the settings name cannot be opened, or contradicts itself. No message quotes a cell.
    """
    ledger = settings.open_ledger()
    return LocalSite(read_rows(settings.data), schema=settings.schema, ledger=ledger, **settings.persons)


def read_rows(path: Path) -> pd.DataFrame:
    """Read private rows as they are stored: Parquet in its own types, CSV as texts, which the schema maps.

    An empty cell of a CSV file is missing; any other text, ``NA`` too, is what it says.
    """
    try:
        if path.suffix.lower() == ".csv":
            return pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
        return pd.read_parquet(path, dtype_backend="pyarrow")
    except ImportError:
        raise ArgumentError("reading Parquet needs pyarrow: pip install 'hdpstats[scale]'", argument="data") from None
    except (ValueError, OSError):
        raise ArgumentError(f"data {path} cannot be read as Parquet or CSV", argument="data") from None


def described(settings: Settings) -> str:
    """Open everything that the settings name, and say what the site would serve and to whom."""
    tls_context(settings.tls)
    Door(settings.identities)
    site = open_site(settings)
    lines = [
        f"https://{settings.host}:{settings.port}",
        f"{site}, {site.records} people",
        *(f"{name} may ask for {permissions}" for name, permissions in settings.analysts.items()),
        str(site.ledger),
    ]
    return "\n".join(lines)
