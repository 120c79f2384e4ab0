"""What `import hdpstats.api` loads, and what is loaded when it is asked for."""

import json
import subprocess
import sys

import pytest

import hdpstats.api as hdp

LOADED_AT_USE = {"numpy", "pandas", "scipy", "numba", "sqlalchemy", "mpmath", "hdpstats.ledger", "hdpstats.models"}
FEW_NEED = {"formulaic", "statsmodels", "matplotlib", "scipy.optimize", "scipy.stats", "hdpstats.papers"}
FEW_NEED |= {"hdpstats.audit"}


def test_names_are_loaded_when_they_are_asked_for():
    code = (
        "import json, sys, hdpstats.api as hdp\nat_once = list(sys.modules)\n"
        "hdp.Ledger\nledger = list(sys.modules)\nhdp.Logit\n"
        "print(json.dumps([at_once, ledger, list(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    at_once, ledger, model = map(set, json.loads(done.stdout))
    assert LOADED_AT_USE.isdisjoint(at_once)
    assert {"hdpstats.ledger", "sqlalchemy"} <= ledger
    assert {"hdpstats.models", "hdpstats.sites", "scipy", "numba"}.isdisjoint(ledger)
    assert FEW_NEED.isdisjoint(model)


def test_every_public_name_is_there():
    assert set(dir(hdp)) == set(hdp.__all__)
    assert all(hasattr(hdp, name) for name in hdp.__all__)
    assert hdp.simulate.__name__ == "hdpstats.papers"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hdp.nothing
