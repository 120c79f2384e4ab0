"""Simulated fits at several sites: real minimisers of perturbed objectives, with the noise of the mechanism."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from benchmarks.designs import ar_design
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.families.regression.spec import RegressionSpec, open_regression
from hdpstats.inference import draws
from hdpstats.inference.combination import ReleasedPoint
from hdpstats.losses.options import Logistic
from hdpstats.mechanisms.perturbation import ObjectiveRelease
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.models.estimates import estimates
from hdpstats.models.points import Objective
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import whiten
from hdpstats.solvers import minimise
from tests.statistical.monte_carlo import together

COLUMNS = 10
NAMES = [f"x{j + 1}" for j in range(COLUMNS)]


@dataclass(frozen=True)
class Sites:
    """How many people each site has, what each spends, how many public people there are.

    ``apart``: standard deviation of each slope between sites, in units of the mean size of a slope.
    """

    sizes: tuple[int, ...]
    epsilons: tuple[float, ...]
    public: int = 200
    apart: float = 0.0


def equal(total: int, count: int, *, epsilon: float = 1.0, **options) -> Sites:
    """Return equal sites with a number of people in all."""
    return Sites(sizes=(total // count,) * count, epsilons=(epsilon,) * count, **options)


def one_data_set(sites: Sites, seed: int) -> dict[str, float]:
    """Simulate the records of all sites, release a point of each, and combine them."""
    X, y, X_public, y_public, beta = ar_design(sum(sites.sizes), COLUMNS, sites.public, seed)
    spec, rng = _spec(X_public, y_public), np.random.default_rng(seed + 10**6)
    if sites.apart:
        y = _other_outcomes(X, beta, sites, rng)
    ends = np.cumsum(sites.sizes)
    parts = [
        _released(spec, X[end - size : end], y[end - size : end], epsilon=epsilon, rng=rng)
        for end, size, epsilon in zip(ends, sites.sizes, sites.epsilons, strict=True)
    ]
    found = estimates(parts, T=spec.to_terms(parts[0].query.model), terms=spec.terms)
    alone = [site.estimate for site in found.sites]
    told = found.heterogeneity
    return {
        "private": _error(found.private_only.values, beta),
        "pooled": _error(found.pooled.values, beta),
        "unweighted": _error(np.mean([each.values for each in alone], axis=0), beta),
        "best site": min(_error(each.values, beta) for each in alone),
        "covered private": _covered(found.private_only, beta),
        "covered pooled": _covered(found.pooled, beta),
        "covered sites": float(np.mean([_covered(each, beta) for each in alone])),
        "heterogeneous": np.nan if told is None else float(told.overall.pvalue < 0.05),
        "heterogeneous terms": np.nan if told is None else float(np.mean([q.pvalue < 0.05 for q in told.by_term])),
    }


def simulate(sites: Sites, *, repeats: int) -> pd.DataFrame:
    """Return one row per data set."""
    return pd.DataFrame(together(partial(one_data_set, sites), range(repeats), chunksize=2))


def _spec(X: np.ndarray, y: np.ndarray) -> RegressionSpec:
    schema = hdp.Schema(
        {name: hdp.Continuous(-1, 1, complete=True) for name in NAMES} | {"y": hdp.Binary(complete=True)}
    )
    study = hdp.Study(public=pd.DataFrame(X, columns=NAMES).assign(y=y), schema=schema)
    formula = "y ~ " + " + ".join(NAMES)
    return open_regression(formula, study, Logistic(), name="Logit", weights=None, offset=None, row_norm=None)


def _other_outcomes(X: np.ndarray, beta: np.ndarray, sites: Sites, rng: np.random.Generator) -> np.ndarray:
    """Return outcomes where every site has slopes of its own."""
    spread = sites.apart * float(np.mean(np.abs(beta[1:])))
    slopes = np.repeat([beta[1:] + spread * rng.standard_normal(COLUMNS) for _ in sites.sizes], sites.sizes, axis=0)
    risk = 1.0 / (1.0 + np.exp(-np.einsum("ij,ij->i", X, slopes)))
    return (rng.random(len(X)) < risk).astype(np.float64)


def _released(
    spec: RegressionSpec, X: np.ndarray, y: np.ndarray, *, epsilon: float, rng: np.random.Generator
) -> ReleasedPoint:
    """Return a site's part: its own query, the minimiser of the objective with noise of the calibrated distribution."""
    n = len(y)
    query = spec.ask(epsilon=Fraction(str(epsilon)), records=n, share=Fraction(0), replicate=1)
    person_loss = spec.person_loss(query.model)
    rate = float(
        perturbation.calibrate_objective(query, person_loss, records=n, relation=Relation.REPLACE_ONE).noise_rate
    )
    distribution = NoiseDistribution(norm=person_loss.norm, dimension=person_loss.dimension, rate=rate)
    columns = X[:, np.argsort(NAMES)]  # in the order of a query's canonical formula
    rows, D = whiten(query.model.geometry, np.column_stack([np.ones(n), columns])), person_loss.dimension
    people = RegressionRows(loss=spec.loss, X=rows.X, y=y, weights=rows.weights, offset=np.zeros(n))
    centre = np.array(query.centre)
    perturbed = people.penalised(
        ridge=np.full(D, float(query.ridge)), centre=centre, linear=draws.perturbation(rng, distribution, count=1)[0]
    )
    release = ObjectiveRelease(
        theta=tuple(minimise(perturbed, start=centre).theta.tolist()),
        hessian=None,
        noise_rate=rate,
        hessian_noise_sd=0.0,
        grid=2.0**-30,
        records=n,
        events=(),
    )
    return ReleasedPoint(
        query=query,
        release=release,
        noise=Objective().noise_of(query, release, person_loss),
        public=spec.side(query.model),
        records=n,
        curvature=float(person_loss.trace) / (2.0 * D),
    )


def _error(values: np.ndarray, beta: np.ndarray) -> float:
    return float(np.linalg.norm(values - beta) / np.linalg.norm(beta))


def _covered(estimate: Estimate, beta: np.ndarray) -> float:
    limits = estimate.conf_int().to_numpy()
    return float(np.mean((limits[:, 0] <= beta) & (beta <= limits[:, 1])))
