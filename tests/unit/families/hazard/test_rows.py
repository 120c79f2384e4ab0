"""The objective of a capped hazard model against loops over person-periods; its error bound; where follow-up ends."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats.families.hazard import spells as module
from hdpstats.families.hazard.rows import HazardRows
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.families.parted import PartedRows
from hdpstats.losses import LINKS
from hdpstats.privacy.hazard_sensitivity import UP
from hdpstats.schema.partitions import ReadInParts, in_this_process
from hdpstats.solvers import kernels, minimise
from hdpstats.solvers.newton import refine
from tests.objectives import changed
from tests.unit.solvers.capped_problems import (
    capped,
    cells_of,
    exact_gradient,
    in_time_order,
    log_cap,
    objective,
    people_of,
    plain_derivatives,
)

CASES = [(link, causes) for link in LINKS for causes in (1, 3)]


@pytest.mark.parametrize(("link", "causes"), CASES)
@pytest.mark.parametrize("size", [0.0, 0.7, 5.0])
def test_gradient_and_hessian_are_sums_over_person_periods(link: str, causes: int, size: float) -> None:
    problem = objective(capped(3, link=link, causes=causes))
    theta = size * np.random.default_rng(4).standard_normal(len(problem.ridge))
    gradient, hessian = plain_derivatives(problem, theta)
    assert problem.gradient(theta) == pytest.approx(gradient, rel=1e-10, abs=1e-10)
    assert np.allclose(problem.hessian(theta), hessian, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("link", "causes"), CASES)
def test_the_hessian_is_the_slope_of_the_gradient(link: str, causes: int) -> None:
    problem = objective(capped(5, link=link, causes=causes))
    theta, step = 0.3 * np.random.default_rng(6).standard_normal(len(problem.ridge)), 1e-5
    for j, move in enumerate(step * np.eye(len(theta))):
        slope = (problem.gradient(theta + move) - problem.gradient(theta - move)) / (2.0 * step)
        assert problem.hessian(theta)[j] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_weighted_rows_and_scores_of_spells_add_up() -> None:
    spells = capped(7, causes=2)
    problem = objective(spells)
    theta, everywhere = np.linspace(-0.5, 0.5, len(problem.ridge)), slice(0, len(spells.A))
    i, j = np.triu_indices(len(theta))
    stacked = np.zeros((30, len(i)))
    for cause in range(2):
        weights = spells.curvature(theta, slice(0, 30), everywhere, cause)
        spells.add_outer(stacked, weights, slice(0, 30), everywhere, cause)
    assert np.allclose(stacked.sum(axis=0) + np.diag(problem.ridge)[i, j], problem.hessian(theta)[i, j])
    scores = (spells.weights[:, None] * spells.scores(theta)).sum(axis=0)
    penalty = problem.ridge * (theta - problem.centre) + problem.linear
    assert scores + penalty == pytest.approx(problem.gradient(theta), abs=1e-9)


def test_blocks_of_any_size_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = objective(capped(8, m=50, causes=2))
    theta = np.linspace(-0.5, 0.5, len(problem.ridge))
    gradient, hessian = problem.gradient(theta), problem.hessian(theta)
    monkeypatch.setattr(module, "CELLS", 20)
    assert len(list(problem.rows.spells.blocks())) == 25
    assert problem.gradient(theta) == pytest.approx(gradient, rel=1e-12, abs=1e-13)
    assert np.allclose(problem.hessian(theta), hessian, rtol=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("link", ["logit", "cloglog"])
@pytest.mark.parametrize("causes", [1, 2])
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("offset", [0.0, 3e5])
def test_the_error_bound_holds_with_exact_caps(link: str, causes: int, size: float, offset: float) -> None:
    spells = capped(9, m=12, q=5, link=link, causes=causes)
    # Large offsets that the caps' levels take away again: cancellation.
    spells = replace(spells, offset=spells.offset + offset, cap_baseline=spells.cap_baseline - offset)
    problem = objective(spells)
    theta = size * np.random.default_rng(10).standard_normal(len(problem.ridge))
    computed, exact = problem.gradient(theta), exact_gradient(problem, theta)
    with mpmath.workprec(250):
        error = float(mpmath.norm([mpmath.mpf(float(a)) - b for a, b in zip(computed, exact, strict=True)]))
    bound = problem.gradient_error(theta)
    assert error <= bound
    # Not absurd: some thousand rounding errors of the sum's summands.
    assert bound <= 1e-11 * (1.0 + size + offset) * float(np.sum(spells.weights))


def test_scores_in_single_precision_break_the_bound() -> None:
    problem = objective(capped(11))
    single = problem.rows.spells.Z.astype(np.float32).astype(np.float64)
    coarse = changed(problem, spells=replace(problem.rows.spells, Z=single))
    theta = np.full(len(problem.ridge), 0.3)
    assert np.linalg.norm(coarse.gradient(theta) - problem.gradient(theta)) > problem.gradient_error(theta)


@pytest.mark.parametrize(("link", "causes"), CASES)
def test_the_exact_gradient_is_the_float_one_up_to_its_bound(link: str, causes: int) -> None:
    problem = objective(capped(12, m=8, q=4, link=link, causes=causes))
    theta = np.random.default_rng(13).standard_normal(len(problem.ridge))
    with mpmath.workprec(200):
        loss = problem.rows.exact_loss_gradient(mpmath.mp, [mpmath.mpf(float(value)) for value in theta])
        penalty = problem.ridge * (theta - problem.centre) + problem.linear
        found = np.array([float(value) for value in loss]) + penalty
    assert np.linalg.norm(found - problem.gradient(theta)) <= problem.gradient_error(theta)


@pytest.mark.covering(1)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("digits", [8, 30])
def test_refinement_reaches_any_radius(link: str, digits: int) -> None:
    problem = objective(capped(14, m=10, q=4, link=link))
    rough = minimise(problem, start=problem.centre)
    found = refine(problem, start=problem.centre, radius=Fraction(1, 10**digits))
    again = refine(problem, start=rough.theta, radius=Fraction(1, 10**40))
    assert found.radius <= Fraction(1, 10**digits)
    apart = sum((a - b) ** 2 for a, b in zip(found.theta, again.theta, strict=True))
    assert apart <= (found.radius + again.radius) ** 2
    exact = [Fraction(value) for value in rough.theta.tolist()]
    apart = sum((a - b) ** 2 for a, b in zip(exact, again.theta, strict=True))
    assert math.sqrt(apart) <= rough.radius < 1e-9


@pytest.mark.covering
@pytest.mark.parametrize(("link", "causes"), CASES)
@pytest.mark.parametrize("start", [0.0, 20.0, -20.0])
def test_newton_comes_back_from_far_away(link: str, causes: int, start: float) -> None:
    problem = objective(capped(15, m=60, link=link, causes=causes))
    found = minimise(problem, start=np.full(len(problem.ridge), start))
    assert found.radius < 1e-8


def test_no_spells_leave_the_penalty() -> None:
    problem = objective(capped(16, m=0))
    exact = problem.centre - problem.linear / problem.ridge
    assert minimise(problem, start=np.zeros(4)).theta == pytest.approx(exact, rel=1e-14)


def test_the_effect_of_a_direction_is_bounded() -> None:
    spells = capped(17, causes=2)
    problem = objective(spells)
    direction = np.random.default_rng(18).standard_normal(len(problem.ridge))
    moved = [
        np.max(np.abs(spells.predictor(direction, slice(0, 30), slice(0, 7), k) - spells.offset[:, None]))
        for k in range(2)
    ]
    assert max(moved) <= problem.rows.effect(direction) <= 2.5 * max(moved)


def sums_of_caps(spells: CappedSpells, person: np.ndarray) -> np.ndarray:
    """Return each person's sum of caps over the intervals and causes that are left."""
    sums = np.zeros(int(person.max()) + 1)
    for i, s, k, _ in cells_of(spells):
        sums[person[i]] += np.exp(log_cap(spells, i, s, k))
    return sums


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("causes", [1, 3])
def test_follow_up_ends_before_the_sum_of_caps_passes_the_total(link: str, causes: int) -> None:
    person, total = people_of(19, 40), 2.5 * causes
    whole = in_time_order(capped(20, m=40, q=12, link=link, causes=causes, total=total, whole=True), person)
    ended = whole.ended(person)
    sums = sums_of_caps(ended, person)
    assert np.all(sums <= total * (1.0 + 1e-12))
    assert np.all((ended.entry == whole.entry) & (ended.last >= ended.entry) & (ended.last <= whole.last))
    shortened = ended.last < whole.last
    assert 5 < shortened.sum() < 40
    # What is cut off is not an event; what is left whole keeps its event.
    assert np.all(ended.cause[shortened] == 0)
    assert np.array_equal(ended.cause[~shortened], whole.cause[~shortened])
    # No more than needed: one interval more would pass the total; and nothing comes after an end.
    for name in np.unique(person[shortened]):
        places = np.flatnonzero(person == name)
        first = places[shortened[places]][0]
        crossing = sum(np.exp(log_cap(whole, first, ended.last[first], k)) for k in range(causes))
        assert sums[name] + crossing > total * (1.0 - 1e-12)
        later = places[places > first]
        assert np.all(ended.last[later] == ended.entry[later])


