"""The process of a site: from settings to a site that holds the rows, and from there to a service.

**Whether the rows may be served.** A file that is coded otherwise than its schema declares is served without an error,
and every answer from it is wrong without a word; so is a file that was corrected, where the ledger has releases from
the one before it. Noise does not repair either. So a site starts only if

- every label is declared, a binary column holds its two values only, no column has more cells without a value than
  `MOST_MISSING` (none where the schema declares ``complete: true``) or more cells cut at its bounds than `MOST_CUT`,
  unless the settings acknowledge it (`hdpstats.custodian.settings.Acknowledged`);
- the rows, as the schema admits them, and the schema are those that this version of the data set was served with
  before. A keyed hash of them is kept in the folder of the state (``site.cells.json`` for ``site.yaml``;
  `hdpstats.custodian.settings`), its key beside the ledger's file (or beside the hash, where the ledger is in a
  database), each for its owner alone. The key says of which versions there are hashes: one that is lost is noticed.

All of this is between the process and its custodian, on the console: no analyst is shown it, and neither the ledger nor
the log has it. What is said names columns and terms, no cell and no number; `hdpstats site check --rows` shows more.
*That* a site starts depends on private rows: it says that they passed, or that the custodian acknowledged
what they are. It is the custodian's decision, outside the guarantee of releases.
"""

import asyncio
import ctypes
import gc
import json
import logging
import os
import resource
import signal
import sqlite3
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

import pandas as pd

from hdpstats._base.compiled import kept_code
from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats._base.no_warnings import silence
from hdpstats.custodian import log
from hdpstats.custodian.app import Service, application
from hdpstats.custodian.credentials import Certificates, TokenVerifier, expiring
from hdpstats.custodian.files import check_file, check_folders, files_of_database, write_durably
from hdpstats.custodian.health import HealthServer, State, tell_systemd
from hdpstats.custodian.http_connection import Deadlines
from hdpstats.custodian.kept_head import (
    account_for_serving,
    caps_of,
    check_usable,
    compare_heads,
    declare,
    head_stores,
    held_open,
    open_account,
    spare_of,
)
from hdpstats.custodian.listening import Admission, Listener, descriptors, sockets_at
from hdpstats.custodian.queried_rows import rows_of
from hdpstats.custodian.settings import ServiceEntries, SiteSettings
from hdpstats.custodian.timing import Overruns
from hdpstats.ledger import Disclosure, Ledger
from hdpstats.ledger.location import file_of, locate
from hdpstats.noise.exact import bits
from hdpstats.schema import cell_maps
from hdpstats.schema.check import ColumnCheck, RowsCheck, check
from hdpstats.schema.columns import Binary, Categorical, Column, Duration
from hdpstats.schema.parquet import files_of, frame_of
from hdpstats.sites import LocalSite

MOST_MISSING: Final = 0.1
"""The largest share of cells without a value in a column that the settings say nothing about."""

MOST_CUT: Final = 0.2
"""The largest share of cells cut at the bounds of a column that the settings say nothing about."""

MOST_CENSORED: Final = 0.9
"""The share of follow-up beyond the horizon, which is usual, from which it counts as cut."""

FORMAT: Final = "hdpstats cells 1"
_KEY_BYTES: Final = 32


def check_acknowledged(rows_check: RowsCheck, settings: SiteSettings) -> None:
    """Refuse rows that hold what nobody declared and the settings do not acknowledge.

    Raises
    ------
    ArgumentError
        It names columns, and no cell or number.
    """
    acknowledged, dictionary = settings.acknowledged, settings.dictionary
    empty = {name: 0.0 if column.complete else MOST_MISSING for name, column in dictionary.items()}
    empty |= acknowledged.missing_share
    cut = dict.fromkeys(dictionary, MOST_CUT) | acknowledged.cut_share
    strange = [column for column in rows_check.columns if _coded(dictionary[column.name]) and column.spellings]
    strange = [column for column in strange if column.name not in acknowledged.undeclared_levels]
    labels = [column.name for column in strange if column.labelled]
    others = [column.name for column in strange if not column.labelled]
    lacking = [
        column.name for column in rows_check.columns if _without(column, dictionary[column.name]) > empty[column.name]
    ]
    beyond = [column.name for column in rows_check.columns if _cut(column, dictionary[column.name]) > cut[column.name]]
    if not (strange or lacking or beyond):
        return
    seen = [f"labels that are not declared in {', '.join(labels)}"] if labels else []
    seen += [f"cells that are neither 0 nor 1 in {', '.join(others)}"] if others else []
    seen += [f"more than {empty[name]:g} of the cells without a value in {name}" for name in lacking]
    seen += [f"more than {cut[name]:g} of the cells cut at the bounds in {name}" for name in beyond]
    entries = [f"undeclared_levels: [{', '.join(column.name for column in strange)}]"] if strange else []
    entries += [
        f"{entry}: {{{', '.join(f'{name}: SHARE' for name in names)}}}"
        for entry, names in (("missing_share", lacking), ("cut_share", beyond))
        if names
    ]
    raise ArgumentError(
        f"data: the rows are not served: there are {'; '.join(seen)}. See hdpstats site check SITE.YAML --rows, and "
        "correct the file or the schema. Where the rows are as they must be, write into the settings: acknowledged: "
        f"{{{', '.join(entries)}}}",
        argument="data",
    )


