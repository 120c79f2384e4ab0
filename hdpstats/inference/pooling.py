r"""What separates private from public coefficients, and the estimate that pools both.

The private-only estimate ``u`` errs by :math:`N(0, V_u)`, the public fit by :math:`N(0, V_{pub})`, and private people
have coefficients that differ from those of public people by :math:`\delta = \sum_j \delta_j p_j`,

.. math:: u - \theta_{pub} \sim N(\delta,\; V_u + V_{pub}), \qquad
          \delta_j \mid \tau_j \sim N(0, \tau_j^2), \qquad
          \tau_j^2 = A^2 \nu / \chi^2_\nu, \qquad A \sim a \, |t_\nu|, \qquad \nu = 4.

The directions :math:`p_j` are coefficients: along one of them a single coefficient changes, by one unit for each
standard deviation that its column has in public rows; the intercept is that of an average public row, and the shape of
hazards in time counts as one. Of a multinomial outcome they are those of each level, the reference among them: along
that of the reference the coefficients of all others are one less. Each has a scale of its own, so that :math:`\delta_j`
has Student's distribution with :math:`\nu` degrees of freedom: one coefficient that differs much is recognised as such,
and does not cost the others what public rows tell of them. The common scale ``A`` is learned from all coefficients:
where nothing differs, the estimate comes close to that by inverse variances. DerSimonian and Laird (1986) have ``A``
alone. Half-Student priors of
a scale are those of Gelman (2006). A half-Cauchy one, whose tails are longer, makes intervals useless where private
people say next to nothing of the scales.

Given the scales, with :math:`T = \sum_j \tau_j^2 p_j p_j'`, the estimate of least mean squared error is

.. math:: \theta_{pub} + K (u - \theta_{pub}), \qquad K = (V_{pub} + T)(V_{pub} + T + V_u)^{-1}.

The scales are drawn given the data, by Gibbs sampling of :math:`\delta` and the scales in turn. The pooled estimate is
the average over the draws, and its error has the draws' spread in it: intervals are wide where the data leave open
whether a coefficient differs. One scale chosen by maximum likelihood, and taken as known, covered 0.91 where one
coefficient in seven differed (``vignettes/decisions`` 0040).

The random numbers are the same for every release: nodes of an integral. The estimate is then a smooth function of what
was released, and does not depend on the order of sites.

**Weights of people** that bound what one person tells make those count who are near the public ones
(`hdpstats.public.row_weights`). Where private people are unlike public ones the private-only estimate then errs
*towards* the public fit, and the cause is the same for both: coefficients are not the same for all people. So the error
:math:`e_w` that is allowed for, of covariance :math:`L L'`, has a correlation :math:`r` with what separates
coefficients, :math:`\delta = \sum_j \tau_j z_j p_j`:

.. math:: e_w = -r L z + \sqrt{1 - r^2}\, L z', \qquad
          \operatorname{cov}\{K e_w, -(I - K)\delta\} = r K L\, \operatorname{diag}(\tau) P' (I - K)'.

:math:`r` is .7 times the square of how far described means and shares lie from public ones, in public standard
deviations, the largest, at most 1. Taken as independent, 95 % intervals of a linear fit to 3,000 people, whose public
ones were older by a standard deviation, covered a slope in .76 (``vignettes/decisions`` 0103). The weights ``K`` are
the same: the correlation is a guess, and only errors are made to hold for it. Standard errors count it along directions
where they grow by it.

**Predictions** (`expected_covariance`, `expected_pull`) average over differences by chance alone, and over scales given
each of them. Plans compare them between numbers of people, so that they are smooth functions of covariances: one has
more draws (Latin hypercubes; the symmetric root of a covariance, as axes of eigenvectors change their order and signs),
its chains start with draws from the priors, and scales are at most `LARGEST` times `SCALE`. So the more private people
say, the less is predicted. The chains of an estimate start elsewhere (`STARTS`), and ten steps do not forget that
altogether where private people say little: an estimate's standard errors are on average as predicted (to 1.5 %) where
the private one errs as much as the public one or less, 3 to 12 % larger where it errs 5 times as much, and 10 to 25 %
larger where it errs 20 times as much.

References
----------
A. Gelman (2006), Prior distributions for variance parameters in hierarchical models. R. DerSimonian, N. Laird (1986),
Meta-analysis in clinical trials. S. Geman, D. Geman (1984), Stochastic relaxation, Gibbs distributions, and the
Bayesian restoration of images. M. Wand, J. Ormerod, S. Padoan, R. Frühwirth (2011), Mean field variational Bayes for
elaborate distributions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.special import gammaincinv, ndtri, stdtrit

from hdpstats._base.caching import remembered
from hdpstats._base.compiled import compiled_reordered
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.inference import draws
from hdpstats.inference.meta_analysis import heterogeneity
from hdpstats.public.moments import PublicFit
from hdpstats.public.row_weights import Allowance
from hdpstats.records.estimate import CochranQ, Heterogeneity

DEGREES = 4.0
"""``nu``: degrees of freedom of a coefficient's difference, and of the common scale."""

