"""What all tests but doctests share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def standard_errors_of_few_draws(few_draws):
    """Draw standard errors seldom; modules that look at how exact they are have a fixture of this name of their own."""