def _coded(column: Column) -> bool:
    return isinstance(column, Categorical | Binary)


def _without(cells: ColumnCheck, column: Column) -> float:
    """Return the share of cells without a value; values that are not declared are a matter of their own."""
    return cells.missing / max(cells.rows, 1) if _coded(column) else cells.missing_share


def _cut(cells: ColumnCheck, column: Column) -> float:
    """Return the share of cells cut at the bounds; follow-up may end at the horizon, if not nearly all of it."""
    below, above = cells.below / max(cells.rows, 1), cells.above / max(cells.rows, 1)
    return below if isinstance(column, Duration) and above <= MOST_CENSORED else below + above


def check_version(site: LocalSite, settings: SiteSettings, *, note: bool) -> None:
    """Refuse rows other than those that this version of the data set was served with before.

    Parameters
    ----------
    site
        Which holds the rows.
    settings
        Where the hash is kept, and its key.
    note
        Whether the hash of a version that was not served before is written down.

    Raises
    ------
    ArgumentError
        The rows or the schema changed; what is kept cannot be read or written; or the hash is gone while its key,
        which says that there was one, is there.
    """
    place, of_key = settings.cells, _place_of_key(settings)
    kept, dataset, version = _read(place), site.ledger.dataset, str(site.ledger.version)
    if not (kept or note or of_key.exists()):
        return
    key = _key(of_key, make=note and not kept)
    if key is None:
        raise ArgumentError(
            f"data: the rows cannot be compared with those served before, since the key {of_key} is gone or not whole: "
            f"restore it, or delete it and {place} where you know that the rows are the same; they are noted anew",
            argument="data",
        )
    versions, fingerprint = kept.get(dataset, {}), site.fingerprint(key.secret)
    if version not in versions and (key.noted(dataset, version) or not (kept or key.made or key.lines)):
        line = f"the line {_line(dataset, version)} from the key {of_key}" if key.lines else f"the key {of_key}"
        raise ArgumentError(
            f"data: the rows cannot be compared with those served before: version {version} of {dataset!r} was served, "
            f"as the key {of_key} says, and its hash is not in {place}. Restore that file, or say by state: in the "
            f"settings where it is; where you know that the rows are the same, delete {line}: they are noted anew",
            argument="data",
        )
    if versions.get(version, fingerprint) != fingerprint:
        later = max(map(int, versions)) + 1
        raise ArgumentError(
            f"data: the rows, as the schema admits them, or the schema are not those that version {version} of "
            f"{dataset!r} was served with: a stored release would be of other rows than a new one. Where the change is "
            f"meant, raise the version: 'version: {later}' under 'ledger:' in the settings. It has releases "
            "of its own in the same account: what was spent stays spent. Else restore the file",
            argument="data",
        )
    try:
        if note and version not in versions:
            text = json.dumps({"format": FORMAT, "cells": {**kept, dataset: {**versions, version: fingerprint}}})
            write_durably(place, f"{text}\n")
        if note and not key.noted(dataset, version):  # afterwards: the key never speaks of a hash that was not written
            write_durably(of_key, "\n".join([key.secret.hex(), *key.lines, _line(dataset, version), ""]))
    except OSError as error:
        raise ArgumentError(f"data: the hash of the rows cannot be kept in {place}: {error.strerror}") from None


