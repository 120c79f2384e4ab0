"""A data frame of a million rows to R and back, by r_bridge or by rpy2's pandas2ri: ``python -m … BY ROWS REPEATS``."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd


def frame(rows: int) -> pd.DataFrame:
    """Return 20 columns: 12 of doubles (one with gaps), 4 of whole numbers, 2 of truths, a category, a text."""
    rng = np.random.default_rng(1)  # noqa: TID251  (synthetic data)
    columns: dict[str, Any] = {f"double{i}": rng.normal(size=rows) for i in range(12)}
    columns["double0"][::7] = np.nan
    columns |= {f"whole{i}": rng.integers(0, 1000, rows) for i in range(4)}
    columns |= {f"truth{i}": rng.random(rows) < 0.5 for i in range(2)}
    columns["category"] = pd.Categorical.from_codes(rng.integers(0, 5, rows), list("abcde"))
    columns["text"] = [f"person {i}" for i in rng.integers(0, rows, rows)]
    return pd.DataFrame(columns)


def by_bridge() -> tuple[Callable[[Any], Any], Callable[[Any], Any], dict[str, str]]:
    """Return r_bridge's two directions and its version."""
    import hdpstats
    import r_bridge

    r_bridge.start()
    return r_bridge.to_r, r_bridge.from_r, {"hdpstats": hdpstats.__version__}


def by_pandas2ri() -> tuple[Callable[[Any], Any], Callable[[Any], Any], dict[str, str]]:
    """Return rpy2's two directions and its version."""
    from importlib.metadata import version

    from rpy2.robjects import default_converter, pandas2ri

    rules = default_converter + pandas2ri.converter

    def to_r(table: Any) -> Any:
        with rules.context() as local:
            return local.py2rpy(table)

    def from_r(held: Any) -> Any:
        with rules.context() as local:
            return local.rpy2py(held)

    return to_r, from_r, {"rpy2": version("rpy2"), "rpy2-rinterface": version("rpy2-rinterface")}


def main(by: str, rows: int, repeats: int) -> None:
    """Print the shortest times as JSON."""
    to_r, from_r, versions = {"bridge": by_bridge, "pandas2ri": by_pandas2ri}[by]()
    table, there, back = frame(rows), [], []
    for _ in range(repeats):
        began = time.perf_counter()
        held = to_r(table)
        halfway = time.perf_counter()
        from_r(held)
        there.append(halfway - began)
        back.append(time.perf_counter() - halfway)
    versions |= {"pandas": pd.__version__, "numpy": np.__version__}
    print(json.dumps({"to_r": min(there), "from_r": min(back), "versions": versions}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
