"""Whether the rows may be served: what the custodian has to see first, and whether they are those of their version.

A file that is coded otherwise than its schema declares is served without an error, and every answer from it is wrong
without a word; so is a file that was corrected, where the ledger has releases from the one before it. Noise does not
repair either. So a site starts only if

- every label is declared, and no column has more cells without a value than `MOST_MISSING` (none where the schema
  declares ``complete: true``), unless the settings acknowledge it (`hdpstats.custodian.settings.Acknowledged`);
- the rows, as the schema admits them, and the schema are those that this version of the data set was served with
  before. A keyed hash of them is kept beside the settings (``site.cells.json`` for ``site.yaml``), its key beside the
  ledger's file (or beside the settings, where the ledger is in a database), each for its owner alone.

All of this is between the process and its custodian, on the console: no analyst is shown it, and neither the ledger nor
the log has it. What is said names columns and terms, no cell and no number; `hdpstats site check --rows` shows more.
*That* a site starts depends on private rows: it says that they passed, or that the custodian acknowledged
what they are. It is the custodian's decision, outside the guarantee of releases.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian.reading import check_secret, write_durably
from hdpstats.custodian.settings import SiteSettings
from hdpstats.ledger.location import file_of, locate
from hdpstats.noise.entropy import bits
from hdpstats.schema.check import ColumnCheck, RowsCheck
from hdpstats.sites import LocalSite

MOST_MISSING: Final = 0.1
"""The largest share of cells without a value in a column that the settings say nothing about."""

FORMAT: Final = "hdpstats cells 1"
_KEY_BYTES: Final = 32


def check_acknowledged(found: RowsCheck, settings: SiteSettings) -> None:
    """Refuse rows that hold what nobody declared and the settings do not acknowledge.

    Raises
    ------
    ArgumentError
        It names columns, and no cell or number.
    """
    known = settings.acknowledged
    most = {name: 0.0 if column.complete else MOST_MISSING for name, column in settings.dictionary.items()}
    most |= known.missing_share
    labels = [each.name for each in found.columns if each.labelled and each.strange]
    labels = [name for name in labels if name not in known.undeclared_levels]
    lacking = [each.name for each in found.columns if _share(each) > most[each.name]]
    if not (labels or lacking):
        return
    seen = [f"labels that are not declared in {', '.join(labels)}"] if labels else []
    seen += [f"more than {most[name]:g} of the cells without a value in {name}" for name in lacking]
    entries = [f"undeclared_levels: [{', '.join(labels)}]"] if labels else []
    entries += [f"missing_share: {{{', '.join(f'{name}: SHARE' for name in lacking)}}}"] if lacking else []
    raise ArgumentError(
        f"data: the rows are not served: there are {'; '.join(seen)}. See hdpstats site check SITE.YAML --rows, and "
        "correct the file or the schema. Where the rows are as they must be, write into the settings: acknowledged: "
        f"{{{', '.join(entries)}}}",
        argument="data",
    )


def _share(column: ColumnCheck) -> float:
    """Return the share of cells without a value; labels that are not declared are a matter of their own."""
    return column.missing / max(column.rows, 1) if column.labelled else column.missing_share


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
        The rows or the schema changed; or what is kept cannot be read or written.
    """
    place, key = settings.cells, _place_of_key(settings)
    kept, dataset, version = _read(place), site.ledger.dataset, str(site.ledger.version)
    if not (kept or note):
        return
    secret = _key(key, make=not kept)
    if secret is None:
        raise ArgumentError(
            f"data: the rows cannot be compared with those served before, since the key {key} is gone or not whole: "
            f"restore it, or delete it and {place} where you know that the rows are the same; they are noted anew",
            argument="data",
        )
    versions, found = kept.get(dataset, {}), site.fingerprint(secret)
    if versions.get(version, found) != found:
        later = max(map(int, versions)) + 1
        raise ArgumentError(
            f"data: the rows, as the schema admits them, or the schema are not those that version {version} of "
            f"{dataset!r} was served with: a stored release would be of other rows than a new one. Where the change is "
            f"meant, raise the version: 'version: {later}' under 'ledger:' in the settings. It has releases "
            "of its own in the same account: what was spent stays spent. Else restore the file",
            argument="data",
        )
    if note and version not in versions:
        text = json.dumps({"format": FORMAT, "cells": {**kept, dataset: {**versions, version: found}}})
        try:
            write_durably(place, f"{text}\n")
        except OSError as error:
            raise ArgumentError(f"data: the hash of the rows cannot be kept in {place}: {error.strerror}") from None


def _place_of_key(settings: SiteSettings) -> Path:
    ledger = file_of(locate(settings.ledger.place))
    return settings.cells.with_suffix(".key") if ledger is None else ledger.with_name(f"{ledger.name}.cells.key")


def _key(path: Path, *, make: bool) -> bytes | None:
    """Return the key, which is made where there is none and ``make`` says so; None where it is gone or not whole."""
    check_secret(path, name="the key of the rows' hash")
    try:
        if make and not path.exists():
            write_durably(path, bits(8 * _KEY_BYTES).to_bytes(_KEY_BYTES).hex() + "\n")
        key = bytes.fromhex(path.read_bytes().decode("ascii"))
    except (FileNotFoundError, ValueError):
        return None
    except OSError:
        raise ArgumentError(
            f"data: the key {path} of the rows' hash cannot be read or written", argument="data"
        ) from None
    return key if len(key) == _KEY_BYTES else None


def _read(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the hashes that are kept, by data set and version."""
    check_secret(path, name="the rows' hash")
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        cells: Any = fields["cells"] if fields["format"] == FORMAT else None
        return {str(name): {str(int(number)): str(each) for number, each in of.items()} for name, of in cells.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ArgumentError(
            f"data: {path}, with the hash of the rows, cannot be read; restore it", argument="data"
        ) from None
