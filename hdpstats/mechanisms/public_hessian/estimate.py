r"""Standard errors of Newton steps with a public Hessian: the steps are repeated, linearised, on drawn public people.

The released coefficients without the ridge's pull, :math:`b = \hat b + \lambda (N H_0 / n_0)^{-1} \hat b`, are taken
for the truth. Each draw reweights the public people (a Bayesian bootstrap, weights ``w``), which moves their gradient
at ``b`` by :math:`s_w`, their Hessian, and the start; and it draws the private people's gradient at ``b``,
:math:`S \sim N(0, n J)`, and the noise :math:`\nu_t` of every round from its exact distribution. The error ``e`` of the
coefficients follows the steps,

.. math:: e \leftarrow e - A_{w,t}^{-1} \{ n \bar H_t e + S + H_{w,t} e + s_w + \lambda (b + e) + \nu_t \},

with :math:`A_{w,t}` the matrix of step ``t`` under ``w``, and :math:`\bar H_t`, :math:`H_{w,t}` mean Hessians between
``b`` and where the round was asked, of one person and of the public people under ``w``. It is linear in the noise, so
that its two parts are told apart; the first has the bias of the ridge. What is not covered: that private people's
covariates differ from the public ones', and that covariates were cut (the coefficients are those of cut covariates).

The private-only estimate is the last step without the public people's gradient, a site's own that with its people's
only; both keep the public Hessian.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.mechanisms.public_hessian.request import Newton, Queries, Releases, change, place_of
from hdpstats.mechanisms.score_sums import sum_noise
from hdpstats.records.estimate import ErrorDistribution, Estimate, Estimates, SiteEstimate

DRAWS = 2000
CHUNK = 250

NOTE = (
    "Public and private people are taken as one population; the coefficients are those of a model in which covariates, "
    "standardised by public rows, are cut at {truncation:g} standard deviations."
)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Path:
    """The rounds of a fit, and the coefficients (D,) where they ended."""

    asked: Sequence[Queries]
    answered: Sequence[Releases]
    end: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Error:
    """An error (B, D) in two parts: sampling, and the noise of releases."""

    sampling: FloatArray
    privacy: FloatArray


def estimates(
    state: Newton, path: Path, *, penalised: Estimate | None, T: FloatArray, terms: tuple[str, ...]
) -> Estimates:
    """Return the estimate of everybody, of private people alone, and each site's own.

    ``T`` (p, D) maps standardised coefficients to those that ``terms`` (p) name.
    """
    last, theta = path.answered[-1], place_of(path.asked[-1])
    groups = {"": tuple(last)} | {name: (name,) for name in last}
    parts = [_errors(state, path, groups, start) for start in range(0, DRAWS, CHUNK)]
    found = {}
    for group in (None, *groups):
        values = path.end if group is None else theta + _private_change(state, theta, last, groups[group])
        error = _Error(
            sampling=np.concatenate([part[group].sampling for part in parts]) @ T.T,
            privacy=np.concatenate([part[group].privacy for part in parts]) @ T.T,
        )
        found[group] = _estimate("pooled" if group is None else "private only", T @ values, error, terms, state)
    people = sum(state.sites[name].records for name in last)
    return Estimates(
        penalised=penalised,
        private_only=found[""],
        pooled=found[None],
        sites=tuple(
            SiteEstimate(estimate=found[name], weight=state.sites[name].records / max(people, 1)) for name in last
        ),
    )


def _private_change(state: Newton, theta: FloatArray, answers: Releases, names: Sequence[str]) -> FloatArray:
    """Return the last step of some sites' people alone."""
    gradient = sum((np.array(answers[name].total) for name in names), np.zeros_like(theta))
    return change(state, theta, gradient, people=sum(state.sites[name].records for name in names))


def _estimate(label: str, values: FloatArray, error: _Error, terms: tuple[str, ...], state: Newton) -> Estimate:
    number = len(error.sampling)
    return Estimate(
        label=label,
        terms=terms,
        values=values,
        sampling=error.sampling.T @ error.sampling / number,
        privacy=error.privacy.T @ error.privacy / number,
        distribution=ErrorDistribution.of_draws(error.sampling + error.privacy),
        note=NOTE.format(truncation=state.truncation),
    )


