"""Buying importance weights: what is charged, what the weights are, and public data that hardly fit."""

import itertools
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.audit import observe
from hdpstats.mechanisms.importance_weights import ColumnBox
from hdpstats.mechanisms.perturbation import ObjectiveRelease, OutputRelease
from hdpstats.models.importance_weights import importance_weights
from hdpstats.records.geometry import Geometry
from hdpstats.results.weighted_sample import WeightedSample
from hdpstats.schema.public import PublicTable
from tests import known_noise
from tests.support import TOGETHER, replaced_together

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-5, 5, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    y=hdp.Binary(complete=True),
    k=hdp.Continuous(0, 40, complete=True),
)


def people(number, seed=0, shift=0.0, shares=(0.5, 0.3, 0.2)):
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1, number).clip(-5, 5)
    return pd.DataFrame(
        {
            "x": x,
            "g": rng.choice(["a", "b", "c"], number, p=shares),
            "y": (rng.random(number) < 1 / (1 + np.exp(-x))).astype(float),
            "k": rng.integers(0, 12, number).astype(float),
        }
    )


def study_of(private=None, public=None, *, epsilon=10000, delta=0, **options):
    return hdp.Study(
        private=people(2000, shift=0.8, shares=(0.2, 0.3, 0.5)) if private is None else private,
        public=people(1500, seed=1) if public is None else public,
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=epsilon, delta=delta),
        **options,
    )


