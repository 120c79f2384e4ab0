"""500 exchanges of request files that are killed or come twice, of which the last find nothing left."""

import pytest

from tests.custodian.test_killed_exchanges import check, killed_exchanges

pytestmark = pytest.mark.validate


def test_500_killed_or_duplicated_exchanges_never_overspend_or_draw_twice(tmp_path):
    found = killed_exchanges(tmp_path, 500, seed=4)
    print(found)
    check(found)
    assert found["refused"] > 0
