"""Families: whatever a record holds, a caller sees the same but for the noisy numbers; the densities keep epsilon."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit import observe
from tests.support import TOGETHER, replaced_together, seen_of_ledger, without_numbers

N = 101
SCHEMA = hdp.Schema(x=hdp.Continuous(0.5, 40, complete=True), b=hdp.Binary(complete=True))
RANGES = {
    "normal": {"sd": (1, 20)},
    "gamma": {"shape": (0.5, 10), "rate": (0.05, 5)},
    "exponential": {"rate": (0.02, 2)},
    "poisson": None,
    "bernoulli": None,
}
MECHANISMS = {
    "statistics": "statistics",
    "subsample": hdp.mechanisms.SubsampleAggregate(blocks=4),
}
CANARY = 17.17171717


def people():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.gamma(3, 3, N).clip(0.5, 40), "b": (rng.random(N) < 0.3) * 1.0})


def fitted(private, family, mechanism):
    study = hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=10), row_order="arbitrary")
    column = "b" if family == "bernoulli" else "x"
    model = hdpf.distribution(f"{column} ~ 1", data=study, family=family, ranges=RANGES[family])
    return study, model, model.fit(1.0, mechanism=MECHANISMS[mechanism])


def look(private, family, mechanism):
    study, model, result = fitted(private, family, mechanism)
    plain = dataclasses.replace(result.estimate, note=None)  # it says whether the released numbers lie at an edge
    result = dataclasses.replace(result, estimate=plain, private_only=plain)
    return {
        "model": repr(model),
        "facts": dataclasses.asdict(result.facts),
        "query": result.query.to_json(),
        "numbers": (len(result.release.units), result.release.noise_rate, result.release.records),
        "guarantee": result.guarantee.statement(),
        "estimate": (result.params, result.bse, result.conf_int(), result.cov_params()),
        "tables": [result.tidy(), result.glance()],
        "summary": without_numbers(str(result.summary())).replace("# to #", "#"),  # shares that may round to one
        "ledger": seen_of_ledger(study.ledger),
    }


@pytest.mark.covering(1)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("family", RANGES)
def test_one_row_changes_nothing_that_is_seen(family, mechanism):
    ordinary = observe(functools.partial(look, people(), family, mechanism))
    assert ordinary.exception is None
    for corners in TOGETHER[::2]:
        neighbour = replaced_together(people(), ["x", "b"], corners)
        assert observe(functools.partial(look, neighbour, family, mechanism)) == ordinary


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_private_value_is_in_any_text(mechanism):
    marked = people()
    marked.loc[7, "x"] = CANARY
    study, _, result = fitted(marked, "normal", mechanism)
    texts = (result.to_json(), str(result.summary()), result._repr_html_(), str(result.disclosure()), repr(result))
    for text in (*texts, study.ledger.history().to_csv(), result.query.to_json(), result.release.to_json()):
        assert str(CANARY) not in text


def test_the_distribution_of_the_noise_keeps_epsilon_at_every_output():
    """Exact probabilities of a small lattice: the ratio under the worst neighbours is exp(epsilon), never more."""
    epsilon, far, d = 0.7, 6, 2
    rate = epsilon / far
    distribution = {z: math.exp(-rate * max(map(abs, z))) for z in itertools.product(range(-40, 41), repeat=d)}
    corners = (0, 0), (far, far)
    losses = [
        math.log(distribution[tuple(np.subtract(out, corners[0]))] / distribution[tuple(np.subtract(out, corners[1]))])
        for out in itertools.product(range(-30, 31), repeat=d)
    ]
    assert max(losses) == pytest.approx(epsilon)
    independent = [rate * sum(map(abs, np.subtract(out, corners[1]))) - rate * sum(map(abs, out)) for out in [(0, 0)]]
    assert independent[0] == pytest.approx(d * epsilon)  # Laplace noise of the same scale in each coordinate
