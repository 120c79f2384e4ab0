"""Buying weights: what is charged, what is known, what the weights are, and public data that hardly fit."""

import json
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.audit import observe
from hdpstats.mechanisms.hybrid_weights import NeighboursQuery
from hdpstats.mechanisms.hybrid_weights.candidates import candidate_sizes, part_of, penalties
from hdpstats.models.hybrid_weights import hybrid_weights
from hdpstats.results.weighted_sample import WeightedSample
from hdpstats.sites.local import PublicTables
from tests import chance
from tests.support import TOGETHER, replaced_together

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-4, 4, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    y=hdp.Binary(complete=True),
    z=hdp.Continuous(0, 1, complete=True),
)
COLUMNS = ["x", "g", "y"]


def people(number, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1, number).clip(-4, 4)
    return pd.DataFrame(
        {
            "x": x,
            "g": rng.choice(["a", "b", "c"], number, p=[0.5, 0.3, 0.2]),
            "y": (rng.random(number) < 1 / (1 + np.exp(-x))).astype(float),
            "z": rng.random(number),
        }
    )


def study_of(private=None, public=None, *, epsilon=1000, **options):
    return hdp.Study(
        private=people(800) if private is None else private,
        public=people(300, seed=1, shift=0.5) if public is None else public,
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=epsilon),
        **options,
    )


def discrete(number, seed, shares):
    rng = np.random.default_rng(seed)
    g = rng.choice(["a", "b", "c"], number, p=shares)
    return pd.DataFrame({"x": 0.0, "g": g, "y": (rng.random(number) < 0.2 + 0.3 * (g == "b")).astype(float), "z": 0.5})


@pytest.mark.covering(1)
@pytest.mark.parametrize("select", [False, True, "distance", "loss", "curve"])
@pytest.mark.parametrize("distance_share", [0, 0.2])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_request_costs_what_was_asked_once(select, distance_share, relation):
    options = {} if relation == "replace_one" else {"relation": relation, "n_max": 2000}
    study = study_of(**options)
    if select == "curve" and options:
        with pytest.raises(hdp.MechanismError, match="number of people"):
            hybrid_weights(study, COLUMNS, epsilon=0.7, select=select, model="y ~ x")
        assert study.ledger.spent.epsilon == 0
        return
    asked = {"epsilon": 0.7, "select": select, "distance_share": distance_share}
    asked |= {"model": "y ~ x"} if select in ("loss", "curve") else {}
    sample = hybrid_weights(study, COLUMNS, **asked)
    assert study.ledger.spent.epsilon == Fraction(7, 10)
    assert sample.guarantee.epsilon == Fraction(7, 10)
    assert sum(query.epsilon for query in sample.queries) == Fraction(7, 10)
    assert len(sample.releases) == 1 + bool(select) + bool(distance_share)
    again = hybrid_weights(study, COLUMNS, **asked)
    assert study.ledger.spent.epsilon == Fraction(7, 10)
    np.testing.assert_array_equal(again.distribution.weights, sample.distribution.weights)
    hybrid_weights(study, COLUMNS, **asked, replicate=2)
    assert study.ledger.spent.epsilon == Fraction(14, 10)


@pytest.mark.parametrize("select", [False, True, "loss", "curve"])
def test_what_exceeds_the_budget_in_full_is_refused_before_anything_is_charged(select):
    study = study_of(epsilon=1)
    with pytest.raises(hdp.InsufficientBudget):
        hybrid_weights(
            study,
            COLUMNS,
            epsilon=1.01,
            select=select,
            distance_share=0.3,
            model="y ~ x" if select in ("loss", "curve") else None,
        )
    assert study.ledger.spent.epsilon == 0


@pytest.mark.usefixtures("no_noise")
def test_with_little_noise_the_weights_are_the_private_frequencies():
    private, public = discrete(3000, 0, [0.2, 0.5, 0.3]), discrete(500, 1, [0.6, 0.2, 0.2])
    sample = hybrid_weights(study_of(private, public), ["g", "y"], epsilon=40)
    for name in ("a", "b", "c"):
        for y in (0, 1):
            share = sample.mean(lambda rows, name=name, y=y: (rows.g == name) & (rows.y == y)).estimate
            assert share == pytest.approx(np.mean((private.g == name) & (private.y == y)), abs=1e-9)
    assert len(sample.distribution.counts) == 6
    assert sample.distribution.weights.sum() == pytest.approx(3000)


