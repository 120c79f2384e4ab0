"""The table of guarantees: of everything that the package offers, its proof, and what searches found.

A row for each mechanism, family of models, relation and kind of person that the registry of mechanisms offers
(`hdpstats.audit.cases`). *Found* is the largest privacy loss that replays on neighbours show
(`hdpstats.audit.replay`), and for noise in an objective the largest of the exact density ratio at far and near points;
*claimed* is what the ledger is charged. It is the sensitivity search of the table: losses are distances between the
inputs of noise, in units of what the noise was scaled to. *Planted* are mistakes put into the same computation on
purpose, and how many of them were caught: by replays, or by the size of the noise that is drawn
(`hdpstats.audit.scale`).

Below it a row for each sampler of noise, which the mechanisms share: a lower bound of epsilon from draws, at a claim of
1 and of 2, and what the last bits of releases certify; with two controls that must fail. All bounds hold together with
probability 1 - 1e-9.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, cast, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray
from hdpstats.audit.cases import CASES, SETTINGS, Asked, Case, Setting, computed, offered, pairs
from hdpstats.audit.fingerprint import fingerprint
from hdpstats.audit.outputs import epsilon_lower_bound
from hdpstats.audit.replay import Replay, cost_at, replays
from hdpstats.audit.scale import FoundScale, noise_scale
from hdpstats.mechanisms import registry
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery
from hdpstats.mechanisms.exponential import site as exponential
from hdpstats.mechanisms.minimiser import PreparedPoint
from hdpstats.mechanisms.public_hessian import PublicHessianQuery
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.exact import bits, lift, round_down
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.privacy.proof_index import PROOFS
from hdpstats.records.query import Query
from hdpstats.schema.table import PrivateTable

JOINT_ALPHA: Final = 1e-9
"""The probability with which any of the bounds on samplers may be wrong."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What a release costs: epsilon of its pure parts, mu of its normal ones."""

    epsilon: float
    mu: float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """One row of the table.

    Attributes
    ----------
    case, setting : Case, Setting
        What is asked, and under which terms.
    mechanisms : tuple of MechanismName
        What runs on private rows.
    found, claimed : Claim
        The largest cost that was found, and the one that is charged.
    differences : tuple of str
        What differed on a neighbour that must not; empty unless there is a leak.
    planted : dict of str to bool
        For each mistake that was planted, whether it was caught.
    """

    case: Case
    setting: Setting
    mechanisms: tuple[MechanismName, ...]
    found: Claim
    claimed: Claim
    differences: tuple[str, ...]
    planted: dict[str, bool]

    @property
    def holds(self) -> bool:
        """Whether nothing was found that refutes the claim; rounding of doubles refutes nothing."""
        within = _share(self.found.epsilon, self.claimed.epsilon) <= 1.0 + 1e-9
        return within and _share(self.found.mu, self.claimed.mu) <= 1.0 + 1e-9 and not self.differences

    @property
    def proofs(self) -> tuple[str, ...]:
        """Where the proofs stand."""
        return tuple(dict.fromkeys(str(PROOFS[name]) for name in self.mechanisms))

    @property
    def share(self) -> float:
        """What was found over what is claimed."""
        return max(_share(self.found.epsilon, self.claimed.epsilon), _share(self.found.mu, self.claimed.mu))


def _share(found: float, claimed: float) -> float:
    return 0.0 if found == 0.0 else (found / claimed if claimed > 0.0 else math.inf)


def guarantees(*, pairs_of_each: int = 6, plant: bool = True, cases: Sequence[Case] = CASES) -> Iterator[Guarantee]:
    """Yield the rows of the table.

    Parameters
    ----------
    pairs_of_each
        How many pairs of neighbours each row is tried on.
    plant
        Whether mistakes are planted too.
    cases
        Which questions.
    """
    for case in cases:
        for setting in SETTINGS:
            question = offered(case, setting)
            if question is not None:
                yield checked(case, setting, question, pairs_of_each=pairs_of_each, plant=plant)


