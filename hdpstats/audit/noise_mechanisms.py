"""What draws of each distinct noise mechanism show, to which the rows of the table of guarantees point.

A lower bound of epsilon from draws, at a claim of 1 and of 2, and what the last bits of releases certify; with two
controls that must fail. All bounds hold together with probability 1 - 1e-9. Exact distributions are in
`hdpstats.audit.noise_laws`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.audit.cases import people
from hdpstats.audit.fingerprint import fingerprint
from hdpstats.audit.noise_laws import of_fit
from hdpstats.audit.outputs import epsilon_lower_bound
from hdpstats.mechanisms import registry
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.exact import bits, lift, round_down
from hdpstats.privacy.gaussian import delta_of_square

JOINT_ALPHA: Final = 1e-9
"""The probability with which any of the bounds on samplers may be wrong."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SamplerAudit:
    """What draws of one sampler show.

    Attributes
    ----------
    name : str
        The sampler.
    bounds : dict of float to float
        For each claimed epsilon a lower bound of the true one, from draws.
    last_bits : float
        What the last bits of releases certify at a claim of 1; NaN where it releases no number.
    is_control : bool
        Whether it was broken on purpose and must fail.
    """

    name: str
    bounds: dict[float, float]
    last_bits: float
    is_control: bool = False

    @property
    def holds(self) -> bool:
        """Whether no bound is above its claim."""
        return all(bound <= claim for claim, bound in self.bounds.items()) and not self.last_bits > 1.0


_STEPS: Final = 64
_GRID: Final = Fraction(1, 2**20)


def sampler_audits(
    *, draws: int = 8_000, releases: int = 12_000, laplace: Callable[[float, int], Any] | None = None
) -> Iterator[SamplerAudit]:
    """Yield what draws of each sampler show, and of two that are broken on purpose.

    Parameters
    ----------
    draws, releases
        How many draws each bound rests on, and each look at last bits.
    laplace
        A sampler in floating point as a control, from a query and a number to releases: numpy's Laplace noise. Twice
        as many of its releases are looked at.
    """
    alpha = JOINT_ALPHA / 32
    for name, make in _SAMPLERS.items():
        bounds = {claim: _bound(make, claim, 1, draws, alpha) for claim in (1.0, 2.0)}
        last = math.nan if name == "permute-and-flip" else _last_bits(make, releases, alpha)
        yield SamplerAudit(name=name, bounds=bounds, last_bits=last)
    halved = {claim: _bound(_SAMPLERS["ball"], claim, 2, draws, alpha) for claim in (1.0, 2.0)}
    yield SamplerAudit(name="control: half the noise (ball)", bounds=halved, last_bits=math.nan, is_control=True)
    if laplace is not None:
        last = fingerprint(laplace, releases=2 * releases, alpha=alpha).epsilon
        yield SamplerAudit(name="control: numpy's Laplace noise", bounds={}, last_bits=last, is_control=True)


Draws = Callable[[Fraction, int, int], FloatArray]
"""From a rate (per lattice step), a displacement in steps and a number to so many outputs around it."""


def _vectors(make: Callable[[Fraction], Any]) -> Draws:
    def draw(rate: Fraction, steps: int, count: int) -> FloatArray:
        noise = make(rate)
        drawn = np.array([noise.draw()[0] for _ in range(count)], dtype=float)
        return np.asarray(drawn + steps)

    return draw


def _singles(rate: Fraction, steps: int, count: int) -> FloatArray:
    return np.array(TwoSidedGeometric(rate=rate).draws(count), dtype=float) + steps


def _choices(rate: Fraction, steps: int, count: int) -> FloatArray:
    """Return which of two candidates is chosen, the second of which costs so much less, or none."""
    choice = PermuteAndFlip(rate=rate)
    return np.array([choice.draw([steps, _STEPS - steps]) for _ in range(count)], dtype=float)


_SAMPLERS: Final[dict[str, Draws]] = {
    "two-sided geometric": _singles,
    "ball": _vectors(lambda rate: BallNoise(dimension=1, rate=rate)),
    "box": _vectors(lambda rate: BoxNoise(dimension=1, rate=rate)),
    "cylinder": _vectors(
        lambda rate: CylinderNoise(
            dimension=2, rate=rate, radius=Fraction(1), grid_axis=Fraction(1), grid_ball=Fraction(1)
        )
    ),
    "permute-and-flip": _choices,
}


