"""What tests of rules share."""

import gc

import pytest

from tests.architecture.syntax import nodes_of


@pytest.fixture(scope="module", autouse=True)
def syntax_of_one_module():
    """Forget the syntax that the tests of a module have read: every later look for garbage would go through it all."""
    gc.disable()
    yield
    nodes_of.cache_clear()
    gc.enable()
