"""Penalised sums of losses, made in one call for tests."""

from dataclasses import replace
from typing import Any

import numpy as np

from hdpstats.families.hazard.rows import HazardRows
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.solvers import Penalised, Rows


def linear_objective(*, ridge: Any, centre: Any, linear: Any, **rows: Any) -> Penalised:
    """Return the objective of rows with one linear predictor."""
    return RegressionRows(**rows).penalised(ridge=ridge, centre=centre, linear=linear)


def multinomial_objective(*, ridge: Any, centre: Any, linear: Any, **rows: Any) -> Penalised:
    """Return the objective of rows with a predictor for each other level."""
    return MultinomialRows(**rows).penalised(ridge=ridge, centre=centre, linear=linear)


def hazard_objective(*, ridge: Any, centre: Any, linear: Any, spells: CappedSpells, bounds: Any = None) -> Penalised:
    """Return the objective of spells, each of a person of its own."""
    rows = HazardRows(spells=spells, person=np.arange(len(spells.Z)), number=len(spells.Z), bounds=bounds)
    return rows.penalised(ridge=ridge, centre=centre, linear=linear)


def with_rows(objective: Penalised, rows: Rows) -> Penalised:
    """Return an objective with other rows."""
    return rows.penalised(ridge=objective.ridge, centre=objective.centre, linear=objective.linear)


def changed(objective: Penalised, **columns: Any) -> Penalised:
    """Return an objective whose rows are changed in some fields."""
    rows: Any = objective.rows
    return with_rows(objective, replace(rows, **columns))


def value_of(objective: Penalised, theta: Any) -> float:
    """Return the value of an objective to float accuracy."""
    rows: Any = objective.rows
    return float(rows.value(theta) + objective.penalty(theta) + objective.linear @ theta)