@pytest.mark.wide
@pytest.mark.entropy
def test_noisy_weights_are_right_on_average_and_as_noisy_as_they_say():
    """rate |noise| of a cell is Gamma(1) to within rate² / 12: exact tails of the sum over cells and replicates.

    A false alarm, here or of the share above zero, has 1e-9. A rate 1.5 times too large or small passes with no more.
    """
    private, public = discrete(3000, 0, [0.2, 0.5, 0.3]), discrete(500, 1, [0.6, 0.2, 0.2])
    study, found, noise = study_of(private, public, epsilon=10_000), [], []
    people_of = private.groupby(["g", "y"]).size()
    for replicate in range(1, 161):
        sample = hybrid_weights(study, ["g", "y"], epsilon=0.05, projection="none", replicate=replicate)
        cells = pd.DataFrame({"cell": sample.distribution.cell, "g": public.g, "y": public.y}).drop_duplicates("cell")
        exact = [int(people_of[g, y]) for g, y in zip(cells.g, cells.y, strict=True)]
        noise.append(np.array(sample.distribution.counts)[cells.cell.to_numpy()] - exact)
        found.append(float(sample.distribution.weights[public.g == "b"].sum()))
        of_b = np.isin(cells.g.to_numpy(), ["b"])
        assert found[-1] == pytest.approx((noise[-1] + exact)[of_b].sum())
    rate, noise = float(sample.distribution.rate), np.array(noise)
    assert rate == 0.025
    assert noise.shape == (160, 6)
    alarm = chance.ALARM / 2
    assert chance.gamma_sum_fits(rate * np.abs(noise).sum(), noise.size, alarm=alarm)
    assert max(chance.miss_of_gamma_sum(noise.size, factor, alarm=alarm) for factor in (1.5, 1 / 1.5)) <= chance.ALARM
    assert chance.share_fits(int((noise > 0).sum()), noise.size, (0.5 * (1 - rate / 2), 0.5), alarm=alarm)


@pytest.mark.usefixtures("no_noise")
def test_the_default_is_near_the_fit_to_the_private_records():
    """Two shifted continuous columns, of which the public rows alone give a mean far away."""
    private, public = people(5000, 3), people(3000, 4, shift=1.0)
    sample = hybrid_weights(study_of(private, public), ["x", "y"], epsilon=2, select=True)
    assert abs(sample.mean("x").estimate - private.x.mean()) < 0.05
    assert abs(sample.mean("y").estimate - private.y.mean()) < 0.03
    assert public.x.mean() > 0.9


@pytest.mark.parametrize("projection", ["simplex", "clip", "none"])
def test_samples_survive_json(projection):
    study = study_of()
    sample = hybrid_weights(study, COLUMNS, epsilon=1, select=True, projection=projection, distance_share=0.1)
    again = WeightedSample.from_json(sample.to_json())
    np.testing.assert_array_equal(again.distribution.weights, sample.distribution.weights)
    np.testing.assert_array_equal(again.distribution.draws(4), sample.distribution.draws(4))
    assert again.facts == sample.facts
    assert again.queries == sample.queries


def test_where_the_number_is_protected_it_plays_no_part():
    """The same questions for 100 people and for 900, and weights that sum to the noisy counts alone."""
    asked = []
    for number in (100, 900):
        study = study_of(people(number), relation="add_or_remove_one", n_max=5000)
        sample = hybrid_weights(study, COLUMNS, epsilon=1, select=False, distance_share=0.1)
        asked.append([query.to_json() for query in sample.queries])
        assert sample.distribution.records is None
        total = max(sum(sample.releases[0].counts), 1)
        assert sample.distribution.weights.sum() == pytest.approx(total)
        assert sample.facts.records == total
    assert asked[0] == asked[1]


def test_nobody_where_the_number_is_protected():
    study = study_of(people(0), relation="add_or_remove_one", n_max=100)
    sample = hybrid_weights(study, COLUMNS, epsilon=1, select=True)
    assert np.all(np.isfinite(sample.distribution.weights))
    assert sample.distribution.weights.sum() > 0


def test_nobody_where_the_number_is_public_is_refused():
    with pytest.raises(hdp.ArgumentError, match="private records"):
        hybrid_weights(study_of(people(0)), COLUMNS, epsilon=1)


def test_a_level_that_no_public_row_has_is_named_and_its_people_are_counted():
    public = people(200, seed=2)
    public["g"] = public.g.replace("c", "a")
    sample = hybrid_weights(study_of(public=public), COLUMNS, epsilon=40)
    assert any("'g' 'c'" in note for note in sample.facts.notes)
    assert sample.distribution.weights.sum() == pytest.approx(800)


