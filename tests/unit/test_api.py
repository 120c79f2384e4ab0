"""What `import hdpstats.api` loads, and what is loaded when it is asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

LOADED_AT_USE = {"numpy", "pandas", "scipy", "numba", "sqlalchemy", "mpmath", "hdpstats.ledger", "hdpstats.models"}
FEW_NEED = {"formulaic", "statsmodels", "matplotlib", "scipy.optimize", "scipy.stats", "hdpstats.papers"}
FEW_NEED |= {"hdpstats.audit", "IPython", "ipykernel", "ipywidgets", "rpy2", "r_bridge"}


def modules_after(*lines):
    """Return the modules that are loaded after each line of a new process."""
    code = "".join(f"{line}\nloaded.append(list(sys.modules))\n" for line in lines)
    code = f"import json, sys\nloaded = []\n{code}print(json.dumps(loaded))"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return map(set, json.loads(done.stdout))


def test_names_are_loaded_when_they_are_asked_for():
    at_once, ledger = modules_after("import hdpstats.api as hdp", "hdp.Ledger")
    assert LOADED_AT_USE.isdisjoint(at_once)
    assert {"hdpstats.ledger", "sqlalchemy"} <= ledger
    assert {"hdpstats.models", "hdpstats.sites", "scipy", "numba"}.isdisjoint(ledger)


@pytest.mark.wide
def test_a_model_loads_nothing_that_few_need():
    (model,) = modules_after("import hdpstats.api as hdp\nhdp.Logit\nimport hdpstats.formula.api")
    assert FEW_NEED.isdisjoint(model)


def test_every_public_name_is_there():
    assert set(dir(hdp)) == set(hdp.__all__)
    for module in (hdp.audit, hdp.datasets, hdp.losses, hdp.mechanisms, hdp.simulate):
        assert dir(module) == sorted(module.__all__)
    assert all(hasattr(hdp, name) for name in hdp.__all__)
    assert hdp.simulate.__name__ == "hdpstats.papers"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hdp.nothing


def test_the_reference_lists_every_public_name():
    """Of R's functions it has a page for each help page of the package."""
    pages = (Path(__file__).parents[2] / "docs" / "reference").glob("*.rst")
    listed = {line.strip() for page in pages for line in page.read_text(encoding="utf-8").splitlines()}
    modules = {"audit", "datasets", "losses", "mechanisms", "simulate", "__version__"}
    named = set(hdp.__all__) - modules | set(hdpf.__all__)
    for module in (hdp.audit, hdp.datasets, hdp.losses, hdp.mechanisms, hdp.simulate):
        named |= set(module.__all__)
    assert named <= listed