def _errors(state: Newton, path: Path, groups: Mapping[str, Sequence[str]], place: int) -> dict[str | None, _Error]:
    """Return draws of the errors of the last step: of everybody (None) and of groups of sites."""
    seeds = [release.sha256 for answers in path.answered for release in answers.values()]
    rng = draws.generator(*seeds, f"{place:x}")
    world = _world(state, path, rng)
    error = _Error(sampling=world.start, privacy=np.zeros_like(world.start))
    for number, (asked, answered) in enumerate(zip(path.asked, path.answered, strict=True)):
        theta = place_of(asked)
        noise = {name: draws.perturbation(rng, sum_noise(release), count=CHUNK) for name, release in answered.items()}
        before, curvature = error, _public_hessians(state.public.X, world.weights, theta)
        error = _after(state, world, before, theta, curvature, noise, public=True)
        if number == state.rounds - 1:
            own = {
                key: _after(state, world, before, theta, curvature, {name: noise[name] for name in names}, public=False)
                for key, names in groups.items()
            }
    return {None: error} | own


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _World:
    """What is drawn once for all rounds.

    Weights of public people (B, n0) of mean 1, their gradient at the truth (B, D), each site's people (B,) and gradient
    there (B, D), the truth (D,), and the error of the start (B, D).
    """

    weights: FloatArray
    score: FloatArray
    people: Mapping[str, FloatArray]
    scores: Mapping[str, FloatArray]
    truth: FloatArray
    start: FloatArray


def _world(state: Newton, path: Path, rng: draws.Generator) -> _World:
    public, truth = state.public, _without_ridge(state, path)
    X, n = public.X, public.number
    p = expit(X @ truth)
    weights = n * draws.dirichlet(rng, n, CHUNK)
    score = (weights - 1.0) @ ((p - public.y)[:, None] * X)
    J = X.T @ ((p * (1.0 - p))[:, None] * X) / n
    sites = {name: state.sites[name] for name in path.asked[0]}
    people = {
        name: np.maximum(site.records + site.records_sd * rng.standard_normal(CHUNK), 1.0)
        for name, site in sites.items()
    }
    scores = {name: draws.normal(rng, site.records * J, CHUNK) for name, site in sites.items()}
    start = np.tile(-truth, (CHUNK, 1))
    if state.from_public:
        ridge = state.public_ridge
        hessian = _public_hessians(X, weights, truth) + ridge * np.eye(len(truth))
        start = -_solved(hessian, score + ridge * truth)
    return _World(weights=weights, score=score, people=people, scores=scores, truth=truth, start=start)


def _without_ridge(state: Newton, path: Path) -> FloatArray:
    """Return the coefficients (D,) without the ridge's pull, as the public Hessian has it."""
    public = state.public
    people = public.number + sum(state.sites[name].records for name in path.answered[-1])
    curvature = people / public.number * public.hessian(path.end)
    return path.end + np.asarray(np.linalg.lstsq(curvature, state.ridge * path.end, rcond=1e-6)[0], dtype=np.float64)


def _after(
    state: Newton,
    world: _World,
    error: _Error,
    theta: FloatArray,
    curvature: FloatArray,
    noise: Mapping[str, FloatArray],
    *,
    public: bool,
) -> _Error:
    """Return the error after a step from ``theta`` with the gradients of some sites, and of public people if so.

    ``curvature`` (B, D, D) are the Hessians of the public people at ``theta``.
    """
    X, n, ridge, names = state.public.X, state.public.number, state.ridge, tuple(noise)
    everybody = sum(state.sites[name].records for name in names) + n * public
    matrix = everybody / n * curvature + ridge * np.eye(len(theta))
    between = _mean_curvature(X @ theta, X @ world.truth)
    mean = X.T @ (between[:, None] * X) / n
    people = sum((world.people[name] for name in names), np.zeros(len(world.weights)))
    own = _hessians(X, world.weights, between) if public else np.zeros((1, 1, 1))

    def pulled(e: FloatArray) -> FloatArray:
        of_public = np.einsum("bij,bj->bi", np.broadcast_to(own, matrix.shape), e)
        return np.asarray(people[:, None] * (e @ mean) + of_public + ridge * e)

    drawn = sum(world.scores[name] for name in names) + ridge * world.truth + world.score * public
    total = sum(noise.values(), np.zeros_like(error.privacy))
    return _Error(
        sampling=error.sampling - _solved(matrix, pulled(error.sampling) + drawn),
        privacy=error.privacy - _solved(matrix, pulled(error.privacy) + total),
    )


def _public_hessians(X: FloatArray, weights: FloatArray, theta: FloatArray) -> FloatArray:
    p = expit(X @ theta)
    return _hessians(X, weights, p * (1.0 - p))


def _hessians(X: FloatArray, weights: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return the Hessians (B, D, D) of rows under weights (B, n)."""
    i, j = np.triu_indices(X.shape[1])
    stacked = weights @ (curvature[:, None] * X[:, i] * X[:, j])
    out = np.empty((len(weights), X.shape[1], X.shape[1]))
    out[:, i, j] = stacked
    out[:, j, i] = stacked
    return out


def _mean_curvature(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the mean of the logistic curvature between linear predictors (n,)."""
    apart, p = one - other, expit(one)
    near = np.abs(apart) < 1e-5
    return np.asarray(np.where(near, p * (1.0 - p), (p - expit(other)) / np.where(near, 1.0, apart)))


def _solved(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(matrices, vectors[:, :, None])[:, :, 0])