def _bound(draw: Draws, claim: float, mistake: int, draws: int, alpha: float) -> float:
    """Return a lower bound of epsilon where one person moves the query by so many steps that it should be the claim."""
    moved = 2 * _STEPS if draw is _choices else _STEPS  # a difference of two costs moves by twice as much
    rate = round_down(Fraction(claim) * mistake / moved, 64)
    return epsilon_lower_bound(draw(rate, 0, draws), draw(rate, _STEPS, draws), alpha=alpha)


def _last_bits(draw: Draws, releases: int, alpha: float) -> float:
    rate = round_down(1 / (1 / _GRID + 1), 64)

    def release(query: float, count: int) -> FloatArray:
        return lift([int(z) for z in draw(rate, round(query / float(_GRID)), count)], _GRID)

    return fingerprint(release, releases=releases, alpha=alpha).epsilon


def naive_laplace(query: float, count: int) -> FloatArray:
    """Return the query plus Laplace noise of scale 1 computed in floating point, as textbooks have it: a control.

    It is the logarithm of a uniform number of 53 bits. Its last bits tell the query.
    """
    drawn = np.frombuffer(bits(64 * count).to_bytes(8 * count, "little"), dtype="<u8")
    uniform = (drawn >> np.uint64(11)) * 2.0**-53 - 0.5
    return np.asarray(query - np.sign(uniform) * np.log1p(-2.0 * np.minimum(np.abs(uniform), 0.5 - 2.0**-53)))


def fit_audits(*, draws: int = 450) -> Iterator[SamplerAudit]:
    """Yield what whole answers show: of the exponential mechanism, and with noise in an objective.

    A model of one coefficient is fitted to two small data sets whose last person differs by the outcome. The
    exponential mechanism is judged without its delta: here a proposal is nearly always kept.
    """
    alpha = JOINT_ALPHA / 32
    one, other = (people((y, 0.0, "a", 0.0, 0.0, 1.0, 0.0, 0.0, "none")) for y in (1.0, 0.0))
    objective, sampled = registry.ObjectivePerturbation(), registry.ExponentialMechanism()
    kinds: dict[str, tuple[Any, float, tuple[float, ...]]] = {
        "exponential mechanism": (sampled, 1e-3, (1.0, 2.0)),
        "noise in an objective": (objective, 0.0, (1.0, 2.0)),
        "normal noise in an objective": (objective, 2.0**-10, (1.0,)),
    }
    for name, (mechanism, delta, claims) in kinds.items():
        bounds, last = {}, math.nan
        for claim in claims:
            question = of_fit("y ~ 1", mechanism=mechanism, epsilon=claim, delta=delta)
            delta_claimed = 0.0 if mechanism is sampled else delta
            count = draws // 3 if mechanism is sampled else draws
            thetas = [
                np.array([question.compute(frame).theta[0] for _ in range(count)])  # type: ignore[attr-defined]
                for frame in (one, other)
            ]
            bounds[claim] = epsilon_lower_bound(*thetas, alpha=alpha, delta=delta_claimed)
            if claim == 1.0 and not delta_claimed:
                kept = partial(_kept, thetas[0], thetas[1])
                last = fingerprint(kept, releases=count, alpha=alpha).epsilon
        yield SamplerAudit(name=name, bounds=bounds, last_bits=last)


def _kept(one: FloatArray, other: FloatArray, query: float, _count: int) -> FloatArray:
    """Return releases that are there: of the first data set where the query is 0."""
    return other if query else one


def normal_audit(*, draws: int = 20_000) -> SamplerAudit:
    """Return what draws of rounded normal noise show, at the delta that its mu gives each claim.

    A sampler of mu = 1 is (epsilon, delta)-private with the delta of `hdpstats.privacy.gaussian`.
    """
    noise, alpha = RoundedNormal(dimension=1, sd=Fraction(_STEPS), grid=Fraction(1)), JOINT_ALPHA / 32
    one, other = (np.array([noise.draw()[0] + moved for _ in range(draws)], dtype=float) for moved in (0, _STEPS))
    bounds = {
        claim: epsilon_lower_bound(one, other, alpha=alpha, delta=float(delta_of_square(Fraction(claim), Fraction(1))))
        for claim in (1.0, 2.0)
    }
    return SamplerAudit(name="rounded normal", bounds=bounds, last_bits=math.nan)
