import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from hdpstats._base import canonical
from hdpstats.ledger import Ledger, Request
from hdpstats.privacy.budget import Spend


@pytest.fixture
def request_for():
    def make(number=1, *, dataset="trial", version=1, **query):
        query = {"kind": "objective", "formula": "y ~ age", **query}
        return Request(
            dataset=dataset,
            version=version,
            schema_sha256="ab" * 32,
            public_sha256=None,
            query_json=canonical.dumps(query),
            replicate=number,
        )

    return make


@pytest.fixture
def cost():
    def make(epsilon, delta=0):
        return Spend(Fraction(str(epsilon)), Fraction(str(delta)))

    return make


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trial.db"


@pytest.fixture
def filled(path, request_for, cost):
    """A file with two datasets: entries open, charge, release, charge, open, charge, release."""
    ledger = Ledger(path, dataset="trial", epsilon=3)
    ledger.persist(ledger.charge(request_for(1), cost("0.5")), '{"params":[1.5]}')
    ledger.charge(request_for(2), cost("0.25"))
    other = Ledger(path, dataset="other", epsilon=1)
    other.persist(other.charge(request_for(1, dataset="other"), cost("0.1")), '{"params":[2.5]}')
    return path


@pytest.fixture
def sql():
    def run(path, statement, *values):
        with closing(sqlite3.connect(path)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    return run