def _place_of_key(settings: SiteSettings) -> Path:
    ledger = file_of(locate(settings.ledger.place))
    return settings.cells.with_suffix(".key") if ledger is None else ledger.with_name(f"{ledger.name}.cells.key")


def _line(dataset: str, version: str) -> str:
    return json.dumps([dataset, version])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CellsKey:
    """The key of hashes of rows, and a line for each data set and version of which a hash was made with it.

    Keys that were written by earlier versions of this package have no lines.
    """

    secret: bytes
    lines: tuple[str, ...] = ()
    made: bool = False

    def noted(self, dataset: str, version: str) -> bool:
        """Whether a hash was made of a version of a data set."""
        return _line(dataset, version) in self.lines


def _key(path: Path, *, make: bool) -> CellsKey | None:
    """Return the key, which is made where there is none and ``make`` says so; None where it is gone or not whole."""
    check_file(path, name="the key of the rows' hash", private=True)
    made = make and not path.exists()
    try:
        if made:
            write_durably(path, bits(8 * _KEY_BYTES).to_bytes(_KEY_BYTES).hex() + "\n")
        first, *lines = path.read_text(encoding="utf-8").splitlines()
        secret = bytes.fromhex(first)
    except (FileNotFoundError, ValueError):
        return None
    except OSError:
        raise ArgumentError(
            f"data: the key {path} of the rows' hash cannot be read or written", argument="data"
        ) from None
    return CellsKey(secret=secret, lines=tuple(lines), made=made) if len(secret) == _KEY_BYTES else None


