"""How far one person moves a hazard model of weighted people: a search over neighbours, and broken versions.

From a query's record and a table of cells to gradients, Hessians and densities, as a site goes. Weights are functions
of the own row at public coefficients, so that neighbours differ in the weight, too: in the arm, which also changes the
caps, in covariates, follow-up and missing cells.
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
from hdpstats.families.hazard.bounds import HazardPersonLoss, hazard_person_loss
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.formulas.compiler import compile_survival
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.registry import prepare
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import at_radius
from hdpstats.records.model import HazardCap, HazardModel, TimeGrid
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.schema.parquet import ParquetTable, files_of
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.privacy.hazard_pairs import Density, periods_in, worst_among

SCHEMA = hdp.Schema(
    t=hdp.Duration(3.0), d=hdp.Binary(), a=hdp.Binary(), x=hdp.Continuous(-3, 3), f=hdp.Categorical(["p", "q"])
)
FACTS = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=100, unit=None, most_rows=1)
WEIGHTINGS = {
    "usual": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(-0.3, 0.8, 0.5)),
    "weights of 0 and 1": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(0.0, 1e6, 0.0)),
    "nobody is treated": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(-1e9, 0.0, 0.0)),
}
BOX = compile_survival("Surv(t, d) ~ a + x", SCHEMA).covariates.box()
GRID = TimeGrid((1.0, 2.0, 3.0))
LEVELS = {"logit": -0.6, "cloglog": -0.2, "probit": -0.3}
"""Where caps are: together they are above the total of some people and below that of others."""

CELLS = {
    "t": [0.0, 1.0, 2.5, 3.0, 1e9, None],
    "d": [0, 1, None],
    "a": [0, 1, None],
    "x": [-3.0, -0.7, 0.0, 3.0, 1e9, None],
    "f": ["p", "q", None],
}
THETAS = np.array(
    [
        [0.0] * 3,
        [-1.0, 1.0, 2.0],
        [-40.0, 3.0, 1.0],
        [40.0, 0.0, -5.0],
        [-30.0, 30.0, 30.0],
        [5.0, -40.0, 60.0],
        [0.0, 0.0, 200.0],
        [60.0, 60.0, -60.0],
        [-9.0, 200.0, 200.0],
    ]
)
CASES = list(itertools.product(LEVELS, WEIGHTINGS))


def model_of(link, weighting, *, total=1.5, radius=1.4):
    return HazardModel(
        formula="Surv(t, d) ~ a + x",
        link=link,
        grid=GRID,
        baseline=((1.0,),) * 3,
        geometry=at_radius(BOX, radius),
        cap=HazardCap(total=total, margin=0.4, baseline=((LEVELS[link],) * 3,), slopes=((0.7, 0.4),), weighs=True),
        weighting=WEIGHTINGS[weighting],
    )


def loss_of(link, weighting, **changed):
    return hazard_person_loss(model_of(link, weighting, **changed), FACTS)


def rows_of(loss, frame=None):
    """Return the people of one row for each combination of cells."""
    if frame is None:
        rows = itertools.product(*(CELLS[name] for name in loss.needs))
        frame = pd.DataFrame(list(rows), columns=list(loss.needs)).astype(object)
    return frame, loss.people(PrivateTable.from_frame(frame, SCHEMA).admit(loss.needs))


def moved(link, weighting, **changed):
    """Return how far replacing a person moves the gradient, over what is claimed; no person is longer than claimed."""
    loss = loss_of(link, weighting, **changed)
    _, people = rows_of(loss)
    largest, claim = 0.0, float(Relation.REPLACE_ONE.persons_changed * loss.gradient_bound)
    for theta in THETAS:
        scores = np.unique(np.round(people.scores(theta), 12), axis=0)
        assert float(np.max(np.linalg.norm(scores, axis=1))) <= float(loss.euclidean_bound) * (1 + 1e-12)
        square = np.sum(scores**2, axis=1)
        apart = square[:, None] + square[None] - 2.0 * scores @ scores.T
        largest = max(largest, float(np.sqrt(np.max(apart))))
    return largest / claim


@pytest.mark.parametrize(("link", "weighting"), CASES)
def test_no_person_moves_the_gradient_farther_than_claimed(link, weighting):
    """Every pair of rows is a pair of neighbours: arm, caps, follow-up and missing cells change with the weight."""
    share = moved(link, weighting)
    least = {"usual": 0.7, "weights of 0 and 1": 0.8, "nobody is treated": 0.5}[weighting]
    assert least < share <= 1.0


def searched(link, weighting, relation, *, ridge=6.0, epsilon=Fraction(1), **changed):
    """Return the largest privacy loss of the whole density that a search finds, over the stated epsilon."""
    loss = loss_of(link, weighting, **changed)
    persons = relation.persons_changed
    query = ObjectiveQuery(
        model=loss.model,
        centre=(0.0,) * 3,
        ridge=Fraction(ridge * persons * loss.model.geometry.leverage),
        epsilon=epsilon,
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
    )
    constants = perturbation.calibrate_objective(query, loss, records=5, relation=relation)
    [event] = [each for each in constants.events if each.ran is MechanismName.OBJECTIVE]
    density = Density(loss=loss.loss, ridge=float(query.ridge), centre=np.zeros(3), rate=float(constants.noise_rate))
    frame, _ = rows_of(loss)
    rng = np.random.default_rng(2)
    _, people = rows_of(loss, frame.iloc[rng.choice(len(frame), 150, replace=False)])
    return worst_among(periods_in(people), density, relation, rng, pairs=60, climbs=3).loss / float(event.epsilon)


@pytest.mark.parametrize(
    ("link", "weighting", "relation"),
    [
        ("logit", "usual", Relation.REPLACE_ONE),
        ("logit", "weights of 0 and 1", Relation.ADD_OR_REMOVE_ONE),
        ("cloglog", "weights of 0 and 1", Relation.REPLACE_ONE),
        ("probit", "usual", Relation.ADD_OR_REMOVE_ONE),
    ],
)
def test_no_neighbours_lose_more_than_was_stated(link, weighting, relation):
    """Noise and determinant together, of people among others: coupled losses are exactly within epsilon."""
    ridge = 60.0 if link == "probit" else 6.0
    assert 0.4 < searched(link, weighting, relation, ridge=ridge) <= 1.0 + 1e-9


@pytest.mark.parametrize(("link", "weighting"), CASES)
def test_no_person_bends_the_objective_more_than_claimed(link, weighting):
    loss = loss_of(link, weighting)
    frame, _ = rows_of(loss)
    for theta in THETAS[:3]:
        for place in range(0, len(frame), 37):
            _, one = rows_of(loss, frame.iloc[[place]])
            H = one.curvature(theta)
            assert np.trace(H) <= float(loss.trace) * (1 + 1e-9)
            assert np.linalg.eigvalsh(H)[0] >= -1e-12
            assert np.linalg.matrix_rank(H, tol=1e-12) <= loss.rank


@pytest.mark.parametrize("link", LEVELS)
def test_weights_change_no_constant_of_the_proof(link):
    weighted = loss_of(link, "usual")
    plain = hazard_person_loss(replace(weighted.model, weighting=None), FACTS)
    for name in ("gradient_bound", "euclidean_bound", "trace", "rank", "norm", "half", "bounds", "total"):
        assert getattr(weighted, name) == getattr(plain, name)
    terms = {"ridge": Fraction(500), "cell": Fraction(0)}
    for relation in Relation:
        rates = [each.noise_rate(Fraction(1), relation=relation, **terms) for each in (weighted, plain)]
        assert rates[0] == rates[1]


def test_a_row_that_lacks_what_only_the_weight_reads_adds_nothing():
    """The model reads ``a`` and ``x``, the weight ``f`` besides."""
    loss = loss_of("logit", "usual")
    assert set(loss.needs) == {"t", "d", "a", "x", "f"}
    frame, people = rows_of(loss)
    lacking = frame[list(loss.needs)].isna().any(axis=1).to_numpy()
    for theta in THETAS:
        scores = people.scores(theta)
        assert not scores[lacking].any()
        assert not people.losses(theta)[lacking].any()
    assert scores[~lacking & (frame["t"] != 0.0).to_numpy()].any(axis=1).mean() > 0.5


def test_the_weight_is_that_of_the_own_arm_and_multiplies_what_caps_leave():
    loss = loss_of("logit", "usual", radius=100.0)
    frame = pd.DataFrame({"a": [1, 0], "x": [0.7, 0.7], "f": ["q", "q"], "t": 3.0, "d": 1}).astype(object)
    _, people = rows_of(loss, frame)
    _, plain = rows_of(hazard_person_loss(replace(loss.model, weighting=None), FACTS), frame)
    e = 1 / (1 + np.exp(0.3 - 0.8 * 0.7 - 0.5))
    np.testing.assert_allclose(people.spells.weights, plain.spells.weights * [1 - e, e], rtol=1e-12)
    assert plain.spells.weights[0] < 0.99  # the treated one has larger caps


def test_rows_in_files_have_the_weights_of_rows_in_memory(tmp_path):
    loss, rng, n = loss_of("logit", "usual"), np.random.default_rng(4), 3_000
    frame = pd.DataFrame(
        {
            "t": rng.uniform(0.0, 4.0, n).round(2),
            "d": rng.integers(0, 2, n).astype(float),
            "a": rng.integers(0, 2, n).astype(float),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "f": rng.choice(["p", "q"], n),
        }
    )
    frame.loc[rng.random(n) < 0.1, "a"] = np.nan
    for part in range(3):
        frame.iloc[1_000 * part : 1_000 * (part + 1)].to_parquet(tmp_path / f"{part}.parquet")
    stored = loss.people_of(ParquetTable.open(files_of(tmp_path, name="private"), SCHEMA).admit(loss.needs))
    _, held = rows_of(loss, frame)
    theta = np.array([-1.0, -0.4, 0.6])
    assert [int(each) for each in stored.loss_gradient(theta)] == [int(each) for each in held.loss_gradient(theta)]


# ------------------------------------------------------------------------------------------------------------ mutations


def test_weights_of_up_to_2_would_be_found(monkeypatch):
    known = base.weights_of
    monkeypatch.setattr(base, "weights_of", lambda *given: 2.0 * known(*given))
    with pytest.raises(AssertionError):
        moved("logit", "weights of 0 and 1")
    assert searched("logit", "weights of 0 and 1", Relation.ADD_OR_REMOVE_ONE) > 1.05


def test_inverse_weights_would_be_found(monkeypatch):
    """The wrong weights: those of the inverse chance of treatment exceed the claim."""

    def inverse(weighting, design, table):
        overlap = known(weighting, design, table)
        return np.divide(1.0, 1.0 - overlap, out=np.zeros_like(overlap), where=overlap < 1.0)

    known = base.weights_of
    monkeypatch.setattr(base, "weights_of", inverse)
    with pytest.raises(AssertionError):
        moved("logit", "usual")


def test_caps_that_weigh_nobody_down_would_be_found(monkeypatch):
    monkeypatch.setattr(CappedSpells, "weighed", lambda spells, *, intervals: spells)
    with pytest.raises(AssertionError):
        moved("logit", "weights of 0 and 1", total=1.0)


def test_half_the_constant_would_be_exceeded(monkeypatch):
    whole = HazardPersonLoss.gradient_bound.fget
    monkeypatch.setattr(HazardPersonLoss, "gradient_bound", property(lambda self: whole(self) / 2))
    with pytest.raises(AssertionError):
        moved("logit", "weights of 0 and 1")


# -------------------------------------------------------------------------------------------------- what a site refuses

QUERY = ObjectiveQuery(
    model=model_of("logit", "usual"),
    centre=(0.0,) * 3,
    ridge=Fraction(50),
    epsilon=Fraction(1),
    schema_sha256=SCHEMA.sha256,
    public_sha256=None,
)


def test_a_site_reads_what_the_weights_need_and_refuses_what_does_not_fit():
    assert set(prepare(QUERY, FACTS).needs) == {"t", "d", "a", "x", "f"}
    others = {
        "coefficients": replace(WEIGHTINGS["usual"], coefficients=(0.0, 1.0)),
        "binary": OverlapWeights(formula="x ~ a", columns=("x", "a"), coefficients=(0.0, 1.0)),
        "columns that their formula reads": replace(WEIGHTINGS["usual"], columns=("a", "x", "d")),
    }
    for words, weighting in others.items():
        with pytest.raises((SiteError, MechanismError, SchemaError), match=words):
            prepare(replace(QUERY, model=replace(QUERY.model, weighting=weighting)), FACTS)
    with pytest.raises(SiteError, match="several rows each"):
        prepare(QUERY, replace(FACTS, unit="id", most_rows=3))


def test_a_permission_is_of_the_columns_that_weights_read_too():
    needs = prepare(QUERY, FACTS).needs
    terms = {"mechanisms": ["objective"], "models": ["hazard"]}
    assert Permissions(**terms, columns=["t", "d", "a", "x", "f"]).allow(QUERY, needs)
    assert not Permissions(**terms, columns=["t", "d", "a", "x"]).allow(QUERY, needs)


def test_weights_by_propensity_go_with_no_other_weights():
    with pytest.raises(MechanismError, match="without case weights"):
        replace(QUERY.model, weights="w")


def test_the_record_is_left_out_of_json_where_there_is_none():
    plain = replace(QUERY, model=replace(QUERY.model, weighting=None))
    assert "weighting" not in plain.to_json()
    assert '"kind":"overlap"' in QUERY.to_json().replace(" ", "")
    assert ObjectiveQuery.from_dict(QUERY.to_dict()) == QUERY
