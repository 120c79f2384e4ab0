"""Simulation studies of pooling: intervals where coefficients differ, and plans against what fits then report."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference import draws
from hdpstats.inference.pooling import pool
from hdpstats.inference.sandwich import of_point
from hdpstats.models.points import Objective
from hdpstats.models.request import fit_request
from hdpstats.models.site_records import planned_records
from hdpstats.public.moments import PublicFit
from hdpstats.records.geometry import whiten
from tests.statistical.studies import PATIENTS, patients_schema

EPSILONS: Final = (0.5, 1.0, 3.0)
SIZE: Final = 0.3
DIFFERENCES: Final = ("none", "all", "one", "two")
ONE_SCALE: Final = np.concatenate([[0.0], np.geomspace(1e-4, 30.0, 80)])


@dataclass(frozen=True)
class Design:
    """Covariances of a private estimate and of the public fit, and how many of the coefficients' units they are in.

    ``terms`` are in the order of the coefficients of a query.
    """

    terms: tuple[str, ...]
    private: dict[float, np.ndarray]
    fit: PublicFit
    directions: np.ndarray


def rotterdam_from_gbsg(sites: int = 1) -> Design:
    """Return the design: the private covariance is that of Rotterdam's own rows, in GBSG's whitening."""
    private, public = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
    model = hdpf.logit(PATIENTS, data=hdp.Study(public=public, schema=patients_schema()))
    own = hdpf.logit(PATIENTS, data=hdp.Study(public=private, schema=patients_schema()))._spec.public
    spec, rows = model._spec, own.X @ np.linalg.inv(_whitening(own.geometry)).T
    covariances = {}
    for epsilon in EPSILONS:
        request = fit_request(epsilon, mechanism="objective", describe=False)
        (site,) = planned_records(spec, request, {"": len(private) // sites}, averages=False).values()
        query = Objective().ask(spec, request.mechanism, site)
        _, noise = Objective().expected(spec, query, site)
        whitened = whiten(query.model.geometry, rows)
        ones = np.ones(len(rows))
        side = replace(
            spec.side(query.model), X=whitened.X, mallows=whitened.weights, weights=ones, offset=0.0 * ones, y=None
        )
        covariances[epsilon] = of_point(side, noise=noise, records=site.records).covariance / sites
    fit = spec.public.fit
    terms = tuple(spec.terms[place] for place in spec.asked.to_terms.argmax(axis=0))
    return Design(terms=terms, private=covariances, fit=fit, directions=np.hstack(fit.parts))


def _whitening(geometry):
    """Return the matrix (D, D) from design rows to whitened ones."""
    m, A = geometry.arrays()
    whole = np.eye(len(m) + 1)
    whole[1:, 1:], whole[1:, 0] = A, -A @ m
    return whole


def difference(kind: str, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Return what separates private from public coefficients, in public standard deviations of the columns."""
    if kind == "all":
        return rng.normal(0.0, SIZE, dimension)
    found = np.zeros(dimension)
    count = {"none": 0, "one": 1, "two": 2}[kind]
    found[rng.choice(dimension, count, replace=False)] = SIZE * rng.choice([-1.0, 1.0], count)
    return found


@dataclass(frozen=True)
class Pooled:
    """Whether intervals cover (repeats, D), and errors in standard units (repeats, D): of fits, of others.

    ``one_scale`` has one scale by maximum likelihood, ``known`` the true sizes of differences, which no fit can know.
    """

    covered: np.ndarray
    errors: np.ndarray
    one_scale: np.ndarray
    one_scale_covered: np.ndarray
    known: np.ndarray


def pooled_intervals(design: Design, epsilon: float, kind: str, *, repeats: int) -> Pooled:
    """Draw both estimates with normal errors and pool them: as the package does, and in two other ways."""
    rng = np.random.default_rng([int(10 * epsilon), DIFFERENCES.index(kind)])
    Vu, fit, M = design.private[epsilon], design.fit, design.directions
    D, back = len(Vu), np.linalg.inv(design.directions)
    rows = []
    for number in range(repeats):
        private, apart = draws.normal(rng, Vu, 1)[0], difference(kind, D, rng)
        public = replace(fit, theta=M @ apart + draws.normal(rng, fit.covariance, 1)[0], penalty=None)
        found = pool(private, Vu, public)
        own = draws.generator(f"{number:064x}")
        count = 8 * len(found.weights)
        errors = found.errors(draws.normal(own, Vu, count), found.apart(own, count)) @ back.T
        half = np.quantile(np.abs(errors), 0.95, axis=0)
        K = _one_scale(private - public.theta, Vu, fit.covariance)
        alone = public.theta + K @ (private - public.theta)
        reach = 1.959964 * np.sqrt(np.diag(back @ K @ Vu @ back.T))
        sizes = np.full(D, SIZE) if kind == "all" else np.abs(apart)
        T = fit.covariance + (M * sizes**2) @ M.T
        known = public.theta + T @ np.linalg.solve(T + Vu, private - public.theta)
        error, other = back @ found.point, back @ alone
        rows.append((np.abs(error) <= half, error, other, np.abs(other) <= reach, back @ known))
    return Pooled(*(np.array(column) for column in zip(*rows, strict=True)))


def _one_scale(d: np.ndarray, private: np.ndarray, public: np.ndarray) -> np.ndarray:
    """Return the weight of the private estimate under one scale of largest likelihood, taken as known."""
    sizes, axes = np.linalg.eigh(private + public)
    spread = sizes[None, :] + ONE_SCALE[:, None]
    minus = np.sum(np.log(spread) + (axes.T @ d) ** 2 / spread, axis=1)
    apart = public + float(ONE_SCALE[np.argmin(minus)]) * np.eye(len(d))
    return apart @ np.linalg.inv(apart + private)


