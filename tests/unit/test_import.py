"""What `import hdpstats.api` loads, and what is loaded when it is asked for."""

import json
import subprocess
import sys

import pytest

import hdpstats.api as hdp

LATER = ("formulaic", "statsmodels", "matplotlib", "scipy.optimize", "scipy.stats", "hdpstats.papers", "hdpstats.audit")


def test_what_few_users_need_is_not_loaded_at_once():
    code = "import json, sys, hdpstats.api; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert set(LATER).isdisjoint(json.loads(done.stdout))


def test_every_public_name_is_there():
    assert set(dir(hdp)) == set(hdp.__all__)
    assert all(hasattr(hdp, name) for name in hdp.__all__)
    assert hdp.simulate.__name__ == "hdpstats.papers"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hdp.nothing
