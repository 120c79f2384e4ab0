import shutil
import sqlite3
from contextlib import closing
from dataclasses import fields
from fractions import Fraction

import pytest

from hdpstats.ledger import Ledger, Request
from hdpstats.ledger.chain import digest
from hdpstats.ledger.records import Entry
from hdpstats.privacy.budget import Spend
from hdpstats.records import codec


@pytest.fixture(scope="session")
def request_for():
    def make(number=1, *, dataset="trial", version=1, terms="replace_one, one row per person", **query):
        query = {"kind": "objective", "model": {"formula": "y ~ age"}, **query}
        return Request(
            dataset=dataset,
            version=version,
            schema_sha256="ab" * 32,
            public_sha256=None,
            query_json=codec.dumps(query),
            terms=terms,
            replicate=number,
        )

    return make


@pytest.fixture(scope="session")
def cost():
    def make(epsilon, delta=0):
        return Spend(Fraction(str(epsilon)), Fraction(str(delta)))

    return make


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trial.db"


@pytest.fixture(scope="session")
def filled_folder(tmp_path_factory, request_for, cost):
    """Where the file is that `filled` copies."""
    folder = tmp_path_factory.mktemp("filled")
    path = folder / "trial.db"
    ledger = Ledger(path, dataset="trial", epsilon=3)
    ledger.persist(ledger.charge(request_for(1), cost("0.5")), '{"params":[1.5]}')
    ledger.charge(request_for(2), cost("0.25"))
    other = Ledger(path, dataset="other", epsilon=1)
    other.persist(other.charge(request_for(1, dataset="other"), cost("0.1")), '{"params":[2.5]}')
    return folder


@pytest.fixture
def filled(path, filled_folder):
    """A file with two datasets: entries open, charge, release, charge, open, charge, release."""
    shutil.copytree(filled_folder, path.parent, dirs_exist_ok=True)
    return path


@pytest.fixture
def rehash(sql):
    def run(path):
        """Rewrite the whole chain over what the table now says, as somebody with the file and this code could."""
        columns = [field.name for field in fields(Entry) if field.name != "hash"]
        previous = "0" * 64
        for values in sql(path, f"SELECT {', '.join(columns)} FROM entry ORDER BY seq"):
            entry = {**dict(zip(columns, values, strict=True)), "previous_hash": previous}
            previous = digest(entry)
            new = (entry["previous_hash"], previous, entry["seq"])
            sql(path, "UPDATE entry SET previous_hash = ?, hash = ? WHERE seq = ?", *new)

    return run


@pytest.fixture
def sql():
    def run(path, statement, *values):
        with closing(sqlite3.connect(path)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    return run
