"""What all tests but doctests share."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
JUDGED = (
    "custodian/test_no_network.py",
    "statistical",
    "unit/inference",
    "unit/mechanisms",
    "unit/raking",
    "integration/test_golden_files.py",
    "integration/test_predicted_errors.py",
    "r/test_effects.py",
    "r/test_r_package.py",
    "r/test_request_files.py",
)
"""Where standard errors are drawn as often as for users: tests of how exact they are, of questions that were asked
before, and of what another process draws."""


@pytest.fixture(scope="module", autouse=True)
def standard_errors_of_few_draws(request):
    """Draw standard errors seldom in all other tests."""
    place = request.path.relative_to(HERE)
    if not any(place.is_relative_to(each) for each in JUDGED):
        request.getfixturevalue("few_draws")
