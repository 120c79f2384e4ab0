"""CPU seconds of one kind of private computation at one size, beside a fit without privacy where there is one.

The command line is a size of `benchmarks.cost` as JSON, and the number of repetitions.
"""

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from time import process_time

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.workers.private_passes import INTERVAL, PUBLIC, people

CELLS = 2_000_000
"""Cells from which on a computation is made once after the first: it takes long enough to be measured so."""


def study(kind: str, n: int, p: int, sites: int) -> hdp.Study:
    """Return a study of ``n`` people in all, at so many sites."""
    survival = kind in ("hazard", "curves")
    frame = people("hazard" if survival else "logit", n, p, 1)
    columns = {f"x{j}": hdp.Continuous(-3, 3) for j in range(p)}
    outcome = {"time": hdp.Duration(INTERVAL), "event": hdp.Binary()} if survival else {"y": hdp.Binary()}
    schema, budget = hdp.Schema(columns | outcome), hdp.Budget(epsilon=10**6)
    parts = {f"site{k}": frame.iloc[k::sites].reset_index(drop=True) for k in range(sites)}
    return hdp.Study(
        private=frame if sites == 1 else parts,
        public=people("hazard" if survival else "logit", PUBLIC, p, 2),
        schema=schema,
        budget=budget if sites == 1 else dict.fromkeys(parts, budget),
    )


def computation(
    kind: str, data: hdp.Study, *, p: int, intervals: int, epsilon: float, describe: bool
) -> Callable[[int], object]:
    """Return what is measured; its argument makes each release a new one."""
    terms = " + ".join(f"x{j}" for j in range(p))
    if kind == "logit":
        return lambda k: hdpf.logit(f"y ~ {terms}", data=data).fit(epsilon=epsilon, describe=describe, replicate=k)
    if kind == "hazard":
        formula = f"Surv(time, event) ~ {terms}"
        return lambda k: hdpf.hazard(formula, data=data, intervals=intervals).fit(
            epsilon=epsilon, describe=describe, replicate=k
        )
    if kind == "curves":
        return lambda k: hdpf.survfit("Surv(time, event) ~ 1", data=data).fit(epsilon=epsilon, replicate=k)
    return lambda k: hdp.describe(data, [f"x{j}" for j in range(p)], epsilon=epsilon, replicate=k)


def noisier(found: object) -> float | None:
    """Return the median of private-only standard errors of a fit over those of sampling alone; None of others."""
    if not isinstance(found, hdp.Result):
        return None
    sampling, privacy = (np.diag(each) for each in (found.private_only.sampling, found.private_only.privacy))
    return float(np.median(np.sqrt(1.0 + privacy / sampling)))


def seconds(call: Callable[[int], object], repeats: int) -> float:
    """Return the median of CPU seconds after a first call, which loads compiled code."""
    found = []
    for k in range(repeats + 1):
        start = process_time()
        call(k + 1)
        found.append(process_time() - start)
    return float(np.median(found[1:]))


def main() -> None:
    """Print the seconds."""
    size, repeats = json.loads(sys.argv[1]), int(sys.argv[2])
    kind, n, p, sites = size["kind"], size["n"], size["p"], size["sites"]
    repeats = 1 if n * p > CELLS else repeats
    data = study(kind, n, p, sites)
    call = computation(kind, data, p=p, intervals=size["intervals"], epsilon=size["epsilon"], describe=size["describe"])
    record = {"seconds": seconds(call, repeats), "peer": None, "noisier": noisier(call(1))}
    if kind == "logit" and sites == 1:
        frame: pd.DataFrame = people("logit", n, p, 1)
        X, y = frame.iloc[:, :p].to_numpy(), frame["y"].to_numpy()
        record["peer"] = seconds(lambda _: LogisticRegression(C=np.inf, max_iter=300).fit(X, y), repeats)
    record["versions"] = {package: version(package) for package in ("hdpstats", "numpy", "numba", "scikit-learn")}
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
