"""Chen and Sung's algorithms as printed and corrected: scales, projection, formulas."""

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.losses.families import NormalFamily
from hdpstats.papers import chen_sung as paper

RATE = paper.exponential_times()
COIN = paper.events()


def noise(estimate, repeats=4000):
    """Return the standard deviation of an estimate of the same records over seeds."""
    return np.std([estimate(seed) for seed in range(repeats)])


@pytest.mark.wide
def test_noise_has_the_printed_scale_and_the_one_that_is_enough():
    x = COIN.parties(1, 400, seed=1)[0]
    printed = noise(lambda seed: paper.cssa(COIN, x, 1.0, seed=seed, blocks=20))
    enough = noise(lambda seed: paper.cssa(COIN, x, 1.0, seed=seed))
    assert printed == pytest.approx(np.sqrt(2) / 20, rel=0.1)
    assert enough == pytest.approx(np.sqrt(2) / 400, rel=0.1)
    y = RATE.parties(1, 400, seed=1)[0]
    blocks = noise(lambda seed: paper.csaa(RATE, y, 2.0, blocks=10, seed=seed))
    assert blocks == pytest.approx(np.sqrt(2) * 1.5 / (10 * 2.0), rel=0.1)


@pytest.mark.wide
def test_parties_draw_different_noise():
    """With the same noise at every party the mean of M parties would keep all of it."""
    x = np.tile(RATE.parties(1, 400, seed=1), (16, 1))
    alone = noise(lambda seed: paper.dsaa(RATE, x[:1], 1.0, blocks=10, seed=seed), 800)
    together = noise(lambda seed: paper.dsaa(RATE, x, 1.0, blocks=10, seed=seed), 800)
    assert together == pytest.approx(alone / 4, rel=0.2)


def test_without_projection_one_record_moves_the_mean_beyond_what_the_noise_covers():
    trial = paper.events(0.5, box=(0.0, 1.0))
    x = np.full(100, 0.5)
    spoiled = np.append(x[:-1], 1e6)  # algorithms do not clip: that is the schema's part

    def moved(projected):
        pair = [paper.csaa(trial, each, 1.0, blocks=10, seed=0, projected=projected) for each in (x, spoiled)]
        return abs(pair[1] - pair[0])

    assert moved(projected=False) == pytest.approx(1e4, rel=1e-3)
    assert moved(projected=True) <= 0.1


def test_the_same_seed_gives_the_same_estimate():
    x = COIN.parties(3, 50, seed=7)
    assert (COIN.parties(3, 50, seed=7) == x).all()
    assert paper.dssa(COIN, x, 1.0, seed=1) == paper.dssa(COIN, x, 1.0, seed=1) != paper.dssa(COIN, x, 1.0, seed=2)


def test_the_best_number_of_blocks_is_where_the_corrected_error_is_least():
    terms = {"parties": 20, "records": 10**5, "epsilon": 0.5, "width": 1.5}
    best = paper.best_blocks(**terms)
    k = np.arange(10, 5000)
    errors = [paper.mse_blocks(**terms, blocks=int(each), information=1.0, bias=1.0) for each in k]
    assert abs(k[int(np.argmin(errors))] - best) <= 1
    printed = [paper.mse_blocks_printed(**terms, blocks=int(each), information=1.0) for each in k]
    assert abs(k[int(np.argmin(printed))] - best) > 100


def test_corrected_and_printed_errors_of_statistics_are_those_of_the_numbers_worked_out_by_hand():
    information = 0.24
    terms = {"parties": 20, "records": 1000, "epsilon": 0.03, "width": 1.0, "information": information}
    assert 2e4 * paper.mse_statistics(**terms) == pytest.approx(1 / 0.24 + 2 / (1000 * 0.0009 * 0.0576))
    assert 2e4 * paper.mse_statistics_printed(**terms) == pytest.approx(4.1667 + 0.8863 + 0.0471, abs=0.01)


@pytest.mark.wide
@pytest.mark.parametrize("records", [100, 1003])
def test_many_repeats_at_once_are_the_algorithms_one_by_one(records):
    """Same mean and spread as `dsaa` and `dssa` on fresh records; would fail for shared noise, or noise per block."""
    terms = {"parties": 3, "records": records, "epsilon": 0.7}
    fast = paper.repeat_dsaa(RATE, **terms, blocks=4, repeats=4000, seed=1)
    slow = [paper.dsaa(RATE, RATE.parties(3, records, seed=s), 0.7, blocks=4, seed=s) for s in range(1500)]
    assert fast.mean() == pytest.approx(np.mean(slow), abs=5 * np.std(slow) / np.sqrt(1500))
    assert fast.std() == pytest.approx(np.std(slow), rel=0.1)
    fast = paper.repeat_dssa(COIN, **terms, repeats=4000, seed=1)
    slow = [paper.dssa(COIN, COIN.parties(3, records, seed=s), 0.7, seed=s) for s in range(1500)]
    assert fast.mean() == pytest.approx(np.mean(slow), abs=5 * np.std(slow) / np.sqrt(1500))
    assert fast.std() == pytest.approx(np.std(slow), rel=0.1)
    printed = paper.repeat_dssa(COIN, **terms, blocks=4, repeats=4000, seed=1)
    assert printed.std() > 3 * fast.std()


def test_repeats_do_not_depend_on_how_many_fit_into_memory(monkeypatch):
    terms = {"parties": 2, "records": 50, "epsilon": 1.0, "repeats": 7, "seed": 3}
    whole = paper.repeat_dssa(COIN, **terms)
    monkeypatch.setattr("hdpstats.papers.chen_sung.NUMBERS_AT_ONCE", 250)
    assert (paper.repeat_dssa(COIN, **terms) == whole).all()


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="one parameter"):
        paper.Trial(family=NormalFamily(lower=0.0, upper=1.0), truth=0.5, box=(0.0, 1.0), draw=COIN.draw)
    with pytest.raises(ArgumentError, match="epsilon"):
        paper.csaa(COIN, np.zeros(10), 0.0, blocks=2, seed=1)
    with pytest.raises(ArgumentError, match="blocks"):
        paper.csaa(COIN, np.zeros(10), 1.0, blocks=11, seed=1)
    with pytest.raises(ArgumentError, match="information"):
        paper.mse_statistics(parties=1, records=1, epsilon=1.0, width=1.0, information=0.0)