def _read(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the hashes that are kept, by data set and version."""
    check_file(path, name="the rows' hash", private=True)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        cells: Any = fields["cells"] if fields["format"] == FORMAT else None
        return {
            str(name): {str(int(number)): str(digest) for number, digest in of.items()} for name, of in cells.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ArgumentError(
            f"data: {path}, with the hash of the rows, cannot be read; restore it", argument="data"
        ) from None


def take_over_state(settings: SiteSettings) -> None:
    """Move what was kept beside the settings to the folder of the state, where nothing is kept yet.

    What cannot be removed beside the settings stays there, and is never looked at again.

    Raises
    ------
    ArgumentError
        It cannot be read, or not be written.
    """
    for before, now in settings.beside:
        if before == now or now.exists() or not before.exists():
            continue
        check_file(before, name="state", private=True)
        try:
            write_durably(now, _database(before) if before.suffix == ".db" else before.read_bytes())
        except (OSError, sqlite3.Error):
            message = f"state: {before} cannot be copied to {now}: let the user of this process read the one and write"
            raise ArgumentError(f"{message} in the folder of the other", argument="state") from None
        with suppress(OSError):
            before.unlink()
        log.write(state=str(now), moved_from=str(before))


def _database(path: Path) -> bytes:
    """Return the file of a database with what was committed to it."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.serialize()


def resume(settings: SiteSettings, analyst: str) -> int:
    """Forget how often an analyst's answers took longer than predicted, and return how often it was.

    Raises
    ------
    ArgumentError
        The settings have no such analyst, or nothing was counted where they say that it is.
    """
    if analyst not in settings.analysts:
        names = ", ".join(map(repr, settings.analysts))
        raise ArgumentError(f"analyst must be one of the settings, {names}", argument="analyst")
    if not settings.overruns.exists():
        raise ArgumentError(
            f"state: there is no {settings.overruns}: where the service keeps its state elsewhere, say so in the "
            "settings (state: FOLDER), or set STATE_DIRECTORY as its unit does",
            argument="state",
        )
    return Overruns(settings.overruns).clear(analyst)


MORE_ROWS = (
    "the data have more rows than n_max * max_rows_per_unit: computations take longer than predicted, and their time "
    "may depend on the person with too many rows; before you serve, keep at most max_rows_per_unit rows of each person"
)
"""What the custodian's log says of such a table; analysts are never shown it."""


def open_site(settings: SiteSettings) -> LocalSite:
    """Open the ledger, read the rows, and return the site that holds both, ready to serve.

    Of more rows than are declared it writes a line to the custodian's log.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        What the settings name cannot be opened, may be read or written by others than its owner, or contradicts itself.
        No message quotes a cell.
    """
    check_files(settings)
    take_over_state(settings)
    site, rows_check = _site(settings, open_account(settings))
    check_acknowledged(rows_check, settings)
    del rows_check  # it holds the numbers of the file, which are read again
    check_version(site, settings, note=False)
    account_for_serving(settings, site.ledger)
    site.read()
    check_version(site, settings, note=True)
    if not site.has_declared_rows():
        log.LOGGER.warning(MORE_ROWS)
    return site


@forgets_rows
def _site(settings: SiteSettings, ledger: Ledger) -> tuple[LocalSite, RowsCheck]:
    rows = private_rows(settings)
    site = LocalSite(
        rows,
        schema=settings.dictionary,
        ledger=ledger,
        signing_key=settings.signing.key,
        **settings.persons.model_dump(exclude_unset=True),
    )
    return site, check(rows, settings.dictionary, unit=site.unit)


def check_files(settings: SiteSettings) -> None:
    """Refuse private files that others may read, and files that others may write or replace and the site relies on."""
    kept = settings.heads
    for rows in files_of_rows(settings):
        check_file(rows, name="data" if settings.rows is None else "rows", private=True)
    named = {
        **(_files_of(settings.service) if settings.serves else {}),
        "heads: file": kept.file,
        "heads: database": _file_at(kept.database),
        "timing": settings.overruns,
        "log: file": settings.log.file,
        "signing: key": settings.signing.key,
        **{f"requests: keys: {name}": file for name, files in settings.requests.keys.items() for file in files},
    }
    for name, file in named.items():
        if file is not None:
            check_file(file, name=name, private=name in ("tls: key", "tls: passphrase", "signing: key"))
    if kept.file is not None:
        check_file(spare_of(kept.file), name="heads: file")
    ledger = _file_at(settings.ledger.place)
    if ledger is not None:  # others' permissions to it are taken away
        for file in files_of_database(ledger):
            check_folders(file, name="ledger")
    for folder in kept_code():  # whoever writes a file there has it executed here
        check_folders(folder / "code", name="compiled code (NUMBA_CACHE_DIR)")


def _files_of(service: ServiceEntries) -> dict[str, Path | None]:
    tls, tokens = service.tls, service.identities
    return {
        "tls: key": tls.key,
        "tls: passphrase": tls.passphrase,
        "tls: certificate": tls.certificate,
        "tls: clients": tls.clients,
        "tls: crl": tls.crl,
        "tokens: key": tokens.key,
        "tokens: ca": tokens.ca,
    }


def _file_at(place: str | Path | None) -> Path | None:
    """Return the file of a database, None where it is at a server."""
    return None if place is None else file_of(locate(place))


def files_of_rows(settings: SiteSettings) -> tuple[Path, ...]:
    """Return the files of the private rows; none where a database server has them."""
    if settings.data is not None:
        return rows_in(settings.data)
    return () if settings.rows is None else settings.rows.files


def private_rows(settings: SiteSettings) -> pd.DataFrame:
    """Read the private rows that settings name: from files, or by a query."""
    if settings.rows is not None:
        return rows_of(settings.rows, settings.file.resolve().parent)
    if settings.data is None:
        raise ArgumentError("data is missing", argument="data")
    return read_rows(settings.data)


def rows_in(path: Path) -> tuple[Path, ...]:
    """Return the files of private rows: one, or those of a folder, by name."""
    return tuple(files_of(path, name="data")) if path.is_dir() else (path,)


def read_rows(path: Path) -> pd.DataFrame:
    """Read private rows as they are stored: Parquet in its own types, CSV as texts, which the schema maps.

    An empty cell of a CSV file is missing, as are those that a short line does not have: an empty line is a row without
    a cell. Any other text, ``NA`` too, is what it says. Files of a folder must have the same columns; they may store
    them in different types, as files in which cells are missing do.
    """
    if not path.is_dir():
        return _read_rows(path)
    parts = [_read_rows(file) for file in rows_in(path)]
    if any(sorted(part, key=str) != sorted(set(parts[0]), key=str) for part in parts):
        raise ArgumentError(
            f"data: the files of the folder {path} have different columns; each must have all of them, once",
            argument="data",
        )
    with silence():
        return pd.DataFrame({name: cell_maps.joined([part[name] for part in parts]) for name in parts[0]})


def _read_rows(path: Path) -> pd.DataFrame:
    try:
        if path.suffix.lower() == ".csv":
            return _read_csv(path)
        return frame_of(path)
    except ArgumentError:  # which has its own words
        raise
    except ImportError:
        raise ArgumentError("reading Parquet needs pyarrow: pip install pyarrow", argument="data") from None
    except PermissionError:
        raise ArgumentError(f"data {path} cannot be read by the user of this process", argument="data") from None
    except (ValueError, OSError):
        raise ArgumentError(
            f"data {path} cannot be read as Parquet or CSV; a CSV file must have as many cells in each row as it has "
            "names of columns",
            argument="data",
        ) from None


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file whose first line names the columns; every further line is a row, also an empty one."""
    with path.open(encoding="utf-8-sig") as file:
        named = bool(file.readline().strip())
    if not named:
        raise ArgumentError(
            f"data: the first line of {path} is empty; it must have the names of the columns", argument="data"
        )
    rows = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""], skip_blank_lines=False)
    if not rows.index.equals(pd.RangeIndex(len(rows))):  # the first row has more cells than names: all moved by one
        raise ValueError("more cells than names")
    return rows


def disclosure(settings: SiteSettings, form: str = "text") -> Disclosure:
    """Return a form on the privacy of what a site serves, from its ledger and ``disclosure:`` in its settings.

    See `hdpstats.ledger.Ledger.disclosure`. It reads the ledger, and no row. Whether analysts ask over the network
    follows from the settings where it is not stated.
    """
    stated = settings.disclosure
    if stated.served is None and settings.serves:
        stated = replace(stated, served=True)
    return open_account(settings).disclosure(form, statements=stated)


def described(settings: SiteSettings, show: Callable[[RowsCheck], None] | None = None) -> str:
    """Open everything that the settings name, and say what the site would serve and to whom; nothing is written.

    ``show`` is called with the check of the rows, before they are refused.
    """
    service = settings.service if settings.serves else None
    if service is not None:
        Certificates(service.tls)
        TokenVerifier(service.identities)
    check_files(settings)
    site, rows_check = _site(settings, open_account(settings))
    compare_heads(settings, site.ledger)
    if show is not None:
        show(rows_check)
    check_acknowledged(rows_check, settings)
    check_version(site, settings, note=False)
    stopped = site.ledger.stopped(caps_of(settings))
    lines = [
        "no service" if service is None else f"https://{service.listen.host}:{service.listen.port}",
        f"{site}, {site.records} people",
        *(f"{name} may ask for {permissions}" for name, permissions in settings.analysts.items()),
        *(f"{name} is stopped: {why}" for name, why in stopped.items()),
        request_files(settings),
        str(site.ledger),
        f"head kept in {', '.join(place.name for place in head_stores(settings)) or 'no other place'}",
        *([] if service is None else expiring(service.tls)),
    ]
    return "\n".join(lines)


def request_files(settings: SiteSettings) -> str:
    """Say which request files are answered, and whose."""
    requests = settings.requests
    admitted = requests.unsigned == "admitted"
    unsigned = [name for name in settings.analysts if admitted and name not in requests.keys]
    if not (requests.keys or unsigned):
        return "request files are not answered: no analyst has a key (requests: keys), nor are unsigned ones admitted"
    whose = [f"signed by {name}" for name in requests.keys] + [f"of {name} without a signature" for name in unsigned]
    approved = ", each after an approval" if requests.approval == "required" else ""
    return f"request files are answered {', '.join(whose)}{approved}"


_PR_SET_DUMPABLE = 4


def serve(settings: SiteSettings) -> None:
    """Open the site and answer until the process receives SIGINT or SIGTERM.

    At SIGHUP the settings are read again, and what may change is changed (`Serving.reload`). The log goes to standard
    error, one JSON line an event.
    """
    protect_process()
    log.write_to(settings.log.file)
    asked: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _: asked.append(number))  # which would end the process while it starts
    limits, state = settings.limits, State()
    most = descriptors(limits)
    certificates = Certificates(settings.service.tls)
    warn_of_dates(settings)
    health = None if settings.health is None else HealthServer(settings.health, state)
    app = application(open_site(settings), settings, state=state)
    listener = Listener(
        app,
        certificates=certificates,
        admission=Admission(limits, most),
        deadlines=Deadlines(limits.seconds),
        drain=limits.drain,
    )
    state.watch(lambda: listener.admission.connections)
    gc.collect()
    gc.freeze()  # what is there now stays: else reading a text of many lists would go over all of it several times
    serving = Serving(settings, service=app.service, listener=listener, state=state)
    with held_open(settings.ledger.place):
        asyncio.run(_listen(serving, most, asked))
    if health is not None:
        health.close()


def warn_of_dates(settings: SiteSettings) -> None:
    """Write to the log which certificates have expired, or will soon."""
    for sentence in expiring(settings.service.tls):
        log.LOGGER.warning(sentence)


@final
class Serving:
    """A site that listens, with the settings that are in force."""

    def __init__(self, settings: SiteSettings, *, service: Service, listener: Listener, state: State) -> None:
        self._settings, self._service, self.listener, self.state = settings, service, listener, state
        self._reloading = asyncio.Lock()
        state.renew(settings.service.tls)

    def check(self) -> None:
        """Look whether a request could be charged now (`hdpstats.custodian.kept_head.check_usable`)."""
        check_usable(self._settings, self._service.ledger)

    @property
    def settings(self) -> SiteSettings:
        """The settings in force."""
        return self._settings

    async def reload(self) -> None:
        """Read the settings again: analysts, certificates, revocation lists and whose tokens are accepted change.

        All is read and checked first, and granted in the ledger; only then it is in force, as a whole, and connections
        end with the request that is under way on them. Where anything is wrong, or something else was changed that is
        read once, the settings before stay in force. The log says in one line what happened. No answer that takes
        longer than predicted meanwhile is counted against its analyst.
        """
        async with self._reloading:
            try:
                with self._service.at_work():
                    settings, certificates, tokens = await asyncio.to_thread(self._read)
            except Exception as error:  # whatever is wrong with the new settings, the service goes on
                log.write(failed=f"settings were not read again: {log.cause(error)}", in_force="those before")
                return
            self._settings = settings
            self._service.renew(settings.analysts, tokens)
            self.listener.renew(certificates)
            self.state.renew(settings.service.tls)
            log.write(event="settings were read again", analysts=sorted(settings.analysts))

    def _read(self) -> tuple[SiteSettings, Certificates, TokenVerifier]:
        before, settings = self._settings, SiteSettings.from_yaml(self._settings.file)
        check_files(settings)
        once = before.needs_restart(settings)
        if once:
            raise ArgumentError(
                f"{', '.join(once)} changed, which needs a restart: start the service anew, or undo this change and "
                "have the settings read again",
                argument=once[0],
            )
        service = settings.service
        certificates, tokens = Certificates(service.tls), TokenVerifier(service.identities)
        warn_of_dates(settings)
        declare(settings, self._service.ledger)
        return settings, certificates, tokens


async def _listen(serving: Serving, most: int, asked: Sequence[int]) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(_log_failure)

    def end() -> None:
        serving.state.end()
        log.write(event="ending: requests under way are finished", seconds=serving.settings.limits.drain)
        tell_systemd("STOPPING=1", "STATUS=ending: requests under way are finished")
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        reloads.add(task := loop.create_task(serving.reload()))
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    if asked:  # while the site was opened
        reload()
    listen = serving.settings.service.listen
    host, port = listen.host, listen.port
    try:
        sockets = sockets_at(host, port)
    except OSError as error:
        message = f"listen: the site cannot listen at {host}, port {port}: {error.strerror}"
        raise ArgumentError(message, argument="listen") from None
    port = sockets[0].getsockname()[1]
    host = f"[{host}]" if ":" in host else host
    serving.state.serve(serving.check)
    log.write(event=f"running on https://{host}:{port}", connections=most)
    tell_systemd("READY=1", f"STATUS=running on https://{host}:{port}")
    late = await serving.listener.serve(sockets, ended)
    log.write(event="ended", **({"unfinished": late} if late else {}))
    if late:  # a computation in a thread holds the process until it has ended, however long that takes
        logging.shutdown()
        os._exit(0)


def _log_failure(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Write what nobody caught to the log, without its text, which may quote what it met."""
    error = context.get("exception")
    log.write(failed="in the event loop" if error is None else log.cause(error))


def protect_process() -> None:
    """Leave nothing of this process's memory on disk, in a debugger of the same user, or in its log."""
    protect_memory()
    log.write_to(None)


def protect_memory() -> None:
    """Leave nothing of this process's memory on disk, in a debugger of the same user, or in a warning."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    warnings.simplefilter("ignore")  # the text of a warning may quote what it met
