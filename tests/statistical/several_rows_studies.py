"""Simulated studies of people with several rows: logistic regressions by objective perturbation, by correlation.

Outcomes of a person follow a Gaussian copula, so that the marginal model holds whatever the correlation. Data sets are
paired: all fits of a scene are made to the same rows, at one study. What was computed is kept in a file, line by line,
so that a study which was stopped goes on: ``python -m tests.statistical.several_rows_studies [FILE]`` computes what
lacks, in one process.
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import special, stats

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical.monte_carlo import allow_infinite_public_fits, together

FORMULA = "y ~ x + t + z"
TRUTH = np.array([-0.7, 0.6, -0.5, 0.4])
SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    t=hdp.Binary(complete=True),
    z=hdp.Continuous(-3, 3, complete=True),
)
EPSILONS = (0.5, 1.0, 3.0)
AT_A_TIME = 20
"""Data sets that are computed between two lines of the file."""
PLANS = 20
"""The data sets of a scene for which plans are made: they are one number each, with hardly any spread."""
FILE = Path(__file__).parents[2] / "build" / "several-rows.jsonl"


@dataclass(frozen=True)
class Scene:
    """A setting: the most rows of a person, people, the correlation of a person's outcomes, and which fits are made.

    ``fits`` are pairs of ``r`` and epsilon, ``sets`` is the number of data sets. In ``unlike`` scenes private people
    have more rows than public ones, and everybody's covariate ``x`` depends on how many; no plans are made. ``by_rows``
    fits protect rows, not people: each row has the weight w(n), and epsilon is divided by the most that a person's
    rows weigh together, which protects the person too.
    """

    most: int
    public: int
    within: float
    private: int = 3000
    unlike: bool = False
    fits: tuple[tuple[float, float], ...] = tuple(itertools.product((0.0, 0.25, 0.6, 1.0), EPSILONS))
    sets: int = 400
    by_rows: bool = False

    @property
    def name(self) -> str:
        """The scene in one line of text."""
        left_out = {"sets"} if self.by_rows else {"sets", "by_rows"}
        return json.dumps({name: value for name, value in asdict(self).items() if name not in left_out})


PAIRED = (
    Scene(most=6, public=120, within=0.2),
    Scene(most=6, public=120, within=0.6, fits=((0.0, 0.5), (0.0, 3.0), (1.0, 0.5), (1.0, 3.0)), sets=100),
)
"""Errors by ``r`` and epsilon, and plans: private people are like the public ones."""

BY_ROWS = Scene(most=6, public=120, within=0.2, sets=100, by_rows=True)
"""What the errors of the first scene are compared with: the same data sets, and the same guarantee for a person."""


def _fraction(a: int, b: int, c: int) -> tuple[tuple[float, float], ...]:
    """Return two of the six pairs of ``r`` and epsilon, by the levels of the three other factors, 0 and on.

    Any two levels of the factors ``r``, epsilon, rows, people and correlation meet in some scene.
    """
    return (0.3, EPSILONS[(a + b + c) % 3]), (1.0, EPSILONS[(a + 2 * b + c + 1) % 3])


COVERED = tuple(
    Scene(most=most, public=public, within=within, private=2000, unlike=True, fits=_fraction(a, b, c))
    for (a, most), (b, public), (c, within) in itertools.product(
        enumerate((2, 6, 20)), enumerate((60, 400)), enumerate((0.0, 0.8))
    )
)
"""Coverage: private people are unlike the public ones. A fraction of the full design of all factors."""


def visits(people: int, scene: Scene, rng: np.random.Generator, *, more: bool) -> pd.DataFrame:
    """Return rows of people: ``x`` and ``t`` are of a person, ``z`` of a row; ``more`` of them where that is said."""
    m = scene.most
    chances = np.arange(1, m + 1, dtype=float) if more else np.ones(m)
    numbers = rng.choice(np.arange(1, m + 1), people, p=chances / chances.sum())
    who = np.repeat(np.arange(people), numbers)
    middle = (numbers - 1) / (m - 1) - 0.5 if scene.unlike else np.zeros(people)
    x = (middle + rng.normal(size=people)).clip(-3, 3)[who]
    t, z = rng.integers(0, 2, people)[who], rng.normal(size=len(who)).clip(-3, 3)
    shared = np.sqrt(scene.within) * rng.normal(size=people)[who]
    u = stats.norm.cdf(shared + np.sqrt(1.0 - scene.within) * rng.normal(size=len(who)))
    y = u < special.expit(np.column_stack([np.ones(len(who)), x, t, z]) @ TRUTH)
    return pd.DataFrame({"id": who, "y": y.astype(int), "x": x, "t": t, "z": z})


def without_noise(private: pd.DataFrame, r: float) -> np.ndarray:
    """Return the weighted fit to the private rows themselves."""
    w = 1.0 / (1.0 + (private.groupby("id")["id"].transform("size") - 1) * r)
    return sm.GLM.from_formula(FORMULA, private, family=sm.families.Binomial(), freq_weights=w).fit().params.to_numpy()


def protected_by_rows(private: pd.DataFrame, public: pd.DataFrame, most: int, r: float, epsilon: float) -> np.ndarray:
    """Return the private-only estimate of a fit that protects rows of weight w(n), at epsilon over a person's most."""
    own, other = (
        rows.assign(w=1.0 / (1.0 + (rows.groupby("id")["id"].transform("size") - 1) * r)).drop(columns="id")
        for rows in (private, public)
    )
    schema = hdp.Schema({**SCHEMA, "w": hdp.Weight(max=1)})
    study = hdp.Study(private=own, public=other, schema=schema, budget=hdp.Budget(epsilon=100))
    heaviest = most / (1.0 + (most - 1) * r)
    fit = hdpf.logit(FORMULA, study, weights="w").fit(epsilon=round(epsilon / heaviest, 6))
    return fit.private_only.params.to_numpy()


