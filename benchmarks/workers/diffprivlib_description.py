"""CPU seconds of means, standard deviations and quartiles of columns by diffprivlib.

The command line is: people, columns, repetitions, epsilon of all of it.
"""

import json
import sys
from importlib.metadata import version
from time import process_time

import numpy as np
from diffprivlib import tools

QUARTILES = [0.25, 0.5, 0.75]


def described(columns: np.ndarray, epsilon: float) -> list[object]:
    """Release five numbers of each column, each at an equal share of epsilon."""
    share, bounds = epsilon / (3 * len(columns)), (-3.0, 3.0)
    return [
        (
            tools.mean(column, epsilon=share, bounds=bounds),
            tools.std(column, epsilon=share, bounds=bounds),
            [tools.quantile(column, each, epsilon=share / 3, bounds=bounds) for each in QUARTILES],
        )
        for column in columns
    ]


def main() -> None:
    """Print the median of the seconds."""
    n, p, repeats = map(int, sys.argv[1:4])
    rng = np.random.default_rng(1)  # noqa: TID251  (data for a benchmark, not noise of a release)
    columns = np.clip(rng.standard_normal((p, n)), -3.0, 3.0)
    found = []
    for _ in range(repeats + 1):
        start = process_time()
        described(columns, float(sys.argv[4]))
        found.append(process_time() - start)
    record = {"first": found[0], "seconds": float(np.median(found[1:] or found))}
    sys.stdout.write(json.dumps(record | {"versions": {"diffprivlib": version("diffprivlib")}}) + "\n")


if __name__ == "__main__":
    main()
