"""The noisy number of people: who is counted, the distribution of the noise, the cut, and when it is for sale."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import InsufficientBudget, MechanismError
from hdpstats.mechanisms.count import CountQuery, CountRelease
from hdpstats.mechanisms.count import site as count
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.noise import TwoSidedGeometric
from hdpstats.privacy.budget import Budget, MechanismName, Spend
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests import chance

SCHEMA = Schema(x=hdp.Continuous(0, 1))
QUERY = CountQuery(epsilon=Fraction(1, 2), schema_sha256=SCHEMA.sha256)
NAMES = ["a", "b", "a", None, "c", " ", "b"]


def site_facts(most=1000, relation=Relation.ADD_OR_REMOVE_ONE):
    return SiteFacts(schema=SCHEMA, relation=relation, records=most)


def table_of(names, *, unit=True):
    frame = pd.DataFrame({"x": np.zeros(len(names)), "who": pd.Series(names, dtype=object)})
    return PrivateTable.from_frame(frame, SCHEMA, unit="who" if unit else None).admit(())


def without_noise(monkeypatch, noise=0):
    monkeypatch.setattr(TwoSidedGeometric, "draw", lambda self: noise)


@pytest.mark.parametrize(
    ("names", "unit", "people"),
    [(NAMES, True, 3), (NAMES, False, 7), ([], True, 0), ([], False, 0), ([None, " "], True, 0)],
)
def test_people_are_rows_or_distinct_names(names, unit, people):
    assert count.number_of_people(table_of(names, unit=unit)) == people


@pytest.mark.parametrize("rows", [["z"], ["z"] * 50, ["z", None], [1, "1", 1.0]])
def test_one_person_more_is_one_more_whatever_the_rows(rows):
    """A count of rows, or of first appearances of blank names, would move by more than the sensitivity."""
    for place in (0, 3, len(NAMES)):
        more = [*NAMES[:place], *rows, *NAMES[place:]]
        assert count.number_of_people(table_of(more)) == count.number_of_people(table_of(NAMES)) + 1


def distribution(people, *, epsilon, most, reach=400):
    """Return the exact probabilities of the released numbers 1 to ``most``."""
    z = np.arange(-reach, reach + 1)
    p = math.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(z))
    return np.bincount(np.clip(people + z, 1, most), p, minlength=most + 1)[1:]


@pytest.mark.parametrize(("people", "most"), [(0, 30), (3, 30), (29, 30), (30, 30), (60, 30)])
def test_the_loss_reaches_epsilon_and_does_not_exceed_it(people, most):
    prepared = count.prepare(QUERY, site_facts(most))
    rate = float(prepared.noise.rate)
    one, other = (distribution(n, epsilon=rate, most=most) for n in (people, people + 1))
    loss = np.max(np.abs(np.log(one) - np.log(other)))
    [event] = prepared.events
    assert event.ran is MechanismName.COUNT
    assert (event.delta, event.mu_squared) == (0, 0)
    assert loss == pytest.approx(float(event.epsilon), abs=1e-9)


@pytest.mark.entropy
def test_releases_follow_that_distribution():
    """A rate of epsilon / 2 or 2 epsilon, or a cut at 0, is told apart: missed, as right ones fail, with 1e-9."""
    people, most, draws = 3, 9, 4000
    prepared = count.prepare(QUERY, site_facts(most))
    table = table_of(NAMES)
    seen = [prepared.compute(table).count for _ in range(draws)]
    assert set(seen) <= set(range(1, most + 1))
    distributions = [
        chance.OutcomeDistribution(dict(enumerate(distribution(people, epsilon=rate, most=most), start=1)))
        for rate in (0.5, 0.25, 1.0)
    ]
    uncut = chance.OutcomeDistribution(dict(enumerate(distribution(people + 1, epsilon=0.5, most=most + 1))))
    chance.tells(distributions[0], seen, *distributions[1:], uncut)


def test_a_release_tells_the_cut_number_and_public_constants(monkeypatch):
    prepared = count.prepare(QUERY, site_facts(most=5))
    for noise, expected in ((0, 3), (-100, 1), (-3, 1), (1, 4), (100, 5)):
        without_noise(monkeypatch, noise)
        release = prepared.compute(table_of(NAMES))
        assert release.count == expected
    assert release.most == 5
    assert release.noise_sd == pytest.approx(math.sqrt(2 * math.exp(-0.5)) / -math.expm1(-0.5))
    assert prepared.needs == ()


def test_a_public_number_is_not_for_sale():
    with pytest.raises(MechanismError, match="public under replace_one"):
        count.prepare(QUERY, site_facts(relation=Relation.REPLACE_ONE))


@pytest.mark.parametrize(
    "change", [{"epsilon": Fraction(0)}, {"delta": Fraction(1, 9)}, {"epsilon": Fraction(1, 3**70)}]
)
def test_a_query_that_contradicts_itself_is_refused(change):
    with pytest.raises(MechanismError):
        replace(QUERY, **change)


@pytest.mark.parametrize(
    "ahead", [(), (Spend(Fraction(1, 3)), Spend(1, Fraction(1, 10**6), Fraction(1, 7), Budget(2, 1e-6)))]
)
def test_queries_and_releases_survive_json(ahead):
    query = replace(QUERY, ahead=ahead, replicate=3)
    read = query_from_json(query.to_json())
    assert read == query
    assert read.to_json() == query.to_json()
    assert [each.asked for each in read.ahead] == [each.asked for each in ahead]
    release = count.prepare(query, site_facts()).compute(table_of(NAMES))
    assert release_from_json(release.to_json()) == release
    assert isinstance(release, CountRelease)


def test_a_count_is_not_released_where_the_budget_does_not_suffice_for_the_rest():
    ledger = hdp.Ledger(None, dataset="trial", epsilon=1, relation="add_or_remove_one")
    frame = pd.DataFrame({"x": [0.5] * 20})
    site = hdp.LocalSite(frame, schema=SCHEMA, ledger=ledger, n_max=100)
    query = replace(QUERY, epsilon=Fraction(1, 50), ahead=(Spend(Fraction(99, 100)),))
    with pytest.raises(InsufficientBudget):
        site.answer(query)
    assert ledger.spent.epsilon == 0
    release = site.answer(replace(query, ahead=(Spend(Fraction(98, 100)),)))
    assert ledger.spent.epsilon == Fraction(1, 50)
    assert site.answer(replace(query, ahead=(Spend(Fraction(98, 100)),))) == release
