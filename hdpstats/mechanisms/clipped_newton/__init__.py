"""Newton steps with noisy sums of clipped scores, solved against public people.

Each round releases one sum of scores, each cut to a length, with normal noise (exactly mu-GDP), or with noise of pure
epsilon in a single round. The bias of clipping is taken out by public people with all outcomes that each might have.
Guarantee: (epsilon, delta), pure for one round. Source: this package; clipping after Abadi et al. (2016), moments
matched as in M-estimation. Use it at one site where the cohort is described or public people resemble private ones:
its noise is the smallest.
Proof: `hdpstats.mechanisms.clipped_newton.site`.

* ``clip``: How long a score may be, and what the clip may do to an estimate: functions of public facts.
* ``estimate``: Coefficients with standard errors from noisy sums of clipped scores that were matched over public
  people.
* ``expectations``: Expectations of clipped scores over public people and all outcomes that each of them might have.
* ``matching``: Noisy sums of clipped scores matched with their expectations over public people, at one site or at
  several.
* ``request``: Noisy Newton steps with clipped scores, as data flow: from public state and the releases so far to the
  next queries.
* ``site``: A noisy sum of clipped scores: one round of a fit by noisy Newton steps.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import choice, integer, real
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.records.query import MechanismOptions
from hdpstats.records.several import RoundQuery, RoundRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ClippedNewton(MechanismOptions):
    """Noisy sums of clipped scores at a few points, solved against public people: for an (epsilon, delta).

    What is clipped is a person's whole score, however long the follow-up, so that much less noise is needed than the
    worst record would ask for. The bias of clipping is taken out by public people with outcomes, of whom 12 per
    coefficient are needed: private ones are taken to be distributed as they are, or as they are after they have been
    re-weighted and re-scaled to a description.

    Parameters
    ----------
    rounds
        How often the site is asked, 1 to 4; 1 for a fit without a delta.
    clip_quantile
        Scores are clipped at this quantile of their length at the public fit, from 0.5 to 0.999. Left out, they are
        clipped where predicted errors against the ordinary fit are least: at the 95 % quantile with few people and a
        small epsilon, with many people nowhere (`hdpstats.mechanisms.clipped_newton.clip`).
    censoring
        How long private people are followed in a survival model: ``"as public"``, as a product-limit estimate from
        public people says, or ``"administrative"``, to the horizon, all of them.

    Examples
    --------
    >>> ClippedNewton(clip_quantile=0.9)
    ClippedNewton(rounds=3, clip_quantile=0.9, censoring='as public')
    """

    rounds: int = 3
    clip_quantile: float | None = None
    censoring: str = "as public"

    def __post_init__(self) -> None:
        """Validate the options."""
        integer(self.rounds, name="rounds", lower=1, upper=4)
        if self.clip_quantile is not None:
            real(self.clip_quantile, name="clip_quantile", lower=0.5, upper=0.999)
        choice(self.censoring, name="censoring", options=("as public", "administrative"))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ClippedNewtonQuery(RoundQuery):
    """Sum the people's scores at given coefficients, each clipped to a length, and add noise.

    The round costs ``mu_squared`` of what the whole fit keeps, and the rounds that are still to come cost ``ahead``.
    Without a delta there is one round, which costs epsilon. There are at most 2000 coefficients
    (`hdpstats.records.limits`).

    Attributes
    ----------
    clip : Fraction
        ``C``: the longest score of a person; a binary64 number.
    mu_squared, ahead : Fraction
        What this round costs, and what the later ones will, in squared Gaussian differential privacy.
    """

    kind: ClassVar[str] = "clipped_newton/1"
    clip: Fraction
    mu_squared: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself, or is too large, or rounds that cost more than is offered."""
        self.check("clip", self.clip, least=Fraction(1, 10**9), most=10**9, cost=self.mu_squared, farthest=1e12)
        if self.delta == 0:
            if self.mu_squared or self.ahead:
                raise MechanismError("without a delta there is one round with pure noise: mu_squared must be 0")
        elif not (self.mu_squared > 0 and delta_of_square(self.epsilon, self.mu_squared + self.ahead) <= self.delta):
            raise MechanismError("the rounds must cost something, and together no more than epsilon and delta allow")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ClippedNewtonRelease(RoundRelease):
    """The noisy sum of clipped scores."""

    kind: ClassVar[str] = "clipped_newton/1"