MECHANISMS: Final = {
    "objective": {},
    "objective, described": {"describe": True},
    "objective, 3 sites": {"sites": 3},
    "output": {"mechanism": "output"},
    "clipped_newton": {"mechanism": "clipped_newton", "delta": 1e-6},
    "clipped_newton, 3 sites": {"mechanism": "clipped_newton", "delta": 1e-6, "sites": 3},
    "public_hessian": {"mechanism": "public_hessian"},
    "histogram": {"mechanism": "histogram"},
    "exponential": {"mechanism": "exponential", "delta": 1e-6},
}


def planned_against_reported(options: dict, epsilon: float, *, splits: int, public: int = 500) -> np.ndarray:
    """Return predicted over reported standard errors (splits, D) of random splits of Rotterdam."""
    frame, ratios = hdp.datasets.load_rotterdam(), []
    options = {"describe": False, **options}
    sites = options.pop("sites", 1)
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(frame))
        private: pd.DataFrame | dict[str, pd.DataFrame] = frame.iloc[order[public:]]
        if sites > 1:
            private = {f"site {k}": frame.iloc[order[public + k :: sites]] for k in range(sites)}
        study = hdp.Study(
            private=private,
            public=frame.iloc[order[:public]],
            schema=patients_schema(),
            budget=hdp.Budget(epsilon=100, delta=1e-3),
        )
        model = hdpf.logit(PATIENTS, data=study)
        ratios.append(
            model.plan(epsilon, **options).frame["std_error"].to_numpy() / model.fit(epsilon, **options).bse.to_numpy()
        )
    return np.array(ratios)


@dataclass(frozen=True)
class FewEffects:
    """A design of which only one column matters: what, of how many normal columns, its effect, people, epsilon.

    The ``effect`` is a slope of a number or of log odds; of a multinomial outcome that of each level beside the
    reference.
    """

    model: str
    columns: int
    effect: float | tuple[float, ...]
    public: int
    records: int
    epsilon: float = 1.0

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of a multinomial outcome."""
        return tuple("pqrst"[: 1 + np.size(self.effect)])

    def __str__(self) -> str:
        """Name it as in the page's table."""
        effect = " ".join(f"{each:g}" for each in np.atleast_1d(self.effect))
        return f"{self.model}, {self.columns} columns | {effect} | {self.public:,}, {self.records:,}"

    def rows(self, count: int, rng: np.random.Generator) -> pd.DataFrame:
        """Draw people."""
        X = np.clip(rng.standard_normal((count, self.columns)), -4.0, 4.0)
        frame = pd.DataFrame(X, columns=self.names)
        eta = np.outer(X[:, 0], np.atleast_1d(self.effect))
        if self.model == "linear":
            return frame.assign(y=np.clip(eta[:, 0] + rng.standard_normal(count), -6.0, 6.0))
        if self.model == "logit":
            return frame.assign(y=(rng.logistic(size=count) < eta[:, 0]).astype(int))
        chosen = np.argmax(np.column_stack([np.zeros(count), eta]) + rng.gumbel(size=(count, len(self.levels))), axis=1)
        return frame.assign(y=np.array(self.levels)[chosen])

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [f"x{place}" for place in range(self.columns)]

    def fit(self, seed: int) -> hdp.Result:
        """Draw people and fit the model."""
        rng = np.random.default_rng(seed)
        private, public = self.rows(self.records, rng), self.rows(self.public, rng)
        outcome = {"linear": hdp.Continuous(-6, 6), "logit": hdp.Binary()}.get(self.model)
        schema = hdp.Schema(
            {name: hdp.Continuous(-4, 4) for name in self.names} | {"y": outcome or hdp.Categorical(list(self.levels))}
        )
        study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=100))
        make = {"linear": hdpf.linear, "logit": hdpf.logit, "multinomial": hdpf.multinomial}[self.model]
        return make("y ~ " + " + ".join(self.names), data=study).fit(self.epsilon)


FEW_EFFECTS: Final = (
    FewEffects("logit", 8, 0.5, 200, 3_000),
    FewEffects("logit", 12, 0.5, 300, 3_000),
    FewEffects("logit", 20, 0.45, 100, 4_800),
    FewEffects("logit", 20, 0.45, 320, 4_800),
    FewEffects("logit", 20, 0.7, 320, 4_800),
    FewEffects("linear", 20, 0.3, 200, 3_000),
    FewEffects("multinomial", 5, (0.5,) * 4, 400, 6_000),
    FewEffects("multinomial", 5, (0.3, 0.6, 0.9, 1.2), 400, 6_000),
    FewEffects("multinomial", 5, (0.8, 0.0, 0.0, 0.0), 400, 6_000),
    FewEffects("multinomial", 5, (0.0,) * 4, 400, 6_000),
    FewEffects("multinomial", 6, (0.5,) * 4, 120, 3_000),
)


def few_effects(seed: int, design: FewEffects) -> dict[str, np.ndarray]:
    """Return errors of all coefficients in a simulated study, and whether 95 % intervals hold the truth."""
    result = design.fit(seed)
    slopes = np.zeros((np.size(design.effect), 1 + design.columns))
    slopes[:, 1] = design.effect
    truth, found = slopes.ravel(), {}
    for name in ("pooled", "private_only"):
        estimate = getattr(result, name)
        limits = estimate.conf_int().to_numpy()
        found[name] = estimate.params.to_numpy() - truth
        found[f"{name} covered"] = (limits[:, 0] <= truth) & (truth <= limits[:, 1])
    return found | {"effects": truth != 0.0}
