"""Private people of a hazard model: what one contributes depends on that one alone, to the last bit, and adds up."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.families.hazard.rows import HazardRows
from hdpstats.records.query import unstack
from tests.unit.solvers.capped_problems import capped, in_time_order, people_of


def made(seed: int, *, m: int = 300, causes: int = 1, p: int = 7, link: str = "logit") -> HazardRows:
    person = people_of(seed, m)
    spells = in_time_order(capped(seed, m=m, q=9, p=p, causes=causes, link=link, whole=True), person)
    return HazardRows(spells=spells.ended(person), person=person, number=int(person.max()) + 2)


def only(people: HazardRows, names: np.ndarray) -> HazardRows:
    """Return some of the people, in another order."""
    kept = np.concatenate([np.flatnonzero(people.person == name) for name in names])
    rows = {name: getattr(people.spells, name)[kept] for name in ("Z", "entry", "last", "cause", "weights", "offset")}
    place = {name: number for number, name in enumerate(names.tolist())}
    person = np.array([place[name] for name in people.person[kept].tolist()])
    return replace(people, spells=replace(people.spells, **rows), person=person, number=len(names))


@pytest.mark.parametrize(("link", "causes"), [("logit", 1), ("cloglog", 2), ("probit", 3)])
def test_scores_and_hessians_of_people_add_up_to_those_of_the_objective(link: str, causes: int) -> None:
    people = made(1, link=link, causes=causes, p=3)
    D = people.spells.causes * people.spells.block
    theta = np.random.default_rng(2).standard_normal(D)
    zero = np.zeros(D)
    problem = people.penalised(ridge=zero, centre=zero, linear=zero)
    scores = people.scores(theta)
    assert scores.shape == (people.count, D)
    assert scores.sum(axis=0) == pytest.approx(problem.gradient(theta), abs=1e-8)
    stacked = 2.0**-40 * people.stacked_hessian(theta, grid=2.0**-40)
    assert np.allclose(unstack(stacked, D), problem.hessian(theta), atol=1e-8)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("link", "causes"), [("logit", 1), ("cloglog", 2)])
@pytest.mark.parametrize("p", [5, 13, 21, 23])
def test_what_a_person_contributes_depends_on_no_other_person(link: str, causes: int, p: int) -> None:
    # Rounded contributions add up exactly, whoever else is there and in which order: matrix products would not do.
    people, rng = made(3, link=link, causes=causes, p=p), np.random.default_rng(4)
    theta = rng.standard_normal(people.spells.causes * people.spells.block)
    grid, names = 2.0**-45, np.unique(people.person)
    whole, scores = people.stacked_hessian(theta, grid=grid), people.scores(theta)
    losses = people.losses(theta) if link == "logit" else None
    for _ in range(12):
        chosen = rng.permutation(names)[: int(rng.integers(1, len(names)))]
        rest = np.setdiff1d(names, chosen)
        parts = [only(people, each).stacked_hessian(theta, grid=grid) for each in (chosen, rest)]
        assert np.array_equal(parts[0] + parts[1], whole)
        assert np.array_equal(only(people, chosen).scores(theta), scores[chosen])
        if losses is not None:
            assert np.array_equal(only(people, chosen).losses(theta), losses[chosen])
