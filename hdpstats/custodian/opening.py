"""From settings to a site that holds the rows."""

from pathlib import Path

import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.forgetting import forgets_rows
from hdpstats.custodian import journal
from hdpstats.custodian.account import account_for_serving, keepers, open_account
from hdpstats.custodian.certificates import Certificates
from hdpstats.custodian.files import check_secret, check_trusted
from hdpstats.custodian.settings import Settings
from hdpstats.custodian.tokens import Door
from hdpstats.ledger import Ledger
from hdpstats.sites import LocalSite

MORE_ROWS = (
    "the data have more rows than n_max * max_rows_per_unit: computations take longer than predicted, and their time "
    "may tell of the person with too many rows; before you serve, keep at most max_rows_per_unit rows of each person"
)
"""What the custodian's log says of such a table; analysts are never told."""


def open_site(settings: Settings) -> LocalSite:
    """Open the ledger, read the rows, and return the site that holds both, ready to serve.

    Of more rows than are declared it writes a line to the custodian's log.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        What the settings name cannot be opened, may be read or written by others than its owner, or contradicts itself.
        No message quotes a cell.
    """
    check_files(settings)
    site = _site(settings, account_for_serving(settings))
    site.read()
    if not site.has_declared_rows():
        journal.LOGGER.warning(MORE_ROWS)
    return site


@forgets_rows
def _site(settings: Settings, ledger: Ledger) -> LocalSite:
    return LocalSite(read_rows(settings.data), schema=settings.schema, ledger=ledger, **settings.persons)


def check_files(settings: Settings) -> None:
    """Refuse secrets that others may read, and files that others may write and the site believes."""
    check_secret(settings.data, name="data")
    check_secret(settings.tls.key, name="tls: key")
    check_trusted(settings.tls.certificate, name="tls: certificate")
    check_trusted(settings.tls.clients, name="tls: clients")
    if settings.tls.crl is not None:
        check_trusted(settings.tls.crl, name="tls: crl")
    if settings.identities.key is not None:
        check_trusted(settings.identities.key, name="tokens: key")


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
    """Open everything that the settings name, and say what the site would serve and to whom; nothing is written."""
    Certificates(settings.tls)
    Door(settings.identities)
    check_files(settings)
    site = _site(settings, open_account(settings))
    lines = [
        f"https://{settings.host}:{settings.port}",
        f"{site}, {site.records} people",
        *(f"{name} may ask for {permissions}" for name, permissions in settings.analysts.items()),
        str(site.ledger),
        f"head kept in {', '.join(place.name for place in keepers(settings)) or 'no other place'}",
    ]
    return "\n".join(lines)
