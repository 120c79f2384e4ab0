"""What privacy adds to standard errors as people grow, from plans: nothing is fitted and no private row is made.

The command line is the number of covariates, that of intervals, epsilon, and numbers of people as a list of JSON. It
prints, for each computation, the median over its numbers of standard error over that of sampling alone.
"""

import json
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.workers.private_passes import INTERVAL, PUBLIC, people


def public_rows(p: int) -> pd.DataFrame:
    """Return public people with an outcome of each kind."""
    frame = people("hazard", PUBLIC, p, 2).assign(y=people("logit", PUBLIC, p, 2)["y"])
    rng = np.random.default_rng(3)  # noqa: TID251  (data for a benchmark, not noise of a release)
    eta = frame[[f"x{j}" for j in range(p)]].to_numpy() @ (np.cos(np.arange(p)) / np.sqrt(p))
    score = np.clip(eta + rng.standard_normal(PUBLIC), -10.0, 10.0)
    return frame.assign(score=score, count=np.minimum(rng.poisson(np.exp(0.5 * eta)), 20.0))


def ratios(p: int, intervals: int, epsilon: float, sizes: list[int]) -> dict[str, dict[int, float]]:
    """Return the median ratio for each computation and number of people."""
    outcomes = {
        "time": hdp.Duration(INTERVAL),
        "event": hdp.Binary(),
        "y": hdp.Binary(),
        "score": hdp.Continuous(-10, 10),
        "count": hdp.Continuous(0, 20),
    }
    names = [f"x{j}" for j in range(p)]
    schema = hdp.Schema({name: hdp.Continuous(-3, 3) for name in names} | outcomes)
    study, right = hdp.Study(public=public_rows(p), schema=schema), " + ".join(names)
    fits = {
        "logit": hdpf.logit(f"y ~ {right}", study),
        "linear": hdpf.linear(f"score ~ {right}", study),
        "poisson": hdpf.poisson(f"count ~ {right}", study),
        "hazard": hdpf.hazard(f"Surv(time, event) ~ {right}", study, intervals=intervals),
    }
    requests = {
        "description": hdp.describe(study, names),
        "survival curve": hdpf.survfit("Surv(time, event) ~ 1", study),
    }

    def of_fit(name: str) -> Callable[[int], float]:
        def ratio(n: int) -> float:
            frame = fits[name].plan(epsilon, n=n).frame
            return float(np.median(frame["private_only"] / frame["sampling"]))

        return ratio

    def of_request(name: str) -> Callable[[int], float]:
        def ratio(n: int) -> float:
            frame = requests[name].plan(epsilon=epsilon, n=n).frame.dropna(subset=["std_error", "noise"])
            sampling = np.sqrt(np.maximum(frame["std_error"] ** 2 - frame["noise"] ** 2, 0.0))
            return float(np.median(frame["std_error"][sampling > 0.0] / sampling[sampling > 0.0]))

        return ratio

    found = {name: of_fit(name) for name in fits} | {name: of_request(name) for name in requests}
    return {name: {n: ratio(n) for n in sizes} for name, ratio in found.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    p, intervals, epsilon, sizes = (json.loads(each) for each in sys.argv[1:5])
    sys.stdout.write(json.dumps(ratios(p, intervals, epsilon, sizes)) + "\n")