def test_a_public_range_of_one_value_is_left_out_and_named():
    public = people(200, seed=2).assign(x=1.5)
    sample = hybrid_weights(study_of(public=public), COLUMNS, epsilon=1)
    assert any("the same in 'x'" in note for note in sample.facts.notes)
    assert sample.queries[0].space.names == ("g", "y")
    alone = hybrid_weights(study_of(public=public), ["x"], epsilon=1, select=True)
    assert len(alone.distribution.counts) == 1
    np.testing.assert_allclose(alone.distribution.weights, 800 / 200)


def test_everybody_outside_the_public_range_is_counted_at_its_edge():
    public = people(200, seed=2).assign(x=np.linspace(2.0, 4.0, 200))
    private = people(300).assign(x=-3.0)
    sample = hybrid_weights(study_of(private, public), ["x"], epsilon=40, select=False)
    assert sample.distribution.weights[0] == pytest.approx(300, abs=2)
    far = hybrid_weights(study_of(private, public), ["x"], epsilon=40, distance_share=0.5, select=False)
    assert "mean distance of 2.5 " in far.facts.notes[0]  # from -3 to 2 in ranges of 2: clipping does not hide it


@pytest.mark.parametrize("select", [False, True, "loss"])
def test_one_public_row(select):
    study = study_of(public=people(1, seed=3))
    sample = hybrid_weights(study, COLUMNS, epsilon=1, select=select, model="y ~ x" if select == "loss" else None)
    assert sample.distribution.weights.tolist() == [800.0]
    assert study.ledger.spent.epsilon == 1


def test_more_than_a_hundred_columns():
    rng = np.random.default_rng(0)
    names = [f"v{number}" for number in range(120)]
    schema = hdp.Schema({name: hdp.Continuous(-4, 4, complete=True) for name in names})
    private, public = (pd.DataFrame(rng.normal(size=(400, 120)), columns=names) for _ in range(2))
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=2))
    sample = hybrid_weights(study, names, epsilon=2, select=True)
    assert sample.distribution.weights.sum() == pytest.approx(400)


def test_incomplete_public_rows_are_left_out_and_numbered():
    public = people(200, seed=2)
    public.loc[:19, "x"] = np.nan
    public.loc[30:39, "z"] = np.nan  # not a weighted column: these rows stay
    sample = hybrid_weights(study_of(public=public), COLUMNS, epsilon=1)
    assert len(sample.rows) == 180
    assert any("20 public rows" in note for note in sample.facts.notes)


@pytest.mark.parametrize("corners", TOGETHER)
def test_no_private_cells_change_what_is_seen(corners):
    """Facts, notes and sizes are the same; nothing is raised, warned or printed; only counts differ."""

    def seen(private):
        def look():
            study = study_of(private)
            sample = hybrid_weights(study, COLUMNS, epsilon=1)
            facts = json.dumps(sample.facts.to_dict())
            return facts, repr(study), sample.queries[0].to_json(), len(sample.releases[0].counts)

        return observe(look)

    strange = replaced_together(people(800), list(people(800).columns), corners)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert seen(strange) == seen(people(800).astype(object))


def test_a_site_that_forgot_the_public_rows_is_given_them_again():
    study = study_of()
    first = hybrid_weights(study, COLUMNS, epsilon=1)
    study.site._public = PublicTables()
    again = hybrid_weights(study, COLUMNS, epsilon=1)
    np.testing.assert_array_equal(first.distribution.weights, again.distribution.weights)


def test_a_site_keeps_the_latest_public_tables_only():
    study = study_of()
    for seed in range(10):
        study.site.put_public(study_of(public=people(20, seed=seed)).public)
    study.site.put_public(study.public)
    kept = study.site._public.of(None)
    assert len(kept) == 8
    assert list(kept)[-1] == study.public.sha256


