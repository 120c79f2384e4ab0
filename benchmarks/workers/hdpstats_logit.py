"""Differentially private logistic regression by hdpstats, with public rows or with a declared row norm."""

from typing import NamedTuple

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.workers.measure import main


class Prepared(NamedTuple):
    """What the custodian has at hand before the fit."""

    private: pd.DataFrame
    public: pd.DataFrame | None
    epsilon: float


def _frame(X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    columns = {f"x{position}": column for position, column in enumerate(X.T, start=1)}
    return pd.DataFrame({"y": y.astype(int), **columns})


def prepare(data: dict[str, np.ndarray], *, epsilon: float, public: bool) -> Prepared:
    """Return the frames, the public one only if it is to be used."""
    return Prepared(
        private=_frame(data["X"], data["y"]),
        public=_frame(data["X_public"], data["y_public"]) if public else None,
        epsilon=epsilon,
    )


def fit(prepared: Prepared) -> np.ndarray:
    """Return intercept and slopes of a fresh release: declaration, study and ledger are made anew."""
    covariates = [name for name in prepared.private if name != "y"]
    declared = {name: hdp.Continuous(-1, 1, complete=True) for name in covariates}
    schema = hdp.Schema(declared, y=hdp.Binary(complete=True))
    study = hdp.Study(
        private=prepared.private,
        public=prepared.public,
        schema=schema,
        budget=hdp.Budget(epsilon=prepared.epsilon),
    )
    bound = {} if prepared.public is not None else {"row_norm": 1.0}
    model = hdpf.logit("y ~ " + " + ".join(covariates), data=study, **bound)
    return model.fit(epsilon=prepared.epsilon, se_share=0).params.to_numpy()


if __name__ == "__main__":
    main(prepare=prepare, fit=fit, packages=["hdpstats", "numpy"])