def checked(case: Case, setting: Setting, question: Asked, *, pairs_of_each: int, plant: bool) -> Guarantee:
    """Return the row of one question."""
    prepared = registry.prepare(question.query, question.site_facts)
    found = _replayed(question.compute, setting, pairs_of_each)
    at_points = _largest_cost(question, setting, pairs_of_each)
    return Guarantee(
        case=case,
        setting=setting,
        mechanisms=tuple(event.ran for event in prepared.events),
        found=Claim(
            epsilon=max(at_points.epsilon, *(_losses(each) for each in found)),
            mu=max(at_points.mu, *(_mus(each) for each in found)),
        ),
        claimed=claim_of(prepared),
        differences=tuple(dict.fromkeys(words for each in found for words in each.differences)),
        planted=_planted(question, setting, claim_of(prepared)) if plant else {},
    )


def _losses(found: Replay) -> float:
    return math.fsum(each.loss for each in found.inputs)


def _mus(found: Replay) -> float:
    return math.sqrt(math.fsum(each.mu**2 for each in found.inputs))


def claim_of(prepared: Any) -> Claim:
    """Return what a prepared computation costs, as its events say it.

    Normal noise in an objective has no mu of its own: its claim is the sensitivity over the standard deviation, from
    which its epsilon and delta are computed.
    """
    pure = math.fsum(float(e.epsilon) for e in prepared.events if not e.mu_squared and not _is_normal_objective(e))
    squares = math.fsum(float(e.mu_squared) for e in prepared.events)
    if isinstance(prepared, PreparedPoint) and prepared.calibration.perturbation is not None:
        inside = prepared.calibration.perturbation
        if inside.sd > 0:
            squares += float(inside.sensitivity.value / inside.sd) ** 2
    return Claim(epsilon=pure, mu=math.sqrt(squares))


def _is_normal_objective(event: Any) -> bool:
    return event.ran is MechanismName.GAUSSIAN_OBJECTIVE


def _replayed(compute: Callable[[pd.DataFrame], Any], setting: Setting, most: int) -> list[Replay]:
    return [each for data, others in pairs(setting, most=most) for each in replays(compute, data, others)]


def _largest_cost(question: Asked, setting: Setting, most: int) -> Claim:
    """Return the largest cost of noise in an objective at far and near points, where there is any."""
    prepared = registry.prepare(question.query, question.site_facts)
    if not isinstance(prepared, PreparedPoint) or prepared.calibration.perturbation is None:
        return Claim(epsilon=0.0, mu=0.0)
    inside, dimension = prepared.calibration.perturbation, prepared.person_loss.dimension
    ridge = np.full(dimension, float(prepared.query.ridge))

    def rows(frame: pd.DataFrame) -> Any:
        table = PrivateTable.from_frame(frame, question.site_facts.schema, unit=question.site_facts.unit)
        admitted = table.admit(prepared.needs, key=prepared.key)
        return prepared.person_loss.people_of(admitted)

    costs = [
        cost_at(inside, one, other, ridge, point)
        for data, neighbours in pairs(setting, most=most)
        for one in [rows(data)]
        for other in map(rows, neighbours)
        for point in _points(np.array(prepared.query.centre))
    ]
    return Claim(epsilon=max(each.loss for each in costs), mu=max(each.mu for each in costs))


def _points(centre: FloatArray) -> Iterator[FloatArray]:
    """Yield points far from the centre and near it, along the first axes."""
    yield centre
    for axis in range(min(len(centre), 4)):
        for step in (-40.0, -4.0, 4.0, 40.0):
            point = centre.copy()
            point[axis] += step
            yield point


def _planted(question: Asked, setting: Setting, claimed: Claim) -> dict[str, bool]:
    """Return whether mistakes that are planted into a computation are caught."""

    def too_little_noise(frame: pd.DataFrame) -> Any:
        with _a_third_of_noise():
            return question.compute(frame)

    def calibrated_for_more(frame: pd.DataFrame) -> Any:
        return computed(_dearer(question.query), question.site_facts, frame)

    def count_in_a_warning(frame: pd.DataFrame) -> Any:
        warnings.warn(f"{_cell(frame)} is the largest value", stacklevel=1)
        return question.compute(frame)

    def number_without_noise(frame: pd.DataFrame) -> Any:
        return question.compute(frame), _cell(frame)

    def scale_from_the_data(frame: pd.DataFrame) -> Any:
        largest = Fraction(max(1, int(abs(_cell(frame)))))
        return TwoSidedGeometric(rate=1 / largest).draw() + int(_cell(frame)), question.compute(frame)

    def draw_used_twice(frame: pd.DataFrame) -> Any:
        z = TwoSidedGeometric(rate=Fraction(1, 10**9)).draw()
        return question.compute(frame), int(_cell(frame)) + z, len(frame) + z

    mistakes = {
        "a third of the noise": too_little_noise,
        "calibrated for three times epsilon": calibrated_for_more,
        "a count in a warning": count_in_a_warning,
        "a number without noise": number_without_noise,
        "a bound from the data": scale_from_the_data,
        "a draw used twice": draw_used_twice,
    }
    return {name: _caught(broken, question, setting, claimed) for name, broken in mistakes.items()}


