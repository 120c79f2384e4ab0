"""Families at several sites: a replaced person moves one site's sums, by what that site's noise covers, and no more.

Noise is turned off and its distribution is recorded, so that the exact loss of a whole fit is known: the sum over sites
of the rate of a site's noise times how far its released integers move.
"""

import functools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit import observe
from hdpstats.mechanisms.statistics import UNITS
from hdpstats.mechanisms.subsample import SubsampleQuery
from hdpstats.mechanisms.subsample import site as subsample
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS, TOGETHER, replaced, replaced_together, seen_of_ledger, without_numbers

SCHEMA = hdp.Schema(x=hdp.Continuous(0.5, 40, complete=True), b=hdp.Binary(complete=True))
RANGES = {
    "normal": ("x", {"sd": (1, 20)}),
    "gamma": ("x", {"shape": (0.5, 10), "rate": (0.05, 5)}),
    "exponential": ("x", {"rate": (0.02, 2)}),
    "bernoulli": ("b", None),
}
SIZES = {"A": 40, "B": 101, "C": 60}
EPSILONS = {"A": 0.5, "B": 1.0, "C": 3.0}


def people(n, seed=0, names=None):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.gamma(3, 3, n).clip(0.5, 40), "b": (rng.random(n) < 0.3) * 1.0})
    return frame if names is None else frame.assign(id=[f"{names}{place}" for place in range(n)])


def sites(**changed):
    return {name: people(n, seed=n) for name, n in SIZES.items()} | changed


def fitted(private, family, mechanism, **options):
    declared = {"row_order": "arbitrary"} | options
    study = hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=10), **declared)
    column, ranges = RANGES[family]
    return study, hdpf.distribution(f"{column} ~ 1", data=study, family=family, ranges=ranges).fit(
        EPSILONS, mechanism=mechanism
    )


def answers(result):
    """Return each site's released integers and the rate of its noise."""
    return {name: (np.array(each.units), each.noise_rate) for name, each in result.release.sites}


def losses(before, after):
    """Return what the releases of each site lose between neighbours, at the worst output: exactly."""
    return {name: rate * np.abs(after[name][0] - units).max() for name, (units, rate) in before.items()}


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("family", RANGES)
@pytest.mark.parametrize("mechanism", ["statistics", hdp.mechanisms.SubsampleAggregate(blocks=4)])
def test_the_loss_of_a_fit_is_that_of_one_site_and_at_most_its_epsilon(family, mechanism):
    """Would fail for noise of M epsilon, and if a site's query depended on another's records."""
    before = answers(fitted(sites(), family, mechanism)[1])
    for corner in list(CORNERS)[::24]:
        changed = replaced(people(SIZES["B"], seed=SIZES["B"]), ["x", "b"], CORNERS[corner], row=7)
        lost = losses(before, answers(fitted(sites(B=changed), family, mechanism)[1]))
        assert lost["A"] == lost["C"] == 0
        assert lost["B"] <= EPSILONS["B"] * (1 + 1e-12)


@pytest.mark.usefixtures("no_noise")
def test_the_worst_neighbours_of_every_site_attain_its_own_epsilon():
    """Noise for more than that would be wasted, for less would exceed epsilon."""
    lowest, highest = (people(40).assign(x=value) for value in (0.5, 40.0))
    private = {"A": lowest, "B": lowest.copy(), "C": lowest.copy()}
    before = answers(fitted(private, "exponential", "statistics")[1])
    for name in private:
        changed = lowest.copy()
        changed.loc[3] = highest.loc[3]
        lost = losses(before, answers(fitted(private | {name: changed}, "exponential", "statistics")[1]))
        assert lost == pytest.approx({each: EPSILONS[each] * (each == name) for each in private})


@pytest.mark.usefixtures("no_noise")
def test_blocks_of_rows_are_made_by_place_and_not_by_value():
    """Where rows are sorted first, one person shifts every block, and the fit loses four times what is charged."""
    frame = people(40).assign(x=np.repeat([1.0, 11.0, 21.0, 31.0], 10))
    changed = frame.copy()
    changed.loc[39, "x"] = 0.5
    found = []
    for at_b in (frame, changed):
        private = {"A": frame.copy(), "B": at_b, "C": frame.copy()}
        study = hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=10), row_order="arbitrary")
        model = hdpf.distribution("x ~ 1", data=study, family="normal", ranges={"sd": (1, 1 + 1e-6)})
        found.append(answers(model.fit(EPSILONS, mechanism=hdp.mechanisms.SubsampleAggregate(blocks=4))))
    assert losses(*found) == pytest.approx({"A": 0.0, "B": EPSILONS["B"], "C": 0.0})


