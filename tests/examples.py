"""How many examples a property is tried on: more where they are new ones each time, as `make test-entropy` tries."""

from hypothesis import settings

SAME_AGAIN = 10
"""Part of the examples that are enough where they are the same in every run."""


def examples(number):
    """Return the settings of a property, for ``number`` new examples."""
    return settings(max_examples=number // SAME_AGAIN if settings().derandomize else number, deadline=None)
