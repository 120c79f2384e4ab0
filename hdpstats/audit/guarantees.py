"""The table of guarantees: of everything that the package offers, its proof, and what searches found.

A row for each mechanism, family of models, relation and kind of person that the registry of mechanisms offers
(`hdpstats.audit.cases`). *Found* is the largest privacy loss that replays on neighbours show
(`hdpstats.audit.replay`), and for noise in an objective the largest of the exact density ratio at far and near points;
*claimed* is what the ledger is charged. It is the sensitivity search of the table: losses are distances between the
inputs of noise, in units of what the noise was scaled to. *Planted* are mistakes put into the same computation on
purpose, and how many of them were caught: by replays, or by the size of the noise that is drawn
(`hdpstats.audit.scale`).

Rows name the noise that they draw: what is known of it is in `hdpstats.audit.noise_mechanisms`, once for all rows.
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
from hdpstats.audit.replay import Replay, cost_at, replays
from hdpstats.audit.scale import FoundScale, noise_scale
from hdpstats.mechanisms import registry
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery
from hdpstats.mechanisms.exponential import site as exponential
from hdpstats.mechanisms.minimiser import PreparedPoint
from hdpstats.mechanisms.public_hessian import PublicHessianQuery
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip, RoundedNormal, TwoSidedGeometric
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.proof_index import PROOFS
from hdpstats.records.query import Query
from hdpstats.schema.table import PrivateTable

_NOISES: Final = {
    "two-sided geometric noise": "two-sided geometric",
    "ball noise": "ball",
    "box noise": "box",
    "cylinder noise": "cylinder",
    "normal noise": "rounded normal",
    "permute-and-flip": "permute-and-flip",
    "sampling by potentials": "exponential mechanism",
}


def noise_rows(name: str) -> tuple[str, ...]:
    """Return the rows of the table of noise mechanisms that what a replay calls noise stands in.

    >>> noise_rows("noise in the objective, cylinder norm")
    ('noise in an objective', 'cylinder')
    """
    if name == "normal noise in the objective":
        return "normal noise in an objective", "rounded normal"
    if name.startswith("noise in the objective, "):
        return "noise in an objective", name.removeprefix("noise in the objective, ").removesuffix(" norm")
    return (_NOISES[name],)


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
    noises : tuple of str
        The noise that was drawn, by the names of the table of noise mechanisms.
    """

    case: Case
    setting: Setting
    mechanisms: tuple[MechanismName, ...]
    found: Claim
    claimed: Claim
    differences: tuple[str, ...]
    planted: dict[str, bool]
    noises: tuple[str, ...]

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
    at_points, inside = _largest_cost(question, setting, pairs_of_each)
    drawn = [each.noise for replay in found for each in replay.inputs]
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
        noises=tuple(dict.fromkeys(row for name in (*inside, *drawn) for row in noise_rows(name))),
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


def _largest_cost(question: Asked, setting: Setting, most: int) -> tuple[Claim, tuple[str, ...]]:
    """Return the largest cost of noise in an objective at far and near points, and its name, where there is any."""
    prepared = registry.prepare(question.query, question.site_facts)
    if not isinstance(prepared, PreparedPoint) or prepared.calibration.perturbation is None:
        return Claim(epsilon=0.0, mu=0.0), ()
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
    largest = Claim(epsilon=max(each.loss for each in costs), mu=max(each.mu for each in costs))
    return largest, (costs[0].noise,)


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


LOOKS: Final = (4, 16, 64)
"""After how many runs the size of noise is judged; choices among few candidates need the most."""
REPEATS: Final = 64
"""How often each draw of a run is made."""


def scale_of(
    compute: Callable[[pd.DataFrame], Any], question: Asked, setting: Setting, *, looks: Sequence[int] = LOOKS
) -> FoundScale:
    """Compare the noise of a computation with that of a question, on one data set."""
    data, _ = next(pairs(setting, most=1))
    return noise_scale(compute, data, claimed=question.compute, looks=looks, repeats=REPEATS)