@pytest.mark.parametrize(("link", "causes"), CASES)
def test_weights_are_the_total_over_the_caps_up_to_the_horizon(link: str, causes: int) -> None:
    whole = capped(31, m=40, q=8, link=link, causes=causes, total=2.0, whole=True)
    found = whole.weighed(intervals=4)  # two strata of four intervals
    for i in range(40):
        end = min(whole.entry[i] // 4 * 4 + 4, 8)
        caps = [np.exp(log_cap(whole, i, s, k)) for k in range(causes) for s in range(whole.entry[i], end)]
        share = min(1.0, 2.0 / sum(caps))
        assert found.weights[i] == pytest.approx(whole.weights[i] * share, rel=1e-12)
        inside = [np.exp(log_cap(whole, i, s, k)) for k in range(causes) for s in range(whole.entry[i], whole.last[i])]
        if whole.last[i] <= end:
            assert share * sum(inside) <= 2.0 * (1.0 + 1e-12)
    other = replace(whole, last=whole.entry, cause=0 * whole.cause).weighed(intervals=4)
    assert np.array_equal(other.weights, found.weights)  # whatever the follow-up
    assert np.array_equal(found.last, whole.last)
    assert np.array_equal(found.take(slice(3, 9)).most, whole.weights[3:9])


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_caps_that_cancel_add_up_to_the_total_up_to_the_inflation_of_constants(link: str) -> None:
    m, base = 300, 1e6 - 0.3125
    z = -base + np.random.default_rng(34).uniform(0.0, 3.0, m)
    whole = replace(
        capped(34, m=m, q=1, e=1, p=1, link=link, margin=0.5 + 3.0 * 2.0**-34, total=1.0, whole=True),
        Z=z[:, None],
        entry=np.zeros(m, dtype=np.int64),
        last=np.ones(m, dtype=np.int64),
        weights=np.ones(m),
        offset=np.zeros(m),
        cap_baseline=np.array([[base]]),
        cap_slopes=np.ones((1, 1)),
    )
    weights = whole.weighed(intervals=1).weights
    with mpmath.workprec(200):
        caps = [mpmath.exp(whole.exact_log_caps(mpmath.mp, i, 0)[0]) for i in range(m)]
        most = max(float(cap * mpmath.mpf(float(weight)) - 1) for cap, weight in zip(caps, weights, strict=True))
    assert 2.0**-37 < most < UP - 1.0  # sums are formed in another order than caps of gradients


def test_a_weight_depends_on_the_own_spell_alone_and_terms_stay_finite() -> None:
    whole = capped(32, m=200, q=9, p=5, whole=True)
    found = whole.weighed(intervals=9)
    for part in (slice(17, 18), slice(3, 150)):
        assert whole.take(part).weighed(intervals=9).weights.tobytes() == found.weights[part].tobytes()
    Z = whole.Z.copy()
    Z[:5] = 1e50 * np.sign(whole.cap_slopes[0])
    far = replace(whole, Z=Z).weighed(intervals=9)
    assert not far.weights[:5].any()
    assert np.array_equal(far.last[:5], far.entry[:5])
    assert np.isfinite(far.scores(np.zeros(7))).all()


def test_the_error_bound_holds_for_people_who_are_weighed_down() -> None:
    spells = capped(33, m=25, total=1.0, margin=4.0, whole=True).weighed(intervals=7)
    assert np.median(spells.weights) < 0.2 * np.median(spells.most)
    problem, theta = objective(spells), np.array([0.4, -1.0, 1.5, 0.3])
    computed, exact = problem.gradient(theta), exact_gradient(problem, theta)
    with mpmath.workprec(250):
        error = float(mpmath.norm([mpmath.mpf(float(a)) - b for a, b in zip(computed, exact, strict=True)]))
    assert error <= problem.gradient_error(theta)


def test_the_total_counts_all_spells_of_a_person() -> None:
    person = np.array([0, 0, 0, 1])
    spells = in_time_order(capped(21, m=4, q=12, total=3.0, margin=0.0, flat=True, whole=True), person)
    spells = replace(spells, offset=np.full(4, 1.0 + math.log(0.5)))  # every cap is 1/2: six intervals a person
    ended = spells.ended(person)
    assert (ended.last - ended.entry).tolist() == [4, 2, 0, 6]
    # Spell by spell, each would keep all of its four: the sum of the first person would be 6, not 3.
    alone = spells.ended(np.arange(4))
    assert (alone.last - alone.entry).tolist() == [4, 4, 4, 6]


def test_where_follow_up_ends_depends_on_the_own_person_alone() -> None:
    # Totals that a person's sum meets to the last bit: any other order of summation would cross some of them.
    rng = np.random.default_rng(22)
    person = people_of(23, 200)
    whole = in_time_order(capped(24, m=200, q=9, p=5, whole=True), person)
    for name in rng.choice(np.unique(person), 25, replace=False):
        own = person == name
        alone = whole.take(own)
        for total in np.cumsum(np.exp(alone.log_caps(slice(0, 1), slice(0, 9), 0))[0])[[3, 8]].tolist():
            for other in (whole, whole.take(np.roll(own, -3) | own), whole.take(own | (rng.random(200) < 0.5))):
                kept = np.flatnonzero((other.Z[:, None, :] == alone.Z[None]).all(axis=2).any(axis=1))
                names = np.arange(len(other.Z)) if len(other.Z) < 200 else person
                names = np.where(np.isin(np.arange(len(other.Z)), kept), 10**6, names)
                ended = replace(other, total=max(total, 1e-9)).ended(names)
                expected = replace(alone, total=max(total, 1e-9)).ended(np.zeros(len(alone.Z), dtype=np.int64))
                assert np.array_equal(ended.last[kept], expected.last)


def test_caps_of_a_spell_do_not_depend_on_its_neighbours_in_memory() -> None:
    # Of these shapes many would give other last bits if BLAS multiplied.
    rng = np.random.default_rng(25)
    for _ in range(100):
        m, p = int(rng.integers(2, 300)), int(rng.integers(2, 24))
        spells = capped(int(rng.integers(1000)), m=m, p=p)
        place = int(rng.integers(m))
        every = spells.log_caps(slice(0, m), slice(0, 7), 0)[place]
        assert every.tobytes() == spells.log_caps(slice(place, place + 1), slice(0, 7), 0)[0].tobytes()


class TestCompiledSums:
    """Sums over intervals from factors are those of numpy, and the same bits for a spell wherever it stands."""

    @pytest.mark.parametrize(("link", "causes"), [("logit", 1), ("logit", 2), ("cloglog", 1), ("cloglog", 3)])
    def test_they_are_those_of_numpy(self, link: str, causes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = objective(capped(11, m=700, q=9, causes=causes, link=link, p=3))
        spells, theta = problem.rows.spells, np.random.default_rng(0).standard_normal(len(problem.ridge))
        assert spells.loss.multiplicative
        compiled = spells.scores(theta), problem.hessian(theta), problem.gradient(theta)
        monkeypatch.setattr(CappedSpells, "_has_factors", False)
        plain = spells.scores(theta), problem.hessian(theta), problem.gradient(theta)
        for one, two in zip(compiled, plain, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("far", [0.0, 200.0, -200.0, 1e5])
    @pytest.mark.parametrize("link", ["logit", "cloglog"])
    def test_spells_whose_factors_would_overflow_are_computed_apart(self, link: str, far: float) -> None:
        spells = capped(12, m=60, link=link)
        spells = replace(spells, Z=np.where(np.arange(60)[:, None] == 7, far, spells.Z)).ended(np.arange(60))
        theta = np.random.default_rng(0).standard_normal(spells.block)
        scores, alone = spells.scores(theta), spells.take(np.array([7])).scores(theta)
        assert np.all(np.isfinite(scores))
        np.testing.assert_array_equal(scores[7], alone[0])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CappedSpells, "_has_factors", False)
            np.testing.assert_allclose(scores, spells.scores(theta), rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("link", ["logit", "cloglog", "probit"])
    def test_no_place_no_piece_and_no_order_changes_a_bit(self, link: str, monkeypatch: pytest.MonkeyPatch) -> None:
        m, rng = 1200, np.random.default_rng(3)
        spells = capped(13, m=m, q=9, causes=2, link=link, p=3, whole=True)
        theta = rng.standard_normal(2 * spells.block)
        spells = spells.ended(np.arange(m), several=False)
        right, scores = objective(spells), spells.scores(theta)
        sums = right.rows.loss_gradient(theta), right.rows.loss_hessian(theta, rows=m)
        for order in (rng.permutation(m), np.arange(m)[::-1], np.roll(np.arange(m), 1)):
            there = replace(capped(13, m=m, q=9, causes=2, link=link, p=3, whole=True).take(order))
            there = there.ended(np.arange(m), several=False)
            np.testing.assert_array_equal(there.last, spells.last[order])
            np.testing.assert_array_equal(there.scores(theta), scores[order])
            problem = objective(there)
            np.testing.assert_array_equal(problem.rows.loss_gradient(theta), sums[0])
            np.testing.assert_array_equal(problem.rows.loss_hessian(theta, rows=m), sums[1])
        for place in (0, 1, 3, 255, 256, 257, 511, 512, m - 1):
            np.testing.assert_array_equal(spells.take(np.array([place])).scores(theta)[0], scores[place])
        cuts = np.split(np.arange(m), [1, 255, 600, 1111])
        parts = [changed(right, spells=spells.take(rows), bounds=right.rows.known_bounds) for rows in cuts]
        assert all(part.rows.grid_bits == right.rows.grid_bits for part in parts)
        np.testing.assert_array_equal(sum(part.rows.loss_gradient(theta) for part in parts), sums[0])
        found = [part.rows.loss_hessian(theta, rows=len(rows)) for part, rows in zip(parts, cuts, strict=True)]
        np.testing.assert_array_equal(sum(found), sums[1])
        for piece in (64, 1000):
            monkeypatch.setattr(kernels, "PIECE", piece)
            np.testing.assert_array_equal(right.rows.loss_gradient(theta), sums[0])


class TestWhichSums:
    """Factors where hazards have any, cells where coefficients are too far apart for them, both in a rehearsal."""

    FAR = 1e4
    LOOPS = ("add_caps", "add_scores", "add_curvatures")

    @pytest.fixture
    def ran(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return the compiled loops that ran."""
        found: list[str] = []
        for name in self.LOOPS:
            loop = getattr(module, name)
            monkeypatch.setattr(module, name, lambda *given, name=name, loop=loop: found.append(name) or loop(*given))
        return found

    @pytest.mark.parametrize("link", ["logit", "cloglog"])
    def test_a_wild_iterate_is_summed_cell_by_cell(self, link: str, ran: list[str]) -> None:
        problem = objective(capped(14, m=40, q=9, causes=2, link=link))
        tame = np.random.default_rng(2).standard_normal(len(problem.ridge))
        for theta, loops in ((tame, True), (self.FAR * tame, False), (tame, True)):
            ran.clear()
            gradient, scores, hessian = (
                problem.gradient(theta),
                problem.rows.spells.scores(theta),
                problem.hessian(theta),
            )
            assert bool(ran) is loops
            off = [float(a - b) for a, b in zip(exact_gradient(problem, theta), gradient.tolist(), strict=True)]
            assert np.linalg.norm(off) <= problem.gradient_error(theta)
            order = np.random.default_rng(3).permutation(40)
            other = changed(problem, spells=problem.rows.spells.take(order))
            np.testing.assert_array_equal(other.gradient(theta), gradient)
            np.testing.assert_array_equal(other.hessian(theta), hessian)
            np.testing.assert_array_equal(other.rows.spells.scores(theta), scores[order])

    @pytest.mark.parametrize("size", [1.0, FAR, 1e100])
    @pytest.mark.parametrize("link", ["logit", "cloglog"])
    def test_a_rehearsal_does_both(
        self, link: str, size: float, ran: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        m = 40
        spells = capped(15, m=m, q=9, causes=2, link=link, whole=True)
        problem = objective(spells)
        theta = size * np.random.default_rng(2).standard_normal(len(problem.ridge))

        def all_work() -> list[np.ndarray]:
            ended = spells.ended(np.arange(m), several=False).last
            return [ended, problem.gradient(theta), problem.hessian(theta), spells.scores(theta)]

        with rehearsing():
            rehearsed = all_work()
            assert set(ran) == set(self.LOOPS)
            monkeypatch.setattr(CappedSpells, "_has_factors", False)
            ran.clear()
            plain = all_work()
        assert ran == []
        for one, two in zip(rehearsed, plain, strict=True):  # caps that are products of factors are other doubles
            np.testing.assert_allclose(one, two, rtol=1e-13)


@pytest.mark.parametrize("pieces", [1, 7, 30])
def test_the_rounding_of_exact_gradients_in_partitions_is_no_less_than_that_of_all_spells(pieces: int) -> None:
    whole = objective(capped(q=60, causes=2), ridge=1.0).rows

    def loaded(chosen: np.ndarray) -> Iterator[HazardRows]:
        names = ("Z", "entry", "last", "cause", "weights", "offset")
        spells = replace(whole.spells, **{name: getattr(whole.spells, name)[chosen] for name in names})
        yield replace(whole, spells=spells, bounds=whole.known_bounds)

    sources = np.array_split(np.arange(whole.summands), pieces)
    parts = ReadInParts(sources, load=loaded, rows=whole.summands, engine=in_this_process)
    parted = PartedRows(parts=parts, bounds=whole.known_bounds)
    assert whole.exact_sizes(0.3) <= parted.exact_sizes(0.3) <= 1.001 * whole.exact_sizes(0.3)
