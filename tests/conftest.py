"""What all tests but doctests share."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
JUDGED = ("statistical", "unit/inference", "unit/mechanisms", "unit/raking")
"""Folders and modules of tests that look at how exact standard errors are: they are drawn as often as for users."""


@pytest.fixture(scope="module", autouse=True)
def standard_errors_of_few_draws(request):
    """Draw standard errors seldom in all other tests."""
    place = request.path.relative_to(HERE)
    if not any(place.is_relative_to(each) for each in JUDGED):
        request.getfixturevalue("few_draws")
