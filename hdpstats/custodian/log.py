"""The custodian's log: one JSON line for each request, and for what went wrong inside; never a cell.

Messages of the package's own errors speak of declared and public facts and are written out. Of any other error the log
has its type and where it was raised, not its text, which may quote what it met.
"""

import json
import logging
import logging.handlers
import os
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from hdpstats._base.errors import ArgumentError, HdpError

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


@final
class RotatedFile(logging.handlers.WatchedFileHandler):
    """A log file for its owner alone, which is opened anew once somebody moved or removed it.

    Where it cannot be written, as its disk is full, lines are lost and nothing else.
    """

    def _open(self) -> Any:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_CLOEXEC, 0o600)

        return open(self.baseFilename, self.mode, encoding="utf-8", opener=opener)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; the file of a folder that is gone for a moment is tried again with the next one."""
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 — the standard library's name
        """Say nothing: standard error is for what stops the service."""


def write_to(file: Path | None) -> None:
    """Send the log to a file, or to standard error.

    Raises
    ------
    ArgumentError
        The file cannot be written.
    """
    try:
        handler = logging.StreamHandler(sys.stderr) if file is None else RotatedFile(file)
    except OSError as error:
        raise ArgumentError(
            f"log: {file} cannot be written ({error.strerror}): give the user of this process write permission to its "
            "folder, and space",
            argument="log",
        ) from None
    handler.setFormatter(JsonLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.raiseExceptions = False  # a log that cannot be written is no reason to stop
    LOGGER.setLevel(logging.INFO)


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