def _dearer(query: Query) -> Query:
    """Return a query whose noise is for three times what it costs: three times epsilon, nine times mu squared.

    Rounds state what they cost beside what the fit keeps, which must allow it.
    """
    asked = cast(Any, query)
    if isinstance(query, ClippedNewtonQuery) and query.mu_squared:
        return replace(query, mu_squared=9 * query.mu_squared, epsilon=10 * query.epsilon)
    if isinstance(query, PublicHessianQuery):
        return replace(query, cost=(9 if query.delta else 3) * query.cost, epsilon=10 * query.epsilon)
    return cast(Query, replace(asked, epsilon=3 * asked.epsilon))


@contextmanager
def _a_third_of_noise() -> Iterator[None]:
    """Let every sampler draw noise of a third of its scale, while a replay holds the samplers anyway."""
    with ExitStack() as stack:

        def weaker(owner: Any, name: str, **changed: Callable[[Any], Any]) -> None:
            original = getattr(owner, name)

            def draw(self: Any, *arguments: Any) -> Any:
                return original(replace(self, **{field: change(self) for field, change in changed.items()}), *arguments)

            setattr(owner, name, draw)
            stack.callback(setattr, owner, name, original)

        for noise in (TwoSidedGeometric, BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip):
            weaker(noise, "draw", rate=lambda self: 3 * self.rate)
        weaker(TwoSidedGeometric, "draws", rate=lambda self: 3 * self.rate)
        weaker(RoundedNormal, "draw", sd=lambda self: self.sd / 3)
        run: Any = exponential.run
        stack.callback(setattr, exponential, "run", run)
        cast(Any, exponential).run = lambda query, calibration, people: run(
            query, replace(calibration, rate=3 * calibration.rate), people
        )
        yield


def _cell(frame: pd.DataFrame) -> float:
    return float(pd.to_numeric(frame["k"], errors="coerce").sum())


def _caught(compute: Callable[[pd.DataFrame], Any], question: Asked, setting: Setting, claimed: Claim) -> bool:
    """Whether replays on two pairs of neighbours show a mistake, or else the size of what is drawn on the first."""
    found = _replayed(compute, setting, 2)
    if any(each.differences for each in found):
        return True
    if any(not each.keeps(epsilon=claimed.epsilon, mu=claimed.mu) for each in found):
        return True
    return scale_of(compute, question, setting).too_little


LOOKS: Final = (16, 64, 256, 1024, 4096)
"""After how many runs the size of noise is judged; choices among few candidates need the most."""


def scale_of(
    compute: Callable[[pd.DataFrame], Any], question: Asked, setting: Setting, *, looks: Sequence[int] = LOOKS
) -> FoundScale:
    """Compare the noise of a computation with that of a question, on one data set."""
    data, _ = next(pairs(setting, most=1))
    return noise_scale(compute, data, claimed=question.compute, looks=looks)


# Samplers.


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
    *, draws: int = 20_000, releases: int = 24_000, laplace: Callable[[float, int], Any] | None = None
) -> Iterator[SamplerAudit]:
    """Yield what draws of each sampler show, and of two that are broken on purpose.

    Parameters
    ----------
    draws, releases
        How many draws each bound rests on, and each look at last bits.
    laplace
        A sampler in floating point as a control, from a query and a number to releases: numpy's Laplace noise.
    """
    alpha = JOINT_ALPHA / 32
    for name, make in _SAMPLERS.items():
        bounds = {claim: _bound(make, claim, 1, draws, alpha) for claim in (1.0, 2.0)}
        last = math.nan if name == "permute-and-flip" else _last_bits(make, releases, alpha)
        yield SamplerAudit(name=name, bounds=bounds, last_bits=last)
    halved = {claim: _bound(_SAMPLERS["ball"], claim, 2, draws, alpha) for claim in (1.0, 2.0)}
    yield SamplerAudit(name="control: half the noise (ball)", bounds=halved, last_bits=math.nan, is_control=True)
    if laplace is not None:
        last = fingerprint(laplace, releases=releases, alpha=alpha).epsilon
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


