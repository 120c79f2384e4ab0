"""The command line: ``hdpstats ledger``, ``site``, ``request``, ``result``, ``flare``, ``qualify`` and ``warm-up``.

Exit codes: 0 done, 1 refused or does not verify, 2 wrong usage. Errors are one line on standard error.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import yaml

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.new_files import check_new, new_file, write_new
from hdpstats._base.validation import printable
from hdpstats.ledger import (
    Disclosure,
    KnownHead,
    Ledger,
    SignedHead,
    SigningKey,
    VerifyingKey,
    back_up,
    count_as_spent,
    restore,
    verify_file,
)
from hdpstats.ledger.disclosure import FORMS
from hdpstats.ledger.location import password_in
from hdpstats.ledger.records import Account
from hdpstats.ledger.signing import check_export
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.sensitivity import Relation

if TYPE_CHECKING:
    import pandas as pd


def _open(arguments: argparse.Namespace) -> None:
    terms = {name: getattr(arguments, name) for name in ("dataset", "epsilon", "delta", "relation", "unit", "floor")}
    if arguments.gaussian_epsilon is not None:
        terms["gaussian"] = Budget(arguments.gaussian_epsilon, arguments.gaussian_delta)
    print(Ledger(arguments.file, **terms, same_people_as=arguments.same_people_as, create=True))


def _grant(arguments: argparse.Namespace) -> None:
    ledger = Ledger.open_existing(arguments.file, dataset=arguments.dataset)
    ledger.grant(
        arguments.analyst,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        most_charges=arguments.most_charges,
        most_bytes=arguments.most_bytes,
    )
    print(ledger)


def _show(arguments: argparse.Namespace) -> None:
    ledger = Ledger.open_existing(arguments.file, dataset=arguments.dataset)
    history = ledger.history(arguments.analyst)
    print(ledger)
    if len(history):
        print()
        print(history.dropna(axis="columns", how="all").to_string(index=False, na_rep=""))


def _verify(arguments: argparse.Namespace) -> None:
    key = None if arguments.key is None else VerifyingKey.read(Path(arguments.key))
    noted = arguments.head
    signed = SignedHead.read(Path(noted)) if noted is not None and Path(noted).is_file() else None
    if key is not None and signed is None:
        message = "key checks a signed head: name its file, --head HEAD.json (`hdpstats ledger head` writes it)"
        raise ArgumentError(message, argument="key")
    if str(arguments.file).lower().endswith(".json"):
        if noted is not None and signed is None:
            raise ArgumentError("an export is compared with a signed head: --head HEAD.json", argument="head")
        print(check_export(arguments.file, head=signed, key=key))
    elif signed is None:
        print(verify_file(arguments.file, head=noted))
    else:
        ledger = Ledger.open_existing(arguments.file, dataset=signed.dataset)
        print(f"{ledger.verify(signed, key=key)}; it goes on from the head")


def _head(arguments: argparse.Namespace) -> None:
    ledger = Ledger.open_existing(arguments.file, dataset=arguments.dataset)
    head = ledger.signed_head(None if arguments.key is None else Path(arguments.key))
    if arguments.out is not None:
        with new_file(arguments.out) as place:
            head.write(place)
    signed = f"; key {head.key}" if head.key else ""
    print(f"{head.entries} entries, {head.charges} charges; head {head.head}{signed}")


def _export(arguments: argparse.Namespace) -> None:
    ledger = Ledger.open_existing(arguments.file, dataset=arguments.dataset)
    with new_file(arguments.out) as place:
        ledger.export(place)


def _back_up(arguments: argparse.Namespace) -> None:
    made = back_up(arguments.file, arguments.out)
    print(f"{arguments.out}: {made}. Keep it on another machine than the head")


def _restore(arguments: argparse.Namespace) -> None:
    known, queries = [_known(word) for word in arguments.head], ()
    known += [head for place in arguments.release for head in _released(place)]
    if arguments.site is not None:
        custodian = _custodian()
        settings = custodian.SiteSettings.from_yaml(arguments.site)
        known += custodian.known_heads(settings)
        queries = custodian.known_queries(settings)
    made = restore(
        arguments.file,
        arguments.place,
        known=known,
        queries=queries,
        nothing_since=arguments.nothing_since,
        count_as_spent=arguments.count_as_spent,
    )
    print(f"{arguments.place}: {made}")
    for head in known:
        if head.entries is not None and head.entries <= made.verification.entries and not made.counted_as_spent:
            later = made.verification.entries - head.entries
            print(f"it has entry {head.entries}, known from {head.source}, and {later} later ones")
    if made.counted_as_spent:
        print("stored releases can be handed out again, and nothing new: hdpstats site note SITE.YAML --after-loss")
    elif arguments.nothing_since:
        print("that nothing was charged since is what you stated")


def _known(word: str) -> KnownHead:
    """Return a head from the file of a signed one, or from a hash."""
    if not Path(word).is_file():
        return KnownHead(head=word, source="--head")
    signed = SignedHead.read(Path(word))
    return KnownHead(head=signed.head, entries=signed.entries, source=word)


def _released(place: Path) -> list[KnownHead]:
    """Return the heads of the releases in a release file, or in all those of a folder and of folders in it."""
    from hdpstats.exchange import ReleaseFile

    files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
    answers = [
        (file, release)
        for file in files
        if not file.name.endswith(".refused.json")
        for _, release in ReleaseFile.read(file).answers
    ]
    return [
        KnownHead(head=release.entry.head, source=str(file), account=release.entry.account)
        for file, release in answers
        if release.entry is not None
    ]


def _lose(arguments: argparse.Namespace) -> None:
    asked = [name for name in ("dataset", "epsilon") if getattr(arguments, name) is not None]
    if len(asked) == 1:
        raise ArgumentError(
            "dataset and epsilon belong together: the terms of an account that is gone", argument="lost"
        )
    account = None
    if asked:
        total = Budget(arguments.epsilon, arguments.delta)
        account = Account.agreed(
            dataset=arguments.dataset, total=total, relation=arguments.relation, unit=arguments.unit
        )
    made = count_as_spent(arguments.file, account=account)
    print(f"{arguments.file}: {made.verification}; nothing is left")
    print("where a site keeps its head: hdpstats site note SITE.YAML --after-loss")


def _disclose(arguments: argparse.Namespace) -> None:
    statements = None
    if arguments.statements is not None:
        try:
            statements = yaml.safe_load(arguments.statements.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            message = f"statements: {arguments.statements} cannot be read as YAML: {error}"
            raise ArgumentError(message, argument="statements") from None
    ledger = Ledger.open_existing(arguments.file, dataset=arguments.dataset)
    _print_form(ledger.disclosure(arguments.form, statements=statements), arguments.out)


def _print_form(form: Disclosure, out: Path | None) -> None:
    """Print a form, or write it to a file; say what is not stated yet."""
    if out is None:
        print(form)
    else:
        with new_file(out) as place:
            form.write(place)
    if form.missing:
        print(f"hdpstats: not stated yet: {', '.join(form.missing)}", file=sys.stderr)


def _amount(word: str) -> Fraction:
    """Read an exact amount: 0.1, 1e-6 or 1/3."""
    try:
        return Fraction(word)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{word!r} is no amount such as 0.5, 1e-6 or 1/3") from None


def _place(word: str) -> str:
    """Read a file's name or a database URL; refuse a password, which every user of the machine could read."""
    if password_in(word):
        raise argparse.ArgumentTypeError(
            "a URL on the command line must have no password: everybody on this machine can read it in the list of "
            "processes. Put it into ~/.pgpass (or the file that PGPASSFILE names), a service file, or PGPASSWORD"
        )
    return word


