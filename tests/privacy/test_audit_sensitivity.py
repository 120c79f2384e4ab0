"""The search for worst neighbours finds what is known in closed form, and refutes claims that are too small."""

import dataclasses
import math

import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.audit import sensitivity_search

BOX = {"x": (-2.0, 3.0), "g": ["a", "b", "c"]}


def counts(frame):
    return [(frame["g"] == level).sum() for level in "abc"]


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(
    ("statistic", "norm", "relation", "claim"),
    [
        (lambda frame: frame["x"].sum(), "l2", "replace_one", 5.0),
        (lambda frame: frame["x"].sum(), "l2", "add_or_remove_one", 3.0),
        (counts, "l1", "replace_one", 2.0),
        (counts, "max", "add_or_remove_one", 1.0),
        (
            lambda frame: [frame["x"].sum(), (frame["x"] ** 2).sum()],
            lambda v: abs(v[0]) + abs(v[1]),
            "replace_one",
            12.25,
        ),
    ],
)
def test_what_is_attained_is_found_and_a_smaller_claim_is_refuted(statistic, norm, relation, claim):
    found = sensitivity_search(statistic, box=BOX, claim=claim, norm=norm, relation=relation, tries=32)
    assert found.share == pytest.approx(1.0, rel=1e-4 if callable(norm) else 1e-12)
    assert not found.exceeds
    assert len(found.data) - len(found.neighbour) == (relation == "add_or_remove_one")
    assert dataclasses.replace(found, claim=0.9 * claim).exceeds


def test_missing_cells_are_tried():
    """A sum that puts the mean of the others in place of a missing cell moves by more than the range of a row."""

    def filled(frame):
        return frame["x"].fillna(10 * frame["x"].sum()).sum()

    box = {"x": (-1.0, 1.0)}
    assert not sensitivity_search(filled, box=box, claim=2, tries=32).exceeds
    assert sensitivity_search(filled, box=box, claim=2, tries=32, missing=True).exceeds


def test_a_statistic_without_a_value_or_of_another_shape_has_no_sensitivity():
    assert sensitivity_search(lambda frame: math.nan, box=BOX, claim=1, tries=8).exceeds
    assert sensitivity_search(lambda frame: frame["g"].value_counts(), box=BOX, claim=9, tries=8).distance == math.inf


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="box must name"):
        sensitivity_search(len, box={}, claim=1)
    with pytest.raises(ArgumentError, match="norm must be"):
        sensitivity_search(len, box=BOX, claim=1, norm="l7")