EDGE = {"probability": (0.5, 0.5 + 1e-9)}
"""A box so short that a block is at one end of it or at the other, on which side of a half its mean is."""


def in_two_blocks(frame):
    """Return the estimates of two blocks of named people, without noise."""
    site_facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=40, unit="id")
    query = SubsampleQuery(
        column="b", family="bernoulli", box=(EDGE["probability"],), blocks=2, by="persons", epsilon=Fraction(1),
        schema_sha256=SCHEMA.sha256,
    )  # fmt: skip
    prepared = subsample.prepare(query, site_facts)
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(prepared.needs, key=prepared.key)
    return subsample.units_of_persons(query, prepared.family, table)[:, 0]


def named_pair():
    """Return two neighbours that differ in who one person is, and in both blocks from end to end."""
    rng = np.random.default_rng(0)
    while True:
        frame = people(6, names="p").assign(b=rng.integers(0, 2, 6) * 1.0)
        other = frame.copy()
        other.loc[0, ["b", "id"]] = [1.0 - frame.loc[0, "b"], f"q{rng.integers(1000)}"]
        if abs((in_two_blocks(other) - in_two_blocks(frame)).sum()) == 2 * UNITS:
            return frame, other


@pytest.mark.usefixtures("no_noise")
def test_named_people_at_sites_have_twice_the_noise_as_two_blocks_change():
    """A keyed hash that is counted once loses twice its epsilon between these neighbours."""
    frame, other = named_pair()
    found = []
    for at_b in (frame, other):
        study = hdp.Study(
            private={"A": frame.copy(), "B": at_b, "C": frame.copy()}, schema=SCHEMA, budget=hdp.Budget(epsilon=10),
            unit="id", max_rows_per_unit=1, n_max=dict.fromkeys("ABC", 40),
        )  # fmt: skip
        model = hdpf.distribution("b ~ 1", data=study, family="bernoulli", ranges=EDGE)
        found.append(answers(model.fit(EPSILONS, mechanism=hdp.mechanisms.SubsampleAggregate(blocks=2))))
    assert losses(*found) == pytest.approx({"A": 0.0, "B": EPSILONS["B"], "C": 0.0})


def look(private, family, mechanism):
    study, result = fitted(private, family, mechanism)
    facts = [(site.site, site.status, site.records, site.epsilon, site.rounds) for site in result.site_facts]
    return {
        "query": result.query.to_json(),
        "numbers": [(len(each.units), each.noise_rate, each.records) for _, each in result.release.sites],
        "guarantee": result.guarantee.statement(),
        "facts": facts,
        "method": result.facts.method,
        "tables": [result.tidy(), result.glance()],
        "summary": without_numbers(str(result.summary())).replace("# to #", "#").partition("Standard errors")[0],
        "ledgers": {name: seen_of_ledger(ledger) for name, ledger in study.ledgers.items()},
    }


@pytest.mark.parametrize("mechanism", ["statistics", hdp.mechanisms.SubsampleAggregate(blocks=4)])
@pytest.mark.parametrize("family", ["normal", "bernoulli"])
def test_one_row_at_one_site_changes_nothing_that_is_seen(family, mechanism):
    ordinary = observe(functools.partial(look, sites(), family, mechanism))
    assert ordinary.exception is None
    for corners in TOGETHER[::4]:
        changed = replaced_together(people(SIZES["A"], seed=SIZES["A"]), ["x", "b"], corners)
        assert observe(functools.partial(look, sites(A=changed), family, mechanism)) == ordinary


def test_every_site_draws_noise_of_its_own():
    """With the same noise at every site the differences between equal sites would be exactly 0."""
    equal = people(50)
    private = {name: equal.copy() for name in "ABC"}
    study = hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    result = hdpf.distribution("x ~ 1", data=study, family="exponential", ranges=RANGES["exponential"][1]).fit(0.1)
    released = {each.units[0] for _, each in result.release.sites}
    assert len(released) == 3
    assert all(math.isfinite(number) for number in result.params)
