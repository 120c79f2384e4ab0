"""CPU seconds and memory of private fits and of the computations over private rows in them, beside a peer's fit.

The command line is: ``logit`` or ``hazard``, people, covariates, intervals, repetitions.
"""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.workers.hazard import resident
from benchmarks.workers.measure import peak_memory
from hdpstats.sites.local import LocalSite

PUBLIC, INTERVAL = 2_000, 10.0


def people(kind: str, n: int, p: int, seed: int) -> pd.DataFrame:
    """Draw covariates within three standard deviations, and outcomes of the model."""
    rng = np.random.default_rng(seed)  # noqa: TID251  (data for a benchmark, not noise of a release)
    X = np.clip(rng.standard_normal((n, p)), -3.0, 3.0)
    eta = X @ (np.cos(np.arange(p)) / np.sqrt(p))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)], copy=False)
    if kind == "logit":
        return frame.assign(y=(rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float))
    event, censored = rng.exponential(8.0 / np.exp(eta)), rng.uniform(0.0, 12.0, n)
    seen = np.minimum(np.minimum(event, censored), INTERVAL)
    return frame.assign(time=np.maximum(seen, 1e-3), event=(event <= seen).astype(float))


class Timed:
    """CPU seconds that a site spends on private rows."""

    seconds = 0.0

    def __init__(self) -> None:
        plain: Callable[..., Any] = LocalSite._compute

        def compute(*given: Any, **named: Any) -> Any:
            start = process_time()
            found = plain(*given, **named)
            self.seconds += process_time() - start
            return found

        LocalSite._compute = compute  # type: ignore[method-assign]


def main() -> None:
    """Print medians over the repetitions, and what the first fit took on top, loading code included."""
    kind, (n, p, intervals, repeats) = sys.argv[1], (int(number) for number in sys.argv[2:6])
    private, timed = people(kind, n, p, 1), Timed()
    columns = {f"x{j}": hdp.Continuous(-3, 3) for j in range(p)}
    outcome = {"y": hdp.Binary()} if kind == "logit" else {"time": hdp.Duration(INTERVAL), "event": hdp.Binary()}
    study = hdp.Study(
        private=private,
        public=people(kind, PUBLIC, p, 2),
        schema=hdp.Schema(columns | outcome),
        budget=hdp.Budget(epsilon=10_000),
    )
    terms = " + ".join(columns)
    X, y = private.iloc[:, :p].to_numpy(), private.iloc[:, -1].to_numpy()
    whole, inside, peer, added, first = [], [], [], 0.0, 0.0
    for k in range(repeats + 1):
        before, timed.seconds, start = resident(), 0.0, process_time()
        if kind == "logit":
            hdpf.logit(f"y ~ {terms}", data=study).fit(epsilon=1, replicate=k + 1, describe=False)
        else:
            model = hdpf.hazard(f"Surv(time, event) ~ {terms}", data=study, intervals=intervals)
            model.fit(epsilon=1, replicate=k + 1, describe=False)
        if k == 0:
            first = process_time() - start
            continue
        whole.append(process_time() - start)
        inside.append(timed.seconds)
        added = max(added, peak_memory() - before)
        if kind == "logit":
            start = process_time()
            LogisticRegression(C=np.inf, max_iter=300).fit(X, y)
            peer.append(process_time() - start)
    record = {
        "fit": float(np.median(whole)),
        "private": float(np.median(inside)),
        "first": first,
        "peer": float(np.median(peer)) if peer else None,
        "added": added / (n * p * 8 / 2**20),
        "versions": {package: version(package) for package in ("hdpstats", "numpy", "numba", "scikit-learn")},
    }
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
