"""Two sites in processes of their own, started together."""

import pytest

from tests.custodian.institution import EVERYTHING, Institution
from tests.custodian.people import PRIVATE, SCHEMA

SECONDS = 60.0
ANALYSTS = {
    "ann": EVERYTHING,
    "bob": {
        "mechanisms": ["objective", "histogram", "evaluation"],
        "models": ["regression"],
        "columns": ["y", "x", "k", "g", "time", "event"],
    },
}
SMALL = {
    "ledger": {"place": "ledger.db", "dataset": "trial", "epsilon": 1.5},
    "analysts": {"ann": EVERYTHING | {"epsilon": 1.2}, "bob": EVERYTHING | {"epsilon": 0.8}},
}


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """The institution and its sites by name."""
    institution = Institution(tmp_path_factory.mktemp("institution"))
    limits = {"seconds": SECONDS, "query": 200_000, "public": 2_000_000, "computing": 2, "connections": 300}
    sites = {
        name: institution.launch(institution.write(name, PRIVATE, SCHEMA, limits=limits, **entries))
        for name, entries in {
            "large": {"analysts": ANALYSTS, "health": {"port": 0}},
            "small": SMALL,
            "crowded": SMALL,
        }.items()
    }
    try:
        for running in sites.values():
            institution.wait(running)
        yield institution, sites
    finally:
        institution.close()


@pytest.fixture
def institution(started):
    return started[0]


@pytest.fixture
def running(started):
    """A site with much to spend."""
    return started[1]["large"]


@pytest.fixture
def small(started):
    """A site with little to spend."""
    return started[1]["small"]


@pytest.fixture
def crowded(started):
    """Another site with little to spend, whose last cent is spent."""
    return started[1]["crowded"]


@pytest.fixture
def mortal(started):
    """The site with much to spend, to be killed; it is up again afterwards, at the same place."""
    institution, sites = started
    yield sites["large"]
    if sites["large"].process.poll() is not None:
        sites["large"] = institution.restart(sites["large"])


@pytest.fixture
def site(institution, running):
    """Ann's connection to the site with much to spend."""
    with institution.connect(running) as connected:
        yield connected
