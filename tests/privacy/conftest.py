"""What all tests of privacy share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def standard_errors_of_few_draws(few_draws):
    """Draw standard errors seldom."""
