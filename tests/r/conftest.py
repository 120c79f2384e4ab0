"""R in this process, and a library for R in others, for tests of the bridge."""

import fcntl
from contextlib import contextmanager

import pytest

import r_bridge
from r_bridge import package
from r_bridge.__main__ import main
from r_bridge.guard import guarded
from r_bridge.session import helper
from tests.r.hosts import Session


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


@contextmanager
def uncompiled():
    """Let R install packages without byte code, which takes most of the time that it needs for one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("R_COMPILE_PKGS", "0")
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory, request):
    """A function that makes a folder once, by a function of the folder, for all processes that run tests."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base

    def made(name, make):
        place = shared / name
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (done := shared / f"{name}.done").exists():
                place.mkdir()
                make(place)
                done.touch()
        return place

    return made


@pytest.fixture(scope="session")
def library(once):
    """A fresh library with the package, as ``python -m r_bridge install`` makes it: no variable names Python."""

    def install(place):
        with uncompiled():
            assert main(["install", "--no-vignettes", "--lib", str(place)]) == 0

    return once("library of R", install)


@pytest.fixture(scope="session")
def one_folder(once):
    """The folder in which all vignettes and the examples of all help pages run; nothing is removed between them."""
    return once("one folder", lambda place: None)


@pytest.fixture(scope="session")
def archive(once):
    """The source package as ``python -m r_bridge install`` builds it, which runs the vignettes."""

    def build(place):
        with uncompiled():
            package.build(place)

    return next(once("package of R", build).glob("hdpstats_*.tar.gz"))


@pytest.fixture(scope="session")
def plain_r(library):
    """One plain R for many scripts."""
    session = Session(library)
    yield session
    session.close()
