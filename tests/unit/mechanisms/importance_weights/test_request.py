"""What is asked for importance weights: coding, ridge, noise, from public rows and the schema only."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.formulas import compile_one_sided
from hdpstats.mechanisms.importance_weights import ColumnBox
from hdpstats.mechanisms.importance_weights.coding import box_of, coded_rows, geometries_of, prior_of, public_sample
from hdpstats.mechanisms.importance_weights.request import RIDGES, ImportanceTerms, choose_importance
from hdpstats.mechanisms.importance_weights.site import DensityRatioPersonLoss
from hdpstats.records.geometry import Geometry, from_public
from hdpstats.records.query import LEAST_SMOOTHING
from hdpstats.schema.columns import Binary, Categorical, Continuous
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

SCHEMA = Schema(
    age=Continuous(20, 90, complete=True),
    nodes=Continuous(0, 40, complete=True),
    hormon=Binary(complete=True),
    grade=Categorical(["1", "2", "3", "4"], complete=True),
)
RNG = np.random.default_rng(4)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(55, 10, 600).clip(20, 90),
        "nodes": RNG.exponential(5, 600).clip(0, 40).round(),
        "hormon": RNG.integers(0, 2, 600),
        "grade": RNG.choice(["1", "2", "3"], 600, p=[0.7, 0.28, 0.02]),
    }
)


def sample_of(formula, frame=FRAME, schema=SCHEMA):
    design = compile_one_sided(formula, schema)
    return public_sample(design.matrix(PublicTable.from_frame(frame, schema).admitted(design.needs)), design)


def asked(**changes):
    plain = ImportanceTerms(
        records=2000,
        epsilon=Fraction(1),
        delta=Fraction(0),
        ridges=RIDGES,
        kinds=("objective",),
        schema_sha256="ab" * 32,
        public_sha256="cd" * 32,
        replicate=1,
    )
    return replace(plain, **changes)


def test_columns_that_are_constant_in_public_rows_are_left_out():
    sample = sample_of("~ age + grade")
    assert sample.columns == ("age", "grade[T.2]", "grade[T.3]")
    assert sample.constant == ("grade[T.4]",)
    assert sample_of("~ age + grade", FRAME.assign(age=50.0)).columns == ("grade[T.2]", "grade[T.3]")
    assert sample_of("~ age + grade", FRAME.iloc[:1]).columns == ()
    assert sample_of("~ age + grade", FRAME.iloc[:0]).columns == ()


def test_numbers_are_centred_and_scaled_and_levels_keep_their_scale():
    box = box_of(sample_of("~ age + nodes + hormon + grade"))
    age, nodes, hormon, second, third = range(5)
    assert box.location[age] == pytest.approx(FRAME.age.mean())
    assert box.scale[age] == pytest.approx(2 * FRAME.age.std(), rel=0.01)
    assert (box.lower[age], box.upper[age]) == (-1.25, 1.25)
    assert box.lower[nodes] == pytest.approx(-box.location[nodes] / box.scale[nodes])
    assert box.upper[nodes] == 1.25
    for j, share in ((hormon, FRAME.hormon.mean()), (second, (FRAME.grade == "2").mean())):
        assert (box.location[j], box.scale[j]) == (pytest.approx(share), 1.0)
        assert box.upper[j] - box.lower[j] == pytest.approx(1.0)
    assert box.scale[third] == 1.0


def test_without_an_intercept_the_coding_is_that_of_the_paper():
    sample = sample_of("~ 0 + nodes + hormon")
    box = box_of(sample)
    assert (box.location, box.scale, box.lower, box.upper) == ((0.0, 0.0), (40.0, 1.0), (0.0, 0.0), (1.0, 1.0))
    assert not list(geometries_of(sample))
    assert coded_rows(box, sample.X).weights.min() == 1.0


def test_whitening_needs_rows_and_few_columns():
    assert len(list(geometries_of(sample_of("~ age + nodes")))) == 5
    assert not list(geometries_of(sample_of("~ age + nodes", FRAME.iloc[:39])))
    many = Schema(**{f"c{i}": Binary(complete=True) for i in range(101)})
    frame = pd.DataFrame(RNG.integers(0, 2, (80, 101)), columns=list(many))
    assert not list(geometries_of(sample_of("~ " + " + ".join(many), frame, many)))


def predicted_sd(choice, *, ridge, epsilon=1.0, records=2000, formula="~ age + nodes + hormon + grade"):
    """The standard deviation of log weights that the rule speaks of, written down once more for pure noise."""
    sample = sample_of(formula)
    model = choice.query.model
    rows = coded_rows(model.coding, sample.X)
    person_loss = DensityRatioPersonLoss(model=model, design=sample.design, public=rows, records=records)
    left = epsilon * (1 - float(LEAST_SMOOTHING)) - np.log1p(float(person_loss.trace) / (ridge * records))
    D = rows.X.shape[1]
    sides = np.array([1.0] + [high - low for low, high in zip(model.coding.lower, model.coding.upper, strict=True)])
    variance = (D + 1) * (D + 2) / 3 / left**2 * sides**2 / records**2
    H = np.einsum("i,ij,ik->jk", rows.weights, rows.X, rows.X) / len(rows.X) / 2 + ridge * np.eye(D)
    inverse = np.linalg.inv(H)
    V = inverse @ np.diag(variance) @ inverse
    return float(np.sqrt(np.mean(np.einsum("ij,jk,ik->i", rows.X, V, rows.X))))


def test_the_ridge_is_the_smallest_one_whose_noise_is_small_enough(monkeypatch):
    monkeypatch.setattr("hdpstats.mechanisms.importance_weights.request.geometries_of", lambda sample: iter(()))
    sample = sample_of("~ age + nodes + hormon + grade")
    chosen = choose_importance(sample, asked(epsilon=Fraction(1, 10)))
    place = RIDGES.index(chosen.ridge)
    assert place > 0
    assert chosen.query.ridge == Fraction(chosen.ridge * 2000)
    assert chosen.sd == pytest.approx(predicted_sd(chosen, ridge=chosen.ridge, epsilon=0.1), rel=1e-6)
    assert chosen.sd <= 0.5 < predicted_sd(chosen, ridge=RIDGES[place - 1], epsilon=0.1)


def test_the_ridge_has_a_floor_and_ends_where_nothing_helps():
    sample = sample_of("~ hormon")
    assert choose_importance(sample, asked(epsilon=Fraction(50), records=10**6)).ridge == 0.01
    weak = choose_importance(sample, asked(epsilon=Fraction(1, 10**5), records=3, kinds=("objective", "output")))
    assert weak.ridge == pytest.approx(100.0)
    assert weak.left > 0.99


def test_a_few_columns_are_whitened_and_many_levels_stay_in_their_box():
    few = choose_importance(sample_of("~ age + nodes"), asked())
    assert isinstance(few.query.model.coding, Geometry)
    levels = Schema(**{f"c{i}": Binary(complete=True) for i in range(60)})
    shares = np.linspace(0.02, 0.5, 60)
    frame = pd.DataFrame((RNG.random((3000, 60)) < shares).astype(float), columns=list(levels))
    sample = sample_of("~ " + " + ".join(levels), frame, levels)
    many = choose_importance(sample, asked(epsilon=Fraction(1, 10), records=20000))
    assert isinstance(many.query.model.coding, ColumnBox)


def test_noise_is_chosen_by_what_is_predicted():
    sample = sample_of("~ age + nodes + hormon + grade")
    best = choose_importance(sample, asked(kinds=("objective", "output")))
    assert best.query.perturbs == "objective"
    assert choose_importance(sample, asked(kinds=("output",))).error > best.error
    levels = Schema(**{f"c{i}": Binary(complete=True) for i in range(90)})
    frame = pd.DataFrame(RNG.integers(0, 2, (300, 90)), columns=list(levels))
    wide = sample_of("~ 0 + " + " + ".join(levels), frame, levels)
    normal = choose_importance(wide, asked(kinds=("output",), delta=Fraction(1, 10**6), ridges=(0.1,)))
    assert normal.query.delta == Fraction(1, 10**6)
    pure = choose_importance(wide, asked(kinds=("output",), ridges=(0.1,)))
    assert normal.sd < pure.sd


def test_a_ridge_that_leaves_nothing_for_noise_is_refused_and_output_perturbation_is_not():
    sample = sample_of("~ age + nodes")
    small = asked(records=4, epsilon=Fraction(1, 10), ridges=(0.05,))
    with pytest.raises(MechanismError, match="larger ridge"):
        choose_importance(sample, small)
    assert choose_importance(sample, replace(small, kinds=("output",))).query.perturbs == "output"


def test_the_prior_of_whitened_coefficients_is_that_of_the_box_in_other_units():
    # A log ratio is the same function in both codings: so is its variance under the prior, up to the constant.
    sample = sample_of("~ age + nodes + hormon")
    box, geometry = box_of(sample), next(geometries_of(sample))
    spread = []
    for coding in (box, geometry):
        X = coded_rows(coding, sample.X).X
        centred = X - X.mean(axis=0)
        spread.append(np.einsum("ij,jk,ik->i", centred, prior_of(coding, box), centred))
    assert spread[0] == pytest.approx(spread[1], rel=1e-6)


@pytest.mark.parametrize("n", [511, 512, 1003])
def test_a_coded_row_is_the_same_at_every_place(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((n, 2)) * 10.0
    coding = from_public(X[:99], lower=[-50.0] * 2, upper=[50.0] * 2, intercept=False, radius=2.0)
    rows = coded_rows(replace(coding, intercept=True), X, by_columns=True)
    for place in (0, n // 2, n - 1):
        alone = coded_rows(replace(coding, intercept=True), X[place : place + 1])
        np.testing.assert_array_equal(rows.X[place], alone.X[0])
        assert rows.weights[place] == alone.weights[0]
