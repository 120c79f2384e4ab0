"""A PostgreSQL server of Debian's package, in a cluster that lasts as long as the tests.

The server refuses to run as root, under which tests may run; then it runs as the package's own user.
"""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from hdpstats.ledger import Request
from hdpstats.records import codec
from tests.waiting import until

SETTINGS = {
    "listen_addresses": "''",  # a socket only
    "fsync": "off",  # tests kill the server, not the machine
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
}


class Server:
    """A cluster in a directory of its own; its socket lies there too."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(folder, "postgres")
        self.run("initdb", "--pgdata", self.data, "--username", "postgres", "--auth", "trust", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in SETTINGS.items())
            file.write(f"unix_socket_directories = '{folder}'\n")
        self.numbers = itertools.count(1)

    def run(self, program: str, *words: object) -> None:
        command = [*self.user, self.programs / program, *words]
        with (self.folder / "log").open("a") as log:
            subprocess.run(list(map(str, command)), check=True, timeout=300, cwd="/", stdout=log, stderr=log)

    def start(self) -> None:
        self.run("pg_ctl", "start", "--pgdata", self.data, "--wait", "--log", self.data / "server.log")

    def stop(self) -> None:
        self.run("pg_ctl", "stop", "--pgdata", self.data, "--wait", "--mode", "immediate")

    def kill(self) -> None:
        """Kill the server and all of its processes, as a machine that fails does, and wait until they are gone."""
        lock = self.data / "postmaster.pid"
        first = int(lock.read_text().splitlines()[0])
        os.kill(first, signal.SIGSTOP)  # from now on it starts no others
        until(lambda: _state(first) == "T", "a server that is stopped")
        others = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        processes = [first, *map(int, others)]
        for process in reversed(processes):
            os.kill(process, signal.SIGKILL)
        until(lambda: all(_state(process) in "ZX" for process in processes), "the end of a server")
        for left in (
            lock,
            *self.folder.glob(".s.PGSQL.*"),
        ):  # the dead keep their numbers until somebody asks after them
            left.unlink()

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def sql(self, database: str, statement: str, user: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database, user), autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []


def _state(process: int) -> str:
    """Return the letter of a process's state: T is stopped, Z and X are dead."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


@pytest.fixture(scope="session")
def server():
    folder = Path(tempfile.mkdtemp(prefix="hdpstats-postgres-"))
    server = Server(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def database(server):
    name = f"ledger{next(server.numbers)}"
    server.sql("postgres", f"CREATE DATABASE {name} STRATEGY file_copy")
    return name


@pytest.fixture
def url(server, database):
    return server.url(database)


@pytest.fixture
def sql(server, database):
    def run(statement, user="postgres"):
        return server.sql(database, statement, user)

    return run


@pytest.fixture
def request_for():
    def make(number=1, *, dataset="trial", version=1):
        return Request(
            dataset=dataset,
            version=version,
            schema_sha256="ab" * 32,
            public_sha256=None,
            query_json=codec.dumps({"kind": "objective", "model": {"formula": "y ~ age"}}),
            terms="replace_one, one row per person",
            replicate=number,
        )

    return make