SCALE = 0.2
"""``a``: the size of the common scale beforehand, in coefficients per public standard deviation of the column.

Of losses that are no likelihood, times half a residual standard deviation (`hdpstats.families.regression.public`).
"""

CHAINS = 250
"""Independent chains, each of which gives one draw of the scales."""

SWEEPS = 10
"""Steps of a chain."""

STARTS = (0.03, 1.0)
"""The smallest and the largest common scale that chains start with."""

LEAST = 1e-6
"""Share of the public fit's variances that is added where estimates are compared: public rows may tell nothing."""

FLAT = 1e-12
"""Variances of a difference are taken to be at least this share of the largest."""

DATA_SETS, EACH = 1000, 2
"""Differences by chance alone that a prediction averages over, and chains for each of them."""

EXPECTED_SWEEPS = 5
"""Steps of a chain of a prediction."""

LARGEST = 10.0
"""The largest scale of a prediction, in units of `SCALE`.

The variance of a square of a scale is infinite beforehand: where private people say next to nothing, one draw in
thousands would be a good part of the average. So a fifth of the square's average is left out there.
"""

AT_ONCE = 250
"""Matrices in memory at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scales:
    """Draws of the scales of what separates private from public coefficients.

    ``directions`` (D, q) are the ``p_j``, at least as many as coefficients, ``squares`` (B, q) the ``tau_j^2`` of each
    draw.
    """

    directions: FloatArray
    squares: FloatArray

    @property
    def roots(self) -> FloatArray:
        """Of each draw, ``R`` (B, D, q) with ``R R'`` the covariance of the differences."""
        return np.asarray(self.directions * np.sqrt(self.squares)[:, None, :])

    @property
    def covariances(self) -> FloatArray:
        """The covariances (B, D, D) of the differences: sums of squares times products of directions."""
        D = len(self.directions)
        products = self.directions[:, None, :] * self.directions[None, :, :]
        return np.asarray((self.squares @ products.reshape(D * D, -1).T).reshape(-1, D, D))

    def towards(self, covariance: FloatArray) -> FloatArray:
        """Return a root ``L`` (D, q) of a covariance such that ``-L z`` moves an estimate towards the public fit.

        ``z`` are the standard normal numbers of `Pooling.apart_along`. Of all roots it is the one for which the trace
        of ``L R'`` is largest, ``R`` being the `roots` averaged over draws.
        """
        root = symmetric_root(covariance)
        scaled = self.directions * np.mean(np.sqrt(self.squares), axis=0)
        left, _, right = np.linalg.svd(root @ scaled, full_matrices=False)
        return np.asarray(root @ left @ right)

    def through(self, standard: FloatArray) -> FloatArray:
        """Return differences (n B, D) of standard normal numbers (n, B, q); draws take turns."""
        return np.asarray((standard * np.sqrt(self.squares)).reshape(-1, standard.shape[2]) @ self.directions.T)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pooling:
    """The pooled estimate and what its error is made of, in whitened coordinates.

    Attributes
    ----------
    point : (D,) float64
        The pooled estimate.
    weight : (D, D) float64
        ``K``, averaged over the draws.
    weights : (B, D, D) float64
        ``K`` of each draw of the scales.
    moved : (B, D) float64
        How far the estimate of each draw is from the pooled one.
    scales : Scales
        The draws of the scales.
    private : (D, D) float64
        ``V_u``.
    fit : PublicFit
        The public fit.
    """

    point: FloatArray
    weight: FloatArray
    weights: FloatArray
    moved: FloatArray
    scales: Scales
    private: FloatArray
    fit: PublicFit

    @property
    def covariance(self) -> FloatArray:
        """The covariance (D, D) of the pooled estimate's error."""
        return self.covariance_of(self.private) + self.others

    @property
    def others(self) -> FloatArray:
        """The part (D, D) of that covariance that is not an error of the private estimate."""
        rest = np.eye(len(self.point)) - self.weights
        apart = self.fit.error + self.scales.covariances
        own = np.mean(rest @ apart @ np.swapaxes(rest, 1, 2), axis=0)
        return np.asarray(own + self.moved.T @ self.moved / len(self.moved))

    def covariance_of(self, part: FloatArray) -> FloatArray:
        """Return what a part (D, D) of the private estimate's covariance adds to that of the pooled one."""
        return np.asarray(np.mean(self.weights @ part @ np.swapaxes(self.weights, 1, 2), axis=0))

    def apart(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return draws (count, D) of what separates private coefficients from the public fit; see `apart_along`."""
        return self.apart_along(rng, count)[0]

    def apart_along(self, rng: draws.Generator, count: int) -> tuple[FloatArray, FloatArray]:
        """Return draws (count, D) of what separates private coefficients from the public fit, and normal numbers.

        The standard normal numbers (count, q) are those that coefficients differ by, along each direction in units of
        its scale. ``count`` is a multiple of the number of draws of the scales, which take turns.
        """
        D, (B, q) = len(self.point), self.scales.squares.shape
        public, private = np.hsplit(draws.matched(rng.standard_normal((count, D + q))), [D])
        apart = draws.spread(self.fit.error, public) + self.scales.through(private.reshape(count // B, B, q))
        return np.asarray(apart), np.asarray(private)

    def through(self, error: FloatArray) -> FloatArray:
        """Return what a part (count, D) of the private estimate's error adds to that of the pooled one."""
        return _by_turns(self.weights, error.reshape(-1, *self.moved.shape))

    def errors(self, private: FloatArray, apart: FloatArray) -> FloatArray:
        """Return the pooled estimate's errors (count, D), from those of the private one and from what separates."""
        moved = np.tile(self.moved, (len(apart) // len(self.moved), 1))
        return self.through(private + apart) - apart - moved

    def truth(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return draws (count, D) of how far the private coefficients are from the pooled estimate."""
        private = draws.matched(rng.standard_normal((count, len(self.private))))
        return -self.errors(draws.spread(self.private, private), self.apart(rng, count))


def pool(private: FloatArray, covariance: FloatArray, fit: PublicFit, *, scales: Scales | None = None) -> Pooling:
    """Return the pooled estimate of a private one (D,), of which the error has a covariance (D, D).

    ``scales`` are those that were drawn before, for estimates close by.
    """
    difference = private - fit.theta
    if scales is None:
        scales = _scales(difference[:, None], covariance + fit.error, fit)
    weights = _weights(scales, covariance, fit)
    changes = weights @ difference
    weight = weights.mean(axis=0)
    return Pooling(
        point=fit.theta + weight @ difference,
        weight=weight,
        weights=weights,
        moved=changes - weight @ difference,
        scales=scales,
        private=covariance,
        fit=fit,
    )


def pooled_point(private: FloatArray, covariance: FloatArray, fit: PublicFit) -> FloatArray:
    """Return the point of `pool` alone, in less time."""
    difference = (private - fit.theta)[:, None]
    scales = _scales(difference, covariance + fit.error, fit)
    whole = scales.covariances
    whole += fit.error + covariance
    return np.asarray(private - covariance @ np.linalg.solve(whole, difference).mean(axis=0)[:, 0])


def disagreement(
    private: FloatArray,
    errors: FloatArray,
    *,
    pooling: Pooling,
    seeds: Sequence[str],
    T: FloatArray,
    known: BoolArray | None = None,
) -> Heterogeneity:
    r"""Return Cochran's Q of a private estimate (D,) and the public fit.

    The public fit has a prior, which shrinks it. So the private estimate is shrunk alike before they are compared, and
    the public fit errs by sampling alone: where public rows tell nothing, nothing is compared.

    Parameters
    ----------
    private, errors
        The estimate, and draws (B, D) of its error. Those of the public fit's error are normal.
    pooling
        The covariance of the estimate, and the public fit.
    seeds
        The hashes of the releases that the estimate came from.
    T : (p, D) float64
        From whitened coefficients to those that are tabulated.
    known : (p,) bool or None
        Which of these the private-only estimate has: the others are not compared, and have NaN. None stands for all.
    """
    rng, fit = draws.generator(*seeds, "public fit"), pooling.fit
    own, variance, public, place = errors, pooling.private, fit.covariance, private
    if fit.penalty is not None:
        kept = np.eye(len(private)) - fit.penalty.B
        own, variance, public = errors @ kept.T, kept @ variance @ kept.T, fit.penalty.sampling
        place = fit.penalty.of_estimate(private)
    least = LEAST * np.diag(np.diag(fit.covariance))
    both = np.array([own + draws.normal(rng, least, len(own)), draws.normal(rng, public + least, len(own))])
    values, variances = np.array([place, fit.theta]), [variance + least, public + least]
    if known is None or known.all():
        return heterogeneity(values, variances, both, T=T)
    return _of_some(values, variances, both, T=T, known=known)


def _of_some(
    values: FloatArray, variances: Sequence[FloatArray], errors: FloatArray, *, T: FloatArray, known: BoolArray
) -> Heterogeneity:
    """Return Cochran's Q of the ``known`` coefficients (p,) of ``T`` (p, D), each of the others with NaN.

    Q of the known ones together uses their own covariance: the others are averaged over, and not held fixed.
    """
    nothing = CochranQ(statistic=float("nan"), df=0, pvalue=float("nan"))
    if not known.any():
        return Heterogeneity(overall=nothing, by_term=(nothing,) * len(T))
    some, count = T[known], int(known.sum())
    found = heterogeneity(
        values @ some.T, [some @ each @ some.T for each in variances], errors @ some.T, T=np.eye(count)
    )
    own = iter(found.by_term)
    return replace(found, by_term=tuple(next(own) if is_known else nothing for is_known in known))


def expected_covariance(
    covariance: FloatArray, fit: PublicFit, *, apart: FloatArray | float = 0.0, weights: Allowance | None = None
) -> FloatArray:
    """Return the covariance (D, D) that `pool` reports on average where private and public people are alike.

    ``apart`` (D,) is what separates the estimates even then, as where they are estimates of different coefficients;
    ``weights`` are what weights of people may do, of which ``covariance`` has a part.
    """
    left, changes = _alike(covariance, fit, apart=apart, weights=weights)
    turns = changes.reshape(DATA_SETS, EACH, len(covariance))
    moved = (turns - turns.mean(axis=1, keepdims=True)).reshape(changes.shape)
    return np.asarray(left + moved.T @ moved / (DATA_SETS * (EACH - 1)))


def expected_pull(covariance: FloatArray, fit: PublicFit) -> FloatArray:
    """Return second moments (D, D) of how far private coefficients lie from the public fit, as `pool` has it.

    They are the average over private estimates by chance, where private and public people are alike: the square of how
    far the pooled estimate lies from the public fit, and the covariance that it is reported with.
    """
    left, changes = _alike(covariance, fit, apart=0.0, weights=None)
    return np.asarray(left + changes.T @ changes / len(changes))


def _alike(
    covariance: FloatArray, fit: PublicFit, *, apart: FloatArray | float, weights: Allowance | None
) -> tuple[FloatArray, FloatArray]:
    """Return the covariance (D, D) given the scales, and how far estimates move from the public fit (B, D)."""
    both, seen = covariance + fit.error, _Seen.of(covariance + fit.error, fit)
    nodes = _expected_nodes(len(both), tuple(seen.widths.tolist()))
    differences = np.repeat(apart + nodes.differences.T @ symmetric_root(both), EACH, axis=0)
    pulls = seen.pulls(differences.T)
    common, delta = _started(pulls, seen, nodes, unit=fit.unit)
    squares = _squares(pulls, seen, nodes.sweeps, unit=fit.unit, common=common, delta=delta)
    np.minimum(squares, (LARGEST * SCALE * fit.unit) ** 2, out=squares)
    scales = Scales(directions=seen.directions, squares=squares.T)
    weight, changes, alike = np.zeros_like(covariance), np.empty_like(differences), np.zeros_like(covariance)
    towards = None if weights is None or not weights.unlike else weights.unlike * scales.towards(weights.covariance)
    for first in range(0, len(changes), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        some = replace(scales, squares=scales.squares[part])
        K = _weights(some, covariance, fit)
        weight += K.sum(axis=0) / len(changes)
        changes[part] = np.einsum("bij,bj->bi", K, differences[part])
        if towards is not None:
            rest = np.swapaxes(np.eye(len(weight)) - K, 1, 2)
            alike += np.sum(K @ towards @ np.swapaxes(some.roots, 1, 2) @ rest, axis=0) / len(changes)
    left = covariance @ weight.T  # (I - K)(V_pub + T) = V_u K'
    return 0.5 * (left + left.T) + positive_part(alike), changes


def positive_part(cross: FloatArray) -> FloatArray:
    """Return what two errors of which the covariance is ``cross`` (D, D) add by it, along directions where they do.

    It is the positive part of ``cross + cross'``: where they would take away nothing is taken.
    """
    sizes, axes = np.linalg.eigh(cross + cross.T)
    return np.asarray((axes * np.maximum(sizes, 0.0)) @ axes.T)


def symmetric_root(covariance: FloatArray) -> FloatArray:
    """Return the symmetric root (D, D) of a covariance: a continuous function of it."""
    sizes, axes = np.linalg.eigh(covariance)
    return np.asarray((axes * np.sqrt(np.maximum(sizes, 0.0))) @ axes.T)


def _by_turns(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return products (n B, D) of matrices (B, D, D) and vectors (n, B, D): matrices take turns."""
    products = np.ascontiguousarray(np.swapaxes(vectors, 0, 1)) @ np.swapaxes(matrices, 1, 2)
    return np.asarray(np.swapaxes(products, 0, 1).reshape(-1, vectors.shape[2]), dtype=np.float64)


def _weights(scales: Scales, covariance: FloatArray, fit: PublicFit) -> FloatArray:
    """Return ``K`` (B, D, D) of each draw."""
    apart = fit.error + scales.covariances
    return np.asarray(np.swapaxes(np.linalg.solve(apart + covariance, apart), 1, 2))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Seen:
    """What differences tell of each direction: ``root`` (D, D) whitens them, ``precision`` is ``M' V^{-1} M`` (q, q).

    ``M`` are the ``directions`` (D, q), ``V`` the covariance of the differences; each scale has as many successive
    directions as ``widths`` says.
    """

    directions: FloatArray
    root: FloatArray
    precision: FloatArray
    widths: IntArray

    @classmethod
    def of(cls, covariance: FloatArray, fit: PublicFit) -> "_Seen":
        """Return it from the covariance (D, D) of differences."""
        parts = fit.parts or tuple(np.eye(len(covariance))[:, [j]] for j in range(len(covariance)))
        directions = np.hstack(parts)
        sizes, axes = np.linalg.eigh(covariance)
        root = axes / np.sqrt(np.maximum(sizes, FLAT * max(sizes[-1], np.finfo(float).tiny)))
        seen, widths = root.T @ directions, np.array([part.shape[1] for part in parts])
        return cls(directions=directions, root=root, precision=seen.T @ seen, widths=widths)

    def pulls(self, difference: FloatArray) -> FloatArray:
        """Return ``M' V^{-1} d`` (q, B) of differences ``d`` (D, B)."""
        return np.asarray((self.root.T @ self.directions).T @ (self.root.T @ difference))


_Sweep = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""The random numbers of a step of B chains.

Gamma variables of the scales (k, B) and of the common one (B,) and (B,), and normal ones (q, B), of which the last step
has none.
"""


def _scales(difference: FloatArray, covariance: FloatArray, fit: PublicFit) -> Scales:
    """Return a draw of each chain, for differences (D, 1) that they share or (D, B) of their own."""
    seen = _Seen.of(covariance, fit)
    pulls = seen.pulls(difference)
    start = np.linalg.solve(seen.precision + (STARTS[1] * fit.unit) ** -2.0 * np.eye(len(pulls)), pulls)
    squares = _squares(
        pulls,
        seen,
        _nodes(tuple(seen.widths.tolist())),
        unit=fit.unit,
        common=(fit.unit * np.geomspace(*STARTS, CHAINS)) ** 2,
        delta=np.broadcast_to(start, (len(pulls), CHAINS)).copy(),
    )
    return Scales(directions=seen.directions, squares=squares.T)


def _squares(
    pulls: FloatArray, seen: _Seen, sweeps: Sequence[_Sweep], *, unit: float, common: FloatArray, delta: FloatArray
) -> FloatArray:
    r"""Return draws of the scales' squares (q, B), one for each direction.

    Parameters
    ----------
    pulls
        ``M' V^{-1} d`` (q, 1) or (q, B) of the differences ``d``, ``M`` the directions.
    seen
        What differences tell of each direction.
    sweeps
        The random numbers of each step.
    unit
        What `SCALE` is in units of.
    common, delta
        Where chains start: squares of the common scale (B,), and what separates people along each direction (q, B).

    Given the squares a coordinate of :math:`\delta` is normal given the others. Given :math:`\delta` a square is
    ``A^2`` over a Gamma variable, and ``A^2`` is one over a Gamma variable, given a further one that makes ``A``
    half-Student (Wand, Ormerod, Padoan and Frühwirth 2011). Random numbers enter as factors: draws are smooth functions
    of the differences.
    """
    common, delta, pulls = (
        common.copy(),
        delta.copy(),
        np.require(np.broadcast_to(pulls, delta.shape), None, ["C", "W"]),
    )
    shares, flat = np.empty((len(seen.widths), delta.shape[1])), (SCALE * unit) ** -2.0
    for gammas, gamma, last, standard in sweeps:
        _sweep(gammas, gamma, last, standard, pulls, seen.precision, seen.widths, flat, common, shares, delta)
    return np.asarray(np.repeat(common / shares, seen.widths, axis=0))


@compiled_reordered
def _sweep(
    gammas: FloatArray,
    gamma: FloatArray,
    last: FloatArray,
    standard: FloatArray,
    pulls: FloatArray,
    precision: FloatArray,
    widths: IntArray,
    flat: float,
    common: FloatArray,
    shares: FloatArray,
    delta: FloatArray,
) -> None:
    """Draw ``shares`` (k, B) and ``common`` (B,) given ``delta`` (q, B), and that anew where ``standard`` are given."""
    rate, pulled, j = np.zeros(len(common)), np.empty(len(common)), 0
    for part in range(len(widths)):
        share, gammas_of = shares[part], gammas[part]
        share[:] = 0.0
        for _ in range(widths[part]):
            moved = delta[j]
            for b in range(len(common)):
                share[b] += moved[b] * moved[b]
            j += 1
        for b in range(len(common)):
            length = share[b]
            share[b] = gammas_of[b] / (0.5 * (DEGREES + length / common[b]))
            rate[b] += 0.5 * share[b] * length
    for b in range(len(common)):
        common[b] = (DEGREES * gamma[b] / (DEGREES / common[b] + flat) + rate[b]) / last[b]
    if len(standard) == 0:
        return
    j = 0
    for part in range(len(widths)):
        share = shares[part]
        for _ in range(widths[part]):
            pulled[:] = 0.0
            for i in range(len(delta)):
                factor, other = precision[j, i] if i != j else 0.0, delta[i]
                for b in range(len(common)):
                    pulled[b] += factor * other[b]
            own, to, z, pull = precision[j, j], delta[j], standard[j], pulls[j]
            for b in range(len(common)):
                spread = 1.0 / (own + share[b] / common[b])
                to[b] = (pull[b] - pulled[b]) * spread + z[b] * np.sqrt(spread)
            j += 1


@remembered(4)
def _nodes(widths: tuple[int, ...]) -> tuple[_Sweep, ...]:
    """Return the random numbers of each sweep, the same for all differences: Gamma variables and normal ones."""
    rng, q = draws.nodes(), sum(widths)
    shapes = (DEGREES + np.array(widths)[:, None]) / 2.0
    return tuple(
        (
            rng.standard_gamma(shapes, (len(widths), CHAINS)),
            rng.standard_gamma((DEGREES + 1.0) / 2.0, CHAINS),
            rng.standard_gamma((DEGREES + q) / 2.0, CHAINS),
            rng.standard_normal((q, CHAINS)) if step < SWEEPS else np.empty((0, 0)),
        )
        for step in range(SWEEPS + 1)
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _ExpectedNodes:
    """The random numbers of a prediction: of differences, of where chains start, and of each sweep.

    ``differences`` (D, `DATA_SETS`) are standard normal, ``common`` (B,) half-Student, ``gammas`` (k, B) Gamma
    variables, ``standard`` (q, B) standard normal.
    """

    differences: FloatArray
    common: FloatArray
    gammas: FloatArray
    standard: FloatArray
    sweeps: tuple[_Sweep, ...]


@remembered(4)
def _expected_nodes(D: int, widths: tuple[int, ...]) -> _ExpectedNodes:
    """Return the random numbers of a prediction, the same for all covariances (D, D): Latin hypercubes."""
    rng, k, q, B = draws.nodes(), len(widths), sum(widths), DATA_SETS * EACH
    shapes = (DEGREES + np.array(widths)[:, None]) / 2.0
    return _ExpectedNodes(
        differences=ndtri(draws.latin_hypercube(rng, D, DATA_SETS)),
        common=stdtrit(DEGREES, 0.5 + 0.5 * draws.latin_hypercube(rng, 1, B)[0]),
        gammas=gammaincinv(DEGREES / 2.0, draws.latin_hypercube(rng, k, B)),
        standard=ndtri(draws.latin_hypercube(rng, q, B)),
        sweeps=tuple(
            (
                gammaincinv(shapes, draws.latin_hypercube(rng, k, B)),
                gammaincinv((DEGREES + 1.0) / 2.0, draws.latin_hypercube(rng, 1, B)[0]),
                gammaincinv((DEGREES + q) / 2.0, draws.latin_hypercube(rng, 1, B)[0]),
                ndtri(draws.latin_hypercube(rng, q, B)) if step < EXPECTED_SWEEPS else np.empty((0, 0)),
            )
            for step in range(EXPECTED_SWEEPS + 1)
        ),
    )


def _started(pulls: FloatArray, seen: _Seen, nodes: _ExpectedNodes, *, unit: float) -> tuple[FloatArray, FloatArray]:
    """Return squares of the common scale (B,) from its prior, and draws (q, B) of what separates people.

    The draws are given the differences, and squares of the scales that have their distribution given the common one.
    """
    common = (SCALE * unit * nodes.common) ** 2
    inverse = np.repeat(nodes.gammas / (0.5 * DEGREES * common), seen.widths, axis=0).T
    delta = np.empty_like(nodes.standard)
    for first in range(0, len(common), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        # U' U is the precision of a draw, so that U^{-1} (U'^{-1} pull + z) is one
        lower = np.linalg.cholesky(seen.precision + inverse[part, :, None] * np.eye(len(delta)))
        half = np.linalg.solve(lower, pulls[:, part].T[:, :, None]) + nodes.standard[:, part].T[:, :, None]
        delta[:, part] = np.linalg.solve(np.swapaxes(lower, 1, 2), half)[:, :, 0].T
    return common, delta
