"""Simulated fits by rounds at several sites, through the public API, beside objective perturbation at each site."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.designs import ar_design
from hdpstats.records.estimate import Estimate
from tests.statistical.monte_carlo import together

COLUMNS = 10
NAMES = [f"x{j + 1}" for j in range(COLUMNS)]
FORMULA = "y ~ " + " + ".join(NAMES)


@dataclass(frozen=True)
class Rounds:
    """How many people each site has, what each spends, by which mechanism; ``rounds`` of 0 is objective perturbation.

    ``stops``: sites that answer the first round only, the last ones. ``draws``: how many fits, each with noise of its
    own, every data set has, of which the mean is taken.
    """

    sizes: tuple[int, ...]
    epsilons: tuple[float, ...]
    delta: float = 1e-6
    rounds: int = 3
    stops: int = 0
    draws: int = 1

    @property
    def mechanism(self) -> hdp.mechanisms.ClippedNewton | str:
        """What `fit` is given."""
        return hdp.mechanisms.ClippedNewton(rounds=self.rounds) if self.rounds else "objective"


def equal(total: int, count: int, *, epsilon: float = 1.0, **options) -> Rounds:
    """Return equal sites with a number of people in all."""
    return Rounds(sizes=(total // count,) * count, epsilons=(epsilon,) * count, **options)


class OnlyOnce(hdp.Site):
    """A site that answers one query and stops."""

    def __init__(self, site: hdp.Site) -> None:
        self.site, self.left = site, 1

    schema = property(lambda self: self.site.schema)
    records = property(lambda self: self.site.records)
    terms = property(lambda self: self.site.terms)

    def put_public(self, table: object) -> None:
        self.site.put_public(table)

    def answer(self, query: object) -> object:
        if not self.left:
            raise hdp.SiteError("it stopped")
        self.left -= 1
        return self.site.answer(query)


def model_of(rounds: Rounds, seed: int) -> tuple[hdp.Logit, np.ndarray]:
    """Return the model on simulated records at the sites, and the true coefficients."""
    X, y, X_public, y_public, beta = ar_design(sum(rounds.sizes), COLUMNS, 200, seed)
    frame = pd.DataFrame(X, columns=NAMES).assign(y=y)
    schema = hdp.Schema(
        {name: hdp.Continuous(-1, 1, complete=True) for name in NAMES} | {"y": hdp.Binary(complete=True)}
    )
    ends = np.cumsum(rounds.sizes)
    frames = {
        f"s{k}": frame.iloc[end - size : end] for k, (end, size) in enumerate(zip(ends, rounds.sizes, strict=True))
    }
    public = pd.DataFrame(X_public, columns=NAMES).assign(y=y_public)
    study = hdp.Study(private=frames, public=public, schema=schema, budget=hdp.Budget(epsilon=100, delta=1e-3))
    stopping = list(frames)[len(frames) - rounds.stops :]
    if stopping:
        sites = {name: OnlyOnce(site) if name in stopping else site for name, site in study.sites.items()}
        study = hdp.Study(private=sites, public=public)
    return hdpf.logit(FORMULA, data=study), beta


def one_data_set(rounds: Rounds, seed: int) -> dict[str, float]:
    """Simulate the records of all sites and fit them."""
    model, beta = model_of(rounds, seed)
    found = [_one_fit(rounds, model, beta, replicate=draw) for draw in range(1, rounds.draws + 1)]
    return pd.DataFrame(found).mean().to_dict()


def _one_fit(rounds: Rounds, model: hdp.Logit, beta: np.ndarray, *, replicate: int) -> dict[str, float]:
    own = {f"s{k}": epsilon for k, epsilon in enumerate(rounds.epsilons)}
    epsilon = own if len(set(rounds.epsilons)) > 1 else rounds.epsilons[0]
    result = model.fit(epsilon, delta=rounds.delta, mechanism=rounds.mechanism, replicate=replicate)
    sites = [site.estimate for site in result.site_facts if site.estimate is not None]
    told = result.heterogeneity
    return {
        "pooled": _error(result.pooled, beta),
        "private": _error(result.private_only, beta),
        "public": _error(result.penalised, beta),
        "reported": float(np.linalg.norm(result.bse) / np.linalg.norm(beta)),
        "covered private": _covered(result.private_only, beta),
        "covered pooled": _covered(result.pooled, beta),
        "covered sites": float(np.mean([_covered(each, beta) for each in sites or [result.private_only]])),
        "heterogeneous": np.nan if told is None else float(told.overall.pvalue < 0.05),
    }


def simulate(rounds: Rounds, *, repeats: int) -> pd.DataFrame:
    """Return one row per data set."""
    return pd.DataFrame(together(partial(one_data_set, rounds), range(1, repeats + 1), chunksize=2))


def _error(estimate: Estimate, beta: np.ndarray) -> float:
    return float(np.linalg.norm(estimate.values - beta) / np.linalg.norm(beta))


def _covered(estimate: Estimate, beta: np.ndarray) -> float:
    limits = estimate.conf_int().to_numpy()
    return float(np.mean((limits[:, 0] <= beta) & (beta <= limits[:, 1])))