def test_a_site_refuses_public_rows_of_another_schema_and_what_is_none():
    other = hdp.Study(public=people(5)[["z"]], schema=hdp.Schema(z=hdp.Continuous(0, 2, complete=True)))
    with pytest.raises(hdp.SiteError, match="another schema"):
        study_of().site.put_public(other.public)
    with pytest.raises(hdp.ArgumentError):
        study_of().site.put_public(people(3))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"columns": []}, hdp.ArgumentError),
        ({"columns": "x"}, hdp.ArgumentError),
        ({"columns": ["nope"]}, hdp.SchemaError),
        ({"columns": [1]}, hdp.ArgumentError),
        ({"epsilon": 0}, hdp.ArgumentError),
        ({"epsilon": 60}, hdp.BudgetError),
        ({"select": "curvy"}, hdp.ArgumentError),
        ({"select": "loss"}, hdp.ArgumentError),
        ({"model": "y ~ x"}, hdp.ArgumentError),
        ({"select": "loss", "model": "x ~ y"}, hdp.ArgumentError),
        ({"select": True, "share": 1}, hdp.ArgumentError),
        ({"select": True, "share": 0}, hdp.ArgumentError),
        ({"distance_share": 1}, hdp.ArgumentError),
        ({"select": True, "share": 0.5, "distance_share": 0.5}, hdp.ArgumentError),
        ({"projection": "sphere"}, hdp.ArgumentError),
        ({"replicate": 0}, hdp.ArgumentError),
    ],
)
def test_what_makes_no_sense_is_refused_uncharged(arguments, error):
    study = study_of()
    asked = {"columns": COLUMNS, "epsilon": 1} | arguments
    with pytest.raises(error):
        hybrid_weights(study, **asked)
    assert study.ledger.spent.epsilon == 0


def test_studies_without_a_side_or_with_several_rows_per_person_are_refused():
    with pytest.raises(hdp.ArgumentError, match="public ones"):
        hybrid_weights(hdp.Study(public=people(5), schema=SCHEMA), COLUMNS, epsilon=1)
    rows = people(6).assign(id=["a", "a", "b", "b", "c", "c"])
    long = study_of(rows, unit="id", max_rows_per_unit=2, n_max=3)
    with pytest.raises(hdp.ArgumentError, match="one row per person"):
        hybrid_weights(long, COLUMNS, epsilon=1)
    with pytest.raises(hdp.ArgumentError):
        hybrid_weights(people(3), COLUMNS, epsilon=1)


def test_sizes_double_and_end_with_all_points():
    assert candidate_sizes(1) == (1,)
    assert candidate_sizes(8) == (8,)
    assert candidate_sizes(9) == (8, 9)
    assert candidate_sizes(10**6)[-2:] == (2048, 4096)
    assert len(candidate_sizes(10**6)) == 10


def test_parts_are_rounded_down_and_penalties_grow_with_the_noise():
    assert part_of(Fraction(1, 3), Fraction(1, 10)) <= Fraction(1, 30)
    small, large = penalties([8, 32], 2.0)
    assert large == pytest.approx(2 * small)
    assert penalties([8], 8.0)[0] == pytest.approx(2 * small)


def test_a_curve_is_shown_with_its_noise_and_chooses_the_least():
    sample = hybrid_weights(study_of(), COLUMNS, epsilon=40, select="curve", model="y ~ x", share=0.9)
    release = sample.releases[1]
    assert any("Errors of the sizes" in note for note in sample.facts.notes)
    size = candidate_sizes(len(sample.releases[0].counts))[int(np.argmin(release.errors))]
    assert len(sample.distribution.counts) == size
    assert sample.distribution.weights.sum() == pytest.approx(800)


def test_a_chosen_size_is_what_is_counted_at():
    sample = hybrid_weights(study_of(), COLUMNS, epsilon=1, select=True)
    selection, counting = sample.queries
    size = selection.sizes[sample.releases[0].choice]
    assert isinstance(counting, NeighboursQuery)
    assert counting.support == selection.order[:size]
    assert len(sample.distribution.counts) == size


def test_a_choice_is_the_default_for_continuous_columns_only():
    study = study_of()
    assert len(hybrid_weights(study, ["g", "y"], epsilon=1).releases) == 1
    assert [release.kind for release in hybrid_weights(study, COLUMNS, epsilon=1).releases] == [
        release.kind for release in hybrid_weights(study, COLUMNS, epsilon=1, select=True).releases
    ]


def test_a_missing_combination_is_noted():
    public = people(60, seed=3)
    levels = sorted(set(public["g"]))
    public = public[~((public["g"] == levels[0]) & (public["y"] == 1))]
    (note,) = [
        each
        for each in hybrid_weights(study_of(public=public), ["g", "y"], epsilon=1).facts.notes
        if "combinations" in each
    ]
    assert note.startswith(f"Public rows have {2 * len(levels) - 1} of the {2 * len(levels)}")
    whole = hybrid_weights(study_of(), ["g", "y"], epsilon=1)
    assert not any("combinations" in each for each in whole.facts.notes)
