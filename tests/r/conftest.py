"""R in this process, and a library for R in others, for tests of the bridge."""

import pytest

import r_bridge
from r_bridge.__main__ import main
from r_bridge.guard import guarded
from r_bridge.session import helper


@pytest.fixture(scope="session")
def _functions():
    r_bridge.attach_functions()
    guarded(helper("function() assign('.py', asNamespace('hdpstats')$.py, globalenv())"))


@pytest.fixture
def evaluate(_functions):
    """A function that evaluates R code where the R package is attached, with `.py`, and returns the R object."""

    def run(code):
        return guarded(helper("function(code) eval(parse(text = code), globalenv())"), r_bridge.to_r(code))

    return run


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A fresh library with the package, as ``python -m r_bridge install`` makes it: no variable names Python."""
    place = tmp_path_factory.mktemp("library")
    assert main(["install", "--no-vignettes", "--lib", str(place)]) == 0
    return place
