"""Maximum likelihood by statsmodels, on the private rows or on the public ones; no privacy."""

import numpy as np
import statsmodels.api as sm

from benchmarks.workers.measure import main


def prepare(data: dict[str, np.ndarray], *, rows: str) -> sm.Logit:
    """Return the model of the private or of the public rows."""
    suffix = {"private": "", "public": "_public"}[rows]
    return sm.Logit(data["y" + suffix], sm.add_constant(data["X" + suffix]))


def fit(model: sm.Logit) -> np.ndarray:
    """Return intercept and slopes."""
    return np.asarray(model.fit(disp=False).params)


if __name__ == "__main__":
    main(prepare=prepare, fit=fit, packages=["statsmodels", "numpy"])
