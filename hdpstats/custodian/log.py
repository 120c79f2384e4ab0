"""The custodian's log: one JSON line for each request, and for what went wrong inside; never a cell.

Messages of the package's own errors speak of declared and public facts and are written out. Of any other error the log
has its type and where it was raised, not its text, which may quote what it met.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import final

from hdpstats._base.errors import HdpError

LOGGER = logging.getLogger("hdpstats.custodian")
LONGEST = 500


@final
class JsonLine(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; whatever came with the record as an exception is left out."""
        facts = getattr(record, "facts", None)
        shown = {"event": record.getMessage()[:LONGEST]} if facts is None else facts
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return json.dumps({"at": at, "level": record.levelname.lower(), **shown})


def write(**facts: object) -> None:
    """Write a line with the given facts."""
    LOGGER.info("request", extra={"facts": facts})


def cause(error: BaseException) -> str:
    """Return what the log says of an error."""
    if isinstance(error, HdpError):
        return f"{type(error).__name__}: {error}"[:LONGEST]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