def one_set(scene: Scene, seed: int) -> list[dict[str, Any]]:
    """Return what all fits of a scene give on one data set, a record for each."""
    rng = np.random.default_rng([seed, scene.most, scene.public, round(100 * scene.within)])
    private = visits(scene.private, scene, rng, more=scene.unlike)
    public = visits(scene.public, scene, rng, more=False)
    if scene.by_rows:
        return [
            {
                "r": r,
                "epsilon": epsilon,
                "off": (protected_by_rows(private, public, scene.most, r, epsilon) - TRUTH).tolist(),
            }
            for r, epsilon in scene.fits
        ]
    study = hdp.Study(
        private=private,
        public=public,
        schema=SCHEMA,
        unit="id",
        max_rows_per_unit=scene.most,
        n_max=scene.private,
        budget=hdp.Budget(epsilon=100),
    )
    found = []
    for r, pairs in itertools.groupby(scene.fits, lambda pair: pair[0]):
        epsilons = [epsilon for _, epsilon in pairs]
        model, plain, planned = hdpf.logit(FORMULA, study, correlation=r), None, None
        if not scene.unlike:
            plain = (without_noise(private, r) - TRUTH).tolist()
        if not scene.unlike and seed < PLANS:
            planned = model.plan(epsilon=epsilons).frame
        for epsilon in epsilons:
            fit = model.fit(epsilon=epsilon).private_only
            low, high = fit.conf_int().to_numpy().T
            found.append(
                {
                    "r": r,
                    "epsilon": epsilon,
                    "off": (fit.params.to_numpy() - TRUTH).tolist(),
                    "plain": plain,
                    "bse": fit.bse.to_numpy().tolist(),
                    "covered": ((low <= TRUTH) & (high >= TRUTH)).astype(int).tolist(),
                    "planned": None
                    if planned is None
                    else planned.loc[planned["epsilon"] == epsilon, "private_only"].tolist(),
                }
            )
    return found


def kept(file: Path) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """Yield scene, seed and records of each data set that was computed before: lines that were written to their end."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        if line.endswith("]"):
            yield tuple(json.loads(line))


Run = Callable[..., list[list[dict[str, Any]]]]
"""What computes `one_set` for some scenes and seeds: two processes (`together`), or this one."""


def here(work: Callable[..., list[dict[str, Any]]], *arguments: Sequence[Any], chunksize: int = 1) -> Any:
    """Return what this process makes of arguments, as `together` does in two."""
    return [work(*each) for each in zip(*arguments, strict=True)]


def completed(scene: Scene, sets: int, file: Path, run: Run) -> None:
    """Compute data sets of a scene that the file does not have yet, and add them to it."""
    known = {seed for name, seed, _ in kept(file) if name == scene.name}
    left = [seed for seed in range(sets) if seed not in known]
    for first in range(0, len(left), AT_A_TIME):
        seeds = left[first : first + AT_A_TIME]
        found = run(one_set, [scene] * len(seeds), seeds, chunksize=1)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:  # what was not written to its end ends here
            out.writelines(f"\n{json.dumps([scene.name, seed, own])}" for seed, own in zip(seeds, found, strict=True))


def computed(scenes: Sequence[Scene], sets: int, file: Path) -> Iterator[tuple[Scene, pd.DataFrame]]:
    """Yield each scene with its records of so many data sets, or as many as it has, computed where they lack."""
    for scene in scenes:
        count = min(sets, scene.sets)
        completed(scene, count, file, together)
        records = [own for name, seed, own in kept(file) if name == scene.name and seed < count]
        yield scene, pd.DataFrame(list(itertools.chain.from_iterable(records)))


if __name__ == "__main__":
    allow_infinite_public_fits()
    for each in (*PAIRED, BY_ROWS, *COVERED):
        completed(each, each.sets, Path(sys.argv[1]) if sys.argv[1:] else FILE, here)
