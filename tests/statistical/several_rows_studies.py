"""Simulated studies of people with several rows: logistic regressions by objective perturbation, by correlation.

Outcomes of a person follow a Gaussian copula, so that the marginal model holds whatever the correlation. Data sets are
paired: all epsilons and all ``r`` are tried on the same rows. What was computed is kept in a file, line by line, so
that a study which was stopped goes on.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import special, stats

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical.monte_carlo import together

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


@dataclass(frozen=True)
class Scene:
    """A setting: the most rows of a person, people, the correlation of a person's outcomes, and which fits are made.

    In ``unlike`` scenes private people have more rows than public ones, whose covariate ``x`` depends on how many.
    """

    most: int
    public: int
    within: float
    private: int = 3000
    unlike: bool = False
    correlations: tuple[float, ...] = (0.0, 0.25, 0.6, 1.0)
    epsilons: tuple[float, ...] = EPSILONS

    @property
    def name(self) -> str:
        """The scene in one line of text."""
        return json.dumps(asdict(self))


PAIRED = tuple(Scene(most=6, public=120, within=within) for within in (0.2, 0.6))
"""Errors by ``r`` and epsilon, and plans: private people are like the public ones."""

COVERED = tuple(
    Scene(most=most, public=public, within=within, private=2000, unlike=True, correlations=(0.3, 1.0))
    for most in (2, 6, 20)
    for public in (60, 400)
    for within in (0.0, 0.8)
)
"""Coverage: private people are unlike the public ones."""


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


def one_set(scene: Scene, seed: int) -> list[dict[str, Any]]:
    """Return what all fits of a scene give on one data set, a record for each."""
    rng = np.random.default_rng([seed, scene.most, scene.public, round(100 * scene.within)])
    private = visits(scene.private, scene, rng, more=scene.unlike)
    public = visits(scene.public, scene, rng, more=False)
    found = []
    for r in scene.correlations:
        study = hdp.Study(
            private=private,
            public=public,
            schema=SCHEMA,
            unit="id",
            max_rows_per_unit=scene.most,
            n_max=scene.private,
            budget=hdp.Budget(epsilon=100),
        )
        model, plain = hdpf.logit(FORMULA, study, correlation=r), without_noise(private, r)
        plan = model.plan(epsilon=scene.epsilons).frame
        for epsilon in scene.epsilons:
            fit = model.fit(epsilon=epsilon).private_only
            low, high = fit.conf_int().to_numpy().T
            found.append(
                {
                    "r": r,
                    "epsilon": epsilon,
                    "off": (fit.params.to_numpy() - TRUTH).tolist(),
                    "plain": (plain - TRUTH).tolist(),
                    "bse": fit.bse.to_numpy().tolist(),
                    "covered": ((low <= TRUTH) & (high >= TRUTH)).astype(int).tolist(),
                    "planned": plan.loc[plan["epsilon"] == epsilon, "private_only"].tolist(),
                }
            )
    return found


def kept(file: Path) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """Yield scene, seed and records of each data set that was computed before: lines that were written to their end."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        if line.endswith("]"):
            yield tuple(json.loads(line))


def computed(scenes: Sequence[Scene], sets: int, file: Path) -> Iterator[tuple[Scene, pd.DataFrame]]:
    """Yield each scene with its records of so many data sets, computed where the file does not have them yet."""
    for scene in scenes:
        known = {seed for name, seed, _ in kept(file) if name == scene.name}
        left = [seed for seed in range(sets) if seed not in known]
        for first in range(0, len(left), AT_A_TIME):
            seeds = left[first : first + AT_A_TIME]
            found = together(one_set, [scene] * len(seeds), seeds, chunksize=1)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as out:  # what was not written to its end ends here
                out.writelines(
                    f"\n{json.dumps([scene.name, seed, own])}" for seed, own in zip(seeds, found, strict=True)
                )
        yield (
            scene,
            pd.DataFrame(
                [each for name, seed, own in kept(file) if name == scene.name and seed < sets for each in own]
            ),
        )
