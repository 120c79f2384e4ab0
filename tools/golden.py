"""Write the ledger and the files of this version that later versions must read: ``python tools/golden.py``.

Run once for a release whose files are written otherwise than those of the last one; the folder must not exist yet.
Until a version is released its folder may be deleted and written anew.
"""

import datetime
import sqlite3
import sys
import warnings
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import hdpstats
import hdpstats.api as hdp
from hdpstats.exchange import ReleaseFile
from hdpstats.ledger.signing import SigningKey
from tests.golden import calls

FOLDER = Path(__file__).parents[1] / "tests" / "golden"


def main() -> int:
    """Ask everything, and keep what it wrote."""
    folder = FOLDER / hdpstats.__version__
    folder.mkdir()
    path, first = folder / "ledger.db", next(iter(calls.TERMS))
    key = SigningKey.generate()
    (folder / "site.pub").write_text(key.public_pem, encoding="ascii")
    calls.SCHEMA.to_yaml(folder / "schema.yaml")
    for dataset in calls.TERMS:
        calls.ledger(path, dataset, create=True)
        data = calls.study(calls.site(path, dataset, signing_key=key))
        for name, call in calls.CALLS.items():
            result = call(data)
            if dataset == first and name in calls.KEPT:
                result.to_json(folder / f"{name}.json")
    account = calls.ledger(path, first, create=False)
    account.grant("ana", epsilon=5, most_charges=10)
    account.signed_head(key).write(folder / "head.json")
    account.export(folder / "export.json")
    _exchange(folder, calls.site(path, first, signing_key=key), key)
    _closed(path)
    for name in calls.SETS_OF_CALLS:
        write_set(folder, name)
    _combined(folder)
    print(
        f"{folder} written on {datetime.datetime.now(datetime.UTC).date()}: {sorted(p.name for p in folder.iterdir())}"
    )
    return 0


def _closed(path: Path) -> None:
    """Make a ledger one file, without a log beside it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    for leftover in path.parent.glob(f"{path.name}-*"):
        leftover.unlink()


def write_set(folder: Path, name: str) -> None:
    """Ask a set of calls on an account of its own, and keep the ledger and the results."""
    path = folder / f"{name}.db"
    open_study, asked = calls.SETS_OF_CALLS[name]
    data = open_study(path, create=True)
    for kept, call in asked.items():
        call(data).to_json(folder / f"{kept}.json")
    _closed(path)


def _combined(folder: Path) -> None:
    """Keep two effects of different people combined."""
    first, second = (
        hdp.TreatmentEffect.from_json(folder / f"{name}.json") for name in ("effect", "weighted_visits_effect")
    )
    hdp.combine_effects({"A": first, "B": second}).to_json(folder / "combined_effect.json")


def _exchange(folder: Path, site: hdp.LocalSite, key: SigningKey) -> None:
    """Write a request file that its author signed, and the file of the answers to it that the site signed."""
    asked = hdp.request("logit", "event3 ~ age + hormon", calls.study(site), epsilon=0.5, attach_public=False)
    author = SigningKey.generate()
    (folder / "analyst.pub").write_text(author.public_pem, encoding="ascii")
    asked = asked.signed(author)
    asked.write(folder / "request.json")
    result = asked.question.ask(calls.study(site))
    given = result.released
    answers = [(given.counting, given.count)] if given.count is not None else []
    if given.description is not None:
        answers += [(given.description.queries[0][1], given.description.releases[0][1])]
    answers += [(given.query, given.release)]
    made = ReleaseFile(request_sha256=asked.sha256, facts=site.facts, answers=tuple(answers))
    (folder / "release.json").write_text(made.signed(key).to_json() + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