def test_a_request_costs_what_was_asked_once():
    study = study_of(delta=1e-3)
    sample = importance_weights(study, "~ x + g", epsilon=0.7)
    assert study.ledger.spent.epsilon == sample.guarantee.epsilon == Fraction(7, 10)
    assert sample.guarantee.delta == 0
    same = importance_weights(study, "~ x + g", epsilon=0.7)
    assert np.array_equal(same.distribution.weights, sample.distribution.weights)
    before = study.ledger.spent.epsilon
    other = importance_weights(study, "~ x + g", epsilon=0.7, replicate=2)
    assert study.ledger.spent.epsilon == before + Fraction(7, 10)
    assert not np.array_equal(other.distribution.weights, sample.distribution.weights)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("mechanism", ["objective", "output"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_with_much_epsilon_shifts_of_numbers_and_levels_are_corrected(mechanism, delta):
    study = study_of(delta=0.1)
    private = people(2000, shift=0.8, shares=(0.2, 0.3, 0.5))
    options = {"epsilon": 2000, "allow_large_epsilon": True, "ridge": 1e-4}
    sample = importance_weights(study, "~ x + g", mechanism=mechanism, delta=delta, **options)
    assert sample.mean("x").estimate == pytest.approx(private.x.mean(), abs=0.1)
    assert sample.mean(lambda d: d.g == "c").estimate == pytest.approx(0.5, abs=0.04)
    assert abs(sample.rows.x.mean()) < 0.1
    expected = ObjectiveRelease if mechanism == "objective" else OutputRelease
    assert isinstance(sample.releases[0], expected)


@pytest.mark.usefixtures("no_noise")
def test_the_paper_s_coding_leaves_most_of_a_shift_in_a_continuous_column():
    options = {"epsilon": 2000, "allow_large_epsilon": True, "ridge": 0.1}
    ours = importance_weights(study_of(), "~ x", **options)
    papers = importance_weights(study_of(), "~ 0 + x", **options)
    assert ours.mean("x").estimate > 0.5
    assert papers.mean("x").estimate < 0.3
    assert any("no intercept" in note for note in papers.facts.notes)


def test_the_sample_says_what_it_is():
    study = study_of()
    sample = importance_weights(study, "~ x*g + k", epsilon=1)
    assert sample.facts.columns == ("x", "g", "k")
    assert sample.facts.formula == "~ 1 + x + g + k + x:g"
    assert (sample.facts.records, sample.facts.public_rows) == (2000, 1500)
    assert sample.distribution.weights.sum() == pytest.approx(2000)
    assert Fraction(sample.distribution.ridge * 2000) == sample.queries[0].ridge
    assert 0 < sample.overlap < 1
    assert 1 < sample.effective_size < 1500
    assert any("ridge leaves" in note for note in sample.facts.notes)
    assert any("80 to 95 %" in note for note in sample.facts.notes)
    assert not any("80 to 95 %" in note for note in importance_weights(study, "~ g*y", epsilon=1).facts.notes)
    back = WeightedSample.from_json(sample.to_json())
    assert np.array_equal(back.distribution.weights, sample.distribution.weights)
    assert back.mean("x") == sample.mean("x")
    assert "importance" in str(sample)


def test_public_rows_that_lack_a_column_are_left_out_and_named():
    public = people(300, seed=1)
    public.loc[:9, "x"] = np.nan
    public.loc[:19, "k"] = np.nan
    sample = importance_weights(study_of(public=public), "~ x", epsilon=1)
    assert len(sample.rows) == 290
    assert any("10 public rows lack" in note for note in sample.facts.notes)


def test_levels_and_columns_without_public_variation_are_left_out_and_private_ones_are_no_signal():
    public = people(200, seed=1, shares=(0.6, 0.4, 0.0)).assign(k=7.0)
    seen = []
    for shares in ((0.5, 0.5, 0.0), (0.0, 0.0, 1.0)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sample = importance_weights(study_of(people(500, shares=shares), public), "~ g + k + y", epsilon=1)
        seen.append((sample.queries[0].to_json(), sample.facts))
    assert seen[0] == seen[1]
    assert sample.queries[0].model.columns == ("g[T.b]", "y")
    assert any("'g[T.c]', 'k'" in note for note in sample.facts.notes)


@pytest.mark.parametrize("frame", [people(1), people(40).assign(x=1.0), people(40).assign(x=np.nan)])
def test_public_rows_that_do_not_differ_are_refused_before_anything_is_charged(frame):
    study = study_of(public=frame)
    with pytest.raises(hdp.ArgumentError, match="same in every column"):
        importance_weights(study, "~ x", epsilon=1)
    assert study.ledger.spent.epsilon == 0


def test_two_public_rows_share_the_weight():
    public = people(2).assign(x=[0.0, 1.0])
    sample = importance_weights(study_of(public=public), "~ x", epsilon=1)
    assert sample.distribution.weights.sum() == pytest.approx(2000)
    assert (sample.distribution.weights > 0).all()


def test_without_private_records_there_is_nothing_to_stand_for():
    study = study_of(people(0))
    with pytest.raises(hdp.ArgumentError, match="none"):
        importance_weights(study, "~ x", epsilon=1)
    assert study.ledger.spent.epsilon == 0


def test_one_private_record_is_an_ordinary_study():
    sample = importance_weights(study_of(people(1)), "~ x + g", epsilon=1)
    assert sample.distribution.weights.sum() == pytest.approx(1.0)


def test_more_than_a_hundred_columns_are_weighted():
    schema = hdp.Schema(**{f"c{i}": hdp.Binary(complete=True) for i in range(120)})
    rng = np.random.default_rng(2)
    frames = [pd.DataFrame(rng.integers(0, 2, (n, 120)), columns=list(schema)) for n in (400, 300)]
    study = hdp.Study(private=frames[0], public=frames[1], schema=schema, budget=hdp.Budget(epsilon=1))
    sample = importance_weights(study, "~ " + " + ".join(schema), epsilon=1)
    assert isinstance(sample.queries[0].model.coding, ColumnBox)
    assert len(sample.releases[0].theta) == 121
    assert np.isfinite(sample.distribution.weights).all()


def test_it_is_proved_under_replace_one_only_and_says_what_to_use():
    study = study_of(relation="add_or_remove_one", n_max=3000)
    with pytest.raises(hdp.MechanismError, match="hybrid_weights"):
        importance_weights(study, "~ x", epsilon=1)
    assert study.ledger.spent.epsilon == 0
    query = importance_weights(study_of(), "~ x", epsilon=1).queries[0]
    study.site.put_public(study.public)
    for perturbs in ("objective", "output"):
        with pytest.raises(hdp.MechanismError, match="replace_one"):
            study.site.answer(replace(query, perturbs=perturbs))
    assert study.ledger.spent.epsilon == 0


def test_people_with_several_rows_are_refused():
    frame = people(50).assign(id=range(50))
    study = hdp.Study(
        private=frame,
        public=people(50),
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=1),
        unit="id",
        max_rows_per_unit=2,
        n_max=60,
    )
    with pytest.raises(hdp.ArgumentError, match="one row per person"):
        importance_weights(study, "~ x", epsilon=1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"formula": "y ~ x"}, hdp.FormulaError),
        ({"formula": "~ nothing"}, hdp.FormulaError),
        ({"epsilon": 0}, hdp.HdpError),
        ({"epsilon": 51}, hdp.HdpError),
        ({"delta": 1}, hdp.ArgumentError),
        ({"ridge": 0}, hdp.ArgumentError),
        ({"mechanism": "histogram"}, hdp.ArgumentError),
        ({"replicate": 0}, hdp.ArgumentError),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_before_anything_is_charged(arguments, error):
    study = study_of()
    with pytest.raises(error):
        importance_weights(study, **({"formula": "~ x", "epsilon": 1} | arguments))
    assert study.ledger.spent.epsilon == 0


def test_what_exceeds_the_budget_is_refused():
    study = study_of(epsilon=0.5)
    with pytest.raises(hdp.InsufficientBudget):
        importance_weights(study, "~ x", epsilon=1)
    assert study.ledger.spent.epsilon == 0


def asked_site():
    study = study_of()
    query = importance_weights(study, "~ x + g", epsilon=1).queries[0]
    fresh = study_of()
    fresh.site.put_public(fresh.public)
    return fresh, query


@pytest.mark.parametrize(
    "changes",
    [
        {"formula": "~ 1 + x"},
        {"formula": "~ 0 + x + g"},
        {"columns": ("x", "g[T.b]", "y")},
        {"columns": ("x", "g[T.b]", "Intercept")},
    ],
)
def test_a_site_refuses_models_that_do_not_fit_it(changes):
    study, query = asked_site()
    with pytest.raises(hdp.SiteError):
        study.site.answer(replace(query, model=replace(query.model, **changes)))
    assert study.ledger.spent.epsilon == 0


def test_a_site_refuses_a_coding_in_which_rows_could_be_beyond_all_digits():
    study, query = asked_site()
    box = ColumnBox(location=(0.0,) * 3, scale=(1e-12, 1, 1), lower=(-1.0,) * 3, upper=(100.0,) * 3, intercept=True)
    with pytest.raises(hdp.SiteError, match="leverage"):
        study.site.answer(replace(query, model=replace(query.model, coding=box)))
    assert study.ledger.spent.epsilon == 0


def test_a_site_refuses_public_rows_that_it_does_not_have_or_that_say_nothing():
    study, query = asked_site()
    with pytest.raises(hdp.SiteError, match="put_public"):
        study.site.answer(replace(query, public_sha256="ab" * 32))
    empty = PublicTable.from_frame(people(5).assign(x=np.nan), SCHEMA)
    study.site.put_public(empty)
    with pytest.raises(hdp.SiteError, match="complete"):
        study.site.answer(replace(query, public_sha256=empty.sha256))
    assert study.ledger.spent.epsilon == 0


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("corners", TOGETHER)
def test_no_private_cells_change_what_is_seen(corners):
    """Facts, notes, query and sizes are the same; nothing is raised, warned or printed; only coefficients differ."""

    def seen(private):
        def look():
            study = study_of(private, people(60, seed=1))
            sample = importance_weights(study, "~ x + g + k", epsilon=1)
            return repr(sample.facts), repr(study), sample.queries[0].to_json(), len(sample.releases[0].theta)

        return observe(look)

    strange = replaced_together(people(80), list(people(80).columns), corners)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = seen(strange)
        assert found == seen(people(80).astype(object))
    assert found.exception is None


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("coding", [ColumnBox, Geometry])
@pytest.mark.parametrize("mechanism", ["objective", "output"])
def test_standard_errors_say_how_much_noise_moves_releases(coding, mechanism, monkeypatch):
    """By replay, with no chance: what a step of noise along each coordinate does, times the variance that is drawn.

    A standard error for noise of another rate would be wrong by that factor: by 1.5, or the root of 2 for a variance
    per coordinate that is counted twice, where 1.02 is allowed.
    """
    if coding is ColumnBox:
        monkeypatch.setattr("hdpstats.mechanisms.importance_weights.request.geometries_of", lambda sample: iter(()))

    def mean(step, axis):
        study = study_of()
        with monkeypatch.context() as patch:
            distributions = known_noise.given(patch, [np.eye(2)[axis] * step])
            sample = importance_weights(study, "~ x", epsilon=1, mechanism=mechanism)
        assert isinstance(sample.queries[0].model.coding, coding)
        return sample.mean("x"), distributions[0]

    still, distribution = mean(0, 0)
    assert distribution.dimension == 2
    steps = np.rint(0.1 * np.sqrt(known_noise.variance(distribution)))
    moved = [mean(step, axis)[0].estimate - mean(-step, axis)[0].estimate for axis, step in enumerate(steps)]
    expected = np.sum(known_noise.variance(distribution) * np.square(moved / (2.0 * steps)))
    assert still.std_error**2 - still.sampling_error**2 == pytest.approx(expected, rel=0.04)


@pytest.mark.wide
def test_a_given_ridge_takes_the_coding_with_little_noise(monkeypatch):
    """Whitening 60 columns has less predicted error here, but noise of 0.8 in log weights leaves few rows with any.

    Noise is that of a generator with a seed, by the distribution that the mechanism asks for: no chance.
    """
    rng, names = np.random.default_rng(1), [f"x{j}" for j in range(60)]
    private, public = (
        pd.DataFrame((rng.random((rows, 60)) < 0.2).astype(int), columns=names) for rows in (20_000, 2_000)
    )
    schema = hdp.Schema({name: hdp.Binary(complete=True) for name in names})
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=1))

    def released(vectors):
        with monkeypatch.context() as patch:
            distributions = known_noise.given(patch, vectors)
            found = hdp.importance_weights(
                study, "~ " + " + ".join(names), epsilon=0.1, ridge=0.1, replicate=next(replicates)
            )
        return found, distributions[0]

    replicates = itertools.count(1)
    sample, distribution = released([])
    assert "columns in a box" in sample.facts.method
    sizes = [released([known_noise.drawn(distribution, rng)])[0].effective_size for _ in range(5)]
    assert min(sizes) > 0.75 * len(public)


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_ridge_too_small_for_the_rows_that_are_complete_is_raised_and_not_refused_once_they_are_charged(delta):
    frame = people(400)
    frame.loc[9:, "x"] = np.nan
    schema = hdp.Schema(x=hdp.Continuous(-5, 5), g=SCHEMA["g"], y=SCHEMA["y"])
    columns = ["x", "g", "y"]
    study = hdp.Study(
        private=frame[columns],
        public=people(300, seed=1)[columns],
        schema=schema,
        budget=hdp.Budget(epsilon=1, delta=1e-3),
    )
    asked = {"epsilon": 0.3, "delta": delta, "ridge": 0.005, "mechanism": "objective"}
    sample = importance_weights(study, "~ x + g", **asked)
    assert study.ledger.spent.epsilon == sample.guarantee.epsilon == Fraction(3, 10)
    assert sample.queries[-1].ridge > Fraction(0.005) * sample.facts.records
    assert "raised" in sample.facts.notes[0]
    again = importance_weights(study, "~ x + g", **asked)
    assert np.array_equal(again.distribution.weights, sample.distribution.weights)
    assert study.ledger.spent.epsilon == Fraction(3, 10)
