"""CPU seconds of a description and of survival curves beside pandas and statsmodels, which compute them without noise.

The command line is: people, columns, repetitions, a CSV file to write the survival times to.
"""

import json
import sys
import warnings
from importlib.metadata import version

from statsmodels.duration.survfunc import SurvfuncRight

import hdpstats.formula.api as hdpf
from benchmarks.workers.cost import study
from benchmarks.workers.private_passes import people
from benchmarks.workers.public_rows import timed
from hdpstats.api import describe


def main() -> None:
    """Print the seconds of each program."""
    n, p, repeats, path = *map(int, sys.argv[1:4]), sys.argv[4]
    described, followed = study("description", n, p, 1), study("curves", n, 1, 1)
    frame, times = people("logit", n, p, 1), people("hazard", n, 1, 1)[["time", "event"]]
    times.to_csv(path, index=False)
    columns, draw = [f"x{j}" for j in range(p)], iter(range(1, 10**6))
    curves = hdpf.survfit("Surv(time, event) ~ 1", data=followed)
    steps = {
        "hdpstats: description": lambda: describe(described, columns, epsilon=1, replicate=next(draw)),
        "pandas: describe": lambda: frame[columns].describe(),
        "hdpstats: survival curve": lambda: curves.fit(epsilon=1, replicate=next(draw)),
        "statsmodels: SurvfuncRight": lambda: SurvfuncRight(times["time"], times["event"]),
    }
    packages = ("hdpstats", "numpy", "pandas", "statsmodels")
    record = {"seconds": timed(steps, repeats), "versions": {package: version(package) for package in packages}}
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