def _add_ledger(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    ledger = commands.add_parser("ledger", help="the account of privacy spent: open it, grant from it, read it")
    verbs = ledger.add_subparsers(title="verbs", required=True, metavar="VERB")
    opening = verbs.add_parser("open", help="open the account of a dataset with its total, agreed once")
    grant = verbs.add_parser("grant", help="cap what one analyst may receive under the total")
    show = verbs.add_parser("show", help="print the total, what was spent, and every charge")
    verify = verbs.add_parser("verify", help="recompute every hash and every sum")
    export = verbs.add_parser("export", help="write one dataset's entries to a .json or .csv file")
    disclosing = verbs.add_parser("disclosure", help="fill in a form on the privacy of one dataset")
    heading = verbs.add_parser("head", help="note what the ledger is now, signed, for others to compare later")
    backing = verbs.add_parser("backup", help="copy a ledger that may be in use into a new file, and verify the copy")
    restoring = verbs.add_parser("restore", help="make a ledger of a backup that has every entry known elsewhere")
    losing = verbs.add_parser("lost", help="count everything that a ledger has left as spent: charges are lost")
    restoring.add_argument("file", metavar="BACKUP", help="the file that `hdpstats ledger backup` wrote")
    restoring.add_argument("place", metavar="PLACE", type=_place, help="the file to make, or the URL of a database")
    restoring.add_argument("--site", metavar="SITE.YAML", help="the settings of the site, which keep the head")
    restoring.add_argument(
        "--head", metavar="HEAD", action="append", default=[], help="a signed head's file, or the newest hash known"
    )
    restoring.add_argument(
        "--release",
        metavar="FILE",
        action="append",
        type=Path,
        default=[],
        help="a release file that was handed out, or a folder of them: the backup must have their releases",
    )
    restoring.add_argument(
        "--nothing-since",
        action="store_true",
        help="you know that nothing was charged after the newest --head: the site was stopped when it was noted",
    )
    restoring.add_argument(
        "--count-as-spent", action="store_true", help="restore it with nothing left where entries are lost"
    )
    losing.add_argument("--dataset", metavar="NAME", help="of a ledger that is gone: the custodian's name for the data")
    losing.add_argument("--epsilon", metavar="E", type=_amount, help="of a ledger that is gone: the total agreed once")
    losing.add_argument("--delta", metavar="D", type=_amount, default=Fraction(0), help="its delta; 0 by default")
    for verb in (backing, losing, opening, grant, show, verify, export, disclosing, heading):
        verb.add_argument("file", metavar="FILE", type=_place, help="the ledger's file, or a database URL, no password")
    backing.add_argument("out", metavar="OUT", type=Path, help="the file to write, which must not exist")
    opening.add_argument("--dataset", metavar="NAME", required=True, help="the custodian's name for the data")
    for verb in (grant, show, export, disclosing, heading):
        verb.add_argument("--dataset", metavar="NAME", help="needed where the file holds several datasets")
    grant.add_argument("--analyst", metavar="NAME", required=True, help="who may receive releases")
    for verb, what in ((opening, "all releases together"), (grant, "all that the analyst receives")):
        verb.add_argument("--epsilon", metavar="E", type=_amount, required=True, help=f"what {what} may cost")
        verb.add_argument("--delta", metavar="D", type=_amount, default=Fraction(0), help="0 by default")
    for verb in (opening, losing):
        verb.add_argument(
            "--relation",
            choices=[member.value for member in Relation],
            default=Relation.REPLACE_ONE.value,
            help="what is hidden",
        )
        verb.add_argument("--unit", metavar="COLUMN", help="the column that names the person, if rows do not")
    opening.add_argument("--same-people-as", metavar="NAME", help="the dataset whose account this one shares")
    opening.add_argument("--gaussian-epsilon", metavar="E", type=_amount, help="the part for Gaussian noise")
    opening.add_argument("--gaussian-delta", metavar="D", type=_amount, default=Fraction(0), help="the part's delta")
    show.add_argument("--analyst", metavar="NAME", help="show what this analyst has received")
    verify.add_argument("--head", metavar="HEX", help="a head noted earlier, or the file of a signed one")
    verify.add_argument("--key", metavar="STEM.pub", help="the public key that a signed head must be signed with")
    heading.add_argument("--key", metavar="STEM.key", help="the private key; without it there is no signature")
    heading.add_argument("--out", metavar="FILE", type=Path, help="write it there (JSON)")
    export.add_argument("out", metavar="OUT", help="the file to write, .json or .csv")
    grant.add_argument("--most-charges", metavar="N", type=int, help="how many charges the analyst may cause; 0 stops")
    grant.add_argument("--most-bytes", metavar="N", type=int, help="how many bytes may be stored for the analyst")
    opening.add_argument("--floor", metavar="E", type=_amount, help="the least that one release is charged; 1e-4")
    _add_form(disclosing)
    disclosing.add_argument("--statements", metavar="FILE", type=Path, help="what only the custodian knows, as YAML")
    verbs_run = (
        (opening, _open),
        (grant, _grant),
        (show, _show),
        (verify, _verify),
        (export, _export),
        (disclosing, _disclose),
        (heading, _head),
        (backing, _back_up),
        (restoring, _restore),
        (losing, _lose),
    )
    for verb, run in verbs_run:
        verb.set_defaults(run=run)


def _add_form(verb: argparse.ArgumentParser) -> None:
    """Add the arguments of a form."""
    verb.add_argument("--form", choices=FORMS, default="text", help="nist, registry (YAML) or text; text by default")
    verb.add_argument("--out", metavar="FILE", type=Path, help="write it there: .txt, .md, .csv, .json, .yaml")


def _custodian() -> ModuleType:
    """Return the package of the custodian's service, whose dependencies are an extra."""
    try:
        from hdpstats import custodian
    except ModuleNotFoundError as error:
        message = f"the custodian's service needs {error.name}: pip install '.[sites]' in a clone of hdpstats"
        raise ArgumentError(message, argument="site") from None
    return custodian


def _settings(arguments: argparse.Namespace) -> tuple[ModuleType, Any]:
    """Return the package of the custodian's service, and the settings of a site."""
    custodian = _custodian()
    return custodian, custodian.SiteSettings.from_yaml(arguments.settings)


def _serve(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    custodian.serve(settings)


def _check(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    print(custodian.described(settings, show=print if arguments.rows else None))


def _init(arguments: argparse.Namespace) -> None:
    given = {
        name: getattr(arguments, name)
        for name in ("data", "schema", "ledger", "heads", "state", "host", "port", "user", "days")
        if getattr(arguments, name) is not None
    }
    analysts = arguments.analyst or ["ann"]
    print(_custodian().write_site(arguments.folder, dataset=arguments.dataset, analysts=analysts, **given))


def _show_site(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    custodian.protect_process()
    print(custodian.overview(settings, requests=arguments.requests, everything=arguments.all))


def _ask_health(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    well, said = custodian.ask(settings, f"/{arguments.what}")
    if not well:
        raise HdpError(said)
    print(said)


def _resume(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    number = custodian.resume(settings, arguments.analyst)
    print(
        f"{arguments.analyst} may ask again; {number} answers had taken longer than predicted, their count in "
        f"{settings.overruns} is 0 now"
    )


def _answer(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    who, public = arguments.analyst, arguments.public
    if arguments.dry_run:
        if arguments.approve is not None:
            raise ArgumentError("approve must be left out with --dry-run, which approves nothing", argument="approve")
        custodian.protect_process()
        print(custodian.preview(settings, arguments.request, analyst=who, public=public))
        return
    if arguments.out is None:
        raise ArgumentError("out must name the file to write: --out release.json", argument="out")
    custodian.protect_process()
    made = custodian.answer(
        settings,
        arguments.request,
        arguments.out,
        analyst=who,
        by=arguments.approve,
        sha256=arguments.sha256,
        public=public,
    )
    print(f"{arguments.out} answers request {made.request_sha256[:12]}: send it to who asked")


def _approve(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    custodian.protect_process()
    made = custodian.approve(
        settings,
        arguments.request,
        by=arguments.by,
        sha256=arguments.sha256,
        analyst=arguments.analyst,
        public=arguments.public,
    )
    print(f"request {made.request[:12]} of {made.analyst} is approved by {made.by} at {made.at}")


def _watch(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    custodian.protect_process()
    custodian.watch(settings, arguments.inbox, arguments.outbox, every=arguments.every)


def _site_disclosure(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    _print_form(custodian.disclosure(settings, form=arguments.form), arguments.out)


def _note(arguments: argparse.Namespace) -> None:
    custodian, settings = _settings(arguments)
    head = custodian.note(settings, after_loss=arguments.after_loss)
    print(f"{head.entries} entries; head {head.head}")


def _key(arguments: argparse.Namespace) -> None:
    private, public = _custodian().write_keys(arguments.stem)
    print(f"{private} signs tokens: keep it; {public} checks them: name it in the settings of sites, tokens: key")


def _signing_key(arguments: argparse.Namespace) -> None:
    key = SigningKey.generate()
    private, public = key.write(arguments.stem)
    print(
        f"{private} signs releases and heads: keep it, and name it in the settings of the site, signing: key; {public} "
        f"(key {key.public.id}) checks them: give it to everybody"
    )


def _token(arguments: argparse.Namespace) -> None:
    if (arguments.certificate is None) != arguments.unbound:
        raise ArgumentError(
            "certificate must name the analyst's certificate (PEM): --certificate FILE; only for a site whose settings "
            "have 'bound: false' may a token be good with any certificate: --unbound, and no --certificate",
            argument="certificate",
        )
    token = _custodian().issue(
        arguments.key,
        analyst=arguments.analyst,
        audience=arguments.audience,
        hours=arguments.hours,
        certificate=arguments.certificate,
    )
    print(token)


def _add_site(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    site = commands.add_parser("site", help="the custodian's service: private rows behind HTTPS")
    verbs = site.add_subparsers(title="verbs", required=True, metavar="VERB")
    starting = verbs.add_parser("init", help="write the files of a new site: settings, trial certificates, a unit")
    starting.add_argument("folder", metavar="FOLDER", help="where they go; no file is replaced")
    starting.add_argument("--dataset", metavar="NAME", required=True, help="the custodian's name for the data")
    starting.add_argument("--analyst", metavar="NAME", action="append", help="who may ask; may be repeated; ann")
    starting.add_argument("--data", metavar="FILE", help="the private rows; without them and a schema, invented ones")
    starting.add_argument("--schema", metavar="FILE", help="their dictionary (YAML)")
    starting.add_argument("--ledger", metavar="PLACE", type=_place, help="a file, or a database URL, no password")
    starting.add_argument("--heads", metavar="FILE", help="where the ledger's head is kept: on another disk")
    starting.add_argument("--state", metavar="FOLDER", help="the folder that the service writes to")
    starting.add_argument("--host", metavar="HOST", help="the address to listen at; 127.0.0.1")
    starting.add_argument("--port", metavar="PORT", type=int, help="8443; the one above it is for health")
    starting.add_argument("--user", metavar="NAME", help="the service's user; hdpstats")
    starting.add_argument("--days", metavar="N", type=int, help="how long certificates last; 90")
    showing = verbs.add_parser("show", help="budgets, analysts, requests, what was released, late answers")
    showing.add_argument("--requests", metavar="FOLDER", type=Path, help="a folder with request files")
    showing.add_argument("--all", action="store_true", help="show every charge, not the latest ones")
    asking = verbs.add_parser("health", help="ask a running site on this machine whether it is ready; 0 if so, else 1")
    asking.add_argument("--what", choices=("ready", "live", "version", "metrics"), default="ready", help="ready")
    serve = verbs.add_parser("serve", help="open the site and answer until the process is ended")
    check = verbs.add_parser("check", help="open everything that the settings name, and say what would be served")
    noting = verbs.add_parser("note", help="have the ledger's head kept where the settings say and none is kept yet")
    disclosing = verbs.add_parser("disclosure", help="fill in a form on the privacy of what the site serves")
    _add_form(disclosing)
    for verb in (serve, check, noting, disclosing, showing, asking):
        verb.add_argument("settings", metavar="SITE.YAML", help="the settings of the site")
    check.add_argument(
        "--rows",
        action="store_true",
        help="show first what the rows hold that the schema does not expect: exact, for your screen alone",
    )
    noting.add_argument(
        "--after-loss",
        action="store_true",
        help="replace a head that the ledger lacks, where the ledger has nothing left (hdpstats ledger lost)",
    )
    resume = verbs.add_parser("resume", help="let an analyst ask again whose answers took longer than predicted")
    resume.add_argument("settings", metavar="SITE.YAML", help="the settings of the site")
    resume.add_argument("--analyst", required=True, metavar="NAME", help="as the settings call the analyst")
    answer = verbs.add_parser("answer", help="answer a request file: charged once, drawn once")
    answer.add_argument("settings", metavar="SITE.YAML", help="the settings of the site")
    answer.add_argument("request", metavar="REQUEST.JSON", type=Path, help="what the analyst sent")
    answer.add_argument("--out", metavar="FILE", type=Path, help="the release file to write")
    answer.add_argument("--analyst", metavar="NAME", help="who sent it; needed where the settings name several")
    answer.add_argument("--approve", metavar="NAME", help="record that this person approves it, before it is charged")
    answer.add_argument("--sha256", metavar="HEX", help="with --approve: what is approved, as --dry-run shows it")
    answer.add_argument("--public", metavar="FILE", type=Path, help="its public rows (CSV, Parquet), where it has none")
    answer.add_argument("--dry-run", action="store_true", help="say what it asks and would cost; read no row")
    approving = verbs.add_parser("approve", help="record who approves a request file, which then may be charged")
    approving.add_argument("settings", metavar="SITE.YAML", help="the settings of the site")
    approving.add_argument("request", metavar="REQUEST.JSON", type=Path, help="what the analyst sent")
    approving.add_argument("--by", metavar="NAME", required=True, help="who approves it")
    approving.add_argument("--sha256", metavar="HEX", required=True, help="what is approved, as --dry-run shows it")
    approving.add_argument("--analyst", metavar="NAME", help="who sent it, where it is not signed")
    approving.add_argument("--public", metavar="FILE", type=Path, help="its public rows, where it has none")
    watching = verbs.add_parser(
        "watch", help="answer request files that come into a folder, until the process is ended"
    )
    watching.add_argument("settings", metavar="SITE.YAML", help="the settings of the site")
    watching.add_argument("inbox", metavar="INBOX", type=Path, help="where request files come: INBOX/ANALYST/NAME.json")
    watching.add_argument("outbox", metavar="OUTBOX", type=Path, help="where answers go: OUTBOX/ANALYST/SHA256.json")
    watching.add_argument("--every", metavar="SECONDS", type=float, default=5.0, help="between two looks; 5 by default")
    key = verbs.add_parser("key", help="make a key that signs tokens: STEM.key, and STEM.pub for the sites")
    key.add_argument("stem", metavar="STEM", help="the files' common name")
    signing = verbs.add_parser("signing-key", help="make a key that signs releases or requests: STEM.key, STEM.pub")
    signing.add_argument("stem", metavar="STEM", help="the files' common name")
    token = verbs.add_parser("token", help="print a token of an analyst")
    token.add_argument("--key", required=True, metavar="FILE", help="the key that signs, from `hdpstats site key`")
    token.add_argument("--analyst", required=True, metavar="NAME", help="as the settings call the analyst")
    token.add_argument("--audience", required=True, metavar="NAME", help="the site, as its settings have it in tokens")
    token.add_argument("--hours", type=float, default=8.0, help="how long it is accepted; 8 by default")
    token.add_argument("--certificate", metavar="FILE", help="the analyst's certificate, without which it is no good")
    token.add_argument(
        "--unbound", action="store_true", help="good with any certificate, at sites that have bound: false"
    )
    verbs_run = (
        (starting, _init),
        (serve, _serve),
        (showing, _show_site),
        (asking, _ask_health),
        (check, _check),
        (resume, _resume),
        (answer, _answer),
        (approving, _approve),
        (watching, _watch),
        (noting, _note),
        (key, _key),
        (token, _token),
        (disclosing, _site_disclosure),
        (signing, _signing_key),
    )
    for verb, run in verbs_run:
        verb.set_defaults(run=run)


def _warm_up(_arguments: argparse.Namespace) -> None:
    from hdpstats.models import warm_up  # which other commands do without

    warm_up()
    print("loops over rows are compiled")


def _qualify(arguments: argparse.Namespace) -> None:
    from hdpstats.audit.qualification import qualify  # which other commands do without

    if arguments.out is None:
        found = qualify()
    else:
        with new_file(arguments.out) as place:
            found = qualify(place)
    print(found)
    if not found.passed:
        raise HdpError(f"{len(found.failed)} checks failed: this installation does not compute what it should here")


def _public(path: Path | None) -> "pd.DataFrame | None":
    """Return public rows of a CSV or Parquet file."""
    import pandas as pd  # which other commands do without

    from hdpstats.schema.parquet import rows_in

    if path is None:
        return None
    if path.suffix.lower() != ".csv":
        return rows_in(path, name="public")
    try:
        return pd.read_csv(path)
    except (OSError, ValueError):
        raise ArgumentError(f"public: {path} cannot be read as CSV", argument="public") from None


def _request(arguments: argparse.Namespace) -> None:
    from hdpstats.exchange import RequestFile, request  # which other commands do without
    from hdpstats.schema.schema import Schema
    from hdpstats.sites import Study

    options = dict(_option(word) for word in arguments.option)
    taken = sorted({"model", "formula", "data", "epsilon", "attach_public", "path", "key"} & options.keys())
    if taken:
        raise ArgumentError(f"option must not be {taken[0]}, which the command has itself", argument="option")
    study = Study(
        public=_public(arguments.public),
        schema=Schema.from_yaml(arguments.schema),
        unit=arguments.unit,
        max_rows_per_unit=arguments.max_rows_per_unit,
        n_max=arguments.n_max,
        relation=arguments.relation,
    )
    asked = request(
        arguments.model,
        arguments.formula.split(",") if arguments.model == "describe" else arguments.formula,
        study,
        epsilon=arguments.epsilon,
        attach_public=not arguments.name_public,
        key=arguments.key,
        **options,
    )
    write_new(arguments.out, asked.to_json() + "\n", same=lambda place: RequestFile.is_at(place, asked.sha256))
    print(f"{arguments.out} is request {asked.sha256[:12]}: send it to the custodian, and keep it")


def _result(arguments: argparse.Namespace) -> None:
    from hdpstats.exchange import read_result  # which other commands do without

    keys, files = arguments.key, arguments.release
    if keys and len(keys) != len(files):
        raise ArgumentError("key must be given once for each release file, in their order", argument="key")
    check_new(arguments.out)
    named = {f"site {number}": file for number, file in enumerate(files, start=1)}
    of_sites = dict(zip(named, keys, strict=True)) if keys else None
    public = _public(arguments.public)
    if len(files) == 1:
        result = read_result(files[0], arguments.request, public=public, key=keys[0] if keys else None)
    else:
        result = read_result(named, arguments.request, public=public, key=of_sites)
    write_new(arguments.out, result.to_json())
    print(result.summary())


def _flare_job(arguments: argparse.Namespace) -> None:
    from hdpstats.engines.flare.job import write_job  # which other commands do without

    asked = write_job(
        arguments.request,
        arguments.out,
        sites=arguments.site,
        seconds=arguments.seconds,
        patience=arguments.patience,
        after=arguments.after,
    )
    print(f"{arguments.out} is a job of FLARE with request {asked.sha256[:12]}: submit it, nvflare job submit")


def _flare_result(arguments: argparse.Namespace) -> None:
    from hdpstats.engines.flare.job import read_job, sites_of_job  # which other commands do without

    named = [*map(_key_of, arguments.key), *((site, None) for site in arguments.unsigned)]
    keys = dict(named)
    if len(keys) < len(named):
        raise ArgumentError("key and unsigned must name each site once", argument="key")
    check_new(arguments.out)
    folder, request, sites = arguments.folder, arguments.request, arguments.site
    if arguments.job is not None:
        sites = sites_of_job(arguments.job, request, folder=folder)
    several, result = read_job(folder, request, sites=sites, keys=keys)
    write_new(arguments.out, result.to_json())
    if sites is None:
        print(
            f"that {', '.join(several.asked)} were asked, and no others, is the server's word: give the job's folder "
            "(--job FOLDER) or the names (--site NAME)"
        )
    for name, reason in several.left.items():
        print(f"{name} was left out: {reason}")
    print(result.summary())


def _key_of(word: str) -> tuple[str, Path]:
    """Read SITE=STEM.pub."""
    name, equals, place = word.partition("=")
    if not (name and equals and place):
        raise ArgumentError(f"key must be SITE=STEM.pub, not {word!r}", argument="key")
    return name, Path(place)


def _add_flare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    flare = commands.add_parser("flare", help="one request to several sites, carried by NVIDIA FLARE")
    verbs = flare.add_subparsers(title="verbs", required=True, metavar="VERB")
    job = verbs.add_parser("job", help="write a job that asks sites one request; it ships no code")
    job.add_argument("request", metavar="REQUEST.JSON", type=Path, help="the request, with its public rows in it")
    job.add_argument("--site", metavar="NAME", action="append", required=True, help="a site, as FLARE calls it")
    job.add_argument("--seconds", metavar="S", type=float, default=3600.0, help="how long an exchange may take; 3600")
    job.add_argument(
        "--patience", metavar="S", type=float, default=300.0, help="how long it waits for the last sites; 300"
    )
    job.add_argument("--after", metavar="FOLDER", type=Path, help="what an earlier job of the same request left")
    job.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="the folder to make")
    job.set_defaults(run=_flare_job)
    reading = verbs.add_parser("result", help="make the result from what a job left, and say who was left out")
    reading.add_argument("request", metavar="REQUEST.JSON", type=Path, help="the request that was sent")
    reading.add_argument("folder", metavar="FOLDER", type=Path, help="what was downloaded")
    whom = reading.add_mutually_exclusive_group()
    whom.add_argument("--job", metavar="FOLDER", type=Path, help="what `flare job` wrote: it says whom the job asked")
    whom.add_argument("--site", metavar="NAME", action="append", help="or the names of all sites that the job asked")
    reading.add_argument(
        "--key",
        metavar="SITE=STEM.pub",
        action="append",
        default=[],
        help="a site's key, that its releases must be signed with; where one is given, each site needs one",
    )
    reading.add_argument(
        "--unsigned",
        metavar="SITE",
        action="append",
        default=[],
        help="a site whose releases are taken without a key, beside those with one: nothing shows who wrote them",
    )
    reading.add_argument("--out", metavar="FILE", type=Path, required=True, help="the result file to write")
    reading.set_defaults(run=_flare_result)


def _option(word: str) -> tuple[str, Any]:
    """Read NAME=VALUE; the value is JSON, or else a text."""
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise ArgumentError(f"option must be NAME=VALUE, not {word!r}", argument="option")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command sets ``run``, a function of its arguments."""
    top = argparse.ArgumentParser(prog="hdpstats", description="Hybrid differentially private statistics.")
    top.add_argument("--version", action="version", version=f"hdpstats {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_ledger(commands)
    _add_site(commands)
    warming = commands.add_parser("warm-up", help="compile loops over rows now, once after an installation")
    warming.set_defaults(run=_warm_up)
    asking = commands.add_parser("request", help="write down what is asked of a site, as a file for its custodian")
    asking.add_argument("formula", metavar="FORMULA", help="of a description the columns, separated by commas")
    asking.add_argument("--model", metavar="NAME", required=True, help="logit, hazard, survfit, describe, ...")
    asking.add_argument("--schema", metavar="SCHEMA.YAML", required=True, help="the site's schema")
    asking.add_argument("--public", metavar="FILE", type=Path, help="public rows (CSV, Parquet)")
    asking.add_argument("--name-public", action="store_true", help="name the public rows by their hash, without them")
    asking.add_argument("--epsilon", metavar="E", type=float, required=True, help="what the answer may cost")
    asking.add_argument("--unit", metavar="COLUMN", help="the column that names the person, as at the site")
    asking.add_argument("--max-rows-per-unit", metavar="N", type=int, help="with --unit, as at the site")
    asking.add_argument(
        "--relation",
        choices=[member.value for member in Relation],
        default=Relation.REPLACE_ONE.value,
        help="what is hidden, as at the site",
    )
    asking.add_argument("--n-max", metavar="N", type=int, help="the declared number of people, as at the site")
    asking.add_argument("--key", metavar="STEM.key", help="your private key, which signs the request")
    asking.add_argument("--option", metavar="NAME=VALUE", action="append", default=[], help="such as intervals=24")
    asking.add_argument("--out", metavar="FILE", type=Path, required=True, help="the request file to write")
    asking.set_defaults(run=_request)
    reading = commands.add_parser("result", help="read a site's answer to a request file")
    reading.add_argument("request", metavar="REQUEST.JSON", type=Path, help="the request that was sent")
    reading.add_argument(
        "release", metavar="RELEASE.JSON", type=Path, nargs="+", help="the site's answer, or several's"
    )
    reading.add_argument("--public", metavar="FILE", type=Path, help="the public rows, where the request has none")
    reading.add_argument(
        "--key",
        metavar="STEM.pub",
        action="append",
        help="the site's key, that its file must be signed with; of several sites one for each, in their order",
    )
    reading.add_argument("--out", metavar="FILE", type=Path, required=True, help="the result file to write")
    reading.set_defaults(run=_result)
    _add_flare(commands)
    qualifying = commands.add_parser("qualify", help="check this installation: numbers, guarantees, ledger, floats")
    qualifying.add_argument("--out", metavar="FILE", type=Path, help="write the report there: .html or .json")
    qualifying.set_defaults(run=_qualify)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv
        The words after ``hdpstats``; those of this process by default.
    """
    arguments = parser().parse_args(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough, as `head` has
        sys.stdout = None  # of which nothing is flushed at the end
        return 1
    except HdpError as error:
        print(f"hdpstats: {printable(' '.join(str(error).split()))}", file=sys.stderr)
        return 2 if isinstance(error, ArgumentError) else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
