"""Simulated data sets in two processes, and standard errors of what simulation studies measure."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import hdpstats
from hdpstats.noise import exact
from tests import seeded

R = TypeVar("R")

PART = 200
"""Data sets that are simulated, and kept, at a time."""

OF_THE_MODEL = (
    "Outcomes are drawn from the model that is fitted. There weights of people, caps and clips move no coefficient. "
    "What they do where the model is not exactly true, as it never is with real outcomes, this page does not show: "
    "the study of real outcomes (`tests/statistical/test_real_outcomes.py`) does."
)
"""What a page whose outcomes are simulated says of what it does not show."""


def together(work: Callable[..., R], *arguments: Iterable[Any], chunksize: int = 4) -> list[R]:
    """Return what two processes make of arguments, in their order: each with noise that the test's own noise seeds."""
    jobs, seed = list(zip(*arguments, strict=True)), exact.system_bytes(32).hex()
    with ProcessPoolExecutor(max_workers=2, initializer=allow_infinite_public_fits) as pool:
        seeds = (f"{seed} {number}" for number in range(len(jobs)))
        return list(pool.map(partial(_one, work), seeds, jobs, chunksize=chunksize))


@cache
def code_digest() -> str:
    """Return a digest of what the numbers of a study depend on, besides libraries: the package, and all studies."""
    files = [*Path(hdpstats.__file__).parent.rglob("*.py"), *Path(__file__).parent.glob("*.py")]
    text = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in sorted(files))
    return hashlib.sha256(text).hexdigest()[:16]


def of_this_code(kept: Path) -> Path:
    """Return the file in which a study keeps what this code has found: never is a page made of other code's numbers."""
    return kept.with_name(f"{kept.stem}-{code_digest()}{kept.suffix}")


def resumed(
    kept: Path, key: str, usual: int, work: Callable[..., Mapping[str, Any]], *arguments: Any
) -> dict[str, np.ndarray]:
    """Return what so many data sets give, name by name (sets, ...): what is kept already is not simulated again.

    ``HDPSTATS_SETS`` is how many are wanted where that is fewer than usual; of more that are kept all are taken.
    ``work`` takes the arguments and a seed, and gives numbers by name; a file of lines keeps them under a key
    (`of_this_code`).
    """
    kept = of_this_code(kept)
    text = kept.read_text(encoding="utf-8") if kept.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # without a line that was being written when a run was stopped
    if whole != text:
        kept.write_text(whole, encoding="utf-8")
    lines = [json.loads(line) for line in whole.splitlines()]
    known = {line["seed"]: line["found"] for line in lines if line["key"] == key}
    wanted = min(usual, max(int(os.environ.get("HDPSTATS_SETS", usual)), len(known)))
    seeds = sorted(known)[:wanted]
    left = [seed for seed in range(wanted) if seed not in known][: wanted - len(seeds)]
    for start in range(0, len(left), PART):
        part = left[start : start + PART]
        found = together(work, *([each] * len(part) for each in arguments), part)
        kept.parent.mkdir(exist_ok=True)
        with kept.open("a", encoding="utf-8") as file:
            for seed, each in zip(part, found, strict=True):
                known[seed] = {name: np.asarray(value).tolist() for name, value in each.items()}
                file.write(json.dumps({"key": key, "seed": seed, "found": known[seed]}) + "\n")
    seeds += left
    return {name: np.array([known[seed][name] for seed in seeds]) for name in known[seeds[0]]}


def _one(work: Callable[..., R], seed: str, job: tuple[Any, ...]) -> R:
    with seeded.Source(seed).installed(exact):
        return work(*job)


def allow_infinite_public_fits() -> None:
    """Let a fit pass whose public rows, by chance, give a coefficient no finite maximum-likelihood estimate.

    It is NaN in ``public_only``. Studies measure ``penalised``, the public fit of which estimates are pooled.
    """
    warnings.filterwarnings("ignore", message="public rows alone", category=RuntimeWarning)


def share_error(share: float | np.ndarray, repeats: int) -> np.ndarray:
    """Return the standard error of a share, or of several, of so many data sets."""
    return np.sqrt(share * (1.0 - np.asarray(share)) / repeats)


def ratios(errors: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return root mean squared errors over others (p,), and their standard errors, from errors (repeats, p) of each.

    Both are of the same data sets.
    """
    ratio, apart = _apart(errors, others)
    return ratio, apart.std(axis=0) / np.sqrt(len(apart))


def mean_ratio(errors: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Return the mean over coefficients of such ratios, and its standard error."""
    ratio, apart = _apart(errors, others)
    return float(ratio.mean()), float(apart.mean(axis=1).std() / np.sqrt(len(apart)))


def _apart(errors: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ratios (p,) and what each data set moves them by, times the number of data sets (repeats, p)."""
    square, other = np.mean(errors**2, axis=0), np.mean(others**2, axis=0)
    ratio = np.sqrt(square / other)
    return ratio, 0.5 * ratio * (errors**2 / square - others**2 / other)
