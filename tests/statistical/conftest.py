"""What studies share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def standard_errors_of_few_draws():
    """Draw standard errors as often as for users, but where a module asks for few draws."""
