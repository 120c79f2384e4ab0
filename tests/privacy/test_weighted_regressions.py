"""How far one person moves a regression of weighted people: a search over neighbours, and broken versions.

From a query's record and a table of cells to gradients and Hessians, as a site goes. Weights are functions of the own
row at public coefficients, so that neighbours differ in the weight, too: in the arm, in covariates and in missing
cells.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SchemaError, SiteError
from hdpstats.custodian.permissions import Permissions
from hdpstats.families import base
from hdpstats.families.parted import PartedRows
from hdpstats.families.regression.bounds import RegressionPersonLoss, regression_person_loss
from hdpstats.formulas import compile_design
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.registry import prepare
from hdpstats.privacy.sensitivity import CylinderNorm, Relation
from hdpstats.records.model import RegressionModel
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.schema.parquet import ParquetTable, files_of
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable

SCHEMA = hdp.Schema(
    a=hdp.Binary(), x=hdp.Continuous(-3, 3), f=hdp.Categorical(["p", "q"]), y=hdp.Binary(), k=hdp.Continuous(0, 20)
)
WEIGHTINGS = {
    "usual": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(-0.3, 0.8, 0.5)),
    "weights of 0 and 1": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(0.0, 1e6, 0.0)),
    "nobody is treated": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(-1e9, 0.0, 0.0)),
}
BOX = compile_design("y ~ a + x", SCHEMA).box()
MODELS = {
    "logistic": RegressionModel(formula="y ~ a + x", loss="logistic", geometry=BOX),
    "squares": RegressionModel(formula="k ~ a + x", loss="squares", geometry=BOX),
    "poisson": RegressionModel(formula="k ~ a + x", loss="poisson", geometry=BOX, parameters=(20.0,)),
}
CELLS = {
    "a": [0, 1, None],
    "x": [-3.0, -1.0, 0.0, 0.7, 3.0, 1e9, None],
    "f": ["p", "q", None],
    "y": [0, 1, None],
    "k": [0.0, 7.3, 20.0, -1e9, None],
}
THETAS = np.array([[0.0, 0.0, 0.0], [0.3, -1.0, 2.0], [-40.0, 3.0, 1.0], [40.0, 0.0, -5.0], [5.0, -30.0, 30.0]])
CASES = list(itertools.product(MODELS, WEIGHTINGS))


def loss_of(model, weighting, **changed):
    return regression_person_loss(replace(MODELS[model], weighting=WEIGHTINGS[weighting], **changed), SCHEMA)


def rows_of(loss, frame=None):
    """Return the people of one row for each combination of cells."""
    if frame is None:
        needed = [name for name in CELLS if name in loss.needs]
        rows = itertools.product(*(CELLS[name] for name in needed))
        frame = pd.DataFrame(list(rows), columns=needed).astype(object)
    frame = frame.assign(**{name: None for name in CELLS if name not in frame})
    return frame, loss.people(PrivateTable.from_frame(frame, SCHEMA).admit(loss.needs))


def lengths(loss, scores):
    """Return the size of scores (n, D) in the norm that noise is calibrated to: that of the cylinder."""
    radius = loss.model.geometry.radius
    assert loss.norm == CylinderNorm(radius=Fraction(radius))
    return np.maximum(np.abs(scores[:, 0]), np.linalg.norm(scores[:, 1:], axis=1) / radius)


@pytest.mark.parametrize(("model", "weighting"), CASES)
def test_no_person_moves_the_gradient_farther_than_claimed(model, weighting):
    """Every pair of rows is a pair of neighbours: arm, covariates, outcome and missing cells change with the weight."""
    loss = loss_of(model, weighting)
    _, people = rows_of(loss)
    largest = 0.0
    for theta in THETAS:
        scores = np.unique(np.round(people.scores(theta), 12), axis=0)
        apart = (scores[:, None] - scores[None]).reshape(-1, scores.shape[1])
        largest = max(largest, float(np.max(lengths(loss, apart))))
        assert float(np.max(lengths(loss, scores))) <= float(loss.gradient_bound) * (1 + 1e-12)
    claim = float(Relation.REPLACE_ONE.persons_changed * loss.gradient_bound)
    assert largest <= claim
    least = {"usual": 0.6, "weights of 0 and 1": 0.9, "nobody is treated": 0.45}[weighting]  # treated ones weigh 1
    assert largest > least * claim * (0.5 if model == "poisson" else 1.0)


@pytest.mark.parametrize(("model", "weighting"), CASES)
def test_no_person_bends_the_objective_more_than_claimed(model, weighting):
    loss = loss_of(model, weighting)
    frame, _ = rows_of(loss)
    for theta in THETAS[:3]:
        for place in range(0, len(frame), 7):
            _, one = rows_of(loss, frame.iloc[[place]])
            H = one.curvature(theta)
            assert np.trace(H) <= float(loss.trace) * (1 + 1e-9)
            assert np.linalg.eigvalsh(H)[0] >= -1e-12
            assert np.linalg.matrix_rank(H, tol=1e-12) <= loss.rank


@pytest.mark.parametrize("model", MODELS)
def test_weights_change_no_constant_of_the_proof(model):
    weighted, plain = loss_of(model, "usual"), regression_person_loss(MODELS[model], SCHEMA)
    for name in ("gradient_bound", "euclidean_bound", "trace", "rank", "norm", "fixed_sign", "half"):
        assert getattr(weighted, name) == getattr(plain, name)
    for relation in Relation:
        rates = [
            each.noise_rate(Fraction(1), ridge=Fraction(50), cell=Fraction(0), relation=relation)
            for each in (weighted, plain)
        ]
        assert rates[0] == rates[1]


def test_a_row_that_lacks_what_only_the_weight_reads_adds_nothing():
    """The model reads ``a`` and ``x``, the weight ``f`` besides."""
    loss = loss_of("logistic", "usual")
    assert set(loss.needs) == {"y", "a", "x", "f"}
    frame, people = rows_of(loss)
    lacking = frame[list(loss.needs)].isna().any(axis=1).to_numpy()
    for theta in THETAS:
        scores = people.scores(theta)
        assert not scores[lacking].any()
        assert scores[~lacking].any(axis=1).mean() > 0.5
        assert not people.losses(theta)[lacking].any()


def test_the_weight_is_that_of_the_own_arm():
    loss = loss_of("logistic", "usual")
    frame = pd.DataFrame({"a": [1, 0], "x": [0.7, 0.7], "f": ["q", "q"], "y": [1, 1]}).astype(object)
    _, people = rows_of(loss, frame)
    e = 1 / (1 + np.exp(0.3 - 0.8 * 0.7 - 0.5))
    np.testing.assert_allclose(people.weights, [1 - e, e], rtol=1e-12)


def test_inverse_weights_would_move_the_gradient_farther(monkeypatch):
    """The wrong weights: those of the inverse chance of treatment exceed the claim, and are found."""

    def inverse(weighting, design, table):
        overlap = known(weighting, design, table)
        return np.divide(1.0, 1.0 - overlap, out=np.zeros_like(overlap), where=overlap < 1.0)

    known = base.weights_of
    monkeypatch.setattr(base, "weights_of", inverse)
    with pytest.raises(AssertionError):
        test_no_person_moves_the_gradient_farther_than_claimed("logistic", "usual")


def test_half_the_constant_would_be_exceeded(monkeypatch):
    monkeypatch.setattr(
        RegressionPersonLoss, "gradient_bound", property(lambda self: self.half * self.loss.lipschitz / 2)
    )
    with pytest.raises(AssertionError):
        test_no_person_moves_the_gradient_farther_than_claimed("logistic", "weights of 0 and 1")


def test_rows_in_files_have_the_weights_of_rows_in_memory(tmp_path):
    """Files are read once for a logistic model, by code of its own: the sums are the same integers."""
    rng = np.random.default_rng(4)
    n = 3_000
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 2, n).astype(float),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "f": rng.choice(["p", "q"], n),
            "y": rng.integers(0, 2, n).astype(float),
        }
    )
    frame.loc[rng.random(n) < 0.1, "a"] = np.nan
    frame["k"] = 1.0
    for part in range(3):
        frame.iloc[1_000 * part : 1_000 * (part + 1)].to_parquet(tmp_path / f"{part}.parquet")
    loss = loss_of("logistic", "usual")
    stored = loss.people_of(ParquetTable.open(files_of(tmp_path, name="private"), SCHEMA).admit(loss.needs))
    _, held = rows_of(loss, frame)
    assert isinstance(stored, PartedRows)
    theta = np.array([0.2, -0.4, 0.6])
    assert [int(each) for each in stored.loss_gradient(theta)] == [int(each) for each in held.loss_gradient(theta)]


QUERY = ObjectiveQuery(
    model=replace(MODELS["logistic"], weighting=WEIGHTINGS["usual"]),
    centre=(0.0, 0.0, 0.0),
    ridge=Fraction(50),
    epsilon=Fraction(1),
    schema_sha256=SCHEMA.sha256,
    public_sha256=None,
)
FACTS = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=100, unit=None, most_rows=1)


def test_a_site_reads_what_the_weights_need_and_refuses_what_does_not_fit():
    assert set(prepare(QUERY, FACTS).needs) == {"y", "a", "x", "f"}
    others = {
        "coefficients": replace(WEIGHTINGS["usual"], coefficients=(0.0, 1.0)),
        "binary": OverlapWeights(formula="k ~ x", columns=("k", "x"), coefficients=(0.0, 1.0)),
        "columns that their formula reads": replace(WEIGHTINGS["usual"], columns=("a", "x", "y")),
    }
    for words, weighting in others.items():
        with pytest.raises((SiteError, MechanismError, SchemaError), match=words):
            prepare(replace(QUERY, model=replace(QUERY.model, weighting=weighting)), FACTS)


def test_a_permission_is_of_the_columns_that_weights_read_too():
    needs = prepare(QUERY, FACTS).needs
    terms = {"mechanisms": ["objective"], "models": ["regression"]}
    assert Permissions(**terms, columns=["y", "a", "x", "f"]).allow(QUERY, needs)
    assert not Permissions(**terms, columns=["y", "a", "x"]).allow(QUERY, needs)


def test_people_with_several_rows_are_refused():
    with pytest.raises(SiteError, match="several rows each"):
        prepare(QUERY, replace(FACTS, unit="id", most_rows=3))


def test_weights_by_propensity_go_with_no_other_weights():
    with pytest.raises(MechanismError, match="without case weights"):
        replace(QUERY.model, weights="w")
    with pytest.raises(MechanismError, match="one row each"):
        replace(QUERY.model, correlation=1.0)


def test_the_record_is_left_out_of_json_where_there_is_none():
    plain = replace(QUERY, model=replace(QUERY.model, weighting=None))
    assert "weighting" not in plain.to_json()
    assert '"kind":"overlap"' in QUERY.to_json().replace(" ", "")
