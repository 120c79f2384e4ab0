"""Nearest public points by one program: prints seconds and a digest of the counts, one line of JSON.

The command line is: program, private rows, public points, dimension, nested sizes. The private rows are standard
normal, the public ones have variance 1/2, and the cube is that of the public range.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def scene(rows: int, points: int, p: int) -> tuple[Points, Points]:
    """Draw private rows and public points in the unit cube."""
    rng = np.random.default_rng(0)  # noqa: TID251  (data for a benchmark, not noise of a release)
    private, public = rng.standard_normal((rows, p)), rng.standard_normal((points, p)) * np.sqrt(0.5)
    lower, upper = public.min(axis=0), public.max(axis=0)
    return (np.clip(private, lower, upper) - lower) / (upper - lower), (public - lower) / (upper - lower)


def hdpstats(rows: Points, points: Points) -> Places:
    """Return the places of the nearest points, exactly."""
    from hdpstats.solvers import nearest_points as nearest_module

    if len(rows) == 2:  # the first call, whose time does not count: compile what large searches use
        nearest_module.TREE_PAIRS = 0  # from now on: trees need not wait for searches that include compiling
        nearest_module.COMPILED_PAIRS, pairs = 0, nearest_module.COMPILED_PAIRS
        nearest_module.nearest(rows, points)
        nearest_module.COMPILED_PAIRS = pairs
    return nearest_module.nearest(rows, points)


def tree(rows: Points, points: Points) -> Places:
    """Return what scipy's k-d tree finds."""
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(points).query(rows)[1])


def scikit(rows: Points, points: Points) -> Places:
    """Return what scikit-learn finds: a k-d tree in few dimensions, products of matrices else."""
    from sklearn.metrics import pairwise_distances_argmin
    from sklearn.neighbors import KDTree

    if rows.shape[1] <= 3:
        return np.asarray(KDTree(points).query(rows, return_distance=False)[:, 0])
    return np.asarray(pairwise_distances_argmin(rows, points))


def flat(rows: Points, points: Points) -> Places:
    """Return what faiss finds by brute force in single precision."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points.astype(np.float32))
    return np.asarray(index.search(rows.astype(np.float32), 1)[1][:, 0])


def brute(rows: Points, points: Points) -> Places:
    """Return the places by the definition, one row after the other."""
    from hdpstats.solvers.nearest_points import squared_distances

    return np.array([squared_distances(row, points).argmin() for row in rows])


def nested(rows: Points, points: Points, sizes: list[int]) -> list[Places]:
    """Return the counts in all nested sets, in one pass."""
    from hdpstats.solvers.nearest_points import nested_nearest

    counts = [np.zeros(size, dtype=np.int64) for size in sizes]
    for block in nested_nearest(rows, points, sizes):
        for count, place in zip(counts, block.place, strict=True):
            count += np.bincount(place, minlength=len(count))
    return counts


PROGRAMS: dict[str, tuple[Callable[[Points, Points], Places], list[str]]] = {
    "hdpstats": (hdpstats, ["hdpstats", "scipy", "numpy"]),
    "cKDTree": (tree, ["scipy"]),
    "scikit-learn": (scikit, ["scikit-learn"]),
    "faiss": (flat, ["faiss-cpu"]),
    "brute force": (brute, ["numpy"]),
}


def main() -> None:
    """Search, and print what it took."""
    name, (n, m, p, k) = sys.argv[1], map(int, sys.argv[2:6])
    search, packages = PROGRAMS[name.removeprefix("50 x ")]
    rows, points = scene(n, m, p)
    sizes = [m * (number + 1) // k for number in range(k)]
    search(rows[:2], points[:200])  # imports, and what is done once
    wall, start = perf_counter(), process_time()
    if k == 1:
        counts = [np.bincount(search(rows, points), minlength=m)]
    elif name == "hdpstats":
        counts = nested(rows, points, sizes)
    else:
        counts = [np.bincount(search(rows, points[:size]), minlength=size) for size in sizes]
    seconds, wall = process_time() - start, perf_counter() - wall
    digest = hashlib.sha256(b"".join(count.astype("<i8").tobytes() for count in counts)).hexdigest()
    versions = {package: version(package) for package in packages}
    sys.stdout.write(json.dumps({"seconds": seconds, "wall": wall, "digest": digest, "versions": versions}) + "\n")


if __name__ == "__main__":
    main()
