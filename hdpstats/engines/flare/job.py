"""Jobs for FLARE: a folder that `nvflare job submit`, or a session, takes; and how what came of one is read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdpstats._base.errors import ArgumentError, SiteError
from hdpstats._base.validation import real
from hdpstats.engines.asked_sites import AskedSites
from hdpstats.engines.collecting import TASKS, in_fixed_words
from hdpstats.engines.flare import CONTROLLER, EXECUTOR, KNOWN, NAME, REQUEST, SITES
from hdpstats.exchange import ReleaseFile, RequestFile, SeveralSites
from hdpstats.ledger.signing import VerifyingKey


def write_job(
    request: Path,
    out: Path,
    *,
    sites: Sequence[str],
    seconds: float = 3600.0,
    patience: float = 300.0,
    after: Path | None = None,
) -> RequestFile:
    """Write a job that asks sites one request.

    Parameters
    ----------
    request
        The request's file. Its public rows must be in it.
    out
        The folder to make.
    sites
        What FLARE calls the sites.
    seconds, patience
        How long an exchange may take, and how long it waits for the others once more than half of the sites replied.
    after
        What an earlier job of the same request left: a site that answered then and is gone now stays in the study, so
        that the others answer from their ledgers.

    Raises
    ------
    ArgumentError
        The folder exists, a name is none, or the request has its public rows elsewhere.
    """
    asked = RequestFile.read(request)
    if asked.public_sha256 is not None and asked.columns is None:
        raise ArgumentError(
            "request must have its public rows in it (attach_public=True): a job carries one file", argument="request"
        )
    names = list(sites)
    _, _, before = ([], {}, {}) if after is None else _left_by(after)
    known = {name: each for name, each in before.items() if name in names}
    if any(each.request_sha256 != asked.sha256 for each in known.values()):
        raise ArgumentError("after must be what a job of the same request left", argument="after")
    if not names or len(set(names)) < len(names) or not all(NAME.fullmatch(name) for name in names):
        raise ArgumentError("sites must be names of FLARE's sites, each once", argument="sites")
    config = out / "app" / "config"
    try:
        out.mkdir()
        config.mkdir(parents=True)
    except OSError as error:
        raise ArgumentError(f"out: the folder {out} cannot be made: {error.strerror}", argument="out") from None
    arguments = {
        "sites": names,
        "seconds": real(seconds, name="seconds", lower=1.0),
        "patience": real(patience, name="patience", lower=1.0),
    }
    files: Mapping[Path, Any] = {
        config / KNOWN: {name: each.to_json() + "\n" for name, each in known.items()},
        out / "meta.json": {
            "name": f"hdpstats-{asked.sha256[:12]}",
            "min_clients": len(names) // 2 + 1,
            "resource_spec": {},
            "deploy_map": {"app": ["server", *names]},
        },
        config / "config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": "hdpstats", "path": CONTROLLER, "args": arguments}],
            "components": [],
        },
        config / "config_fed_client.json": {
            "format_version": 2,
            "executors": [{"tasks": list(TASKS), "executor": {"path": EXECUTOR, "args": {}}}],
            "components": [],
            "task_data_filters": [],
            "task_result_filters": [],
        },
    }
    for place, fields in files.items():
        place.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    said = AskedSites(request_sha256=asked.sha256, names=tuple(names))
    (config / SITES).write_text(said.to_json() + "\n", encoding="utf-8")
    asked.write(config / REQUEST)
    return asked


def sites_of_job(job: Path, request: Path, *, folder: Path) -> tuple[str, ...]:
    """Return the names of the sites that a job asks, as the analyst wrote them.

    Parameters
    ----------
    job
        The folder that `write_job` made.
    request
        The request that was sent.
    folder
        What was downloaded, which is the server's word: the job's folder is none of it.

    Raises
    ------
    ArgumentError
        It is no job's folder, the job asks another request, or it is in what was downloaded.
    """
    if job.resolve().is_relative_to(folder.resolve()):
        raise ArgumentError(
            f"job must be the folder that `hdpstats flare job` wrote, and {job} is in what was downloaded, which is "
            "the server's word: give the folder from another place, or the names again (--site NAME)",
            argument="job",
        )
    said = AskedSites.read(job / "app" / "config" / SITES)
    if said.request_sha256 != RequestFile.read(request).sha256:
        raise ArgumentError(
            f"job: {job} asks another request than {request}: give the one that was sent", argument="job"
        )
    return said.names


def read_job(
    folder: Path,
    request: Path,
    *,
    sites: Sequence[str] | None = None,
    keys: Mapping[str, Path | None] | None = None,
) -> tuple[SeveralSites, Any]:
    """Read what a job left, and make its result from the release files: spends nothing.

    It believes no server, but for what it is not given.

    Parameters
    ----------
    folder
        What was downloaded, or any folder in it that has ``hdpstats/sites.json``.
    request
        The request that was sent.
    sites
        The names of all sites that the job asked, in any order (`sites_of_job`). The quorum is of these. Without them
        the server is believed about whom the job asked: one that names fewer makes a smaller quorum, and names nobody
        whom it left out.
    keys
        The public keys of sites by name: every release of such a site must be signed with it. Where any site is named,
        all must be that have sent a release; None for a site whose releases are taken unsigned.

    Returns
    -------
    SeveralSites, Result
        Which sites answered, of the others why they are left out, and the result that ``fit`` returns at these sites.

    Raises
    ------
    ArgumentError, SiteError, LedgerError
        The folder has no such files, the server says that other sites were asked, fewer sites than a quorum answered,
        or a signature is missing or forged.
    """
    asked = RequestFile.read(request)
    names, left, releases = _left_by(folder)
    if sites is not None and sorted(sites) != sorted(names):
        raise ArgumentError(
            f"sites: the job asked {', '.join(sites)}, and the server says that {', '.join(names)} were asked: it left "
            "sites out and does not say so, or this is what another job left; download it again, or ask again by a new "
            "job (--after keeps what was released)",
            argument="sites",
        )
    strange = set(keys or {}) - set(names)
    if strange:
        raise ArgumentError(f"keys must be of sites that were asked, not {', '.join(sorted(strange))}", argument="keys")
    without = sorted(set(releases) - set(keys or releases))
    if without:
        raise ArgumentError(
            f"keys must have one for each site with a release file, and have none for {', '.join(without)}: give its "
            "public key (--key SITE=STEM.pub), or say that nothing shows who wrote its file (--unsigned SITE)",
            argument="keys",
        )
    for name, key in (keys or {}).items():
        if name in releases and key is not None:
            releases[name].check_signature(VerifyingKey.read(key))
    several = SeveralSites(asked=tuple(names), releases=releases, left=left)
    absent = [name for name in several.present if name not in releases]
    if absent:
        raise SiteError(f"there is no release file of {', '.join(absent)}, and nothing says why")
    return several.outcome(asked)


def _left_by(folder: Path) -> tuple[list[str], dict[str, str], dict[str, ReleaseFile]]:
    """Return which sites a job asked, who was left out and why, and their release files."""
    place = next(iter(sorted(folder.rglob("hdpstats/sites.json"))), None)
    if place is None:
        raise ArgumentError(f"folder: there is no hdpstats/sites.json in {folder}", argument="folder")
    try:
        fields = json.loads(place.read_text(encoding="utf-8"))
        names = [str(name) for name in fields["asked"]]
        left = {name: in_fixed_words(reason) for name, reason in fields["left"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        names, left = [], {}
    if not (names and all(NAME.fullmatch(name) for name in names)):  # the server's words
        raise ArgumentError(f"folder: {place} cannot be read", argument="folder")
    files = {name: place.parent / "releases" / f"{name}.json" for name in names if NAME.fullmatch(name)}
    return names, left, {name: ReleaseFile.read(file) for name, file in files.items() if file.is_file()}
