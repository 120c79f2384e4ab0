"""Public bounds of floats' errors and of contributions, against people far out, near the radius and inside it."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import HdpWarning
from hdpstats.losses import LINKS
from hdpstats.records.geometry import at_radius

RADIUS = 2.0
SCHEMA = hdp.Schema(
    a=hdp.Continuous(-40, 40, complete=True),
    b=hdp.Continuous(-40, 40, complete=True),
    y=hdp.Binary(complete=True),
    score=hdp.Continuous(-20, 20, complete=True),
    level=hdp.Categorical(["u", "v", "w"], complete=True),
    time=hdp.Duration(100, complete=True),
)
MODELS = {
    "logit": lambda study: hdpf.logit("y ~ a + b", study),
    "squares": lambda study: hdpf.linear("score ~ a + b", study),
    "multinomial": lambda study: hdpf.multinomial("level ~ a + b", study),
    **{
        f"hazard, {link}": lambda study, link=link: hdpf.hazard("Surv(time, y) ~ a + b", study, intervals=10, link=link)
        for link in LINKS
    },
}


def frame(size: float, n: int = 400) -> pd.DataFrame:
    """Return people whose covariates are of a size, in all directions."""
    rng = np.random.default_rng(8)
    angle = rng.uniform(0.0, 2.0 * math.pi, n)
    return pd.DataFrame(
        {
            "a": size * np.cos(angle),
            "b": size * np.sin(angle),
            "y": rng.integers(0, 2, n).astype(float),
            "score": rng.normal(size=n),
            "level": rng.choice(["u", "v", "w"], n),
            "time": rng.uniform(1.0, 100.0, n),
        }
    )


def people_of(name: str):
    """Return the loss of a person in a geometry of public rows, and people inside of its radius, at it and beyond."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HdpWarning)
        spec = MODELS[name](hdp.Study(public=frame(1.0), schema=SCHEMA))._spec
    model = spec.ask(epsilon=Fraction(1), records=1000, share=Fraction(0), replicate=1).model
    person_loss = spec.person_loss(replace(model, geometry=at_radius(model.geometry, RADIUS)))
    edge = RADIUS * math.sqrt(0.5)  # of whitened rows
    studies = [hdp.Study(public=frame(size * edge), schema=SCHEMA) for size in (0.3, 0.9, 1.0, 1.1, 1.5, 2.0, 20.0)]
    return person_loss, [person_loss.people(study.public.admitted(person_loss.needs)) for study in studies]


@pytest.mark.parametrize("name", MODELS)
def test_public_bounds_hold_for_people_at_every_distance(name: str) -> None:
    person_loss, groups = people_of(name)
    D, rng = person_loss.dimension, np.random.default_rng(3)
    zero, largest, nearest = np.zeros(D), 0.0, 0.0
    for people in groups:
        task = people.objective(ridge=zero, centre=zero, linear=zero)
        for size in (1.0, 1e3, 1e9, 1e14):
            direction = rng.standard_normal(D)
            theta = size * direction / np.linalg.norm(direction)
            own, public = task.gradient_error(theta), person_loss.rounding(size, people=people.count)
            assert own <= 1.01 * public, "whoever asks adds a hundredth"
            nearest = max(nearest, own / public)
            known = getattr(task, "bounds", None)
            summand = math.ldexp(1.0, 50 - task.grid_bits) if known is None else known.summand
            found = np.max(np.abs(people.scores(theta)))
            assert found <= (1.0 + 2.0**-30) * summand
            largest = max(largest, float(found) / summand)
    assert nearest > 0.97, "with smaller constants it would not hold"
    assert largest > (0.5 if name == "squares" else 0.89), "nor with smaller ones"
