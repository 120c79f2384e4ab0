"""Write the stored values of a qualification, ``reference.json``: ``python -m tests.reference.qualification``.

Fits of R are those of `glm.json` and `losses.json`. The data and certified values of Norris and Longley are NIST's
(Statistical Reference Datasets, linear regression). What noise is added to is computed here: a change of it must be
meant.
"""

import io
import json
from pathlib import Path

import pandas as pd

from hdpstats.audit import qualification
from hdpstats.audit.cases import CASES

HERE = Path(__file__).parent
STORED = Path(qualification.__file__).parent / "reference.json"
INPUTS = (
    "description",
    "histogram",
    "statistics, distribution",
    "clipped_newton, regression",
    "clipped_newton, hazard",
)
NORRIS = """y,x
0.1,0.2
338.8,337.4
118.1,118.2
888.0,884.6
9.2,10.1
228.1,226.5
668.5,666.3
998.5,996.3
449.1,448.6
778.9,777.0
559.2,558.2
0.3,0.4
0.1,0.6
778.1,775.5
668.8,666.9
339.3,338.0
448.9,447.5
10.8,11.6
557.7,556.0
228.3,228.1
998.0,995.8
888.8,887.6
119.6,120.2
0.3,0.3
0.6,0.3
557.6,556.8
339.3,339.1
888.0,887.2
998.5,999.0
778.9,779.0
10.2,11.1
117.6,118.3
228.9,229.2
668.4,669.1
449.2,448.9
0.2,0.5
"""
LONGLEY = """y,x1,x2,x3,x4,x5,x6
60323,83,234289,2356,1590,107608,1947
61122,88.5,259426,2325,1456,108632,1948
60171,88.2,258054,3682,1616,109773,1949
61187,89.5,284599,3351,1650,110929,1950
63221,96.2,328975,2099,3099,112075,1951
63639,98.1,346999,1932,3594,113270,1952
64989,99,365385,1870,3547,115094,1953
63761,100,363112,3578,3350,116219,1954
66019,101.2,397469,2904,3048,117388,1955
67857,104.6,419180,2822,2857,118734,1956
68169,108.4,442769,2936,2798,120445,1957
66513,110.8,444546,4681,2637,121950,1958
68655,112.6,482704,3813,2552,123366,1959
69564,114.2,502601,3931,2514,125368,1960
69331,115.7,518173,4806,2572,127852,1961
70551,116.9,554894,4007,2827,130081,1962
"""
NIST = [
    {
        "name": "Norris",
        "formula": "y ~ x",
        "data": NORRIS,
        "coefficients": [-0.262323073774029, 1.00211681802045],
        "std_errors": [0.232818234301152, 0.429796848199937e-03],
    },
    {
        "name": "Longley",
        "formula": "y ~ x1 + x2 + x3 + x4 + x5 + x6",
        "data": LONGLEY,
        "coefficients": [
            -3482258.63459582,
            15.0618722713733,
            -0.358191792925910e-01,
            -2.02022980381683,
            -1.03322686717359,
            -0.511041056535807e-01,
            1829.15146461355,
        ],
        "std_errors": [
            890420.383607373,
            84.9149257747669,
            0.334910077722432e-01,
            0.488399681651699,
            0.214274163161675,
            0.226073200069370,
            455.478499142212,
        ],
    },
]


def of_r():
    """Return fits of R on gbsg (kind, formula, columns, coefficients and standard errors), and their horizon."""
    glm = json.loads((HERE / "glm.json").read_text(encoding="utf-8"))["fits"]
    other = json.loads((HERE / "losses.json").read_text(encoding="utf-8"))
    fits = [{"kind": "logit", **glm[name]} for name in ("gbsg.main", "gbsg.offset_weights")]
    chosen = {
        "linear": "nodes ~ age + size",
        "poisson": "nodes ~ age + hormon",
        "exponential": "Surv(time, event) ~ age + size + hormon",
    }
    fits += [fit for fit in other["fits"] if chosen.get(fit["kind"]) == fit["formula"]]
    renamed = [{"std_errors": fit.get("errors"), **fit} for fit in fits]
    keys = ("kind", "formula", "weights", "offset", "coefficients", "std_errors")
    return [{key: fit[key] for key in keys} for fit in renamed], other["horizon"]


def main():
    """Write the file."""
    fits, horizon = of_r()
    nist = [{**each, "data": pd.read_csv(io.StringIO(each["data"])).astype(float).to_dict("list")} for each in NIST]
    assert {case.name for case in CASES} >= set(INPUTS)
    stored = {"horizon": horizon, "r": fits, "nist": nist, "inputs": {}}
    STORED.write_text(json.dumps(stored), encoding="utf-8")
    qualification._reference.cache_clear()
    stored["inputs"] = {name: qualification._inputs(name) for name in INPUTS}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