# The page.


def page(rows: Sequence[Guarantee], samplers: Sequence[SamplerAudit], *, about: str) -> str:
    """Return the table as a page in Markdown."""
    lines = [
        "# The table of guarantees",
        "",
        about,
        "",
        "A row for everything that the package offers: what is asked, of which family of models, under which "
        "relation, and of people with one row or several. **Found** is the largest privacy loss that was found "
        "between neighbouring data sets, **claimed** is what the ledger is charged (epsilon, or mu of normal noise): "
        "found must not be above claimed. **Planted** are mistakes that were put into the same computation on purpose, "
        "and how many of them were caught. A search can refute a claim and cannot prove one; the proof is named in "
        "each row. "
        "[How the searches work, and how to run them yourself](../check-it-yourself.py).",
        "",
        "| what is asked | relation | person | found | claimed | share | planted, caught | proof |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row) for row in rows]
    missed = sorted({name for row in rows for name, caught in row.planted.items() if not caught})
    lines += [""]
    planted, caught = (sum(count(row.planted) for row in rows) for count in (len, lambda found: sum(found.values())))
    words = f"NOT CAUGHT everywhere: {', '.join(missed)}." if missed else "All of them are caught."
    lines += [
        f"{planted} mistakes were planted, and {caught} caught. {words} Leaks show on two pairs of neighbours. Too "
        "little noise shows there where neighbours come near to the sensitivity, and else by the size of what is "
        f"drawn: {LOOKS[0]} to {LOOKS[-1]} runs on one data set are compared with the noise that the claim needs, so "
        "that enough noise is taken for too little with a probability of 1e-12 at each look.",
        "",
    ]
    lines += [
        "## Samplers of noise",
        "",
        "Lower bounds of epsilon from draws (Clopper-Pearson), at a claimed epsilon of 1 and of 2, and what the last "
        "bits of releases certify at a claim of 1. All bounds hold together with probability 1 - 1e-9. Controls are "
        "broken on purpose and must fail. Normal noise of mu = 1 is judged at the delta that it gives each claim.",
        "",
        "| sampler | bound at 1 | bound at 2 | last bits | |",
        "|---|---|---|---|---|",
    ]
    lines += [_sampler_line(each) for each in samplers]
    return "\n".join(lines) + "\n"


def _line(row: Guarantee) -> str:
    found, claimed = (
        f"mu {each.mu:.3g}" if row.claimed.mu and not row.claimed.epsilon else f"{each.epsilon:.3g}"
        for each in (row.found, row.claimed)
    )
    person = "several rows" if row.setting.several else "one row"
    planted = f"{len(row.planted)}, {sum(row.planted.values())}" if row.planted else "not planted"
    where = "; ".join(dict.fromkeys(_linked(name) for name in row.mechanisms))
    word = "" if row.holds else " **REFUTED**"
    return (
        f"| {row.case.name} | {row.setting.relation.value} | {person} | {found}{word} | {claimed} | {row.share:.3f} | "
        f"{planted} | {where} |"
    )


def _linked(name: MechanismName) -> str:
    proof = PROOFS[name]
    return f"`{proof.module}`" if proof.page is None else f"[{proof.page}](../explanation/{proof.page}.md)"


def _sampler_line(audit: SamplerAudit) -> str:
    bounds = [f"{max(0.0, audit.bounds[claim]):.2f}" if claim in audit.bounds else "" for claim in (1.0, 2.0)]
    last = "" if math.isnan(audit.last_bits) else f"{audit.last_bits:.2f}"
    word = (
        ("fails, as it must" if not audit.holds else "**NOT CAUGHT**")
        if audit.is_control
        else ("holds" if audit.holds else "**REFUTED**")
    )
    return f"| {audit.name} | {bounds[0]} | {bounds[1]} | {last} | {word} |"
