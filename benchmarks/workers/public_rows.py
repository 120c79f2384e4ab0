"""A whole fit by hdpstats with public rows: opened, planned, fitted and shown; statsmodels beside it, not private."""

import json
import sys
import warnings
from collections.abc import Callable
from time import process_time

import numpy as np
import pandas as pd
import statsmodels.api as sm

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.designs import ar_design
from benchmarks.spells import drawn


def timed(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, float]]:
    """Return CPU seconds of each step, taken in turns: the first time, and the median of the others."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats + 1):
        for name, step in steps.items():
            start = process_time()
            step()
            seconds[name].append(process_time() - start)
    return {name: {"first": each[0], "seconds": float(np.median(each[1:]))} for name, each in seconds.items()}


def logit(n: int, d: int, public: int, repeats: int) -> dict[str, dict[str, float]]:
    """Measure a logistic regression; ``public`` is the number of public rows."""
    X, y, X_public, y_public, _ = ar_design(n, d, public, 1)
    names = [f"x{position}" for position in range(1, d + 1)]
    private, seen = (
        pd.DataFrame({"y": outcome.astype(int), **dict(zip(names, rows.T, strict=True))})
        for rows, outcome in ((X, y), (X_public, y_public))
    )
    schema = hdp.Schema({name: hdp.Continuous(-1, 1) for name in names}, y=hdp.Binary())
    study = hdp.Study(private=private, public=seen, schema=schema, budget=hdp.Budget(epsilon=10**6))
    draw = iter(range(1, 10**6))

    def fitted(*, describe: bool) -> str:
        model = hdpf.logit("y ~ " + " + ".join(names), data=study)
        return str(model.fit(epsilon=1.0, describe=describe, replicate=next(draw)).summary())

    steps = {
        "fit, its people described": lambda: fitted(describe=True),
        "fit, described by public rows": lambda: fitted(describe=False),
        "plan": lambda: hdpf.logit("y ~ " + " + ".join(names), data=study).plan(1.0),
        "statsmodels": lambda: str(sm.Logit(y, sm.add_constant(X)).fit(disp=False).summary()),
    }
    return timed(steps, repeats)


def hazard(people: int, intervals: int, repeats: int) -> dict[str, dict[str, float]]:
    """Measure `fit_public` of a hazard."""
    spells = drawn(people, intervals, covariates=5)
    names = [f"z{position}" for position in range(1, 6)]
    frame = pd.DataFrame(
        {"time": spells.exit - 0.5, "event": spells.event, **dict(zip(names, spells.Z.T, strict=True))}
    )
    declared = {name: hdp.Continuous(-1, 1) for name in names}
    schema = hdp.Schema(declared, time=hdp.Duration(horizon=intervals), event=hdp.Binary())
    study = hdp.Study(public=frame, schema=schema)
    formula = "Surv(time, event) ~ " + " + ".join(names)

    def fitted() -> hdp.Result:
        return hdpf.hazard(formula, data=study, intervals=intervals).fit_public()

    result = fitted()
    eta = frame[names].to_numpy() @ np.ones(5)
    steps = {
        "fit_public": fitted,
        "summary, with concordance and calibration": lambda: str(fitted().summary()),
        "numpy's exponential of each person-interval": lambda: [np.exp(eta) for _ in range(intervals)],
    }
    return timed(steps, repeats) if np.isfinite(result.params.to_numpy()).all() else {}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    kind, *sizes = sys.argv[1:]
    record = {"logit": logit, "hazard": hazard}[kind](*map(int, sizes))
    sys.stdout.write(json.dumps(record) + "\n")
