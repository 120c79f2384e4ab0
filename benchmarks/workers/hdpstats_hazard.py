"""Discrete-time hazard by hdpstats, from spells."""

import numpy as np

from benchmarks.spells import Spells
from benchmarks.workers.hazard import main
from hdpstats.families.hazard.likelihood import HazardData, fit_hazard


def prepare(spells: Spells) -> HazardData:
    """Return the spells, all at risk from the first interval on."""
    people = len(spells.exit)
    return HazardData(
        A=spells.A,
        Z=spells.Z,
        entry=np.zeros(people, dtype=np.int64),
        exit=spells.exit,
        event=spells.event,
        weights=np.ones(people),
        offset=np.zeros(people),
    )


def fit(data: HazardData) -> np.ndarray:
    """Return baseline coefficients and slopes."""
    return fit_hazard(data, "logit").theta


if __name__ == "__main__":
    main(prepare=prepare, fit=fit, packages=["hdpstats", "numpy", "numba"])
