"""CPU seconds of other private fits, and of the computations over private rows in them, beside fits without privacy.

The command line is: people, covariates, repetitions.
"""

import json
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.workers.private_passes import INTERVAL, PUBLIC, Timed
from benchmarks.workers.private_passes import people as binary_people

LEVELS, LARGEST, FARTHEST, INTERVALS = ["a", "b", "c"], 20.0, 6.0, 20
CLIPPED = {"mechanism": "clipped_newton", "delta": 1e-6}


def people(n: int, p: int, seed: int) -> pd.DataFrame:
    """Draw covariates, and one outcome of each kind of them."""
    frame = binary_people("logit", n, p, seed)
    times = binary_people("hazard", n, p, seed)[["time", "event"]]  # of the same covariates
    eta = frame.iloc[:, :p].to_numpy() @ (np.cos(np.arange(p)) / np.sqrt(p))
    rng = np.random.default_rng(seed + 100)  # noqa: TID251  (data for a benchmark, not noise of a release)
    level = np.argmax(np.stack([0.0 * eta, eta, -eta], axis=1) + rng.gumbel(size=(n, 3)), axis=1)
    return frame.assign(
        time=times["time"],
        event=times["event"],
        level=pd.Categorical.from_codes(level, LEVELS),
        count=np.minimum(rng.poisson(np.exp(0.5 * eta)), LARGEST).astype(float),
        number=np.clip(eta + rng.standard_normal(n), -FARTHEST, FARTHEST),
    )


def fits(study: hdp.Study, terms: str) -> dict[str, Callable[[int], Any]]:
    """Return the private fits by name, each of a replicate."""
    hazard = hdpf.hazard(f"Surv(time, event) ~ {terms}", data=study, intervals=INTERVALS)
    models = {
        "linear": (hdpf.linear(f"number ~ {terms}", data=study), {}),
        "Poisson": (hdpf.poisson(f"count ~ {terms}", data=study), {}),
        "multinomial, 3 levels": (hdpf.multinomial(f"level ~ {terms}", data=study), {}),
        "logit, clipped Newton": (hdpf.logit(f"y ~ {terms}", data=study), CLIPPED),
        f"hazard, clipped Newton, {INTERVALS} intervals": (hazard, CLIPPED),
    }

    def fit(model: Any, options: dict[str, Any]) -> Callable[[int], Any]:
        return lambda k: model.fit(epsilon=1, replicate=k, describe=False, **options)

    found = {name: fit(*each) for name, each in models.items()}
    found["importance weights"] = lambda k: hdp.importance_weights(study, f"~ {terms}", epsilon=1, replicate=k)
    return found


def peers(frame: pd.DataFrame, X: Any, public: Any) -> dict[str, Callable[[], Any]]:
    """Return fits without privacy by the names of ours; of hazards there is none."""

    def logistic(X: Any, y: Any) -> Any:
        return LogisticRegression(C=np.inf, max_iter=300).fit(X, y)

    both, sample = np.concatenate([X, public]), np.repeat([1, 0], [len(X), len(public)])
    return {
        "linear": lambda: LinearRegression().fit(X, frame["number"]),
        "Poisson": lambda: PoissonRegressor(alpha=0.0, max_iter=300).fit(X, frame["count"]),
        "multinomial, 3 levels": lambda: logistic(X, frame["level"].cat.codes),
        "logit, clipped Newton": lambda: logistic(X, frame["y"]),
        "importance weights": lambda: logistic(both, sample),
    }


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of some work."""
    start = process_time()
    work()
    return process_time() - start


def main() -> None:
    """Print medians over the repetitions, after a first fit of each kind that is not counted."""
    n, p, repeats = (int(number) for number in sys.argv[1:4])
    private, public, timed = people(n, p, 1), people(PUBLIC, p, 2), Timed()
    covariates = {f"x{j}": hdp.Continuous(-3, 3) for j in range(p)}
    outcomes = {
        "y": hdp.Binary(),
        "time": hdp.Duration(INTERVAL),
        "event": hdp.Binary(),
        "level": hdp.Categorical(LEVELS),
        "count": hdp.Continuous(0, LARGEST),
        "number": hdp.Continuous(-FARTHEST, FARTHEST),
    }
    schema, budget = hdp.Schema(covariates | outcomes), hdp.Budget(epsilon=10_000, delta=0.1)
    study = hdp.Study(private=private, public=public, schema=schema, budget=budget)
    X, Y = (frame[list(covariates)].to_numpy() for frame in (private, public))
    others, found = peers(private, X, Y), {}
    for name, fit in fits(study, " + ".join(covariates)).items():
        fit(1)
        whole, inside, peer = [], [], []
        for k in range(2, repeats + 2):
            timed.seconds = 0.0
            whole.append(seconds(lambda fit=fit, k=k: fit(k)))
            inside.append(timed.seconds)
            if name in others:
                peer.append(seconds(others[name]))
        medians = [float(np.median(each)) if each else None for each in (whole, inside, peer)]
        found[name] = dict(zip(("fit", "private", "peer"), medians, strict=True))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
