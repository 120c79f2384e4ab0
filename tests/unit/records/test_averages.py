"""What is known of a private cohort, as a record."""

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind


def _moment(**parts: object) -> CohortMoment:
    given = {"variable": "age", "what": MomentKind.MEAN, "value": 54.0, "noise_sd": 0.5, "lower": 20.0, "upper": 90.0}
    return CohortMoment(**(given | parts))  # type: ignore[arg-type]


def test_is_written_and_read_back() -> None:
    square = _moment(what=MomentKind.SQUARE, value=101.0, centre=53.0)
    moments = CohortMoments(people=2000.0, people_sd=3.0, moments=(_moment(), square), release_sha256="a" * 64)
    assert CohortMoments.from_dict(moments.to_dict()) == moments
    assert moments.of(MomentKind.SQUARE) == (square,)


@pytest.mark.parametrize("parts", [{"value": np.inf}, {"noise_sd": -1.0}, {"upper": 20.0}, {"level": -1}])
def test_refuses_numbers_that_are_none(parts: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match="'age'"):
        _moment(**parts)


def test_refuses_the_same_average_twice_and_a_cohort_of_nobody() -> None:
    with pytest.raises(ArgumentError, match="different"):
        CohortMoments(people=10.0, people_sd=0.0, moments=(_moment(), _moment(value=1.0)), release_sha256="a" * 64)
    with pytest.raises(ArgumentError, match="people"):
        CohortMoments(people=0.0, people_sd=0.0, moments=(), release_sha256="a" * 64)
