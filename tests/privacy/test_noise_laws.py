"""The exact distributions of noise on neighbouring inputs, and that a wrong coin anywhere in a sampler shows."""

import dataclasses

import pytest

from hdpstats.audit import noise_laws
from hdpstats.audit.noise_laws import QUICK, exact_laws
from hdpstats.mechanisms.exponential import site as exponential

SAMPLERS = ("two-sided geometric", "ball", "box", "cylinder", "rounded normal", "permute-and-flip")


def test_samplers_have_the_distributions_and_the_ratios_that_are_claimed():
    found = list(exact_laws(plant=False, names=SAMPLERS, precision=QUICK))
    assert [each.name for each in found] == [*SAMPLERS]
    assert all(each.holds for each in found)
    assert all(each.found > 0.9 * each.claimed for each in found)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.wide
def test_every_wrong_coin_of_a_sampler_is_caught(name):
    (found,) = exact_laws(names=(name,), precision=QUICK)
    assert len(found.planted) >= 2
    assert all(found.planted.values()), found.planted


def exponential_law():
    return noise_laws._sampled(QUICK, name="exponential, regression", places=6, most=1)


def test_the_exponential_mechanism_has_its_probabilities():
    found = exponential_law()
    assert found.holds
    assert 0.0 < found.found <= found.claimed


@pytest.mark.parametrize("wrong", ["always", "halved", "without the ridge", "a sixteenth"])
def test_a_wrong_coin_inside_the_exponential_mechanism_is_caught(monkeypatch, wrong):
    right, excess = exponential.bernoulli_exp, exponential.Proposals.excess
    if wrong == "without the ridge":
        monkeypatch.setattr(exponential.Proposals, "excess", lambda self, lowest, place: excess(self, lowest, lowest))
    else:
        coins = {
            "always": lambda *_: True,
            "halved": lambda top, bottom: right(top, 2 * bottom),
            "a sixteenth": noise_laws.wrong_coin("bernoulli_exp", right),
        }
        monkeypatch.setattr(exponential, "bernoulli_exp", coins[wrong])
    assert not exponential_law().holds


def test_too_little_noise_in_an_objective_is_caught():
    for found in exact_laws(names=("noise in an objective",)):
        assert found.holds
        assert set(found.planted.values()) == {True}
    assert found.found > 0.99 * found.claimed


@pytest.mark.wide
def test_normal_noise_in_an_objective_keeps_its_delta():
    (found,) = exact_laws(names=("normal noise in an objective",))
    assert found.holds
    assert set(found.planted.values()) == {True}
    assert not dataclasses.replace(found, found=2.0 * found.claimed).holds
