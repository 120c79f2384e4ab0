"""The compiled map of numbers of a file is that of `NumericColumn.admit`, to the last bit."""

import numpy as np
import pandas as pd
import pytest

from hdpstats.schema.columns import Binary, Continuous, Duration, Offset, Weight
from hdpstats.schema.stored_columns import Stored, plain

CORNERS = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 0.5, 2.0, 3.0, np.nextafter(3.0, 4.0), 1e300]
)


@pytest.mark.parametrize(
    "column",
    [Continuous(-1, 3), Continuous(1, 2), Continuous(-1, 3, missing=0.5), Binary(), Binary(missing=1), Duration(3),
     Weight(3, missing=0), Offset(-1, 0)],
    ids=str,
)  # fmt: skip
def test_the_compiled_map_is_the_plain_one(column):
    stored = Stored(numbers=plain(CORNERS), column=column)
    cells = column.admit(pd.Series(CORNERS))
    assert stored.values.tobytes() == cells.values.tobytes()
    assert np.array_equal(stored.missing, cells.missing)
