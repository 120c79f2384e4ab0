"""The simulation studies behind ``vignettes/validation/weights.md``: hybrid weights through the public API."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.histogram import PerturbedHistogram
from hdpstats.papers import wang
from tests.statistical.monte_carlo import together

SIZES = np.arange(10, 2_961, 50)
BETA = (-0.8, 0.6, -0.4, 0.5, 0.9)
"""Intercept, a, b, c[m], c[h]."""

LEVELS = ["l", "m", "h"]


@cache
def papers_pair() -> wang.Pair:
    """The simulation of Wang et al. (2018), section 5.1, with the coefficients of their figure 2."""
    return wang.simulated_hospitals(
        seed=1, beta_private=np.array([0.2, 0.4]), beta_public=np.array([0.5, -0.1]), private=10_000, public=10_000
    )


def _away(theta: object) -> float:
    return float(np.linalg.norm(np.asarray(theta) - wang.fit(papers_pair().private)))


def public_only() -> float:
    """How far the fit to the public records is from the private one."""
    return _away(wang.fit(papers_pair().public))


def papers_algorithm(seed: int) -> dict[str, float]:
    """Errors of Algorithm 2 with 60 sizes, with the size that it chooses and with the best in hindsight."""
    run = wang.tradeoff(papers_pair(), SIZES, epsilon=1, seed=seed)
    errors = [_away(theta) for theta in run.coefficients]
    return {"chosen": errors[SIZES.tolist().index(run.chosen)], "hindsight": min(errors)}


def released_samples(_: int) -> dict[str, float]:
    """Errors of what this package offers for a total epsilon of 2."""
    pair = papers_pair()
    private, public = pair.frames()
    study = hdp.Study(private=private, public=public, schema=pair.schema(), budget=hdp.Budget(epsilon=100))
    model = hdpf.logit("y ~ 0 + x1 + x2", data=study)

    def weighted(**options: object) -> float:
        sample = hdp.hybrid_weights(study, ["x1", "x2", "y"], epsilon=2, **options)
        return _away(wang.fit(pair.public, sample.weights.to_numpy()))

    return {
        "all points": weighted(),
        "select": weighted(select=True),
        "loss": weighted(select="loss", model="y ~ 0 + x1 + x2"),
        "histogram": _away(model.fit(2, mechanism=PerturbedHistogram(bins=20)).params),
        "logit": _away(model.fit(2).params),
    }


def _discrete(rng: np.random.Generator, rows: int, shares: tuple[float, ...], beta: tuple[float, ...]) -> pd.DataFrame:
    a, b = (rng.random((2, rows)) < np.array(shares[:2])[:, None]).astype(int)
    c = rng.choice(3, rows, p=shares[2:])
    eta = beta[0] + beta[1] * a + beta[2] * b + np.array([0.0, beta[3], beta[4]])[c]
    return pd.DataFrame(
        {
            "a": a,
            "b": b,
            "c": pd.Categorical.from_codes(c, LEVELS),
            "y": (rng.random(rows) < expit(eta)).astype(int),
        }
    )


PRIVATE_SHARES, PUBLIC_SHARES = (0.7, 0.2, 0.3, 0.4, 0.3), (0.4, 0.4, 0.5, 0.3, 0.2)


@cache
def discrete_truth() -> dict[str, float]:
    """The true means of the private population and the true coefficients."""
    pa, pb, *pc = PRIVATE_SHARES
    y = sum(
        (pa if a else 1 - pa)
        * (pb if b else 1 - pb)
        * pc[c]
        * expit(BETA[0] + BETA[1] * a + BETA[2] * b + (0.0, BETA[3], BETA[4])[c])
        for a in (0, 1)
        for b in (0, 1)
        for c in range(3)
    )
    coefficients = dict(zip(("Intercept", "a", "b", "c[T.m]", "c[T.h]"), BETA, strict=True))
    return {"mean a": pa, "mean b": pb, "mean c = h": pc[2], "mean y": float(y)} | coefficients


def discrete_coverage(seed: int, *, epsilon: float, projection: str) -> dict[str, bool]:
    """Whether intervals hold the truth: 2,000 private and 600 public people of other shares and another outcome."""
    rng = np.random.default_rng(seed)
    study = hdp.Study(
        private=_discrete(rng, 2_000, PRIVATE_SHARES, BETA),
        public=_discrete(rng, 600, PUBLIC_SHARES, (-0.3, 0.2, 0.0, 0.1, 0.3)),
        schema=hdp.Schema(
            a=hdp.Binary(complete=True),
            b=hdp.Binary(complete=True),
            c=hdp.Categorical(LEVELS, complete=True),
            y=hdp.Binary(complete=True),
        ),
        budget=hdp.Budget(epsilon=epsilon),
    )
    sample = hdp.hybrid_weights(study, ["a", "b", "c", "y"], epsilon=epsilon, projection=projection)
    limits = {f"mean {name}": sample.mean(name).conf_int() for name in ("a", "b", "y")}
    limits["mean c = h"] = sample.mean(lambda d: d["c"] == "h").conf_int()
    table = sample.fit(hdpf.logit, "y ~ a + b + c").conf_int()
    limits |= {
        str(term): (float(low), float(high)) for term, (low, high) in zip(table.index, table.to_numpy(), strict=True)
    }
    return _held(limits, discrete_truth())


CONTINUOUS_TRUTH = {"mean x1": 0.0, "mean x2": 0.0, "mean y": 0.5, "x1": 0.2, "x2": 0.4}


def continuous_coverage(seed: int, *, epsilon: float, select: bool) -> dict[str, bool]:
    """The same for the paper's normal covariates, 5,000 records each: nearest is not the same."""
    pair = wang.simulated_hospitals(
        seed=1_000 + seed,
        private=5_000,
        public=5_000,
        beta_private=np.array([0.2, 0.4]),
        beta_public=np.array([0.5, -0.1]),
    )
    private, public = pair.frames()
    study = hdp.Study(private=private, public=public, schema=pair.schema(), budget=hdp.Budget(epsilon=epsilon))
    sample = hdp.hybrid_weights(study, ["x1", "x2", "y"], epsilon=epsilon, select=select)
    limits = {f"mean {name}": sample.mean(name).conf_int() for name in ("x1", "x2", "y")}
    table = sample.fit(hdpf.logit, "y ~ 0 + x1 + x2").conf_int()
    limits |= {
        str(term): (float(low), float(high)) for term, (low, high) in zip(table.index, table.to_numpy(), strict=True)
    }
    return _held(limits, CONTINUOUS_TRUTH)


def _held(limits: dict[str, tuple[float, float]], truth: dict[str, float]) -> dict[str, bool]:
    return {name: bool(low <= truth[name] <= high) for name, (low, high) in limits.items()}


def repeated(job: Callable[..., dict[str, object]], repeats: int, **options: object) -> pd.DataFrame:
    """Return a row per repeat of a job, whose argument is its number."""
    return pd.DataFrame(together(partial(job, **options), range(repeats), chunksize=2))
